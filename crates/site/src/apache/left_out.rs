//! Sections of a main configuration of Apache that are left out, since they are about a module that is not built, or of which
//! it is not known whether it is loaded.

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
        let message =
            format!("<{} {condition}> is left out, since its module is not loaded, or not built", node.name);
        match first_that_counts(node.children()) {
            None => loading.note(Diagnostic::notice(message).at(node.span)),
            Some(rule) => {
                let message = format!(
                    "{message}, and a line in it may restrict access or name programs (\"{}\" in line {})",
                    rule.name, rule.span.line
                );
                let hint = "write these lines outside of the section, or remove it and its LoadModule line";
                loading.refuse(Diagnostic::emerg(message).at(node.span).hint(hint))?;
            }
        }
    }
    Ok(kept)
}

/// The first line without which clients might get more or other things than with it.
fn first_that_counts(nodes: &[Node]) -> Option<&Node> {
    nodes.iter().find_map(|node| match CONDITIONS.contains(&&*node.name.to_string().to_ascii_lowercase()) {
        true => first_that_counts(node.children()),
        false if is_harmless(node) => None,
        false => first_that_counts(node.children()).or(Some(node)),
    })
}

/// Sections that say only when their lines count.
const CONDITIONS: [&str; 6] = ["ifdefine", "ifdirective", "iffile", "ifmodule", "ifsection", "ifversion"];

/// Modules whose directives neither restrict access nor say what a file is, but for the directives of TLS for clients.
const HARMLESS: [&str; 17] = [
    "mod_brotli",
    "mod_cache",
    "mod_cache_disk",
    "mod_cache_socache",
    "mod_cern_meta",
    "mod_cgid",
    "mod_deflate",
    "mod_expires",
    "mod_file_cache",
    "mod_http2",
    "mod_log_forensic",
    "mod_logio",
    "mod_md",
    "mod_mime_magic",
    "mod_ssl",
    "mod_unique_id",
    "mod_usertrack",
];

/// Whether a line may be left out: clients get nothing more by it, and nothing else but in another form.
fn is_harmless(node: &Node) -> bool {
    let name = node.name.to_string().to_ascii_lowercase();
    let is_about_clients = name.starts_with("sslrequire")
        || name.starts_with("sslverify")
        || name == "ssloptions"
        || name == "sslengine";
    let is_certificate = |word: &conf::Word| {
        let text = word.to_string().to_ascii_lowercase();
        text.starts_with('.')
            || text.starts_with("application/x-x509")
            || text.starts_with("application/x-pkcs7")
    };
    match name.as_str() {
        _ if node.block.is_some() => false,
        "listen" | "loadmodule" | "define" | "undefine" => true,
        "addtype" => node.args.iter().all(is_certificate),
        name => {
            let module = if name.starts_with("ssl") { Some("mod_ssl") } else { module_of(name) };
            !is_about_clients && module.is_some_and(|module| HARMLESS.contains(&module))
        }
    }
}
