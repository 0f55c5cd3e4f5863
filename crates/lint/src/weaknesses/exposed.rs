//! What in a configuration exposes a server to a weakness.

use conf::{Node, Word};

use crate::Found;
use crate::tree::{Spot, Tree, uses};

const CAPTURES: [&str; 9] = ["$1", "$2", "$3", "$4", "$5", "$6", "$7", "$8", "$9"];

/// Directives for which a condition holds.
fn report(tree: &Tree<'_>, is_exposed: impl Fn(&Spot<'_>) -> bool) -> Vec<Found> {
    let exposed = tree.all().filter(|spot| is_exposed(spot));
    exposed
        .map(|spot| Found::at(spot.node, format!("\"{}\" may expose the server", spot.node.name), ""))
        .collect()
}

fn has_word(node: &Node, words: &[&str]) -> bool {
    node.args
        .iter()
        .any(|word| words.iter().any(|text| word.as_str().is_some_and(|it| it.eq_ignore_ascii_case(text))))
}

fn is_on(node: &Node) -> bool {
    node.arg(0).is_some_and(|word| !word.is("off"))
}

/// A map with patterns, whose variable a word has after a capture.
pub(super) fn map_after_capture(tree: &Tree<'_>) -> Vec<Found> {
    let words: Vec<&Word> = tree.all().flat_map(|spot| &spot.node.args).collect();
    report(tree, |spot| {
        let has_pattern = spot.node.children().iter().any(|child| child.name.text.starts_with(b"~"));
        let Some(variable) = spot.node.arg(1).and_then(Word::as_str) else { return false };
        let is_used = |word: &&Word| uses(word, &[variable]).is_some() && uses(word, &CAPTURES).is_some();
        spot.node.is("map") && has_pattern && words.iter().any(is_used)
    })
}

pub(super) fn slice(tree: &Tree<'_>) -> Vec<Found> {
    report(tree, |spot| {
        let name = spot.node.name.as_str().unwrap_or_default();
        let is_slice = name == "slice" && !spot.node.arg(0).is_some_and(|word| word.is("0"));
        is_slice || name.ends_with("_cache_background_update") && is_on(spot.node)
    })
}

pub(super) fn ssi_of_upstream(tree: &Tree<'_>) -> Vec<Found> {
    let passes = tree.all().any(|spot| spot.node.name.text.ends_with(b"_pass"));
    report(tree, |spot| passes && spot.node.is("ssi") && is_on(spot.node))
}

pub(super) fn quic(tree: &Tree<'_>) -> Vec<Found> {
    report(tree, |spot| spot.node.is("listen") && has_word(spot.node, &["quic"]))
}

pub(super) fn invalid_headers(tree: &Tree<'_>) -> Vec<Found> {
    let frames = tree.all().any(|spot| {
        spot.node.is("grpc_pass") || spot.node.is("proxy_http_version") && has_word(spot.node, &["2", "2.0"])
    });
    report(tree, |spot| frames && spot.node.is("ignore_invalid_headers") && !is_on(spot.node))
}

pub(super) fn charset_map(tree: &Tree<'_>) -> Vec<Found> {
    report(tree, |spot| spot.node.is("charset_map") && has_word(spot.node, &["utf-8"]))
}

/// A rewrite whose pattern has a capture within a capture, and whose replacement uses two.
pub(super) fn overlapping_captures(tree: &Tree<'_>) -> Vec<Found> {
    report(tree, |spot| {
        let (Some(pattern), Some(replacement)) = (spot.node.arg(0), spot.node.arg(1)) else { return false };
        let used = CAPTURES.iter().filter(|capture| uses(replacement, &[capture]).is_some()).count();
        spot.node.is("rewrite") && used > 1 && pattern.as_str().is_some_and(has_nested_captures)
    })
}

/// Whether a group that captures is inside of another one. Escapes and classes hold no groups.
fn has_nested_captures(pattern: &str) -> bool {
    let mut open: Vec<bool> = Vec::new();
    let mut in_class = false;
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => drop(rest.next()),
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => {
                let captures = rest.peek() != Some(&'?');
                if captures && open.contains(&true) {
                    return true;
                }
                open.push(captures);
            }
            ')' if !in_class => drop(open.pop()),
            _ => {}
        }
    }
    false
}

/// A rewrite with a query in its replacement, before a directive of the same level that uses a capture by its number.
pub(super) fn query_before_capture(tree: &Tree<'_>) -> Vec<Found> {
    report(tree, |spot| {
        let has_query = spot.node.arg(1).and_then(Word::as_str).is_some_and(|text| text.contains('?'));
        let later = spot.siblings().iter().skip_while(|node| !std::ptr::eq(*node, spot.node)).skip(1);
        let uses_capture = |node: &Node| {
            let is_script = ["rewrite", "set", "if"].iter().any(|name| node.is(name));
            is_script && node.args.iter().any(|word| uses(word, &CAPTURES).is_some())
        };
        spot.node.is("rewrite") && has_query && later.into_iter().any(uses_capture)
    })
}

pub(super) fn body_over_http2(tree: &Tree<'_>) -> Vec<Found> {
    report(tree, |spot| {
        let version = spot.effective("proxy_http_version");
        spot.node.is("proxy_set_body") && version.last().is_some_and(|node| has_word(node, &["2", "2.0"]))
    })
}

pub(super) fn scgi_or_uwsgi(tree: &Tree<'_>) -> Vec<Found> {
    report(tree, |spot| spot.node.is("scgi_pass") || spot.node.is("uwsgi_pass"))
}

pub(super) fn ocsp(tree: &Tree<'_>) -> Vec<Found> {
    report(tree, |spot| spot.node.is("ssl_ocsp") && is_on(spot.node))
}

pub(super) fn ocsp_of_stream(tree: &Tree<'_>) -> Vec<Found> {
    report(tree, |spot| spot.node.is("ssl_ocsp") && is_on(spot.node) && spot.nearest("stream").is_some())
}

pub(super) fn copies_below_alias(tree: &Tree<'_>) -> Vec<Found> {
    report(tree, |spot| {
        let methods = spot.effective("dav_methods");
        let copies = methods.last().is_some_and(|node| has_word(node, &["COPY", "MOVE"]));
        spot.node.is("alias") && copies
    })
}

pub(super) fn mp4(tree: &Tree<'_>) -> Vec<Found> {
    report(tree, |spot| spot.node.is("mp4") && spot.node.args.is_empty())
}

pub(super) fn challenge_of_mail(tree: &Tree<'_>) -> Vec<Found> {
    report(tree, |spot| mail_auth(spot.node, &["cram-md5", "apop"]))
}

pub(super) fn mail_without_password(tree: &Tree<'_>) -> Vec<Found> {
    report(tree, |spot| spot.node.is("smtp_auth") && mail_auth(spot.node, &["none"]))
}

fn mail_auth(node: &Node, words: &[&str]) -> bool {
    ["smtp_auth", "pop3_auth", "imap_auth"].iter().any(|name| node.is(name)) && has_word(node, words)
}

pub(super) fn names_of_mail_clients(tree: &Tree<'_>) -> Vec<Found> {
    report(tree, |spot| {
        let resolver = spot.effective("resolver");
        spot.node.is("auth_http")
            && spot.nearest("mail").is_some()
            && resolver.last().is_some_and(|node| is_on(node))
    })
}

pub(super) fn encrypted_upstream(tree: &Tree<'_>) -> Vec<Found> {
    report(tree, |spot| {
        let starts =
            |text: &str| spot.node.arg(0).and_then(Word::as_str).is_some_and(|url| url.starts_with(text));
        match spot.node.name.as_str() {
            Some("proxy_pass") => starts("https://"),
            Some("grpc_pass") => starts("grpcs://"),
            Some("uwsgi_pass") => starts("suwsgi://"),
            Some("proxy_ssl") => starts("on"),
            _ => false,
        }
    })
}

pub(super) fn client_certificates(tree: &Tree<'_>) -> Vec<Found> {
    report(tree, |spot| spot.node.is("ssl_verify_client") && is_on(spot.node))
}

#[cfg(test)]
mod tests {
    use super::has_nested_captures;

    #[test]
    fn captures_within_captures() {
        for (pattern, is_nested) in [
            ("^/((.*))$", true),
            ("^/(a)(b)$", false),
            ("(?:(a))", false),
            ("(a(?:b))", false),
            ("(a[(])", false),
            ("(\\(a)", false),
        ] {
            assert_eq!(has_nested_captures(pattern), is_nested, "{pattern}");
        }
    }
}
