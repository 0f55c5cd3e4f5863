//! Where the files of a configuration come from, and which state it takes over from the previous configuration.

use super::Identity;
use crate::Inputs;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Where the files of a configuration come from, and which state it takes over from the previous configuration.
pub struct Origin {
    /// Reads files and resolves host names. A configuration reads everything through it.
    pub inputs: Arc<dyn Inputs + Send + Sync>,
    before: Mutex<Kept>,
    now: Mutex<Kept>,
}

/// State that survives a reload, by type and identity.
#[derive(Clone, Default)]
pub struct Kept(HashMap<Key, Vec<State>>);

type Key = (TypeId, Identity);

type State = Arc<dyn Any + Send + Sync>;

impl Origin {
    /// The origin of a configuration that replaces the one which left `before`.
    pub fn new(inputs: Arc<dyn Inputs + Send + Sync>, before: Kept) -> Origin {
        Origin { inputs, before: Mutex::new(before), now: Mutex::default() }
    }

    /// Returns the state with this identity from the previous configuration, or new state. The second call with the same
    /// identity returns the second such state, and so on.
    ///
    /// The state must not contain anything that belongs to its configuration, such as a template.
    pub fn keep<T: Any + Send + Sync>(&self, identity: Identity, make: impl FnOnce() -> T) -> Arc<T> {
        let key = (TypeId::of::<T>(), identity);
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let index = now.0.get(&key).map_or(0, Vec::len);
        let state = self.find(&key, index).unwrap_or_else(|| Arc::new(make()));
        now.0.entry(key).or_default().push(Arc::clone(&state) as _);
        state
    }

    /// Like [`Origin::keep`], but every call with the same identity returns the same state.
    ///
    /// # Errors
    /// The error of `make`.
    pub fn share<T: Any + Send + Sync, E>(
        &self,
        identity: Identity,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let key = (TypeId::of::<T>(), identity);
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

    /// Takes all state of this configuration for the next one. State that this configuration did not ask for is dropped.
    pub fn finish(&self) -> Kept {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = Kept::default();
        std::mem::take(&mut *self.now.lock().unwrap_or_else(PoisonError::into_inner))
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
    use crate::Disk;
    use crate::settings::Identity;
    use std::sync::Arc;

    fn origin() -> Origin {
        Origin::new(Arc::new(Disk), Kept::default())
    }

    fn after(before: &Origin) -> Origin {
        Origin::new(Arc::new(Disk), before.finish())
    }

    fn id(text: &[u8]) -> Identity {
        Identity::default().bytes(text)
    }

    #[test]
    fn equal_identities_keep_their_state() {
        let first = origin();
        let (zone, other) = (first.keep(id(b"zone a"), || 1), first.keep(id(b"zone b"), || 2));
        let second = after(&first);
        assert!(Arc::ptr_eq(&second.keep(id(b"zone b"), || 0), &other));
        assert_eq!(*second.keep(id(b"zone c"), || 3), 3);
        assert_eq!(*second.keep(id(b"zone b"), || 4_u8), 4, "of another type");
        let third = after(&second);
        assert!(!Arc::ptr_eq(&third.keep(id(b"zone a"), || 1), &zone), "it was gone for a while");
    }

    #[test]
    fn share_returns_one_state_to_all_callers() {
        let first = origin();
        let share = |origin: &Origin, number: u8| origin.share(id(b"x"), || Ok::<_, ()>(number)).unwrap();
        let one = share(&first, 1);
        assert!(Arc::ptr_eq(&one, &share(&first, 2)));
        assert!(Arc::ptr_eq(&one, &share(&after(&first), 3)));
        assert_eq!(first.share(id(b"y"), || Err::<u8, _>("no")), Err("no"));
    }

    #[test]
    fn keep_tells_equal_identities_apart_by_their_order() {
        let first = origin();
        let (one, two) = (first.keep(id(b"x"), || 1), first.keep(id(b"x"), || 2));
        assert!(!Arc::ptr_eq(&one, &two));
        let second = after(&first);
        assert!(Arc::ptr_eq(&second.keep(id(b"x"), || 0), &one));
        assert!(Arc::ptr_eq(&second.keep(id(b"x"), || 0), &two));
        assert_eq!(*second.keep(id(b"x"), || 3), 3);
        assert_eq!(*origin().keep(id(b"x"), || 5), 5);
    }
}
