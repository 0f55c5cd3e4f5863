//! Probes that look at the handshake of TLS itself.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustls::HandshakeKind;

use super::Verdict::{No, NotOffered, Yes};
use super::certificate::{self, NAME};
use super::contender::Sheet;
use super::peer::{Peer, Speaks};
use super::probes::Found;
use super::transcript::Transcript;
use crate::measure::tls;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(5);

/// How often a handshake is tried: some contenders ask the authority only once there was one.
const TRIES: u32 = 20;

/// Whether the authority's answer comes with the handshake. Contenders are given the answer as a file, or ask for it
/// at the place that the certificate names.
pub(super) fn ocsp(sheet: &Sheet, log: &Transcript) -> Found {
    if !sheet.has_tls() {
        return Ok((NotOffered, super::probes::NO_TLS.into()));
    }
    let responder = Peer::start(Speaks::Ocsp)?;
    let made = certificate::make(&sheet.folder().join("authority"), responder.address)?;
    responder.answers_with(&made.answer);
    let sheet = sheet.with_certificate(&made);
    let running = sheet.start(None, log)?;
    for _ in 0..TRIES {
        let stapled = stapled(running.address)?;
        log.note(&format!("with the handshake came {} bytes about the certificate", stapled.len()));
        if stapled == made.answer {
            return Ok((
                Yes,
                format!("the authority's answer, {} bytes, came with the handshake", stapled.len()),
            ));
        }
        ensure!(stapled.is_empty(), "{} bytes that the authority never said", stapled.len());
        std::thread::park_timeout(LIMIT / 50);
    }
    Ok((No, format!("no answer of the authority in {TRIES} handshakes")))
}

/// Whether a second handshake resumes the session of the first.
pub(super) fn resumption(sheet: &Sheet, log: &Transcript) -> Found {
    if !sheet.has_tls() {
        return Ok((NotOffered, super::probes::NO_TLS.into()));
    }
    let running = sheet.start(None, log)?;
    let configuration = Arc::new(tls::configuration()?);
    let mut kinds = Vec::new();
    for _ in 0..2 {
        let mut stream = tls::handshake(running.address, &configuration, "localhost")?;
        kinds.push(stream.conn.handshake_kind());
        // What resumes a session comes after the handshake.
        stream.write_all(b"GET /index.html HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        // Not everyone says good-bye.
        let _ = stream.read_to_end(&mut answer);
        ensure!(!answer.is_empty(), "no answer");
        log.note(&format!("handshake: {:?}, {} bytes of answer", kinds.last(), answer.len()));
    }
    let resumed = kinds.last() == Some(&Some(HandshakeKind::Resumed));
    Ok((
        if resumed { Yes } else { No },
        format!("the second handshake: {:?}", kinds[1].context("no handshake")?),
    ))
}

/// What is said of the certificate with a handshake.
fn stapled(address: SocketAddr) -> Result<Vec<u8>> {
    let (configuration, heard) = tls::listening()?;
    tls::handshake(address, &Arc::new(configuration), NAME)?;
    Ok(heard.stapled())
}
