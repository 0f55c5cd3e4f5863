//! The value of `ssl_session_cache`: a number of sessions.

use conf::{Diagnostic, Word, value};
use contract::{Args, Loading};

/// How many sessions a megabyte of nginx's cache holds, by its manual.
const SESSIONS_PER_MEGABYTE: u64 = 4000;

/// The size of the cache that `builtin` means, in sessions.
const BUILTIN_SESSIONS: usize = 20480;

/// The least size of a shared cache that nginx takes, in bytes.
const SHARED_MIN: u64 = 8 * 4096;

/// The most sessions that are kept: about half a gigabyte.
const SESSIONS_MAX: usize = 1_000_000;

/// How many sessions are kept.
pub(super) fn parse(args: &Args<'_>, _: &mut Loading) -> Result<usize, Diagnostic> {
    let sizes = args.words().iter().map(|word| cache_size(args, word));
    let sizes = sizes.collect::<Result<Vec<_>, _>>()?;
    Ok(sizes.into_iter().max().unwrap_or_default().min(SESSIONS_MAX))
}

/// How many sessions one of the words stands for.
fn cache_size(args: &Args<'_>, word: &Word) -> Result<usize, Diagnostic> {
    let complain = |text: String| Diagnostic::emerg(text).at(args.node.span).under(word.span);
    let invalid = || complain(format!("invalid session cache \"{word}\""));
    let part = |text: &[u8]| Word { text: text.into(), quoted: false, span: word.span };
    match &*word.text {
        b"off" | b"none" => return Ok(0),
        b"builtin" => return Ok(BUILTIN_SESSIONS),
        _ => {}
    }
    if let Some(count) = word.text.strip_prefix(b"builtin:") {
        let count = value::number(&part(count)).map_err(|_| invalid())?;
        return usize::try_from(count).map_err(|_| invalid());
    }
    let shared = word.text.strip_prefix(b"shared:").ok_or_else(invalid)?;
    let colon =
        shared.iter().position(|&byte| byte == b':').filter(|&colon| colon > 0).ok_or_else(invalid)?;
    let size = value::size(&part(&shared[colon + 1..])).map_err(|_| invalid())?;
    if size < SHARED_MIN {
        return Err(complain(format!("session cache \"{word}\" is too small")));
    }
    usize::try_from(size.saturating_mul(SESSIONS_PER_MEGABYTE) >> 20).map_err(|_| invalid())
}
