//! Accepts the PROXY protocol, by which a proxy sends the addresses of its clients.
//!
//! With `listen … proxy_protocol`, every connection to that address begins with a header of the PROXY protocol,
//! version 1 or 2. It comes before the request, and before the TLS handshake if the address has `ssl`.
//! `$proxy_protocol_addr` and `$proxy_protocol_port` are the client of the proxy. `$proxy_protocol_server_addr` and
//! `$proxy_protocol_server_port` are the address that this client connected to. They are empty if the proxy opened
//! the connection for itself (`UNKNOWN`, `LOCAL`).
//!
//! `$proxy_protocol_tlv_NAME` is a further value of version 2. NAME is a number, such as `0x05`, or `alpn`,
//! `authority`, `unique_id`, `ssl` or `netns`. The values inside of `ssl` are `ssl_version`, `ssl_cn`, `ssl_cipher`,
//! `ssl_sig_alg`, `ssl_key_alg` and `ssl_0x21` …; `ssl_verify` is 0 if the client's certificate is valid. Values of
//! cloud providers are `aws_vpce_id`, `azure_pel_id` and `gcp_conn_id`.
//!
//! A connection without a valid header is closed, and so is one whose header does not arrive within
//! `client_header_timeout`. A client that can connect to this port can pretend to have any IP address, so let only the
//! proxy connect. Write `set_real_ip_from` and `real_ip_header proxy_protocol` to use the client's address in access
//! rules, limits and logs. The first line of this example comes from the proxy, the rest from its client:
//!
//! ```conf
//! server {
//!     listen 8080 proxy_protocol;
//!     set_real_ip_from 127.0.0.1;
//!     real_ip_header   proxy_protocol;
//!     location / {
//!         return 200 "$proxy_protocol_addr connected to $proxy_protocol_server_addr; client: $remote_addr\n";
//!     }
//! }
//! ```
//!
//! ```http
//! PROXY TCP4 192.0.2.7 198.51.100.1 50000 80
//! GET / HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! 192.0.2.7 connected to 198.51.100.1; client: 192.0.2.7
//! ```

use contract::{Exchange, Module, PassedConnection, Variable};
use proxy_protocol::proxy_value;
use std::io::Write;
use std::net::SocketAddr;

/// What a proxy tells of its client.
pub static MODULE: Module = Module {
    name: "proxy_protocol",
    directives: &[],
    variables: &[
        Variable::new("proxy_protocol_addr", |exchange, _, out| address(exchange, |it| it.client, out))
            .everywhere(),
        Variable::new("proxy_protocol_port", |exchange, _, out| port(exchange, |it| it.client, out))
            .everywhere(),
        Variable::new("proxy_protocol_server_addr", |exchange, _, out| {
            address(exchange, |it| it.server, out)
        })
        .everywhere(),
        Variable::new("proxy_protocol_server_port", |exchange, _, out| port(exchange, |it| it.server, out))
            .everywhere(),
        Variable::family("proxy_protocol_tlv_", value).everywhere(),
    ],
    compile: None,
};

/// The value that has others inside.
const SSL: u8 = 0x20;

/// What stands in front of those: a byte of flags, and the result of the verification.
const SSL_HEAD: usize = 5;

/// Names of values, and of values inside of [`SSL`].
const NAMES: [(&str, u8); 5] =
    [("alpn", 0x01), ("authority", 0x02), ("unique_id", 0x05), ("ssl", SSL), ("netns", 0x30)];
const SSL_NAMES: [(&str, u8); 5] =
    [("version", 0x21), ("cn", 0x22), ("cipher", 0x23), ("sig_alg", 0x24), ("key_alg", 0x25)];

fn address(exchange: &Exchange, end: fn(&PassedConnection) -> SocketAddr, out: &mut Vec<u8>) -> bool {
    let Some(passed) = &exchange.connection.passed else { return false };
    // Writing to memory does not fail.
    write!(out, "{}", end(passed).ip()).is_ok()
}

fn port(exchange: &Exchange, end: fn(&PassedConnection) -> SocketAddr, out: &mut Vec<u8>) -> bool {
    let Some(passed) = &exchange.connection.passed else { return false };
    let port = end(passed).port();
    port == 0 || write!(out, "{port}").is_ok()
}

fn value(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let Some(passed) = &exchange.connection.passed else { return false };
    find(&passed.values, name, out).is_some()
}

/// Appends the value of this name.
fn find(values: &[u8], name: &str, out: &mut Vec<u8>) -> Option<()> {
    let found = match name.strip_prefix("ssl_") {
        Some("verify") => {
            let ssl = proxy_value(values, SSL)?.first_chunk::<SSL_HEAD>()?;
            let [_, verified @ ..] = *ssl;
            return write!(out, "{}", u32::from_be_bytes(verified)).ok();
        }
        Some(name) => {
            let inner = proxy_value(values, SSL)?.get(SSL_HEAD..)?;
            proxy_value(inner, kind(&SSL_NAMES, name)?)?
        }
        None => match name {
            // The first byte says what the value is.
            "aws_vpce_id" => proxy_value(values, 0xea)?.strip_prefix(&[1])?,
            "azure_pel_id" => {
                let id = proxy_value(values, 0xee)?.strip_prefix(&[1])?.first_chunk()?;
                return write!(out, "{}", u32::from_le_bytes(*id)).ok();
            }
            "gcp_conn_id" => {
                let id = proxy_value(values, 0xe0)?.first_chunk()?;
                return write!(out, "{}", u64::from_be_bytes(*id)).ok();
            }
            name => proxy_value(values, kind(&NAMES, name)?)?,
        },
    };
    out.extend_from_slice(found);
    Some(())
}

fn kind(names: &[(&str, u8)], name: &str) -> Option<u8> {
    match name.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits.trim_start_matches('0'), 16).ok(),
        None => names.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind),
    }
}

#[cfg(test)]
mod tests {
    use super::find;

    fn made(kind: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[kind], &length[..], content].concat()
    }

    #[test]
    fn values_by_their_names() {
        let inner = [made(0x21, b"TLSv1.3"), made(0x22, b"example.org")].concat();
        let values = [
            made(0x01, b"h2"),
            made(0x20, &[&[1, 0, 0, 1, 0][..], &inner].concat()),
            made(0xae, b"own"),
            made(0xea, b"\x01vpce-08d2bf15fac5001c9"),
            made(0xee, b"\x01\x02\x01\0\0"),
            made(0xe0, b"\0\0\0\0\0\0\x01\0"),
        ]
        .concat();
        for (name, expected) in [
            ("alpn", Some("h2")),
            ("0x1", Some("h2")),
            ("0x0001", Some("h2")),
            ("authority", None),
            ("ssl_verify", Some("256")),
            ("ssl_version", Some("TLSv1.3")),
            ("ssl_0x22", Some("example.org")),
            ("ssl_alpn", None),
            ("version", None),
            ("0xae", Some("own")),
            ("0xAE", Some("own")),
            ("0x1ae", None),
            ("0x", None),
            ("nonsense", None),
            ("aws_vpce_id", Some("vpce-08d2bf15fac5001c9")),
            ("azure_pel_id", Some("258")),
            ("gcp_conn_id", Some("256")),
        ] {
            let mut out = Vec::new();
            let found = find(&values, name, &mut out).map(|()| String::from_utf8(out).unwrap());
            assert_eq!(found.as_deref(), expected, "{name}");
        }
        let short = made(0x20, b"\x01\0");
        assert_eq!(find(&short, "ssl_verify", &mut Vec::new()), None);
        assert_eq!(find(&short, "ssl_cn", &mut Vec::new()), None);
    }
}
