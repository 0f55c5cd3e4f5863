//! The expressions of `if` and `elif`: a text, or two of them compared; or those of Apache.

use super::page::Page;
use crate::shared::apache::expression::Expression;
use conf::{Contexts, Word};
use contract::{Args, Exchange, Loading};
use std::path::Path;

/// The memory that an expression of Apache and its patterns may take.
const MEMORY_MAX: usize = 1024 * 1024;

/// Whether an expression of Apache holds.
///
/// # Errors
/// What is wrong with the expression.
pub(super) fn holds_in_apache(exchange: &Exchange, text: &[u8]) -> Result<bool, String> {
    let loaded = conf::apache::parse(Path::new("page"), "if".into());
    let [node] = &loaded.nodes[..] else { return Err("no expression".to_owned()) };
    let args = Args { node, context: Contexts::HTACCESS, opened: None };
    let mut loading = Loading::new(Path::new("/"), Path::new("/"));
    loading.memory_bytes = (0, MEMORY_MAX);
    let word = Word { text: text.into(), quoted: false, span: node.span };
    let budget = exchange.budget();
    // Reading it is work of the request, too.
    let read = budget.timed(|| Expression::parse(&args, &mut loading, &[word]));
    let expression = read.map_err(|spent| spent.to_string())?.map_err(|error| error.message)?;
    expression.holds(exchange, &budget).map_err(|failure| failure.to_string())
}

/// Whether an expression holds: `TEXT`, which holds unless it is empty, `TEXT = TEXT`, `TEXT != TEXT`, and the same
/// with `/PATTERN/` on the right.
///
/// # Errors
/// What is wrong with the expression.
pub(super) fn holds(page: &Page, exchange: &Exchange, expression: &[u8]) -> Result<bool, String> {
    let invalid = || format!("invalid expression in \"{}\"", String::from_utf8_lossy(expression));
    let length = expression.iter().take_while(|&&byte| is_operand(byte)).count();
    // As in nginx, the left side is taken in lower case.
    let left = expression[..length].to_ascii_lowercase();
    let left = page.expand(&left, exchange)?;
    let rest = trim_start(&expression[length..]);
    let (is_negated, right) = match rest {
        [] => return Ok(!left.is_empty()),
        [b'=', right @ ..] => (false, right),
        [b'!', b'=', right @ ..] => (true, right),
        _ => return Err(invalid()),
    };
    let right = trim_start(right);
    let is_equal = match right {
        [b'/', pattern @ .., b'/'] => page.common.matches(&page.expand(pattern, exchange)?, &left)?,
        [b'/', _, ..] => return Err(invalid()),
        // A backslash takes the meaning from a slash.
        [b'\\', b'/', ..] => page.expand(&right[1..], exchange)? == left,
        _ => page.expand(right, exchange)? == left,
    };
    Ok(is_equal != is_negated)
}

fn is_operand(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"${}_\"'".contains(&byte)
}

fn trim_start(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|&&byte| byte == b' ').count()..]
}

#[cfg(test)]
mod tests {
    use super::holds;
    use crate::testing::Site;
    use crate::transform::ssi::page::{Common, Page};
    use std::rc::Rc;

    fn check(expression: &str) -> Result<bool, String> {
        let exchange = Site::location("").get("/?a=b&v=CAP1andCAP2");
        let page = Page::new(Rc::new(Common::default()));
        holds(&page, &exchange, expression.as_bytes())
    }

    #[test]
    fn texts_are_compared() {
        for (expression, expected) in [
            ("$arg_a", true),
            ("$arg_b", false),
            ("$arg_a = b", true),
            ("$arg_a=c", false),
            ("${arg_A} != c", true),
            ("B = b", true),
            ("b = B", false),
            ("$arg_a = $arg_a", true),
            ("$arg_v = /CAP\\d.*CAP\\d\\$/", true),
            ("$arg_v != /x/", true),
            ("$arg_a = \\/", false),
            ("$arg_a =", false),
            ("$arg_b =", true),
        ] {
            assert_eq!(check(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for expression in
            ["$arg_a ! b", "$arg_a = /b", "/", "$", "$arg_a = ${b", "$arg_a = /(/", "$arg_a = /b$/"]
        {
            assert!(check(expression).is_err(), "{expression}");
        }
    }
}
