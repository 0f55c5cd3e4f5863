//! What fields of an answer mean to a server that passes the answer on.

use http::{Field, KnownName};

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
        match field.known {
            KnownName::Connection
            | KnownName::ContentLength
            | KnownName::KeepAlive
            | KnownName::ProxyConnection
            | KnownName::Te
            | KnownName::TransferEncoding => Kind::Own,
            KnownName::ContentType => Kind::ContentType,
            KnownName::Date => Kind::Date,
            KnownName::Etag => Kind::Etag,
            KnownName::Expires => Kind::Expires,
            KnownName::LastModified => Kind::LastModified,
            KnownName::Location => Kind::Location,
            KnownName::Refresh => Kind::Refresh,
            KnownName::Server => Kind::Server,
            KnownName::Upgrade => Kind::Upgrade,
            KnownName::CacheControl
            | KnownName::SetCookie
            | KnownName::Status
            | KnownName::Vary
            | KnownName::XAccelExpires
            | KnownName::Other => Kind::Other,
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
