//! A contender with the configuration that a probe needs.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::certificate::Certificate;
use super::peer::Peer;
use super::probes::Probe;
use super::transcript::Transcript;
use crate::measure::contender::{Found, Place, Running};
use crate::measure::engine::site::Site;
use crate::model::experiment::{Configuration, NginxConf};

/// The shape of `features.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Features {
    /// The language that it is written in.
    language: String,
    /// The systems that it runs on, by its documentation.
    runs_on: String,
    /// The year in which its development began, by its documentation.
    begun: String,
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
    /// The reason why the lab does not try it, though the documentation has it.
    untried: Option<String>,
    /// What a build without the feature says when it refuses the configuration.
    #[serde(default)]
    without: Vec<String>,
    /// The command that starts it, where it is not the contender's own.
    #[serde(default)]
    start: Vec<String>,
    /// As for a load.
    #[serde(default)]
    options: BTreeMap<String, String>,
    /// A command that answers by itself, or is given the contender's first process.
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
#[derive(Clone)]
pub(super) struct Sheet {
    /// As `Features`.
    pub(super) language: String,
    /// As `Features`.
    pub(super) runs_on: String,
    /// As `Features`.
    pub(super) begun: String,
    /// As `Setting`.
    pub(super) none: Option<String>,
    /// As `Setting`.
    pub(super) untried: Option<String>,
    /// As `Setting`.
    pub(super) without: Vec<String>,
    /// As `Setting`.
    pub(super) command: Vec<String>,
    /// As `Setting`.
    pub(super) expect: String,
    /// With the files of the probe instead of its tuned configuration.
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
            options.entry("tls".into()).or_insert_with(|| "on".into());
        }
        let place = Place {
            folder: folder.join("run"),
            root: site.root.clone(),
            cores: "0".into(),
            threads: 1,
            connections: 1,
            configuration: Configuration::Tuned,
            options,
            backend_options: BTreeMap::new(),
            directives: NginxConf::default(),
            certificate: site.certificate.clone(),
            key: site.key.clone(),
            backend: None,
        };
        let mut found = found.clone();
        found.contender = contender.with(features.files, values);
        if !setting.start.is_empty() {
            found.contender.family.start = setting.start;
        }
        let Setting { none, untried, without, command, expect, .. } = setting;
        Ok(Sheet {
            language: features.language,
            runs_on: features.runs_on,
            begun: features.begun,
            none,
            untried,
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

    /// A folder for what a probe makes.
    pub(super) fn folder(&self) -> &Path {
        &self.place.folder
    }

    /// Whether it speaks TLS at all.
    pub(super) fn has_tls(&self) -> bool {
        let options = &self.found.contender.family.options;
        options.get("tls").is_some_and(|tls| tls.contains_key("on"))
    }

    /// With another certificate. `{{authority}}` is the folder of what belongs to it.
    pub(super) fn with_certificate(&self, made: &Certificate) -> Sheet {
        let mut sheet = self.clone();
        sheet.place.certificate.clone_from(&made.chain);
        sheet.place.key.clone_from(&made.key);
        let values = BTreeMap::from([("authority".to_owned(), made.folder.display().to_string())]);
        let contender = &self.found.contender;
        sheet.found.contender = contender.with(contender.family.tuned.clone(), values);
        sheet
    }

    /// With another file of the program.
    pub(super) fn with_program(&self, program: &Path) -> Sheet {
        let mut sheet = self.clone();
        sheet.found.program = program.to_path_buf();
        sheet
    }

    /// Runs the command of the probe, and gives whether it succeeded and what it printed.
    pub(super) fn ask_program(&self, running: &Running, transcript: &Transcript) -> Result<(bool, String)> {
        self.run(&self.command, running, transcript)
    }

    /// Runs a command, and gives whether it succeeded and what it printed.
    pub(super) fn run(
        &self,
        command: &[String],
        running: &Running,
        transcript: &Transcript,
    ) -> Result<(bool, String)> {
        let words = self.found.contender.command(command, running.values())?;
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
