//! Expression → truth, for a request.

use super::{Function, Glob, Node, PageVariables, Part, Test, Text, Variable};
use crate::shared::apache::bounded::{Failure, append, find};
use crate::shared::apache::lookup;
use crate::shared::apache::urls::escape_uri;
use crate::shared::apache::{environment, glob, variables};
use crate::shared::networks::in_network;
use conf::value::Captures;
use contract::{Budget, Exchange};
use http::{base64, hex};
use md5::{Digest, Md5};
use sha1::Sha1;
use std::net::IpAddr;

/// What is known while an expression is evaluated.
pub(super) struct Evaluation<'e> {
    exchange: &'e Exchange,
    budget: &'e Budget,
    /// What the last pattern captured, and out of what.
    captured: (Captures, Vec<u8>),
    /// The path of the file and the path info, where rules have changed them.
    file: Option<(&'e [u8], &'e [u8])>,
}

impl<'e> Evaluation<'e> {
    pub(super) fn new(exchange: &'e Exchange, budget: &'e Budget) -> Evaluation<'e> {
        Evaluation { exchange, budget, captured: (Captures::default(), Vec::new()), file: None }
    }

    /// The same, of a request whose file rules have changed.
    pub(super) fn with_file(self, file: Option<(&'e [u8], &'e [u8])>) -> Evaluation<'e> {
        Evaluation { file, ..self }
    }

    /// What the last pattern captured, and out of what.
    pub(super) fn captured(self) -> (Captures, Vec<u8>) {
        self.captured
    }

    pub(super) fn holds(&mut self, node: &Node) -> Result<bool, Failure> {
        self.budget.step(0)?;
        Ok(match node {
            Node::Constant(value) => *value,
            Node::Not(inner) => !self.holds(inner)?,
            Node::And(left, right) => self.holds(left)? && self.holds(right)?,
            Node::Or(left, right) => self.holds(left)? || self.holds(right)?,
            Node::Compare(left, wanted, right) => {
                let (left, right) = (self.text(left)?, self.text(right)?);
                wanted.contains(&left.cmp(&right))
            }
            Node::CompareNumbers(left, wanted, right) => {
                let (left, right) = (self.text(left)?, self.text(right)?);
                wanted.contains(&variables::number(&left).cmp(&variables::number(&right)))
            }
            Node::Matches(text, pattern) => {
                let subject = self.text(text)?;
                let mut captures = Captures::default();
                let found = find(pattern, &subject, &mut captures, self.budget)?;
                if found {
                    self.captured = (captures, subject);
                }
                found
            }
            Node::In(text, list) => {
                let text = self.text(text)?;
                let mut found = false;
                for member in list {
                    found |= self.text(member)? == text;
                }
                found
            }
            Node::IpMatch(text, net) => {
                let address = String::from_utf8_lossy(&self.text(text)?).parse::<IpAddr>();
                address.is_ok_and(|address| net.contains(&address.to_canonical()))
            }
            Node::Glob(text, pattern, kind) => {
                let (mut text, mut pattern) = (self.text(text)?, self.text(pattern)?);
                if *kind == Glob::IgnoringCase {
                    text.make_ascii_lowercase();
                    pattern.make_ascii_lowercase();
                }
                self.budget.step(pattern.len().max(1).saturating_mul(text.len()))?;
                match kind {
                    Glob::OfPaths => matches_path(&pattern, &text),
                    _ => glob::matches(&pattern, &text),
                }
            }
            Node::Test(test, text) => {
                let text = self.text(text)?;
                self.test(*test, &text)?
            }
            Node::Client(net) => in_network(self.exchange, net),
        })
    }

    fn test(&self, test: Test, text: &[u8]) -> Result<bool, Failure> {
        match test {
            Test::Empty => return Ok(text.is_empty()),
            Test::NotEmpty => return Ok(!text.is_empty()),
            Test::True => {
                let off: [&[u8]; 4] = [b"", b"0", b"off", b"false"];
                return Ok(!off.iter().any(|off| text.eq_ignore_ascii_case(off))
                    && !text.eq_ignore_ascii_case(b"no"));
            }
            Test::Url => return Ok(!text.is_empty() && !lookup::is_lookup(self.exchange)),
            _ if !variables::is_inside(self.exchange, text) => return Ok(false),
            _ => {}
        }
        let metadata = match test {
            Test::Link => variables::link_metadata(text, self.budget)?,
            _ => variables::metadata(self.exchange, text, self.budget)?,
        };
        Ok(metadata.is_some_and(|metadata| match test {
            Test::Directory => metadata.is_dir(),
            Test::File => metadata.is_file(),
            Test::FileWithContent => metadata.is_file() && metadata.len() > 0,
            Test::Link => metadata.is_symlink(),
            _ => true,
        }))
    }

    pub(super) fn text(&mut self, text: &Text) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        for part in &text.parts {
            match part {
                Part::Literal(text) => append(&mut out, text)?,
                Part::Capture(index) => {
                    let (captures, subject) = &self.captured;
                    append(&mut out, captures.get(usize::from(*index), subject).unwrap_or_default())?;
                }
                Part::Variable(variable) => append(&mut out, &self.variable(variable)?)?,
                Part::Call(function, argument) => {
                    let argument = self.text(argument)?;
                    append(&mut out, &self.call(*function, &argument))?;
                }
            }
        }
        self.budget.step(out.len())?;
        Ok(out)
    }

    fn variable(&self, variable: &Variable) -> Result<Vec<u8>, Failure> {
        let exchange = self.exchange;
        let path = || exchange.path().unwrap_or_default();
        Ok(match variable {
            Variable::Get(get) => get(exchange),
            Variable::Time(format) => variables::now(format),
            Variable::Filename if let Some((path, _)) = self.file => path.to_vec(),
            Variable::PathInfo if let Some((_, info)) = self.file => info.to_vec(),
            Variable::Filename => {
                let path = path();
                let end = variables::file_end(exchange, &path, self.budget)?;
                path[..end].to_vec()
            }
            Variable::PathInfo => {
                let path = path();
                let end = variables::file_end(exchange, &path, self.budget)?;
                path[end..].to_vec()
            }
            Variable::ContentType => exchange.response.content_type.as_deref().unwrap_or_default().to_vec(),
            Variable::Status => exchange.response.status.0.to_string().into_bytes(),
            Variable::LastModified => {
                let modified = exchange.response.last_modified.unwrap_or(0);
                variables::moment(modified)
            }
        })
    }

    fn call(&self, function: Function, argument: &[u8]) -> Vec<u8> {
        let name = String::from_utf8_lossy(argument);
        let exchange = self.exchange;
        match function {
            Function::RequestField => variables::request_field(exchange, &name).unwrap_or_default(),
            Function::ResponseField => variables::response_field(exchange, &name),
            Function::Environment => environment::get(exchange, argument).unwrap_or_default().into(),
            Function::Lower => argument.to_ascii_lowercase(),
            Function::Upper => argument.to_ascii_uppercase(),
            Function::Escape => {
                let mut out = Vec::new();
                escape_uri(argument, &mut out);
                out
            }
            Function::Unescape => variables::unescape(argument),
            Function::Base64 => base64::encode(argument).into_bytes(),
            Function::Unbase64 => base64::decode(argument).unwrap_or_default(),
            Function::Md5 => hex::text(&Md5::digest(argument)).into_bytes(),
            Function::Sha1 => hex::text(&Sha1::digest(argument)).into_bytes(),
            Function::PageVariable => {
                let page = exchange.attached::<PageVariables>();
                page.and_then(|page| (page.0)(exchange, argument)).unwrap_or_default()
            }
            Function::Note | Function::OwnEnvironment => Vec::new(),
        }
    }
}

/// Whether each part between slashes matches its part of the pattern.
fn matches_path(pattern: &[u8], text: &[u8]) -> bool {
    let is_slash = |byte: &u8| *byte == b'/';
    let (mut patterns, mut parts) = (pattern.split(is_slash), text.split(is_slash));
    loop {
        match (patterns.next(), parts.next()) {
            (None, None) => return true,
            (Some(pattern), Some(part)) if glob::matches(pattern, part) => {}
            _ => return false,
        }
    }
}
