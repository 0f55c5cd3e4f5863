//! Texts with `{{names}}`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

/// How deep values may name other values.
const DEPTH: usize = 4;

/// Replaces names by values, also within values. Fails at a name that has no value.
pub(crate) fn fill(text: &str, values: &BTreeMap<String, String>) -> Result<String> {
    let mut text = text.to_owned();
    for _ in 0..DEPTH {
        if !text.contains("{{") {
            return Ok(text);
        }
        text = once(&text, values)?;
    }
    ensure!(!text.contains("{{"), "values name each other more than {DEPTH} deep");
    Ok(text)
}

fn once(text: &str, values: &BTreeMap<String, String>) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once("{{") {
        let (name, after) = inside.split_once("}}").context("{{ without }}")?;
        let value = values.get(name).with_context(|| format!("no value for {{{{{name}}}}}"))?;
        out.push_str(before);
        out.push_str(value);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_place_of_names() {
        let pairs = [("a", "1"), ("b", "[{{a}}]"), ("loop", "{{loop}}")];
        let values = BTreeMap::from(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(fill("x {{a}} { {{b}} }", &values).unwrap(), "x 1 { [1] }");
        assert_eq!(fill("no names", &values).unwrap(), "no names");
        assert!(fill("{{c}}", &values).unwrap_err().to_string().contains("{{c}}"));
        assert!(fill("{{a", &values).is_err());
        assert!(fill("{{loop}}", &values).is_err());
    }
}
