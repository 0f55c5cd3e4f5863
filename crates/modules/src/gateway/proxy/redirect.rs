//! `proxy_redirect`: what `Location` and `Refresh` of a response say, as the client has to see it.

use super::target::{Pass, Target};
use conf::{Diagnostic, Word};
use contract::{AnyDirective, Args, Directive, Exchange, Loading, Regex, Template, View, Written};

/// The value of one `proxy_redirect` that is not `off`.
#[derive(Clone)]
pub enum Redirect {
    /// `default`
    Default,
    /// `FROM TO`
    Text(Rule),
}

/// A text or a pattern, and the text that replaces it in a URL, a path or a domain.
#[derive(Clone)]
pub struct Rule {
    from: From,
    to: Template,
}

#[derive(Clone)]
enum From {
    /// A text at the start.
    Start(Template),
    /// A whole domain, in any case. A dot in front of the domain of a cookie stays there.
    Domain(Template),
    /// A pattern that the whole is matched against.
    Pattern(Regex),
}

pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Option<Redirect>, Diagnostic> {
    let word = args.word(0)?;
    let Some(to) = args.words().get(1) else {
        return match &*word.text {
            b"off" | b"false" => Ok(None),
            b"default" => Ok(Some(Redirect::Default)),
            _ => Err(args.invalid(word)),
        };
    };
    Ok(Some(Redirect::Text(Rule::parse(word, to, loading)?)))
}

/// The values of a directive, where `off` is `None` and leaves none.
///
/// # Errors
/// `off` together with other values.
pub(super) fn unless_off<'a, T: Send + Sync>(
    view: &View<'a>,
    directive: &Directive<Option<T>>,
) -> Result<Vec<Written<'a, T>>, Diagnostic> {
    let all = view.all(directive);
    let off = all.iter().position(|written| written.value.is_none());
    if let Some(second) = off.and_then(|off| all.get(off.max(1))) {
        let message = format!("\"{}\" directive is duplicate", directive.info().name);
        return Err(Diagnostic::emerg(message).at(second.span));
    }
    let set = |written: Written<'a, Option<T>>| {
        written.value.as_ref().map(|value| Written { value, span: written.span })
    };
    Ok(all.into_iter().filter_map(set).collect())
}

impl Rule {
    /// Reads a text or a pattern, and what replaces it.
    pub(super) fn parse(from: &Word, to: &Word, loading: &mut Loading) -> Result<Rule, Diagnostic> {
        let matched = match &*from.text {
            [b'~', b'*', text @ ..] => From::Pattern(loading.regex(from, text, true)?),
            [b'~', text @ ..] => From::Pattern(loading.regex(from, text, false)?),
            _ => From::Start(loading.template(from)?),
        };
        Ok(Rule { from: matched, to: loading.template(to)? })
    }

    /// Reads a domain or a pattern, and what replaces it. A dot in front of either domain does not count.
    pub(super) fn domain(from: &Word, to: &Word, loading: &mut Loading) -> Result<Rule, Diagnostic> {
        if let [b'~', text @ ..] = &*from.text {
            let pattern = From::Pattern(loading.regex(from, text, true)?);
            return Ok(Rule { from: pattern, to: loading.template(to)? });
        }
        let [from, to] = [from, to].map(|word| {
            let text = word.text.strip_prefix(b".").unwrap_or(&word.text);
            Word { text: text.into(), ..word.clone() }
        });
        Ok(Rule { from: From::Domain(loading.template(&from)?), to: loading.template(&to)? })
    }

    /// The rule that leads from the upstream server's URLs back to the location.
    pub(super) fn back(from: &[u8], location: &[u8]) -> Rule {
        Rule { from: From::Start(Template::literal(from)), to: Template::literal(location) }
    }

    /// The text with its start, or all of it, replaced, if the rule fits.
    fn apply(&self, exchange: &Exchange, url: &[u8]) -> Option<Vec<u8>> {
        match &self.from {
            From::Domain(from) => {
                let bare = url.strip_prefix(b".").unwrap_or(url);
                let dot = &url[..url.len() - bare.len()];
                let is_same = from.evaluate(exchange).eq_ignore_ascii_case(bare);
                is_same.then(|| [dot, &self.to.evaluate(exchange)].concat())
            }
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

/// A `Refresh` field with the URL after `url=` rewritten.
pub(super) fn rewrite_refresh(rules: &[Rule], exchange: &Exchange, value: &[u8]) -> Option<Vec<u8>> {
    let at = value.windows(4).position(|window| window.eq_ignore_ascii_case(b"url="))? + 4;
    let url = rewrite(rules, exchange, &value[at..])?;
    Some([&value[..at], &url].concat())
}

/// The rules of `proxy_redirect`, or the default one.
pub(super) fn rules(
    written: Option<Vec<Written<'_, Redirect>>>,
    pass: &Pass,
    fixed: Option<&Target>,
    location: &[u8],
) -> Result<Box<[Rule]>, Diagnostic> {
    let back = || {
        let target = fixed?;
        let rule = match target.uri.is_empty() {
            true => Rule::back(&[&pass.text[..], b"/"].concat(), b"/"),
            false => Rule::back(&pass.text, location),
        };
        Some(rule)
    };
    let Some(written) = written else { return Ok(back().into_iter().collect()) };
    let mut rules = Vec::new();
    for written in written {
        match written.value {
            Redirect::Text(rule) => rules.push(rule.clone()),
            Redirect::Default => rules.push(back().ok_or_else(|| {
                let message = "\"proxy_redirect default\" cannot be used with \"proxy_pass\" directive with \
                               variables";
                Diagnostic::emerg(message).at(written.span)
            })?),
        }
    }
    Ok(rules.into())
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
