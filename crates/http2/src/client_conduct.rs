//! What servers may do, and what ends a stream or the connection of a client.

use crate::frame::{PREFACE, kind};
use crate::testing::{Side, frame};
use crate::{Code, Connection, Content, Event, Limits, Request, write_request};
use crate::{ResponseOptions, write_response, write_trailers};
use http::{Fields, ResponseHead, Status};

const LIMITS: Limits = Limits { streams: 1, window: 1000, list_size: 6000, field_size: 4000 };
const SERVER: Limits = Limits { streams: 2, window: 10, list_size: 6000, field_size: 4000 };
const REQUEST: Request<'_> = Request { method: b"POST", scheme: b"http", path: b"/a", authority: b"h" };

/// `:status: 200`
const HEAD: &[u8] = &[0x88];

/// `:status: 103`
const INTERIM: &[u8] = &[8, 3, b'1', b'0', b'3'];

impl Side {
    fn ask(&mut self, ends: bool) -> u32 {
        let stream = self.connection.open_stream().unwrap();
        let fields = [(&b"te"[..], &b"trailers"[..]), (b"connection", b"close")];
        let write = |block: &mut crate::BlockWriter<'_>| write_request(&REQUEST, fields.into_iter(), block);
        self.connection.head(stream, ends, write, &mut self.out);
        stream
    }
}

fn client() -> Side {
    let side = Side::new(|out| Connection::client(LIMITS, out));
    assert!(side.out.starts_with(PREFACE));
    side
}

fn server() -> Side {
    Side::new(|out| Connection::new(SERVER, out))
}

/// What a client makes of a server that sends its settings and then these frames, in answer to one request.
fn answered(frames: &[Vec<u8>]) -> Result<Vec<Event>, Code> {
    let mut client = client();
    client.ask(true);
    client.take(&[frame(kind::SETTINGS, 0, 0, &[]), frames.concat()].concat())
}

#[test]
fn a_request_with_content_and_its_response_with_trailers() {
    let (mut client, mut server) = (client(), server());
    server.take(&std::mem::take(&mut client.out)).unwrap();
    client.take(&std::mem::take(&mut server.out)).unwrap();
    let stream = client.ask(false);
    let seen = server.take(&std::mem::take(&mut client.out)).unwrap();
    assert!(matches!(seen.last(), Some(Event::Request { stream: 1, ends: false, .. })), "{seen:?}");
    let names: Vec<_> = server.list.iter().map(|(name, _)| name.to_vec()).collect();
    assert_eq!(names, [&b":method"[..], b":scheme", b":path", b":authority", b"te"]);
    // The server allows ten bytes.
    let content = Content { bytes: b"hello, server", ends: true, frame: 100 };
    assert_eq!(client.connection.data(stream, content, &mut client.out), 10);
    assert!(!client.connection.has_sent_all(stream));
    server.take(&std::mem::take(&mut client.out)).unwrap();
    server.connection.widen(stream, 0, 10, &mut server.out);
    let window = client.take(&std::mem::take(&mut server.out)).unwrap();
    assert_eq!(window, [Event::Window { stream }]);
    let rest = Content { bytes: b"ver", ends: true, frame: 100 };
    assert_eq!(client.connection.data(stream, rest, &mut client.out), 3);
    assert!(client.connection.has_sent_all(stream));
    server.take(&std::mem::take(&mut client.out)).unwrap();
    let options = ResponseOptions { date: None, server: None };
    let head = ResponseHead::new(Status::OK);
    server.connection.head(stream, false, |block| write_response(&head, &options, block), &mut server.out);
    server.connection.data(stream, Content { bytes: b"hi", ends: false, frame: 100 }, &mut server.out);
    let mut trailers = Fields::new();
    trailers.push(b"grpc-status", b"0").unwrap();
    server.connection.head(stream, true, |block| write_trailers(&trailers, block), &mut server.out);
    let seen = client.take(&std::mem::take(&mut server.out)).unwrap();
    assert!(
        matches!(
            seen[..],
            [
                Event::Response { ends: false, .. },
                Event::Data { ends: false, is_wrong: false, .. },
                Event::Trailers { is_wrong: false, .. }
            ]
        ),
        "{seen:?}"
    );
    client.connection.release(stream, Code::CANCEL, &mut client.out);
    assert_eq!((client.connection.streams(), client.connection.open_stream()), (0, Some(3)));
}

#[test]
fn what_a_server_may_do() {
    let head = frame(kind::HEADERS, 4, 1, HEAD);
    let end = frame(kind::HEADERS, 5, 1, HEAD);
    let interim = frame(kind::HEADERS, 4, 1, INTERIM);
    let response = |ends, length| Event::Response { stream: 1, ends, length };
    let reset = |code| Event::Reset { stream: 1, code };
    let refused = frame(kind::RST_STREAM, 0, 1, &7u32.to_be_bytes());
    let goaway = frame(kind::GOAWAY, 0, 0, &[0; 8]);
    for (frames, expected) in [
        (vec![end.clone()], Ok(vec![response(true, 1)])),
        (vec![interim, end.clone()], Ok(vec![response(false, 5), response(true, 1)])),
        (vec![frame(kind::HEADERS, 5, 1, INTERIM)], Ok(vec![reset(Code::PROTOCOL_ERROR)])),
        (vec![frame(kind::DATA, 0, 1, b"hello")], Ok(vec![reset(Code::PROTOCOL_ERROR)])),
        (
            vec![head, frame(kind::HEADERS, 5, 1, HEAD)],
            Ok(vec![response(false, 1), reset(Code::PROTOCOL_ERROR)]),
        ),
        (vec![end.clone(), end.clone()], Ok(vec![response(true, 1), reset(Code::STREAM_CLOSED)])),
        (vec![refused], Ok(vec![reset(Code::REFUSED_STREAM)])),
        (vec![goaway], Ok(vec![Event::Goaway { last: 0, code: Code::NO_ERROR }])),
        (vec![frame(kind::HEADERS, 5, 3, HEAD)], Err(Code::PROTOCOL_ERROR)),
        (vec![frame(kind::HEADERS, 5, 2, HEAD)], Err(Code::PROTOCOL_ERROR)),
        (vec![frame(kind::PUSH_PROMISE, 4, 1, &[0, 0, 0, 2, 0x88])], Err(Code::PROTOCOL_ERROR)),
        (vec![frame(kind::DATA, 0, 3, b"hello")], Err(Code::PROTOCOL_ERROR)),
    ] {
        assert_eq!(answered(&frames), expected, "{frames:?}");
    }
}

#[test]
fn the_first_frame_of_a_server_has_its_settings() {
    for first in [frame(kind::PING, 0, 0, &[0; 8]), frame(kind::SETTINGS, 1, 0, &[])] {
        assert_eq!(client().take(&first), Err(Code::PROTOCOL_ERROR));
    }
}

#[test]
fn a_server_that_floods_loses_its_connection() {
    let interim = vec![frame(kind::HEADERS, 4, 1, INTERIM); 1000];
    assert_eq!(answered(&interim), Err(Code::ENHANCE_YOUR_CALM));
    assert_eq!(answered(&vec![frame(kind::PING, 0, 0, &[0; 8]); 3000]), Err(Code::ENHANCE_YOUR_CALM));
    let head = frame(kind::HEADERS, 4, 1, HEAD);
    let empty = vec![frame(kind::DATA, 0, 1, b""); 1000];
    assert_eq!(answered(&[vec![head], empty].concat()), Err(Code::ENHANCE_YOUR_CALM));
}

#[test]
fn a_server_may_answer_in_small_pieces() {
    let mut client = client();
    client.ask(true);
    let head = frame(kind::HEADERS, 4, 1, HEAD);
    client.take(&[frame(kind::SETTINGS, 0, 0, &[]), head].concat()).unwrap();
    for _ in 0..20_000 {
        let piece = [frame(kind::DATA, 0, 1, b"abc"), frame(kind::DATA, 0, 1, b"")].concat();
        client.take(&piece).expect("three bytes");
        client.connection.widen(1, 0, 1000, &mut client.out);
    }
}

#[test]
fn a_server_has_a_window() {
    let head = frame(kind::HEADERS, 4, 1, HEAD);
    let events = answered(&[head, frame(kind::DATA, 0, 1, &[0; 1001])]).unwrap();
    assert_eq!(events[1], Event::Reset { stream: 1, code: Code::FLOW_CONTROL_ERROR });
}

#[test]
fn a_server_limits_streams() {
    let mut client = client();
    client.ask(true);
    let settings = frame(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1]);
    client.take(&settings).unwrap();
    assert_eq!(client.connection.open_stream(), None);
    client.connection.release(1, Code::CANCEL, &mut client.out);
    let cancelled = frame(kind::RST_STREAM, 0, 1, &Code::CANCEL.0.to_be_bytes());
    assert!(client.out.ends_with(&cancelled), "the server learns that nobody waits");
    assert_eq!(client.connection.open_stream(), Some(3));
}

#[test]
fn late_responses_to_cancelled_streams_do_no_harm() {
    let mut client = client();
    client.take(&frame(kind::SETTINGS, 0, 0, &[])).unwrap();
    let streams: Vec<u32> = (0..200).map(|_| client.ask(true)).collect();
    for &stream in &streams {
        client.connection.release(stream, Code::CANCEL, &mut client.out);
    }
    client.out.clear();
    let late = |&stream: &u32| [frame(kind::HEADERS, 4, stream, HEAD), frame(kind::DATA, 1, stream, b"late")];
    let frames: Vec<u8> = streams.iter().flat_map(late).flatten().collect();
    assert_eq!(client.take(&frames), Ok(vec![]));
    assert_eq!(client.connection.allowed_streams(), Some(u32::MAX as usize));
    let stream = client.ask(true);
    let answer = client.take(&frame(kind::HEADERS, 5, stream, HEAD)).unwrap();
    assert_eq!(answer, [Event::Response { stream, ends: true, length: 1 }]);
}

#[test]
fn a_head_that_is_too_large_is_lost_and_the_connection_stays() {
    let long = [&[0x40, 1, b'a', 0x7f, 0xd0, 0x0f][..], &[b'x'; 2127]].concat();
    let mut client = client();
    client.ask(true);
    client.ask(true);
    let settings = frame(kind::SETTINGS, 0, 0, &[]);
    let head = frame(kind::HEADERS, 5, 1, &[HEAD, &long.repeat(3)].concat());
    let events = client.take(&[settings, head].concat()).unwrap();
    assert!(matches!(events[..], [Event::Response { stream: 1, .. }]), "{events:?}");
    assert!(client.list.is_too_large());
    // The last entry of the table is the field that was too much.
    client.take(&frame(kind::HEADERS, 5, 3, &[0x88, 0xbe])).unwrap();
    assert_eq!((client.list.is_too_large(), client.list.len()), (false, 2));
    client.ask(true);
    let head = frame(kind::HEADERS, 5, 5, &[HEAD, &long.repeat(4), &[0xbe; 20]].concat());
    assert_eq!(client.take(&head), Err(Code::ENHANCE_YOUR_CALM));
}
