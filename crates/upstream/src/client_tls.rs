//! How a scope speaks TLS to servers.

use contract::{Exchange, Pem, PemSource, PemValue};
use inputs::PairFinder;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tls::{ClientPolicy, Pair};

/// How many certificates, or lists of protocols, that variables name have a policy at a time.
const POLICIES_MAX: usize = 256;

/// Names of protocols of the application, the preferred one first.
type Protocols = Vec<Box<[u8]>>;

/// How a scope speaks TLS to servers.
#[derive(Debug)]
pub struct ClientTls {
    /// The settings; without a certificate if variables name it.
    pub(crate) policy: Arc<ClientPolicy>,
    /// The certificate that variables name.
    pub(crate) variable: Option<Arc<VariablePair>>,
    /// The same settings by lists of protocols that variables named. They are kept because a policy has the TLS sessions to
    /// resume.
    offering: Mutex<HashMap<Protocols, Arc<ClientTls>>>,
}

impl ClientTls {
    pub(crate) fn new(policy: Arc<ClientPolicy>, variable: Option<Arc<VariablePair>>) -> ClientTls {
        ClientTls { policy, variable, offering: Mutex::default() }
    }

    /// The same with these protocols of the application for servers, the preferred one first (ALPN).
    #[must_use]
    pub fn offering(&self, protocols: Protocols) -> Arc<ClientTls> {
        let mut offering = self.offering.lock().unwrap_or_else(PoisonError::into_inner);
        if offering.len() >= POLICIES_MAX && !offering.contains_key(&protocols) {
            offering.clear();
        }
        let made = offering.entry(protocols).or_insert_with_key(|protocols| {
            let policy = Arc::new(self.policy.with_protocols(protocols));
            let variable = self.variable.as_deref().map(VariablePair::without_policies);
            Arc::new(ClientTls::new(policy, variable.map(Arc::new)))
        });
        Arc::clone(made)
    }
}

/// A certificate for servers that variables name.
#[derive(Debug)]
pub(crate) struct VariablePair {
    pub(crate) pems: (PemValue, PemValue),
    pub(crate) finder: PairFinder,
    /// The policies with the certificates that were found: connections are kept for the same certificate.
    pub(crate) policies: Mutex<HashMap<[u8; 32], Arc<ClientPolicy>>>,
}

impl VariablePair {
    /// The same certificate without the policies, which have the protocols of the settings that they were made for.
    fn without_policies(&self) -> VariablePair {
        VariablePair { pems: self.pems.clone(), finder: self.finder.clone(), policies: Mutex::default() }
    }

    /// Certificate and key of a request; none is sent if the value for the certificate is empty.
    pub(crate) fn pems(&self, exchange: &Exchange) -> Option<(Pem, Pem)> {
        let (certificate, key) = (self.pems.0.evaluate(exchange), self.pems.1.evaluate(exchange));
        let is_empty = match (&self.pems.0, &certificate.source) {
            // Then it names the directory of the configuration.
            (PemValue::Variable(variable), PemSource::File(path)) => *path == variable.prefix,
            _ => false,
        };
        (!is_empty).then_some((certificate, key))
    }

    /// The policy with a certificate; equal certificates share one.
    pub(crate) fn policy(&self, plain: &ClientPolicy, pair: &Pair) -> Arc<ClientPolicy> {
        let mut policies = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        let identity = pair.identity();
        if policies.len() >= POLICIES_MAX && !policies.contains_key(&identity) {
            policies.clear();
        }
        Arc::clone(policies.entry(identity).or_insert_with(|| Arc::new(plain.with_pair(pair))))
    }
}
