//! Other servers that requests are passed to, whatever protocol they speak: which one, over which
//! connection, how long to wait, and what is done when one fails.
//!
//! A protocol compiles its [`Options`] to [`Settings`], describes a request as a [`Call`], and speaks by a [`Dialogue`].
//! [`Conversation::work`] asks the servers. When one has answered, the conversation becomes the body of the response, and
//! its connection returns to the pool of its thread. A conversation over UDP becomes [`Datagrams`].

#![forbid(unsafe_code)]

mod attempts;
mod balance;
mod bind;
mod cache_options;
mod cache_purge;
mod cache_settings;
mod call;
mod client_tls;
mod conf_command;
mod conversation;
mod crc32;
mod datagrams;
mod denied;
mod dialogue;
mod failure;
mod failures;
mod group;
mod ignored;
mod kind;
mod line;
mod live;
mod members;
mod method;
mod names;
mod option;
mod options;
mod patience;
mod peer_state;
mod peers;
mod pool;
mod random;
mod registry;
mod renewal;
mod resolver;
mod secured;
mod server;
mod settings;
mod shared;
mod sticky;
mod store_options;
mod tier;
mod timing;
mod tls_options;
#[cfg(test)]
mod trials;
mod upload;

pub use attempts::{Attempt, Attempts};
pub use balance::{Choice, Lease};
pub use bind::Bind;
pub use cache_options::{CacheOptions, CachePath, LockOptions, Pace, UsedZone};
pub use cache_purge::{Purge, is_set};
pub use cache_settings::{CacheSettings, Lock, Stale, Store, purged_key, stores};
pub use call::Call;
pub use client_tls::ClientTls;
pub use conf_command::ConfCommands;
pub use conversation::Conversation;
pub use datagrams::{Datagrams, Expected, Limits};
pub use denied::Denied;
pub use dialogue::{Broken, Carrier, Decoded, Dialogue, Remarks};
pub use failure::Failure;
pub use failures::Failures;
pub use group::{Group, Keepalive, Key, resolve};
pub use ignored::Ignored;
pub use kind::Kind;
pub use live::{ChangingServer, Configured};
pub use method::Method;
pub use names::Names;
pub use options::{OPTION_COUNT, Options, STREAMING_OPTION_COUNT, joined};
pub use registry::Registry;
pub use renewal::Renewal;
pub use resolver::{Lookup, NameServers, Resolver, Resolving, Unresolved};
pub use secured::Secured;
pub use server::{Admission, Peer, PeerSettings, Server};
pub use settings::{Buffers, Connecting, FieldNames, NextUpstream, Settings, Timeouts};
pub use sticky::{Learns, Lesson, Sticky};
pub use store_options::{StorePath, parse_access};
pub use tier::{Figures, ServerState};
pub use timing::{LeastTime, Until};
pub use tls_options::{TLS_OPTION_COUNT, TlsOptions, parse_certificate_cache};
pub use upload::Upload;
