//! What `cargo test` prints, read for the tests that passed and failed.

/// A test that failed, and the arguments with which `cargo test` runs its target (`-p fulmar-lab --test load`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) name: String,
    pub(super) target: String,
}

#[derive(Default)]
pub(super) struct Report {
    passed: Vec<String>,
    /// The names under `failures:`, a list for each target in the order of the targets.
    failures: Vec<Vec<String>>,
    /// The targets that failed, as Cargo lists them at its end.
    targets: Vec<String>,
    section: Section,
}

/// Which part of the output the next line belongs to.
#[derive(Default, PartialEq, Eq)]
enum Section {
    #[default]
    Tests,
    Failures,
    Targets,
}

impl Report {
    /// Takes the next line.
    pub(super) fn read(&mut self, line: &str) {
        let trimmed = line.trim();
        // Cargo may put codes for colours before `error:`, so only the rest of the line is compared.
        if trimmed.ends_with("failed:") && trimmed.contains(" target") {
            self.section = Section::Targets;
        } else if line == "failures:" {
            // The line `failures:` comes twice: first above what the tests printed, then above the list of their names.
            self.section = Section::Failures;
            self.failures.push(Vec::new());
        } else if line.starts_with("test result:") {
            self.section = Section::Tests;
            // Of the two lists of a target only the last has names.
            self.failures.retain(|names| !names.is_empty());
        } else if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... ok")) {
            self.passed.push(name.to_owned());
        } else if self.section == Section::Failures {
            self.read_failure(line);
        } else if self.section == Section::Targets
            && let Some(target) = trimmed.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'))
        {
            self.targets.push(target.to_owned());
        }
    }

    fn read_failure(&mut self, line: &str) {
        let Some(names) = self.failures.last_mut() else { return };
        match line.strip_prefix("    ") {
            Some(name) if !name.contains(' ') => names.push(name.to_owned()),
            // `---- ` begins what a test printed, so the last `failures:` was not the one above the list of names.
            _ if line.starts_with("---- ") => self.section = Section::Tests,
            _ => {}
        }
    }

    /// Whether all failed tests are known by name. A target that died lists none.
    pub(super) fn is_whole(&self) -> bool {
        self.failures.len() == self.targets.len()
    }

    /// The tests that failed.
    pub(super) fn failed(&self) -> Vec<Failed> {
        let lists = self.failures.iter().zip(&self.targets);
        let tests = lists.flat_map(|(names, target)| {
            names.iter().map(|name| Failed { name: name.clone(), target: target.clone() })
        });
        tests.collect()
    }

    pub(super) fn has_passed(&self, name: &str) -> bool {
        self.passed.iter().any(|passed| passed == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str) -> Report {
        let mut report = Report::default();
        text.lines().for_each(|line| report.read(line));
        report
    }

    const TWO: &str = "\
     Running unittests src/lib.rs (target/debug/deps/lab-1)
running 2 tests
test a::good ... ok
test a::bad ... FAILED

failures:

---- a::bad stdout ----
thread 'a::bad' panicked:
    indented
note: run with

failures:
    a::bad

test result: FAILED. 1 passed; 1 failed
error: test failed, to rerun pass `-p fulmar-lab --lib`
test slow ... FAILED

failures:

---- slow stdout ----
failures:
    slow

test result: FAILED. 0 passed; 1 failed
error: 2 targets failed:
    `-p fulmar-lab --lib`
    `-p tests --test all`
";

    #[test]
    fn failed_tests_are_found_with_their_targets() {
        let report = report(TWO);
        let failed = |name: &str, target: &str| Failed { name: name.into(), target: target.into() };
        assert_eq!(
            report.failed(),
            [failed("a::bad", "-p fulmar-lab --lib"), failed("slow", "-p tests --test all")]
        );
        assert!(report.is_whole());
        assert!(report.has_passed("a::good") && !report.has_passed("a::bad"));
    }

    #[test]
    fn a_target_that_died_makes_the_report_incomplete() {
        let died = TWO.replace("    `-p tests", "    `-p dead --lib`\n    `-p tests");
        assert!(!report(&died).is_whole());
        assert!(report("error: could not compile `lab`").failed().is_empty());
    }
}
