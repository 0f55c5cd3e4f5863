//! When an authority suggests to renew a certificate (ARI, RFC 9773).

use bytes::Bytes;
use http::base64::encode_url;
use http_types::{Request, Response};
use instant_acme::CertificateIdentifier;
use jiff::Timestamp;
use serde::Deserialize;
use tls::Pair;

use crate::connection::Client;
use crate::plan::Issuer;

const HOUR: i64 = 3600;

/// How long to wait before the next question, in seconds: the least, the usual, and the most.
const PAUSES: [i64; 3] = [HOUR, 6 * HOUR, 24 * HOUR];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Directory {
    renewal_info: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RenewalInfo {
    suggested_window: Window,
    #[serde(rename = "explanationURL")]
    explanation_url: Option<String>,
}

#[derive(Deserialize)]
struct Window {
    start: String,
    end: String,
}

/// What an authority suggests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suggestion {
    /// When to renew, in seconds since 1970.
    pub(crate) renew_at: i64,
    /// Where the reason is explained, if there is one.
    pub(crate) explanation: Option<String>,
}

/// How an authority names the certificate of this text, a file of [`crate::state`].
pub(crate) fn identifier(text: &[u8]) -> Option<CertificateIdentifier<'static>> {
    let pair = Pair::from_pem(text, text, b"").ok()?;
    let (key, serial) = pair.issued_as()?;
    Some(CertificateIdentifier {
        authority_key_identifier: encode_url(key).into(),
        serial: encode_url(serial).into(),
    })
}

/// Asks for a suggestion; `None` from an authority that makes none. Gives also how many seconds to wait before the next
/// question. The number chooses a moment of the suggested time.
///
/// # Errors
/// Why there is no answer, in words.
pub(crate) fn ask(
    issuer: &Issuer,
    certificate: &CertificateIdentifier<'_>,
    number: u64,
) -> Result<(Option<Suggestion>, i64), String> {
    let client = Client::new(issuer)?;
    let directory: Directory = get(&client, &issuer.uri)?;
    let Some(url) = directory.renewal_info else { return Ok((None, PAUSES[2])) };
    let CertificateIdentifier { authority_key_identifier: key, serial } = certificate;
    let info: RenewalInfo = get(&client, &format!("{}/{key}.{serial}", url.trim_end_matches('/')))?;
    let [begin, end] = [&info.suggested_window.start, &info.suggested_window.end].map(|text| seconds(text));
    let (Some(begin), Some(end)) = (begin, end) else {
        return Err("a suggested time cannot be read".to_owned());
    };
    let pause = client.last().retry_after.and_then(|text| text.parse().ok()).unwrap_or(PAUSES[1]);
    let suggestion = Suggestion { renew_at: moment(begin, end, number), explanation: info.explanation_url };
    Ok((Some(suggestion), pause.clamp(PAUSES[0], PAUSES[2])))
}

fn get<T: for<'a> Deserialize<'a>>(client: &Client, url: &str) -> Result<T, String> {
    let request = Request::get(url).body(Vec::new()).map_err(|error| error.to_string())?;
    let response: Response<Bytes> = client.exchange(&request)?;
    if !response.status().is_success() {
        return Err(format!("{url} answered with {}", response.status().as_u16()));
    }
    serde_json::from_slice(response.body()).map_err(|error| format!("{url}: {error}"))
}

fn seconds(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_second)
}

/// A moment between two times; the first one if they are in the wrong order.
fn moment(begin: i64, end: i64, number: u64) -> i64 {
    let length = end.saturating_sub(begin).max(0);
    begin.saturating_add(length / 1000 * i64::try_from(number % 1000).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_spread_over_the_suggested_time() {
        assert_eq!([moment(1000, 3000, 0), moment(1000, 3000, 999)], [1000, 2998]);
        assert_eq!(moment(3000, 1000, 7), 3000);
        assert_eq!(seconds("2025-01-02T04:00:00Z"), Some(1_735_790_400));
        assert_eq!(seconds("2025-01-02T04:00:00+01:00"), Some(1_735_786_800));
        assert_eq!(seconds("tomorrow"), None);
    }
}
