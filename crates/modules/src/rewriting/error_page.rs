//! Replaces error responses with pages of the site.
//!
//! The page for a status is a path of this server (an internal redirect), a named location, or a URL to which the
//! client is redirected. A redirect has status 302, or the status after `=`, such as `=301`. With a path or a named
//! location, the client gets the original status. `=200` sends another status; `=` alone sends the status of the page. A
//! path is requested with GET (or HEAD); a named location keeps the method of the request. With `recursive_error_pages
//! on`, an error while Fulmar answers with the error page can have an error page, too.
//!
//! ```file html/sorry.txt
//! sorry
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     error_page 404 /sorry.txt;
//!     location /fine/ {
//!         error_page 404 =200 /sorry.txt;
//!     }
//!     location /away/ {
//!         error_page 404 https://example.com/;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /missing HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 404 Not Found
//!
//! sorry
//! ---
//! GET /fine/missing HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! sorry
//! ---
//! GET /away/missing HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 302 Moved Temporarily
//! Location: https://example.com/
//! ```

use conf::value::number;
use conf::{Arity, Contexts, Diagnostic, Word};
use contract::policy::{ErrorAnswer, ErrorPage};
use contract::{Args, Directive, Loading, Module, Rule, ScopeBuilder, View};
use http::Status;

/// Pages in place of errors.
pub static MODULE: Module = Module {
    name: "error_page",
    directives: &[&ERROR_PAGE, &RECURSIVE_ERROR_PAGES],
    variables: &[],
    compile: Some(compile),
};

/// `error_page STATUS … [=[STATUS]] TARGET`
pub static ERROR_PAGE: Directive<Vec<ErrorPage>> = Directive::new("error_page", parse_error_page)
    .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION).or(Contexts::LOCATION_IF))
    .args(Arity::AtLeast(2))
    .rule(Rule::List)
    .help("The page that is shown in place of errors.");

/// `recursive_error_pages on | off`
pub static RECURSIVE_ERROR_PAGES: Directive<bool> = Directive::flag("recursive_error_pages")
    .within(Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION))
    .default("off")
    .help("Whether an error of an error page has an error page, too.");

/// Codes of the server's own, for which clients see 400 unless another status is given.
const SENT_AS_BAD_REQUEST: std::ops::RangeInclusive<u16> = 494..=497;

fn parse_error_page(args: &Args<'_>, loading: &mut Loading) -> Result<Vec<ErrorPage>, Diagnostic> {
    let Some((target, rest)) = args.words().split_last() else { return Err(args.error("has no target")) };
    let (answer, codes) = match rest.split_last() {
        Some((word, codes)) if word.text.starts_with(b"=") => (parse_answer(args, word, codes)?, codes),
        _ => (ErrorAnswer::Original, rest),
    };
    let statuses = codes.iter().map(|word| parse_status(args, word)).collect::<Result<Vec<_>, _>>()?;
    let target = loading.template(target)?;
    let (bad_requests, others): (Vec<_>, Vec<_>) =
        statuses.into_iter().partition(|status| SENT_AS_BAD_REQUEST.contains(&status.0));
    let bad_request_answer = match answer {
        ErrorAnswer::Original => ErrorAnswer::Fixed(Status::BAD_REQUEST),
        answer => answer,
    };
    let pages = [(others, answer), (bad_requests, bad_request_answer)];
    let page = |(statuses, answer): (Vec<Status>, ErrorAnswer)| ErrorPage {
        statuses: statuses.into(),
        answer,
        target: target.clone(),
        is_text: false,
        is_public: false,
        place: Some(args.node.span),
    };
    Ok(pages.into_iter().filter(|(statuses, _)| !statuses.is_empty()).map(page).collect())
}

/// `=` and `=STATUS`.
fn parse_answer(args: &Args<'_>, word: &Word, codes: &[Word]) -> Result<ErrorAnswer, Diagnostic> {
    if codes.is_empty() {
        return Err(invalid(args, word));
    }
    if word.text.len() == 1 {
        return Ok(ErrorAnswer::FromTarget);
    }
    let code = Word { text: word.text[1..].into(), quoted: false, span: word.span };
    let code = number(&code).ok().and_then(|code| u16::try_from(code).ok());
    // Zero says the same as no number.
    match code {
        None => Err(invalid(args, word)),
        Some(0) => Ok(ErrorAnswer::FromTarget),
        Some(code) => Ok(ErrorAnswer::Fixed(Status(code))),
    }
}

fn parse_status(args: &Args<'_>, word: &Word) -> Result<Status, Diagnostic> {
    let code = number(word).ok().filter(|&code| code != u64::from(Status::CLIENT_CLOSED.0));
    let code = code.ok_or_else(|| invalid(args, word))?;
    match u16::try_from(code) {
        Ok(code) if (300..=599).contains(&code) => Ok(Status(code)),
        _ => {
            let message = format!("value \"{word}\" must be between 300 and 599");
            Err(Diagnostic::emerg(message).at(args.node.span).under(word.span))
        }
    }
}

fn invalid(args: &Args<'_>, word: &Word) -> Diagnostic {
    Diagnostic::emerg(format!("invalid value \"{word}\"")).at(args.node.span).under(word.span)
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let pages = view.all(&ERROR_PAGE).into_iter().flat_map(|written| written.value).cloned();
    builder.policy.error_pages = pages.collect();
    builder.policy.recursive_error_pages = view.get(&RECURSIVE_ERROR_PAGES).copied().unwrap_or(false);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::policy::ErrorAnswer;
    use http::Status;

    #[test]
    fn the_three_kinds_of_answer() {
        let site = Site::location("error_page 404 403 /a; error_page 500 =200 /b; error_page 502 = @c;");
        let pages = &site.get("/").scope.policy.error_pages.clone();
        let answers: Vec<_> = pages.iter().map(|page| page.answer).collect();
        let fixed = ErrorAnswer::Fixed(Status::OK);
        assert_eq!(answers, [ErrorAnswer::Original, fixed, ErrorAnswer::FromTarget]);
        assert_eq!(&*pages[0].statuses, [Status::NOT_FOUND, Status::FORBIDDEN]);
        assert_eq!(pages[2].target.constant(), Some(&b"@c"[..]));
    }

    #[test]
    fn private_codes_are_sent_as_400() {
        let site = Site::location("error_page 494 404 /a;");
        let pages = &site.get("/").scope.policy.error_pages.clone();
        assert_eq!(pages[0].answer, ErrorAnswer::Original);
        assert_eq!(pages[1].answer, ErrorAnswer::Fixed(Status::BAD_REQUEST));
    }

    #[test]
    fn wrong_codes() {
        assert_eq!(Site::error("error_page 200 /a;"), "value \"200\" must be between 300 and 599");
        assert_eq!(Site::error("error_page 499 /a;"), "invalid value \"499\"");
        assert_eq!(Site::error("error_page x /a;"), "invalid value \"x\"");
        assert_eq!(Site::error("error_page =200 /a;"), "invalid value \"=200\"");
        assert_eq!(Site::error("error_page 404 =x /a;"), "invalid value \"=x\"");
    }
}
