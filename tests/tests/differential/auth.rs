//! `auth_basic`, `auth_request` and how they go together with `allow`, `deny` and `satisfy`.

use std::time::{Duration, Instant};

use tests::binary::{Server, have_nginx};
use tests::client::{self, Client};
use tests::differential::{agree, agree_with_logs};
use tests::site::Site;
use tests::wait::pause;

const LOGS: [&str; 2] = ["access.log", "error.log"];

/// The password is `secret` in every form, as htpasswd, openssl and crypt of the C library store it.
const USERS: &str = "\
# remark:{PLAIN}secret

bcrypt:$2y$04$KGYx/Hoa0vRVxFqOv1kYUOz50CtNXIQNJLdGaInNL3diLIGsGdC0m
bcrypta:$2a$04$KGYx/Hoa0vRVxFqOv1kYUOz50CtNXIQNJLdGaInNL3diLIGsGdC0m
bcryptb:$2b$04$KGYx/Hoa0vRVxFqOv1kYUOz50CtNXIQNJLdGaInNL3diLIGsGdC0m
sha256:$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA
rounds:$5$rounds=1234$abcdefgh$kTVqJqhTxJja37YYybK4z25xcKovYD6AZG90TrZhsA8
sha512:$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1
apr1:$apr1$ZrfCvvaN$FUiZuofnEO2yDvT9xruCO.
md5:$1$saltsalt$9xy1btjgzLYfb7hivXtC//
des:css.MoY7wDXZI
sha:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=
ssha:{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0
plain:{PLAIN}secret:a remark:another
windows:{PLAIN}secret\r
twice:{PLAIN}first
twice:{PLAIN}secret
broken:$apr1$
last:{PLAIN}secret";

/// The field of a user and a password (RFC 7617).
fn basic(credentials: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let encode = |group: &[u8]| {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(*group.get(at).unwrap_or(&0)));
        let digit = |at: usize| match at <= group.len() {
            true => char::from(DIGITS[(bits >> (18 - 6 * at) & 63) as usize]),
            false => '=',
        };
        [digit(0), digit(1), digit(2), digit(3)]
    };
    let text: String = credentials.as_bytes().chunks(3).flat_map(encode).collect();
    format!("Authorization: Basic {text}")
}

fn as_cases(requests: &[String]) -> Vec<&str> {
    requests.iter().map(String::as_str).collect()
}

#[test]
fn every_form_of_password() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            auth_basic "members only";
            auth_basic_user_file %%DIR%%/users;
            add_header X-User $remote_user always;
        }
        "#,
    )
    .in_prefix("users", USERS)
    .file("a", "a\n");
    let users = USERS.lines().filter_map(|line| line.split_once(':')).map(|(user, _)| user);
    let mut requests = Vec::new();
    for user in users.chain(["unknown", "#", ""]) {
        for password in ["secret", "Secret", "secret2", ""] {
            requests.push(format!("GET /a\n{}", basic(&format!("{user}:{password}"))));
        }
    }
    agree(&site, &as_cases(&requests));
}

#[test]
fn credentials() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            auth_basic "members only";
            auth_basic_user_file %%DIR%%/users;
            location /off { auth_basic off; }
            location /none { auth_basic x; auth_basic_user_file %%DIR%%/none; }
            location /directory { auth_basic x; auth_basic_user_file %%DIR%%; }
            location /variable { auth_basic $arg_realm; auth_basic_user_file %%DIR%%/$arg_file; }
            location /page { error_page 401 /off.html; }
            location /page2 { error_page 401 =403 /off.html; }
            location /named { error_page 401 @named; }
            location @named { return 401 "named"; }
            location /empty { auth_basic ""; }
            location /return { return 200 "open"; }
            location /limited { limit_except GET { auth_basic off; } }
        }
        "#,
    )
    .in_prefix("users", "u:{PLAIN}p\n")
    .file("a", "a\n")
    .file("off", "off\n")
    .file("off.html", "page\n");
    let good = "Authorization: Basic dTpw";
    let requests = [
        "GET /a".to_owned(),
        "HEAD /a".to_owned(),
        "GET /a HTTP/1.0".to_owned(),
        "POST /a\n\nbody".to_owned(),
        format!("GET /a\n{good}"),
        format!("HEAD /a\n{good}"),
        "GET /a\nAuthorization: basic   dTpw".to_owned(),
        "GET /a\nAuthorization: BASIC dTpw==".to_owned(),
        "GET /a\nAuthorization: Basic dTpw=trailer".to_owned(),
        "GET /a\nAuthorization: Basic".to_owned(),
        "GET /a\nAuthorization: Basic !".to_owned(),
        "GET /a\nAuthorization: Bearer dTpw".to_owned(),
        "GET /a\nAuthorization: Basic dQ==".to_owned(),
        "GET /a\nAuthorization: Basic OnA=".to_owned(),
        "GET /off".to_owned(),
        "GET /missing".to_owned(),
        format!("GET /missing\n{good}"),
        format!("GET /none\n{good}"),
        "GET /none".to_owned(),
        format!("GET /directory\n{good}"),
        format!("GET /variable?realm=r&file=users\n{good}"),
        "GET /variable?realm=r&file=users".to_owned(),
        "GET /variable?realm=off&file=users".to_owned(),
        format!("GET /variable?realm=r&file=none\n{good}"),
        "GET /page".to_owned(),
        "GET /page2".to_owned(),
        "GET /named".to_owned(),
        "GET /empty".to_owned(),
        "GET /return".to_owned(),
        "GET /limited".to_owned(),
        "POST /limited\n\nx".to_owned(),
    ];
    agree_with_logs(&site, &as_cases(&requests), &LOGS);
}

#[test]
fn subrequests() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location / { return 444; }
            location /open { auth_request /auth/204; }
            location /static { auth_request /static.txt; }
            location = /static.txt { }
            location /unauthorized { auth_request /auth/401; }
            location /forbidden { auth_request /auth/403; }
            location /error { auth_request /auth/404; }
            location /redirect { auth_request /auth/302; }
            location /closed { auth_request /closed-location; }
            location /off { auth_request off; }
            location /challenge { auth_request /auth/challenge; }
            location /page { auth_request /auth/401; error_page 401 /off.html; }
            location /again { auth_request /auth/204; error_page 404 /open.txt; }
            location /method { auth_request /auth/method; auth_request_set $seen "$sent_http_x-$request_method";
                               add_header X-Seen "$seen" always; }
            location /set {
                auth_request /auth/204;
                auth_request_set $verdict "$status $uri";
                add_header X-Verdict "$verdict" always;
            }
            location /setpage {
                auth_request /auth/204;
                auth_request_set $verdict "$status $uri";
                error_page 404 = @verdict;
            }
            location @verdict { return 200 "[$verdict]"; }
            location /unset { return 200 "[$verdict]"; }
            location /args { auth_request /auth/204; auth_request_set $args "x=y"; error_page 404 = @args; }
            location @args { return 200 "[$args]"; }
            location /auth/ { internal; return 500; }
            location = /auth/204 { internal; return 204; }
            location = /auth/302 { internal; return 302 /x; }
            location = /auth/401 { internal; return 401; }
            location = /auth/403 { internal; return 403; }
            location = /auth/404 { internal; return 404; }
            location = /auth/challenge {
                internal;
                add_header WWW-Authenticate one always;
                return 401;
            }
            location = /auth/method {
                if ($request_method = POST) { return 204; }
                return 403;
            }
            location /deep { auth_request /auth/204; location /deep/er { auth_request /auth/403; } }
        }
        server {
            listen 127.0.0.1:%%PORT_1%%;
            root %%ROOT%%;
            auth_request /auth;
            location = /auth { if ($arg_ok) { return 204; } if ($http_x_ok) { return 200; } return 403; }
        }
        "#,
    )
    .file("open.txt", "open\n")
    .file("static.txt", "static\n")
    .file("static-more", "more\n")
    .file("off.html", "off\n")
    .file("deep/er", "x");
    let requests = [
        "GET /open.txt",
        "HEAD /open.txt",
        "POST /open.txt\n\nbody",
        "GET /open",
        "GET /static-more",
        "GET /static-more\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
        "GET /static-more\nRange: bytes=1-2",
        "GET /unauthorized",
        "GET /forbidden",
        "POST /forbidden\n\nbody",
        "GET /error",
        "GET /redirect",
        "GET /off.html",
        "GET /challenge",
        "GET /page",
        "GET /again",
        "GET /method",
        "POST /method\n\nx",
        "GET /set",
        "GET /setpage?q",
        "GET /unset",
        "GET /args?a",
        "GET /deep/er",
    ];
    let mut cases: Vec<(usize, &str)> = requests.iter().map(|request| (0, *request)).collect();
    cases.extend([
        (1, "GET /open.txt"),
        (1, "GET /open.txt\nX-Ok: 1"),
        (1, "GET /open.txt?ok=1"),
        (1, "GET /auth"),
    ]);
    agree_with_logs(&site, &cases, &LOGS);
}

#[test]
fn satisfy() {
    let mut locations = String::new();
    for how in ["all", "any"] {
        for address in ["allow", "deny", "neither"] {
            for password in ["basic", "open"] {
                for request in ["204", "401", "403", "404", "none"] {
                    let rule = if address == "neither" { String::new() } else { format!("{address} all;") };
                    let basic = if password == "basic" { "auth_basic r;" } else { "" };
                    let asks = if request == "none" { "off".into() } else { format!("/auth/{request}") };
                    locations += &format!(
                        "location /{how}/{address}/{password}/{request} {{ satisfy {how}; {rule} {basic} \
                         auth_request {asks}; try_files /a =404; }}\n"
                    );
                }
            }
        }
    }
    let configuration = format!(
        "server {{ listen 127.0.0.1:%%PORT%%; root %%ROOT%%; auth_basic_user_file %%DIR%%/users;
         {locations}
         location = /auth/204 {{ return 204; }} location = /auth/401 {{ return 401; }}
         location = /auth/403 {{ return 403; }} location = /auth/404 {{ return 404; }} }}"
    );
    let site = Site::new(&configuration).in_prefix("users", "u:{PLAIN}p\n").file("a", "a\n");
    let targets = locations.lines().filter_map(|line| line.split(' ').nth(1));
    let mut requests = Vec::new();
    for target in targets {
        requests.push(format!("GET {target}"));
        requests.push(format!("GET {target}\nAuthorization: Basic dTpw"));
    }
    agree_with_logs(&site, &as_cases(&requests), &LOGS);
}

#[test]
fn delays() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            auth_delay 300ms;
            auth_basic_user_file %%DIR%%/users;
            location / { auth_basic x; }
            location /any { auth_basic x; satisfy any; deny all; }
            location /deny { deny all; }
            location /return { return 401; }
        }
        "#,
    )
    .in_prefix("users", "u:{PLAIN}p\n")
    .file("a", "a\n");
    for server in [Server::Nginx, Server::Fulmar] {
        if matches!(server, Server::Nginx) && !have_nginx() {
            continue;
        }
        let running = site.start(server);
        for (request, is_delayed) in [
            ("GET /a", true),
            ("GET /a\nAuthorization: Basic dTpw", false),
            ("GET /any", true),
            ("GET /deny", false),
            ("GET /return", false),
        ] {
            let is_slow = || {
                let start = Instant::now();
                client::ask(running.address_of(0), &format!("{request}\nConnection: close"));
                start.elapsed() >= NEARLY
            };
            // A busy machine may be slow once by itself.
            let all_slow = (0..if is_delayed { 1 } else { 5 }).all(|_| is_slow());
            assert_eq!(all_slow, is_delayed, "{} {request}", server.name());
        }
        running.stop();
    }
}

/// The delay, less what clocks of whole milliseconds leave out.
const NEARLY: Duration = Duration::from_millis(295);

#[test]
fn mistakes() {
    for wrong in [
        "auth_basic;",
        "auth_basic a; auth_basic b;",
        "auth_basic_user_file a; auth_basic_user_file b;",
        "auth_request;",
        "auth_request_set x y;",
        "auth_request_set $uri y;",
        "auth_request_set $x;",
        "auth_delay x;",
    ] {
        let site = Site::new(&format!("server {{ listen 127.0.0.1:%%PORT%%; {wrong} }}"));
        tests::differential::agree_on_mistake(&site);
    }
}

/// One location for the users of a file that stands next to it.
fn site_of_users(users: &str) -> Site {
    Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            auth_basic x;
            auth_basic_user_file %%DIR%%/users;
        }
        "#,
    )
    .in_prefix("users", users)
    .file("a", "a\n")
}

/// Whether the file was left alone for a while, so that nobody reads it again, or has just been written.
#[test]
fn a_change_of_the_file_counts_at_once() {
    let site = site_of_users("u:{PLAIN}one\n");
    let file = site.prefix().join("users");
    for server in [Server::Nginx, Server::Fulmar] {
        if matches!(server, Server::Nginx) && !have_nginx() {
            continue;
        }
        std::fs::write(&file, "u:{PLAIN}one\n").expect("write");
        let running = site.start(server);
        let status = |password: &str| {
            running.ask(&format!("GET /a\n{}", basic(&format!("u:{password}")))).statuses()[0]
        };
        assert_eq!((status("one"), status("two")), (200, 401), "{}", server.name());
        // Longer than the times of a file are taken to lag.
        pause(Duration::from_millis(2500));
        for _ in 0..2 {
            assert_eq!((status("one"), status("two")), (200, 401), "{}", server.name());
        }
        std::fs::write(&file, "u:{PLAIN}two\n").expect("write");
        assert_eq!((status("one"), status("two")), (401, 200), "{}", server.name());
        std::fs::write(&file, "v:{PLAIN}two\n").expect("write");
        assert_eq!((status("one"), status("two")), (401, 401), "{}", server.name());
        std::fs::remove_file(&file).expect("remove");
        assert_eq!((status("one"), status("two")), (403, 403), "{}", server.name());
        running.stop();
    }
}

/// More wrong passwords at once than are computed: some are refused without a look, and who is known is let in.
#[test]
fn a_crowd_that_guesses() {
    let site =
        site_of_users("u:$2y$11$fNy6jUtnz6hzpdwxg6eAyutUNfwcK157xMeOVLUd5ICJIDkv6paci\nplain:{PLAIN}p\n");
    let running = site.start(Server::Fulmar);
    let good = format!("GET /a\n{}", basic("plain:p"));
    assert_eq!(running.ask(&good).statuses(), [200]);
    let mut crowd: Vec<Client> = (0..150)
        .map(|n| {
            let mut client = running.connect();
            client.extend(Duration::from_mins(2));
            let field = basic(&format!("u:guess{n}"));
            client.send(format!("GET /a HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n").as_bytes());
            client
        })
        .collect();
    assert_eq!(running.ask(&good).statuses(), [200], "in the midst of it");
    let statuses: Vec<u16> = crowd
        .iter_mut()
        .map(|client| {
            client.response_within("GET", Duration::from_mins(2)).map_or(0, |response| response.status)
        })
        .collect();
    assert!(statuses.iter().all(|status| [401, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&401) && statuses.contains(&503), "{statuses:?}");
}
