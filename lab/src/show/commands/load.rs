//! `fulmar-lab load`: what the generator found, printed.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;

use super::say::{self, say};
use super::{INTERRUPTED, interrupted};
use crate::measure::load::{self, LoadArguments, table};

/// Measures, and prints what was found; after Ctrl-C, what was found until then. Fails as [`load::measure`] does, and
/// where no request was answered rightly.
pub(super) fn main(arguments: &LoadArguments) -> Result<ExitCode> {
    let interrupted = interrupted()?;
    say::interrupt_when_unread(&interrupted);
    let Some(document) = load::measure(arguments, &interrupted, &mut |text| say!("{text}"))? else {
        return Ok(ExitCode::SUCCESS);
    };
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer(&mut out, &document)?;
        writeln!(out)?;
    } else if document.points.len() > 1 {
        write!(out, "{}", table::sweep(&document)?)?;
    }
    out.flush()?;
    Ok(match document.points.iter().any(|point| point.answered_rightly() > 0) {
        _ if document.interrupted => ExitCode::from(INTERRUPTED),
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
