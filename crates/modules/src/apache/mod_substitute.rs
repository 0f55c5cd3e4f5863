//! Replaces texts in responses as `.htaccess` files say: `Substitute`.
//!
//! The output filter `SUBSTITUTE` applies the lines of `Substitute` to each line of the content. A pattern is a regular
//! expression, or, with the flag `n`, a text. `i` ignores case. The result of one `Substitute` is what the next one
//! sees; `q`, with which Apache does not look into what was replaced, has no effect.
//!
//! A line longer than `SubstituteMaxLineLength` is sent as it is, where Apache cuts the response off. When the
//! request's budget of time is spent, the remaining lines are sent unchanged, too.
//!
//! nginx: none
//!
//! ```file html/page.html
//! <a href="http://example.com/a">Example</a>
//! ```
//!
//! ```file html/.htaccess
//! AddOutputFilterByType SUBSTITUTE text/html
//! Substitute s|http://example\.com/(\w)|https://example.com/$1|
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     htaccess on;
//!     types { text/html html; }
//! }
//! ```
//!
//! ```http
//! GET /page.html HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! <a href="https://example.com/a">Example</a>
//! ```

use crate::apache::mod_filter::{Output, OutputFilter, filtered};
use crate::apache::mod_setenvif::with_groups;
use crate::shared::apache::bounded::{Failure, find};
use crate::shared::apache::{STEPS_MAX, held, in_file, last, wrong};
use crate::shared::changed::{Change, changed};
use crate::shared::validators;
use conf::value::{Captures, Language, Pattern, flag, offset};
use conf::{Arity, Diagnostic, Word};
use contract::{Args, Body, Budget, Directive, Exchange, Filter, Loading, Module, ScopeBuilder, View};
use std::rc::Rc;
use std::sync::Arc;

/// Texts that are replaced.
pub static MODULE: Module = Module {
    name: "mod_substitute",
    directives: &[&SUBSTITUTE, &INHERIT_BEFORE, &MAX_LINE_LENGTH],
    variables: &[],
    compile: Some(compile),
};

/// `Substitute s/PATTERN/REPLACEMENT/[infq]`
pub(crate) static SUBSTITUTE: Directive<Substitution> = in_file(Directive::new("Substitute", parse))
    .args(Arity::Exactly(1))
    .help("A text that is replaced in each line of the content.");

/// `SubstituteInheritBefore On | Off`
pub(crate) static INHERIT_BEFORE: Directive<bool> =
    in_file(Directive::new("SubstituteInheritBefore", |args, _| args.value(0, flag)))
        .args(Arity::Flag)
        .default("off")
        .help("Whether the lines of outer files come before those of this one. Without it, they come after.");

/// `SubstituteMaxLineLength BYTES[k | m | g]`
pub(crate) static MAX_LINE_LENGTH: Directive<usize> =
    in_file(Directive::new("SubstituteMaxLineLength", |args, _| {
        let length = args.value(0, offset)?;
        Ok(usize::try_from(length).map_or(LINE_MAX, |length| length.min(LINE_MAX)))
    }))
    .args(Arity::Exactly(1))
    .default("1m")
    .help("The longest line in which texts are replaced; at most `1m`.");

/// The longest line, which is held in memory.
const LINE_MAX: usize = 1024 * 1024;

/// One replacement.
#[derive(Clone, Debug)]
pub(crate) struct Substitution {
    from: From,
    to: Box<[u8]>,
}

#[derive(Clone, Debug)]
enum From {
    Text(Box<[u8]>),
    Pattern(Arc<Pattern>),
}

fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Substitution, Diagnostic> {
    let word = args.word(0)?;
    let bad = || wrong(args, "no form of s/pattern/replacement/flags:", word);
    let Some([delimiter, rest @ ..]) = word.text.strip_prefix(b"s") else { return Err(bad()) };
    let mut parts = rest.splitn(3, |byte| byte == delimiter);
    let (Some(from), Some(to), Some(flags)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(bad());
    };
    if from.is_empty() || !flags.iter().all(|flag| b"infqINFQ".contains(flag)) {
        return Err(bad());
    }
    let has = |flag: u8| flags.iter().any(|known| known.eq_ignore_ascii_case(&flag));
    let from = match has(b'n') {
        true if !has(b'i') => From::Text(from.into()),
        true => {
            let quoted: Vec<u8> = from.iter().flat_map(|&byte| quoted(byte)).collect();
            From::Pattern(of_lines(args, loading, word, &quoted, true)?)
        }
        false => From::Pattern(of_lines(args, loading, word, from, has(b'i'))?),
    };
    Ok(Substitution { from, to: to.into() })
}

/// A pattern as mod_substitute compiles it: `.` does not match the end of the line.
fn of_lines(
    args: &Args<'_>,
    loading: &mut Loading,
    word: &Word,
    text: &[u8],
    ignore_case: bool,
) -> Result<Arc<Pattern>, Diagnostic> {
    let pattern = Pattern::limited(text, ignore_case, Language::ApacheLines, STEPS_MAX);
    held(loading, pattern.map_err(|error| error.at(args.node, word))?, args.node.span)
}

/// A byte as a pattern has it.
fn quoted(byte: u8) -> Vec<u8> {
    if byte.is_ascii_punctuation() { vec![b'\\', byte] } else { vec![byte] }
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let filters = filtered(view, Output::Substitute);
    let list = substitutions(view);
    if !filters.is_empty() && !list.is_empty() {
        let line_max = last(view, &MAX_LINE_LENGTH).unwrap_or(LINE_MAX);
        builder.filter(Substitute { filters, list, line_max });
    }
    Ok(())
}

/// The replacements of all levels, in their order. Those of an outer level come last, unless an inner one says otherwise.
fn substitutions(view: &View<'_>) -> Arc<[Substitution]> {
    let mut levels: Vec<_> = view.levels().collect();
    levels.reverse();
    let (mut list, mut before): (Vec<Substitution>, bool) = (Vec::new(), false);
    for level in levels {
        before = level.here(&INHERIT_BEFORE).last().map_or(before, |written| *written.value);
        let here = level.here(&SUBSTITUTE).into_iter().map(|written| written.value.clone());
        match before {
            true => list.extend(here),
            false => list = here.chain(list).collect(),
        }
    }
    list.into()
}

struct Substitute {
    filters: Vec<OutputFilter>,
    list: Arc<[Substitution]>,
    line_max: usize,
}

impl Filter for Substitute {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let is_coded = exchange.response.is_coded() || matches!(body, Body::Tunnel(_));
        if is_coded || !self.filters.iter().any(|filter| filter.applies(exchange)) {
            return body;
        }
        validators::is_another_form(&mut exchange.response);
        // An edit of the file changes the content, but not the tag.
        exchange.response.etag = None;
        exchange.response.fields.remove("etag");
        exchange.file = None;
        if exchange.is_head() {
            return Body::Empty;
        }
        let (list, budget) = (Arc::clone(&self.list), exchange.budget());
        changed(body, Lines { list, budget, line_max: self.line_max, held: Vec::new(), is_long: false })
    }

    fn is_for_subrequests(&self) -> bool {
        true
    }
}

/// Content whose lines are changed one by one.
struct Lines {
    list: Arc<[Substitution]>,
    budget: Rc<Budget>,
    line_max: usize,
    /// The line so far.
    held: Vec<u8>,
    /// Whether the line is too long, and is sent as it is.
    is_long: bool,
}

impl Lines {
    fn end_line(&mut self, out: &mut Vec<u8>) {
        let line = std::mem::take(&mut self.held);
        let running = self.budget.run();
        let replaced = self.list.iter().try_fold(line.clone(), |line, substitution| {
            substitution.replaced(line, &self.budget, self.line_max)
        });
        drop(running);
        out.extend_from_slice(replaced.as_ref().unwrap_or(&line));
    }
}

impl Change for Lines {
    fn add(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let is_end = part.ends_with(b"\n");
            if !self.is_long && self.held.len() + part.len() > self.line_max {
                self.is_long = true;
                out.append(&mut self.held);
            }
            match self.is_long {
                true => out.extend_from_slice(part),
                false => self.held.extend_from_slice(part),
            }
            if is_end {
                self.is_long = false;
                self.end_line(out);
            }
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.end_line(out);
    }
}

impl Substitution {
    /// A line in which each match is replaced.
    fn replaced(&self, line: Vec<u8>, budget: &Budget, line_max: usize) -> Result<Vec<u8>, Failure> {
        let (mut out, mut rest) = (Vec::new(), &line[..]);
        let mut captures = Captures::default();
        while !rest.is_empty() {
            let Some((start, end, new)) = self.next(rest, &mut captures, budget)? else { break };
            out.extend_from_slice(&rest[..start]);
            out.extend_from_slice(&new);
            // A match without a byte of the line must not be found again.
            let passed = if start == end { rest.get(start) } else { None };
            out.extend(passed);
            rest = &rest[end + usize::from(passed.is_some())..];
            if out.len() > line_max {
                return Err(Failure::TooLong);
            }
        }
        if out.is_empty() && rest.len() == line.len() {
            return Ok(line);
        }
        out.extend_from_slice(rest);
        Ok(out)
    }

    /// The place of the next match, and what takes its place.
    fn next(
        &self,
        rest: &[u8],
        captures: &mut Captures,
        budget: &Budget,
    ) -> Result<Option<(usize, usize, Vec<u8>)>, Failure> {
        match &self.from {
            From::Text(text) => {
                budget.step(rest.len())?;
                let start = memchr::memmem::find(rest, text);
                Ok(start.map(|start| (start, start + text.len(), self.to.to_vec())))
            }
            From::Pattern(pattern) => {
                if !find(pattern, rest, captures, budget)? {
                    return Ok(None);
                }
                let whole = captures.get(0, rest).unwrap_or_default();
                let start = whole.as_ptr().addr() - rest.as_ptr().addr();
                let new = with_groups(&self.to, captures, rest)?;
                Ok(Some((start, start + whole.len(), new)))
            }
        }
    }
}
