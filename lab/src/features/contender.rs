//! A contender with the configuration that a probe needs.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::peer::Peer;
use super::probes::Probe;
use super::transcript::Transcript;
use crate::contender::{Found, Place, Running};
use crate::engine::site::Site;
use crate::experiment::Configuration;

/// The shape of `features.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Features {
    /// The language that it is written in.
    language: String,
    /// The systems that it runs on, by its documentation.
    runs_on: String,
    /// The files of the configuration: the name in the folder of the running server, and the template.
    files: BTreeMap<String, String>,
    /// What templates name and probes may fill; empty otherwise.
    slots: Vec<String>,
    /// By the name of the probe.
    probes: BTreeMap<String, Setting>,
}

/// What a probe needs of this contender.
#[derive(Clone, Debug, Default, Deserialize)]
struct Setting {
    /// The reason why there is nothing to probe: the documentation has no such thing.
    none: Option<String>,
    /// What a build without the feature says when it refuses the configuration.
    #[serde(default)]
    without: Vec<String>,
    /// As for a load.
    #[serde(default)]
    options: BTreeMap<String, String>,
    /// A command that answers by itself.
    #[serde(default)]
    command: Vec<String>,
    /// What it prints when the answer is yes.
    #[serde(default)]
    expect: String,
    /// Texts for the slots.
    #[serde(flatten)]
    slots: BTreeMap<String, String>,
}

/// A contender, ready for one probe.
pub(super) struct Sheet {
    /// As `Features`.
    pub(super) language: String,
    /// As `Features`.
    pub(super) runs_on: String,
    /// As `Setting`.
    pub(super) none: Option<String>,
    /// As `Setting`.
    pub(super) without: Vec<String>,
    /// As `Setting`.
    pub(super) command: Vec<String>,
    /// As `Setting`.
    pub(super) expect: String,
    /// With the files of the probe in the place of its tuned configuration.
    pub(super) found: Found,
    behind: Option<Found>,
    place: Place,
}

impl Sheet {
    /// Fails where the contender has nothing about the feature.
    pub(super) fn of(
        found: &Found,
        all: &[Found],
        probe: &Probe,
        site: &Site,
        folder: &Path,
    ) -> Result<Sheet> {
        let contender = &found.contender;
        let text = contender.file("features.toml").context("the lab has no configuration for it")?;
        let features: Features =
            toml::from_str(text).with_context(|| format!("{}: features.toml", contender.name))?;
        let setting = match features.probes.get(probe.name) {
            Some(setting) => setting.clone(),
            None if probe.plain => Setting::default(),
            None => bail!("the lab has no configuration for it"),
        };
        let mut values: BTreeMap<String, String> =
            features.slots.iter().map(|slot| (slot.clone(), String::new())).collect();
        for (slot, text) in &setting.slots {
            values.insert(slot.clone(), text.clone()).with_context(|| format!("no slot is called {slot}"))?;
        }
        let behind = match &contender.family.behind {
            Some(_) if probe.peer.is_some() => None,
            Some(name) => {
                let found = all.iter().find(|found| found.contender.name == *name);
                Some(found.with_context(|| format!("{name} is not there"))?.clone())
            }
            None => None,
        };
        let mut options = setting.options;
        if probe.tls {
            options.insert("tls".into(), "on".into());
        }
        let place = Place {
            folder: folder.join("run"),
            root: site.root.clone(),
            cores: "0".into(),
            threads: 1,
            connections: 1,
            configuration: Configuration::Tuned,
            options,
            certificate: site.certificate.clone(),
            key: site.key.clone(),
            backend: None,
        };
        let mut found = found.clone();
        found.contender = contender.with(features.files, values);
        let Setting { none, without, command, expect, .. } = setting;
        Ok(Sheet {
            language: features.language,
            runs_on: features.runs_on,
            none,
            without,
            command,
            expect,
            found,
            behind,
            place,
        })
    }

    /// Starts it, before the peer if there is one, and writes its configuration down.
    pub(super) fn start(&self, peer: Option<&Peer>, transcript: &Transcript) -> Result<Running> {
        let place = Place { backend: peer.map(|peer| peer.address), ..self.place.clone() };
        let running = Running::start(&self.found, self.behind.as_ref(), "probed", &place)?;
        for path in running.files() {
            transcript.note(&format!("{}:", path.display()));
            transcript.note(&std::fs::read_to_string(path).unwrap_or_default());
        }
        Ok(running)
    }

    /// Runs a command of the contender, and gives whether it succeeded and what it printed.
    pub(super) fn ask_program(&self, running: &Running, transcript: &Transcript) -> Result<(bool, String)> {
        let words = self.found.contender.command(&self.command, running.values())?;
        transcript.note(&format!("$ {}", words.join(" ")));
        let (program, arguments) = words.split_first().context("an empty command")?;
        let output = Command::new(program).args(arguments).current_dir(running.folder()).output();
        let output = output.with_context(|| format!("running {program}"))?;
        let text = [output.stdout, output.stderr].concat();
        transcript.received(&text);
        transcript.note(&output.status.to_string());
        Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
    }
}
