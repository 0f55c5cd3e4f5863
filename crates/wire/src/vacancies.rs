//! Free places of a table. The first ones are taken first, so that what is free gathers at the end, where it is given
//! back: a thread that once had many connections does not keep the memory for them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// So many places a table keeps in any case.
const KEPT: usize = 256;

/// The free places of one table.
#[derive(Debug, Default)]
pub struct Vacancies {
    /// Some may be after the end of the table by now.
    free: BinaryHeap<Reverse<usize>>,
}

impl Vacancies {
    /// Takes a place in a table of this length; without one the table has to grow.
    pub fn take(&mut self, length: usize) -> Option<usize> {
        let Reverse(first) = self.free.pop()?;
        if first < length {
            return Some(first);
        }
        // All others are behind the end, too.
        self.free.clear();
        None
    }

    /// Takes note that a place is free now, and gives back those at the end of the table that are.
    pub fn give<T>(&mut self, place: usize, table: &mut Vec<T>, is_free: impl Fn(&T) -> bool) {
        self.free.push(Reverse(place));
        while table.len() > KEPT && table.last().is_some_and(&is_free) {
            table.pop();
        }
        let length = table.len().max(KEPT);
        if table.capacity() > 4 * length {
            table.shrink_to(2 * length);
            self.free.retain(|Reverse(place)| *place < table.len());
            self.free.shrink_to(2 * length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, Vacancies};

    #[derive(Default)]
    struct Table {
        taken: Vec<bool>,
        vacancies: Vacancies,
    }

    impl Table {
        fn take(&mut self) -> usize {
            let place = self.vacancies.take(self.taken.len()).unwrap_or_else(|| {
                self.taken.push(false);
                self.taken.len() - 1
            });
            assert!(!std::mem::replace(&mut self.taken[place], true), "{place} was taken");
            place
        }

        fn give(&mut self, place: usize) {
            self.taken[place] = false;
            self.vacancies.give(place, &mut self.taken, |taken| !taken);
        }
    }

    #[test]
    fn what_is_free_at_the_end_is_given_back() {
        let mut table = Table::default();
        let many = 40 * KEPT;
        (0..many).for_each(|place| assert_eq!(table.take(), place));
        (0..many - 1).for_each(|place| table.give(place));
        assert_eq!(table.taken.len(), many, "the last one is taken");
        assert_eq!(table.take(), 0);
        table.give(many - 1);
        assert_eq!(table.taken.len(), KEPT);
        assert!(table.taken.capacity() <= 4 * KEPT && table.vacancies.free.capacity() <= 4 * KEPT);
        (1..many).for_each(|place| assert_eq!(table.take(), place));
        (0..many).rev().for_each(|place| table.give(place));
        assert!(table.vacancies.free.len() <= many && table.taken.capacity() <= 4 * KEPT);
    }

    #[test]
    fn a_place_is_given_to_one_at_a_time() {
        let (mut table, mut held, mut random) = (Table::default(), Vec::new(), 1_u64);
        for step in 0..100_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let grows = (step / 10_000) % 2 == 0;
            if held.is_empty() || (random >> 33) % 10 < if grows { 6 } else { 4 } {
                held.push(table.take());
            } else {
                let at = usize::try_from(random >> 40).unwrap() % held.len();
                table.give(held.swap_remove(at));
            }
        }
        assert_eq!(table.taken.iter().filter(|taken| **taken).count(), held.len());
    }
}
