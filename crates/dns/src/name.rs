//! Host names.

use std::fmt;
use std::sync::Arc;

/// The longest name, in bytes of text. The wire format allows two bytes less (RFC 1035, section 2.3.4); nginx accepts
/// these names, too.
pub(crate) const NAME_MAX: usize = 255;

/// The longest label, in bytes (RFC 1035, section 2.3.4).
const LABEL_MAX: usize = 63;

/// A host name in lower case, without a dot at its end. It has at least one label, and no label is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Reads a name, which may end with a dot. `None` if no server can know it: it is empty or too long, or a label is.
    pub fn new(text: &str) -> Option<Name> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| (1..=LABEL_MAX).contains(&label.len());
        let is_valid = text.len() <= NAME_MAX
            && text.split('.').all(is_label)
            && !text.bytes().any(|byte| byte <= b' ' || byte == 0x7f);
        is_valid.then(|| Name(text.to_ascii_lowercase().into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Appends the name in the wire format, without compression.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for label in self.0.split('.') {
            out.extend(u8::try_from(label.len()));
            out.extend_from_slice(label.as_bytes());
        }
        out.push(0);
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn names_have_labels() {
        let text = |text: &str| Name::new(text).map(|name| name.to_string());
        for (written, name) in [
            ("a", "a"),
            ("Example.NET", "example.net"),
            ("example.net.", "example.net"),
            ("_http._tcp.a", "_http._tcp.a"),
        ] {
            assert_eq!(text(written).as_deref(), Some(name));
        }
        let label = "a".repeat(63);
        assert!(text(&[&label; 4].map(|label| label.as_str()).join(".")).is_some());
        for wrong in ["", ".", "a..b", ".a", "a b", "a\0", &format!("{label}a"), &"a.".repeat(129)] {
            assert_eq!(text(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn names_on_the_wire() {
        let mut out = Vec::new();
        Name::new("ab.C").unwrap().encode(&mut out);
        assert_eq!(out, b"\x02ab\x01c\0");
    }
}
