//! The directives of Apache 2.4, for messages about those that are not honoured here.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::allowed::Classes;
use crate::diagnostic::Diagnostic;
use crate::spec::{Contexts, unknown_directive};
use crate::tree::Node;

/// A directive that Apache, or a module for Apache, knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    /// `core` or `mod_…`.
    module: &'static str,
    classes: Classes,
    /// What to do instead, if the module is not Apache's.
    foreign: Option<&'static str>,
}

/// Whether Apache 2.4 has a module of this name, which is written without `mod_`.
pub fn is_module(name: &str) -> bool {
    MODULES.contains(name)
}

/// The module, `core` or `mod_…`, of a directive. Case does not matter.
pub fn module_of(directive: &str) -> Option<&'static str> {
    DIRECTIVES.get(directive.to_ascii_lowercase().as_str()).map(|known| known.module)
}

/// The directives that Apache allows in `.htaccess` files.
pub fn directive_names() -> impl Iterator<Item = &'static str> {
    let rows = rows::<3>(DIRECTIVES_TEXT).filter(|[_, classes, _]| *classes != "server");
    rows.flat_map(|[_, _, names]| names.split_whitespace())
}

/// The classes of `AllowOverride` that allow a directive in `.htaccess` files; `None` for an unknown directive. Case does
/// not matter.
pub fn classes_of(directive: &str) -> Option<Classes> {
    DIRECTIVES.get(directive.to_ascii_lowercase().as_str()).map(|known| known.classes)
}

/// The error about a directive that is not honoured in a context of Apache's language: Fulmar refuses it, it belongs
/// elsewhere, or it is unknown. Then the nearest of `honoured` is the hint.
pub fn not_honoured<'a>(
    node: &Node,
    context: Contexts,
    honoured: impl IntoIterator<Item = &'a str>,
) -> Diagnostic {
    let name = node.name.to_string();
    let Some(Known { module, classes, foreign }) = DIRECTIVES.get(name.to_ascii_lowercase().as_str()) else {
        return unknown_directive(node, honoured);
    };
    let owner = if *module == "core" { "Apache's core" } else { module };
    let error = match (foreign, *classes) {
        (Some(instead), _) => {
            Diagnostic::emerg(format!("\"{name}\" belongs to {owner}, which is not part of Fulmar"))
                .hint(*instead)
        }
        (None, Classes::NONE) if context == Contexts::HTACCESS => {
            Diagnostic::emerg(format!("\"{name}\" of {owner} is not allowed in .htaccess files"))
        }
        (None, _) => Diagnostic::emerg(format!("\"{name}\" of {owner} is not supported")),
    };
    let error = match instead(module, &name) {
        Some(hint) if error.hint.is_none() => error.hint(hint),
        _ => error,
    };
    error.at(node.span).under(node.name.span)
}

/// Whether Fulmar refuses a directive of Apache, though it may honour others of the same module.
pub fn is_refused(directive: &str) -> bool {
    module_of(directive).is_some_and(|module| instead(module, directive).is_some())
}

/// Whether a directive of Apache is a section. Case does not matter.
pub fn is_section(directive: &str) -> bool {
    SECTIONS.iter().any(|section| section.eq_ignore_ascii_case(directive))
}

/// What to do instead of a directive that Fulmar refuses. A row with the name counts over the row of its module.
fn instead(module: &str, directive: &str) -> Option<&'static str> {
    let of_module = || rows::<3>(REFUSED_TEXT).filter(move |[owner, ..]| *owner == module);
    let named = of_module()
        .find(|[_, names, _]| names.split_whitespace().any(|name| name.eq_ignore_ascii_case(directive)));
    named.or_else(|| of_module().find(|[_, names, _]| *names == "*")).map(|[.., hint]| hint)
}

/// What to do instead of the directives of a module (`mod_authnz_ldap`) that Fulmar refuses.
pub fn instead_of_module(module: &str) -> Option<&'static str> {
    instead(module, "")
}

/// Apache's sections.
const SECTIONS: [&str; 27] = [
    "AuthnProviderAlias",
    "AuthzProviderAlias",
    "Directory",
    "DirectoryMatch",
    "Else",
    "ElseIf",
    "Files",
    "FilesMatch",
    "If",
    "IfDefine",
    "IfDirective",
    "IfFile",
    "IfModule",
    "IfSection",
    "IfVersion",
    "Limit",
    "LimitExcept",
    "Location",
    "LocationMatch",
    "Macro",
    "MDomainSet",
    "Proxy",
    "ProxyMatch",
    "RequireAll",
    "RequireAny",
    "RequireNone",
    "VirtualHost",
];

const DIRECTIVES_TEXT: &str = include_str!("directives.tsv");
const FOREIGN_TEXT: &str = include_str!("foreign.tsv");
const REFUSED_TEXT: &str = include_str!("refused.tsv");

/// By name in lower case.
static DIRECTIVES: LazyLock<HashMap<Box<str>, Known>> = LazyLock::new(|| {
    let own = rows::<3>(DIRECTIVES_TEXT).map(|[module, classes, names]| {
        (Known { module, classes: Classes::of_row(classes), foreign: None }, names)
    });
    let foreign = rows::<4>(FOREIGN_TEXT).map(|[module, classes, names, instead]| {
        (Known { module, classes: Classes::of_row(classes), foreign: Some(instead) }, names)
    });
    let named = |(known, names): (Known, &'static str)| {
        names
            .split_whitespace()
            .filter(|name| *name != "-")
            .map(move |name| (name.to_ascii_lowercase().into(), known))
    };
    own.chain(foreign).flat_map(named).collect()
});

static MODULES: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    rows::<3>(DIRECTIVES_TEXT).map(|[module, ..]| module.trim_start_matches("mod_")).collect()
});

/// Rows of so many fields between tabs; `#` begins a note. A test looks for others.
fn rows<const FIELDS: usize>(text: &'static str) -> impl Iterator<Item = [&'static str; FIELDS]> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split('\t').collect::<Vec<_>>().try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::{Classes, Contexts, DIRECTIVES, DIRECTIVES_TEXT, FOREIGN_TEXT, REFUSED_TEXT};
    use super::{is_module, module_of, not_honoured, rows};
    use std::path::Path;

    fn message(text: &str) -> String {
        let loaded = crate::apache::parse(Path::new("/x"), text.into());
        let error = not_honoured(&loaded.nodes[0], Contexts::HTACCESS, ["RewriteRule"]);
        format!("{}; {}", error.message, error.hint.unwrap_or_default())
    }

    #[test]
    fn every_row_is_read() {
        let count = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
        for text in [DIRECTIVES_TEXT, REFUSED_TEXT] {
            assert_eq!(rows::<3>(text).count(), count(text));
        }
        assert_eq!(rows::<4>(FOREIGN_TEXT).count(), count(FOREIGN_TEXT));
        let own = rows::<3>(DIRECTIVES_TEXT).map(|[_, classes, _]| classes);
        for classes in own.chain(rows::<4>(FOREIGN_TEXT).map(|[_, classes, _, _]| classes)) {
            let is_class = |name| Classes::NAMES.iter().any(|(known, _)| *known == name);
            assert!(["any", "server"].contains(&classes) || classes.split(',').all(is_class), "{classes}");
        }
        for [module, names, _] in rows::<3>(REFUSED_TEXT) {
            let is_of = |name: &str| {
                DIRECTIVES.get(&*name.to_ascii_lowercase()).is_some_and(|known| known.module == module)
            };
            assert!(names == "*" || names.split_whitespace().all(is_of), "{names}");
            assert!(rows::<3>(DIRECTIVES_TEXT).any(|[known, _, _]| known == module), "{module}");
        }
    }

    #[test]
    fn names_are_judged() {
        assert_eq!(message("authtype Basic"), "\"authtype\" of mod_authn_core is not supported; ");
        let form = "\"AuthFormBody\" of mod_auth_form is not supported; \
            let the application ask for the password, or use AuthType Basic";
        assert_eq!(message("AuthFormBody x"), form);
        assert_eq!(message("<If \"x\">\n</If>"), "\"If\" of Apache's core is not supported; ");
        assert_eq!(
            message("RewriteMap a b"),
            "\"RewriteMap\" of mod_rewrite is not allowed in .htaccess files; use map in the server's configuration"
        );
        assert_eq!(
            message("RewriteRul a b"),
            "unknown directive \"RewriteRul\"; did you mean \"RewriteRule\"?"
        );
        let php = "\"php_value\" belongs to mod_php, which is not part of Fulmar; PHP-FPM reads such settings from .user.ini files";
        assert_eq!(message("php_value a b"), php);
    }

    #[test]
    fn modules_have_names() {
        assert!(["core", "auth_basic", "authz_user", "rewrite", "version"].into_iter().all(is_module));
        assert!(!is_module("php5") && !is_module("access"));
        assert_eq!(module_of("AuthUserFile"), Some("mod_authn_file"));
    }
}
