//! Who takes part in a load, and who cannot.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use crate::contender::{Contender, Found, find};

/// All contenders that the lab knows, looked for once.
pub struct Lineup {
    contenders: Vec<Contender>,
    /// Programs named on the command line, by contender.
    given: BTreeMap<String, PathBuf>,
    found: RefCell<BTreeMap<String, Result<Found, String>>>,
}

impl Lineup {
    /// With programs that take the place of those that would be found.
    pub fn new(contenders: Vec<Contender>, given: BTreeMap<String, PathBuf>) -> Lineup {
        Lineup { contenders, given, found: RefCell::default() }
    }

    /// All contenders by name, in the order of the report.
    pub fn names(&self) -> Vec<String> {
        self.contenders.iter().map(|contender| contender.name.clone()).collect()
    }

    /// The contender of that name, or of `name@program`. The error says why it cannot take part.
    pub fn find(&self, label: &str) -> Result<Found> {
        let mut found = self.found.borrow_mut();
        let entry = found.entry(label.to_owned());
        let entry = entry.or_insert_with(|| self.look(label).map_err(|error| format!("{error:#}")));
        entry.clone().map_err(|error| anyhow!(error))
    }

    fn look(&self, label: &str) -> Result<Found> {
        let (name, program) = match label.split_once('@') {
            Some((name, program)) => (name, Some(Path::new(program))),
            None => (label, self.given.get(label).map(PathBuf::as_path)),
        };
        let contender = self.contenders.iter().find(|contender| contender.name == name);
        let contender = contender.with_context(|| {
            format!("no contender is called {name}; there are {}", self.names().join(", "))
        })?;
        find(contender, program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_programs() {
        let lineup = Lineup::new(Contender::built_in().unwrap(), BTreeMap::new());
        let error = lineup.find("colour").unwrap_err().to_string();
        assert!(error.contains("no contender is called colour") && error.contains("nginx"), "{error}");
        assert!(lineup.find("nginx@/no/such/program").is_err());
    }
}
