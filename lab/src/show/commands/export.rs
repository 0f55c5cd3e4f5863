//! `fulmar-lab export`: the loads of experiments for the distributed modes of k6 and JMeter.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::say::say;
use super::{Common, chosen};
use crate::show::export::export;

/// What `export` takes.
#[derive(Clone, Debug, Args)]
pub(super) struct ExportArguments {
    /// The experiments; all where none is named.
    experiments: Vec<String>,
    /// The server that the files name: a host with an optional port.
    #[arg(long, value_name = "HOST", value_parser = host)]
    target: String,
    /// Where the files are written.
    #[arg(long, value_name = "FOLDER", default_value = "exports")]
    folder: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Writes a folder for each experiment.
pub(super) fn main(arguments: &ExportArguments) -> Result<ExitCode> {
    for experiment in chosen(arguments.common.experiments()?, &arguments.experiments)? {
        let exported = export(&experiment, &arguments.target, &arguments.folder.join(&experiment.id))?;
        exported.written.iter().for_each(|path| say!("{}", path.display()));
        exported.left_out.iter().for_each(|what| say!("  left out: {}/{what}", experiment.id));
    }
    Ok(ExitCode::SUCCESS)
}

/// A host with an optional port, or such a URL. The files are scripts: nothing else comes into them.
fn host(text: &str) -> Result<String, String> {
    let (scheme, host) = text.split_once("://").unwrap_or(("http", text));
    let host = host.strip_suffix('/').unwrap_or(host);
    let is_of_host = |letter: char| letter.is_ascii_alphanumeric() || "-._~:[]".contains(letter);
    let is_host = !host.is_empty() && host.chars().all(is_of_host);
    let is_known = ["http", "https"].contains(&scheme);
    (is_host && is_known)
        .then(|| text.to_owned())
        .ok_or_else(|| "a host with an optional port is needed".into())
}
