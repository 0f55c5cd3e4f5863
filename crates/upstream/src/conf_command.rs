//! The commands of OpenSSL's configuration that TLS directives pass on (`ssl_conf_command`, `proxy_ssl_conf_command`), as far
//! as they have a counterpart here.

use conf::{Diagnostic, Word, value};
use contract::{Args, Loading, Pem, PemSource, PemValue, Written};

/// What commands change. Nothing by default.
#[derive(Clone, Debug, Default)]
pub struct ConfCommands {
    /// The ciphers of TLS 1.2, in OpenSSL's language (`CipherString`).
    pub ciphers: Option<String>,
    /// The ciphers of TLS 1.3 in their order (`Ciphersuites`).
    pub suites: Option<String>,
    /// The groups of key exchange (`Groups`).
    pub curves: Option<String>,
    /// The algorithms by which a server signs (`SignatureAlgorithms`).
    pub signatures: Option<String>,
    /// Whether TLS 1.2 is disabled (`MinProtocol TLSv1.3`).
    pub without_tls12: bool,
    /// Whether TLS 1.3 is disabled (`MaxProtocol TLSv1.2`).
    pub without_tls13: bool,
    /// Replaces the certificates (`Certificate`).
    pub certificate: Option<Pem>,
    /// The key of that certificate (`PrivateKey`).
    pub key: Option<Pem>,
    /// Whether clients get tickets (`Options SessionTicket`).
    pub tickets: Option<bool>,
    /// Whether the server's order of ciphers counts (`Options ServerPreference`).
    pub server_order: Option<bool>,
}

/// Options that ask for what is always so here, or that only change speed.
const ALWAYS: [&str; 10] = [
    "-compression",
    "ecdhsingle",
    "dhsingle",
    "extendedmastersecret",
    "encryptthenmac",
    "-unsafelegacyrenegotiation",
    "-unsafelegacyserverconnect",
    "norenegotiation",
    "prioritizechacha",
    "ktls",
];

impl ConfCommands {
    /// Reads a command and its value.
    ///
    /// # Errors
    /// It has no counterpart here.
    pub fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<ConfCommands, Diagnostic> {
        let (command, word) = (args.word(0)?, args.word(1)?);
        let text = String::from_utf8_lossy(&word.text).into_owned();
        let mut made = ConfCommands::default();
        let is_known = match &*command.text.to_ascii_lowercase() {
            b"minprotocol" => made.set_oldest(&text),
            b"maxprotocol" => made.set_newest(&text),
            b"options" => text.split(',').all(|option| made.set_option(option.trim())),
            b"ciphersuites" => {
                let is_known = tls::are_suites(&text);
                made.suites = Some(text);
                is_known
            }
            // As a client nothing is signed without a certificate, and what servers sign by is the TLS library's choice.
            b"signaturealgorithms" if args.node.is("ssl_conf_command") => {
                let is_known = tls::are_signatures(&text);
                made.signatures = Some(text);
                is_known
            }
            other => {
                match other {
                    b"cipherstring" => made.ciphers = Some(text),
                    b"groups" | b"curves" => made.curves = Some(text),
                    b"certificate" => made.certificate = Some(file(args, word, loading)),
                    b"privatekey" => made.key = Some(file(args, word, loading)),
                    _ => {}
                }
                [&b"cipherstring"[..], b"groups", b"curves", b"certificate", b"privatekey"].contains(&other)
            }
        };
        if !is_known {
            let message = format!(
                "\"{}\" with \"{command}\" \"{word}\" is not supported (it configures OpenSSL)",
                args.node.name
            );
            let hint = "OpenSSL is not used here: use the directives for protocols, ciphers, certificates and sessions";
            loading.refuse(Diagnostic::emerg(message).at(args.node.span).under(word.span).hint(hint))?;
        }
        Ok(made)
    }

    /// All commands of a level; of two that set the same the later one counts.
    pub fn joined(all: Vec<Written<'_, ConfCommands>>) -> ConfCommands {
        let mut joined = ConfCommands::default();
        for Written { value, .. } in all {
            let later = value.clone();
            joined = ConfCommands {
                ciphers: later.ciphers.or(joined.ciphers),
                suites: later.suites.or(joined.suites),
                curves: later.curves.or(joined.curves),
                signatures: later.signatures.or(joined.signatures),
                without_tls12: later.without_tls12 || joined.without_tls12,
                without_tls13: later.without_tls13 || joined.without_tls13,
                certificate: later.certificate.or(joined.certificate),
                key: later.key.or(joined.key),
                tickets: later.tickets.or(joined.tickets),
                server_order: later.server_order.or(joined.server_order),
            };
        }
        joined
    }

    /// The certificate and the key that replace those of other directives. The key may be in the file of the certificate.
    pub fn pair(&self) -> Option<(PemValue, PemValue)> {
        let certificate = self.certificate.as_ref()?;
        let key = self.key.as_ref().unwrap_or(certificate);
        Some((PemValue::Fixed(certificate.clone()), PemValue::Fixed(key.clone())))
    }

    fn set_oldest(&mut self, version: &str) -> bool {
        self.without_tls12 = version == "TLSv1.3";
        ["None", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"].contains(&version)
    }

    fn set_newest(&mut self, version: &str) -> bool {
        self.without_tls13 = version == "TLSv1.2";
        ["None", "TLSv1.2", "TLSv1.3"].contains(&version)
    }

    fn set_option(&mut self, option: &str) -> bool {
        let name = option.to_ascii_lowercase();
        let name = name.strip_prefix('+').unwrap_or(&name);
        match name {
            "sessionticket" | "-sessionticket" => self.tickets = Some(!name.starts_with('-')),
            "serverpreference" | "-serverpreference" => self.server_order = Some(!name.starts_with('-')),
            _ => return ALWAYS.contains(&name),
        }
        true
    }
}

fn file(args: &Args<'_>, word: &Word, loading: &Loading) -> Pem {
    Pem { source: PemSource::File(value::path(word, &loading.conf_prefix)), span: args.node.span }
}
