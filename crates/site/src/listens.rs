//! `listen`: addresses and their options, and which servers answer on which address.

use crate::protocols::{Application, Protocols};
use conf::catalogue::judge_parameter;
use conf::value::{self, Host};
use conf::{Contexts, Diagnostic, Span, Word};
use contract::{Args, Loading};
use net::{Endpoint, KeepAlive, ListenOptions, SocketAddress};
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// One `listen`.
#[derive(Clone, Debug)]
pub(crate) struct ListenSpec {
    /// Where it listens: several endpoints for a range of ports or a name with several addresses.
    pub endpoints: Vec<Endpoint>,
    /// Socket options, where any was given.
    pub options: Option<ListenOptions>,
    /// Whether the server is the default one of the address.
    pub default_server: bool,
    /// The protocols that it enables.
    pub protocols: Protocols,
    /// Where it was written.
    pub span: Span,
}

impl ListenSpec {
    /// What a server without `listen` answers on.
    pub(crate) fn fallback(port: u16, span: Span) -> ListenSpec {
        let address = std::net::SocketAddr::from(([0, 0, 0, 0], port));
        ListenSpec {
            endpoints: vec![Endpoint::stream(SocketAddress::Inet(address))],
            options: None,
            default_server: false,
            protocols: Protocols::of(Application::Http),
            span,
        }
    }
}

pub(crate) fn parse_listen(args: &Args<'_>, loading: &mut Loading) -> Result<ListenSpec, Diagnostic> {
    let word = args.word(0)?;
    let application = application(args);
    let is_stream = application == Application::Stream;
    let addresses = addresses(args, word, loading)?;
    let is_udp = is_stream && args.words().iter().skip(1).any(|word| *word.text == *b"udp");
    let endpoint = if is_udp { Endpoint::datagram } else { Endpoint::stream };
    let mut endpoints: Vec<Endpoint> = addresses.into_iter().map(endpoint).collect();
    if is_udp {
        check_udp(args, word, &endpoints)?;
    }
    let mut options = ListenOptions::default();
    let (mut default_server, mut has_options) = (false, false);
    let mut protocols = Protocols::of(application);
    for word in args.words().iter().skip(1) {
        match parameter(&word.text) {
            (b"default_server" | b"default", None) => default_server = true,
            (b"bind", None) => has_options = true,
            (b"http2" | b"quic", _) if is_stream => return Err(args.invalid(word)),
            (b"udp", None) if is_stream => {}
            (name, None) if protocols.enable(name) => {
                if name == b"http2" {
                    let text = "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead";
                    loading.note(Diagnostic::warn(text).at(args.node.span).under(word.span));
                }
            }
            (name, value) => {
                has_options |= socket_option(&mut options, name, value, (args, word), loading)?;
                if name == b"quic" {
                    // Datagrams: of TCP, this line says nothing.
                    endpoints.clear();
                }
            }
        }
    }
    let options = has_options.then_some(options);
    Ok(ListenSpec { endpoints, options, default_server, protocols, span: args.node.span })
}

/// The parameters that concern connections. Datagrams have none.
const OF_CONNECTIONS: [&[u8]; 7] =
    [b"backlog", b"deferred", b"fastopen", b"multipath", b"proxy_protocol", b"so_keepalive", b"ssl"];

/// Refuses what does not go together with `udp`.
fn check_udp(args: &Args<'_>, address: &Word, endpoints: &[Endpoint]) -> Result<(), Diagnostic> {
    let refuse =
        |message: String, word: &Word| Err(Diagnostic::emerg(message).at(args.node.span).under(word.span));
    if endpoints.iter().any(|endpoint| endpoint.address.is_unix()) {
        let message = "parameter \"udp\" of \"listen\" needs an address with a port: a client of a Unix socket has no \
                       address for the answer";
        return refuse(message.to_owned(), address);
    }
    for word in args.words().iter().skip(1) {
        let (name, _) = parameter(&word.text);
        if OF_CONNECTIONS.contains(&name) {
            let name = String::from_utf8_lossy(name);
            let message = format!("\"listen\" directive \"{name}\" parameter is incompatible with \"udp\"");
            return refuse(message, word);
        }
    }
    Ok(())
}

/// What the connections are for that come to an address.
fn application(args: &Args<'_>) -> Application {
    match args.context {
        Contexts::STREAM_SERVER => Application::Stream,
        _ => Application::Http,
    }
}

fn parameter(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == b'=') {
        Some(equals) => (&text[..equals], Some(&text[equals + 1..])),
        None => (text, None),
    }
}

/// The addresses, each once.
fn addresses(args: &Args<'_>, word: &Word, loading: &Loading) -> Result<Vec<SocketAddress>, Diagnostic> {
    let complain = |message: &str| {
        let message = format!("{message} in \"{word}\" of the \"listen\" directive");
        Diagnostic::emerg(message).at(args.node.span).under(word.span)
    };
    let is_stream = application(args) == Application::Stream;
    let address = args.value(0, |word| value::listen(word, if is_stream { 0 } else { 80 }))?;
    if is_stream && address.port == 0 && !matches!(address.host, Host::Unix(_)) {
        return Err(complain("no port"));
    }
    match &address.host {
        Host::Ip(_) => Ok(address.socket_addrs().map(SocketAddress::Inet).collect()),
        Host::Unix(path) => {
            let path = std::ffi::OsStr::from_bytes(path);
            Ok(vec![SocketAddress::Unix(path.into())])
        }
        Host::Name(name) => {
            let found = loading.origin.inputs.resolve(name).map_err(|_| complain("host not found"))?;
            let ips = in_order(found.into_iter());
            let ports = address.port..=address.last_port;
            let of_ip = |ip| ports.clone().map(move |port| SocketAddress::Inet((ip, port).into()));
            Ok(ips.into_iter().flat_map(of_ip).collect())
        }
    }
}

/// The addresses of a name: each once, first those of IPv4, whatever order the system has today.
fn in_order(found: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut ips: Vec<IpAddr> = Vec::new();
    for ip in found {
        if !ips.contains(&ip) {
            ips.push(ip);
        }
    }
    ips.sort_by_key(IpAddr::is_ipv6);
    ips
}

/// Reads one parameter; tells whether it sets an option of the socket.
fn socket_option(
    options: &mut ListenOptions,
    name: &[u8],
    value: Option<&[u8]>,
    (args, word): (&Args<'_>, &Word),
    loading: &mut Loading,
) -> Result<bool, Diagnostic> {
    let complain = |message: String| Diagnostic::emerg(message).at(args.node.span).under(word.span);
    let invalid = || complain(format!("invalid {} \"{word}\"", String::from_utf8_lossy(name)));
    let value_word = |value: &[u8]| Word { text: value.into(), quoted: false, span: word.span };
    let number = |value: &[u8]| {
        let number = value::number(&value_word(value)).map_err(|_| invalid())?;
        i32::try_from(number).map_err(|_| invalid())
    };
    let size = |value: &[u8]| {
        let size = value::size(&value_word(value)).map_err(|_| invalid())?;
        // The kernel takes no larger one.
        i32::try_from(size).ok().and_then(|size| usize::try_from(size).ok()).ok_or_else(invalid)
    };
    match (name, value) {
        (b"backlog", Some(value)) => {
            options.backlog = number(value)?;
            if options.backlog == 0 {
                return Err(invalid());
            }
        }
        (b"fastopen", Some(value)) => options.fastopen = Some(number(value)?),
        (b"rcvbuf", Some(value)) => options.rcvbuf = Some(size(value)?),
        (b"sndbuf", Some(value)) => options.sndbuf = Some(size(value)?),
        (b"reuseport", None) => options.reuseport = true,
        (b"deferred", None) => options.deferred = true,
        (b"multipath", None) => options.multipath = true,
        (b"ipv6only", Some(value)) => {
            options.ipv6only = value::flag(&value_word(value)).map_err(|_| match value {
                [b'o', ..] => {
                    complain(format!("invalid ipv6only flags \"{}\"", String::from_utf8_lossy(value)))
                }
                _ => args.invalid(word),
            })?;
        }
        (b"so_keepalive", Some(value)) => {
            options.keepalive = Some(keepalive(value, word).ok_or_else(|| {
                complain(format!("invalid so_keepalive value: \"{}\"", String::from_utf8_lossy(value)))
            })?);
        }
        _ => {
            let told = judge_parameter("listen", word).ok_or_else(|| args.invalid(word))?;
            let told = told.at(args.node.span).under(word.span);
            if told.is_error() {
                loading.refuse(told)?;
            } else {
                loading.note(told);
            }
            return Ok(false);
        }
    }
    Ok(true)
}

/// `on`, `off`, or `idle:interval:count`, of which parts may be left out.
fn keepalive(value: &[u8], word: &Word) -> Option<KeepAlive> {
    let text = std::str::from_utf8(value).ok()?;
    match text {
        "on" => return Some(KeepAlive::On { idle: None, interval: None, count: None }),
        "off" => return Some(KeepAlive::Off),
        _ => {}
    }
    let part = |text: Option<&str>| -> Option<Option<Word>> {
        Some(text.filter(|text| !text.is_empty()).map(|text| Word::new(text, word.span)))
    };
    let seconds = |text: Option<&str>| -> Option<Option<Duration>> {
        let Some(word) = part(text)? else { return Some(None) };
        let seconds = value::time_s(&word).ok()?;
        // Zero asks for what the system does anyway.
        Some(Some(Duration::from_secs(seconds)).filter(|time| !time.is_zero()))
    };
    let mut parts = text.splitn(3, ':');
    let (idle, interval) = (seconds(parts.next())?, seconds(parts.next())?);
    let count = match part(parts.next())? {
        Some(word) => Some(u32::try_from(value::number(&word).ok()?).ok()?).filter(|count| *count > 0),
        None => None,
    };
    let says_something = idle.is_some() || interval.is_some() || count.is_some();
    says_something.then_some(KeepAlive::On { idle, interval, count })
}

#[cfg(test)]
mod tests {
    use super::in_order;
    use crate::testing;
    use net::{KeepAlive, ListenOptions};
    use std::time::Duration;

    fn options(parameters: &str) -> Result<ListenOptions, String> {
        let (_, mut site) = testing::site(&format!("server {{ listen 1 {parameters}; }}"), &[])?;
        Ok(site.listens.remove(0).options)
    }

    #[test]
    fn every_parameter() {
        let defaults = ListenOptions::default();
        assert_eq!(options("default_server bind").unwrap(), defaults);
        let parameters =
            "backlog=64 fastopen=7 rcvbuf=8k sndbuf=1m reuseport deferred multipath ipv6only=off";
        let expected = |keepalive| {
            let (rcvbuf, sndbuf) = (Some(8192), Some(1 << 20));
            let (backlog, fastopen, ipv6only) = (64, Some(7), false);
            let (reuseport, deferred, multipath) = (true, true, true);
            ListenOptions {
                backlog,
                ipv6only,
                reuseport,
                deferred,
                fastopen,
                rcvbuf,
                sndbuf,
                keepalive,
                multipath,
            }
        };
        assert_eq!(options(parameters).unwrap(), expected(None));
        let with_probes = format!("{parameters} so_keepalive=off");
        assert_eq!(options(&with_probes).unwrap(), expected(Some(KeepAlive::Off)));
    }

    #[test]
    fn probes_in_parts() {
        let on = |idle: Option<u64>, interval: Option<u64>, count| {
            let (idle, interval) = (idle.map(Duration::from_secs), interval.map(Duration::from_secs));
            Some(KeepAlive::On { idle, interval, count })
        };
        for (text, expected) in [
            ("on", on(None, None, None)),
            ("30m::10", on(Some(1800), None, Some(10))),
            ("30m", on(Some(1800), None, None)),
            (":5s", on(None, Some(5), None)),
            ("::3", on(None, None, Some(3))),
            ("1:2:3", on(Some(1), Some(2), Some(3))),
        ] {
            let parsed = options(&format!("so_keepalive={text}")).map(|options| options.keepalive);
            assert_eq!(parsed, Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (parameter, message) in [
            ("backlog=0", "invalid backlog \"backlog=0\""),
            ("backlog=x", "invalid backlog \"backlog=x\""),
            ("fastopen=", "invalid fastopen \"fastopen=\""),
            ("rcvbuf=4g", "invalid rcvbuf \"rcvbuf=4g\""),
            ("sndbuf=4096m", "invalid sndbuf \"sndbuf=4096m\""),
            ("ipv6only=only", "invalid ipv6only flags \"only\""),
            ("so_keepalive=::", "invalid so_keepalive value: \"::\""),
            ("so_keepalive=1:2:3:4", "invalid so_keepalive value: \"1:2:3:4\""),
            ("so_keepalive=0", "invalid so_keepalive value: \"0\""),
            ("ipv6only=0", "invalid parameter \"ipv6only=0\""),
            ("backlog", "invalid parameter \"backlog\""),
            ("nonsense", "invalid parameter \"nonsense\""),
        ] {
            assert_eq!(options(parameter).unwrap_err(), message, "{parameter}");
        }
        for parameter in ["setfib=1", "spdy"] {
            let message = options(parameter).unwrap_err();
            assert!(message.contains(parameter.split('=').next().unwrap()), "{message}");
            assert!(message.contains("is not "), "{message}");
        }
        assert!(options("accept_filter=httpready").is_ok(), "nginx on Linux ignores it, too");
    }

    #[test]
    fn udp_has_its_own_addresses_and_no_connections() {
        let site = |listen: &str| {
            testing::site(&format!("}} stream {{ server {{ listen {listen}; }}"), &[]).map(|(_, site)| {
                site.listens.iter().map(|listen| listen.endpoint.to_string()).collect::<Vec<_>>()
            })
        };
        let shown = site("1 udp; listen 1; listen [::1]:5-6 udp reuseport rcvbuf=64k").unwrap();
        assert_eq!(shown, ["0.0.0.0:1 (udp)", "0.0.0.0:1", "[::1]:5 (udp)", "[::1]:6 (udp)"]);
        for name in
            ["ssl", "backlog=5", "so_keepalive=on", "proxy_protocol", "deferred", "fastopen=3", "multipath"]
        {
            let bare = name.split('=').next().unwrap();
            let expected = format!("\"listen\" directive \"{bare}\" parameter is incompatible with \"udp\"");
            assert_eq!(site(&format!("1 {name} udp")).unwrap_err(), expected);
        }
        assert!(site("unix:/s udp").unwrap_err().contains("needs an address with a port"));
        assert!(site("1 udp=on").unwrap_err().contains("udp=on"));
        let of_http = testing::site("server { listen 1 udp; }", &[]).map(|_| ()).unwrap_err();
        assert!(of_http.contains("udp"), "{of_http}");
    }

    /// The usual pair of lines for HTTP/3 is one address of TCP.
    #[test]
    fn a_line_about_datagrams_is_none_of_tcp() {
        let text = "server { listen 1 quic reuseport; listen 1; } server { listen 1 quic; listen 1; server_name b; }";
        let (loaded, site) = testing::site(text, &[]).unwrap();
        assert_eq!(site.listens.len(), 1);
        assert_eq!(site.listens[0].options, ListenOptions::default());
        assert_eq!(loaded.loading.notes.len(), 2);
    }

    #[test]
    fn names_are_addresses_each_once() {
        let ips = ["::1", "127.0.0.1", "::1", "10.0.0.1"].map(|ip| ip.parse().unwrap());
        let ordered: Vec<String> = in_order(ips.into_iter()).iter().map(ToString::to_string).collect();
        assert_eq!(ordered, ["127.0.0.1", "10.0.0.1", "::1"]);
        let (_, site) = testing::site("server { listen localhost:1-2; }", &[]).unwrap();
        let shown: Vec<_> = site.listens.iter().map(|listen| listen.endpoint.to_string()).collect();
        assert!(shown.starts_with(&["127.0.0.1:1".to_owned(), "127.0.0.1:2".to_owned()]), "{shown:?}");
        let missing =
            testing::site("server { listen no.such.host.invalid:1; }", &[]).map(|_| ()).unwrap_err();
        assert_eq!(missing, "host not found in \"no.such.host.invalid:1\" of the \"listen\" directive");
    }
}
