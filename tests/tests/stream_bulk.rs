//! Much data through `stream`: it goes through pipes in the kernel, and arrives as it was sent.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use tests::binary::{Server, have_nginx};
use tests::site::{Running, START, Site};
use tests::{wait, worker};

const PATIENCE: Duration = Duration::from_secs(20);

/// More than all buffers on the way have room for.
const LENGTH: usize = 24 << 20;

/// Bytes that show where they belong: those of the client, and those of the server.
static CONTENT: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    [1, 2].map(|seed: u32| {
        let mut bytes = vec![0; LENGTH];
        for (number, word) in (0_u32..).zip(bytes.chunks_exact_mut(4)) {
            word.copy_from_slice(&number.wrapping_mul(2_654_435_761).wrapping_add(seed).to_le_bytes());
        }
        bytes
    })
});

/// A server that answers, after all that a client sends, with whether that is right, and with other content.
fn backend() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut sent = Vec::new();
                let is_whole = stream.read_to_end(&mut sent).is_ok() && sent == CONTENT[0];
                let _ = stream.write_all(if is_whole { b"whole" } else { b"wrong" });
                // A client may have gone.
                let _ = stream.write_all(&CONTENT[1]);
            });
        }
    });
    address
}

fn start(server: Server, more: &str) -> Running {
    let text = "log_format sessions \"$status $bytes_received $bytes_sent $upstream_bytes_sent $upstream_bytes_received\";
        access_log %%LOGS%%/sessions.log sessions;
        server { listen 127.0.0.1:%%PORT%%; proxy_pass BACK; proxy_half_close on; MORE }";
    let text = text.replace("BACK", &backend().to_string()).replace("MORE", more);
    Site::whole(&format!("{START} stream {{ {text} }}")).start(server)
}

/// The pipes that the worker has open.
fn pipes(running: &Running) -> usize {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", worker::of(running))).unwrap();
    let is_pipe = |entry: &fs::DirEntry| {
        fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("pipe:"))
    };
    descriptors.filter_map(Result::ok).filter(is_pipe).count()
}

/// Sends content while the server reads it, and returns the connection with half of it closed.
fn sent(running: &Running) -> TcpStream {
    let mut stream = TcpStream::connect(running.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&CONTENT[0]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    stream
}

fn received(mut stream: TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// Waits until the log has so many lines of this text. The look whether the server listens has one, too.
fn wait_for_lines(running: &Running, text: &str, count: usize) {
    let is_logged = || running.log("sessions.log").lines().filter(|line| *line == text).count() == count;
    assert!(wait::until(PATIENCE, is_logged), "{}: {}", running.log("sessions.log"), running.all_logs());
}

/// All bytes arrive in both directions, the end of one direction ends the other one not, and the log counts all bytes.
#[test]
fn much_data_arrives_as_it_was_sent() {
    let expected = format!("200 {LENGTH} {} {LENGTH} {}", LENGTH + 5, LENGTH + 5);
    for server in [Some(Server::Fulmar), have_nginx().then_some(Server::Nginx)].into_iter().flatten() {
        let running = start(server, "");
        let before = if server == Server::Fulmar { pipes(&running) } else { 0 };
        for count in 1..=3 {
            let stream = sent(&running);
            // The client does not read: what cannot be moved on waits in a pipe.
            let is_waiting = || server == Server::Nginx || pipes(&running) > before;
            assert!(wait::until(PATIENCE, is_waiting), "no pipe is used");
            let answer = received(stream);
            assert!(answer.starts_with(b"whole"), "{}", server.name());
            assert!(answer[5..] == CONTENT[1][..], "{}", server.name());
            wait_for_lines(&running, &expected, count);
        }
        running.stop();
    }
}

/// With a rate or encryption, bytes go through memory.
#[test]
fn limited_data_needs_no_pipe() {
    let running = start(Server::Fulmar, "proxy_download_rate 64m; proxy_upload_rate 64m;");
    let before = pipes(&running);
    let stream = sent(&running);
    wait::pause(Duration::from_millis(500));
    assert_eq!(pipes(&running), before);
    assert!(received(stream).starts_with(b"whole"));
    running.stop();
}

/// A client that goes in the middle leaves nothing behind but an empty pipe or none.
#[test]
fn a_client_that_goes_leaves_its_pipe() {
    let running = start(Server::Fulmar, "");
    let before = pipes(&running);
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(sent(&running));
    }
    assert!(wait::until(PATIENCE, || pipes(&running) >= before + 8), "{}", pipes(&running));
    drop(held);
    assert!(wait::until(PATIENCE, || running.log("sessions.log").lines().count() == 5));
    assert!(wait::until(PATIENCE, || pipes(&running) <= before + 2 * 2), "{}", pipes(&running));
    assert!(received(sent(&running)).starts_with(b"whole"), "it serves on");
    running.stop();
}
