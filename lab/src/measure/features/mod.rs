//! What contenders can do, by trying it: each feature is a small configuration of the contender's (`features.toml` in
//! its folder) and a probe that sends requests and looks at the answers. Every answer has a transcript.
//!
//! *No* is said only where the probe ran and failed. If a contender's own documentation says that it lacks a
//! feature, that is the reason that is shown. What could not be tried is shown with the cause.

mod certificate;
mod contender;
mod gateways;
mod handshakes;
mod peer;
mod print;
mod probes;
mod protocols;
mod traffic;
mod transcript;
mod upgrade;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::measure::contender::Found;
use crate::measure::engine::site::Site;
use crate::model::experiment::SiteFile;

use contender::Sheet;
use probes::{PROBES, Probe};
use transcript::Transcript;

/// Features of contenders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// The columns.
    pub contenders: Vec<Column>,
    /// The rows.
    pub features: Vec<Row>,
}

/// A contender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// Its version.
    pub version: String,
    /// Where it came from.
    pub origin: String,
}

/// A feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// What was found, in the order of the contenders.
    pub cells: Vec<Cell>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// In a word.
    pub verdict: Verdict,
    /// What was seen, or why there is nothing to see.
    pub detail: String,
    /// The transcript: a path below the folder of results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
}

/// An answer in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was tried and works.
    Yes,
    /// It was tried and does not work.
    No,
    /// Its documentation has no such thing.
    NotOffered,
    /// It was not, or could not be, tried.
    NotProbed,
    /// A count, or what the documentation says: not a matter of yes and no.
    Value,
}

/// The files that are asked for.
const FILES: &[(&str, &str)] = &[
    ("index.html", "7 bytes"),
    ("text.txt", ""),
    ("hosts/one/index.html", "host one"),
    ("hosts/two/index.html", "host two"),
    ("htaccess/.htaccess", "Redirect 302 /htaccess/there /text.txt\n"),
    ("passwords", "user:$apr1$labsalts$/M/SF.4UagB9hSrvwwJr7.\n"),
    ("script.php", "<?php echo 'source';"),
    ("cgi-bin/script.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nfrom a script'\n"),
];

/// The length of `text.txt`, which is worth compressing.
const TEXT_BYTES: u64 = 20_000;

/// Whether there is a probe of that name.
pub fn is_probed(feature: &str) -> bool {
    PROBES.iter().any(|probe| probe.name == feature)
}

/// Probes every contender that has something to be probed for every feature. Transcripts and `features.json` are
/// written below `out`. Interrupted, it ends with the probe that runs, and there is no matrix.
pub fn probe(found: &[Found], out: &Path, interrupted: &AtomicBool) -> Result<Option<Matrix>> {
    let folder = out.join("features");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let site = site(&folder)?;
    // Others stand after servers, or are there to be measured only.
    let probed: Vec<&Found> =
        found.iter().filter(|one| one.contender.file("features.toml").is_some()).collect();
    let mut matrix =
        Matrix { contenders: probed.iter().map(|one| column(one)).collect(), features: Vec::new() };
    for probe in PROBES {
        let mut cells = Vec::new();
        for one in &probed {
            let probed = cell(probe, one, found, &site, &folder)?;
            if interrupted.load(Ordering::Relaxed) {
                return Ok(None);
            }
            cells.push(probed);
        }
        matrix.features.push(Row { name: probe.name.to_owned(), title: probe.title.to_owned(), cells });
    }
    let path = folder.join("features.json");
    fs::write(&path, serde_json::to_string_pretty(&matrix)?).with_context(|| path.display().to_string())?;
    Ok(Some(matrix))
}

fn column(found: &Found) -> Column {
    let contender = &found.contender;
    Column {
        name: contender.name.clone(),
        title: contender.title.clone(),
        version: found.version.clone(),
        origin: found.origin.clone(),
    }
}

fn cell(probe: &Probe, found: &Found, all: &[Found], site: &Site, folder: &Path) -> Result<Cell> {
    let transcript = Transcript::default();
    let (verdict, detail) = match Sheet::of(found, all, probe, site, folder) {
        Err(error) => (Verdict::NotProbed, format!("{error:#}")),
        Ok(sheet) => match sheet.none {
            Some(reason) => (Verdict::NotOffered, reason),
            None if sheet.untried.is_some() => (Verdict::NotProbed, sheet.untried.unwrap_or_default()),
            None => match (probe.run)(&sheet, &transcript) {
                Ok((verdict, detail)) => (verdict, detail),
                Err(error) => {
                    let error = format!("{error:#}");
                    transcript.note(&error);
                    if sheet.without.iter().any(|words| error.contains(words)) {
                        (Verdict::NotOffered, format!("this build refuses the configuration: {error}"))
                    } else {
                        (Verdict::NotProbed, error)
                    }
                }
            },
        },
    };
    let text = transcript.text();
    let kept = if text.is_empty() {
        None
    } else {
        let name = format!("{}-{}.txt", found.contender.name, probe.name);
        fs::write(folder.join(&name), text).with_context(|| name.clone())?;
        Some(format!("features/{name}"))
    };
    Ok(Cell { verdict, detail, transcript: kept })
}

fn site(folder: &Path) -> Result<Site> {
    let site = Site::create(
        folder,
        &[SiteFile { path: "text.txt".into(), length: TEXT_BYTES, ..SiteFile::default() }],
    )?;
    for (name, text) in FILES.iter().filter(|(_, text)| !text.is_empty()) {
        let path = site.root.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&site.root))?;
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        #[cfg(unix)]
        if name.ends_with(".cgi") {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(site)
}
