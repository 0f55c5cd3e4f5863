//! `proxy_pass` in front of the same server.

use tests::differential::{agree, agree_on_mistake, agree_with_logs};
use tests::origin::{After, Asked, Origin, Reply, ok, raw};
use tests::site::Site;

fn answer(asked: &Asked) -> Reply {
    let path = asked.target.split('?').next().unwrap_or_default();
    match path.rsplit('/').next().unwrap_or_default() {
        "moved" => raw(
            "HTTP/1.1 301 Gone There\r\nLocation: http://backend/inner/there\r\nContent-Length: 0\r\n\r\n",
            After::Keep,
        ),
        "elsewhere" => raw(
            "HTTP/1.1 302 Found\r\nLocation: https://else.example/x\r\nContent-Length: 0\r\n\r\n",
            After::Keep,
        ),
        "fields" => raw(
            "HTTP/1.1 200 Fine\r\nServer: mine\r\nDate: Tue, 02 Jan 2024 03:04:05 GMT\r\nX-Pad: a\r\n\
             Content-Type: text/css\r\nETag: \"x\"\r\nLast-Modified: Tue, 02 Jan 2024 03:04:05 GMT\r\n\
             Set-Cookie: a=b\r\nSet-Cookie: c=d\r\nVary: Cookie\r\nX_Odd: y\r\nKeep-Alive: timeout=3\r\n\
             Accept-Ranges: bytes\r\nContent-Length: 3\r\n\r\nabc",
            After::Keep,
        ),
        "chunked" => raw(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: x\r\n\r\n",
            After::Keep,
        ),
        "closes" => raw("HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\nuntil the end", After::Close),
        "nothing" => raw("HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n", After::Keep),
        "notmodified" => raw("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", After::Keep),
        "missing" => raw("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", After::Keep),
        "broken" => raw("HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops", After::Keep),
        "accel" => raw(
            "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /internal/file\r\nSet-Cookie: a=b\r\n\r\n",
            After::Close,
        ),
        "accelfile" => raw(
            "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /internal/file\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n",
            After::Keep,
        ),
        "accelnamed" => {
            raw("HTTP/1.1 200 OK\r\nX-Accel-Redirect: @named\r\nContent-Length: 0\r\n\r\n", After::Keep)
        }
        "accelunsafe" => raw(
            "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /../etc/passwd\r\nContent-Length: 0\r\n\r\n",
            After::Keep,
        ),
        "dies" => raw("", After::Close),
        "twolengths" => {
            raw("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", After::Close)
        }
        "headerror" => raw("HTTP/1.1 200 OK\r\nbad header\0\r\n\r\n", After::Close),
        _ => ok(&asked.text),
    }
}

fn site(origin: &Origin) -> Site {
    let configuration = r#"
        log_format up '$status $upstream_addr $upstream_status $upstream_response_length';
        access_log %%LOGS%%/access.log up;
        upstream backend { server 127.0.0.1:ORIGIN; }
        upstream none { server 127.0.0.1:1 down; }
        upstream second { server 127.0.0.1:1; server 127.0.0.1:ORIGIN backup; }
        server {
            listen 127.0.0.1:%%PORT%%;
            location / { proxy_pass http://backend; }
            location /a/ { proxy_pass http://backend/inner/; }
            location /b { proxy_pass http://127.0.0.1:ORIGIN/x; }
            location = /exact/ { proxy_pass http://backend/e; }
            location /set/ {
                proxy_pass http://backend;
                proxy_set_header Host $host;
                proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                proxy_set_header Accept-Encoding "";
                proxy_set_header X-Empty "";
                proxy_set_header X-Proxy "$proxy_host $proxy_port";
            }
            location /order/ {
                proxy_pass http://backend;
                proxy_set_header Host "named";
                proxy_set_header X-First $request_method;
                proxy_set_header Connection $http_connection;
                proxy_set_header X-Last last;
            }
            location /old/ { proxy_pass http://backend; proxy_http_version 1.0; }
            location /nobody/ { proxy_pass http://backend; proxy_pass_request_body off; proxy_set_header Content-Length ""; }
            location /nofields/ { proxy_pass http://backend; proxy_pass_request_headers off; }
            location /body/ { proxy_pass http://backend; proxy_set_body "<$request_uri>"; proxy_method PUT; }
            location /show/ { proxy_pass http://backend; proxy_pass_header Server; proxy_hide_header Vary; }
            location /intercept/ { proxy_pass http://backend; proxy_intercept_errors on; error_page 404 = @named; }
            location /off/ { proxy_pass http://backend; proxy_redirect off; }
            location /text/ { proxy_pass http://backend; proxy_redirect http://backend/inner/ http://me/; }
            location /regex/ { proxy_pass http://backend; proxy_redirect ~^http://backend/(.*)$ /again/$1; }
            location /streamed/ { proxy_pass http://backend; proxy_buffering off; }
            location /none/ { proxy_pass http://none; }
            location /second/ { proxy_pass http://second; }
            location /refused/ { proxy_pass http://127.0.0.1:1; }
            location /variable/ { set $name backend; proxy_pass http://$name; }
            location /variableuri/ { set $name backend; proxy_pass http://$name/v?$args; }
            location /unknown/ { set $name nobody.example; proxy_pass http://$name; }
            location /rewritten/ { rewrite ^/rewritten/(.*)$ /r/$1 break; proxy_pass http://backend; }
            location /query/ { set $args $arg_own; proxy_pass http://backend; }
            location /query/inner/ { set $args $arg_own; proxy_pass http://backend/inner/; }
            location ~ ^/pattern/(.*)$ { proxy_pass http://backend; }
            location /if/ { if ($arg_x) { proxy_pass http://backend; } return 204; }
            location /internal/ { internal; alias %%ROOT%%/; }
            location /fallback/ { error_page 502 = @named; proxy_pass http://127.0.0.1:1; }
            location @named { return 200 "named"; }
        }
    "#;
    let port = origin.address().port().to_string();
    Site::new(&configuration.replace("ORIGIN", &port)).file("file", "the file\n")
}

#[test]
fn requests_and_responses() {
    let origin = Origin::start(answer);
    agree(
        &site(&origin),
        &[
            "GET /",
            "GET /path%20x/%3Fy?q=%20&r",
            "GET /a/b/c%2Fd?x=1",
            "GET /a",
            "GET /a?x=1",
            "GET /a/../a/%41",
            "GET /bcd?x",
            "GET /exact/",
            "GET /exact",
            "GET /set/x\nX-Forwarded-For: 1.2.3.4\nAccept-Encoding: gzip\nX-Empty: no\nUser-Agent: me",
            "GET /x\nConnection: close\nX-Other: 2\nTE: trailers\nUpgrade: h2c\nKeep-Alive: 1",
            "POST /x\n\nhello",
            "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "PUT /x\nContent-Length: 0",
            "DELETE /x",
            "OPTIONS /x",
            "POST /x\nExpect: 100-continue\n\nhello",
            "GET /old/x",
            "GET /order/x\nConnection: close\nX-Client: c",
            "POST /order/x\nX-Client: c\n\nhello",
            "POST /set/x\n\nhello",
            "POST /nobody/x\n\nhello",
            "GET /nofields/x\nX-A: b",
            "POST /body/x?y\n\nhello",
            "GET /fields",
            "HEAD /fields",
            "GET /streamed/fields",
            "GET /show/fields",
            "GET /fields\nIf-None-Match: \"x\"",
            "GET /fields\nRange: bytes=0-0",
            "GET /chunked",
            "GET /chunked HTTP/1.0",
            "GET /streamed/chunked",
            "GET /closes",
            "GET /streamed/closes",
            "GET /closes HTTP/1.0",
            "GET /nothing",
            "GET /notmodified",
            "GET /missing",
            "GET /intercept/missing",
            "GET /intercept/broken",
            "GET /broken",
            "GET /a/moved",
            "GET /moved",
            "GET /elsewhere",
            "GET /off/moved",
            "GET /text/moved",
            "GET /regex/moved",
            "GET /accel",
            "GET /accelfile",
            // Not of the one that closes: nginx keeps that connection, and may ask before it has ended.
            "HEAD /accelfile",
            "GET /accelnamed",
            "GET /accelunsafe",
            "GET /internal/file",
            "GET /none/x",
            "GET /second/x",
            "GET /refused/x",
            "GET /fallback/x",
            "GET /variable/a%20b?x=1",
            "GET /variableuri/a?x=1",
            "GET /unknown/x",
            "GET /rewritten/a%20b?x=1",
            "GET /pattern/a%20b?x=1",
            "GET /query/a%20b?x=1",
            "GET /query/a%20b?x?own=1",
            "GET /query/a?own=own=1",
            "GET /query/a?own",
            "GET /query/a",
            "GET /query/inner/a%20b?own=y",
            "GET /if/?x=1",
            "GET /if/",
            "GET /dies",
            "GET /twolengths",
            "GET /headerror",
        ],
    );
}

/// The cookies of the query, joined by `|`, with a space for each `+`.
fn baked(asked: &Asked) -> Reply {
    let (path, query) = asked.target.split_once('?').unwrap_or_default();
    let cookies = query.split('|').map(|cookie| format!("Set-Cookie: {}\r\n", cookie.replace('+', " ")));
    let cookies: String = cookies.collect();
    let accel = if path.ends_with("/accel") { "X-Accel-Redirect: /said\r\n" } else { "" };
    raw(&format!("HTTP/1.1 200 OK\r\n{cookies}{accel}Content-Length: 0\r\n\r\n"), After::Keep)
}

const COOKIES: &str = r#"
    log_format cookie '$status "$sent_http_set_cookie"';
    access_log %%LOGS%%/access.log cookie;
    proxy_cookie_path /http/ /inherited/;
    proxy_cookie_flags inherited secure;
    server {
        listen 127.0.0.1:%%PORT%%;
        server_name localhost;
        location / { proxy_pass http://127.0.0.1:ORIGIN; }
        location /said { return 200 said; }
        location /own/ {
            proxy_pass http://127.0.0.1:ORIGIN;
            proxy_cookie_path /one/ /two/;
            proxy_cookie_path /two/ /three/;
            proxy_cookie_path ~^/Case/(.+)$ /plain/$1;
            proxy_cookie_path ~*^/any/(?<rest>.+)$ /$server_name/$rest;
            proxy_cookie_path /$server_name/ /;
            proxy_cookie_path ~middle all;
            proxy_cookie_path "" /front;
        }
        location /prefix/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_cookie_path / /wiki/; }
        location /domain/ {
            proxy_pass http://127.0.0.1:ORIGIN;
            proxy_cookie_domain backend.example .front.example;
            proxy_cookie_domain .dotted.$server_name $http_x_domain;
            proxy_cookie_domain ~^(.+)\.com$ $1.org;
        }
        location /flags/ {
            proxy_pass http://127.0.0.1:ORIGIN;
            proxy_cookie_flags a secure httponly samesite=strict;
            proxy_cookie_flags a nosecure;
            proxy_cookie_flags b SameSite=LAX Secure;
            proxy_cookie_flags c samesite=none;
            proxy_cookie_flags d nosecure nohttponly nosamesite;
            proxy_cookie_flags e secure nosecure;
            proxy_cookie_flags f samesite=lax samesite=none nosamesite;
            proxy_cookie_flags nothing "";
            proxy_cookie_flags ~^PRE_(.*)$ $1 secure;
            proxy_cookie_flags $http_x_name $http_x_flag bogus "";
        }
        location /all/ {
            proxy_pass http://127.0.0.1:ORIGIN;
            proxy_cookie_domain ~. localhost;
            proxy_cookie_path / /all/;
            proxy_cookie_flags ~ secure;
            location /all/off/ {
                proxy_pass http://127.0.0.1:ORIGIN;
                proxy_cookie_domain off;
                proxy_cookie_path off;
                proxy_cookie_flags off;
            }
            location /all/flags/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_cookie_flags off; }
            location /all/if/ { if ($arg_x = "") { proxy_pass http://127.0.0.1:ORIGIN; } return 204; }
            location /all/hidden/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_hide_header Set-Cookie; }
        }
    }
"#;

#[test]
fn cookies() {
    let origin = Origin::start(baked);
    let site = Site::new(&COOKIES.replace("ORIGIN", &origin.address().port().to_string()));
    let agree_on = |cases: &[&str]| agree(&site, cases);
    agree_on(&[
        "GET /?a=b;+Path=/http/x;+Secure",
        "GET /?inherited=b;Path=/http/",
        "GET /?a=b;+Path=/x",
        "GET /own/?a=b;+Path=/one/x",
        "GET /own/?a=b;path=/two/x;PATH=/one/",
        "GET /own/?a=b;+Path=/Case/x|c=d;+Path=/case/x|e",
        "GET /own/?a=b;+Path=/ANY/x/y",
        "GET /own/?a=b;+Path=/localhost/x",
        "GET /own/?a=b;+Path=/x/middle/y",
        "GET /own/?a=b;+Path=/http/x",
        "GET /own/?a=b;+Path=",
        "GET /own/?a=b;+Path",
        "GET /own/?a;+Path=/one/",
        "GET /own/?a=;+Path=/one/;",
        "GET /own/?;+Path=/one/",
        "GET /own/?++a++=++b+c++;++Path++=++/one/+;+;x+=+y=z",
        "GET /own/?Path=/one/;+Domain=/one/",
        "GET /prefix/?session=x;+Path=/;+HttpOnly|other=y;+Path=/wiki",
        "GET /domain/?a=b;+Domain=BACKEND.example",
        "GET /domain/?a=b;+Domain=.backend.example;+Path=/",
        "GET /domain/?a=b;+Domain=www.backend.example",
        "GET /domain/?a=b;+Domain=.Dotted.localhost\nX-Domain: .given",
        "GET /domain/?a=b;+domain=dotted.localhost",
        "GET /domain/?a=b;+domain=x.COM|c=d;+domain=.y.com",
        "GET /domain/?a=b;+domain=.",
        "GET /domain/?a=b;+domain=",
    ]);
    agree_on(&[
        "GET /flags/?a=b",
        "GET /flags/?A=b;SECURE;httponly;samesite=STRICT",
        "GET /flags/?a=b;+SameSite=Lax;+Path=/|b=c|B=d;+samesite|x=y",
        "GET /flags/?c=x;+Max-Age=1;+SameSite=none;+SameSite=lax",
        "GET /flags/?d=x;+Secure;+HttpOnly;+SameSite=Lax;+Path=/",
        "GET /flags/?d=x;Secure=1;httponly=2;samesite",
        "GET /flags/?d",
        "GET /flags/?e=x;+Secure;+secure",
        "GET /flags/?e=x",
        "GET /flags/?f=x;samesite=strict;samesite=strict;samesite=strict",
        "GET /flags/?f=x",
        "GET /flags/?nothing=x;y",
        "GET /flags/?pre_httponly=x|Pre_nothing=x",
        "GET /flags/?mine=x\nX-Name: MINE\nX-Flag: samesite=none",
        "GET /flags/?mine=x;y\nX-Name: mine",
        "GET /flags/?=x",
        "GET /all/?a=b;+Domain=x;+Path=/|c=d",
        "GET /all/accel?a=b;+Domain=x;+Path=/",
        "GET /all/off/?a=b;+Domain=x;+Path=/",
        "GET /all/flags/?a=b;+Domain=x;+Path=/",
        "GET /all/if/?a=b;+Domain=x;+Path=/",
        "GET /all/hidden/?a=b;+Domain=x;+Path=/",
        "GET /all/hidden/accel?a=b;+Domain=x;+Path=/",
        "HEAD /all/?a=b;+Domain=x;+Path=/",
    ]);
}

#[test]
fn mistakes_about_cookies() {
    for directives in [
        "proxy_cookie_path on;",
        "proxy_cookie_path off; proxy_cookie_path / /x;",
        "proxy_cookie_path / /x; proxy_cookie_path off;",
        "proxy_cookie_path a b c;",
        "proxy_cookie_domain on;",
        "proxy_cookie_domain off; proxy_cookie_domain off;",
        "proxy_cookie_flags a;",
        "proxy_cookie_flags a b c d e;",
        "proxy_cookie_flags off; proxy_cookie_flags a secure;",
        "proxy_redirect off; proxy_redirect / /x;",
        "proxy_redirect / /x; proxy_redirect off;",
        "if ($arg_x) { proxy_cookie_path / /x; }",
    ] {
        agree_on_mistake(&Site::new(&format!(
            "server {{ listen 127.0.0.1:%%PORT%%; location / {{ proxy_pass http://127.0.0.1:1; {directives} }} }}"
        )));
    }
}

/// Answers whose heads are odd.
const ODD: [&str; 38] = [
    "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 599 Odd One\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 999 Very Odd\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 200 \u{e9}t\u{e9}\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 200 OK\nContent-Length: 1\n\na",
    "HTTP/1.1 200 OK\r\nX-Empty:\r\nX-Blank:   \r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 200 OK\r\nx-lower: 1\r\nX-UPPER: 2\r\ncontent-length: 1\r\n\r\na",
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Type: text/html\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0001\r\na\r\n000\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na",
    "HTTP/1.1 302 Found\r\nLocation: /relative\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 302 Found\r\nLocation: relative\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 302 Found\r\nLocation: http://backend:81/x\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 302 Found\r\nLocation:\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nLocation: http://backend/x\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 200 OK\r\nRefresh: 5; url=http://backend/x\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 201 Created\r\nLocation: http://backend/made\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 200 OK\r\nX-Accel-Expires: 5\r\nX-Accel-Buffering: no\r\nX-Accel-Charset: koi8-r\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 200 OK\r\nX-Accel-Redirect:\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 200 OK\r\nStatus: 404\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 200 OK\r\nWWW-Authenticate: a\r\nWWW-Authenticate: b\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-0/9\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 416 No\r\nContent-Range: bytes */9\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nETag: bad\r\nLast-Modified: never\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nCache-Control: private\r\nExpires: 0\r\nPragma: x\r\nContent-Length: 1\r\n\r\na",
    "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\na",
    "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\na",
    "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\na",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\na",
    "HTTP/1.1 502 Own\r\nContent-Length: 3\r\n\r\nown",
];

#[test]
fn odd_answers() {
    let origin = Origin::start(|asked| {
        let number = asked.target.rsplit('/').next().unwrap_or_default();
        let text = ODD[number.parse::<usize>().unwrap_or_default()];
        raw(text, if asked.target.contains("/keep/") { After::Keep } else { After::Close })
    });
    let requests: Vec<String> = (0..ODD.len())
        .flat_map(|at| [format!("GET /keep/{at}"), format!("GET /streamed/{at}"), format!("HEAD /keep/{at}")])
        .collect();
    // Without the log: to nginx the status of an interim response is the server's.
    agree_with_logs(&site(&origin), &requests.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
}

#[test]
fn odd_requests() {
    let origin = Origin::start(answer);
    let long = format!("GET /{}?{}", "a/".repeat(1500), "b=c&".repeat(700));
    let fields = format!("GET /x\n{}", (0..80).map(|n| format!("X-{n}: {n}\n")).collect::<String>());
    agree(
        &site(&origin),
        &[
            &long,
            fields.trim_end(),
            "GET http://localhost/absolute?x=1",
            "GET http://other.example:8080/a/absolute\nHost: localhost",
            "GET HTTP://LOCALHOST/a/%41",
            "GET /a//b///c",
            "GET //a//b",
            "GET /a/./b/../c%2e",
            "GET /a/%2e%2e/x",
            "GET /a/b%2f%2e%2e%2fc",
            "GET /a/%e4%b8%ad?q=%e4",
            "GET /a/b;c=d,e@f:g!h$i'(j)*+k~",
            "GET /a/\"quoted\"<x>",
            "GET /a/\"quoted\"<x>?b=%20",
            "GET /a/%22quoted%22%3Cx%3E%7C",
            "GET /?",
            "GET /a/?",
            "GET /a/?%",
            "GET /a/x??y?z",
            "GET /set/\nX-Forwarded-For: a\nX-Forwarded-For: b",
            "GET /set/\nHost: UPPER.example:99",
            "GET /x\nHost: UPPER.example:99",
            "GET /x\nX-Empty:\nX-Two: 1\nX-Two: 2\nx-two: 3",
            "GET /x\nCookie: a=b\nCookie: c=d",
            "GET /x\nX_Under: 1\nX.Dot: 2",
            "GET /x\nUpgrade: websocket",
            "GET /x\nConnection: Upgrade\nUpgrade: websocket",
            "GET /x\nAuthorization: Basic eA==\nProxy-Authorization: Basic eQ==",
            "GET /x\nRange: bytes=0-1\nIf-Range: \"x\"\nIf-Modified-Since: never\nIf-None-Match: *",
            "GET /x\nForwarded: for=1.2.3.4\nVia: 1.1 a\nMax-Forwards: 0",
            "GET /x\nContent-Type: a/b\nContent-Length: 0",
            "GET /x HTTP/1.0",
            "GET /old/x HTTP/1.0",
            "POST /x HTTP/1.0\n\nhello",
            "POST /old/x\n\nhello",
            "GET /x\n\nbody of a GET",
            "DELETE /x\n\nbody",
            "PROPFIND /x\nDepth: 0",
            "lower /x",
            "PATCH /body/x\n\nlonger than the new one",
            "POST /nofields/x\nContent-Type: a/b\n\nbody",
        ],
    );
}

/// Answers for `what_is_asked_of_whom`, by the name at the end of the path; all with a content that has validators.
const RELAYED: [(&str, &str); 15] = [
    (
        "tagged",
        "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nLast-Modified: Tue, 02 Jan 2024 03:04:05 GMT\r\n\
         Content-Type: text/plain\r\nContent-Length: 4\r\n\r\ntext",
    ),
    ("plain", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntext"),
    ("file", "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /internal/file\r\nContent-Length: 0\r\n\r\n"),
    ("gone", "HTTP/1.1 404 Gone Away\r\nETag: \"e\"\r\nContent-Length: 4\r\n\r\ngone"),
    ("untyped", "HTTP/1.1 200 OK\r\nContent-Type:\r\nContent-Length: 4\r\n\r\ntext"),
    ("blank", "HTTP/1.1 200 OK\r\nContent-Type:  \r\nContent-Length: 4\r\n\r\ntext"),
    (
        "untypedfile",
        "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /internal/a.txt\r\nContent-Type:\r\nContent-Length: 0\r\n\r\n",
    ),
    ("none", "HTTP/1.1 204 None\r\nContent-Type: text/plain\r\nX-A: b\r\n\r\n"),
    (
        "nonedated",
        "HTTP/1.1 204 No Content\r\nLast-Modified: Tue, 02 Jan 2024 03:04:05 GMT\r\n\
         Content-Type: text/plain; charset=x\r\n\r\n",
    ),
    ("wordless", "HTTP/1.1 204\r\nContent-Type: a/b\r\n\r\n"),
    ("oddreason", "HTTP/1.1 200 X\r\nContent-Type: a/b\r\nContent-Length: 4\r\n\r\ntext"),
    ("basic", "HTTP/1.1 403 No\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 2\r\n\r\nno"),
    (
        "basics",
        "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"x\"\r\nWWW-Authenticate: Digest realm=\"y\"\r\n\
         Content-Length: 2\r\n\r\nno",
    ),
    (
        "typednamed",
        "HTTP/1.1 200 OK\r\nX-Accel-Redirect: @named\r\nContent-Type: x/y\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "typeduri",
        "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /said\r\nContent-Type: x/y\r\nContent-Length: 0\r\n\r\n",
    ),
];

fn relayed(asked: &Asked) -> Reply {
    let name = asked.target.rsplit('/').next().unwrap_or_default();
    let found = RELAYED.iter().find(|(known, _)| *known == name);
    raw(found.map_or("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", |(_, text)| text), After::Keep)
}

/// A configuration with the places that `RELAYED` is asked for at.
fn relaying(origin: &Origin) -> Site {
    let configuration = r#"
        log_format sent '$status type=$sent_http_content_type length=$sent_http_content_length';
        access_log %%LOGS%%/access.log sent;
        upstream backend { server 127.0.0.1:ORIGIN; }
        server {
            listen 127.0.0.1:%%PORT%%;
            default_type application/octet-stream;
            location / { proxy_pass http://backend; }
            location /streamed/ { proxy_pass http://backend; proxy_buffering off; }
            location /charset/ { proxy_pass http://backend; charset utf-8; }
            location /named/ { error_page 403 @proxy; return 403; }
            location /named200/ { error_page 403 =200 @proxy; return 403; }
            location /named204/ { error_page 403 =204 @proxy; return 403; }
            location /namedown/ { error_page 403 = @proxy; return 403; }
            location @proxy { proxy_pass http://backend; }
            location /page/ { error_page 403 /tagged; return 403; }
            location /page200/ { error_page 403 =200 /oddreason; return 403; }
            location /page404/ { error_page 404 /gone; return 404; }
            location /pageown/ { error_page 403 = /oddreason; return 403; }
            location /intercept/ {
                proxy_pass http://backend;
                proxy_intercept_errors on;
                error_page 401 403 404 /internal/file;
            }
            location /intercept200/ {
                proxy_pass http://backend;
                proxy_intercept_errors on;
                error_page 401 403 404 =200 /internal/file;
            }
            location /internal/ { internal; alias %%ROOT%%/; types { text/plain txt; } }
            location /return204 { return 204; }
            location /return204text { return 204 text; }
            location /said { return 200 said; }
            location @named { return 200 named; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            proxy_pass_header Server;
            location / { proxy_pass http://backend; }
            location /date/ { proxy_pass http://backend; proxy_pass_header Date; }
            location /named/ { error_page 403 @proxy; return 403; }
            location @proxy { proxy_pass http://backend; }
            location /intercept/ {
                proxy_pass http://backend;
                proxy_intercept_errors on;
                error_page 404 /internal/file;
            }
            location /internal/ { internal; alias %%ROOT%%/; }
        }
    "#;
    let port = origin.address().port().to_string();
    Site::new(&configuration.replace("ORIGIN", &port)).file("file", "the file\n").file("a.txt", "a text\n")
}

/// Conditions of a request are for the server that has the content; its answer is passed on.
#[test]
fn conditions_are_for_the_other_server() {
    let origin = Origin::start(relayed);
    let mut requests = Vec::new();
    for condition in [
        "If-None-Match: *",
        "If-None-Match: \"e\"",
        "If-Match: \"e\"",
        "If-Match: \"f\"",
        "If-Match: *",
        "If-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
        "If-Modified-Since: Tue, 02 Jan 2024 03:04:06 GMT",
        "If-Unmodified-Since: Tue, 02 Jan 2024 03:04:04 GMT",
        "If-Unmodified-Since: Tue, 02 Jan 2024 03:04:06 GMT",
        "If-None-Match: \"e\"\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
    ] {
        for asked in [
            "GET /tagged",
            "HEAD /tagged",
            "PUT /tagged",
            "GET /plain",
            "GET /streamed/tagged",
            "GET /named200/tagged",
            "GET /namedown/tagged",
            "GET /pageown/",
            "GET /gone",
            "GET /file",
            "HEAD /file",
            "GET /intercept/gone",
            "GET /intercept200/gone",
            "GET /said",
        ] {
            requests.push(format!("{asked}\n{condition}\nConnection: close"));
        }
        requests.push(format!("POST /tagged\n{condition}\nConnection: close\n\nhello"));
    }
    agree(&relaying(&origin), &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn types_of_answers() {
    let origin = Origin::start(relayed);
    agree(
        &relaying(&origin),
        &[
            "GET /untyped",
            "GET /streamed/untyped",
            "GET /charset/untyped",
            "GET /blank",
            "HEAD /untyped",
            "GET /untypedfile",
            "GET /typednamed",
            "GET /typeduri",
            "HEAD /typednamed",
            "GET /said",
            "GET /none",
            "HEAD /none",
            "GET /streamed/none",
            "GET /charset/none",
            "GET /nonedated",
            "GET /charset/nonedated",
            "GET /wordless",
            "GET /namedown/none",
            "GET /named200/none",
            "GET /named204/tagged",
            "GET /named204/none",
            "GET /return204",
            "HEAD /return204",
            "GET /return204text",
        ],
    );
}

#[test]
fn reasons_and_fields_of_answers() {
    let origin = Origin::start(relayed);
    let site = relaying(&origin);
    agree(
        &site,
        &[
            "GET /oddreason",
            "GET /page200/",
            "GET /page404/",
            "GET /pageown/",
            "GET /page/",
            "GET /named/oddreason",
            "GET /named200/oddreason",
            "GET /namedown/oddreason",
            "GET /namedown/gone",
            "GET /named/gone",
            "GET /intercept/basic",
            "GET /intercept/basics",
            "GET /intercept200/basic",
            "GET /intercept200/basics",
            "GET /basics",
        ],
    );
    agree(
        &site,
        &[
            (1, "GET /plain"),
            (1, "HEAD /plain"),
            (1, "GET /date/plain"),
            (1, "GET /none"),
            (1, "GET /gone"),
            (1, "GET /file"),
            (1, "GET /named/plain"),
            (1, "GET /intercept/gone"),
            (1, "GET /plain HTTP/1.0"),
        ],
    );
}

#[test]
fn addresses_that_are_configured_elsewhere_need_no_resolver() {
    let site = Site::new(
        "server {
            listen 127.0.0.1:%%PORT%%;
            listen [::1]:%%PORT%%;
            location / { proxy_pass http://localhost:%%PORT%%/stub; }
            location /var { proxy_pass http://$arg_b/stub; }
            location /ip { proxy_pass http://127.0.0.1:%%PORT%%/stub; }
            location /stub { return 200 '$uri $http_host'; }
        }",
    );
    agree(
        &site,
        &[
            "GET /",
            "GET /var?b=localhost:%%PORT%%",
            "GET /var?b=LOCALHOST:%%PORT%%",
            "GET /var?b=127.0.0.1:%%PORT%%",
            "GET /var?b=localhost",
            "GET /var?b=localhost:1",
        ],
    );
}

#[test]
fn fields_about_upgrades_expiry_and_cookies() {
    let origin = Origin::start(|asked| {
        let fields = match asked.target.as_str() {
            "/upgrade" => "Upgrade: a/1\r\nConnection: upgrade",
            "/expires" => "Expires: foo\r\nExpires: bar",
            "/tab" => "Set-Cookie: a\t=\tb",
            "/spaces" => "Set-Cookie: A =  b c  ; d",
            "/empty" => "Set-Cookie: a=\r\nSet-Cookie: a=b",
            "/late" => "Set-Cookie: x=y; a=b\r\nSet-Cookie: a=second",
            "/longer" => "Set-Cookie: ab=c",
            _ => "X-A: b",
        };
        raw(&format!("HTTP/1.1 426 Other\r\n{fields}\r\nContent-Length: 0\r\n\r\n"), After::Keep)
    });
    let configuration = "server {
            listen 127.0.0.1:%%PORT%%;
            location / { proxy_pass http://127.0.0.1:ORIGIN; add_header X-Cookie <$upstream_cookie_a> always; }
        }";
    let site = Site::new(&configuration.replace("ORIGIN", &origin.address().port().to_string()));
    agree(
        &site,
        &[
            "GET /upgrade",
            "GET /upgrade HTTP/1.0",
            "GET /expires",
            "GET /tab",
            "GET /spaces",
            "GET /empty",
            "GET /late",
            "GET /longer",
        ],
    );
}
