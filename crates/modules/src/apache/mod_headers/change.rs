//! A change of a field, carried out.

use super::{Action, Change, Condition, Part, Value};
use crate::apache::mod_setenvif::with_groups;
use crate::shared::apache::bounded::{Failure, append, count, find, is_match};
use crate::shared::apache::{environment, variables};
use bytes::Bytes;
use conf::value::{Captures, Pattern};
use contract::{Budget, Exchange};
use http::{Fields, InvalidField};
use journal::clock::Time;
use std::borrow::Cow;

impl Change {
    /// Whether it counts.
    pub(super) fn counts(&self, exchange: &Exchange, budget: &Budget) -> Result<bool, Failure> {
        match &self.condition {
            None => Ok(true),
            Some(Condition::Variable(name, wanted)) => {
                Ok(environment::get(exchange, name).is_some() == *wanted)
            }
            Some(Condition::Expression(expression)) => expression.holds(exchange, budget),
        }
    }

    /// Changes a field of the response, or of the list that is kept apart.
    pub(super) fn apply(
        &self,
        exchange: &mut Exchange,
        apart: Option<&mut Fields>,
        made: &mut usize,
        budget: &Budget,
    ) -> Result<(), Failure> {
        if !self.counts(exchange, budget)? || self.is_framing() {
            return Ok(());
        }
        let value = match self.constant() {
            Some(value) => Cow::Borrowed(value),
            None => Cow::Owned(self.value(exchange, budget)?),
        };
        if let Action::Echo(pattern) = &self.action {
            let echoed = echoed(exchange, pattern, budget)?;
            let fields = apart.unwrap_or(&mut exchange.response.fields);
            for (name, value) in echoed {
                count(made, value.len())?;
                // They are fields already.
                let _: Result<(), InvalidField> = fields.push(&name, &value);
            }
            return Ok(());
        }
        let is_type = self.name.eq_ignore_ascii_case("content-type");
        if (apart.is_none() || is_type) && self.apply_typed(exchange, &value, budget)? {
            return Ok(());
        }
        self.make(apart.unwrap_or(&mut exchange.response.fields), &value, made, budget)
    }

    /// Changes a field of a list. All values that the changes of a list make are bounded together.
    pub(super) fn make(
        &self,
        fields: &mut Fields,
        value: &[u8],
        made: &mut usize,
        budget: &Budget,
    ) -> Result<(), Failure> {
        if matches!(self.action, Action::Set) {
            count(made, value.len())?;
            // The name and the value were checked.
            let _: Result<(), InvalidField> = fields.set(&self.name, value);
            return Ok(());
        }
        let present: Vec<&[u8]> = fields.all(&self.name).collect();
        let lines = match &self.action {
            Action::Nothing | Action::Echo(_) => return Ok(()),
            Action::Unset => Vec::new(),
            Action::SetIfEmpty if !present.is_empty() => return Ok(()),
            Action::Merge if present.iter().any(|list| lists(list, value)) => return Ok(()),
            Action::Append | Action::Merge if !present.is_empty() => {
                vec![[&present.join(&b", "[..]), value].join(&b", "[..])]
            }
            Action::Edit(pattern, is_global) => {
                let edit = |line: &&[u8]| edited(line, pattern, value, *is_global, budget);
                present.iter().map(edit).collect::<Result<_, _>>()?
            }
            _ => vec![value.to_vec()],
        };
        if !matches!(self.action, Action::Add) {
            fields.remove(&self.name);
        }
        for line in lines {
            count(made, line.len())?;
            // The name and the value were checked.
            let _: Result<(), InvalidField> = fields.push(self.name.as_bytes(), &line);
        }
        Ok(())
    }

    /// Whether this sets a field to the same value in all responses, or in all with content.
    pub(super) fn only_sets(&self) -> bool {
        let is_plain = matches!(self.action, Action::Set) && self.condition.is_none();
        is_plain && self.constant().is_some() && !self.is_framing() && !self.is_typed()
    }

    /// The value, where it is the same for all requests.
    pub(super) fn constant(&self) -> Option<&[u8]> {
        let Value::Parts(parts) = &self.value else { return None };
        match &parts[..] {
            [Part::Text(text)] if !text.iter().any(ends_line) => Some(text),
            _ => None,
        }
    }

    /// The value, without what would end its line.
    pub(super) fn value(&self, exchange: &Exchange, budget: &Budget) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        let parts = match &self.value {
            Value::Parts(parts) => &parts[..],
            Value::Expression(text) => {
                out = text.value(exchange, budget)?;
                &[]
            }
        };
        let microseconds = |time: Time| time.seconds * 1_000_000 + i64::from(time.milliseconds) * 1000;
        for part in parts {
            match part {
                Part::Text(text) => append(&mut out, text)?,
                Part::Variable(name) => {
                    let value = environment::get(exchange, name);
                    append(&mut out, value.as_deref().unwrap_or(b"(null)"))?;
                }
                Part::OfServer(name) => {
                    let value = of_server(exchange, name).filter(|value| !value.is_empty());
                    append(&mut out, value.as_deref().unwrap_or(b"(null)"))?;
                }
                Part::Time => append(&mut out, format!("t={}", microseconds(exchange.started())).as_bytes())?,
                Part::Duration => {
                    let lasted = microseconds(Time::now()) - microseconds(exchange.started());
                    append(&mut out, format!("D={lasted}").as_bytes())?;
                }
                Part::Load(text) => append(&mut out, text.as_bytes())?,
            }
        }
        for byte in &mut out {
            if ends_line(byte) {
                *byte = b' ';
            }
        }
        Ok(out)
    }

    /// Where the content ends is not for a file to say.
    pub(super) fn is_framing(&self) -> bool {
        ["content-length", "transfer-encoding", "connection"]
            .iter()
            .any(|name| self.name.eq_ignore_ascii_case(name))
    }

    /// Whether this is one of the fields that the server itself keeps.
    fn is_typed(&self) -> bool {
        const TYPED: [&str; 5] = ["content-type", "etag", "location", "last-modified", "accept-ranges"];
        TYPED.iter().any(|typed| typed.eq_ignore_ascii_case(&self.name))
    }

    /// Changes one of these fields.
    fn apply_typed(&self, exchange: &mut Exchange, value: &[u8], budget: &Budget) -> Result<bool, Failure> {
        if !self.is_typed() {
            return Ok(false);
        }
        let name = self.name.to_ascii_lowercase();
        let present = variables::response_field(exchange, &name);
        let given = match &self.action {
            Action::Unset => None,
            // As in Apache the media type is not among the fields, from which it is made at the end.
            Action::SetIfEmpty if name == "content-type" => Some(Bytes::copy_from_slice(value)),
            Action::Append | Action::Merge | Action::Add if name == "content-type" && !present.is_empty() => {
                return Ok(true);
            }
            Action::Merge if !present.is_empty() && lists(&present, value) => return Ok(true),
            Action::Append | Action::Merge if !present.is_empty() => {
                Some([&present, value].join(&b", "[..]).into())
            }
            Action::SetIfEmpty if !present.is_empty() => return Ok(true),
            Action::Nothing | Action::Echo(_) => return Ok(true),
            Action::Edit(..) if present.is_empty() => return Ok(true),
            Action::Edit(pattern, is_global) => {
                Some(edited(&present, pattern, value, *is_global, budget)?.into())
            }
            _ => Some(Bytes::copy_from_slice(value)),
        };
        let response = &mut exchange.response;
        match name.as_str() {
            "content-type" => response.content_type = given,
            "etag" => response.etag = given,
            "location" => {
                // As a field it is sent as it is: a path is made no URL.
                response.location = None;
                response.fields.remove("location");
                // The value was checked.
                let _ = given.map(|target| response.fields.push(b"Location", &target));
            }
            "last-modified" => response.last_modified = given.and_then(|text| http::parse_date(&text)),
            _ if given.is_none() => response.accept_ranges = false,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A variable of the server, as `%{NAME}s` names it.
fn of_server(exchange: &Exchange, name: &str) -> Option<Vec<u8>> {
    if let Some(field) = variables::field(name) {
        return variables::request_field(exchange, field);
    }
    match variables::time_format(name) {
        Some(format) => Some(variables::now(format)),
        None => variables::getter(name).map(|get| get(exchange)),
    }
}

/// Whether a field cannot have this byte.
fn ends_line(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n' | 0)
}

/// A name and a value.
type Echoed = (Vec<u8>, Vec<u8>);

/// The fields of the request whose names match.
fn echoed(exchange: &Exchange, pattern: &Pattern, budget: &Budget) -> Result<Vec<Echoed>, Failure> {
    let mut echoed = Vec::new();
    for field in exchange.request.head.fields.iter() {
        if is_match(pattern, field.name, budget)? {
            echoed.push((field.name.to_vec(), field.value.to_vec()));
        }
    }
    Ok(echoed)
}

/// A text in which the first match, or each, is replaced.
fn edited(
    text: &[u8],
    pattern: &Pattern,
    replacement: &[u8],
    is_global: bool,
    budget: &Budget,
) -> Result<Vec<u8>, Failure> {
    let (mut out, mut rest) = (Vec::new(), text);
    loop {
        let mut captures = Captures::default();
        if !find(pattern, rest, &mut captures, budget)? {
            break;
        }
        let whole = captures.get(0, rest).unwrap_or_default();
        let start = whole.as_ptr().addr() - rest.as_ptr().addr();
        append(&mut out, &rest[..start])?;
        append(&mut out, &with_groups(replacement, &captures, rest)?)?;
        let end = start + whole.len();
        if !is_global || whole.is_empty() {
            rest = &rest[end..];
            break;
        }
        rest = &rest[end..];
    }
    append(&mut out, rest)?;
    Ok(out)
}

/// Whether a list of values has this one.
fn lists(list: &[u8], value: &[u8]) -> bool {
    list.split(|&byte| byte == b',').any(|item| item.trim_ascii() == value.trim_ascii())
}
