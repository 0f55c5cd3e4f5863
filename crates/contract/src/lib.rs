//! The contract between the server and its features: what the author of a feature reads.
//!
//! A feature is a [`Module`]: directives as typed keys ([`Directive`]), variables, and a `compile`
//! function that turns what was written for a scope into handlers and filters. Handlers look at an
//! [`Exchange`] and return a [`Step`]; they never call the server.
#![doc = include_str!("example.md")]
#![forbid(unsafe_code)]

mod amount;
mod attached;
pub mod body;
mod connection;
mod directive;
mod encryption;
mod exchange;
mod filter;
mod loading;
mod mapping;
mod module;
mod overlay;
mod payer;
pub mod policy;
mod regex;
mod request;
mod request_log;
mod scope;
mod server_name;
mod service;
mod shapes;
mod step;
mod template;
mod turn;
mod variable;

pub use amount::Amount;
pub use attached::Reach;
pub use body::{Body, Piece, Pull, Source, Tunnel};
pub use conf::apache::Methods;
pub use conf::settings::{Args, Config, Identity, Info, Kept, Origin, Place, Rule, SectionId, View, Written};
pub use connection::{Connection, FirstBytes, PassTo, Tls};
pub use directive::{AnyDirective, Counted, Directive, Parsed};
pub use encryption::{PemValue, TlsPolicy, VariablePem};
pub use exchange::{Exchange, PartStart, Replaced, Routing, Wire};
pub use filter::Filter;
pub use http::hash;
pub use inputs::{Pem, PemSource};
pub use journal::budget::{Lent, Spent};
pub use journal::{Event, Events, leavings, reloads};
pub use loading::{Htaccess, Loading, Look};
pub use mapping::{LocationKind, LocationName, MapError, Root};
pub use module::{Compile, Module};
pub use net::{Carrier, Duplex, FileIdentity, PIPE_BYTES, Peer, Pipe, SocketProbe};
pub use overlay::{Holds, Open, Opener, Overlaid, Overlay, Selection};
pub use payer::Budget;
pub use policy::{Policy, VerifyClient};
pub use proxy_protocol::PassedConnection;
pub use regex::{Regex, Regexes};
pub use request::{Request, RequestBody, Streaming};
pub use request_log::RequestLog;
pub use scope::{Phase, Scope, ScopeBuilder};
pub use server_name::{SERVER_NAME, ServerName};
pub use service::{Service, SiteService, Threads};
pub use step::{Content, Handler, Outcome, Reroute, Step, Streamed, Subrequest, Subresponse, Work};
pub use template::{Made, Make, Template};
pub use turn::{BodyReader, NoBody, Task, Turn};
pub use variable::{Definition, Evaluate, Getter, Judge, Variable, VariableId, VariableTable, Variables};
