//! Certificates from an authority, by ACME (RFC 8555): accounts, orders, challenges, renewal, and what is kept on disk.
//!
//! A [`Plan`] says what a configuration wants. [`run`] is the work of a process that does nothing else: it owns the keys
//! on disk, asks authorities, and blocks while it does. It listens nowhere. The answers to challenges go to the processes
//! that listen through [`net::SharedBytes`].

#![forbid(unsafe_code)]

mod agent;
mod answers;
mod authority;
mod connection;
mod plan;
mod renewal_info;
mod schedule;
mod state;

pub use agent::{Surroundings, Urgency, run};
pub use answers::{Answer, PREFIX, PROTOCOL, SIZE, find_certificate, find_token};
pub use plan::{Challenge, ExternalKey, Issuer, KeyKind, Order, Plan, certificate_name};
pub use state::{Certificate, Report, ask_for_renewal, certificate, inspect, report};
