//! `add_header`, `expires`, `types` and `default_type`.

use tests::differential::agree;
use tests::site::Site;

#[test]
fn add_header() {
    let site = Site::new(
        r#"
        add_header X-Http http;
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            root %%ROOT%%;
            location /inherited { return 200 x; }
            location /own { add_header X-Own own; add_header X-Own twice; return 200 x; }
            location /empty { add_header X-Empty ""; add_header X-Var $arg_x; return 200 x; }
            location /always { add_header X-Always yes always; add_header X-Not yes; return 404; }
            location /always200 { add_header X-Always yes always; return 200 x; }
            location /nested/ {
                add_header X-Outer outer;
                location /nested/inherits { return 200 x; }
                location /nested/replaces { add_header X-Inner inner; return 200 x; }
            }
            location /special {
                add_header Cache-Control "public";
                add_header Cache-Control "max-age=3";
                add_header ETag "\"own\"";
                add_header Link "<a>";
                add_header Content-Language de;
            }
            location /modified { add_header Last-Modified "Mon, 01 Jan 2024 00:00:00 GMT"; }
            location /unmodified { add_header Last-Modified ""; }
            location /redirect { add_header X-R r; return 302 /x; }
            location /code/201 { add_header X-C c; return 201; }
            location /code/204 { add_header X-C c; return 204; }
            location /code/206 { add_header X-C c; return 206; }
            location /code/303 { add_header X-C c; return 303 /; }
            location /code/304 { add_header X-C c; return 304; }
            location /code/307 { add_header X-C c; return 307 /; }
            location /code/308 { add_header X-C c; return 308 /; }
            location /code/202 { add_header X-C c; return 202; }
            location /code/400 { add_header X-C c; return 400; }
            location /case { add_header x-LoWeR "a, b;c=\"d\""; return 200 x; }
        }
        "#,
    )
    .file("special", "s\n")
    .file("modified", "m\n")
    .file("unmodified", "u\n");
    agree(
        &site,
        &[
            "GET /inherited",
            "GET /own",
            "GET /empty",
            "GET /empty?x=1",
            "GET /empty?x=%0d%0a",
            "GET /always",
            "GET /always200",
            "GET /nested/inherits",
            "GET /nested/replaces",
            "GET /special",
            "GET /modified",
            "GET /modified\nIf-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT",
            "GET /unmodified",
            "GET /redirect",
            "GET /code/201",
            "GET /code/202",
            "GET /code/204",
            "GET /code/206",
            "GET /code/303",
            "GET /code/304",
            "GET /code/307",
            "GET /code/308",
            "GET /code/400",
            "GET /case",
            "HEAD /own",
            "GET /none",
            "GET /special\nIf-None-Match: \"65937d25-2\"",
            "GET /special\nRange: bytes=0-0",
        ],
    );
}

#[test]
fn inherit_merge() {
    let site = Site::new(
        r#"
        add_header X-Http http;
        server {
            listen 127.0.0.1:%%PORT%%;
            location /merge { add_header_inherit merge; add_header X-Own own; return 200 x; }
            location /off { add_header_inherit off; return 200 x; }
            location /on { add_header_inherit on; add_header X-Own own; return 200 x; }
        }
        "#,
    );
    agree(&site, &["GET /merge", "GET /off", "GET /on"]);
}

#[test]
fn add_trailer() {
    let site = Site::new(
        r#"
        log_format trailers "$request $status $sent_trailer_x_outer $sent_trailer_x_own";
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            access_log %%LOGS%%/access.log trailers;
            add_trailer X-Outer outer;
            add_trailer X-Ranges $sent_http_accept_ranges;
            add_trailer X-Outer-Seen $sent_trailer_x_outer;
            add_trailer X-Always $status always;
            location /merge.txt { add_trailer_inherit merge; add_trailer X-Own own; }
            location /off.txt { add_trailer_inherit off; }
            location /own.txt { add_trailer X-Own "$host:$arg_a"; }
            location /none.txt { add_trailer X-None ""; }
            location /unchunked.txt { chunked_transfer_encoding off; }
            location /return { return 200 text; }
            location /empty { return 200; }
            location /moved { return 301 /; }
            location /gone { return 410; }
            location /page { error_page 404 /outer.txt; }
            location /changed { error_page 404 =200 /outer.txt; }
            location /if.txt { if ($arg_a) { add_trailer X-If $arg_a; } }
            location /listed/ { autoindex on; autoindex_format json; add_trailer X-Listed yes; }
        }
        "#,
    )
    .file("outer.txt", "outer\n")
    .file("merge.txt", "merge\n")
    .file("off.txt", "off\n")
    .file("own.txt", "own\n")
    .file("none.txt", "none\n")
    .file("unchunked.txt", "unchunked\n")
    .file("if.txt", "if\n")
    .file("void.txt", "")
    .file("listed/a", "");
    agree(
        &site,
        &[
            "GET /outer.txt",
            "GET /outer.txt HTTP/1.0",
            "HEAD /outer.txt",
            "GET /outer.txt\nRange: bytes=0-1",
            "GET /outer.txt\nRange: bytes=9-",
            "GET /outer.txt\nIf-None-Match: *",
            "GET /merge.txt",
            "GET /off.txt",
            "GET /own.txt?a=b",
            "GET /own.txt",
            "GET /none.txt",
            "GET /unchunked.txt",
            "GET /return",
            "GET /empty",
            "GET /moved",
            "GET /gone",
            "GET /nowhere",
            "GET /page",
            "GET /changed",
            "GET /if.txt?a=1",
            "GET /if.txt",
            "GET /void.txt",
            "GET /listed/",
        ],
    );
}

#[test]
fn expires() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            try_files /file.html =404;
            location /hour { expires 1h; }
            location /zero { expires 0; }
            location /negative { expires -1; }
            location /negativehour { expires -1h; }
            location /compound { expires 1d12h; }
            location /plus { expires +30m; }
            location /month { expires 1M; }
            location /year { expires 1y; }
            location /week { expires 2w; }
            location /epoch { expires epoch; }
            location /max { expires max; }
            location /off { expires off; }
            location /modified { expires modified +1h; }
            location /modifiedlong { expires modified 20y; }
            location /modifiedminus { expires modified -1h; }
            location /daily { expires @15h30m; }
            location /midnight { expires @0; }
            location /variable { expires $arg_e; }
            location /error { expires 1h; return 404; }
            location /text { expires 1h; return 200 text; }
            location /redirect { expires 1h; return 302 /; }
            location /nocontent { expires 1h; return 204; }
            location /created { expires 1h; return 201; }
            location /both { expires 1h; add_header Cache-Control public; }
            location /outer/ { expires 1h; location /outer/off { expires off; } location /outer/in { } }
        }
        "#,
    )
    .file("file.html", "f\n");
    agree(
        &site,
        &[
            "GET /hour",
            "GET /zero",
            "GET /negative",
            "GET /negativehour",
            "GET /compound",
            "GET /plus",
            "GET /month",
            "GET /year",
            "GET /week",
            "GET /epoch",
            "GET /max",
            "GET /off",
            "GET /modified",
            "GET /modifiedlong",
            "GET /modifiedminus",
            "GET /daily",
            "GET /midnight",
            "GET /variable?e=1h",
            "GET /variable?e=max",
            "GET /variable?e=epoch",
            "GET /variable?e=off",
            "GET /variable?e=rubbish",
            "GET /variable",
            "GET /error",
            "GET /text",
            "GET /redirect",
            "GET /nocontent",
            "GET /created",
            "GET /both",
            "GET /outer/off",
            "GET /outer/in",
            "GET /hour\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
            "GET /hour\nRange: bytes=0-0",
            "HEAD /hour",
        ],
    );
}

#[test]
fn types() {
    let site = Site::new(
        r#"
        types {
            text/html html htm;
            text/plain txt;
            image/png PNG;
            application/x-tar tar;
        }
        default_type application/octet-stream;
        charset_types text/x;
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location /own/ { types { application/own txt; } default_type text/own; }
            location /none/ { types { } }
            location /untyped/ { types { } default_type ""; }
            location /default/ { default_type "text/x; charset=utf-8"; }
            location /outer/ {
                types { text/outer txt; }
                location /outer/inner/ { default_type text/inner; }
            }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            root %%ROOT%%;
        }
        "#,
    )
    .file("a.html", "a")
    .file("a.HTML", "a")
    .file("a.tar.gz", "a")
    .file("a.png", "a")
    .file("noextension", "a")
    .file(".html", "a")
    .file("dot.dir/file", "a")
    .file("trailing.", "a")
    .file("a.html.txt", "a")
    .file("own/a.txt", "a")
    .file("own/a.html", "a")
    .file("none/a.html", "a")
    .file("untyped/a.html", "a")
    .file("default/a.bin", "a")
    .file("outer/a.txt", "a")
    .file("outer/inner/a.txt", "a")
    .file("outer/inner/a.html", "a");
    agree(
        &site,
        &[
            (0, "GET /a.html"),
            (0, "GET /a.HTML"),
            (0, "GET /a.tar.gz"),
            (0, "GET /a.png"),
            (0, "GET /noextension"),
            (0, "GET /.html"),
            (0, "GET /dot.dir/file"),
            (0, "GET /trailing."),
            (0, "GET /a.html.txt"),
            (0, "GET /own/a.txt"),
            (0, "GET /own/a.html"),
            (0, "GET /none/a.html"),
            (0, "GET /untyped/a.html"),
            (0, "GET /default/a.bin"),
            (0, "GET /outer/a.txt"),
            (0, "GET /outer/inner/a.txt"),
            (0, "GET /outer/inner/a.html"),
            (0, "GET /missing.txt"),
            (1, "GET /a.html"),
            (1, "GET /noextension"),
            (1, "GET /a.png"),
            (1, "GET /a.html.txt"),
        ],
    );
}

#[test]
fn server_tokens() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location /on { server_tokens on; }
            location /off { server_tokens off; }
        }
        "#,
    );
    agree(&site, &["GET /on", "GET /off", "GET /%", "GET /on HTTP/1.0"]);
}
