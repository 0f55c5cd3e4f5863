//! `dav_methods`: what is on the disk afterwards, and what must never get there.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use tempfile::TempDir;
use tests::binary::{Server, nginx_has};
use tests::site::{MTIME, Running, Site};

use crate::caching::Small;

const ALL: &str = "dav_methods PUT DELETE MKCOL COPY MOVE;";

fn site(settings: &str) -> Site {
    Site::new(&format!(
        "client_body_temp_path %%DIR%%/bodies;
         {ALL}
         server {{
             listen 127.0.0.1:%%PORT%%;
             root %%ROOT%%;
             client_max_body_size 10m;
             {settings}
         }}"
    ))
}

fn status(running: &Running, request: &str) -> u16 {
    running.ask(request).last().status
}

/// Sends requests with the statuses that they should get.
fn expect(running: &Running, rows: &[(&str, u16)]) {
    for (request, expected) in rows {
        assert_eq!(status(running, request), *expected, "{request}\n{}", running.all_logs());
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A directory on another file system, if there is one.
fn elsewhere(site: &Site) -> Option<TempDir> {
    let directory = TempDir::new_in("/dev/shm").ok()?;
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    (device(directory.path()) != device(&site.root())).then_some(directory)
}

#[test]
fn a_file_gets_its_permissions_time_and_content() {
    for settings in [
        "",
        "client_body_in_file_only on;",
        "client_body_in_file_only clean;",
        "client_body_temp_path /dev/shm;",
        "client_body_buffer_size 16;",
    ] {
        let site =
            site(&format!("location / {{ {settings} dav_access group:r all:r; create_full_put_path on; }}"));
        let running = site.start(Server::Fulmar);
        for (body, expected) in [("x".repeat(300_000), 201), ("short".to_owned(), 204), (String::new(), 204)]
        {
            let request = format!(
                "PUT /a/b/c.txt\nDate: Tue, 02 Jan 2024 03:04:05 GMT\nContent-Length: {}\n\n{body}",
                body.len()
            );
            assert_eq!(status(&running, &request), expected, "{settings}");
            let path = site.root().join("a/b/c.txt");
            let metadata = fs::metadata(&path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), body, "{settings}");
            assert_eq!(
                (metadata.mode() & 0o777, metadata.mtime()),
                (0o644, MTIME.cast_signed()),
                "{settings}"
            );
            assert_eq!(metadata.nlink(), 1, "{settings}");
        }
        assert_eq!(fs::metadata(site.root().join("a/b")).unwrap().mode() & 0o777, 0o755);
        assert_eq!(names(&site.root().join("a/b")), ["c.txt"], "{settings}");
        running.stop();
        let bodies = site.prefix().join("bodies");
        assert!(!bodies.exists() || names(&bodies).is_empty(), "{settings}");
    }
}

#[test]
fn a_client_that_leaves_changes_nothing() {
    let site = site("client_body_buffer_size 1k;").file("old.txt", "old");
    let running = site.start(Server::Fulmar);
    for name in ["old.txt", "new.txt"] {
        let mut client = running.connect();
        let head = format!("PUT /{name} HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
        assert!(client.send(head.as_bytes()) && client.send(&[b'x'; 50_000]));
        drop(client);
    }
    running.wait_for_log("access.log", "PUT /new.txt");
    assert_eq!(names(&site.root()), ["old.txt"]);
    assert_eq!(fs::read_to_string(site.root().join("old.txt")).unwrap(), "old");
    running.stop();
    assert!(names(&site.prefix().join("bodies")).is_empty());
}

#[test]
fn a_missing_directory_is_a_conflict() {
    let conf = format!("{ALL} server {{ listen 127.0.0.1:%%PORT%%; root %%ROOT%%; }}");
    let site = Site::new(&conf).file("a", "a").file("d/b", "b");
    let expected = |server| if server == Server::Fulmar { [409; 3] } else { [500, 500, 404] };
    for server in [Server::Fulmar, Server::Nginx] {
        if server == Server::Nginx && !nginx_has("--with-http_dav_module") {
            continue;
        }
        let requests =
            ["PUT /none/a\n\nx", "COPY /a\nDestination: /none/a", "COPY /d/\nDestination: /none/d/"];
        let running = site.start(server);
        assert_eq!(requests.map(|request| status(&running, request)), expected(server));
        running.stop_alerted();
    }
}

/// A directory elsewhere, with a file.
fn outside() -> TempDir {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("kept"), "kept").unwrap();
    outside
}

#[test]
fn no_link_leads_out_of_a_directory_that_is_changed() {
    let outside = outside();
    let target = outside.path().to_str().unwrap();
    let site =
        site("").file("d/e/f", "f").link("d/out", target).link("d/e/file", "/etc/passwd").link("out", target);
    let running = site.start(Server::Fulmar);
    expect(
        &running,
        &[
            ("COPY /d/\nDestination: /copy/", 201),
            ("GET /copy/e/f", 200),
            ("GET /copy/out/kept", 404),
            ("DELETE /out/", 409),
            ("COPY /out/\nDestination: /stolen/", 404),
            ("MOVE /d/\nDestination: /moved/", 201),
            ("GET /moved/out/kept", 200),
            ("DELETE /moved/", 204),
            ("PUT /out\n\nx", 409),
            ("DELETE /out", 204),
        ],
    );
    assert_eq!(names(&site.root()), ["copy"]);
    assert_eq!(names(outside.path()), ["kept"]);
    running.stop();
}

#[test]
fn denied_links_are_denied_for_changes_too() {
    let outside = outside();
    let target = outside.path().to_str().unwrap();
    for settings in ["disable_symlinks on from=$document_root;", "symlinks inside;"] {
        let site = site(&format!("create_full_put_path on; {settings}"))
            .file("a", "a")
            .link("out", target)
            .link("file", &format!("{target}/kept"));
        let running = site.start(Server::Fulmar);
        for request in [
            "PUT /out/new\n\nx",
            "PUT /out/new/file\n\nx",
            "PUT /file\n\nx",
            "DELETE /out/kept",
            "DELETE /file",
            "MKCOL /out/new/",
            "COPY /a\nDestination: /out/new",
            "COPY /a\nDestination: /file",
            "COPY /file\nDestination: /b",
            "COPY /out/kept\nDestination: /b",
            "MOVE /out/kept\nDestination: /b",
            "MOVE /a\nDestination: /out/new/a",
        ] {
            let status = status(&running, request);
            assert!([403, 404, 409].contains(&status), "{settings} {request}: {status}");
        }
        expect(&running, &[("PUT /sub/dir/a\n\nx", 201), ("MOVE /a\nDestination: /sub/b", 204)]);
        assert_eq!(names(outside.path()), ["kept"], "{settings}");
        assert_eq!(fs::read_to_string(outside.path().join("kept")).unwrap(), "kept");
        assert_eq!(names(&site.root()), ["file", "out", "sub"], "{settings}");
        running.stop();
    }
}

#[test]
fn nothing_is_changed_above_the_location() {
    let site = site("location /up/ { alias %%ROOT%%/d/; }").file("d/e/f", "f").file("a", "a");
    let running = site.start(Server::Fulmar);
    expect(
        &running,
        &[
            ("DELETE /", 403),
            ("DELETE /up/", 403),
            ("MKCOL /", 403),
            ("COPY /up/e/\nDestination: /up/", 403),
            ("MOVE /up/e/f\nDestination: /up/../a", 400),
            ("MOVE /up/e/f\nDestination: /up/%2e%2e/a", 400),
            ("MOVE /up/e/f\nDestination: /other/a", 400),
            ("MOVE /up/e/f\nDestination: /a", 400),
            ("MOVE /up/e/f\nDestination: /up/.", 403),
            ("COPY /\nDestination: /x/", 403),
            ("PUT /../x\n\nx", 400),
        ],
    );
    assert_eq!(fs::read_to_string(site.root().join("a")).unwrap(), "a");
    assert!(site.root().join("d/e/f").exists());
    running.stop();
}

#[test]
fn a_directory_is_not_moved_into_itself_by_a_link() {
    let site = site("").file("a/b/f", "f").link("link", "a").link("deep", "a/b");
    let running = site.start(Server::Fulmar);
    expect(
        &running,
        &[
            ("COPY /a/\nDestination: /link/c/", 403),
            ("COPY /a/\nDestination: /deep/c/", 403),
            ("MOVE /a/\nDestination: /deep/c/", 403),
            ("COPY /deep/f\nDestination: /a/b/f", 403),
            ("MOVE /link/b/\nDestination: /a/b/", 403),
            ("MOVE /a/b/\nDestination: /link/c/", 201),
        ],
    );
    assert_eq!(fs::read_to_string(site.root().join("a/c/f")).unwrap(), "f");
    running.stop();
}

#[test]
fn another_file_system() {
    let site = site("").file("a/b/f", "f").file("file", "file").link("a/link", "b").link("lone", "file");
    let Some(other) = elsewhere(&site) else { return };
    symlink(other.path(), site.root().join("other")).unwrap();
    let mode = fs::Permissions::from_mode(0o640);
    fs::set_permissions(site.root().join("file"), mode).unwrap();
    let running = site.start(Server::Fulmar);
    expect(
        &running,
        &[
            ("MOVE /file\nDestination: /other/file", 204),
            ("MOVE /a/\nDestination: /other/a/", 201),
            ("COPY /other/a/\nDestination: /copy/", 201),
            ("PUT /other/put\n\nx", 201),
            ("MOVE /other/a/\nDestination: /copy/", 201),
        ],
    );
    assert_eq!(names(other.path()), ["file", "put"]);
    let moved = fs::metadata(other.path().join("file")).unwrap();
    assert_eq!((moved.mode() & 0o777, moved.mtime()), (0o640, MTIME.cast_signed()));
    assert_eq!(names(&site.root()), ["copy", "lone", "other"]);
    assert_eq!(fs::read_to_string(site.root().join("copy/link/f")).unwrap(), "f");
    let inner = fs::metadata(site.root().join("copy/b/f")).unwrap();
    assert_eq!(inner.mtime(), MTIME.cast_signed());
    running.stop();
}

/// What does not fit on the disk gets 507 and leaves nothing: neither a part of a file nor a temporary name.
#[test]
fn a_full_disk() {
    let long = "x".repeat(200_000);
    let site = site("client_body_buffer_size 1k;").file("long", long.clone()).file("d/long", long.clone());
    let disk = site.root().join("disk");
    let Some(_small) = Small::mount(disk.clone(), "128k") else {
        eprintln!("not run: file systems cannot be mounted here");
        return;
    };
    let running = site.start(Server::Fulmar);
    let put = |name: &str, body: &str| {
        let length = body.len();
        status(&running, &format!("PUT /disk/{name}\nContent-Length: {length}\n\n{body}"))
    };
    assert_eq!((put("a", "kept"), put("a", &long), put("b", &long)), (201, 507, 507));
    expect(
        &running,
        &[
            ("COPY /long\nDestination: /disk/b", 507),
            ("MOVE /long\nDestination: /disk/a", 507),
            ("MOVE /d/\nDestination: /disk/d/", 507),
        ],
    );
    assert_eq!(fs::read_to_string(disk.join("a")).unwrap(), "kept");
    assert_eq!(fs::read_to_string(site.root().join("long")).unwrap(), long);
    assert_eq!(fs::read_to_string(site.root().join("d/long")).unwrap(), long);
    expect(&running, &[("DELETE /disk/d/", 204)]);
    assert_eq!(names(&disk), ["a"]);
    assert_eq!(put("b", "room again"), 201);
    running.stop_alerted();
    assert!(names(&site.prefix().join("bodies")).is_empty());
}

#[test]
fn directories_are_nested_only_so_deep() {
    let site = site("");
    fs::create_dir_all(site.root().join(format!("deep{}", "/x".repeat(150)))).unwrap();
    let running = site.start(Server::Fulmar);
    expect(&running, &[("COPY /deep/\nDestination: /copy/", 500), ("DELETE /deep/", 500)]);
    expect(&running, &[("MOVE /deep/\nDestination: /moved/", 201)]);
    assert!(site.root().join("moved/x/x").exists());
    running.stop();
}

#[test]
fn files_with_settings_stay_as_they_are() {
    let site = site("htaccess on; htaccess_file .htaccess .rules;")
        .file("a.txt", "a")
        .file("shut/.htaccess", "Require all denied\n")
        .file("shut/secret", "secret")
        .file("outer/shut/.rules", "Require all denied\n")
        .file("outer/shut/secret", "secret")
        .file("named/.htaccess", "<Files *.php>\nRequire all denied\n</Files>\n")
        .file("plain/f", "f");
    let running = site.start(Server::Fulmar);
    for request in [
        "PUT /.htaccess\n\nx",
        "PUT /.HTACCESS\n\nx",
        "PUT /plain/.htpasswd\n\nx",
        "PUT /plain/.rules\n\nx",
        "PUT /shut/x\n\nx",
        "MKCOL /.htaccess/",
        "MKCOL /shut/x/",
        "DELETE /shut/.htaccess",
        "DELETE /shut/",
        "DELETE /outer/",
        "COPY /a.txt\nDestination: /.htaccess",
        "COPY /a.txt\nDestination: /plain/.rules",
        "COPY /a.txt\nDestination: /plain/%2ehtaccess",
        "COPY /a.txt\nDestination: /shut/x",
        "MOVE /a.txt\nDestination: /shut/x",
        "MOVE /a.txt\nDestination: /named/x.php",
        "PUT /named/x.php\n\nx",
        "MOVE /plain/\nDestination: /shut/",
        "MOVE /plain/\nDestination: /outer/",
        "COPY /shut/secret\nDestination: /stolen",
        "COPY /outer/\nDestination: /stolen/",
        "MOVE /outer/\nDestination: /stolen/",
        "COPY /outer/shut/.rules\nDestination: /rules",
    ] {
        assert_eq!(status(&running, request), 403, "{request}\n{}", running.all_logs());
    }
    assert_eq!(names(&site.root()), ["a.txt", "named", "outer", "plain", "shut"]);
    expect(
        &running,
        &[
            ("MOVE /a.txt\nDestination: /named/a.txt", 204),
            ("PUT /plain/new\n\nx", 201),
            ("MOVE /plain/\nDestination: /other/", 201),
            ("DELETE /other/", 204),
        ],
    );
    assert_eq!(names(&site.root().join("named")), [".htaccess", "a.txt"]);
    running.stop();
}

#[test]
fn only_those_who_may_change_files_do() {
    let site = site(
        "location /users/ {
             limit_except GET { auth_basic a; auth_basic_user_file %%DIR%%/users; }
         }
         location /readonly/ { dav_methods off; }",
    )
    .in_prefix("users", "ada:{PLAIN}secret\n")
    .file("users/a", "a")
    .file("readonly/a", "a");
    let running = site.start(Server::Fulmar);
    let authorization = "Authorization: Basic YWRhOnNlY3JldA==";
    expect(
        &running,
        &[
            ("GET /users/a", 200),
            ("PUT /users/a\n\nx", 401),
            ("DELETE /users/a", 401),
            ("PUT /readonly/a\n\nx", 405),
            (&format!("PUT /users/a\n{authorization}\n\nx"), 204),
            (&format!("DELETE /users/a\n{authorization}"), 204),
        ],
    );
    running.stop();
}

#[test]
fn one_body_replaces_another_as_a_whole() {
    let site = site("");
    let running = site.start(Server::Fulmar);
    let bodies = ["a".repeat(100_000), "b".repeat(200_000)];
    std::thread::scope(|scope| {
        for body in &bodies {
            let running = &running;
            scope.spawn(move || {
                for _ in 0..20 {
                    assert!([201, 204].contains(&status(running, &format!("PUT /f\n\n{body}"))));
                }
            });
        }
        for _ in 0..50 {
            let answer = running.ask("GET /f");
            let text = answer.last().text();
            assert!(answer.last().status == 404 || bodies.contains(&text), "{} bytes", text.len());
        }
    });
    assert_eq!(names(&site.root()), ["f"]);
    running.stop();
}
