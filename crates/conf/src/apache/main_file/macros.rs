//! `<Macro>` and `Use`.

use std::collections::BTreeMap;

use crate::apache::line::{Line, Lines};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Word, printable};

/// Bytes of the text that a use of a macro makes.
const TEXT_BYTES_MAX: usize = 8 << 20;

/// Lines with parameters.
#[derive(Clone)]
pub(super) struct Macro {
    /// As messages name it: where it was defined.
    pub(super) shown: String,
    parameters: Vec<Box<[u8]>>,
    lines: Vec<Vec<u8>>,
}

/// The macros that are defined. Case does not matter in their names.
#[derive(Default)]
pub(super) struct Macros {
    known: BTreeMap<Vec<u8>, Macro>,
}

impl Macros {
    /// Reads a macro up to its `</Macro>`. `words` are its name and parameters; `path` names the text.
    pub(super) fn define(
        &mut self,
        words: &[Word],
        span: Span,
        path: &str,
        lines: &mut Lines,
    ) -> Result<(), Diagnostic> {
        let [name, parameters @ ..] = words else {
            return Err(Diagnostic::emerg("<Macro> needs a name").at(span));
        };
        let key = name.text.to_ascii_lowercase();
        let shown = format!("macro '{}' (defined on line {} of \"{path}\")", printable(&key), span.line);
        for (index, word) in parameters.iter().enumerate() {
            let message = if word.text.is_empty() {
                format!("parameter {} of the macro has no name", index + 1)
            } else if parameters[..index].iter().any(|other| other.text == word.text) {
                format!("the macro has two parameters \"{word}\"")
            } else {
                continue;
            };
            return Err(Diagnostic::emerg(message).at(span));
        }
        let parameters = parameters.iter().map(|word| word.text.clone()).collect();
        let lines = body(lines).ok_or_else(|| {
            Diagnostic::emerg(format!("<Macro {name}> was not closed")).at(span).hint("end it with </Macro>")
        })?;
        self.known.insert(key, Macro { shown, parameters, lines });
        Ok(())
    }

    /// Forgets a macro.
    pub(super) fn undefine(&mut self, name: &Word, span: Span) -> Result<(), Diagnostic> {
        self.known.remove(&name.text.to_ascii_lowercase()).map(|_| ()).ok_or_else(|| unknown(name, span))
    }

    /// The macro that `Use` names in the first of its words, and its lines with the other words as arguments.
    pub(super) fn text(&self, words: &[Word], span: Span) -> Result<(&Macro, Vec<u8>), Diagnostic> {
        let Some((name, arguments)) = words.split_first() else {
            return Err(Diagnostic::emerg("Use needs the name of a macro").at(span));
        };
        let found = self.known.get(&name.text.to_ascii_lowercase()).ok_or_else(|| unknown(name, span))?;
        if arguments.len() != found.parameters.len() {
            let (given, needed) = (arguments.len(), found.parameters.len());
            let message = format!("{} used with {given} arguments instead of {needed}", found.shown);
            return Err(Diagnostic::emerg(message).at(span));
        }
        let pairs: Vec<(&[u8], Vec<u8>)> = found
            .parameters
            .iter()
            .map(|name| &**name)
            .zip(arguments)
            .map(|(name, word)| (name, argument(name, &word.text)))
            .collect();
        let mut text = Vec::new();
        for line in &found.lines {
            substitute(line, &pairs, &mut text);
            text.push(b'\n');
            if text.len() > TEXT_BYTES_MAX {
                let message = format!("{} makes more than {TEXT_BYTES_MAX} bytes", found.shown);
                return Err(Diagnostic::emerg(message).at(span));
            }
        }
        Ok((found, text))
    }
}

fn unknown(name: &Word, span: Span) -> Diagnostic {
    Diagnostic::emerg(format!("macro '{}' undefined", printable(&name.text.to_ascii_lowercase()))).at(span)
}

/// The lines up to the `</Macro>` that belongs to the open one, without comments.
fn body(lines: &mut Lines) -> Option<Vec<Vec<u8>>> {
    let (mut out, mut depth) = (Vec::new(), 1);
    loop {
        let line = lines.logical()?;
        let first = line.words().into_iter().next().map(|word| word.text.to_ascii_lowercase());
        match first.as_deref() {
            Some(b"</macro>") => depth -= 1,
            Some(b"<macro") => depth += 1,
            Some([b'#', ..]) => continue,
            _ => {}
        }
        if depth == 0 {
            return Some(out);
        }
        let Line { text, .. } = line;
        out.push(text);
    }
}

/// What replaces a parameter. The arguments of `@NAME` are put in quotes.
fn argument(name: &[u8], text: &[u8]) -> Vec<u8> {
    if !name.starts_with(b"@") {
        return text.to_vec();
    }
    let mut out = vec![b'"'];
    for &byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
    out
}

/// The line with parameters replaced. Where several begin, the longest counts.
fn substitute(line: &[u8], pairs: &[(&[u8], Vec<u8>)], out: &mut Vec<u8>) {
    let mut rest = line;
    while let Some(&byte) = rest.first() {
        let here = pairs.iter().filter(|(name, _)| rest.starts_with(name));
        match here.max_by_key(|(name, _)| name.len()) {
            Some((name, argument)) => {
                out.extend_from_slice(argument);
                rest = &rest[name.len()..];
            }
            None => {
                out.push(byte);
                rest = &rest[1..];
            }
        }
    }
}
