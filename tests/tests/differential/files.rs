//! `root`, `alias`, `index` and `try_files`: from a URI to a file.

use tests::differential::{agree, agree_with_logs};
use tests::site::Site;

fn documents(site: Site) -> Site {
    site.file("index.html", "top\n")
        .file("a/index.html", "a index\n")
        .file("a/index.txt", "a text index\n")
        .file("a/file.txt", "a file\n")
        .file("b/other.htm", "b other\n")
        .file("empty.txt", "")
        .file("with space.txt", "spaced\n")
        .file("per%cent.txt", "percent\n")
        .file("ünïcode.txt", "unicode\n")
        .file("deep/er/file.txt", "deep\n")
        .file("fallback.html", "fallback\n")
        .dir("nothing")
        .link("link.txt", "a/file.txt")
        .link("broken.txt", "nowhere")
        .link("linked", "a")
        .link("up", "..")
}

#[test]
fn root_and_index() {
    let site = documents(Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            root %%ROOT%%;
            location /b/ { index none.html other.htm; }
            location /deep/ { root %%ROOT%%; index er/file.txt; }
            location /nothing/ { index /fallback.html; }
            location /a/sub/ { root %%ROOT%%/a; }
            location /relative { root html; try_files /a/file.txt =404; }
            location /var/ { root %%ROOT%%/$arg_dir; }
            location /linked/ { root %%ROOT%%/a/..; }
            location /b/deep/ { root %%ROOT%%/a/sub/../..; try_files /$arg_f /a/file.txt; }
        }
        "#,
    ))
    .file("a/a/sub/file.txt", "under sub\n")
    .file("deep/var/x.txt", "var\n");
    agree(
        &site,
        &[
            "GET /",
            "GET /index.html",
            "GET /a/",
            "GET /a",
            "GET /a?x=y",
            "GET /a/file.txt",
            "GET /a/file.txt/",
            "GET /a/file.txt/x",
            "GET /b/",
            "GET /b",
            "GET /deep/",
            "GET /nothing/",
            "GET /nothing",
            "GET /none",
            "GET /none/",
            "GET /a/sub/file.txt",
            "GET /relative",
            "GET /var/x.txt?dir=deep",
            "GET /var/x.txt",
            "GET /empty.txt",
            "GET /with%20space.txt",
            "GET /per%25cent.txt",
            "GET /%C3%BCn%C3%AFcode.txt",
            "GET /link.txt",
            "GET /broken.txt",
            "GET /linked",
            "GET /linked/file.txt",
            "GET /linked/",
            "GET /b/deep/",
            "GET /b/deep/?f=index.html",
            "GET /up/html/a/file.txt",
            "GET /a/../index.html",
            "GET //a//file.txt",
            "GET /a%2ffile.txt",
            "GET /A/file.txt",
            "GET /a/file.txt.",
            "GET /a/file.txt%20",
            "GET /a/file.txt%0a",
            "HEAD /a/file.txt",
            "HEAD /a",
            "HEAD /none",
            "GET /a/file.txt HTTP/1.0",
            "GET /a HTTP/1.0",
            "GET /a\nHost: other.example:8080",
        ],
    );
}

#[test]
fn long_names() {
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; }");
    let long = format!("GET /{}", "n".repeat(255));
    let too_long = format!("GET /{}", "n".repeat(256));
    let path_too_long = format!("GET /{}", "n/".repeat(2100));
    agree(&site, &[long.as_str(), too_long.as_str(), path_too_long.as_str()]);
}

#[test]
fn alias() {
    let site = documents(Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            root %%ROOT%%;
            location /i/ { alias %%ROOT%%/a/; }
            location /bare { alias %%ROOT%%/a; }
            location = /one { alias %%ROOT%%/a/file.txt; }
            location ~ ^/u/([a-z]+)/(.*)$ { alias %%ROOT%%/$1/$2; }
            location /v/ { alias %%ROOT%%/$arg_d/; }
            location /outer/ {
                alias %%ROOT%%/a/;
                location /outer/inner/ { alias %%ROOT%%/b/; index other.htm; }
                location ~ \.txt$ { add_header X-Nested yes; }
            }
            location /try/ { alias %%ROOT%%/a/; try_files $uri $uri/ file.txt /index.html; }
        }
        "#,
    ));
    agree(
        &site,
        &[
            "GET /i/file.txt",
            "GET /i/",
            "GET /i",
            "GET /i/none",
            "GET /bare/file.txt",
            "GET /bare",
            "GET /bare/",
            "GET /barefile.txt",
            "GET /one",
            "GET /onemore",
            "GET /u/a/file.txt",
            "GET /u/a/",
            "GET /u/a/index.html",
            "GET /u/b/none",
            "GET /v/file.txt?d=a",
            "GET /outer/inner/other.htm",
            "GET /outer/inner/",
            "GET /outer/file.txt",
            "GET /outer/index.html",
            "GET /try/file.txt",
            "GET /try/",
            "GET /try/none",
            "GET /i/%2e%2e/index.html",
            "GET /i../index.html",
        ],
    );
}

#[test]
fn try_files() {
    let site = documents(Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            root %%ROOT%%;
            location /spa/ { try_files $uri $uri/ /fallback.html; }
            location /code/ { try_files $uri =418; }
            location /code404/ { try_files $uri =404; }
            location /named/ { try_files $uri @app; }
            location /args/ { try_files /none /show?from=$uri&$args; }
            location /show { return 200 "show $uri $args"; }
            location /query/ { try_files /none /fallback.html?x=y; }
            location /dir/ { try_files /a/ =404; }
            location /dirfile/ { try_files /a /index.html; }
            location /filedir/ { try_files /a/file.txt/ =404; }
            location /ext/ { try_files /a/$arg_name.txt /b/$arg_name.htm =410; }
            location /loop/ { try_files /none /loop/again; }
            location /deep/ { try_files $uri $uri/ =404; index er/file.txt; }
            location @app { return 202 "app $uri $is_args$args"; }
            location = /exact { try_files /a/file.txt =404; }
            location /alias/ { alias %%ROOT%%/a/; try_files /none $uri; }
            location /aliased/ { alias %%ROOT%%/a/; try_files $uri $arg_x?y=z; }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            root %%ROOT%%;
            location /alias/ { alias %%ROOT%%/a/; try_files /none $uri; }
            location "" { return 200 "[$uri|$args]"; }
        }
        "#,
    ))
    .file("spa/there.txt", "there\n")
    .file("spa/dir/index.html", "spa dir\n");
    let logs = ["access.log", "error.log"];
    agree_with_logs(
        &site,
        &[
            "GET /spa/there.txt",
            "GET /spa/dir/",
            "GET /spa/dir",
            "GET /spa/none",
            "GET /spa/none/deeper?x",
            "GET /code/x",
            "GET /code404/x",
            "GET /named/x?y=z",
            "POST /named/x?y=z\n\nbody",
            "GET /args/x?old=1",
            "GET /args/x",
            "GET /query/x",
            "GET /dir/",
            "GET /dirfile/",
            "GET /filedir/",
            "GET /ext/?name=file",
            "GET /ext/?name=other",
            "GET /ext/?name=none",
            "GET /loop/x",
            "GET /deep/er",
            "GET /deep/er/",
            "GET /deep/er/file.txt",
            "GET /exact",
            "HEAD /spa/none",
            "POST /spa/none\n\nx",
            // Behind an alias the last name loses what the alias replaces, so that the URI is empty.
            "GET /alias/",
            "GET /alias/?x",
            "POST /alias/\n\nx",
            "GET /alias/none",
            "GET /aliased/",
            "GET /aliased/file.txt",
        ],
        &logs,
    );
    agree(&site, &[(1, "GET /alias/"), (1, "GET /alias/file.txt")]);
}

#[test]
fn index_forms() {
    let site = documents(Site::new(
        r#"
        index index.txt index.html;
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location /b/ { index $arg_i.htm /fallback.html; }
            location /deep/ { index er/none.html nothing.html; }
            location = /fallback.html { add_header X-Location fallback; }
            location ~ \.htm$ { add_header X-Location htm; }
            location ~ \.txt$ { add_header X-Location txt; }
        }
        "#,
    ));
    agree(
        &site,
        &[
            "GET /",
            "GET /a/",
            "GET /a/?x=y",
            "GET /b/?i=other",
            "GET /b/?i=none",
            "GET /deep/",
            "POST /a/\n\nx",
        ],
    );
}
