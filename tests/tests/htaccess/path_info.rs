//! What follows the name of a script: the same PHP-FPM with Apache and with Fulmar, with the rules of frameworks.

use std::fmt::Write;

use tempfile::TempDir;
use tests::apache::{Apache, have_apache};
use tests::binary::Server;
use tests::php::{Php, have_php};
use tests::site::Site;

/// What frameworks look at to find their page. `REDIRECT_URL` is missing: Fulmar does not send it with a path.
const SHOW: &str = r#"<?php
header('Content-Type: text/plain');
foreach (['PATH_INFO', 'ORIG_PATH_INFO', 'SCRIPT_NAME', 'ORIG_SCRIPT_NAME', 'PHP_SELF', 'QUERY_STRING', 'REQUEST_URI',
    'REDIRECT_STATUS', 'SCRIPT_FILENAME'] as $name) {
    $value = $_SERVER[$name] ?? 'none';
    echo "$name=", str_replace(realpath($_SERVER['DOCUMENT_ROOT']), '', $value), "\n";
}
"#;

const LOCATION: &str = r"
    location ~ \.php(/|$) {
        fastcgi_split_path_info ^(.+?\.php)(/.*)$;
        set $info $fastcgi_path_info;
        try_files $fastcgi_script_name =404;
        fastcgi_param SCRIPT_FILENAME MARK$document_root$fastcgi_script_name;
        fastcgi_param SCRIPT_NAME $fastcgi_script_name;
        fastcgi_param PATH_INFO $info if_not_empty;
        fastcgi_param DOCUMENT_ROOT $document_root;
        fastcgi_param REQUEST_METHOD $request_method;
        fastcgi_param REQUEST_URI $request_uri;
        fastcgi_param QUERY_STRING $query_string;
        MORE
        fastcgi_pass ADDRESS;
    }";

/// A site with this script; a text before the name of the script, and more parameters.
fn site(php: &Php, (mark, more): (&str, &str), script: &str, rules: &str) -> Site {
    let location = LOCATION.replace("MARK", mark).replace("MORE", more);
    let location = location.replace("ADDRESS", &php.address().to_string());
    let configuration = format!(
        "server {{
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            index index.php;
            htaccess on;
            {location}
        }}"
    );
    Site::new(&configuration)
        .file("index.php", script)
        .file("sub/index.php", script)
        .file("there.php", script)
        .file("a.txt", "a")
        .file(".htaccess", rules)
        .file("sub/.htaccess", rules)
}

const REQUESTS: [&str; 14] = [
    "GET /news/1",
    "GET /news/1?a=b&c=d",
    "GET /news/caf%C3%A9/a%20b?x=%20",
    "GET /news/a+b%2Bc",
    "GET /news/",
    "GET /news//1",
    "GET /sub/news/1?a=b",
    "GET /index.php/direct/1?a=b",
    "GET /there.php/direct/caf%C3%A9",
    "GET /there.php",
    "GET /sub/",
    "GET /",
    "GET /a.txt",
    "POST /news/1\n\nabc",
];

#[test]
fn frameworks_find_their_page() {
    const CONDITIONS: &str = "RewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_FILENAME} !-f\n";
    if !have_apache() || !have_php() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    let rules: [(&str, String); 6] = [
        ("as ThinkPHP", format!("{CONDITIONS}RewriteRule ^(.*)$ index.php/$1 [QSA,PT,L]\n")),
        (
            "as CodeIgniter",
            "RewriteCond $1 !^(index\\.php|sub|there\\.php|a\\.txt)\nRewriteRule ^(.*)$ /index.php/$1 [L]\n"
                .to_owned(),
        ),
        ("as CodeIgniter with a query", format!("{CONDITIONS}RewriteRule ^(.*)$ index.php?/$1 [L]\n")),
        (
            "as Laravel",
            format!(
                "RewriteCond %{{HTTP:Authorization}} .\nRewriteRule .* - \
                 [E=HTTP_AUTHORIZATION:%{{HTTP:Authorization}}]\n{CONDITIONS}RewriteRule ^ index.php [L]\n"
            ),
        ),
        ("as Drupal", format!("{CONDITIONS}RewriteRule ^(.*)$ index.php?q=$1 [L,QSA]\n")),
        (
            "twice",
            format!("RewriteRule ^news/(.*)$ page/$1\n{CONDITIONS}RewriteRule ^(.*)$ index.php/$1 [L]\n"),
        ),
    ];
    let mut report = String::new();
    for (name, rules) in rules {
        let site = site(&php, ("", ""), SHOW, &format!("RewriteEngine on\n{rules}"));
        let handler = format!("SetHandler \"proxy:fcgi://{}\"", php.address());
        let more = format!("DirectoryIndex index.php\n<FilesMatch \"\\.php$\">\n{handler}\n</FilesMatch>\n");
        let apache = Apache::start_with(&site, &more);
        let fulmar = site.start(Server::Fulmar);
        for request in REQUESTS {
            let shown = |answer: tests::client::Answer| match answer.last().status {
                200 => answer.last().text(),
                status => status.to_string(),
            };
            let (expected, got) = (shown(apache.ask(request)), shown(fulmar.ask(request)));
            if expected != got {
                let _ = writeln!(report, "==== {name}: {request}\n-- apache\n{expected}\n-- fulmar\n{got}");
            }
        }
        fulmar.stop();
    }
    assert!(report.is_empty(), "{report}");
}

/// PHP takes `PATH_TRANSLATED` for the script where `REDIRECT_URL` is there: an upload would run.
#[test]
fn path_translated_does_not_choose_the_script() {
    if !have_php() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    let rules = "RewriteEngine on\nRewriteRule ^download/(.*)$ index.php/$1 [L]\n";
    let more = "fastcgi_param PATH_TRANSLATED $document_root$info;";
    let site = site(&php, ("", more), "<?php echo 'front ', $_SERVER['PATH_INFO'];", rules)
        .file("kept/other.php", "<?php echo 'other';");
    let running = site.start(Server::Fulmar);
    assert_eq!(running.ask("GET /download/kept/other.php").last().text(), "front /kept/other.php");
    running.stop();
}

/// A path after the script, or `REDIRECT_URL`; both for a script that is marked as Apache marks it.
#[test]
fn the_redirected_path_is_sent_where_php_understands_it() {
    const SCRIPT: &str =
        "<?php echo $_SERVER['PATH_INFO'] ?? 'none', ' ', $_SERVER['REDIRECT_URL'] ?? 'none';";
    if !have_php() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    let rules =
        "RewriteEngine on\nRewriteRule ^with/(.*)$ index.php/$1 [L]\nRewriteRule ^without/ index.php [L]\n";
    for (mark, with) in [("", "/1 none"), ("proxy:fcgi://php", "/1 /with/1")] {
        let running = site(&php, (mark, ""), SCRIPT, rules).start(Server::Fulmar);
        assert_eq!(running.ask("GET /with/1").last().text(), with, "{mark}");
        assert_eq!(running.ask("GET /without/1").last().text(), "none /without/1", "{mark}");
        running.stop();
    }
}
