//! The questions of a thread that have no answer yet, and who waits for the answers.

use super::{Unresolved, Valid};
use contract::hash::KeyedMap;
use dns::{Code, Name, Wanted};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// How many questions a thread may have open at once: each has sockets.
const OPEN_MAX: usize = 256;

type Key = (u64, Name, Wanted);

thread_local! {
    /// The questions of this thread that have no answer yet. Each leaves when its task ends.
    static OPEN: RefCell<KeyedMap<Key, Rc<Asked>>> = RefCell::default();
}

/// A question that was asked.
#[derive(Debug)]
pub(super) struct Asked {
    key: Key,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    outcome: Option<Result<Valid, Code>>,
    waiters: BTreeMap<u64, Waker>,
    /// How many waiters there were.
    serial: u64,
    /// The task that asks. It has to end if it is woken without a place among the open questions.
    task: Option<Waker>,
    is_given_up: bool,
}

/// Waits for the answer to a question.
#[derive(Debug)]
pub(super) struct Waiter {
    asked: Rc<Asked>,
    number: u64,
}

/// The open question of this key, and whether it is new and has to be asked.
///
/// # Errors
/// Too many questions are open.
pub(super) fn open(id: u64, name: &Name, wanted: Wanted) -> Result<(Rc<Asked>, bool), Unresolved> {
    let key = (id, name.clone(), wanted);
    OPEN.with_borrow_mut(|open| {
        if let Some(asked) = open.get(&key) {
            return Ok((Rc::clone(asked), false));
        }
        if open.len() >= OPEN_MAX {
            give_up(open);
        }
        if open.len() >= OPEN_MAX {
            return Err(Unresolved::Busy);
        }
        let asked = Rc::new(Asked { key: key.clone(), state: RefCell::default() });
        open.insert(key, Rc::clone(&asked));
        Ok((asked, true))
    })
}

/// Makes room: an answer that no request waits for is not needed as much as a new one.
fn give_up(open: &mut KeyedMap<Key, Rc<Asked>>) {
    open.retain(|_, asked| {
        let is_awaited = asked.is_awaited();
        if !is_awaited {
            asked.state.borrow_mut().is_given_up = true;
            let task = asked.state.borrow_mut().task.take();
            task.into_iter().for_each(Waker::wake);
        }
        is_awaited
    });
}

impl Asked {
    pub(super) fn name(&self) -> &Name {
        &self.key.1
    }

    pub(super) fn wanted(&self) -> Wanted {
        self.key.2
    }

    fn enter(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        state.serial += 1;
        let number = state.serial;
        state.waiters.insert(number, Waker::noop().clone());
        number
    }

    /// Whether anything waits for the answer.
    pub(super) fn is_awaited(&self) -> bool {
        !self.state.borrow().waiters.is_empty()
    }

    /// Whether the task that asks has to end. It is woken when that changes.
    pub(super) fn is_given_up(&self, cx: &mut Context<'_>) -> bool {
        let mut state = self.state.borrow_mut();
        state.task = Some(cx.waker().clone());
        state.is_given_up
    }

    /// Hands the outcome to all that wait. The first one counts.
    pub(super) fn finish(&self, outcome: Result<Valid, Code>) {
        let mut state = self.state.borrow_mut();
        state.outcome.get_or_insert(outcome);
        let waiters: Vec<Waker> = state.waiters.values_mut().map(|waker| waker.clone()).collect();
        drop(state);
        waiters.into_iter().for_each(Waker::wake);
    }

    /// Makes room for the same question: this one is over.
    pub(super) fn leave(self: &Rc<Asked>) {
        // At the end of a thread its storage may be gone before.
        let _ = OPEN.try_with(|open| {
            let mut open = open.borrow_mut();
            if open.get(&self.key).is_some_and(|asked| Rc::ptr_eq(asked, self)) {
                open.remove(&self.key);
            }
        });
    }
}

impl Waiter {
    pub(super) fn new(asked: Rc<Asked>) -> Waiter {
        let number = asked.enter();
        Waiter { asked, number }
    }

    /// Ready with the outcome.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Valid, Code>> {
        let mut state = self.asked.state.borrow_mut();
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.clone());
        }
        let waker = state.waiters.entry(self.number).or_insert_with(|| cx.waker().clone());
        waker.clone_from(cx.waker());
        Poll::Pending
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let waker = self.asked.state.borrow_mut().waiters.remove(&self.number);
        drop(waker);
    }
}
