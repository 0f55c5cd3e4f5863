//! Messages to a syslog server, in the form of RFC 3164.

use super::Complaints;
use super::flood::Flood;
use crate::clock::{self, Time};
use net::{Datagrams, SocketAddress, system_message};
use std::cell::RefCell;
use std::io::{self, ErrorKind, Write};
use std::sync::{PoisonError, RwLock};

/// What precedes a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogHead {
    /// The number of the facility (RFC 3164, section 4.1.1).
    pub facility: u8,
    /// The severity of a message that has none of its own, from 0 to 7.
    pub severity: u8,
    /// What the message is from.
    pub tag: Box<str>,
    /// Whether this machine is named.
    pub names_host: bool,
}

/// A syslog server, and how messages to it begin.
#[derive(Debug)]
pub struct Syslog {
    server: SocketAddress,
    head: SyslogHead,
    socket: RwLock<Option<Datagrams>>,
    complaints: Complaints,
    pub(super) flood: Flood,
}

thread_local! {
    /// The message that is being made, kept so that most messages allocate nothing.
    static MESSAGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Syslog {
    /// A server that nothing was sent to yet.
    pub fn new(server: SocketAddress, head: SyslogHead) -> Syslog {
        Syslog {
            server,
            head,
            socket: RwLock::default(),
            complaints: Complaints::default(),
            flood: Flood::default(),
        }
    }

    /// Sends a message of this severity, or of the severity that messages to this server have. What is given
    /// back is to be told. A message that cannot be sent at once is lost.
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

    /// A server that was started anew has another socket behind the same address: it is tried once more.
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
    fn the_form_of_messages() {
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
    fn a_server_may_come_and_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let syslog = Syslog::new(SocketAddress::Unix(path.clone()), head(false));
        let told = syslog.send(None, b"1").unwrap();
        let reason = "failed (2: No such file or directory)";
        assert_eq!(told, format!("send() to syslog \"unix:{}\" {reason}", path.display()));
        assert_eq!(syslog.send(None, b"2"), None, "told a moment ago");
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
