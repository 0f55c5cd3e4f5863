//! Objects that have no file yet, in the order in which they came. The oldest one makes room for the next one, so a client
//! that asks for everything once only pushes out what came shortly before.

use crate::key::Key;
use crate::object::Object;
use std::collections::VecDeque;
use std::sync::Arc;

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
    object: Arc<Object>,
    bytes: usize,
}

/// The numbers of slots are counted up to this one, and from 0 again.
const NUMBER_MAX: u32 = (1 << 30) - 1;

impl Newcomers {
    /// Room for so many bytes of objects that take at least `least` bytes each.
    pub(crate) fn new(max_bytes: usize, least: usize) -> Newcomers {
        let max_slots = (max_bytes / least.max(1)).min(NUMBER_MAX as usize / 2);
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

    /// Adds an object, and returns its number; none if it is larger than the room for all. The keys that are gone are added to
    /// `gone`.
    pub(crate) fn add(
        &mut self,
        key: Key,
        object: &Arc<Object>,
        bytes: usize,
        gone: &mut Vec<Key>,
    ) -> Option<u32> {
        if bytes > self.max_bytes || self.max_slots == 0 {
            return None;
        }
        while self.bytes + bytes > self.max_bytes || self.slots.len() >= self.max_slots {
            let oldest = self.slots.pop_front()?;
            self.first = (self.first + 1) & NUMBER_MAX;
            if let Some(oldest) = oldest {
                self.bytes -= oldest.bytes;
                self.len -= 1;
                gone.push(oldest.key);
            }
        }
        let number = self.first.wrapping_add(u32::try_from(self.slots.len()).ok()?) & NUMBER_MAX;
        self.slots.push_back(Some(Newcomer { key, object: Arc::clone(object), bytes }));
        (self.bytes, self.len) = (self.bytes + bytes, self.len + 1);
        Some(number)
    }

    /// The object with a number, and its key.
    pub(crate) fn get(&self, number: u32) -> Option<(&Key, &Arc<Object>)> {
        let newcomer = self.slots.get(self.slot(number))?.as_ref()?;
        Some((&newcomer.key, &newcomer.object))
    }

    /// Removes the object with a number.
    pub(crate) fn remove(&mut self, number: u32) -> Option<(Key, Arc<Object>)> {
        let at = self.slot(number);
        let removed = self.slots.get_mut(at)?.take()?;
        (self.bytes, self.len) = (self.bytes - removed.bytes, self.len - 1);
        Some((removed.key, removed.object))
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
    use super::Newcomers;
    use crate::head::Head;
    use crate::key::Key;
    use crate::object::Object;
    use bytes::Bytes;
    use http::Fields;
    use proptest::prelude::*;
    use std::sync::Arc;

    const ROOM: usize = 100;

    fn object() -> Arc<Object> {
        Object::in_memory(Head::plain("a", Fields::new()), Bytes::new()).unwrap()
    }

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
            steps in proptest::collection::vec((any::<bool>(), any::<u8>(), 10_usize..130), 0..200),
        ) {
            let object = object();
            let mut newcomers = Newcomers { first, ..Newcomers::new(ROOM, 10) };
            let mut model = Vec::<(u32, u8, usize)>::new();
            for (adds, number, bytes) in steps {
                if adds {
                    let mut gone = Vec::new();
                    let place = newcomers.add(key(number), &object, bytes, &mut gone);
                    prop_assert_eq!(place.is_some(), bytes <= ROOM);
                    // Slots that were left empty may make the oldest leave earlier, but only the oldest.
                    let left: Vec<u8> = model.drain(..gone.len()).map(|(_, number, _)| number).collect();
                    prop_assert_eq!(left, gone.iter().map(|key| key.0[0]).collect::<Vec<_>>());
                    model.extend(place.map(|place| (place, number, bytes)));
                } else if !model.is_empty() {
                    let (place, number, _) = model.remove(usize::from(number) % model.len());
                    let (removed, _) = newcomers.remove(place).unwrap();
                    prop_assert_eq!(removed.0[0], number);
                    prop_assert!(newcomers.get(place).is_none() && newcomers.remove(place).is_none());
                }
                let bytes: usize = model.iter().map(|(_, _, bytes)| bytes).sum();
                prop_assert_eq!((newcomers.len(), newcomers.bytes()), (model.len(), bytes));
                prop_assert!(bytes <= ROOM && newcomers.slots.len() <= newcomers.max_slots);
                for (place, number, _) in &model {
                    prop_assert_eq!(newcomers.get(*place).map(|(key, _)| key.0[0]), Some(*number));
                }
                let all: Vec<u8> = model.iter().map(|(_, number, _)| *number).collect();
                prop_assert_eq!((walk(&newcomers, 1), walk(&newcomers, 7)), (all.clone(), all));
            }
        }
    }

    #[test]
    fn a_walk_goes_on_after_its_place_is_gone() {
        let (object, mut gone) = (object(), Vec::new());
        let mut newcomers = Newcomers::new(3, 1);
        (0..3).for_each(|number| assert!(newcomers.add(key(number), &object, 1, &mut gone).is_some()));
        let (keys, next) = newcomers.from(None, 1);
        assert_eq!(keys, [key(0)]);
        (3..6).for_each(|number| assert!(newcomers.add(key(number), &object, 1, &mut gone).is_some()));
        assert_eq!((newcomers.from(next, 9).0, gone.len()), (vec![key(3), key(4), key(5)], 3));
    }
}
