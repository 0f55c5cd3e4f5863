//! Who takes part in a load, and who cannot; and with which tool.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, anyhow, bail};

use crate::measure::contender::{Contender, Found, find};
use crate::measure::tool::{self, FoundTool, Tool};
use crate::model::order::{Order, ToolName};
use crate::model::words;

/// All contenders and tools that the lab knows, looked for once.
pub struct Lineup {
    contenders: Vec<Contender>,
    /// Programs named on the command line, by contender.
    given: BTreeMap<String, PathBuf>,
    found: Known<String, Found>,
    tools: Known<ToolName, Rc<FoundTool>>,
}

impl Lineup {
    /// With programs that take the place of those that would be found.
    pub fn new(contenders: Vec<Contender>, given: BTreeMap<String, PathBuf>) -> Lineup {
        Lineup { contenders, given, found: Known::default(), tools: Known::default() }
    }

    /// All contenders by name, in the order of the report.
    pub fn names(&self) -> Vec<String> {
        self.contenders.iter().map(|contender| contender.name.clone()).collect()
    }

    /// The contender of that name, or of `name@program`. The error says why it cannot take part.
    pub fn find(&self, label: &str) -> Result<Found> {
        self.found.get(label.to_owned(), || self.look(label))
    }

    /// The tool of that name for an order; the lab's own where that one is missing or refuses it.
    pub fn tool(&self, name: ToolName, order: &Order) -> Result<Rc<FoundTool>> {
        let mut reasons = Vec::new();
        for name in [name, ToolName::FulmarLab] {
            let tool = tool::named(name).with_context(|| format!("no tool is called {name}"))?;
            if let Some(why) = tool.cannot(order) {
                reasons.push(why);
                continue;
            }
            match self.found_tool(tool) {
                Ok(found) => return Ok(found),
                Err(why) => reasons.push(format!("{name}: {why:#}")),
            }
        }
        bail!("no tool for this load: {}", reasons.join("; "))
    }

    /// The lab's own generator as it calls itself.
    pub fn own_version(&self) -> String {
        let own = tool::named(ToolName::FulmarLab).and_then(|tool| self.found_tool(tool).ok());
        own.map_or_else(String::new, |own| own.version.clone())
    }

    fn found_tool(&self, tool: &'static Tool) -> Result<Rc<FoundTool>> {
        self.tools.get(tool.name, || Ok(Rc::new(tool::find(tool)?)))
    }

    fn look(&self, label: &str) -> Result<Found> {
        let (name, program) = match label.split_once('@') {
            Some((name, program)) => (name, Some(Path::new(program))),
            None => (label, self.given.get(label).map(PathBuf::as_path)),
        };
        let contender = self.contenders.iter().find(|contender| contender.name == name);
        let contender = contender.with_context(|| words::unknown("contender", name, &self.names()))?;
        find(contender, program)
    }
}

/// What was looked for once: what was found, or why nothing was.
struct Known<K, T>(RefCell<BTreeMap<K, Result<T, String>>>);

impl<K, T> Default for Known<K, T> {
    fn default() -> Known<K, T> {
        Known(RefCell::default())
    }
}

impl<K: Ord, T: Clone> Known<K, T> {
    fn get(&self, name: K, look: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut known = self.0.borrow_mut();
        let entry = known.entry(name).or_insert_with(|| look().map_err(|error| format!("{error:#}")));
        entry.clone().map_err(|error| anyhow!(error))
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

    #[test]
    fn what_was_looked_for_is_not_looked_for_again() {
        let known: Known<&str, u32> = Known::default();
        assert_eq!(known.get("a", || Ok(1)).unwrap(), 1);
        assert_eq!(known.get("a", || Ok(2)).unwrap(), 1);
        assert_eq!(known.get("b", || bail!("not there")).unwrap_err().to_string(), "not there");
        assert_eq!(known.get("b", || Ok(3)).unwrap_err().to_string(), "not there");
    }
}
