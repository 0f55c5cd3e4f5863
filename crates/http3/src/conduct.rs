//! What clients may do, and what ends a stream or the connection of a server.

use crate::frame::kind;
use crate::testing::{LIMITS, Side, frame, number};
use crate::{Code, Command, Connection, Event, Own, Priority, RequestRules, read_request};
use crate::{ResponseOptions, write_response, write_trailers};
use http::{Fields, RequestHead, ResponseHead, Status};

/// `GET https://h/`
const REQUEST: &[u8] = &[0, 0, 0xd1, 0xd7, 0xc1, 0x50, 1, b'h'];

/// `a: b`
const TRAILERS: &[u8] = &[0, 0, 0x21, b'a', 1, b'b'];

/// Makes a table and adds `a: b`, on an encoder stream.
const INSERT: &[u8] = &[2, 0x3f, 0xbd, 1, 0x41, b'a', 1, b'b'];

/// The request with `a: b` out of the table.
const DYNAMIC: &[u8] = &[2, 0, 0xd1, 0xd7, 0xc1, 0x50, 1, b'h', 0x80];

fn request(stream: u64, ends: bool) -> Event {
    Event::Request { stream, ends, length: REQUEST.len() }
}

fn reset(stream: u64, code: Code) -> Event {
    Event::Reset { stream, code }
}

/// What comes of these bytes on the first stream.
fn sent(frames: &[Vec<u8>]) -> Result<Vec<Event>, Code> {
    Side::server().opened(0, &frames.concat(), true)
}

/// What comes of these bytes on the control stream, after the settings.
fn controlled(frames: &[Vec<u8>]) -> Result<Vec<Event>, Code> {
    Side::server().take(2, &frames.concat(), false)
}

#[test]
fn our_streams_begin_with_their_types_and_settings() {
    let mut connection = Connection::server(LIMITS);
    // QPACK_MAX_TABLE_CAPACITY, MAX_FIELD_SECTION_SIZE, QPACK_BLOCKED_STREAMS, ENABLE_CONNECT_PROTOCOL
    let settings = [1, 0x50, 0, 6, 0x67, 0xd0, 7, 16, 8, 1];
    assert_eq!(connection.own(Own::Control), [&[0, 4, 0x40, 10][..], &settings].concat());
    assert_eq!(connection.own(Own::Decoder), [3]);
    connection.sent(Own::Control, 12);
    assert_eq!(connection.own(Own::Control), [8, 1]);
}

#[test]
fn a_request_with_content_and_trailers_is_answered() {
    let mut side = Side::server();
    let head = frame(kind::HEADERS, &[REQUEST, &[0x54, 1, b'5']].concat());
    let events = side.opened(0, &head, false).unwrap();
    assert_eq!(events, [Event::Request { stream: 0, ends: false, length: 11 }]);
    let mut read = RequestHead::new();
    let rules = RequestRules { underscores: false, ignore_invalid: true, max_fields: 8 };
    assert_eq!(read_request(&side.list, &rules, &mut read), Ok(false));
    assert_eq!(read.line(), b"GET / HTTP/3.0");
    side.connection.expect(0, 5);

    let content = frame(kind::DATA, b"hello");
    let events = side.take(0, &[&content[..4], b""].concat(), false).unwrap();
    assert_eq!(events, [Event::Data { stream: 0, bytes: 3..4, ends: false, is_wrong: false }]);
    let rest = [&content[4..], &frame(0x21, b"unknown"), &frame(kind::HEADERS, TRAILERS)].concat();
    let events = side.take(0, &rest, true).unwrap();
    let data = Event::Data { stream: 0, bytes: 0..4, ends: false, is_wrong: false };
    assert_eq!(events, [data, Event::Trailers { stream: 0, is_wrong: false }]);
    assert_eq!(side.fields(), "a: b\n");

    let mut out = Vec::new();
    let options = ResponseOptions { date: None, server: Some("F") };
    let head = ResponseHead::new(Status::OK);
    side.connection.head(0, false, |section| write_response(&head, &options, section), &mut out);
    assert!(side.connection.data(0, 5, false, &mut out));
    let mut trailers = Fields::new();
    trailers.push(b"A", b"b").unwrap();
    side.connection.head(0, true, |section| write_trailers(&trailers, section), &mut out);
    let head = [1, 0x40, 7, 0, 0, 0xd9, 0x5f, 77, 1, b'F'];
    assert_eq!(out, [&head[..], &[0, 5], &[1, 0x40, 6], TRAILERS].concat());
    assert!(!side.connection.data(0, 1, true, &mut out), "the response has ended");
    side.connection.release(0, Code::INTERNAL_ERROR).unwrap();
    assert_eq!((side.commands(), side.connection.streams()), (vec![], 0));
}

#[test]
fn what_a_client_may_send_on_a_request_stream() {
    let (head, data) = (frame(kind::HEADERS, REQUEST), frame(kind::DATA, b"x"));
    let trailers = frame(kind::HEADERS, TRAILERS);
    let content = |bytes, ends| Event::Data { stream: 0, bytes, ends, is_wrong: false };
    let end_of = Event::Trailers { stream: 0, is_wrong: false };
    for (frames, expected) in [
        (vec![head.clone()], Ok(vec![request(0, true)])),
        (vec![frame(0x21, &[7; 300]), head.clone()], Ok(vec![request(0, true)])),
        (vec![head.clone(), frame(0x21, b"")], Ok(vec![request(0, false), content(0..0, true)])),
        (vec![head.clone(), frame(kind::DATA, b"")], Ok(vec![request(0, false), content(3..3, true)])),
        (vec![head.clone(), trailers.clone(), frame(0x40, b"")], Ok(vec![request(0, false), end_of.clone()])),
        (vec![], Ok(vec![reset(0, Code::REQUEST_INCOMPLETE)])),
        (vec![data.clone()], Err(Code::FRAME_UNEXPECTED)),
        (vec![head.clone(), trailers.clone(), data.clone()], Err(Code::FRAME_UNEXPECTED)),
        (vec![head.clone(), trailers.clone(), trailers.clone()], Err(Code::FRAME_UNEXPECTED)),
        // A pseudo-field in trailers.
        (vec![head.clone(), head.clone()], Ok(vec![request(0, false), reset(0, Code::MESSAGE_ERROR)])),
        (vec![head.clone(), data[..3].to_vec()], Err(Code::FRAME_ERROR)),
        (vec![head[..4].to_vec()], Err(Code::FRAME_ERROR)),
        (vec![head.clone(), vec![0]], Err(Code::FRAME_ERROR)),
        (vec![frame(kind::HEADERS, &[])], Err(Code::QPACK_DECOMPRESSION_FAILED)),
        (vec![frame(kind::HEADERS, &[0, 0, 0x80])], Err(Code::QPACK_DECOMPRESSION_FAILED)),
    ] {
        assert_eq!(sent(&frames), expected, "{frames:x?}");
    }
    for kind in [2, 3, 4, 5, 6, 7, 8, 9, 0xd, 0xf_0700, 0xf_0701] {
        assert_eq!(sent(&[head.clone(), frame(kind, &[0])]), Err(Code::FRAME_UNEXPECTED), "{kind}");
    }
}

#[test]
fn content_is_as_long_as_announced() {
    for (content, expected) in [("abc", false), ("ab", true), ("abcd", true)] {
        let mut side = Side::server();
        side.opened(0, &frame(kind::HEADERS, REQUEST), false).unwrap();
        side.connection.expect(0, 3);
        let events = side.take(0, &frame(kind::DATA, content.as_bytes()), true).unwrap();
        let Some(Event::Data { is_wrong, .. }) = events.last() else { panic!("{events:?}") };
        assert_eq!(*is_wrong, expected, "{content}");
        side.connection.release(0, Code::MESSAGE_ERROR).unwrap();
        assert_eq!(side.commands()[0], Command::Reset { stream: 0, code: Code::MESSAGE_ERROR });
    }
}

#[test]
fn a_tunnel_has_no_trailers() {
    // CONNECT, `:protocol: websocket`, https, /, h
    let protocol = [&[0x27, 2][..], b":protocol", &[9], b"websocket"].concat();
    let section = [&[0, 0, 0xcf, 0xd7, 0xc1, 0x50, 1, b'h'][..], &protocol].concat();
    let mut side = Side::server();
    side.opened(0, &frame(kind::HEADERS, &section), false).unwrap();
    let mut head = RequestHead::new();
    let rules = RequestRules { underscores: false, ignore_invalid: true, max_fields: 8 };
    assert_eq!(read_request(&side.list, &rules, &mut head), Ok(true));
    assert_eq!(head.line(), b"GET / HTTP/3.0");
    assert_eq!(side.take(0, &frame(kind::DATA, b"x"), false).unwrap().len(), 1);
    assert_eq!(side.take(0, &frame(kind::HEADERS, TRAILERS), false), Err(Code::FRAME_UNEXPECTED));
}

#[test]
fn what_a_client_may_send_on_its_control_stream() {
    let update = |stream: u64| frame(kind::PRIORITY_UPDATE, &[&number(stream), &b"u=1"[..]].concat());
    for (frames, expected) in [
        (vec![frame(kind::GOAWAY, &[5]), frame(kind::GOAWAY, &[5])], Ok(vec![])),
        (vec![frame(kind::GOAWAY, &[5]), frame(kind::GOAWAY, &[6])], Err(Code::ID_ERROR)),
        (vec![frame(kind::GOAWAY, &[])], Err(Code::FRAME_ERROR)),
        (vec![frame(kind::GOAWAY, &[1, 1])], Err(Code::FRAME_ERROR)),
        (vec![frame(kind::MAX_PUSH_ID, &[5]), frame(kind::MAX_PUSH_ID, &[9])], Ok(vec![])),
        (vec![frame(kind::MAX_PUSH_ID, &[5]), frame(kind::MAX_PUSH_ID, &[4])], Err(Code::ID_ERROR)),
        (vec![frame(kind::CANCEL_PUSH, &[0])], Err(Code::ID_ERROR)),
        (vec![frame(kind::CANCEL_PUSH, &[])], Err(Code::FRAME_ERROR)),
        (vec![update(8)], Ok(vec![])),
        (vec![update(9)], Err(Code::ID_ERROR)),
        (vec![frame(kind::PUSH_PRIORITY_UPDATE, &[0])], Err(Code::ID_ERROR)),
        (vec![frame(kind::SETTINGS, &[])], Err(Code::FRAME_UNEXPECTED)),
        (vec![frame(kind::DATA, &[])], Err(Code::FRAME_UNEXPECTED)),
        (vec![frame(kind::HEADERS, REQUEST)], Err(Code::FRAME_UNEXPECTED)),
        (vec![frame(kind::PUSH_PROMISE, &[0])], Err(Code::FRAME_UNEXPECTED)),
        (vec![frame(6, &[0])], Err(Code::FRAME_UNEXPECTED)),
        (vec![frame(0x21, &[0; 100])], Ok(vec![])),
        (vec![frame(kind::PRIORITY_UPDATE, &[0; 5000])], Err(Code::EXCESSIVE_LOAD)),
    ] {
        assert_eq!(controlled(&frames), expected, "{frames:x?}");
    }
    let mut side = Side::new(Connection::server(LIMITS));
    side.accept(2);
    assert_eq!(side.take(2, &[0, 7, 1, 0], false), Err(Code::MISSING_SETTINGS));
    assert_eq!(Side::server().take(2, &[], true), Err(Code::CLOSED_CRITICAL_STREAM));
    let closed = Side::server().connection.peer_reset(2, Code::NO_ERROR).unwrap_err();
    assert_eq!(closed.code, Code::CLOSED_CRITICAL_STREAM);
    let stopped = Side::server().connection.peer_stopped(3, Code::NO_ERROR).unwrap_err();
    assert_eq!(stopped.code, Code::CLOSED_CRITICAL_STREAM);
}

#[test]
fn streams_have_types() {
    let mut side = Side::server();
    assert_eq!(side.opened(6, &[0], false), Err(Code::STREAM_CREATION_ERROR), "a second control stream");
    assert_eq!(Side::server().opened(6, &[1], false), Err(Code::STREAM_CREATION_ERROR), "a push");
    assert_eq!(Side::server().opened(6, &[2], true), Err(Code::CLOSED_CRITICAL_STREAM));
    assert_eq!(Side::server().opened(6, &[3, 0x80], false), Err(Code::QPACK_DECODER_STREAM_ERROR));
    assert_eq!(Side::server().opened(6, &[2, 0xc0], false), Ok(vec![]), "the instruction may go on");
    assert_eq!(Side::server().opened(6, &[2, 0x80, 0], false), Err(Code::QPACK_ENCODER_STREAM_ERROR));
    assert_eq!(Side::server().opened(1, &[], false), Err(Code::STREAM_CREATION_ERROR));
    let mut side = Side::server();
    assert_eq!(side.opened(6, &[0x40], false), Ok(vec![]));
    assert_eq!(side.take(6, &[0x21, 9, 9], false), Ok(vec![]));
    assert_eq!(side.commands(), [Command::Stop { stream: 6, code: Code::STREAM_CREATION_ERROR }]);
    assert_eq!(side.take(6, &[0, 0], true), Ok(vec![]), "what comes of it is discarded");
    assert_eq!(side.opened(10, &[], true), Ok(vec![]), "it ends before it has told its type");
    let many = (0..100).try_for_each(|index| side.connection.accept(14 + 4 * index));
    assert_eq!(many.unwrap_err().code, Code::EXCESSIVE_LOAD);
}

#[test]
fn a_blocked_request_waits_for_its_entries() {
    let mut side = Side::server();
    let bytes = [frame(kind::HEADERS, DYNAMIC), frame(kind::DATA, b"x")].concat();
    assert_eq!(side.opened(0, &bytes, true), Ok(vec![]));
    assert_eq!(side.opened(4, &frame(kind::HEADERS, DYNAMIC), true), Ok(vec![]));
    assert_eq!(side.opened(6, &INSERT[..5], false), Ok(vec![]));
    let unblocked = [Event::Unblocked { stream: 0 }, Event::Unblocked { stream: 4 }];
    assert_eq!(side.take(6, &INSERT[5..], false).unwrap(), unblocked);
    assert_eq!(side.connection.own(Own::Decoder), [3, 1]);
    let length = DYNAMIC.len();
    let events = side.take(0, &[], false).unwrap();
    let content = Event::Data { stream: 0, bytes: 3..4, ends: true, is_wrong: false };
    assert_eq!(events, [Event::Request { stream: 0, ends: false, length }, content]);
    assert_eq!(side.take(4, &[], false).unwrap(), [Event::Request { stream: 4, ends: true, length }]);
    assert!(side.fields().ends_with("a: b\n"));
    assert_eq!(side.connection.own(Own::Decoder), [3, 1, 0x80, 0x84]);
}

#[test]
fn blocked_requests_are_bounded() {
    let limits = crate::Limits { streams: 100, ..LIMITS };
    let mut side = Side::new(Connection::server(limits));
    let outcome = (0..17).try_for_each(|index| {
        side.opened(4 * index, &frame(kind::HEADERS, DYNAMIC), true).map(|events| assert_eq!(events, []))
    });
    assert_eq!((outcome, side.connection.streams()), (Err(Code::QPACK_DECOMPRESSION_FAILED), 17));

    // Sections that do not end are held up to a limit; further ones are refused.
    let mut side = Side::new(Connection::server(limits));
    let part = &frame(kind::HEADERS, &[0; 6000])[..5900];
    let held: Vec<_> = (0..6).map(|index| side.opened(4 * index, part, false).unwrap()).collect();
    assert_eq!(held.iter().filter(|events| events.is_empty()).count(), 4);
    assert_eq!(held[5], [reset(20, Code::REQUEST_REJECTED)]);
    assert!(side.connection.memory() < 60_000, "{}", side.connection.memory());
}

#[test]
fn large_heads_are_told() {
    let field = |length: usize| {
        let mut section = REQUEST.to_vec();
        field_codes::text::write_plain(&mut section, 0x20, 3, b"x");
        field_codes::text::write_plain(&mut section, 0, 7, &vec![b'y'; length]);
        frame(kind::HEADERS, &section)
    };
    assert_eq!(sent(&[field(900)]).unwrap().len(), 1);
    for length in [1001, 2500, 7000] {
        let mut side = Side::server();
        assert_eq!(side.opened(0, &field(length), true), Ok(vec![Event::TooLarge { stream: 0 }]));
        side.connection.release(0, Code::EXCESSIVE_LOAD).unwrap();
        assert_eq!(side.commands()[0], Command::Reset { stream: 0, code: Code::EXCESSIVE_LOAD });
    }
    let trailers = sent(&[frame(kind::HEADERS, REQUEST), field(2500)]).unwrap();
    assert_eq!(trailers[1], reset(0, Code::EXCESSIVE_LOAD));
}

#[test]
fn streams_are_cancelled_by_either_side() {
    let mut side = Side::server();
    let head = frame(kind::HEADERS, REQUEST);
    side.opened(0, &head, false).unwrap();
    let event = side.connection.peer_reset(0, Code::REQUEST_CANCELLED).unwrap();
    assert_eq!(event, Some(reset(0, Code::REQUEST_CANCELLED)));
    let stopped = side.connection.peer_stopped(0, Code::REQUEST_CANCELLED).unwrap();
    assert_eq!((stopped, side.connection.is_reset(0)), (None, true), "there is one event");
    side.connection.release(0, Code::REQUEST_CANCELLED).unwrap();
    assert_eq!(side.commands(), [Command::Reset { stream: 0, code: Code::REQUEST_CANCELLED }]);
    assert_eq!(side.connection.own(Own::Decoder), [3, 0x40]);

    // A response that is complete before the request.
    side.opened(4, &head, false).unwrap();
    side.connection.data(4, 0, true, &mut Vec::new());
    side.connection.release(4, Code::INTERNAL_ERROR).unwrap();
    assert_eq!(side.commands(), [Command::Stop { stream: 4, code: Code::NO_ERROR }]);
    assert_eq!(side.take(4, b"whatever", true), Ok(vec![]), "what comes of it is discarded");

    // A response that fails.
    side.opened(8, &head, true).unwrap();
    side.connection.release(8, Code::INTERNAL_ERROR).unwrap();
    assert_eq!(side.commands(), [Command::Reset { stream: 8, code: Code::INTERNAL_ERROR }]);
}

#[test]
fn the_end_comes_in_two_steps() {
    let mut side = Side::server();
    let settings = side.connection.own(Own::Control).len();
    side.connection.sent(Own::Control, settings);
    side.connection.announce_end();
    side.connection.announce_end();
    let first = [7, 0x40, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc];
    assert_eq!((side.connection.own(Own::Control), side.connection.has_ended()), (&first[..], false));
    side.connection.sent(Own::Control, first.len());
    assert_eq!(side.opened(4, &frame(kind::HEADERS, REQUEST), true), Ok(vec![request(4, true)]));
    side.connection.end();
    side.connection.end();
    assert_eq!(
        (side.connection.own(Own::Control), side.connection.has_ended()),
        (&[7, 0x40, 1, 8][..], true)
    );
    side.accept(8);
    let code = Code::REQUEST_REJECTED;
    assert_eq!(side.commands(), [Command::Reset { stream: 8, code }, Command::Stop { stream: 8, code }]);
    side.accept(0);
    assert_eq!(side.connection.streams(), 2, "a lower number is still served");
}

#[test]
fn priorities_come_before_their_streams_and_after() {
    let update = |value: &[u8]| frame(kind::PRIORITY_UPDATE, &[&number(0)[..], value].concat());
    let priority = |urgency| Priority { urgency, is_incremental: false };
    let mut side = Side::server();
    side.take(2, &update(b"u=1"), false).unwrap();
    side.take(2, &frame(kind::PRIORITY_UPDATE, &[4]), false).unwrap();
    side.opened(0, &frame(kind::HEADERS, REQUEST), true).unwrap();
    assert_eq!(side.connection.take_priority(0), Some(priority(1)));
    assert_eq!(
        (side.connection.take_priority(0), side.connection.take_priority(4)),
        (None, Some(priority(3)))
    );
    let events = side.take(2, &update(b"u=6"), false).unwrap();
    assert_eq!(events, [Event::Priority { stream: 0, priority: priority(6) }]);
}

#[test]
fn floods_end_the_connection() {
    let head = frame(kind::HEADERS, REQUEST);
    let flood = |bytes: &[u8]| {
        let mut side = Side::server();
        side.opened(0, &head, false).unwrap();
        (0..100_000).find_map(|_| side.take(0, bytes, false).err())
    };
    assert_eq!(flood(&frame(kind::DATA, b"")), Some(Code::EXCESSIVE_LOAD));
    assert_eq!(flood(&frame(0x21, b"")), Some(Code::EXCESSIVE_LOAD));
    assert_eq!(flood(&frame(0x21, &[0; 60_000])), Some(Code::EXCESSIVE_LOAD));
    assert_eq!(flood(&frame(kind::DATA, b"x")), None);
    assert_eq!(flood(&[frame(kind::DATA, b"x"), frame(kind::DATA, b"")].concat()), None);

    let mut side = Side::server();
    let update = frame(kind::PRIORITY_UPDATE, &[0, b'u']);
    assert_eq!((0..100_000).find_map(|_| side.take(2, &update, false).err()), Some(Code::EXCESSIVE_LOAD));

    let mut side = Side::server();
    let resets = (0..1000).find_map(|index| {
        side.accept(4 * index);
        let error = side.connection.peer_reset(4 * index, Code::REQUEST_CANCELLED).err();
        let released = side.connection.release(4 * index, Code::REQUEST_CANCELLED).err();
        side.connection.sent(Own::Decoder, 100);
        side.commands();
        error.or(released).map(|failure| failure.code)
    });
    assert_eq!(resets, Some(Code::EXCESSIVE_LOAD));

    // Requests that are answered pay for themselves.
    let mut side = Side::server();
    for index in 0..10_000 {
        side.opened(4 * index, &head, true).unwrap();
        side.connection.data(4 * index, 0, true, &mut Vec::new());
        side.connection.release(4 * index, Code::INTERNAL_ERROR).unwrap();
    }
    // A client that does not read what the decoder tells.
    let ignored = (10_000..20_000).find_map(|index| {
        side.opened(4 * index, &head, false).unwrap();
        side.connection.data(4 * index, 0, true, &mut Vec::new());
        side.connection.release(4 * index, Code::NO_ERROR).err()
    });
    assert_eq!(ignored.map(|failure| failure.code), Some(Code::EXCESSIVE_LOAD));
}
