//! The script that a URI names and what follows it: `$fastcgi_script_name` and `$fastcgi_path_info`.

use conf::Diagnostic;
use conf::value::{Captures, Language, Pattern};
use contract::{Args, Exchange, Loading};
use std::sync::Arc;

/// How a path is split into a script and what follows its name (RFC 3875, sections 4.1.5 and 4.1.13).
pub(super) struct Script {
    /// Captures the script's name and the path info; without it, or where it does not match, the whole path is the name.
    pub(super) split: Option<Arc<Pattern>>,
    /// The script of a directory; empty for none.
    pub(super) index: Box<[u8]>,
}

/// Reads a `fastcgi_split_path_info`.
pub(super) fn parse_split(args: &Args<'_>, _: &mut Loading) -> Result<Arc<Pattern>, Diagnostic> {
    let word = args.word(0)?;
    let error = |message: String| Diagnostic::emerg(message).at(args.node.span).under(word.span);
    let pattern =
        Pattern::new(&word.text, false, Language::Nginx).map_err(|wrong| error(wrong.to_string()))?;
    if pattern.names().len() != 3 {
        return Err(error(format!("pattern \"{word}\" must have 2 captures")));
    }
    Ok(Arc::new(pattern))
}

/// `$fastcgi_script_name`: the URI, or the first capture of the pattern that splits it; the index for a
/// directory.
pub(super) fn script_name(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    match split(exchange) {
        Some(captures) => out.extend_from_slice(captures.get(1, &exchange.request.path).unwrap_or_default()),
        None => out.extend_from_slice(&exchange.request.path),
    }
    if out[start..].ends_with(b"/")
        && let Some(script) = exchange.scope.kept::<Script>()
    {
        out.extend_from_slice(&script.index);
    }
    true
}

/// `$fastcgi_path_info`: the second capture, or nothing.
pub(super) fn path_info(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    if let Some(captures) = split(exchange) {
        out.extend_from_slice(captures.get(2, &exchange.request.path).unwrap_or_default());
    }
    true
}

fn split(exchange: &Exchange) -> Option<Captures> {
    let pattern = exchange.scope.kept::<Script>()?.split.as_ref()?;
    let mut captures = Captures::default();
    pattern.captures(&exchange.request.path, &mut captures).then_some(captures)
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    /// The script's name and the path info of a request for this path.
    fn split(directives: &str, path: &str) -> (String, String) {
        let maps =
            "map $uri $x { default $fastcgi_script_name; } map $uri $y { default $fastcgi_path_info; }";
        let site = Site::location(&format!("{maps} index $x$y; {directives}"));
        let exchange = site.get(path);
        (site.variable("x", &exchange), site.variable("y", &exchange))
    }

    #[test]
    fn a_path_is_split_once() {
        const SPLIT: &str = r"fastcgi_split_path_info '^(.+?\.php)(/.*)$'; fastcgi_index i.php;";
        for (directives, path, name, info) in [
            ("", "/a.php/b", "/a.php/b", ""),
            ("", "/a/", "/a/", ""),
            ("fastcgi_index i.php;", "/a/", "/a/i.php", ""),
            (SPLIT, "/a.php/b/c", "/a.php", "/b/c"),
            (SPLIT, "/a.php/b.php/c", "/a.php", "/b.php/c"),
            (SPLIT, "/a.php", "/a.php", ""),
            (SPLIT, "/x.jpg/a.php/", "/x.jpg/a.php", "/"),
            (SPLIT, "/a/", "/a/i.php", ""),
        ] {
            assert_eq!(split(directives, path), (name.to_owned(), info.to_owned()), "{directives} {path}");
        }
    }

    #[test]
    fn messages() {
        let two = "pattern \"^(a)\" must have 2 captures";
        assert_eq!(Site::error("fastcgi_split_path_info ^(a);"), two);
        assert!(Site::error("fastcgi_split_path_info '(';").contains("missing closing parenthesis"));
        assert_eq!(Site::error("fastcgi_param A b if_empty;"), "invalid parameter \"if_empty\"");
        assert_eq!(Site::error("fastcgi_pass php;"), "no port in upstream \"php\"");
    }
}
