//! The presets of TLS, as testssl.sh grades them (`make tls-grade`).

use std::path::PathBuf;
use std::process::{Command, Stdio};

use rcgen::CrlDistributionPoint;
use tests::binary::Server;
use tests::parts;
use tests::site::Site;
use tests::tls::{Authority, Certificate, Kind};

/// Findings that are not about the presets: headers that a site sets, the long life of this certificate, and, in older
/// versions of testssl.sh, that clients choose among the ciphers, as Mozilla recommends where all of them are good.
const EXPECTED: [&str; 4] = ["security_headers", "cert_extlifeSpan", "cert_validityPeriod", "cipher_order"];

/// What testssl.sh says of a server with the presets and these directives: findings, and the grade if it gives one.
fn findings(testssl: &PathBuf, directives: &str) -> (Vec<String>, Option<String>) {
    let authority = Authority::new("authority");
    let Certificate { pem, key, .. } = authority.certificate_with("localhost", Kind::Ecdsa, |parameters| {
        let uris = vec!["http://localhost/list".to_owned()];
        parameters.crl_distribution_points = vec![CrlDistributionPoint { uris }];
    });
    let site = Site::new(&format!(
        "server {{ listen 127.0.0.1:%%PORT%% ssl; server_name localhost; {directives}
            ssl_certificate c.pem; ssl_certificate_key c.key; return 200 hello; }}"
    ));
    let files = [("c.pem", pem + &authority.pem), ("c.key", key), ("ca.pem", authority.pem)];
    let site = files.iter().fold(site, |site, (name, text)| site.in_prefix(name, text));
    let running = site.start(Server::Fulmar);
    let report = site.prefix().join("report.json");
    let status = Command::new(testssl)
        .args(["--quiet", "--color", "0", "--warnings", "off", "--ip", "127.0.0.1", "--jsonfile"])
        .arg(&report)
        .arg("--add-ca")
        .arg(site.prefix().join("ca.pem"))
        .arg(format!("https://localhost:{}/", running.address().port()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    let text = std::fs::read_to_string(&report).unwrap_or_else(|error| panic!("{status}: {error}"));
    running.stop();
    let report: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let word =
        |finding: &serde_json::Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    assert!(report.iter().any(|finding| word(finding, "id") == "TLS1_3"), "{text}");
    let grade = report.iter().find(|finding| word(finding, "id") == "overall_grade");
    let bad = report.iter().filter(|finding| {
        let is_bad = ["MEDIUM", "HIGH", "CRITICAL", "FATAL"].contains(&&*word(finding, "severity"));
        is_bad && !EXPECTED.contains(&&*word(finding, "id"))
    });
    (bad.map(ToString::to_string).collect(), grade.map(|finding| word(finding, "finding")))
}

#[test]
#[ignore = "it takes some minutes: make tls-grade"]
fn presets_have_no_finding_above_low() {
    const HSTS: &str = "add_header Strict-Transport-Security \"max-age=63072000\";";
    let testssl = std::env::var_os("TESTSSL").map(PathBuf::from);
    let testssl = testssl.or_else(|| parts::program(&["testssl.sh", "testssl"])).expect("testssl.sh");
    for directives in ["", HSTS] {
        let (bad, grade) = findings(&testssl, directives);
        println!(
            "{directives:?}: {} findings above low, grade {}",
            bad.len(),
            grade.as_deref().unwrap_or("none")
        );
        assert!(bad.is_empty(), "{bad:#?}");
        assert!(grade.is_none_or(|grade| grade.starts_with('A')));
    }
}
