//! Zones: memory of a bounded size that all threads share, which directives name.

use conf::value::size;
use conf::{Diagnostic, Word};
use contract::hash::Keyed;
use contract::{Args, Identity, Written};
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The name and the size of a zone, as `zone=NAME:SIZE` gives them.
#[derive(Clone, Debug)]
pub(crate) struct ZoneSpec {
    pub(crate) name: Box<[u8]>,
    size_bytes: u64,
}

/// The unit in which zones are cut, in bytes, and what nginx spends on the account of each.
const PAGE: u64 = 4096;
const PAGE_ACCOUNT: u64 = 24;

/// What nginx spends on the account of a zone, in bytes.
const ZONE_ACCOUNT: u64 = 1024 + PAGE;

/// The least size of a zone, in bytes.
const LEAST_SIZE: u64 = 8 * PAGE;

impl ZoneSpec {
    /// Reads `NAME:SIZE`, the rest of a word after `zone=`.
    pub(crate) fn parse(args: &Args<'_>, word: &Word, rest: &[u8]) -> Result<ZoneSpec, Diagnostic> {
        let error = |what: String| Diagnostic::emerg(what).at(args.node.span).under(word.span);
        let invalid = || error(format!("invalid zone size \"{word}\""));
        let colon = rest.iter().position(|&byte| byte == b':').ok_or_else(invalid)?;
        let size_bytes = size(&Word { text: rest[colon + 1..].into(), ..*word }).map_err(|_| invalid())?;
        if size_bytes < LEAST_SIZE {
            return Err(error(format!("zone \"{word}\" is too small")));
        }
        Ok(ZoneSpec { name: rest[..colon].into(), size_bytes })
    }

    /// A zone keeps its states over a reload while its name, size and key stay the same.
    pub(crate) fn identity(&self, key: &str) -> Identity {
        let ZoneSpec { name, size_bytes } = self;
        Identity::default().bytes(name).number(*size_bytes).bytes(key)
    }

    /// One of this size.
    #[cfg(test)]
    pub(crate) fn sized(size_bytes: u64) -> ZoneSpec {
        ZoneSpec { name: b"z".as_slice().into(), size_bytes }
    }

    /// How many bytes of states the zone holds.
    fn capacity(&self) -> u64 {
        self.size_bytes.saturating_sub(ZONE_ACCOUNT) / (PAGE + PAGE_ACCOUNT) * PAGE
    }
}

/// What a state of so many bytes takes of a zone: a power of two within a page, else whole pages.
pub(crate) fn cost(bytes: usize) -> u64 {
    let bytes = bytes as u64;
    if bytes > PAGE / 2 { bytes.div_ceil(PAGE) * PAGE } else { bytes.next_power_of_two() }
}

/// States in separate parts, so that threads rarely wait for each other.
pub(crate) struct Shards<T> {
    shards: Box<[Mutex<T>]>,
    hasher: Keyed,
}

impl<T> Shards<T> {
    /// The parts of a zone; `make` is given how many bytes of states each may hold.
    pub(crate) fn new(spec: &ZoneSpec, make: impl Fn(u64) -> T) -> Shards<T> {
        const COUNT_MAX: u64 = 16;
        // In a small zone parts would fill up too unevenly.
        const LEAST_PART: u64 = 32 * PAGE;
        let count = (spec.capacity() / LEAST_PART).clamp(1, COUNT_MAX);
        // Rounded up, so that all parts together hold no less than a zone that is in one piece.
        let part = (spec.capacity() / count).next_multiple_of(PAGE);
        let shards = (0..count).map(|_| Mutex::new(make(part))).collect();
        Shards { shards, hasher: Keyed::default() }
    }

    /// The part that a key belongs to.
    pub(crate) fn of(&self, key: &[u8]) -> MutexGuard<'_, T> {
        // The lower half of the hash tells the keys of a part apart.
        let index = (self.hasher.hash_one(key) >> 32) % self.shards.len() as u64;
        let shard = &self.shards[usize::try_from(index).unwrap_or(0)];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A zone with a name.
pub(crate) trait Named {
    fn name(&self) -> &[u8];
    /// The key as it was written.
    fn key(&self) -> &str;
}

/// Checks that no two zones that `directive` defines have one name.
pub(crate) fn check_names<Z: Named>(directive: &str, zones: &[Written<'_, Z>]) -> Result<(), Diagnostic> {
    for (at, zone) in zones.iter().enumerate() {
        let name = zone.value.name();
        if let Some(earlier) = zones[..at].iter().find(|earlier| earlier.value.name() == name) {
            let (name, key) = (String::from_utf8_lossy(name), earlier.value.key());
            let message = format!("{directive} \"{name}\" is already bound to key \"{key}\"");
            return Err(Diagnostic::emerg(message).at(zone.span));
        }
    }
    Ok(())
}

/// The error about a zone that is not defined.
pub(crate) fn unknown(name: &[u8], directive: &str) -> Diagnostic {
    let message = format!("zero size shared memory zone \"{}\"", String::from_utf8_lossy(name));
    Diagnostic::emerg(message).hint(format!("define the zone with {directive}"))
}

#[cfg(test)]
mod tests {
    use super::{ZoneSpec, cost};

    #[test]
    fn name_size_and_key_are_the_identity() {
        let of = |name: &str, size_bytes, key: &str| {
            ZoneSpec { name: name.as_bytes().into(), size_bytes }.identity(key)
        };
        assert_eq!(of("a", 40_000, "$uri"), of("a", 40_000, "$uri"));
        for other in [
            of("b", 40_000, "$uri"),
            of("a", 40_001, "$uri"),
            of("a", 40_000, "$host"),
            of("a 40000", 0, "$uri"),
        ] {
            assert_ne!(of("a", 40_000, "$uri"), other);
        }
    }

    #[test]
    fn sizes_are_nginxs() {
        assert_eq!((cost(84), cost(40), cost(128), cost(129)), (128, 64, 128, 256));
        assert_eq!((cost(2048), cost(2049), cost(5000)), (2048, 4096, 8192));
        let spec = ZoneSpec::sized;
        let states = spec(1024 * 1024).capacity() / cost(84);
        assert!((8000..8192).contains(&states), "about eight thousand states a megabyte: {states}");
        assert!(spec(8 * 4096).capacity() > 0);
    }
}
