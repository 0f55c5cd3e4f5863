//! What is wrong with a configuration, or only dangerous (rows K1–K18).
//!
//! | row | elsewhere |
//! |---|---|
//! | K1 | `conf`'s golden files; the fuzz targets `conf_parse` and `site` |
//! | K3 | `process::reload::a_failed_reload_keeps_the_configuration`, `tls::a_reload_brings_a_renewed_certificate_…` |
//! | K4 | `process::command_line::diagnostics_are_nginx_s` |
//! | K12 | `htaccess::fulmar::mistakes_are_told_with_their_place`, `htaccess::tables::mistakes_close_their_directory` |
//! | K13 | `htaccess::fulmar::a_file_that_cannot_be_read_lets_nobody_pass` |
//! | K14 | `htaccess::fulmar::rules_without_end_are_ended`, `texts_that_grow_are_ended` |
//! | K17 | `htaccess::fulmar::many_directories_with_files` |
//! | K18 | `differential::auth::every_form_of_password`; `modules::authorization::auth_basic` |

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use tests::binary::Server;
use tests::site::Site;
use tests::{wait, worker};

const PATIENCE: Duration = Duration::from_secs(20);

/// Has a configuration that is the content of `http {}` tested; gives what is said against it.
fn refused(http: &str) -> String {
    Site::new(http).test(Server::Fulmar).expect_err(http)
}

fn accepted(http: &str) {
    if let Err(text) = Site::new(http).test(Server::Fulmar) {
        panic!("{http}: {text}");
    }
}

/// K1: each mistake is reported with its file and line, the test fails, and a server that runs is not touched.
#[test]
fn k1_texts_that_are_none() {
    let long = "x".repeat(1 << 20);
    let texts = [
        "server { listen 127.0.0.1:1; nonsense; }".as_bytes().to_vec(),
        b"server {".to_vec(),
        b"server { root \"/a; }".to_vec(),
        b"server { root /a }".to_vec(),
        b"}".to_vec(),
        b"server { root /a\0b; }".to_vec(),
        b"\xef\xbb\xbfserver { }".to_vec(),
        b"server { \xff\xfe \xc0\x80; }".to_vec(),
        format!("server {{ root /{long}; }}").into_bytes(),
        format!("{}{}", "a {".repeat(500), "}".repeat(500)).into_bytes(),
    ];
    let good = "server { listen 127.0.0.1:%%PORT%%; return 200 good; }";
    let running = Site::new(good).start(Server::Fulmar);
    let process = worker::of(&running);
    for text in texts {
        let site = Site::new("include bad.conf;").in_prefix("bad.conf", "");
        fs::write(site.prefix().join("bad.conf"), &text).expect("write");
        let told = site.test(Server::Fulmar).expect_err("a mistake");
        let shown: String = text.escape_ascii().to_string().chars().take(60).collect();
        assert!(told.contains("bad.conf:") && told.contains("[emerg]"), "{shown}: {told}");
        assert!(told.len() < 4_000, "{shown}: {} bytes are printed", told.len());
        assert!(!told.contains("panicked"), "{shown}: {told}");
    }
    assert_eq!(running.ask("GET /\nConnection: close").last().text(), "good");
    assert_eq!(worker::of(&running), process);
    // Lines may end as in Windows.
    accepted("server {\r\n listen 127.0.0.1:80;\r\n root /a;\r\n}\r\n");
    running.stop();
}

/// K2: what is included may be nothing, a directory, a pipe, itself, or ten thousand files.
#[test]
fn k2_includes() {
    let site = |http: &str| {
        Site::new(http).in_prefix("itself.conf", "include itself.conf;").in_prefix("dir/a.conf", "")
    };
    let fifo = |site: &Site| {
        mknodat(CWD, site.prefix().join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .expect("fifo");
    };
    for bad in ["include none.conf;", "include dir;", "include itself.conf;", "include fifo;", "include f*o;"]
    {
        let site = site(bad);
        fifo(&site);
        let told = site.test(Server::Fulmar).expect_err(bad);
        assert!(told.contains("[emerg]") && !told.contains("panicked"), "{bad}: {told}");
    }
    let many = Site::new("include many/*.conf; server { listen 127.0.0.1:80; }");
    fs::create_dir(many.prefix().join("many")).expect("directory");
    for at in 0..2_000 {
        let text = if at == 7 { "server_tokens off;" } else { "" };
        fs::write(many.prefix().join(format!("many/{at}.conf")), text).expect("file");
    }
    many.test(Server::Fulmar).expect("two thousand files");
}

/// K3: whatever the new configuration lacks, the old one goes on serving, and the log says what it was.
#[test]
fn k3_reloads_that_fail() {
    let good = "server { listen 127.0.0.1:%%PORT%%; return 200 good; }";
    let site = Site::new(good);
    let running = site.start(Server::Fulmar);
    let process = worker::of(&running);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("its address");
    let bad = [
        "server { listen 127.0.0.1:%%PORT%% ssl; ssl_certificate none.pem; ssl_certificate_key none.key; }"
            .to_owned(),
        format!("{good} server {{ listen {taken}; }}"),
        format!("error_log %%DIR%%/none/error.log; {good}"),
        format!("access_log %%DIR%%/none/access.log; {good}"),
        "server { listen 127.0.0.1:%%PORT%%; location ~ ( { } }".to_owned(),
        "include none/*.conf; include none.conf;".to_owned(),
        format!("{good} server {{ listen 192.0.2.1:80; }}"),
    ];
    for configuration in &bad {
        fs::write(site.logs(Server::Fulmar).join("error.log"), "").expect("error log");
        running.rewrite(configuration);
        running.signal(Signal::HUP);
        running.wait_for_log("error.log", "[emerg]");
        assert_eq!(running.ask("GET /\nConnection: close").last().text(), "good", "{configuration}");
        assert_eq!(worker::of(&running), process, "{configuration}");
    }
    // A root that is not there is no mistake: it may come.
    running.rewrite("server { listen 127.0.0.1:%%PORT%%; root %%DIR%%/none; }");
    running.signal(Signal::HUP);
    let reloaded = wait::until(PATIENCE, || running.ask("GET /x\nConnection: close").statuses() == [404]);
    assert!(reloaded, "{}", running.all_logs());
    running.stop();
}

/// K6: variables that need themselves are an error or an end, never a hang.
#[test]
fn k6_variables_in_circles() {
    let site = Site::new(
        r#"
        map $b $a { default $b; } map $c $b { default $c; } map $a $c { default "$a$a"; }
        map $uri $big { default "$uri$uri$uri$uri$uri$uri$uri$uri"; }
        server {
            listen 127.0.0.1:%%PORT%%;
            location /circle { return 200 "[$a]"; }
            location /set { set $x $x$x$x; set $y "$y$x"; return 200 "[$x$y]"; }
            location /rewrite { rewrite ^(.*)$ $1$1$1$1; }
            location /if { if ($a) { set $a_b $a; } return 200 "[$a_b]"; }
            location /page { error_page 404 /page; return 404; }
        }
        "#,
    );
    let running = site.start(Server::Fulmar);
    let process = worker::of(&running);
    for path in ["/circle", "/set", "/rewrite", "/if", "/page"] {
        let answer = running.ask(&format!("GET {path}\nConnection: close"));
        assert_eq!(answer.responses.len(), 1, "{path}: {}", running.all_logs());
        assert!(answer.last().body.len() < 100_000, "{path}: {} bytes", answer.last().body.len());
    }
    assert_eq!(worker::of(&running), process);
    running.stop();
}

/// K7: an invalid pattern is an error at its line; one that could take for ever does not; and there may be very many.
#[test]
fn k7_patterns() {
    for pattern in ["(", "[", "*", "(?P<1>a)", "(?<n>a)(?<n>b)(", "(?z)"] {
        let told = refused(&format!("server {{ location ~ \"{pattern}\" {{ }} }}"));
        assert!(told.contains("[emerg]") && !told.contains("panicked"), "{pattern}: {told}");
    }
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            location ~ ^/(a+)+$ { return 200 plain; }
            location ~ ^/b(?!x)((a|aa)+)+\1$ { return 200 backtracking; }
            location ~ ^/c(.*)*(.*)*(.*)*d(?=e)$ { return 200 stars; }
            location / { return 200 other; }
        }
        "#,
    );
    let running = site.start(Server::Fulmar);
    let mut good = running.connect();
    good.extend(PATIENCE);
    for path in [
        format!("/{}!", "a".repeat(4000)),
        format!("/b{}!", "a".repeat(400)),
        format!("/c{}", "x".repeat(4000)),
    ] {
        let answer = running.ask(&format!("GET {path}\nConnection: close"));
        assert!(matches!(answer.last().status, 200 | 500), "{}", answer.last());
        assert_eq!(good.exchange("GET /good").expect("others are served").status, 200);
    }
    drop(good);
    running.stop();
    let many: String =
        (0..2_000).map(|at| format!("location ~ ^/n{at}/(.*)$ {{ return 200 {at}; }}\n")).collect();
    let running = Site::new(&format!("server {{ listen 127.0.0.1:%%PORT%%; {many} }}")).start(Server::Fulmar);
    assert_eq!(running.ask("GET /n1999/x\nConnection: close").last().text(), "1999");
    running.stop();
}

/// K8: captures belong to the last match, within its bounds, whatever comes between.
#[test]
fn k8_captures_of_other_scopes() {
    let site = Site::new(
        r#"
        map $uri $mapped { ~^/(?<m>.)(?<n>.*)$ $m-$n; }
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name ~^(?<host_part>.+)\.example$;
            location ~ ^/(a)(b)?(.*)$ {
                if ($uri ~ ^/(..)) { set $first $1; }
                if ($arg_x ~ (.)(.)(.)(.)(.)(.)(.)(.)(.)) { set $second "$9$8"; }
                set $third $3;
                return 200 "$1|$2|$3|$9|$first|$second|$third|$mapped|$m|$host_part";
            }
        }
        "#,
    );
    let running = site.start(Server::Fulmar);
    let text = |request: &str| running.ask(request).last().text();
    let long = text("GET /abrest?x=123456789\nHost: h.example\nConnection: close");
    assert!(long.contains("98") && long.ends_with("|h") && long.contains("|ab|"), "{long}");
    let short = text("GET /a?x=1\nHost: other\nConnection: close");
    assert!(!short.contains("98") && short.len() < 40, "{short}");
    for odd in ["/a%ff%fe", "/a%e2%82", &format!("/a{}", "%c3%28".repeat(500))] {
        assert_eq!(running.ask(&format!("GET {odd}?x=%00%ff\nConnection: close")).statuses(), [200]);
    }
    running.stop();
}

/// K9: numbers that are none, or too much, are errors.
#[test]
fn k9_numbers() {
    for (directive, values) in [
        (
            "client_max_body_size",
            &["10000000000000g", "-1", "1e9", "", "1kk", "0x10", "9223372036854775808", "k"][..],
        ),
        ("client_body_buffer_size", &["-1", "1t", "99999999999999999999"]),
        ("client_body_min_rate", &["-1", "1s", "99999999999999999999"]),
        ("send_min_rate", &["x", "-5", "1.5k"]),
        ("client_header_timeout", &["-1", "1e9", "1y1y", "99999999999999999999s", "1 s", "10000000000000y"]),
        ("keepalive_requests", &["-1", "1k", "99999999999999999999", "x"]),
        ("max_headers", &["-1", "99999999999999999999"]),
    ] {
        for value in values {
            let told = refused(&format!("{directive} {value}; server {{ listen 127.0.0.1:80; }}"));
            assert!(told.contains("[emerg]") && told.contains(directive), "{directive} {value}: {told}");
            assert!(!told.contains("panicked"), "{directive} {value}: {told}");
        }
    }
    for fine in
        ["client_max_body_size 0", "client_max_body_size 8g", "client_header_timeout 0", "send_timeout 1h30m"]
    {
        accepted(&format!("{fine}; server {{ listen 127.0.0.1:80; }}"));
    }
}

/// K11: what is legal and dangerous in nginx stays without harm here.
#[test]
fn k11_dangerous_but_legal() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            merge_slashes off;
            location /i { alias %%ROOT%%/images/; }
            location /to { return 302 http://localhost$uri; }
            location /admin/ { deny all; }
        }
        "#,
    )
    .file("images/a.png", "image")
    .file("images-secret/x", "secret")
    .file("secret", "secret")
    .file("admin/x", "secret");
    let running = site.start(Server::Fulmar);
    for path in
        ["/i../secret", "/i../images-secret/x", "/i-secret/x", "/i/../secret/../admin/x", "/i..%2fsecret"]
    {
        let answer = running.ask(&format!("GET {path}\nConnection: close"));
        assert!(!answer.last().text().contains("secret"), "{path}: {}", answer.last());
    }
    let redirect = running.ask("GET /to/a%0d%0aSet-Cookie:%20a=b\nConnection: close");
    assert!(redirect.last().field("Set-Cookie").is_none(), "{}", redirect.last());
    running.stop();
}

/// K13: a file of settings that is no file, too large, or gone decides nothing, or shuts the directory.
#[test]
fn k13_files_of_settings_that_are_none() {
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; htaccess on; }")
        .file("plain/a.txt", "a")
        .file("pipe/a.txt", "a")
        .file("dir/a.txt", "a")
        .dir("dir/.htaccess")
        .file("large/a.txt", "a")
        .file("loop/a.txt", "a")
        .link("loop/.htaccess", ".htaccess")
        .file("gone/a.txt", "a")
        .link("gone/.htaccess", "nowhere");
    mknodat(CWD, site.root().join("pipe/.htaccess"), FileType::Fifo, Mode::from_raw_mode(0o600), 0)
        .expect("fifo");
    let large = File::create(site.root().join("large/.htaccess")).expect("file");
    large.set_len(200 << 20).expect("length");
    let running = site.start(Server::Fulmar);
    let status = |path: &str| running.ask(&format!("GET {path}\nConnection: close")).last().status;
    assert_eq!(status("/plain/a.txt"), 200);
    for path in ["/pipe/a.txt", "/dir/a.txt", "/large/a.txt", "/loop/a.txt", "/gone/a.txt"] {
        let got = status(path);
        assert!(matches!(got, 200 | 403 | 500), "{path}: {got}");
        assert_ne!((path, got), ("/large/a.txt", 200), "what it says was not read");
    }
    assert!(running.peak_bytes() < 150 << 20, "{}", running.peak_bytes());
    assert_eq!(status("/plain/a.txt"), 200);
    running.stop();
}

/// K16: what a section is for is what it says, to the last byte.
#[test]
fn k16_sections_match_exactly() {
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; root %%ROOT%%; htaccess on; default_type text/plain; }")
        .file(".htaccess", "<FilesMatch \"\\.php$\">\nRequire all denied\n</FilesMatch>\n<Files \"secret\">\nRequire all denied\n</Files>\n")
        .file("a.php", "code")
        .file("a.php\n", "text")
        .file("secret", "secret")
        .file("secret ", "other")
        .file("wrong/a.txt", "a")
        .file("wrong/.htaccess", "Require nonsense\n")
        .file("limit/a.txt", "a")
        .file("limit/.htaccess", "<Limit FOO>\nRequire all denied\n</Limit>\n");
    let running = site.start(Server::Fulmar);
    let status = |path: &str| running.ask(&format!("GET {path}\nConnection: close")).last().status;
    assert_eq!(
        (status("/a.php"), status("/secret"), status("/%73ecret"), status("//secret")),
        (403, 403, 403, 403)
    );
    assert_eq!(status("/secret%20"), 200);
    // `$` matches only at the very end, as in Apache: this name has no program.
    assert_eq!(status("/a.php%0a"), 200);
    assert!(matches!(status("/wrong/a.txt"), 403 | 500), "it is shut");
    assert!(matches!(status("/limit/a.txt"), 200 | 500), "another method");
    running.stop();
}

/// K18: a file of passwords that cannot be read, is invalid, or is endless denies all clients.
#[test]
fn k18_files_of_passwords_that_are_none() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            auth_basic "realm";
            location /none { auth_basic_user_file %%DIR%%/none; }
            location /dir { auth_basic_user_file %%ROOT%%; }
            location /odd { auth_basic_user_file %%DIR%%/odd; }
            location /closed { auth_basic_user_file %%DIR%%/closed; }
            location /large { auth_basic_user_file %%DIR%%/large; }
        }
        "#,
    )
    .in_prefix("odd", ":\na\n:a\na:\na:$\na:$2y$\na:$2y$31$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\na:{X}y\na:$6$rounds=999999999$x$y\n")
    .in_prefix("closed", "a:b\n");
    fs::set_permissions(site.prefix().join("closed"), fs::Permissions::from_mode(0o000)).expect("closed");
    File::create(site.prefix().join("large")).and_then(|file| file.set_len(1 << 30)).expect("large");
    let running = site.start(Server::Fulmar);
    for path in ["none", "dir", "odd", "large", "closed"] {
        for credentials in ["YTo=", "YTphYQ==", "Og==", "YQ==", "!", &"A".repeat(7_000)] {
            let answer =
                running.ask(&format!("GET /{path}\nAuthorization: Basic {credentials}\nConnection: close"));
            assert!(
                matches!(answer.last().status, 401 | 403 | 500),
                "{path} {credentials}: {}",
                answer.last()
            );
        }
    }
    assert!(running.peak_bytes() < 150 << 20, "{}", running.peak_bytes());
    running.stop();
}
