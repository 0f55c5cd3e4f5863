//! Caches that were made up by a grammar, on both servers: the same requests one after the other get the same responses,
//! and the upstream servers get the same requests. No client gets content or cookies of another key, and no response that
//! was cut off is kept. `CACHES` and `CACHE_SEED` choose how many and which.

use std::fmt::Write;
use std::time::Duration;

use tests::binary::{Server, have_nginx, nginx_has};
use tests::cache_grammar::upstream::{Upstream, hash, is_whole};
use tests::cache_grammar::{COMMON, Sequence, generate};
use tests::client::{Answer, Client, End};
use tests::compare::{Compared, difference, normalise};
use tests::response::Response;
use tests::site::{Running, Site};
use tests::wait;

/// How many sequences there are where nothing else is said.
const RUNS: u64 = 32;
/// How many one process serves at once.
const TOGETHER: u64 = 32;
/// How many requests are in each.
const REQUESTS: usize = 24;

#[test]
fn are_carried_out_alike() {
    if !have_nginx() {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (runs, first) = (number("CACHES").unwrap_or(RUNS), number("CACHE_SEED").unwrap_or(0));
    let has_slices = nginx_has("--with-http_slice_module");
    let (mut report, mut differing) = (String::new(), 0);
    for begin in (first..first + runs).step_by(usize::try_from(TOGETHER).unwrap()) {
        let seeds = begin..(begin + TOGETHER).min(first + runs);
        let sequences: Vec<Sequence> = seeds.map(|seed| generate(seed, REQUESTS, has_slices)).collect();
        for (sequence, _) in run(&sequences, Duration::from_millis(20)) {
            // What is alike after a longer pause was only not yet written.
            let Some((_, found)) = run(std::slice::from_ref(sequence), Duration::from_millis(200)).pop()
            else {
                continue;
            };
            differing += 1;
            if report.len() < 100_000 {
                let _ =
                    writeln!(report, "\nCACHES=1 CACHE_SEED={}\n{}\n{found}", sequence.seed, sequence.text);
            }
        }
    }
    println!("{} requests to {runs} configurations of caches from seed {first} on", runs * REQUESTS as u64);
    assert!(differing == 0, "{differing} sequences differ\n{report}");
}

/// A server under test with its own upstream servers.
struct Side {
    upstream: Upstream,
    running: Running,
}

impl Side {
    fn start(server: Server, text: &str) -> Side {
        let upstream = Upstream::default();
        let running = Site::new(&upstream.fill(text)).start(server);
        Side { upstream, running }
    }

    /// A response, and which requests the upstream servers got for it.
    fn ask(&self, seed: u64, request: &str, pause: Duration) -> (Option<Response>, Vec<String>) {
        let mut client = Client::connect(self.running.address());
        // A response takes no time; a connection that waits for more counts as closed.
        client.extend(Duration::from_secs(5));
        let response = client.exchange(request);
        let kept = response.as_ref().and_then(|response| response.field("X-Cache"));
        if matches!(kept, Some("STALE" | "UPDATING")) {
            // An update in the background may begin.
            wait::until(pause * 5, || self.upstream.count(seed) > 0);
        }
        if kept.is_some_and(|kept| kept != "HIT") {
            wait::pause(pause);
        }
        (response, self.upstream.take(seed))
    }
}

/// Runs these sequences, and returns those that differ, with the first difference of each.
fn run(sequences: &[Sequence], pause: Duration) -> Vec<(&Sequence, String)> {
    let text = COMMON.to_owned() + &sequences.iter().map(|one| one.text.as_str()).collect::<String>();
    let (nginx, fulmar) = (Side::start(Server::Nginx, &text), Side::start(Server::Fulmar, &text));
    let found =
        sequences.iter().filter_map(|one| Some((one, first_difference(&nginx, &fulmar, one, pause)?)));
    let found = found.collect();
    fulmar.running.stop();
    found
}

fn first_difference(nginx: &Side, fulmar: &Side, sequence: &Sequence, pause: Duration) -> Option<String> {
    let mut told = String::new();
    for request in &sequence.requests {
        let [(left, asked_left), (right, asked_right)] =
            [nginx, fulmar].map(|side| side.ask(sequence.seed, request, pause));
        let mut found = String::new();
        let has_parts = is_sliced(&sequence.text, request);
        if let Some(wrong) = right.as_ref().and_then(|response| fault(request, response, has_parts)) {
            let _ = writeln!(found, "{wrong}");
        }
        let is_ranged = |asked: &[String]| asked.iter().any(|one| one.contains("[range: "));
        if has_parts && is_ranged(&asked_right) && !is_ranged(&asked_left) {
            // nginx requests the whole content for an update in the background of a part.
            return None;
        }
        if asked_left != asked_right {
            let _ = writeln!(found, "upstream: {asked_right:#?}, not {asked_left:#?}");
        }
        let shown = [&left, &right].map(|response| response.as_ref().map_or("closed".to_owned(), shown));
        match (&left, &right) {
            (None, None) => {}
            // A part that does not fit the first one: nginx may not have sent the parts before it by then.
            (None, Some(right)) if right.broken.is_some() => return None,
            (Some(left), Some(right)) if left.broken.is_some() && right.broken.is_some() => return None,
            (Some(left), Some(right)) => {
                found.push_str(&compare((left, nginx), (right, fulmar)).unwrap_or_default())
            }
            _ => found.push_str("one connection closes\n"),
        }
        // nginx does not keep a response of which it sends only the status.
        if left
            .as_ref()
            .is_some_and(|left| matches!(left.status, 412 | 416) && left.field("X-Cache") != Some("HIT"))
        {
            return None;
        }
        let _ = writeln!(told, "{:70} {}", request.escape_debug(), summary(left.as_ref(), &asked_left));
        if !found.is_empty() {
            found.truncate(2000);
            return Some(format!("{told}{found}---- nginx\n{}\n---- fulmar\n{}", shown[0], shown[1]));
        }
    }
    None
}

/// A response with the begin of its content.
fn shown(response: &Response) -> String {
    let body = response.body[..response.body.len().min(160)].to_vec();
    format!("{}\n({} bytes)", Response { body, ..response.clone() }, response.body.len())
}

fn summary(response: Option<&Response>, asked: &[String]) -> String {
    let Some(response) = response else { return "closed".to_owned() };
    format!(
        "{} {} {} asked {:?}",
        response.status,
        response.field("X-Cache").unwrap_or_default(),
        asked.len(),
        asked.first()
    )
}

/// Whether the location of a request has the directive `slice`.
fn is_sliced(text: &str, request: &str) -> bool {
    let name = request.split(['/', '?']).nth(1).unwrap_or_default();
    let location = text.split_once(&format!("location /{name}/ {{")).map_or("", |(_, location)| location);
    location.split('}').next().unwrap_or_default().contains("slice ")
}

/// What must never be, whatever nginx does. Parts that were kept one by one may be of different contents.
fn fault(request: &str, response: &Response, has_parts: bool) -> Option<String> {
    let key = response.field("X-Key")?;
    let is_hit = response.field("X-Cache") == Some("HIT");
    let cookies = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("Set-Cookie"));
    for (_, cookie) in cookies {
        if *cookie != format!("k={:016x}", hash(key.as_bytes())) {
            return Some(format!("a cookie of another key: {cookie}"));
        }
    }
    if is_hit && response.broken.is_some() {
        return Some("a response that was cut off is kept".to_owned());
    }
    let is_content = request.starts_with("GET") && response.status == 200 && response.body.contains(&b'#');
    let is_made =
        !has_parts && is_content && response.broken.is_none() && response.field("Content-Range").is_none();
    if !is_made {
        return None;
    }
    if !response.body.starts_with(format!("{key} #").as_bytes()) {
        return Some("content of another key".to_owned());
    }
    (is_hit && !has_parts && !is_whole(&response.body))
        .then(|| "kept content is not as it was sent".to_owned())
}

fn compare((left, nginx): (&Response, &Side), (right, fulmar): (&Response, &Side)) -> Option<String> {
    let answer = |response: &Response| Answer { responses: vec![response.clone()], end: End::Kept };
    let (left, right) = (answer(left), answer(right));
    let normal = |answer: &Answer, side: &Side| {
        let mut normal = normalise(answer, &side.running);
        for response in &mut normal.responses {
            mask(response);
        }
        normal
    };
    let (theirs, ours) = (normal(&left, nginx), normal(&right, fulmar));
    let (left, right) = (Compared { plain: &left, normal: theirs }, Compared { plain: &right, normal: ours });
    difference(&left, &right)
}

/// Removes what differs as the manual says: nginx does not say how long a kept response is that came without its length.
fn mask(response: &mut Response) {
    const FRAMING: [&str; 4] = ["content-length", "transfer-encoding", "accept-ranges", "connection"];
    response.fields.retain(|(name, _)| !FRAMING.contains(&name.to_ascii_lowercase().as_str()));
}
