//! Encrypts connections with TLS: `listen … ssl` and its settings.
//!
//! ```nginx
//! server {
//!     listen 443 ssl;
//!     server_name www.example.com;
//!     ssl_certificate     /etc/ssl/www.example.com.pem;
//!     ssl_certificate_key /etc/ssl/www.example.com.key;
//! }
//! ```
//!
//! `ssl_certificate` is a file with the server's certificate, followed by those of its issuers, as PEM.
//! `ssl_certificate_key` is its key, as PKCS#8, PKCS#1 or SEC1; `ssl_password_file` has the password of an encrypted
//! key (AES). A server may have several certificates, such as one with RSA and one with an elliptic curve: Fulmar
//! chooses by what the client supports. `data:` and the text itself replace a file. The supervisor reads the files;
//! the worker cannot. A file may be a named pipe, into which a program writes within ten seconds at each start and reload.
//!
//! Values may have variables, such as `$ssl_server_name` or those of `map` and `geo`. They may use what is known before
//! the handshake: the name that the client asks for and the addresses. Then each new connection finds its certificate
//! and key, and the worker reads the files with the rights of `user`: give that user access to the keys, and to nothing
//! else. Do not let clients choose any path. If a file cannot be used, the handshake fails and the error log says why. `ssl_certificate_cache` keeps
//! certificates with their keys for further connections: at most `max` of both together, for `inactive` after the last
//! use (10 seconds by default), and for `valid` after they were read (60 seconds). Keys that a password opens are not kept. These files are not watched and
//! cannot be pipes, and `ssl_stapling` does not apply to their certificates. The worker keeps the passwords of `ssl_password_file` for these keys. Otherwise
//! it does not use them, but they may be in the memory that it inherits: the supervisor keeps them for keys that change, unless `ssl_certificate_watch` is off.
//!
//! ```nginx
//! server {
//!     listen 443 ssl;
//!     ssl_certificate       /etc/ssl/sites/$ssl_server_name.pem;
//!     ssl_certificate_key   /etc/ssl/sites/$ssl_server_name.key;
//!     ssl_certificate_cache max=1000 inactive=1m;
//! }
//! ```
//!
//! The supervisor looks at the files (not pipes) of certificates, keys and OCSP answers every two seconds. It serves files that
//! changed as soon as they stay the same from one look to the next. No reload is needed, and other changes of the configuration
//! do not take effect. It checks the files first. If they cannot be used, for example because a key belongs to another
//! certificate, the error log says why, and the previous certificate stays in use. Programs that renew
//! certificates, such as Certbot and acme.sh, need no reload command. `ssl_certificate_watch off` leaves changed files
//! to the next reload.
//!
//! The name that the client sends (SNI) chooses the server, and with it certificate, versions and ciphers. Without a
//! known name, the client gets the default server. A request without TLS on such a port gets 400 (`error_page 497`).
//!
//! The versions are TLS 1.2 and 1.3. `ssl_protocols` may name older versions next to them; Fulmar ignores those,
//! because they are broken (RFC 8996). `ssl_ciphers` selects among six ciphers of TLS 1.2, in OpenSSL's language:
//! ECDHE with ECDSA or RSA, and AES-GCM or ChaCha20. The ciphers of TLS 1.3 are always available. `PROFILE=SYSTEM`,
//! which some distributions write, means the default list. `ssl_ecdh_curve` selects among X25519MLKEM768, X25519,
//! prime256v1 and secp384r1.
//!
//! Sessions are resumed with tickets. The server replaces their keys after `ssl_session_timeout`. A ticket is valid only for the
//! same certificate and the same settings of `ssl_verify_client`. With `ssl_session_cache`, clients without tickets can resume
//! sessions, too; these are kept in memory. `$ssl_session_id` identifies a session; it is empty if the session cannot
//! be resumed.
//!
//! `ssl_session_ticket_key` names files with keys of tickets, so that several machines resume the sessions of each other
//! and restarts lose none. The first key seals tickets, and every key opens them. A file has 80 random bytes (AES-256), or
//! 48 (AES-128). To rotate the keys, put a new file first, keep the previous one as the second, and reload: sessions and
//! connections stay. An attacker who has such a key can read recorded connections of TLS 1.2 that used it: replace keys
//! daily, and do not put them on disks that are backed up. The worker does not read the files.
//!
//! ```nginx
//! server {
//!     listen 443 ssl;
//!     ssl_certificate        /etc/ssl/www.example.com.pem;
//!     ssl_certificate_key    /etc/ssl/www.example.com.key;
//!     ssl_session_ticket_key /run/tickets/current.key;
//!     ssl_session_ticket_key /run/tickets/previous.key;
//! }
//! ```
//!
//! `ssl_conf_command` passes a command to OpenSSL in nginx. These have a counterpart here, and override other
//! directives: `Ciphersuites` (the ciphers of TLS 1.3 in their order), `CipherString`, `Groups`, `SignatureAlgorithms` (by
//! which the server signs; certificates of clients are checked as before), `MinProtocol`, `MaxProtocol`, `Certificate` with `PrivateKey` (in place of `ssl_certificate`), and of `Options` `SessionTicket`
//! and `ServerPreference`, each with or without `-`. `Options` that ask for what is always so here, such as
//! `NoRenegotiation`, or that only change speed, such as `KTLS`, have no effect. Everything else is an error.
//!
//! `ssl_buffer_size` limits the content of a record. `ssl_certificate_compression on` sends certificates compressed (zlib)
//! to clients of TLS 1.3 that allow it.
//!
//! `ssl_verify_client` asks clients for a certificate. A chain from it must end at a certificate of
//! `ssl_client_certificate` or `ssl_trusted_certificate` that signed itself, with no more than `ssl_verify_depth`
//! certificates between. `optional` also accepts clients without a certificate. `optional_no_ca` also accepts
//! certificates of unknown authorities: the application must verify them. A wrong certificate does not end the
//! handshake. The request gets 400 instead (`error_page 495`), as does one without a certificate where one is required
//! (`error_page 496`). `$ssl_client_verify` is `SUCCESS`, `NONE` or `FAILED:` with OpenSSL's reason. Other variables
//! show the certificate itself.
//!
//! ```nginx
//! server {
//!     listen 443 ssl;
//!     server_name intern.example.com;
//!     ssl_certificate        /etc/ssl/intern.pem;
//!     ssl_certificate_key    /etc/ssl/intern.key;
//!     ssl_verify_client      on;
//!     ssl_client_certificate /etc/ssl/staff.pem;
//!     ssl_crl                /etc/ssl/staff.crl;
//! }
//! ```
//!
//! A server that checks clients answers only connections that asked for it by name, or for no known name. Other
//! requests get 421, and so does a client whose certificate was checked against the authorities of another server.
//! Certificates are verified at the start of each connection, also if it resumes a session.
//! Lists of `ssl_crl` that are partial or indirect are errors. RSA keys must have 2048 bits, and signatures must use
//! SHA-256 or better.
//!
//! `ssl_ocsp on` also asks OCSP responders about the certificate of a client and those of the authorities between it and
//! the root; `ssl_ocsp leaf` asks about the client's own one only. The worker asks when a connection begins, and requests
//! wait for the answer: the HTTP responder that the certificate names, or `ssl_ocsp_responder`. If the responder says
//! that a certificate is revoked or unknown, or cannot be asked, requests get 400 (`error_page 495`), and
//! `$ssl_client_verify` says why. An answer must have the signature of the issuer, or of a certificate of the issuer for
//! OCSP. `ssl_ocsp_cache` keeps answers until they are over, for all servers that name the same cache, also over a reload.
//! Failures are not kept, and neither are answers without an end. Names of responders are looked up by `resolver`, or else by the system.
//!
//! ```nginx
//! server {
//!     listen 443 ssl;
//!     ssl_certificate        /etc/ssl/intern.pem;
//!     ssl_certificate_key    /etc/ssl/intern.key;
//!     ssl_verify_client      on;
//!     ssl_client_certificate /etc/ssl/staff.pem;
//!     ssl_ocsp               on;
//!     ssl_ocsp_cache         shared:ocsp:1m;
//! }
//! ```
//!
//! `ssl_stapling on` sends the answer of an OCSP responder with the certificate, to clients that ask for it. The
//! worker fetches the answers from the HTTP responder that the certificate names, or from `ssl_stapling_responder`,
//! when it starts and before they are over: an hour after the last one, or five minutes before its end. The issuer's
//! certificate must follow the certificate in its file, or be in `ssl_trusted_certificate`. Names of responders are
//! looked up by `resolver`, or else by the system. An answer may have 64 KB and take 60 seconds. After a failure the
//! error log says why, the last good answer is sent until it is over, and Fulmar asks the responder again after a
//! second, then after longer and longer pauses, up to five minutes. Only an answer that says "good" is sent, with the
//! signature of the issuer or of a certificate in the answer. `ssl_stapling_verify on` requires that this certificate
//! is the issuer's responder, and that the chain of the certificate ends at an authority of `ssl_trusted_certificate`.
//! A reload keeps the answers. `ssl_stapling_file` sends the answer of a file instead, which `openssl ocsp -respout`
//! writes.
//!
//! ```nginx
//! server {
//!     listen 443 ssl;
//!     ssl_certificate         /etc/ssl/www.example.com.pem;
//!     ssl_certificate_key     /etc/ssl/www.example.com.key;
//!     ssl_trusted_certificate /etc/ssl/issuers.pem;
//!     ssl_stapling            on;
//!     ssl_stapling_verify     on;
//! }
//! ```
//!
//! With `ssl_early_data on` a client that resumes a session of TLS 1.3 may send up to 16 KB before the handshake is
//! over. An attacker who recorded that data could send it again. So Fulmar keeps the sessions of such a server in memory
//! (20,480, or as many as `ssl_session_cache` says, instead of tickets), and each session is resumed once: early data
//! that comes again, or to another server, is not accepted. Servers that check clients by certificates accept none.
//! `$ssl_early_data` is `1` for a request that began before the handshake was over, and `proxy_pass` adds
//! `Early-Data: 1` to it (RFC 8470), unless `proxy_set_header` sets that field. An application may answer with 425, and
//! the client repeats the request after the handshake.
//!
//! ```nginx
//! server {
//!     listen 443 ssl;
//!     ssl_certificate     /etc/ssl/www.example.com.pem;
//!     ssl_certificate_key /etc/ssl/www.example.com.key;
//!     ssl_early_data      on;
//!     location /account/ {
//!         if ($ssl_early_data) {
//!             return 425;
//!         }
//!     }
//! }
//! ```
//!
//! A connection that waits for a request holds its keys and no buffer.
//!
//! ```conf
//! server {
//!     listen 8080 ssl;
//!     ssl_reject_handshake on;
//! }
//! ```
//!
//! ```http
//! GET / HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 400 Bad Request
//! Connection: close
//! ```

mod client_status;
mod clients;
mod protocols;
mod responder;
mod session_cache;
mod sessions;
mod stapling;
mod values;
mod variables;

use crate::shared::issued;
use client_status::{SSL_OCSP, SSL_OCSP_CACHE, SSL_OCSP_RESPONDER};
use clients::{
    SSL_CLIENT_CERTIFICATE, SSL_CRL, SSL_TRUSTED_CERTIFICATE, SSL_VERIFY_CLIENT, SSL_VERIFY_DEPTH,
};
use conf::{Arity, Contexts, Diagnostic, value};
use contract::{Directive, Module, Pem, PemValue, Rule, ScopeBuilder, TlsPolicy, VerifyClient, View};
use sessions::{SSL_SESSION_CACHE, SSL_SESSION_TICKET_KEY, SSL_SESSION_TICKETS, SSL_SESSION_TIMEOUT};
use stapling::{SSL_STAPLING, SSL_STAPLING_FILE, SSL_STAPLING_RESPONDER, SSL_STAPLING_VERIFY};
use std::sync::Arc;
use tls::PairCache;
use upstream::{ConfCommands, parse_certificate_cache};
use values::{DEFAULT_CIPHERS, command, parse_ciphers, parse_file, parse_pem, parse_text};

/// Encrypted connections.
pub static MODULE: Module = Module {
    name: "ssl",
    directives: &[
        &SSL_CERTIFICATE,
        &SSL_CERTIFICATE_CACHE,
        &SSL_CERTIFICATE_KEY,
        &SSL_CERTIFICATE_WATCH,
        &SSL_PROTOCOLS,
        &SSL_CIPHERS,
        &SSL_PREFER_SERVER_CIPHERS,
        &SSL_ECDH_CURVE,
        &SSL_SESSION_CACHE,
        &SSL_SESSION_TICKETS,
        &SSL_SESSION_TICKET_KEY,
        &SSL_SESSION_TIMEOUT,
        &SSL_EARLY_DATA,
        &SSL_REJECT_HANDSHAKE,
        &SSL_PASSWORD_FILE,
        &SSL_VERIFY_CLIENT,
        &SSL_VERIFY_DEPTH,
        &SSL_CLIENT_CERTIFICATE,
        &SSL_TRUSTED_CERTIFICATE,
        &SSL_CRL,
        &SSL_OCSP,
        &SSL_OCSP_CACHE,
        &SSL_OCSP_RESPONDER,
        &protocols::SSL_ALPN,
        &SSL_BUFFER_SIZE,
        &SSL_CERTIFICATE_COMPRESSION,
        &SSL_CONF_COMMAND,
        &SSL_STAPLING,
        &SSL_STAPLING_FILE,
        &SSL_STAPLING_RESPONDER,
        &SSL_STAPLING_VERIFY,
    ],
    variables: variables::VARIABLES,
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER);

/// The levels of what servers of `stream` have, too.
const IN_BOTH: Contexts = LEVELS.or(Contexts::ALL_STREAM);

/// `ssl_certificate FILE`
pub static SSL_CERTIFICATE: Directive<PemValue> = Directive::new("ssl_certificate", parse_pem)
    .within(IN_BOTH)
    .rule(Rule::List)
    .help("The file with the server's certificate and those of its issuers; once for each kind of key.");

/// `ssl_certificate_cache off | max=NUMBER [inactive=TIME] [valid=TIME]`
pub static SSL_CERTIFICATE_CACHE: Directive<Option<Arc<PairCache>>> =
    Directive::new("ssl_certificate_cache", parse_certificate_cache)
        .within(IN_BOTH)
        .args(Arity::Range(1, 3))
        .default("off")
        .help("How many certificates and keys that variables name are kept, and how long.");

/// `ssl_certificate_key FILE`
pub static SSL_CERTIFICATE_KEY: Directive<PemValue> = Directive::new("ssl_certificate_key", parse_pem)
    .within(IN_BOTH)
    .rule(Rule::List)
    .help("The file with the certificate's private key.");

/// `ssl_certificate_watch on | off`
pub static SSL_CERTIFICATE_WATCH: Directive<bool> = Directive::flag("ssl_certificate_watch")
    .within(LEVELS)
    .default("on")
    .help("Whether certificates, keys and OCSP answers that change on disk are served without a reload.");

/// `ssl_protocols VERSION …`
pub static SSL_PROTOCOLS: Directive<u32> = Directive::new("ssl_protocols", protocols::parse)
    .within(IN_BOTH)
    .args(Arity::AtLeast(1))
    .default("TLSv1.2 TLSv1.3")
    .help("The versions of TLS that are offered.");

/// `ssl_ciphers LIST`
pub static SSL_CIPHERS: Directive<String> = Directive::new("ssl_ciphers", parse_ciphers)
    .within(IN_BOTH)
    .default(DEFAULT_CIPHERS)
    .help("The ciphers of TLS 1.2, in OpenSSL's language.");

/// `ssl_prefer_server_ciphers on | off`
pub static SSL_PREFER_SERVER_CIPHERS: Directive<bool> = Directive::flag("ssl_prefer_server_ciphers")
    .within(IN_BOTH)
    .default("off")
    .help("Whether the order of the ciphers here counts, and not the client's.");

/// `ssl_ecdh_curve LIST`
pub static SSL_ECDH_CURVE: Directive<String> = Directive::new("ssl_ecdh_curve", parse_text)
    .within(IN_BOTH)
    .default("auto")
    .help("The groups of key exchange, joined by colons.");

/// `ssl_early_data on | off`
pub static SSL_EARLY_DATA: Directive<bool> = Directive::flag("ssl_early_data")
    .within(LEVELS)
    .default("off")
    .help("Whether clients that resume a session may send a request with their first message (TLS 1.3).");

/// `ssl_reject_handshake on | off`
pub static SSL_REJECT_HANDSHAKE: Directive<bool> = Directive::flag("ssl_reject_handshake")
    .within(IN_BOTH)
    .default("off")
    .help("Whether TLS handshakes for this server, or for unknown names, are rejected.");

/// `ssl_password_file FILE`
pub static SSL_PASSWORD_FILE: Directive<Option<Pem>> = Directive::new("ssl_password_file", parse_file)
    .within(IN_BOTH)
    .help("The file with passwords of keys, one a line, which are tried in turn.");

/// `ssl_buffer_size SIZE`
pub static SSL_BUFFER_SIZE: Directive<u64> =
    Directive::new("ssl_buffer_size", |args, _| args.value(0, value::size))
        .within(LEVELS)
        .default("16k")
        .help("How much content a record has at most; smaller ones can be read sooner, and cost more.");

/// `ssl_certificate_compression on | off`
pub static SSL_CERTIFICATE_COMPRESSION: Directive<bool> = Directive::flag("ssl_certificate_compression")
    .within(IN_BOTH)
    .default("off")
    .help("Whether certificates are sent compressed to clients of TLS 1.3 that allow that.");

/// `ssl_conf_command COMMAND VALUE`
pub static SSL_CONF_COMMAND: Directive<ConfCommands> =
    Directive::new("ssl_conf_command", ConfCommands::parse)
        .within(IN_BOTH)
        .args(Arity::Exactly(2))
        .rule(Rule::List)
        .help("A command of OpenSSL's configuration that has a counterpart here.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if !view.context().intersects(Contexts::SERVER.or(Contexts::STREAM_SERVER)) {
        return Ok(());
    }
    let certificates = view.all(&SSL_CERTIFICATE);
    let is_stream = view.context() == Contexts::STREAM_SERVER;
    let ordered = certificates.iter().find(|written| is_stream && issued::of(written.value).is_some());
    if let Some(written) = ordered {
        let message = "certificates of authorities are not built yet in \"stream\"";
        let hint = "name the file of a certificate and that of its key";
        return Err(Diagnostic::emerg(message).at(written.span).hint(hint));
    }
    let mut policy = TlsPolicy {
        certificates: issued::pairs(&certificates, &view.all(&SSL_CERTIFICATE_KEY))?,
        watched: true,
        ..TlsPolicy::default()
    };
    if let Some(versions) = view.written(&SSL_PROTOCOLS) {
        protocols::choose(&versions, &mut policy)?;
    }
    let choices = &mut policy.choices;
    if is_stream {
        choices.protocols = Some(protocols::of_stream(view));
    }
    view.assign(&SSL_CIPHERS, &mut choices.ciphers);
    view.assign(&SSL_PREFER_SERVER_CIPHERS, &mut choices.prefer_server_ciphers);
    view.assign(&SSL_ECDH_CURVE, &mut choices.curves);
    policy.ciphers_at = view.written(&SSL_CIPHERS).map(|written| written.span);
    policy.curves_at = view.written(&SSL_ECDH_CURVE).map(|written| written.span);
    view.assign_size(&SSL_BUFFER_SIZE, &mut choices.record_size);
    view.assign(&SSL_CERTIFICATE_COMPRESSION, &mut choices.compresses);
    view.assign(&SSL_EARLY_DATA, &mut choices.early_data);
    view.assign(&SSL_REJECT_HANDSHAKE, &mut policy.reject);
    view.assign(&SSL_CERTIFICATE_WATCH, &mut policy.watched);
    view.assign(&SSL_CERTIFICATE_CACHE, &mut policy.certificate_cache);
    view.assign(&SSL_PASSWORD_FILE, &mut policy.passwords);
    view.assign(&SSL_STAPLING_FILE, &mut policy.stapling_file);
    sessions::configure(view, &mut policy);
    command(&ConfCommands::joined(view.all(&SSL_CONF_COMMAND)), &mut policy);
    if let Some(on) = view.written(&SSL_STAPLING).filter(|on| *on.value) {
        policy.stapling = Some((on.span, stapling::configure(view, &policy, builder)));
    }
    clients::ask_clients(view, &mut policy);
    client_status::configure(view, builder, &mut policy)?;
    if policy.reject || !policy.certificates.is_empty() || policy.verify != VerifyClient::Off {
        builder.policy.tls = Some(Box::new(policy));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::{PemSource, PemValue, TlsPolicy};
    use std::time::Duration;

    fn policy(text: &str) -> Option<TlsPolicy> {
        Site::server(text).get("/").scope.policy.tls.as_deref().cloned()
    }

    const PAIR: &str = "ssl_certificate a.pem; ssl_certificate_key /k/a.key;";

    #[test]
    fn each_certificate_has_its_key() {
        assert!(policy("ssl_protocols TLSv1.3;").is_none(), "nothing to encrypt with");
        let made = policy(&format!("{PAIR} ssl_certificate \"data:text\"; ssl_certificate_key b;")).unwrap();
        let source = |pem: &PemValue| pem.fixed().unwrap().source.clone();
        let sources: Vec<_> = made.certificates.iter().map(|(pem, key)| (source(pem), source(key))).collect();
        assert!(
            matches!(&sources[0].0, PemSource::File(path) if path.ends_with("a.pem") && path.is_absolute())
        );
        assert!(matches!(&sources[0].1, PemSource::File(path) if path.as_os_str() == "/k/a.key"));
        assert!(matches!(&sources[1].0, PemSource::Text(text) if **text == *b"text"));
        let error = Site::error("ssl_certificate /a.pem;");
        assert_eq!(error, "no \"ssl_certificate_key\" is defined for certificate \"/a.pem\"");
    }

    #[test]
    fn variables_name_certificates() {
        // The table of variables is that of the site that named them.
        let exchange = Site::server("ssl_certificate $host.pem; ssl_certificate_key /k/$host;").get("/");
        let made = exchange.scope.policy.tls.as_deref().unwrap();
        let (pem, key) = &made.certificates[0];
        let shown = |pem: &PemValue| pem.evaluate(&exchange).source.to_string();
        assert!(shown(pem).ends_with("/localhost.pem") && shown(key) == "/k/localhost");
        assert_eq!((pem.to_string(), pem.fixed().is_none()), ("$host.pem".to_owned(), true));
        let error = Site::error("ssl_certificate $host.pem;");
        assert_eq!(error, "no \"ssl_certificate_key\" is defined for certificate \"$host.pem\"");
    }

    #[test]
    fn certificate_cache_needs_a_size() {
        let cache = |text: &str| policy(&format!("{PAIR} ssl_certificate_cache {text};")).unwrap();
        assert!(cache("max=4 valid=1s inactive=2s").certificate_cache.is_some());
        assert!(cache("off").certificate_cache.is_none());
        let error = |text: &str| Site::error(&format!("ssl_certificate_cache {text};"));
        assert_eq!(error("valid=1s"), "\"ssl_certificate_cache\" must have the \"max\" parameter");
        for wrong in ["max=0", "max=x", "valid=x", "on"] {
            assert_eq!(error(wrong), format!("invalid parameter \"{wrong}\""));
        }
    }

    #[test]
    fn certificates_are_watched_unless_that_is_off() {
        let is_watched = |text: &str| policy(&format!("{PAIR} {text}")).unwrap().watched;
        assert!(is_watched("") && is_watched("ssl_certificate_watch on;"));
        assert!(!is_watched("ssl_certificate_watch off;"));
    }

    #[test]
    fn versions_that_are_not_spoken_are_left_out() {
        let of = |text: &str| {
            policy(&format!("{PAIR} {text}")).map(|made| (made.choices.tls12, made.choices.tls13))
        };
        assert_eq!(of(""), Some((true, true)));
        assert_eq!(of("ssl_protocols TLSv1 TLSv1.2;"), Some((true, false)));
        assert_eq!(of("ssl_protocols TLSv1.3;"), Some((false, true)));
        let error = Site::error(&format!("{PAIR} ssl_protocols TLSv1.1;"));
        assert_eq!(error, "\"ssl_protocols\" leaves no version that is spoken here");
        assert_eq!(Site::error("ssl_protocols TLS;"), "invalid value \"TLS\"");
        let lost = |text: &str| policy(&format!("{PAIR} {text}")).unwrap().obsolete_at.is_some();
        assert!(lost("ssl_protocols TLSv1 TLSv1.2;") && lost("ssl_protocols TLSv1.3 TLSv1.1;"));
        assert!(!lost("") && !lost("ssl_protocols SSLv3 TLSv1.2 TLSv1.3;"));
    }

    #[test]
    fn the_ciphers_of_the_system_are_the_default_ones() {
        let of = |text: &str| policy(&format!("{PAIR} ssl_ciphers {text};")).unwrap().choices.ciphers;
        assert_eq!(of("PROFILE=SYSTEM"), "HIGH:!aNULL:!MD5");
        assert_eq!(of("PROFILE=SYSTEM:!ECDSA"), "HIGH:!aNULL:!MD5:!ECDSA");
        assert_eq!(of("HIGH"), "HIGH");
    }

    #[test]
    fn sizes_of_caches_are_counted_in_sessions() {
        let of = |text: &str| {
            policy(&format!("{PAIR} ssl_session_cache {text};")).unwrap().choices.cached_sessions
        };
        assert_eq!((of("off"), of("none"), of("builtin"), of("builtin:5")), (0, 0, 20480, 5));
        assert_eq!((of("shared:SSL:10m"), of("builtin:5 shared:x:1m")), (40_000, 4000));
        assert_eq!(Site::error("ssl_session_cache shared:x:1k;"), {
            "session cache \"shared:x:1k\" is too small"
        });
        for wrong in ["shared::1m", "shared:x", "builtin:x", "memory"] {
            assert!(Site::error(&format!("ssl_session_cache {wrong};")).starts_with("invalid session cache"));
        }
    }

    #[test]
    fn servers_of_no_name_may_turn_clients_away() {
        let made = policy("ssl_reject_handshake on; ssl_session_timeout 1d;").unwrap();
        assert!(made.reject && made.certificates.is_empty());
        assert_eq!(made.choices.session_timeout, Duration::from_secs(86400));
    }
}
