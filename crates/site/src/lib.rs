//! From a configuration to what is served: loading, compiling, addresses, servers, locations, settings in `.htaccess` files.
//!
//! It knows the structure of a configuration (`http`, `server`, `location`, `listen`) and no feature: those come to it as a
//! list of modules. It opens no socket.

#![forbid(unsafe_code)]

mod addresses;
mod agreement;
mod apache;
mod builder;
mod certificates;
mod compiler;
mod encryption;
mod hosts;
mod languages;
mod layers;
mod listens;
mod load;
mod locations;
mod nginx;
mod overlay;
mod plan;
mod protocols;
mod scope_change;
mod scopes;
mod server;
mod site;
mod structure;
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::panic, reason = "a test ends so")]
pub mod testing;
mod unbuilt;

pub use builder::{ThreadGuard, run as build};
pub use certificates::{Certificates, Selected};
pub use encryption::Encryption;
pub use hosts::{Hosts, Listen};
pub use languages::load;
pub use layers::Layers;
pub use load::{ApacheOptions, Loaded, Options, Reader};
pub use locations::{Location, Locations};
pub use overlay::{FoundFile, Problem, SharedLooks, Survey, forget, without_settings};
pub use plan::{Chooser, ListenPlan, LocationPlan, Plan, ServerPlan};
pub use protocols::{Application, Protocols, Versions, Wrapping};
pub use scope_change::{change, enter};
pub use scopes::Scopes;
pub use server::Server;
pub use site::Site;
pub use structure::{HTTP, LOCATION, SERVER, STRUCTURE};
