//! Which objects a command is about.

use crate::head::Head;

/// Which objects a command is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All of them.
    All,
    /// Those whose key has this text: a response with all of its variants.
    Key(Box<[u8]>),
    /// Those whose key starts with this text.
    Prefix(Box<[u8]>),
    /// Those whose key names this host, after a scheme if it has one.
    Host(Box<[u8]>),
    /// Those whose response has this tag in `Surrogate-Key` or `xkey`.
    Tag(Box<[u8]>),
}

impl Selection {
    /// Whether an object with this head is among them.
    pub fn has(&self, head: &Head) -> bool {
        match self {
            Selection::All => true,
            Selection::Key(text) => head.key == *text,
            Selection::Prefix(text) => head.key.starts_with(text),
            Selection::Host(host) => names_host(&head.key, host),
            Selection::Tag(tag) => ["surrogate-key", "xkey"].iter().any(|name| {
                let mut tags =
                    head.fields.all(name).flat_map(|value| value.split(|byte| b" ,\t".contains(byte)));
                tags.any(|other| other == &**tag && !other.is_empty())
            }),
        }
    }
}

/// Whether a key is of a host: `http://HOST/…`, `httpHOST/…`, `httpGETHOST/…` or `HOST/…`, with or without a port.
fn names_host(key: &[u8], host: &[u8]) -> bool {
    let schemes = [&b"https://"[..], b"http://", b"https", b"http", b""];
    let methods = [&b"GET"[..], b"HEAD", b""];
    let starts = schemes.iter().flat_map(|scheme| methods.iter().map(move |method| (*scheme, *method)));
    starts.filter_map(|(scheme, method)| key.strip_prefix(scheme)?.strip_prefix(method)).any(|rest| {
        let (Some(start), Some(after)) = (rest.get(..host.len()), rest.get(host.len()..)) else {
            return false;
        };
        !host.is_empty()
            && start.eq_ignore_ascii_case(host)
            && matches!(after.first(), None | Some(b'/' | b':' | b'?'))
    })
}

#[cfg(test)]
mod tests {
    use super::Selection;
    use crate::head::Head;
    use http::Fields;

    fn head(key: &str, tags: &[(&str, &str)]) -> Head {
        let mut fields = Fields::new();
        tags.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()).unwrap());
        Head::plain(key, fields)
    }

    #[test]
    fn objects_are_chosen_by_their_key() {
        let of = |text: &str| text.as_bytes().into();
        for (selection, key, expected) in [
            (Selection::All, "x", true),
            (Selection::Key(of("http://a/b")), "http://a/b", true),
            (Selection::Key(of("http://a/b")), "http://a/bc", false),
            (Selection::Prefix(of("http://a/b")), "http://a/bc", true),
            (Selection::Prefix(of("http://a/b")), "http://a/c", false),
            (Selection::Host(of("a.example")), "http://a.example/x", true),
            (Selection::Host(of("A.example")), "https://a.example:8443/x", true),
            (Selection::Host(of("a.example")), "httpsa.example/x", true),
            (Selection::Host(of("a.example")), "a.example", true),
            (Selection::Host(of("a.example")), "httpsGETa.example/x", true),
            (Selection::Host(of("a.example")), "HEADa.example/x", true),
            (Selection::Host(of("a.example")), "httpPOSTa.example/x", false),
            (Selection::Host(of("a.example")), "http://a.example.org/x", false),
            (Selection::Host(of("a.example")), "http://b/?a.example/", false),
            (Selection::Host(of("")), "/x", false),
        ] {
            assert_eq!(selection.has(&head(key, &[])), expected, "{selection:?} {key}");
        }
    }

    #[test]
    fn objects_are_chosen_by_their_tags() {
        let tagged = head("x", &[("Surrogate-Key", "one two"), ("XKey", "three,four"), ("xkey", "five")]);
        for tag in ["one", "two", "three", "four", "five"] {
            assert!(Selection::Tag(tag.as_bytes().into()).has(&tagged), "{tag}");
        }
        for tag in ["on", "", "ONE", "one two"] {
            assert!(!Selection::Tag(tag.as_bytes().into()).has(&tagged), "{tag}");
        }
    }
}
