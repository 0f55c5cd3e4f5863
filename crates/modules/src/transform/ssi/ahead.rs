//! What a page includes: requested at the same time, sent in the order of the page.

use super::page::Common;
use super::source::{Expanding, Settings};
use crate::shared::blocks::{BLOCK, Block, Blocks};
use contract::{Body, Outcome, Piece, Pull, Streamed, Task, Turn};
use http::Status;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Poll;

/// How many of the pages that one page includes may be on their way at once.
const PARTS_MAX: usize = 16;

/// How many included pages of one request may be on their way at once. Beyond that, each page includes one after the other.
const PARTS_OF_REQUEST_MAX: usize = 64;

/// What was included, in the order of the page.
#[derive(Default)]
pub(super) struct Ahead(VecDeque<Included>);

/// An included page, with the text before it.
pub(super) struct Included {
    pub(super) text: Vec<u8>,
    /// What is sent if the answer is empty or an error.
    pub(super) block: Option<Vec<u8>>,
    /// What is sent if there is no answer.
    pub(super) error: Vec<u8>,
    /// Whether the page is not read on before this has been sent.
    pub(super) is_waited_for: bool,
    pub(super) content: Content,
    pub(super) settings: Settings,
    pub(super) common: Counted,
}

pub(super) enum Content {
    /// A request that is not answered yet.
    Begun(Box<dyn Task>),
    Body(Blocks),
}

/// What all pages of a request have in common, which counts the pages on their way.
pub(super) struct Counted(Rc<Common>);

impl Ahead {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the page is read on, with so much text after what was included.
    pub(super) fn has_room(&self, text: usize) -> bool {
        let Some(last) = self.0.back() else { return true };
        !last.is_waited_for && text as u64 <= BLOCK
    }

    /// Whether one more page may be requested before those on their way have been sent.
    pub(super) fn may_begin(&self, common: &Common) -> bool {
        self.is_empty() || (self.0.len() < PARTS_MAX && common.included.get() < PARTS_OF_REQUEST_MAX)
    }

    pub(super) fn add(&mut self, included: Included) {
        self.0.push_back(included);
    }

    /// Goes on with the requests, and with the content after the part that is sent now.
    pub(super) fn go_on(&mut self, turn: &mut Turn<'_, '_>) {
        for (index, part) in self.0.iter_mut().enumerate() {
            match &mut part.content {
                Content::Begun(_) => part.poll_answer(turn),
                Content::Body(body) if index > 0 => body.read_ahead(turn),
                Content::Body(_) => {}
            }
        }
    }

    /// The next of what is sent, or what has to be waited for; none if all has been sent.
    pub(super) fn send(&mut self, turn: &mut Turn<'_, '_>) -> Option<Pull> {
        loop {
            let part = self.0.front_mut()?;
            if !part.text.is_empty() {
                return Some(Pull::Piece(Piece::Bytes(std::mem::take(&mut part.text).into())));
            }
            let Content::Body(body) = &mut part.content else { return Some(Pull::Pending { lasts: false }) };
            match body.next(turn) {
                Block::Bytes(bytes) => {
                    part.block = None;
                    return Some(Pull::Piece(Piece::Bytes(bytes)));
                }
                Block::Await(work) => return Some(Pull::Await(work)),
                Block::Pending { lasts } => return Some(Pull::Pending { lasts }),
                Block::Failed => return Some(Pull::Failed),
                Block::End => match part.block.take() {
                    Some(block) => part.content = part.expand(block),
                    None => drop(self.0.pop_front()),
                },
            }
        }
    }

    /// Takes the outcome of what [`Ahead::send`] had to wait for.
    pub(super) fn resume(&mut self, outcome: Outcome) {
        if let Some(Included { content: Content::Body(body), .. }) = self.0.front_mut() {
            body.resume(outcome);
        }
    }

    /// Gets more of what is sent now while the client takes no more; tells whether there is such content.
    pub(super) fn read_ahead(&mut self, turn: &mut Turn<'_, '_>) -> bool {
        match self.0.front_mut() {
            Some(Included { content: Content::Body(body), .. }) => body.read_ahead(turn),
            Some(_) => {}
            None => return false,
        }
        true
    }
}

impl Included {
    fn poll_answer(&mut self, turn: &mut Turn<'_, '_>) {
        let Content::Begun(task) = &mut self.content else { return };
        let Poll::Ready(done) = task.poll(turn) else { return };
        let Content::Begun(task) = std::mem::take(&mut self.content) else { return };
        let answer = done.ok().and_then(|()| task.into_outcome().downcast::<Streamed>().ok());
        self.take_answer(answer.map(|answer| *answer));
    }

    /// Decides what is sent.
    pub(super) fn take_answer(&mut self, answer: Option<Streamed>) {
        let answer = answer.filter(|answer| self.block.is_none() || answer.head.status < Status::BAD_REQUEST);
        self.content = match (answer, self.block.is_some()) {
            (Some(answer), _) => Content::of(answer.body),
            (None, true) => Content::default(),
            (None, false) => Content::of(Body::bytes(std::mem::take(&mut self.error))),
        };
    }

    /// A block, whose commands are done in a separate page.
    fn expand(&self, block: Vec<u8>) -> Content {
        let Content::Body(content) = Content::of(Body::bytes(block)) else { return Content::default() };
        let page = Expanding::new(self.settings, Rc::clone(&self.common.0), content);
        Content::of(Body::Source(Box::new(page)))
    }
}

impl Content {
    /// A tunnel is no content.
    fn of(body: Body) -> Content {
        Blocks::of(body).map_or_else(|_| Content::default(), Content::Body)
    }
}

impl Default for Content {
    fn default() -> Content {
        Content::Body(Blocks::default())
    }
}

impl Counted {
    pub(super) fn new(common: &Rc<Common>) -> Counted {
        common.included.set(common.included.get() + 1);
        Counted(Rc::clone(common))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.included.set(self.0.included.get() - 1);
    }
}
