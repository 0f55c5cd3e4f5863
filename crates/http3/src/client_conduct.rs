//! What servers may do, and what ends a stream or the connection of a client.

use crate::frame::kind;
use crate::testing::{LIMITS, Side, frame};
use crate::{Code, Command, Connection, Event, Input, Own, Request, write_request};
use crate::{ResponseOptions, write_interim, write_response};
use http::{Fields, ResponseHead, Status};

const REQUEST: Request<'_> = Request { method: b"POST", scheme: b"https", path: b"/a", authority: b"h" };

/// `:status: 200`, `:status: 103` and `a: b`
const HEAD: &[u8] = &[0, 0, 0xd9];
const INTERIM: &[u8] = &[0, 0, 0xd8];
const TRAILERS: &[u8] = &[0, 0, 0x21, b'a', 1, b'b'];

/// A client that has sent one request, with what it has sent.
fn client() -> (Side, Vec<u8>) {
    let mut side = Side::new(Connection::client(LIMITS));
    let mut out = Vec::new();
    assert!(side.connection.open(0));
    let fields = [(&b"TE"[..], &b"trailers"[..]), (b"connection", b"close")];
    side.connection.head(0, true, |section| write_request(&REQUEST, fields.into_iter(), section), &mut out);
    side.accept(3);
    side.take(3, &[0, 4, 0], false).unwrap();
    (side, out)
}

fn answered(frames: &[Vec<u8>]) -> Result<Vec<Event>, Code> {
    client().0.take(0, &frames.concat(), true)
}

#[test]
fn both_sides_understand_each_other() {
    let ((mut client, request), mut server) = (client(), Side::new(Connection::server(LIMITS)));
    server.accept(2);
    let control = client.connection.own(Own::Control).to_vec();
    assert!(
        matches!(server.take(2, &control, false).unwrap()[..], [Event::Settings(peer)] if !peer.connects)
    );
    server.opened(0, &request, true).unwrap();
    assert_eq!(server.fields(), ":method: POST\n:scheme: https\n:path: /a\n:authority: h\nte: trailers\n");

    let mut out = Vec::new();
    let mut hints = Fields::new();
    hints.push(b"Link", b"</a>").unwrap();
    let write = |section: &mut crate::SectionWriter<'_>| write_interim(Status(103), &hints, section);
    server.connection.head(0, false, write, &mut out);
    let options = ResponseOptions { date: None, server: None };
    let head = ResponseHead::new(Status::OK);
    server.connection.head(0, false, |section| write_response(&head, &options, section), &mut out);
    server.connection.data(0, 2, true, &mut out);
    out.extend_from_slice(b"hi");
    let events = client.take(0, &out, true).unwrap();
    assert!(
        matches!(
            events[..],
            [
                Event::Response { ends: false, .. },
                Event::Response { ends: false, .. },
                Event::Data { ends: true, is_wrong: false, .. }
            ]
        ),
        "{events:?}"
    );
    client.connection.release(0, Code::REQUEST_CANCELLED).unwrap();
    assert_eq!(client.commands(), []);
}

#[test]
fn what_a_server_may_do() {
    let (head, interim) = (frame(kind::HEADERS, HEAD), frame(kind::HEADERS, INTERIM));
    let response = |ends, length| Event::Response { stream: 0, ends, length };
    let reset = |code| Event::Reset { stream: 0, code };
    let trailers = frame(kind::HEADERS, TRAILERS);
    for (frames, expected) in [
        (vec![head.clone()], Ok(vec![response(true, 3)])),
        (vec![interim.clone(), head.clone()], Ok(vec![response(false, 3), response(true, 3)])),
        (vec![interim.clone()], Ok(vec![reset(Code::MESSAGE_ERROR)])),
        (vec![], Ok(vec![reset(Code::MESSAGE_ERROR)])),
        (vec![head.clone(), head.clone()], Ok(vec![response(false, 3), reset(Code::MESSAGE_ERROR)])),
        (
            vec![head.clone(), trailers],
            Ok(vec![response(false, 3), Event::Trailers { stream: 0, is_wrong: false }]),
        ),
        (vec![frame(kind::DATA, b"x")], Err(Code::FRAME_UNEXPECTED)),
        (vec![interim, frame(kind::DATA, b"x")], Err(Code::FRAME_UNEXPECTED)),
        (vec![frame(kind::PUSH_PROMISE, &[0, 0])], Err(Code::ID_ERROR)),
    ] {
        assert_eq!(answered(&frames), expected, "{frames:x?}");
    }
}

#[test]
fn what_a_server_may_send_elsewhere() {
    for (frames, expected) in [
        (vec![frame(kind::GOAWAY, &[8])], Ok(vec![Event::Goaway { first: 8 }])),
        (vec![frame(kind::GOAWAY, &[8]), frame(kind::GOAWAY, &[12])], Err(Code::ID_ERROR)),
        (vec![frame(kind::GOAWAY, &[9])], Err(Code::ID_ERROR)),
        (vec![frame(kind::MAX_PUSH_ID, &[0])], Err(Code::FRAME_UNEXPECTED)),
        (vec![frame(kind::PRIORITY_UPDATE, &[0])], Err(Code::FRAME_UNEXPECTED)),
        (vec![frame(kind::CANCEL_PUSH, &[0])], Err(Code::ID_ERROR)),
    ] {
        assert_eq!(client().0.take(3, &frames.concat(), false), expected, "{frames:x?}");
    }
    assert_eq!(client().0.opened(7, &[1], false), Err(Code::ID_ERROR), "a push");
    assert_eq!(client().0.opened(1, &[], false), Err(Code::STREAM_CREATION_ERROR));
    let (mut side, _) = client();
    side.take(3, &frame(kind::GOAWAY, &[4]), false).unwrap();
    assert!(!side.connection.open(4));
}

#[test]
fn the_rest_of_a_request_may_be_unwanted() {
    let mut side = Side::new(Connection::client(LIMITS));
    side.connection.open(0);
    let event = side.connection.peer_stopped(0, Code::NO_ERROR).unwrap();
    assert_eq!(event, Some(Event::Unwanted { stream: 0 }));
    let answer = frame(kind::HEADERS, HEAD);
    let input = Input { stream: 0, bytes: &answer, ends: true };
    let read = side.connection.read(input, &mut side.list).unwrap();
    assert_eq!(read.event, Some(Event::Response { stream: 0, ends: true, length: 3 }));
    side.connection.open(4);
    side.connection.release(4, Code::REQUEST_CANCELLED).unwrap();
    let code = Code::REQUEST_CANCELLED;
    let stop = [Command::Reset { stream: 4, code }, Command::Stop { stream: 4, code }];
    assert_eq!(side.commands()[1..], stop);
}
