//! Sections of a main configuration of Apache that are left out, since they are about a module that is not built.

use conf::apache::module_of;
use conf::{Diagnostic, Node};
use contract::Loading;

/// The lines without such sections.
///
/// # Errors
/// Leaving a section out would let more clients read something, or send programs as text.
pub(super) fn without(nodes: Vec<Node>, loading: &mut Loading) -> Result<Vec<Node>, Diagnostic> {
    let mut kept = Vec::with_capacity(nodes.len());
    for mut node in nodes {
        let name = node.name.to_string().to_ascii_lowercase();
        if !["ifmodule", "ifdirective", "ifsection"].contains(&name.as_str()) {
            node.block = node.block.map(|inner| without(inner, loading)).transpose()?;
            kept.push(node);
            continue;
        }
        let condition = node.arg(0).map(ToString::to_string).unwrap_or_default();
        let message = format!("<{} {condition}> is left out, since the module is not built", node.name);
        match first_that_counts(node.children()) {
            None => loading.note(Diagnostic::notice(message).at(node.span)),
            Some(rule) => {
                let message = format!(
                    "{message}, and it restricts access or names programs (\"{}\" in line {})",
                    rule.name, rule.span.line
                );
                let hint = "write these lines outside of the section, or remove it and its LoadModule line";
                loading.refuse(Diagnostic::emerg(message).at(node.span).hint(hint))?;
            }
        }
    }
    Ok(kept)
}

/// The first line that restricts access, or says that files are programs.
fn first_that_counts(nodes: &[Node]) -> Option<&Node> {
    nodes.iter().find_map(|node| {
        let counts = node.block.is_none() && counts(node);
        if counts { Some(node) } else { first_that_counts(node.children()) }
    })
}

fn counts(node: &Node) -> bool {
    let name = node.name.to_string().to_ascii_lowercase();
    let words: Vec<String> = node.args.iter().map(|word| word.to_string().to_ascii_lowercase()).collect();
    let is_program = |word: &String| word.contains("x-httpd") || word.contains("cgi");
    match name.as_str() {
        "require" => words != ["all", "granted"],
        "allow" => false,
        "order" => words != ["deny,allow"],
        "addtype" | "forcetype" => words.iter().any(is_program),
        "sethandler" | "addhandler" | "action" | "scriptalias" | "scriptaliasmatch" | "proxypass"
        | "sslrequire" | "sslrequiressl" | "sslverifyclient" | "rewriterule" | "redirect"
        | "redirectmatch" => true,
        name => module_of(name)
            .is_some_and(|module| module.starts_with("mod_auth") || module == "mod_access_compat"),
    }
}
