//! Sets which symbolic links are followed: `disable_symlinks` and `symlinks`.
//!
//! `disable_symlinks on` denies paths that contain a symbolic link. `if_not_owner` denies a link only if its target
//! has another owner. With `from=`, Fulmar does not check the beginning of the path. It opens files component by
//! component, so no process can replace a directory by a link between the check and the use.
//!
//! `symlinks inside` (Fulmar only) follows links that lead to a place below the `root`, or below the directory of the
//! `alias`, and denies links that lead out of it. Fulmar uses one `openat2` call if the kernel has it; otherwise it
//! compares the path of the opened file. The root itself may be a link. If an `alias` contains variables, Fulmar takes
//! the directory before the first variable, which must exist. Both directives also apply to listings of directories
//! and to `.htaccess` files: if a `.htaccess` file is reached by a denied link, all requests below it are denied. A
//! level may have only one of the two; there it replaces the one of the level around it.
//!
//! A denied link gets 403. With `disable_symlinks on`, a link to a directory in the middle of a path gets 404, as in
//! nginx. Files whose names are passed to other servers, such as PHP-FPM, are not checked.
//!
//! differs: nginx does not have `symlinks`.
//!
//! ```file html/files/a.txt
//! a
//! ```
//!
//! ```link html/files/inside.txt
//! a.txt
//! ```
//!
//! ```link html/files/outside.txt
//! ../../other/secret.txt
//! ```
//!
//! ```file other/secret.txt
//! secret
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     symlinks inside;
//!     location /none/ {
//!         alias html/files/;
//!         disable_symlinks on;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /files/inside.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! a
//! ---
//! GET /files/outside.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ---
//! GET /none/inside.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ---
//! GET /none/a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! a
//! ```

use crate::shared::files;
use crate::shared::per_directory::options;
pub(crate) use crate::shared::walk::{PASS, Way, open, open_directory, place};
use conf::{Arity, Contexts, Diagnostic, Word};
use contract::{Args, Directive, Exchange, Loading, Made, Module, Opener, ScopeBuilder, Template, View};
use std::sync::Arc;

/// Symbolic links.
pub static MODULE: Module = Module {
    name: "symlinks",
    directives: &[&DISABLE_SYMLINKS, &SYMLINKS],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `disable_symlinks off | on | if_not_owner [from=PART]`
pub static DISABLE_SYMLINKS: Directive<Links> = Directive::new("disable_symlinks", parse_disable)
    .within(LEVELS)
    .args(Arity::Range(1, 2))
    .slot("symlinks")
    .default("off")
    .help("Whether a path with a symbolic link is refused.");

/// `symlinks follow | inside`
pub static SYMLINKS: Directive<Links> = Directive::new("symlinks", |args, _| {
    args.value(0, |word| conf::value::choice(word, &[("follow", false), ("inside", true)]))
        .map(|inside| if inside { Links::Inside } else { Links::Follow })
})
.within(LEVELS)
.slot("symlinks")
.default("follow")
.help("`inside` denies symbolic links that lead out of the root; `follow` allows them.");

/// What happens to symbolic links.
#[derive(Clone, Debug)]
pub enum Links {
    /// They are followed.
    Follow,
    /// Links are denied: all, or only those whose target has another owner.
    Refuse {
        /// Whether a link is fine that leads to what its own owner has.
        owned_is_fine: bool,
        /// The beginning of a path that is trusted.
        from: Option<Template>,
    },
    /// They are followed below the root.
    Inside,
}

fn parse_disable(args: &Args<'_>, loading: &mut Loading) -> Result<Links, Diagnostic> {
    let (mut owned_is_fine, mut from) = (None, None);
    for word in args.words() {
        match &*word.text {
            b"off" => owned_is_fine = Some(None),
            b"on" => owned_is_fine = Some(Some(false)),
            b"if_not_owner" => owned_is_fine = Some(Some(true)),
            text => match text.strip_prefix(b"from=") {
                Some(part) => {
                    from = Some(loading.template(&Word { text: part.into(), ..word.clone() })?);
                }
                None => return Err(args.invalid(word)),
            },
        }
    }
    let complain = |message: String| Err(Diagnostic::emerg(message).at(args.node.span));
    match (owned_is_fine, args.words()) {
        (None, _) => complain(
            "\"disable_symlinks\" must have \"off\", \"on\" or \"if_not_owner\" parameter".to_owned(),
        ),
        (Some(_), [one, two]) if from.is_none() => complain(format!("duplicate parameters \"{one} {two}\"")),
        (Some(None), [_, _]) => complain("\"from=\" cannot be used with \"off\" parameter".to_owned()),
        (Some(None), _) => Ok(Links::Follow),
        (Some(Some(owned_is_fine)), _) => Ok(Links::Refuse { owned_is_fine, from }),
    }
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let root = &builder.policy.root;
    match view.written(&SYMLINKS) {
        Some(links) if matches!(links.value, Links::Inside) && !files::has_base(root) => {
            let message =
                "\"symlinks inside\" needs an alias that begins with a directory and not with a variable";
            let error = Diagnostic::emerg(message).at(links.span);
            Err(error.hint(
                "write the directory that links have to stay in before the first variable of \"alias\"",
            ))
        }
        _ => Ok(()),
    }
}

impl Links {
    /// What the view's level says.
    pub(crate) fn of(view: &View<'_>) -> Links {
        match (view.get(&SYMLINKS).cloned().unwrap_or(Links::Follow), options::refuses_links(view)) {
            (Links::Follow, Some(owned_is_fine)) => {
                Links::Refuse { owned_is_fine, from: Some(Template::made(Made(Arc::new(files::base)))) }
            }
            (links, _) => links,
        }
    }

    /// How settings in `.htaccess` files are opened; none where every link counts.
    pub(crate) fn opener(self) -> Option<Opener> {
        match self {
            Links::Follow => None,
            links => Some(Opener(Arc::new(move |exchange, path| open(path, links.way(exchange, path))))),
        }
    }

    /// How a path is to be opened.
    pub(crate) fn way(&self, exchange: &Exchange, path: &[u8]) -> Way {
        match self {
            Links::Follow => Way::Follow,
            Links::Refuse { owned_is_fine, from } => {
                let from = from.as_ref().map(|from| from.evaluate(exchange)).unwrap_or_default();
                match trusted(path, &from) {
                    Some(from) => Way::Walk { owned_is_fine: *owned_is_fine, from },
                    None => Way::Follow,
                }
            }
            Links::Inside => {
                let root = files::base(exchange);
                match path.starts_with(&root) {
                    true => Way::Beneath { base: root.len() },
                    // What the administrator named elsewhere, as in a condition.
                    false => Way::Follow,
                }
            }
        }
    }
}

/// How much of a path is in front of the first slash after the part that is trusted; `None` where that is all of it.
fn trusted(path: &[u8], from: &[u8]) -> Option<usize> {
    match path.strip_prefix(from) {
        None => Some(0),
        Some(b"") => None,
        Some(_) if from.is_empty() => Some(0),
        Some(rest) if rest.starts_with(b"/") => Some(from.len()),
        Some(_) if from.ends_with(b"/") => Some(from.len() - 1),
        Some(_) => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::{Links, Way, trusted};
    use crate::testing::{Site, status};
    use contract::Phase;

    #[test]
    fn what_is_trusted_ends_at_a_slash() {
        assert_eq!(trusted(b"/a/b", b""), Some(0));
        assert_eq!(trusted(b"/a/b", b"/a"), Some(2));
        assert_eq!(trusted(b"/a/b", b"/a/"), Some(2));
        assert_eq!(trusted(b"/ab", b"/a"), Some(0), "a part of a name is none");
        assert_eq!(trusted(b"/b", b"/a"), Some(0));
        assert_eq!(trusted(b"/a", b"/a"), None);
        assert_eq!(trusted(b"/a", b"/a/"), Some(0));
    }

    fn served(site: &Site, target: &str) -> u16 {
        status(&site.run(Phase::Content, &mut site.get(target)))
    }

    fn site(text: &str) -> Site {
        let site = Site::location(text);
        site.file("real/a.txt", "a");
        site.file("real/sub/b.txt", "b");
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, site.root().join(name)).unwrap();
        };
        link("a.txt", "real/near");
        link("sub", "real/dir");
        link("/proc/version", "real/far");
        link(site.root().join("real/a.txt").to_str().unwrap(), "real/absolute");
        link("../../../../../../../../proc/version", "real/up");
        link("loop", "real/loop");
        site
    }

    #[test]
    fn every_kind_of_link() {
        for (text, expected) in [
            ("", [0, 0, 0, 0, 0, 0, 403]),
            ("disable_symlinks on from=$document_root;", [0, 403, 404, 403, 403, 403, 403]),
            ("disable_symlinks off;", [0, 0, 0, 0, 0, 0, 403]),
            ("symlinks inside;", [0, 0, 0, 403, 0, 403, 403]),
            ("symlinks inside; open_file_cache max=10;", [0, 0, 0, 403, 0, 403, 403]),
        ] {
            let site = site(text);
            let paths = ["a.txt", "near", "dir/b.txt", "far", "absolute", "up", "loop"];
            let got = paths.map(|path| served(&site, &format!("/real/{path}")));
            assert_eq!(got, expected, "{text}");
        }
    }

    #[test]
    fn what_a_directive_may_say() {
        let must = "\"disable_symlinks\" must have \"off\", \"on\" or \"if_not_owner\" parameter";
        for (text, message) in [
            ("disable_symlinks yes;", "invalid parameter \"yes\""),
            ("disable_symlinks from=/;", must),
            ("disable_symlinks on off;", "duplicate parameters \"on off\""),
            ("disable_symlinks off from=/;", "\"from=\" cannot be used with \"off\" parameter"),
            ("symlinks outside;", "invalid value \"outside\""),
        ] {
            assert_eq!(Site::error(text), message, "{text}");
        }
        let both = Site::error("disable_symlinks on; symlinks inside;");
        assert!(both.contains("\"disable_symlinks\" directive was specified earlier"), "{both}");
    }

    #[test]
    fn an_alias_says_what_is_inside() {
        let conf = |alias: &str| format!("alias {alias}; symlinks inside;");
        for wrong in ["$arg_home/x/", "$arg_a"] {
            assert!(Site::error(&conf(wrong)).contains("begins with a directory"), "{wrong}");
        }
        let _ = Site::location(&conf("/srv/$arg_a/"));
    }

    #[test]
    fn an_alias_with_variables_is_bounded_too() {
        for (alias, path, base) in [
            ("/srv/$arg_a/x", "/srv/y/x", "/srv/"),
            ("/srv/a/$arg_a", "/srv/a/y", "/srv/a/"),
            ("/srv/a.txt", "/srv/a.txt", "/srv/"),
        ] {
            let site =
                Site::named(contract::LocationKind::Regex, "x", &format!("alias {alias}; symlinks inside;"));
            let exchange = site.get("/x?a=/srv/y");
            let way = Links::Inside.way(&exchange, path.as_bytes());
            assert_eq!(way, Way::Beneath { base: base.len() }, "{alias}");
        }
    }

    #[test]
    fn a_path_elsewhere_is_the_administrator_s() {
        let site = Site::location("symlinks inside;");
        let exchange = site.get("/");
        assert_eq!(Links::Inside.way(&exchange, b"/elsewhere"), Way::Follow);
        let root = exchange.scope.policy.root.directory(&exchange);
        let path = [&root[..], b"/a"].concat();
        assert_eq!(Links::Inside.way(&exchange, &path), Way::Beneath { base: root.len() });
    }
}
