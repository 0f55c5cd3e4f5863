//! `fulmar lint` as a program, and on configurations that are stock: what it finds there is true.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use tests::binary::Server;

/// What is found in the stock configurations; nothing in all others.
const STOCK: [(&str, &[&str]); 9] = [
    ("debian", &["old-protocols nginx.conf"]),
    ("debian-php", &["old-protocols nginx.conf", "unverified-user fastcgi.conf"]),
    (
        "e2-site",
        &[
            "hidden-files nginx.conf",
            "index-without-php nginx.conf",
            "php-any-path nginx.conf",
            "unverified-user fastcgi_params",
        ],
    ),
    (
        "e2-site-mended",
        &["hidden-files nginx.conf", "php-any-path nginx.conf", "unverified-user fastcgi_params"],
    ),
    ("laravel", &["unverified-user fastcgi_params"]),
    ("rhel-php", &["php-any-path default.d/php.conf", "unverified-user fastcgi_params"]),
    ("ubuntu", &["old-protocols nginx.conf"]),
    (
        "wordpress",
        &[
            "hidden-files conf.d/wordpress.conf",
            "php-any-path conf.d/wordpress.conf",
            "unverified-user fastcgi_params",
        ],
    ),
    ("wordpress-handbook", &["unverified-user fastcgi.conf"]),
];

fn lint(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(Server::Fulmar.path());
    command.args(["lint", "-c", "nginx.conf"]).args(arguments).current_dir(directory).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn stock_configurations_have_the_traps_that_they_have() {
    let stock = Path::new(env!("CARGO_MANIFEST_DIR")).join("stock");
    let mut wrong = Vec::new();
    for entry in fs::read_dir(&stock).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.is_dir() {
            continue;
        }
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let directory = TempDir::with_prefix("lint-").unwrap();
        let root = directory.path().canonicalize().unwrap();
        copy(&folder, &root, &root);
        let output = lint(&root, &["--json", "--deny", "nothing"]);
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        let told = text(&output.stdout);
        let found: Vec<String> = told
            .lines()
            .map(|line| {
                let object: Value = serde_json::from_str(line).unwrap();
                let file = PathBuf::from(object["file"].as_str().unwrap());
                format!(
                    "{} {}",
                    object["rule"].as_str().unwrap(),
                    file.strip_prefix(&root).unwrap().display()
                )
            })
            .collect();
        let expected = STOCK.iter().find(|(stock, _)| *stock == name).map_or(&[][..], |(_, found)| *found);
        if found != expected {
            wrong.push(format!("{name}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn copy(from: &Path, to: &Path, root: &Path) {
    let fill = |text: &str| {
        let text = text.replace("%%DIR%%", &root.display().to_string());
        ["%%PORT_1%%", "%%PORT_2%%"].iter().fold(text, |text, mark| text.replace(mark, "8080"))
    };
    for entry in fs::read_dir(from).unwrap() {
        let (source, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        let kind = fs::symlink_metadata(&source).unwrap();
        if kind.is_symlink() {
            let link = fs::read_link(&source).unwrap();
            std::os::unix::fs::symlink(fill(link.to_str().unwrap()), &target).unwrap();
        } else if kind.is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&source, &target, root);
        } else {
            fs::write(&target, fill(&fs::read_to_string(&source).unwrap())).unwrap();
        }
    }
}

/// Two traps: one of level error, one of level warn.
const TRAPS: &str =
    "events {}\nhttp {\n  server {\n    location /i { alias /srv/i/; }\n    error_log off;\n  }\n}\n";

fn written(configuration: &str) -> TempDir {
    let directory = TempDir::with_prefix("lint-").unwrap();
    fs::write(directory.path().join("nginx.conf"), configuration).unwrap();
    directory
}

#[test]
fn findings_look_like_other_messages() {
    let directory = written(TRAPS);
    let output = lint(directory.path(), &[]);
    let told = text(&output.stdout);
    for line in [
        "fulmar: [error] \"/i../\" leads out of \"/srv/i/\" (alias-traversal) in ",
        "/nginx.conf:4\n  4 |     location /i { alias /srv/i/; }\n    |                   ^^^^^\n",
        "  hint: location /i/ { alias /srv/i/; }\n",
        "1 of level error, 1 of level warn, 0 of level notice\n",
    ] {
        assert!(told.contains(line), "{line:?} is not in\n{told}");
    }
    let json = text(&lint(directory.path(), &["--json"]).stdout);
    let object: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&object["line"], &object["column"], &object["level"]),
        (&4.into(), &19.into(), &"error".into())
    );
    assert_eq!(object["excerpt"], "location /i { alias /srv/i/; }");
}

/// No file that the configuration names is needed.
#[test]
fn what_does_not_load_is_said() {
    for (server, told) in [
        ("location /a { } location /a { }", "duplicate location \"/a\""),
        ("listen 8099; listen 8099;", "a duplicate listen 0.0.0.0:8099"),
        ("foo bar;", "unknown directive \"foo\""),
        ("listen 8099 ssl; ssl_certificate none.pem; ssl_certificate_key none.pem;", ""),
    ] {
        let directory = written(&format!("events {{}} http {{ server {{ {server} }} }}"));
        let output = lint(directory.path(), &[]);
        let expected = if told.is_empty() { 0 } else { 2 };
        let stderr = text(&output.stderr);
        assert!(output.status.code() == Some(expected) && stderr.contains(told), "{server}: {stderr}");
    }
}

#[test]
fn the_status_is_for_pipelines() {
    let status = |configuration: &str, arguments: &[&str]| {
        lint(written(configuration).path(), arguments).status.code().unwrap()
    };
    assert_eq!(status(TRAPS, &[]), 1);
    assert_eq!(status(TRAPS, &["--deny", "nothing"]), 0);
    assert_eq!(status(TRAPS, &["--allow", "alias-traversal"]), 0);
    assert_eq!(status(TRAPS, &["--allow", "alias-traversal", "--deny", "warn"]), 1);
    assert_eq!(status("events {} http { server { server_tokens on; } }", &["--deny", "warn"]), 0);
    assert_eq!(status("events {} http { server { server_tokens on; } }", &["--deny", "notice"]), 1);
    assert_eq!(status("events {", &[]), 2);
    assert_eq!(status(TRAPS, &["--allow", "no-such-rule"]), 2);
    assert_eq!(status(TRAPS, &["--nonsense"]), 2);
}

#[test]
fn weaknesses_depend_on_the_version_of_nginx() {
    let directory = TempDir::with_prefix("lint-").unwrap();
    let conf =
        "events {}\nhttp {\n    server {\n        listen 8080;\n        location /v/ { mp4; }\n    }\n}\n";
    fs::write(directory.path().join("nginx.conf"), conf).unwrap();
    let found = |version: &[&str]| {
        let output = lint(directory.path(), &[&["--cve", "--json", "--deny", "warn"], version].concat());
        let lines = text(&output.stdout);
        let ids: Vec<String> = lines
            .lines()
            .map(|line| {
                let object: Value = serde_json::from_str(line).unwrap();
                assert_eq!(object["line"], 5);
                object["rule"].as_str().unwrap().to_owned()
            })
            .collect();
        (ids.join(" "), output.status.code())
    };
    assert_eq!(found(&[]), ("CVE-2024-7347 CVE-2026-27784 CVE-2026-32647".to_owned(), Some(1)));
    assert_eq!(found(&["--server-version", "1.26.2"]), ("CVE-2026-27784 CVE-2026-32647".to_owned(), Some(1)));
    assert_eq!(found(&["--server-version", "1.28.3"]), (String::new(), Some(0)));
    let output = lint(directory.path(), &["--cve", "--server-version", "1.26.1"]);
    let said = text(&output.stdout);
    assert!(
        said.contains("fixed in 1.27.1 and 1.26.2; https://") && said.contains("(CVE-2024-7347)"),
        "{said}"
    );
    assert_eq!(
        lint(directory.path(), &["--server-version", "1.26.1"]).status.code(),
        Some(2),
        "without --cve"
    );
    let wrong = lint(directory.path(), &["--cve", "--server-version", "new"]);
    assert!(text(&wrong.stderr).contains("three numbers"), "{}", text(&wrong.stderr));
}
