//! `AuthType Digest`, next to Apache and by curl.

use md5::{Digest, Md5};
use std::process::Command;

use tests::apache::{Apache, have_apache};
use tests::binary::Server;
use tests::response::Response;
use tests::site::Site;

use super::site;

const MODULES: [&str; 5] = ["auth_basic", "auth_digest", "authn_file", "authz_user", "authz_groupfile"];

/// Rules about users, each for a directory.
const RULES: [&str; 13] = [
    "Require valid-user",
    "Require user alice",
    "Require user bob",
    "Require group staff",
    "Require valid-user\nAuthDigestQop auth\nAuthDigestAlgorithm MD5\nAuthDigestProvider file",
    "Require valid-user\nAuthDigestQop none",
    "Require valid-user\nAuthDigestNonceLifetime 60\nAuthDigestDomain / http://localhost/a",
    "Require valid-user\nAuthDigestNonceLifetime -1",
    "Require local\nRequire valid-user",
    "<RequireAll>\nRequire valid-user\nRequire not user alice\n</RequireAll>",
    "Require valid-user\nAuthName Others",
    "Require valid-user\nErrorDocument 401 who",
    "Require valid-user\nAuthDigestAlgorithm SHA",
];

fn md5(text: &str) -> String {
    Md5::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn protected() -> Site {
    let users: String = [("alice", "secret"), ("bob", "word")]
        .iter()
        .map(|(user, password)| format!("{user}:Members:{}\n", md5(&format!("{user}:Members:{password}"))))
        .collect();
    let site = site(&[("users", &users), ("groups", "staff: alice\n")]);
    RULES.iter().enumerate().fold(site, |site, (at, rules)| {
        let text = format!(
            "AuthType Digest\nAuthName Members\nAuthUserFile FILES/users\nAuthGroupFile FILES/groups\n{rules}\n"
        );
        let text = text.replace("FILES", &site.root().display().to_string());
        site.file(&format!("{at}/.htaccess"), text).file(&format!("{at}/a.txt"), "for members")
    })
}

/// What a client answers to a challenge.
struct Answer<'a> {
    user: &'a str,
    password: &'a str,
    realm: &'a str,
    uri: &'a str,
    qop: Option<&'a str>,
    more: &'a str,
}

const ALICE: Answer<'static> =
    Answer { user: "alice", password: "secret", realm: "Members", uri: "", qop: Some("auth"), more: "" };

impl Answer<'_> {
    fn field(&self, nonce: &str, path: &str) -> String {
        let Answer { user, password, realm, uri, qop, more } = self;
        let uri = if uri.is_empty() { path } else { uri };
        let (first, second) = (md5(&format!("{user}:{realm}:{password}")), md5(&format!("GET:{uri}")));
        let start =
            format!("Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\"");
        match qop {
            Some(qop) => {
                let response = md5(&format!("{first}:{nonce}:00000001:abc:{qop}:{second}"));
                format!("{start}, qop={qop}, nc=00000001, cnonce=\"abc\", response=\"{response}\"{more}")
            }
            None => {
                let response = md5(&format!("{first}:{nonce}:{second}"));
                format!("{start}, response=\"{response}\"{more}")
            }
        }
    }
}

/// What a response has in common with the other server's.
fn shown(response: &Response) -> String {
    let challenge = response.field("WWW-Authenticate").unwrap_or("no challenge");
    let nonce = nonce_of(response).unwrap_or_default();
    let challenge = if nonce.is_empty() { challenge.to_owned() } else { challenge.replace(&nonce, "NONCE") };
    let proof = response.field("Authentication-Info").unwrap_or("no proof");
    let digits = proof.split('"').nth(1).unwrap_or("no digits");
    let proof = proof.replace(digits, "DIGITS");
    let text = if response.status == 200 { response.text() } else { String::new() };
    format!("{} {challenge} {proof} {text}", response.status)
}

fn nonce_of(response: &Response) -> Option<String> {
    let challenge = response.field("WWW-Authenticate")?;
    Some(challenge.split("nonce=\"").nth(1)?.split('"').next()?.to_owned())
}

/// The answers to a path: without a user, and then with these answers to the challenge.
fn session(ask: &dyn Fn(&str) -> Response, path: &str, answers: &[Answer<'_>]) -> Vec<String> {
    let first = ask(&format!("GET {path}"));
    let nonce = nonce_of(&first).unwrap_or_else(|| "none".to_owned());
    let answered = answers.iter().map(|answer| {
        let field = answer.field(&nonce, path);
        shown(&ask(&format!("GET {path}\nAuthorization: {field}")))
    });
    let wrong = [
        format!("Authorization: {}", ALICE.field("0000", path)),
        format!("Authorization: {}", ALICE.field(&nonce, path).replace("nc=", "x=")),
        "Authorization: Digest".to_owned(),
        "Authorization: Digest username=\"alice\"".to_owned(),
        "Authorization: Basic YWxpY2U6c2VjcmV0".to_owned(),
        format!("Authorization: {}", ALICE.field(&nonce, path).replace("response=\"", "response=\"0")),
    ];
    let wrong = wrong.iter().map(|field| shown(&ask(&format!("GET {path}\n{field}"))));
    std::iter::once(shown(&first)).chain(answered).chain(wrong).collect()
}

#[test]
fn users_beside_apache() {
    if !have_apache() {
        return;
    }
    let answers = [
        ALICE,
        Answer { user: "bob", password: "word", ..ALICE },
        Answer { user: "eve", ..ALICE },
        Answer { password: "wrong", ..ALICE },
        Answer { realm: "Others", ..ALICE },
        Answer { qop: None, ..ALICE },
        Answer { qop: Some("auth-int"), ..ALICE },
        Answer { qop: Some("none"), ..ALICE },
        Answer { uri: "/elsewhere", ..ALICE },
        Answer { more: ", algorithm=MD5", ..ALICE },
        Answer { more: ", algorithm=SHA-256", ..ALICE },
    ];
    let load = |name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n");
    let site = protected();
    let apache = Apache::start_with(&site, &MODULES.map(load).concat());
    let fulmar = site.start(Server::Fulmar);
    let mut report = String::new();
    for at in 0..RULES.len() {
        for path in [format!("/{at}/a.txt"), format!("/{at}/a.txt?x=%20y")] {
            let expected = session(&|request| apache.ask(request).last().clone(), &path, &answers);
            let got = session(&|request| fulmar.ask(request).last().clone(), &path, &answers);
            for (step, (expected, got)) in expected.iter().zip(&got).enumerate() {
                if expected != got {
                    report += &format!("{path} step {step}\n{expected}\n{got}\n");
                }
            }
        }
    }
    assert!(report.is_empty(), "{report}{}{}", apache.log(), fulmar.all_logs());
    fulmar.stop();
}

#[test]
fn curl_gets_in() {
    if !tests::parts::is_present("curl", Command::new("curl").arg("-V").output().is_ok()) {
        return;
    }
    let fulmar = protected().start(Server::Fulmar);
    let get = |user: &str, path: &str| {
        let url = format!("http://{}{path}", fulmar.address());
        let output = Command::new("curl")
            .args(["-s", "--digest", "-u", user, "-o", "-", "-w", "%{http_code}", &url])
            .output()
            .expect("curl");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(get("alice:secret", "/0/a.txt?a=%20b&c"), "for members200");
    assert!(get("alice:wrong", "/0/a.txt").ends_with("401"));
    fulmar.stop();
}
