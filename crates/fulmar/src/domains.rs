//! `--domain` of `fulmar serve` and `fulmar proxy`: names with a certificate that comes by itself.

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use acme::{Challenge, certificate_name};
use conf::{Inputs, Memory};
use contract::inputs::System;
use net::identity::is_superuser;

/// The authority that is asked.
const AUTHORITY: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Where the superuser's state is.
const STATE: &str = "/var/lib/fulmar/domains";

/// The same for others, below the directory for state and below the home directory.
const USER_STATE: [&str; 2] = ["fulmar/domains", ".local/state/fulmar/domains"];

/// Names that are served with a certificate of an authority.
#[derive(Clone, Debug)]
pub(crate) struct Domains {
    names: Vec<String>,
    /// Where the account and the certificates are kept.
    state: PathBuf,
    /// The address in clear whose requests are redirected, if it is free.
    clear: Option<SocketAddr>,
}

impl Domains {
    /// Checks names.
    ///
    /// # Errors
    /// A name that no authority issues a certificate for, or no place for state.
    pub(crate) fn new(names: &[String], clear: Option<SocketAddr>) -> Result<Domains, String> {
        let checked = |name: &String| {
            let found = certificate_name(name, &Challenge::TlsAlpn);
            found.ok_or_else(|| format!("no authority issues a certificate for \"{name}\""))
        };
        let names = names.iter().map(checked).collect::<Result<_, _>>()?;
        let [data, home] = ["XDG_STATE_HOME", "HOME"].map(std::env::var_os);
        let state = if is_superuser() { Some(PathBuf::from(STATE)) } else { user_state(data, home) };
        let state = state.filter(|path| path.to_str().is_some_and(|path| !path.contains(['"', '\\', '$'])));
        let state = state.ok_or("set HOME to a directory for the certificates")?;
        Ok(Domains { names, state, clear })
    }

    /// The first of the names, for a URL.
    pub(crate) fn first(&self) -> &str {
        self.names.first().map_or("", |name| name)
    }

    /// The lines of `http`.
    pub(crate) fn http(&self) -> String {
        let redirecting = self.clear.map_or_else(String::new, |address| {
            format!("    server {{ listen {address}; return 301 https://$host$request_uri; }}\n")
        });
        format!(
            "    acme_issuer letsencrypt {{\n\
             \x20       uri {AUTHORITY};\n\
             \x20       challenge tls-alpn-01;\n\
             \x20       state_path \"{}\";\n\
             \x20       accept_terms_of_service;\n\
             \x20   }}\n\
             {redirecting}",
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
    let below = |around: Option<OsString>, path: &str| {
        around.map(PathBuf::from).filter(|around| around.is_absolute()).map(|around| around.join(path))
    };
    below(data, USER_STATE[0]).or_else(|| below(home, USER_STATE[1]))
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
        let names =
            |name: &str| Domains::new(&[name.to_owned()], None).map(|domains| domains.first().to_owned());
        assert!(names("localhost").unwrap_err().contains("localhost"));
        assert!(names("*.example.org").is_err());
        if std::env::var_os("HOME").is_some() || is_superuser() {
            assert_eq!(names("Example.org").as_deref(), Ok("example.org"));
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
        let domains = Domains { names: vec!["a.example".to_owned()], state: state.clone(), clear: None };
        let inputs = domains.inputs(Memory::default().with("/conf", "memory"));
        assert_eq!(inputs.read(&state.join("a")).unwrap(), b"disk");
        assert_eq!(inputs.read(Path::new("/conf")).unwrap(), b"memory");
        assert!(inputs.read(&directory.path().join("b")).is_err());
    }
}
