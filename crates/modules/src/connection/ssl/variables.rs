//! Variables about the encryption of a connection and the certificate of its client.

use contract::{Exchange, Tls, Variable};
use http::{escape, hex};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use journal::clock::Time;
use tls::PeerCertificate;

pub(super) const VARIABLES: &[Variable] = &[
    Variable::new("ssl_protocol", |exchange, _, out| put(exchange, out, |tls| Some(tls.agreed.protocol)))
        .everywhere(),
    Variable::new("ssl_cipher", |exchange, _, out| put(exchange, out, |tls| Some(tls.agreed.cipher)))
        .everywhere(),
    Variable::new("ssl_curve", |exchange, _, out| put(exchange, out, |tls| Some(tls.agreed.curve)))
        .everywhere(),
    Variable::new("ssl_ciphers", |exchange, _, out| put(exchange, out, |tls| Some(tls.offered.ciphers())))
        .everywhere(),
    Variable::new("ssl_curves", |exchange, _, out| put(exchange, out, |tls| Some(tls.offered.groups())))
        .everywhere(),
    Variable::new("ssl_sigalgs", |exchange, _, out| put(exchange, out, |tls| Some(tls.offered.schemes())))
        .everywhere(),
    Variable::new("ssl_sigalg", |exchange, _, out| {
        put(exchange, out, |tls| Some(tls.agreed.signature_algorithm))
    })
    .everywhere(),
    Variable::new("ssl_server_name", |exchange, _, out| put(exchange, out, |tls| tls.server_name.as_deref()))
        .everywhere(),
    Variable::new("ssl_alpn_protocol", |exchange, _, out| {
        put(exchange, out, |tls| tls.agreed.alpn.as_deref())
    })
    .everywhere(),
    Variable::new("ssl_session_reused", |exchange, _, out| {
        put(exchange, out, |tls| Some(if tls.agreed.resumed { "r" } else { "." }))
    })
    .everywhere(),
    Variable::new("ssl_session_id", |exchange, _, out| {
        put(exchange, out, |tls| tls.agreed.session.map(|id| hex::text(&id)))
    })
    .everywhere(),
    Variable::new("ssl_early_data", |exchange, _, out| {
        put(exchange, out, |tls| tls.early.get().then_some("1"))
    }),
    Variable::new("ssl_client_verify", |exchange, _, out| put(exchange, out, |tls| Some(verified(tls))))
        .everywhere(),
    Variable::new("ssl_client_cert", |exchange, _, out| {
        show(exchange, out, |client| client.pem().trim_end().replace('\n', "\n\t"))
    })
    .everywhere(),
    Variable::new("ssl_client_raw_cert", |exchange, _, out| show(exchange, out, PeerCertificate::pem))
        .everywhere(),
    Variable::new("ssl_client_escaped_cert", |exchange, _, out| {
        show(exchange, out, |client| {
            let mut escaped = Vec::new();
            escape::component(client.pem().as_bytes(), &mut escaped);
            escaped
        })
    })
    .everywhere(),
    Variable::new("ssl_client_s_dn", |exchange, _, out| show(exchange, out, PeerCertificate::subject))
        .everywhere(),
    Variable::new("ssl_client_i_dn", |exchange, _, out| show(exchange, out, PeerCertificate::issuer))
        .everywhere(),
    Variable::new("ssl_client_s_dn_legacy", |exchange, _, out| {
        show(exchange, out, PeerCertificate::subject_oneline)
    }),
    Variable::new("ssl_client_i_dn_legacy", |exchange, _, out| {
        show(exchange, out, PeerCertificate::issuer_oneline)
    }),
    Variable::new("ssl_client_serial", |exchange, _, out| show(exchange, out, PeerCertificate::serial))
        .everywhere(),
    Variable::new("ssl_client_fingerprint", |exchange, _, out| {
        show(exchange, out, PeerCertificate::fingerprint)
    })
    .everywhere(),
    Variable::new("ssl_client_v_start", |exchange, _, out| {
        show(exchange, out, |client| date(client.times().0))
    })
    .everywhere(),
    Variable::new("ssl_client_v_end", |exchange, _, out| {
        show(exchange, out, |client| date(client.times().1))
    })
    .everywhere(),
    Variable::new("ssl_client_v_remain", |exchange, _, out| {
        show(exchange, out, |client| {
            client.days_left(Time::now().seconds).map(|days| days.to_string()).unwrap_or_default()
        })
    })
    .everywhere(),
    Variable::new("ssl_client_sigalg", |exchange, _, out| {
        show(exchange, out, |client| client.signature_algorithm().unwrap_or_default())
    })
    .everywhere(),
];

fn verified(tls: &Tls) -> String {
    match &tls.agreed.client {
        None => "NONE".to_owned(),
        Some(client) => match client.fault {
            None => "SUCCESS".to_owned(),
            Some(fault) => format!("FAILED:{}", fault.text()),
        },
    }
}

/// A time, given in seconds since 1970, as OpenSSL prints it.
fn date(seconds: Option<i64>) -> String {
    let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    let time = time.map(|time| time.to_zoned(TimeZone::UTC).strftime("%b %e %H:%M:%S %Y GMT").to_string());
    time.unwrap_or_else(|| "Bad time value".to_owned())
}

/// Appends something about the client's certificate; there is nothing without one.
fn show<T: AsRef<[u8]>>(
    exchange: &Exchange,
    out: &mut Vec<u8>,
    value: impl FnOnce(&PeerCertificate) -> T,
) -> bool {
    put(exchange, out, |tls| tls.agreed.client.as_deref().map(value))
}

/// Appends something about the encryption; there is nothing on a connection in clear.
fn put<'a, T: AsRef<[u8]>>(
    exchange: &'a Exchange,
    out: &mut Vec<u8>,
    value: impl FnOnce(&'a Tls) -> Option<T>,
) -> bool {
    let value = exchange.connection.tls.as_deref().and_then(value);
    let Some(value) = value.filter(|value| !value.as_ref().is_empty()) else { return false };
    out.extend_from_slice(value.as_ref());
    true
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_those_of_openssl() {
        assert_eq!(date(Some(1_709_208_000)), "Feb 29 12:00:00 2024 GMT");
        assert_eq!(date(Some(5)), "Jan  1 00:00:05 1970 GMT");
        assert_eq!(
            (date(None), date(Some(i64::MAX))),
            ("Bad time value".to_owned(), "Bad time value".to_owned())
        );
    }
}
