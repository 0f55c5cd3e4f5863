//! Apache's expressions, as `<If>`, `Require expr`, `Header … expr=` and others have them.

mod evaluate;
mod parse;

use super::bounded::Failure;
use conf::value::{Captures, Pattern};
use conf::{Diagnostic, Word};
use contract::{Args, Budget, Exchange, Loading};
use ipnet::IpNet;
use std::cmp::Ordering;
use std::sync::Arc;

/// A condition about a request.
#[derive(Debug)]
pub(crate) struct Expression {
    root: Node,
    /// Whether it asks for the name of the user.
    names_user: bool,
}

/// Looks up a variable of the SSI page that the request is for. The SSI filter attaches it.
pub(crate) struct PageVariables(pub(crate) fn(&Exchange, &[u8]) -> Option<Vec<u8>>);

/// A text with variables.
#[derive(Debug)]
pub(crate) struct Text {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Node {
    Constant(bool),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    /// Whether the order of two texts is one of these.
    Compare(Text, &'static [Ordering], Text),
    CompareNumbers(Text, &'static [Ordering], Text),
    Matches(Text, Arc<Pattern>),
    In(Text, Vec<Text>),
    IpMatch(Text, IpNet),
    /// A text and a pattern with `*`.
    Glob(Text, Text, Glob),
    Test(Test, Text),
    /// The client has an address of this network.
    Client(IpNet),
}

/// How a pattern with `*` is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Glob {
    /// `-strmatch`
    Exact,
    /// `-strcmatch`
    IgnoringCase,
    /// `-fnmatch`: a `*` matches no slash.
    OfPaths,
}

#[derive(Clone, Copy, Debug)]
enum Test {
    Empty,
    NotEmpty,
    True,
    Exists,
    Directory,
    File,
    FileWithContent,
    Link,
    Url,
}

#[derive(Debug)]
enum Part {
    Literal(Vec<u8>),
    Capture(u8),
    Variable(Variable),
    Call(Function, Text),
}

#[derive(Debug)]
enum Variable {
    Get(fn(&Exchange) -> Vec<u8>),
    Time(&'static str),
    Filename,
    PathInfo,
    ContentType,
    Status,
    LastModified,
}

#[derive(Clone, Copy, Debug)]
enum Function {
    RequestField,
    ResponseField,
    Environment,
    Lower,
    Upper,
    Escape,
    Unescape,
    Base64,
    Unbase64,
    Md5,
    Sha1,
    /// A variable of a page with commands.
    PageVariable,
    /// What modules of Apache note about a request: nothing here.
    Note,
    /// The server's own environment, which files do not see.
    OwnEnvironment,
}

/// The variable with the name of the user.
const USER: &[u8] = b"{REMOTE_USER}";

impl Expression {
    /// Reads the condition that some words of a directive are.
    ///
    /// # Errors
    /// What is wrong with it, or not granted to files of a site.
    pub(crate) fn parse(
        args: &Args<'_>,
        loading: &mut Loading,
        words: &[Word],
    ) -> Result<Expression, Diagnostic> {
        let text = match words {
            [word] => word.text.to_vec(),
            words => words.iter().map(quoted).collect::<Vec<_>>().join(&b' '),
        };
        let root = parse::condition(args, loading, &text)?;
        let upper = text.to_ascii_uppercase();
        let names_user = upper.windows(USER.len()).any(|part| part == USER);
        Ok(Expression { root, names_user })
    }

    /// Whether it asks for the name of the user.
    pub(crate) fn names_user(&self) -> bool {
        self.names_user
    }

    /// Whether it holds.
    ///
    /// # Errors
    /// It takes too long.
    pub(crate) fn holds(&self, exchange: &Exchange, budget: &Budget) -> Result<bool, Failure> {
        evaluate::Evaluation::new(exchange, budget).holds(&self.root)
    }

    /// If it holds: what its last pattern captured, and out of what. The path of the file and the path info are given
    /// where rules have changed them.
    ///
    /// # Errors
    /// As for [`Expression::holds`].
    pub(crate) fn captures(
        &self,
        exchange: &Exchange,
        budget: &Budget,
        file: Option<(&[u8], &[u8])>,
    ) -> Result<Option<(Captures, Vec<u8>)>, Failure> {
        let mut evaluation = evaluate::Evaluation::new(exchange, budget).with_file(file);
        Ok(evaluation.holds(&self.root)?.then(|| evaluation.captured()))
    }
}

impl Text {
    /// Reads a text with variables.
    ///
    /// # Errors
    /// As for [`Expression::parse`].
    pub(crate) fn parse(args: &Args<'_>, loading: &mut Loading, text: &[u8]) -> Result<Text, Diagnostic> {
        parse::text(args, loading, text)
    }

    /// The text, if it has no variables.
    pub(crate) fn constant(&self) -> Option<&[u8]> {
        match &self.parts[..] {
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The text for a request.
    ///
    /// # Errors
    /// It takes too long.
    pub(crate) fn value(&self, exchange: &Exchange, budget: &Budget) -> Result<Vec<u8>, Failure> {
        evaluate::Evaluation::new(exchange, budget).text(self)
    }
}

/// A word as it stood in its line.
fn quoted(word: &Word) -> Vec<u8> {
    match word.quoted {
        true => [b"'", &*word.text, b"'"].concat(),
        false => word.text.to_vec(),
    }
}
