//! How the certificate of an authority is written where the name of a file would be: `ssl_certificate auto`, and the
//! variables of nginx's ACME module, which have no value for requests.

use conf::Diagnostic;
use contract::{Args, Loading, PemSource, PemValue, Written};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

const VARIABLE: &[u8] = b"$acme_certificate";
const KEY_VARIABLE: &[u8] = b"$acme_certificate_key";
const AUTOMATIC: &[u8] = b"auto";

/// The name of the authority that `auto` means.
pub(crate) const DEFAULT: &str = "letsencrypt";

/// The prefix of the package, to which nothing is written, and where its state is.
const PACKAGE: [&str; 2] = ["/etc/fulmar", "/var/lib/fulmar"];

/// A certificate of an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Issued {
    /// That of `acme_certificate`.
    Named,
    /// One for the names of the server; where the state is kept if no authority is configured.
    Automatic(PathBuf),
}

/// The value if it is one of these.
pub(crate) fn parse(args: &Args<'_>, loading: &Loading) -> Result<Option<PemSource>, Diagnostic> {
    let word = args.word(0)?;
    let is_key = &*args.node.name.text == b"ssl_certificate_key";
    Ok(match &*word.text {
        VARIABLE if !is_key => Some(PemSource::Text(VARIABLE.into())),
        KEY_VARIABLE if is_key => Some(PemSource::Text(VARIABLE.into())),
        AUTOMATIC if !is_key && !word.quoted => {
            let state = state(DEFAULT, loading).into_os_string().into_vec();
            Some(PemSource::Text([AUTOMATIC, b" ", &state].concat().into()))
        }
        _ => None,
    })
}

/// Where the state of an authority is that names no directory.
pub(crate) fn state(name: &str, loading: &Loading) -> PathBuf {
    let [prefix, state] = PACKAGE.map(Path::new);
    let around = if loading.prefix == prefix { state } else { &loading.prefix };
    around.join(format!("acme_{name}"))
}

/// The certificate of an authority that a value stands for.
pub(crate) fn of(value: &PemValue) -> Option<Issued> {
    let PemSource::Text(text) = &value.fixed()?.source else { return None };
    if **text == *VARIABLE {
        return Some(Issued::Named);
    }
    let state = text.strip_prefix(AUTOMATIC)?.strip_prefix(b" ")?;
    Some(Issued::Automatic(PathBuf::from(std::ffi::OsStr::from_bytes(state))))
}

/// The certificates with their keys. An automatic certificate has no key in the configuration.
///
/// # Errors
/// A certificate has no key.
pub(crate) fn pairs(
    certificates: &[Written<'_, PemValue>],
    keys: &[Written<'_, PemValue>],
) -> Result<Vec<(PemValue, PemValue)>, Diagnostic> {
    let mut keys = keys.iter();
    let pair = |pem: &Written<'_, PemValue>| {
        let is_automatic = matches!(of(pem.value), Some(Issued::Automatic(_)));
        let key = if is_automatic { Some(pem) } else { keys.next() };
        let key = key.ok_or_else(|| {
            let text = format!("no \"ssl_certificate_key\" is defined for certificate \"{}\"", pem.value);
            Diagnostic::emerg(text).at(pem.span)
        })?;
        Ok((pem.value.clone(), key.value.clone()))
    };
    certificates.iter().map(pair).collect()
}
