//! The language that a main file is in.

use crate::load::{Loaded, Options};
use crate::{apache, nginx};
use conf::Inputs;
use contract::{Loading, Module};

/// Reads a configuration with the directives of these modules, in the language that its first lines are in. On an error, all
/// that was read before it is still there, for messages.
pub fn load(inputs: &dyn Inputs, options: &Options, modules: &[&'static Module], loading: Loading) -> Loaded {
    match inputs.read(&options.path) {
        Ok(text) if conf::is_apaches(&text) => apache::load(inputs, options, modules, loading),
        _ => nginx::load(inputs, options, modules, loading),
    }
}
