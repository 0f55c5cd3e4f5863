//! The directives about TLS to other servers, written once for all protocols that have them.

use crate::client_tls::{ClientTls, VariablePair};
use crate::conf_command::ConfCommands;
use crate::names::Names;
use conf::{Arity, Contexts, Diagnostic, Inputs, Span, Word, value};
use contract::{AnyDirective, Args, Directive, Identity, Loading, Pem, PemSource, PemValue, Rule};
use contract::{Template, View};
use inputs::PairFinder;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tls::{ClientPolicy, ClientSettings, Pair, PairCache, PairCacheLimits, PolicyError, Trust};

/// How many directives [`TlsOptions`] has.
pub const TLS_OPTION_COUNT: usize = 14;

/// The directives about TLS, under one protocol's names.
#[expect(missing_docs, reason = "each field is the directive of that name")]
pub struct TlsOptions {
    pub certificate: Directive<Option<PemValue>>,
    pub certificate_cache: Directive<Option<Arc<PairCache>>>,
    pub certificate_key: Directive<Option<PemValue>>,
    pub password_file: Directive<Option<Pem>>,
    pub ciphers: Directive<String>,
    pub protocols: Directive<u32>,
    pub conf_command: Directive<ConfCommands>,
    pub crl: Directive<Option<Pem>>,
    pub name: Directive<Template>,
    pub server_name: Directive<bool>,
    pub session_reuse: Directive<bool>,
    pub trusted_certificate: Directive<Option<Pem>>,
    pub verify: Directive<bool>,
    pub verify_depth: Directive<u64>,
}

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

impl TlsOptions {
    /// The directives under these names.
    pub const fn new(names: &'static Names) -> TlsOptions {
        TlsOptions {
            certificate: pem(names.of("ssl_certificate"), CERTIFICATE),
            certificate_cache: of(
                Directive::new(names.of("ssl_certificate_cache"), parse_certificate_cache),
                CACHE,
            )
            .args(Arity::Range(1, 3))
            .default("off"),
            certificate_key: pem(names.of("ssl_certificate_key"), KEY),
            password_file: of(Directive::new(names.of("ssl_password_file"), parse_file), PASSWORDS),
            ciphers: of(Directive::new(names.of("ssl_ciphers"), parse_ciphers), CIPHERS).default("DEFAULT"),
            protocols: of(Directive::new(names.of("ssl_protocols"), parse_protocols), PROTOCOLS)
                .args(Arity::AtLeast(1))
                .default("TLSv1.2 TLSv1.3"),
            conf_command: of(Directive::new(names.of("ssl_conf_command"), ConfCommands::parse), COMMAND)
                .args(Arity::Exactly(2))
                .rule(Rule::List),
            crl: of(Directive::new(names.of("ssl_crl"), parse_file), REVOKED),
            name: of(Directive::new(names.of("ssl_name"), parse_name), NAME).default("$proxy_host"),
            server_name: of(Directive::flag(names.of("ssl_server_name")), SERVER_NAME).default("off"),
            session_reuse: of(Directive::flag(names.of("ssl_session_reuse")), REUSE).default("on"),
            trusted_certificate: of(Directive::new(names.of("ssl_trusted_certificate"), parse_file), TRUSTED),
            verify: of(Directive::flag(names.of("ssl_verify")), VERIFY).default("off"),
            verify_depth: of(Directive::number(names.of("ssl_verify_depth")), DEPTH).default("1"),
        }
    }

    /// The same for `stream`.
    #[must_use]
    pub const fn in_stream(mut self) -> TlsOptions {
        const LEVELS: Contexts = Contexts::ALL_STREAM;
        self.certificate = self.certificate.within(LEVELS);
        self.certificate_cache = self.certificate_cache.within(LEVELS);
        self.certificate_key = self.certificate_key.within(LEVELS);
        self.password_file = self.password_file.within(LEVELS);
        self.ciphers = self.ciphers.within(LEVELS);
        self.protocols = self.protocols.within(LEVELS);
        self.conf_command = self.conf_command.within(LEVELS);
        self.crl = self.crl.within(LEVELS);
        self.name = self.name.within(LEVELS).default("");
        self.server_name = self.server_name.within(LEVELS);
        self.session_reuse = self.session_reuse.within(LEVELS);
        self.trusted_certificate = self.trusted_certificate.within(LEVELS);
        self.verify = self.verify.within(LEVELS);
        self.verify_depth = self.verify_depth.within(LEVELS);
        self
    }

    /// Reads the files and puts the settings of a scope together. Servers are offered these protocols of the application, the
    /// preferred one first (ALPN).
    ///
    /// # Errors
    /// A file that cannot be used, or settings that contradict each other.
    pub fn policy(&self, view: &View<'_>, protocols: &[&[u8]]) -> Result<Arc<ClientTls>, Diagnostic> {
        let inputs = &*view.origin().inputs;
        let commands = ConfCommands::joined(view.all(&self.conf_command));
        let pems = commands.pair().map_or_else(|| self.pems(view), |pair| Ok(Some(pair)))?;
        let fixed = pems.as_ref().and_then(|(pem, key)| Some((pem.fixed()?, key.fixed()?)));
        let passwords = view.get(&self.password_file).and_then(Option::as_ref);
        let pair = fixed.map(|(pem, key)| pem.pair(key, passwords, inputs)).transpose()?;
        let policy = self.client_policy(view, protocols, (pair.as_ref(), &commands))?;
        let variable = pems.filter(|_| pair.is_none()).map(|pems| {
            let passwords = passwords.map(|pem| pem.kept(inputs)).transpose()?;
            let cache = view.get(&self.certificate_cache).cloned().flatten();
            let finder = PairFinder { passwords, cache };
            Ok(Arc::new(VariablePair { pems, finder, policies: Mutex::default() }))
        });
        Ok(Arc::new(ClientTls::new(policy, variable.transpose()?)))
    }

    fn client_policy(
        &self,
        view: &View<'_>,
        offered: &[&[u8]],
        (pair, commands): (Option<&Pair>, &ConfCommands),
    ) -> Result<Arc<ClientPolicy>, Diagnostic> {
        let trust = self.trust(view, &*view.origin().inputs)?;
        let versions = view.written(&self.protocols);
        let bits = versions.as_ref().map_or(TLS12 | TLS13, |written| *written.value);
        let ciphers = view.written(&self.ciphers);
        let listed = ciphers.as_ref().map_or("DEFAULT", |written| written.value);
        let settings = ClientSettings {
            pair,
            tls12: bits & TLS12 != 0 && !commands.without_tls12,
            tls13: bits & TLS13 != 0 && !commands.without_tls13,
            ciphers: commands.ciphers.as_deref().unwrap_or(listed),
            suites: commands.suites.as_deref().unwrap_or_default(),
            curves: commands.curves.as_deref().unwrap_or("auto"),
            tells_name: view.get(&self.server_name) == Some(&true),
            trust: trust.as_ref(),
            resumes: view.get(&self.session_reuse) != Some(&false),
            protocols: offered,
        };
        let made = view
            .origin()
            .share(Identity::default().bytes(settings.digest()), || ClientPolicy::new(&settings));
        made.map_err(|error| match error {
            PolicyError::NoCipher => {
                let message = format!("SSL_CTX_set_cipher_list(\"{}\") failed ({error})", settings.ciphers);
                at(Diagnostic::emerg(message).hint(KNOWN_CIPHERS), ciphers.map(|written| written.span))
            }
            PolicyError::NoVersion => {
                let message = format!("\"{}\" enables no supported version", name(&self.protocols));
                let hint = "name TLSv1.2, TLSv1.3 or both";
                at(Diagnostic::emerg(message).hint(hint), versions.map(|written| written.span))
            }
            PolicyError::NoSuite | PolicyError::NoGroup | PolicyError::Library => {
                Diagnostic::emerg(format!("cannot speak TLS to upstreams: {error}"))
            }
        })
    }

    /// The certificate that is shown to servers, and its key.
    fn pems(&self, view: &View<'_>) -> Result<Option<(PemValue, PemValue)>, Diagnostic> {
        let Some(certificate) = view.get(&self.certificate).and_then(Option::as_ref) else { return Ok(None) };
        let Some(key) = view.get(&self.certificate_key).and_then(Option::as_ref) else {
            let message = format!(
                "no \"{}\" is defined for certificate \"{}\"",
                name(&self.certificate_key),
                certificate
            );
            return Err(Diagnostic::emerg(message).at(certificate.span()));
        };
        Ok(Some((certificate.clone(), key.clone())))
    }

    /// The authorities that certificates of servers are checked against, if they are checked.
    fn trust(&self, view: &View<'_>, inputs: &dyn Inputs) -> Result<Option<Trust>, Diagnostic> {
        let Some(verify) = view.written(&self.verify).filter(|written| *written.value) else {
            return Ok(None);
        };
        let Some(authorities) = view.get(&self.trusted_certificate).and_then(Option::as_ref) else {
            let message = format!("no {} for {}", name(&self.trusted_certificate), name(&self.verify));
            return Err(Diagnostic::emerg(message).at(verify.span));
        };
        let authorities = authorities.authorities(inputs)?;
        let mut depth = 1;
        view.assign_size(&self.verify_depth, &mut depth);
        let revoked = view.get(&self.crl).and_then(Option::as_ref);
        Pem::trust(&[&authorities], revoked, depth, inputs).map(Some)
    }

    /// All of them.
    pub const fn list(&'static self) -> [&'static dyn AnyDirective; TLS_OPTION_COUNT] {
        [
            &self.certificate,
            &self.certificate_cache,
            &self.certificate_key,
            &self.password_file,
            &self.ciphers,
            &self.protocols,
            &self.conf_command,
            &self.crl,
            &self.name,
            &self.server_name,
            &self.session_reuse,
            &self.trusted_certificate,
            &self.verify,
            &self.verify_depth,
        ]
    }
}

const CERTIFICATE: &str = "The file with the certificate that is sent to servers that ask for one, as PEM. The \
                           path may contain variables; then a worker process reads the file for each request.";
const CACHE: &str = "How many certificates and keys that variables name are kept, and how long.";
const KEY: &str = "The file with the private key of that certificate.";
const PASSWORDS: &str = "The file with passwords of the key, one a line.";
const CIPHERS: &str = "The ciphers of TLS 1.2, in OpenSSL's language.";
const PROTOCOLS: &str = "The versions of TLS that are enabled.";
const COMMAND: &str = "One of these OpenSSL configuration commands: `Ciphersuites`, `CipherString`, `Groups`, \
                       `MinProtocol`, `MaxProtocol`, `Certificate`, `PrivateKey`, and some `Options`.";
const REVOKED: &str =
    "The file with lists of revoked certificates, as PEM. Each authority of the chain needs a list.";
const NAME: &str = "The name that certificates are verified against, and that servers get if SNI is enabled.";
const SERVER_NAME: &str = "Whether the name is sent to servers in the handshake (SNI).";
const REUSE: &str = "Whether sessions are resumed.";
const TRUSTED: &str = "The file with the certificates of trusted authorities, as PEM.";
const VERIFY: &str = "Whether the certificates of servers are verified.";
const DEPTH: &str =
    "How many certificates may stand between the certificate of a server and that of an authority.";

const KNOWN_CIPHERS: &str = "remove the line, or name supported ciphers: ECDHE with AES-GCM or ChaCha20, such as \
                             ECDHE+AESGCM:ECDHE+CHACHA20";

const TLS12: u32 = 1;
const TLS13: u32 = 2;

const fn of<T>(directive: Directive<T>, help: &'static str) -> Directive<T> {
    directive.within(LEVELS).help(help)
}

const fn pem(name: &'static str, help: &'static str) -> Directive<Option<PemValue>> {
    of(Directive::new(name, parse_pem), help)
}

fn name(directive: &dyn AnyDirective) -> &'static str {
    directive.info().name
}

fn at(error: Diagnostic, place: Option<Span>) -> Diagnostic {
    match place {
        Some(place) => error.at(place),
        None => error,
    }
}

/// A file, or its text, perhaps with variables; an empty name takes back what a level above says.
fn parse_pem(args: &Args<'_>, loading: &mut Loading) -> Result<Option<PemValue>, Diagnostic> {
    let pem = PemValue::parse(args, loading)?;
    Ok((!args.word(0)?.text.is_empty()).then_some(pem))
}

/// A file; an empty name takes back what a level above says.
fn parse_file(args: &Args<'_>, loading: &mut Loading) -> Result<Option<Pem>, Diagnostic> {
    let word = args.word(0)?;
    let source = PemSource::File(value::path(word, &loading.conf_prefix));
    Ok((!word.text.is_empty()).then_some(Pem { source, span: args.node.span }))
}

/// Reads `off | max=NUMBER [inactive=TIME] [valid=TIME]`. Levels that inherit the value share the cache.
///
/// # Errors
/// Something else, or no `max`.
pub fn parse_certificate_cache(
    args: &Args<'_>,
    _: &mut Loading,
) -> Result<Option<Arc<PairCache>>, Diagnostic> {
    let (mut max, mut inactive, mut valid, mut is_off) = (None, 10, 60, false);
    for word in args.words() {
        let invalid = |_| {
            let message = format!("invalid parameter \"{word}\"");
            Diagnostic::emerg(message).at(args.node.span).under(word.span)
        };
        let rest = |text: &[u8]| Word { text: text.into(), ..*word };
        if let Some(text) = word.text.strip_prefix(b"max=") {
            let number = value::bounded(&rest(text), 1, None).map_err(invalid)?;
            max = Some(usize::try_from(number).unwrap_or(usize::MAX));
        } else if let Some(text) = word.text.strip_prefix(b"inactive=") {
            inactive = value::time_s(&rest(text)).map_err(invalid)?;
        } else if let Some(text) = word.text.strip_prefix(b"valid=") {
            valid = value::time_s(&rest(text)).map_err(invalid)?;
        } else if word.is("off") {
            is_off = true;
        } else {
            return Err(invalid(value::ValueError::Number));
        }
    }
    let (inactive, valid) = (Duration::from_secs(inactive), Duration::from_secs(valid));
    match max {
        _ if is_off => Ok(None),
        Some(max) => Ok(Some(Arc::new(PairCache::new(PairCacheLimits { max, inactive, valid })))),
        None => {
            let message = format!("\"{}\" must have the \"max\" parameter", args.node.name);
            Err(Diagnostic::emerg(message).at(args.node.span))
        }
    }
}

/// `PROFILE=SYSTEM`, which Red Hat's OpenSSL replaces by a policy of the system, is the default list.
fn parse_ciphers(args: &Args<'_>, _: &mut Loading) -> Result<String, Diagnostic> {
    Ok(String::from_utf8_lossy(&args.word(0)?.text).replacen("PROFILE=SYSTEM", "DEFAULT", 1))
}

fn parse_name(args: &Args<'_>, loading: &mut Loading) -> Result<Template, Diagnostic> {
    loading.template(args.word(0)?)
}

fn parse_protocols(args: &Args<'_>, _: &mut Loading) -> Result<u32, Diagnostic> {
    // Versions before 1.2 are broken (RFC 8996) and not spoken.
    const TABLE: [(&str, u32); 6] =
        [("SSLv2", 0), ("SSLv3", 0), ("TLSv1", 0), ("TLSv1.1", 0), ("TLSv1.2", TLS12), ("TLSv1.3", TLS13)];
    args.words().iter().try_fold(0, |versions, word| {
        value::choice(word, &TABLE)
            .map(|version| versions | version)
            .map_err(|error| error.at(args.node, word))
    })
}
