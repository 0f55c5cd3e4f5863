//! The standard streams. A reader that has closed its end is not an error, so errors of writing end here.

use std::borrow::Cow;
use std::env;
use std::io::{self, IsTerminal, Write};

/// What precedes every message on the standard error stream.
pub(crate) const PROGRAM: &str = "fulmar";

const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const CYAN: &str = "\x1b[1;36m";
const GREEN: &str = "\x1b[1;32m";
const RESET: &str = "\x1b[0m";

/// Writes `fulmar: text` as a line on the standard error stream.
pub(crate) fn say(text: &str) {
    err(&format!("{PROGRAM}: {text}\n"));
}

/// Writes messages to the standard error stream.
pub(crate) fn err(text: &str) {
    let _ = io::stderr().write_all(for_people(text, &io::stderr()).as_bytes());
}

/// Writes to the standard output.
pub(crate) fn out(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// Writes messages to the standard output.
pub(crate) fn out_messages(text: &str) {
    out(for_people(text, &io::stdout()).as_bytes());
}

/// Adds colours if the stream is a terminal. `NO_COLOR` (<https://no-color.org>) and a dumb terminal get none.
fn for_people<'a>(text: &'a str, stream: &impl IsTerminal) -> Cow<'a, str> {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    if stream.is_terminal() && !is_dumb && !is_set("NO_COLOR") {
        text.split_inclusive('\n').map(coloured).collect::<String>().into()
    } else {
        text.into()
    }
}

/// A line of a message with colours: its level, the marks below an excerpt, and the word `hint`.
fn coloured(line: &str) -> String {
    let paint = |part: &str, colour: &str| line.replacen(part, &format!("{colour}{part}{RESET}"), 1);
    if let Some((level, _)) = line.strip_prefix("fulmar: [").and_then(|rest| rest.split_once(']')) {
        let colour = match level {
            "emerg" | "alert" | "crit" | "error" => RED,
            "warn" => YELLOW,
            _ => CYAN,
        };
        return paint(&format!("[{level}]"), colour);
    }
    let marks = line.trim_start().strip_prefix('|').map(str::trim);
    match marks {
        Some(marks) if !marks.is_empty() && marks.bytes().all(|byte| byte == b'^') => paint(marks, RED),
        _ if line.starts_with("  hint: ") => paint("hint:", GREEN),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_marks_and_hints_have_colours() {
        assert_eq!(coloured("fulmar: [emerg] a [b]\n"), format!("fulmar: {RED}[emerg]{RESET} a [b]\n"));
        assert_eq!(coloured("fulmar: [warn] a\n"), format!("fulmar: {YELLOW}[warn]{RESET} a\n"));
        assert_eq!(coloured("    |   ^^^\n"), format!("    |   {RED}^^^{RESET}\n"));
        assert_eq!(coloured("  hint: a\n"), format!("  {GREEN}hint:{RESET} a\n"));
        for line in ["fulmar: a\n", "  3 |   lisen ^;\n", "    |\n", "hint\n"] {
            assert_eq!(coloured(line), line);
        }
    }
}
