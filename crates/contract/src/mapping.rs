//! From a URI to a path: `root` and `alias`.

use crate::{Exchange, Template};
use std::path::{Path, PathBuf};

/// How a location is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocationKind {
    /// `location /x`
    Prefix,
    /// `location ^~ /x`
    PrefixOnly,
    /// `location = /x`
    Exact,
    /// `location ~ x` and `location ~* x`
    Regex,
    /// `location @x`
    Named,
}

/// A location's kind and the text that stands behind it.
#[derive(Clone, Debug)]
pub struct LocationName {
    /// How it is chosen.
    pub kind: LocationKind,
    /// The prefix, path, pattern, or the name with its `@`.
    pub text: Box<[u8]>,
}

/// Where a location's files are.
#[derive(Clone, Debug)]
pub struct Root {
    /// The directory, or for an alias in a regex location the whole path.
    pub path: Template,
    /// The location that `alias` stands in.
    pub alias: Option<LocationName>,
    /// The directory from which relative paths start.
    pub prefix: PathBuf,
}

/// Why a URI has no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// `alias` in a location that the URI no longer belongs to, since it was rewritten.
    AliasAfterRewrite,
    /// The path would leave the place that the URI maps to, or has a NUL.
    Unsafe,
}

impl Root {
    /// The evaluated directory (`$document_root`; for an alias the text of the directive).
    pub fn directory(&self, exchange: &Exchange) -> Vec<u8> {
        let text = self.path.evaluate(exchange);
        if text.starts_with(b"/") {
            return text;
        }
        let mut absolute = bytes_of(&self.prefix);
        if !absolute.ends_with(b"/") {
            absolute.push(b'/');
        }
        absolute.extend_from_slice(&text);
        absolute
    }

    /// The path of a URI. Joining is by bytes: the URI was normalised when it was parsed, so it has no
    /// `..` segment unless a rewrite or a capture put it there, which is refused here.
    pub fn map(&self, exchange: &Exchange, uri: &[u8]) -> Result<Vec<u8>, MapError> {
        let mut path = self.directory(exchange);
        let appended = match &self.alias {
            None => uri,
            Some(name) if name.kind == LocationKind::Regex && exchange.uri_behind_alias => uri,
            Some(name) if name.kind == LocationKind::Regex => b"",
            Some(_) if !exchange.valid_location => return Err(MapError::AliasAfterRewrite),
            Some(name) => uri.get(name.text.len()..).unwrap_or_default(),
        };
        if self.alias.is_none() && path.ends_with(b"/") && appended.starts_with(b"/") {
            path.pop();
        }
        // What the administrator wrote may climb; what a client can choose may not. The last segment of
        // the directory is looked at too, because an alias joins without a slash: `/i..` must not
        // become `..` behind `alias /data/`.
        let trusted = match self.path.constant() {
            Some(_) => path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1),
            None => 0,
        };
        path.extend_from_slice(appended);
        if has_parent_segment(&path[trusted..]) || path.contains(&0) {
            return Err(MapError::Unsafe);
        }
        Ok(path)
    }
}

/// Whether any segment of a path is `..`.
pub(crate) fn has_parent_segment(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').any(|segment| segment == b"..")
}

fn bytes_of(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::has_parent_segment;

    #[test]
    fn only_whole_segments_climb() {
        assert!(has_parent_segment(b"/a/../b"));
        assert!(has_parent_segment(b".."));
        assert!(has_parent_segment(b"/a/.."));
        assert!(!has_parent_segment(b"/a..b/..c/d.."));
    }
}
