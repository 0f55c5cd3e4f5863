//! URLs in the values of Apache's directives.

use contract::Exchange;

/// Schemes of URLs that Apache knows without `//` after them.
const BARE_SCHEMES: [&[u8]; 2] = [b"mailto:", b"news:"];

/// Whether a text is an absolute URL.
pub(crate) fn is_url(text: &[u8]) -> bool {
    let starts_with =
        |scheme: &&[u8]| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if BARE_SCHEMES.iter().any(starts_with) {
        return true;
    }
    let scheme = text.windows(3).position(|part| part == b"://");
    scheme.is_some_and(|end| end > 0 && text[..end].iter().all(u8::is_ascii_alphanumeric))
}

/// Whether a text starts with a scheme, such as `mailto:`.
pub(crate) fn has_scheme(text: &[u8]) -> bool {
    let end = text.iter().position(|&byte| byte == b':').filter(|&end| end > 0);
    end.is_some_and(|end| {
        text[..end].iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
    })
}

/// The URL of a path of this server, by the host and port that the client asked for.
pub(crate) fn own_url(exchange: &Exchange, path: &[u8]) -> Vec<u8> {
    let scheme: &[u8] = if exchange.connection.secure { b"https://" } else { b"http://" };
    let host = match exchange.request.host.is_empty() {
        true => exchange.server_name(),
        false => &exchange.request.host,
    };
    let port = exchange.request.port.map(|port| format!(":{port}")).unwrap_or_default();
    [scheme, host, port.as_bytes(), path].concat()
}

/// A path as it stands in a URL, escaped where Apache escapes.
pub(crate) fn escape_uri(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"$-_.+!*'(),:;@&=/~".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02x}").as_bytes());
        }
    }
}

/// A name without `.`, `..` and needless slashes; Apache takes names for paths.
pub(crate) fn canonical(name: &[u8]) -> Vec<u8> {
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in name.split(|&byte| byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let slash = |is_there: bool| -> &[u8] { if is_there { b"/" } else { b"" } };
    [slash(name.starts_with(b"/")), &segments.join(&b'/'), slash(name.ends_with(b"/"))].concat()
}
