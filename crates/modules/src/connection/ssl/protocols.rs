//! The value of `ssl_protocols`: bits of versions.

use conf::{Diagnostic, value};
use contract::{Args, Loading};

/// What no client is left for.
const OBSOLETE: u32 = 1;
pub(super) const TLS12: u32 = 2;
pub(super) const TLS13: u32 = 4;
/// What some clients know nothing better than.
pub(super) const OLD: u32 = 8;

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
