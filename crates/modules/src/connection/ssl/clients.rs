//! How certificates of clients are checked.

use super::IN_BOTH;
use super::values::{VERIFY, parse_file};
use conf::value;
use contract::{Directive, Pem, TlsPolicy, VerifyClient, View};

/// `ssl_verify_client on | off | optional | optional_no_ca`
pub(super) static SSL_VERIFY_CLIENT: Directive<VerifyClient> =
    Directive::new("ssl_verify_client", |args, _| args.value(0, |word| value::choice(word, &VERIFY)))
        .within(IN_BOTH)
        .default("off")
        .help("Whether clients are asked for a certificate.");

/// `ssl_verify_depth NUMBER`
pub(super) static SSL_VERIFY_DEPTH: Directive<u64> = Directive::number("ssl_verify_depth")
    .within(IN_BOTH)
    .default("1")
    .help("How many certificates may be between the client's certificate and the authority's.");

/// `ssl_client_certificate FILE`
pub(super) static SSL_CLIENT_CERTIFICATE: Directive<Option<Pem>> =
    Directive::new("ssl_client_certificate", parse_file).within(IN_BOTH).help(
        "The file with the certificates of trusted authorities, whose names the server sends to clients.",
    );

/// `ssl_trusted_certificate FILE`
pub(super) static SSL_TRUSTED_CERTIFICATE: Directive<Option<Pem>> = Directive::new(
    "ssl_trusted_certificate",
    parse_file,
)
.within(IN_BOTH)
.help(
    "The file with the certificates of trusted authorities, whose names the server does not send to clients.",
);

/// `ssl_crl FILE`
pub(super) static SSL_CRL: Directive<Option<Pem>> = Directive::new("ssl_crl", parse_file)
    .within(IN_BOTH)
    .help("The file with lists of revoked certificates; each authority of a chain needs one.");

/// Has clients asked for certificates, if that is wanted.
pub(super) fn ask_clients(view: &View<'_>, policy: &mut TlsPolicy) {
    policy.verify_at = view.written(&SSL_VERIFY_CLIENT).map(|written| written.span);
    view.assign(&SSL_VERIFY_CLIENT, &mut policy.verify);
    policy.verify_depth = 1;
    view.assign_size(&SSL_VERIFY_DEPTH, &mut policy.verify_depth);
    view.assign(&SSL_CLIENT_CERTIFICATE, &mut policy.client_authorities);
    view.assign(&SSL_TRUSTED_CERTIFICATE, &mut policy.trusted);
    view.assign(&SSL_CRL, &mut policy.revoked);
}
