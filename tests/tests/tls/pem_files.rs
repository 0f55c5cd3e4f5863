//! PEM files that were put together or edited in odd ways. None loses a part of itself: all of it is read, or none.

use tests::binary::{Server, have_nginx};
use tests::site::{Running, Site};
use tests::tls::{Authority, Certificate, Client};

/// What reading a file comes to where the server does not start.
const REFUSED: &str = "refused";

/// How two parts are put together to a file.
type Join = fn(&str, &str) -> String;

fn with_body(text: &str, change: impl Fn(&str) -> String) -> String {
    let (begin, rest) = text.split_once('\n').unwrap();
    let (body, end) = rest.split_once("-----END").unwrap();
    format!("{begin}\n{}-----END{end}", change(body))
}

/// How two parts are joined, and whether nginx loses one of them in silence. Then Fulmar does not start.
const JOINED: [(&str, Join, bool); 17] = [
    ("two parts", |a, b| format!("{a}{b}"), false),
    ("no line end between them", |a, b| format!("{}{b}", a.trim_end()), false),
    ("no line end after them", |a, b| format!("{a}{}", b.trim_end()), false),
    ("a byte order mark", |a, b| format!("\u{feff}{a}{b}"), false),
    ("a byte order mark between them", |a, b| format!("{a}\u{feff}{b}"), false),
    ("CR and LF", |a, b| format!("{a}{b}").replace('\n', "\r\n"), false),
    ("spaces at the ends of lines", |a, b| format!("{a}{b}").replace('\n', " \t\n"), false),
    ("comments", |a, b| format!("one\n{a}\n# -----BEGIN X-----\ntwo\n{b}three"), false),
    ("one long line", |a, b| format!("{a}{}", with_body(b, |body| body.replace('\n', "") + "\n")), false),
    ("no end of the first part", |a, b| format!("{}\n{b}", a.split_once("-----END").unwrap().0), false),
    ("no end of the second part", |a, b| format!("{a}{}\n", b.split_once("-----END").unwrap().0), false),
    ("a cut line", |a, b| format!("{a}{}", b.trim_end().trim_end_matches('-')), false),
    ("another label at the end", |a, b| format!("{a}{}", b.replace("END ", "END OTHER ")), false),
    ("a byte that is no base64", |a, b| format!("{a}{}", with_body(b, |body| format!("{body}!\n"))), false),
    ("four dashes at the beginning", |a, b| format!("{a}{}", b.replace("-----BEGIN", "----BEGIN")), true),
    ("a space in front", |a, b| format!("{a} {b}"), true),
    ("three dashes at the end", |a, b| format!("{a}{}", b.replacen("-----\n", "---\n", 1)), true),
];

/// What each kind of file is used for.
struct Files {
    root: Authority,
    other: Authority,
    own: Certificate,
    between: Authority,
    client: Certificate,
}

impl Files {
    fn new() -> Files {
        let (root, other) = (Authority::new("root"), Authority::new("other"));
        let between = Authority::under("between", Some(&root), |_| ());
        let (own, client) = (between.certificate("localhost", 1), other.certificate("client", 2));
        Files { root, other, own, between, client }
    }

    /// Runs a server and gives what a client sees of its files.
    fn seen(&self, server: Server, files: [&str; 4]) -> String {
        let [chain, key, authorities, lists] = files;
        let site = Site::new(
            "server { listen 127.0.0.1:%%PORT%% ssl; ssl_certificate %%DIR%%/chain.pem;
                 ssl_certificate_key %%DIR%%/c.key; ssl_verify_client optional;
                 ssl_client_certificate %%DIR%%/ca.pem; ssl_crl %%DIR%%/crl.pem;
                 return 200 $ssl_client_verify; }",
        );
        for (name, text) in
            [("chain.pem", chain), ("c.key", key), ("ca.pem", authorities), ("crl.pem", lists)]
        {
            std::fs::write(site.prefix().join(name), text).unwrap();
        }
        if site.test(server).is_err() {
            return REFUSED.to_owned();
        }
        let running = site.start(server);
        let seen = self.ask(&running);
        running.stop();
        seen
    }

    fn ask(&self, running: &Running) -> String {
        let client = Client::new(Some("localhost")).showing(&self.client, &[]);
        let chain = client.connect(running.address()).unwrap().conn.peer_certificates().unwrap().len();
        let answer = client.ask(running.address(), "GET /").unwrap().answer;
        let response = &answer.responses[0];
        let verified =
            if response.status == 200 { String::from_utf8_lossy(&response.body) } else { "".into() };
        format!("{chain} certificates, status {}, {verified}", response.status)
    }
}

/// Each kind of file, joined in each way: Fulmar reads what nginx reads.
fn compare(kind: &str, join_in: impl Fn(&Files, Join) -> [String; 4]) {
    let files = Files::new();
    let mut wrong = String::new();
    for (name, join, loses) in JOINED {
        let texts = join_in(&files, join);
        let [chain, key, authorities, lists] = &texts;
        let seen = |server| files.seen(server, [chain, key, authorities, lists]);
        let own = seen(Server::Fulmar);
        let expected = match loses {
            true => REFUSED.to_owned(),
            false if have_nginx() => seen(Server::Nginx),
            false => own.clone(),
        };
        if own != expected {
            wrong += &format!("{kind}, {name}: Fulmar {own}, expected {expected}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn whole(files: &Files) -> [String; 4] {
    let join = |a: &str, b: &str| format!("{a}{b}");
    [
        join(&files.own.pem, &files.between.pem),
        files.own.key.clone(),
        join(&files.root.pem, &files.other.pem),
        join(&files.root.revoke(&[]), &files.other.revoke(&[])),
    ]
}

#[test]
fn chains_are_whole() {
    compare("chain", |files, join| {
        let [_, key, authorities, lists] = whole(files);
        [join(&files.own.pem, &files.between.pem), key, authorities, lists]
    });
}

#[test]
fn authorities_are_whole() {
    compare("authorities", |files, join| {
        let [chain, key, _, lists] = whole(files);
        [chain, key, join(&files.root.pem, &files.other.pem), lists]
    });
}

#[test]
fn lists_of_revoked_certificates_are_whole() {
    compare("revoked", |files, join| {
        let [chain, key, authorities, _] = whole(files);
        [chain, key, authorities, join(&files.root.revoke(&[]), &files.other.revoke(&[2]))]
    });
}

#[test]
fn keys_are_found_behind_certificates() {
    compare("key", |files, join| {
        let [chain, _, authorities, lists] = whole(files);
        [chain, join(&files.own.pem, &files.own.key), authorities, lists]
    });
}
