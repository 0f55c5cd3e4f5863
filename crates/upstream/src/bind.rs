//! The local address of connections to servers.

use conf::Diagnostic;
use conf::value::{self, Host};
use contract::{Args, Exchange, Loading, Template};
use journal::Level;
use std::net::SocketAddr;

/// The local address of connections to servers.
#[derive(Clone, Debug)]
pub enum Bind {
    /// Always the same; port 0 is any port.
    Fixed(SocketAddr),
    /// Computed for each request.
    Chosen(Template),
}

/// Reads a `proxy_bind` or its like; `off` is `None`.
pub(crate) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Option<Bind>, Diagnostic> {
    let word = args.word(0)?;
    match args.words().get(1) {
        None if *word.text == *b"off" => return Ok(None),
        None => {}
        Some(option) if *option.text == *b"transparent" => {
            let message = "\"transparent\" is not supported (it needs rights that a worker does not have)";
            let refusal = Diagnostic::emerg(message).at(args.node.span).under(option.span);
            loading.refuse(refusal.hint("let the other server learn the client's address from a header"))?;
        }
        Some(option) => return Err(args.invalid(option)),
    }
    if word.text.contains(&b'$') {
        return loading.template(word).map(|template| Some(Bind::Chosen(template)));
    }
    let address = address(&word.text).ok_or_else(|| {
        let message = format!("invalid address \"{word}\"");
        Diagnostic::emerg(message).at(args.node.span).under(word.span)
    })?;
    Ok(Some(Bind::Fixed(address)))
}

impl Bind {
    /// The address for a request; `None` lets the system choose.
    pub(crate) fn address(&self, exchange: &Exchange) -> Option<SocketAddr> {
        let template = match self {
            Bind::Fixed(address) => return Some(*address),
            Bind::Chosen(template) => template,
        };
        let text = template.evaluate(exchange);
        let found = address(&text);
        if found.is_none() && !text.is_empty() {
            let shown = String::from_utf8_lossy(&text).into_owned();
            exchange.log(Level::Error, &format!("invalid local address \"{shown}\""));
        }
        found
    }
}

/// An IP address with or without a port. One of version 6 needs brackets only where a port follows.
fn address(text: &[u8]) -> Option<SocketAddr> {
    let is_bare = !text.starts_with(b"[") && text.iter().filter(|&&byte| byte == b':').count() > 1;
    let bracketed = if is_bare { [b"[", text, b"]"].concat() } else { text.to_vec() };
    match value::target(&bracketed, 0) {
        Ok((address, [])) => match address.host {
            Host::Ip(ip) => Some((ip, address.port).into()),
            Host::Name(_) | Host::Unix(_) => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses_with_and_without_ports() {
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1:0"),
            ("127.0.0.1:81", "127.0.0.1:81"),
            ("::1", "[::1]:0"),
            ("[::1]", "[::1]:0"),
            ("[::1]:81", "[::1]:81"),
        ] {
            assert_eq!(address(text.as_bytes()).unwrap().to_string(), expected, "{text}");
        }
        for text in ["", "localhost", "unix:/x", "127.0.0.1/", "127.0.0.1:99999", "*"] {
            assert_eq!(address(text.as_bytes()), None, "{text}");
        }
    }
}
