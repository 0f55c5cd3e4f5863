//! Requests that were changed at random, to both servers: each is understood alike, or refused where nginx lets it
//! pass for a reason that `docs/differences.md` gives. `MUTATIONS` and `MUTATION_SEED` choose how many and which.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use tests::binary::{Server, have_nginx};
use tests::mutation::{Dice, requests};
use tests::site::Site;

/// How many are sent where nothing else is said.
const RUNS: u64 = 5_000;

/// Everything that was understood of a request is in a field of the answer, which has no content.
const SITE: &str = r#"
    server {
        listen 127.0.0.1:%%PORT%%;
        access_log off;
        error_page 418 /never;
        add_header X-Understood "$request_method|$uri|$args|$host|$http_x|$http_x_a|$content_type|$http_cookie|$server_protocol" always;
        location / { return 204; }
    }
"#;

#[test]
fn are_understood_alike() {
    if !have_nginx() {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (runs, first) = (number("MUTATIONS").unwrap_or(RUNS), number("MUTATION_SEED").unwrap_or(0));
    let site = Site::new(SITE);
    let (nginx, fulmar) = (site.start(Server::Nginx), site.start(Server::Fulmar));
    let (unknown, known) = (Mutex::new(Vec::new()), Mutex::new(BTreeMap::<&str, usize>::new()));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (unknown, known) = (&unknown, &known);
            let addresses = (nginx.address(), fulmar.address());
            scope.spawn(move || {
                for seed in (first + thread..first + runs).step_by(4) {
                    let input = requests(&mut Dice::new(seed));
                    let (theirs, ours) = (ask(addresses.0, &input), ask(addresses.1, &input));
                    match (theirs == ours, reason(&input, &theirs, &ours)) {
                        (true, _) => {}
                        (false, Some(reason)) => *known.lock().unwrap().entry(reason).or_default() += 1,
                        (false, None) => unknown.lock().unwrap().push(format!(
                            "MUTATION_SEED={seed}\n  {}\n  nginx  {theirs:?}\n  fulmar {ours:?}",
                            input.escape_ascii()
                        )),
                    }
                }
            });
        }
    });
    fulmar.assert_healthy();
    fulmar.stop();
    nginx.stop();
    let (unknown, known) = (unknown.into_inner().unwrap(), known.into_inner().unwrap());
    println!(
        "{runs} requests from seed {first} on; {} differ for these reasons:",
        known.values().sum::<usize>()
    );
    for (reason, count) in &known {
        println!("{count:7}  {reason}");
    }
    let shown = unknown.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(unknown.is_empty(), "{} without a reason\n{shown}", unknown.len());
}

/// The statuses of all that a server answers to these bytes and their end, and what it understood.
fn ask(address: SocketAddr, input: &[u8]) -> Vec<String> {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    // A server that refuses may close before it has read everything.
    let _ = stream.write_all(input);
    let _ = stream.shutdown(Shutdown::Write);
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    let lines = received.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut told: Vec<String> = Vec::new();
    for line in lines {
        if let Some(rest) = line.strip_prefix(b"HTTP/1.1 ") {
            told.push(rest[..rest.len().min(3)].escape_ascii().to_string());
        } else if let Some(understood) = line.strip_prefix(b"X-Understood: ")
            && let Some(answer) = told.last_mut().filter(|answer| *answer == "204")
        {
            // Of what was refused nothing needs to be understood.
            *answer = format!("204 {}", understood.escape_ascii());
        }
    }
    told
}

/// What Fulmar says of a request that it refuses, where nginx may say something else, or nothing, or take it. Each is
/// told in `docs/differences.md`, under "Requests that are refused".
const REFUSALS: [&str; 11] = [
    "client sent invalid header line",
    "client sent invalid request",
    "client sent invalid chunked body",
    "client sent invalid host header",
    "client sent invalid host in request line",
    "client sent invalid method",
    "client sent invalid method in HTTP/0.9 request",
    "client sent invalid version",
    "client sent unknown \"Transfer-Encoding\"",
    "client sent HTTP/1.1 request without \"Host\" header",
    "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time",
];

/// Why the answers may differ, as `docs/differences.md` tells it.
fn reason(input: &[u8], nginx: &[String], fulmar: &[String]) -> Option<&'static str> {
    let final_ones = |answers: &[String]| -> Vec<String> {
        answers.iter().filter(|answer| !answer.starts_with('1')).cloned().collect()
    };
    let (theirs, ours) = (final_ones(nginx), final_ones(fulmar));
    let at = theirs.iter().zip(&ours).take_while(|(left, right)| left == right).count();
    let ended = h1::parse_all(input);
    match (theirs.get(at).map(String::as_str), ours.get(at).map(String::as_str)) {
        (None, None) => Some("100 (Continue) where no body is to come"),
        (_, Some("417")) => Some("an expectation that cannot be met"),
        (None, Some(_)) if holds(input, b"close") => Some("an option of Connection is a whole word"),
        (_, Some(status)) if !status.starts_with('2') => {
            let refused = ended.err().filter(|error| error.status.0.to_string() == status)?;
            REFUSALS.iter().find(|known| **known == refused.reason).copied()
        }
        (Some("400" | "505" | "501"), None) if ended.is_ok() => {
            Some("nginx refuses a head before it is whole")
        }
        (Some(_), None) => closes_earlier(input),
        (Some(status), Some(_)) if !status.starts_with('2') => taken(input, ended.is_ok()),
        (Some(_), Some(_)) => understood_otherwise(input),
        (None, Some(_)) => None,
    }
}

/// Fulmar answers, and closes where nginx reads on.
fn closes_earlier(input: &[u8]) -> Option<&'static str> {
    if holds(input, b"close") && holds(input, b"keep-alive") {
        return Some("Connection: close beside keep-alive");
    }
    holds(input, b"HTTP/1.0").then_some("HTTP/1.0 with a body that some servers do not expect")
}

/// Fulmar takes what nginx refuses.
fn taken(input: &[u8], incomplete: bool) -> Option<&'static str> {
    if input.contains(&b'\t') {
        return Some("a tab beside a field's value is no part of it");
    }
    let begun = |two: &[u8]| two[0] == b'\r' && two[1] != b'\n';
    if incomplete && input.windows(2).any(begun) {
        return Some("a line that is not whole is not judged");
    }
    let mut hosts = input.windows(7).enumerate().filter(|(_, part)| *part == b"http://");
    let is_odd = |(at, _): (usize, &[u8])| {
        let host =
            input[at + 7..].split(|byte| matches!(byte, b'/' | b' ' | b':')).next().unwrap_or_default();
        host.iter().any(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'.' | b'-'))
    };
    hosts.any(is_odd).then_some("a host in the target that Host may name, too")
}

/// Both take it, and understand something else.
fn understood_otherwise(input: &[u8]) -> Option<&'static str> {
    if holds(input, b"%0a") || holds(input, b"%0d") {
        return Some("an encoded line end in add_header");
    }
    if input.contains(&b'\t') {
        return Some("a tab beside a field's value is no part of it");
    }
    let minor = |part: &[u8]| part.starts_with(b"HTTP/1.") && matches!(part[7], b'2'..=b'9');
    input.windows(8).any(minor).then_some("$server_protocol of a version that nobody made")
}

fn holds(input: &[u8], part: &[u8]) -> bool {
    input.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}
