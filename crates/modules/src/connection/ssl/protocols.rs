//! The values of `ssl_protocols`, bits of versions, and of `ssl_alpn`.

use crate::shared::alpn;
use conf::{Arity, Contexts, Diagnostic, value};
use contract::{Args, Directive, Loading, Rule, TlsPolicy, View, Written};

/// What no client is left for.
const OBSOLETE: u32 = 1;
const TLS12: u32 = 2;
const TLS13: u32 = 4;
/// What some clients know nothing better than.
const OLD: u32 = 8;

/// The versions that are named.
pub(super) fn parse(args: &Args<'_>, _: &mut Loading) -> Result<u32, Diagnostic> {
    const TABLE: [(&str, u32); 6] = [
        ("SSLv2", OBSOLETE),
        ("SSLv3", OBSOLETE),
        ("TLSv1", OLD),
        ("TLSv1.1", OLD),
        ("TLSv1.2", TLS12),
        ("TLSv1.3", TLS13),
    ];
    let bits = args
        .words()
        .iter()
        .map(|word| value::choice(word, &TABLE).map_err(|error| error.at(args.node, word)));
    bits.into_iter().try_fold(0, |versions, version| Ok(versions | version?))
}

/// Has these versions spoken.
///
/// # Errors
/// None of them is spoken here, and the server has a certificate.
pub(super) fn choose(versions: &Written<'_, u32>, policy: &mut TlsPolicy) -> Result<(), Diagnostic> {
    let has = |bits| versions.value & bits != 0;
    (policy.choices.tls12, policy.choices.tls13) = (has(TLS12), has(TLS13));
    if !has(TLS12 | TLS13) && !policy.certificates.is_empty() {
        let text = "\"ssl_protocols\" leaves no version that is spoken here";
        return Err(Diagnostic::emerg(text).at(versions.span).hint("name TLSv1.2, TLSv1.3 or both"));
    }
    policy.obsolete_at = has(OLD).then_some(versions.span);
    Ok(())
}
/// `ssl_alpn PROTOCOL …`
pub(super) static SSL_ALPN: Directive<Box<[Box<[u8]>]>> = Directive::new("ssl_alpn", alpn::parse)
    .within(Contexts::ALL_STREAM)
    .args(Arity::AtLeast(1))
    .rule(Rule::List)
    .help("The protocols that a server of `stream` agrees on with clients, the preferred one first (ALPN).");

/// The protocols that a server of `stream` agrees on.
pub(super) fn of_stream(view: &View<'_>) -> Box<[Box<[u8]>]> {
    view.all(&SSL_ALPN).into_iter().flat_map(|written| written.value.iter().cloned()).collect()
}
