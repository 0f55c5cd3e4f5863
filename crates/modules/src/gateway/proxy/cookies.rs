//! `proxy_cookie_domain`, `proxy_cookie_path` and `proxy_cookie_flags`: the cookies of a response as the client has
//! to see them.

use super::redirect::{Rule, unless_off};
use super::{PROXY_COOKIE_DOMAIN, PROXY_COOKIE_FLAGS, PROXY_COOKIE_PATH};
use crate::shared::gateway::log_dropped;
use conf::{Diagnostic, Word};
use contract::{Args, Directive, Exchange, Loading, Regex, Template, View};
use http::Fields;
use std::borrow::Cow;
use std::rc::Rc;

/// The flags to set and to remove, as bits, under the names that the configuration has for them.
const FLAGS: [(&str, u8); 8] = [
    ("secure", SECURE),
    ("nosecure", NO_SECURE),
    ("httponly", HTTP_ONLY),
    ("nohttponly", NO_HTTP_ONLY),
    ("samesite=strict", STRICT),
    ("samesite=lax", LAX),
    ("samesite=none", NONE),
    ("nosamesite", NO_SAME_SITE),
];

const SECURE: u8 = 1;
const NO_SECURE: u8 = 2;
const HTTP_ONLY: u8 = 4;
const NO_HTTP_ONLY: u8 = 8;
const STRICT: u8 = 0x10;
const LAX: u8 = 0x20;
const NONE: u8 = 0x40;
const NO_SAME_SITE: u8 = 0x80;

/// The values of `SameSite`, by the flag that sets each. The first flag of this list counts.
const SAME_SITE: [(u8, &[u8]); 3] = [(STRICT, b"Strict"), (LAX, b"Lax"), (NONE, b"None")];

/// Reads a `proxy_cookie_domain`.
pub(super) fn parse_domain(args: &Args<'_>, loading: &mut Loading) -> Result<Option<Rule>, Diagnostic> {
    let Some((from, to)) = operands(args)? else { return Ok(None) };
    Rule::domain(from, to, loading).map(Some)
}

/// Reads a `proxy_cookie_path`.
pub(super) fn parse_path(args: &Args<'_>, loading: &mut Loading) -> Result<Option<Rule>, Diagnostic> {
    let Some((from, to)) = operands(args)? else { return Ok(None) };
    Rule::parse(from, to, loading).map(Some)
}

/// The first and the second word; nothing for `off`.
fn operands<'a>(args: &Args<'a>) -> Result<Option<(&'a Word, &'a Word)>, Diagnostic> {
    let from = args.word(0)?;
    match args.words().get(1) {
        Some(to) => Ok(Some((from, to))),
        None if *from.text == *b"off" => Ok(None),
        None => Err(args.invalid(from)),
    }
}

/// Cookies by their name, and the flags that they get or lose.
#[derive(Clone)]
pub struct FlagRule {
    name: Name,
    flags: Box<[Template]>,
}

#[derive(Clone)]
enum Name {
    Text(Template),
    Pattern(Regex),
}

/// Reads a `proxy_cookie_flags`. As in nginx, an unknown flag is no error: a variable may be one, too. A fixed word
/// that is unknown gets a warning.
pub(super) fn parse_flags(args: &Args<'_>, loading: &mut Loading) -> Result<Option<FlagRule>, Diagnostic> {
    let Some((name, _)) = operands(args)? else { return Ok(None) };
    let name = match &*name.text {
        [b'~', text @ ..] => Name::Pattern(loading.regex(name, text, true)?),
        _ => Name::Text(loading.template(name)?),
    };
    let mut flags = Vec::new();
    for word in &args.words()[1..] {
        let flag = loading.template(word)?;
        if flag.constant().is_some_and(|text| !text.is_empty() && flag_of(text).is_none()) {
            let text = format!("\"{word}\" is not a flag of \"proxy_cookie_flags\" and has no effect");
            let known = FLAGS.map(|(name, _)| name).join(", ");
            let note = Diagnostic::warn(text).at(args.node.span).under(word.span);
            loading.note(note.hint(format!("the flags are {known}")));
        }
        flags.push(flag);
    }
    Ok(Some(FlagRule { name, flags: flags.into() }))
}

fn flag_of(text: &[u8]) -> Option<u8> {
    FLAGS.iter().find(|(name, _)| text.eq_ignore_ascii_case(name.as_bytes())).map(|&(_, flag)| flag)
}

impl FlagRule {
    fn matches(&self, exchange: &Exchange, cookie: &[u8]) -> bool {
        match &self.name {
            Name::Text(name) => name.evaluate(exchange).eq_ignore_ascii_case(cookie),
            Name::Pattern(pattern) => pattern.matches(exchange, cookie),
        }
    }
}

/// All rules about the cookies of one scope.
#[derive(Default)]
pub(super) struct Cookies {
    domains: Box<[Rule]>,
    paths: Box<[Rule]>,
    flags: Box<[FlagRule]>,
}

impl Cookies {
    /// The rules of a scope.
    ///
    /// # Errors
    /// `off` together with other rules of the same directive.
    pub(super) fn new(view: &View<'_>) -> Result<Cookies, Diagnostic> {
        Ok(Cookies {
            domains: rules(view, &PROXY_COOKIE_DOMAIN)?,
            paths: rules(view, &PROXY_COOKIE_PATH)?,
            flags: rules(view, &PROXY_COOKIE_FLAGS)?,
        })
    }

    /// The fields of a response, each `Set-Cookie` rewritten.
    pub(super) fn rewrite_all(&self, exchange: &Exchange, fields: Rc<Fields>) -> Rc<Fields> {
        let has_rules = !(self.domains.is_empty() && self.paths.is_empty() && self.flags.is_empty());
        if !has_rules || fields.get("Set-Cookie").is_none() {
            return fields;
        }
        let mut rewritten = Fields::new();
        for field in fields.iter() {
            let cookie = if field.is("Set-Cookie") { self.rewrite(exchange, field.value) } else { None };
            if rewritten.push(field.name, cookie.as_deref().unwrap_or(field.value)).is_err() {
                let why = "its rewritten value has bytes that a header must not have";
                log_dropped(exchange, field.name, "upstream", why);
            }
        }
        Rc::new(rewritten)
    }

    /// The cookie after all rules; nothing if no rule applies.
    fn rewrite(&self, exchange: &Exchange, cookie: &[u8]) -> Option<Vec<u8>> {
        let mut attributes: Vec<_> = cookie.split(|&byte| byte == b';').map(Attribute::parse).collect();
        let name = attributes.first().filter(|pair| pair.value.is_some())?.name.clone();
        let mut is_changed = false;
        for Attribute { name, value } in attributes.iter_mut().skip(1) {
            let rules = match &**name {
                name if name.eq_ignore_ascii_case(b"domain") => &self.domains,
                name if name.eq_ignore_ascii_case(b"path") => &self.paths,
                _ => continue,
            };
            let Some(value) = value else { continue };
            if let Some(replaced) = super::redirect::rewrite(rules, exchange, value) {
                *value = replaced.into();
                is_changed = true;
            }
        }
        let flags = self.flags_of(exchange, &name);
        if flags != 0 {
            set_flags(flags, &mut attributes);
        }
        (is_changed || flags != 0).then(|| joined(&attributes))
    }

    /// The flags of the first rule that names this cookie.
    fn flags_of(&self, exchange: &Exchange, name: &[u8]) -> u8 {
        let Some(rule) = self.flags.iter().find(|rule| rule.matches(exchange, name)) else { return 0 };
        let flags = rule.flags.iter().map(|flag| flag.evaluate(exchange));
        flags.fold(0, |flags, text| flags | flag_of(&text).unwrap_or_default())
    }
}

fn rules<T: Clone + Send + Sync>(
    view: &View<'_>,
    directive: &Directive<Option<T>>,
) -> Result<Box<[T]>, Diagnostic> {
    Ok(unless_off(view, directive)?.into_iter().map(|written| written.value.clone()).collect())
}

/// A part of a cookie between two semicolons.
struct Attribute<'a> {
    name: Cow<'a, [u8]>,
    /// What stands after `=`.
    value: Option<Cow<'a, [u8]>>,
}

impl Attribute<'_> {
    fn parse(text: &[u8]) -> Attribute<'_> {
        let mut parts = text.splitn(2, |&byte| byte == b'=').map(without_spaces).map(Cow::Borrowed);
        Attribute { name: parts.next().unwrap_or_default(), value: parts.next() }
    }

    fn new(name: &'static [u8], value: Option<&'static [u8]>) -> Attribute<'static> {
        Attribute { name: name.into(), value: value.map(Cow::Borrowed) }
    }
}

fn without_spaces(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = text {
        text = rest;
    }
    text
}

/// Sets and removes flags of a cookie, whose first attribute is its name and value.
fn set_flags(flags: u8, attributes: &mut Vec<Attribute<'_>>) {
    let mut pending = Pending(flags);
    let mut is_first = true;
    attributes.retain_mut(|attribute| std::mem::take(&mut is_first) || pending.keeps(attribute));
    if pending.take(SECURE) {
        attributes.push(Attribute::new(b"Secure", None));
    }
    if pending.take(HTTP_ONLY) {
        attributes.push(Attribute::new(b"HttpOnly", None));
    }
    if let Some((_, value)) = SAME_SITE.iter().find(|(flag, _)| pending.take(*flag)) {
        attributes.push(Attribute::new(b"SameSite", Some(value)));
    }
}

/// The flags that are not set yet, and those to remove.
struct Pending(u8);

impl Pending {
    fn take(&mut self, flag: u8) -> bool {
        let is_pending = self.0 & flag != 0;
        self.0 &= !flag;
        is_pending
    }

    /// Whether an attribute stays. One that is to be set takes its flag; `SameSite` gets the value of it.
    fn keeps(&mut self, attribute: &mut Attribute<'_>) -> bool {
        let is = |name: &str| attribute.name.eq_ignore_ascii_case(name.as_bytes());
        if is("secure") {
            return self.take(SECURE) || self.0 & NO_SECURE == 0;
        }
        if is("httponly") {
            return self.take(HTTP_ONLY) || self.0 & NO_HTTP_ONLY == 0;
        }
        if !is("samesite") {
            return true;
        }
        let Some((_, value)) = SAME_SITE.iter().find(|(flag, _)| self.take(*flag)) else {
            return self.0 & NO_SAME_SITE == 0;
        };
        if !attribute.value.as_ref().is_some_and(|current| current.eq_ignore_ascii_case(value)) {
            *attribute = Attribute::new(b"SameSite", Some(value));
        }
        true
    }
}

fn joined(attributes: &[Attribute<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, Attribute { name, value }) in attributes.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b"; " } else { b"" });
        out.extend_from_slice(name);
        if let Some(value) = value {
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Attribute, FLAGS, joined, set_flags};
    use crate::testing::Site;

    fn flagged(cookie: &str, names: &[&str]) -> String {
        let mut attributes: Vec<_> =
            cookie.split(';').map(|part| Attribute::parse(part.as_bytes())).collect();
        let chosen = FLAGS.iter().filter(|(name, _)| names.contains(name));
        set_flags(chosen.fold(0, |all, (_, flag)| all | flag), &mut attributes);
        String::from_utf8(joined(&attributes)).unwrap()
    }

    #[test]
    fn flags_are_set_and_removed() {
        let all = ["secure", "httponly", "samesite=lax"];
        assert_eq!(flagged("a=b", &all), "a=b; Secure; HttpOnly; SameSite=Lax");
        assert_eq!(
            flagged("a=b;SECURE; httponly ;samesite=LAX", &all),
            "a=b; SECURE; httponly; samesite=LAX"
        );
        assert_eq!(
            flagged("a=b; samesite=none; Path=/", &["samesite=strict"]),
            "a=b; SameSite=Strict; Path=/"
        );
        assert_eq!(flagged("a=b; SameSite", &["samesite=none"]), "a=b; SameSite=None");
        let none = ["nosecure", "nohttponly", "nosamesite"];
        assert_eq!(flagged("a=b; Secure; HttpOnly=x; SameSite=Lax; Path=/", &none), "a=b; Path=/");
        assert_eq!(flagged("secure=b; x", &none), "secure=b; x", "the cookie itself is no attribute");
        assert_eq!(flagged("a=b; secure; secure", &["secure", "nosecure"]), "a=b; secure");
    }

    #[test]
    fn off_stands_alone() {
        for name in ["proxy_cookie_domain", "proxy_cookie_path", "proxy_cookie_flags", "proxy_redirect"] {
            let duplicate = format!("\"{name}\" directive is duplicate");
            assert_eq!(Site::error(&format!("{name} off; {name} a b;")), duplicate);
            assert_eq!(Site::error(&format!("{name} a b; {name} off;")), duplicate);
            assert_eq!(Site::error(&format!("{name} on;")), "invalid parameter \"on\"");
        }
    }
}
