//! `fulmar serve`: a directory served without a configuration.
//!
//! It writes the configuration that an administrator would write, keeps it in memory, and runs it in one
//! process. There is no second way to serve files.

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use conf::Memory;
use contract::{Exchange, Module, Variable};
use journal::ErrorLog;
use journal::readable;
use net::{ListenOptions, SocketAddress};
use tls::SelfSigned;

use crate::configuration::Reader;
use crate::console::{out, say};
use crate::paths::Paths;
use crate::start::{self, Purpose};
use crate::subcommand;

/// The port without `--port`, `--listen` and `PORT`.
const PORT: u16 = 8080;
/// Where the configuration is in memory.
const CONF: &str = "/serve.conf";
/// Where the media types are in memory.
const TYPES: &str = "/mime.types";

/// How many requests of a second are shown.
const LINES_PER_SECOND: u32 = 20;
/// Media types whose content is compressed; `text/html` always is.
const COMPRESSED: &str = "text/css text/javascript text/plain text/markdown text/csv text/xml application/json \
    application/ld+json application/manifest+json application/geo+json application/wasm application/atom+xml \
    application/rss+xml application/xhtml+xml application/yaml image/svg+xml";

/// Serves the files of a directory over HTTP. Directories without an index.html are listed. Up to 20 requests a second
/// are lines on the standard output, and the others a count. Ctrl-C stops it.
#[derive(Debug, Parser)]
#[command(name = "fulmar serve", bin_name = "fulmar serve", version = server::VERSION)]
struct Arguments {
    /// The directory to serve
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// The address, with or without a port; 0.0.0.0 lets other machines in
    #[arg(long, value_name = "ADDRESS", value_parser = address, default_value = "127.0.0.1")]
    listen: Listen,
    /// The port [default: the environment's PORT, else 8080]
    #[arg(long, short)]
    port: Option<u16>,
    /// Answer with index.html where there is no file, for applications that route in the browser
    #[arg(long)]
    spa: bool,
    /// Encrypt, with its own certificate that is made now
    #[arg(long)]
    tls: bool,
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

/// Serves until it is stopped.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let arguments: Arguments = match subcommand::arguments(arguments, ExitCode::FAILURE) {
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

/// What to run, and what to print when it runs.
fn prepare(arguments: &Arguments) -> Result<(Reader, String), String> {
    let environment = std::env::var("PORT").ok();
    let address = socket_address(arguments.listen, arguments.port, environment.as_deref())?;
    let directory = &arguments.directory;
    let complain = |reason: &str| format!("cannot serve \"{}\": {reason}", directory.display());
    let root = directory.canonicalize().map_err(|error| complain(reason(&error)))?;
    if !root.is_dir() {
        return Err(complain("it is no directory"));
    }
    check_port(address)?;
    let certificate = arguments.tls.then(|| certificate(address)).transpose()?;
    let text = configuration(&root, address, arguments, certificate.as_ref()).ok_or_else(|| {
        complain("its name has a \"$\", which configurations take for the start of a variable")
    })?;
    let paths =
        Paths { conf: PathBuf::from(CONF), prefix: root.clone(), error_log: None, error_log_given: false };
    let inputs = Memory::default().with(CONF, text).with(TYPES, include_str!("mime.types"));
    let mut modules = modules::ALL.to_vec();
    modules.push(&MODULE);
    let reader = Reader::new(Arc::new(inputs), paths, None, modules);
    Ok((reader, greeting(&root, address, arguments.quiet, certificate.as_ref())))
}

/// A reason in words that need no knowledge of system calls.
fn reason(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such directory",
        io::ErrorKind::PermissionDenied => "you may not enter it",
        _ => "it cannot be entered",
    }
}

fn socket_address(
    listen: Listen,
    port: Option<u16>,
    environment: Option<&str>,
) -> Result<SocketAddr, String> {
    let from_environment = |text: &str| match text.parse() {
        Ok(port) => Ok(port),
        Err(_) => Err(format!("PORT is \"{text}\", which is no port")),
    };
    let port = match (port.or(listen.port), environment.filter(|text| !text.is_empty())) {
        (Some(port), _) => port,
        (None, Some(text)) => from_environment(text)?,
        (None, None) => PORT,
    };
    if port == 0 {
        return Err("port 0 is none; leave --port out for a usual one".to_owned());
    }
    Ok(SocketAddr::new(listen.ip, port))
}

/// A clear word about a port that cannot be had, before anything else starts.
fn check_port(address: SocketAddr) -> Result<(), String> {
    let port = address.port();
    match net::bind(&SocketAddress::Inet(address), &ListenOptions::default(), 1) {
        Ok(_) => Ok(()),
        Err(error) if error.is_in_use() => {
            let next = port.checked_add(1).unwrap_or(PORT);
            Err(format!("port {port} is taken by another program; try --port {next}"))
        }
        Err(error) => Err(format!("cannot listen on {address}: {error}")),
    }
}

/// A certificate for the names by which this machine calls itself, and for the address.
fn certificate(address: SocketAddr) -> Result<SelfSigned, String> {
    let ip = address.ip().to_string();
    let names = ["localhost", "127.0.0.1", "::1", &ip];
    let extra = !address.ip().is_unspecified() && !names[..3].contains(&ip.as_str());
    SelfSigned::new(&names[..3 + usize::from(extra)])
        .map_err(|error| format!("cannot make a certificate: {error}"))
}

/// The configuration; none for a directory whose name it cannot express.
fn configuration(
    root: &Path,
    address: SocketAddr,
    arguments: &Arguments,
    certificate: Option<&SelfSigned>,
) -> Option<Vec<u8>> {
    if root.as_os_str().as_bytes().contains(&b'$') {
        return None;
    }
    let (fallback, listing) =
        if arguments.spa { ("$uri /index.html", "off") } else { ("$uri $uri/ =404", "on") };
    let log = match arguments.quiet {
        true => "off".to_owned(),
        false => format!("/dev/stdout serve lines_per_second={LINES_PER_SECOND}"),
    };
    let encryption = certificate.map_or_else(String::new, |made| {
        let SelfSigned { certificate, key, .. } = made;
        format!(
            " ssl;\n\
             ssl_certificate \"data:{certificate}\";\n\
             ssl_certificate_key \"data:{key}\";\n\
             \x20       error_page 497 https://$http_host$request_uri"
        )
    });
    let mut text = format!(
        "daemon off;\n\
         master_process off;\n\
         worker_processes auto;\n\
         error_log stderr error;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
         \x20   include {TYPES};\n\
         \x20   default_type application/octet-stream;\n\
         \x20   log_format serve '$request_method $request_uri $status $readable_size $readable_time';\n\
         \x20   access_log {log};\n\
         \x20   gzip on;\n\
         \x20   gzip_vary on;\n\
         \x20   gzip_min_length 256;\n\
         \x20   gzip_types {COMPRESSED};\n\
         \x20   server {{\n\
         \x20       listen {address}{encryption};\n\
         \x20       index index.html index.htm;\n\
         \x20       autoindex {listing};\n\
         \x20       autoindex_format page;\n\
         \x20       autoindex_localtime on;\n\
         \x20       location / {{ try_files {fallback}; }}\n\
         \x20       root "
    )
    .into_bytes();
    text.extend(quoted(root.as_os_str().as_bytes()));
    text.extend_from_slice(b";\n    }\n}\n");
    Some(text)
}

/// A word of a configuration that stands for these bytes.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut word = vec![b'"'];
    for &byte in bytes {
        if byte == b'"' || byte == b'\\' {
            word.push(b'\\');
        }
        word.push(byte);
    }
    word.push(b'"');
    word
}

fn greeting(root: &Path, address: SocketAddr, quiet: bool, certificate: Option<&SelfSigned>) -> String {
    let (ip, port) = (address.ip(), address.port());
    let scheme = if certificate.is_some() { "https" } else { "http" };
    let (url, reach) = if ip.is_loopback() {
        (format!("{scheme}://{address}/"), "for this machine only; --listen 0.0.0.0 lets others in")
    } else if ip.is_unspecified() {
        (format!("{scheme}://localhost:{port}/"), "for every machine that reaches this one")
    } else {
        (format!("{scheme}://{address}/"), "for every machine that reaches this address")
    };
    let trust = certificate.map_or_else(String::new, |made| {
        format!(
            "  with a certificate that nobody vouches for; its SHA-256 fingerprint is\n  {}\n",
            made.fingerprint
        )
    });
    let shown = match quiet {
        true => String::new(),
        false => format!("  up to {LINES_PER_SECOND} requests a second are shown; --quiet shows none\n"),
    };
    format!("Serving {}\n  at {url}\n  {reach}; Ctrl-C stops\n{shown}{trust}", root.display())
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
    let milliseconds = exchange.started.instant.elapsed().as_millis();
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
            socket_address(listen, port, environment).map(|address| address.to_string())
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
    fn the_configuration_is_good_and_needs_no_note() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("a \"b\" \\c; {d}");
        std::fs::create_dir(&root).unwrap();
        for (spa, tls) in [(false, false), (true, false), (true, true)] {
            let quiet = spa;
            let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let arguments = Arguments {
                directory: root.clone(),
                listen: address("127.0.0.1").unwrap(),
                port: Some(port),
                spa,
                tls,
                quiet,
            };
            let (reader, greeting) = prepare(&arguments).unwrap();
            let scheme = if tls { "https" } else { "http" };
            assert!(greeting.contains(&format!("{scheme}://127.0.0.1:{port}/")), "{greeting}");
            assert_eq!(greeting.contains("fingerprint"), tls);
            assert_eq!(greeting.contains("--quiet shows none"), !quiet);
            let configuration = reader.read().map_err(|refusal| refusal.error).unwrap();
            assert!(configuration.read.notes.is_empty(), "{:?}", configuration.read.notes);
            assert_eq!(configuration.site.listens.len(), 1);
            assert!(configuration.error_log.is_none());
        }
    }

    #[test]
    fn a_taken_port_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let text = check_port(address).unwrap_err();
        assert!(text.starts_with(&format!("port {} is taken", address.port())), "{text}");
    }
}
