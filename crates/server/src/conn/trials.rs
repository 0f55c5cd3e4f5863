//! A client whose bytes are in memory: it has no descriptor, and its requests go through all that the transports and the
//! versions of HTTP share.

use super::client::{Client, next_serial};
use super::exchange::{self, Arrival};
use super::life::Sender;
use super::pooled::PooledRequest;
use crate::event_loop::runtime;
use crate::successor::Settings;
use crate::task_table::{Member, TaskTable};
use crate::thread::{Counted, Thread};
use bytes::Bytes;
use conf::{Contexts, Diagnostic};
use contract::{
    Body, BodyReader, Connection, Directive, Exchange, Handler, Module, Outcome, Peer, Phase, Piece,
    ScopeBuilder, Step, View, Work,
};
use engine::{After, Detached, End, Flow, Sent};
use http::{Status, Version};
use journal::clock::Time;
use net::Events;
use site::testing;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::{spawn_local, yield_now};
use wire::Timer;

/// Answers with the address of the client, after a delay.
static WAITS: Directive<bool> = Directive::flag("waits").within(Contexts::SERVER.or(Contexts::LOCATION));

static TRIALS: Module =
    Module { name: "trials", directives: &[&WAITS], variables: &[], compile: Some(compile) };

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if view.get(&WAITS).is_some() {
        builder.handle(Phase::Content, Waits);
    }
    Ok(())
}

struct Waits;

impl Handler for Waits {
    fn run(&self, _: &mut Exchange) -> Step {
        Step::Await(Work::Sleep(Duration::from_millis(1)))
    }

    fn resume(&self, exchange: &mut Exchange, _: Outcome) -> Step {
        let Peer::Inet(peer) = &exchange.connection.peer else { panic!("no address") };
        let text = format!("{peer} request {}", exchange.connection.requests.get());
        Step::Respond(Body::bytes(text.into_bytes()))
    }
}

/// A connection in memory as its thread polls it. It serves all of its requests at a time.
struct Visit {
    client: Client,
    /// The addresses that the client has when it sends its next requests.
    arriving: VecDeque<SocketAddr>,
    requests: Vec<(Box<PooledRequest>, String)>,
    responses: Rc<RefCell<Vec<String>>>,
}

impl Visit {
    /// Begins a request that comes from this address.
    fn begin(&mut self, peer: SocketAddr) {
        self.client.connection_mut().peer = Peer::Inet(peer);
        let mut pooled = exchange::unread(&self.client);
        let head = &mut pooled.flow().exchange.request.head;
        head.set_line_of(b"GET", b"/", Version::Http11);
        head.fields.push(b"Host", b"h").unwrap();
        let arrival = Arrival {
            client: &self.client,
            at: Time::now(),
            head_length: 20,
            pipelined: false,
            clear_by_mistake: false,
        };
        let framing = arrival.examine(&mut pooled).unwrap();
        arrival.start(&mut pooled, framing);
        let progress = pooled.advance(self.client.is_leaving(), net::moment());
        pooled.life.start(progress);
        self.requests.push((pooled, String::new()));
    }
}

impl Future for Visit {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(peer) = self.arriving.pop_front() {
            self.begin(peer);
        }
        let Visit { client, requests, responses, .. } = &mut *self;
        let mut waiting = Vec::new();
        for (mut pooled, mut got) in requests.drain(..) {
            let polled = pooled.life.poll(cx, &mut Memory { client, got: &mut got });
            match polled {
                Poll::Pending => waiting.push((pooled, got)),
                Poll::Ready(()) => {
                    responses.borrow_mut().push(got);
                    exchange::end(client, pooled);
                }
            }
        }
        *requests = waiting;
        if requests.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Member for Visit {
    fn number(&self) -> u64 {
        self.client.info.serial
    }
}

/// The sender of a request that takes all of the response at once.
struct Memory<'a> {
    client: &'a Client,
    got: &'a mut String,
}

impl BodyReader for Memory<'_> {
    fn poll_take(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Exchange,
        _: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<bool, Status>> {
        Poll::Ready(Ok(false))
    }
}

impl End for Memory<'_> {
    fn put_back(&mut self, _: Bytes) {}

    fn give_up_body(&mut self, _: &mut Exchange, _: Status) {}

    fn settle(&mut self, _: &mut Exchange) -> Result<(), Status> {
        Ok(())
    }

    fn head(&mut self, flow: &mut Flow, _: &Body, _: bool) -> bool {
        *self.got = format!("{} ", flow.exchange.response.status.0);
        true
    }

    fn has_room(&self) -> bool {
        true
    }

    fn give(&mut self, _: &mut Exchange, piece: Piece) {
        let Piece::Bytes(bytes) = piece else { panic!("a file") };
        self.got.push_str(std::str::from_utf8(&bytes).unwrap());
    }

    fn finish(&mut self, _: &mut Flow) {}

    fn send(&mut self, _: &mut Context<'_>, _: &mut Exchange, _: usize) -> io::Result<Sent> {
        Ok(Sent::All)
    }

    fn poll_gone(&mut self, _: &mut Context<'_>, _: &mut Exchange, _: bool) -> Poll<()> {
        Poll::Pending
    }

    fn detach(&mut self, request: Detached) {
        self.client.detach(request);
    }

    fn timer(&self) -> Option<&Timer> {
        Some(&self.client.timer)
    }
}

impl Sender for Memory<'_> {
    fn responded(&mut self, _: &mut Flow, after: After) {
        assert!(matches!(after, After::Sent), "{after:?}");
    }

    fn memory(&self) -> usize {
        self.got.len()
    }
}

/// The responses to requests of one connection that come from these addresses: the requests of one list at a time.
fn responses(visits: &[&[&str]]) -> Vec<String> {
    let (_, site) = testing::site("server { listen 127.0.0.1:1; waits on; }", &[&TRIALS]).unwrap();
    let settings = Settings { connections: 1, shutdown_timeout: None, request_memory: None, drains: false };
    let thread = Thread::new(Arc::new(site), settings, Arc::default(), Rc::default());
    let responses = Rc::new(RefCell::new(Vec::new()));
    runtime(None).unwrap().block_on(async {
        let timers = Rc::clone(&thread.timers);
        timers.make_current();
        let timers = spawn_local(async move { timers.run().await });
        let table = TaskTable::new(Events::new().unwrap(), Arc::default());
        let driver = Rc::clone(&table);
        let driver = spawn_local(async move { driver.run().await });
        for addresses in visits {
            let parsed = |address: &&str| address.parse().unwrap();
            let arriving: VecDeque<SocketAddr> = addresses.iter().map(parsed).collect();
            let local = Peer::Inet("127.0.0.1:1".parse().unwrap());
            let info = Connection {
                serial: next_serial(),
                requests: Cell::new(0),
                ..Connection::new(Peer::Unix(None), local)
            };
            let counted = Counted::new(&thread).expect("a free place");
            let client = Client::new(counted, thread.serving(), 0, info);
            let responses = Rc::clone(&responses);
            table.add(Visit { client, arriving, requests: Vec::new(), responses });
            while !thread.is_idle() {
                yield_now().await;
            }
        }
        driver.abort();
        timers.abort();
    });
    Rc::try_unwrap(responses).unwrap().into_inner()
}

#[test]
fn a_client_without_a_descriptor_is_served() {
    let all = responses(&[&["192.0.2.1:7"], &["192.0.2.2:7"]]);
    assert_eq!(all, ["200 192.0.2.1:7 request 1", "200 192.0.2.2:7 request 1"]);
}

/// As a client of QUIC that goes to another network. The second request begins while the first one waits.
#[test]
fn a_request_keeps_the_address_under_which_it_began() {
    let all = responses(&[&["192.0.2.1:7", "198.51.100.9:8"]]);
    assert_eq!(all, ["200 192.0.2.1:7 request 1", "200 198.51.100.9:8 request 2"]);
}
