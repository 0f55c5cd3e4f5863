//! Whose connections are logged in all detail.

use conf::Diagnostic;
use conf::value::{Network, cidr};
use contract::{Args, DebuggedClients, Loading};

pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<DebuggedClients, Diagnostic> {
    let word = args.word(0)?;
    if word.is("unix:") {
        return Ok(DebuggedClients { networks: Vec::new(), unix: true });
    }
    if let Ok(network) = cidr(word) {
        if network.has_low_bits {
            let message = format!("low address bits of {word} are meaningless");
            loading.note(Diagnostic::warn(message).at(args.node.span).under(word.span));
        }
        return Ok(DebuggedClients { networks: vec![network], unix: false });
    }
    let unknown = || {
        let message = format!("host not found in debug_connection \"{word}\"");
        Diagnostic::emerg(message).at(args.node.span).under(word.span)
    };
    let name = str::from_utf8(&word.text).map_err(|_| unknown())?;
    let found = loading.origin.inputs.resolve(name).map_err(|_| unknown())?;
    let networks = found.into_iter().map(|ip| Network { net: ip.into(), has_low_bits: false }).collect();
    Ok(DebuggedClients { networks, unix: false })
}

#[cfg(test)]
mod tests {
    use crate::process::debugged_clients;
    use crate::testing::main_level;
    use contract::{Config, Peer};

    #[test]
    fn clients_by_network_name_and_socket() {
        let text = "events { debug_connection 10.0.0.0/8; debug_connection ::1; debug_connection unix:;
            debug_connection localhost; }";
        let (config, notes) = main_level(text).unwrap();
        let clients = debugged_clients(&config.view(Config::MAIN)).unwrap();
        let has = |text: &str| clients.has(&Peer::Inet(text.parse().unwrap()));
        assert!(has("10.9.9.9:1") && has("[::1]:1") && has("127.0.0.1:1") && clients.has(&Peer::Unix(None)));
        assert!(!has("11.0.0.1:1") && !has("[::2]:1") && notes.is_empty());
        let (config, _) = main_level("events { }").unwrap();
        assert!(debugged_clients(&config.view(Config::MAIN)).is_none());
    }

    #[test]
    fn what_is_no_client() {
        let (_, notes) = main_level("events { debug_connection 10.0.0.1/8; }").unwrap();
        assert_eq!(notes, ["low address bits of 10.0.0.1/8 are meaningless"]);
        let error = main_level("events { debug_connection no.such.host.invalid; }").map(|_| ()).unwrap_err();
        assert_eq!(error, "host not found in debug_connection \"no.such.host.invalid\"");
    }
}
