//! Requests in the short form that the tables use.

/// Expands the short form of a request to the bytes sent.
///
/// - Text that holds CR LF (or is empty) is sent as it stands.
/// - Else lines end in `\n`: a request line, whose version may be left out (HTTP/1.1); fields; and after an
///   empty line a body. `Host: localhost` is added to HTTP/1.1 requests without a Host, and `Content-Length`
///   where a body has no framing.
pub fn expand(short: &str) -> Vec<u8> {
    if short.is_empty() || short.contains("\r\n") {
        return short.as_bytes().to_vec();
    }
    let (head, body) = short.split_once("\n\n").map_or((short, None), |(head, body)| (head, Some(body)));
    let mut lines = head.lines();
    let line = lines.next().unwrap_or_default();
    let fields: Vec<&str> = lines.collect();
    let has = |name: &str| {
        fields.iter().any(|field| field.split(':').next().is_some_and(|have| have.eq_ignore_ascii_case(name)))
    };
    let versioned = line.rsplit(' ').next().is_some_and(|word| word.starts_with("HTTP/"));
    let mut text = line.to_owned();
    if !versioned {
        text.push_str(" HTTP/1.1");
    }
    if !has("Host") && !text.ends_with("HTTP/1.0") {
        text.push_str("\r\nHost: localhost");
    }
    for field in &fields {
        text.push_str("\r\n");
        text.push_str(field);
    }
    if let Some(body) = body.filter(|_| !has("Content-Length") && !has("Transfer-Encoding")) {
        text.push_str(&format!("\r\nContent-Length: {}", body.len()));
    }
    text.push_str("\r\n\r\n");
    text.push_str(body.unwrap_or_default());
    text.into_bytes()
}

/// The methods of the requests in `bytes`, in order, as a reader of the responses has to know them.
pub fn methods(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .filter(|line| line.rsplit(' ').next().is_some_and(|word| word.starts_with("HTTP/")))
        .filter_map(|line| line.split(' ').next().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms() {
        let expanded = |short| String::from_utf8(expand(short)).unwrap();
        assert_eq!(expanded("GET /a"), "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(expanded("GET /a\nhost: b"), "GET /a HTTP/1.1\r\nhost: b\r\n\r\n");
        assert_eq!(expanded("GET /a HTTP/1.0"), "GET /a HTTP/1.0\r\n\r\n");
        assert_eq!(
            expanded("POST /\n\nab"),
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab"
        );
        assert_eq!(expanded("GET /\r\n"), "GET /\r\n");
    }

    #[test]
    fn methods_in_order() {
        let bytes = b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.0\r\n\r\n";
        assert_eq!(methods(bytes), ["HEAD", "GET"]);
    }
}
