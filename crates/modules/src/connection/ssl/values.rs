//! The values of directives.

use super::responder::Responder;
use crate::shared::issued;
use conf::{Diagnostic, value};
use contract::{Args, Loading, Pem, PemSource, PemValue, TlsPolicy, VerifyClient};
use upstream::ConfCommands;

pub(super) const VERIFY: [(&str, VerifyClient); 4] = [
    ("off", VerifyClient::Off),
    ("on", VerifyClient::On),
    ("optional", VerifyClient::Optional),
    ("optional_no_ca", VerifyClient::OptionalNoCa),
];

pub(super) const DEFAULT_CIPHERS: &str = "HIGH:!aNULL:!MD5";

/// What the OpenSSL of Red Hat's distributions reads as the ciphers that the system's policy names.
const SYSTEM_CIPHERS: &str = "PROFILE=SYSTEM";

pub(super) fn parse_pem(args: &Args<'_>, loading: &mut Loading) -> Result<PemValue, Diagnostic> {
    if let Some(source) = issued::parse(args, loading)? {
        return Ok(PemValue::Fixed(Pem { source, span: args.node.span }));
    }
    PemValue::parse(args, loading)
}

/// A file that an empty name leaves out.
pub(super) fn parse_file(args: &Args<'_>, loading: &mut Loading) -> Result<Option<Pem>, Diagnostic> {
    let word = args.word(0)?;
    let source = PemSource::File(value::path(word, &loading.conf_prefix));
    Ok((!word.text.is_empty()).then_some(Pem { source, span: args.node.span }))
}

pub(super) fn parse_ciphers(args: &Args<'_>, loading: &mut Loading) -> Result<String, Diagnostic> {
    let text = parse_text(args, loading)?;
    let Some(rest) = text.strip_prefix(SYSTEM_CIPHERS) else { return Ok(text) };
    let told =
        format!("\"{SYSTEM_CIPHERS}\" of \"ssl_ciphers\" means the default list here, {DEFAULT_CIPHERS}");
    loading.note(Diagnostic::notice(told).at(args.node.span).under(args.word(0)?.span));
    Ok(format!("{DEFAULT_CIPHERS}{rest}"))
}

pub(super) fn parse_responder(args: &Args<'_>, loading: &mut Loading) -> Result<Box<str>, Diagnostic> {
    let url = parse_text(args, loading)?;
    if let Err(reason) = Responder::parse(&url) {
        let message = format!("no OCSP response can be fetched from \"{url}\": {reason}");
        loading.note(Diagnostic::warn(message).at(args.node.span).under(args.word(0)?.span));
    }
    Ok(url.into())
}

/// Without a responder no client could be accepted.
pub(super) fn parse_responder_of_clients(
    args: &Args<'_>,
    loading: &mut Loading,
) -> Result<Box<str>, Diagnostic> {
    let url = parse_text(args, loading)?;
    match Responder::parse(&url) {
        Ok(_) => Ok(url.into()),
        Err(reason) => {
            let message = format!("invalid OCSP responder \"{url}\": {reason}");
            Err(Diagnostic::emerg(message).at(args.node.span).under(args.word(0)?.span))
        }
    }
}

pub(super) fn parse_text(args: &Args<'_>, _: &mut Loading) -> Result<String, Diagnostic> {
    Ok(String::from_utf8_lossy(&args.word(0)?.text).into_owned())
}

/// Commands count more than other directives.
pub(super) fn command(commands: &ConfCommands, policy: &mut TlsPolicy) {
    policy.certificates =
        commands.pair().map_or_else(|| std::mem::take(&mut policy.certificates), |pair| vec![pair]);
    let choices = &mut policy.choices;
    choices.tls12 &= !commands.without_tls12;
    choices.tls13 &= !commands.without_tls13;
    let texts = [
        (&commands.ciphers, &mut choices.ciphers),
        (&commands.suites, &mut choices.suites),
        (&commands.curves, &mut choices.curves),
        (&commands.signatures, &mut choices.signatures),
    ];
    texts.into_iter().for_each(|(command, choice)| command.iter().for_each(|text| choice.clone_from(text)));
    choices.tickets = commands.tickets.unwrap_or(choices.tickets);
    choices.prefer_server_ciphers = commands.server_order.unwrap_or(choices.prefer_server_ciphers);
}
