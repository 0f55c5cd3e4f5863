//! The header of a proxy in front of a connection: the same header, or the same refusal, however the bytes arrive.

use proxy_protocol::{parse_proxy_header, proxy_value};

/// The longest header that is taken, in bytes.
const LONGEST: usize = 4096;

/// Holds the reader to it.
pub fn run(input: &[u8]) {
    let whole = parse_proxy_header(input);
    let mut end = 0;
    for cut in super::cuts(input.first().copied().unwrap_or_default()) {
        end = (end + cut).min(input.len());
        let now = parse_proxy_header(&input[..end]);
        if now != Ok(None) {
            assert_eq!(now, whole, "judged at {end}");
            break;
        }
        if end == input.len() {
            assert_eq!(whole, Ok(None));
            assert!(end < LONGEST, "nothing is waited for");
            break;
        }
    }
    if let Ok(Some(header)) = whole {
        assert!(header.length <= LONGEST.min(input.len()));
        if let Some(passed) = header.passed {
            assert_eq!(passed.client.is_ipv4(), passed.server.is_ipv4());
            for kind in 0..=u8::MAX {
                let value = proxy_value(passed.values, kind);
                assert!(value.is_none_or(|value| value.len() + 3 <= passed.values.len()));
            }
        }
    }
}
