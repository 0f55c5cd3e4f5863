//! What a browser adds to requests: a kept connection, cookies, redirects, and forms that are sent as shown.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use crate::client::Client;
use crate::response::Response;

/// An application's answer never takes longer to come.
const PATIENCE: Duration = Duration::from_secs(60);
/// No page leads further.
const REDIRECTS: usize = 5;
const FORM: &str = "application/x-www-form-urlencoded";
/// Separates the parts of a form with files; no content holds it.
const BOUNDARY: &str = "----fulmar-browser-boundary";

/// A visitor of one site.
#[derive(Debug)]
pub struct Browser {
    address: SocketAddr,
    connection: Option<Client>,
    cookies: BTreeMap<String, String>,
}

/// What is sent with a request.
#[derive(Debug, Default)]
pub struct Sent<'a> {
    /// Fields besides those that every request has.
    pub fields: &'a [(&'a str, &'a str)],
    /// Type of the body; empty where there is none.
    pub content_type: &'a str,
    /// The body.
    pub body: &'a [u8],
}

impl Browser {
    /// A visitor of the site at this address, with no cookies yet.
    pub fn new(address: SocketAddr) -> Browser {
        Browser { address, connection: None, cookies: BTreeMap::new() }
    }

    /// The cookies that are kept.
    pub fn cookies(&self) -> &BTreeMap<String, String> {
        &self.cookies
    }

    /// Asks for a path, and does not follow a redirect.
    pub fn get(&mut self, path: &str) -> Response {
        self.request("GET", path, &Sent::default())
    }

    /// Asks for a path and follows redirects.
    pub fn visit(&mut self, path: &str) -> Response {
        let mut response = self.get(path);
        for _ in 0..REDIRECTS {
            let Some(next) = self.redirect(&response) else { return response };
            response = self.get(&next);
        }
        panic!("{path} leads round in a circle: {response}");
    }

    /// The path that a response sends the browser to; `None` where it does not, or to another site.
    pub fn redirect(&self, response: &Response) -> Option<String> {
        let location = response.field("Location").filter(|_| (300..400).contains(&response.status))?;
        self.path_of(location)
    }

    /// The path of an address on this site.
    pub fn path_of(&self, address: &str) -> Option<String> {
        if address.starts_with('/') {
            return Some(address.to_owned());
        }
        address.strip_prefix(&format!("http://{}", self.address)).map(str::to_owned)
    }

    /// Sends the form of a page whose opening tag holds `mark` to `path`, with these fields filled in.
    pub fn submit(&mut self, path: &str, page: &Response, mark: &str, filled: &[(&str, &str)]) -> Response {
        let text = page.text();
        let mut fields = form(&text, mark).unwrap_or_else(|| panic!("no form {mark:?} in {text}"));
        fields.extend(filled.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
        let body: Vec<String> =
            fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        self.request("POST", path, &Sent { fields: &[], content_type: FORM, body: body.join("&").as_bytes() })
    }

    /// Sends a file as the field `file` of a form of several parts (RFC 7578).
    pub fn upload(
        &mut self,
        path: &str,
        (name, kind): (&str, &str),
        content: &[u8],
        fields: &[(&str, &str)],
    ) -> Response {
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             Content-Type: {kind}\r\n\r\n"
        );
        let body = [head.as_bytes(), content, format!("\r\n--{BOUNDARY}--\r\n").as_bytes()].concat();
        let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
        self.request("POST", path, &Sent { fields, content_type: &content_type, body: &body })
    }

    /// Sends a request and waits for its response. Panics when there is none, or one without its end.
    pub fn request(&mut self, method: &str, path: &str, sent: &Sent<'_>) -> Response {
        let bytes = [self.head(method, path, sent).as_bytes(), sent.body].concat();
        let mut client = self.connection.take().unwrap_or_else(|| Client::connect(self.address));
        client.extend(PATIENCE);
        client.send(&bytes);
        let response = client.response_within(method, PATIENCE);
        let response = response.unwrap_or_else(|| panic!("no answer to {method} {path}"));
        assert_eq!(response.broken, None, "{method} {path}: {response}");
        if !response.announces_close() {
            self.connection = Some(client);
        }
        self.keep_cookies(&response);
        response
    }

    fn head(&self, method: &str, path: &str, sent: &Sent<'_>) -> String {
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: browser\r\n", self.address);
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !cookies.is_empty() {
            let _ = write!(head, "Cookie: {}\r\n", cookies.join("; "));
        }
        if !sent.content_type.is_empty() {
            let (kind, length) = (sent.content_type, sent.body.len());
            let _ = write!(head, "Content-Type: {kind}\r\nContent-Length: {length}\r\n");
        }
        for (name, value) in sent.fields {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head + "\r\n"
    }

    fn keep_cookies(&mut self, response: &Response) {
        for (name, value) in &response.fields {
            let pair = value.split(';').next().unwrap_or_default();
            if let Some((cookie, content)) = pair.split_once('=')
                && name.eq_ignore_ascii_case("Set-Cookie")
            {
                self.cookies.insert(cookie.to_owned(), content.to_owned());
            }
        }
    }
}

/// The fields that a form, whose opening tag holds `mark`, sends before anything is filled in.
pub fn form(html: &str, mark: &str) -> Option<Vec<(String, String)>> {
    let mut forms = html.split("<form").skip(1).filter_map(|rest| rest.split_once('>'));
    let (_, content) = forms.find(|(tag, _)| tag.contains(mark))?;
    let content = content.split("</form").next().unwrap_or_default();
    Some(content.split("<input").skip(1).filter_map(input).collect())
}

/// What is between two texts in another.
pub fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found)
}

/// Name and value of an input, given from after its tag's name; `None` where it is not sent.
fn input(rest: &str) -> Option<(String, String)> {
    let tag = rest.split('>').next().unwrap_or_default();
    let attributes = attributes(tag);
    let attribute = |name: &str| attributes.get(name).map_or("", String::as_str);
    let is_sent = match attribute("type") {
        "submit" | "button" | "file" | "image" | "reset" => false,
        "checkbox" | "radio" => attributes.contains_key("checked"),
        _ => true,
    };
    let name = attribute("name");
    (is_sent && !name.is_empty()).then(|| (name.to_owned(), attribute("value").to_owned()))
}

fn attributes(tag: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = tag.trim_start();
    while !rest.is_empty() && !rest.starts_with('/') {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let name = rest[..end].to_owned();
        rest = &rest[end..];
        let mut value = "";
        if let Some(quote) = rest.strip_prefix('=').and_then(|rest| rest.chars().next())
            && matches!(quote, '"' | '\'')
        {
            (value, rest) = rest[2..].split_once(quote).unwrap_or((&rest[2..], ""));
        }
        found.insert(name, unescape(value));
        rest = rest.trim_start_matches('=').trim_start();
    }
    found
}

fn unescape(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&#039;", "'").replace("&lt;", "<").replace("&amp;", "&")
}

fn encode(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_form_holds() {
        let html = "<form id=\"other\"><input name=x value=y></form>\n<form method='post' id=\"it\">\
            <input type=\"hidden\" name=\"nonce\" value=\"a&amp;b\" /><input name='text' value='' required>\
            <input type=\"checkbox\" name=\"off\" value=\"1\"/>\
            <input type=\"checkbox\" name=\"on\" value=\"1\" checked='checked' />\
            <input type=\"submit\" name=\"go\" value=\"Go\"></form><input name=\"after\">";
        let fields = form(html, "id=\"it\"").unwrap();
        let pairs: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("nonce", "a&b"), ("text", ""), ("on", "1")]);
        assert_eq!(form(html, "id=\"none\""), None);
        assert_eq!(encode("a b/%ä"), "a%20b%2F%25%C3%A4");
    }
}
