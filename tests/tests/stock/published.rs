//! Three published configurations with the sites that they are for: PHP, small files, Apache after a TLS proxy. nginx accepts
//! them, and answers as Fulmar does.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use rustix::process::{Resource, geteuid, getrlimit};
use tempfile::TempDir;
use tests::apache::{Apache, have_apache};
use tests::binary::{Server, have_nginx};
use tests::compare::{Compared, difference, normalise};
use tests::differential::{agree, agree_with_logs};
use tests::php::{Php, have_php};
use tests::site::Site;
use tests::tls::{Client, Kind, certificate};

/// A site with the configuration of a folder, in which these texts are replaced.
fn published(folder: &str, replaced: &[(&str, &str)]) -> Site {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("stock").join(folder).join("nginx.conf");
    let mut text = fs::read_to_string(path).unwrap();
    let places = [("%%PORT_1%%", "%%PORT%%"), ("%%DIR%%/access.log", "%%LOGS%%/access.log")];
    for (from, to) in places.iter().chain(replaced) {
        assert!(text.contains(from), "no {from} in {folder}");
        text = text.replace(from, to);
    }
    let user = if geteuid().is_root() { "user root;" } else { "" };
    Site::whole(&format!(
        "daemon off;\n{user}\npid %%LOGS%%/pid;\nerror_log %%LOGS%%/error.log info;\n{text}"
    ))
}

fn assert_accepted(site: &Site) {
    for server in [Server::Nginx, Server::Fulmar] {
        assert_eq!(site.test(server), Ok(()), "{}", server.name());
    }
}

#[test]
fn a_site_with_php() {
    if !have_nginx() || !have_php() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    let socket = php.socket().display().to_string();
    let page = "<?php header('X-Script: ' . $_SERVER['SCRIPT_NAME']);
        echo $_SERVER['REQUEST_URI'], ' ', $_SERVER['QUERY_STRING'], ' ', file_get_contents('php://input');";
    let site = published("e2-site-mended", &[("/run/php/php8.3-fpm.sock", &socket)])
        .in_prefix("fastcgi_params", include_str!("../../stock/e2-site-mended/fastcgi_params"))
        .in_prefix("example/index.php", page)
        .in_prefix("example/other.php", page)
        .in_prefix("example/page.html", "a page\n")
        .in_prefix("example/dir/index.php", page)
        .in_prefix("example/style.css", "p { color: red }\n")
        .in_prefix("example/PHOTO.JPG", "not really");
    assert_accepted(&site);
    agree(
        &site,
        &[
            "GET /",
            "GET /?a=b",
            "GET /pretty/path?a=b",
            "GET /other.php?a=b",
            "POST /other.php\nContent-Type: text/plain\n\nposted",
            "POST /pretty/path\n\nposted",
            "GET /missing.php",
            "GET /page.html",
            "GET /dir",
            "GET /dir/",
            "GET /style.css",
            "GET /style.css\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
            "GET /PHOTO.JPG\nRange: bytes=0-2",
            "GET /missing.css",
            "HEAD /",
            "GET /\nHost: example.com",
        ],
    );
}

#[test]
fn a_tuned_server() {
    if !have_nginx() {
        return;
    }
    // A limit above the machine's own would be an alert.
    let limit = getrlimit(Resource::Nofile).maximum.map_or(65535, |maximum| maximum.min(65535));
    let site = published("e2-tuned", &[("65535", &limit.to_string())])
        .file("index.html", "<p>home</p>\n".repeat(100))
        .file("small.html", "<p>small</p>\n")
        .file("style.css", "p { color: red }\n".repeat(100))
        .file("text.txt", "some text\n".repeat(500))
        .file("photo.jpg", [7; 5000])
        .dir("empty");
    assert_accepted(&site);
    // Two compressors need not come to the same length, which the access log tells.
    agree_with_logs(
        &site,
        &[
            "GET /",
            "GET /\nAccept-Encoding: gzip",
            "GET /\nAccept-Encoding: br, gzip;q=0",
            "HEAD /\nAccept-Encoding: gzip",
            "GET / HTTP/1.0\nAccept-Encoding: gzip",
            "GET /small.html\nAccept-Encoding: gzip",
            "GET /style.css\nAccept-Encoding: gzip",
            "GET /text.txt\nAccept-Encoding: gzip\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
            "GET /text.txt\nRange: bytes=10-19,30-39",
            "GET /photo.jpg\nAccept-Encoding: gzip",
            "GET /missing\nAccept-Encoding: gzip",
            "GET /empty",
            "GET /empty/",
            "POST /\n\nposted",
            "GET /\nConnection: close",
        ],
        &[],
    );
}

#[test]
fn a_hybrid_with_apache() {
    if !have_nginx() || !have_apache() {
        return;
    }
    let told = "Header set X-Told \"expr=%{HTTP_HOST} %{HTTP:X-Real-IP}\"\nRewriteEngine on\n\
        RewriteRule ^old$ /new [R=301]\n";
    // Apache's documents: it is started on the site of this directory.
    let documents = Site::new("")
        .file(".htaccess", told)
        .file("index.html", "from Apache\n")
        .file("dir/index.html", "a directory\n")
        .file("large.txt", "a line of text\n".repeat(20_000))
        .file("style.css", "never asked for\n");
    let apache = Apache::start(&documents);
    let made = certificate("example.com", Kind::Ecdsa);
    let site = published("e2-hybrid-mended", &[("127.0.0.1:8080", &format!("127.0.0.1:{}", apache.port()))])
        .in_prefix("signed_cert_plus_intermediates", &made.pem)
        .in_prefix("private_key", &made.key)
        .in_prefix("example/style.css", "p { color: red }\n")
        .in_prefix("example/photo.png", "not really");
    assert_accepted(&site);
    let requests = [
        "GET /",
        "GET /\nHost: example.com",
        "HEAD /",
        "GET / HTTP/1.0",
        "GET /\nX-Real-IP: 192.0.2.1",
        "GET /old",
        "GET /dir",
        "GET /dir/",
        "GET /large.txt",
        "GET /large.txt\nRange: bytes=100-199",
        "GET /\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
        "POST /missing\nContent-Type: text/plain\n\nposted",
        "GET /style.css",
        "GET /photo.png\nRange: bytes=4-",
        "GET /missing.js",
        "GET /.htaccess",
    ];
    let (nginx, fulmar) = (site.start(Server::Nginx), site.start(Server::Fulmar));
    let client = Client::new(Some("example.com"));
    let mut report = String::new();
    for request in requests {
        let [theirs, own] = [&nginx, &fulmar].map(|running| {
            let answer = client.ask(running.address(), request).unwrap().answer;
            assert_ne!(answer.last().status, 502, "{}:\n{}", running.server().name(), running.all_logs());
            let normal = normalise(&answer, running);
            (answer, normal)
        });
        let left = Compared { plain: &theirs.0, normal: theirs.1 };
        let right = Compared { plain: &own.0, normal: own.1 };
        if let Some(found) = difference(&left, &right) {
            let _ = writeln!(report, "==== {request}\n{found}\n{}", own.0.last());
        }
    }
    assert!(report.is_empty(), "{report}");
    nginx.stop();
    fulmar.stop();
}
