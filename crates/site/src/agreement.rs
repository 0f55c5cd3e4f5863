//! Whether the `listen` lines of an address agree on its protocols.

use crate::listens::ListenSpec;
use crate::protocols::Protocols;
use conf::Span;

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
