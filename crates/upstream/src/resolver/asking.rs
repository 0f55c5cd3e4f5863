//! Asking one name server after another until one has an answer.

use super::asked::{self, Asked, Waiter};
use super::stream::NameStream;
use super::{Resolver, Unresolved};
use crate::random::random;
use dns::{Code, Name, Query, Wanted};
use journal::{ErrorLog, Level};
use net::{Questions, system_message};
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::task::spawn_local;
use wire::Timer;

/// How long a server has to answer before the next one is asked, too.
const RESEND: Duration = Duration::from_secs(5);

/// How many servers are listened to at once: the one that was asked last, and the one before, which may be slow.
const SOCKETS_MAX: usize = 2;

/// How many wrong messages may come to one socket. More are an attempt to guess the id.
const WRONG_MAX: u32 = 16;

/// How long a datagram may be; what nginx takes.
const DATAGRAM_MAX: usize = 4096;

/// Asks a question, or waits for one that was asked already.
///
/// # Errors
/// Too many questions are open.
pub(super) fn ask(
    resolver: &Arc<Resolver>,
    name: &Name,
    wanted: Wanted,
    log: &ErrorLog,
) -> Result<Waiter, Unresolved> {
    let (asked, is_new) = asked::open(resolver.id, name, wanted)?;
    if is_new {
        spawn_local(Asking::new(&asked, resolver, log));
    }
    Ok(Waiter::new(asked))
}

/// The task that asks a question.
struct Asking {
    asked: Rc<Asked>,
    resolver: Arc<Resolver>,
    log: ErrorLog,
    query: Query,
    /// The server that was asked last.
    server: usize,
    /// How many servers were unreachable since the timer was set.
    unreachable: usize,
    /// The sockets that are listened to; the last one is that of `server`.
    sockets: VecDeque<Socket>,
    stream: Option<NameStream>,
    /// None before the first server was asked.
    timer: Option<Timer>,
}

/// A socket that datagrams are expected from. Each attempt has its own, so that its port is a further number to guess.
struct Socket {
    questions: Questions,
    server: usize,
    wrong: u32,
}

impl Asking {
    fn new(asked: &Rc<Asked>, resolver: &Arc<Resolver>, log: &ErrorLog) -> Asking {
        let query = Query::new(asked.name().clone(), resolver.kinds(asked.wanted()), random_id);
        Asking {
            asked: Rc::clone(asked),
            resolver: Arc::clone(resolver),
            log: log.clone(),
            query,
            server: resolver.next_server(),
            unreachable: 0,
            sockets: VecDeque::new(),
            stream: None,
            timer: None,
        }
    }

    /// Ready when there is an answer, or no server is to be asked any more.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.timer.is_none() {
            let Ok(timer) = Timer::here() else { return Poll::Ready(()) };
            timer.start(cx, RESEND);
            self.timer = Some(timer);
            self.send();
        }
        loop {
            if self.asked.is_given_up(cx) {
                return Poll::Ready(());
            }
            self.receive(cx);
            self.receive_stream(cx);
            if let Some(outcome) = self.query.outcome() {
                let (name, wanted) = (self.asked.name(), self.asked.wanted());
                let valid = outcome.map(|found| {
                    let until = self.resolver.keep(name, wanted, &found);
                    (found.answer, until)
                });
                self.asked.finish(valid);
                return Poll::Ready(());
            }
            let Some(timer) = &self.timer else { return Poll::Ready(()) };
            ready!(timer.poll(cx));
            if !self.asked.is_awaited() {
                return Poll::Ready(());
            }
            timer.start(cx, RESEND);
            self.unreachable = 0;
            self.advance();
            self.send();
        }
    }

    fn advance(&mut self) {
        self.server = (self.server + 1) % self.resolver.servers.addresses.len().max(1);
    }

    /// Sends what has no answer to the server; to the next one, if that is not possible.
    fn send(&mut self) {
        if let Err(error) = self.try_send() {
            self.complain(self.server, "connect", &error);
            self.advance();
            if let Err(error) = self.try_send() {
                self.complain(self.server, "connect", &error);
            }
        }
    }

    fn try_send(&mut self) -> io::Result<()> {
        let Some(address) = self.resolver.servers.addresses.get(self.server) else { return Ok(()) };
        if self.query.messages(false).next().is_some() {
            let questions = Questions::connect(address)?;
            self.query.messages(false).try_for_each(|message| questions.send(message))?;
            if self.sockets.len() >= SOCKETS_MAX {
                self.sockets.pop_front();
            }
            self.sockets.push_back(Socket { questions, server: self.server, wrong: 0 });
        }
        self.stream = None;
        if self.query.messages(true).next().is_some() {
            let mut stream = NameStream::connect(address)?;
            self.query.messages(true).for_each(|message| stream.send(message));
            self.stream = Some(stream);
        }
        Ok(())
    }

    /// Takes all datagrams that came.
    fn receive(&mut self, cx: &mut Context<'_>) {
        let mut bytes = [0; DATAGRAM_MAX];
        let mut at = 0;
        while let Some(socket) = self.sockets.get_mut(at) {
            match socket.questions.poll_receive(cx, &mut bytes) {
                Poll::Pending => at += 1,
                Poll::Ready(Ok(length)) => self.take(at, &bytes[..length]),
                Poll::Ready(Err(error)) => self.leave(at, &error),
            }
            if self.query.outcome().is_some() {
                return;
            }
        }
    }

    /// Takes a datagram that came to a socket.
    fn take(&mut self, at: usize, message: &[u8]) {
        let Some(socket) = self.sockets.get_mut(at) else { return };
        match self.query.receive(message, false) {
            Ok(None) => {}
            Ok(Some(question)) => {
                let address = self.resolver.servers.addresses.get(socket.server);
                if self.stream.is_none() {
                    self.stream = address.and_then(|address| NameStream::connect(address).ok());
                }
                self.stream.iter_mut().for_each(|stream| stream.send(question));
            }
            Err(unusable) => {
                self.log.write(Level::Error, &unusable.to_string());
                socket.wrong += 1;
                if socket.wrong >= WRONG_MAX {
                    drop(self.sockets.remove(at));
                }
            }
        }
    }

    /// Leaves a server that cannot be reached. The next one is asked at once if it was not asked before.
    fn leave(&mut self, at: usize, error: &io::Error) {
        let Some(Socket { server, .. }) = self.sockets.remove(at) else { return };
        self.complain(server, "recv", error);
        self.unreachable += 1;
        if self.unreachable < self.resolver.servers.addresses.len() && server == self.server {
            self.advance();
            self.send();
        }
    }

    fn receive_stream(&mut self, cx: &mut Context<'_>) {
        let Some(stream) = &mut self.stream else { return };
        if let Poll::Ready(result) = stream.poll(cx, &mut self.query) {
            self.stream = None;
            if let Err(unusable) = result {
                self.log.write(Level::Error, &unusable.to_string());
            }
        }
    }

    fn complain(&self, server: usize, call: &str, error: &io::Error) {
        let address = self.resolver.servers.addresses.get(server).map(ToString::to_string);
        let reason = system_message(error);
        let message =
            format!("{call}() failed ({reason}) while resolving, resolver: {}", address.unwrap_or_default());
        self.log.write(Level::Crit, &message);
    }
}

/// A number that cannot be foretold.
fn random_id() -> u16 {
    let mut bytes = [0; 2];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(2) => u16::from_ne_bytes(bytes),
        // It does not fail since Linux 3.17 once the system has started.
        _ => u16::try_from(random() & 0xffff).unwrap_or(0),
    }
}

impl Future for Asking {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_answer(cx)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.asked.leave();
        self.asked.finish(Err(Code::ServerFailure));
    }
}
