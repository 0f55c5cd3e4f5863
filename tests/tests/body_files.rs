//! Bodies of requests in files that have a name: `client_body_in_file_only`, `$request_body_file`.

use std::fs;
use std::path::{Path, PathBuf};

use tests::binary::Server;
use tests::raw::Raw;
use tests::site::Site;
use tests::wait;

/// Sends a body through a location; gives what the other server was told, and what it read there, with the file's path.
fn passed_on(setting: &str, body: &str) -> (PathBuf, Option<String>) {
    let origin = Raw::listen();
    let site = Site::new(&format!(
        r#"
        server {{
            listen 127.0.0.1:%%PORT%%;
            client_body_temp_path %%ROOT%%/bodies;
            location / {{
                {setting}
                proxy_pass http://{};
                proxy_set_header X-File $request_body_file;
            }}
        }}
        "#,
        origin.address()
    ));
    let running = site.start(Server::Fulmar);
    let mut client = running.connect();
    client.send(
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes(),
    );
    let mut peer = origin.accept();
    let head = peer.until("\r\n\r\n");
    let path = head.lines().find_map(|line| line.strip_prefix("X-File: ")).unwrap_or_default();
    let path = Path::new(path.trim_end()).to_owned();
    let content = fs::read_to_string(&path).ok();
    peer.send("HTTP/1.0 204 No Content\r\n\r\n");
    peer.finish();
    assert_eq!(client.response("POST").unwrap().status, 204);
    assert!(
        path.as_os_str().is_empty()
            || path.starts_with("/proc")
            || path.starts_with(site.root().join("bodies"))
    );
    // The request ends after its answer.
    let is_gone = || !path.exists();
    if setting.contains("clean") {
        assert!(wait::until(std::time::Duration::from_secs(10), is_gone), "it stays");
    }
    running.stop();
    if setting.contains("only on") {
        assert_eq!(fs::read_to_string(&path).unwrap(), body, "it stays");
    }
    (path, content)
}

#[test]
fn a_file_for_as_long_as_it_shall_be() {
    const NOT_PASSED: &str = "proxy_pass_request_body off; proxy_set_header Content-Length \"\";";
    for setting in ["client_body_in_file_only clean;", "client_body_in_file_only on;"] {
        let setting = &format!("{setting} {NOT_PASSED}");
        for body in ["short", &"long".repeat(20_000)] {
            let (_, content) = passed_on(setting, body);
            assert_eq!(content.as_deref(), Some(body), "{setting}");
        }
    }
}

#[test]
fn only_a_long_body_is_in_a_file_otherwise() {
    let (path, _) = passed_on("", "short");
    assert_eq!(path, Path::new(""));
    let (path, _) = passed_on("client_body_buffer_size 8;", "longer than eight");
    assert!(path.starts_with("/proc"), "{}", path.display());
}
