//! Names of directives that are put together of a protocol's prefix and an option's name, while compiling.

/// More than any name has, in bytes.
const LENGTH: usize = 48;

/// What the names of a protocol's options end with, in the order of [`Options`](crate::Options) and
/// [`TlsOptions`](crate::TlsOptions).
const ENDINGS: [&str; 61] = [
    "connect_timeout",
    "send_timeout",
    "read_timeout",
    "buffering",
    "request_buffering",
    "buffer_size",
    "buffers",
    "busy_buffers_size",
    "max_temp_file_size",
    "temp_file_write_size",
    "temp_path",
    "next_upstream",
    "next_upstream_tries",
    "next_upstream_timeout",
    "bind",
    "socket_keepalive",
    "socket_rcvbuf",
    "socket_sndbuf",
    "ignore_client_abort",
    "pass_request_headers",
    "pass_request_body",
    "intercept_errors",
    "limit_rate",
    "hide_header",
    "pass_header",
    "ignore_headers",
    "force_ranges",
    "store",
    "store_access",
    "cache_path",
    "cache",
    "cache_key",
    "cache_valid",
    "cache_methods",
    "cache_min_uses",
    "cache_bypass",
    "no_cache",
    "cache_lock",
    "cache_lock_timeout",
    "cache_lock_age",
    "cache_use_stale",
    "cache_background_update",
    "cache_revalidate",
    "cache_max_range_offset",
    "cache_purge",
    "cache_rules",
    "cache_heuristic",
    "ssl_certificate",
    "ssl_certificate_cache",
    "ssl_certificate_key",
    "ssl_password_file",
    "ssl_ciphers",
    "ssl_protocols",
    "ssl_conf_command",
    "ssl_crl",
    "ssl_name",
    "ssl_server_name",
    "ssl_session_reuse",
    "ssl_trusted_certificate",
    "ssl_verify",
    "ssl_verify_depth",
];

#[derive(Clone, Copy, Debug)]
struct Name {
    bytes: [u8; LENGTH],
    length: usize,
}

/// The names of one protocol's options.
#[derive(Debug)]
pub struct Names([Name; ENDINGS.len()]);

impl Names {
    /// The names that start with this prefix, such as `proxy_`.
    pub const fn new(prefix: &str) -> Names {
        let mut names = [Name { bytes: [0; LENGTH], length: 0 }; ENDINGS.len()];
        let mut at = 0;
        while at < ENDINGS.len() {
            names[at] = Name::new(prefix.as_bytes(), ENDINGS[at].as_bytes());
            at += 1;
        }
        Names(names)
    }

    /// The whole name that ends so; empty for what is no option.
    pub(crate) const fn of(&'static self, ending: &str) -> &'static str {
        let mut at = 0;
        while at < ENDINGS.len() {
            if same(ENDINGS[at].as_bytes(), ending.as_bytes()) {
                return self.0[at].text();
            }
            at += 1;
        }
        ""
    }
}

impl Name {
    const fn new(prefix: &[u8], ending: &[u8]) -> Name {
        let mut name = Name { bytes: [0; LENGTH], length: prefix.len() + ending.len() };
        let mut at = 0;
        while at < name.length {
            name.bytes[at] = if at < prefix.len() { prefix[at] } else { ending[at - prefix.len()] };
            at += 1;
        }
        name
    }

    const fn text(&'static self) -> &'static str {
        match std::str::from_utf8(self.bytes.split_at(self.length).0) {
            Ok(text) => text,
            Err(_) => "",
        }
    }
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{ENDINGS, Names};

    static NAMES: Names = Names::new("proxy_");

    #[test]
    fn names_are_put_together() {
        assert_eq!(NAMES.of("next_upstream"), "proxy_next_upstream");
        assert_eq!(NAMES.of("temp_file_write_size"), "proxy_temp_file_write_size");
        assert_eq!(NAMES.of("next"), "");
        assert!(ENDINGS.iter().all(|ending| NAMES.of(ending).ends_with(ending)));
    }
}
