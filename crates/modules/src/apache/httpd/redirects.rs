//! Redirects of a whole server, which come before everything else: `Redirect` and its siblings outside of directories.

use super::{SERVERS, expands, line, lines};
use conf::{Arity, Diagnostic, Word};
use contract::{Args, Counted, Directive, Loading, Rule};

/// `Redirect [STATUS] PATH URL`
pub(super) static REDIRECT: Directive<Counted> =
    redirect(Directive::new("Redirect", |args, loading| parse(args, loading, false)), Arity::Range(2, 3))
        .help("A redirect of a path, and of all that is below it.");

/// `RedirectMatch [STATUS] PATTERN URL`
pub(super) static REDIRECT_MATCH: Directive<Counted> =
    redirect(Directive::new("RedirectMatch", |args, loading| parse(args, loading, true)), Arity::Range(2, 3))
        .help("A redirect of paths that match a regular expression.");

/// `RedirectPermanent PATH URL`
pub(super) static REDIRECT_PERMANENT: Directive<Counted> = redirect(
    Directive::new("RedirectPermanent", |args, loading| of_path(args, loading, b"permanent")),
    Arity::Exactly(2),
)
.help("A redirect with status 301.");

/// `RedirectTemp PATH URL`
pub(super) static REDIRECT_TEMP: Directive<Counted> = redirect(
    Directive::new("RedirectTemp", |args, loading| of_path(args, loading, b"redirect")),
    Arity::Exactly(2),
)
.help("A redirect with status 302.");

/// A virtual host has its own redirects, and then those of the main server.
const fn redirect(directive: Directive<Counted>, arity: Arity) -> Directive<Counted> {
    expands(directive, arity).within(SERVERS).rule(Rule::Gather)
}

fn parse(args: &Args<'_>, loading: &mut Loading, is_pattern: bool) -> Result<Counted, Diagnostic> {
    let status = match args.words() {
        [status, _, _] => status.text.to_ascii_lowercase(),
        _ => b"temp".to_vec(),
    };
    let flag: &[u8] = match &*status {
        b"permanent" | b"301" => b"permanent",
        b"temp" | b"302" => b"redirect",
        _ => {
            refuse(args, loading, args.word(0)?, "write it in <Directory>, or with the status 301 or 302")?;
            return lines([]);
        }
    };
    if is_pattern { of_pattern(args, loading, flag) } else { of_path(args, loading, flag) }
}

/// The path or the pattern, and the URL.
fn ends<'a>(args: &Args<'a>) -> Result<(&'a Word, &'a Word), Diagnostic> {
    let last = args.words().len().saturating_sub(1);
    Ok((args.word(last.saturating_sub(1))?, args.word(last)?))
}

fn of_path(args: &Args<'_>, loading: &mut Loading, flag: &[u8]) -> Result<Counted, Diagnostic> {
    let (path, url) = ends(args)?;
    if !path.text.starts_with(b"/") {
        return Err(args.error("needs a path that begins with a slash").under(path.span));
    }
    if url.text.contains(&b'$') {
        refuse(args, loading, url, "write %24 for a dollar sign")?;
    }
    // Apache compares bytes: a line end in a path ends nothing.
    let mut pattern = b"(?s)^".to_vec();
    for &byte in &path.text {
        if !byte.is_ascii_alphanumeric() && byte.is_ascii() && byte != b'/' {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    // As in Apache, a path without a slash at its end stands for whole segments.
    let rest: &[u8] = if path.text.ends_with(b"/") { br"(.*)\z" } else { br"(/.*)?\z" };
    pattern.extend_from_slice(rest);
    rewrite(args, &pattern, &[&*url.text, b"$1"].concat(), flag)
}

fn of_pattern(args: &Args<'_>, loading: &mut Loading, flag: &[u8]) -> Result<Counted, Diagnostic> {
    let (pattern, url) = ends(args)?;
    let mut dollars = url.text.windows(2).filter(|pair| pair[0] == b'$');
    if !dollars.all(|pair| (b'1'..=b'9').contains(&pair[1])) || url.text.ends_with(b"$") {
        refuse(args, loading, url, "only $1 to $9 are built")?;
    }
    rewrite(args, &[b"(?s)", &*pattern.text].concat(), &url.text, flag)
}

/// The line of nginx's language. As there the query of the request is added, but as in Apache not to a URL that has one.
fn rewrite(args: &Args<'_>, pattern: &[u8], url: &[u8], flag: &[u8]) -> Result<Counted, Diagnostic> {
    let end: &[u8] = if url.contains(&b'?') { b"?" } else { b"" };
    lines([line(args, "rewrite", &[pattern, &[url, end].concat(), flag])])
}

fn refuse(args: &Args<'_>, loading: &mut Loading, word: &Word, hint: &str) -> Result<(), Diagnostic> {
    let message = format!("\"{word}\" in \"{}\" outside of directories is not built", args.node.name);
    loading.refuse(Diagnostic::emerg(message).at(args.node.span).under(word.span).hint(hint))
}
