//! Responses that are stored in files for good, compared with nginx: the same files with the same content, time and permissions.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use tests::binary::{Server, have_nginx};
use tests::client::Client;
use tests::differential::{agree, agree_on_mistake};
use tests::origin::{After, Asked, Origin, Reply, ok, raw};
use tests::site::Site;

const MODIFIED: &str = "Last-Modified: Tue, 02 Jan 2024 03:04:05 GMT";

fn answer(asked: &Asked) -> Reply {
    let path = asked.target.split('?').next().unwrap_or_default();
    match path.rsplit('/').next().unwrap_or_default() {
        "timed" => {
            raw(&format!("HTTP/1.1 200 OK\r\n{MODIFIED}\r\nContent-Length: 4\r\n\r\ntime"), After::Keep)
        }
        "chunked" => raw(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            After::Keep,
        ),
        "closes" => raw("HTTP/1.0 200 OK\r\n\r\nuntil the end", After::Close),
        "cut" => raw("HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\nshort", After::Close),
        "gone" => raw("HTTP/1.1 404 Gone\r\nContent-Length: 4\r\n\r\ngone", After::Keep),
        "empty" => ok(""),
        "long" => ok("0123456789".repeat(50_000)),
        _ => ok("page"),
    }
}

fn site(origin: &Origin) -> Site {
    let configuration = "
        access_log off;
        server {
            listen 127.0.0.1:%%PORT%%;
            proxy_temp_path %%LOGS%%/temp;
            root %%LOGS%%/stored;
            location / { proxy_pass http://127.0.0.1:ORIGIN; proxy_store on; }
            location /all/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_store on; proxy_store_access group:rw all:r; }
            location /read/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_store on; proxy_store_access user:r; }
            location /alias/ { alias %%LOGS%%/stored/by-alias/; proxy_pass http://127.0.0.1:ORIGIN; proxy_store on; }
            location /named/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_store %%LOGS%%/stored/$arg_file; }
            location /maybe/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_store $arg_file; }
            location /off/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_store off; }
            location /unbuffered/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_store on; proxy_buffering off; }
        }";
    Site::new(&configuration.replace("ORIGIN", &origin.address().port().to_string()))
}

/// The files below a directory: their permissions, whether they have the time of `Last-Modified`, and their content.
fn files(directory: &Path, found: &mut BTreeMap<String, (u32, bool, Vec<u8>)>, root: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        if metadata.is_dir() {
            files(&path, found, root);
        } else {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let properties = (metadata.permissions().mode(), metadata.mtime() == 1_704_164_645);
            found.insert(name, (properties.0, properties.1, std::fs::read(&path).unwrap()));
        }
    }
}

fn stored(site: &Site, server: Server) -> BTreeMap<String, (u32, bool, Vec<u8>)> {
    let root = site.logs(server).join("stored");
    let mut found = BTreeMap::new();
    files(&root, &mut found, &root);
    found
}

const CASES: [&str; 18] = [
    "GET /page",
    "GET /deep/er/page?x=y",
    "GET /timed",
    "GET /chunked",
    "GET /closes",
    "GET /cut",
    "GET /gone",
    "GET /empty",
    "GET /long",
    "HEAD /head",
    "POST /posted",
    "GET /all/page",
    "GET /read/page",
    "GET /alias/page",
    "GET /named/page?file=a/b",
    "GET /maybe/page",
    "GET /off/page",
    "GET /unbuffered/chunked",
];

#[test]
fn files_are_those_of_nginx() {
    let origin = Origin::start(answer);
    let site = site(&origin);
    agree(&site, &CASES);
    let ours = stored(&site, Server::Fulmar);
    if have_nginx() {
        let theirs = stored(&site, Server::Nginx);
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours["timed"], (0o100_600, true, b"time".to_vec()));
    assert!(!ours.contains_key("cut") && !ours.contains_key("gone") && !ours.contains_key("off/page"));
    let left = std::fs::read_dir(site.logs(Server::Fulmar).join("temp")).unwrap().count();
    assert_eq!(left, 0, "temporary files stay");
}

#[test]
fn variables_do_not_lead_out_of_the_directory() {
    let origin = Origin::start(answer);
    let site = site(&origin);
    let running = site.start(Server::Fulmar);
    for path in ["/named/page?file=../outside", "/named/page?file=a/../../outside"] {
        assert_eq!(running.ask(&format!("GET {path}")).last().text(), "page");
    }
    running.wait_for_log("error.log", "a response cannot be stored");
    running.stop();
    let found = stored(&site, Server::Fulmar);
    assert!(found.keys().all(|name| name == "is-it-kept"), "{found:?}");
    assert!(!site.logs(Server::Fulmar).join("outside").exists());
}

#[test]
fn a_response_is_stored_without_its_client() {
    let (gate, opened) = std::sync::mpsc::channel::<()>();
    let opened = std::sync::Mutex::new(opened);
    let origin = Origin::start(move |_| {
        let _ = opened.lock().unwrap().recv();
        ok("page")
    });
    let site = site(&origin);
    let running = site.start(Server::Fulmar);
    let mut client = Client::connect(running.address());
    client.send(b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n");
    let arrived = || origin.connections() == 1;
    assert!(tests::wait::until(std::time::Duration::from_secs(10), arrived));
    drop(client);
    gate.send(()).unwrap();
    let is_stored = || stored(&site, Server::Fulmar).contains_key("page");
    assert!(tests::wait::until(std::time::Duration::from_secs(10), is_stored), "{}", running.all_logs());
    running.stop();
}

#[test]
fn mistakes_are_those_of_nginx() {
    for settings in [
        "proxy_store \"\";",
        "proxy_store on; proxy_store off;",
        "proxy_store_access all:x;",
        "proxy_store_access everybody:r;",
        "proxy_store $no_such_variable;",
    ] {
        let site = format!("server {{ listen 127.0.0.1:%%PORT%%; location / {{ {settings} }} }}");
        agree_on_mistake(&Site::new(&site));
    }
}
