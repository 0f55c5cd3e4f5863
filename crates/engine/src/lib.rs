//! One request: from the first step of a handler to the last byte of its response, for every kind of sender. Nothing here knows a
//! socket or a version of HTTP; what a request asks of its sender is an [`End`].

#![forbid(unsafe_code)]

mod cold;
mod collecting;
mod detached;
mod doing;
mod end;
mod error_page;
mod hints;
mod inner;
mod keepalive;
mod limit;
mod pace;
mod pipeline;
#[cfg(test)]
mod prototypes;
mod redirect;
mod request;
mod sending;
mod served;
#[cfg(test)]
mod trials;
mod tunnel;

pub use cold::{Read, Unknown, read, warm};
pub use detached::Detached;
pub use end::{End, Sent};
pub use inner::Inside;
pub use limit::is_limited;
pub use pace::Pace;
pub use pipeline::{Flow, Progress};
pub use request::{After, Request};
pub use served::ServedScope;
