//! Objects that have no file yet, in the order in which they came. The oldest one makes room for the next one, so a client
//! that asks for everything once only pushes out what came shortly before.

use crate::key::Key;
use std::collections::VecDeque;
use std::sync::Arc;

/// The bytes of the file that an object would have, without checksums.
pub(crate) type Packed = Arc<Vec<u8>>;

/// Objects that have no file yet.
#[derive(Debug)]
pub(crate) struct Newcomers {
    /// The oldest one first. An object that was removed before its turn leaves its slot empty.
    slots: VecDeque<Option<Newcomer>>,
    /// The number of the first slot.
    first: u32,
    bytes: usize,
    max_bytes: usize,
    /// How many objects there are.
    len: usize,
    /// How many slots there may be.
    max_slots: usize,
}

#[derive(Debug)]
struct Newcomer {
    key: Key,
    packed: Packed,
}

impl Newcomer {
    /// How much memory it takes, in bytes.
    fn bytes(&self) -> usize {
        self.packed.capacity() + OVERHEAD
    }
}

/// About how much memory an object takes besides its bytes.
const OVERHEAD: usize = 128;

/// The numbers of slots are counted up to this one, and from 0 again.
const NUMBER_MAX: u32 = (1 << 30) - 1;

impl Newcomers {
    /// Room for so many bytes.
    pub(crate) fn new(max_bytes: usize) -> Newcomers {
        let max_slots = (max_bytes / OVERHEAD).min(NUMBER_MAX as usize / 2);
        Newcomers { slots: VecDeque::new(), first: 0, bytes: 0, max_bytes, len: 0, max_slots }
    }

    /// How many bytes there may be.
    pub(crate) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// How many bytes the objects take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds an object with these bytes, and returns its number; none if it is larger than the room for all. What is left in
    /// `bytes` is the memory of an object that made room, so that the next one needs no new memory.
    pub(crate) fn add(&mut self, key: Key, bytes: &mut Vec<u8>) -> Option<u32> {
        let size = bytes.capacity() + OVERHEAD;
        if size > self.max_bytes || self.max_slots == 0 {
            return None;
        }
        let mut room = None;
        while self.bytes + size > self.max_bytes || self.slots.len() >= self.max_slots {
            let oldest = self.slots.pop_front()?;
            self.first = (self.first + 1) & NUMBER_MAX;
            if let Some(oldest) = oldest {
                (self.bytes, self.len) = (self.bytes - oldest.bytes(), self.len - 1);
                room = Some(oldest.packed);
            }
        }
        let packed = match room.as_mut().and_then(Arc::get_mut) {
            Some(before) => {
                std::mem::swap(before, bytes);
                room
            }
            // A request still reads what made room.
            None => Some(Arc::new(std::mem::take(bytes))),
        };
        let number = self.first.wrapping_add(u32::try_from(self.slots.len()).ok()?) & NUMBER_MAX;
        self.slots.push_back(packed.map(|packed| Newcomer { key, packed }));
        (self.bytes, self.len) = (self.bytes + size, self.len + 1);
        Some(number)
    }

    /// The bytes of the key's object, which got this number; none if it is gone.
    pub(crate) fn get(&self, number: u32, key: &Key) -> Option<&Packed> {
        let newcomer = self.slots.get(self.slot(number))?.as_ref()?;
        (newcomer.key == *key).then_some(&newcomer.packed)
    }

    /// Removes the key's object, which got this number. Tells whether it was there.
    pub(crate) fn remove(&mut self, number: u32, key: &Key) -> bool {
        let at = self.slot(number);
        let slot = self.slots.get_mut(at).filter(|slot| slot.as_ref().is_some_and(|found| found.key == *key));
        let Some(removed) = slot.and_then(Option::take) else { return false };
        (self.bytes, self.len) = (self.bytes - removed.bytes(), self.len - 1);
        true
    }

    /// The objects from a number on, the oldest one first, and the number after the last one. It looks at so many slots.
    pub(crate) fn from(&self, number: Option<u32>, slots: usize) -> (Vec<Key>, Option<u32>) {
        let start = number.map_or(0, |number| self.slot(number));
        // The slot has been removed, and its number is taken for one far ahead.
        let start = if start > self.slots.len() { 0 } else { start };
        let end = self.slots.len().min(start + slots);
        let keys = self.slots.range(start..end).flatten().map(|newcomer| newcomer.key).collect();
        let next = self.first.wrapping_add(u32::try_from(end).unwrap_or(0)) & NUMBER_MAX;
        (keys, (end < self.slots.len()).then_some(next))
    }

    fn slot(&self, number: u32) -> usize {
        (number.wrapping_sub(self.first) & NUMBER_MAX) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::{Newcomers, OVERHEAD};
    use crate::key::Key;
    use proptest::prelude::*;

    const ROOM: usize = 10 * OVERHEAD;

    fn key(number: u8) -> Key {
        Key([number; 16])
    }

    /// All keys, met in steps of so many slots.
    fn walk(newcomers: &Newcomers, slots: usize) -> Vec<u8> {
        let (mut all, mut next) = (Vec::new(), None);
        loop {
            let (keys, further) = newcomers.from(next, slots);
            all.extend(keys.iter().map(|key| key.0[0]));
            match further {
                None => return all,
                further => next = further,
            }
        }
    }

    proptest! {
        /// The model is a list of numbers, keys and sizes, the oldest first.
        #[test]
        fn the_oldest_makes_room(
            first in prop_oneof![Just(0), Just(super::NUMBER_MAX - 3)],
            steps in proptest::collection::vec((any::<bool>(), any::<u8>(), 1..ROOM), 0..200),
        ) {
            let mut newcomers = Newcomers { first, ..Newcomers::new(ROOM) };
            let mut model = Vec::<(u32, u8, usize)>::new();
            // A request that reads an object keeps its bytes.
            let mut read = None;
            for (adds, number, length) in steps {
                if adds {
                    let mut bytes = vec![number; length];
                    let place = newcomers.add(key(number), &mut bytes);
                    let size = length + OVERHEAD;
                    prop_assert_eq!(place.is_some(), size <= ROOM);
                    if let Some(place) = place {
                        // Slots that were left empty may make the oldest leave earlier, but only the oldest.
                        model.drain(..model.len() + 1 - newcomers.len());
                        model.push((place, number, size));
                        read = newcomers.get(place, &key(number)).filter(|_| number % 2 == 0).cloned();
                    }
                } else if !model.is_empty() {
                    let (place, number, _) = model.remove(usize::from(number) % model.len());
                    let other = key(number.wrapping_add(1));
                    prop_assert!(newcomers.get(place, &other).is_none() && !newcomers.remove(place, &other));
                    prop_assert!(newcomers.remove(place, &key(number)));
                    prop_assert!(newcomers.get(place, &key(number)).is_none());
                    prop_assert!(!newcomers.remove(place, &key(number)));
                }
                let bytes: usize = model.iter().map(|(_, _, bytes)| bytes).sum();
                prop_assert_eq!((newcomers.len(), newcomers.bytes()), (model.len(), bytes));
                prop_assert!(bytes <= ROOM && newcomers.slots.len() <= newcomers.max_slots);
                for (place, number, size) in &model {
                    let packed = newcomers.get(*place, &key(*number)).map(|packed| (**packed).clone());
                    prop_assert_eq!(packed, Some(vec![*number; size - OVERHEAD]));
                }
                prop_assert!(read.as_ref().is_none_or(|read| read.iter().all(|byte| *byte == read[0])));
                let all: Vec<u8> = model.iter().map(|(_, number, _)| *number).collect();
                prop_assert_eq!((walk(&newcomers, 1), walk(&newcomers, 7)), (all.clone(), all));
            }
        }
    }

    #[test]
    fn the_next_object_gets_the_memory_of_the_oldest() {
        let mut newcomers = Newcomers::new(2 * (OVERHEAD + 100));
        let mut bytes = vec![1; 100];
        let memory = bytes.as_ptr();
        assert!(newcomers.add(key(1), &mut bytes).is_some() && bytes.capacity() == 0);
        (2..4).for_each(|number| {
            bytes = vec![number; 100];
            assert!(newcomers.add(key(number), &mut bytes).is_some());
        });
        assert_eq!((bytes.as_ptr(), bytes.capacity()), (memory, 100));
    }

    #[test]
    fn a_walk_goes_on_after_its_place_is_gone() {
        let mut newcomers = Newcomers::new(3 * (OVERHEAD + 1));
        let add = |newcomers: &mut Newcomers, number| newcomers.add(key(number), &mut vec![0]).is_some();
        (0..3).for_each(|number| assert!(add(&mut newcomers, number)));
        let (keys, next) = newcomers.from(None, 1);
        assert_eq!(keys, [key(0)]);
        (3..6).for_each(|number| assert!(add(&mut newcomers, number)));
        assert_eq!(newcomers.from(next, 9).0, [key(3), key(4), key(5)]);
    }
}
