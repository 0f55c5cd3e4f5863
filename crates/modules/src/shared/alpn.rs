//! Names of protocols that are agreed on in a handshake of TLS (ALPN, RFC 7301).

use conf::{Diagnostic, Word};
use contract::{Args, Loading};

/// The length of the longest name, in bytes.
const NAME_MAX: usize = 255;

/// Reads names of protocols, the preferred one first.
///
/// # Errors
/// A name that is empty or too long.
pub(crate) fn parse(args: &Args<'_>, _: &mut Loading) -> Result<Box<[Box<[u8]>]>, Diagnostic> {
    let name = |word: &Word| match word.text.len() {
        0 => Err("ALPN protocol is empty"),
        length if length > NAME_MAX => Err("ALPN protocol is too long"),
        _ => Ok(word.text.clone()),
    };
    let named = args.words().iter().map(|word| {
        name(word).map_err(|reason| {
            let message = format!("{reason} in \"{}\"", args.node.name);
            Diagnostic::emerg(message).at(args.node.span).under(word.span)
        })
    });
    named.collect()
}
