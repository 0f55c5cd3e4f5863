//! Whether a request, or a session of `stream`, may go on with the certificate that its client showed in the handshake, or
//! without one.

use super::client::Client;
use contract::VerifyClient;
use engine::Flow;
use http::Status;
use journal::Level;
use std::sync::Arc;
use tls::PeerCertificate;

/// A client showed no certificate, where one is needed.
const NO_CERTIFICATE: Status = Status(496);
/// The certificate is wrong.
const BAD_CERTIFICATE: Status = Status(495);

/// The status that ends a request on an encrypted connection, if its server was chosen and does not accept the client.
pub(super) fn check(client: &Client, flow: &mut Flow) -> Option<Status> {
    let verify = flow.exchange.scope.policy.tls.as_deref().map_or(VerifyClient::Off, |tls| tls.verify);
    if verify == VerifyClient::Off {
        return None;
    }
    let tls = client.info.tls.as_deref()?;
    let certificate = tls.agreed.client.as_deref();
    let is_other_name = client.named.is_some()
        && tls.server_name.as_ref().is_none_or(|name| *name.as_bytes() != *flow.exchange.request.host);
    // The client was not asked for what this server wants to see.
    let is_other_check =
        certificate.is_some() && !client.hosts().checks_clients_like(client.named.as_ref(), flow.server());
    if is_other_name || is_other_check {
        let text = "client attempted to request the server name different from the one that was negotiated";
        flow.choose(&Arc::clone(client.default_server()));
        flow.exchange.log(Level::Info, &format!("{text} while reading client request headers"));
        return Some(Status::MISDIRECTED_REQUEST);
    }
    let (status, text) = refusal(verify, certificate)?;
    flow.exchange.log(Level::Info, &format!("{text} while reading client request headers"));
    Some(status)
}

/// Why a session of `stream` may not begin, whose server was chosen and does not accept the client.
pub(super) fn refuses_session(client: &Client) -> Option<String> {
    let verify = client.default_policy().tls.as_deref().map_or(VerifyClient::Off, |tls| tls.verify);
    let tls = client.info.tls.as_deref().filter(|_| verify != VerifyClient::Off)?;
    refusal(verify, tls.agreed.client.as_deref()).map(|(_, text)| text)
}

/// The status of a refused client, and the reason for the log.
fn refusal(verify: VerifyClient, certificate: Option<&PeerCertificate>) -> Option<(Status, String)> {
    let fault = certificate.and_then(|certificate| certificate.fault);
    let fault = fault.filter(|fault| verify != VerifyClient::OptionalNoCa || !fault.is_unknown_authority());
    if let Some(fault) = fault {
        return Some((BAD_CERTIFICATE, format!("client SSL certificate verify error: {fault}")));
    }
    let is_missing = verify == VerifyClient::On && certificate.is_none();
    is_missing.then(|| (NO_CERTIFICATE, "client sent no required SSL certificate".to_owned()))
}
