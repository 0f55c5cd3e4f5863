//! Characters in UTF-8, as far as their bytes are there.

/// What bytes in UTF-8 begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// A character, or what has the form of one, and its length.
    Character(u32, usize),
    /// An invalid sequence, and its length.
    Invalid(usize),
    /// The beginning of a character.
    Incomplete,
}

/// The character that bytes in UTF-8 begin with, where a table may have it.
pub(super) fn character(bytes: &[u8]) -> Option<u16> {
    match begin(bytes) {
        Begin::Character(character, _) => u16::try_from(character).ok(),
        Begin::Invalid(_) | Begin::Incomplete => None,
    }
}

/// What bytes that do not start with ASCII begin with. A byte that cannot be within a character ends what it should have
/// continued, and goes with it, as in nginx.
pub(super) fn begin(bytes: &[u8]) -> Begin {
    let Some((&first, rest)) = bytes.split_first() else { return Begin::Incomplete };
    let (bits, more, least) = match first {
        0xf8.. => return Begin::Invalid(1),
        0xf0.. => (first & 0x07, 3, 0x1_0000),
        0xe0.. => (first & 0x0f, 2, 0x800),
        0xc2.. => (first & 0x1f, 1, 0x80),
        _ => return Begin::Invalid(1),
    };
    let Some(rest) = rest.get(..more) else { return Begin::Incomplete };
    if let Some(stray) = rest.iter().position(u8::is_ascii) {
        return Begin::Invalid(stray + 2);
    }
    let character = rest.iter().fold(u32::from(bits), |bits, byte| bits << 6 | u32::from(byte & 0x3f));
    if character >= least { Begin::Character(character, more + 1) } else { Begin::Invalid(more + 1) }
}
