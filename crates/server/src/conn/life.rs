//! One request, until its response was sent and what follows that is done: the same for every version of HTTP and for
//! `stream`.

use engine::{After, End, Flow, Inside, Progress};
use journal::Level;
use std::task::{Context, Poll, ready};
use wire::memory::Held;

/// One request, until all that follows its response is over.
pub(super) struct Life {
    pub(super) request: engine::Request,
    stage: Stage,
    /// The memory that the request holds while it waits.
    held: Held,
}

#[derive(Clone, Copy, Default)]
enum Stage {
    /// The response is made and sent.
    #[default]
    Responding,
    /// The sender takes the rest of what belongs to the request.
    TakingRest,
    /// What follows the response is done (`post_action`).
    FollowingUp,
    /// All is over.
    Over,
}

/// The sender of a request as its life needs it: a connection or a stream of one version.
pub(super) trait Sender: End {
    /// What a log says was under way when a response is cut off.
    const SENDING: &'static str = "sending response to client";

    /// Takes note of how the response ended.
    fn responded(&mut self, flow: &mut Flow, after: After);

    /// Takes the rest of what belongs to the request, such as its body. What follows the response waits for it.
    fn poll_rest(&mut self, cx: &mut Context<'_>, flow: &mut Flow) -> Poll<()> {
        let _ = (cx, flow);
        Poll::Ready(())
    }

    /// Whether what was done for the client is logged here.
    fn is_logged(&self, flow: &Flow) -> bool {
        let _ = flow;
        true
    }

    /// How much memory the sender holds for the request while it waits, in bytes.
    fn memory(&self) -> usize;
}

impl Life {
    pub(super) fn new(request: engine::Request) -> Life {
        Life { request, stage: Stage::default(), held: Held::default() }
    }

    /// Goes on from what the handlers came to.
    pub(super) fn start(&mut self, progress: Progress) {
        self.request.start(progress);
    }

    /// Goes on; ready when the request is over and logged.
    pub(super) fn poll<S: Sender>(&mut self, cx: &mut Context<'_>, sender: &mut S) -> Poll<()> {
        let polled = self.poll_stages(cx, sender);
        if polled.is_pending() {
            self.held.set(sender.memory() + self.memory());
        }
        polled
    }

    #[inline]
    fn poll_stages<S: Sender>(&mut self, cx: &mut Context<'_>, sender: &mut S) -> Poll<()> {
        loop {
            let Life { request, stage, .. } = self;
            *stage = match *stage {
                Stage::Responding => {
                    let after = ready!(request.poll(cx, sender));
                    if let After::Cut(error) = &after {
                        let text = format!("{} while {}", net::system_message(error), S::SENDING);
                        request.flow.exchange.log(Level::Info, &text);
                    }
                    let is_answered = matches!(after, After::Sent | After::Cut(_));
                    sender.responded(&mut request.flow, after);
                    if is_answered { Stage::TakingRest } else { Stage::Over }
                }
                Stage::TakingRest => {
                    ready!(sender.poll_rest(cx, &mut request.flow));
                    if request.follow_up() { Stage::FollowingUp } else { Stage::Over }
                }
                Stage::FollowingUp => {
                    // It goes on without the client.
                    let mut end = Inside::default();
                    let polled = request.poll_follow_up(cx, &mut end);
                    end.detached.into_iter().for_each(|request| sender.detach(request));
                    if polled.is_pending() {
                        // Polled only so that `wake_all` reaches this request when a site is past.
                        let _: Option<Poll<()>> = sender.timer().map(|timer| timer.poll(cx));
                        return Poll::Pending;
                    }
                    Stage::Over
                }
                Stage::Over => {
                    if sender.is_logged(&request.flow) {
                        request.flow.log();
                    }
                    return Poll::Ready(());
                }
            };
        }
    }

    /// Logs the request, whose connection ends before the response was sent whole.
    pub(super) fn cut_off(&mut self) {
        self.request.cut_off();
    }

    /// How much memory the head of the request has, in bytes.
    fn memory(&self) -> usize {
        let request = &self.request.flow.exchange.request;
        let args = request.args.as_ref().map_or(0, Vec::capacity);
        let texts = request.uri.capacity() + request.path.capacity() + args;
        request.head.memory() + texts + request.host.capacity()
    }

    /// Ends the request, and with it all that is attached to it. The memory serves another one.
    pub(super) fn clear(&mut self) {
        self.request.clear();
        (self.stage, self.held) = (Stage::default(), Held::default());
    }
}
