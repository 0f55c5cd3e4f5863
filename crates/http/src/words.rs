//! Looking at many bytes at a time, for what most texts do not have.

/// Whether any byte is marked by a function that marks those of eight at once.
#[inline]
pub fn any_marked(bytes: &[u8], marks: impl Fn(u64) -> u64) -> bool {
    let marks = |word: &[u8; 8]| marks(u64::from_le_bytes(*word));
    let Some(last) = bytes.last_chunk() else { return marks(&filled_up(bytes)) != 0 };
    let (words, _) = bytes.as_chunks();
    words.iter().fold(marks(last), |found, word| found | marks(word)) != 0
}

/// Where the first byte stands that a function marks, which marks no byte in front of one that it should.
#[inline]
pub fn first_marked(bytes: &[u8], marks: impl Fn(u64) -> u64) -> Option<usize> {
    let (words, rest) = bytes.as_chunks();
    let mut at = 0;
    for word in words {
        let found = marks(u64::from_le_bytes(*word));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += word.len();
    }
    let found = marks(u64::from_le_bytes(filled_up(rest)));
    (found != 0).then(|| at + found.trailing_zeros() as usize / 8)
}

/// A text of fewer than eight bytes; what it lacks are letters.
#[inline]
fn filled_up(bytes: &[u8]) -> [u8; 8] {
    let mut word = [b'a'; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    word
}

/// Whether a predicate holds for some eight neighbours, where each two neighbours are among some eight. What a shorter
/// text lacks is taken to be letters.
#[inline]
pub fn any_word(bytes: &[u8], predicate: impl Fn(u64) -> bool) -> bool {
    const STEP: usize = 7;
    let Some(last) = bytes.last_chunk() else { return predicate(u64::from_le_bytes(filled_up(bytes))) };
    let mut found = predicate(u64::from_le_bytes(*last));
    let mut rest = bytes;
    while let Some((word, _)) = rest.split_first_chunk().filter(|(_, behind)| !behind.is_empty() && !found) {
        found = predicate(u64::from_le_bytes(*word));
        rest = &rest[STEP..];
    }
    found
}

/// Whether one byte stands right in front of the other anywhere.
#[inline]
pub fn has_pair(bytes: &[u8], first: u8, second: u8) -> bool {
    let Some((_, front)) = bytes.split_last() else { return false };
    let back = &bytes[1..];
    let of_words = |front: &[u8; 8], back: &[u8; 8]| {
        let front = u64::from_le_bytes(*front) ^ (LOW_BITS * u64::from(first));
        let back = u64::from_le_bytes(*back) ^ (LOW_BITS * u64::from(second));
        where_nul(front | back) != 0
    };
    let (Some(front_end), Some(back_end)) = (front.last_chunk(), back.last_chunk()) else {
        return front.iter().zip(back).any(|pair| pair == (&first, &second));
    };
    let words = front.as_chunks().0.iter().zip(back.as_chunks().0);
    words.fold(of_words(front_end, back_end), |found, (front, back)| found | of_words(front, back))
}

const LOW_BITS: u64 = u64::from_ne_bytes([1; 8]);
const HIGH_BITS: u64 = u64::from_ne_bytes([0x80; 8]);

/// The high bit of each byte that is this one.
#[inline]
pub const fn where_is(word: u64, byte: u8) -> u64 {
    let others = word ^ (LOW_BITS * byte as u64);
    // Adding carries into the high bit whatever is not zero, and never into the next byte.
    !(((others & !HIGH_BITS) + !HIGH_BITS) | others) & HIGH_BITS
}

/// The high bit of each byte from one ASCII character to another one.
#[inline]
pub const fn where_between(word: u64, first: u8, last: u8) -> u64 {
    let low = word & !HIGH_BITS;
    let (from, behind) = (low + LOW_BITS * (0x80 - first as u64), low + LOW_BITS * (0x7f - last as u64));
    from & !behind & !word & HIGH_BITS
}

/// The high bit of each NUL, and maybe of others behind one such byte.
#[inline]
pub const fn where_nul(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS) & !word & HIGH_BITS
}

/// The high bit of each byte before a space, and maybe of others behind one such byte.
#[inline]
pub const fn where_control(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS * 0x20) & !word & HIGH_BITS
}

/// The high bit of each byte up to a space, and maybe of others behind one such byte.
#[inline]
pub const fn where_blank(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS * 0x21) & !word & HIGH_BITS
}

/// The high bit of each byte that is no printable ASCII, and maybe of others behind one such byte.
#[inline]
pub const fn where_unprintable(word: u64) -> u64 {
    let is_delete = ((word & !HIGH_BITS) + LOW_BITS) & HIGH_BITS;
    where_control(word) | is_delete | (word & HIGH_BITS)
}

/// The high bit of each byte that is no letter, no digit and no hyphen.
#[inline]
pub const fn where_not_in_name(word: u64) -> u64 {
    let low = word & !HIGH_BITS;
    let small = low | (LOW_BITS * 0x20);
    let letters = (small + LOW_BITS * (0x80 - b'a' as u64)) & !(small + LOW_BITS * (0x7f - b'z' as u64));
    let digits = (low + LOW_BITS * (0x80 - b'0' as u64)) & !(low + LOW_BITS * (0x7f - b'9' as u64));
    (!(letters | digits | where_is(word, b'-')) | word) & HIGH_BITS
}

/// The high bit of each byte that is a capital letter.
#[inline]
pub const fn where_upper(word: u64) -> u64 {
    let low = word & !HIGH_BITS;
    let from_a = low + LOW_BITS * (0x80 - b'A' as u64);
    let behind_z = low + LOW_BITS * (0x80 - (b'Z' as u64 + 1));
    from_a & !behind_z & !word & HIGH_BITS
}

#[cfg(test)]
mod tests {
    use super::{
        any_marked, any_word, first_marked, has_pair, where_between, where_blank, where_control, where_is,
        where_not_in_name, where_nul, where_unprintable, where_upper,
    };

    #[test]
    fn words_have_what_their_bytes_have() {
        for length in 0..50 {
            for at in 0..length {
                for byte in 0..=255 {
                    let mut text = vec![b'x'; length];
                    text[at] = byte;
                    let found = |predicate: fn(u64) -> u64| any_word(&text, |word| predicate(word) != 0);
                    assert_eq!(found(|word| where_is(word, 0)), byte == 0, "{text:?}");
                    assert_eq!(found(|word| where_is(word, 0x7f)), byte == 0x7f, "{text:?}");
                    assert_eq!(found(where_nul), byte == 0, "{text:?}");
                    let is_between = found(|word| where_between(word, b'#', b'%'));
                    assert_eq!(is_between, (b'#'..=b'%').contains(&byte), "{text:?}");
                    assert_eq!(found(|word| where_is(word, b'.')), byte == b'.', "{text:?}");
                    assert_eq!(any_marked(&text, |word| where_is(word, b'.')), byte == b'.', "{text:?}");
                    assert_eq!(any_marked(&text, where_control), byte < b' ', "{text:?}");
                    let first = first_marked(&text, where_control);
                    assert_eq!(first, (byte < b' ').then_some(at), "{text:?}");
                    let is_unusual = !(byte.is_ascii_alphanumeric() || byte == b'-');
                    assert_eq!(first_marked(&text, where_not_in_name), is_unusual.then_some(at), "{text:?}");
                    assert_eq!(any_marked(&text, where_blank), byte <= b' ', "{text:?}");
                    let is_unprintable = !(b' '..0x7f).contains(&byte);
                    assert_eq!(any_marked(&text, where_unprintable), is_unprintable, "{text:?}");
                    assert_eq!(found(where_upper), byte.is_ascii_uppercase(), "{text:?}");
                }
            }
        }
    }

    #[test]
    fn neighbours_are_in_one_word() {
        let pair = |word| where_is(word, b'b') & (where_is(word, b'a') << 8) != 0;
        let is_pair = |text: &[u8]| has_pair(text, b'a', b'b');
        assert!(!is_pair(b"") && !is_pair(b"a") && !is_pair(b"ba") && is_pair(b"ab"));
        for length in 2..30 {
            let text = vec![b'x'; length];
            assert!(!any_word(&text, pair) && !is_pair(&text));
            for at in 0..length - 1 {
                let mut text = text.clone();
                text[at..at + 2].copy_from_slice(b"ab");
                assert!(any_word(&text, pair) && is_pair(&text), "{text:?}");
                text[at..at + 2].copy_from_slice(b"ba");
                assert!(!is_pair(&text), "{text:?}");
            }
        }
    }
}
