//! What a handler may answer, and the work that it may ask for.

use crate::{Body, Exchange, Task};
use bytes::Bytes;
use http::{ResponseHead, Status};
use journal::shares::Place;
use std::any::Any;
use std::time::Duration;

/// A feature's part in the processing of a request.
pub trait Handler: Send + Sync {
    /// Looks at the exchange and decides.
    fn run(&self, exchange: &mut Exchange) -> Step;

    /// Goes on with the outcome of the work that [`Handler::run`], or an earlier `resume`, asked for.
    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let _ = (exchange, outcome);
        Step::Next
    }
}

/// A handler's decision. Only the pipeline performs it.
pub enum Step {
    /// Nothing to say: on to the next handler.
    Next,
    /// In the access phase: this rule grants access, which under `satisfy any` settles the matter.
    Allow,
    /// Sends the exchange's response head with this body.
    Respond(Body),
    /// Ends with this status; `error_page` or the server provides the body.
    Finish(Status),
    /// Goes on elsewhere.
    Reroute(Reroute),
    /// Waits for work; [`Handler::resume`] is given the outcome.
    Await(Work),
}

/// Where processing goes on.
#[derive(Debug)]
pub enum Reroute {
    /// The `rewrite` directives changed the URI: a location is looked up again.
    Location,
    /// The path changed within the location: the the settings in `.htaccess` files are chosen again.
    Settings,
    /// An internal redirect to a URI, as if it had been asked for.
    Internal {
        /// The decoded path.
        path: Vec<u8>,
        /// The query, without `?`.
        args: Option<Vec<u8>>,
    },
    /// A URI that the administrator did not write: unlike with `Internal`, locations that are `internal` stay closed.
    Uri {
        /// The decoded path.
        path: Vec<u8>,
        /// The query, without `?`.
        args: Option<Vec<u8>>,
    },
    /// A named location.
    Named(Box<[u8]>),
}

/// Work that cannot be done at once.
pub enum Work {
    /// A delay.
    Sleep(Duration),
    /// A further turn, after those of other connections; this is its place among those that wait so.
    Yield(Place),
    /// The request's body, read whole into [`Request::body`](crate::Request::body).
    RequestBody,
    /// The request's body: in [`Request::body`](crate::Request::body) if all of it is there, else as it comes, by
    /// [`Turn::body`](crate::Turn::body); [`Request::streaming`](crate::Request::streaming) says so.
    RequestStream,
    /// A request inside of the server.
    Subrequest(Subrequest),
    /// Subrequests without a waiting request. They outlast this request and its client.
    Aside(Vec<Subrequest>),
    /// A function to run off the event loop, for what blocks.
    Job(Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>),
    /// Work of this thread, for what waits inside of this server. It is dropped if the client leaves.
    Task(Box<dyn Task>),
    /// Work of this thread that asks another server. An explanation ends before it begins.
    Upstream {
        /// The work.
        task: Box<dyn Task>,
        /// Whether it goes on without the client.
        lasts: bool,
    },
}

/// The result of the work.
pub enum Outcome {
    /// The delay is over, the turn has come, or the request's body is there, or on its way.
    Done,
    /// The subrequest's response.
    Subresponse(Subresponse),
    /// The response of a subrequest whose content comes as it is taken.
    Streamed(Streamed),
    /// A subrequest that the requester polls; its outcome is a [`Streamed`].
    Begun(Box<dyn Task>),
    /// The job's result.
    Job(Box<dyn Any + Send>),
    /// The task's result.
    Task(Box<dyn Any>),
    /// The work failed; the status says how.
    Failed(Status),
}

/// A request inside of the server, on behalf of another one, whose fields it has. It has its own URI, outcome and
/// captures; what is attached and the variables that are set belong to both. It is answered by the same virtual
/// server, may ask for what is `internal`, and is not checked for access once more.
#[derive(Debug)]
pub struct Subrequest {
    /// The decoded path.
    pub path: Vec<u8>,
    /// The query, without `?`.
    pub args: Option<Vec<u8>>,
    /// What is done with the content.
    pub content: Content,
    /// Whether the method is that of the request that asks; else it is GET.
    pub same_method: bool,
    /// Whether it has the body of the request that asks, as far as that was read.
    pub with_body: bool,
    /// Whether it repeats the request that asks, from the content phase on, in the same scope with the same captures.
    pub repeats: bool,
}

/// What is done with the content of a [`Subrequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The requester discards it.
    Unused,
    /// It is collected, and is an error where it is too long for that: [`Outcome::Subresponse`].
    Collected,
    /// It becomes a part of a body: [`Outcome::Streamed`].
    Streamed,
    /// The same, without waiting for the head: [`Outcome::Begun`], or in an explanation [`Outcome::Streamed`].
    Begun,
    /// There is none: the request is judged, and ends with 200 where its content would begin.
    Judged,
}

impl Subrequest {
    /// A GET without a body.
    pub fn get(path: impl Into<Vec<u8>>, content: Content) -> Subrequest {
        Subrequest {
            path: path.into(),
            args: None,
            content,
            same_method: false,
            with_body: false,
            repeats: false,
        }
    }
}

/// The response to a [`Subrequest`] that is over.
pub struct Subresponse {
    /// The exchange as it ended, with the head and all that variables show of it.
    pub exchange: Box<Exchange>,
    /// The content.
    pub content: Bytes,
}

/// The response to a [`Subrequest`] whose content is still to come.
pub struct Streamed {
    /// The head.
    pub head: Box<ResponseHead>,
    /// The content. What it waits for is done on behalf of the subrequest.
    pub body: Body,
}
