//! Configurations that were made up by a grammar, on both servers: status, `Location`, what was made of the request
//! and body agree. `CONFIGURATIONS` and `CONFIGURATION_SEED` choose how many and which.

use std::fmt::Write;

use tests::binary::{Server, have_nginx};
use tests::client::Client;
use tests::compare::normalise;
use tests::grammar::{COMMON, DOCUMENTS, Generated, generate};
use tests::response::Response;
use tests::site::{Running, Site};

/// How many configurations there are where nothing else is said.
const RUNS: u64 = 24;
/// How many one process serves at once.
const TOGETHER: u64 = 40;
/// Stands for a connection that closes without an answer.
const CLOSED: &str = "closed";
/// How many requests meet each.
const REQUESTS: usize = 25;

#[test]
fn are_carried_out_alike() {
    if !have_nginx() {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (runs, first) = (number("CONFIGURATIONS").unwrap_or(RUNS), number("CONFIGURATION_SEED").unwrap_or(0));
    let mut report = String::new();
    let mut differing = 0;
    for begin in (first..first + runs).step_by(usize::try_from(TOGETHER).unwrap()) {
        let seeds = begin..(begin + TOGETHER).min(first + runs);
        let generated: Vec<Generated> = seeds.map(|seed| generate(seed, REQUESTS)).collect();
        differing += compare(&generated, &mut report);
    }
    println!("{} requests to {runs} configurations from seed {first} on", runs * REQUESTS as u64);
    assert!(differing == 0, "{differing} answers differ\n{report}");
}

fn compare(generated: &[Generated], report: &mut String) -> usize {
    let text: String = generated.iter().map(|one| one.text.as_str()).collect();
    let mut site = Site::new(&format!("access_log off;\nerror_log %%LOGS%%/told.log;\n{COMMON}{text}"));
    for (path, content) in DOCUMENTS {
        site = site.file(path, content);
    }
    let (nginx, fulmar) = (site.start(Server::Nginx), site.start(Server::Fulmar));
    let mut clients = [Asking::new(&nginx), Asking::new(&fulmar)];
    let mut differing = 0;
    for one in generated {
        let mut is_shown = false;
        for request in &one.requests {
            let [theirs, ours] = clients.each_mut().map(|client| client.told(request));
            if theirs == ours || theirs == CLOSED && nginx.log("error.log").contains("exited on signal") {
                continue;
            }
            differing += 1;
            if report.len() < 60_000 {
                if !std::mem::replace(&mut is_shown, true) {
                    let _ =
                        writeln!(report, "\nCONFIGURATIONS=1 CONFIGURATION_SEED={}\n{}", one.seed, one.text);
                }
                let request = request.escape_debug();
                let _ = writeln!(report, "{request}\n  nginx  {theirs}\n  fulmar {ours}");
            }
        }
    }
    fulmar.stop();
    // A crash of nginx's is its own affair; the request that it was told so of is not counted.
    drop(nginx);
    differing
}

/// A connection to a server, which is opened again when it was closed.
struct Asking<'a> {
    running: &'a Running,
    client: Option<Client>,
}

impl Asking<'_> {
    fn new(running: &Running) -> Asking<'_> {
        Asking { running, client: None }
    }

    fn told(&mut self, request: &str) -> String {
        let kept = self.client.take();
        let mut client = kept.unwrap_or_else(|| Client::connect(self.running.address()));
        client.extend(std::time::Duration::from_secs(20));
        let Some(response) = client.exchange(request) else { return CLOSED.to_owned() };
        if !response.announces_close() {
            self.client = Some(client);
        }
        self.shown(response)
    }

    fn shown(&self, response: Response) -> String {
        let answer = tests::client::Answer { responses: vec![response], end: tests::client::End::Kept };
        let response = normalise(&answer, self.running).responses.remove(0);
        let mut shown = response.status.to_string();
        for name in ["Location", "Content-Type", "X-State", "X-Other", "X-If", "Connection"] {
            if let Some(value) = response.field(name) {
                let _ = write!(shown, " {name}: {value};");
            }
        }
        let _ = write!(shown, " {}", response.body.escape_ascii());
        shown
    }
}
