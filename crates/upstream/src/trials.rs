//! Conversations with servers that follow a script, in a protocol of lines: `ask`, pieces of the body, `.`; the answer is a
//! status and `keep` or `close`. The servers listen on the loopback interface, since a kept connection that its server
//! closes is a matter of the kernel.

use crate::attempts::Attempts;
use crate::conversation::Conversation;
use crate::dialogue::{Decoded, Dialogue, Remarks};
use crate::failure::Failure;
use crate::failures::Failures;
use crate::group::{Group, Keepalive, Key};
use crate::server::{Admission, PeerSettings, Server};
use crate::settings::{FieldNames, Settings};
use crate::upload::Upload;
use bytes::Bytes;
use contract::policy::Policy;
use contract::{
    Body, BodyReader, Connection, Exchange, Peer, Request, RequestBody, Root, ScopeBuilder, Streaming,
    Template, Turn, Variables, Work,
};
use http::Status;
use net::{Events, SocketAddress};
use std::collections::{HashSet, VecDeque};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::spawn_local;
use wire::{Buffer, Timers};

/// What a server does with one request.
#[derive(Clone, Copy)]
enum Act {
    /// Reads the request and says this.
    Say(&'static str),
    /// Says this when the head is there, before the body is.
    SayEarly(&'static str),
    /// Reads the request and closes the connection.
    Close,
    /// Reads the request and says nothing until the connection is closed.
    Wait,
}

/// A server that follows its script: a list for each connection, with an act for each of its requests.
struct Scripted {
    address: SocketAddress,
    /// What it got, a text for each request.
    thread: JoinHandle<Vec<String>>,
}

impl Scripted {
    fn start(script: &'static [&'static [Act]]) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = SocketAddress::Inet(listener.local_addr().unwrap());
        let thread = thread::spawn(move || {
            let mut got = Vec::new();
            for acts in script {
                let (mut stream, _) = listener.accept().unwrap();
                acts.iter().for_each(|&act| got.push(play(&mut stream, act)));
            }
            got
        });
        Scripted { address, thread }
    }

    fn server(&self) -> Server {
        Server::new(self.address.clone())
    }

    fn got(self) -> Vec<String> {
        self.thread.join().unwrap()
    }
}

fn play(stream: &mut TcpStream, act: Act) -> String {
    let end = if matches!(act, Act::SayEarly(_)) { "ask\n" } else { ".\n" };
    let mut got = Vec::new();
    while !got.ends_with(end.as_bytes()) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        got.push(byte[0]);
    }
    match act {
        Act::Say(text) => stream.write_all(text.as_bytes()).unwrap(),
        Act::SayEarly(text) => {
            stream.write_all(text.as_bytes()).unwrap();
            // Closed with the body unread, the connection would be reset, and the answer lost.
            drop(stream.read_to_end(&mut Vec::new()));
        }
        // The client may close it, or reset it.
        Act::Wait => drop(stream.read(&mut [0])),
        Act::Close => {}
    }
    String::from_utf8(got).unwrap()
}

/// The address of a server that is not there.
fn nowhere() -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Server::new(SocketAddress::Inet(listener.local_addr().unwrap()))
}

/// The protocol of lines.
#[derive(Default)]
struct Lines {
    keeps: bool,
}

impl Dialogue for Lines {
    fn clear(&mut self) {
        *self = Lines::default();
    }

    fn memory(&self) -> usize {
        0
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        self.clear();
        out.extend_from_slice(b"ask\n");
    }

    fn append_piece(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(piece);
    }

    fn append_end(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b".\n");
    }

    fn read_head(&mut self, input: &mut Buffer, _: &Remarks<'_>) -> Result<Option<Status>, Failure> {
        let Some(length) = input.bytes().iter().position(|&byte| byte == b'\n') else { return Ok(None) };
        let line = String::from_utf8(input.bytes()[..length].to_vec()).unwrap();
        input.consume(length + 1);
        let (status, end) = line.split_once(' ').unwrap();
        self.keeps = end == "keep";
        match status.parse() {
            Ok(status) => Ok(Some(Status(status))),
            Err(_) if status == "refused" => Err(Failure::refused("the server refuses".into())),
            Err(_) => Err(Failure::invalid("that is no status".into())),
        }
    }

    fn read_content(&mut self, _: &mut Buffer, _: &Remarks<'_>) -> Result<Decoded, String> {
        Ok(Decoded::End)
    }

    fn ends_with_connection(&self) -> bool {
        false
    }

    fn keeps_connection(&self) -> bool {
        self.keeps
    }
}

/// The body of a request as it comes: nothing more comes after its pieces, which are not its end.
struct Coming {
    pieces: VecDeque<&'static [u8]>,
    is_whole: bool,
}

impl BodyReader for Coming {
    fn poll_take(
        &mut self,
        _: &mut Context<'_>,
        exchange: &mut Exchange,
        take: &mut dyn FnMut(&[u8]),
    ) -> Poll<Result<bool, Status>> {
        let Some(piece) = self.pieces.pop_front() else { return Poll::Pending };
        take(piece);
        let is_over = self.is_whole && self.pieces.is_empty();
        exchange.request.streaming = Some(if is_over { Streaming::Over } else { Streaming::Begun });
        Poll::Ready(Ok(!is_over))
    }
}

/// A request to a group, and the rules for it.
struct Trial {
    group: Arc<Group>,
    settings: Settings,
    is_idempotent: bool,
    upload: Upload,
    coming: Coming,
}

/// The result of a request: the status of the answer, or the one that stands for the last failure, and the statuses of all
/// attempts.
type Ended = (Result<u16, u16>, Vec<u16>);

impl Trial {
    fn new(servers: Vec<Server>) -> Trial {
        let mut settings = Settings::usual("lines_buffer_size", FieldNames::new(HashSet::new()));
        settings.timeouts.read = Duration::from_secs(20);
        Trial {
            group: Arc::new(Group::new("g", servers, Keepalive::DEFAULT)),
            settings,
            is_idempotent: true,
            upload: Upload::None,
            coming: Coming { pieces: VecDeque::new(), is_whole: true },
        }
    }

    /// The same, with a body that comes in pieces.
    fn streaming(self, pieces: &[&'static [u8]], is_whole: bool) -> Trial {
        let coming = Coming { pieces: pieces.iter().copied().collect(), is_whole };
        Trial { upload: Upload::Stream, coming, ..self }
    }

    /// The same, and these failures let another server be asked.
    fn after(mut self, failures: &[Failures]) -> Trial {
        self.settings.next_upstream.failures =
            failures.iter().fold(Failures::NONE, |all, &one| all.with(one));
        self
    }

    /// Asks once.
    fn ask(self) -> Ended {
        self.ask_often(1).remove(0)
    }

    /// Asks so often, one request after the other, on one thread.
    fn ask_often(mut self, count: usize) -> Vec<Ended> {
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).unwrap();
        runtime.block_on(async {
            let (events, timers) = (Events::new().unwrap(), Timers::new());
            events.make_current();
            timers.make_current();
            let wheel = Rc::clone(&timers);
            spawn_local(async move { wheel.run().await });
            let settings = Arc::new(self.settings.clone());
            let mut ended = Vec::new();
            for _ in 0..count {
                ended.push(self.ask_once(&settings, &events).await);
            }
            ended
        })
    }

    async fn ask_once(&mut self, settings: &Arc<Settings>, events: &Rc<Events>) -> Ended {
        let mut exchange = exchange();
        if matches!(self.upload, Upload::Stream) {
            exchange.request.streaming = Some(Streaming::Untouched);
        }
        let mut conversation = Conversation::<Lines>::new(&exchange, &self.group, settings);
        conversation.call.is_idempotent = self.is_idempotent;
        conversation.call.upload = self.upload.clone();
        let Work::Upstream { mut task, .. } = conversation.work(Key::default()) else { panic!("other work") };
        let polled = poll_fn(|cx| {
            while events.poll(cx).is_ready() {}
            task.poll(&mut Turn { cx, exchange: &mut exchange, body: &mut self.coming })
        });
        tokio::time::timeout(Duration::from_secs(30), polled).await.expect("the request hangs").unwrap();
        let conversation = task.into_outcome().downcast::<Conversation<Lines>>().unwrap();
        let attempts = Attempts::of(&exchange);
        let answered = conversation.answered().map_err(|status| status.0);
        let all = attempts.with(|list| list.iter().map(|one| one.status.unwrap().0).collect::<Vec<_>>());
        if answered.is_ok() {
            // At the end of its content the connection is kept.
            assert!(!matches!(conversation.into_body(&mut exchange, false), Body::Source(_)));
        }
        (answered.map(|()| *all.last().unwrap()), all)
    }
}

fn exchange() -> Exchange {
    let root = Root { path: Template::literal(b"html"), alias: None, prefix: "/etc".into() };
    let scope = Arc::new(ScopeBuilder::new(None, Policy::new(root)).finish());
    let variables = Variables::new()
        .finish(&[], &mut |unknown, _| Err(unknown))
        .unwrap_or_else(|error| panic!("{}", error.message));
    let connection = Connection::new(Peer::Unix(None), Peer::Unix(None));
    Exchange::new(Rc::new(connection), Request::new(), scope, Arc::new(variables))
}

/// Asks a server that acts so, and after it one that answers, if the rules allow that: whether they did.
fn goes_on(act: &'static [&'static [Act]], rules: &[Failures], is_idempotent: bool) -> bool {
    let (first, second) = (Scripted::start(act), Scripted::start(&[&[Act::Say("200 close\n")]]));
    let mut trial = Trial::new(vec![first.server(), second.server()]).after(rules);
    trial.is_idempotent = is_idempotent;
    trial.settings.timeouts.read = Duration::from_millis(40);
    let (answered, all) = trial.ask();
    first.got();
    let went_on = all.len() == 2;
    assert_eq!(went_on, answered == Ok(200), "{all:?}");
    if !went_on {
        // The second one waits for its connection.
        let SocketAddress::Inet(address) = second.address else { panic!("no port") };
        TcpStream::connect(address).unwrap().write_all(b"ask\n.\n").unwrap();
    }
    second.got();
    went_on
}

const CLOSES: &[&[Act]] = &[&[Act::Close]];
const BUSY: &[&[Act]] = &[&[Act::Say("503 close\n")]];
const MISSES: &[&[Act]] = &[&[Act::Say("404 close\n")]];
const REFUSES: &[&[Act]] = &[&[Act::Say("refused close\n")]];
const GARBLES: &[&[Act]] = &[&[Act::Say("what close\n")]];
const SILENT: &[&[Act]] = &[&[Act::Wait]];
const ANSWERS: &[&[Act]] = &[&[Act::Say("200 close\n")]];

#[test]
fn the_rules_say_after_which_failures_another_server_is_asked() {
    let busy = Failures::of_status(Status(503)).unwrap();
    for (act, failure) in [
        (CLOSES, Failures::ERROR),
        (SILENT, Failures::TIMEOUT),
        (GARBLES, Failures::INVALID_HEADER),
        (BUSY, busy),
        (MISSES, Failures::NOT_FOUND),
    ] {
        assert!(goes_on(act, &[failure], true), "{failure:?}");
        let all = [Failures::ERROR, Failures::TIMEOUT, Failures::INVALID_HEADER, busy, Failures::NOT_FOUND];
        let others: Vec<_> = all.into_iter().filter(|&other| other != failure).collect();
        assert!(!goes_on(act, &others, true), "{failure:?}");
    }
}

#[test]
fn a_request_that_must_not_happen_twice_is_sent_again_only_if_it_had_no_effect() {
    assert!(!goes_on(CLOSES, &[Failures::ERROR], false));
    assert!(goes_on(CLOSES, &[Failures::ERROR, Failures::NON_IDEMPOTENT], false));
    assert!(goes_on(REFUSES, &[Failures::ERROR], false), "the server says that it did not act");
    let second = Scripted::start(ANSWERS);
    let trial = Trial { is_idempotent: false, ..Trial::new(vec![nowhere(), second.server()]) };
    assert_eq!(trial.ask(), (Ok(200), vec![502, 200]), "nothing was sent");
    second.got();
}

#[test]
fn a_silent_server_is_given_up() {
    let server = Scripted::start(SILENT);
    let mut trial = Trial::new(vec![server.server()]);
    trial.settings.timeouts.read = Duration::from_millis(40);
    assert_eq!(trial.ask(), (Err(504), vec![504]));
    assert_eq!(server.got(), ["ask\n.\n"]);
}

#[test]
fn no_more_servers_are_asked_than_the_limit_allows() {
    let asked = |limit| {
        let mut trial = Trial::new((0..4).map(|_| nowhere()).collect());
        trial.settings.next_upstream.tries = limit;
        trial.ask().1.len()
    };
    assert_eq!([asked(1), asked(3), asked(0)], [1, 3, 4]);
}

#[test]
fn without_a_server_there_is_no_answer() {
    let down = PeerSettings { admission: Admission::Down, ..PeerSettings::DEFAULT };
    assert_eq!(Trial::new(vec![nowhere().with(down)]).ask(), (Err(502), vec![502]));
}

#[test]
fn a_connection_is_kept_for_the_next_request() {
    let server = Scripted::start(&[&[Act::Say("200 keep\n"), Act::Say("201 keep\n")]]);
    let trial = Trial::new(vec![server.server()]);
    let group = Arc::clone(&trial.group);
    assert_eq!(trial.ask_often(2), [(Ok(200), vec![200]), (Ok(201), vec![201])]);
    assert_eq!(server.got(), ["ask\n.\n", "ask\n.\n"]);
    assert_eq!(group.figures()[0].opened, 1);
}

const KEPT_AND_CLOSED: &[&[Act]] = &[&[Act::Say("200 keep\n"), Act::Close], &[Act::Say("201 close\n")]];

#[test]
fn a_kept_connection_that_its_server_closes_is_no_failure_of_the_server() {
    let server = Scripted::start(KEPT_AND_CLOSED);
    let trial = Trial::new(vec![server.server()]);
    let group = Arc::clone(&trial.group);
    assert_eq!(trial.ask_often(2), [(Ok(200), vec![200]), (Ok(201), vec![502, 201])]);
    assert_eq!((server.got().len(), group.figures()[0].failures), (3, 0));
}

#[test]
fn a_body_that_is_there_is_sent_again() {
    let (first, second) = (Scripted::start(CLOSES), Scripted::start(ANSWERS));
    let body = RequestBody::Memory(Bytes::from_static(b"body\n"));
    let trial = Trial::new(vec![first.server(), second.server()]);
    let trial = Trial { upload: Upload::Whole(body), ..trial };
    assert_eq!(trial.ask(), (Ok(200), vec![502, 200]));
    assert_eq!([first.got(), second.got()], [["ask\nbody\n.\n"], ["ask\nbody\n.\n"]]);
}

#[test]
fn a_body_that_was_passed_on_is_not_sent_again() {
    let first = Scripted::start(CLOSES);
    let rules = [Failures::ERROR, Failures::NON_IDEMPOTENT];
    let trial = Trial::new(vec![first.server(), nowhere()]).after(&rules);
    assert_eq!(trial.streaming(&[b"a", b"b\n"], true).ask(), (Err(502), vec![502]));
    assert_eq!(first.got(), ["ask\nab\n.\n"]);
    let second = Scripted::start(ANSWERS);
    let trial = Trial::new(vec![nowhere(), second.server()]).after(&rules);
    assert_eq!(trial.streaming(&[b"a", b"b\n"], true).ask(), (Ok(200), vec![502, 200]), "none of it was");
    assert_eq!(second.got(), ["ask\nab\n.\n"]);
}

#[test]
fn an_answer_may_come_before_the_body_is_sent() {
    let server = Scripted::start(&[&[Act::SayEarly("413 keep\n")]]);
    let trial = Trial::new(vec![server.server()]).streaming(&[b"a"], false);
    assert_eq!(trial.ask(), (Ok(413), vec![413]));
    server.got();
}
