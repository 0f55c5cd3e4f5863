//! The start of a connection to an address with `ssl`: the handshake, and the server that it chooses.

use super::Opening;
use contract::{Connection, Exchange, Request, Tls};
use journal::Level;
use site::{Application, Certificates, Encryption};
use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tls::{ClientHello, Negotiated, Offered, Rejection, ServerPolicy, Verdict};
use wire::{Job, Transport};

/// The start of an encrypted connection.
#[derive(Default)]
pub(super) struct Start {
    /// The name that the client asked for.
    name: Option<Box<str>>,
    /// What else it offered.
    offered: Offered,
    /// The policy, while the certificates of the connection are read.
    reading: Option<Job<Result<ServerPolicy, String>>>,
    /// What was agreed on, while responders are asked about the client.
    asking: Option<Asking>,
    /// Why it failed.
    failure: Option<io::Error>,
}

struct Asking {
    negotiated: Negotiated,
    check: Pin<Box<dyn Future<Output = Option<Verdict>>>>,
}

impl Opening {
    /// Opens the connection; ready with whether that succeeded. The caller watches the timer while it waits.
    pub(super) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.handshake.as_ref().is_none_or(|start| start.failure.is_none()) {
            match ready!(self.poll_start(cx)) {
                Ok(()) => {
                    self.handshake = None;
                    self.client.timer.set(self.client.idle.patience);
                    return Poll::Ready(true);
                }
                Err(error) => self.handshake.get_or_insert_default().failure = Some(error),
            }
        }
        // The client gets the reason before the connection ends.
        if let Transport::Tls(tls) = &mut self.bytes.transport {
            let _: io::Result<()> = ready!(tls.poll_flush(cx));
        }
        if let Some(error) = self.handshake.take().and_then(|start| start.failure) {
            self.complain(&error);
        }
        Poll::Ready(false)
    }

    fn poll_start(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Transport::Tls(tls) = &mut self.bytes.transport else { return Poll::Ready(Ok(())) };
        if tls.awaits_hello() {
            if self.handshake.as_ref().is_none_or(|start| start.reading.is_none()) {
                match ready!(tls.poll_opening(cx))? {
                    wire::Opening::Hello(hello) => self.choose(hello)?,
                    wire::Opening::Clear => {
                        // It gets the error over HTTP.
                        (self.bytes.input, self.bytes.clear_by_mistake) = (tls.clear(), true);
                        return Poll::Ready(Ok(()));
                    }
                }
            }
            if let Some(reading) = self.handshake.as_mut().and_then(|start| start.reading.as_mut()) {
                let policy = ready!(Pin::new(reading).poll(cx))?;
                self.accept(policy)?;
            }
        }
        let negotiated = ready!(self.poll_negotiated(cx))?;
        let Start { name, offered, .. } = self.handshake.take().unwrap_or_default();
        let early = Cell::new(self.bytes.transport.is_early());
        let info = self.client.connection_mut();
        info.secure = true;
        info.tls = Some(Box::new(Tls { agreed: negotiated, server_name: name, offered, early }));
        Poll::Ready(Ok(()))
    }

    /// Ends the handshake, and has responders asked about the certificate of the client. Requests wait for that.
    fn poll_negotiated(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Negotiated>> {
        if self.handshake.as_ref().is_none_or(|start| start.asking.is_none()) {
            let Transport::Tls(tls) = &mut self.bytes.transport else {
                return Poll::Ready(Ok(Negotiated::default()));
            };
            let mut negotiated = ready!(tls.poll_handshake(cx))?;
            let questions = std::mem::take(&mut negotiated.questions);
            let check = self
                .client
                .hosts()
                .status_check(self.client.named.as_ref())
                .filter(|_| !questions.is_empty());
            let Some(check) = check else { return Poll::Ready(Ok(negotiated)) };
            let asking = Asking { negotiated, check: check.check(questions) };
            self.handshake.get_or_insert_default().asking = Some(asking);
        }
        let Some(asking) = self.handshake.as_mut().and_then(|start| start.asking.as_mut()) else {
            return Poll::Pending;
        };
        let fault = ready!(asking.check.as_mut().poll(cx));
        let mut negotiated = std::mem::take(&mut asking.negotiated);
        if let Some(client) = negotiated.client.as_mut() {
            client.fault = client.fault.or(fault);
        }
        Poll::Ready(Ok(negotiated))
    }

    /// Chooses the virtual server, and goes on under its policy.
    fn choose(&mut self, hello: ClientHello) -> io::Result<()> {
        let name = hello.server_name.clone();
        let named = name.as_deref().and_then(|name| self.client.hosts().find_name(name.as_bytes()));
        self.client.named = named.map(Arc::clone);
        if let Some(start) = &mut self.handshake {
            start.name = name.map(String::into_boxed_str);
            start.offered = hello.offered.clone();
        }
        let speaks_http2 = self.client.speaks_http2();
        let offering = |policy: ServerPolicy| if speaks_http2 { policy.offering_http2() } else { policy };
        let encryption = self.client.hosts().encryption(self.client.named.as_ref()).clone();
        let special = match &encryption {
            Encryption::Accept(policy) | Encryption::Select(policy, _) => policy.for_handshake(&hello),
            Encryption::Reject | Encryption::None => None,
        };
        if let Some(policy) = special {
            return self.accept(Ok(policy));
        }
        match encryption {
            Encryption::Accept(policy) => self.accept(Ok(offering(policy))),
            Encryption::Select(policy, certificates) => self.select(offering(policy), &certificates),
            Encryption::Reject | Encryption::None => {
                Err(self.reject(Rejection::UnknownName, "handshake rejected"))
            }
        }
    }

    /// Finds the certificates of the connection, if need be in files. That does not block the event loop.
    fn select(&mut self, policy: ServerPolicy, certificates: &Arc<Certificates>) -> io::Result<()> {
        let server = self.client.named.as_ref().unwrap_or_else(|| self.client.default_server());
        let scope = Arc::clone(&server.scope);
        let application = self.client.application();
        let start = self.handshake.get_or_insert_default();
        let tls = Tls {
            agreed: Negotiated::default(),
            server_name: start.name.clone(),
            offered: start.offered.clone(),
            early: Cell::default(),
        };
        // Variables see the connection, and a request of which nothing is known.
        let connection = Connection { secure: true, tls: Some(Box::new(tls)), ..(*self.client.info).clone() };
        let site = &self.client.serving.site;
        let variables = Arc::clone(match application {
            Application::Http => &site.variables,
            Application::Stream => &site.stream_variables,
        });
        let exchange = Exchange::new(Rc::new(connection), Request::new(), scope, variables);
        let selected = certificates.select(&exchange);
        if selected.needs_files() {
            start.reading = Some(Job::start(move || Ok(selected.policy(&policy))));
            return Ok(());
        }
        self.accept(selected.policy(&policy))
    }

    /// Goes on with the handshake; the policy is a message for the log if there is no certificate.
    fn accept(&mut self, policy: Result<ServerPolicy, String>) -> io::Result<()> {
        let policy = policy.map_err(|message| {
            self.log_handshake(Level::Error, &message);
            self.reject(Rejection::NoCertificate, "no certificate")
        })?;
        match &mut self.bytes.transport {
            Transport::Tls(tls) => tls.accept(&policy),
            Transport::Plain(_) => Ok(()),
        }
    }

    /// Turns the client away; gives the error that ends the connection.
    fn reject(&mut self, rejection: Rejection, reason: &str) -> io::Error {
        if let Transport::Tls(tls) = &mut self.bytes.transport {
            tls.reject(rejection);
        }
        io::Error::new(io::ErrorKind::InvalidData, reason)
    }

    fn complain(&self, error: &io::Error) {
        let untouched = matches!(&self.bytes.transport, Transport::Tls(tls) if tls.is_untouched());
        match error.kind() {
            io::ErrorKind::UnexpectedEof if untouched => {
                self.log_handshake(Level::Info, "client closed connection");
            }
            io::ErrorKind::UnexpectedEof => {
                self.log_handshake(Level::Info, "peer closed connection in SSL handshake");
            }
            io::ErrorKind::Other => {
                self.log_handshake(Level::Crit, &format!("SSL_do_handshake() failed ({error})"));
            }
            _ => self.log_handshake(Level::Info, &format!("SSL_do_handshake() failed ({error})")),
        }
    }

    pub(super) fn log_handshake(&self, level: Level, message: &str) {
        self.client.log(level, &format!("{message} while SSL handshaking"));
    }
}
