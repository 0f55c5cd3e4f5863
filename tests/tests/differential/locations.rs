//! `location`: which one is chosen, and what it is matched against.

use tests::differential::agree;
use tests::site::Site;

#[test]
fn precedence() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            location / { return 200 "root"; }
            location = / { return 200 "exact root"; }
            location = /exact { return 200 "exact"; }
            location /exact { return 200 "prefix of exact"; }
            location /long { return 200 "long"; }
            location /longer { return 200 "longer"; }
            location ^~ /images/ { return 200 "no regex"; }
            location ~ \.(gif|png)$ { return 200 "first regex $1"; }
            location ~ \.png$ { return 200 "second regex"; }
            location ~* \.JPE?G$ { return 200 "caseless"; }
            location ~ ^/(?<first>[a-z]+)-(\d+)$ { return 200 "$first $2 $1"; }
            location /Case { return 200 "case"; }
            location /with%20percent { return 200 "literal percent"; }
            location "/with space" { return 200 "space"; }
            location /slash/ { return 200 "slash"; }
        }
        "#,
    );
    agree(
        &site,
        &[
            "GET /",
            "GET /index",
            "GET /exact",
            "GET /exact/",
            "GET /exactly",
            "GET /lon",
            "GET /longe",
            "GET /longer/x",
            "GET /images/a.png",
            "GET /imagesa.png",
            "GET /a.png",
            "GET /a.gif?x.png",
            "GET /a.png/",
            "GET /a.PNG",
            "GET /a.jpg",
            "GET /a.JpEg",
            "GET /word-42",
            "GET /Word-42",
            "GET /case",
            "GET /Case",
            "GET /with%20percent",
            "GET /with%2520percent",
            "GET /with%20space/x",
            "GET /slash",
            "GET /slash/",
            "GET /a.p%6Eg",
            "GET /a.png%0a",
            "HEAD /exact",
        ],
    );
}

#[test]
fn nested() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            location /a/ {
                return 200 "a";
                location /a/b/ { return 200 "a b"; }
                location = /a/b/exact { return 200 "a b exact"; }
                location ~ \.txt$ { return 200 "a regex"; }
            }
            location ^~ /quiet/ {
                return 200 "quiet";
                location ~ \.txt$ { return 200 "quiet regex"; }
                location ^~ /quiet/deep/ { return 200 "quiet deep"; }
            }
            location ~ ^/r/ {
                location ~ one { return 200 "r one"; }
                location ~ two { return 200 "r two"; }
                return 200 "r";
            }
            location ~ \.txt$ { return 200 "outer regex"; }
        }
        "#,
    );
    agree(
        &site,
        &[
            "GET /a/x",
            "GET /a/b/x",
            "GET /a/b/x.txt",
            "GET /a/b/exact",
            "GET /a/x.txt",
            "GET /quiet/x.txt",
            "GET /quiet/deep/x.txt",
            "GET /quiet/x",
            "GET /r/",
            "GET /r/one",
            "GET /r/two/one",
            "GET /r/two",
            "GET /x.txt",
            "GET /x",
        ],
    );
}

#[test]
fn named_and_internal() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            error_page 404 = @missing;
            location @missing { return 200 "named $uri"; }
            location /secret/ { internal; }
            location = /open { try_files /secret/file.txt =500; }
            location = /error { error_page 403 /secret/file.txt; return 403; }
            location /try/ { try_files $uri @missing; }
        }
        "#,
    )
    .file("secret/file.txt", "secret\n")
    .file("try/there", "there\n");
    agree(
        &site,
        &[
            "GET /nowhere",
            "GET /secret/file.txt",
            "GET /secret/none",
            "GET /open",
            "GET /error",
            "GET /try/there",
            "GET /try/not?x=y",
            "GET /@missing",
            "POST /nowhere\n\nbody",
        ],
    );
}

#[test]
fn normalised_before_matching() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            location / { return 200 "uri=$uri request=$request_uri args=$args is=$is_args"; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            merge_slashes off;
            location / { return 200 "uri=$uri request=$request_uri"; }
            location //two { return 200 "two"; }
        }
        server {
            listen 127.0.0.1:%%PORT_2%%;
            location / { return 200 "uri=$uri args=$args is=$is_args"; }
        }
        "#,
    );
    let paths = [
        "/a/./b",
        "/a/../b",
        "/a/b/..",
        "/a/b/.",
        "/a/b/../",
        "/..",
        "/../a",
        "/a/../../b",
        "/.a/..b/...",
        "//",
        "//a///b//",
        "/a//../b",
        "//two",
        "/a/%2e%2e/b",
        "/a/%2E/b",
        "/%2e%2e/b",
        "/a%2fb",
        "/a%2F..%2Fb",
        "/a%2F%2Fb",
        "/%61%62%20c",
        "/%00",
        "/a%00b",
        "/a%0d%0ab",
        "/%ff%fe",
        "/%252e",
        "/a%",
        "/a%4",
        "/a%zz",
        "/a%3fb?c%3fd",
        "/a?b?c",
        "/a?",
        "/a?b=%zz&%",
        "/a+b",
        "/a;b=c/..;/d",
        "/a\\..\\b",
        "/é",
        "/a'b\"c<d>e",
        "/?",
        "/.",
        "/./",
        "/...",
        "/a/.../b",
        "/a/..b/",
        "/a/.%2e/b",
    ];
    let requests: Vec<String> = paths.iter().map(|path| format!("GET {path} HTTP/1.1")).collect();
    let mut cases: Vec<(usize, &str)> =
        requests.iter().flat_map(|request| [(0, request.as_str()), (1, request.as_str())]).collect();
    // `$request_uri` differs: the manual says so.
    cases.extend(["GET /a#b HTTP/1.1", "GET /a?b#c HTTP/1.1", "GET /# HTTP/1.1"].map(|request| (2, request)));
    agree(&site, &cases);
}
