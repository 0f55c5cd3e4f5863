//! `server_name` and `listen`: which server answers for a host.

use tests::differential::{agree, agree_over_http1, agree_with_logs};
use tests::site::Site;

#[test]
fn precedence() {
    let site = Site::new(
        r#"
        server { listen 127.0.0.1:%%PORT%%; server_name first.example; return 200 "first $server_name $host"; }
        server { listen 127.0.0.1:%%PORT%%; server_name www.example.com; return 200 "exact $server_name $host"; }
        server { listen 127.0.0.1:%%PORT%%; server_name *.example.com; return 200 "leading $server_name $host"; }
        server { listen 127.0.0.1:%%PORT%%; server_name *.deep.example.com; return 200 "longer leading"; }
        server { listen 127.0.0.1:%%PORT%%; server_name www.example.*; return 200 "trailing $server_name"; }
        server { listen 127.0.0.1:%%PORT%%; server_name .both.org; return 200 "dot $server_name"; }
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name ~^(?<user>\w+)\.users\.net$ ~^x(.+)y$;
            return 200 "regex user=$user one=$1 name=$server_name";
        }
        server { listen 127.0.0.1:%%PORT%%; server_name ~\.net$; return 200 "second regex"; }
        server { listen 127.0.0.1:%%PORT%%; server_name "" nameless; return 200 "empty [$host] [$server_name]"; }
        server { listen 127.0.0.1:%%PORT%%; server_name MiXed.CASE; return 200 "case $server_name $host"; }
        server { listen 127.0.0.1:%%PORT%%; server_name 127.0.0.1 [::1]; return 200 "address $host"; }
        "#,
    );
    agree(
        &site,
        &[
            "GET /\nHost: www.example.com",
            "GET /\nHost: WWW.Example.COM",
            "GET /\nHost: www.example.com:8080",
            "GET /\nHost: www.example.com.",
            "GET /\nHost: www.example.com..",
            "GET /\nHost: a.example.com",
            "GET /\nHost: a.b.example.com",
            "GET /\nHost: example.com",
            "GET /\nHost: x.deep.example.com",
            "GET /\nHost: www.example.org",
            "GET /\nHost: www.example.co.uk",
            "GET /\nHost: both.org",
            "GET /\nHost: a.both.org",
            "GET /\nHost: aboth.org",
            "GET /\nHost: joe.users.net",
            "GET /\nHost: JOE.users.net",
            "GET /\nHost: other.net",
            "GET /\nHost: xaby",
            "GET /\nHost: unknown",
            "GET / HTTP/1.0",
            "GET / HTTP/1.0\nHost: nameless",
            "GET /\nHost:",
            "GET /\nHost: mixed.case",
            "GET /\nHost: 127.0.0.1",
            "GET /\nHost: 127.0.0.1:%%PORT%%",
            "GET /\nHost: [::1]",
            "GET /\nHost: [::1]:80",
            "GET /\nHost: a_b.example.com",
            "GET http://www.example.com/p?q\nHost: unknown",
            "GET http://www.example.com:99/\nHost: unknown",
            "GET HTTP://JOE.users.net/\nHost: unknown",
            "GET http://www.example.com\nHost: www.example.com",
            "GET http://www.example.com?q\nHost: www.example.com",
            "GET http://unknown/\nHost: www.example.com",
        ],
    );
}

#[test]
fn default_server() {
    let site = Site::new(
        r#"
        server { listen 127.0.0.1:%%PORT%%; server_name a; return 200 "a $server_port"; }
        server { listen 127.0.0.1:%%PORT%% default_server; server_name _; return 200 "default $server_name $host"; }
        server { listen 127.0.0.1:%%PORT%%; listen 127.0.0.1:%%PORT_1%%; server_name b; return 200 "b $server_port"; }
        server { listen 127.0.0.1:%%PORT_1%%; return 200 "unnamed [$server_name] $host"; }
        "#,
    );
    agree(
        &site,
        &[
            (0, "GET /\nHost: a"),
            (0, "GET /\nHost: b"),
            (0, "GET /\nHost: c"),
            (0, "GET /\nHost: _"),
            (0, "GET / HTTP/1.0"),
            (1, "GET /\nHost: a"),
            (1, "GET /\nHost: b"),
            (1, "GET / HTTP/1.0"),
            (1, "GET http://b/\nHost: zzz"),
        ],
    );
}

#[test]
fn bad_hosts() {
    let site = Site::new(
        r#"
        server { listen 127.0.0.1:%%PORT%%; server_name good; return 200 "$host"; }
        "#,
    );
    agree(
        &site,
        &[
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\\b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a..b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: .a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: .\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a:\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: :80\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a%41\r\n\r\n",
            "GET http:///x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET http://a@b/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        ],
    );
}

/// A request that is refused before its host is known is the default server's, and not that of the empty name.
#[test]
fn refused_requests() {
    let refused = |names: &str, text: &str| {
        format!(
            "server {{ listen 127.0.0.1:%%PORT%%{names}; error_page 400 414 505 =299 /page; \
             location /page {{ return 200 {text}; }} }}\n"
        )
    };
    let servers = [
        refused("; server_name named", "named"),
        refused(" default_server; server_name first", "default"),
        refused("; server_name \"\"", "nameless"),
    ];
    let long = "x".repeat(9000);
    let long_field = format!("GET / HTTP/1.1\r\nX: {long}\r\nHost: named\r\n\r\n");
    let long_behind = format!("GET / HTTP/1.1\r\nHost: named\r\nX: {long}\r\n\r\n");
    let long_target = format!("GET /{long} HTTP/1.1\r\nHost: named\r\n\r\n");
    agree_over_http1(
        &Site::new(&servers.concat()),
        &[
            "nonsense\r\n\r\n",
            "GET /%zz HTTP/1.1\r\nHost: named\r\n\r\n",
            "GET http:/// HTTP/1.1\r\nHost: named\r\n\r\n",
            "GET http://named/ HTTP/1.1\r\nHost: a..b\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: named\r\n\r\n",
            "GET / HTTP/1.1\r\nHost:\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a..b\r\n\r\n",
            "GET / HTTP/1.1\r\nX: \0\r\nHost: named\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: named\r\nX: \0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: named\r\nContent-Length: x\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            &long_field,
            &long_behind,
            &long_target,
        ],
    );
}

/// Who sends a head too slowly is logged where its host, as far as that has come, is served.
#[test]
fn heads_that_are_never_whole() {
    let site = Site::new(
        r#"
        log_format half "$server_name [$host] [$http_host] [$args] [$request] $request_method $status";
        access_log %%LOGS%%/half half;
        client_header_timeout 100ms;
        server { listen 127.0.0.1:%%PORT%%; server_name first; return 200; }
        server { listen 127.0.0.1:%%PORT%%; server_name named; return 200; }
        server { listen 127.0.0.1:%%PORT%%; server_name ""; return 200; }
        "#,
    );
    let requests = [
        "GET /a?b HTTP/1.1\r\nHost: named\r\n",
        "GET /a?b HTTP/1.1\r\nHost: na",
        "GET /a HTTP/1.1\r\n",
        "\r\nGET /a HT",
        "GET http://named/a HTTP/1.1\r\nX: y\r\n",
        "GET /a HTTP/1.1\r\nHost: named\r\nConnection: close\r\n\r\n",
    ];
    agree_with_logs(&site, &requests, &["half"]);
}
