//! The protocols of an address, and whether its `listen` lines agree on them.

use crate::listens::ListenSpec;
use conf::Span;

/// The protocols that the parameters of `listen` enable on an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocols(u8);

impl Protocols {
    /// HTTP/1 in clear.
    pub const NONE: Protocols = Protocols(0);
    /// Connections begin with a TLS handshake (`ssl`).
    pub const SSL: Protocols = Protocols(1);
    /// Connections begin with a header of the PROXY protocol (`proxy_protocol`).
    pub const PROXY: Protocols = Protocols(1 << 1);

    /// Clients may speak HTTP/2 (`http2`).
    pub const HTTP2: Protocols = Protocols(1 << 2);

    const PARAMETERS: [(&[u8], Protocols); 3] =
        [(b"ssl", Protocols::SSL), (b"proxy_protocol", Protocols::PROXY), (b"http2", Protocols::HTTP2)];

    /// The protocol that a parameter of `listen` enables.
    pub(crate) fn of_parameter(name: &[u8]) -> Option<Protocols> {
        Protocols::PARAMETERS.iter().find_map(|(known, protocol)| (*known == name).then_some(*protocol))
    }

    /// The protocols of both.
    #[must_use]
    pub const fn or(self, other: Protocols) -> Protocols {
        Protocols(self.0 | other.0)
    }

    /// Whether all of the others are among these.
    pub const fn has(self, other: Protocols) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The lines of an address so far. One that says `ssl` says it for all of them; lines after the first may leave it out,
/// but not say more, nor each something else.
#[derive(Debug)]
pub(crate) struct Agreement {
    /// What any line says.
    pub all: Protocols,
    /// What later lines say, once there is one.
    later: Option<Protocols>,
    has_changed: bool,
    has_options: bool,
    /// The lines that do not agree with those before.
    pub dissenting: Vec<Span>,
}

impl Agreement {
    /// The first line of an address.
    pub(crate) fn new(listen: &ListenSpec) -> Agreement {
        Agreement {
            all: listen.protocols,
            later: None,
            has_changed: false,
            has_options: listen.options.is_some(),
            dissenting: Vec::new(),
        }
    }

    /// A further line.
    pub(crate) fn add(&mut self, listen: &ListenSpec) {
        let (said, has_options) = (listen.protocols, listen.options.is_some());
        let (adds, leaves_out) = (!self.all.has(said), !said.has(self.all));
        let differs = self.later.is_some_and(|later| later != said);
        let dissents = if adds {
            (self.has_options && !has_options) || self.has_changed || leaves_out
        } else if leaves_out {
            has_options || differs
        } else {
            (has_options && self.has_changed) || differs
        };
        if dissents {
            self.dissenting.push(listen.span);
        }
        self.has_changed |= adds || leaves_out;
        self.has_options |= has_options;
        self.later = Some(if adds { self.all } else { said });
        self.all = self.all.or(said);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing;

    /// How many warnings there are where servers listen on one address so.
    fn warnings(listens: &[&str]) -> usize {
        let text: String = listens
            .iter()
            .zip(0..)
            .map(|(listen, number)| format!("server {{ listen 1 {listen}; server_name s{number}; }}"))
            .collect();
        let (loaded, _) = testing::site(&text, &[]).unwrap();
        let is_told = |note: &&conf::Diagnostic| note.message == "protocol options redefined for 0.0.0.0:1";
        loaded.loading.notes.iter().filter(is_told).count()
    }

    #[test]
    fn lines_that_do_not_agree() {
        for (listens, expected) in [
            (&["", ""][..], 0),
            (&["proxy_protocol", "proxy_protocol"], 0),
            (&["proxy_protocol", ""], 0),
            (&["", "proxy_protocol"], 0),
            (&["proxy_protocol", "", ""], 0),
            (&["proxy_protocol", "", "proxy_protocol"], 1),
            (&["", "proxy_protocol", "proxy_protocol"], 1),
            (&["bind", "proxy_protocol"], 1),
            (&["proxy_protocol", "bind"], 1),
            (&["bind proxy_protocol", ""], 0),
        ] {
            assert_eq!(warnings(listens), expected, "{listens:?}");
        }
    }
}
