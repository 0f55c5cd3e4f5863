//! From a URI to a path: `root` and `alias`.

use crate::{Exchange, Template};
use http::uri::{has_parent_segment, may_climb};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

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

/// A location's kind and the text that stands after it.
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
        let mut directory = Vec::new();
        self.write_directory(exchange, &mut directory);
        directory
    }

    /// Appends what [`Root::directory`] gives.
    pub fn write_directory(&self, exchange: &Exchange, out: &mut Vec<u8>) {
        match self.path.constant() {
            Some(text) => self.absolute(text, out),
            None => self.absolute(&self.path.evaluate(exchange), out),
        }
    }

    fn absolute(&self, text: &[u8], out: &mut Vec<u8>) {
        out.reserve(text.len() + 64); // Most paths need no more room.
        if !text.starts_with(b"/") {
            out.extend_from_slice(self.prefix.as_os_str().as_bytes());
            if !out.ends_with(b"/") {
                out.push(b'/');
            }
        }
        out.extend_from_slice(text);
    }

    /// The path of a URI. A `..` segment is refused: parsing took all of them away, a rewrite or a capture put it there.
    pub fn map(&self, exchange: &Exchange, uri: &[u8]) -> Result<Vec<u8>, MapError> {
        let mut path = Vec::new();
        self.map_into(exchange, uri, &mut path).map(|()| path)
    }

    /// As [`Root::map`], with the path, which replaces the content of the buffer.
    pub fn map_into(&self, exchange: &Exchange, uri: &[u8], path: &mut Vec<u8>) -> Result<(), MapError> {
        path.clear();
        self.write_directory(exchange, path);
        let appended = match &self.alias {
            None => uri,
            Some(_) if !exchange.routing.valid_location => return Err(MapError::AliasAfterRewrite),
            Some(name) if name.kind == LocationKind::Regex && exchange.routing.uri_below_alias => uri,
            Some(name) if name.kind == LocationKind::Regex => b"",
            Some(name) => uri.get(name.text.len()..).unwrap_or_default(),
        };
        if self.alias.is_none() && path.ends_with(b"/") && appended.starts_with(b"/") {
            path.pop();
        }
        // What the administrator wrote may climb; what a client can choose may not. Without a slash between them
        // the last segment of the directory is looked at, too: `/i..` must not become `..` after `alias /data/`.
        let is_constant = self.path.constant().is_some();
        let is_apart = self.alias.is_none() && appended.starts_with(b"/");
        if is_constant && (is_apart || !path.ends_with(b".")) && !may_climb(appended) {
            path.extend_from_slice(appended);
            return Ok(());
        }
        let trusted = match is_constant {
            true if is_apart => path.len(),
            true => path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1),
            false => 0,
        };
        path.extend_from_slice(appended);
        if has_parent_segment(&path[trusted..]) || path.contains(&0) {
            return Err(MapError::Unsafe);
        }
        Ok(())
    }
}
