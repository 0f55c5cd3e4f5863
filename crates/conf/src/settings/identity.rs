//! How state that survives a reload is recognised.

use std::fmt;

/// The settings that state was made from. Two values are equal if the same parts were added in the same order.
///
/// Write a part for each field of the settings, and destructure them to do so: then a further field does not compile
/// until it is decided whether a change of it needs new state.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Identity(Vec<u8>);

impl Identity {
    /// Adds a text.
    #[must_use]
    pub fn bytes(mut self, bytes: impl AsRef<[u8]>) -> Identity {
        // The length keeps ("ab", "c") apart from ("a", "bc").
        self.0.extend_from_slice(&bytes.as_ref().len().to_le_bytes());
        self.0.extend_from_slice(bytes.as_ref());
        self
    }

    /// Adds a number, a length or a flag.
    #[must_use]
    pub fn number(mut self, number: impl Into<u128>) -> Identity {
        self.0.extend_from_slice(&number.into().to_le_bytes());
        self
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::Identity;

    #[test]
    fn parts_do_not_run_together() {
        let of = |parts: &[&str]| parts.iter().fold(Identity::default(), Identity::bytes);
        assert_eq!(of(&["a", "bc"]), of(&["a", "bc"]));
        let different =
            [of(&[]), of(&[""]), of(&["abc"]), of(&["ab", "c"]), of(&["a", "bc"]), of(&["c", "ab"])];
        for (index, one) in different.iter().enumerate() {
            assert!(different[..index].iter().all(|other| other != one), "{one:?}");
        }
        assert_ne!(
            Identity::default().number(1_u8).number(2_u8),
            Identity::default().number(2_u8).number(1_u8)
        );
    }
}
