//! SPDX licence expressions, evaluated against a list of licences that we may use.

/// Whether some choice that `expression` leaves consists of allowed licences only.
///
/// `AND` asks for both sides, `OR` and the `/` of old manifests for one; `WITH` only adds
/// permissions. What does not parse is not allowed.
pub(super) fn allows(expression: &str, allowed: &[impl AsRef<str>]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut parser = Parser { tokens: spaced.split_whitespace().collect(), at: 0, allowed };
    parser.any() == Some(true) && parser.at == parser.tokens.len()
}

struct Parser<'a, T> {
    tokens: Vec<&'a str>,
    at: usize,
    allowed: &'a [T],
}

impl<'a, T: AsRef<str>> Parser<'a, T> {
    fn any(&mut self) -> Option<bool> {
        let mut result = self.all()?;
        while self.takes("OR") {
            result |= self.all()?;
        }
        Some(result)
    }

    fn all(&mut self) -> Option<bool> {
        let mut result = self.one()?;
        while self.takes("AND") {
            result &= self.one()?;
        }
        Some(result)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            let result = self.any()?;
            return self.takes(")").then_some(result);
        }
        let name = self.next()?;
        if matches!(name, "AND" | "OR" | "WITH" | ")") {
            return None;
        }
        if self.takes("WITH") {
            self.next()?;
        }
        Some(self.allowed.iter().any(|allowed| allowed.as_ref() == name))
    }

    fn next(&mut self) -> Option<&'a str> {
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        Some(token)
    }

    fn takes(&mut self, token: &str) -> bool {
        let found = self.tokens.get(self.at) == Some(&token);
        self.at += usize::from(found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::allows;

    const ALLOWED: &[&str] = &["MIT", "Apache-2.0", "Unicode-3.0"];

    #[test]
    fn some_choice_is_allowed() {
        for expression in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/Apache-2.0",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
            "GPL-3.0 AND MIT OR Apache-2.0",
        ] {
            assert!(allows(expression, ALLOWED), "{expression}");
        }
    }

    #[test]
    fn every_choice_asks_for_something_else() {
        for expression in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT AND GPL-3.0) OR BSD-3-Clause",
            "",
            "MIT OR",
            "(MIT",
            "MIT)",
            "MIT MIT",
        ] {
            assert!(!allows(expression, ALLOWED), "{expression}");
        }
    }
}
