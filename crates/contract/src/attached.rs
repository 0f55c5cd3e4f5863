//! Values of features that last as long as an exchange.

use crate::Budget;
use http::{Fields, Status};
use std::any::{Any, TypeId};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

/// Which requests see a value that a feature attaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// This exchange alone: the value is about the way that it is answered. A subrequest may be answered at the same time.
    Own,
    /// The client's request and all of its subrequests: the value is about the client, or decided once for all of them.
    Shared,
}

/// The values of one exchange, and what it shares with its subrequests.
#[derive(Default)]
pub(crate) struct Attached {
    /// Made when something is shared, so that most requests do without.
    shared: OnceCell<Rc<Shared>>,
    own: RefCell<Values>,
    /// Memory that a feature left for a further request.
    left: RefCell<Option<Box<dyn Any>>>,
    /// Early hints that the engine did not take yet.
    pub(crate) hints: RefCell<Vec<(Status, Fields)>>,
}

/// What a request and its subrequests have in common.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) slots: RefCell<Vec<Option<Box<[u8]>>>>,
    attached: RefCell<Values>,
    pub(crate) budget: Rc<Budget>,
}

type Values = Vec<(TypeId, Rc<dyn Any>)>;

impl Attached {
    /// Nothing but what another exchange shares.
    pub(crate) fn sharing(other: &Attached) -> Attached {
        Attached { shared: Rc::clone(other.shared()).into(), ..Attached::default() }
    }

    /// Forgets all but the memory that was left.
    pub(crate) fn clear(&mut self) {
        let Attached { shared, own, left: _, hints } = self;
        if shared.get_mut().is_some_and(|shared| !Shared::clear(shared)) {
            *shared = OnceCell::new();
        }
        own.get_mut().clear();
        hints.get_mut().clear();
    }

    pub(crate) fn shared(&self) -> &Rc<Shared> {
        self.shared.get_or_init(Rc::default)
    }

    pub(crate) fn shared_so_far(&self) -> Option<&Rc<Shared>> {
        self.shared.get()
    }

    #[inline]
    pub(crate) fn add<T: 'static>(&self, reach: Reach, value: Rc<T>) {
        let values = match reach {
            Reach::Own => &self.own,
            Reach::Shared => &self.shared().attached,
        };
        values.borrow_mut().push((TypeId::of::<T>(), value));
    }

    #[inline]
    pub(crate) fn get<T: 'static>(&self) -> Option<Rc<T>> {
        last(&self.own.borrow()).or_else(|| last(&self.shared.get()?.attached.borrow()))
    }

    /// The value that this exchange alone has.
    pub(crate) fn own<T: 'static>(&self) -> Option<Rc<T>> {
        last(&self.own.borrow())
    }

    pub(crate) fn leave(&self, memory: Box<dyn Any>) {
        let before = self.left.replace(Some(memory));
        drop(before);
    }

    pub(crate) fn left<T: 'static>(&self) -> Option<Box<T>> {
        self.left.take()?.downcast().ok()
    }
}

impl Shared {
    /// Forgets all and keeps the memory; `false` if another request still uses it.
    fn clear(shared: &mut Rc<Shared>) -> bool {
        let Some(Shared { slots, attached, budget }) = Rc::get_mut(shared) else { return false };
        slots.get_mut().clear();
        attached.get_mut().clear();
        Rc::get_mut(budget).map(|budget| *budget = Budget::default()).is_some()
    }
}

/// The last value of a type.
#[inline]
fn last<T: 'static>(values: &Values) -> Option<Rc<T>> {
    let (_, found) = values.iter().rev().find(|(kind, _)| *kind == TypeId::of::<T>())?;
    Rc::clone(found).downcast().ok()
}

#[cfg(test)]
mod tests {
    use super::{Attached, Reach};
    use std::rc::Rc;

    #[test]
    fn a_subrequest_sees_what_is_shared_and_nothing_that_is_its_requests_own() {
        let mut request = Attached::default();
        request.add(Reach::Own, Rc::new(1));
        request.add(Reach::Shared, Rc::new(2));
        request.add(Reach::Own, Rc::new("own"));
        let subrequest = Attached::sharing(&request);
        let seen = |attached: &Attached| (attached.get::<i32>().as_deref().copied(), attached.get::<&str>());
        assert_eq!(seen(&request), (Some(1), Some(Rc::new("own"))), "an own value comes first");
        assert_eq!(seen(&subrequest), (Some(2), None));
        request.clear();
        assert_eq!((seen(&request), seen(&subrequest)), ((None, None), (Some(2), None)));
    }

    #[test]
    fn memory_that_was_left_outlasts_the_request() {
        let mut attached = Attached::default();
        attached.leave(Box::new(1));
        attached.leave(Box::new(2));
        attached.clear();
        assert_eq!(attached.left::<i32>().as_deref(), Some(&2));
        assert!(attached.left::<i32>().is_none());
    }
}
