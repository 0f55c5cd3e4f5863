//! Fields, error documents, media types and compression.

use super::{aged, agree, agree_on, agree_with_host, site};

#[test]
fn fields() {
    const TEXT: &str = r#"Header set A "a b c a"
Header edit A a X
Header edit* A "([bc])" "<$1>"
Header add B 1
Header add B 2
Header edit B ^ "n-"
Header echo ^X-E
Header set T "%{NOPE}e|%%|%{SSL}s"
Header set C x "expr=%{REQUEST_URI} =~ m#\.txt$#"
Header set D x "expr=%{CONTENT_TYPE} =~ m#text/(html|x)#i"
Header set E x "expr=%{resp:C} == 'x' && -n %{HTTP:X}"
Header set F "expr=%{REQUEST_METHOD}-%{HTTP_HOST}-%{tolower:ABC}"
Header edit Content-Type plain html
Header append Cache-Control no-transform
Header merge Cache-Control no-transform
Header unset X-Powered-By
Header always unset X-Powered-By
Header always edit Set-Cookie ^(.*)$ "$1; Secure"
Header note N x
Header set Late x early
"#;
    agree_with_host(
        &[
            (".htaccess", TEXT),
            ("e2/.htaccess", "Header set X \"%{Q}x\"\n"),
            ("e3/.htaccess", "Header set X x \"expr=%{NOVAR}\"\n"),
            ("e4/.htaccess", "Header nope X x\n"),
            ("e5/.htaccess", "Header edit X ( x\n"),
            ("e6/.htaccess", "Header edit X x\n"),
        ],
        &[
            "GET /a.txt",
            "GET /a.txt?5\nX: 1\nX-E1: q\nX-e2: w",
            "GET /page.html\nX: abc",
            "GET /nope",
            "GET /e2/a.txt",
            "GET /e3/a.txt",
            "GET /e4/a.txt",
            "GET /e5/a.txt",
            "GET /e6/a.txt",
        ],
    );
}

#[test]
fn fields_of_own_pages() {
    const TEXT: &str = "Header set X-Set s\nHeader always set X-Always a\nErrorDocument 403 /missing.html\n\
        ErrorDocument 410 /error.html\nErrorDocument 402 \"pay %{REQUEST_URI}\"\n\
        ErrorDocument 451 http://%{HTTP_HOST}/x%{REQUEST_URI}\nRewriteEngine on\nRewriteRule ^f$ - [F]\n\
        RewriteRule ^g$ - [G]\nRewriteRule ^t$ - [R=402]\nRewriteRule ^l$ - [R=451]\nRewriteRule ^red$ /a.txt [R]\n";
    agree_with_host(
        &[(".htaccess", TEXT), ("bad/.htaccess", "ErrorDocument 404 %{NOPE}\n")],
        &[
            "GET /f",
            "GET /g",
            "GET /t",
            "GET /l",
            "GET /red",
            "GET /sub",
            "GET /nope",
            "GET /a.txt",
            "GET /bad/a.txt",
        ],
    );
}

#[test]
fn error_document_may_redirect() {
    const TEXT: &str = "ErrorDocument 403 /denied.html\nErrorDocument 404 /missing.html\nRewriteEngine on\n\
        RewriteRule ^denied\\.html$ http://example.com/denied [R=301,L]\nRedirect 302 /missing.html http://example.com/\n\
        <Files secret.txt>\nRequire all denied\n</Files>\n";
    agree(
        &[(".htaccess", TEXT), ("secret.txt", "secret")],
        &["GET /secret.txt", "GET /none", "GET /secret.txt?a=b"],
    );
}

#[test]
fn settings_do_not_refuse_their_own_error_document() {
    const REQUIRE: &str = "ErrorDocument 403 /a/denied.html\nRequire all denied\n";
    const ORDER: &str = "ErrorDocument 403 /b/denied.html\nOrder deny,allow\nDeny from all\n";
    // A rule leads from the document to another file. The settings of `guarded.txt` are other ones, and refuse it.
    const REWRITTEN: &str = "ErrorDocument 403 /c/denied.html\nRequire all denied\nRewriteEngine on\n\
        RewriteCond %{THE_REQUEST} guarded\nRewriteRule ^denied guarded.txt [L]\nRewriteRule ^denied other.txt [L]\n\
        <Files guarded.txt>\nRequire all denied\n</Files>\n";
    const FILES: &str =
        "ErrorDocument 403 /d/denied.html\nRequire all denied\n<Files secret.txt>\nRequire local\n</Files>\n";
    const OTHER: &str = "ErrorDocument 403 /a/denied.html\nRequire all denied\n";
    let files = [
        ("a/.htaccess", REQUIRE),
        ("a/denied.html", "not you"),
        ("a/x.txt", "x"),
        ("b/.htaccess", ORDER),
        ("b/denied.html", "not you"),
        ("c/.htaccess", REWRITTEN),
        ("c/denied.html", "not you"),
        ("c/other.txt", "sent, too"),
        ("c/guarded.txt", "not sent"),
        ("d/.htaccess", FILES),
        ("d/denied.html", "not you"),
        ("d/secret.txt", "secret"),
        ("e/.htaccess", OTHER),
    ];
    agree_on(
        aged(site(&files)),
        &[],
        &[
            "GET /a/",
            "GET /a/x.txt",
            "GET /a/denied.html",
            "GET /b/x",
            "POST /b/x",
            "GET /c/x",
            "GET /c/x?guarded",
            "GET /d/x",
            "GET /d/secret.txt",
            "GET /e/",
        ],
    );
}

#[test]
fn extensions() {
    const TEXT: &str = "AddEncoding gzip gz\nAddEncoding gzip svgz\nAddType image/svg+xml svg svgz\nAddLanguage de .de\n\
        AddLanguage en .en\nAddCharset utf-8 .utf8 .html\nAddType text/x-foo .foo\nAddDefaultCharset utf-8\n";
    const SUB: &str =
        "RemoveType foo\nRemoveCharset html\nRemoveEncoding gz\nRemoveLanguage de\nDefaultLanguage fr\n";
    const NAMES: [&str; 11] = [
        "a.js.gz",
        "b.svgz",
        "c.html.de",
        "d.de.html",
        "e.foo.en",
        "f.txt.utf8",
        "g.en.de.txt",
        "h.unknown.foo",
        "i.foo.unknown",
        "sub/a.foo",
        "sub/d.html.de",
    ];
    let mut files = vec![(".htaccess", TEXT), ("sub/.htaccess", SUB)];
    files.extend(NAMES.map(|name| (name, "x")));
    let requests = NAMES.map(|name| format!("GET /{name}"));
    agree(&files, &requests.each_ref().map(String::as_str));
}

/// A file that Apache would run, or not run, is not sent, or run, where the location does the other.
#[test]
fn handlers_are_those_of_the_location() {
    let site = tests::site::Site::new(
        "server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            htaccess on;
            location ~ \\.php$ { fastcgi_pass 127.0.0.1:1; }
        }",
    );
    let site = [
        ("php/.htaccess", "AddHandler application/x-httpd-ea-php82 .php .phtml\n"),
        ("removed/.htaccess", "RemoveHandler .php\n"),
        ("drupal/.htaccess", "SetHandler Drupal_Security_Do_Not_Remove\n"),
        ("cgi/.htaccess", "AddHandler cgi-script .pl .php\n"),
        ("none/.htaccess", "SetHandler None\n"),
    ]
    .iter()
    .fold(site, |site, (path, text)| {
        let folder = path.trim_end_matches("/.htaccess");
        ["a.php", "a.phtml", "a.pl", "a.txt"]
            .iter()
            .fold(site.file(path, text), |site, name| site.file(&format!("{folder}/{name}"), "x"))
    });
    let running = site.start(tests::binary::Server::Fulmar);
    let statuses = |folder: &str| {
        ["a.php", "a.phtml", "a.pl", "a.txt"]
            .map(|name| running.ask(&format!("GET /{folder}/{name}")).last().status)
    };
    assert_eq!(statuses("php"), [502, 403, 200, 200]);
    assert_eq!(statuses("removed"), [403, 200, 200, 200]);
    assert_eq!(statuses("drupal"), [403, 200, 200, 200]);
    assert_eq!(statuses("cgi"), [502, 200, 403, 200]);
    assert_eq!(statuses("none"), [403, 200, 200, 200]);
    running.stop();
}

#[test]
fn compression() {
    const TEXT: &str = "<IfModule mod_deflate.c>\n<IfModule mod_filter.c>\n\
        AddOutputFilterByType DEFLATE text/html text/plain\n</IfModule>\nSetEnvIf Request_URI \"b\\.txt\" no-gzip\n\
        BrowserMatch ^Old gzip-only-text/html\n</IfModule>\n";
    let long = "x".repeat(100);
    let files = [
        (".htaccess", TEXT),
        ("a.txt", &long),
        ("b.txt", &long),
        ("page.html", &long),
        ("style.css", &long),
        ("short.txt", &long[..68]),
        ("least.txt", &long[..69]),
        ("set/.htaccess", "SetOutputFilter DEFLATE\n"),
        ("set/x.js", &long),
        ("add/.htaccess", "AddOutputFilter DEFLATE js .css\n"),
        ("add/x.js", &long),
        ("add/y.css", &long),
        ("add/z.html", &long),
        ("add/in/.htaccess", "RemoveOutputFilter js\n"),
        ("add/in/x.js", &long),
        ("off/.htaccess", "SetOutputFilter NONE\n"),
        ("off/a.txt", &long),
    ];
    let paths: Vec<&str> =
        files.iter().map(|(path, _)| *path).filter(|path| !path.ends_with("access")).collect();
    let site = super::site(&files);
    if !tests::apache::have_apache() {
        return;
    }
    let modules = ["filter", "deflate"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"));
    let apache = tests::apache::Apache::start_with(&site, &modules.concat());
    let fulmar = site.start(tests::binary::Server::Fulmar);
    for path in paths.into_iter().chain(["none.html"]) {
        for fields in [
            "",
            "\nAccept-Encoding: gzip",
            "\nAccept-Encoding: gzip\nUser-Agent: Old",
            "\nAccept-Encoding: br",
        ] {
            let request = format!("GET /{path}{fields}");
            let (expected, got) = (apache.ask(&request), fulmar.ask(&request));
            let shown = |answer: &tests::client::Answer| {
                let last = answer.last();
                (last.status, last.field("Content-Encoding").map(str::to_owned))
            };
            assert_eq!(shown(&expected), shown(&got), "{request}");
        }
    }
    fulmar.stop();
}

#[test]
fn the_name_of_a_missing_file_is_its_first_missing_part() {
    const TEXT: &str = "<FilesMatch \"\\.php$\">\nRequire all denied\n</FilesMatch>\n\
        <Files missing>\nHeader always set X m\n</Files>\n";
    agree(
        &[(".htaccess", TEXT)],
        &[
            "GET /missing/x.php",
            "GET /missing",
            "GET /missing/",
            "GET /index.php",
            "GET /index.php/x",
            "GET /sub/x.php",
            "GET /a.txt/missing",
        ],
    );
}

/// As after other internal redirects, the variables of the request that failed have longer names.
#[test]
fn an_error_document_has_variables_of_its_own() {
    const OUTER: &str = "SetEnv key outer\nHeader always set X-K \"%{key}e %{kind}e %{REDIRECT_kind}e\"\n";
    const INNER: &str = "SetEnvIf Request_URI \"(a|b)\\.txt\" key=$1 kind=$1\nErrorDocument 403 /error.html\n\
        ErrorDocument 404 /error.html\nErrorDocument 410 /sub/a.txt\nRedirectMatch 410 b\\.txt\n";
    agree_with_host(
        &[
            (".htaccess", OUTER),
            ("in/.htaccess", INNER),
            ("in/deep/.htaccess", "RewriteEngine on\nRewriteRule a\\.txt - [F,E=kind:rule]\n"),
            ("plain/.htaccess", "ErrorDocument 404 /error.html\nSetEnvIf Request_URI . key=plain\n"),
        ],
        &[
            "GET /in/a.txt",
            "GET /in/b.txt",
            "GET /in/deep/a.txt",
            "GET /in/deep/b.txt",
            "GET /plain/x",
            "GET /error.html",
        ],
    );
}

#[test]
fn empty_values_of_locations() {
    const TEXT: &str = "<Files a.txt>\nHeader merge Location \"\"\n</Files>\n<Files b.txt>\nHeader set Location \"\"\n\
        </Files>\n<Files page.html>\nHeader merge Location x\nHeader merge Location x\nHeader merge Location y\n</Files>\n";
    agree_with_host(&[(".htaccess", TEXT)], &["GET /a.txt", "GET /b.txt", "GET /page.html"]);
}

/// The server's own page in place of an error document that cannot be sent has the settings of the request.
#[test]
fn an_error_document_that_fails_leaves_the_settings_of_the_request() {
    const OUTER: &str = "ErrorDocument 404 /bare/missing.html\nErrorDocument 403 /bare/closed/x\nErrorDocument 410 /page.html\n\
        ErrorDocument 405 /sub\nHeader always set X-A \"expr=%{REQUEST_URI}\"\nRedirect 410 /gone\nHeader set X-S 1\n\
        <Files a.txt>\nRequire all denied\n</Files>\n";
    agree_with_host(
        &[
            (".htaccess", OUTER),
            ("sub/.htaccess", "Header always set X-Sub 1\n"),
            ("bare/.htaccess", "Header always set X-B 1\n"),
            ("bare/closed/.htaccess", "Require all denied\n"),
            ("bare/closed/x", "x"),
        ],
        &[
            "GET /none",
            "GET /a.txt",
            "GET /gone",
            "GET /sub/none?x",
            "GET /sub/a.txt",
            "DELETE /b.txt",
            "GET /bare/none",
            "GET /bare/closed/x",
        ],
    );
}

#[test]
fn pages_of_errors_keep_their_dates() {
    agree(
        &[(
            ".htaccess",
            "ErrorDocument 404 /error.html\nErrorDocument 403 /error.html\n<Files a.txt>\nRequire all denied\n</Files>\n",
        )],
        &[
            "GET /missing",
            "HEAD /missing",
            "GET /a.txt",
            "GET /missing\nIf-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT",
        ],
    );
}

/// Apache has these variables if mod_ssl is loaded, also without TLS.
#[test]
fn header_shows_variables_of_the_server() {
    const NAMES: [&str; 9] = [
        "HTTPS",
        "REQUEST_URI",
        "QUERY_STRING",
        "REQUEST_METHOD",
        "REMOTE_ADDR",
        "SERVER_PROTOCOL",
        "HTTP_USER_AGENT",
        "SSL_PROTOCOL",
        "NONE",
    ];
    let parts: Vec<String> = NAMES.iter().map(|name| format!("%{{{name}}}s")).collect();
    let text = format!("Header set X-Server \"{}\"\n", parts.join("|"));
    agree_on(
        site(&[(".htaccess", &text)]),
        &["ssl", "socache_shmcb"],
        &["GET /a.txt?x=1", "GET /a.txt\nUser-Agent: test", "POST /a.txt\nContent-Length: 0"],
    );
}
