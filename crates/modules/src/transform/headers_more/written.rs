//! How the directives are written: options, then fields.

use conf::{Diagnostic, Word};
use contract::{Args, Exchange, Loading, Template};

/// One use of a directive: fields, and when they count.
#[derive(Clone)]
pub struct Written {
    pub(super) fields: Vec<Field>,
    /// Media types in lower case; none is any.
    types: Vec<Box<[u8]>>,
    /// Status codes; none is any.
    statuses: Vec<u16>,
    /// Whether fields are added to those of the same name (`-a`).
    pub(super) adds: bool,
    /// Whether only fields that are there are replaced (`-r`).
    pub(super) only_replaces: bool,
}

/// A field to set, or to take away.
#[derive(Clone)]
pub(super) struct Field {
    pub(super) name: Name,
    /// None takes it away.
    value: Option<Template>,
}

/// Which fields are meant.
#[derive(Clone, Debug)]
pub(super) enum Name {
    Exact(Box<str>),
    /// All whose names begin so.
    Beginning(Box<str>),
}

/// What a directive's words may be.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// The letters of the options that it takes.
    pub(super) options: &'static [u8],
    /// Whether its words are names without values.
    pub(super) clears: bool,
}

/// Fields that say where a message ends, or are about the connection.
const FRAMING: [&str; 3] = ["content-length", "transfer-encoding", "connection"];

impl Written {
    pub(super) fn parse(args: &Args<'_>, loading: &mut Loading, form: Form) -> Result<Written, Diagnostic> {
        let mut written = Written {
            fields: Vec::new(),
            types: Vec::new(),
            statuses: Vec::new(),
            adds: false,
            only_replaces: false,
        };
        let mut words = args.words().iter();
        while let Some(word) = words.next() {
            let error = |text: &str| Diagnostic::emerg(text).at(args.node.span).under(word.span);
            match &*word.text {
                [b'-', option] if form.options.contains(option) => match option {
                    b'a' => written.adds = true,
                    b'r' => written.only_replaces = true,
                    option => {
                        let list = words.next().ok_or_else(|| error("the option has no argument"))?;
                        written
                            .condition(*option, list)
                            .map_err(|text| Diagnostic::emerg(text).at(args.node.span).under(list.span))?;
                    }
                },
                [b'-', ..] => return Err(error(&format!("invalid option name: \"{word}\""))),
                _ => written.fields.push(Field::parse(word, loading, form).map_err(|text| error(&text))?),
            }
        }
        if written.fields.is_empty() { Err(args.error("names no field")) } else { Ok(written) }
    }

    fn condition(&mut self, option: u8, list: &Word) -> Result<(), String> {
        let items = list.text.split(|byte| matches!(byte, b' ' | b'\t' | b',' | b';'));
        for item in items.filter(|item| !item.is_empty()) {
            if option == b't' {
                self.types.push(item.to_ascii_lowercase().into());
                continue;
            }
            let code = std::str::from_utf8(item).ok().and_then(|text| text.parse().ok());
            let code = code.filter(|code| (100..1000).contains(code));
            self.statuses.push(code.ok_or_else(|| format!("invalid status code in \"{list}\""))?);
        }
        Ok(())
    }

    /// Whether it counts for a response or a request with this media type, and this status where it has one.
    pub(super) fn counts(&self, media_type: Option<&[u8]>, status: Option<u16>) -> bool {
        let bare = media_type.and_then(|text| text.split(|&byte| byte == b';').next()).unwrap_or_default();
        let bare = bare.trim_ascii_end();
        (self.types.is_empty() || self.types.iter().any(|known| known.eq_ignore_ascii_case(bare)))
            && (self.statuses.is_empty() || status.is_some_and(|status| self.statuses.contains(&status)))
    }
}

impl Field {
    fn parse(word: &Word, loading: &mut Loading, form: Form) -> Result<Field, String> {
        let text = word.text.trim_ascii_start();
        let colon = text.iter().position(|&byte| byte == b':');
        let name = text[..colon.unwrap_or(text.len())].trim_ascii_end();
        let name = std::str::from_utf8(name).map_err(|_| format!("invalid header name in \"{word}\""))?;
        if name.is_empty() || name.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(format!("invalid header name in \"{word}\""));
        }
        let value = colon.map(|colon| text[colon + 1..].trim_ascii_start()).unwrap_or_default();
        if form.clears && !value.is_empty() {
            return Err(format!("\"{word}\" is more than the name of a field"));
        }
        if FRAMING.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            return Err(format!(
                "\"{name}\" cannot be changed: it says where a message ends, or a connection"
            ));
        }
        if let Some(beginning) = name.strip_suffix('*').filter(|_| form.clears) {
            return Ok(Field { name: Name::Beginning(beginning.into()), value: None });
        }
        let value = match value {
            b"" => None,
            value => {
                let value = Word { text: value.into(), ..word.clone() };
                Some(loading.template(&value).map_err(|error| error.message)?)
            }
        };
        Ok(Field { name: Name::Exact(name.into()), value })
    }

    /// The value for this exchange; one that comes to nothing takes the field away.
    pub(super) fn value(&self, exchange: &Exchange) -> Option<Vec<u8>> {
        let mut value = self.value.as_ref()?.evaluate(exchange);
        // What a client put into a variable cannot add a field.
        value.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n' | 0)).for_each(|byte| *byte = b' ');
        (!value.is_empty()).then_some(value)
    }
}

impl Name {
    /// Whether a field of this name is meant.
    pub(super) fn means(&self, name: &[u8]) -> bool {
        match self {
            Name::Exact(own) => own.as_bytes().eq_ignore_ascii_case(name),
            Name::Beginning(own) => {
                name.get(..own.len()).is_some_and(|start| start.eq_ignore_ascii_case(own.as_bytes()))
            }
        }
    }
}
