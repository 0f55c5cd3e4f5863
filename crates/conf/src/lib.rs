//! The configuration language: text → tree with spans → typed values → diagnostics.
//!
//! This crate reads and judges; it never acts on what it read, and it knows no feature. A module asks it
//! for typed values, so that every directive reads a size, a time or a pattern in the same way.
//!
//! ```
//! let loaded = conf::parse_bytes(b"worker_processes 2;");
//! assert!(loaded.error.is_none());
//! assert_eq!(&*loaded.nodes[0].args[0].text, b"2");
//! ```
#![forbid(unsafe_code)]

pub mod apache;
pub mod catalogue;
pub mod diagnostic;
mod dialect;
mod environment;
mod excerpt;
mod glob;
mod keys;
pub mod layout;
pub mod lexer;
pub mod loader;
mod lua;
mod other_language;
mod quotes;
pub mod settings;
pub mod source;
pub mod spec;
pub mod tree;
pub mod value;
pub mod wrap;

pub use diagnostic::{Diagnostic, Level, grouped, render, suggest};
pub use dialect::{Dialect, Inclusion, Unowned};
pub use environment::fill_in;
pub use glob::matches_wildcards;
pub use keys::hide_keys;
pub use layout::layout;
pub use loader::{Disk, FILE_BYTES_MAX, Inputs, Loaded, Memory, load, parse_bytes};
pub use other_language::{in_place_of_nginx, is_apaches};
pub use quotes::curly_quotes;
pub use source::{FileId, Sources, Span};
pub use spec::{Arity, Contexts, Shape};
pub use tree::{Node, Word};
pub use value::ValueError;
pub use wrap::{MEDIA_TYPES, wrap_bare};
