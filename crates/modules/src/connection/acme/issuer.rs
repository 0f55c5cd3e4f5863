//! The block of `acme_issuer`.

use crate::shared::issued;
use acme::{Challenge, ExternalKey, Issuer};
use conf::value::{self, flag};
use conf::{Diagnostic, Node, Span, Word};
use contract::{Args, Loading};
use std::path::PathBuf;
use std::sync::Arc;

/// An issuer whose block is empty.
pub(super) fn unset(name: &str) -> Issuer {
    Issuer {
        name: name.to_owned(),
        uri: String::new(),
        contacts: Vec::new(),
        account_key: None,
        external_account: None,
        challenge: Challenge::Http,
        state: PathBuf::new(),
        accepts_terms: false,
        profile: None,
        preferred_chain: None,
        has_common_name: false,
        trusted: None,
        verifies: true,
    }
}

pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Arc<Issuer>, Diagnostic> {
    let name = args.word(0)?.to_string();
    let mut issuer = unset(&name);
    issuer.state = issued::state(&name, loading);
    for entry in args.node.children() {
        read(&mut issuer, entry, loading)?;
    }
    if issuer.uri.is_empty() {
        let message = format!("\"uri\" is missing in \"acme_issuer {name}\"");
        return Err(Diagnostic::emerg(message).at(args.node.span));
    }
    check_account_key(&issuer, args.node.span, loading)?;
    Ok(Arc::new(issuer))
}

/// The account of a key that a file has is registered without contacts and without an external account, and so that it
/// agrees to the terms of service.
fn check_account_key(issuer: &Issuer, place: Span, loading: &mut Loading) -> Result<(), Diagnostic> {
    if issuer.account_key.is_none() {
        return Ok(());
    }
    if !issuer.accepts_terms {
        let message = "\"account_key\" with a file agrees to the terms of service of the authority";
        let hint = "add \"accept_terms_of_service;\", or leave \"account_key\" out";
        return Err(Diagnostic::emerg(message).at(place).hint(hint));
    }
    if issuer.external_account.is_some() {
        let message = "\"external_account_key\" is not built for an \"account_key\" with a file";
        return Err(Diagnostic::emerg(message).at(place).hint("leave \"account_key\" out: a key is made"));
    }
    if !issuer.contacts.is_empty() {
        let message = "\"contact\" has no effect with an \"account_key\" with a file";
        loading.note(Diagnostic::warn(message).at(place));
    }
    Ok(())
}

fn read(issuer: &mut Issuer, entry: &Node, loading: &mut Loading) -> Result<(), Diagnostic> {
    let invalid = |word: &Word, hint: &'static str| {
        let message = format!("invalid value \"{word}\" in \"{}\" directive", entry.name);
        Diagnostic::emerg(message).at(entry.span).under(word.span).hint(hint)
    };
    let on_or_off = |word: &Word| flag(word).map_err(|error| error.at(entry, word));
    match (&*entry.name.text, &*entry.args) {
        (b"uri", [word]) if word.text.starts_with(b"https://") => issuer.uri = word.to_string(),
        (b"uri", [word]) => return Err(invalid(word, "the URL must begin with https://")),
        (b"contact", [word]) => issuer.contacts.push(contact(&word.to_string())),
        (b"account_key", [word]) => issuer.account_key = account_key(entry, word, loading),
        (b"external_account_key", [name, key]) => {
            let key = match key.text.strip_prefix(b"data:") {
                Some(text) => ExternalKey::Text(String::from_utf8_lossy(text).into_owned()),
                None => ExternalKey::File(value::path(key, &loading.conf_prefix)),
            };
            issuer.external_account = Some((name.to_string(), key));
        }
        (b"challenge", [kind]) => {
            issuer.challenge = match &*kind.text {
                b"http" | b"http-01" => Challenge::Http,
                b"tls-alpn" | b"tls-alpn-01" => Challenge::TlsAlpn,
                _ => return Err(invalid(kind, "use http-01, tls-alpn-01, or dns-01 with a command")),
            }
        }
        (b"challenge", [kind, command]) if matches!(&*kind.text, b"dns" | b"dns-01") => {
            issuer.challenge = Challenge::Dns(value::path(command, &loading.conf_prefix));
        }
        (b"state_path", [word]) if &*word.text == b"off" => {
            let hint = "name a directory: without one each start would ask for new certificates";
            return Err(invalid(word, hint));
        }
        (b"state_path", [word]) => issuer.state = loading.path(&word.text),
        (b"accept_terms_of_service", []) => issuer.accepts_terms = true,
        (b"preferred_chain", [name]) => issuer.preferred_chain = Some(name.to_string()),
        (b"profile", [name]) => issuer.profile = Some((name.to_string(), false)),
        (b"profile", [name, word]) if &*word.text == b"require" => {
            issuer.profile = Some((name.to_string(), true));
        }
        (b"common_name_in_csr", [word]) => issuer.has_common_name = on_or_off(word)?,
        (b"ssl_trusted_certificate", [word]) => {
            issuer.trusted = Some(value::path(word, &loading.conf_prefix));
        }
        (b"ssl_verify", [word]) => issuer.verifies = on_or_off(word)?,
        (b"resolver" | b"resolver_timeout", _) => {
            let message = format!(
                "\"{}\" in \"acme_issuer\" has no effect: the system finds the authority",
                entry.name
            );
            loading.note(Diagnostic::warn(message).at(entry.span));
        }
        _ => return Err(unknown(entry)),
    }
    Ok(())
}

fn unknown(entry: &Node) -> Diagnostic {
    const KNOWN: [&str; 12] = [
        "uri",
        "contact",
        "account_key",
        "external_account_key",
        "challenge",
        "state_path",
        "accept_terms_of_service",
        "preferred_chain",
        "profile",
        "common_name_in_csr",
        "ssl_trusted_certificate",
        "ssl_verify",
    ];
    let name = entry.name.to_string();
    let message = match KNOWN.contains(&&*name) {
        true => format!("invalid arguments of \"{name}\" in \"acme_issuer\""),
        false => format!("unknown directive \"{name}\" in \"acme_issuer\""),
    };
    Diagnostic::emerg(message).at(entry.span).under(entry.name.span)
}

/// An address without a scheme is one of mail.
fn contact(text: &str) -> String {
    let scheme = text.split_once(':').map(|(scheme, _)| scheme);
    let has_scheme = scheme.is_some_and(|scheme| scheme.bytes().all(|byte| byte.is_ascii_alphabetic()));
    if has_scheme { text.to_owned() } else { format!("mailto:{text}") }
}

/// The file with the key; `None` for a key that is made.
fn account_key(entry: &Node, word: &Word, loading: &mut Loading) -> Option<PathBuf> {
    let text = word.to_string();
    let kind = text.split(':').next().unwrap_or_default();
    if !matches!(kind, "ecdsa" | "rsa") {
        return Some(value::path(word, &loading.conf_prefix));
    }
    if !matches!(&*text, "ecdsa" | "ecdsa:256") {
        let message = format!("\"account_key {text}\" is not built: a key of the kind ecdsa:256 is made");
        loading.note(Diagnostic::warn(message).at(entry.span).under(word.span));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;

    #[test]
    fn addresses_are_of_mail_unless_they_have_a_scheme() {
        assert_eq!(contact("a@b.example"), "mailto:a@b.example");
        assert_eq!(contact("mailto:a@b.example"), "mailto:a@b.example");
        assert_eq!(contact("tel:1"), "tel:1");
    }

    #[test]
    fn account_of_a_file_needs_what_it_does() {
        let error = |block: &str| {
            Site::error(&format!(
                "acme_issuer a {{ uri https://a.example/; account_key /k.pem; {block} }} location / {{ return 200; }}"
            ))
        };
        assert_eq!(error(""), "\"account_key\" with a file agrees to the terms of service of the authority");
        let external = "accept_terms_of_service; external_account_key kid data:a2V5;";
        assert_eq!(
            error(external),
            "\"external_account_key\" is not built for an \"account_key\" with a file"
        );
    }
}
