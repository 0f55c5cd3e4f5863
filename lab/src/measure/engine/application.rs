//! An application that contenders serve: a program in an interpreter's language over a database. It is data, a folder
//! each (`lab/applications`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::site;
use crate::measure::contender::{Found, Running, fill};
use crate::measure::process;
use crate::model::experiment::SiteFile;

/// A folder: its files by name.
struct Folder {
    name: &'static str,
    plan: &'static str,
    files: &'static [(&'static str, &'static str)],
}

macro_rules! folder {
    ($name:literal: $($file:literal),+) => {
        Folder {
            name: $name,
            plan: include_str!(concat!("../../../applications/", $name, "/application.toml")),
            files: &[$(($file, include_str!(concat!("../../../applications/", $name, "/", $file)))),+],
        }
    };
}

const FOLDERS: &[Folder] = &[
    folder!("shakespeare": "settings.php", "index.php", "setup.php"),
    folder!("wordpress": "settings.php", "wp-config.php", "lab.php", "object-cache.php", "setup.php"),
    folder!("shop": "settings.php", "index.php", "setup.php"),
];

/// The file whose names are filled in: where the services are.
const SETTINGS: &str = "settings.php";

/// The file that fills the database. It is not served.
const SETUP: &str = "setup.php";

/// The shape of `application.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    /// What runs the program. Each contender without such an interpreter inside gets a separate one.
    pub(super) interpreter: String,
    /// Contenders that the program needs: one each for all who serve it.
    pub(super) services: Vec<String>,
    /// The command that fills the database, run among the program's files.
    setup: Vec<String>,
    /// How what the command needs is installed.
    install: String,
    /// Files that are generated.
    #[serde(default)]
    files: Vec<SiteFile>,
}

/// An application that can be served. Its services end when this is dropped.
pub(super) struct Application {
    /// The root of its files.
    pub(super) root: PathBuf,
    /// What runs the program.
    pub(super) interpreter: Found,
    services: Vec<Running>,
}

/// What tells one set-up application from another: its name, the options of its services, and their cores.
pub(super) type Key = (String, BTreeMap<String, String>, u32);

/// The applications of a run. Each is set up once, when a load first needs it, and ends with the run.
#[derive(Default)]
pub(super) struct Applications(RefCell<BTreeMap<Key, Rc<Application>>>);

impl Applications {
    /// The application of this key, which is set up in a folder of this number if it is the first time.
    pub(super) fn get(
        &self,
        key: Key,
        set_up: impl FnOnce(usize) -> Result<Application>,
    ) -> Result<Rc<Application>> {
        let mut all = self.0.borrow_mut();
        if let Some(known) = all.get(&key) {
            return Ok(Rc::clone(known));
        }
        let application = Rc::new(set_up(all.len())?);
        all.insert(key, Rc::clone(&application));
        Ok(application)
    }
}

impl Plan {
    /// The plan of the application of this name.
    pub(super) fn of(name: &str) -> Result<Plan> {
        toml::from_str(folder(name)?.plan).with_context(|| format!("application {name}"))
    }
}

impl Application {
    /// Writes the files of an application below a folder, and lets it fill its database by these services.
    pub(super) fn set_up(
        name: &str,
        place: &Path,
        interpreter: Found,
        services: Vec<Running>,
    ) -> Result<Application> {
        let (own, plan) = (folder(name)?, Plan::of(name)?);
        if place.exists() {
            fs::remove_dir_all(place).with_context(|| place.display().to_string())?;
        }
        site::write(place, &plan.files)?;
        let values = values(&services);
        for (name, text) in own.files {
            let text = if *name == SETTINGS { fill(text, &values)? } else { (*text).to_owned() };
            let path = place.join(name);
            fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        let said = || format!("setting up the application {name}, which needs: {}", plan.install);
        process::complete(&plan.setup, place).with_context(said)?;
        fs::remove_file(place.join(SETUP))?;
        // An interpreter that gave up its privileges reads them.
        fs::set_permissions(place, fs::Permissions::from_mode(0o755))?;
        Ok(Application { root: fs::canonicalize(place)?, interpreter, services })
    }

    /// Its services, each with its version and origin.
    pub(super) fn parts(&self) -> impl Iterator<Item = String> {
        self.services.iter().map(|service| service.found().named())
    }
}

/// The folder and the port of each service, by its name.
fn values(services: &[Running]) -> BTreeMap<String, String> {
    let pairs = services.iter().flat_map(|service| {
        let name = &service.found().contender.name;
        let folder = (name.clone(), service.folder().display().to_string());
        [folder, (format!("{name}_port"), service.address.port().to_string())]
    });
    pairs.collect()
}

fn folder(name: &str) -> Result<&'static Folder> {
    let folder = FOLDERS.iter().find(|folder| folder.name == name);
    let known: Vec<&str> = FOLDERS.iter().map(|folder| folder.name).collect();
    folder.with_context(|| format!("no application is called {name}; there are {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::contender::Contender;
    use crate::model::experiment::Experiment;

    #[test]
    fn built_in_applications_are_sound() {
        let contenders = Contender::built_in().unwrap();
        let is_known = |name: &String| contenders.iter().any(|contender| contender.name == *name);
        for folder in FOLDERS {
            let plan = Plan::of(folder.name).unwrap();
            assert!(is_known(&plan.interpreter) && plan.services.iter().all(is_known), "{}", folder.name);
            for file in [SETTINGS, SETUP] {
                assert!(folder.files.iter().any(|(name, _)| *name == file), "{}: no {file}", folder.name);
            }
        }
        assert!(Plan::of("none").unwrap_err().to_string().contains("shakespeare"));
    }

    #[test]
    fn experiments_name_applications_that_are_there() {
        for load in Experiment::built_in().unwrap().iter().flat_map(|experiment| &experiment.loads) {
            if let Some(name) = &load.application {
                Plan::of(name).unwrap();
                assert!(load.contains.is_some(), "{}: what does a right answer contain?", load.id);
            }
        }
    }
}
