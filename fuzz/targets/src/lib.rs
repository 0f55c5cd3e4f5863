//! What the parsers are held to: functions that take any bytes and panic where a promise is broken.
//!
//! The fuzzer makes inputs up and runs them (`make fuzz`); the tests here run those that are kept: `seeds`, written by
//! hand, and `corpora`, which the fuzzer found worth keeping.

// A target reports by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod cache_head;
pub mod conf_parse;
pub mod conf_pattern;
pub mod conf_values;
pub mod dns_message;
pub mod fcgi_head;
pub mod fcgi_records;
pub mod gunzip;
pub mod h1_chunked;
pub mod h1_request;
pub mod h1_response;
pub mod htaccess;
pub mod htaccess_expression;
pub mod htaccess_rewrite;
pub mod http2;
pub mod http2_driver;
pub mod http3;
pub mod http_date;
pub mod httpd_conf;
pub mod mp4;
pub mod proxy_protocol;
pub mod request_fields;
pub mod request_range;
pub mod request_target;
mod served;
pub mod site;
pub mod tls_hello;

/// A parser's promises, tried on an input.
pub type Target = fn(&[u8]);

/// All of them by name.
pub const ALL: [(&str, Target); 29] = [
    ("cache_head", cache_head::run),
    ("conf_parse", conf_parse::run),
    ("conf_pattern", conf_pattern::run),
    ("conf_values", conf_values::run),
    ("dns_message", dns_message::run),
    ("fcgi_head", fcgi_head::run),
    ("fcgi_records", fcgi_records::run),
    ("gunzip", gunzip::run),
    ("h1_chunked", h1_chunked::run),
    ("h1_request", h1_request::run),
    ("h1_response", h1_response::run),
    ("htaccess", htaccess::run),
    ("htaccess_expression", htaccess_expression::run),
    ("htaccess_rewrite", htaccess_rewrite::run),
    ("http2", http2::run),
    ("http2_client", http2::run_as_client),
    ("http2_driver", http2_driver::run),
    ("http3", http3::run),
    ("http3_client", http3::run_as_client),
    ("http_date", http_date::run),
    ("httpd_conf", httpd_conf::run),
    ("mp4", mp4::run),
    ("proxy_protocol", proxy_protocol::run),
    ("qpack", http3::run_qpack),
    ("request_fields", request_fields::run),
    ("request_range", request_range::run),
    ("request_target", request_target::run),
    ("site", site::run),
    ("tls_hello", tls_hello::run),
];

/// Lengths of pieces, one to nine bytes each, without end.
fn cuts(seed: u8) -> impl Iterator<Item = usize> {
    let mut state = u32::from(seed) | 0x100;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        Some(1 + (state % 9) as usize)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::ALL;

    /// The inputs of a file in which they stand one after the other, each with its length in four bytes before it.
    fn unpacked(packed: &[u8]) -> Vec<&[u8]> {
        let mut inputs = Vec::new();
        let mut rest = packed;
        while let Some((length, behind)) = rest.split_first_chunk() {
            let (input, after) = behind.split_at(u32::from_le_bytes(*length) as usize);
            inputs.push(input);
            rest = after;
        }
        inputs
    }

    #[test]
    fn inputs_that_are_kept() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (name, target) in ALL {
            let mut count = 0;
            for entry in fs::read_dir(fuzz.join("seeds").join(name)).expect("seeds") {
                let path = entry.unwrap().path();
                let input = fs::read(&path).unwrap();
                std::panic::catch_unwind(|| target(&input)).unwrap_or_else(|_| panic!("{}", path.display()));
                count += 1;
            }
            assert!(count > 0, "no seeds for {name}");
            let packed = fs::read(fuzz.join("corpora").join(name)).unwrap_or_default();
            for input in unpacked(&packed) {
                std::panic::catch_unwind(|| target(input))
                    .unwrap_or_else(|_| panic!("{name}: {}", input.escape_ascii()));
            }
        }
    }

    /// A target without a program for the fuzzer, or one that `make fuzz` does not know, would never run.
    #[test]
    fn every_target_is_fuzzed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let makefile = fs::read_to_string(root.join("Makefile")).unwrap();
        let manifest = fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        let page = fs::read_to_string(root.join("fuzz/README.md")).unwrap();
        for (name, _) in ALL {
            assert!(root.join(format!("fuzz/fuzz_targets/{name}.rs")).exists(), "{name}");
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/Cargo.toml");
            assert!(makefile.contains(&format!(" {name}")), "{name} is not in the Makefile");
            assert!(page.contains(&format!("| `{name}` |")), "{name} is not in fuzz/README.md");
        }
    }
}
