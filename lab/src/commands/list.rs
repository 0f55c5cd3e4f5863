//! `fulmar-lab list`: what is there.

use std::process::ExitCode;

use anyhow::Result;

use super::Common;
use crate::tool;

/// Prints experiments, contenders and tools.
pub(super) fn main(common: &Common) -> Result<ExitCode> {
    println!("Experiments");
    for experiment in common.experiments()? {
        let source = experiment.source.as_ref();
        let source = source.map_or(String::new(), |source| format!(" ({}, {})", source.authors, source.year));
        println!("  {:<22} {}{source}", experiment.id, experiment.title);
    }
    println!("\nContenders");
    let lineup = common.lineup()?;
    for name in lineup.names() {
        match lineup.find(&name) {
            Ok(found) => println!("  {name:<22} {:<14} {}", found.version, found.origin),
            Err(why) => println!("  {name:<22} – {why:#}"),
        }
    }
    println!("\nTools");
    for tool in tool::ALL {
        let name = tool.name.to_string();
        match tool::find(tool) {
            Ok(found) => println!("  {name:<22} {:<22} {}", found.version, found.origin),
            Err(why) => println!("  {name:<22} – {why:#}"),
        }
    }
    Ok(ExitCode::SUCCESS)
}
