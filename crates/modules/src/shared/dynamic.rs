//! Variables whose names are known only while a request is served.

use conf::Contexts;
use contract::{Exchange, Getter, Variable};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The variables of all features.
struct Names {
    exact: HashMap<&'static str, Getter>,
    /// The longest start of a name comes first.
    families: Vec<Variable>,
}

/// Appends the value of the variable of this name, which is in lower case; `false` if there is no such variable, or if
/// it has no value.
pub(crate) fn value(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    static NAMES: OnceLock<Names> = OnceLock::new();
    if let Some(id) = exchange.variables().find(name) {
        return exchange.variable(id, out);
    }
    let names = NAMES.get_or_init(Names::of_all);
    if let Some(get) = names.exact.get(name) {
        return get(exchange, "", out);
    }
    let family = names.families.iter().find(|family| name.starts_with(family.name));
    family.is_some_and(|family| (family.get)(exchange, &name[family.name.len()..], out))
}

impl Names {
    fn of_all() -> Names {
        let all = || {
            let all = crate::ALL.iter().flat_map(|module| module.variables);
            all.filter(|variable| variable.is_known_in(Contexts::HTTP))
        };
        let exact = all().filter(|variable| !variable.family).map(|variable| (variable.name, variable.get));
        let mut families: Vec<Variable> = all().filter(|variable| variable.family).copied().collect();
        families.sort_by_key(|family| std::cmp::Reverse(family.name.len()));
        Names { exact: exact.collect(), families }
    }
}

#[cfg(test)]
mod tests {
    use super::value;
    use crate::testing::Site;

    #[test]
    fn variables_of_the_configuration_and_of_the_server() {
        let site = Site::location("set $mine 1; if ($mine) { set $other $args; }");
        let exchange = site.get("/a?b=c");
        let get = |name: &str| {
            let mut out = Vec::new();
            value(&exchange, name, &mut out).then(|| String::from_utf8(out).unwrap())
        };
        assert_eq!(get("arg_b").as_deref(), Some("c"));
        assert_eq!(get("request_method").as_deref(), Some("GET"));
        assert_eq!(get("args").as_deref(), Some("b=c"));
        assert_eq!(get("mine").as_deref(), Some(""), "nothing has set it yet");
        assert_eq!([get("arg_x"), get("nobody")], [const { None }; 2]);
    }
}
