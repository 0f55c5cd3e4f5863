//! Text → expression.

use super::{Expression, Function, Glob, Node, Part, Test, Text, Variable};
use crate::shared::apache::{pattern, variables};
use conf::value::subnet;
use conf::{Diagnostic, Word};
use contract::{Args, Loading};
use std::cmp::Ordering::{self, Equal, Greater, Less};

/// Parentheses and functions within each other.
const DEPTH_MAX: usize = 32;

/// The longest expression, in bytes.
const BYTES_MAX: usize = 8 * 1024;

pub(super) fn condition(args: &Args<'_>, loading: &mut Loading, text: &[u8]) -> Result<Node, Diagnostic> {
    let mut parser = Parser { args, loading, rest: text, depth: 0 };
    if text.len() > BYTES_MAX {
        return Err(args.error("has an expression that is too long"));
    }
    // A parsed expression takes some times the memory of its text.
    parser.loading.hold(size_of::<Expression>() + text.len().saturating_mul(8), args.node.span)?;
    let node = parser.or()?;
    parser.skip();
    if parser.rest.is_empty() { Ok(node) } else { Err(parser.wrong()) }
}

pub(super) fn text(args: &Args<'_>, loading: &mut Loading, text: &[u8]) -> Result<Text, Diagnostic> {
    loading.hold(text.len().saturating_mul(8), args.node.span)?;
    let mut parser = Parser { args, loading, rest: text, depth: 0 };
    parser.string(None)
}

struct Parser<'p> {
    args: &'p Args<'p>,
    loading: &'p mut Loading,
    rest: &'p [u8],
    depth: usize,
}

impl<'p> Parser<'p> {
    fn wrong(&self) -> Diagnostic {
        let shown = String::from_utf8_lossy(&self.rest[..self.rest.len().min(40)]).into_owned();
        self.args.error(&format!("has an expression that is not understood from \"{shown}\" on"))
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn take(&mut self, text: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(text.as_bytes()) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// The letters, digits and dashes that come next, if they are one of these words.
    fn take_word(&mut self, text: &str) -> bool {
        self.skip();
        let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        match self.rest.strip_prefix(text.as_bytes()) {
            Some(rest) if !rest.first().is_some_and(is_inner) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn or(&mut self) -> Result<Node, Diagnostic> {
        let mut node = self.and()?;
        while self.take("||") || self.take_word("or") {
            node = Node::Or(Box::new(node), Box::new(self.and()?));
        }
        Ok(node)
    }

    fn and(&mut self) -> Result<Node, Diagnostic> {
        let mut node = self.not()?;
        while self.take("&&") || self.take_word("and") {
            node = Node::And(Box::new(node), Box::new(self.not()?));
        }
        Ok(node)
    }

    fn not(&mut self) -> Result<Node, Diagnostic> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong());
        }
        let node = self.primary();
        self.depth -= 1;
        node
    }

    fn primary(&mut self) -> Result<Node, Diagnostic> {
        if self.take("!") || self.take_word("not") {
            return Ok(Node::Not(Box::new(self.not()?)));
        }
        if self.take("(") {
            let node = self.or()?;
            return if self.take(")") { Ok(node) } else { Err(self.wrong()) };
        }
        if self.take_word("true") {
            return Ok(Node::Constant(true));
        }
        if self.take_word("false") {
            return Ok(Node::Constant(false));
        }
        if let [b'-', letter, b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
            return self.unary(*letter);
        }
        let left = self.word()?;
        self.comparison(left)
    }

    fn unary(&mut self, letter: u8) -> Result<Node, Diagnostic> {
        let test = match letter {
            b'z' => Test::Empty,
            b'n' => Test::NotEmpty,
            b'T' => Test::True,
            b'e' | b'F' => Test::Exists,
            b'd' => Test::Directory,
            b'f' => Test::File,
            b's' => Test::FileWithContent,
            b'h' | b'L' => Test::Link,
            b'A' | b'U' => Test::Url,
            b'R' => {
                let text = self.word()?;
                return Ok(Node::Client(self.network(&text)?));
            }
            _ => return Err(self.wrong()),
        };
        Ok(Node::Test(test, self.word()?))
    }

    fn comparison(&mut self, left: Text) -> Result<Node, Diagnostic> {
        const TEXTS: [(&str, &[Ordering]); 7] = [
            ("==", &[Equal]),
            ("!=", &[Less, Greater]),
            ("<=", &[Less, Equal]),
            (">=", &[Greater, Equal]),
            ("<", &[Less]),
            (">", &[Greater]),
            ("=", &[Equal]),
        ];
        const NUMBERS: [(&str, &str, &[Ordering]); 6] = [
            ("-eq", "eq", &[Equal]),
            ("-ne", "ne", &[Less, Greater]),
            ("-lt", "lt", &[Less]),
            ("-le", "le", &[Less, Equal]),
            ("-gt", "gt", &[Greater]),
            ("-ge", "ge", &[Greater, Equal]),
        ];
        if self.take("=~") {
            return self.matches(left);
        }
        if self.take("!~") {
            return Ok(Node::Not(Box::new(self.matches(left)?)));
        }
        for (sign, orderings) in TEXTS {
            if self.take(sign) {
                return Ok(Node::Compare(left, orderings, self.word()?));
            }
        }
        for (dashed, plain, orderings) in NUMBERS {
            if self.take_word(dashed) || self.take_word(plain) {
                return Ok(Node::CompareNumbers(left, orderings, self.word()?));
            }
        }
        if self.take_word("-in") || self.take_word("in") {
            return Ok(Node::In(left, self.list()?));
        }
        if self.take_word("-ipmatch") {
            let text = self.word()?;
            return Ok(Node::IpMatch(left, self.network(&text)?));
        }
        for (name, glob) in
            [("-strmatch", Glob::Exact), ("-strcmatch", Glob::IgnoringCase), ("-fnmatch", Glob::OfPaths)]
        {
            if self.take_word(name) {
                return Ok(Node::Glob(left, self.word()?, glob));
            }
        }
        Err(self.wrong())
    }

    fn list(&mut self) -> Result<Vec<Text>, Diagnostic> {
        if !self.take("{") {
            return Err(self.wrong());
        }
        let mut list = vec![self.word()?];
        while self.take(",") {
            list.push(self.word()?);
        }
        if self.take("}") { Ok(list) } else { Err(self.wrong()) }
    }

    fn network(&mut self, text: &Text) -> Result<ipnet::IpNet, Diagnostic> {
        let [Part::Literal(literal)] = &text.parts[..] else { return Err(self.wrong()) };
        let word = Word::new(String::from_utf8_lossy(literal).as_ref(), self.args.node.span);
        subnet(&word).map_err(|_| self.wrong())
    }

    /// `/pattern/flags`, or `m` with another separator.
    fn matches(&mut self, left: Text) -> Result<Node, Diagnostic> {
        self.skip();
        let (separator, start) = match self.rest {
            [b'/', rest @ ..] => (b'/', rest),
            [b'm', separator, rest @ ..] => (*separator, rest),
            _ => return Err(self.wrong()),
        };
        let mut text = Vec::new();
        let mut rest = start;
        loop {
            match rest {
                [b'\\', byte, tail @ ..] if *byte == separator => {
                    text.push(separator);
                    rest = tail;
                }
                [b'\\', byte, tail @ ..] => {
                    text.extend([b'\\', *byte]);
                    rest = tail;
                }
                [byte, tail @ ..] if *byte == separator => {
                    rest = tail;
                    break;
                }
                [byte, tail @ ..] => {
                    text.push(*byte);
                    rest = tail;
                }
                [] => return Err(self.wrong()),
            }
        }
        let mut flags = String::new();
        let mut ignore_case = false;
        while let [flag @ (b'i' | b's' | b'm' | b'g'), tail @ ..] = rest {
            match flag {
                b'i' => ignore_case = true,
                b's' | b'm' => flags.push(char::from(*flag)),
                _ => {}
            }
            rest = tail;
        }
        self.rest = rest;
        if !flags.is_empty() {
            text.splice(0..0, format!("(?{flags})").into_bytes());
        }
        let word = Word::new(String::from_utf8_lossy(&text).as_ref(), self.args.node.span);
        Ok(Node::Matches(left, pattern(self.args, self.loading, &word, &text, ignore_case)?))
    }

    /// A word, or several with dots between them.
    fn word(&mut self) -> Result<Text, Diagnostic> {
        let mut text = self.single()?;
        while self.take(".") {
            text.parts.extend(self.single()?.parts);
        }
        Ok(text)
    }

    fn single(&mut self) -> Result<Text, Diagnostic> {
        self.skip();
        match self.rest {
            [quote @ (b'\'' | b'"'), rest @ ..] => {
                self.rest = rest;
                self.string(Some(*quote))
            }
            [b'%', b'{', ..] | [b'$', b'0'..=b'9', ..] => {
                let part = self.part()?.ok_or_else(|| self.wrong())?;
                Ok(Text { parts: vec![part] })
            }
            [b'0'..=b'9' | b'-', ..] => {
                let length = self.rest.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count() + 1;
                let (digits, rest) = self.rest.split_at(length);
                self.rest = rest;
                Ok(Text { parts: vec![Part::Literal(digits.to_vec())] })
            }
            _ => self.call(),
        }
    }

    /// `name(word)`
    fn call(&mut self) -> Result<Text, Diagnostic> {
        let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        let length = self.rest.iter().take_while(is_name).count();
        let (name, rest) = self.rest.split_at(length);
        if length == 0 || !rest.starts_with(b"(") {
            return Err(self.wrong());
        }
        let function = self.function(name)?;
        self.rest = &rest[1..];
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong());
        }
        let argument = self.word()?;
        self.depth -= 1;
        if self.take(")") {
            Ok(Text { parts: vec![Part::Call(function, argument)] })
        } else {
            Err(self.wrong())
        }
    }

    fn function(&mut self, name: &[u8]) -> Result<Function, Diagnostic> {
        Ok(match name.to_ascii_lowercase().as_slice() {
            b"http" | b"req" | b"req_novary" => Function::RequestField,
            b"resp" => Function::ResponseField,
            b"env" | b"reqenv" => Function::Environment,
            b"tolower" => Function::Lower,
            b"toupper" => Function::Upper,
            b"escape" => Function::Escape,
            b"unescape" => Function::Unescape,
            b"base64" => Function::Base64,
            b"unbase64" => Function::Unbase64,
            b"md5" => Function::Md5,
            b"sha1" => Function::Sha1,
            b"note" => Function::Note,
            b"osenv" if self.args.node.name.text.eq_ignore_ascii_case(b"SetEnvIfExpr") => {
                let message = "\"osenv\" is empty: .htaccess files do not see the server's own environment";
                self.loading.note(Diagnostic::warn(message).at(self.args.node.span));
                Function::OwnEnvironment
            }
            b"v" => Function::PageVariable,
            _ => {
                let name = String::from_utf8_lossy(name);
                let text = format!("uses the function \"{name}\", which is not granted to .htaccess files");
                return Err(self.args.error(&text));
            }
        })
    }

    /// A text up to a quote, or to the end.
    fn string(&mut self, quote: Option<u8>) -> Result<Text, Diagnostic> {
        let (mut parts, mut literal) = (Vec::new(), Vec::new());
        loop {
            match (self.rest, quote) {
                ([], None) => break,
                ([], Some(_)) => return Err(self.wrong()),
                ([byte, rest @ ..], Some(quote)) if *byte == quote => {
                    self.rest = rest;
                    break;
                }
                ([b'\\', byte, rest @ ..], Some(_)) => {
                    literal.push(match byte {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        byte => *byte,
                    });
                    self.rest = rest;
                }
                ([b'%', b'{', ..] | [b'$', b'0'..=b'9', ..], _) => match self.part()? {
                    Some(part) => {
                        parts.push(Part::Literal(std::mem::take(&mut literal)));
                        parts.push(part);
                    }
                    None => return Err(self.wrong()),
                },
                ([byte, rest @ ..], _) => {
                    literal.push(*byte);
                    self.rest = rest;
                }
            }
        }
        if parts.is_empty() || !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Text { parts })
    }

    /// `%{NAME}`, `%{function:argument}` or `$N`.
    fn part(&mut self) -> Result<Option<Part>, Diagnostic> {
        if let [b'$', digit @ b'0'..=b'9', rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(Some(Part::Capture(digit - b'0')));
        }
        let Some(inside) = self.rest.strip_prefix(b"%{") else { return Ok(None) };
        let Some(end) = inside.iter().position(|&byte| matches!(byte, b'}' | b':')) else { return Ok(None) };
        let name = &inside[..end];
        self.rest = &inside[end + 1..];
        if inside[end] == b'}' {
            return Ok(Some(self.variable(name)?));
        }
        let function = self.function(name)?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong());
        }
        // The argument may contain variables.
        let argument = self.string(Some(b'}'))?;
        self.depth -= 1;
        Ok(Some(Part::Call(function, argument)))
    }

    fn variable(&self, name: &[u8]) -> Result<Part, Diagnostic> {
        let name = String::from_utf8_lossy(name).to_ascii_uppercase();
        if let Some(field) = variables::field(&name) {
            let argument = Text { parts: vec![Part::Literal(field.as_bytes().to_vec())] };
            return Ok(Part::Call(Function::RequestField, argument));
        }
        let variable = match name.as_str() {
            "REQUEST_FILENAME" | "SCRIPT_FILENAME" => Variable::Filename,
            "PATH_INFO" => Variable::PathInfo,
            "CONTENT_TYPE" => Variable::ContentType,
            "REQUEST_STATUS" => Variable::Status,
            "LAST_MODIFIED" => Variable::LastModified,
            "HANDLER" | "REQUEST_LOG_ID" | "CONN_LOG_ID" | "HTTP2" => Variable::Get(|_| Vec::new()),
            name => match variables::time_format(name) {
                Some(format) => Variable::Time(format),
                None => Variable::Get(variables::getter(name).ok_or_else(|| {
                    self.args.error(&format!("has an expression with an unknown variable \"{name}\""))
                })?),
            },
        };
        Ok(Part::Variable(variable))
    }
}
