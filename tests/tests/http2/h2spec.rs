//! The conformance suite h2spec, in clear and over TLS, with its strict cases. `make h2spec` runs it.

use super::encrypted;
use std::fs;
use std::process::Command;
use tests::binary::Server;
use tests::parts;

/// In clear such a client is taken for one of HTTP/1, and gets 400 in HTTP/1.
const EXEMPT: (&str, &str, &str) = ("clear", "http2/3.5", "Sends invalid connection preface");

/// How many cases there are at least.
const CASES: usize = 140;

const CONFIGURATION: &str = "
    server {
        listen 127.0.0.1:%%PORT%%;
        listen 127.0.0.1:%%PORT_1%% ssl;
        http2 on;
        ssl_certificate %%DIR%%/c.pem;
        ssl_certificate_key %%DIR%%/k.pem;
        location / { return 200 'content of an answer'; }
    }";

#[test]
#[ignore = "needs h2spec: make h2spec"]
fn h2spec_finds_nothing() {
    let program = parts::program(&["h2spec"]).expect("h2spec on the PATH");
    let site = encrypted(CONFIGURATION);
    let running = site.start(Server::Fulmar);
    for (name, port, more) in [("clear", 0, &[][..]), ("TLS", 1, &["--tls", "--insecure"])] {
        let report = site.prefix().join("report.xml");
        let port = running.address_of(port).port().to_string();
        let mut command = Command::new(&program);
        command
            .args(["--strict", "--timeout", "30", "--port", &port, "--junit-report"])
            .arg(&report)
            .args(more);
        let output = command.output().expect("h2spec runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let cases = cases(&fs::read_to_string(&report).unwrap_or_else(|_| panic!("{text}")));
        println!("{name}: {}", text.lines().last().unwrap_or_default());
        assert!(cases.len() >= CASES, "{name}: {} cases\n{text}", cases.len());
        let is_exempt = |case: &Case| (name, case.section.as_str(), case.title.as_str()) == EXEMPT;
        let failed: Vec<&Case> =
            cases.iter().filter(|case| case.result != "passed" && !is_exempt(case)).collect();
        assert!(failed.is_empty(), "{name}: {failed:#?}\n{text}");
    }
    running.stop();
}

#[derive(Debug)]
struct Case {
    section: String,
    title: String,
    result: &'static str,
}

/// The cases of a report, each of which begins in a separate line, as does the result.
fn cases(report: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in report.lines().map(str::trim_start) {
        let attribute = |name: &str| {
            let (_, rest) = line.split_once(&format!("{name}=\"")).unwrap_or_default();
            rest.split('"').next().unwrap_or_default().to_owned()
        };
        if line.starts_with("<testcase ") {
            let (section, title) = (attribute("package"), attribute("classname"));
            cases.push(Case { section, title, result: "passed" });
        }
        let result = ["<failure", "<error", "<skipped"].into_iter().find(|result| line.contains(result));
        if let (Some(case), Some(result)) = (cases.last_mut(), result) {
            case.result = &result[1..];
        }
    }
    cases
}
