//! The configuration languages, and what differs between them once a text is a tree.

use std::borrow::Cow;

use crate::apache::{self, Classes};
use crate::catalogue::{self, Entry};
use crate::diagnostic::Diagnostic;
use crate::spec::{Contexts, not_allowed_here, unknown_directive};
use crate::tree::Node;

/// The language in which a directive was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// nginx's, in `nginx.conf` and what it includes.
    Nginx,
    /// Apache's, in `httpd.conf` and in `.htaccess` files.
    Apache,
}

/// How a directive reads the file that it includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inclusion {
    /// As the file is.
    Verbatim,
    /// With variables of the environment filled in.
    Template,
}

/// What happens to a directive that no module owns at its place.
#[derive(Debug)]
pub enum Unowned {
    /// nginx has it, and its entry says what happens.
    Listed(&'static Entry),
    /// It is rejected or skipped. The reader goes on.
    Rejected(Diagnostic),
    /// It is an error that ends the reading.
    Invalid(Diagnostic),
}

impl Dialect {
    /// A directive's name as tables spell it: the case of names counts in nginx and not in Apache.
    pub fn spelling(self, name: &str) -> Cow<'_, str> {
        match self {
            Dialect::Apache if name.bytes().any(|byte| byte.is_ascii_uppercase()) => {
                name.to_ascii_lowercase().into()
            }
            _ => name.into(),
        }
    }

    /// How a directive of this name includes a file; `None` for a directive that includes none. `.htaccess` files include
    /// no others.
    pub fn inclusion(self, name: &[u8]) -> Option<Inclusion> {
        match (self, name) {
            (Dialect::Nginx, b"include") => Some(Inclusion::Verbatim),
            (Dialect::Nginx, b"include_template") => Some(Inclusion::Template),
            _ => None,
        }
    }

    /// The classes of `AllowOverride` that allow a directive of this name; `None` for a directive that no class allows or
    /// forbids. nginx's language has no classes.
    pub fn classes(self, name: &str) -> Option<Classes> {
        match self {
            Dialect::Nginx => None,
            Dialect::Apache => apache::classes_of(name),
        }
    }

    /// What happens to a directive that no module owns in this context. Modules own it in the contexts `elsewhere`, if in
    /// any. `names` are those that a misspelt one may stand for.
    pub fn unowned<'a>(
        self,
        node: &Node,
        context: Contexts,
        elsewhere: Contexts,
        names: impl Iterator<Item = &'a str>,
    ) -> Unowned {
        match self {
            Dialect::Nginx => unowned_in_nginx(node, context, elsewhere, names),
            Dialect::Apache if elsewhere.is_empty() => {
                Unowned::Rejected(apache::not_honoured(node, context, names))
            }
            Dialect::Apache => Unowned::Rejected(not_allowed_here(node, elsewhere)),
        }
    }
}

impl Contexts {
    /// The language of the directives that may stand in these places.
    pub const fn dialect(self) -> Dialect {
        if self.intersects(Contexts::ALL_APACHE) { Dialect::Apache } else { Dialect::Nginx }
    }
}

/// nginx's own modules own more directives than ours do, and third-party modules others.
fn unowned_in_nginx<'a>(
    node: &Node,
    context: Contexts,
    elsewhere: Contexts,
    names: impl Iterator<Item = &'a str>,
) -> Unowned {
    let name = node.name.to_string();
    if let Some(entry) = catalogue::entry(&name, context) {
        return Unowned::Listed(entry);
    }
    let elsewhere = if elsewhere.is_empty() { catalogue::contexts(&name) } else { elsewhere };
    if !elsewhere.is_empty() {
        return Unowned::Invalid(not_allowed_here(node, elsewhere));
    }
    match catalogue::foreign(&name) {
        Some(foreign) => Unowned::Rejected(foreign.diagnostic(&name).at(node.span).under(node.name.span)),
        None => Unowned::Invalid(unknown_directive(
            node,
            names.chain(catalogue::names().map(|name| -> &str { name })),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{Dialect, Inclusion, Unowned};
    use crate::apache::Classes;
    use crate::spec::Contexts;
    use crate::tree::Node;
    use std::path::Path;

    /// The same text is a tree in both languages.
    fn nodes(text: &str) -> [Node; 2] {
        let [nginx, apache] = [crate::parse_bytes(format!("{text};").as_bytes()), {
            crate::apache::parse(Path::new("/x"), text.into())
        }];
        [nginx, apache].map(|mut loaded| loaded.nodes.remove(0))
    }

    #[test]
    fn the_tree_knows_its_language() {
        let [nginx, apache] = nodes("Header set A b");
        assert_eq!((nginx.dialect, apache.dialect), (Dialect::Nginx, Dialect::Apache));
        let section = crate::apache::parse(Path::new("/x"), "<If a>\nHeader set A b\n</If>".into());
        assert_eq!(section.nodes[0].children()[0].dialect, Dialect::Apache);
        let wrapped = crate::wrap_bare(crate::parse_bytes(b"server { }").nodes, &["server"]).0;
        assert_eq!(wrapped[0].dialect, Dialect::Nginx);
        assert_eq!(Contexts::HTACCESS.dialect(), Dialect::Apache);
        assert_eq!(Contexts::SERVER.or(Contexts::STREAM_SERVER).dialect(), Dialect::Nginx);
    }

    #[test]
    fn what_differs() {
        assert_eq!(Dialect::Nginx.spelling("Header"), "Header");
        assert_eq!(Dialect::Apache.spelling("Header"), "header");
        assert_eq!(Dialect::Nginx.inclusion(b"include"), Some(Inclusion::Verbatim));
        assert_eq!(Dialect::Nginx.inclusion(b"include_template"), Some(Inclusion::Template));
        assert_eq!(Dialect::Apache.inclusion(b"include"), None);
        assert_eq!(Dialect::Nginx.classes("options"), None);
        assert_eq!(Dialect::Apache.classes("options"), Some(Classes::OPTIONS));
    }

    #[test]
    fn names_without_an_owner_are_judged_by_their_language() {
        let judged = |node: &Node, context: Contexts, elsewhere: Contexts| match node.dialect.unowned(
            node,
            context,
            elsewhere,
            ["rewrite_rule"].into_iter(),
        ) {
            Unowned::Listed(entry) => format!("listed {}", entry.name),
            Unowned::Rejected(error) => format!("rejected: {}", error.message),
            Unowned::Invalid(error) => format!("invalid: {}", error.message),
        };
        let none = Contexts::EMPTY;
        for (text, in_nginx, in_apache) in [
            ("gzip on", "listed gzip", "rejected: unknown directive \"gzip\""),
            ("js_content a", "rejected: \"js_content\"", "rejected: unknown directive \"js_content\""),
            ("events a", "invalid: \"events\" directive is not allowed here", "rejected: unknown"),
            (
                "AuthType Basic",
                "invalid: unknown directive",
                "rejected: \"AuthType\" of mod_authn_core is not",
            ),
        ] {
            let [nginx, apache] = nodes(text);
            let told = judged(&nginx, Contexts::SERVER, none);
            assert!(told.starts_with(in_nginx), "{text}: {told}");
            let told = judged(&apache, Contexts::HTACCESS, none);
            assert!(told.starts_with(in_apache), "{text}: {told}");
        }
        let [nginx, apache] = nodes("own a");
        let elsewhere = "\"own\" directive is not allowed here";
        assert_eq!(judged(&nginx, Contexts::SERVER, Contexts::MAIN), format!("invalid: {elsewhere}"));
        assert_eq!(judged(&apache, Contexts::HTACCESS, Contexts::MAIN), format!("rejected: {elsewhere}"));
    }
}
