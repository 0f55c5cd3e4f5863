//! Request targets (RFC 9112, section 3.2).

use super::Host;
use super::path::{decode_path, is_plain_path};
use memchr::memchr;
use std::ops::Range;

/// The form of a request target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`.
    #[default]
    Origin,
    /// `http://host/path?query`; its host overrides the `Host` field.
    Absolute,
    /// `host:port`, for CONNECT only.
    Authority,
}

/// A parsed and decoded target. It owns its buffers and can be reused.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The path, decoded once and without dot segments (nginx's `$uri`). It starts with a slash.
    pub path: Vec<u8>,
    /// The query, not decoded (nginx's `$args`). Empty if there is none.
    pub args: Vec<u8>,
    /// The host of the target. If the target has none, the protocol fills in the `Host` field or `:authority`.
    pub host: Host,
    /// The form of the target.
    pub form: TargetForm,
    origin: Range<usize>,
}

impl Target {
    /// The part of `raw` after the host (nginx's `$request_uri`), without a `#fragment`. `raw` is the text that this target
    /// was parsed from.
    pub fn request_uri<'a>(&self, raw: &'a [u8]) -> &'a [u8] {
        match raw.get(self.origin.clone()) {
            Some(part) if !part.is_empty() => part,
            _ => b"/",
        }
    }
}

/// Why a target is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidTarget {
    /// The host is invalid.
    Host,
    /// The path is invalid, see [`InvalidPath`](super::InvalidPath), or the target has another form, such as `*`.
    Other,
}

/// Parses a request target into `out`, whose buffers are reused. A `#fragment` is dropped.
///
/// # Errors
/// See [`InvalidTarget`].
pub fn parse_target(raw: &[u8], merge_slashes: bool, out: &mut Target) -> Result<(), InvalidTarget> {
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
            out.host.parse(&raw[range.clone()]).map_err(|_| InvalidTarget::Host)?;
            range.end
        }
    };
    if out.form == TargetForm::Authority && out.host.port.is_none() {
        return Err(InvalidTarget::Other);
    }
    let origin = &raw[origin_start..];
    let origin = &origin[..memchr(b'#', origin).unwrap_or(origin.len())];
    out.origin = origin_start..origin_start + origin.len();
    let path_end = memchr(b'?', origin).unwrap_or(origin.len());
    match &origin[..path_end] {
        [] => out.path.push(b'/'),
        path => decode_path(path, merge_slashes, &mut out.path).map_err(|_| InvalidTarget::Other)?,
    }
    if let [b'?', args @ ..] = &origin[path_end..] {
        out.args.extend_from_slice(args);
    }
    Ok(())
}

/// The host of a request target in absolute form, and its port if it has one, as written.
pub fn authority(raw: &[u8]) -> Option<&[u8]> {
    let range = if raw.starts_with(b"/") { None } else { find_authority(raw).ok() };
    range.filter(|range| range.start > 0).and_then(|range| raw.get(range))
}

/// The range of `host:port` in a target that does not start with a slash.
fn find_authority(raw: &[u8]) -> Result<Range<usize>, InvalidTarget> {
    let scheme_length = raw
        .iter()
        .position(|&byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'+' | b'-' | b'.'))
        .unwrap_or(raw.len());
    if !raw[scheme_length..].starts_with(b"://") {
        return Ok(0..raw.len());
    }
    if !raw[0].is_ascii_alphabetic() {
        return Err(InvalidTarget::Other);
    }
    let start = scheme_length + 3;
    let length = raw[start..].iter().position(|byte| matches!(byte, b'/' | b'?'));
    Ok(start..length.map_or(raw.len(), |length| start + length))
}

#[cfg(test)]
mod tests {
    use super::{Target, TargetForm, authority, parse_target};

    fn parse(raw: &str) -> Option<Target> {
        let mut target = Target::default();
        parse_target(b"http://before:1/before?before", true, &mut target).unwrap();
        parse_target(raw.as_bytes(), true, &mut target).ok().map(|()| target)
    }

    #[test]
    fn only_absolute_targets_have_an_authority() {
        for (raw, found) in [
            ("http://H:81/a", Some("H:81")),
            ("http://h?b", Some("h")),
            ("h:81", None),
            ("/http://h/", None),
            ("*", None),
        ] {
            assert_eq!(authority(raw.as_bytes()), found.map(str::as_bytes), "{raw}");
        }
    }

    #[test]
    fn valid_targets() {
        for (raw, form, host, path, args, request_uri) in [
            ("/a?b=c&d", TargetForm::Origin, "", "/a", "b=c&d", "/a?b=c&d"),
            ("/a?", TargetForm::Origin, "", "/a", "", "/a?"),
            ("/a/.?x=%zz/../y?z", TargetForm::Origin, "", "/a/", "x=%zz/../y?z", "/a/.?x=%zz/../y?z"),
            ("/a/..#f?q", TargetForm::Origin, "", "/", "", "/a/.."),
            ("/a?b#f", TargetForm::Origin, "", "/a", "b", "/a?b"),
            ("//h/a", TargetForm::Origin, "", "/h/a", "", "//h/a"),
            ("http://H.:81/a/%41?b", TargetForm::Absolute, "h", "/a/A", "b", "/a/%41?b"),
            ("HTTPS://[::1]", TargetForm::Absolute, "[::1]", "/", "", "/"),
            ("http://h?b#f", TargetForm::Absolute, "h", "/", "b", "?b"),
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
    fn invalid_targets() {
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
