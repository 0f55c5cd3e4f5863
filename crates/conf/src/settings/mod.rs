//! The settings of a configuration: typed values, by directive and by level, with their inheritance.
//!
//! Nothing here knows a directive: each is an [`Info`], and a [`Key`] of its values.

mod args;
mod config;
mod identity;
mod info;
mod origin;
mod view;

pub use args::Args;
pub use config::{Config, SectionId};
pub use identity::Identity;
pub use info::{Info, Key, Rule};
pub use origin::{Kept, Origin};
pub use view::{Place, View, Written};
