//! Where responses are stored for good (`proxy_store`), which nothing removes.

use conf::{Diagnostic, Word};
use contract::{Args, Loading, Root};

/// Where a response is stored.
#[derive(Clone, Debug)]
pub enum StorePath {
    /// It is not.
    Off,
    /// In the file that the URI stands for, by `root` or `alias`.
    Root,
    /// In the file that this names.
    File(Root),
}

pub(crate) fn parse_store(args: &Args<'_>, loading: &mut Loading) -> Result<StorePath, Diagnostic> {
    let word = args.word(0)?;
    match &*word.text {
        b"off" => Ok(StorePath::Off),
        b"on" => Ok(StorePath::Root),
        b"" => Err(Diagnostic::emerg("empty path").at(args.node.span).under(word.span)),
        _ => {
            let path = loading.template(word)?;
            Ok(StorePath::File(Root { path, alias: None, prefix: loading.prefix.clone() }))
        }
    }
}

/// The permissions of a file, from words such as `group:rw`; its owner may read and write it unless they say otherwise.
pub(crate) fn parse_access(args: &Args<'_>, _: &mut Loading) -> Result<u32, Diagnostic> {
    let (mut all, mut owner) = (0, 0o600);
    for word in args.words() {
        let (who, rights) = access(word).ok_or_else(|| {
            let message = format!("invalid value \"{word}\"");
            let hint = "write user:, group: or all:, each with r or rw";
            Diagnostic::emerg(message).at(args.node.span).under(word.span).hint(hint)
        })?;
        if who == 6 {
            owner = 0;
        }
        all |= rights << who;
    }
    Ok(all | owner)
}

/// Whose permissions a word sets, as the place of their bits, and which.
fn access(word: &Word) -> Option<(u32, u32)> {
    let colon = word.text.iter().position(|&byte| byte == b':')?;
    let who = match &word.text[..colon] {
        b"user" => 6,
        b"group" => 3,
        b"all" => 0,
        _ => return None,
    };
    match &word.text[colon + 1..] {
        b"rw" => Some((who, 6)),
        b"r" => Some((who, 4)),
        _ => None,
    }
}
