//! `fulmar explain` as a program: what it prints, with which status it ends, and that nothing is left behind.

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tests::binary::Server;

const CONFIGURATION: &str = "\
error_log log/error.log debug;
events {}
http {
    access_log log/access.log;
    upstream app { server 127.0.0.1:3000; }
    limit_req_zone $binary_remote_addr zone=one:1m rate=1r/s;
    server { listen 8080; server_name other.example; return 444; }
    server {
        listen 8080;
        server_name shop.example *.shop.example;
        root html;
        rewrite ^/old/(.*)$ /api/$1 last;
        location / { try_files $uri /index.html; }
        location = /secret { deny all; }
        location ~ \\.css$ { expires 1h; }
        location /api/ { limit_req zone=one; proxy_pass http://app/v1/; }
        location /guarded/ { auth_request /check; return 403; }
        location = /check { internal; proxy_pass http://127.0.0.1:9999; }
        location /dav/ { dav_methods PUT DELETE MKCOL COPY MOVE; root .; }
    }
    server {
        listen 8080;
        server_name pages.example;
        root html;
        index none.html a.css;
        error_page 410 /sorry.html;
        location /gone { return 410; }
        gzip on;
        gzip_types *;
        gzip_min_length 1;
    }
}
";

fn site() -> TempDir {
    let directory = TempDir::with_prefix("explain-").unwrap();
    fs::create_dir(directory.path().join("html")).unwrap();
    fs::write(directory.path().join("html/index.html"), "index").unwrap();
    fs::write(directory.path().join("html/a.css"), "a").unwrap();
    fs::write(directory.path().join("site.conf"), CONFIGURATION).unwrap();
    directory
}

fn explain(directory: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(Server::Fulmar.path());
    command.args(["explain", "-c", "site.conf"]).args(arguments).current_dir(directory);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_person_is_told_each_step_with_its_place() {
    let site = site();
    let output = explain(site.path(), &["http://www.shop.example:8080/old/things?x=1"], "");
    let told = text(&output.stdout);
    assert!(output.status.success(), "{told}{}", text(&output.stderr));
    for line in [
        "its name with a wildcard in front matches the request's host",
        "site.conf:7: server other.example: no name of it is \"www.shop.example\"",
        "\"^/old/(.*)$\" matches \"/old/things\"",
        "site.conf:12: rewrite ^/old/(.*)$ /api/$1 last",
        "$1 = \"things\"",
        "rewritten data: \"/api/things\", args: \"x=1\"",
        "site.conf:16: location /api/",
        "not site.conf:13: location /: matches, but there is a longer prefix",
        "no match: = /secret (14), ~ \\.css$ (15), /guarded/ (17), = /check (18), /dav/ (19)",
        "passes the request to http://app/v1/things?x=1",
        "the answer is the other server's",
    ] {
        assert!(told.contains(line), "{line:?} is not in\n{told}");
    }
    for (path, line) in [
        ("/", "goes to \"/a.css\"\n             site.conf:25: index none.html a.css"),
        ("/index.html", "content      the file "),
        ("/gone", "takes the place of 410\n             site.conf:26: error_page 410 /sorry.html"),
    ] {
        let url = format!("http://pages.example:8080{path}");
        let told = text(&explain(site.path(), &[&url], "").stdout);
        assert!(told.contains(line), "{line:?} is not in\n{told}");
    }
    let compressed = ["-H", "Accept-Encoding: gzip", "http://pages.example:8080/index.html"];
    let told = text(&explain(site.path(), &compressed, "").stdout);
    assert!(told.contains("content      made while it is sent, of the file "), "{told}");
    let secret = text(&explain(site.path(), &["http://shop.example:8080/secret"], "").stdout);
    assert!(secret.contains("refuses the request with 403") && secret.contains("403 Forbidden"), "{secret}");
}

#[test]
fn programs_get_an_object_for_each_request() {
    let site = site();
    let requests = "# a comment\n\nhttp://shop.example:8080/any\n-X POST http://shop.example:8080/a.css\n\
                    -H 'Host: other.example' http://127.0.0.1:8080/\nhttp://shop.example:8080/guarded/x\n";
    let output = explain(site.path(), &["--json", "-"], requests);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    let objects: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [file, refused, closed, guarded] = &objects[..] else { panic!("{told}") };
    assert_eq!(
        (&file["status"], &file["location"], &file["server"]),
        (&200.into(), &"/".into(), &"shop.example".into())
    );
    assert!(file["file"].as_str().unwrap().ends_with("/html/index.html"));
    assert_eq!((&refused["status"], &refused["location"]), (&405.into(), &"~ \\.css$".into()));
    assert_eq!((&closed["end"], &closed["location"]), (&"closed".into(), &Value::Null));
    // `return` runs before access, so there is no subrequest.
    assert_eq!(guarded["status"], 403);
    let steps = file["steps"].as_array().unwrap();
    let tried = steps.iter().find(|step| step["feature"] == "try_files").unwrap();
    assert_eq!(
        (&tried["at"]["line"], &tried["at"]["directive"]),
        (&13.into(), &"try_files $uri /index.html".into())
    );
}

#[test]
fn what_cannot_be_explained_has_status_1() {
    let site = site();
    for (url, reason) in [
        ("http://shop.example/", "no server listens on port 80; the addresses are: 0.0.0.0:8080"),
        ("https://shop.example:8080/", "the connections to 0.0.0.0:8080 are not encrypted"),
        ("shop.example:8080/", "is no URL to explain"),
    ] {
        let output = explain(site.path(), &[url], "");
        assert_eq!(output.status.code(), Some(1), "{url}");
        assert!(text(&output.stderr).contains(reason), "{url}: {}", text(&output.stderr));
    }
    let output = explain(site.path(), &["-g", "nonsense;", "http://shop.example:8080/"], "");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    assert!(text(&output.stderr).contains("unknown directive \"nonsense\""));
}

#[test]
fn nothing_is_left_behind_or_counted() {
    let site = site();
    let requests = "http://shop.example:8080/api/x\n".repeat(3);
    let output = explain(site.path(), &["--json", "-"], &requests);
    let told = text(&output.stdout);
    let ends: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // Within one run a limit counts, so that a series can be looked at; the next run begins anew.
    assert_eq!(ends[0]["end"], "passed");
    assert_eq!(ends[2]["status"], 503);
    let again = explain(site.path(), &["--json", "http://shop.example:8080/api/x"], "");
    assert!(text(&again.stdout).contains("\"end\":\"passed\""));
    let mut names: Vec<_> =
        fs::read_dir(site.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["html", "site.conf"], "the logs' directory does not even exist");
}

#[test]
fn no_file_is_changed() {
    let site = site();
    fs::create_dir(site.path().join("dav")).unwrap();
    fs::write(site.path().join("dav/a"), "a").unwrap();
    for request in [
        "-X PUT http://shop.example:8080/dav/b",
        "-X DELETE http://shop.example:8080/dav/a",
        "-X DELETE http://shop.example:8080/dav/",
        "-X MKCOL http://shop.example:8080/dav/c/",
        "-X MOVE -H 'Destination: /dav/c' http://shop.example:8080/dav/a",
    ] {
        let output = explain(site.path(), &["-"], &format!("{request}\n"));
        let told = text(&output.stdout);
        assert!(told.contains("the request would change files"), "{request}: {told}{}", text(&output.stderr));
    }
    let left: Vec<_> = fs::read_dir(site.path().join("dav")).unwrap().collect();
    assert_eq!(left.len(), 1);
    assert_eq!(fs::read_to_string(site.path().join("dav/a")).unwrap(), "a");
}

#[test]
fn no_other_server_is_asked() {
    let site = site();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let address = other.local_addr().unwrap();
    // Choosing the server evaluates a table, which is reported, too. The client would not wait for that.
    let configuration = format!(
        "events {{}} http {{ map $arg_u $shard {{ default a; }} upstream app {{ hash $shard; server {address}; }}
         proxy_read_timeout 100ms; fastcgi_read_timeout 100ms;
         server {{ listen 8080; location / {{ proxy_pass http://app; }}
             location /lasting {{ proxy_pass http://app; proxy_ignore_client_abort on; }}
             location /script {{ fastcgi_pass app; }}
             location /guarded {{ auth_request /; try_files /none =404; }}
             location /copied {{ mirror /script; try_files /none =404; }} }} }}"
    );
    fs::write(site.path().join("site.conf"), configuration).unwrap();
    let passed = ["/", "/lasting", "/script"].map(|path| (path, "\"end\":\"passed\""));
    for (path, end) in passed.into_iter().chain(["/guarded", "/copied"].map(|path| (path, "\"status\":404")))
    {
        let output = explain(site.path(), &["--json", "-X", "DELETE", &format!("http://a:8080{path}")], "");
        assert_eq!(other.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "{path}");
        let told = text(&output.stdout);
        assert!(told.contains(end), "{told}");
    }
}
