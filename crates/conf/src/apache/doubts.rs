//! Lines of a `.htaccess` file that load, and cannot do what they seem to.

use std::collections::HashSet;

use crate::diagnostic::Diagnostic;
use crate::tree::{Node, Word};

/// Patterns of a rule that match every path.
const MATCH_ALL: [&str; 7] = ["^(.*)$", "(.*)", "^(.*)", "(.*)$", "^.*$", ".*", "^"];

/// How the names of variables begin that the server sets.
const OF_SERVER: [&str; 8] = ["https", "http2", "h2", "ssl_", "redirect_", "server_", "request_", "remote_"];

/// The names that files set, from the root of the site down, in lower case.
#[derive(Debug, Default)]
pub struct SetNames {
    names: HashSet<String>,
    /// A rule makes names from the request.
    is_open: bool,
}

/// A line that probably does not do what is meant.
#[derive(Debug)]
pub struct Doubt {
    /// The warning.
    pub warning: Diagnostic,
    /// It does not hold if this folder below the file's has a `.htaccess` file, whose rules count instead.
    pub unless_settings_in: Option<String>,
}

impl SetNames {
    /// Adds the names that a file sets.
    pub fn add(&mut self, nodes: &[Node]) {
        for node in nodes {
            self.add(node.children());
            let words = |from: usize| node.args.iter().skip(from).filter_map(Word::as_str);
            match lower(node).as_str() {
                "setenv" | "passenv" => words(0).for_each(|name| self.insert(name)),
                "setenvif" | "setenvifnocase" => words(2).for_each(|name| self.insert(name)),
                "setenvifexpr" | "browsermatch" | "browsermatchnocase" => {
                    words(1).for_each(|name| self.insert(name));
                }
                "rewriterule" => flags(node).iter().for_each(|flag| self.add_flag(flag)),
                _ => {}
            }
        }
    }

    fn add_flag(&mut self, flag: &str) {
        let Some((name, value)) = flag.split_once('=') else { return };
        if ["e", "env"].contains(&name.to_ascii_lowercase().as_str()) {
            self.insert(value.split(':').next().unwrap_or_default());
        }
    }

    fn insert(&mut self, written: &str) {
        self.is_open |= written.contains(['$', '%']);
        let name = written.split('=').next().unwrap_or_default();
        self.names.insert(name.to_ascii_lowercase());
    }

    fn has(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        self.is_open || self.names.contains(&name) || OF_SERVER.iter().any(|start| name.starts_with(start))
    }
}

/// The doubtful lines of a file, where it and the files above set these names.
pub fn doubts(nodes: &[Node], set: &SetNames) -> Vec<Doubt> {
    let mut found = Vec::new();
    names_never_set(nodes, set, &mut found);
    found.extend(first_rule(nodes).and_then(endless));
    found
}

fn names_never_set(nodes: &[Node], set: &SetNames, found: &mut Vec<Doubt>) {
    for node in nodes {
        names_never_set(node.children(), set, found);
        for word in node.args.iter().filter_map(|word| used(node, word)).filter(|name| !set.has(name)) {
            let message = format!("no line here or in a directory above sets the variable \"{word}\"");
            let hint =
                format!("set it by SetEnvIf, SetEnv or RewriteRule … [E={word}:1]; a program cannot set it");
            let warning = Diagnostic::warn(message).at(node.span).hint(hint);
            found.push(Doubt { warning, unless_settings_in: None });
        }
    }
}

/// The variable whose presence a word asks for.
fn used<'w>(node: &Node, word: &'w Word) -> Option<&'w str> {
    let text = word.as_str()?;
    let name = match lower(node).as_str() {
        // `Header` is applied after a program ran, and can test the variables that the program got.
        "header" => text.strip_prefix("env=").filter(|name| !is_of_programs(name)),
        "requestheader" | "allow" | "deny" => text.strip_prefix("env="),
        "require" => {
            let is_env = node.args.iter().take(2).any(|word| word.text.eq_ignore_ascii_case(b"env"));
            let is_keyword = ["env", "not"].iter().any(|keyword| text.eq_ignore_ascii_case(keyword));
            Some(text).filter(|_| is_env && !is_keyword)
        }
        _ => None,
    };
    name.filter(|name| !name.starts_with('!'))
}

/// Whether a program gets a variable of this name from the request, besides those that the server sets.
fn is_of_programs(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("http_") || ["query_string", "document_root"].contains(&name.as_str())
}

/// The first rule of a file, if it has no conditions.
fn first_rule(nodes: &[Node]) -> Option<&Node> {
    for node in nodes {
        match lower(node).as_str() {
            "rewritecond" => return None,
            "rewriterule" => return Some(node),
            "ifmodule" => {
                if let Some(rule) = first_rule(node.children()) {
                    return Some(rule);
                }
                if node.children().iter().any(|inner| lower(inner) == "rewritecond") {
                    return None;
                }
            }
            _ => {}
        }
    }
    None
}

/// A rule that counts again for what it makes of each path.
fn endless(rule: &Node) -> Option<Doubt> {
    let [pattern, target, ..] = &*rule.args else { return None };
    let (pattern, target) = (pattern.as_str()?, target.as_str()?);
    let flags: Vec<String> = flags(rule).iter().map(|flag| flag.to_ascii_lowercase()).collect();
    let has =
        |names: &[&str]| flags.iter().any(|flag| names.contains(&flag.split('=').next().unwrap_or_default()));
    if !MATCH_ALL.contains(&pattern) || has(&["end", "f", "g", "c", "chain", "s", "p", "proxy"]) {
        return None;
    }
    if let Some(scheme) = ["http", "https"].iter().find(|scheme| target.starts_with(&format!("{scheme}://")))
    {
        let rest = target.split_once("://")?.1;
        let rest = rest.strip_prefix("%{HTTP_HOST}").or_else(|| rest.strip_prefix("%{SERVER_NAME}"))?;
        if !["/$1", "%{REQUEST_URI}", "/$0", "$1"].contains(&rest) {
            return None;
        }
        let condition = if *scheme == "https" { "off" } else { "on" };
        let message =
            format!("this rule redirects {scheme} requests to themselves: browsers see too many redirects");
        let hint = format!("write \"RewriteCond %{{HTTPS}} {condition}\" before it");
        let warning = Diagnostic::warn(message).at(rule.span).hint(hint);
        return Some(Doubt { warning, unless_settings_in: None });
    }
    let (folder, _) = target.split_once("/$").filter(|(folder, rest)| {
        (rest.starts_with('1') || rest.starts_with('0')) && !folder.contains(['$', '%', '?', ':'])
    })?;
    if folder.starts_with('/') || folder.is_empty() || has(&["r", "redirect"]) {
        return None;
    }
    let message = format!("this rule counts again for what it made, \"{folder}/…\": requests end with 500");
    let warning = Diagnostic::warn(message)
        .at(rule.span)
        .hint(format!("write \"RewriteCond %{{REQUEST_URI}} !/{folder}/\" before it, or the flag END"));
    Some(Doubt { warning, unless_settings_in: Some(folder.to_owned()) })
}

/// The flags of a rule.
fn flags(rule: &Node) -> Vec<&str> {
    let text = rule.args.get(2).and_then(Word::as_str).unwrap_or_default();
    text.trim_matches(['[', ']']).split(',').map(str::trim).collect()
}

fn lower(node: &Node) -> String {
    node.name.to_string().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::{SetNames, doubts};
    use crate::apache::parse;
    use std::path::Path;

    fn count(text: &str) -> usize {
        let nodes = parse(Path::new("/x"), text.into()).nodes;
        let mut set = SetNames::default();
        set.add(&nodes);
        doubts(&nodes, &set).len()
    }

    #[test]
    fn names_that_nothing_sets() {
        for text in [
            "Header set X y env=A",
            "Require env A B",
            "<RequireAll>\nRequire not env A\n</RequireAll>",
            "Deny from env=A",
            "<Files a>\nRequestHeader unset X env=A\n</Files>",
        ] {
            assert!(count(text) > 0, "{text}");
            for setting in [
                "SetEnv a 1\nSetEnv B 1",
                "SetEnvIf Host . A=1 B",
                "BrowserMatch x A B",
                "RewriteRule . - [E=A:1,ENV=B:1]",
                "RewriteRule (.*) - [E=$1:1]",
                "SetEnvIfExpr true A B",
            ] {
                assert_eq!(count(&format!("{setting}\n{text}")), 0, "{setting} {text}");
            }
        }
        assert_eq!(count("Header set X y env=!A\nHeader set X y env=HTTPS\nRequire all granted"), 0);
        assert_eq!(count("Header set X y env=HTTP_ORIGIN\nHeader set X y env=QUERY_STRING"), 0);
        assert_eq!(count("RequestHeader set X y env=HTTP_ORIGIN\nRequire env HTTP_ORIGIN"), 2);
    }

    #[test]
    fn rules_without_an_end() {
        for text in [
            "RewriteRule ^(.*)$ public/$1 [L]",
            "<IfModule mod_rewrite.c>\nRewriteEngine on\nRewriteRule (.*) a/b/$1\n</IfModule>",
            "RewriteRule ^(.*)$ https://%{HTTP_HOST}/$1 [R=301,L]",
            "RewriteRule .* https://%{SERVER_NAME}%{REQUEST_URI} [R,L]",
        ] {
            assert_eq!(count(text), 1, "{text}");
            assert_eq!(count(&format!("RewriteCond %{{HTTPS}} off\n{text}")), 0, "{text}");
            assert_eq!(count(&format!("RewriteRule ^public/ - [L]\n{text}")), 0, "{text}");
        }
        for text in [
            "RewriteRule ^(.*)$ public/$1 [END]",
            "RewriteRule ^(.*)$ /new/$1 [L]",
            "RewriteRule ^a(.*)$ public/$1 [L]",
            "RewriteRule ^(.*)$ index.php?q=/$1 [L]",
            "RewriteRule ^(.*)$ index.php [L]",
            "RewriteRule ^(.*)$ https://www.example.org/$1 [R=301,L]",
        ] {
            assert_eq!(count(text), 0, "{text}");
        }
    }
}
