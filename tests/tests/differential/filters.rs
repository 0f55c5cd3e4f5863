//! What changes responses on their way: `charset`, `sub_filter`, `addition`, and the fields of headers-more; `mirror`.

use tests::binary::nginx_with;
use tests::differential::{agree, agree_on_mistake, agree_with_logs};
use tests::site::Site;

/// Compressed lengths differ, so that they are not logged.
const LOG: &str = "
    log_format lean '$request_method $request_uri|$status|$sent_http_content_type';
    access_log %%LOGS%%/access.log lean;";

/// Charsets: one byte for one byte, and to and from UTF-8.
const MAPS: &str = "
    charset_map B A { 58 59; 80 81; ff 20; }
    charset_map latin1 utf-8 { e4 c3a4; 80 E282AC; F6 C3B6; 41 C380; }
    types { text/html html; text/plain txt; text/css css; image/png png; }";

fn requests(paths: &[&str]) -> Vec<String> {
    let lines = |path: &&str| {
        ["", "\nRange: bytes=1-3", "\nAccept-Encoding: gzip", "\nIf-None-Match: *"]
            .map(|more| format!("GET {path}{more}"))
            .into_iter()
            .chain([format!("HEAD {path}"), format!("GET {path} HTTP/1.0"), format!("POST {path}\n\nbody")])
    };
    paths.iter().flat_map(lines).collect()
}

/// Each of these files at each of these places.
fn everywhere(places: &[&str], files: &[&str]) -> Vec<String> {
    places.iter().flat_map(|place| files.iter().map(move |file| format!("{place}{file}"))).collect()
}

fn compare(site: &Site, paths: &[&str]) {
    let requests = requests(paths);
    agree(site, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn charsets_that_are_named() {
    let site = Site::new(&format!(
        r#"
        {LOG}{MAPS}
        server {{
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            charset utf-8;
            location /types/ {{ alias %%ROOT%%/; charset_types text/css; }}
            location /any/ {{ alias %%ROOT%%/; charset_types *; }}
            location /off/ {{ alias %%ROOT%%/; charset off; }}
            location /variable/ {{ alias %%ROOT%%/; charset $arg_c; }}
            location /literal/ {{ alias %%ROOT%%/; charset a$b; }}
            location /if/ {{ alias %%ROOT%%/; if ($arg_c) {{ charset A; }} }}
            location /moved/ {{ return 301 /; }}
            location /found/ {{ default_type text/html; return 302 /; }}
            location /other/ {{ return 303 /; }}
            location /text/ {{ default_type "text/html"; return 200 text; }}
            location /none/ {{ default_type ""; return 200 text; }}
            location /named/ {{ default_type "text/html; charset=x"; return 200 text; }}
            location /gone/ {{ return 410; }}
            location /passed/ {{ charset A; proxy_pass http://127.0.0.1:%%PORT%%/; }}
            location /overridden/ {{
                charset A; override_charset on;
                proxy_pass http://127.0.0.1:%%PORT_1%%/;
            }}
            location /unmapped/ {{
                charset utf-8; override_charset on;
                proxy_pass http://127.0.0.1:%%PORT_1%%/;
            }}
        }}
        server {{
            listen 127.0.0.1:%%PORT_1%%;
            access_log off;
            root %%ROOT%%;
            charset B;
            location /a/ {{ alias %%ROOT%%/; charset a; }}
        }}
        "#
    ))
    .file("f.html", "XYZ html")
    .file("f.txt", "XYZ text")
    .file("f.css", "XYZ css")
    .file("f.png", "XYZ png");
    let mut paths = vec![
        "/moved/",
        "/found/",
        "/other/",
        "/text/",
        "/none/",
        "/named/",
        "/gone/",
        "/missing",
        "/variable/f.html?c=koi8-r",
        "/variable/f.html?c=",
        "/if/f.html?c=1",
        "/overridden/f.html",
        "/overridden/a/f.html",
        "/unmapped/f.html",
        "/passed/f.html",
    ];
    let files = ["f.html", "f.txt", "f.css", "f.png"];
    let all = everywhere(&["/", "/types/", "/any/", "/off/", "/literal/", "/if/"], &files);
    paths.extend(all.iter().map(String::as_str));
    compare(&site, &paths);
}

#[test]
fn content_is_recoded() {
    let bytes: Vec<u8> = (0..=255).collect();
    let text = "aAXäö€я𝄞 <b>ẞ</b> ".repeat(40);
    let broken = b"\x80 \xc3\xc3\xa4 \xe2\x82 \xe2\x82\xac \xc0\xaf \xf4\x90\x80\x80 \xff\xfe \xc3<p> \xed\xa0\x80 \xc3";
    let site = Site::new(&format!(
        r#"
        {LOG}{MAPS}
        server {{
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location /ba/ {{ alias %%ROOT%%/; charset A; source_charset B; }}
            location /ab/ {{ alias %%ROOT%%/; charset b; source_charset a; }}
            location /to/ {{ alias %%ROOT%%/; charset UTF-8; source_charset Latin1; }}
            location /from/ {{ alias %%ROOT%%/; charset latin1; source_charset utf-8; }}
            location /variable/ {{ alias %%ROOT%%/; charset $arg_to; source_charset $arg_from; }}
            location /gzip/ {{ alias %%ROOT%%/; charset A; source_charset B; gzip on; gzip_min_length 0; }}
            location /page/ {{ charset A; source_charset B; error_page 404 /x.html; }}
            location /made/ {{ charset utf-8; source_charset latin1; default_type text/html; return 200 "AXA"; }}
            location /passed/ {{ charset latin1; override_charset on; proxy_pass http://127.0.0.1:%%PORT_1%%/; }}
            location /source/ {{ charset A; source_charset B; proxy_pass http://127.0.0.1:%%PORT_1%%/plain/; }}
            location /accel/ {{ proxy_pass http://127.0.0.1:%%PORT_1%%/accel/; }}
            location /unknown/ {{ charset A; proxy_pass http://127.0.0.1:%%PORT_1%%/unknown/; }}
            location /ignored/ {{
                proxy_ignore_headers X-Accel-Charset;
                proxy_pass http://127.0.0.1:%%PORT_1%%/accel/;
            }}
        }}
        server {{
            listen 127.0.0.1:%%PORT_1%%;
            access_log off;
            root %%ROOT%%;
            charset utf-8;
            location /plain/ {{ alias %%ROOT%%/; charset off; }}
            location /accel/ {{ alias %%ROOT%%/; add_header X-Accel-Charset latin1; }}
            location /unknown/ {{ alias %%ROOT%%/; add_header X-Accel-Charset klingon; }}
        }}
        "#
    ))
    .file("bytes.html", &bytes)
    .file("bytes.png", &bytes)
    .file("text.html", &text)
    .file("broken.html", broken)
    .file("x.html", "X".repeat(99))
    .file("long.html", "Xä".repeat(50_000))
    .file("latin1.html", b"X\xe4\x80".repeat(50_000))
    .file("empty.html", "");
    let places = [
        "/ba/",
        "/ab/",
        "/to/",
        "/from/",
        "/gzip/",
        "/passed/",
        "/source/",
        "/accel/",
        "/unknown/",
        "/ignored/",
    ];
    let files = ["bytes.html", "bytes.png", "text.html", "broken.html", "x.html", "empty.html"];
    let all = everywhere(&places, &files);
    let mut paths: Vec<&str> = all.iter().map(String::as_str).collect();
    paths.extend([
        "/page/none",
        "/made/",
        "/variable/x.html?to=A&from=B",
        "/variable/x.html?to=A&from=A",
        "/variable/text.html?to=latin1&from=utf-8",
        "/variable/x.html?to=A&from=nothing",
        "/variable/x.html?to=nothing&from=nothing",
        "/variable/x.html?to=nothing&from=A",
        "/variable/x.html?to=utf-8&from=A",
    ]);
    compare(&site, &paths);
    agree(
        &site,
        &["GET /ba/long.html", "GET /to/latin1.html", "GET /from/long.html", "HEAD /from/long.html"],
    );
}

#[test]
fn charset_maps_that_are_wrong() {
    for text in [
        "charset_map utf-8 A { }",
        "charset_map A a { }",
        "charset_map A B { } charset_map B A { }",
        "charset_map A B { 58; }",
        "charset_map A B { 58 59 60; }",
        "charset_map A B { 158 59; }",
        "charset_map A B { 58 159; }",
        "charset_map A B { x 59; }",
        "charset_map A utf-8 { 58 41; }",
        "charset_map A utf-8 { 58 c3; }",
        "charset_map A utf-8 { 58 zzzz; }",
        "charset_map A utf-8 { 58 f0a48dad; }",
        "charset A; source_charset B;",
        "mirror off; mirror /a;",
        "mirror /a; mirror off;",
    ] {
        agree_on_mistake(&Site::new(&format!("{text} server {{ listen 127.0.0.1:%%PORT%%; }}")));
    }
}

#[test]
fn mirrored_requests() {
    let site = Site::new(
        r#"
        log_format copies "$uri?$args $request_method $request_uri $request_body $status";
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            access_log off;
            location / {
                mirror /copy;
                location /off { mirror off; }
            }
            location /two { mirror /copy/1; mirror /copy/2; }
            location /bodiless { mirror /copy; mirror_request_body off; }
            location /passed/ { mirror /copied; proxy_pass http://127.0.0.1:%%PORT_1%%/; }
            location /returned { mirror /copy; return 200 r; }
            location /denied { mirror /copy; deny all; }
            location /copy { internal; log_subrequest on; access_log %%LOGS%%/copies.log copies; }
            location /copied {
                internal;
                log_subrequest on;
                access_log %%LOGS%%/copies.log copies;
                proxy_pass http://127.0.0.1:%%PORT_2%%;
            }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            access_log off;
            location / { return 200 "passed on"; }
        }
        server {
            listen 127.0.0.1:%%PORT_2%%;
            access_log off;
            location / { proxy_pass http://127.0.0.1:%%PORT_1%%; }
        }
        "#,
    )
    .file("a", "a\n")
    .file("two", "two\n")
    .file("off", "off\n")
    .file("bodiless", "bodiless\n")
    .file("dir/index.html", "index\n");
    agree_with_logs(
        &site,
        &[
            "GET /a?x=1",
            "HEAD /a",
            "GET /dir/?y",
            "GET /missing",
            "GET /off",
            "GET /two",
            "GET /bodiless",
            "GET /passed/?z",
            "POST /passed/\n\nsome body",
            "PUT /passed/x\n\nabc",
            "GET /returned",
            "GET /denied",
            "GET /copy",
        ],
        &["access.log", "copies.log"],
    );
}

#[test]
fn requests_inside_of_the_server_keep_what_is_theirs() {
    let site = Site::new(
        r#"
        log_format told "$uri $proxy_host $upstream_status $upstream_http_x_from";
        charset_map koi8-r utf-8 { 80 e28094; }
        upstream app { server 127.0.0.1:%%PORT_1%%; }
        upstream first { server 127.0.0.1:%%PORT_2%%; }
        upstream second { server 127.0.0.1:%%PORT_3%%; }
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            access_log %%LOGS%%/access.log told;
            location /copied/ {
                mirror /first;
                mirror /second;
                proxy_pass http://app;
                proxy_redirect http://$proxy_host/ /;
            }
            location /first {
                internal;
                log_subrequest on;
                access_log %%LOGS%%/first.log told;
                proxy_pass http://first;
            }
            location /second {
                internal;
                log_subrequest on;
                access_log %%LOGS%%/second.log told;
                proxy_pass http://second;
            }
            location /page/ {
                alias %%ROOT%%/;
                default_type text/html;
                charset utf-8;
                auth_request /named;
            }
            location /named { internal; proxy_pass http://app; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            access_log off;
            location /copied/ { add_header X-From app; return 302 http://app/elsewhere; }
            location /named { add_header X-Accel-Charset koi8-r; return 204; }
        }
        server {
            listen 127.0.0.1:%%PORT_2%%;
            access_log off;
            location / { add_header X-From "first $http_content_length"; return 201 one; }
        }
        server {
            listen 127.0.0.1:%%PORT_3%%;
            access_log off;
            location / { add_header X-From second always; return 403 two; }
        }
        "#,
    )
    .file("page", "page\n");
    agree_with_logs(
        &site,
        &["GET /copied/a", "HEAD /copied/b", "POST /copied/c\n\nbody", "GET /page/page"],
        &["access.log", "first.log", "second.log"],
    );
}

#[test]
fn fields_set_and_taken_away() {
    let Some(nginx) = nginx_with(&["headers-more"]) else { return };
    let site = Site::new(
        r#"
        types { text/html html; text/plain txt; }
        more_set_headers "X-Http: http";
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            more_set_headers "X-Server: $host" "X-Empty: $arg_none";
            location /set/ {
                alias %%ROOT%%/;
                more_set_headers "X-Set:  spaces  " 'X-Http: other' 'ETag: "own"' "Cache-Control: no-store";
            }
            location /clear/ { alias %%ROOT%%/; more_clear_headers X-Http "x-ser*" ETag Last-Modified; }
            location /typed/ { alias %%ROOT%%/; more_set_headers -t "text/plain text/css" "X-Typed: yes"; }
            location /status/ { alias %%ROOT%%/; more_set_headers -s "404 206" -s 304 "X-Status: $status"; }
            location /both/ { alias %%ROOT%%/; more_set_headers -s 404 -t text/html "X-Both: yes"; }
            location /type/ { alias %%ROOT%%/; more_set_headers "Content-Type: a/b"; charset utf-8; }
            location /untyped/ { alias %%ROOT%%/; more_clear_headers Content-Type; }
            location /modified/ {
                alias %%ROOT%%/;
                more_set_headers "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT";
            }
            location /ranges/ { alias %%ROOT%%/; more_clear_headers Accept-Ranges; }
            location /added/ { alias %%ROOT%%/; add_header X-Http added; more_set_headers "X-Http: mine"; }
            location /moved { more_clear_headers Location; return 301 /x; }
            location /elsewhere { more_set_headers "Location: /y"; return 302 /x; }
            location /several/ {
                alias %%ROOT%%/;
                more_set_headers "X-A: 1" "X-B: 2";
                more_clear_headers X-A;
                more_set_headers "X-C: $sent_http_x_b";
            }
            location /if/ { alias %%ROOT%%/; if ($arg_a) { more_set_headers "X-If: $arg_a"; } }
            location /passed/ {
                more_clear_headers "X-Accel-*" "X-Http";
                proxy_pass http://127.0.0.1:%%PORT_1%%/;
            }
            location /input/ {
                more_set_input_headers "X-Asked: $arg_a" "Host: other" "User-Agent: mine";
                more_clear_input_headers "X-Gone-*" Cookie;
                proxy_set_header Host $http_host;
                proxy_pass http://127.0.0.1:%%PORT_1%%/;
            }
            location /replaced/ {
                more_set_input_headers -r "X-Asked: new";
                proxy_pass http://127.0.0.1:%%PORT_1%%/;
            }
            location /of-type/ {
                more_set_input_headers -t "text/plain" "X-Asked: plain";
                proxy_pass http://127.0.0.1:%%PORT_1%%/;
            }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            access_log off;
            location / {
                return 200 "$http_host|$http_x_asked|$http_user_agent|$http_cookie|$http_x_gone_a|$http_x_stays\n";
            }
        }
        "#,
    )
    .nginx(nginx)
    .file("f.html", "html\n")
    .file("f.txt", "text\n");
    let mut paths = vec!["/moved", "/elsewhere", "/if/f.html?a=1", "/passed/"];
    let places = [
        "/",
        "/set/",
        "/clear/",
        "/typed/",
        "/status/",
        "/both/",
        "/type/",
        "/untyped/",
        "/modified/",
        "/ranges/",
        "/added/",
        "/several/",
        "/if/",
    ];
    let all = everywhere(&places, &["f.html", "f.txt", "none.html"]);
    paths.extend(all.iter().map(String::as_str));
    compare(&site, &paths);
    agree(
        &site,
        &[
            "GET /input/?a=1",
            "GET /input/?a=1\nX-Asked: client\nX-Gone-A: a\nX-Stays: s\nCookie: c\nUser-Agent: u",
            "GET /replaced/",
            "GET /replaced/\nX-Asked: client\nX-Asked: twice",
            "POST /of-type/\nContent-Type: text/plain\n\nx",
            "POST /of-type/\nContent-Type: text/css\n\nx",
        ],
    );
}

#[test]
fn texts_replaced() {
    let Some(nginx) = nginx_with(&["--with-http_sub_module"]) else { return };
    let site = Site::new(&format!(
        r#"
        {LOG}
        types {{ text/html html; text/plain txt; }}
        server {{
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            sub_filter foo bar;
            sub_filter 'end' '[$arg_a]';
            location /all/ {{ alias %%ROOT%%/; sub_filter_once off; }}
            location /types/ {{ alias %%ROOT%%/; sub_filter_types text/plain; }}
            location /any/ {{ alias %%ROOT%%/; sub_filter_types *; sub_filter x ''; sub_filter_once off; }}
            location /kept/ {{ alias %%ROOT%%/; sub_filter_last_modified on; }}
            location /order/ {{ alias %%ROOT%%/; sub_filter abc 1; sub_filter ab 2; sub_filter_once off; }}
            location /shorter/ {{ alias %%ROOT%%/; sub_filter ab 2; sub_filter abc 1; sub_filter_once off; }}
            location /variable/ {{ alias %%ROOT%%/; sub_filter $arg_a '<$arg_b>'; sub_filter foo 1; }}
            location /nothing/ {{ alias %%ROOT%%/; sub_filter $arg_none 1; }}
            location /gzip/ {{ alias %%ROOT%%/; gzip on; gzip_min_length 0; }}
            location /charset/ {{ alias %%ROOT%%/; charset utf-8; }}
            location /page/ {{ error_page 404 /f.html; }}
            location /made/ {{ default_type text/html; return 200 "a Foo $arg_a"; }}
            location /passed/ {{ proxy_pass http://127.0.0.1:%%PORT_1%%/; }}
            location /gone/ {{ sub_filter center middle; return 410; }}
        }}
        server {{ listen 127.0.0.1:%%PORT_1%%; root %%ROOT%%; access_log off; }}
        "#
    ))
    .nginx(nginx)
    .file("f.html", "Foo foo the END fOo\n")
    .file("f.txt", "foo xx end\n")
    .file("abc.html", "abcab aabc abca\n")
    .file("empty.html", "")
    .file("long.html", "foo, and more of it that goes on; ".repeat(5000));
    let places = [
        "/",
        "/all/",
        "/types/",
        "/any/",
        "/kept/",
        "/order/",
        "/shorter/",
        "/variable/",
        "/nothing/",
        "/gzip/",
        "/charset/",
        "/passed/",
    ];
    let files = ["f.html?a=the", "f.txt?a=x", "abc.html", "empty.html", "none.html"];
    let all = everywhere(&places, &files);
    let mut paths: Vec<&str> = all.iter().map(String::as_str).collect();
    paths.extend(["/page/x", "/made/?a=end", "/made/", "/gone/"]);
    compare(&site, &paths);
    agree(&site, &["GET /all/long.html", "GET /long.html", "GET /gzip/long.html\nAccept-Encoding: gzip"]);
}

#[test]
fn content_added() {
    let Some(nginx) = nginx_with(&["--with-http_addition_module"]) else { return };
    let site = Site::new(
        r#"
        types { text/html html; text/plain txt; }
        log_format parts "$uri $request_uri $status";
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            log_subrequest on;
            access_log %%LOGS%%/access.log parts;
            add_before_body /part/before;
            add_after_body /part/after.txt;
            location /before/ { alias %%ROOT%%/; add_after_body ""; }
            location /none/ { alias %%ROOT%%/; add_after_body ""; add_before_body ""; }
            location /types/ { alias %%ROOT%%/; addition_types text/plain; }
            location /missing/ { alias %%ROOT%%/; add_before_body /part/nothing; }
            location /query/ { alias %%ROOT%%/; add_before_body /part/after.txt?a=b; }
            location /passed/ { proxy_pass http://127.0.0.1:%%PORT_1%%/; }
            location /parts/ { alias %%ROOT%%/; add_before_body /far/a; add_after_body /far/b; }
            location /far/ { internal; proxy_pass http://127.0.0.1:%%PORT_1%%; }
            location /gzip/ { alias %%ROOT%%/; gzip on; gzip_min_length 0; }
            location /redirected/ { alias %%ROOT%%/; add_after_body /part/moved; }
            location /denied/ { alias %%ROOT%%/; add_after_body /part/denied; }
            location /ranged/ { alias %%ROOT%%/; add_header ETag '"x"'; }
            location /tried/ { alias %%ROOT%%/; add_after_body /part/tried; }
            location /error/ { error_page 404 =200 /f.html; }
            location /created/ { default_type text/html; return 201 made; }
            location /made/ { default_type text/html; return 200 made; }
            location /part/ { root %%ROOT%%; }
            location /part/before { return 200 "before $request_uri $uri $request_method $args\n"; }
            location /part/moved { return 301 /elsewhere; }
            location /part/denied { deny all; }
            location /part/tried { try_files /nothing /part/before; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            access_log off;
            root %%ROOT%%;
            location /far/ { return 200 "far $request_uri $request_method\n"; }
        }
        "#,
    )
    .nginx(nginx)
    .file("f.html", "content\n")
    .file("f.txt", "text\n")
    .file("empty.html", "")
    .file("part/after.txt", "after\n")
    .file("long.html", "content that goes on, ".repeat(5000));
    let places = [
        "/",
        "/before/",
        "/none/",
        "/types/",
        "/missing/",
        "/query/",
        "/passed/",
        "/parts/",
        "/gzip/",
        "/redirected/",
        "/denied/",
        "/ranged/",
        "/tried/",
    ];
    let all = everywhere(&places, &["f.html?q", "f.txt", "empty.html", "no.html"]);
    let mut paths: Vec<&str> = all.iter().map(String::as_str).collect();
    paths.extend(["/created/", "/made/"]);
    compare(&site, &paths);
    let logs = ["access.log", "error.log"];
    agree_with_logs(
        &site,
        &["GET /error/x", "HEAD /error/x", "GET /missing/f.html", "GET /denied/f.html"],
        &logs,
    );
    agree(&site, &["GET /long.html", "GET /parts/long.html HTTP/1.0"]);
}
