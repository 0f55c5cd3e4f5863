//! `--tls` of `fulmar serve` and `fulmar proxy`: an authority of the user, and the certificates that it issues. Both are
//! kept, so that a browser that trusts them once trusts them after each start.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tls::{LocalAuthority, Pair, SelfSigned};

use crate::state;

/// The directory of the authority below the one for state.
const DIRECTORY: &str = "local";
/// The files of the authority.
const AUTHORITY: [&str; 2] = ["authority.pem", "authority-key.pem"];
/// Certificates are replaced long before they end, and so is an authority.
const RENEWAL_AGE: Duration = Duration::from_secs(300 * 24 * 60 * 60);
const AUTHORITY_RENEWAL_AGE: Duration = Duration::from_secs(3300 * 24 * 60 * 60);

/// The names of every certificate.
const USUAL: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// A certificate for a server on this machine.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) certificate: SelfSigned,
    /// The certificate of the authority that issued it; `None` if it is self-signed.
    pub(crate) authority: Option<PathBuf>,
}

/// The certificate for a server with this address. It is issued by the user's authority. For an address that is not of a
/// private network, or without a directory for state, it is self-signed and new.
///
/// # Errors
/// The directory cannot be written, a file in it is damaged, or the system gave no random bytes; the text says so.
pub(crate) fn certificate(address: IpAddr) -> Result<Local, String> {
    let names = names(address);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match state::directory(DIRECTORY) {
        Some(directory) if is_private(address) => issued(&directory, &names),
        _ => {
            let complain = |error| format!("cannot make a certificate: {error}");
            let certificate = SelfSigned::new(&names).map_err(complain)?;
            Ok(Local { certificate, authority: None })
        }
    }
}

/// The names by which this machine calls itself, and the address.
fn names(address: IpAddr) -> Vec<String> {
    let mut names: Vec<String> = USUAL.map(str::to_owned).into();
    let ip = address.to_string();
    if !address.is_unspecified() && !names.contains(&ip) {
        names.push(ip);
    }
    names
}

/// Whether the authority may certify the address.
fn is_private(address: IpAddr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || match address {
            IpAddr::V4(address) => address.is_private() || address.is_link_local(),
            IpAddr::V6(address) => address.is_unique_local() || address.is_unicast_link_local(),
        }
}

fn issued(directory: &Path, names: &[&str]) -> Result<Local, String> {
    let complain = |error: io::Error| {
        format!("cannot keep certificates in \"{}\": {}", directory.display(), net::system_message(&error))
    };
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(complain)?;
    let [certificate, key] = AUTHORITY.map(|name| directory.join(name));
    let mut is_new = false;
    if !is_younger(&key, AUTHORITY_RENEWAL_AGE) || !certificate.exists() {
        let (certificate_pem, key_pem) = LocalAuthority::make()?;
        write(&certificate, &certificate_pem).and_then(|()| write(&key, &key_pem)).map_err(complain)?;
        is_new = true;
    }
    let subject = names.get(USUAL.len()).map_or(USUAL[0], |name| name);
    let paths = ["", "-key"].map(|end| directory.join(format!("{subject}{end}.pem")));
    let kept = if is_new { None } else { kept(&paths, &key) };
    let issued = match kept {
        Some(kept) => kept,
        None => {
            let damaged =
                |error| format!("\"{}\" is damaged ({error}); remove it for a new authority", key.display());
            let authority = fs::read_to_string(&key).map_err(complain)?;
            let authority = LocalAuthority::from_key(&authority).map_err(damaged)?;
            let made = authority.issue(names)?;
            write(&paths[1], &made.key)
                .and_then(|()| write(&paths[0], &made.certificate))
                .map_err(complain)?;
            made
        }
    };
    Ok(Local { certificate: issued, authority: Some(certificate) })
}

/// The certificate and the key of these files, if they can still be used: an earlier authority may have issued them.
fn kept(paths: &[PathBuf; 2], authority_key: &Path) -> Option<SelfSigned> {
    let written = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let is_of_authority = written(&paths[0])? >= written(authority_key)?;
    if !is_of_authority || !is_younger(&paths[0], RENEWAL_AGE) {
        return None;
    }
    let certificate = fs::read_to_string(&paths[0]).ok()?;
    let key = fs::read_to_string(&paths[1]).ok()?;
    Pair::from_pem(certificate.as_bytes(), key.as_bytes(), b"").ok()?;
    SelfSigned::from_pem(certificate, key)
}

/// Whether a file was written less than this time ago.
fn is_younger(path: &Path, age: Duration) -> bool {
    let written = fs::metadata(path).and_then(|metadata| metadata.modified());
    written.is_ok_and(|written| SystemTime::now().duration_since(written).is_ok_and(|since| since < age))
}

/// Writes a file that only its owner can read, under a temporary name, and renames it when it is complete.
fn write(path: &Path, content: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new().prefix(".next").tempfile_in(directory)?;
    file.write_all(content.as_bytes())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_stay_the_same_until_the_authority_changes() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("own");
        let issue = |names: &[&str]| issued(&own, names).unwrap().certificate.fingerprint;
        let first = issue(&USUAL);
        assert_eq!(issue(&USUAL), first);
        let other = ["localhost", "127.0.0.1", "::1", "10.0.0.1"];
        let of_other = issue(&other);
        assert_ne!(of_other, first);
        fs::write(own.join("localhost.pem"), "damaged").unwrap();
        let second = issue(&USUAL);
        assert_ne!(second, first);
        fs::remove_file(own.join("authority.pem")).unwrap();
        assert_ne!(issue(&USUAL), second);
        assert_ne!(issue(&other), of_other, "the earlier authority issued it");
        fs::write(own.join("authority-key.pem"), "damaged").unwrap();
        fs::remove_file(own.join("localhost.pem")).unwrap();
        assert!(issued(&own, &USUAL).unwrap_err().contains("is damaged"));
    }

    #[test]
    fn only_addresses_of_private_networks_are_certified() {
        let private = ["127.0.0.1", "0.0.0.0", "::", "192.168.1.2", "169.254.1.1", "fd00::1", "fe80::1"];
        assert!(private.iter().all(|address| is_private(address.parse().unwrap())));
        assert!(!is_private("192.0.2.1".parse().unwrap()) && !is_private("2001:db8::1".parse().unwrap()));
        assert_eq!(names("::1".parse().unwrap()).len(), 3);
        assert_eq!(names("10.0.0.1".parse().unwrap())[3], "10.0.0.1");
    }
}
