//! Gives each client a cookie with an identifier: `userid`.
//!
//! With `userid on`, a client without the cookie gets one: 16 bytes in base64, made of `userid_service`, the time,
//! and two numbers that are unique. Without `userid_service` the first part is the address that the client connected
//! to. `v1` writes the older form. With `log`, clients get no cookie, and the cookies that they send can be logged.
//!
//! `$uid_got` is the cookie that the client sent, and `$uid_set` the one that it gets, both as the name with the
//! bytes in hexadecimal. `set $uid_reset 1` replaces the client's cookie; the value `log` also logs that as an error.
//! `userid_mark` replaces the padding of the cookie by another character; a client whose cookie has another mark gets
//! the same cookie with this mark.
//!
//! The cookie is not a secret: a client that knows one can guess others. Do not use it for access control.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     location / {
//!         userid on;
//!         userid_name uid;
//!         userid_expires 365d;
//!         userid_flags httponly samesite=lax;
//!         return 200 "$uid_got\n";
//!     }
//! }
//! ```
//!
//! ```http
//! GET / HTTP/1.1
//! Host: localhost
//! Cookie: uid=AQAAfwAAAAAAAAAAAwMDAgMDAwI=
//!
//! HTTP/1.1 200 OK
//!
//! uid=7F000001000000000000000002030303
//! ```

mod uid;

use super::variables;
use crate::shared::cookies::Expiry;
use conf::value::{bitmask, choice, number, time_s};
use conf::{Arity, Contexts, Diagnostic, Word};
use contract::{
    Args, Body, Directive, Exchange, Filter, Loading, Module, Reach, ScopeBuilder, Template, Variable, View,
};
use http::base64;
use journal::Level;
use std::cell::Cell;
use std::rc::Rc;
use uid::{Uid, create, hexadecimal};

/// Cookies by which clients are known.
pub static MODULE: Module = Module {
    name: "userid",
    directives: &[
        &USERID,
        &USERID_NAME,
        &USERID_SERVICE,
        &USERID_DOMAIN,
        &USERID_PATH,
        &USERID_EXPIRES,
        &USERID_FLAGS,
        &USERID_P3P,
        &USERID_MARK,
    ],
    variables: &[Variable::new("uid_got", uid_got), Variable::new("uid_set", uid_set)],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `userid on | v1 | log | off`
pub static USERID: Directive<(Form, Template)> = Directive::new("userid", parse_form)
    .within(LEVELS)
    .default("off")
    .help("Whether clients get a cookie, and in which form; `log` only reads cookies.");

/// `userid_name NAME`
pub static USERID_NAME: Directive<Box<str>> = text("userid_name", "uid", "The name of the cookie.");

/// `userid_service NUMBER | ADDRESS`
pub static USERID_SERVICE: Directive<u32> = Directive::new("userid_service", |args, _| {
    args.value(0, |word| {
        let service = number(word)?;
        Ok(u32::try_from(service).unwrap_or(u32::MAX))
    })
})
.within(LEVELS)
.help("The first part of the cookies, in place of the server's address.");

/// `userid_domain NAME | none`
pub static USERID_DOMAIN: Directive<Box<str>> =
    text("userid_domain", "none", "The domain of the cookie; `none` is the host alone.");

/// `userid_path PATH`
pub static USERID_PATH: Directive<Box<str>> = text("userid_path", "/", "The path of the cookie.");

/// `userid_expires TIME | max | off`
pub static USERID_EXPIRES: Directive<Expiry> = Directive::new("userid_expires", |args, _| {
    args.value(0, |word| match &*word.text {
        b"max" => Ok(Expiry::Last),
        b"off" => Ok(Expiry::Session),
        _ => Ok(Expiry::After(i64::try_from(time_s(word)?).unwrap_or(i64::MAX))),
    })
})
.within(LEVELS)
.default("off")
.help("For how long the client keeps the cookie; `off` is as long as the browser runs, `max` is 2037.");

/// `userid_flags FLAG … | off`
pub static USERID_FLAGS: Directive<u32> = Directive::new("userid_flags", parse_flags)
    .within(LEVELS)
    .args(Arity::Range(1, 3))
    .default("off")
    .help("`secure`, `httponly`, `samesite=strict`, `samesite=lax`, `samesite=none`.");

/// `userid_p3p TEXT | none`
pub static USERID_P3P: Directive<Box<str>> =
    text("userid_p3p", "none", "The field `P3P` that goes with the cookie, which no browser reads any more.");

/// `userid_mark CHARACTER | off`
pub static USERID_MARK: Directive<Option<u8>> = Directive::new("userid_mark", parse_mark)
    .within(LEVELS)
    .default("off")
    .help("A letter, a digit or `=` that replaces the cookie's padding.");

const fn text(name: &'static str, default: &'static str, help: &'static str) -> Directive<Box<str>> {
    Directive::new(name, |args, _| Ok(args.word(0)?.to_string().into()))
        .within(LEVELS)
        .default(default)
        .help(help)
}

/// What a scope does with cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nothing.
    Off,
    /// They are read.
    Log,
    /// Clients get one in the older form.
    V1,
    /// Clients get one.
    On,
}

/// The flags of cookies, in the order in which they are written.
const FLAGS: [(&str, u32); 5] = [
    ("secure", 1),
    ("httponly", 2),
    ("samesite=strict", 4 | 32),
    ("samesite=lax", 8 | 32),
    ("samesite=none", 16 | 32),
];

const NO_FLAGS: u32 = 64;

fn parse_form(args: &Args<'_>, loading: &mut Loading) -> Result<(Form, Template), Diagnostic> {
    let forms = [("off", Form::Off), ("log", Form::Log), ("v1", Form::V1), ("on", Form::On)];
    let form = args.value(0, |word| choice(word, &forms))?;
    let reset = loading.template(&Word { text: b"$uid_reset"[..].into(), ..*args.word(0)? })?;
    Ok((form, reset))
}

fn parse_flags(args: &Args<'_>, loading: &mut Loading) -> Result<u32, Diagnostic> {
    let duplicate = |word: &Word| {
        let message = format!("duplicate value \"{word}\"");
        loading.note(Diagnostic::warn(message).at(args.node.span).under(word.span));
    };
    let mut flags = FLAGS.to_vec();
    flags.push(("off", NO_FLAGS));
    bitmask(args.words(), &flags, duplicate).map_err(|(error, word)| error.at(args.node, word))
}

fn parse_mark(args: &Args<'_>, _: &mut Loading) -> Result<Option<u8>, Diagnostic> {
    let word = args.word(0)?;
    match &*word.text {
        b"off" => Ok(None),
        [mark] if mark.is_ascii_alphanumeric() || *mark == b'=' => Ok(Some(*mark)),
        _ => {
            let message = "value must be \"off\" or a single letter, digit or \"=\"";
            Err(Diagnostic::emerg(message).at(args.node.span).under(word.span))
        }
    }
}

/// What one scope does.
struct Settings {
    form: Form,
    reset: Template,
    name: Box<str>,
    service: Option<u32>,
    /// What follows the value of the cookie, but for its expiry.
    properties: Box<str>,
    expiry: Expiry,
    p3p: Option<Box<str>>,
    mark: Option<u8>,
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let Some((form, reset)) = view.get(&USERID) else { return Ok(()) };
    if *form == Form::Off {
        return Ok(());
    }
    let text = |directive, default: &str| {
        let text: Option<&Box<str>> = view.get(directive);
        text.cloned().unwrap_or_else(|| default.into())
    };
    let named = |directive| Some(text(directive, "none")).filter(|text| **text != *"none");
    let domain = named(&USERID_DOMAIN).map(|domain| format!("; domain={domain}")).unwrap_or_default();
    let mut properties = format!("{domain}; path={}", text(&USERID_PATH, "/"));
    let flags = view.get(&USERID_FLAGS).copied().unwrap_or(NO_FLAGS);
    for (name, _) in FLAGS.iter().filter(|(_, bits)| flags & bits & !32 != 0) {
        properties.push_str("; ");
        properties.push_str(name);
    }
    builder.keep(Settings {
        form: *form,
        reset: reset.clone(),
        name: text(&USERID_NAME, "uid"),
        service: view.get(&USERID_SERVICE).copied(),
        properties: properties.into(),
        expiry: view.get(&USERID_EXPIRES).copied().unwrap_or(Expiry::Session),
        p3p: named(&USERID_P3P),
        mark: view.get(&USERID_MARK).copied().flatten(),
    });
    if matches!(form, Form::V1 | Form::On) {
        builder.filter(Giving);
    }
    Ok(())
}

/// What is known of a client.
struct Known {
    /// The cookie that it sent, if that can be read.
    got: Option<Uid>,
    /// The text of that.
    cookie: Vec<u8>,
    /// The cookie that it gets, once that was decided: the bytes, and whether they are those that it sent.
    set: Cell<Option<Option<(Uid, bool)>>>,
}

fn known(exchange: &Exchange, settings: &Settings) -> Rc<Known> {
    exchange.attached_or(Reach::Shared, || {
        let mut cookie = Vec::new();
        variables::cookie(exchange, &settings.name, &mut cookie);
        let got = if cookie.is_empty() { None } else { read(exchange, &cookie) };
        Known { got, cookie, set: Cell::new(None) }
    })
}

/// How many characters of a cookie are read; its padding may be anything.
const LENGTH: usize = 22;

fn read(exchange: &Exchange, cookie: &[u8]) -> Option<Uid> {
    let complain = |what: &str| {
        let shown = cookie.escape_ascii();
        exchange.log(Level::Error, &format!("client sent {what} userid cookie \"{shown}\""));
    };
    let Some(text) = cookie.get(..LENGTH) else {
        complain("too short");
        return None;
    };
    let uid = base64::decode(text).and_then(|uid| Uid::try_from(uid).ok());
    if uid.is_none() {
        complain("invalid");
    }
    uid.filter(|uid| uid[12..] != [0; 4])
}

/// The cookie that the client gets, and whether it is the one that it sent.
fn given(exchange: &Exchange, settings: &Settings) -> Option<(Uid, bool)> {
    let known = known(exchange, settings);
    if let Some(decided) = known.set.get() {
        return decided;
    }
    let reset = settings.reset.evaluate(exchange);
    let is_reset = !matches!(&*reset, b"" | b"0");
    let decided = match known.got {
        Some(got) if !is_reset => {
            let is_marked =
                settings.mark.is_none_or(|mark| known.cookie.get(LENGTH..LENGTH + 2) == Some(&[mark, b'=']));
            (!is_marked).then_some((got, true))
        }
        got => {
            if let Some(got) = got.filter(|_| reset == b"log") {
                let shown = hexadecimal(&settings.name, &got);
                exchange.log(Level::Notice, &format!("userid cookie \"{shown}\" was reset"));
            }
            Some((create(exchange, (settings.form, settings.service)), false))
        }
    };
    known.set.set(Some(decided));
    decided
}

/// Gives the cookie.
struct Giving;

impl Filter for Giving {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let scope = exchange.scope.clone();
        let Some(settings) = scope.kept::<Settings>() else { return body };
        let Some((uid, is_kept)) = given(exchange, settings) else { return body };
        let mut value = base64::encode(&uid);
        match (settings.mark, is_kept) {
            (Some(mark), true) => {
                value.truncate(LENGTH);
                value.extend([char::from(mark), '=']);
            }
            (Some(mark), false) => {
                value.replace_range(LENGTH..=LENGTH, char::from(mark).encode_utf8(&mut [0; 4]));
            }
            (None, _) => {}
        }
        let expires = settings.expiry.attribute();
        let set = format!("{}={value}{expires}{}", settings.name, settings.properties);
        let fields = &mut exchange.response.fields;
        let pushed = fields.push(b"Set-Cookie", set.as_bytes());
        let p3p = settings.p3p.as_ref().map_or(Ok(()), |p3p| fields.push(b"P3P", p3p.as_bytes()));
        if pushed.and(p3p).is_err() {
            exchange.log(Level::Error, "the cookie of \"userid\" cannot be sent");
        }
        body
    }
}

fn uid_got(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let Some(settings) = exchange.scope.kept::<Settings>() else { return false };
    let got = known(exchange, settings).got;
    got.inspect(|got| out.extend_from_slice(hexadecimal(&settings.name, got).as_bytes())).is_some()
}

fn uid_set(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let gives = |settings: &&Settings| matches!(settings.form, Form::V1 | Form::On);
    let Some(settings) = exchange.scope.kept::<Settings>().filter(gives) else { return false };
    let set = given(exchange, settings);
    set.inspect(|(uid, _)| out.extend_from_slice(hexadecimal(&settings.name, uid).as_bytes())).is_some()
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn wrong_values_are_found() {
        for (text, error) in [
            ("userid yes;", "invalid value \"yes\""),
            ("userid_flags some;", "invalid value \"some\""),
            ("userid_mark ab;", "value must be \"off\" or a single letter, digit or \"=\""),
            ("userid_service x;", "\"userid_service\" directive invalid number"),
        ] {
            assert_eq!(Site::error(text), error, "{text}");
        }
    }
}
