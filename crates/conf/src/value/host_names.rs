//! Values by host name, also by names with a wildcard.

use crate::tree::printable;
use http::hash::KeyedMap;

/// Values by host name: `example.com`, `*.example.com` for what is below it, `.example.com` for both, and
/// `www.*`. Names are kept and looked for in lower case.
#[derive(Clone, Debug)]
pub struct HostNames<T> {
    exact: KeyedMap<Box<[u8]>, T>,
    /// By what stands after `*.`
    leading: KeyedMap<Box<[u8]>, T>,
    /// By what stands before `.*`
    trailing: KeyedMap<Box<[u8]>, T>,
}

/// Why a name has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// It is no name, or its wildcard stands where none may stand.
    Invalid,
    /// It has a value already.
    Taken,
}

impl NameError {
    /// What is said of the name in a table that a directive fills.
    pub fn message(self, name: &[u8]) -> String {
        let name = printable(name);
        match self {
            NameError::Invalid => format!("invalid hostname or wildcard \"{name}\""),
            NameError::Taken => format!("conflicting parameter \"{name}\""),
        }
    }
}

impl<T: Clone> HostNames<T> {
    /// Adds a name, which may have a wildcard. A name that is refused changes nothing.
    pub fn insert(&mut self, name: &[u8], value: T) -> Result<(), NameError> {
        let stars = name.iter().filter(|&&byte| byte == b'*').count();
        if stars > 1 || name.contains(&0) || name.windows(2).any(|pair| pair == b"..") {
            return Err(NameError::Invalid);
        }
        match name {
            [b'.', bare @ ..] if !bare.is_empty() => {
                if self.exact.contains_key(bare) || self.leading.contains_key(bare) {
                    return Err(NameError::Taken);
                }
                insert(&mut self.exact, bare, value.clone())?;
                insert(&mut self.leading, bare, value)
            }
            [b'*', b'.', rest @ ..] if !rest.is_empty() => insert(&mut self.leading, rest, value),
            [rest @ .., b'.', b'*'] if !rest.is_empty() => insert(&mut self.trailing, rest, value),
            _ if stars > 0 => Err(NameError::Invalid),
            _ => self.insert_exact(name, value),
        }
    }

    /// Adds a text that stands for itself, whatever is in it.
    pub fn insert_exact(&mut self, name: &[u8], value: T) -> Result<(), NameError> {
        insert(&mut self.exact, name, value)
    }

    /// The value for a host: of its own name, else of the longest leading wildcard that holds, else of the
    /// longest trailing one.
    pub fn get(&self, host: &[u8]) -> Option<&T> {
        let behind = |dot: usize| self.leading.get(&host[dot + 1..]);
        let before = |dot: usize| self.trailing.get(&host[..dot]);
        self.exact
            .get(host)
            .or_else(|| dots_of(host, &self.leading).find_map(behind))
            .or_else(|| dots_of(host, &self.trailing).rev().find_map(before))
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.leading.is_empty() && self.trailing.is_empty()
    }
}

impl<T> Default for HostNames<T> {
    fn default() -> HostNames<T> {
        HostNames { exact: KeyedMap::default(), leading: KeyedMap::default(), trailing: KeyedMap::default() }
    }
}

fn insert<T>(names: &mut KeyedMap<Box<[u8]>, T>, name: &[u8], value: T) -> Result<(), NameError> {
    if names.contains_key(name) {
        return Err(NameError::Taken);
    }
    names.insert(name.into(), value);
    Ok(())
}

/// The places of the dots, which are of no interest where there is nothing to find.
fn dots_of<T>(host: &[u8], names: &KeyedMap<Box<[u8]>, T>) -> impl DoubleEndedIterator<Item = usize> {
    let searched = if names.is_empty() { &[] } else { host };
    searched.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::{HostNames, NameError};

    fn names(list: &[&'static str]) -> HostNames<&'static str> {
        let mut names = HostNames::default();
        for name in list {
            names.insert(name.as_bytes(), *name).unwrap();
        }
        names
    }

    #[test]
    fn its_own_name_then_the_longest_wildcard() {
        let names = names(&[
            "a.example",
            "*.example",
            "*.b.example",
            ".c.example",
            "www.*",
            "www.a.*",
            "*.d.example",
            "",
        ]);
        for (host, found) in [
            ("a.example", Some("a.example")),
            ("x.example", Some("*.example")),
            ("x.a.example", Some("*.example")),
            ("x.y.b.example", Some("*.b.example")),
            ("b.example", Some("*.example")),
            ("c.example", Some(".c.example")),
            ("x.c.example", Some(".c.example")),
            ("www.d.example", Some("*.d.example")),
            ("www.x", Some("www.*")),
            ("www.x.y", Some("www.*")),
            ("www.a.y", Some("www.a.*")),
            ("www", None),
            ("example", None),
            ("", Some("")),
        ] {
            assert_eq!(names.get(host.as_bytes()), found.as_ref(), "{host}");
        }
    }

    #[test]
    fn a_name_has_one_value() {
        for (first, second) in [
            ("a", "a"),
            ("*.a", "*.a"),
            ("a.*", "a.*"),
            ("a", ".a"),
            (".a", "a"),
            (".a", "*.a"),
            ("*.a", ".a"),
        ] {
            let mut names = names(&[first]);
            assert_eq!(names.insert(second.as_bytes(), second), Err(NameError::Taken), "{first} {second}");
        }
        let mut names = names(&["a"]);
        assert!(names.insert(b".a", ".a").is_err());
        assert_eq!(names.get(b"x.a"), None, "what is refused changes nothing");
        assert!(names.insert(b"*.a", "*.a").is_ok() && names.insert(b"a.*", "a.*").is_ok());
    }

    #[test]
    fn wildcards_stand_at_an_end() {
        for name in ["*", "a*", "*a", "a.*.b", "*.a.*", "a..b", "..a", "a\0", "*.", "a.b*"] {
            let mut names = HostNames::default();
            assert_eq!(names.insert(name.as_bytes(), ()), Err(NameError::Invalid), "{name}");
            assert!(names.is_empty() && names.insert_exact(name.as_bytes(), ()).is_ok());
        }
    }
}
