//! Texts with variables: `/srv/$host/${uri}.gz`, and captures `$1` to `$9`.

use super::ValueError;
use crate::tree::{Word, printable};

/// A piece of a text with variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Bytes as they are.
    Literal(Box<[u8]>),
    /// The value of a variable, by its name without `$`.
    Variable(Box<str>),
    /// What the last pattern captured, 1 to 9.
    Capture(u8),
}

/// A text with variables, taken apart once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    /// The pieces in order; literals are never empty and never follow each other.
    pub parts: Box<[Part]>,
}

impl Template {
    /// Takes a text apart.
    ///
    /// # Errors
    /// [`ValueError::Template`].
    pub fn new(text: &[u8]) -> Result<Template, ValueError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let literal = rest.iter().position(|&byte| byte == b'$').unwrap_or(rest.len());
            if literal > 0 {
                parts.push(Part::Literal(rest[..literal].into()));
            }
            rest = &rest[literal..];
            if let Some(after) = rest.strip_prefix(b"$") {
                let (part, tail) = reference(after)?;
                parts.push(part);
                rest = tail;
            }
        }
        Ok(Template { parts: parts.into() })
    }

    /// The text, where it has neither variables nor captures.
    pub fn literal(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(&[]),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Names of its variables, as often as they stand in it.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable(name) => Some(&**name),
            _ => None,
        })
    }
}

/// The template that a word holds.
///
/// # Errors
/// [`ValueError::Template`].
pub fn template(word: &Word) -> Result<Template, ValueError> {
    Template::new(&word.text)
}

/// Reads what follows a `$`, and gives the text after it.
fn reference(text: &[u8]) -> Result<(Part, &[u8]), ValueError> {
    let invalid = || ValueError::Template("invalid variable name".into());
    let (&first, tail) = text.split_first().ok_or_else(invalid)?;
    if matches!(first, b'1'..=b'9') {
        return Ok((Part::Capture(first - b'0'), tail));
    }
    let in_bracket = first == b'{';
    let from = if in_bracket { tail } else { text };
    if from.is_empty() {
        return Err(invalid());
    }
    let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let (name, mut rest) = from.split_at(from.iter().take_while(is_name).count());
    if in_bracket {
        rest = rest.strip_prefix(b"}").ok_or_else(|| {
            let name = printable(name);
            ValueError::Template(format!("the closing bracket in \"{name}\" variable is missing"))
        })?;
    }
    if name.is_empty() {
        return Err(invalid());
    }
    Ok((Part::Variable(printable(name).into()), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let template = match Template::new(text.as_bytes()) {
            Err(error) => return error.to_string(),
            Ok(template) => template,
        };
        let show = |part: &Part| match part {
            Part::Literal(text) => format!("'{}'", String::from_utf8_lossy(text)),
            Part::Variable(name) => format!("${name}"),
            Part::Capture(number) => format!("#{number}"),
        };
        template.parts.iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn names_end_where_they_must() {
        for (text, expected) in [
            ("", ""),
            ("plain", "'plain'"),
            ("$uri", "$uri"),
            ("/a$uri/b", "'/a' $uri '/b'"),
            ("${uri}x$host.y", "$uri 'x' $host '.y'"),
            ("$1$2a", "#1 #2 'a'"),
            ("$10", "#1 '0'"),
            ("$0", "$0"),
            ("${1}", "$1"),
            ("$Host", "$Host"),
            ("$", "invalid variable name"),
            ("a$", "invalid variable name"),
            ("$-", "invalid variable name"),
            ("$$", "invalid variable name"),
            ("${", "invalid variable name"),
            ("${}", "invalid variable name"),
            ("${uri", "the closing bracket in \"uri\" variable is missing"),
            ("${a-b}", "the closing bracket in \"a\" variable is missing"),
            ("${-}", "the closing bracket in \"\" variable is missing"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn a_template_tells_what_it_needs() {
        let template = Template::new(b"$a/$1/${b}").unwrap();
        assert_eq!(template.variables().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(template.literal(), None);
        assert_eq!(Template::new(b"x y").unwrap().literal(), Some(&b"x y"[..]));
        assert_eq!(Template::default().literal(), Some(&b""[..]));
    }
}
