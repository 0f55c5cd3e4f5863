//! Names of variables that a configuration defines.

use conf::{Contexts, Diagnostic, Word};
use contract::{Args, Loading, Variable};

/// Variables of the server that a configuration may set, as in nginx. Those of `ssl` may be set, too.
const CHANGEABLE: [&str; 8] = [
    "ancient_browser",
    "args",
    "invalid_referer",
    "limit_rate",
    "modern_browser",
    "msie",
    "proxy_host",
    "proxy_port",
];

fn is_changeable(name: &str) -> bool {
    CHANGEABLE.contains(&name) || name.starts_with("ssl_")
}

/// The name in a word such as `$name`, which a directive is about to define.
pub(crate) fn variable(args: &Args<'_>, word: &Word, loading: &Loading) -> Result<String, Diagnostic> {
    let error = |message: String| Diagnostic::emerg(message).at(args.node.span).under(word.span);
    let Some(name) = word.text.strip_prefix(b"$") else {
        return Err(error(format!("invalid variable name \"{word}\"")));
    };
    if name.is_empty() {
        return Err(error("invalid variable name \"$\"".to_owned()));
    }
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let is_builtin = builtin(&name, loading).any(|variable| variable.is_known_in(args.context));
    if is_builtin && !is_changeable(&name) {
        return Err(error(format!("the duplicate \"{name}\" variable")));
    }
    Ok(name)
}

/// The server's own variables of this name: there may be one for requests and one for connections of `stream`.
fn builtin<'l>(name: &'l str, loading: &'l Loading) -> impl Iterator<Item = &'static Variable> + use<'l> {
    let known = loading.modules.iter().flat_map(|module| module.variables);
    known.filter(move |variable| !variable.family && variable.name == name)
}

/// The variable of a request that has a value where the configuration's variable of this name has not been set: the
/// server's own one, or the family that the name belongs to, with the rest of the name.
pub(crate) fn unset<'n>(name: &'n str, loading: &Loading) -> Option<(&'static Variable, &'n str)> {
    let own = builtin(name, loading).find(|variable| variable.is_known_in(Contexts::HTTP));
    own.map(|variable| (variable, "")).or_else(|| family(name, loading))
}

fn family<'n>(name: &'n str, loading: &Loading) -> Option<(&'static Variable, &'n str)> {
    let known = loading.modules.iter().flat_map(|module| module.variables);
    let families = known.filter(|variable| variable.family);
    let fitting = families.filter_map(|family| Some((family, name.strip_prefix(family.name)?)));
    fitting.min_by_key(|(_, rest)| rest.len())
}
