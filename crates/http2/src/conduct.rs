//! What clients may do, and what ends a stream or the connection.

use crate::frame::{FrameHead, PREFACE, kind};
use crate::testing::{Side, frame};
use crate::{Code, Connection, Content, Event, HeaderList, Limits, Priority};
use crate::{ResponseOptions, write_response};
use http::{ResponseHead, Status};

const LIMITS: Limits = Limits { streams: 4, window: 1000, list_size: 6000, field_size: 4000 };

/// A request without content: HEADERS with END_STREAM and END_HEADERS.
const REQUEST: &[u8] = &[0x82, 0x86, 0x84, 0x41, 1, b'h'];

fn get(stream: u32) -> Vec<u8> {
    frame(kind::HEADERS, 5, stream, REQUEST)
}

fn post(stream: u32) -> Vec<u8> {
    frame(kind::HEADERS, 4, stream, REQUEST)
}

/// A connection whose client has sent its settings.
fn accepted() -> Side {
    let mut side = Side::new(|out| Connection::new(LIMITS, out));
    let settings = [frame(kind::SETTINGS, 0, 0, &[]), frame(kind::SETTINGS, 1, 0, &[])].concat();
    assert_eq!(side.take(&[PREFACE, &settings].concat()), Ok(vec![]));
    side.out.clear();
    side
}

impl Side {
    fn answer(&mut self, stream: u32) {
        let head = ResponseHead::new(Status::OK);
        let options = ResponseOptions { date: None, server: None };
        self.connection.head(stream, true, |block| write_response(&head, &options, block), &mut self.out);
        self.connection.release(stream, Code::INTERNAL_ERROR, &mut self.out);
    }

    /// The streams that were cancelled since it was asked last, with the codes.
    fn resets(&mut self) -> Vec<(u32, Code)> {
        let (out, mut resets) = (std::mem::take(&mut self.out), Vec::new());
        let mut rest = &out[..];
        while let Some(head) = FrameHead::read(rest) {
            if head.kind == kind::RST_STREAM {
                resets.push((head.stream, Code(u32::from_be_bytes(rest[9..13].try_into().unwrap()))));
            }
            rest = &rest[9 + head.length..];
        }
        resets
    }
}

#[test]
fn frames_that_end_the_connection() {
    let number = |value: u32| value.to_be_bytes();
    for (input, code) in [
        (frame(kind::DATA, 1, 0, b"x"), Code::PROTOCOL_ERROR),
        (frame(kind::DATA, 1, 9, b"x"), Code::PROTOCOL_ERROR),
        (frame(kind::DATA, 8, 1, &[1]), Code::PROTOCOL_ERROR),
        (frame(kind::DATA, 8, 1, &[]), Code::FRAME_SIZE_ERROR),
        (frame(kind::HEADERS, 5, 0, REQUEST), Code::PROTOCOL_ERROR),
        (frame(kind::HEADERS, 5, 2, REQUEST), Code::PROTOCOL_ERROR),
        (frame(kind::HEADERS, 5, 1, &[0x80]), Code::COMPRESSION_ERROR),
        (frame(kind::HEADERS, 0x25, 1, &[0, 0, 0, 1, 9]), Code::PROTOCOL_ERROR),
        (frame(kind::HEADERS, 0x25, 1, &[0, 0]), Code::FRAME_SIZE_ERROR),
        ([get(3), get(1)].concat(), Code::PROTOCOL_ERROR),
        ([frame(kind::HEADERS, 1, 1, REQUEST), get(3)].concat(), Code::PROTOCOL_ERROR),
        (
            [frame(kind::HEADERS, 1, 1, REQUEST), frame(kind::CONTINUATION, 4, 3, &[])].concat(),
            Code::PROTOCOL_ERROR,
        ),
        (frame(kind::CONTINUATION, 4, 1, REQUEST), Code::PROTOCOL_ERROR),
        (frame(kind::PRIORITY, 0, 0, &[0; 5]), Code::PROTOCOL_ERROR),
        (frame(kind::PRIORITY, 0, 9, &[0; 4]), Code::FRAME_SIZE_ERROR),
        (frame(kind::PRIORITY_UPDATE, 0, 1, &[0, 0, 0, 1, b'i']), Code::PROTOCOL_ERROR),
        (frame(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 1]), Code::FRAME_SIZE_ERROR),
        (frame(kind::PRIORITY_UPDATE, 0, 0, &number(0)), Code::PROTOCOL_ERROR),
        (frame(kind::PRIORITY_UPDATE, 0, 0, &number(2)), Code::PROTOCOL_ERROR),
        (frame(kind::RST_STREAM, 0, 1, &number(8)), Code::PROTOCOL_ERROR),
        (frame(kind::RST_STREAM, 0, 0, &number(8)), Code::PROTOCOL_ERROR),
        (frame(kind::RST_STREAM, 0, 1, &[0; 3]), Code::FRAME_SIZE_ERROR),
        (frame(kind::SETTINGS, 0, 1, &[]), Code::PROTOCOL_ERROR),
        (frame(kind::SETTINGS, 1, 0, &[0; 6]), Code::FRAME_SIZE_ERROR),
        (frame(kind::SETTINGS, 0, 0, &[0; 7]), Code::FRAME_SIZE_ERROR),
        (frame(kind::PUSH_PROMISE, 0, 1, &[0; 8]), Code::PROTOCOL_ERROR),
        (frame(kind::PING, 0, 1, &[0; 8]), Code::PROTOCOL_ERROR),
        (frame(kind::PING, 0, 0, &[0; 7]), Code::FRAME_SIZE_ERROR),
        (frame(kind::GOAWAY, 0, 1, &[0; 8]), Code::PROTOCOL_ERROR),
        (frame(kind::GOAWAY, 0, 0, &[0; 7]), Code::FRAME_SIZE_ERROR),
        (frame(kind::WINDOW_UPDATE, 0, 0, &number(0)), Code::PROTOCOL_ERROR),
        (frame(kind::WINDOW_UPDATE, 0, 9, &number(1)), Code::PROTOCOL_ERROR),
        (frame(kind::WINDOW_UPDATE, 0, 0, &number((1 << 31) - 1)), Code::FLOW_CONTROL_ERROR),
        (frame(kind::WINDOW_UPDATE, 0, 1, &[0; 5]), Code::FRAME_SIZE_ERROR),
        (vec![0, 0x40, 1, 0x77, 0, 0, 0, 0, 0], Code::FRAME_SIZE_ERROR),
    ] {
        assert_eq!(accepted().take(&input), Err(code), "{input:?}");
    }
}

#[test]
fn frames_that_end_a_stream() {
    let number = |value: u32| value.to_be_bytes();
    for (input, code) in [
        ([get(1), frame(kind::DATA, 0, 1, b"x")].concat(), Code::STREAM_CLOSED),
        ([get(1), get(1)].concat(), Code::STREAM_CLOSED),
        ([post(1), post(1)].concat(), Code::PROTOCOL_ERROR),
        ([post(1), get(1)].concat(), Code::PROTOCOL_ERROR),
        ([post(1), frame(kind::DATA, 0, 1, &[0; 1001])].concat(), Code::FLOW_CONTROL_ERROR),
        ([get(1), frame(kind::WINDOW_UPDATE, 0, 1, &number(0))].concat(), Code::PROTOCOL_ERROR),
        (
            [get(1), frame(kind::WINDOW_UPDATE, 0, 1, &number((1 << 31) - 1))].concat(),
            Code::FLOW_CONTROL_ERROR,
        ),
        ([get(1), frame(kind::PRIORITY, 0, 1, &[0; 4])].concat(), Code::FRAME_SIZE_ERROR),
        ([get(1), frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 0])].concat(), Code::PROTOCOL_ERROR),
    ] {
        let mut client = accepted();
        let events = client.take(&input).unwrap();
        assert_eq!(events.last(), Some(&Event::Reset { stream: 1, code }), "{input:?}");
        assert_eq!(client.resets(), [(1, code)]);
        assert_eq!(client.connection.streams(), 1, "it keeps its place");
        client.answer(1);
        assert_eq!((client.connection.streams(), client.resets()), (0, vec![]));
        assert!(client.take(&get(3)).is_ok(), "the connection goes on");
    }
}

#[test]
fn malformed_trailers_end_their_stream() {
    let literal = |name: &str, value: &str| {
        let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        [vec![0], text(name), text(value)].concat()
    };
    for (name, value, is_valid) in [
        ("x-check_sum", "1", true),
        ("x-Sum", "1", false),
        ("x sum", "1", false),
        ("", "1", false),
        (":path", "/", false),
        ("connection", "close", false),
        ("x-sum", "1 ", false),
        ("x-sum", "1\n", false),
    ] {
        let mut side = accepted();
        let trailers = frame(kind::HEADERS, 5, 1, &literal(name, value));
        let events = side.take(&[post(1), trailers].concat()).unwrap();
        let ended = events.iter().any(|event| matches!(event, Event::Trailers { is_wrong: false, .. }));
        let resets = if is_valid { vec![] } else { vec![(1, Code::PROTOCOL_ERROR)] };
        assert_eq!((ended, side.resets()), (is_valid, resets), "{name:?}: {value:?}");
    }
}

#[test]
fn priorities_come_before_and_after_their_streams() {
    let mut client = accepted();
    let update = |stream: u8, value: &[u8]| {
        frame(kind::PRIORITY_UPDATE, 0, 0, &[&[0, 0, 0, stream][..], value].concat())
    };
    let priority = |urgency, is_incremental| Priority { urgency, is_incremental };
    let early = [update(3, b"u=1"), update(5, b"u=6"), update(3, b"u=2, i"), get(1), get(3), get(5)].concat();
    assert_eq!(client.take(&early).unwrap().len(), 3);
    let taken = [1, 3, 5, 3].map(|stream| client.connection.take_priority(stream));
    assert_eq!(taken, [None, Some(priority(2, true)), Some(priority(6, false)), None]);
    let event = Event::Priority { stream: 3, priority: priority(0, false) };
    assert_eq!(client.take(&update(3, b"u=0")), Ok(vec![event]));
    client.answer(3);
    assert_eq!(client.take(&update(3, b"u=0")), Ok(vec![]));
}

#[test]
fn frames_for_streams_that_ended() {
    let mut client = accepted();
    client.take(&[get(1), post(3)].concat()).unwrap();
    client.answer(1);
    client.answer(3);
    assert_eq!(client.take(&frame(kind::DATA, 0, 3, b"x")), Ok(vec![]));
    assert_eq!((client.resets(), client.connection.has_released()), (vec![], true));
    client.connection.discard_released(&mut client.out);
    assert_eq!(client.resets(), [(3, Code::NO_ERROR)], "the rest of the content is not wanted");
    for late in [frame(kind::DATA, 1, 3, b"x"), frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])] {
        assert_eq!(client.take(&late), Ok(vec![]));
    }
    assert_eq!(client.resets(), []);
    client.take(&frame(kind::DATA, 1, 1, b"x")).unwrap();
    assert_eq!(client.resets(), [(1, Code::STREAM_CLOSED)]);
    assert_eq!(client.take(&get(1)), Err(Code::STREAM_CLOSED));
}

#[test]
fn content_is_as_long_as_announced() {
    for (parts, wrong) in [(&["ab", "c"][..], false), (&["ab"], true), (&["ab", "cd"], true)] {
        let mut client = accepted();
        client.take(&post(1)).unwrap();
        client.connection.expect(1, 3);
        for (index, part) in parts.iter().enumerate() {
            let is_last = index + 1 == parts.len();
            let events = client.take(&frame(kind::DATA, is_last.into(), 1, part.as_bytes())).unwrap();
            let [Event::Data { ends, is_wrong, .. }] = events[..] else { panic!("{events:?}") };
            assert_eq!((ends, is_wrong), (is_last, wrong && is_last), "{parts:?}");
        }
    }
}

#[test]
fn too_many_streams_are_refused() {
    let mut client = accepted();
    let all: Vec<u8> = (0..6).flat_map(|index| get(2 * index + 1)).collect();
    assert_eq!(client.take(&all).unwrap().len(), 4);
    assert_eq!(client.resets(), [(9, Code::REFUSED_STREAM), (11, Code::REFUSED_STREAM)]);
    // One that was cancelled takes part in the limit as long as its work goes on.
    client.take(&frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8])).unwrap();
    assert_eq!(client.take(&get(13)), Ok(vec![]));
    client.connection.release(1, Code::CANCEL, &mut client.out);
    assert_eq!(client.take(&get(15)).unwrap().len(), 1);
}

/// Each of these may be repeated for ever by the letter of the protocol.
#[test]
fn floods_end_the_connection() {
    type Make = fn(u32) -> Vec<u8>;
    let floods: [(&str, Make); 13] = [
        ("ping", |_| frame(kind::PING, 0, 0, &[0; 8])),
        ("settings", |_| frame(kind::SETTINGS, 0, 0, &[])),
        ("acknowledgements", |_| frame(kind::SETTINGS, 1, 0, &[])),
        ("priority", |_| frame(kind::PRIORITY, 0, 3, &[0; 5])),
        ("priority updates", |at| frame(kind::PRIORITY_UPDATE, 0, 0, &(2 * at + 1).to_be_bytes())),
        ("unknown frames", |_| frame(0x77, 0, 0, &[])),
        ("empty data", |_| frame(kind::DATA, 0, 1, &[])),
        ("padding", |_| frame(kind::DATA, 8, 1, &[3, 0, 0, 0])),
        ("data of one byte", |_| frame(kind::DATA, 8, 1, &[0, b'x'])),
        ("windows", |_| frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("rapid reset", |at| {
            [get(2 * at + 3), frame(kind::RST_STREAM, 0, 2 * at + 3, &[0, 0, 0, 8])].concat()
        }),
        ("made you reset", |at| {
            [get(2 * at + 3), frame(kind::WINDOW_UPDATE, 0, 2 * at + 3, &[0; 4])].concat()
        }),
        ("refused streams", |at| get(2 * at + 3)),
    ];
    for (name, make) in floods {
        let mut client = accepted();
        client.take(&post(1)).unwrap();
        let ended = (0..5000).find_map(|at| {
            let result = client.take(&make(at));
            for id in [1, 2 * at + 3] {
                client.connection.widen(id, 0, 1000, &mut client.out);
                if id > 1 && name != "refused streams" {
                    client.connection.release(id, Code::CANCEL, &mut client.out);
                }
            }
            result.err()
        });
        assert_eq!(ended, Some(Code::ENHANCE_YOUR_CALM), "{name}");
    }
}

/// Small frames that move content are no flood, however many there are.
#[test]
fn small_frames_that_move_content_pay_for_themselves() {
    let data = |bytes: &[u8]| frame(kind::DATA, 0, 1, bytes);
    let uploads = [
        ("a byte at a time", data(b"x")),
        ("three bytes at a time", data(b"123")),
        ("lines and flushes", [data(b"{\"a\":1}"), data(b""), data(b"\n"), data(b"")].concat()),
        ("padding", frame(kind::DATA, 8, 1, &[b"\x08hello".as_slice(), &[0; 8]].concat())),
    ];
    for (name, frames) in uploads {
        let mut client = accepted();
        client.take(&post(1)).unwrap();
        for _ in 0..20_000 {
            client.take(&frames).expect(name);
            client.connection.widen(1, 0, 1000, &mut client.out);
            client.out.clear();
        }
    }
    // A client that opens both windows again after each piece.
    let mut client = accepted();
    client.take(&get(1)).unwrap();
    for piece in [&[b'x'; 1460][..], &[b'x'; 100], b"x"].iter().cycle().take(20_000) {
        let content = Content { bytes: piece, ends: false, frame: 8192 };
        assert_eq!(client.connection.data(1, content, &mut client.out), piece.len());
        client.out.clear();
        let increment = u32::try_from(piece.len()).unwrap().to_be_bytes();
        let update = |stream| frame(kind::WINDOW_UPDATE, 0, stream, &increment);
        client.take(&[update(0), update(1)].concat()).expect("an update of a window");
    }
}

#[test]
fn content_pays_for_a_bounded_number_of_useless_frames() {
    let mut client = accepted();
    client.take(&post(1)).unwrap();
    let mut ended = None;
    for _ in 0..5000 {
        let round = [frame(kind::DATA, 0, 1, b"x"), frame(kind::DATA, 0, 1, b"").repeat(10)].concat();
        ended = ended.or(client.take(&round).err());
        client.connection.widen(1, 0, 1000, &mut client.out);
    }
    assert_eq!(ended, Some(Code::ENHANCE_YOUR_CALM), "empty DATA frames");
    // Content pays for no stream that is cancelled.
    let mut client = accepted();
    client.take(&post(1)).unwrap();
    let ended = (1..5000).find_map(|at| {
        let id = 2 * at + 1;
        let cancelled = [get(id), frame(kind::RST_STREAM, 0, id, &[0, 0, 0, 8])].concat();
        let result = client.take(&[frame(kind::DATA, 0, 1, &[b'x'; 500]), cancelled].concat());
        client.connection.widen(1, 0, 1000, &mut client.out);
        client.connection.release(id, Code::CANCEL, &mut client.out);
        result.err()
    });
    assert_eq!(ended, Some(Code::ENHANCE_YOUR_CALM), "cancelled streams");
    // Updates of windows that were paid for and not sent are not kept without bound.
    let mut client = accepted();
    client.take(&get(1)).unwrap();
    client.take(&frame(kind::WINDOW_UPDATE, 0, 1, &(1u32 << 30).to_be_bytes())).unwrap();
    client.take(&frame(kind::WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes())).unwrap();
    let content = Content { bytes: &vec![b'x'; 5 << 20], ends: false, frame: 16_384 };
    client.connection.data(1, content, &mut client.out);
    let updates = frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]).repeat(10_000);
    let ended = (0..100).find_map(|_| client.take(&updates).err());
    assert_eq!(ended, Some(Code::ENHANCE_YOUR_CALM), "updates of windows");
}

#[test]
fn blocks_are_bounded() {
    let mut client = accepted();
    client.take(&frame(kind::HEADERS, 0, 1, REQUEST)).unwrap();
    let more = frame(kind::CONTINUATION, 0, 1, &[0x82; 1000]);
    let ended = (0..100).find_map(|_| client.take(&more).err());
    assert_eq!(ended, Some(Code::ENHANCE_YOUR_CALM), "a long block");
    let mut client = accepted();
    client.take(&frame(kind::HEADERS, 0, 1, REQUEST)).unwrap();
    let ended = (0..5000).find_map(|_| client.take(&frame(kind::CONTINUATION, 0, 1, &[])).err());
    assert_eq!(ended, Some(Code::ENHANCE_YOUR_CALM), "a block that does not end");
    // A block that refers to a large entry again and again.
    let mut client = accepted();
    let entry = [&[0x40, 1, b'a', 0x7f, 0xa1, 0x1e][..], &[b'x'; 4000]].concat();
    client.take(&frame(kind::HEADERS, 5, 1, &entry)).unwrap();
    assert_eq!(client.take(&frame(kind::HEADERS, 5, 3, &[0xbe; 8000])), Err(Code::ENHANCE_YOUR_CALM));
    assert_eq!(client.list.len(), 1);
}

#[test]
fn useful_connections_live_long() {
    let mut client = accepted();
    for index in 0..20_000 {
        let id = 2 * index + 1;
        assert_eq!(client.take(&[get(id), frame(kind::PING, 0, 0, &[0; 8])].concat()).unwrap().len(), 1);
        client.answer(id);
        client.out.clear();
    }
}

#[test]
fn a_connection_ends_in_two_steps() {
    let mut client = accepted();
    client.take(&get(1)).unwrap();
    client.connection.announce_end(&mut client.out);
    assert_eq!(client.take(&get(3)).unwrap().len(), 1, "it was on its way");
    client.connection.end(&mut client.out);
    client.connection.end(&mut client.out);
    assert_eq!(client.take(&get(5)), Ok(vec![]));
    let frames = client.out.clone();
    let goaways: Vec<_> = frames.windows(17).filter(|part| part.starts_with(&[0, 0, 8, 7])).collect();
    let lasts: Vec<_> = goaways.iter().map(|part| &part[9..13]).collect();
    assert_eq!(lasts, [&[0x7f, 0xff, 0xff, 0xff][..], &[0, 0, 0, 3]]);
    assert!(client.connection.has_ended());
}

#[test]
fn a_long_head_is_continued() {
    let mut client = accepted();
    client.take(&get(1)).unwrap();
    let mut head = ResponseHead::new(Status::OK);
    for index in 0..40 {
        head.fields.push(format!("X-Long-{index}").as_bytes(), &[0x80; 1000]).unwrap();
    }
    let options = ResponseOptions { date: None, server: None };
    client.connection.head(1, false, |block| write_response(&head, &options, block), &mut client.out);
    let (mut rest, mut block, mut frames) = (&client.out[..], Vec::new(), Vec::new());
    while let Some(head) = FrameHead::read(rest) {
        frames.push((head.kind, head.flags));
        block.extend_from_slice(&rest[9..9 + head.length]);
        rest = &rest[9 + head.length..];
    }
    assert_eq!(frames, [(kind::HEADERS, 0), (kind::CONTINUATION, 0), (kind::CONTINUATION, 4)]);
    let mut list = HeaderList::new(100_000);
    crate::hpack::Decoder::new(4096).decode(&block, &mut list).unwrap();
    assert_eq!((list.len(), list.iter().nth(1).unwrap().0), (41, &b"x-long-0"[..]));
}

#[test]
fn what_an_answered_client_sends_on_is_still_judged() {
    for (last, code) in [
        (frame(kind::DATA, 1, 1, b"abc"), None),
        (frame(kind::DATA, 1, 1, b"ab"), Some(Code::PROTOCOL_ERROR)),
        (post(1), Some(Code::PROTOCOL_ERROR)),
        (frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8]), None),
        (frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 0]), Some(Code::PROTOCOL_ERROR)),
    ] {
        let mut client = accepted();
        client.take(&post(1)).unwrap();
        client.connection.expect(1, 3);
        client.answer(1);
        assert_eq!((client.connection.streams(), client.resets()), (1, vec![]));
        assert_eq!(client.take(&last), Ok(vec![]));
        let expected: Vec<_> = code.into_iter().map(|code| (1, code)).collect();
        assert_eq!((client.connection.streams(), client.resets()), (0, expected), "{last:?}");
    }
    // New streams displace them.
    let mut client = accepted();
    for id in [1, 3, 5, 7] {
        client.take(&post(id)).unwrap();
        client.answer(id);
    }
    assert_eq!(client.take(&get(9)).unwrap().len(), 1);
    assert_eq!(client.resets(), [(1, Code::NO_ERROR)]);
}

/// curl 7.88 never sees the end of a response that is complete before its request is.
#[test]
fn a_response_ends_after_a_short_body_that_is_on_its_way() {
    let ends = |client: &mut Side| {
        let out = std::mem::take(&mut client.out);
        let (mut rest, mut found) = (&out[..], Vec::new());
        while let Some(head) = FrameHead::read(rest) {
            let ends_stream = matches!(head.kind, kind::HEADERS | kind::DATA) && head.flags & 1 == 1;
            found.extend(
                ends_stream.then_some(kind::DATA).or((head.kind == kind::RST_STREAM).then_some(head.kind)),
            );
            rest = &rest[9 + head.length..];
        }
        found
    };
    for (length, last, expected) in [
        (3, frame(kind::DATA, 1, 1, b"abc"), [vec![], vec![kind::DATA]]),
        (3, frame(kind::DATA, 1, 1, b"ab"), [vec![], vec![kind::RST_STREAM]]),
        (3, frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8]), [vec![], vec![]]),
        (1001, frame(kind::DATA, 0, 1, b"abc"), [vec![kind::DATA], vec![]]),
    ] {
        let mut client = accepted();
        client.take(&post(1)).unwrap();
        client.connection.expect(1, length);
        client.connection.defer_end(1);
        client.answer(1);
        let before = ends(&mut client);
        client.take(&last).unwrap();
        assert_eq!([before, ends(&mut client)], expected, "{length} {last:?}");
    }
    // The body does not come.
    let mut client = accepted();
    client.take(&post(1)).unwrap();
    client.connection.expect(1, 3);
    client.connection.defer_end(1);
    client.answer(1);
    client.connection.discard_released(&mut client.out);
    assert_eq!(ends(&mut client), [kind::DATA, kind::DATA, kind::RST_STREAM][1..]);
}

#[test]
fn content_before_the_settings_are_known_is_refused() {
    let mut client = accepted();
    client.connection = Connection::new(LIMITS, &mut Vec::new());
    let input = [PREFACE, &frame(kind::SETTINGS, 0, 0, &[]), &post(1), &get(3)].concat();
    assert_eq!(client.take(&input).unwrap().len(), 1);
    assert_eq!(client.resets(), [(1, Code::REFUSED_STREAM)]);
    assert_eq!(client.take(&[frame(kind::SETTINGS, 1, 0, &[]), post(5)].concat()).unwrap().len(), 1);
}
