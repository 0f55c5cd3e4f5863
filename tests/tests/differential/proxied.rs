//! `proxy_pass` in front of the same server.

use tests::differential::agree;
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
        log_format up '$status $upstream_addr $upstream_status';
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
            "GET /path%20x/%3Fy?q=%20&r#f",
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
            "POST /nobody/x\n\nhello",
            "GET /nofields/x\nX-A: b",
            "POST /body/x?y\n\nhello",
            "GET /fields",
            "HEAD /fields",
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
            "HEAD /accel",
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
            "GET /if/?x=1",
            "GET /if/",
            "GET /dies",
            "GET /twolengths",
            "GET /headerror",
        ],
    );
}
