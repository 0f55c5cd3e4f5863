//! What is kept on disk: accounts, certificates with their keys, and the result of attempts. Only the superuser may
//! read it. Each file replaces the one before as a whole. A file that cannot be used counts as missing.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use instant_acme::{AccountCredentials, CertificateIdentifier};
use serde::{Deserialize, Serialize};
use tls::Pair;

use crate::plan::{Issuer, Order};
use crate::renewal_info;

/// The version of all files.
const VERSION: u32 = 1;

/// The first line of a certificate's file, without the version.
const MARK: &str = "Fulmar certificate, version ";

/// The longest file that is read, in bytes.
const LENGTH_MAX: u64 = 1024 * 1024;

/// The result of the attempts to get a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    version: u32,
    /// How many attempts failed since the last one that succeeded.
    pub failures: u32,
    /// Why the last one failed.
    pub last_error: Option<String>,
    /// When the next one is due, in seconds since 1970.
    pub next_attempt: Option<i64>,
    /// The URL of the directory of the authority that issued the certificate.
    #[serde(default)]
    pub issued_by: Option<String>,
    /// The settings of the failed attempts ([`Order::settings`]). With other settings the next attempt need not wait.
    #[serde(default)]
    pub(crate) settings: Option<String>,
    /// Whether an administrator asked for a new certificate.
    #[serde(default)]
    pub(crate) renewal_asked: bool,
}

impl Report {
    /// The report about a certificate that this authority issued just now.
    pub(crate) fn of_issued(uri: &str) -> Report {
        Report { issued_by: Some(uri.to_owned()), ..Report::default() }
    }
}

#[derive(Serialize, Deserialize)]
struct SavedAccount {
    version: u32,
    uri: String,
    credentials: AccountCredentials,
}

/// A certificate that is there.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// When it begins and ends to be valid, in seconds since 1970.
    pub times: (i64, i64),
}

/// The directory of an issuer, which this process alone writes to.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] File);

/// Makes the directory, and claims it; `None` if another process has it.
///
/// # Errors
/// What the system said.
pub(crate) fn lock(directory: &Path) -> io::Result<Option<Lock>> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    let file = File::options().create(true).append(true).mode(0o600).open(directory.join("lock"))?;
    // The file may be there from an earlier time, with other rights.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock(file))),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// The account at this issuer, if one was kept.
pub(crate) fn account(issuer: &Issuer) -> Option<AccountCredentials> {
    let saved: SavedAccount = serde_json::from_slice(&read(&account_path(issuer))?).ok()?;
    (saved.version == VERSION && saved.uri == issuer.uri).then_some(saved.credentials)
}

/// Keeps an account.
///
/// # Errors
/// What the system said.
pub(crate) fn keep_account(issuer: &Issuer, credentials: AccountCredentials) -> io::Result<()> {
    let saved = SavedAccount { version: VERSION, uri: issuer.uri.clone(), credentials };
    write(&account_path(issuer), &serde_json::to_vec(&saved)?)
}

fn account_path(issuer: &Issuer) -> std::path::PathBuf {
    issuer.state.join("account.json")
}

/// The certificate that was issued for an order; `None` if there is none, or its file cannot be used.
pub fn certificate(order: &Order) -> Option<Certificate> {
    inspect(&read(&order.path())?)
}

/// How the authority names the certificate that is there.
pub(crate) fn identifier(order: &Order) -> Option<CertificateIdentifier<'static>> {
    renewal_info::identifier(&read(&order.path())?)
}

/// What the text of a certificate's file holds; `None` if it cannot be used.
pub fn inspect(text: &[u8]) -> Option<Certificate> {
    let mark = format!("{MARK}{VERSION}\n");
    if !text.starts_with(mark.as_bytes()) {
        return None;
    }
    let pair = Pair::from_pem(text, text, b"").ok()?;
    Some(Certificate { times: pair.times()? })
}

/// Keeps a certificate with its chain, and its key.
///
/// # Errors
/// The two do not belong together, or the system cannot write.
pub(crate) fn keep_certificate(order: &Order, chain: &str, key: &str) -> io::Result<Certificate> {
    let text = format!("{MARK}{VERSION}\n{key}\n{chain}");
    let found = inspect(text.as_bytes());
    let certificate = found.ok_or_else(|| io::Error::other("the certificate does not belong to its key"))?;
    write(&order.path(), text.as_bytes())?;
    Ok(certificate)
}

/// The result of the attempts so far.
pub fn report(order: &Order) -> Report {
    let report = read(&order.report_path()).and_then(|text| serde_json::from_slice::<Report>(&text).ok());
    report.filter(|report| report.version == VERSION).unwrap_or_default()
}

/// Makes a new certificate due at once, in the process that is started next. Failures until now no longer count.
///
/// # Errors
/// What the system said, such as that only the superuser may write there.
pub fn ask_for_renewal(order: &Order) -> io::Result<()> {
    let asked = Report { failures: 0, last_error: None, renewal_asked: true, ..report(order) };
    keep_report(order, &asked)
}

/// Keeps the result of an attempt.
///
/// # Errors
/// What the system said.
pub(crate) fn keep_report(order: &Order, report: &Report) -> io::Result<()> {
    let report = Report { version: VERSION, ..report.clone() };
    write(&order.report_path(), &serde_json::to_vec_pretty(&report)?)
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let is_short = fs::metadata(path).is_ok_and(|metadata| metadata.len() <= LENGTH_MAX);
    is_short.then(|| fs::read(path).ok()).flatten()
}

/// Writes a file with mode 0600 under a temporary name, and renames it when it is complete.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    // Such files can be read by their owner only.
    let mut file = tempfile::Builder::new().prefix(".next").tempfile_in(directory)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::order;
    use std::sync::Arc;
    use tls::SelfSigned;

    fn here(directory: &Path) -> Order {
        let order = order(&["a.example"]);
        Order { issuer: Arc::new(Issuer { state: directory.to_owned(), ..(*order.issuer).clone() }), ..order }
    }

    #[test]
    fn what_is_kept_is_found_and_cannot_be_read_by_others() {
        let directory = tempfile::tempdir().unwrap();
        let order = here(&directory.path().join("new"));
        let lock_held = lock(&order.issuer.state).unwrap().unwrap();
        assert!(lock(&order.issuer.state).unwrap().is_none(), "another one has it");
        drop(lock_held);
        assert!(certificate(&order).is_none());
        let made = SelfSigned::new(&["a.example"]).unwrap();
        let kept = keep_certificate(&order, &made.certificate, &made.key).unwrap();
        assert_eq!(certificate(&order).unwrap().times, kept.times);
        let report_of = Report { failures: 2, last_error: Some("no".to_owned()), ..Report::default() };
        keep_report(&order, &report_of).unwrap();
        assert_eq!(report(&order).failures, 2);
        for file in fs::read_dir(&order.issuer.state).unwrap() {
            let file = file.unwrap();
            let mode = file.metadata().unwrap().permissions().mode() & 0o077;
            assert!(mode == 0, "{:?} has {mode:o}", file.file_name());
        }
        let other = SelfSigned::new(&["a.example"]).unwrap();
        keep_certificate(&order, &made.certificate, &other.key).unwrap_err();
    }

    #[test]
    fn files_that_cannot_be_used_are_as_good_as_none() {
        let directory = tempfile::tempdir().unwrap();
        let order = here(directory.path());
        let made = SelfSigned::new(&["a.example"]).unwrap();
        keep_certificate(&order, &made.certificate, &made.key).unwrap();
        let good = fs::read(order.path()).unwrap();
        for length in (0..good.len()).step_by(7) {
            fs::write(order.path(), &good[..length]).unwrap();
            let _ = certificate(&order);
        }
        fs::write(order.path(), &good[..good.len() / 2]).unwrap();
        assert!(certificate(&order).is_none());
        let later = String::from_utf8(good).unwrap().replace("version 1", "version 2");
        fs::write(order.path(), later).unwrap();
        assert!(certificate(&order).is_none(), "of a later version");
        for text in ["", "{", "{\"version\":2,\"failures\":1}", "[]"] {
            fs::write(order.report_path(), text).unwrap();
            fs::write(account_path(&order.issuer), text).unwrap();
            assert_eq!(report(&order), Report::default());
            assert!(account(&order.issuer).is_none());
        }
    }
}
