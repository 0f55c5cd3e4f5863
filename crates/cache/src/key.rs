//! What a response is found by, and where its file is.

use http::{Fields, hex};
use md5::{Digest, Md5};
use std::ffi::OsStr;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The MD5 digest of a key's text, as in nginx: it names the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub [u8; 16]);

impl Hash for Key {
    /// All keys have one length, which need not be hashed.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

impl Key {
    /// The key of a text.
    pub fn of(text: &[u8]) -> Key {
        Key(Md5::digest(text).into())
    }

    /// The key of the variant that a request with these fields gets, if the response names fields in `Vary`. The three
    /// fields of content negotiation count without regard to spaces, and `Accept-Encoding` also without regard to
    /// order. `family` is the number that the response with this key and its variants share ([`Head`](crate::Head)): one
    /// with another number has other variants.
    pub fn variant(&self, family: u64, vary: &[u8], request: &Fields) -> Key {
        let mut digest = Md5::new();
        digest.update(self.0);
        digest.update(family.to_le_bytes());
        for name in names(vary) {
            let name = name.to_ascii_lowercase();
            digest.update(&name);
            digest.update(b":");
            if *name == *b"accept-encoding" {
                digest_codings(request, &mut digest);
                digest.update(b"\r\n");
                continue;
            }
            let is_negotiated = matches!(&name[..], b"accept-charset" | b"accept-language");
            let mut is_first = true;
            for field in request.iter().filter(|field| field.name.eq_ignore_ascii_case(&name)) {
                let mut add = |part: &[u8]| {
                    if !std::mem::replace(&mut is_first, false) {
                        digest.update(b",");
                    }
                    digest.update(part);
                };
                match is_negotiated {
                    true => names(field.value).for_each(add),
                    false => add(field.value),
                }
            }
            digest.update(b"\r\n");
        }
        Key(digest.finalize().into())
    }

    /// The key whose digits these are.
    pub fn parse(digits: &[u8]) -> Option<Key> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut key = [0; 16];
        if digits.len() != 2 * key.len() {
            return None;
        }
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Key(key))
    }

    /// The key in hexadecimal digits.
    pub fn digits(&self) -> String {
        hex::text(&self.0)
    }
}

/// Adds the codings that a request accepts to a digest, in one order. Spaces, capitals, the order and a weight of 1 mean
/// nothing (RFC 9110, section 12.5.3).
fn digest_codings(request: &Fields, digest: &mut Md5) {
    let mut list = Vec::new();
    for field in request.iter().filter(|field| field.name.eq_ignore_ascii_case(b"accept-encoding")) {
        let meant = field.value.iter().filter(|byte| !matches!(byte, b' ' | b'\t'));
        list.extend(meant.map(u8::to_ascii_lowercase));
        list.push(b',');
    }
    let mut codings: Vec<&[u8]> = list.split(|&byte| byte == b',').map(without_weight_of_one).collect();
    codings.retain(|coding| !coding.is_empty());
    codings.sort_unstable();
    codings.dedup();
    for coding in codings {
        digest.update(coding);
        digest.update(b",");
    }
}

fn without_weight_of_one(coding: &[u8]) -> &[u8] {
    let weights = [&b";q=1"[..], b";q=1.0", b";q=1.00", b";q=1.000"];
    weights.iter().find_map(|weight| coding.strip_suffix(*weight)).unwrap_or(coding)
}

/// The words of a list between commas and spaces.
fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| matches!(byte, b',' | b' ')).filter(|name| !name.is_empty())
}

/// The directories between the root of a cache and its files: how many digits each is named by (`levels`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels(Vec<usize>);

/// A directory that may be a level, and how many digits name it.
fn first_level(directory: &Path) -> Option<(PathBuf, usize)> {
    let mut entries = std::fs::read_dir(directory).ok()?.flatten();
    entries.find_map(|entry| {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        let is_level = matches!(name.len(), 1 | 2) && name.iter().all(u8::is_ascii_hexdigit);
        (is_level && entry.file_type().ok()?.is_dir()).then(|| (entry.path(), name.len()))
    })
}

/// How many levels there may be.
const LEVELS_MAX: usize = 3;

impl Levels {
    /// Reads `1:2` or its like; `None` where it is no such list.
    pub fn parse(text: &[u8]) -> Option<Levels> {
        let level = |part: &[u8]| match part {
            b"1" => Some(1),
            b"2" => Some(2),
            _ => None,
        };
        let levels: Option<Vec<_>> = text.split(|&byte| byte == b':').map(level).collect();
        levels.filter(|levels| levels.len() <= LEVELS_MAX).map(Levels)
    }

    /// Those that the files of a directory have: of the first directories on the way down that may be levels.
    pub fn found_in(directory: &Path) -> Levels {
        let (mut levels, mut directory) = (Vec::new(), directory.to_path_buf());
        while levels.len() < LEVELS_MAX
            && let Some((next, digits)) = first_level(&directory)
        {
            levels.push(digits);
            directory = next;
        }
        Levels(levels)
    }

    /// How many there are.
    pub fn depth(&self) -> usize {
        self.0.len()
    }

    /// Each level's number of digits.
    pub fn digits(&self) -> &[usize] {
        &self.0
    }

    /// The directories of a key's file, the outermost first. They are named by the last digits of the key.
    pub fn directories<'a>(&self, digits: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let mut end = digits.len();
        self.0.iter().map(move |count| {
            let start = end.saturating_sub(*count);
            let name = digits.get(start..end).unwrap_or_default();
            end = start;
            name
        })
    }

    /// The path of a key's file below the root.
    pub fn path(&self, key: &Key) -> KeyPath {
        let digits = hex::pairs(key.0);
        let digits = digits.as_flattened();
        let mut path = KeyPath { bytes: [0; PATH_MAX], length: 0 };
        for directory in self.directories(digits) {
            path.push(directory);
            path.push(b"/");
        }
        path.push(digits);
        path
    }
}

/// How long the path of a file is at most, in bytes: levels of two digits and their slashes, and the digits of a key.
const PATH_MAX: usize = LEVELS_MAX * 3 + 32;

/// The path of a key's file below the root of a cache.
#[derive(Clone, Copy, Debug)]
pub struct KeyPath {
    bytes: [u8; PATH_MAX],
    length: usize,
}

impl KeyPath {
    fn push(&mut self, part: &[u8]) {
        let end = self.length + part.len();
        if let Some(room) = self.bytes.get_mut(self.length..end) {
            room.copy_from_slice(part);
            self.length = end;
        }
    }
}

impl Deref for KeyPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.bytes.get(..self.length).unwrap_or_default()))
    }
}

impl AsRef<Path> for KeyPath {
    fn as_ref(&self) -> &Path {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, Levels};
    use http::Fields;

    fn fields(list: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        list.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()).unwrap());
        fields
    }

    #[test]
    fn files_are_where_nginx_has_them() {
        let key = Key::of(b"");
        assert_eq!(key.digits(), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(Key::parse(key.digits().as_bytes()), Some(key));
        let path = |levels: &[u8]| Levels::parse(levels).unwrap().path(&key).display().to_string();
        assert_eq!(path(b"1:2"), "e/27/d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(path(b"2:1:2"), "7e/2/84/d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(Levels::default().path(&key).display().to_string(), key.digits());
        for wrong in ["", "3", "1:", "1:2:1:2", "a", "12"] {
            assert_eq!(Levels::parse(wrong.as_bytes()), None, "{wrong}");
        }
        for wrong in ["", "d4", "D41d8cd98f00b204e9800998ecf8427e", "x41d8cd98f00b204e9800998ecf8427e"] {
            assert_eq!(Key::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn variants_differ_by_the_fields_that_are_named() {
        let key = Key::of(b"x");
        let of = |vary: &str, list: &[(&str, &str)]| key.variant(7, vary.as_bytes(), &fields(list));
        let plain = of("Accept-Encoding, X-A", &[]);
        assert_eq!(plain, of("accept-encoding,x-a", &[("Other", "1")]));
        assert_ne!(plain, of("Accept-Encoding", &[]), "the list counts");
        assert_ne!(plain, of("Accept-Encoding, X-A", &[("X-A", "1")]));
        let gzip = of("Accept-Encoding", &[("Accept-Encoding", "gzip,br")]);
        assert_eq!(gzip, of("Accept-Encoding", &[("accept-encoding", " gzip , br")]));
        assert_eq!(gzip, of("Accept-Encoding", &[("Accept-Encoding", "gzip"), ("Accept-Encoding", "br")]));
        for same in
            ["br, gzip", "GZIP, br", "gzip;q=1.0, br", "gzip; q=1, br;q=1.000", "br,gzip,gzip", "br,,gzip"]
        {
            assert_eq!(gzip, of("Accept-Encoding", &[("Accept-Encoding", same)]), "{same}");
        }
        for other in ["gzip", "gzip, br;q=0.5", "gzip, br;q=0", "gzipbr", "gzip, br, zstd", ""] {
            assert_ne!(gzip, of("Accept-Encoding", &[("Accept-Encoding", other)]), "{other}");
        }
        assert_ne!(of("X", &[("X", "a,b")]), of("X", &[("X", "a, b")]));
        assert_ne!(key, plain);
        assert_ne!(plain, key.variant(8, b"Accept-Encoding, X-A", &Fields::new()), "the family counts");
    }
}
