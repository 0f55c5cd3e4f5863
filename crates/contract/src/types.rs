//! The media types of file name extensions.

use crate::hash::KeyedMap;
use bytes::Bytes;

/// Media types by extension.
#[derive(Clone, Debug, Default)]
pub struct Types {
    by_extension: KeyedMap<Box<[u8]>, Bytes>,
}

impl Types {
    /// Sets the type of an extension; extensions know no case. Gives back the type it had before.
    pub fn insert(&mut self, extension: &[u8], media_type: &[u8]) -> Option<Bytes> {
        let media_type = Bytes::copy_from_slice(media_type);
        self.by_extension.insert(extension.to_ascii_lowercase().into(), media_type)
    }

    /// The type of a path by what follows the last dot of its last segment; a dot at the start of the
    /// segment begins no extension.
    pub fn of_path(&self, path: &[u8]) -> Option<&Bytes> {
        let dot = path.iter().rposition(|byte| matches!(byte, b'.' | b'/')).filter(|&at| path[at] == b'.')?;
        let before = *path[..dot].last()?;
        if before == b'/' {
            return None;
        }
        let extension = &path[dot + 1..];
        let known = self.by_extension.get(extension);
        if known.is_some() || !extension.iter().any(u8::is_ascii_uppercase) {
            return known;
        }
        let lower = extension.to_ascii_lowercase();
        self.by_extension.get(lower.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::Types;

    #[test]
    fn only_the_last_segment_has_an_extension() {
        let mut types = Types::default();
        types.insert(b"HTML", b"text/html");
        assert_eq!(types.of_path(b"/a/b.html").unwrap(), "text/html");
        assert_eq!(types.of_path(b"/a/b.HtMl").unwrap(), "text/html");
        assert_eq!(types.of_path(b"/a.html/b"), None);
        assert_eq!(types.of_path(b"/html"), None);
        assert_eq!(types.of_path(b"/a/.html"), None);
    }
}
