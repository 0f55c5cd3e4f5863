//! `--domain` of `fulmar serve` and `fulmar proxy`: names with an automatic certificate.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use acme::{Challenge, certificate_name};
use clap::Args;

use crate::state;

/// The authority that is asked.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The directory of the certificates below the one for state.
const STATE: &str = "domains";

/// Where certificates come from.
#[derive(Clone, Debug, Args)]
pub(crate) struct Source {
    /// Get a certificate for this name from Let's Encrypt, whose terms of service you accept, and listen on ports 443 and
    /// 80 of all addresses; may be given several times
    #[arg(long, value_name = "NAME", conflicts_with_all = ["tls", "certificate"])]
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
        let state = state::directory(STATE).ok_or("set HOME to a directory for the certificates")?;
        let trusted = self.authority_certificates.as_deref().map(state::usable).transpose()?;
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

    /// The directory that the configuration names.
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }
}

/// The port for clear requests of this address, if those with TLS come to the usual one.
pub(crate) fn clear_address(ip: IpAddr, port: u16) -> Option<SocketAddr> {
    (port == 443).then(|| SocketAddr::new(ip, 80))
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
        if std::env::var_os("HOME").is_some() || net::identity::is_superuser() {
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
}
