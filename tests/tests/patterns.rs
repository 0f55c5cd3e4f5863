//! Regular expressions: what takes too many steps ends in time and is reported, what is wrong shows where.

use tests::binary::{Server, have_nginx};
use tests::site::{Running, Site};

/// Needs to look ahead, so that it is no pattern for linear time, and goes back more often than any limit allows.
const ENDLESS: &str = "^/?[a-z]*/?(?=a)(a+)+$";

#[test]
fn a_pattern_without_end_is_an_error_of_the_server() {
    let site = Site::new(&format!(
        r#"
        map $arg_x $table {{ default "default"; "~{ENDLESS}" "matches"; }}
        server {{
            listen 127.0.0.1:%%PORT%%;
            location /if {{ if ($arg_x ~ "{ENDLESS}") {{ return 200 "matches"; }} return 200 "does not"; }}
            location /table {{ return 200 "$table"; }}
            location ^~ /rewrite {{ rewrite "{ENDLESS}" /if; return 200 "stays"; }}
            location /place {{ return 200 "prefix"; }}
            location ~ "{ENDLESS}" {{ return 200 "pattern"; }}
            location = /fine {{ return 200 "fine"; }}
        }}
        "#
    ));
    let long = "a".repeat(60);
    let told = |running: &Running| {
        let paths = [
            format!("/if?x={long}!"),
            format!("/table?x={long}!"),
            format!("/rewrite/{long}!"),
            format!("/place/{long}!"),
            "/fine".to_owned(),
            format!("/table?x={}", &long[..9]),
        ];
        let answers = paths.map(|path| running.ask(&format!("GET {path}")).last().clone());
        answers.map(|answer| if answer.status == 200 { answer.text() } else { answer.status.to_string() })
    };
    let expected = ["500", "default", "500", "500", "fine", "matches"];
    let fulmar = site.start(Server::Fulmar);
    assert_eq!(told(&fulmar), expected);
    fulmar.wait_for_log("error.log", "match limit exceeded");
    fulmar.stop();
    if have_nginx() {
        let nginx = site.start(Server::Nginx);
        assert_eq!(told(&nginx), expected);
        drop(nginx);
    }
}

/// Reason: a client that waits for an answer should get an error (a row of `docs/differences.md`).
#[test]
fn a_host_that_makes_a_pattern_give_up_reaches_no_server() {
    let site = Site::new(&format!(
        r#"
        server {{ listen 127.0.0.1:%%PORT%%; return 200 "default"; }}
        server {{ listen 127.0.0.1:%%PORT%%; server_name "~{ENDLESS}"; return 200 "pattern"; }}
        "#
    ));
    let told = |running: &Running| {
        let hosts = ["b".to_owned(), "a".repeat(9), "a".repeat(60) + "!"];
        hosts.map(|host| {
            let answer = running.ask_bytes(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
            answer.responses.first().map_or_else(String::new, |first| match first.status {
                200 => first.text(),
                status => status.to_string(),
            })
        })
    };
    let fulmar = site.start(Server::Fulmar);
    assert_eq!(told(&fulmar), ["default", "pattern", "500"]);
    fulmar.wait_for_log("error.log", "match limit exceeded");
    fulmar.stop();
    if have_nginx() {
        let nginx = site.start(Server::Nginx);
        assert_eq!(told(&nginx), ["default", "pattern", ""], "nginx no longer differs");
        drop(nginx);
    }
}

#[test]
fn a_wrong_pattern_shows_where() {
    for (directive, wrong) in [
        (r#"location ~ "^/a**b" { }"#, "*b\""),
        ("location ~* ^/(?<a>b)(?<a>c) { }", "c) { }"),
        ("rewrite ^/[z-a] /x;", "a] /x"),
        ("if ($uri ~ ^/x[y) { }", ") { }"),
    ] {
        let text =
            format!("events {{ }}\nhttp {{ server {{ listen 127.0.0.1:%%PORT%%;\n{directive}\n}} }}\n");
        let said = Site::whole(&text).test(Server::Fulmar).expect_err("it is wrong");
        let shown: Vec<&str> = said.lines().filter_map(|line| Some(line.split_once(" | ")?.1)).collect();
        let [line, caret] = shown[..] else { panic!("{said}") };
        assert_eq!(line, directive);
        assert_eq!(caret.find('^'), line.find(wrong), "{said}");
    }
}
