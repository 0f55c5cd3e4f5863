//! From the head of a stream to a request.

use crate::conn::exchange::Arrival;
use crate::conn::pooled::PooledRequest;
use contract::policy::HeadPolicy;
use http::semantics::{BodyLength, Framing};
use http::{HeadError, Status};
use http2::{Code, RequestRules};
use journal::Level;

/// How heads are read.
pub(super) fn rules(policy: &HeadPolicy) -> RequestRules {
    RequestRules {
        underscores: policy.underscores_in_headers,
        ignore_invalid: policy.ignore_invalid_headers,
        max_fields: policy.max_headers,
    }
}

/// Starts a request whose head is complete or malformed. Returns the code to cancel its stream with, unless it ends in
/// order.
pub(super) fn start(
    arrival: &Arrival<'_>,
    pooled: &mut PooledRequest,
    ends: bool,
    malformed: Option<HeadError>,
) -> Code {
    if let Some(error) = malformed {
        arrival.start_broken(pooled, error);
        let is_client_at_fault = error.status == Status::BAD_REQUEST;
        return if is_client_at_fault { Code::PROTOCOL_ERROR } else { Code::INTERNAL_ERROR };
    }
    let Some(framing) = arrival.examine(pooled) else { return Code::INTERNAL_ERROR };
    let body = match framing.body {
        BodyLength::Length(1..) if ends => {
            let reason = "client prematurely closed stream";
            let error = HeadError { status: Status::BAD_REQUEST, reason, line_known: true };
            arrival.start_refused(pooled, error, Level::Info);
            return Code::PROTOCOL_ERROR;
        }
        BodyLength::None if !ends => BodyLength::Chunked,
        other => other,
    };
    arrival.start(pooled, Framing { body, ..framing });
    let is_enabled =
        pooled.exchange().scope.policy.http2.is_enabled || arrival.client.hosts().protocols.versions.http2;
    if !is_enabled && pooled.received.refused.is_none() {
        let text =
            "client attempted to request the server name for which the negotiated protocol is disabled";
        pooled.exchange().log(Level::Info, text);
        pooled.received.refused = Some(Status::MISDIRECTED_REQUEST);
    }
    Code::INTERNAL_ERROR
}
