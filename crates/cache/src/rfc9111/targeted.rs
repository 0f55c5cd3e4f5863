//! `CDN-Cache-Control` (RFC 9213): a dictionary of structured values (RFC 8941) whose members are directives.

use super::{Control, SECONDS_MAX};
use http::Fields;

/// What a directive is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value<'a> {
    Integer(i64),
    Boolean(bool),
    /// The text between the quotes.
    String(&'a [u8]),
    /// A value of another type, which no directive has.
    Other,
}

impl Control {
    /// The directives of `CDN-Cache-Control`; `None` where the field is missing, empty or invalid, or where no directive has a value
    /// of its type. Then the other fields count.
    pub(super) fn targeted(fields: &Fields) -> Option<Control> {
        const NAME: &str = "cdn-cache-control";
        fields.get(NAME)?;
        let lines: Vec<&[u8]> = fields.all(NAME).filter(|line| !line.trim_ascii().is_empty()).collect();
        let text = lines.join(&b", "[..]);
        let mut control = Control { is_targeted: true, ..Control::default() };
        let mut rest = Text(text.trim_ascii());
        let mut has_directive = false;
        while !rest.0.is_empty() {
            let (name, value) = rest.member()?;
            has_directive |= control.set(name, value);
            rest.skip(b" \t");
            if !rest.0.is_empty() {
                rest.take(b',')?;
                rest.skip(b" \t");
                // A comma has a member after it.
                rest.0.first()?;
            }
        }
        has_directive.then_some(control)
    }

    /// Sets a directive, of which the last value counts. `false` where the value is not of the type of the directive: this has no effect
    /// (RFC 9213, section 2.1).
    fn set(&mut self, name: &[u8], value: Value<'_>) -> bool {
        let is_set = match (name, value) {
            (b"no-cache" | b"private", Value::String(names)) => {
                self.name_fields(names);
                return true;
            }
            (_, Value::Boolean(is_set)) => is_set,
            _ => false,
        };
        let seconds = match value {
            Value::Integer(seconds @ 0..) => Some(seconds.min(SECONDS_MAX)),
            _ => None,
        };
        let (flag, time) = match name {
            b"no-store" => (Some(&mut self.no_store), None),
            b"no-cache" => (Some(&mut self.no_cache), None),
            b"private" => (Some(&mut self.private), None),
            b"public" => (Some(&mut self.public), None),
            b"must-understand" => (Some(&mut self.must_understand), None),
            b"must-revalidate" => (Some(&mut self.must_revalidate), None),
            b"proxy-revalidate" => (Some(&mut self.proxy_revalidate), None),
            b"max-age" => (None, Some(&mut self.max_age)),
            b"s-maxage" => (None, Some(&mut self.s_maxage)),
            b"stale-while-revalidate" => (None, Some(&mut self.while_revalidate)),
            b"stale-if-error" => (None, Some(&mut self.if_error)),
            // Directives that this cache does not know may have any value.
            _ => return true,
        };
        let is_right = match flag {
            Some(_) => matches!(value, Value::Boolean(_)),
            None => seconds.is_some(),
        };
        if is_right {
            flag.into_iter().for_each(|flag| *flag = is_set);
            time.into_iter().for_each(|time| *time = seconds);
        }
        is_right
    }
}

/// What is left of the text of a dictionary. Each method takes its part from the start, and returns `None` where that is wrong.
struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    fn skip(&mut self, bytes: &[u8]) {
        self.run(|byte| bytes.contains(&byte));
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        (*first == byte).then(|| self.0 = rest)
    }

    /// The bytes up to the first one that is of another kind.
    fn run(&mut self, is_part: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|&byte| !is_part(byte)).unwrap_or(self.0.len());
        let (run, rest) = self.0.split_at(end);
        self.0 = rest;
        run
    }

    fn member(&mut self) -> Option<(&'a [u8], Value<'a>)> {
        let name = self.key()?;
        let value = match self.take(b'=') {
            None => Value::Boolean(true),
            Some(()) if self.0.first() == Some(&b'(') => self.inner_list()?,
            Some(()) => self.bare_item()?,
        };
        self.parameters()?;
        Some((name, value))
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        self.0.first().filter(|&&first| first.is_ascii_lowercase() || first == b'*')?;
        Some(self.run(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)))
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';').is_some() {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=').is_some() {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn inner_list(&mut self) -> Option<Value<'a>> {
        self.take(b'(')?;
        loop {
            self.skip(b" ");
            if self.take(b')').is_some() {
                return Some(Value::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            self.0.first().filter(|next| b" )".contains(next))?;
        }
    }

    fn bare_item(&mut self) -> Option<Value<'a>> {
        match *self.0.first()? {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b'?' => {
                self.take(b'?')?;
                let is_true = self.take(b'1').is_some();
                if !is_true {
                    self.take(b'0')?;
                }
                Some(Value::Boolean(is_true))
            }
            b':' => {
                self.take(b':')?;
                self.run(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
                self.take(b':')?;
                Some(Value::Other)
            }
            first if first.is_ascii_alphabetic() || first == b'*' => {
                self.run(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte));
                Some(Value::Other)
            }
            _ => None,
        }
    }

    /// A text in quotes. One with a backslash names no field, so that it need not be read.
    fn string(&mut self) -> Option<Value<'a>> {
        self.take(b'"')?;
        let start = self.0;
        let mut has_backslash = false;
        loop {
            self.run(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\');
            if self.take(b'\\').is_some() {
                has_backslash = true;
                self.take(b'"').or_else(|| self.take(b'\\'))?;
                continue;
            }
            let text = &start[..start.len() - self.0.len()];
            self.take(b'"')?;
            return Some(if has_backslash { Value::Other } else { Value::String(text) });
        }
    }

    fn number(&mut self) -> Option<Value<'a>> {
        const DIGITS_MAX: usize = 15;
        let is_negative = self.take(b'-').is_some();
        let digits = self.run(|byte| byte.is_ascii_digit());
        if digits.is_empty() || digits.len() > DIGITS_MAX {
            return None;
        }
        if self.take(b'.').is_some() {
            let fraction = self.run(|byte| byte.is_ascii_digit());
            let is_decimal = digits.len() <= 12 && matches!(fraction.len(), 1..=3);
            return is_decimal.then_some(Value::Other);
        }
        let number: i64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        Some(Value::Integer(if is_negative { -number } else { number }))
    }
}

#[cfg(test)]
mod tests {
    use super::Control;
    use http::Fields;
    use proptest::prelude::*;

    fn targeted(lines: &[&[u8]]) -> Option<Control> {
        let mut fields = Fields::new();
        for line in lines {
            fields.push(b"CDN-Cache-Control", line).ok()?;
        }
        Control::targeted(&fields)
    }

    fn max_age(text: &str) -> Option<Option<i64>> {
        targeted(&[text.as_bytes()]).map(|control| control.max_age)
    }

    #[test]
    fn a_directive_has_a_value_of_its_type() {
        for (text, expected) in [
            ("max-age=10", Some(Some(10))),
            ("  max-age=10 ", Some(Some(10))),
            ("max-age=10;a=b;c", Some(Some(10))),
            ("max-age=5, max-age=10", Some(Some(10))),
            ("max-age=999999999999999", Some(Some(1 << 31))),
            ("max-age=10, x=(a \"b\" 1);q=1.5, y=:YQ==:, z=?0, t=a/b:c", Some(Some(10))),
            ("max-age=10, s-maxage=\"5\"", Some(Some(10))),
            ("public, max-age=\"10000\"", Some(None)),
            ("unknown=1", Some(None)),
            // No directive has a value of its type.
            ("max-age=\"10000\"", None),
            ("max-age", None),
            ("max-age=1.5", None),
            ("max-age=-1", None),
            ("max-age=token", None),
            ("max-age=(10)", None),
            ("no-store=1", None),
            ("no-store=\"x\"", None),
            // The dictionary is invalid.
            ("", None),
            (" ", None),
            ("max-age=", None),
            ("max-age=10,", None),
            ("max-age=10,,public", None),
            (",max-age=10", None),
            ("max-age =10", None),
            ("max-age= 10", None),
            ("max-age=10 x", None),
            ("Max-Age=10", None),
            ("max-age=10, No-Store", None),
            ("max-age=1234567890123456", None),
            ("max-age=10, x=\"a", None),
            ("max-age=10, x=\"a\\b\"", None),
            ("max-age=10, x=(a", None),
            ("max-age=10, x=(a\"b\")", None),
            ("max-age=10, x=:a", None),
            ("max-age=10, x=?2", None),
            ("max-age=10;", None),
        ] {
            assert_eq!(max_age(text), expected, "{text}");
        }
    }

    #[test]
    fn a_boolean_may_be_written_and_lines_are_one_list() {
        let control = targeted(&[b"max-age=10", b"", b"no-store, private=?1, no-store=?0"]).unwrap();
        assert_eq!((control.max_age, control.no_store, control.private), (Some(10), false, true));
        let named = targeted(&[b"private=\"X-A, x-b\", no-cache=\"x-c\""]).unwrap();
        assert_eq!(
            [&b"x-a"[..], b"X-B", b"x-c", b"x-d"].map(|name| named.keeps(name)),
            [false, false, false, true]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_a_dictionary_or_none(text in "[a-z=\", ;().:?0-9\\\\*-]{0,40}") {
            let _ = max_age(&text);
        }
    }
}
