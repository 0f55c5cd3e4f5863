//! The page about the rules of `fulmar lint`, written from the rules themselves.

use std::fmt::Write as _;

use lint::Rule;

/// The page, relative to the root.
pub(super) const PAGE: &str = "docs/lint.md";

const HEAD: &str = "\
# Traps

<!-- Written by `cargo xtask docs`. -->

`fulmar lint -c FILE` looks for what loads and probably does not do what was meant. Each finding has a place, a reason
and a fix. It reads the configuration with all that it includes, serves nothing and writes nothing. What needs
more than the text, such as whether a file is there, is not looked at.

Where the configuration could be served and `htaccess` is on, it also reads the [`.htaccess` files](htaccess.md) below the
roots, and tells each one that requests would not be answered by as a finding of the rule `htaccess`, of level `warn`.
`fulmar -t` warns of the same files, and does not fail by them. Both say how many files they looked at. They do not follow
symbolic links to directories, and stop after 20 000 directories, 32 levels, 2 000 files or 16 MiB of them. A root with
variables is left out.

| option | does |
|---|---|
| `-c`, `-p`, `-g` | as for the server itself |
| `--deny LEVEL` | the least bad kind of finding that makes the exit status 1: `error` (where none is given), `warn`, `notice`, or `nothing` |
| `--allow RULE` | leaves a rule out; may be given again |
| `--json` | prints an object for each finding: `rule`, `level`, `file`, `line`, `column`, `text`, `why`, `fix`, `excerpt`; for `.htaccess` files `rule`, `level`, `file`, `text` |

The exit status is 0; 1 if something was found that `--deny` names; 2 if the configuration cannot be read.

A rule is of level `error` where strangers get what they may not, `warn` where something does not do what it says, and
`notice` where it could be better.
";

/// The text of the page.
pub(super) fn render() -> String {
    let mut out = HEAD.to_owned();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\n| rule | level | |\n|---|---|---|");
    for rule in lint::rules() {
        let _ = writeln!(out, "| [{0}](#{0}) | {1} | {2} |", rule.id, rule.level.name(), rule.title);
    }
    for rule in lint::rules() {
        write_rule(rule, &mut out);
    }
    out
}

fn write_rule(rule: &Rule, out: &mut String) {
    let (bad, good) = (formatted(rule.bad), formatted(rule.good));
    let _ = writeln!(out, "\n## {}\n\n{}\n", rule.id, rule.why);
    let _ = writeln!(out, "```conf\n{bad}```\n\nMended:\n\n```conf\n{good}```");
}

/// An example with a directive a line. What breaks out of `http` is shown with it.
fn formatted(text: &str) -> String {
    let whole = format!("http {{ {text} }}");
    let nodes =
        conf::parse_bytes(if text.starts_with('}') { whole.as_bytes() } else { text.as_bytes() }).nodes;
    String::from_utf8_lossy(&conf::tree::to_text(&nodes)).into_owned()
}
