//! Names that `Define` and `-D` define, and `${NAME}` in lines.

use std::collections::BTreeMap;

use memchr::memmem;

use crate::tree::printable;

/// The names that are defined.
#[derive(Default)]
pub(super) struct Variables {
    names: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Variables {
    /// Defines a name. A name without a value counts for `<IfDefine>` only. As in Apache, a name that has a value keeps it.
    pub(super) fn define(&mut self, name: &[u8], value: Option<Vec<u8>>) {
        let known = self.names.entry(name.to_vec()).or_default();
        *known = value.or_else(|| known.take());
    }

    pub(super) fn undefine(&mut self, name: &[u8]) {
        self.names.remove(name);
    }

    pub(super) fn is_defined(&self, name: &[u8]) -> bool {
        self.names.contains_key(name)
    }

    /// All names, sorted.
    pub(super) fn names(self) -> Vec<String> {
        self.names.keys().map(|name| printable(name)).collect()
    }

    /// The line with each `${NAME}` replaced by the value of the name, or of the environment's variable. A name without a
    /// value stays as it is written, and `unknown` gets it. A value is not searched for further names.
    pub(super) fn fill_in(
        &self,
        line: &[u8],
        environment: &dyn Fn(&str) -> Option<Vec<u8>>,
        mut unknown: impl FnMut(&[u8]),
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(line.len());
        let mut rest = line;
        while let Some(at) = memmem::find(rest, b"${") {
            let Some(length) = memchr::memchr(b'}', &rest[at..]) else { break };
            let name = &rest[at + 2..at + length];
            out.extend_from_slice(&rest[..at]);
            let from_environment = || std::str::from_utf8(name).ok().and_then(environment);
            match self.names.get(name).cloned().flatten().or_else(from_environment) {
                Some(value) => out.extend_from_slice(&value),
                None => {
                    out.extend_from_slice(&rest[at..=at + length]);
                    unknown(name);
                }
            }
            rest = &rest[at + length + 1..];
        }
        out.extend_from_slice(rest);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_value_are_replaced() {
        let mut variables = Variables::default();
        variables.define(b"A", Some(b"a ${B}".to_vec()));
        variables.define(b"B", None);
        let environment = |name: &str| (name == "HOME").then(|| b"/root".to_vec());
        for (line, filled, unknown) in [
            ("x${A}y$A", "xa ${B}y$A", ""),
            ("${HOME}${B}", "/root${B}", "B"),
            ("${map:key}", "${map:key}", "map:key"),
            ("$${A} \\${A} ${A", "$a ${B} \\a ${B} ${A", ""),
            ("${}${a${A}}", "${}${a${A}}", "|a${A"),
        ] {
            let mut missing = Vec::new();
            let out = variables.fill_in(line.as_bytes(), &environment, |name| missing.push(printable(name)));
            assert_eq!((printable(&out).as_str(), missing.join("|").as_str()), (filled, unknown), "{line}");
        }
    }
}
