//! Connections to servers over TLS.

use crate::client_tls::{ClientTls, VariablePair};
use crate::server::Server;
use contract::{Exchange, Pem};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tls::{ClientPolicy, Failure, Pair, Session};
use wire::Job;

/// How the servers of a request are spoken to over TLS. Connections are kept for requests with an equal one only.
#[derive(Clone, Debug)]
pub struct Secured {
    /// The settings of the location.
    policy: Arc<ClientPolicy>,
    /// The name that certificates are verified against, and that may be sent to servers (SNI).
    name: Arc<str>,
    /// The certificate that is to be found before the first connection.
    wanted: Option<Box<Wanted>>,
}

/// A certificate that variables named.
#[derive(Clone, Debug)]
struct Wanted {
    source: Arc<VariablePair>,
    pems: (Pem, Pem),
}

impl PartialEq for Secured {
    fn eq(&self, other: &Secured) -> bool {
        Arc::ptr_eq(&self.policy, &other.policy) && self.name == other.name
    }
}

impl Secured {
    /// How the servers of a request are spoken to, which are checked for this name.
    pub fn new(tls: &ClientTls, name: Arc<str>, exchange: &Exchange) -> Secured {
        let wanted = tls.variable.as_ref().and_then(|source| {
            let wanted = Wanted { source: Arc::clone(source), pems: source.pems(exchange)? };
            Some(Box::new(wanted))
        });
        Secured { policy: Arc::clone(&tls.policy), name, wanted }
    }

    /// A session with a server.
    ///
    /// # Errors
    /// No certificate can be for the name.
    pub(crate) fn session(&self, server: &Server) -> Result<Session, Failure> {
        Session::connect(&self.policy, &self.name, &server.name)
    }

    /// Whether a certificate has to be found first.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.wanted.is_some()
    }

    /// Finds the certificate of the request, if need be in files. That does not block the event loop.
    ///
    /// # Errors
    /// The message for the log if the certificate or its key cannot be used.
    pub(crate) fn poll_complete(
        &mut self,
        cx: &mut Context<'_>,
        reading: &mut Option<Reading>,
    ) -> Poll<Result<(), String>> {
        let Some(wanted) = &self.wanted else { return Poll::Ready(Ok(())) };
        let found = match reading {
            None => wanted.source.finder.known(&wanted.pems).map(Ok),
            Some(_) => None,
        };
        let found = match found {
            Some(found) => found,
            None => {
                let begin = || {
                    let Wanted { source, pems } = (**wanted).clone();
                    Job::start(move || Ok(source.finder.find(&pems).map_err(|error| error.message)))
                };
                let done = ready!(Pin::new(reading.get_or_insert_with(begin)).poll(cx));
                done.unwrap_or_else(|error| Err(error.to_string()))
            }
        };
        *reading = None;
        let policy = found.map(|pair| wanted.source.policy(&self.policy, &pair));
        self.wanted = None;
        Poll::Ready(policy.map(|policy| self.policy = policy))
    }
}

/// A certificate that is being read.
pub(crate) type Reading = Job<Result<Pair, String>>;
