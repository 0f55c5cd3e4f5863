//! Other directories for some paths: `Alias`.

use super::{SERVERS, directory, expands, line, lines};
use conf::{Arity, Diagnostic, Node};
use contract::{Args, Counted, Directive, Rule};

/// `Alias PATH DIRECTORY`
pub(super) static ALIAS: Directive<Counted> = expands(Directive::new("Alias", parse), Arity::Exactly(2))
    .within(SERVERS)
    .rule(Rule::Gather)
    .help("The directory or the file that takes the place of the beginning of a path.");

fn parse(args: &Args<'_>, loading: &mut contract::Loading) -> Result<Counted, Diagnostic> {
    let (path, target) = (args.word(0)?, args.word(1)?);
    if !path.text.starts_with(b"/") || target.text.contains(&b'$') {
        let wrong = if target.text.contains(&b'$') { target } else { path };
        return Err(args.error(&format!("with \"{wrong}\" is not built")).under(wrong.span));
    }
    let target = directory(&target.text, loading);
    let alias = |name: &[&[u8]], target: &[u8]| Node {
        block: Some(vec![line(args, "alias", &[target])]),
        ..line(args, "location", name)
    };
    if path.text.ends_with(b"/") {
        return lines([alias(&[b"^~", &path.text], &target)]);
    }
    // As in Apache, a path without a slash at its end stands for itself and for what is below it.
    let below = [&*path.text, b"/"].concat();
    let directory = [target.strip_suffix(b"/").unwrap_or(&target), b"/"].concat();
    lines([alias(&[b"=", &path.text], &target), alias(&[b"^~", &below], &directory)])
}
