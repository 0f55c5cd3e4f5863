//! `limit_req` and `limit_conn`. The rates are so low, or so high, that the time between requests plays no
//! part.

use std::time::{Duration, Instant};

use tests::binary::{Server, have_nginx};
use tests::client::Client;
use tests::differential::{agree_on_mistake, agree_with_logs};
use tests::site::{Running, Site};
use tests::wait::pause;

const LOGS: [&str; 1] = ["access.log"];

#[test]
fn requests() {
    let site = Site::new(
        r#"
        limit_req_zone $arg_k zone=slow:1m rate=1r/m;
        limit_req_zone $arg_j zone=other:1m rate=1r/m;
        limit_req_zone $arg_f zone=fast:1m rate=100000r/s;
        add_header X-Limit $limit_req_status always;
        log_format status "$uri $status $limit_req_status";
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            access_log %%LOGS%%/access.log status;
            location /one { limit_req zone=slow; }
            location /burst { limit_req zone=slow burst=2 nodelay; }
            location /early { limit_req zone=slow burst=5 delay=5; }
            location /status { limit_req zone=slow; limit_req_status 429; }
            location /page { limit_req zone=slow; error_page 503 /page.html; }
            location /both { limit_req zone=slow burst=1 nodelay; limit_req zone=other; }
            location /dry { limit_req zone=slow burst=1; limit_req_dry_run on; }
            location /fast { limit_req zone=fast burst=10; }
            location /twice { limit_req zone=slow; error_page 404 /one; }
            location /return { limit_req zone=slow; return 200 "rewritten before"; }
            location /deny { limit_req zone=slow; deny all; }
            location /outer { limit_req zone=slow; limit_req_status 444;
                location /outer/free { limit_req zone=fast; }
            }
        }
        "#,
    )
    .file("one", "one\n")
    .file("dry", "dry\n")
    .file("page.html", "limited\n")
    .file("fast", "fast\n");
    let requests = [
        "GET /one?k=1",
        "GET /one?k=1",
        "GET /one?k=2",
        "GET /one",
        "GET /one?k=",
        "HEAD /one?k=2",
        "GET /burst?k=3",
        "GET /burst?k=3",
        "GET /burst?k=3",
        "GET /burst?k=3",
        "GET /one?k=3",
        "GET /early?k=4",
        "GET /early?k=4",
        "GET /early?k=4",
        "GET /status?k=5",
        "GET /status?k=5",
        "POST /status?k=5\n\nbody",
        "GET /page?k=6",
        "GET /page?k=6",
        "GET /both?k=7&j=7",
        "GET /both?k=7&j=7",
        "GET /both?k=7&j=8",
        "GET /both?k=7&j=9",
        "GET /both?j=9",
        "GET /both?k=8",
        "GET /both?k=8",
        "GET /both?k=8",
        "GET /dry?k=9",
        "GET /dry?k=9",
        "GET /dry?k=9",
        "GET /dry?k=9",
        "GET /fast?f=1",
        "GET /fast?f=1",
        "GET /twice?k=10",
        "GET /twice?k=10",
        "GET /return?k=11",
        "GET /return?k=11",
        "GET /deny?k=12",
        "GET /deny?k=12",
        "GET /outer?k=13",
        "GET /outer?k=13",
        "GET /outer/free?k=13",
        "GET /outer/free?k=13",
    ];
    agree_with_logs(&site, &requests, &LOGS);
    let long = ["GET /one?k=".to_owned() + &"x".repeat(3000), "GET /one?k=".to_owned() + &"x".repeat(3000)];
    agree_with_logs(&site, &long.each_ref().map(String::as_str), &LOGS);
}

#[test]
fn delays() {
    let site = Site::new(
        r#"
        limit_req_zone $arg_k zone=z:1m rate=2r/s;
        server {
            listen 127.0.0.1:%%PORT%%;
            location / { limit_req zone=z burst=3; try_files /none =204; }
            location /soon { limit_req zone=z burst=3 delay=1; try_files /none =204; }
        }
        "#,
    );
    let times = |server: Server, path: &str| {
        let running = site.start(server);
        let mut clients: Vec<Client> = (0..5).map(|_| Client::connect(running.address_of(0))).collect();
        let start = Instant::now();
        let request = format!("GET {path}?k=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        for client in &mut clients {
            assert!(client.send(request.as_bytes()));
            // In order, whichever thread takes it.
            pause(Duration::from_millis(10));
        }
        let answers = clients.iter_mut().map(|client| client.response("GET").map(|answer| answer.status));
        let answers: Vec<_> =
            answers.map(|status| (status, (start.elapsed().as_millis() + 100) / 500)).collect();
        running.stop();
        answers
    };
    let expected = |delayed: [u128; 4]| {
        let passed = delayed.into_iter().map(|time| (Some(204), time));
        passed.chain([(Some(503), delayed[3])]).collect::<Vec<_>>()
    };
    for (path, delayed) in [("/", [0, 1, 2, 3]), ("/soon", [0, 0, 1, 2])] {
        if have_nginx() {
            assert_eq!(times(Server::Nginx, path), expected(delayed), "nginx {path}");
        }
        assert_eq!(times(Server::Fulmar, path), expected(delayed), "{path}");
    }
}

/// Requests wait for a second in a request inside of the server, and count meanwhile.
fn counting() -> Site {
    Site::new(
        r#"
        limit_req_zone $server_name zone=slow:1m rate=1r/s;
        limit_conn_zone $server_name zone=server:1m;
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name s;
            add_header X-Limit $limit_conn_status always;
            location / { limit_conn server 1; auth_request /wait; try_files /none =204; }
            location /wait { limit_req zone=slow burst=9; try_files /none =204; }
            location /status { limit_conn server 1; limit_conn_status 429; try_files /none =204; }
            location /dry { limit_conn server 1; limit_conn_dry_run on; try_files /none =204; }
            location /free { try_files /none =204; }
        }
        "#,
    )
}

fn get(running: &Running, path: &str) -> (u16, Option<String>) {
    let answer = tests::client::ask(running.address_of(0), &format!("GET {path}\nConnection: close"));
    (answer.last().status, answer.last().field("X-Limit").map(str::to_owned))
}

#[test]
fn a_client_that_leaves_does_not_count() {
    let site = counting();
    for server in [Server::Nginx, Server::Fulmar] {
        if matches!(server, Server::Nginx) && !have_nginx() {
            continue;
        }
        let running = site.start(server);
        let said = |status, told: &str| (status, Some(told.to_owned()));
        // The first pays for the second, which then waits in the subrequest, counted.
        assert_eq!(get(&running, "/wait").0, 204);
        let mut waiting = Client::connect(running.address_of(0));
        assert!(waiting.send(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"));
        pause(Duration::from_millis(100));
        let name = server.name();
        assert_eq!(get(&running, "/status"), said(429, "REJECTED"), "{name}");
        assert_eq!(get(&running, "/dry"), said(204, "REJECTED_DRY_RUN"), "{name}");
        assert_eq!(get(&running, "/free"), (204, None), "{name}");
        drop(waiting);
        pause(Duration::from_millis(100));
        assert_eq!(get(&running, "/status"), said(204, "PASSED"), "{name}");
        running.stop();
    }
}

#[test]
fn mistakes() {
    for wrong in [
        "limit_req_zone $uri zone=z rate=1r/s;",
        "limit_req_zone $uri zone=z:1x rate=1r/s;",
        "limit_req_zone $uri zone=z:1k rate=1r/s;",
        "limit_req_zone $uri zone=z:1m rate=0r/s;",
        "limit_req_zone $uri zone=z:1m rate=1r/h;",
        "limit_req_zone $uri zone=z:1m burst=1;",
        "limit_req_zone $uri rate=1 rate=1;",
        "limit_req_zone $uri zone=z:1m rate=1r/s; limit_req_zone $args zone=z:1m rate=1r/s;",
        "limit_req_zone $uri zone=z:1m rate=1r/s; limit_req burst=1;",
        "limit_req_zone $uri zone=z:1m rate=1r/s; limit_req zone=z burst=0;",
        "limit_req_zone $uri zone=z:1m rate=1r/s; limit_req zone=z delay=x;",
        "limit_req_zone $uri zone=z:1m rate=1r/s; limit_req zone=z; limit_req zone=z;",
        "limit_req_status 399;",
        "limit_req_log_level debug;",
        "limit_conn_zone $uri zone=z:1k;",
        "limit_conn_zone $uri z:1m;",
        "limit_conn_zone $uri zone=:1m;",
        "limit_conn_zone $uri zone=z:1m; limit_conn z 0;",
        "limit_conn_zone $uri zone=z:1m; limit_conn z 65536;",
        "limit_conn_zone $uri zone=z:1m; limit_conn z 1; limit_conn z 2;",
        "limit_conn_zone $uri zone=z:1m; limit_conn_zone $args zone=z:1m;",
        "limit_conn_status 600;",
    ] {
        agree_on_mistake(&Site::new(&format!("{wrong} server {{ listen 127.0.0.1:%%PORT%%; }}")));
    }
}
