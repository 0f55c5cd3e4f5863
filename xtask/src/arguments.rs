//! Arguments of a command: switches, options with a value, and names.

use std::str::FromStr;

use anyhow::{Context, Result, bail};

/// What is left of a command's arguments.
pub(crate) struct Arguments<'a> {
    rest: Vec<&'a str>,
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(arguments: &[&'a str]) -> Self {
        Self { rest: arguments.to_vec() }
    }

    /// Takes a switch; whether it was there.
    pub(crate) fn switch(&mut self, name: &str) -> bool {
        let before = self.rest.len();
        self.rest.retain(|argument| *argument != name);
        self.rest.len() < before
    }

    /// Takes an option and the value after it.
    pub(crate) fn option<T>(&mut self, name: &str) -> Result<Option<T>>
    where
        T: FromStr,
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let Some(at) = self.rest.iter().position(|argument| *argument == name) else { return Ok(None) };
        let value = *self.rest.get(at + 1).with_context(|| format!("{name} needs a value"))?;
        self.rest.drain(at..at + 2);
        value.parse().map(Some).with_context(|| format!("{name} {value}"))
    }

    /// The names that are left, once every switch and option was taken.
    pub(crate) fn names(self) -> Result<Vec<&'a str>> {
        if let Some(unknown) = self.rest.iter().find(|argument| argument.starts_with('-')) {
            bail!("unknown option {unknown}");
        }
        Ok(self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_it_knows_and_refuses_the_rest() {
        let mut arguments = Arguments::new(&["a", "--jobs", "4", "--all", "b"]);
        assert!(arguments.switch("--all"));
        assert!(!arguments.switch("--all"));
        assert_eq!(arguments.option("--jobs").unwrap(), Some(4));
        assert_eq!(arguments.option::<u32>("--pairs").unwrap(), None);
        assert_eq!(arguments.names().unwrap(), ["a", "b"]);

        let mut arguments = Arguments::new(&["--jobs", "x"]);
        assert!(arguments.option::<u32>("--jobs").is_err());
        let mut arguments = Arguments::new(&["--jobs"]);
        assert!(arguments.option::<u32>("--jobs").is_err());
        assert!(Arguments::new(&["--other"]).names().is_err());
    }
}
