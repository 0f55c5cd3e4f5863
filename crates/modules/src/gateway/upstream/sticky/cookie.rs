//! The client's cookie names the server: `sticky cookie`.

use super::{unknown, wrong};
use crate::shared::cookies::Expiry;
use crate::values::variables;
use ::upstream::Sticky;
use conf::value::time_s;
use conf::{Diagnostic, Word};
use contract::{Args, Exchange, Loading, Template};

/// The cookie by which a client names its server.
#[derive(Default)]
pub(super) struct Cookie {
    name: Box<[u8]>,
    expiry: Option<Expiry>,
    domain: Option<Template>,
    is_http_only: bool,
    is_secure: bool,
    same_site: Option<Template>,
    path: Option<Box<[u8]>>,
}

/// What `samesite` may be, in any case.
const SAME_SITE: [&[u8]; 3] = [b"strict", b"lax", b"none"];

fn is_same_site(value: &[u8]) -> bool {
    SAME_SITE.iter().any(|known| known.eq_ignore_ascii_case(value))
}

impl Cookie {
    pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Cookie, Diagnostic> {
        let name = args.word(1)?;
        if name.text.is_empty() {
            return Err(wrong(args, name, "empty cookie name"));
        }
        let mut cookie = Cookie { name: name.text.clone(), ..Cookie::default() };
        for word in args.words().iter().skip(2) {
            cookie.parse_parameter((args, word), loading)?;
        }
        Ok(cookie)
    }

    fn parse_parameter(
        &mut self,
        (args, word): (&Args<'_>, &Word),
        loading: &mut Loading,
    ) -> Result<(), Diagnostic> {
        let (name, value) = match word.text.iter().position(|&byte| byte == b'=') {
            Some(at) => (&word.text[..=at], Word { text: word.text[at + 1..].into(), ..*word }),
            None => (&word.text[..], Word { text: Box::default(), ..*word }),
        };
        let shown = String::from_utf8_lossy(name.strip_suffix(b"=").unwrap_or(name)).into_owned();
        let once = |is_set: bool| match is_set {
            true => Err(wrong(args, word, &format!("parameter \"{shown}\" is duplicate"))),
            false => Ok(()),
        };
        let invalid = || wrong(args, word, &format!("invalid \"{shown}\" parameter value"));
        let missing = || wrong(args, word, &format!("no value for \"{shown}\""));
        match name {
            b"domain=" => {
                once(self.domain.is_some())?;
                self.domain = Some(loading.template(Some(&value).filter(is_some).ok_or_else(missing)?)?);
            }
            b"path=" => {
                once(self.path.is_some())?;
                self.path = Some(Some(&value).filter(is_some).ok_or_else(missing)?.text.clone());
            }
            b"expires=" => {
                once(self.expiry.is_some())?;
                self.expiry = Some(match &*value.text {
                    b"max" => Expiry::Last,
                    _ => {
                        let seconds = time_s(&value).map_err(|_| invalid())?;
                        Expiry::After(i64::try_from(seconds).unwrap_or(i64::MAX))
                    }
                });
            }
            b"httponly" => {
                once(self.is_http_only)?;
                self.is_http_only = true;
            }
            b"secure" => {
                once(self.is_secure)?;
                self.is_secure = true;
            }
            b"samesite=" => {
                once(self.same_site.is_some())?;
                let template = loading.template(&value)?;
                if template.constant().is_some_and(|constant| !is_same_site(constant)) {
                    return Err(invalid());
                }
                self.same_site = Some(template);
            }
            _ => return Err(unknown(args, word)),
        }
        Ok(())
    }
}

fn is_some(word: &&Word) -> bool {
    !word.text.is_empty()
}

impl Sticky for Cookie {
    fn session(&self, exchange: &Exchange) -> Vec<u8> {
        let mut value = Vec::new();
        variables::cookie(exchange, &String::from_utf8_lossy(&self.name), &mut value);
        value
    }

    fn route(&self, session: &[u8]) -> Option<Vec<u8>> {
        Some(session.to_vec())
    }

    fn cookie(&self, exchange: &Exchange, route: &[u8]) -> Option<Vec<u8>> {
        let mut text = [&*self.name, b"=", route].concat();
        if let Some(expiry) = self.expiry {
            text.extend_from_slice(expiry.attribute().as_bytes());
            text.extend_from_slice(expiry.max_age().as_bytes());
        }
        let evaluate = |template: &Option<Template>| template.as_ref().map(|text| text.evaluate(exchange));
        let mut add = |name: &[u8], value: Option<&[u8]>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                text.extend_from_slice(name);
                text.extend_from_slice(value);
            }
        };
        add(b"; domain=", evaluate(&self.domain).as_deref());
        add(b"; ", self.is_http_only.then_some(b"httponly"));
        add(b"; ", self.is_secure.then_some(b"secure"));
        let same_site = evaluate(&self.same_site);
        let same_site = same_site.as_deref().map(|value| match value.is_empty() || is_same_site(value) {
            true => value,
            false => b"strict",
        });
        add(b"; samesite=", same_site);
        add(b"; path=", self.path.as_deref());
        Some(text)
    }
}
