//! A certificate whose authority answers questions about it: made by the openssl program, since what is needed of it
//! (an authority's answer by OCSP, RFC 6960) no library of the lab makes.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The name that the certificate is for.
pub(super) const NAME: &str = "stapled.example";

/// A certificate and what its authority says of it.
pub(super) struct Certificate {
    /// The certificate, and after it that of its authority.
    pub(super) chain: PathBuf,
    /// Its key.
    pub(super) key: PathBuf,
    /// The folder of all of it: with `all.pem` (the chain and the key in one file), `all.pem.ocsp` and `answer.der`
    /// (the authority's answer, twice).
    pub(super) folder: PathBuf,
    /// The authority's answer.
    pub(super) answer: Vec<u8>,
}

/// What openssl is called with, one command a line. `R` is an EC key of a common curve without a passphrase.
const COMMANDS: &[&str] = &[
    "req -x509 R -keyout authority.key -out authority.pem -days 30 -subj /CN=authority",
    "req R -keyout leaf.key -out leaf.csr -subj /CN=stapled.example",
    "x509 -req -in leaf.csr -CA authority.pem -CAkey authority.key -set_serial 4096 -days 20 -extfile extensions.txt -out leaf.pem",
    "ocsp -index index.txt -CA authority.pem -issuer authority.pem -rsigner authority.pem -rkey authority.key -cert leaf.pem -ndays 10 -no_nonce -noverify -respout answer.der",
];

/// Makes one below a folder. The certificate names `responder` as the place where its authority answers.
pub(super) fn make(folder: &Path, responder: SocketAddr) -> Result<Certificate> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let extensions =
        format!("subjectAltName=DNS:{NAME},DNS:localhost\nauthorityInfoAccess=OCSP;URI:http://{responder}\n");
    fs::write(folder.join("extensions.txt"), extensions)?;
    // What openssl keeps of an authority: valid, until 2099, not revoked, the number.
    fs::write(folder.join("index.txt"), "V\t991231235959Z\t\t1000\tunknown\t/CN=stapled.example\n")?;
    for command in COMMANDS {
        openssl(folder, command)?;
    }
    let read = |name: &str| fs::read_to_string(folder.join(name)).with_context(|| name.to_owned());
    let chain = read("leaf.pem")? + &read("authority.pem")?;
    fs::write(folder.join("chain.pem"), &chain)?;
    fs::write(folder.join("all.pem"), chain + &read("leaf.key")?)?;
    let answer = fs::read(folder.join("answer.der")).context("the authority's answer")?;
    fs::write(folder.join("all.pem.ocsp"), &answer)?;
    Ok(Certificate {
        chain: folder.join("chain.pem"),
        key: folder.join("leaf.key"),
        folder: folder.to_path_buf(),
        answer,
    })
}

fn openssl(folder: &Path, command: &str) -> Result<()> {
    let command = command.replace(" R ", " -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes ");
    let output = Command::new("openssl").args(command.split(' ')).current_dir(folder).output();
    let output = output.context("openssl, which makes the certificate and the answer about it")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "openssl {command}: {}", text.trim());
    Ok(())
}
