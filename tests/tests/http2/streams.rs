//! Streams that share a connection: none delays another.

use super::raw::{DATA, Raw, WINDOW_START, get, window};
use super::site;
use tests::binary::Server;

/// The window of the connection opens by little at a time. Large downloads that began first do not take all of it.
#[test]
fn a_small_window_serves_all_streams_in_turn() {
    let running = site().start(Server::Fulmar);
    let mut client = Raw::connect(running.address(), 1 << 20);
    client.send(&(0..8).flat_map(|index| get(2 * index + 1, "/large.bin")).collect::<Vec<u8>>());
    let mut sent = 0;
    while sent < WINDOW_START as usize {
        sent += client.find(|frame| frame.kind == DATA).payload.len();
    }
    client.send(&get(101, "/page.txt"));
    client.ping();
    for _ in 0..10 {
        client.send(&window(0, 16_384));
        let mut left = 16_384;
        while left > 0 {
            let frame = client.find(|frame| frame.kind == DATA);
            if frame.stream == 101 && frame.ends() {
                drop(client);
                return running.stop();
            }
            left -= frame.payload.len();
        }
    }
    panic!("the small request waits for the large ones");
}

/// A client that takes nothing of one stream gets all of the others.
#[test]
fn a_slow_reader_of_one_stream_delays_no_other() {
    let running = site().start(Server::Fulmar);
    let mut client = Raw::connect(running.address(), 10);
    client.send(&get(1, "/large.bin"));
    client.find(|frame| frame.kind == DATA);
    for stream in [3, 5, 7] {
        client.send(&[get(stream, "/page.txt"), window(stream, 1000)].concat());
        client.find(|frame| frame.stream == stream && frame.ends());
    }
    drop(client);
    running.stop();
}
