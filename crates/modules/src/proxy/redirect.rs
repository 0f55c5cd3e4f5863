//! `proxy_redirect`: what `Location` and `Refresh` of a response say, as the client has to see it.

use conf::Diagnostic;
use contract::{Args, Exchange, Loading, Regex, Template};

/// The value of one `proxy_redirect`.
#[derive(Clone)]
pub enum Redirect {
    /// `off`
    Off,
    /// `default`
    Default,
    /// `FROM TO`
    Text(Rule),
}

/// A text at the start of a URL, or a pattern, and what takes its place.
#[derive(Clone)]
pub struct Rule {
    from: From,
    to: Template,
}

#[derive(Clone)]
enum From {
    Start(Template),
    Pattern(Regex),
}

pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Redirect, Diagnostic> {
    let word = args.word(0)?;
    let Some(to) = args.words().get(1) else {
        return match &*word.text {
            b"off" | b"false" => Ok(Redirect::Off),
            b"default" => Ok(Redirect::Default),
            _ => Err(args.invalid(word)),
        };
    };
    let from = match &*word.text {
        [b'~', b'*', text @ ..] => From::Pattern(loading.regex(word, text, true)?),
        [b'~', text @ ..] => From::Pattern(loading.regex(word, text, false)?),
        _ => From::Start(loading.template(word)?),
    };
    Ok(Redirect::Text(Rule { from, to: loading.template(to)? }))
}

impl Rule {
    /// The rule that leads from the other server's URLs back to the location.
    pub(super) fn back(from: &[u8], location: &[u8]) -> Rule {
        Rule { from: From::Start(Template::literal(from)), to: Template::literal(location) }
    }

    /// The URL with its start replaced, if the rule fits.
    fn apply(&self, exchange: &Exchange, url: &[u8]) -> Option<Vec<u8>> {
        match &self.from {
            From::Start(from) => {
                let rest = url.strip_prefix(&from.evaluate(exchange)[..])?;
                let mut changed = self.to.evaluate(exchange);
                changed.extend_from_slice(rest);
                Some(changed)
            }
            From::Pattern(pattern) => pattern.matches(exchange, url).then(|| self.to.evaluate(exchange)),
        }
    }
}

/// The URL as the first rule that fits makes it.
pub(super) fn rewrite(rules: &[Rule], exchange: &Exchange, url: &[u8]) -> Option<Vec<u8>> {
    rules.iter().find_map(|rule| rule.apply(exchange, url))
}

/// A `Refresh` field with the URL behind `url=` rewritten.
pub(super) fn rewrite_refresh(rules: &[Rule], exchange: &Exchange, value: &[u8]) -> Option<Vec<u8>> {
    let at = value.windows(4).position(|window| window.eq_ignore_ascii_case(b"url="))? + 4;
    let url = rewrite(rules, exchange, &value[at..])?;
    Some([&value[..at], &url].concat())
}

#[cfg(test)]
mod tests {
    use super::{Rule, rewrite, rewrite_refresh};
    use crate::testing::Site;

    #[test]
    fn the_first_rule_that_fits() {
        let exchange = Site::location("").get("/");
        let rules = [Rule::back(b"http://b/x/", b"/a/"), Rule::back(b"http://b/", b"/")];
        let rewritten =
            |url: &str| rewrite(&rules, &exchange, url.as_bytes()).map(|url| String::from_utf8(url).unwrap());
        assert_eq!(rewritten("http://b/x/y").as_deref(), Some("/a/y"));
        assert_eq!(rewritten("http://b/y").as_deref(), Some("/y"));
        assert_eq!(rewritten("http://c/y"), None);
        let refresh = rewrite_refresh(&rules, &exchange, b"5; URL=http://b/x/y").unwrap();
        assert_eq!(refresh, b"5; URL=/a/y");
    }
}
