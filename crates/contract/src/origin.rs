//! What a configuration is read in: where its files come from, and what the configuration before it left.

use crate::inputs::System;
use conf::Inputs;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Where the files of a configuration come from, and what it shares with the one before it.
pub struct Origin {
    /// The files, and the names of other machines. Whatever is read for a configuration is read by this.
    pub inputs: Arc<dyn Inputs + Send + Sync>,
    before: Mutex<Kept>,
    now: Mutex<Kept>,
}

/// State that outlives a configuration, by what defines it.
#[derive(Clone, Default)]
pub struct Kept(HashMap<Key, Vec<State>>);

/// A type and the text that defines one of its kind.
type Key = (TypeId, Box<[u8]>);

type State = Arc<dyn Any + Send + Sync>;

impl Origin {
    /// The origin of a configuration that comes after another one.
    pub fn new(inputs: Arc<dyn Inputs + Send + Sync>, before: Kept) -> Origin {
        Origin { inputs, before: Mutex::new(before), now: Mutex::default() }
    }

    /// State of the configuration before this one that was defined by the same text, or else new state. Of several
    /// with the same definition each is another, in the order in which they are asked for.
    ///
    /// The state may hold nothing that is bound to its configuration, such as a template.
    pub fn keep<T: Any + Send + Sync>(&self, definition: &[u8], make: impl FnOnce() -> T) -> Arc<T> {
        let key = (TypeId::of::<T>(), definition.into());
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let index = now.0.get(&key).map_or(0, Vec::len);
        let state = self.find(&key, index).unwrap_or_else(|| Arc::new(make()));
        now.0.entry(key).or_default().push(Arc::clone(&state) as _);
        state
    }

    /// As [`Origin::keep`], but whoever asks with the same definition is given the same.
    ///
    /// # Errors
    /// What `make` says.
    pub fn share<T: Any + Send + Sync, E>(
        &self,
        definition: &[u8],
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let key = (TypeId::of::<T>(), definition.into());
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = now.0.get(&key).and_then(|states| Arc::clone(states.first()?).downcast().ok());
        if let Some(state) = shared {
            return Ok(state);
        }
        let state = match self.find(&key, 0) {
            Some(state) => state,
            None => Arc::new(make()?),
        };
        now.0.entry(key).or_default().push(Arc::clone(&state) as _);
        Ok(state)
    }

    fn find<T: Any + Send + Sync>(&self, key: &Key, index: usize) -> Option<Arc<T>> {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(before.0.get(key)?.get(index)?).downcast().ok()
    }

    /// All state of this configuration, for the one after it. What was not asked for until now is given up.
    pub fn finish(&self) -> Kept {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = Kept::default();
        std::mem::take(&mut *self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Default for Origin {
    /// The system, and nothing before.
    fn default() -> Origin {
        Origin::new(Arc::new(System), Kept::default())
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kept").field(&self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Kept, Origin};
    use crate::inputs::System;
    use std::sync::Arc;

    fn after(before: &Origin) -> Origin {
        Origin::new(Arc::new(System), before.finish())
    }

    #[test]
    fn the_same_definition_keeps_its_state() {
        let first = Origin::default();
        let (zone, other) = (first.keep(b"zone a", || 1), first.keep(b"zone b", || 2));
        let second = after(&first);
        assert!(Arc::ptr_eq(&second.keep(b"zone b", || 0), &other));
        assert_eq!(*second.keep(b"zone c", || 3), 3);
        assert_eq!(*second.keep(b"zone b", || 4_u8), 4, "of another type");
        let third = after(&second);
        assert!(!Arc::ptr_eq(&third.keep(b"zone a", || 1), &zone), "it was gone for a while");
    }

    #[test]
    fn what_is_shared_is_the_same_for_all() {
        let first = Origin::default();
        let share = |origin: &Origin, number: u8| origin.share(b"x", || Ok::<_, ()>(number)).unwrap();
        let one = share(&first, 1);
        assert!(Arc::ptr_eq(&one, &share(&first, 2)));
        assert!(Arc::ptr_eq(&one, &share(&after(&first), 3)));
        assert_eq!(first.share(b"y", || Err::<u8, _>("no")), Err("no"));
    }

    #[test]
    fn equal_definitions_are_told_apart_by_their_order() {
        let first = Origin::default();
        let (one, two) = (first.keep(b"x", || 1), first.keep(b"x", || 2));
        assert!(!Arc::ptr_eq(&one, &two));
        let second = after(&first);
        assert!(Arc::ptr_eq(&second.keep(b"x", || 0), &one));
        assert!(Arc::ptr_eq(&second.keep(b"x", || 0), &two));
        assert_eq!(*second.keep(b"x", || 3), 3);
        assert_eq!(*Origin::new(Arc::new(System), Kept::default()).keep(b"x", || 5), 5);
    }
}
