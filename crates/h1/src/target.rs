//! The target of a request (RFC 9112, section 3.2).

use std::ops::Range;

use memchr::memchr;

use crate::path::{decode_path, is_plain_path};
use crate::{HeadError, Host};

/// The form in which a target was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`.
    #[default]
    Origin,
    /// `http://host/path?query`; its host takes the place of the `Host` field's.
    Absolute,
    /// `host:port`, for CONNECT only.
    Authority,
}

/// A target, decoded. It owns its bytes and is meant to be filled again.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The path, decoded once and without dot segments (`$uri`). It starts with a slash.
    pub path: Vec<u8>,
    /// The query, not decoded; empty if there is none (`$args`).
    pub args: Vec<u8>,
    /// The host: out of the target where that has one, else [`examine`](crate::examine) takes it from
    /// the `Host` field. Empty if the request names none.
    pub host: Host,
    /// The form of the target.
    pub form: TargetForm,
    origin: Range<usize>,
}

impl Target {
    /// The part of `raw`, the bytes this target was parsed from, behind the host (`$request_uri`).
    pub fn request_uri<'a>(&self, raw: &'a [u8]) -> &'a [u8] {
        match raw.get(self.origin.clone()) {
            Some(part) if !part.is_empty() => part,
            _ => b"/",
        }
    }
}

const INVALID_REQUEST: HeadError = HeadError::bad("client sent invalid request");
const INVALID_HOST: HeadError = HeadError::bad("client sent invalid host in request line");

/// Parses the target of a request line into `out` and keeps its memory. A `#fragment` is dropped.
///
/// # Errors
///
/// 400 for a path that climbs above the root, `%00`, a `%` without two hexadecimal digits, a bad host,
/// and any other form, `*` among them.
pub fn parse_target(raw: &[u8], merge_slashes: bool, out: &mut Target) -> Result<(), HeadError> {
    out.path.clear();
    out.args.clear();
    out.host.clear();
    if is_plain_path(raw) {
        out.path.extend_from_slice(raw);
        (out.form, out.origin) = (TargetForm::Origin, 0..raw.len());
        return Ok(());
    }
    let authority = if raw.starts_with(b"/") { None } else { Some(find_authority(raw)?) };
    out.form = match authority {
        None => TargetForm::Origin,
        Some(Range { start: 0, .. }) => TargetForm::Authority,
        Some(_) => TargetForm::Absolute,
    };
    let origin_start = match authority {
        None => 0,
        Some(range) => {
            out.host.parse(&raw[range.clone()]).map_err(|_| INVALID_HOST)?;
            range.end
        }
    };
    if out.form == TargetForm::Authority && out.host.port.is_none() {
        return Err(INVALID_REQUEST);
    }
    out.origin = origin_start..raw.len();
    let origin = &raw[origin_start..];
    let origin = &origin[..memchr(b'#', origin).unwrap_or(origin.len())];
    let path_end = memchr(b'?', origin).unwrap_or(origin.len());
    match &origin[..path_end] {
        [] => out.path.push(b'/'),
        path => decode_path(path, merge_slashes, &mut out.path).map_err(|_| INVALID_REQUEST)?,
    }
    if let [b'?', args @ ..] = &origin[path_end..] {
        out.args.extend_from_slice(args);
    }
    Ok(())
}

/// Where the `host:port` of a target that does not start with a slash stands.
fn find_authority(raw: &[u8]) -> Result<Range<usize>, HeadError> {
    let scheme_length = raw
        .iter()
        .position(|&byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'+' | b'-' | b'.'))
        .unwrap_or(raw.len());
    if !raw[scheme_length..].starts_with(b"://") {
        return Ok(0..raw.len());
    }
    if !raw[0].is_ascii_alphabetic() {
        return Err(INVALID_REQUEST);
    }
    let start = scheme_length + 3;
    let length = raw[start..].iter().position(|byte| matches!(byte, b'/' | b'?'));
    Ok(start..length.map_or(raw.len(), |length| start + length))
}

#[cfg(test)]
mod tests {
    use super::{Target, TargetForm, parse_target};

    fn parse(raw: &str) -> Option<Target> {
        let mut target = Target::default();
        parse_target(b"http://before:1/before?before", true, &mut target).unwrap();
        parse_target(raw.as_bytes(), true, &mut target).ok().map(|()| target)
    }

    #[test]
    fn targets() {
        for (raw, form, host, path, args, request_uri) in [
            ("/a?b=c&d", TargetForm::Origin, "", "/a", "b=c&d", "/a?b=c&d"),
            ("/a?", TargetForm::Origin, "", "/a", "", "/a?"),
            ("/a/.?x=%zz/../y?z", TargetForm::Origin, "", "/a/", "x=%zz/../y?z", "/a/.?x=%zz/../y?z"),
            ("/a/..#f?q", TargetForm::Origin, "", "/", "", "/a/..#f?q"),
            ("/a?b#f", TargetForm::Origin, "", "/a", "b", "/a?b#f"),
            ("//h/a", TargetForm::Origin, "", "/h/a", "", "//h/a"),
            ("http://H.:81/a/%41?b", TargetForm::Absolute, "h", "/a/A", "b", "/a/%41?b"),
            ("HTTPS://[::1]", TargetForm::Absolute, "[::1]", "/", "", "/"),
            ("http://h?b#f", TargetForm::Absolute, "h", "/", "b", "?b#f"),
            ("x+y-z.1://h/", TargetForm::Absolute, "h", "/", "", "/"),
            ("h:443", TargetForm::Authority, "h", "/", "", "/"),
        ] {
            let target = parse(raw).expect(raw);
            assert_eq!(target.form, form, "{raw}");
            assert_eq!(target.host.name, host.as_bytes(), "{raw}");
            assert_eq!((&target.path[..], &target.args[..]), (path.as_bytes(), args.as_bytes()), "{raw}");
            assert_eq!(target.request_uri(raw.as_bytes()), request_uri.as_bytes(), "{raw}");
        }
        assert_eq!(parse("http://h:81/").unwrap().host.port, Some(81));
        assert_eq!(parse("/").unwrap().host.port, None);
    }

    #[test]
    fn targets_that_are_refused() {
        for raw in [
            "*",
            "",
            "?a",
            "#",
            "a",
            "h",
            "h:",
            ":80",
            "h:x",
            "http:/h/",
            "http:h",
            "://h/",
            "1x://h/",
            "http:///a",
            "http://",
            "http://?a",
            "http://u@h/",
            "http://h#f",
            "http://h:1.2/",
            "http://h:99999/",
            "http://a..b/",
            "http://h/../a",
            "http://h/%00",
            "/%",
            "/..",
            "\\e/x",
            "http://\\e/x",
            "http://h\\a/",
        ] {
            assert!(parse(raw).is_none(), "{raw}");
        }
    }
}
