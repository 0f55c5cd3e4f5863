//! `fulmar-lab list`: what is there.

use std::process::ExitCode;

use anyhow::Result;

use super::Common;
use super::say::{is_unheard, say};
use crate::measure::tool;

/// Prints experiments, contenders and tools.
pub(super) fn main(common: &Common) -> Result<ExitCode> {
    say!("Experiments");
    for experiment in common.experiments()? {
        let source = experiment.source.as_ref();
        let source = source.map_or(String::new(), |source| match source.authors.as_str() {
            "" => format!(" ({})", source.year),
            authors => format!(" ({authors}, {})", source.year),
        });
        say!("  {:<22} {}{source}", experiment.id, experiment.title);
    }
    say!("\nContenders");
    let lineup = common.lineup()?;
    for name in lineup.names() {
        if is_unheard() {
            break;
        }
        match lineup.find(&name) {
            Ok(found) => say!("  {name:<22} {:<14} {}", found.version, found.origin),
            Err(why) => say!("  {name:<22} – {why:#}"),
        }
    }
    say!("\nTools");
    for tool in tool::ALL {
        if is_unheard() {
            break;
        }
        let name = tool.name.to_string();
        match tool::find(tool) {
            Ok(found) => say!("  {name:<22} {:<22} {}", found.version, found.origin),
            Err(why) => say!("  {name:<22} – {why:#}"),
        }
    }
    Ok(ExitCode::SUCCESS)
}
