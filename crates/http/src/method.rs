//! Request methods (RFC 9110, section 9; RFC 4918 for WebDAV; RFC 5789 for PATCH).

/// A request method. Methods are case-sensitive; a name that is not listed is `Other`, whose bytes stay
/// in the [`RequestHead`](crate::RequestHead).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each variant is the method of that name")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Connect,
    Options,
    Trace,
    Patch,
    Mkcol,
    Copy,
    Move,
    Propfind,
    Proppatch,
    Lock,
    Unlock,
    #[default]
    Other,
}

const NAMES: [(&str, Method); 16] = [
    ("GET", Method::Get),
    ("HEAD", Method::Head),
    ("POST", Method::Post),
    ("PUT", Method::Put),
    ("DELETE", Method::Delete),
    ("CONNECT", Method::Connect),
    ("OPTIONS", Method::Options),
    ("TRACE", Method::Trace),
    ("PATCH", Method::Patch),
    ("MKCOL", Method::Mkcol),
    ("COPY", Method::Copy),
    ("MOVE", Method::Move),
    ("PROPFIND", Method::Propfind),
    ("PROPPATCH", Method::Proppatch),
    ("LOCK", Method::Lock),
    ("UNLOCK", Method::Unlock),
];

impl Method {
    /// The method with this exact name.
    pub fn from_bytes(name: &[u8]) -> Method {
        if name == b"GET" {
            return Method::Get;
        }
        NAMES.iter().find(|(known, _)| known.as_bytes() == name).map_or(Method::Other, |&(_, method)| method)
    }

    /// The name, or `None` for `Other`.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(_, method)| *method == self).map(|&(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::Method;

    #[test]
    fn names_are_case_sensitive() {
        assert_eq!(Method::from_bytes(b"GET"), Method::Get);
        assert_eq!(Method::from_bytes(b"get"), Method::Other);
        assert_eq!(Method::from_bytes(b"GETX"), Method::Other);
        assert_eq!(Method::Propfind.name(), Some("PROPFIND"));
    }
}
