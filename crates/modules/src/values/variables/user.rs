//! The user of Basic authentication (RFC 7617).

use contract::Request;
use http::Method;
use http::base64::decode;

/// The field with which the client says who it is: to this server, or to the proxy that opens its tunnel.
pub(crate) fn field(request: &Request) -> Option<&[u8]> {
    let is_tunnel = request.method == Method::Connect;
    request.head.fields.get(if is_tunnel { "proxy-authorization" } else { "authorization" })
}

/// The user that an `Authorization` field names, before any password is checked.
pub(super) fn of_basic(field: &[u8]) -> Option<Vec<u8>> {
    credentials(field).map(|(user, _)| user)
}

/// The user, which has a name, and the password of an `Authorization` header, unchecked.
pub(crate) fn credentials(field: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    pair(field).filter(|(user, _)| !user.is_empty())
}

/// As [`credentials`]; the name may be empty.
pub(crate) fn pair(field: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, rest) = field.split_at_checked("Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let mut user = decode(rest.trim_ascii_start())?;
    let colon = user.iter().position(|&byte| byte == b':')?;
    let password = user.split_off(colon + 1);
    user.truncate(colon);
    Some((user, password))
}
