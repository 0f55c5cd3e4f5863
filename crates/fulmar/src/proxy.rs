//! `fulmar proxy`: requests passed to another server without a configuration.
//!
//! Like `fulmar serve`, it writes the configuration that an administrator would write, and runs it in one process.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use conf::Memory;

use crate::configuration::Reader;
use crate::listening::{self, Door, Listening};

/// Where the configuration is in memory.
const CONF: &str = "/proxy.conf";

/// Passes requests to another server over HTTP, WebSockets included, without buffering. Prints up to
/// 20 requests a second, and counts the others. Ctrl-C stops it.
#[derive(Debug, Parser)]
#[command(name = "fulmar proxy", bin_name = "fulmar proxy", version = server::VERSION)]
pub(crate) struct Arguments {
    /// The other server: a host and a port such as localhost:3000, or a port of this machine
    #[arg(long, value_name = "SERVER")]
    to: String,
    #[command(flatten)]
    listening: Listening,
}

/// Passes requests on until it is stopped.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    listening::run(arguments, prepare)
}

/// What to run, and what to print when it runs.
fn prepare(arguments: &Arguments) -> Result<(Reader, String), String> {
    let name = name(&arguments.to);
    let addresses = addresses(&name)?;
    let door = arguments.listening.door()?;
    let inputs = Memory::default().with(CONF, configuration(&addresses, &door));
    let greeting = door.greeting(&format!("Passing requests to http://{name}/"));
    Ok((door.reader(inputs, CONF, PathBuf::from("/")), greeting))
}

/// The host and the port that an argument means.
fn name(to: &str) -> String {
    let bare = to.strip_prefix("http://").unwrap_or(to);
    let bare = bare.strip_suffix('/').unwrap_or(bare);
    let port = bare.strip_prefix(':').unwrap_or(bare);
    match port.parse::<u16>() {
        Ok(port) => format!("localhost:{port}"),
        Err(_) => bare.to_owned(),
    }
}

/// The addresses of the upstream server.
fn addresses(name: &str) -> Result<Vec<SocketAddr>, String> {
    if name.starts_with("https://") {
        return Err(
            "--to over TLS needs a configuration, which says whom to trust; see proxy_ssl_verify".into()
        );
    }
    if !name.contains(':') {
        return Err(format!("\"{name}\" has no port; give a host and a port such as {name}:3000"));
    }
    let found = name.to_socket_addrs();
    let found: Vec<_> =
        found.map_err(|error| format!("cannot find the server \"{name}\": {error}"))?.collect();
    match found.is_empty() || found.iter().any(|address| address.port() == 0) {
        true => {
            Err(format!("cannot find the server \"{name}\"; give a host and a port such as localhost:3000"))
        }
        false => Ok(found),
    }
}

fn configuration(addresses: &[SocketAddr], door: &Door) -> String {
    let servers: String = addresses.iter().map(|address| format!(" server {address};")).collect();
    format!(
        "{}\
         \x20   map $http_upgrade $connection_field {{ default upgrade; '' ''; }}\n\
         \x20   upstream server {{{servers} }}\n\
         \x20   server {{\n\
         \x20       {}\n\
         \x20       client_max_body_size 0;\n\
         \x20       location / {{\n\
         \x20           proxy_pass http://server;\n\
         \x20           proxy_set_header Host $http_host;\n\
         \x20           proxy_set_header X-Real-IP $remote_addr;\n\
         \x20           proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n\
         \x20           proxy_set_header X-Forwarded-Proto $scheme;\n\
         \x20           proxy_set_header Upgrade $http_upgrade;\n\
         \x20           proxy_set_header Connection $connection_field;\n\
         \x20           proxy_buffering off;\n\
         \x20           proxy_request_buffering off;\n\
         \x20           proxy_read_timeout 1h;\n\
         \x20       }}\n\
         \x20   }}\n\
         }}\n",
        door.preamble(),
        door.listen(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_hosts_with_ports() {
        for (to, expected) in [
            ("localhost:3000", "localhost:3000"),
            ("3000", "localhost:3000"),
            (":3000", "localhost:3000"),
            ("http://127.0.0.1:81/", "127.0.0.1:81"),
            ("[::1]:81", "[::1]:81"),
        ] {
            assert_eq!(name(to), expected, "{to}");
        }
        assert!(!addresses("127.0.0.1:81").unwrap().is_empty());
        for wrong in ["localhost", "127.0.0.1:0", "https://a:1", "127.0.0.1:x", "host.invalid:80"] {
            assert!(addresses(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_configuration_is_good_and_needs_no_note() {
        for tls in [false, true] {
            let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let listening = Listening::local(port, tls, false);
            let arguments = Arguments { to: "127.0.0.1:81".to_owned(), listening };
            let (reader, greeting) = prepare(&arguments).unwrap();
            assert!(greeting.starts_with("Passing requests to http://127.0.0.1:81/\n"), "{greeting}");
            let configuration = reader.read().map_err(|refusal| refusal.error).unwrap();
            assert!(configuration.read.notes.is_empty(), "{:?}", configuration.read.notes);
        }
    }
}
