//! What a file of the suite came to, read out of `prove -v`.

use std::fmt;

/// What a file came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Every assert that ran holds.
    Passed {
        /// How many asserts ran.
        asserts: usize,
        /// How many others were skipped.
        skipped: usize,
    },
    /// The file did not run, for want of a feature or a program.
    Skipped(String),
    /// Something does not hold.
    Failed {
        /// The asserts that do not hold, with their numbers.
        asserts: Vec<String>,
        /// How many asserts ran.
        ran: usize,
        /// What else was wrong: a plan that was not kept, a server that did not start.
        reason: Option<String>,
    },
}

impl Outcome {
    /// Whether the file says that the server does what it should.
    pub(super) fn passes(&self) -> bool {
        matches!(self, Outcome::Passed { asserts: 1.., .. })
    }

    /// Reads the output of `prove -v` of one file, and what was written next to it.
    pub(super) fn read(stdout: &str, stderr: &str) -> Outcome {
        let mut asserts = Vec::new();
        let (mut ran, mut skipped) = (0, 0);
        for line in stdout.lines() {
            match assert(line) {
                Some(Assert::Holds) => ran += 1,
                Some(Assert::Skipped) => skipped += 1,
                Some(Assert::Fails(text)) => {
                    ran += 1;
                    asserts.push(text.to_owned());
                }
                None => {}
            }
        }
        match result(stdout) {
            Some("PASS") => Outcome::Passed { asserts: ran, skipped },
            Some("NOTESTS") => {
                let reason = skip_reason(stdout).or_else(|| first_line(stderr));
                Outcome::Skipped(reason.unwrap_or("no asserts").to_owned())
            }
            _ => Outcome::Failed { reason: reason(stdout, stderr, &asserts), asserts, ran },
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Passed { asserts, skipped: 0 } => write!(out, "ok ({asserts})"),
            Outcome::Passed { asserts, skipped } => write!(out, "ok ({asserts}, {skipped} skipped)"),
            Outcome::Skipped(reason) => write!(out, "skipped: {reason}"),
            Outcome::Failed { asserts, ran, reason } => {
                write!(out, "FAILED {} of {ran}", asserts.len())?;
                if let Some(reason) = reason {
                    write!(out, ", {reason}")?;
                }
                asserts.iter().try_for_each(|assert| write!(out, "\n    {assert}"))
            }
        }
    }
}

enum Assert<'a> {
    Holds,
    Skipped,
    /// With its number and name.
    Fails(&'a str),
}

/// A line of the Test Anything Protocol that is an assert. One that is marked `todo` counts as holding,
/// as its failure is expected.
fn assert(line: &str) -> Option<Assert<'_>> {
    let (failed, text) = match line.strip_prefix("not ok ") {
        Some(text) => (true, text),
        None => (false, line.strip_prefix("ok ")?),
    };
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let directive = text.rsplit_once(" # ").map_or("", |(_, directive)| directive);
    let marked =
        |word: &str| directive.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    Some(match failed {
        _ if marked("skip") => Assert::Skipped,
        true if !marked("todo") => Assert::Fails(text),
        _ => Assert::Holds,
    })
}

/// `PASS`, `FAIL` or `NOTESTS`.
fn result(stdout: &str) -> Option<&str> {
    stdout.lines().rev().find_map(|line| line.strip_prefix("Result: "))
}

fn skip_reason(stdout: &str) -> Option<&str> {
    stdout.lines().find_map(|line| line.split_once("skipped: ").map(|(_, reason)| reason))
}

/// What was wrong next to the asserts that do not hold: the server's own words where there are some.
fn reason(stdout: &str, stderr: &str, failed: &[String]) -> Option<String> {
    let emergency = stderr.lines().find(|line| line.contains("[emerg]"));
    let parse_error = stdout.lines().find_map(|line| line.trim_start().strip_prefix("Parse errors: "));
    let reason = match (emergency, parse_error) {
        (Some(line), _) => line,
        (None, Some(line)) => first_line(stderr).filter(|_| failed.is_empty()).unwrap_or(line),
        (None, None) if failed.is_empty() => first_line(stderr).unwrap_or("prove gave no result"),
        (None, None) => return None,
    };
    Some(reason.trim().to_owned())
}

fn first_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSED: &str = "\
a.t ..
1..4
ok 1 - first
not ok 2 - second # todo later
ok 3 # skip no program
ok 4 - no alerts
ok
All tests successful.
Files=1, Tests=4,  0 wallclock secs
Result: PASS
";

    #[test]
    fn passing_files() {
        let outcome = Outcome::read(PASSED, "");
        assert_eq!(outcome, Outcome::Passed { asserts: 3, skipped: 1 });
        assert!(outcome.passes());
        assert_eq!(outcome.to_string(), "ok (3, 1 skipped)");
    }

    #[test]
    fn a_file_that_only_skips_does_not_pass() {
        let stdout =
            "a.t .. skipped: no proxy available\nFiles=1, Tests=0,  0 wallclock secs\nResult: NOTESTS\n";
        let outcome = Outcome::read(stdout, "");
        assert_eq!(outcome, Outcome::Skipped("no proxy available".into()));
        assert!(!outcome.passes());
        let missing = Outcome::read("Result: NOTESTS\n", "Cannot detect source of 'b.t'!\n");
        assert_eq!(missing.to_string(), "skipped: Cannot detect source of 'b.t'!");
        let stdout = "a.t ..\n1..1\nok 1 # SKIP no root\nok\nResult: PASS\n";
        assert!(!Outcome::read(stdout, "").passes());
    }

    #[test]
    fn asserts_that_do_not_hold_are_named() {
        let stdout =
            "a.t ..\n1..3\nok 1 - a\nnot ok 2 - b # c\nok 3 - d\nFailed 1/3 subtests\nResult: FAIL\n";
        let outcome = Outcome::read(stdout, "#   Failed test 'b # c'\n#   at a.t line 9.\n");
        let expected = Outcome::Failed { asserts: vec!["2 - b # c".into()], ran: 3, reason: None };
        assert_eq!(outcome, expected);
        assert_eq!(outcome.to_string(), "FAILED 1 of 3\n    2 - b # c");
    }

    #[test]
    fn a_server_that_does_not_start_says_why() {
        let stdout = "a.t ..\n1..3\nDubious, test returned 2\n\
            \x20 Parse errors: Bad plan.  You planned 3 tests but ran 0.\nResult: FAIL\n";
        let stderr = "x: [emerg] unknown directive \"y\" in f:1\nCan't start nginx at line 1.\n";
        let reason = |stderr| match Outcome::read(stdout, stderr) {
            Outcome::Failed { asserts, ran: 0, reason } if asserts.is_empty() => reason.unwrap_or_default(),
            other => panic!("{other:?}"),
        };
        assert_eq!(reason(stderr), "x: [emerg] unknown directive \"y\" in f:1");
        assert_eq!(reason("Can't start nginx at line 1.\n"), "Can't start nginx at line 1.");
        assert_eq!(reason(""), "Bad plan.  You planned 3 tests but ran 0.");
        assert_eq!(Outcome::read("", "").to_string(), "FAILED 0 of 0, prove gave no result");
    }

    #[test]
    fn what_the_server_prints_is_no_assert() {
        assert!(assert("ok").is_none());
        assert!(assert("ok then").is_none());
        assert!(assert("# ok 1").is_none());
        assert!(matches!(assert("not ok 3"), Some(Assert::Fails("3"))));
    }
}
