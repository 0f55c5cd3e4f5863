//! Applications that break the protocol, stall, lie or die: an error and one line in the log, never a wrong
//! answer.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use tests::application::{Application, answer, end, record, stderr, stdout};
use tests::binary::Server;
use tests::client::End;
use tests::site::{Running, Site};

/// An application that answers by the request's path, which `SCRIPT_NAME` tells.
fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> (Application, Running) {
    let application = Application::start(move |request, stream| {
        let bytes = answer(request.param("SCRIPT_NAME"));
        let _ = stream.write_all(&bytes);
        // A stalling application keeps its connection.
        request.param("SCRIPT_NAME").starts_with("/stall")
    });
    let site = Site::new(&format!(
        "server {{ listen 127.0.0.1:%%PORT%%; fastcgi_param SCRIPT_NAME $uri; fastcgi_read_timeout 1s; \
         fastcgi_buffer_size 4k; fastcgi_catch_stderr \"PHP Fatal\"; location / {{ fastcgi_pass {}; }} location = /is-it-kept {{ return 204; }} }}",
        application.address()
    ));
    let running = site.start(Server::Fulmar);
    (application, running)
}

/// How many lines about upstreams there are in the error log.
fn complaints(running: &Running) -> usize {
    running.log("error.log").lines().filter(|line| line.contains("[error]")).count()
}

/// A path, what is answered there, and what the log says about it.
type Case = (&'static str, fn() -> Vec<u8>, &'static str);

#[test]
fn answers_that_are_none() {
    let cases: [Case; 17] = [
        ("/nothing", Vec::new, "upstream prematurely closed connection while reading response header"),
        ("/http", || b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec(), "unsupported FastCGI protocol version: 72"),
        ("/type", || record(11, b"", 0), "upstream sent invalid FastCGI record type: 11"),
        ("/id", || vec![1, 6, 1, 1], "upstream sent unexpected FastCGI request id high byte: 1"),
        ("/other-id", || vec![1, 6, 0, 2], "upstream sent unexpected FastCGI request id low byte: 2"),
        ("/cut", || record(6, b"A: b", 0)[..10].to_vec(), "upstream prematurely closed connection"),
        ("/no-head", end, "upstream prematurely closed FastCGI stdout"),
        ("/end-first", || record(3, &[0; 8], 0), "upstream sent unexpected FastCGI record: 3"),
        ("/half-head", || [stdout("A: b\r\n"), end()].concat(), "upstream prematurely closed FastCGI stdout"),
        ("/long-head", || stdout(&format!("A: {}\r\n", "x".repeat(5000))), "upstream sent too big header"),
        ("/many-heads", || stdout(&"A: b\r\n".repeat(5000)), "upstream sent too big header"),
        ("/no-field", || answer("no field at all\r\n\r\n"), "upstream sent invalid header: \"no\\x20...\""),
        ("/nul", || answer("A: b\0\r\n\r\n"), "upstream sent invalid header: \"A: b\\x00...\""),
        ("/status", || answer("Status: 99999\r\n\r\n"), "upstream sent invalid status \"99999\""),
        ("/status-word", || answer("Status: abc\r\n\r\n"), "upstream sent invalid status \"abc\""),
        ("/two-statuses", || answer("Status: 200\nStatus: 500\n\n"), "upstream sent duplicate header line"),
        ("/two-lengths", || answer("Content-Length: 1\nContent-Length: 2\n\nab"), "duplicate header line"),
    ];
    let (_application, running) = start(move |path| {
        cases.iter().find(|(case, _, _)| *case == path).map(|(_, answer, _)| answer()).unwrap_or_default()
    });
    for (at, (path, _, message)) in cases.iter().enumerate() {
        let answer = running.ask(&format!("GET {path}"));
        assert_eq!(answer.statuses(), [502], "{path}");
        running.wait_for_log("error.log", message);
        assert_eq!(complaints(&running), at + 1, "{path}: {}", running.log("error.log"));
    }
    running.stop();
}

#[test]
fn contents_that_are_not_what_was_announced() {
    let (_application, running) = start(|path| match path {
        "/short" => answer("Content-Length: 10\r\n\r\nshort"),
        "/long" => answer("Content-Length: 5\r\n\r\nrightwrong"),
        "/no-end" => stdout("\r\nunfinished"),
        "/broken" => [stdout("\r\nunfinished"), vec![2]].concat(),
        "/reopened" => [stdout("\r\nri"), record(6, b"", 0), stdout("ght"), end()].concat(),
        "/cut-after-reopening" => [stdout("\r\nri"), record(6, b"", 0), stdout("g")].concat(),
        _ => answer("\r\nright"),
    });
    let response = |path: &str| running.ask(&format!("GET {path}")).last().clone();
    let is_cut = |path: &str| {
        let answer = running.ask(&format!("GET {path}"));
        answer.end == End::Closed && answer.responses.iter().all(|response| response.broken.is_some())
    };
    assert!(is_cut("/short"));
    assert_eq!(response("/long").text(), "right");
    assert_eq!(response("/reopened").text(), "right");
    assert!(is_cut("/no-end"));
    assert!(is_cut("/broken"));
    assert!(is_cut("/cut-after-reopening"));
    assert_eq!(response("/right").text(), "right");
    running.stop();
}

#[test]
fn silence_ends() {
    let (_application, running) = start(|path| match path {
        "/stall-in-content" => stdout("\r\nsome"),
        "/stall-in-head" => stdout("A: b\r\n"),
        _ => Vec::new(),
    });
    let started = Instant::now();
    assert_eq!(running.ask("GET /stall").statuses(), [504]);
    assert_eq!(running.ask("GET /stall-in-head").statuses(), [504]);
    assert!(running.ask("GET /stall-in-content").last().broken.is_some());
    assert!(started.elapsed() < Duration::from_secs(8));
    running.wait_for_log(
        "error.log",
        "upstream timed out (110: Connection timed out) while reading response header",
    );
    running
        .wait_for_log("error.log", "upstream timed out (110: Connection timed out) while reading upstream");
    running.stop();
}

#[test]
fn nobody_listens() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let site = Site::new(&format!(
        "server {{ listen 127.0.0.1:%%PORT%%; location /port {{ fastcgi_pass 127.0.0.1:{port}; }} \
         location /unix {{ fastcgi_pass unix:%%ROOT%%/none.sock; }} }}"
    ));
    let running = site.start(Server::Fulmar);
    for path in ["/port", "/unix"] {
        assert_eq!(running.ask(&format!("GET {path}")).statuses(), [502]);
    }
    running
        .wait_for_log("error.log", "connect() failed (111: Connection refused) while connecting to upstream");
    running.wait_for_log("error.log", "failed (2: No such file or directory) while connecting to upstream");
    running.stop();
}

#[test]
fn messages_are_logged_and_floods_are_not() {
    let (_application, running) = start(|path| match path {
        "/warn" => [stderr("one.\n"), stdout("\r\n"), stderr("two"), stdout("content"), end()].concat(),
        "/fatal" => [stderr("a PHP Fatal error."), answer("\r\nnever seen")].concat(),
        _ => {
            let flood = stderr(&"x".repeat(60_000)).repeat(200);
            [flood.clone(), stdout("\r\ncontent"), flood, end()].concat()
        }
    });
    assert_eq!(running.ask("GET /warn").last().text(), "content");
    running.wait_for_log(
        "error.log",
        "FastCGI sent in stderr: \"one\" while reading response header from upstream",
    );
    running.wait_for_log("error.log", "FastCGI sent in stderr: \"two\" while reading upstream");
    assert_eq!(running.ask("GET /fatal").statuses(), [502]);
    let caught = "FastCGI sent in stderr: \"a PHP Fatal error\" while reading response header from upstream";
    assert_eq!(running.log("error.log").matches(caught).count(), 1);
    assert_eq!(running.ask("GET /flood").last().text(), "content");
    assert!(running.log("error.log").len() < 100_000);
    running.stop();
}
