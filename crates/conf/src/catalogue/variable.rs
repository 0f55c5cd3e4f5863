//! Variables that belong to features: what they stand for where no module owns them.

use std::sync::LazyLock;

use super::table;
use crate::diagnostic::Diagnostic;

/// A variable of nginx that a feature brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// The name without `$`; one that ends in `_` is the common start of a family.
    pub name: &'static str,
    /// The module that it belongs to.
    pub module: &'static str,
    /// What it stands for where no module owns it.
    pub absent: Absent,
}

/// What a variable stands for without its feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// Nothing, as for every request in which the feature takes no part.
    Empty,
    /// What this other variable stands for.
    Same(&'static str),
    /// Refused: a rule that asks for it could decide wrongly.
    Pending {
        /// What would happen without it.
        why: &'static str,
        /// What can be done today.
        instead: &'static str,
    },
}

impl Variable {
    /// The refusal of a use of `name`, without its place; nothing where the variable stands for something.
    pub fn diagnostic(&self, name: &str) -> Option<Diagnostic> {
        let Absent::Pending { why, instead } = self.absent else { return None };
        Some(Diagnostic::emerg(format!("variable \"{name}\" is not built yet ({why})")).hint(instead))
    }

    fn matches(&self, name: &str) -> bool {
        name == self.name || self.name.ends_with('_') && name.starts_with(self.name)
    }
}

/// The feature's variable of this name, in lower case, for names that no module owns and no directive defines.
pub fn variable(name: &str) -> Option<&'static Variable> {
    VARIABLES.iter().find(|variable| variable.matches(name))
}

fn read(row: &'static str) -> Option<Variable> {
    let mut fields = row.split('\t');
    let (name, module, kind) = (fields.next()?, fields.next()?, fields.next()?);
    let absent = match (kind, fields.next(), fields.next()) {
        ("empty", None, None) => Absent::Empty,
        ("same", Some(other), None) => Absent::Same(other),
        ("pending", Some(why), Some(instead)) => Absent::Pending { why, instead },
        _ => return None,
    };
    Some(Variable { name, module, absent })
}

static VARIABLES: LazyLock<Vec<Variable>> =
    LazyLock::new(|| table::rows(table::VARIABLES).filter_map(read).collect());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn every_row_is_read() {
        assert_eq!(VARIABLES.len(), table::rows(table::VARIABLES).count());
        assert!(VARIABLES.is_sorted_by_key(|variable| variable.name));
        for variable in VARIABLES.iter() {
            let module = variable.module;
            assert!(catalogue::all().iter().any(|entry| entry.module == module), "{module}");
        }
    }

    #[test]
    fn a_missing_feature_gives_no_value_or_no_start() {
        let absent = |name| variable(name).map(|variable| variable.absent);
        assert_eq!(absent("upstream_response_time"), Some(Absent::Empty));
        assert_eq!(absent("upstream_http_x_app"), Some(Absent::Empty));
        assert_eq!(absent("ssl_protocol"), Some(Absent::Empty));
        assert_eq!(absent("fastcgi_script_name"), Some(Absent::Same("uri")));
        assert!(matches!(absent("invalid_referer"), Some(Absent::Pending { .. })));
        assert_eq!(absent("nobody"), None);
        assert_eq!(absent("ssl_protocols"), None);
    }

    #[test]
    fn variables_that_rules_ask_for_are_refused() {
        let refused = variable("secure_link").and_then(|variable| variable.diagnostic("secure_link"));
        assert!(refused.is_some_and(|told| told.message.contains("secure_link") && told.hint.is_some()));
        assert_eq!(variable("http2").and_then(|variable| variable.diagnostic("http2")), None);
    }
}
