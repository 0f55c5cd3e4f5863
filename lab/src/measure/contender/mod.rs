//! A contender: a server that takes part. It is data, a folder each (`lab/contenders`): how its program is found,
//! started, told to read its configuration anew and stopped, and its configurations as templates.

mod built_in;
mod find;
mod running;
mod template;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::model::experiment::Configuration;

pub(crate) use find::origin;
pub use find::{Found, find};
pub use running::{Place, Running};
pub(crate) use template::fill;

/// A server that takes part.
#[derive(Clone, Debug)]
pub struct Contender {
    /// Its name in experiments and results.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// What it shares with its variants.
    pub family: Family,
    /// Whether only a program counts that a package of the system has installed, and none that was fetched.
    installed: bool,
    /// Contenders whose work it does itself, so that none of them is started for it.
    pub includes: Vec<String>,
    /// Files that it needs besides its program: the first one of a list that is there is a value for the templates.
    needs: BTreeMap<String, Vec<String>>,
    /// Its own values for the templates.
    values: BTreeMap<String, String>,
    /// The templates, by the name of their file.
    templates: BTreeMap<String, String>,
}

/// The shape of `contender.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// Programs to look for on the `PATH` and among the administrator's programs; the first one counts.
    pub programs: Vec<String>,
    /// An environment variable that names the program.
    pub environment: Option<String>,
    /// A package of PyPI that brings the program along.
    pub wheel: Option<String>,
    /// Arguments that make the program print its version.
    pub version: Vec<String>,
    /// What stands in front of the version in that output.
    #[serde(default)]
    pub version_after: String,
    /// What stands in front of the compiler's options, where the program says them together with `-V`.
    pub options_after: Option<String>,
    /// The command that installs it.
    pub install: String,
    /// Why it takes no part even where its program is found.
    pub not_run: Option<String>,
    /// Commands that are run in its folder before it is started.
    #[serde(default)]
    pub prepare: Vec<Vec<String>>,
    /// The command that starts it in the foreground.
    #[serde(default)]
    pub start: Vec<String>,
    /// Environment variables of that command.
    #[serde(default)]
    pub start_environment: BTreeMap<String, String>,
    /// The signal, or the command, that makes it read its configuration anew without losing a request.
    pub reload: Option<Action>,
    /// The signal that ends it at once.
    #[serde(default = "term")]
    pub stop: Signal,
    /// The user that it serves as where root starts it, if it gives up root's rights.
    pub serves_as: Option<String>,
    /// The contender that it stands in front of. It is started first, at `{{backend}}`.
    pub behind: Option<String>,
    /// The files of each configuration: the name in the folder of the running server, and the template.
    #[serde(default)]
    pub default: BTreeMap<String, String>,
    /// As `default`.
    #[serde(default)]
    pub tuned: BTreeMap<String, String>,
    /// What can be different in a configuration: for each option, its settings and the text that stands for
    /// `{{option}}` in the templates.
    #[serde(default)]
    pub options: BTreeMap<String, BTreeMap<String, String>>,
    /// Whether its language is nginx's, so that a load may bring directives along, at `{{http}}` and `{{server}}`.
    #[serde(default)]
    pub reads_nginx_conf: bool,
    /// Options that it cannot have, or `option=setting`, and why.
    #[serde(default)]
    pub cannot: BTreeMap<String, String>,
    /// The kin: contenders that differ in values only.
    pub contenders: Vec<Kin>,
}

/// One of a family.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kin {
    name: String,
    title: String,
    #[serde(default)]
    installed: bool,
    #[serde(default)]
    includes: Vec<String>,
    #[serde(default)]
    needs: BTreeMap<String, Vec<String>>,
    /// How it is installed, if that differs from its variants.
    install: Option<String>,
    #[serde(default)]
    values: BTreeMap<String, String>,
}

/// What is done to a running contender.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A signal to its first process.
    Signal(Signal),
    /// A command.
    Command(Vec<String>),
}

/// The signals that servers listen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    /// Hang up.
    Hup,
    /// User-defined.
    Usr1,
    /// User-defined.
    Usr2,
    /// Interrupt.
    Int,
    /// Terminate.
    Term,
    /// Quit.
    Quit,
}

/// Options that every load sets, and their settings where it does not say otherwise.
const ALWAYS: &[(&str, &str)] = &[("access_log", "off"), ("tls", "off")];

impl Contender {
    /// All that the program brings along, in the order of `fulmar-lab list`.
    pub fn built_in() -> Result<Vec<Contender>> {
        let mut all = Vec::new();
        for folder in built_in::FOLDERS {
            let files = folder.files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            all.extend(Contender::of(files.collect()).with_context(|| folder.name.to_owned())?);
        }
        Ok(all)
    }

    /// The contenders of a folder with a `contender.toml` and templates.
    pub fn read(folder: &Path) -> Result<Vec<Contender>> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let text = fs::read_to_string(entry.path());
            files.insert(
                entry.file_name().to_string_lossy().into_owned(),
                text.with_context(|| entry.path().display().to_string())?,
            );
        }
        Contender::of(files).with_context(|| folder.display().to_string())
    }

    /// Whether the contender can do what these options ask for. The error says what it cannot.
    pub fn offers(&self, options: &BTreeMap<String, String>) -> Result<()> {
        for (name, setting) in options {
            let cannot = &self.family.cannot;
            if let Some(why) = cannot.get(name).or_else(|| cannot.get(&format!("{name}={setting}"))) {
                bail!("{} cannot: {why}", self.title);
            }
            let settings = self.family.options.get(name);
            let settings = settings.with_context(|| format!("{} has no option {name}", self.name))?;
            let known = settings.contains_key(setting);
            ensure!(known, "{}: option {name} has no setting {setting}", self.name);
        }
        Ok(())
    }

    /// The files of a configuration, filled in: the name in the server's folder, and the text. `values` are those of
    /// the run. Fails where an option or a setting is not known.
    pub fn configuration(
        &self,
        configuration: Configuration,
        options: &BTreeMap<String, String>,
        values: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>> {
        let values = self.values(options, values)?;
        let files = match configuration {
            Configuration::Default => &self.family.default,
            Configuration::Tuned => &self.family.tuned,
        };
        let filled = files.iter().map(|(name, template)| {
            let text = self.templates.get(template).with_context(|| format!("no template {template}"))?;
            let text = template::fill(text, &values).with_context(|| format!("{}: {template}", self.name))?;
            Ok((name.clone(), text))
        });
        filled.collect()
    }

    /// A file of its folder.
    pub fn file(&self, name: &str) -> Option<&str> {
        self.templates.get(name).map(String::as_str)
    }

    /// The options among these that it knows.
    #[must_use]
    pub fn known_options(&self, options: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let known = options.iter().filter(|(name, _)| self.family.options.contains_key(*name));
        known.map(|(name, setting)| (name.clone(), setting.clone())).collect()
    }

    /// Whether both are run in the same way, so that nothing but their programs can differ.
    fn runs_like(&self, other: &Contender) -> bool {
        let (one, two) = (&self.family, &other.family);
        self.templates == other.templates
            && self.values == other.values
            && (&one.start, &one.behind, &one.default, &one.tuned)
                == (&two.start, &two.behind, &two.default, &two.tuned)
    }

    /// The same contender with other files and more values in its tuned configuration.
    #[must_use]
    pub fn with(&self, files: BTreeMap<String, String>, values: BTreeMap<String, String>) -> Contender {
        let mut contender = self.clone();
        contender.family.tuned = files;
        contender.values.extend(values);
        contender
    }

    /// A command of the contender, filled in.
    pub fn command(&self, command: &[String], values: &BTreeMap<String, String>) -> Result<Vec<String>> {
        let values = self.values(&BTreeMap::new(), values)?;
        command.iter().map(|word| template::fill(word, &values)).collect()
    }

    /// All that templates may name: the values of the run, those of the contender, and the options' texts.
    fn values(
        &self,
        options: &BTreeMap<String, String>,
        values: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>> {
        self.offers(options)?;
        let mut all = values.clone();
        all.extend(self.values.clone());
        for (name, settings) in &self.family.options {
            let preset =
                ALWAYS.iter().find(|(always, _)| always == name).map_or("preset", |(_, preset)| *preset);
            let setting = options.get(name).map_or(preset, String::as_str);
            let text = settings.get(setting).with_context(|| format!("option {name} has no preset"))?;
            all.insert(name.clone(), text.clone());
        }
        Ok(all)
    }

    fn of(mut files: BTreeMap<String, String>) -> Result<Vec<Contender>> {
        let text = files.remove("contender.toml").context("no contender.toml")?;
        let family: Family = toml::from_str(&text)?;
        ensure!(family.start.is_empty() == family.not_run.is_some(), "either start or not_run");
        for template in family.default.values().chain(family.tuned.values()) {
            ensure!(files.contains_key(template), "no template {template}");
        }
        let kin = family.contenders.iter().map(|kin| Contender {
            name: kin.name.clone(),
            title: kin.title.clone(),
            family: Family {
                install: kin.install.clone().unwrap_or_else(|| family.install.clone()),
                ..family.clone()
            },
            installed: kin.installed,
            includes: kin.includes.clone(),
            needs: kin.needs.clone(),
            values: kin.values.clone(),
            templates: files.clone(),
        });
        Ok(kin.collect())
    }
}

fn term() -> Signal {
    Signal::Term
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::experiment::{self, Experiment};

    #[test]
    fn built_in_contenders_are_sound() {
        let values = "program folder root port threads account connections user unprivileged certificate key certificate_text key_text backend backend_port http server";
        let values = values.split(' ').map(|name| (name.to_owned(), format!("<{name}>")));
        let values: BTreeMap<String, String> = values.collect();
        let all = Contender::built_in().unwrap();
        for contender in all.iter().filter(|contender| contender.family.not_run.is_none()) {
            for configuration in [Configuration::Default, Configuration::Tuned] {
                for tls in ["off", "on"] {
                    let options = BTreeMap::from([("tls".to_owned(), tls.to_owned())]);
                    if contender.family.options.get("tls").is_none_or(|settings| !settings.contains_key(tls))
                    {
                        continue;
                    }
                    let files = contender.configuration(configuration, &options, &values).unwrap();
                    let start = contender.command(&contender.family.start, &values).unwrap();
                    let all: String = files.into_values().chain(start).collect();
                    assert!(all.contains("<port>") && !all.contains("{{"), "{}: {all}", contender.name);
                }
            }
        }
    }

    #[test]
    fn what_is_not_known_is_told() {
        let nginx =
            Contender::built_in().unwrap().into_iter().find(|contender| contender.name == "nginx").unwrap();
        let option = |name: &str, setting: &str| {
            let options = BTreeMap::from([(name.to_owned(), setting.to_owned())]);
            nginx.configuration(Configuration::Tuned, &options, &BTreeMap::new()).unwrap_err().to_string()
        };
        assert_eq!(option("colour", "red"), "nginx has no option colour");
        assert_eq!(option("access_log", "red"), "nginx: option access_log has no setting red");
        let mut without = nginx.clone();
        without.family.cannot.insert("http2".into(), "it speaks HTTP/1.1".into());
        let options = BTreeMap::from([("http2".to_owned(), "on".to_owned())]);
        assert_eq!(without.offers(&options).unwrap_err().to_string(), "nginx cannot: it speaks HTTP/1.1");
        without.family.cannot.insert("tls=on".into(), "it has none".into());
        let tls = |setting: &str| without.offers(&BTreeMap::from([("tls".to_owned(), setting.to_owned())]));
        assert_eq!(tls("on").unwrap_err().to_string(), "nginx cannot: it has none");
        assert!(tls("off").is_ok());
    }

    #[test]
    fn built_in_experiments_name_what_is_there() {
        let all = Experiment::built_in().unwrap();
        let contenders = Contender::built_in().unwrap();
        let contenders: Vec<String> = contenders.into_iter().map(|contender| contender.name).collect();
        for (experiment, text) in all.iter().zip(experiment::BUILT_IN) {
            experiment.check_names(text, &all).unwrap();
            experiment.check_contenders(text, &contenders).unwrap();
        }
    }
}
