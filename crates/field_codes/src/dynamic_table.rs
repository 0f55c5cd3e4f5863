//! The dynamic table (RFC 7541, section 2.3.2; RFC 9204, section 3.2).

use std::collections::VecDeque;

/// What an entry counts besides its texts, in bytes (RFC 7541, section 4.1; RFC 9204, section 3.2.1).
pub const ENTRY_OVERHEAD: usize = 32;

/// The memory of texts grows by so many bytes at least, and no more of it is unused: an idle connection keeps it.
const GROWTH: usize = 512;

/// A dynamic table. Its texts follow each other in one piece of memory.
#[derive(Debug, Default)]
pub struct DynamicTable {
    texts: Vec<u8>,
    /// The newest entry is the first.
    entries: VecDeque<Entry>,
    /// The size of all entries as the RFC counts it, in bytes.
    size: usize,
    size_max: usize,
}

/// Where the texts of an entry stand.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u32,
    name_length: u32,
    value_length: u32,
    /// Of name and value, to find an entry fast.
    hash: u32,
}

impl Entry {
    fn length(self) -> usize {
        self.name_length as usize + self.value_length as usize
    }

    fn size(self) -> usize {
        self.length() + ENTRY_OVERHEAD
    }
}

impl DynamicTable {
    /// An empty table of up to so many bytes.
    pub fn new(size_max: usize) -> DynamicTable {
        DynamicTable { size_max, ..DynamicTable::default() }
    }

    /// Changes how large the table may be, which evicts entries.
    pub fn resize(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict(0);
    }

    /// How large the table may be, in bytes.
    pub fn size_max(&self) -> usize {
        self.size_max
    }

    /// How much memory the table has, in bytes.
    pub fn memory(&self) -> usize {
        self.texts.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Adds an entry in front of all others. One that is larger than the table empties it (RFC 7541, section 4.4).
    pub fn add(&mut self, name: &[u8], value: &[u8], hash: u32) {
        let size = name.len() + value.len() + ENTRY_OVERHEAD;
        self.evict(size);
        if size > self.size_max {
            return;
        }
        let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let entry = Entry {
            start: number(self.texts.len()),
            name_length: number(name.len()),
            value_length: number(value.len()),
            hash,
        };
        let length = name.len() + value.len();
        if self.texts.capacity() - self.texts.len() < length {
            self.texts.reserve_exact(length.max(GROWTH));
        }
        self.texts.extend_from_slice(name);
        self.texts.extend_from_slice(value);
        self.entries.push_front(entry);
        self.size += size;
    }

    /// The name and the value of an entry; 0 is the newest one.
    pub fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let entry = self.entries.get(index)?;
        let texts = &self.texts[entry.start as usize..][..entry.length()];
        Some(texts.split_at(entry.name_length as usize))
    }

    /// The place of an entry with this name and value.
    pub fn find(&self, name: &[u8], value: &[u8], hash: u32) -> Option<usize> {
        self.entries.iter().enumerate().find_map(|(index, entry)| {
            (entry.hash == hash && self.get(index) == Some((name, value))).then_some(index)
        })
    }

    /// The place of an entry with this name.
    pub fn find_name(&self, name: &[u8]) -> Option<usize> {
        (0..self.entries.len()).find(|&index| self.get(index).is_some_and(|(own, _)| own == name))
    }

    /// Evicts the oldest entries until there is room for so many bytes.
    fn evict(&mut self, wanted: usize) {
        while self.size + wanted > self.size_max
            && let Some(entry) = self.entries.pop_back()
        {
            self.size -= entry.size();
        }
        let Some(oldest) = self.entries.back() else {
            self.texts.clear();
            return;
        };
        // The texts of evicted entries stand in front. They are removed only when they are many.
        let unused = oldest.start as usize;
        if unused > GROWTH {
            self.texts.drain(..unused);
            for entry in &mut self.entries {
                entry.start -= u32::try_from(unused).unwrap_or(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DynamicTable, GROWTH};

    #[test]
    fn entries_are_evicted_oldest_first() {
        let mut table = DynamicTable::new(3 * 34);
        for name in [b"a", b"b", b"c", b"d"] {
            table.add(name, b"1", 0);
        }
        let names: Vec<_> = (0..4).map_while(|index| table.get(index)).map(|(name, _)| name[0]).collect();
        assert_eq!(names, b"dcb");
        assert_eq!((table.find(b"c", b"1", 0), table.find(b"c", b"2", 0)), (Some(1), None));
        assert_eq!((table.find_name(b"b"), table.find_name(b"a")), (Some(2), None));
        table.resize(34);
        assert_eq!((table.get(0).unwrap().0, table.get(1)), (&b"d"[..], None));
        table.add(b"too", &[0; 100], 0);
        assert_eq!((table.get(0), table.size), (None, 0));
    }

    #[test]
    fn texts_do_not_pile_up() {
        let mut table = DynamicTable::new(1000);
        for index in 0..10_000 {
            let value = vec![index.to_string().as_bytes()[0]; index % 300];
            table.add(b"name", &value, 0);
            assert_eq!(table.get(0), Some((&b"name"[..], &value[..])));
            assert!(table.texts.capacity() <= 1000 + 2 * GROWTH && table.size <= 1000);
        }
    }
}
