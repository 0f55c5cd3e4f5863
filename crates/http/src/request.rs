//! The head of a request: its line and its fields.

use crate::{Fields, Method, Version};

/// A request head. It owns its bytes and is meant to be cleared and filled again.
#[derive(Clone, Debug)]
pub struct RequestHead {
    line: Vec<u8>,
    method: Method,
    method_length: usize,
    target: (usize, usize),
    /// The protocol version of the request line.
    pub version: Version,
    /// The fields, in the order and case of the wire.
    pub fields: Fields,
    /// Lines of fields that were left out, each with a line feed.
    ignored: Vec<u8>,
}

impl RequestHead {
    /// An empty head.
    pub fn new() -> RequestHead {
        RequestHead {
            line: Vec::new(),
            method: Method::Other,
            method_length: 0,
            target: (0, 0),
            version: Version::Http11,
            fields: Fields::new(),
            ignored: Vec::new(),
        }
    }

    /// Makes it what [`RequestHead::new`] gives, and keeps the memory.
    pub fn clear(&mut self) {
        let RequestHead { line, method, method_length, target, version, fields, ignored } = self;
        line.clear();
        (*method, *method_length, *target, *version) = (Method::Other, 0, (0, 0), Version::Http11);
        fields.clear();
        ignored.clear();
    }

    /// Sets the request line. `line` is the whole line without its end, `target` the range of the
    /// request target in it; the method is what stands before the first space.
    pub fn set_line(&mut self, line: &[u8], target: (usize, usize), version: Version) {
        self.line.clear();
        self.line.extend_from_slice(line);
        let is_get = line.starts_with(b"GET ");
        self.method_length =
            if is_get { 3 } else { line.iter().position(|&byte| byte == b' ').unwrap_or(line.len()) };
        self.method = Method::from_bytes(&line[..self.method_length]);
        self.target = (target.0.min(line.len()), target.1.min(line.len()));
        self.version = version;
    }

    /// Sets a request line of this method, target and version.
    pub fn set_line_of(&mut self, method: &[u8], target: &[u8], version: Version) {
        self.line.clear();
        for part in [method, b" ", target, b" ", version.as_str().as_bytes()] {
            self.line.extend_from_slice(part);
        }
        self.method_length = method.len();
        self.method = Method::from_bytes(method);
        self.target = (method.len() + 1, method.len() + 1 + target.len());
        self.version = version;
    }

    /// Sets what came of a request line whose end did not: it names neither a method nor a target.
    pub fn set_beginning(&mut self, line: &[u8]) {
        self.set_line(line, (0, 0), Version::Http09);
        (self.method, self.method_length) = (Method::from_bytes(b""), 0);
    }

    /// Leaves a field out, whose line without its end this is (`ignore_invalid_headers`).
    pub fn ignore(&mut self, line: &[u8]) {
        self.ignored.extend_from_slice(line);
        self.ignored.push(b'\n');
    }

    /// How much memory the head has, in bytes.
    pub fn memory(&self) -> usize {
        self.line.capacity() + self.ignored.capacity() + self.fields.memory()
    }

    /// The lines of fields that were left out.
    pub fn ignored(&self) -> impl Iterator<Item = &[u8]> {
        self.ignored.split(|&byte| byte == b'\n').filter(|line| !line.is_empty())
    }

    /// The request line as it was sent, without its end (`$request`).
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The name of the method as it was sent.
    pub fn method_name(&self) -> &[u8] {
        &self.line[..self.method_length]
    }

    /// The request target as it was sent: origin-form, absolute-form, authority-form or `*`
    /// (RFC 9112, section 3.2).
    pub fn target(&self) -> &[u8] {
        &self.line[self.target.0..self.target.1]
    }
}

impl Default for RequestHead {
    fn default() -> RequestHead {
        RequestHead::new()
    }
}
