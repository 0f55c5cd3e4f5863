//! Sets the directory of a site's files: `root` and `alias`.
//!
//! `root` appends the whole path of the URI to the directory. `alias` replaces the location's prefix with the
//! directory. In a location with a regular expression, `alias` is the complete path of the file; write it with the
//! captures of the expression.
//!
//! Both arguments may contain variables, except `$document_root` and `$realpath_root`, which are computed from
//! them. A relative directory starts at the prefix (`-p`). The default is `html`.
//!
//! ```file site/images/logo.txt
//! logo
//! ```
//!
//! ```file other/pic.txt
//! picture
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root site;
//!     location /pictures/ {
//!         alias other/;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /images/logo.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Length: 5
//!
//! logo
//! ---
//! GET /pictures/pic.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! picture
//! ```

use conf::{Contexts, Diagnostic, Word};
use contract::{Args, Directive, Loading, LocationKind, LocationName, Module, Root, ScopeBuilder, View};

/// Where the files are.
pub static MODULE: Module =
    Module { name: "root", directives: &[&ROOT, &ALIAS], variables: &[], compile: Some(compile) };

/// `root DIRECTORY`
pub static ROOT: Directive<Root> = Directive::new("root", parse_root)
    .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION).or(Contexts::LOCATION_IF))
    .slot("root")
    .default("html")
    .help("The directory to which the path of a URI is appended.");

/// `alias DIRECTORY`
pub static ALIAS: Directive<Root> = Directive::new("alias", parse_alias)
    .within(Contexts::LOCATION)
    .slot("root")
    .help("The directory that takes the place of the location's prefix.");

fn parse_root(args: &Args<'_>, loading: &mut Loading) -> Result<Root, Diagnostic> {
    let word = args.word(0)?;
    // One slash at the end is not part of the directory, so that `$document_root$uri` has one between.
    let text = match word.text.strip_suffix(b"/") {
        Some(shorter) if !shorter.is_empty() => shorter,
        _ => &*word.text,
    };
    let word = Word { text: text.into(), ..word.clone() };
    directory(args, &word, loading)
}

fn parse_alias(args: &Args<'_>, loading: &mut Loading) -> Result<Root, Diagnostic> {
    let location = loading.location.clone();
    if location.as_ref().is_some_and(|location| location.kind == LocationKind::Named) {
        let message = "the \"alias\" directive cannot be used inside the named location";
        return Err(Diagnostic::emerg(message).at(args.node.span));
    }
    let word = args.word(0)?;
    if let Some(location) = &location {
        warn_of_slash(args, word, location, loading);
    }
    let root = directory(args, word, loading)?;
    Ok(Root { alias: location, ..root })
}

/// Warns where only one of a location's prefix and its alias ends with a slash: one takes the place of the other, so
/// that the slash is missing in the path of a file, or is there twice.
fn warn_of_slash(args: &Args<'_>, word: &Word, location: &LocationName, loading: &mut Loading) {
    if !matches!(location.kind, LocationKind::Prefix | LocationKind::PrefixOnly) {
        return;
    }
    let (prefix, alias) = (String::from_utf8_lossy(&location.text), word.to_string());
    let message = match (prefix.ends_with('/'), alias.ends_with('/')) {
        (false, true) => format!("\"location {prefix}\" has no slash at its end, \"alias {alias}\" has one"),
        // A variable may end with a slash.
        (true, false) if !alias.contains('$') => {
            format!("\"{prefix}x\" is the file \"{alias}x\": \"alias {alias}\" has no slash at its end")
        }
        _ => return,
    };
    let hint =
        format!("location {}/ {{ alias {}/; }}", prefix.trim_end_matches('/'), alias.trim_end_matches('/'));
    loading.note(Diagnostic::warn(message).at(args.node.span).under(word.span).hint(hint));
}

fn directory(args: &Args<'_>, word: &Word, loading: &mut Loading) -> Result<Root, Diagnostic> {
    let text = String::from_utf8_lossy(&word.text);
    for own in ["document_root", "realpath_root"] {
        if text.contains(&format!("${own}")) || text.contains(&format!("${{{own}}}")) {
            let name = &args.node.name;
            let message = format!("the ${own} variable cannot be used in the \"{name}\" directive");
            return Err(Diagnostic::emerg(message).at(args.node.span).under(word.span));
        }
    }
    Ok(Root { path: loading.template(word)?, alias: None, prefix: loading.prefix.clone() })
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(root) = view.get(&ROOT) {
        builder.policy.root = root.clone();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::ALIAS;
    use crate::testing::Site;
    use conf::Contexts;
    use contract::{AnyDirective, Args, Loading, LocationKind, LocationName};
    use std::path::Path;

    #[test]
    fn a_named_location_has_no_prefix_to_replace() {
        let parse = |kind, text: &[u8]| {
            let loaded = conf::parse_bytes(b"alias /a;");
            let mut loading = Loading::new(Path::new("/"), Path::new("/"));
            loading.location = Some(LocationName { kind, text: text.into() });
            let args = Args { node: &loaded.nodes[0], context: Contexts::LOCATION, opened: None };
            ALIAS.parse(&args, &mut loading).map(|_| ()).map_err(|error| error.message)
        };
        assert_eq!(parse(LocationKind::Prefix, b"/x"), Ok(()));
        let message = "the \"alias\" directive cannot be used inside the named location";
        assert_eq!(parse(LocationKind::Named, b"@x"), Err(message.to_owned()));
    }

    #[test]
    fn a_location_and_its_alias_both_end_with_a_slash() {
        let notes = |kind, location: &str, alias: &str| {
            let loaded = conf::parse_bytes(format!("alias {alias};").as_bytes());
            let mut loading = Loading::new(Path::new("/"), Path::new("/"));
            loading.location = Some(LocationName { kind, text: location.as_bytes().into() });
            let args = Args { node: &loaded.nodes[0], context: Contexts::LOCATION, opened: None };
            ALIAS.parse(&args, &mut loading).map(drop).unwrap();
            loading.notes.into_iter().map(|note| note.message).collect::<Vec<_>>()
        };
        let missing =
            "\"/i/x\" is the file \"/data/imagesx\": \"alias /data/images\" has no slash at its end";
        assert_eq!(notes(LocationKind::Prefix, "/i/", "/data/images"), [missing]);
        let spare = "\"location /i\" has no slash at its end, \"alias /x/\" has one";
        assert_eq!(notes(LocationKind::PrefixOnly, "/i", "/x/"), [spare]);
        for (location, alias) in [("/i/", "/x/"), ("/i", "/x"), ("/i/", "/x/$host"), ("/", "/x/$host/")] {
            assert_eq!(notes(LocationKind::Prefix, location, alias), [""; 0]);
        }
        assert_eq!(notes(LocationKind::Exact, "/i/", "/x"), [""; 0]);
        assert_eq!(notes(LocationKind::Regex, "/i/", "/x"), [""; 0]);
    }

    #[test]
    fn the_root_cannot_come_from_itself() {
        assert_eq!(
            Site::error("root /a/${document_root}/b;"),
            "the $document_root variable cannot be used in the \"root\" directive"
        );
        assert_eq!(
            Site::error("alias $realpath_root;"),
            "the $realpath_root variable cannot be used in the \"alias\" directive"
        );
    }

    #[test]
    fn one_level_has_one_of_them() {
        assert_eq!(
            Site::error("root /a; alias /b;"),
            "\"alias\" directive is duplicate, \"root\" directive was specified earlier"
        );
        assert_eq!(Site::error("root /a; root /b;"), "\"root\" directive is duplicate");
    }
}
