//! What fields of an answer mean to a server that passes the answer on.

use http::Field;

/// What a field of an answer is, for those that are not simply passed on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It concerns the connection to the upstream server, or is the server's own framing.
    Own,
    /// `Upgrade`
    Upgrade,
    /// `Content-Type`
    ContentType,
    /// `Date`
    Date,
    /// `ETag`
    Etag,
    /// `Expires`
    Expires,
    /// `Last-Modified`
    LastModified,
    /// `Location`
    Location,
    /// `Refresh`
    Refresh,
    /// `Server`
    Server,
    /// It is passed on.
    Other,
}

impl Kind {
    /// What this field is.
    #[inline]
    pub fn of(field: &Field<'_>) -> Kind {
        // A look at the length is all that most names need.
        match field.name.len() {
            2 if field.is("TE") => Kind::Own,
            4 if field.is("Date") => Kind::Date,
            4 if field.is("ETag") => Kind::Etag,
            6 if field.is("Server") => Kind::Server,
            7 if field.is("Upgrade") => Kind::Upgrade,
            7 if field.is("Refresh") => Kind::Refresh,
            7 if field.is("Expires") => Kind::Expires,
            8 if field.is("Location") => Kind::Location,
            10 if field.is("Connection") || field.is("Keep-Alive") => Kind::Own,
            12 if field.is("Content-Type") => Kind::ContentType,
            13 if field.is("Last-Modified") => Kind::LastModified,
            14 if field.is("Content-Length") => Kind::Own,
            16 if field.is("Proxy-Connection") => Kind::Own,
            17 if field.is("Transfer-Encoding") => Kind::Own,
            _ => Kind::Other,
        }
    }

    /// Whether an answer has it once: of several, the first counts (nginx's list).
    pub fn is_single(self) -> bool {
        !matches!(self, Kind::Own | Kind::Upgrade | Kind::Other)
    }

    /// A bit for each kind.
    pub fn bit(self) -> u32 {
        1 << self as u32
    }
}
