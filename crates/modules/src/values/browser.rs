//! Detects old browsers by `User-Agent`: `$modern_browser`, `$ancient_browser`, `$msie`.
//!
//! `modern_browser` names a browser and its first modern version: `msie`, `gecko`, `safari`, `opera` or `konqueror`.
//! `ancient_browser` lists texts; a browser whose `User-Agent` contains one of them is ancient. `netscape4` stands for
//! Netscape up to version 4. A browser that `modern_browser` names is modern from that version on, and ancient before
//! it. A browser that it does not name is ancient if `ancient_browser` matches. All others, and clients without
//! `User-Agent`, are modern with `modern_browser unlisted`, and ancient without it.
//!
//! For a modern browser, `$modern_browser` has the value of `modern_browser_value`, and `$ancient_browser` is empty.
//! For an ancient browser, `$ancient_browser` has the value of `ancient_browser_value`, and `$modern_browser` is
//! empty. `$msie` is `1` for Internet Explorer, and empty otherwise. Today's browsers put the names of other browsers
//! into their `User-Agent`: in new configurations use a `map` of `$http_user_agent`.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     modern_browser gecko 1.9;
//!     modern_browser unlisted;
//!     ancient_browser Lynx netscape4;
//!     location / {
//!         return 200 "modern=$modern_browser ancient=$ancient_browser\n";
//!     }
//! }
//! ```
//!
//! ```http
//! GET / HTTP/1.1
//! Host: localhost
//! User-Agent: Lynx/2.8
//!
//! HTTP/1.1 200 OK
//!
//! modern= ancient=1
//! ---
//! GET / HTTP/1.1
//! Host: localhost
//! User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0
//!
//! HTTP/1.1 200 OK
//!
//! modern=1 ancient=
//! ```

use conf::{Arity, Contexts, Diagnostic};
use contract::{Args, Directive, Exchange, Loading, Module, Rule, ScopeBuilder, Variable, View};

/// Old browsers and new ones.
pub static MODULE: Module = Module {
    name: "browser",
    directives: &[&MODERN_BROWSER, &ANCIENT_BROWSER, &MODERN_BROWSER_VALUE, &ANCIENT_BROWSER_VALUE],
    variables: &[
        Variable::new("modern_browser", |exchange, _, out| value(exchange, true, out)),
        Variable::new("ancient_browser", |exchange, _, out| value(exchange, false, out)),
        Variable::new("msie", msie),
    ],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `modern_browser BROWSER VERSION | unlisted`
pub static MODERN_BROWSER: Directive<Modern> = Directive::new("modern_browser", parse_modern)
    .within(LEVELS)
    .args(Arity::Range(1, 2))
    .rule(Rule::List)
    .help("A browser and the version from which on it is modern; `unlisted` makes browsers modern that neither directive names.");

/// `ancient_browser TEXT …`
pub static ANCIENT_BROWSER: Directive<Vec<Box<[u8]>>> = Directive::new("ancient_browser", |args, _| {
    Ok(args.words().iter().map(|word| word.text.clone()).collect())
})
.within(LEVELS)
.args(Arity::AtLeast(1))
.rule(Rule::List)
.help("Texts in `User-Agent` that make a browser ancient.");

/// `modern_browser_value TEXT`
pub static MODERN_BROWSER_VALUE: Directive<Box<[u8]>> =
    Directive::new("modern_browser_value", |args, _| Ok(args.word(0)?.text.clone()))
        .within(LEVELS)
        .default("1")
        .help("The value of `$modern_browser` for a modern browser.");

/// `ancient_browser_value TEXT`
pub static ANCIENT_BROWSER_VALUE: Directive<Box<[u8]>> =
    Directive::new("ancient_browser_value", |args, _| Ok(args.word(0)?.text.clone()))
        .within(LEVELS)
        .default("1")
        .help("The value of `$ancient_browser` for an ancient browser.");

/// A line of `modern_browser`.
#[derive(Clone, Copy, Debug)]
pub enum Modern {
    /// Browsers that no line is about.
    Unlisted,
    /// A browser, by its place among [`BROWSERS`], from this version on.
    From(usize, u64),
}

/// How a browser names itself.
struct Browser {
    name: &'static str,
    /// How many bytes stand before its name.
    skipped: usize,
    /// Its name in `User-Agent`.
    text: &'static [u8],
    /// How far after the beginning of the name its version starts.
    version: usize,
}

/// The browsers, in the order in which they are looked for: Opera may use the name of another browser, too.
static BROWSERS: [Browser; 5] = [
    Browser { name: "opera", skipped: 0, text: b"Opera", version: 6 },
    Browser { name: "msie", skipped: "Mozilla/4.0 (compatible; ".len(), text: b"MSIE ", version: 5 },
    Browser { name: "gecko", skipped: "Mozilla/5.0 (".len(), text: b"rv:", version: 3 },
    Browser { name: "safari", skipped: "Mozilla/5.0 (".len(), text: b"Safari/", version: 7 },
    Browser {
        name: "konqueror",
        skipped: "Mozilla/5.0 (compatible; ".len(),
        text: b"Konqueror/",
        version: 10,
    },
];

/// A version that no browser reaches.
const NEVER: u64 = u64::MAX;

/// The first part of a version counts so much; each further part a hundredth of the part before.
const FIRST_PART: u64 = 1_000_000;

fn parse_modern(args: &Args<'_>, _: &mut Loading) -> Result<Modern, Diagnostic> {
    let name = args.word(0)?;
    let error =
        |message: String, word: &conf::Word| Diagnostic::emerg(message).at(args.node.span).under(word.span);
    let Some(version) = args.words().get(1) else {
        let hint = "write the version after the browser, or \"unlisted\"";
        return match name.is("unlisted") {
            true => Ok(Modern::Unlisted),
            false => Err(error(format!("no version of browser \"{name}\""), name).hint(hint)),
        };
    };
    let known = |browser: &Browser| name.text.eq_ignore_ascii_case(browser.name.as_bytes());
    let place = BROWSERS.iter().position(known);
    let place = place.ok_or_else(|| {
        let hint = "the browsers are opera, msie, gecko, safari and konqueror";
        error(format!("unknown browser name \"{name}\""), name).hint(hint)
    })?;
    match read_version(&version.text) {
        (number, b"") => Ok(Modern::From(place, number)),
        _ => Err(error(format!("invalid browser version \"{version}\""), version)),
    }
}

/// The version at the beginning of a text, and what follows it.
fn read_version(text: &[u8]) -> (u64, &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(text.len());
    let (version, rest) = text.split_at(end);
    let mut scale = FIRST_PART;
    let mut sum = 0_u64;
    for part in version.split(|&byte| byte == b'.') {
        let digit = |number: u64, byte: &u8| number.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
        sum = sum.saturating_add(part.iter().fold(0, digit).saturating_mul(scale));
        scale /= 100;
    }
    (sum.min(NEVER - 1), rest)
}

/// What the directives say in one scope.
#[derive(Default)]
struct Browsers {
    /// Browsers with the versions from which on they are modern, in the order of [`BROWSERS`].
    modern: Vec<(usize, u64)>,
    unlisted: bool,
    ancient: Vec<Box<[u8]>>,
    values: [Box<[u8]>; 2],
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let is_written = [view.is_anywhere(&MODERN_BROWSER), view.is_anywhere(&ANCIENT_BROWSER)].contains(&true);
    if !is_written && !view.is_anywhere(&ANCIENT_BROWSER_VALUE) {
        return Ok(());
    }
    let mut browsers = Browsers::default();
    for written in view.all(&MODERN_BROWSER) {
        match *written.value {
            Modern::Unlisted => browsers.unlisted = true,
            Modern::From(place, version) => browsers.modern.push((place, version)),
        }
    }
    // Opera may name itself as another one.
    if !browsers.modern.is_empty() && browsers.modern.iter().all(|(place, _)| *place != 0) {
        browsers.modern.push((0, NEVER));
    }
    browsers.modern.sort_by_key(|(place, _)| *place);
    browsers.ancient = view.all(&ANCIENT_BROWSER).iter().flat_map(|written| written.value.clone()).collect();
    let value = |directive| {
        let value: Option<&Box<[u8]>> = view.get(directive);
        value.cloned().unwrap_or_else(|| b"1"[..].into())
    };
    browsers.values = [value(&MODERN_BROWSER_VALUE), value(&ANCIENT_BROWSER_VALUE)];
    builder.keep(browsers);
    Ok(())
}

impl Browsers {
    /// Whether the browser of a client is modern.
    fn is_modern(&self, agent: Option<&[u8]>) -> bool {
        let Some(agent) = agent else { return self.unlisted };
        for &(place, least) in &self.modern {
            let browser = &BROWSERS[place];
            let after = agent.get(browser.skipped..).filter(|rest| !rest.is_empty());
            let named = after.and_then(|rest| find(rest, browser.text).map(|at| &rest[at..]));
            if let Some(version) =
                named.and_then(|named| named.get(browser.version..)).filter(|rest| !rest.is_empty())
            {
                return read_version(version).0 >= least;
            }
        }
        if !self.modern.is_empty() && !self.unlisted {
            return false;
        }
        let is_in = |text: &[u8]| {
            if text == b"netscape4" { is_netscape4(agent) } else { find(agent, text).is_some() }
        };
        !self.ancient.iter().any(|text| is_in(text)) && self.unlisted
    }
}

fn is_netscape4(agent: &[u8]) -> bool {
    let version = agent.strip_prefix(b"Mozilla/").and_then(|rest| rest.first());
    agent.len() > "Mozilla/4.72 ".len() && version.is_some_and(|digit| (b'1'..=b'4').contains(digit))
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    match wanted {
        [] => Some(0),
        _ => text.windows(wanted.len()).position(|window| window == wanted),
    }
}

fn agent(exchange: &Exchange) -> Option<&[u8]> {
    exchange.request.head.fields.get("User-Agent")
}

fn value(exchange: &Exchange, is_modern: bool, out: &mut Vec<u8>) -> bool {
    let nothing = Browsers { values: [b"1"[..].into(), b"1"[..].into()], ..Browsers::default() };
    let browsers = exchange.scope.kept::<Browsers>().unwrap_or(&nothing);
    if browsers.is_modern(agent(exchange)) == is_modern {
        out.extend_from_slice(&browsers.values[usize::from(!is_modern)]);
    }
    true
}

fn msie(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let agent = agent(exchange).unwrap_or_default();
    // Opera may name itself as this one, too.
    if find(agent, b"MSIE ").is_some_and(|at| at + 7 < agent.len()) && find(agent, b"Opera").is_none() {
        out.push(b'1');
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn wrong_browsers_are_found() {
        for (text, error) in [
            ("modern_browser lynx 1.0;", "unknown browser name \"lynx\""),
            ("modern_browser msie 5x;", "invalid browser version \"5x\""),
            ("modern_browser msie;", "no version of browser \"msie\""),
        ] {
            assert_eq!(Site::error(text), error, "{text}");
        }
    }

    #[test]
    fn versions_have_parts() {
        let number = |text: &'static str| super::read_version(text.as_bytes());
        assert_eq!(number("1.9"), (1_090_000, &b""[..]));
        assert!(number("10").0 > number("9.99").0 && number("5.5; x").1 == b"; x");
    }
}
