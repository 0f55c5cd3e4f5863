//! `--domain` of `fulmar serve` and `fulmar proxy`: names with an automatic certificate.

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use acme::{Challenge, certificate_name};
use clap::Args;
use conf::{Inputs, Memory};
use contract::inputs::System;
use net::identity::is_superuser;

/// The authority that is asked.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Where the superuser's state is.
const STATE: &str = "/var/lib/fulmar/domains";

/// The same for others, below the directory for state and below the home directory.
const USER_STATE: [&str; 2] = ["fulmar/domains", ".local/state/fulmar/domains"];

/// The same below the directory that a service manager gives.
const SERVICE_STATE: &str = "domains";

/// Where certificates come from.
#[derive(Clone, Debug, Args)]
pub(crate) struct Source {
    /// Get a certificate for this name from Let's Encrypt, whose terms of service you accept, and listen on ports 443 and
    /// 80 of all addresses; may be given several times
    #[arg(long, value_name = "NAME", conflicts_with = "tls")]
    domain: Vec<String>,
    /// The ACME directory of another authority, whose terms of service you accept
    #[arg(long, value_name = "URL", default_value = LETS_ENCRYPT, hide_default_value = true, requires = "domain", value_parser = url)]
    authority: String,
    /// The certificates that verify the authority's server [default: the system's certificates]
    #[arg(long, value_name = "FILE", requires = "domain")]
    authority_certificates: Option<PathBuf>,
}

/// Names that are served with a certificate of an authority.
#[derive(Clone, Debug)]
pub(crate) struct Domains {
    names: Vec<String>,
    authority: String,
    trusted: Option<PathBuf>,
    /// Where the account and the certificates are kept.
    state: PathBuf,
    /// The address in clear whose requests are redirected, if it is free.
    clear: Option<SocketAddr>,
}

impl Source {
    /// Whether certificates are wanted.
    pub(crate) fn is_used(&self) -> bool {
        !self.domain.is_empty()
    }

    /// The names, which are served in clear at this address, too.
    ///
    /// # Errors
    /// A name that no authority issues a certificate for, or no place for state.
    pub(crate) fn domains(&self, clear: Option<SocketAddr>) -> Result<Domains, String> {
        let checked = |name: &String| {
            let found = certificate_name(name, &Challenge::TlsAlpn);
            found.ok_or_else(|| format!("no authority issues a certificate for \"{name}\""))
        };
        let names = self.domain.iter().map(checked).collect::<Result<_, _>>()?;
        let [service, data, home] = ["STATE_DIRECTORY", "XDG_STATE_HOME", "HOME"].map(std::env::var_os);
        let own = || if is_superuser() { Some(PathBuf::from(STATE)) } else { user_state(data, home) };
        let state = below(service, SERVICE_STATE).or_else(own).filter(|path| is_expressible(path));
        let state = state.ok_or("set HOME to a directory for the certificates")?;
        let trusted = self.authority_certificates.as_deref().map(usable).transpose()?;
        Ok(Domains { names, authority: self.authority.clone(), trusted, state, clear })
    }
}

#[cfg(test)]
impl Source {
    /// No names.
    pub(crate) fn none() -> Source {
        Source { domain: Vec::new(), authority: LETS_ENCRYPT.to_owned(), authority_certificates: None }
    }
}

/// The whole path of a file that can be read.
fn usable(path: &Path) -> Result<PathBuf, String> {
    let complain = |reason: &str| format!("cannot read \"{}\" ({reason})", path.display());
    let path = path.canonicalize().map_err(|error| complain(&net::system_message(&error)))?;
    if is_expressible(&path) { Ok(path) } else { Err(complain("its name has one of the characters \" \\ $")) }
}

/// Whether a path can stand between quotes in a configuration.
fn is_expressible(path: &Path) -> bool {
    path.to_str().is_some_and(|path| !path.contains(['"', '\\', '$']))
}

fn url(text: &str) -> Result<String, &'static str> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"\\$;{}'".contains(&byte);
    let is_good = text.starts_with("https://") && text.bytes().all(is_plain);
    if is_good { Ok(text.to_owned()) } else { Err("give a URL that begins with https://") }
}

impl Domains {
    /// The first of the names, for a URL.
    pub(crate) fn first(&self) -> &str {
        self.names.first().map_or("", |name| name)
    }

    /// Who issues the certificate.
    pub(crate) fn authority(&self) -> &str {
        if self.authority == LETS_ENCRYPT { "Let's Encrypt" } else { &self.authority }
    }

    /// The lines of `http`.
    pub(crate) fn http(&self) -> String {
        let redirecting = self.clear.map_or_else(String::new, |address| {
            format!("    server {{ listen {address}; return 301 https://$host$request_uri; }}\n")
        });
        let trusted = self.trusted.as_ref().map_or_else(String::new, |path| {
            format!("        ssl_trusted_certificate \"{}\";\n", path.display())
        });
        format!(
            "    acme_issuer authority {{\n\
             \x20       uri {};\n\
             {trusted}\
             \x20       challenge tls-alpn-01;\n\
             \x20       state_path \"{}\";\n\
             \x20       accept_terms_of_service;\n\
             \x20   }}\n\
             {redirecting}",
            self.authority,
            self.state.display()
        )
    }

    /// The lines of the server, after `listen ADDRESS`.
    pub(crate) fn server(&self) -> String {
        format!(" ssl;\n        server_name {};\n        ssl_certificate auto", self.names.join(" "))
    }

    /// A configuration in memory, and certificates on disk.
    pub(crate) fn inputs(&self, memory: Memory) -> Layered {
        Layered { memory, state: self.state.clone() }
    }
}

fn user_state(data: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    below(data, USER_STATE[0]).or_else(|| below(home, USER_STATE[1]))
}

fn below(around: Option<OsString>, path: &str) -> Option<PathBuf> {
    around.map(PathBuf::from).filter(|around| around.is_absolute()).map(|around| around.join(path))
}

/// The port for clear requests of this address, if those with TLS come to the usual one.
pub(crate) fn clear_address(ip: IpAddr, port: u16) -> Option<SocketAddr> {
    (port == 443).then(|| SocketAddr::new(ip, 80))
}

/// Files in memory, and those below one directory of the disk.
pub(crate) struct Layered {
    memory: Memory,
    state: PathBuf,
}

impl Inputs for Layered {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if path.starts_with(&self.state) { System.read(path) } else { self.memory.read(path) }
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        self.memory.glob(pattern)
    }

    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.memory.resolve(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_must_be_public() {
        let names = |name: &str| {
            let source = Source { domain: vec![name.to_owned()], ..Source::none() };
            source.domains(None).map(|domains| domains.first().to_owned())
        };
        assert!(names("localhost").unwrap_err().contains("localhost"));
        assert!(names("*.example.org").is_err());
        if std::env::var_os("HOME").is_some() || is_superuser() {
            assert_eq!(names("Example.org").as_deref(), Ok("example.org"));
        }
    }

    #[test]
    fn authority_is_a_url_that_a_configuration_can_have() {
        assert!(url("https://127.0.0.1:14000/dir?a=b").is_ok());
        for wrong in ["", "http://a.example/", "https://a b", "https://a;b", "https://$host/", "https://a\nb"]
        {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn state_is_in_a_directory_of_the_user() {
        let of =
            |data: Option<&str>, home: Option<&str>| user_state(data.map(Into::into), home.map(Into::into));
        assert_eq!(of(Some("/s"), Some("/h")), Some(PathBuf::from("/s/fulmar/domains")));
        assert_eq!(of(Some("s"), Some("/h")), Some(PathBuf::from("/h/.local/state/fulmar/domains")));
        assert_eq!(of(None, None), None);
    }

    #[test]
    fn only_the_state_comes_from_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        std::fs::create_dir(&state).unwrap();
        for path in [state.join("a"), directory.path().join("b")] {
            std::fs::write(path, "disk").unwrap();
        }
        let source = Source { domain: vec!["a.example".to_owned()], ..Source::none() };
        let domains = Domains { state: state.clone(), ..source.domains(None).unwrap() };
        let inputs = domains.inputs(Memory::default().with("/conf", "memory"));
        assert_eq!(inputs.read(&state.join("a")).unwrap(), b"disk");
        assert_eq!(inputs.read(Path::new("/conf")).unwrap(), b"memory");
        assert!(inputs.read(&directory.path().join("b")).is_err());
    }
}
