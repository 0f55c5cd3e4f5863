//! The environment of the worker.

use conf::Diagnostic;
use contract::{Args, Loading};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The time zone, which is kept unless it is set.
const TIME_ZONE: &str = "TZ";

/// `env`: a variable that is kept, or one that is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Env {
    /// Its name.
    pub name: OsString,
    /// What it is set to; none keeps the value that it has.
    pub value: Option<OsString>,
}

pub(super) fn parse(args: &Args<'_>, _: &mut Loading) -> Result<Env, Diagnostic> {
    let word = args.word(0)?;
    let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_os_string();
    let equals = word.text.iter().position(|&byte| byte == b'=');
    let (name, value) = match equals {
        Some(at) => (&word.text[..at], Some(text(&word.text[at + 1..]))),
        None => (&*word.text, None),
    };
    // The system has no such variables, and could not set one.
    if name.is_empty() || word.text.contains(&0) {
        return Err(args.invalid(word));
    }
    Ok(Env { name: text(name), value })
}

/// The variables of the worker, from those that the supervisor has: what is kept and what is set, and the time zone.
pub fn environment(
    written: &[Env],
    present: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let zone = Env { name: TIME_ZONE.into(), value: None };
    let zone = Some(&zone).filter(|zone| !written.iter().any(|env| env.name == zone.name));
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    let mut add = |name: &OsString, value: OsString| {
        if !variables.iter().any(|(known, _)| known == name) {
            variables.push((name.clone(), value));
        }
    };
    for Env { name, value } in written {
        if let Some(value) = value {
            add(name, value.clone());
        }
    }
    let is_kept = |name: &OsString| written.iter().chain(zone).any(|env| env.name == *name);
    present.filter(|(name, _)| is_kept(name)).for_each(|(name, value)| add(&name, value));
    variables
}

#[cfg(test)]
mod tests {
    use super::environment;
    use crate::connection::process::ENV;
    use crate::testing::main_level;

    fn of(text: &str, present: &[(&str, &str)]) -> Vec<String> {
        let (config, _) = main_level(text).unwrap();
        let view = config.view(contract::Config::MAIN);
        let written: Vec<_> = view.all(&ENV).iter().map(|env| env.value.clone()).collect();
        let present = present.iter().map(|(name, value)| (name.into(), value.into()));
        let shown = environment(&written, present);
        shown.iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect()
    }

    #[test]
    fn what_is_named_is_kept_or_set() {
        let present = [("PATH", "/bin"), ("HOME", "/root"), ("TZ", "UTC"), ("A", "a")];
        assert_eq!(of("events {}", &present), ["TZ=UTC"]);
        let text = "env HOME; env A=b=c; env NONE; env EMPTY=; env A=second;";
        assert_eq!(of(text, &present), ["A=b=c", "EMPTY=", "HOME=/root", "TZ=UTC"]);
        assert_eq!(of("env TZ=Asia/Tokyo;", &present), ["TZ=Asia/Tokyo"]);
        assert_eq!(of("env TZ;", &present[..1]), Vec::<String>::new());
    }

    #[test]
    fn a_variable_has_a_name() {
        assert_eq!(main_level("env =x;").map(|_| ()).unwrap_err(), "invalid parameter \"=x\"");
    }
}
