//! Names of fields that a server looks for in most heads.

use crate::fields::is_same_name;

/// A name that a server looks for in most heads. It is found once, when a list takes the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum KnownName {
    /// Any other name.
    Other,
    /// `Cache-Control`
    CacheControl,
    /// `Connection`
    Connection,
    /// `Content-Length`
    ContentLength,
    /// `Content-Type`
    ContentType,
    /// `Date`
    Date,
    /// `ETag`
    Etag,
    /// `Expires`
    Expires,
    /// `Keep-Alive`
    KeepAlive,
    /// `Last-Modified`
    LastModified,
    /// `Location`
    Location,
    /// `Proxy-Connection`
    ProxyConnection,
    /// `Refresh`
    Refresh,
    /// `Server`
    Server,
    /// `Set-Cookie`
    SetCookie,
    /// `Status`, the field of CGI
    Status,
    /// `TE`
    Te,
    /// `Transfer-Encoding`
    TransferEncoding,
    /// `Upgrade`
    Upgrade,
    /// `Vary`
    Vary,
    /// `X-Accel-Expires`
    XAccelExpires,
}

impl KnownName {
    /// What this name is, in any case.
    #[inline]
    pub fn of(name: &[u8]) -> KnownName {
        let is = |other: &str| is_same_name(name, other.as_bytes());
        // A look at the length is all that most names need.
        match name.len() {
            2 if is("TE") => KnownName::Te,
            4 if is("Date") => KnownName::Date,
            4 if is("ETag") => KnownName::Etag,
            4 if is("Vary") => KnownName::Vary,
            6 if is("Server") => KnownName::Server,
            6 if is("Status") => KnownName::Status,
            7 if is("Upgrade") => KnownName::Upgrade,
            7 if is("Refresh") => KnownName::Refresh,
            7 if is("Expires") => KnownName::Expires,
            8 if is("Location") => KnownName::Location,
            10 if is("Connection") => KnownName::Connection,
            10 if is("Keep-Alive") => KnownName::KeepAlive,
            10 if is("Set-Cookie") => KnownName::SetCookie,
            12 if is("Content-Type") => KnownName::ContentType,
            13 if is("Last-Modified") => KnownName::LastModified,
            13 if is("Cache-Control") => KnownName::CacheControl,
            14 if is("Content-Length") => KnownName::ContentLength,
            15 if is("X-Accel-Expires") => KnownName::XAccelExpires,
            16 if is("Proxy-Connection") => KnownName::ProxyConnection,
            17 if is("Transfer-Encoding") => KnownName::TransferEncoding,
            _ => KnownName::Other,
        }
    }

    /// A bit for each name.
    pub(crate) fn bit(self) -> u32 {
        1 << self as u32
    }
}
