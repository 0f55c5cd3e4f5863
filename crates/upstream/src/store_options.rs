//! Where responses are stored for good (`proxy_store`), which nothing removes.

use conf::{Diagnostic, value};
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
///
/// # Errors
/// A word is invalid.
pub fn parse_access(args: &Args<'_>, _: &mut Loading) -> Result<u32, Diagnostic> {
    value::access(args.words()).map_err(|(_, word)| {
        let message = format!("invalid value \"{word}\"");
        let hint = "write user:, group: or all:, each with r or rw";
        Diagnostic::emerg(message).at(args.node.span).under(word.span).hint(hint)
    })
}
