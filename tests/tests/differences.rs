//! Where Fulmar deliberately differs from nginx. Each row has the reason and the answers of both servers. A row fails if
//! both servers answer in the same way, so that this list stays true.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;
use tests::binary::{Server, have_nginx, nginx_with};
use tests::client::{Answer, End};
use tests::origin::{After, Origin, ok, raw};
use tests::site::{Running, Site};
use tests::wait;

struct Difference {
    reason: &'static str,
    /// Sent as it stands.
    input: &'static str,
    nginx: &'static str,
    fulmar: &'static str,
}

const DIFFERENCES: &[Difference] = &[
    Difference {
        reason: "parsers read an invalid chunk extension differently (section 7.1.1)",
        input: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;=\r\na\r\n0\r\n\r\n",
        nginx: "200 kept",
        fulmar: "400 closed",
    },
    Difference {
        reason: "some parsers take a lone CR as the end of the line (section 2.2)",
        input: "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\r\n\r\n",
        nginx: "200 kept",
        fulmar: "400 closed",
    },
    Difference {
        reason: "with two spaces in a request line, the start of the target is ambiguous (section 3)",
        input: "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        nginx: "200 kept",
        fulmar: "400 closed",
    },
    Difference {
        reason: "with a space after the version, the end of the target is ambiguous (section 3)",
        input: "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        nginx: "200 kept",
        fulmar: "400 closed",
    },
    Difference {
        reason: "a version has one digit on each side (section 2.3)",
        input: "GET / HTTP/1.01\r\nHost: a\r\n\r\n",
        nginx: "200 kept",
        fulmar: "400 closed",
    },
    Difference {
        reason: "a line without a colon is not a header line (section 5)",
        input: "GET / HTTP/1.1\r\nHost: a\r\nnocolon\r\n\r\n",
        nginx: "200 kept",
        fulmar: "400 closed",
    },
    Difference {
        reason: "brackets of a host must contain an address (RFC 3986, section 3.2.2)",
        input: "GET / HTTP/1.1\r\nHost: [zz]\r\n\r\n",
        nginx: "200 kept",
        fulmar: "400 closed",
    },
    Difference {
        reason: "the server reports an expectation that it cannot meet (RFC 9110, section 10.1.1)",
        input: "GET / HTTP/1.1\r\nHost: a\r\nExpect: something\r\nConnection: close\r\n\r\n",
        nginx: "200 closed",
        fulmar: "417 closed",
    },
    Difference {
        reason: "parsers of HTTP/1.0 disagree whether a GET request has a body, so the connection closes",
        input: "GET / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
        nginx: "200 kept",
        fulmar: "200 closed",
    },
    Difference {
        reason: "a response that announces keep-alive keeps the connection, also if a precondition failed",
        input: "GET /f.txt HTTP/1.1\r\nHost: a\r\nIf-Match: \"x\"\r\n\r\n",
        nginx: "412 closed",
        fulmar: "412 kept",
    },
    Difference {
        reason: "a rejected request gets a status, even if the client may speak HTTP/0.9",
        input: "GET /%\r\n",
        nginx: "0 closed",
        fulmar: "400 closed",
    },
    Difference {
        reason: "the server need not send 100 to a client without a body (RFC 9110, section 10.1.1)",
        input: "GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
        nginx: "100 200 closed",
        fulmar: "200 closed",
    },
    Difference {
        reason: "`closed` is another option of `Connection` than `close` (RFC 9110, section 7.6.1)",
        input: "GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n\r\n",
        nginx: "200 closed",
        fulmar: "200 kept",
    },
    Difference {
        reason: "two hex digits must follow a percent sign (RFC 3986, section 3.2.2)",
        input: "GET / HTTP/1.1\r\nHost: %a\r\n\r\n",
        nginx: "200 kept",
        fulmar: "400 closed",
    },
    Difference {
        reason: "no transfer coding has this name (section 7)",
        input: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;x\r\n\r\n0\r\n\r\n",
        nginx: "501 closed",
        fulmar: "400 closed",
    },
    Difference {
        reason: "`close` has precedence over other options of `Connection` (section 9.6)",
        input: "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n",
        nginx: "200 kept",
        fulmar: "200 closed",
    },
    Difference {
        reason: "spaces and tabs around a value are not part of the value (section 5)",
        input: "GET / HTTP/1.1\r\nHost:\ta\r\nConnection: close\r\n\r\n",
        nginx: "400 closed",
        fulmar: "200 closed",
    },
    Difference {
        reason: "a host in the request target follows the same rules as `Host` (RFC 3986, section 3.2.2)",
        input: "GET http://h_x/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        nginx: "400 closed",
        fulmar: "200 closed",
    },
];

#[test]
fn are_as_stated() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location = / { return 200 "ok"; }
        }
        "#,
    )
    .file("f.txt", "file\n");
    let mut servers = vec![site.start(Server::Fulmar)];
    if have_nginx() {
        servers.push(site.start(Server::Nginx));
    }
    let mut wrong = Vec::new();
    for difference in DIFFERENCES {
        assert_ne!(difference.nginx, difference.fulmar, "{}", difference.reason);
        for running in &servers {
            let stated = match running.server() {
                Server::Fulmar => difference.fulmar,
                Server::Nginx => difference.nginx,
            };
            let found = summary(&running.ask_bytes(difference.input.as_bytes()));
            if found != stated {
                let (name, input) = (running.server().name(), difference.input);
                wrong.push(format!(
                    "{name} answers {found}, not {stated}, to {input:?}: {}",
                    difference.reason
                ));
            }
        }
    }
    servers.into_iter().for_each(Running::stop);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Reason: a value that contains CR LF would let a client add headers to the response.
#[test]
fn decoded_line_ends_stay_out_of_fields() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            location /location { return 302 http://localhost$uri; }
            location /relative { return 302 $uri; }
            location /field { add_header X-Uri $uri; return 200 "ok"; }
        }
        "#,
    );
    let injected = |running: &Running, path: &str| {
        let answer = running.ask(&format!("GET /{path}%0d%0aX-Injected:%20yes"));
        answer.responses.iter().any(|response| response.field("X-Injected").is_some())
    };
    let fulmar = site.start(Server::Fulmar);
    for path in ["location", "relative", "field"] {
        assert!(!injected(&fulmar, path), "{path}");
    }
    fulmar.stop();
    if have_nginx() {
        let nginx = site.start(Server::Nginx);
        assert!(injected(&nginx, "location"), "nginx no longer differs");
        nginx.stop();
    }
}

/// Reason: Fulmar evaluates a text once, from left to right. nginx first computes its length, and the patterns of a
/// `map` change the captures meanwhile.
#[test]
fn captures_are_what_they_were_when_the_text_reached_them() {
    let site = Site::new(
        r#"
        map $arg_x $table { ~(b+)(c*) "t"; }
        server {
            listen 127.0.0.1:%%PORT%%;
            location ~ "^/(.)" { return 200 "[$1$table$1]"; }
        }
        "#,
    );
    let told = |running: &Running| running.ask("GET /a?x=bbb").last().text();
    let fulmar = site.start(Server::Fulmar);
    assert_eq!(told(&fulmar), "[atbbb]");
    fulmar.stop();
    if have_nginx() {
        // nginx has too little memory for the text if a capture became longer.
        let nginx = site.start(Server::Nginx);
        assert_ne!(told(&nginx), "[atbbb]", "nginx no longer differs");
        drop(nginx);
    }
}

/// Reason: for a location without a final slash, a request such as `/files../x` would lead out of the directory of its
/// `alias`.
#[test]
fn aliases_are_not_left() {
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; location /files { alias %%ROOT%%/files/; } }")
        .file("files/f.txt", "inside\n")
        .file("above.txt", "above\n");
    let climb = |running: &Running| running.ask("GET /files../above.txt").last().text() == "above\n";
    let fulmar = site.start(Server::Fulmar);
    assert_eq!(fulmar.ask("GET /files/f.txt").last().text(), "inside\n");
    assert!(!climb(&fulmar));
    fulmar.stop();
    if have_nginx() {
        let nginx = site.start(Server::Nginx);
        assert!(climb(&nginx), "nginx no longer differs");
        nginx.stop();
    }
}

/// Reason: spaces and tabs around a value are not part of the value (RFC 9110, section 5.5).
#[test]
fn tabs_around_values() {
    let site = Site::new(r#"server { listen 127.0.0.1:%%PORT%%; return 200 "[$http_x]"; }"#);
    let text = |server: Server| {
        let running = site.start(server);
        let text = running.ask("GET /\nX: \t y \t ").last().text();
        running.stop();
        text
    };
    assert_eq!(text(Server::Fulmar), "[y]");
    if have_nginx() {
        assert_ne!(text(Server::Nginx), "[y]", "nginx no longer differs");
    }
}

/// Reason: a response has one `Server` and one `Date` (RFC 9110, sections 6.6.1 and 10.2.4).
#[test]
fn server_and_date_are_sent_once() {
    let site = Site::new(
        r#"server { listen 127.0.0.1:%%PORT%%; add_header Server mine; add_header Date never; return 200; }"#,
    );
    let values = |server: Server| {
        let running = site.start(server);
        let answer = running.ask("GET /");
        let values = ["server", "date"].map(|name| {
            answer.last().fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name)).count()
        });
        running.stop();
        values
    };
    assert_eq!(values(Server::Fulmar), [1, 1]);
    if have_nginx() {
        assert_eq!(values(Server::Nginx), [2, 2], "nginx no longer differs");
    }
}

/// Reason: the log line of a request shows that request's own variables.
#[test]
fn variables_that_a_logged_subrequest_computed() {
    let site = Site::new(
        r#"
        log_format length "$uri $sent_http_content_length";
        access_log %%LOGS%%/length length;
        log_subrequest on;
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location / { mirror /copy; }
            location = /copy { return 204; }
        }
        "#,
    )
    .file("f.txt", "file");
    let logged = |server: Server| {
        let running = site.start(server);
        running.ask("GET /f.txt\nConnection: close");
        running.stop_and(|running| running.log("length"))
    };
    assert!(logged(Server::Fulmar).contains("/f.txt 4\n"));
    if have_nginx() {
        assert!(logged(Server::Nginx).contains("/f.txt 0\n"), "nginx no longer differs");
    }
}

/// Reason: empty lines are not a request.
#[test]
fn line_ends_without_a_request() {
    let site = Site::new("client_header_timeout 100ms; server { listen 127.0.0.1:%%PORT%%; return 200; }");
    let logged = |server: Server| {
        let running = site.start(server);
        let mut client = running.connect();
        client.send(b"\r\n");
        client.finish();
        client.response("GET");
        running.stop_and(|running| running.log("access.log"))
    };
    assert_eq!(logged(Server::Fulmar), "");
    if have_nginx() {
        assert!(logged(Server::Nginx).contains(" 400 "), "nginx no longer differs");
    }
}

/// Reason: a 100 (Continue) is not part of the response.
#[test]
fn bytes_of_100_continue() {
    let site = Site::new(
        r#"
        log_format sent $body_bytes_sent;
        server { listen 127.0.0.1:%%PORT%%; access_log %%LOGS%%/sent sent; return 200 "ok"; }
        "#,
    );
    let logged = |server: Server| {
        let running = site.start(server);
        running.ask_bytes(
            b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx",
        );
        running.stop_and(|running| running.log("sent"))
    };
    assert_eq!(logged(Server::Fulmar), "2\n");
    if have_nginx() {
        assert_eq!(logged(Server::Nginx), "27\n", "nginx no longer differs");
    }
}

/// Reason: every status that Fulmar sends has a reason phrase and a page.
#[test]
fn reason_phrases() {
    let site = Site::new(
        "server { listen 127.0.0.1:%%PORT%%; location /417 { return 417; } location /425 { return 425; } }",
    );
    let reasons = |server: Server| {
        let running = site.start(server);
        let reasons = [417, 425].map(|status| running.ask(&format!("GET /{status}")).last().reason.clone());
        running.stop();
        reasons
    };
    assert_eq!(reasons(Server::Fulmar), ["Expectation Failed", "Too Early"]);
    if have_nginx() {
        assert_eq!(reasons(Server::Nginx), ["", ""], "nginx no longer differs");
    }
}

/// Reason: a chunked request has no `Content-Length`, whether its body is read or not.
#[test]
fn length_of_chunked_requests() {
    let site = Site::new(r#"server { listen 127.0.0.1:%%PORT%%; return 200 "[$content_length]"; }"#);
    let text = |server: Server| {
        let running = site.start(server);
        let head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
        let text = running.ask_bytes(&[&head[..], b"1\r\na\r\n0\r\n\r\n"].concat()).last().text();
        running.stop();
        text
    };
    assert_eq!(text(Server::Fulmar), "[]");
    if have_nginx() {
        assert_eq!(text(Server::Nginx), "[0]", "nginx no longer differs");
    }
}

/// Reason: browsers no longer replace short error pages with their own (`msie_padding`).
#[test]
fn padding() {
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; return 404; }");
    let has_comments = |server: Server| {
        let running = site.start(server);
        let text = running.ask("GET /\nUser-Agent: Mozilla/5.0 Chrome/126.0 Safari/537.36").last().text();
        running.stop();
        text.contains("<!--")
    };
    assert!(!has_comments(Server::Fulmar));
    if have_nginx() {
        assert!(has_comments(Server::Nginx), "nginx no longer differs");
    }
}

/// Reason: a client that closes its sending side still waits for the response.
#[test]
fn clients_that_close_their_sending_side() {
    const LENGTH: usize = 32 << 20;
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; sendfile on; }");
    std::fs::File::create(site.root().join("large")).unwrap().set_len(LENGTH as u64).unwrap();
    let received = |server: Server| {
        let running = site.start(server);
        let mut stream = TcpStream::connect(running.address()).unwrap();
        stream.write_all(b"GET /large HTTP/1.0\r\n\r\n").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // Now the system's buffers are full, and the server has seen the end of the client's data.
        wait::pause(Duration::from_millis(300));
        let received = std::io::copy(&mut stream, &mut std::io::sink()).unwrap_or(0);
        running.stop();
        received
    };
    assert!(received(Server::Fulmar) > LENGTH as u64);
    if have_nginx() {
        assert!(received(Server::Nginx) < LENGTH as u64, "nginx no longer differs");
    }
}

/// Reason: the configuration is valid, so the client gets the response that it describes. nginx sends none, or 500.
#[test]
fn responses_where_nginx_gives_up() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            location /status { try_files /none =200; }
            location /ifs/ {
                if ($arg_a) { proxy_pass http://127.0.0.1:%%PORT_1%%; }
                if ($arg_b) { set $b 1; }
                alias %%ROOT%%/;
            }
        }
        server { listen 127.0.0.1:%%PORT_1%%; return 200 behind; }
        "#,
    )
    .file("f", "file");
    let statuses = |server: Server| {
        let running = site.start(server);
        let statuses = ["/status", "/ifs/f?a=1&b=1"]
            .map(|path| running.ask(&format!("GET {path}\nConnection: close")).statuses());
        // nginx logs an alert for these requests; `stop` would fail because of it.
        drop(running);
        statuses
    };
    assert_eq!(statuses(Server::Fulmar), [vec![200], vec![200]]);
    if have_nginx() {
        assert_eq!(statuses(Server::Nginx), [vec![], vec![500]], "nginx no longer differs");
    }
}

/// Reason: an empty URI has no last byte. nginx reads the byte before the URI in memory, which belongs to the `alias`.
#[test]
fn empty_uris() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location /a { alias %%ROOT%%/files; try_files /none $uri; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            root %%ROOT%%;
            autoindex on;
            location /a/ { alias %%ROOT%%/files/; try_files /none $uri; }
        }
        "#,
    )
    .file("files/f.txt", "inside\n");
    let statuses = |server: Server| {
        let running = site.start(server);
        let other = tests::client::ask(running.address_of(1), "GET /a/");
        let statuses = [running.ask("GET /a").last().status, other.last().status];
        running.stop();
        statuses
    };
    assert_eq!(statuses(Server::Fulmar), [403, 403]);
    if have_nginx() {
        assert_eq!(statuses(Server::Nginx), [301, 404], "nginx no longer differs");
    }
}

/// Reason: the log shows the response as it was sent, although the connection already waits for the next request.
#[test]
fn logged_as_sent() {
    let site = Site::new(
        r#"
        log_format kept "$sent_http_connection $request_length";
        access_log %%LOGS%%/access.log kept;
        server { listen 127.0.0.1:%%PORT%%; return 200 ok; }
        "#,
    );
    let logged = |server: Server| {
        let running = site.start(server);
        let request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
        running
            .ask_bytes(&[&request[..], b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"].concat());
        running.stop_and(|running| running.log("access.log"))
    };
    assert_eq!(logged(Server::Fulmar), "keep-alive 50\nclose 46\n");
    if have_nginx() {
        assert_eq!(logged(Server::Nginx), "close 47\nclose 46\n", "nginx no longer differs");
    }
}

/// Reason: plain text in compressed content makes the content unreadable.
#[test]
fn compressed_content_that_would_be_changed() {
    let parts = ["--with-http_addition_module", "--with-http_sub_module", "--with-http_gzip_static_module"];
    let Some(nginx) = nginx_with(&parts) else { return };
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            gzip_static on;
            types { text/html html; }
            location /added/ { alias %%ROOT%%/; add_before_body /top.txt; }
            location /replaced/ { alias %%ROOT%%/; sub_filter com dis; }
        }
        "#,
    )
    .nginx(nginx)
    .file("f.html", "plain")
    .file("f.html.gz", "compressed")
    .file("top.txt", "top ");
    let texts = |server: Server| {
        let running = site.start(server);
        let texts = ["added", "replaced"]
            .map(|place| running.ask(&format!("GET /{place}/f.html\nAccept-Encoding: gzip")).last().text());
        running.stop();
        texts
    };
    assert_eq!(texts(Server::Fulmar), ["compressed", "compressed"]);
    assert_eq!(texts(Server::Nginx), ["top compressed", "dispressed"], "nginx no longer differs");
}

/// Reasons: a cache must know that a page has two forms, whichever form it gets first. Ranges are served as for other
/// files. `brx` is not `br`, as nginx itself reads `gzipx`.
#[test]
fn files_compressed_with_brotli_beforehand() {
    let Some(nginx) = nginx_with(&["ngx_http_brotli_static_module", "ngx_http_brotli_filter_module"]) else {
        return;
    };
    let site = Site::new(
        r#"
        brotli_static on;
        brotli on;
        gzip_vary on;
        types { text/html html; }
        server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; }
        "#,
    )
    .nginx(nginx)
    .file("f.html", "plain")
    .file("f.html.br", "coded")
    .file("g.html", "01234567890123456789");
    let told = |server: Server| {
        let running = site.start(server);
        let field = |request: &str, name: &str| {
            running.ask(request).last().field(name).unwrap_or_default().to_owned()
        };
        let told = [
            field("GET /f.html\nAccept-Encoding: br", "Accept-Ranges"),
            field("GET /f.html\nAccept-Encoding: gzip", "Vary"),
            field("GET /g.html\nAccept-Encoding: brx, br", "Content-Encoding"),
        ];
        running.stop();
        told
    };
    assert_eq!(told(Server::Fulmar), ["bytes", "Accept-Encoding", ""]);
    assert_eq!(told(Server::Nginx), ["", "", "br"], "nginx no longer differs");
}

/// Statuses, and whether the connection is kept.
fn summary(answer: &Answer) -> String {
    let statuses: Vec<String> = answer.statuses().iter().map(ToString::to_string).collect();
    let end = if answer.end == End::Kept { "kept" } else { "closed" };
    format!("{} {end}", statuses.join(" "))
}

#[test]
fn compression_by_accept_encoding_and_type() {
    let site = Site::new(
        r#"
        gzip on;
        gzip_types text/plain;
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location /coded { add_header Content-Encoding br; return 200 "01234567890123456789"; }
            location /charset { default_type "text/html; charset=utf-8"; return 200 "01234567890123456789"; }
            location / { default_type text/html; return 200 "01234567890123456789"; }
        }
        "#,
    );
    let asked = [
        ("/coded", "gzip"),
        ("/charset", "gzip"),
        ("/", "identity, gzip;q=0.5"),
        ("/", "identity;q=0, *"),
        ("/", "identity;q=0.5, gzip;q=0.5"),
    ];
    let codings = |server| {
        let running = site.start(server);
        let codings = asked.map(|(path, accept)| {
            let answer = running.ask(&format!("GET {path}\nAccept-Encoding: {accept}"));
            let fields = answer.responses[0].fields.iter().filter(|(name, _)| name == "Content-Encoding");
            fields.map(|(_, value)| value.clone()).collect::<Vec<_>>().join(" ")
        });
        running.stop();
        codings
    };
    assert_eq!(codings(Server::Fulmar), ["br", "gzip", "", "gzip", "gzip"]);
    if have_nginx() {
        assert_eq!(codings(Server::Nginx), ["br gzip", "", "gzip", "", "gzip"], "nginx no longer differs");
    }
}

/// Reason: a 204 has no content, so it has no `Content-Length` (RFC 9110, section 8.6).
#[test]
fn length_of_no_content() {
    let origin = Origin::start(|_| raw("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", After::Keep));
    let port = origin.address().port();
    let site = Site::new(&format!(
        "server {{ listen 127.0.0.1:%%PORT%%; location / {{ proxy_pass http://127.0.0.1:{port}; }} }}"
    ));
    let length = |server: Server| {
        let running = site.start(server);
        let length = running.ask("GET /").last().field("Content-Length").map(str::to_owned);
        running.stop();
        length
    };
    assert_eq!(length(Server::Fulmar), None);
    if have_nginx() {
        assert_eq!(length(Server::Nginx).as_deref(), Some("5"), "nginx no longer differs");
    }
}

/// Reason: `Host` should be the first header (RFC 9110, section 7.2). nginx 1.31.5 does the same.
#[test]
fn host_is_the_first_field() {
    let origin = Origin::start(|asked| ok(&asked.text));
    let port = origin.address().port();
    let site = Site::new(&format!(
        "server {{
            listen 127.0.0.1:%%PORT%%;
            location / {{
                proxy_pass http://127.0.0.1:{port};
                proxy_set_header X-First one;
                proxy_set_header Host named;
            }}
        }}"
    ));
    let first = |server: Server| {
        let running = site.start(server);
        let text = running.ask("GET /").last().text();
        running.stop();
        text.lines().nth(1).map(str::to_owned)
    };
    assert_eq!(first(Server::Fulmar).as_deref(), Some("Host: named"));
    if have_nginx() {
        assert_eq!(first(Server::Nginx).as_deref(), Some("X-First: one"), "nginx no longer differs");
    }
}

/// Reason: a request has one host. nginx 1.31.4 does the same; older versions send all of them.
#[test]
fn of_two_hosts_the_last_is_sent() {
    let origin = Origin::start(|asked| ok(&asked.text));
    let port = origin.address().port();
    // What the level sets, and the hosts that Fulmar and nginx send.
    let cases: [(&[&str], &str, &[&str]); 7] = [
        (&["a", "b"], "b", &["a", "b"]),
        (&["a", "$host"], "client", &["a", "client"]),
        (&["$host", "b"], "b", &["client", "b"]),
        (&["", "b"], "b", &["b"]),
        (&["a", ""], "backend", &["a"]),
        (&["a", "$arg_none"], "backend", &["a"]),
        (&["", ""], "backend", &[]),
    ];
    let locations = |directive: &str, pass: &str| {
        let location = |(at, (set, _, _)): (usize, &(&[&str], &str, &[&str]))| {
            let set: String = set.iter().map(|value| format!("{directive} Host '{value}';")).collect();
            format!("location /{at} {{ {set} {pass} }}")
        };
        cases.iter().enumerate().map(location).collect::<String>()
    };
    let site = Site::new(&format!(
        "upstream backend {{ server 127.0.0.1:{port}; }}
         upstream framed {{ server 127.0.0.1:%%PORT_3%%; }}
         server {{ listen 127.0.0.1:%%PORT%%; {} }}
         server {{ listen 127.0.0.1:%%PORT_1%%; {} }}
         server {{ listen 127.0.0.1:%%PORT_2%%; {} }}
         server {{ listen 127.0.0.1:%%PORT_3%%; http2 on; return 200 '$http_host'; }}",
        locations("proxy_set_header", "proxy_pass http://backend;"),
        locations("proxy_set_header", "proxy_pass http://framed; proxy_http_version 2;"),
        locations("grpc_set_header", "grpc_pass framed;"),
    ));
    let hosts = |running: &Running, at: usize| -> Vec<String> {
        let text = running.ask(&format!("GET /{at}\nHost: client")).last().text();
        text.lines().filter_map(|line| line.strip_prefix("Host: ")).map(str::to_owned).collect()
    };
    let running = site.start(Server::Fulmar);
    for (at, (set, expected, _)) in cases.iter().enumerate() {
        assert_eq!(hosts(&running, at), [*expected], "{set:?}");
        for port in [1, 2] {
            let request = format!("GET /{at} HTTP/1.1\r\nHost: client\r\nConnection: close\r\n\r\n");
            let answer = tests::client::ask(running.address_of(port), &request);
            assert_eq!(answer.last().text(), expected.replace("backend", "framed"), "{set:?}");
        }
    }
    running.stop();
    if have_nginx() {
        let running = site.start(Server::Nginx);
        for (at, (set, _, expected)) in cases.iter().enumerate() {
            assert_eq!(hosts(&running, at), *expected, "{set:?}: nginx no longer differs");
        }
        running.stop();
    }
}

#[test]
fn fragments_are_not_passed_on() {
    let origin = Origin::start(|asked| ok(&asked.target));
    let port = origin.address().port();
    let site = Site::new(&format!(
        "upstream backend {{ server 127.0.0.1:{port}; }}
         server {{
            listen 127.0.0.1:%%PORT%%;
            location / {{ proxy_pass http://backend; }}
            location /uri/ {{ proxy_pass http://backend/u/; }}
            location /variable/ {{ set $name backend; proxy_pass http://$name; }}
            location /whole/ {{ set $name backend; proxy_pass http://$name$request_uri; }}
            location /escaped/ {{ rewrite ^/escaped(/.*) $1 break; proxy_pass http://backend; }}
            location /shown {{ return 200 $request_uri; }}
        }}"
    ));
    let asked = |server: Server| {
        let running = site.start(server);
        let targets = ["/x", "/x?q", "/uri/x", "/variable/x", "/whole/x", "/shown"];
        let passed = targets.map(|target| running.ask(&format!("GET {target}#/../y")).last().text());
        let escaped = running.ask("GET /escaped/a%23b?q").last().text();
        running.stop();
        (passed, escaped)
    };
    let (passed, escaped) = asked(Server::Fulmar);
    assert_eq!(passed, ["/x", "/x?q", "/u/x", "/variable/x", "/whole/x", "/shown"]);
    assert_eq!(escaped, "/a%23b?q");
    if have_nginx() {
        let (passed, escaped) = asked(Server::Nginx);
        assert_eq!(escaped, "/a%23b?q");
        let left = ["/x#/../y", "/x?q#/../y", "/u/x", "/variable/x#/../y", "/whole/x#/../y", "/shown#/../y"];
        assert_eq!(passed, left, "nginx no longer differs");
    }
}

#[test]
fn cookies_in_the_log_before_they_were_rewritten() {
    let origin = Origin::start(|_| {
        let head = "HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/inner/x\r\nContent-Length: 0\r\n\r\n";
        raw(head, After::Keep)
    });
    let port = origin.address().port();
    let site = Site::new(&format!(
        "log_format cookie '$upstream_http_set_cookie $sent_http_set_cookie';
         access_log %%LOGS%%/access.log cookie;
         server {{
            listen 127.0.0.1:%%PORT%%;
            location / {{ proxy_pass http://127.0.0.1:{port}; proxy_cookie_path /inner/ /; }}
        }}"
    ));
    let logged = |server: Server| {
        let running = site.start(server);
        running.ask("GET / HTTP/1.0");
        running.stop_and(|running| running.log("access.log"))
    };
    assert_eq!(logged(Server::Fulmar), "a=b; Path=/inner/x a=b; Path=/x\n");
    if have_nginx() {
        let text = logged(Server::Nginx);
        assert!(
            text.ends_with(" a=b; Path=/x\n") && !text.contains("inner"),
            "nginx no longer differs: {text}"
        );
    }
}

/// Reason: nginx keeps the response to a HEAD request under the key of GET, announces its length to a GET request, and sends
/// no content: the client takes the next response for it.
#[test]
fn the_response_to_head_is_not_sent_to_get() {
    let origin = Origin::start(|asked| {
        let body = if asked.text.starts_with(b"HEAD ") { "" } else { "hello" };
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 5\r\n\r\n";
        raw(&format!("{head}{body}"), After::Keep)
    });
    let port = origin.address().port();
    let site = Site::new(&format!(
        "proxy_cache_path %%LOGS%%/cache keys_zone=one:1m;
         server {{
            listen 127.0.0.1:%%PORT%%;
            add_header X-Cache $upstream_cache_status;
            location / {{
                proxy_pass http://127.0.0.1:{port};
                proxy_cache one;
                proxy_cache_convert_head off;
            }}
        }}"
    ));
    let status = |running: &Running, method: &str| {
        let answer = running.ask(&format!("{method} / HTTP/1.0"));
        let response = answer.last();
        (response.field("X-Cache").unwrap_or_default().to_owned(), response.text())
    };
    let asked = |server: Server| {
        let running = site.start(server);
        let heads = ["HEAD", "HEAD"].map(|method| status(&running, method).0);
        let got = status(&running, "GET");
        running.stop();
        (heads, got)
    };
    let heads = ["MISS".to_owned(), "HIT".to_owned()];
    assert_eq!(asked(Server::Fulmar), (heads.clone(), ("MISS".into(), "hello".into())));
    if have_nginx() {
        assert_eq!(asked(Server::Nginx), (heads, ("HIT".into(), String::new())), "nginx no longer differs");
    }
}
