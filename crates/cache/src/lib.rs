//! Responses of other servers that are kept for further requests: the index of what is there, the files, and the rules
//! by which a response may be kept and for how long.
//!
//! A [`Zone`] is the cache of one `keys_zone`, which all threads share. A request looks its [`Key`] up in the zone, reads
//! the [`Object`], or gets a [`FillRight`] and writes a new one by a [`Writer`]. This crate knows no protocol and no
//! configuration, and starts no thread: a caller gives it the time, and calls what blocks where blocking is allowed.

#![forbid(unsafe_code)]

mod arriving;
mod freshness;
mod head;
mod index;
mod key;
mod lookup;
mod newcomers;
mod object;
mod removals;
mod residents;
pub mod rfc9111;
mod selection;
mod walk;
mod writer;
mod zone;

pub use arriving::{Arrived, Arriving, Follower, Rest};
pub use freshness::{Freshness, Ignoring, Times, ValidTimes};
pub use head::{Head, HeadError, HeadParts, STARTS_MAX, new_family, reason_of};
pub use key::{Key, KeyPath, Levels};
pub use lookup::{
    CacheStatus, Fit, Lookup, Reason, Renewal, RenewalStep, Sought, Storing, Terms, Verdict, starts_beyond,
};
pub use object::{Check, Content, Demand, Object, Read, ReadError, Stamp};
pub use residents::REMOVAL_NOTICED_AFTER;
pub use rfc9111::Rules;
pub use selection::Selection;
pub use walk::{Batch, Walk};
pub use writer::{Whole, Writer};
pub use zone::{Asking, DiskUse, FillRight, Look, Reading, Totals, Zone};
