//! The same PHP-FPM behind nginx and behind Fulmar.

use tempfile::TempDir;
use tests::binary::{Server, have_nginx};
use tests::differential::{agree, agree_with_logs};
use tests::php::{Php, have_php};
use tests::site::Site;

/// The parameters that nginx is shipped with.
const PARAMS: &str = include_str!("../../stock/debian/fastcgi_params");

/// What a script gets, but for what differs between two servers.
const INFO: &str = r#"<?php
header('Content-Type: text/plain; charset=utf-8');
ksort($_SERVER);
foreach ($_SERVER as $name => $value) {
    if (preg_match('/^(HTTP_|PATH_|SCRIPT_|DOCUMENT_|CONTENT_|REQUEST_(METHOD|URI|SCHEME)|QUERY_|SERVER_(NAME|PROTOCOL|PORT|ADDR)|REMOTE_ADDR|REMOTE_USER|GATEWAY|OWN_|PHP_SELF)/', $name)) {
        echo "$name=$value\n";
    }
}
"#;

const BODY: &str = r#"<?php
$body = file_get_contents('php://input');
echo $_SERVER['REQUEST_METHOD'], ' ', strlen($body), ' ', md5($body), ' ',
    isset($_SERVER['CONTENT_LENGTH']) ? $_SERVER['CONTENT_LENGTH'] : 'none', ' ',
    isset($_POST['a']) ? $_POST['a'] : '-', "\n";
"#;

/// A site of scripts, most of whose locations go to the Unix socket.
fn site(php: &Php) -> Site {
    let configuration = r#"
        upstream php {
            server UNIX;
            server INET backup;
        }
        upstream kept {
            server INET;
            keepalive 4;
        }
        map $uri $target {
            default UNIX;
            ~^/by-name php;
        }
        log_format short '$request $status';
        access_log %%LOGS%%/access.log short;
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            root %%ROOT%%;
            index index.php index.html;
            include fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_param OWN_EMPTY "";
            fastcgi_param OWN_NONE "" if_not_empty;

            location / { try_files $uri $uri/ /index.php?$args; }
            location ~ \.php$ { fastcgi_pass UNIX; }
            location ~ ^/careful/.+\.php(/|$) {
                fastcgi_split_path_info ^(.+?\.php)(/.*)$;
                set $info $fastcgi_path_info;
                try_files $fastcgi_script_name =404;
                fastcgi_param PATH_INFO $info;
                fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                include fastcgi_params;
                fastcgi_pass php;
            }
            location /split/ {
                fastcgi_split_path_info ^/split(/.+\.php)(.*)$;
                fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                fastcgi_param PATH_INFO $fastcgi_path_info;
                include fastcgi_params;
                fastcgi_pass INET;
            }
            location /directory/ {
                fastcgi_index info.php;
                fastcgi_pass php;
            }
            location = /kept.php { fastcgi_keep_conn on; fastcgi_pass kept; }
            location /by-name/ { fastcgi_pass $target; }
            location = /unbuffered.php { include fastcgi_params; fastcgi_buffering off; fastcgi_pass UNIX; fastcgi_param SCRIPT_FILENAME %%ROOT%%/large.php; }
            location = /hidden.php {
                fastcgi_hide_header X-One;
                fastcgi_pass_header X-Accel-Expires;
                include fastcgi_params;
                fastcgi_param SCRIPT_FILENAME %%ROOT%%/headers.php;
                fastcgi_pass UNIX;
            }
            location = /intercepted.php {
                fastcgi_intercept_errors on;
                error_page 404 /gone.html;
                fastcgi_param SCRIPT_FILENAME %%ROOT%%/status.php;
                include fastcgi_params;
                fastcgi_pass UNIX;
            }
            location /inside/ { internal; alias %%ROOT%%/private/; }
            location = /own-field.php {
                fastcgi_param HTTP_X_OWN configured;
                include fastcgi_params;
                fastcgi_param SCRIPT_FILENAME %%ROOT%%/info.php;
                fastcgi_pass UNIX;
            }
            location = /no-fields.php {
                fastcgi_pass_request_headers off;
                fastcgi_pass_request_body off;
                fastcgi_param SCRIPT_FILENAME %%ROOT%%/body.php;
                fastcgi_param REQUEST_METHOD $request_method;
                fastcgi_pass UNIX;
            }
        }
    "#;
    let socket = format!("unix:{}", php.socket().display());
    let configuration = configuration.replace("UNIX", &socket).replace("INET", &php.address().to_string());
    Site::new(&configuration)
        .in_prefix("fastcgi_params", PARAMS)
        .file("index.php", "<?php echo 'front ', $_SERVER['QUERY_STRING'], \"\\n\";")
        .file("info.php", INFO)
        .file("body.php", BODY)
        .file("kept.php", BODY)
        .file("careful/info.php", INFO)
        .file("directory/info.php", INFO)
        .file("by-name/info.php", INFO)
        .file("status.php", "<?php header('HTTP/1.1 404 Went away'); echo \"gone\\n\";")
        .file("redirect.php", "<?php header('Location: /elsewhere?a=b');")
        .file("redirect-301.php", "<?php header('Location: http://example.com/', true, 301); echo 'moved';")
        .file("no-content.php", "<?php ini_set('default_mimetype', ''); http_response_code(204);")
        .file("not-modified.php", "<?php http_response_code(304); header('ETag: \"a\"');")
        .file(
            "large.php",
            "<?php for ($i = 0; $i < 40000; $i++) echo str_repeat(chr(97 + $i % 26), 8), PHP_EOL;",
        )
        .file("length.php", "<?php header('Content-Length: 5'); echo 'hello';")
        .file(
            "headers.php",
            "<?php header('X-One: 1'); header('X-Two: 2'); header('X-Two: 3', false); \
            header('X-Accel-Expires: 10'); setcookie('a', 'b'); setcookie('c', 'd'); echo 'x';",
        )
        .file(
            "accel.php",
            "<?php header('X-Accel-Redirect: /inside/secret.txt'); header('X-One: 1'); \
            header('Content-Disposition: inline'); echo 'never seen';",
        )
        .file("fatal.php", "<?php header('X-Before: 1'); undefined_function();")
        .file("warns.php", "<?php error_log('a message from the script.'); echo \"warned\\n\";")
        .file("empty.php", "")
        .file("pic.jpg", "<?php echo 'an image must never run';")
        .file("gone.html", "replaced\n")
        .file("private/secret.txt", "secret\n")
}

#[test]
fn scripts() {
    if !have_php() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    agree(
        &site(&php),
        &[
            "GET /",
            "GET /info.php",
            "GET /info.php?a=b&c=%20d",
            "GET /info.php\nX-One: 1\nx-one: 2\nCookie: a=b\nCookie: c=d",
            "GET /info.php\nX_Under: dropped\nX-Dash: kept",
            "GET /info.php\nAuthorization: Basic dXNlcjpwYXNz",
            "GET /info.php HTTP/1.0",
            "HEAD /info.php",
            "GET /missing/page?x=y",
            "GET /missing.php",
            "GET /status.php",
            "HEAD /status.php",
            "GET /redirect.php",
            "GET /redirect-301.php",
            "GET /no-content.php",
            "GET /not-modified.php",
            "GET /large.php",
            "GET /large.php HTTP/1.0",
            "GET /unbuffered.php",
            "GET /length.php",
            "HEAD /length.php",
            "GET /headers.php",
            "GET /hidden.php",
            "GET /intercepted.php",
            "GET /empty.php",
            "GET /fatal.php",
            "GET /directory/",
            "GET /directory/info.php",
            "GET /by-name/info.php",
            "GET /own-field.php\nX-Own: from the client",
            "GET /own-field.php\nX-Other: from the client",
        ],
    );
}

#[test]
fn bodies() {
    if !have_php() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    let large = format!("POST /body.php\nContent-Type: text/plain\n\n{}", "0123456789abcdef".repeat(8000));
    let chunked = "POST /body.php HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                   Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n3;x=y\r\nefg\r\n0\r\n\r\n";
    let empty_chunks = "POST /body.php HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                        Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    agree(
        &site(&php),
        &[
            "POST /body.php\nContent-Type: application/x-www-form-urlencoded\n\na=posted&b=c",
            "POST /body.php\n\n",
            "PUT /body.php\n\nput",
            "DELETE /body.php",
            &large,
            chunked,
            empty_chunks,
            "POST /kept.php\n\none",
            "POST /kept.php\n\ntwo",
            "GET /kept.php",
            "POST /no-fields.php\nContent-Type: text/plain\n\nnever passed",
        ],
    );
}

#[test]
fn paths_that_could_run_what_is_no_script() {
    if !have_php() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    agree(
        &site(&php),
        &[
            "GET /pic.jpg",
            "GET /pic.jpg/y.php",
            "GET /pic.jpg%2fy.php",
            "GET /pic.jpg%00.php",
            "GET /pic.jpg/..%2fx.php",
            "GET /info.php/",
            "GET /info.php/more",
            "GET /info.php%0a",
            "GET /info.php.",
            "GET /INFO.PHP",
            "GET /careful/info.php",
            "GET /careful/info.php/one/two?q",
            "GET /careful/info.php/one.php/two",
            "GET /careful/missing.php",
            "GET /careful/missing.php/pic.jpg",
            "GET /careful/../pic.jpg/y.php",
            "GET /careful/info.php/%2e%2e/%2e%2e/pic.jpg/x.php",
            "GET /split/info.php/path",
            "GET /split/pic.jpg/x.php",
            "GET /split/none",
            "GET /directory/none.php",
        ],
    );
}

#[test]
fn what_scripts_complain_about() {
    if !have_php() || !have_nginx() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    agree_with_logs(&site(&php), &["GET /warns.php", "GET /missing.php"], &["access.log", "error.log"]);
}

#[test]
fn files_that_a_script_asks_for() {
    if !have_php() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    agree(
        &site(&php),
        &["GET /accel.php", "HEAD /accel.php", "GET /accel.php\nRange: bytes=0-2", "GET /inside/secret.txt"],
    );
}

#[test]
fn a_script_that_flushes_is_seen_at_once() {
    if !have_php() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    let script = "<?php while (ob_get_level()) ob_end_flush(); echo 'first'; flush(); \
                  while (!file_exists(__DIR__ . '/go')) usleep(5000); echo 'second';";
    let configuration = format!(
        "server {{ listen 127.0.0.1:%%PORT%%; location / {{ fastcgi_buffering off; \
         fastcgi_param SCRIPT_FILENAME %%ROOT%%/slow.php; fastcgi_param REQUEST_METHOD GET; \
         fastcgi_pass unix:{}; }} }}",
        php.socket().display()
    );
    let site = Site::new(&configuration).file("slow.php", script);
    let running = site.start(Server::Fulmar);
    let mut client = running.connect();
    client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    while !String::from_utf8_lossy(client.rest()).contains("first") {
        assert!(client.read_some(4096) > 0, "the start of the answer never came");
    }
    assert!(!String::from_utf8_lossy(client.rest()).contains("second"));
    std::fs::write(site.root().join("go"), "").unwrap();
    let response = client.response("GET").unwrap();
    assert_eq!(response.body, b"firstsecond");
    running.stop();
}
