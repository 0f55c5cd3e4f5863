//! The `rewrite` directive.

use super::text::{Text, parts, was_escaped};
use conf::value::Part;
use conf::{Diagnostic, Span};
use contract::{Args, Event, Exchange, Loading, Regex};
use http::{Status, hex};
use journal::Level;

/// A pattern and what replaces a URI that matches it.
#[derive(Clone, Debug)]
pub struct Replacement {
    pub(super) regex: Regex,
    adds_args: bool,
    target: Target,
}

#[derive(Clone, Debug)]
enum Target {
    Uri { path: Text, args: Option<Text>, next: Next },
    Redirect { status: Status, text: Text, has_args: bool },
}

/// How the processing goes on after the URI was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// With the next directive.
    Directive,
    /// With the search for a location.
    Location,
    /// With this location.
    Stay,
}

/// What happened to a URI that matched.
pub(super) enum Replaced {
    /// There is a new one.
    Uri(Next),
    /// The client is redirected; the response has its location.
    Redirect(Status),
    /// There is no URI left.
    Empty,
}

impl Replacement {
    pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Replacement, Diagnostic> {
        let (pattern, target) = (args.word(0)?, args.word(1)?);
        if target.text.is_empty() {
            return Err(Diagnostic::emerg("empty replacement").at(args.node.span).under(target.span));
        }
        let regex = loading.regex(pattern, &pattern.text, false)?;
        let stripped = target.text.strip_suffix(b"?");
        let text = stripped.unwrap_or(&target.text);
        let is_url = is_url(&target.text);
        let redirect = |status| Some(status);
        let (next, status) = match args.words().get(2).map(|flag| &*flag.text) {
            None => (Next::Directive, is_url.then_some(Status::FOUND)),
            Some(b"last") => (Next::Location, is_url.then_some(Status::FOUND)),
            Some(b"break") => (Next::Stay, is_url.then_some(Status::FOUND)),
            Some(b"redirect") => (Next::Location, redirect(Status::FOUND)),
            Some(b"permanent") => (Next::Location, redirect(Status::MOVED_PERMANENTLY)),
            Some(_) => return Err(args.invalid(args.word(2)?)),
        };
        let parts = parts(text, target.span)?;
        let target = match status {
            Some(status) => redirect_to(status, parts, target.span, loading),
            None => uri_of(parts, next, target.span, loading),
        };
        Ok(Replacement { regex, adds_args: stripped.is_none(), target })
    }

    /// Replaces the URI, whose captures are the exchange's.
    pub(super) fn apply(&self, exchange: &mut Exchange, told: Told) -> Replaced {
        exchange.routing.internal = true;
        let escapes = was_escaped(exchange);
        match &self.target {
            Target::Redirect { status, text, has_args } => {
                let mut location = unescape(&text.evaluate(exchange, escapes));
                self.add_args(exchange, &mut location, if *has_args { b'&' } else { b'?' });
                told.note(exchange, || {
                    let text = format!("rewritten redirect: \"{}\"", shown(&location));
                    Event::new("rewrite", text).with("location", &location)
                });
                exchange.response.location = Some(location.into());
                Replaced::Redirect(*status)
            }
            Target::Uri { path, args, next } => {
                let path = path.evaluate(exchange, false);
                if let Some(args) = args {
                    let mut args = args.evaluate(exchange, escapes);
                    self.add_args(exchange, &mut args, b'&');
                    exchange.request.args = Some(args);
                } else if let Some(args) = exchange.request.args.as_mut().filter(|_| !self.adds_args) {
                    // There was a query, which is empty now.
                    args.clear();
                }
                exchange.request.path = path;
                told.note(exchange, || {
                    let args = exchange.request.args.as_deref().unwrap_or_default();
                    let path = shown(&exchange.request.path);
                    let text = format!("rewritten data: \"{path}\", args: \"{}\"", shown(args));
                    Event::new("rewrite", text).with("uri", &exchange.request.path).with("args", args)
                });
                if exchange.request.path.is_empty() {
                    exchange.log(Level::Error, "the rewritten URI has a zero length");
                    return Replaced::Empty;
                }
                Replaced::Uri(*next)
            }
        }
    }

    fn add_args(&self, exchange: &Exchange, out: &mut Vec<u8>, separator: u8) {
        let args = exchange.request.args.as_deref().unwrap_or_default();
        if self.adds_args && !args.is_empty() {
            out.push(separator);
            out.extend_from_slice(args);
        }
    }
}

/// How one directive tells what it does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// Whether `rewrite_log` asks for it.
    pub(super) is_logged: bool,
    /// Where the directive was written.
    pub(super) place: Span,
}

impl Told {
    /// Tells a step.
    pub(super) fn note(self, exchange: &Exchange, event: impl FnOnce() -> Event) {
        if self.is_logged && exchange.connection.events.is_none() {
            exchange.log(Level::Notice, &event().text);
        } else {
            exchange.tell(|| event().at(Some(self.place)));
        }
    }
}

/// Bytes for a message.
pub(super) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether a text is meant as an absolute URL.
pub(super) fn is_url(text: &[u8]) -> bool {
    [&b"http://"[..], b"https://", b"$scheme"].iter().any(|start| text.starts_with(start))
}

fn redirect_to(status: Status, parts: Vec<Part>, span: Span, loading: &mut Loading) -> Target {
    let has_args = parts.iter().any(|part| matches!(part, Part::Literal(text) if text.contains(&b'?')));
    Target::Redirect { status, text: Text::new(parts, span, loading), has_args }
}

/// The path and the query: the first `?` that is written, and none that a variable brings, parts them.
fn uri_of(parts: Vec<Part>, next: Next, span: Span, loading: &mut Loading) -> Target {
    let mut path = Vec::new();
    let mut args: Option<Vec<Part>> = None;
    for part in parts {
        match (part, &mut args) {
            (part, Some(args)) => args.push(part),
            (Part::Literal(text), None) if text.contains(&b'?') => {
                let mut halves = text.splitn(2, |&byte| byte == b'?');
                let mut half = || halves.next().filter(|half| !half.is_empty());
                path.extend(half().map(|half| Part::Literal(half.into())));
                args = Some(half().map(|half| Part::Literal(half.into())).into_iter().collect());
            }
            (part, None) => path.push(part),
        }
    }
    let path = Text::new(path, span, loading);
    Target::Uri { path, args: args.map(|args| Text::new(args, span, loading)), next }
}

/// Decodes the escapes in the path of a redirect that need not be there. Malformed ones vanish.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match (byte, rest) {
            (b'?', rest) => {
                out.push(b'?');
                out.extend_from_slice(rest);
                break;
            }
            (b'%', [high, low, tail @ ..]) if high.is_ascii_hexdigit() => {
                rest = tail;
                match hex::pair(&[*high, *low]) {
                    Some(b'?') if low.is_ascii_alphabetic() => {
                        out.push(b'?');
                        out.extend_from_slice(rest);
                        break;
                    }
                    Some(decoded) if decoded > b'%' && decoded < 0x7f => out.push(decoded),
                    Some(_) => out.extend_from_slice(&[b'%', *high, *low]),
                    None => {}
                }
            }
            (b'%', [high]) if high.is_ascii_hexdigit() => break,
            // The percent sign vanishes, what follows it stays.
            (b'%', [next, tail @ ..]) => {
                out.push(*next);
                rest = tail;
            }
            (b'%', []) => break,
            (byte, _) => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn redirects_keep_only_the_escapes_they_need() {
        let text = |text: &str| String::from_utf8(unescape(text.as_bytes())).unwrap();
        assert_eq!(text("http://a/%41%20%2f%25?%41"), "http://a/A%20/%25?%41");
        assert_eq!(text("/a%3fb%41"), "/a?b%41");
        assert_eq!(text("/%zz%4"), "/zz");
        assert_eq!(text("/%4zb%"), "/b");
    }
}
