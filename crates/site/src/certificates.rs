//! Certificates that variables name: each connection finds its own.

use contract::{Exchange, Pem, PemValue};
use inputs::PairFinder;
use std::sync::Arc;
use tls::{Pair, ServerPolicy};

/// The certificates of a virtual server, some of which variables name.
#[derive(Debug)]
pub struct Certificates {
    pub(crate) sources: Vec<PairSource>,
    pub(crate) finder: PairFinder,
}

/// A certificate with its key.
#[derive(Debug)]
pub(crate) enum PairSource {
    /// It was read.
    Known(Box<Pair>),
    /// What names its places.
    Variable(Box<(PemValue, PemValue)>),
}

/// The certificates of one connection.
pub struct Selected {
    certificates: Arc<Certificates>,
    pairs: Vec<SelectedPair>,
}

/// A certificate of one connection with its key.
enum SelectedPair {
    Known(Box<Pair>),
    /// Where they are.
    Unread(Box<(Pem, Pem)>),
}

impl Certificates {
    /// The certificates of a connection whose variables have the values of this exchange.
    pub fn select(self: &Arc<Self>, exchange: &Exchange) -> Selected {
        let pair = |source: &PairSource| match source {
            PairSource::Known(pair) => SelectedPair::Known(pair.clone()),
            PairSource::Variable(pems) => {
                let pems = (pems.0.evaluate(exchange), pems.1.evaluate(exchange));
                let known = self.finder.known(&pems).map(|pair| SelectedPair::Known(Box::new(pair)));
                known.unwrap_or_else(|| SelectedPair::Unread(Box::new(pems)))
            }
        };
        let pairs = self.sources.iter().map(pair).collect();
        Selected { certificates: Arc::clone(self), pairs }
    }
}

impl Selected {
    /// Whether files have to be read.
    pub fn needs_files(&self) -> bool {
        self.pairs.iter().any(|pair| matches!(pair, SelectedPair::Unread(_)))
    }

    /// The policy of the connection: the policy of the server with these certificates. It blocks if it reads files.
    ///
    /// # Errors
    /// The message for the log if a certificate or key cannot be used.
    pub fn policy(self, policy: &ServerPolicy) -> Result<ServerPolicy, String> {
        let Selected { certificates, pairs } = self;
        let pair = |pair: SelectedPair| match pair {
            SelectedPair::Known(pair) => Ok(*pair),
            SelectedPair::Unread(pems) => certificates.finder.find(&pems),
        };
        let pairs: Result<Vec<Pair>, _> = pairs.into_iter().map(pair).collect();
        pairs.map(|pairs| policy.with_pairs(&pairs)).map_err(|error| error.message)
    }
}
