//! Names of variables that a configuration defines.

use conf::{Diagnostic, Word};
use contract::{Args, Loading, Variable};

/// Variables of the server that a configuration may set.
const CHANGEABLE: [&str; 2] = ["args", "limit_rate"];

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
    let mut known = loading.modules.iter().flat_map(|module| module.variables);
    let is_builtin =
        known.any(|variable| !variable.family && variable.name == name && variable.is_known_in(args.context));
    if is_builtin && !CHANGEABLE.contains(&name.as_str()) {
        return Err(error(format!("the duplicate \"{name}\" variable")));
    }
    Ok(name)
}

/// The family of variables that a name belongs to, and the rest of the name.
pub(crate) fn family<'n>(name: &'n str, loading: &Loading) -> Option<(&'static Variable, &'n str)> {
    let known = loading.modules.iter().flat_map(|module| module.variables);
    let families = known.filter(|variable| variable.family);
    let fitting = families.filter_map(|family| Some((family, name.strip_prefix(family.name)?)));
    fitting.min_by_key(|(_, rest)| rest.len())
}
