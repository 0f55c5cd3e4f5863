//! What `fulmar serve` and `fulmar proxy` share: where they listen, and the part of their configuration that says so.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser};
use conf::Memory;
use contract::{Exchange, Module, Variable};
use journal::ErrorLog;
use journal::readable;
use net::{Endpoint, ListenOptions, SocketAddress};
use tls::SelfSigned;

use crate::configuration::Reader;
use crate::console::{out, say};
use crate::domains::{self, Domains, Source};
use crate::layered::Layered;
use crate::local_certificates::{self, Local};
use crate::paths::Paths;
use crate::start::{self, Purpose};
use crate::state;
use crate::subcommand;

/// The port without `--port`, `--listen` and `PORT`.
const PORT: u16 = 8080;
/// The same with `--domain`.
const DOMAIN_PORT: u16 = 443;
/// How many requests of a second are shown.
const LINES_PER_SECOND: u32 = 20;
/// Where a command listens, and what it shows.
#[derive(Clone, Debug, Args)]
pub(crate) struct Listening {
    /// The address, with or without a port; 0.0.0.0 lets other machines in [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<Listen>,
    /// The port [default: the environment's PORT, else 8080]
    #[arg(long, short)]
    port: Option<u16>,
    #[command(flatten)]
    source: Source,
    /// Encrypt with a certificate of an authority of yours, which is made at the first start and kept. A browser that
    /// trusts the authority's certificate does not warn
    #[arg(long)]
    tls: bool,
    /// Encrypt with this certificate, a PEM file that may contain intermediate certificates
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "tls")]
    certificate: Option<PathBuf>,
    /// The key of the certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// Show no requests
    #[arg(long, short)]
    quiet: bool,
}

/// An address, and the port where one was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listen {
    ip: IpAddr,
    port: Option<u16>,
}

/// Variables of the log's lines.
static MODULE: Module = Module {
    name: "serve",
    directives: &[],
    variables: &[Variable::new("readable_size", size), Variable::new("readable_time", time)],
    compile: None,
};

/// A listening address that is free, with the certificate for it.
pub(crate) struct Door {
    address: SocketAddr,
    encryption: Encryption,
    quiet: bool,
}

/// Where the certificate comes from.
enum Encryption {
    None,
    /// It was made on this machine.
    Local(Local),
    /// The files of a certificate and its key.
    Files([PathBuf; 2]),
    /// An authority on the internet issues it.
    Domains(Domains),
}

/// Runs what a command prepares until it is stopped: a reader of its configuration, and what to print when it runs.
pub(crate) fn run<T: Parser>(
    arguments: &[OsString],
    prepare: impl Fn(&T) -> Result<(Reader, String), String>,
) -> ExitCode {
    let arguments: T = match subcommand::arguments(arguments, ExitCode::FAILURE) {
        Ok(arguments) => arguments,
        Err(status) => return status,
    };
    match prepare(&arguments) {
        Ok((reader, greeting)) => {
            let greet = move || out(greeting.as_bytes());
            start::run(reader, ErrorLog::default(), Purpose::Embedded(Box::new(greet)))
        }
        Err(text) => {
            say(&text);
            ExitCode::FAILURE
        }
    }
}

impl Listening {
    /// Checks the address, and makes a certificate if one is needed.
    pub(crate) fn door(&self) -> Result<Door, String> {
        let environment = std::env::var("PORT").ok();
        let has_domain = self.source.is_used();
        let (ip, default) = match has_domain {
            true => (Ipv4Addr::UNSPECIFIED, DOMAIN_PORT),
            false => (Ipv4Addr::LOCALHOST, PORT),
        };
        let listen = self.listen.unwrap_or(Listen { ip: ip.into(), port: None });
        let address = socket_address(listen, self.port, environment.as_deref(), default)?;
        check_port(address)?;
        Ok(Door { address, encryption: self.encryption(address)?, quiet: self.quiet })
    }

    fn encryption(&self, address: SocketAddr) -> Result<Encryption, String> {
        if self.source.is_used() {
            let clear = domains::clear_address(address.ip(), address.port());
            return self.source.domains(clear.filter(|it| check_port(*it).is_ok())).map(Encryption::Domains);
        }
        if let (Some(certificate), Some(key)) = (&self.certificate, &self.key) {
            return Ok(Encryption::Files([state::usable(certificate)?, state::usable(key)?]));
        }
        if self.tls {
            return local_certificates::certificate(address.ip()).map(Encryption::Local);
        }
        Ok(Encryption::None)
    }

    /// A port of this machine, for tests.
    #[cfg(test)]
    pub(crate) fn local(port: u16, tls: bool, quiet: bool) -> Listening {
        let listen = Listen { ip: Ipv4Addr::LOCALHOST.into(), port: None };
        let (certificate, key) = (None, None);
        Listening {
            listen: Some(listen),
            port: Some(port),
            source: Source::none(),
            tls,
            certificate,
            key,
            quiet,
        }
    }
}

impl Door {
    /// The start of the configuration, up to the first lines of `http`.
    pub(crate) fn preamble(&self) -> String {
        let log = match self.quiet {
            true => "off".to_owned(),
            false => format!("/dev/stdout serve lines_per_second={LINES_PER_SECOND}"),
        };
        format!(
            "daemon off;\n\
             master_process off;\n\
             worker_processes auto;\n\
             error_log stderr error;\n\
             events {{ worker_connections 1024; }}\n\
             http {{\n\
             \x20   log_format serve '$request_method $request_uri $status $readable_size $readable_time';\n\
             \x20   access_log {log};\n\
             {}",
            if let Encryption::Domains(domains) = &self.encryption { domains.http() } else { String::new() }
        )
    }

    /// The directives of a server that listens here.
    pub(crate) fn listen(&self) -> String {
        let encrypted = |certificate: &str, key: &str| {
            format!(
                " ssl;\n\
                 ssl_certificate \"{certificate}\";\n\
                 ssl_certificate_key \"{key}\";\n\
                 \x20       error_page 497 https://$http_host$request_uri"
            )
        };
        let encryption = match &self.encryption {
            Encryption::None => String::new(),
            Encryption::Local(Local { certificate: SelfSigned { certificate, key, .. }, .. }) => {
                encrypted(&format!("data:{certificate}"), &format!("data:{key}"))
            }
            Encryption::Files([certificate, key]) => {
                encrypted(&certificate.display().to_string(), &key.display().to_string())
            }
            Encryption::Domains(domains) => domains.server(),
        };
        format!("listen {}{encryption};\n        http2 on;", self.address)
    }

    /// What to print at the start; `first` is the first line.
    pub(crate) fn greeting(&self, first: &str) -> String {
        let Door { address, encryption, quiet } = self;
        let (ip, port) = (address.ip(), address.port());
        let scheme = if matches!(encryption, Encryption::None) { "http" } else { "https" };
        let (url, reach) = if let Encryption::Domains(domains) = encryption {
            let port = if port == DOMAIN_PORT { String::new() } else { format!(":{port}") };
            let reach = format!("once {} has issued a certificate", domains.authority());
            (format!("https://{}{port}/", domains.first()), reach)
        } else if ip.is_loopback() {
            (
                format!("{scheme}://{address}/"),
                "for this machine only; --listen 0.0.0.0 lets others in".to_owned(),
            )
        } else if ip.is_unspecified() {
            (format!("{scheme}://localhost:{port}/"), "for every machine that reaches this one".to_owned())
        } else {
            (format!("{scheme}://{address}/"), "for every machine that reaches this address".to_owned())
        };
        let trust = match encryption {
            Encryption::Local(local) => trust(local),
            _ => String::new(),
        };
        let shown = match quiet {
            true => String::new(),
            false => format!("  up to {LINES_PER_SECOND} requests a second are shown; --quiet shows none\n"),
        };
        format!("{first}\n  at {url}\n  {reach}; Ctrl-C stops\n{shown}{trust}")
    }

    /// The reader of a configuration in memory.
    pub(crate) fn reader(&self, inputs: Memory, conf: &str, prefix: PathBuf) -> Reader {
        let paths = Paths { conf: PathBuf::from(conf), prefix, error_log: None, error_log_given: false };
        let mut modules = modules::ALL.to_vec();
        modules.push(&MODULE);
        let on_disk = match &self.encryption {
            Encryption::None | Encryption::Local(_) => Vec::new(),
            Encryption::Files(files) => files.to_vec(),
            Encryption::Domains(domains) => vec![domains.state().to_path_buf()],
        };
        Reader::new(Arc::new(Layered { memory: inputs, on_disk }), paths, None, modules)
    }
}

/// The lines about a certificate that a browser does not know yet.
fn trust(local: &Local) -> String {
    let fingerprint = &local.certificate.fingerprint;
    match &local.authority {
        Some(path) => format!(
            "  a browser that trusts the authority {} does not warn\n\
             \x20 the SHA-256 fingerprint of the certificate is\n  {fingerprint}\n",
            path.display()
        ),
        None => format!("  with a self-signed certificate; its SHA-256 fingerprint is\n  {fingerprint}\n"),
    }
}

fn socket_address(
    listen: Listen,
    port: Option<u16>,
    environment: Option<&str>,
    default: u16,
) -> Result<SocketAddr, String> {
    let from_environment = |text: &str| match text.parse() {
        Ok(port) => Ok(port),
        Err(_) => Err(format!("PORT is \"{text}\", which is no port")),
    };
    let port = match (port.or(listen.port), environment.filter(|text| !text.is_empty())) {
        (Some(port), _) => port,
        (None, Some(text)) => from_environment(text)?,
        (None, None) => default,
    };
    if port == 0 {
        return Err("port 0 is invalid; without --port a default is used".to_owned());
    }
    Ok(SocketAddr::new(listen.ip, port))
}

/// A clear word about a port that cannot be had, before anything else starts.
fn check_port(address: SocketAddr) -> Result<(), String> {
    let port = address.port();
    match net::bind(&Endpoint::stream(SocketAddress::Inet(address)), &ListenOptions::default(), 1) {
        Ok(_) => Ok(()),
        Err(error) if error.is_in_use() => {
            let next = port.checked_add(1).unwrap_or(PORT);
            Err(format!("port {port} is taken by another program; try --port {next}"))
        }
        Err(error) => Err(format!("cannot listen on {address}: {error}")),
    }
}

fn address(text: &str) -> Result<Listen, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Listen { ip: address.ip(), port: Some(address.port()) });
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let ip = match bare {
        "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        _ => bare.parse().ok(),
    };
    let no_address = || "give an address such as 127.0.0.1, 0.0.0.0:8080 or [::1]:8080".to_owned();
    ip.map(|ip| Listen { ip, port: None }).ok_or_else(no_address)
}

fn size(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let body = exchange.wire.bytes.saturating_sub(exchange.wire.head_bytes);
    out.extend_from_slice(readable::size(body).as_bytes());
    true
}

fn time(exchange: &Exchange, _: &str, out: &mut Vec<u8>) -> bool {
    let milliseconds = exchange.started().instant.elapsed().as_millis();
    let text = match milliseconds {
        0 => "<1 ms".to_owned(),
        1..1000 => format!("{milliseconds} ms"),
        _ => format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100),
    };
    out.extend_from_slice(text.as_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ports_come_from_several_places() {
        let loopback = address("127.0.0.1").unwrap();
        let text = |listen, port, environment| {
            socket_address(listen, port, environment, PORT).map(|address| address.to_string())
        };
        assert_eq!(text(loopback, None, None), Ok("127.0.0.1:8080".to_owned()));
        assert_eq!(text(loopback, None, Some("81")), Ok("127.0.0.1:81".to_owned()));
        assert_eq!(text(loopback, Some(82), Some("81")), Ok("127.0.0.1:82".to_owned()));
        assert_eq!(text(address("[::1]:83").unwrap(), None, Some("81")), Ok("[::1]:83".to_owned()));
        assert_eq!(text(address("::").unwrap(), None, Some("")), Ok("[::]:8080".to_owned()));
        assert!(text(loopback, None, Some("x")).unwrap_err().contains("PORT"));
        assert!(address("example.com").is_err());
    }

    #[test]
    fn a_taken_port_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let text = check_port(address).unwrap_err();
        assert!(text.starts_with(&format!("port {} is taken", address.port())), "{text}");
    }
}
