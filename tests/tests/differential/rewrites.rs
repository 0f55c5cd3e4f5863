//! `rewrite`, `set`, `if` and `break`.

use tests::differential::{agree, agree_with_logs};
use tests::site::Site;

#[test]
fn rewrite() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            root %%ROOT%%;
            rewrite ^/server/(.*)$ /show/$1;
            location /show { return 200 "$uri|$args|$request_uri"; }
            location /last { rewrite ^/last/(.*)$ /show/$1 last; return 200 "not here"; }
            location /break { rewrite ^/break/(.*)$ /files/$1 break; return 200 "not here"; }
            location /none { rewrite ^/none/(.*)$ /show/$1; rewrite ^/show/x$ /show/second; }
            location /redirect { rewrite ^/redirect/(.*)$ /show/$1 redirect; }
            location /permanent { rewrite ^/permanent/(.*)$ /show/$1 permanent; }
            location /absolute { rewrite ^/absolute/(.*)$ http://example.com/$1; }
            location /args { rewrite ^/args/(.*)$ /show?new=$1 last; }
            location /noargs { rewrite ^/noargs/(.*)$ /show?new=$1? last; }
            location /droparg { rewrite ^/droparg/(.*)$ /show/$1? last; }
            location /redirectargs { rewrite ^ /show?a=b redirect; }
            location /loop { rewrite ^ /loop last; }
            location /named { rewrite ^/named/(?<rest>.*)$ /show/$rest/$1 last; }
            location /nocase { rewrite (?i)^/NOCASE/(.*) /show/$1 last; }
            location /braces { rewrite "^/braces/(\d{2,3})$" /show/digits-$1 last; }
            location /decoded { rewrite ^/decoded/(.*)$ /show/$1 redirect; }
            location /nomatch { rewrite ^/other /show last; return 200 "no match"; }
        }
        "#,
    )
    .file("files/f.txt", "file\n");
    agree(
        &site,
        &[
            "GET /server/x?y=z",
            "GET /last/x?y=z",
            "GET /break/f.txt",
            "GET /break/none",
            "GET /none/x",
            "GET /none/y?q",
            "GET /redirect/x?y=z",
            "GET /redirect/x",
            "GET /permanent/x",
            "GET /absolute/x?y=z",
            "GET /args/x?old=1",
            "GET /args/x",
            "GET /noargs/x?old=1",
            "GET /droparg/x?old=1",
            "GET /redirectargs?old=1",
            "GET /loop",
            "GET /named/x",
            "GET /NOCASE/x",
            "GET /nocase/x",
            "GET /braces/12",
            "GET /braces/1234",
            "GET /decoded/a%20b%3Fc",
            "GET /last/a%20b%3Fc%25",
            "GET /nomatch",
            "POST /last/x\n\nbody",
        ],
    );
}

#[test]
fn set_and_if() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            root %%ROOT%%;
            set $outer "server";
            if ($arg_stop) { return 403; }
            location /set { set $a "one"; set $b "$a two $arg_x"; set $a "three"; return 200 "$a|$b|$outer"; }
            location /unset { return 200 "[$later]"; }
            location /later { set $later x; return 200 "$later"; }
            location /truth { if ($arg_x) { return 200 "true"; } return 200 "false"; }
            location /equal { if ($arg_x = one) { return 200 "equal"; } return 200 "not"; }
            location /unequal { if ($arg_x != one) { return 200 "unequal"; } return 200 "not"; }
            location /match { if ($arg_x ~ ^a(.)c$) { return 200 "match $1"; } return 200 "not"; }
            location /nocase { if ($arg_x ~* ^abc$) { return 200 "match"; } return 200 "not"; }
            location /nomatch { if ($arg_x !~ abc) { return 200 "no match"; } return 200 "matched"; }
            location /nonocase { if ($arg_x !~* abc) { return 200 "no match"; } return 200 "matched"; }
            location /agent { if ($http_user_agent ~ "MSIE (\d+)") { return 200 "old $1"; } return 200 "new"; }
            location /method { if ($request_method = POST) { return 405; } return 200 "fine"; }
            location /file { if (-f $document_root$arg_p) { return 200 "file"; } return 200 "not"; }
            location /nofile { if (!-f $document_root$arg_p) { return 200 "no file"; } return 200 "is"; }
            location /dir { if (-d $document_root$arg_p) { return 200 "dir"; } return 200 "not"; }
            location /exists { if (-e $document_root$arg_p) { return 200 "exists"; } return 200 "not"; }
            location /exec { if (-x $document_root$arg_p) { return 200 "executable"; } return 200 "not"; }
            location /several {
                set $n "";
                if ($arg_a) { set $n "${n}a"; }
                if ($arg_b) { set $n "${n}b"; }
                if ($n = ab) { return 200 "both"; }
                return 200 "n=$n";
            }
            location /rewrite { if ($arg_x = one) { rewrite ^ /set last; } return 200 "stayed"; }
            location /header { if ($arg_x) { add_header X-If yes; } add_header X-Loc yes; try_files /f.txt =404; }
            location /break { set $x 1; if ($arg_x) { break; } set $x 2; return 200 "$x"; }
            location /content { if ($arg_x) { set $y 1; } }
            location /root { if ($arg_x) { root %%ROOT%%/deep; } }
        }
        "#,
    )
    .file("f.txt", "file\n")
    .file("content", "content\n")
    .file("root", "outer\n")
    .file("deep/root", "inner\n")
    .dir("d");
    agree(
        &site,
        &[
            "GET /set?x=y",
            "GET /unset",
            "GET /later",
            "GET /set?stop=1",
            "GET /set?stop=0",
            "GET /truth?x=1",
            "GET /truth?x=0",
            "GET /truth?x=00",
            "GET /truth?x=",
            "GET /truth",
            "GET /equal?x=one",
            "GET /equal?x=ONE",
            "GET /equal",
            "GET /unequal?x=one",
            "GET /unequal",
            "GET /match?x=abc",
            "GET /match?x=abcd",
            "GET /nocase?x=ABC",
            "GET /nomatch?x=xabcx",
            "GET /nomatch",
            "GET /nonocase?x=ABC",
            "GET /agent\nUser-Agent: MSIE 6",
            "GET /agent",
            "POST /method\n\nx",
            "GET /method",
            "GET /file?p=/f.txt",
            "GET /file?p=/d",
            "GET /nofile?p=/none",
            "GET /nofile?p=/f.txt",
            "GET /dir?p=/d",
            "GET /dir?p=/f.txt",
            "GET /exists?p=/d",
            "GET /exists?p=/none",
            "GET /exec?p=/f.txt",
            "GET /exec?p=/d",
            "GET /several?a=1&b=1",
            "GET /several?b=1",
            "GET /rewrite?x=one",
            "GET /rewrite",
            "GET /header?x=1",
            "GET /header",
            "GET /break?x=1",
            "GET /break",
            "GET /content?x=1",
            "GET /content",
            "GET /root?x=1",
            "GET /root",
        ],
    );
}

#[test]
fn corners() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            root %%ROOT%%;
            error_page 500 @sorry;
            error_page 410 =404 /gone$status;
            error_page 405 = /gone$status;
            location /early { set $x $status; return 200 "$x $status"; }
            location /empty { rewrite ^ $arg_none; }
            location /410 { return 410; }
            location /405 { return 405; }
            location /gone { return 200 "$uri $status"; }
            location ~ ^/al/ { alias %%ROOT%%/f.txt; }
            location ~ ^/(?<a1>.)/twice { rewrite ^/(.)/(.*)/(.*)$ /show/$3/$1?$2&$a1 last; }
            location ~ ^/over/((.*))$ { rewrite ^/over/((.*))$ http://localhost/$1$2 redirect; }
            location ~ ^/overargs/((.*))$ { rewrite ^/overargs/((.*))$ /show?$1$2 last; }
            location /escape { rewrite ^(.*) /new?c=1; set $y $1; return 200 "$y $args"; }
            location /show { return 200 "$uri?$args $1 $2 $3"; }
            location /stale { if ($arg_x ~ (a)(b)) { } if ($arg_y ~ c) { } return 200 "$1 $2"; }
            location @sorry { return 200 "sorry $uri"; }
        }
        "#,
    )
    .file("f.txt", "file\n");
    agree(
        &site,
        &[
            "GET /early",
            "GET /empty",
            "GET /410",
            "GET /405",
            "GET /al/x",
            "GET /x/twice/y/z?q",
            "GET /over/++++++++++++++++++++++++++++++",
            "GET /over/%2b%20%3f%26",
            "GET /overargs/++++++++++++++++++++++++++++++",
            "GET /overargs/%2b%20%3f%26",
            "GET /escape/%2b%26",
            "GET /stale?x=ab",
            "GET /stale?x=ab&y=c",
        ],
    );
}

/// A query that is taken away is empty, and one that never was is not there.
#[test]
fn queries_that_are_taken_away() {
    let site = Site::new(
        r#"
        log_format query "$uri [$args] [$query_string] [$is_args]";
        server {
            listen 127.0.0.1:%%PORT%%;
            access_log %%LOGS%%/query query;
            location /away { rewrite ^ /there? last; }
            location /kept { rewrite ^ /there last; }
            location /other { rewrite ^ /there?a last; }
            location /there { return 200 "[$args]$is_args"; }
        }
        "#,
    );
    let targets = ["away", "away?", "away?x=1", "kept", "kept?", "kept?x=1", "other", "other?x=1"];
    let requests = targets.map(|target| format!("GET /{target}"));
    agree_with_logs(&site, &requests.each_ref().map(String::as_str), &["query"]);
}
