//! Commands in pages: `ssi`. The pages are those of its documentation's commands, right and wrong.

use tests::differential::agree;
use tests::site::Site;

/// A page and the queries that it is asked with.
const PAGES: [(&str, &str, &[&str]); 22] = [
    (
        "echo",
        "x<!--#echo var=\"arg_a\" --><!--# echo var='ARG_b' default='d'--><!--#echo var=\"c\" default=\"\" -->x",
        &["", "a=1", "a=&b=%3C"],
    ),
    (
        "variables",
        "<!--#echo var='uri' --> <!--#echo var='request_uri' --> <!--#echo var='http_host' default='-' --> <!--#echo var='own' --> <!--#echo var='mapped' -->",
        &["", "a=1"],
    ),
    (
        "encodings",
        "<!--#set var='v' value='<a href=\"?x&y\">ä #%`{}^\\\\</a>' --><!--#echo var='v' -->|<!--#echo var='v' encoding='url' -->|<!--#echo var='v' -->|<!--#echo var='v' encoding='none' -->|<!--#echo var='v' encoding='other' -->|<!--#echo var='v' encoding='entity' -->",
        &[""],
    ),
    (
        "set",
        "<!--#set var='v' value='$arg_a-${arg_a}b \\$c \\\\ \\x \\'\"' --><!--#echo var='v' encoding='none' --><!--#set var='V' value='' -->(<!--#echo var='v' -->)",
        &["", "a=1"],
    ),
    (
        "wrong-set",
        "<!--#set var='v' value='${a' -->1<!--#set var='v' value='$' -->2<!--#set var='v' -->3<!--#set value='v' -->4",
        &[""],
    ),
    (
        "if",
        "<!--#if expr='$arg_a' -->1<!--#elif expr='$arg_b = x' -->2<!--#elif expr='$arg_b != /^y+$/' -->3<!--#else -->4<!--#endif -->5",
        &["", "a=1", "b=x", "b=yy", "a=1&b=x"],
    ),
    (
        "groups",
        "<!--#if expr='$arg_a = /(.)-(?<n>..)/' --><!--#echo var='1' --><!--#echo var='2' --><!--#echo var='n' --><!--#echo var='0' --><!--#endif -->x",
        &["", "a=1-23", "a=z1-23z"],
    ),
    (
        "quirks",
        "<!--#if expr='A = a' -->1<!--#endif --><!--#if expr='a = A' -->2<!--#endif --><!--#if expr='$arg_a = \\/a/' -->3<!--#endif --><!--#if expr='a=a' -->4<!--#endif -->",
        &["", "a=/a/"],
    ),
    (
        "wrong-if",
        "<!--#else -->a<!--#endif -->b<!--#elif expr='1' -->c<!--#if expr='a ! b' -->d<!--#if -->e<!--#if expr='a = /b' -->f",
        &[""],
    ),
    (
        "skipped",
        "<!--#if expr='$arg_a' --><!--#echo var='uri' --><!--#set var='v' value='1' --><!--#no --><!--#include virtual='/missing' --><!--#endif --><!--#echo var='v' -->",
        &["", "a=1"],
    ),
    (
        "include",
        "[<!--#include virtual='/part.html' -->|<!--#include file=\"part.html\" -->|<!--#include virtual='/echo.html?a=in' -->|<!--#include virtual='/part%2Ehtml?x' wait='yes' -->]",
        &["", "a=1"],
    ),
    (
        "missing",
        "[<!--#include virtual='/gone' -->|<!--#include virtual='/empty.html' -->|<!--#include virtual='/moved' -->]",
        &[""],
    ),
    (
        "wrong-include",
        "1<!--#include -->2<!--#include virtual='/a' file='/b' -->3<!--#include virtual='/../a' -->4<!--#include virtual='/part.html' wait='maybe' -->5<!--#include file='part.html' wait='yes' -->6<!--#include virtual='/part.html' stub='none' -->7<!--#include virtual='/part.html' set='a' stub='b' -->8<!--#include virtual='' -->9",
        &[""],
    ),
    (
        "stub",
        "<!--#block name='b' -->(<!--#echo var='arg_a' default='d' -->)<!--#endblock -->[<!--#include virtual='/missing?$args' stub='b' -->|<!--#include virtual='/part.html' stub='b' -->]",
        &["", "a=1"],
    ),
    (
        "stored",
        "<!--#include virtual='/part.html' set='v' wait='yes' -->[<!--#echo var='v' -->]<!--#include virtual='/missing' set='w' -->[<!--#echo var='w' -->]",
        &[""],
    ),
    (
        "shared",
        "<!--#set var='v' value='outer' --><!--#include virtual='/inner.html' wait='yes' --><!--#echo var='v' --><!--#echo var='w' -->",
        &[""],
    ),
    (
        "inner",
        "<!--#echo var='v' --><!--#set var='v' value='inner' --><!--#set var='w' value='new' -->",
        &[""],
    ),
    ("message", "<!--#config errmsg='<oh>' --><!--#no -->b<!--#config -->c<!--#config other='x' -->d", &[""]),
    (
        "dates",
        "<!--#config timefmt='%%Y' --><!--#echo var='date_gmt' --><!--#config timefmt='fixed' --><!--#set var='v' value='$date_local' --><!--#echo var='v' -->",
        &[""],
    ),
    (
        "syntax",
        "<!--#echo var='uri'--><!--#echo\tvar\n=\r\n'uri'\t--><!--# echo var = \"uri\" --><!--echo var='uri' --><!- -#echo --><<!--#echo var='uri' --><!--#endblock-->",
        &[""],
    ),
    (
        "wrong-syntax",
        "1<!--#echo var -->2<!--#echo var=x -->3<!--#echo var='x'y -->4<!--#echo var='x' - -->5<!--#echo v-r='x' -->6<!--#echo var='x' var='y' -->7<!--#Echo var='uri' -->8<!--#-->9 -->a<!--#echo var='uri' --->b -->c",
        &[""],
    ),
    ("unfinished", "a<!--#echo var='uri'", &[""]),
];

#[test]
fn commands_come_to_what_nginx_makes_of_them() {
    let mut site = Site::new(
        r"
        log_format lean '$request_method $request_uri|$status';
        access_log %%LOGS%%/access.log lean;
        types { text/html html; text/plain txt; }
        map $arg_a $mapped { default none; 1 one; }
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            ssi on;
            set $own 'set<';
            location /gone { return 404 gone; }
            location /moved { return 200 there; }
            location /off/ { alias %%ROOT%%/; ssi off; }
            location /silent/ { alias %%ROOT%%/; ssi_silent_errors on; }
            location /types/ { alias %%ROOT%%/; ssi_types text/plain; }
            location /time/ { alias %%ROOT%%/; ssi_last_modified on; }
            location /short/ { alias %%ROOT%%/; ssi_value_length 8; }
            location /passed/ { proxy_pass http://127.0.0.1:%%PORT%%/off/; }
            location /page/ { error_page 404 /echo.html; }
            location /if/ { alias %%ROOT%%/; ssi off; if ($arg_a) { ssi on; } }
        }",
    )
    .file("part.html", "part <b>")
    .file("empty.html", "")
    .file("plain.txt", "<!--#echo var='uri' -->");
    let mut requests = Vec::new();
    for (name, text, queries) in PAGES {
        site = site.file(&format!("{name}.html"), text.replace("%%", "%"));
        for query in queries {
            requests.push(format!("GET /{name}.html?{query}"));
            requests.push(format!("GET /passed/{name}.html?{query}"));
        }
        requests.extend([format!("HEAD /{name}.html"), format!("GET /silent/{name}.html HTTP/1.0")]);
        requests
            .extend([format!("GET /short/{name}.html"), format!("GET /off/{name}.html\nRange: bytes=1-3")]);
    }
    for more in [
        "/page/none",
        "/plain.txt",
        "/types/plain.txt",
        "/time/echo.html",
        "/if/echo.html",
        "/if/echo.html?a=1",
    ] {
        requests.push(format!("GET {more}"));
        requests.push(format!("GET {more}\nRange: bytes=1-3\nIf-None-Match: *"));
    }
    agree(&site, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}
