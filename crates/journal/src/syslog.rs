//! Messages to a syslog server in the format of RFC 3164.

use super::Complaints;
use crate::clock::{self, Time};
use crate::rate_limit::RateLimit;
use net::{Datagrams, SocketAddress, system_message};
use std::cell::RefCell;
use std::io::{self, ErrorKind, Write};
use std::sync::{PoisonError, RwLock};

/// The header of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogHead {
    /// The number of the facility (RFC 3164, section 4.1.1).
    pub facility: u8,
    /// The default severity, from 0 to 7.
    pub severity: u8,
    /// The tag: the name of the program.
    pub tag: Box<str>,
    /// Whether the header contains the host name of this machine.
    pub names_host: bool,
}

/// A syslog server, with the header of its messages.
#[derive(Debug)]
pub struct Syslog {
    server: SocketAddress,
    head: SyslogHead,
    socket: RwLock<Option<Datagrams>>,
    complaints: Complaints,
    pub(super) rate_limit: RateLimit,
}

thread_local! {
    /// The buffer of the current message, kept so that most messages do not allocate.
    static MESSAGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Syslog {
    /// A server without a connection. The first message opens one.
    pub fn new(server: SocketAddress, head: SyslogHead) -> Syslog {
        Syslog {
            server,
            head,
            socket: RwLock::default(),
            complaints: Complaints::default(),
            rate_limit: RateLimit::default(),
        }
    }

    /// Sends a message with this severity, or with the default severity. A message that cannot be sent at once is dropped.
    /// Report the complaint that is returned.
    #[must_use]
    pub fn send(&self, severity: Option<u8>, text: &[u8]) -> Option<String> {
        MESSAGE.with_borrow_mut(|message| {
            message.clear();
            self.write_head(severity.unwrap_or(self.head.severity), message);
            message.extend_from_slice(text);
            let error = self.deliver(message).err()?;
            let told = || {
                let (reason, server) = (system_message(&error), &self.server);
                format!("send() to syslog \"{server}\" failed ({reason})")
            };
            self.complaints.are_due().then(told)
        })
    }

    fn write_head(&self, severity: u8, out: &mut Vec<u8>) {
        let SyslogHead { facility, tag, names_host, .. } = &self.head;
        // Writing to memory does not fail.
        let _ = write!(out, "<{}>", u16::from(*facility) * 8 + u16::from(severity));
        clock::write_syslog_time(Time::now(), out);
        if *names_host {
            out.push(b' ');
            out.extend_from_slice(net::host::name().as_bytes());
        }
        let _ = write!(out, " {tag}: ");
    }

    /// Sends a message. A server that was restarted has a new socket at the same address, so a failure is retried once.
    fn deliver(&self, message: &[u8]) -> io::Result<()> {
        let guard = self.socket.read().unwrap_or_else(PoisonError::into_inner);
        let sent = guard.as_ref().map(|socket| socket.send(message));
        drop(guard);
        match sent {
            Some(Ok(())) => return Ok(()),
            Some(Err(error)) if matches!(error.kind(), ErrorKind::WouldBlock) => return Err(error),
            _ => {}
        }
        let mut place = self.socket.write().unwrap_or_else(PoisonError::into_inner);
        *place = None;
        let socket = Datagrams::connect(&self.server)?;
        socket.send(message)?;
        *place = Some(socket);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Syslog, SyslogHead};
    use net::SocketAddress;
    use std::net::UdpSocket;
    use std::os::unix::net::UnixDatagram;

    fn head(names_host: bool) -> SyslogHead {
        SyslogHead { facility: 23, severity: 6, tag: "nginx".into(), names_host }
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn messages_have_the_format_of_rfc_3164() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = SocketAddress::Inet(receiver.local_addr().unwrap());
        let mut bytes = [0; 256];
        assert_eq!(Syslog::new(address.clone(), head(false)).send(None, b"hello"), None);
        let length = receiver.recv(&mut bytes).unwrap();
        let shape: String =
            text(&bytes[..length]).chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert!(shape.starts_with("<000>") && shape.ends_with(":00:00 nginx: hello"), "{shape}");
        assert_eq!(shape.len(), "<190>Nov 21 20:05:56 nginx: hello".len());
        assert_eq!(Syslog::new(address, head(true)).send(Some(3), b"hello"), None);
        let length = receiver.recv(&mut bytes).unwrap();
        let message = text(&bytes[..length]);
        let end = format!(" {} nginx: hello", net::host::name());
        assert!(message.starts_with("<187>") && message.ends_with(&end), "{message}");
    }

    #[test]
    fn a_restarted_server_gets_messages() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let syslog = Syslog::new(SocketAddress::Unix(path.clone()), head(false));
        let told = syslog.send(None, b"1").unwrap();
        let reason = "failed (2: No such file or directory)";
        assert_eq!(told, format!("send() to syslog \"unix:{}\" {reason}", path.display()));
        assert_eq!(syslog.send(None, b"2"), None, "complained a moment ago");
        let mut bytes = [0; 256];
        for name in [b"3", b"4"] {
            let receiver = UnixDatagram::bind(&path).unwrap();
            assert_eq!(syslog.send(None, name), None);
            let length = receiver.recv(&mut bytes).unwrap();
            assert_eq!(bytes[length - 1], name[0]);
            std::fs::remove_file(&path).unwrap();
        }
    }
}
