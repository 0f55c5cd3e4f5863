//! The media types of file name extensions.

use crate::hash::KeyedMap;
use crate::words::where_upper;
use bytes::Bytes;

/// Media types by extension.
#[derive(Clone, Debug, Default)]
pub struct TypesByExtension {
    /// Of extensions that fit in a number, as nearly all do.
    short: KeyedMap<u64, Bytes>,
    long: KeyedMap<Box<[u8]>, Bytes>,
}

impl TypesByExtension {
    /// Sets the type of an extension; extensions know no case. Gives back the type it had before.
    pub fn insert(&mut self, extension: &[u8], media_type: &[u8]) -> Option<Bytes> {
        let media_type = Bytes::copy_from_slice(media_type);
        match number(extension) {
            Some(number) => self.short.insert(number, media_type),
            None => self.long.insert(extension.to_ascii_lowercase().into(), media_type),
        }
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
        match number(extension) {
            Some(number) => self.short.get(&number),
            None => {
                let known = self.long.get(extension);
                if known.is_some() || !extension.iter().any(u8::is_ascii_uppercase) {
                    return known;
                }
                self.long.get(extension.to_ascii_lowercase().as_slice())
            }
        }
    }
}

/// An extension of up to seven bytes in lower case as a number, which no other one has.
fn number(extension: &[u8]) -> Option<u64> {
    const LENGTH: usize = size_of::<u64>() - 1;
    const CASE: u32 = (0x80_u32 / 0x20).ilog2();
    let mut bytes = [0; size_of::<u64>()];
    bytes[..LENGTH].get_mut(..extension.len())?.copy_from_slice(extension);
    bytes[LENGTH] = u8::try_from(extension.len()).unwrap_or(0);
    let word = u64::from_le_bytes(bytes);
    Some(word | where_upper(word) >> CASE)
}

#[cfg(test)]
mod tests {
    use super::TypesByExtension;

    #[test]
    fn extensions_of_any_length_are_told_apart() {
        let texts = ["", "a", "b", "ab", "\0a", "abcdefg", "abcdefgh", "abcdefghi", "a\0"];
        let mut types = TypesByExtension::default();
        for text in texts {
            assert_eq!(types.insert(text.as_bytes(), format!("of {text}").as_bytes()), None);
        }
        for text in texts {
            for text in [text.to_owned(), text.to_uppercase()] {
                let found = types.of_path(format!("/x.y/z.{text}").as_bytes());
                assert_eq!(
                    found.map(|found| &found[..]),
                    Some(format!("of {}", text.to_lowercase()).as_bytes())
                );
            }
        }
        assert_eq!(types.insert(b"AB", b"other").as_deref(), Some(&b"of ab"[..]));
        for path in ["", "/", "/a", "/.a", "/x.a/", "a", ".a", "/x.c", "/x.abcdefghij"] {
            assert_eq!(types.of_path(path.as_bytes()), None, "{path}");
        }
    }
}
