//! Hash tables whose keys are short texts of clients. They are faster than those of the standard library. A secret key keeps
//! clients from choosing texts that collide.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// A table by such keys.
pub type KeyedMap<K, V> = HashMap<K, V, Keyed>;

/// Makes hashers with the keys of this process.
#[derive(Clone, Copy, Debug)]
pub struct Keyed {
    start: u64,
    factor: u64,
}

impl Default for Keyed {
    fn default() -> Keyed {
        static KEYS: OnceLock<Keyed> = OnceLock::new();
        *KEYS.get_or_init(|| {
            let random = || RandomState::new().build_hasher().finish();
            Keyed { start: random(), factor: random() | 1 }
        })
    }
}

impl Keyed {
    /// The hash of sixteen bytes, such as a digest.
    #[inline]
    pub fn hash_digest(&self, bytes: &[u8; 16]) -> u64 {
        let mut folding = self.build_hasher();
        folding.mix(first_word(bytes), last_word(bytes));
        folding.state
    }
}

impl BuildHasher for Keyed {
    type Hasher = Folding;

    fn build_hasher(&self) -> Folding {
        Folding { state: self.start, factor: self.factor }
    }
}

/// Mixes sixteen bytes at a time into the state: both halves are mixed with secret values and multiplied, and the halves of
/// the product are combined.
#[derive(Clone, Copy, Debug)]
pub struct Folding {
    state: u64,
    factor: u64,
}

impl Folding {
    #[inline]
    fn mix(&mut self, first: u64, second: u64) {
        let product = u128::from(self.state ^ first) * u128::from(self.factor ^ second);
        let bytes = product.to_le_bytes();
        let (low, high) = (first_word(&bytes), last_word(&bytes));
        self.state = low ^ high;
    }
}

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        if bytes.len() < 8 {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.mix(u64::from_le_bytes(word), bytes.len() as u64);
            return;
        }
        let (chunks, rest) = bytes.as_chunks::<16>();
        for chunk in chunks {
            self.mix(first_word(chunk), last_word(chunk));
        }
        if !rest.is_empty() {
            // The last two words may overlap; hashing bytes twice does no harm.
            self.mix(first_word(rest.first_chunk::<8>().map_or(bytes, |word| word)), last_word(bytes));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number, 0);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        let mut last = *self;
        last.mix(0, self.state.rotate_left(32));
        last.state
    }
}

/// The first eight bytes, of at least as many.
fn first_word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

/// The last eight bytes, of at least as many.
fn last_word(bytes: &[u8]) -> u64 {
    bytes.last_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::Keyed;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn texts_that_differ_a_little_differ_in_all_parts_of_the_hash() {
        let texts: Vec<String> = (0..100)
            .flat_map(|length| {
                (0..100).map(move |number| format!("{}{number:02}{}", "a".repeat(length), "b".repeat(length)))
            })
            .collect();
        let hashes: Vec<u64> = texts.iter().map(|text| Keyed::default().hash_one(text.as_bytes())).collect();
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), texts.len());
        for shift in [0, 8, 24, 40, 56] {
            let used = hashes.iter().map(|hash| hash >> shift & 0xff).collect::<HashSet<_>>();
            assert_eq!(used.len(), 256, "bits from {shift} on");
        }
    }

    #[test]
    fn every_byte_counts() {
        let keyed = Keyed::default();
        let text: Vec<u8> = (0..80).collect();
        for length in 1..text.len() {
            let text = &text[..length];
            let hash = keyed.hash_one(text);
            assert_eq!(keyed.hash_one(&text.to_vec()[..]), hash);
            assert_ne!(keyed.hash_one(&text[1..]), hash);
            for (at, bit) in (0..length).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let mut other = text.to_vec();
                other[at] ^= 1 << bit;
                assert_ne!(keyed.hash_one(&other[..]), hash, "bit {bit} of byte {at} of {length}");
            }
        }
    }
}
