//! The page about the rules of `fulmar lint`, written from the rules themselves.

use std::fmt::Write as _;

use lint::Rule;

/// The page, relative to the root.
pub(super) const PAGE: &str = "docs/lint.md";

const HEAD: &str = "\
# The rules of fulmar lint

<!-- Written by `cargo xtask docs`. -->

`fulmar lint -c FILE` finds settings that load but probably do not do what you mean. Each finding has a place, a reason
and a fix. The command reads the configuration and the files that it includes. It serves and writes nothing, and does not
check whether files exist.

If the configuration has no errors and `htaccess` is on, the command also reads the [`.htaccess` files](htaccess.md) below the
roots. It reports each file that makes requests fail, with the rule `htaccess` and the level `warn`. `fulmar -t` warns of the
same files, and does not fail because of them. Both print how many files they read. They do not follow symbolic links to
directories, and stop after 20,000 directories, 32 levels, 10,000 files or 64 MiB of files. They skip a root with variables.

| option | what it does |
|---|---|
| `-c`, `-p`, `-g` | as for the server itself |
| `--deny LEVEL` | the lowest level that makes the exit status 1: `notice`, `warn`, `error` (the default), or `nothing` |
| `--allow RULE` | skips a rule; may be repeated |
| `--json` | prints an object for each finding: `rule`, `level`, `file`, `line`, `column`, `text`, `why`, `fix`, `excerpt`; for `.htaccess` files `rule`, `level`, `file`, `text` |

The exit status is 0; 1 if there is a finding of the level of `--deny` or above; 2 if the configuration cannot be read.

| level | meaning |
|---|---|
| `error` | clients can get or do something that they must not |
| `warn` | a setting does not do what it seems to do |
| `notice` | a setting could be better |
";

/// The text of the page.
pub(super) fn render() -> String {
    let mut out = HEAD.to_owned();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\n| rule | level | finds |\n|---|---|---|");
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
    let _ = writeln!(out, "```conf\n{bad}```\n\nCorrected:\n\n```conf\n{good}```");
}

/// An example with a directive a line. What breaks out of `http` is shown with it.
fn formatted(text: &str) -> String {
    let whole = format!("http {{ {text} }}");
    let nodes =
        conf::parse_bytes(if text.starts_with('}') { whole.as_bytes() } else { text.as_bytes() }).nodes;
    String::from_utf8_lossy(&conf::tree::to_text(&nodes)).into_owned()
}
