//! Checks links that contain a checksum and may expire.
//!
//! `secure_link` contains the checksum of the link and, after a comma, the Unix time at which the link expires.
//! `secure_link_md5` is the text whose MD5 the checksum must be, in base64 for URLs. `$secure_link` is `1` for a
//! valid link, `0` for an expired link, and empty otherwise. `$secure_link_expires` is the expiry time. The text
//! should contain what the link grants (`$uri`, perhaps `$remote_addr`), the expiry time and a secret.
//!
//! `secure_link_secret` is the older form. In `/any/CHECKSUM/path`, the checksum is the MD5 of path and secret in
//! hexadecimal digits. `$secure_link` is the path if the checksum is correct, and empty otherwise.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     location /files/ {
//!         secure_link     $arg_md5,$arg_expires;
//!         secure_link_md5 "$secure_link_expires$uri secret";
//!         if ($secure_link = "")  { return 403; }
//!         if ($secure_link = "0") { return 410; }
//!         return 200 yours;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /files/a?md5=wDMNdl5uwv07cf0-fOBXwA&expires=4102444800 HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! yours
//! ---
//! GET /files/b?md5=wDMNdl5uwv07cf0-fOBXwA&expires=4102444800 HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ```

use conf::{Contexts, Diagnostic};
use contract::{Directive, Exchange, Module, Reach, ScopeBuilder, Template, Variable, View};
use http::base64::decode_url;
use journal::clock::Time;
use md5::{Digest, Md5};
use std::str;
use subtle::ConstantTimeEq;

/// Links with a checksum.
pub static MODULE: Module = Module {
    name: "secure_link",
    directives: &[&SECURE_LINK, &SECURE_LINK_MD5, &SECURE_LINK_SECRET],
    variables: &[Variable::new("secure_link", verdict), Variable::new("secure_link_expires", expires)],
    compile: Some(compile),
};

const EVERYWHERE: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `secure_link TEXT`
pub static SECURE_LINK: Directive<Template> =
    Directive::new("secure_link", |args, loading| loading.template(args.word(0)?))
        .within(EVERYWHERE)
        .help("The checksum of a link, and after a comma its time of expiry.");

/// `secure_link_md5 TEXT`
pub static SECURE_LINK_MD5: Directive<Template> =
    Directive::new("secure_link_md5", |args, loading| loading.template(args.word(0)?))
        .within(EVERYWHERE)
        .help("The text whose MD5 the checksum is.");

/// `secure_link_secret WORD`
pub static SECURE_LINK_SECRET: Directive<Box<[u8]>> =
    Directive::new("secure_link_secret", |args, _| Ok(args.word(0)?.text.clone()))
        .within(EVERYWHERE)
        .help("The secret of links whose checksum is a part of their path.");

/// What a scope checks.
enum Check {
    /// The checksum and the end, and the text.
    Text { link: Template, text: Template },
    /// The secret.
    Path(Box<[u8]>),
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let depth = |level: Option<View<'_>>| level.map(|level| level.depth());
    let of_path = depth(view.level_of(&SECURE_LINK_SECRET));
    let of_text = depth(view.level_of(&SECURE_LINK)).max(depth(view.level_of(&SECURE_LINK_MD5)));
    // The form that the nearer level sets overrides the other one.
    match view.written(&SECURE_LINK_SECRET) {
        Some(secret) if of_path == of_text => {
            let message =
                "\"secure_link_secret\" cannot be mixed with \"secure_link\" and \"secure_link_md5\"";
            return Err(Diagnostic::emerg(message).at(secret.span));
        }
        Some(secret) if of_path > of_text => builder.keep(Check::Path(secret.value.clone())),
        _ => {
            if let (Some(link), Some(text)) = (view.get(&SECURE_LINK), view.get(&SECURE_LINK_MD5)) {
                builder.keep(Check::Text { link: link.clone(), text: text.clone() });
            }
        }
    }
    Ok(())
}

/// What was found about the link of a request; it stays so where the request goes on in another location.
struct Found(Option<Vec<u8>>);

fn verdict(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let found = exchange.attached_or(Reach::Shared, || {
        Found(match exchange.scope.kept::<Check>() {
            Some(Check::Text { link, text }) => is_good(exchange, link, text),
            Some(Check::Path(secret)) => path(&exchange.request.uri, secret).map(<[u8]>::to_vec),
            None => None,
        })
    });
    found.0.as_ref().inspect(|value| out.extend_from_slice(value)).is_some()
}

fn expires(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let Some(Check::Text { link, .. }) = exchange.scope.kept() else { return false };
    let link = link.evaluate(exchange);
    let end = link.splitn(2, |&byte| byte == b',').nth(1).filter(|end| seconds(end).is_some());
    end.inspect(|end| out.extend_from_slice(end)).is_some()
}

/// `1` for a valid link, `0` for an expired one, empty for an invalid one.
fn is_good(exchange: &Exchange, link: &Template, text: &Template) -> Option<Vec<u8>> {
    let link = link.evaluate(exchange);
    let mut parts = link.splitn(2, |&byte| byte == b',');
    let checksum = parts.next().and_then(base64url)?;
    let end = parts.next().map(|end| seconds(end).ok_or(())).transpose().ok()?;
    let expected = Md5::digest(text.evaluate(exchange));
    if !bool::from(expected.as_slice().ct_eq(&checksum)) {
        return None;
    }
    let has_ended = end.is_some_and(|end| end < Time::now().seconds);
    Some(vec![if has_ended { b'0' } else { b'1' }])
}

/// A time after 1970, in seconds.
fn seconds(text: &[u8]) -> Option<i64> {
    let is_number = text.iter().all(u8::is_ascii_digit);
    str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok().filter(|&seconds| seconds > 0)
}

/// What stands after the checksum of `/any/CHECKSUM/path`, where that is right.
fn path<'a>(uri: &'a [u8], secret: &[u8]) -> Option<&'a [u8]> {
    let mut parts = uri.get(1..)?.splitn(3, |&byte| byte == b'/');
    let (_, checksum, path) = (parts.next()?, parts.next()?, parts.next()?);
    let checksum = hexadecimal(checksum).filter(|_| !path.is_empty())?;
    let expected = Md5::new().chain_update(path).chain_update(secret).finalize();
    bool::from(expected.as_slice().ct_eq(&checksum)).then_some(path)
}

fn hexadecimal(text: &[u8]) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_chunks::<2>();
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// The 16 bytes of a digest in base64 for URLs (RFC 4648, section 5), padded or not.
fn base64url(text: &[u8]) -> Option<[u8; 16]> {
    const LENGTH_MAX: usize = 24;
    (text.len() <= LENGTH_MAX).then(|| decode_url(text))??.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::{base64url, path};
    use crate::testing::Site;
    use http::base64::encode_url;
    use md5::{Digest, Md5};

    fn encoded(text: &str) -> String {
        encode_url(&Md5::digest(text))
    }

    fn check(query: &str) -> String {
        let site = Site::location(
            "secure_link $arg_md5,$arg_e; secure_link_md5 \"$secure_link_expires$uri secret\"; \
             map $args $x { default \"$secure_link|$secure_link_expires\"; }",
        );
        site.variable("x", &site.get(&format!("/a?{query}")))
    }

    #[test]
    fn links_end() {
        let link = |e: &str| format!("md5={}&e={e}", encoded(&format!("{e}/a secret")));
        assert_eq!(check(&link("4102444800")), "1|4102444800");
        assert_eq!(check(&link("5")), "0|5");
        assert_eq!(check("md5=aaaa&e=5"), "|5");
        assert_eq!(check(&link("4102444800").replace("e=4", "e=5")), "|5102444800");
        for wrong in ["", "md5=&e=", &link("0"), &link("-1"), &link("x")] {
            assert_eq!(check(wrong), "|", "{wrong}");
        }
    }

    #[test]
    fn a_checksum_is_sixteen_bytes() {
        assert_eq!(base64url(b"XGf7aqkW0F91H10gJWMoVA"), base64url(b"XGf7aqkW0F91H10gJWMoVA=="));
        assert_eq!(base64url(encoded("a").as_bytes()), Some(Md5::digest("a").into()));
        for wrong in ["XGf7aqkW0F91H10gJWMoV", "XGf7aqkW0F91H10gJWMo+A", "XGf7aqkW0F91H10gJWMoVAA"] {
            assert_eq!(base64url(wrong.as_bytes()), None);
        }
    }

    #[test]
    fn a_checksum_in_the_path() {
        let digest = Md5::digest("b/c?dsecret").iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let uri = format!("/p/{digest}/b/c?d");
        assert_eq!(path(uri.as_bytes(), b"secret"), Some(&b"b/c?d"[..]));
        assert_eq!(path(uri.as_bytes(), b"other"), None);
        for wrong in ["/", "/p", "/p/", "/p/x/y", &format!("/p/{digest}"), &format!("/p/{digest}/")] {
            assert_eq!(path(wrong.as_bytes(), b"secret"), None, "{wrong}");
        }
    }

    #[test]
    fn two_forms_do_not_mix() {
        let error = Site::error("secure_link_secret a; secure_link_md5 b;");
        assert!(error.contains("cannot be mixed"), "{error}");
    }
}
