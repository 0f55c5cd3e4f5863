//! The static table (RFC 7541, appendix A).

use field_codes::StaticTable;

static TABLE: StaticTable<61> = StaticTable::new(&STATIC);

/// The index of a name in the static table, from 1 on, and whether the value there is the same. An empty value is never
/// the same.
pub(super) fn find_static(name: &[u8], value: &[u8]) -> (Option<usize>, bool) {
    match TABLE.find(name, value) {
        Some((place, is_whole)) => (Some(place + 1), is_whole && !value.is_empty()),
        None => (None, false),
    }
}

/// Its entries. The first one has the index 1.
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::{STATIC, find_static};

    #[test]
    fn static_names_are_found() {
        for (index, (name, value)) in STATIC.iter().enumerate() {
            let first = STATIC.iter().position(|(other, _)| other == name).unwrap();
            assert_eq!(find_static(name.as_bytes(), b"another"), (Some(first + 1), false), "{name}");
            let whole = (Some(index + 1), !value.is_empty());
            assert_eq!(find_static(name.as_bytes(), value.as_bytes()), whole, "{name}: {value}");
        }
        assert_eq!(find_static(b"x", b""), (None, false));
    }
}
