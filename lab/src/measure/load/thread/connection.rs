//! What happens on the connection of a client.

use std::fmt::Display;
use std::mem;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::{Thread, elapsed_ns};
use crate::measure::load::answer::Answer;
use crate::measure::load::client::{Flight, Stage};
use crate::measure::load::socket;
use crate::measure::load::tally::{Failure, SWITCHED};
use crate::measure::load::tls::Tls;

impl Thread<'_> {
    /// Gives a client what it can send now.
    pub(super) fn work(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let depth = if self.plan.keep_alive { self.plan.pipeline as usize } else { 1 };
        while client.flights.len() < depth {
            let Some(due_ns) = self.claims.next(self.now_ns) else { break };
            let flight = Flight { due_ns, begun_ns: self.now_ns, open_ns: self.now_ns, written_ns: 0 };
            client.flights.push_back(flight);
            client.unsent += self.request_length;
        }
        match client.stage {
            _ if client.flights.is_empty() => self.parked.push_back(at),
            Stage::Closed => self.open(at),
            Stage::Open if client.unsent > 0 => self.write(at),
            _ => {}
        }
    }

    fn open(&mut self, at: usize) {
        let (socket, is_open) = match socket::connect(self.plan, at) {
            Ok(connecting) => connecting,
            Err(why) => return self.no_connection(at, &why),
        };
        // Events come once. What is writable already would only be told again.
        let mut flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        flags.set(EventFlags::OUT, !is_open);
        if let Err(why) = epoll::add(&self.epoll, &socket, EventData::new_u64(at as u64), flags) {
            return self.no_connection(at, &why);
        }
        let client = &mut self.clients[at];
        client.opening_ns = self.now_ns;
        client.socket = Some(socket);
        client.stage = Stage::Connecting;
        if is_open {
            self.connected(at);
        }
    }

    pub(super) fn ready(&mut self, at: usize, flags: EventFlags) {
        if self.clients[at].stage == Stage::Connecting {
            self.read_clock();
            let socket = self.clients[at].socket.as_ref();
            match socket.map(rustix::net::sockopt::socket_error) {
                Some(Ok(Ok(()))) => self.connected(at),
                Some(Ok(Err(why)) | Err(why)) => self.no_connection(at, &why),
                None => self.fail(at, Failure::Connect),
            }
        } else if flags.contains(EventFlags::OUT) && self.clients[at].has_output() {
            self.write(at);
        }
        let hangup = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        if (hangup || flags.contains(EventFlags::IN)) && self.clients[at].stage != Stage::Closed {
            self.read(at, hangup);
        }
    }

    fn connected(&mut self, at: usize) {
        let client = &mut self.clients[at];
        match self.tls.as_ref().map(Tls::session) {
            None => self.encrypted(at),
            Some(Ok(session)) => {
                client.session = Some(Box::new(session));
                client.stage = Stage::Handshaking;
                client.is_flushed = false;
                self.write(at);
            }
            Some(Err(why)) => self.no_connection(at, &why),
        }
    }

    /// The connection can carry requests, once it is a WebSocket if it has to be one.
    fn encrypted(&mut self, at: usize) {
        if self.plan.message_bytes.is_none() {
            self.opened(at);
        } else if let Err(why) = self.clients[at].upgrade(self.plan.request.as_bytes()) {
            self.no_connection(at, &why);
        }
    }

    /// The connection can carry requests.
    fn opened(&mut self, at: usize) {
        self.read_clock();
        let client = &mut self.clients[at];
        client.stage = Stage::Open;
        self.tally.connections += 1;
        self.tally.resumed += u64::from(client.session.as_ref().is_some_and(|session| session.is_resumed()));
        self.tally.connect.add(self.now_ns.saturating_sub(client.opening_ns));
        for flight in &mut client.flights {
            flight.open_ns = self.now_ns;
        }
        self.write(at);
    }

    pub(super) fn write(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let Ok((is_all, bytes)) = client.send(self.batch) else {
            let is_new = client.stage == Stage::Handshaking;
            return self.fail(at, if is_new { Failure::Connect } else { Failure::Reset });
        };
        self.tally.request_bytes += bytes;
        if is_all && client.stage != Stage::Open {
            // The server's turn.
        } else if is_all {
            self.now_ns = elapsed_ns(self.zero);
            for flight in client.flights.iter_mut().rev().take_while(|flight| flight.written_ns == 0) {
                flight.written_ns = self.now_ns;
            }
        } else if let Some(socket) = &client.socket {
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            if epoll::modify(&self.epoll, socket, EventData::new_u64(at as u64), flags).is_err() {
                self.fail(at, Failure::Reset);
            }
        }
    }

    /// Reads all that is there. A short read tells that there is no more, unless the connection ended.
    pub(super) fn read(&mut self, at: usize, is_ending: bool) {
        let mut buffer = mem::take(&mut self.buffer);
        loop {
            let read = self.clients[at].receive(&mut buffer);
            self.read_clock();
            let goes_on = match read {
                Ok(0) => {
                    self.ended(at);
                    false
                }
                Ok(length) => self.take(at, &buffer[..length]) && (length == buffer.len() || is_ending),
                Err(Errno::INTR) => true,
                Err(Errno::AGAIN) => false,
                Err(_) => {
                    self.ended(at);
                    false
                }
            };
            if !goes_on {
                break;
            }
        }
        self.buffer = buffer;
    }

    /// Takes bytes from the wire: whether the connection is still the same.
    fn take(&mut self, at: usize, bytes: &[u8]) -> bool {
        let client = &mut self.clients[at];
        let was_handshaking = client.stage == Stage::Handshaking;
        let Some(session) = &mut client.session else {
            return self.take_content(at, bytes);
        };
        let mut plain = mem::take(&mut self.plain);
        plain.clear();
        let received = session.receive(bytes, &mut plain);
        let is_same = if let Err(why) = received {
            if was_handshaking {
                self.no_connection(at, &format!("no TLS: {why}"));
            } else {
                self.fail(at, Failure::Malformed);
            }
            false
        } else {
            let wants_write = session.wants_write();
            client.is_flushed &= !wants_write;
            if was_handshaking && !session.is_handshaking() {
                self.encrypted(at);
            } else if wants_write {
                self.write(at);
            }
            self.clients[at].stage != Stage::Closed && self.take_content(at, &plain)
        };
        self.plain = plain;
        is_same
    }

    fn take_content(&mut self, at: usize, mut bytes: &[u8]) -> bool {
        let mut is_free = false;
        while !bytes.is_empty() {
            let client = &mut self.clients[at];
            if !client.reader.is_within() {
                client.first_ns = self.now_ns;
            }
            match client.reader.feed(bytes) {
                Ok((used, answer)) if !client.flights.is_empty() => {
                    bytes = &bytes[used..];
                    if let Some(answer) = answer {
                        if !self.complete(at, answer) {
                            return false;
                        }
                        is_free = true;
                    }
                }
                _ => {
                    self.fail(at, Failure::Malformed);
                    return false;
                }
            }
        }
        if is_free && !self.plan.idle {
            self.work(at);
        }
        true
    }

    /// An answer is complete: whether its connection goes on.
    fn complete(&mut self, at: usize, answer: Answer) -> bool {
        if (200..300).contains(&answer.status) && self.length.is_none() {
            self.length = Some(self.shared.expect(answer.content));
        }
        if self.clients[at].stage == Stage::Upgrading {
            return self.upgraded(at, answer.status);
        }
        let is_right = self.tally.answer(answer, self.length.unwrap_or_default());
        (self.answered_ns, self.settled_ns) = (self.now_ns, self.now_ns);
        self.is_refused = false;
        let (now_ns, client) = (self.now_ns, &mut self.clients[at]);
        client.answers += 1;
        // The times of wrong answers would make a server look fast that refuses.
        if let Some(flight) = client.flights.pop_front().filter(|_| is_right) {
            let written_ns = flight.written_ns.max(flight.open_ns);
            let first_ns = client.first_ns.max(written_ns);
            self.tally.latency.add(now_ns.saturating_sub(flight.due_ns));
            self.tally.processing.add(now_ns.saturating_sub(flight.open_ns));
            self.tally.write.add(written_ns - flight.open_ns);
            self.tally.waiting.add(first_ns - written_ns);
            self.tally.reading.add(now_ns.saturating_sub(first_ns));
            if self.plan.rate.is_some() {
                self.tally.late.add(flight.begun_ns.saturating_sub(flight.due_ns));
            }
        }
        let goes_on = answer.keep_alive && self.plan.keep_alive;
        if !goes_on {
            self.tally.partial_bytes += client.close(self.request_length);
        }
        if self.plan.idle {
            self.parked.push_back(at);
            self.begin_next();
        } else if !goes_on {
            // Requests after the last answer are sent again; nobody took them up.
            self.work(at);
        }
        goes_on
    }

    /// The server answered the request for a WebSocket: whether the connection goes on.
    fn upgraded(&mut self, at: usize, status: u16) -> bool {
        if status != SWITCHED {
            self.no_connection(at, &format!("status {status} instead of {SWITCHED}"));
            return false;
        }
        self.clients[at].reader.expect_echo(&self.echo, self.plan.message_bytes.unwrap_or_default());
        self.opened(at);
        self.clients[at].stage == Stage::Open
    }

    /// The server ended the connection.
    fn ended(&mut self, at: usize) {
        let client = &mut self.clients[at];
        if let Some(answer) = client.reader.end() {
            self.complete(at, answer);
        } else if client.stage == Stage::Handshaking {
            self.no_connection(at, &"no TLS: the server ended the connection within the handshake");
        } else if client.flights.is_empty() {
            self.tally.partial_bytes += client.close(self.request_length);
            self.tally.dropped += u64::from(self.plan.idle);
        } else {
            let is_kept = client.answers > 0 && !client.reader.is_within();
            self.tally.failures.reset_while_kept += if is_kept { client.flights.len() as u64 } else { 0 };
            self.fail(at, Failure::Reset);
        }
    }

    /// A client could not connect, or not by TLS.
    fn no_connection(&mut self, at: usize, why: &dyn Display) {
        self.tally.no_connection.get_or_insert_with(|| why.to_string());
        self.fail(at, Failure::Connect);
    }

    /// All requests of a client failed. It goes on, but not at once where it could not connect.
    pub(super) fn fail(&mut self, at: usize, failure: Failure) {
        let client = &mut self.clients[at];
        let count = client.flights.len() as u64;
        self.tally.fail(failure, count);
        client.flights.clear();
        self.tally.partial_bytes += client.close(self.request_length);
        self.is_refused |= failure == Failure::Connect;
        // Who lets one wait will let all wait, a time limit each.
        self.is_full |= failure == Failure::Timeout && self.plan.idle;
        self.settled_ns = self.now_ns;
        if count == 0 {
            // It is parked already.
        } else if self.plan.idle {
            self.parked.push_back(at);
            self.begin_next();
        } else if failure == Failure::Connect {
            self.retry.push(at);
        } else {
            self.again.push(at);
        }
    }

    fn begin_next(&mut self) {
        if self.fresh < self.clients.len() && !self.is_full {
            self.again.push(self.fresh);
            self.fresh += 1;
        }
    }
}
