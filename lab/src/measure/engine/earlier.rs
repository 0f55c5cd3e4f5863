//! Earlier results: a run continues them or moves them aside, and never loses them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result};

use super::series::{CONFIGURATIONS, RAW};
use crate::measure::environment;
use crate::model::block::FILE;
use crate::model::experiment::folder;
use crate::model::words;

/// Moves blocks with their raw output and configurations into a separate folder, which is named after the time of
/// the last block, and of which a report can be written as before. `None` where nothing was measured.
pub(super) fn put_aside(out: &Path) -> Result<Option<PathBuf>> {
    let Ok(file) = fs::metadata(out.join(FILE)) else { return Ok(None) };
    if file.len() == 0 {
        return Ok(None);
    }
    let written_s = file.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let name = words::date(written_s).trim_end_matches(" UTC").replace(' ', "-").replace(':', "");
    let names = (1..).map(|number| if number == 1 { name.clone() } else { format!("{name}-{number}") });
    let folder =
        names.map(|name| out.join(name)).find(|folder| !folder.exists()).context("no name is free")?;
    fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
    // The blocks go last: a run that is cut short here finds them again.
    for name in [RAW, CONFIGURATIONS, folder::FOLDER, folder::CLAIMS, environment::FILE, FILE] {
        let from = out.join(name);
        if from.exists() {
            fs::rename(&from, folder.join(name)).with_context(|| from.display().to_string())?;
        }
    }
    Ok(Some(folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::block::{self, tests::block};

    #[test]
    fn nothing_that_was_measured_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        assert_eq!(put_aside(out).unwrap(), None);
        let mut places = Vec::new();
        for contender in ["a", "b"] {
            block::append(&out.join(FILE), &block(contender, "l", 1, &[])).unwrap();
            fs::create_dir(out.join(RAW)).unwrap();
            fs::write(out.join(RAW).join("x"), contender).unwrap();
            places.push(put_aside(out).unwrap().unwrap());
            assert!(!out.join(FILE).exists() && !out.join(RAW).exists());
        }
        for (place, contender) in places.iter().zip(["a", "b"]) {
            assert_eq!(block::read(&place.join(FILE)).unwrap()[0].cell.contender, contender);
            assert_eq!(fs::read_to_string(place.join(RAW).join("x")).unwrap(), contender);
        }
    }
}
