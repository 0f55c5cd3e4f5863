//! Whatever nginx answers is what Fulmar has to answer: tables of requests, run against both.
//!
//! What differs on purpose is not here but in `differences`, with a reason each.

mod locations;
mod server_names;
mod variables;
