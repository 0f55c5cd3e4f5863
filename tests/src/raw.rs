//! A server behind the server that a test plays itself, byte by byte.

use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::client::read;
use crate::wait;

/// Nothing takes longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A socket that listens.
#[derive(Debug)]
pub struct Raw {
    listener: TcpListener,
}

/// A connection that it took.
#[derive(Debug)]
pub struct Peer {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Raw {
    /// Listens on a free port.
    pub fn listen() -> Raw {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("nonblocking");
        Raw { listener }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("its address")
    }

    /// The next connection. Panics when none comes.
    pub fn accept(&self) -> Peer {
        let mut peer = None;
        wait::until(PATIENCE, || {
            peer = self.pending();
            peer.is_some()
        });
        peer.expect("a connection")
    }

    /// A connection that is there already.
    pub fn pending(&self) -> Option<Peer> {
        let (stream, _) = self.listener.accept().ok()?;
        stream.set_nonblocking(false).expect("blocking");
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        Some(Peer { stream, received: Vec::new() })
    }
}

impl Peer {
    /// Reads until these bytes have come, and takes everything up to their end. Panics when they do not come.
    pub fn until(&mut self, end: &str) -> String {
        loop {
            let found = self.received.windows(end.len()).position(|window| window == end.as_bytes());
            if let Some(at) = found {
                let rest = self.received.split_off(at + end.len());
                let taken = std::mem::replace(&mut self.received, rest);
                return String::from_utf8_lossy(&taken).into_owned();
            }
            let count = self.read();
            assert!(count > 0, "{end:?} does not come: {:?}", String::from_utf8_lossy(&self.received));
        }
    }

    /// Reads so many bytes and forgets them; tells how many came.
    pub fn skip(&mut self, wanted: u64) -> u64 {
        let mut skipped = self.received.len() as u64;
        self.received.clear();
        let mut buffer = vec![0; 65536];
        while skipped < wanted {
            match read(&mut self.stream, &mut buffer) {
                Ok(count @ 1..) => skipped += count as u64,
                _ => break,
            }
        }
        skipped
    }

    /// Sends bytes.
    pub fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).expect("send");
    }

    /// Tells that no more bytes will come.
    pub fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Whether the connection ends, whatever comes before that.
    pub fn ends(&mut self) -> bool {
        while self.read() > 0 {}
        let mut one = [0];
        match read(&mut self.stream, &mut one) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    /// What came and was not taken.
    pub fn rest(&self) -> &[u8] {
        &self.received
    }

    fn read(&mut self) -> usize {
        let mut buffer = [0; 65536];
        let count = read(&mut self.stream, &mut buffer).unwrap_or(0);
        self.received.extend_from_slice(&buffer[..count]);
        count
    }
}
