//! Faults that concern one stream, and no other one of its connection.

use super::raw::{DATA, HEADERS, RESET, Raw, WINDOW, block, frame, get};
use super::{PATIENCE, ask, run};
use crate::allocations::serve;
use bytes::Bytes;
use conf::Diagnostic;
use contract::{Exchange, Handler, Module, Outcome, Phase, ScopeBuilder, Step, View, Work};
use net::bind::bind;
use net::{Endpoint, ListenOptions, SocketAddress};
use std::net::TcpListener;
use std::sync::{Mutex, mpsc};
use std::time::Duration;
use tests::binary::Server;
use tests::origin::{After, Origin, raw};
use tests::site::Site;

/// INTERNAL_ERROR (RFC 9113, section 7).
const INTERNAL_ERROR: u32 = 2;

/// What an upload may at most get rid of while nothing is read of it: the kernel's buffers, and our own, in bytes.
const STALLED_MAX: usize = 64 << 20;

/// How many requests are answered without a larger window until an upload counts as stalled.
const QUIET: usize = 20;

static FAULTY: Module = Module { name: "faulty", directives: &[], variables: &[], compile: Some(compile) };

fn compile(_: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    builder.handle(Phase::Access, Faulty);
    Ok(())
}

/// Panics where the path says so.
struct Faulty;

impl Handler for Faulty {
    fn run(&self, exchange: &mut Exchange) -> Step {
        match &exchange.request.path[..] {
            b"/at-once" => panic!("a fault of a test, at once"),
            b"/later" => Step::Await(Work::Sleep(Duration::from_millis(1))),
            _ => Step::Next,
        }
    }

    fn resume(&self, _: &mut Exchange, _: Outcome) -> Step {
        panic!("a fault of a test, later")
    }
}

#[test]
fn a_panic_ends_its_own_stream_only() {
    let any = SocketAddress::Inet("127.0.0.1:0".parse().unwrap());
    let sockets = bind(&Endpoint::stream(any), &ListenOptions::default(), 1).unwrap();
    let &SocketAddress::Inet(address) = sockets[0].address() else { panic!("not TCP") };
    let text =
        format!("error_log stderr crit; http {{ access_log off; server {{ listen {address}; http2 on; }} }}");
    serve(text, sockets, &FAULTY, || {
        let mut client = Raw::connect(address, 1 << 20);
        client.send(&[get(1, "/at-once"), get(3, "/later"), get(5, "/fine")].concat());
        let (mut resets, mut has_answer) = (Vec::new(), false);
        while resets.len() < 2 || !has_answer {
            let frame = client.next().expect("the connection goes on");
            has_answer |= frame.stream == 5 && frame.ends();
            if frame.kind == RESET {
                resets.push((frame.stream, frame.number(0)));
            }
        }
        resets.sort_unstable();
        assert_eq!(resets, [(1, INTERNAL_ERROR), (3, INTERNAL_ERROR)]);
        client.send(&get(7, "/fine"));
        client.find(|frame| frame.stream == 7 && frame.ends());
    });
}

/// The upstream reads nothing of an upload. The client gets no window for more, and its other requests are answered.
#[test]
fn a_stalled_upload_delays_no_other_stream() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let site = Site::new(&format!(
        "server {{
             listen 127.0.0.1:%%PORT%%;
             http2 on;
             location / {{ return 200 text; }}
             location /stalled {{
                 client_max_body_size 0;
                 proxy_request_buffering off;
                 proxy_http_version 1.1;
                 proxy_pass http://{};
             }}
         }}",
        upstream.local_addr().unwrap()
    ));
    let running = site.start(Server::Fulmar);
    let mut client = Raw::connect(running.address(), 1 << 20);
    client.send(&frame(HEADERS, 4, 1, &block("POST", "/stalled")));
    // As `http2_body_preread_size` says.
    let (mut room, mut sent, mut quiet, mut stream) = (64 * 1024, 0, 0, 3);
    while quiet < QUIET {
        if room > 0 {
            let count = room.min(16_000);
            client.send(&frame(DATA, 0, 1, &vec![b'x'; count]));
            (room, sent) = (room - count, sent + count);
            assert!(sent < STALLED_MAX, "the server takes all of it");
            continue;
        }
        quiet += 1;
        client.send(&get(stream, "/"));
        loop {
            let frame = client.next().expect("the connection goes on");
            if frame.kind == WINDOW && frame.stream == 1 {
                (room, quiet) = (room + frame.number(0) as usize, 0);
            }
            if frame.stream == stream && frame.ends() {
                break;
            }
        }
        stream += 2;
    }
    drop(client);
    running.stop();
}

#[test]
fn a_mirror_gets_the_body_too() {
    let (told, asked) = mpsc::channel();
    let told = Mutex::new(told);
    let origin = Origin::start(move |asked| {
        let text = String::from_utf8_lossy(&asked.text).into_owned();
        drop(told.lock().unwrap().send((asked.target.clone(), text)));
        raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", After::Close)
    });
    let site = Site::new(&format!(
        "server {{
             listen 127.0.0.1:%%PORT%%;
             http2 on;
             location / {{ mirror /copy; proxy_pass http://{0}; }}
             location = /copy {{ internal; proxy_pass http://{0}/copied; }}
         }}",
        origin.address()
    ));
    let running = site.start(Server::Fulmar);
    let body = vec![Bytes::from_static(b"one "), Bytes::from_static(b"two")];
    let answer = run(ask(running.address(), "POST", "/form", body)).unwrap();
    assert_eq!((answer.status, &answer.content[..]), (200, &b"ok"[..]));
    let mut targets = Vec::new();
    for _ in 0..2 {
        let (target, text) = asked.recv_timeout(PATIENCE).expect("both are asked");
        assert!(text.ends_with("one two"), "{text}");
        targets.push(target);
    }
    targets.sort();
    assert_eq!(targets, ["/copied", "/form"]);
    running.stop();
}
