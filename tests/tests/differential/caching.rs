//! Caches (`proxy_cache`, `fastcgi_cache` and so on).

use tests::application::{self, Application};
use tests::binary::{Server, nginx_with};
use tests::differential::{agree, agree_on_mistake};
use tests::origin::{After, Asked, Origin, Reply, raw};
use tests::site::Site;

/// A field of a request.
fn field<'a>(asked: &'a str, name: &str) -> &'a str {
    let line = asked.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or("-")
}

/// The answer shows which fields of the client reached the server.
fn answer(asked: &Asked) -> Reply {
    let text = String::from_utf8_lossy(&asked.text).into_owned();
    let path = asked.target.split('?').next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let mut fields = match name {
        "fresh" => "Cache-Control: max-age=600\r\nETag: \"x\"\r\n\
                    Last-Modified: Tue, 02 Jan 2024 03:04:05 GMT\r\nAccept-Ranges: bytes\r\n"
            .to_owned(),
        "none" => "Cache-Control: max-age=600\r\nAccept-Ranges: none\r\n".to_owned(),
        "lost" | "offered" => "Accept-Ranges: bytes\r\nETag: \"x\"\r\n".to_owned(),
        "nostore" => "Cache-Control: no-store\r\n".to_owned(),
        "private" => "Cache-Control: private, max-age=60\r\n".to_owned(),
        "dated" => {
            "Cache-Control: max-age=600\r\nLast-Modified: Tue, 02 Jan 2024 03:04:05 GMT\r\n".to_owned()
        }
        "stream" => "Cache-Control: max-age=600\r\nX-Accel-Buffering: no\r\n".to_owned(),
        "zero" => "Cache-Control: max-age=0\r\n".to_owned(),
        "past" => "Expires: Tue, 02 Jan 2024 03:04:05 GMT\r\n".to_owned(),
        "later" => "Expires: Tue, 02 Jan 2999 03:04:05 GMT\r\n".to_owned(),
        "accel" => "X-Accel-Expires: 600\r\nCache-Control: no-cache\r\nExpires: 0\r\n".to_owned(),
        "accelzero" => "X-Accel-Expires: 0\r\n".to_owned(),
        "cookie" => "Set-Cookie: a=b\r\n".to_owned(),
        "star" => "Vary: *\r\n".to_owned(),
        "vary" => "Vary: X-Kind\r\n".to_owned(),
        "expires" => format!("Expires: {}\r\n", field(&text, "X-Expires")),
        "control" => format!("Cache-Control: {}\r\n", field(&text, "X-Control")),
        "clock" => "Date: Tue, 02 Jan 2024 03:04:05 GMT\r\nServer: origin\r\nETag: \"x\"\r\n".to_owned(),
        "plain" => "Location: /elsewhere\r\nX-Name: value\r\n".to_owned(),
        _ => String::new(),
    };
    let status = match name {
        "missing" | "lost" | "dated" => "404 Not Here",
        "moved" => "301 Moved Permanently",
        "broken" => "500 Oops",
        "made" => "201 Created",
        _ => "200 Fine",
    };
    let seen = ["X-Kind", "Range", "If-Modified-Since", "If-None-Match", "If-Range"];
    let seen: Vec<_> = seen.iter().map(|name| field(&text, name)).collect();
    let method = text.split(' ').next().unwrap_or_default();
    let body = format!("{method} {} {}\n", asked.target, seen.join(" "));
    fields += &format!("Content-Length: {}\r\n", body.len());
    let body = if method == "HEAD" { "" } else { &body };
    raw(&format!("HTTP/1.1 {status}\r\n{fields}\r\n{body}"), After::Keep)
}

fn site(origin: &Origin) -> Site {
    let configuration = r#"
        proxy_cache_path %%LOGS%%/one levels=1:2 keys_zone=one:1m inactive=1h max_size=100m;
        proxy_cache_path %%LOGS%%/two keys_zone=two:1m use_temp_path=off min_free=1k;
        server {
            listen 127.0.0.1:%%PORT%%;
            proxy_cache one;
            proxy_cache_key $uri$is_args$args;
            proxy_cache_valid 200 404 1h;
            add_header X-Cache $upstream_cache_status always;
            location / { proxy_pass http://127.0.0.1:ORIGIN; }
            location /default/ { proxy_pass http://127.0.0.1:ORIGIN/x/; proxy_cache two; proxy_cache_valid any 1h; }
            location /off/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_cache off; }
            location /chosen/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_cache $arg_zone; }
            location /uses/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_cache_min_uses 3; }
            location /bypass/ {
                proxy_pass http://127.0.0.1:ORIGIN;
                proxy_cache_bypass $arg_bypass $http_x_bypass;
                proxy_no_cache $arg_none;
            }
            location /posts/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_cache_methods POST; }
            location /ignores/ {
                proxy_pass http://127.0.0.1:ORIGIN;
                proxy_ignore_headers Cache-Control Expires Set-Cookie Vary X-Accel-Expires;
            }
            location /hides/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_hide_header X-Name; }
            location /intercepts/ {
                proxy_pass http://127.0.0.1:ORIGIN;
                proxy_intercept_errors on;
                proxy_cache_bypass $http_x_bypass;
                error_page 404 = /named;
            }
            location = /named { internal; return 200 "named\n"; }
            location /refused/ { proxy_pass http://127.0.0.1:1; proxy_cache_valid 502 1h; proxy_cache_bypass $http_x_bypass; }
            location /sets/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_set_header Range $http_range; }
            location /whole/ { proxy_pass http://127.0.0.1:ORIGIN; max_ranges 0; }
            location /timeless/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_cache_valid 301 1h; }
            location /forced/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_force_ranges on; }
            location /heads/ {
                proxy_pass http://127.0.0.1:ORIGIN;
                proxy_cache_convert_head off;
                proxy_cache_key $request_method$uri$is_args$args;
            }
            location /bare/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_cache_convert_head off; }
            location /straight/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_buffering off; }
            location /both/ {
                proxy_pass http://127.0.0.1:ORIGIN;
                proxy_cache_max_range_offset 10;
                proxy_cache_bypass $arg_bypass;
            }
            location /passes/ {
                proxy_pass http://127.0.0.1:ORIGIN;
                proxy_pass_header Date;
                proxy_pass_header Server;
                error_page 404 /named;
            }
            location /offset/ { proxy_pass http://127.0.0.1:ORIGIN; proxy_cache_max_range_offset 10; }
        }
    "#;
    Site::new(&configuration.replace("ORIGIN", &origin.address().port().to_string()))
}

/// Each request twice, so that the second one finds what the first one left.
fn twice<'a>(requests: &[&'a str]) -> Vec<&'a str> {
    requests.iter().flat_map(|request| [*request, *request]).collect()
}

#[test]
fn what_is_kept_and_what_is_not() {
    let origin = Origin::start(answer);
    agree(
        &site(&origin),
        &twice(&[
            "GET /a",
            "GET /a?x=1",
            "GET /fresh",
            "GET /nostore",
            "GET /private",
            "GET /zero",
            "GET /past",
            "GET /later",
            "GET /accel",
            "GET /accelzero",
            "GET /cookie",
            "GET /star",
            "GET /plain",
            "GET /missing",
            "GET /moved",
            "GET /broken",
            "GET /made",
            "POST /posted\n\nbody",
            "POST /posts/posted\n\nbody",
            "PUT /put\n\nbody",
            "DELETE /a",
            "GET /default/a",
            "GET /default/moved",
            "GET /default/broken",
            "GET /default/made",
            "GET /off/a",
            "GET /chosen/a?zone=two",
            "GET /chosen/a?zone=off",
            "GET /chosen/a?zone=unknown",
            "GET /chosen/a",
            "GET /uses/a",
            "GET /uses/a",
            "GET /hides/plain",
            "GET /intercepts/missing",
            "GET /refused/a",
            "GET /refused/a",
            "GET /straight/fresh",
            "HEAD /straight/fresh?head",
            "GET /stream",
        ]),
    );
}

#[test]
fn fields_that_do_not_count() {
    let origin = Origin::start(answer);
    agree(
        &site(&origin),
        &twice(&[
            "GET /ignores/nostore",
            "GET /ignores/private",
            "GET /ignores/zero",
            "GET /ignores/past",
            "GET /ignores/accelzero",
            "GET /ignores/cookie",
            "GET /ignores/star",
            "GET /ignores/vary\nX-Kind: a",
            "GET /ignores/vary\nX-Kind: b",
            "GET /control?1\nX-Control: s-maxage=60, max-age=0",
            "GET /control?2\nX-Control: MAX-AGE=60",
            "GET /control?3\nX-Control: max-age=60x",
            "GET /control?4\nX-Control: max-age=999999999999999999999999",
            "GET /control?5\nX-Control: max-age=60, no-cache=x",
            "GET /control?6\nX-Control: stale-if-error=x",
            "GET /control?7\nX-Control: stale-while-revalidate=5, max-age=60",
            "GET /control?8\nX-Control: max-age=",
            "GET /control?9\nX-Control: max-age=\"60\"",
        ]),
    );
}

/// Dates that are not quite in one of the forms of HTTP, in 2050 and later. nginx takes some of them.
const ODD_DATES: [&str; 42] = [
    "Thu, 18 Aug 2050 02:01:18 GMT",
    "Thursday, 18-Aug-50 02:01:18 GMT",
    "Thu Aug 18 02:01:18 2050",
    "Thu Aug  8 02:01:18 2050",
    "Thu Aug 8 02:01:18 2050",
    "Thu Aug  18 02:01:18 2050",
    "Thu Aug 18 02:01:18 2050 GMT",
    "Thu Aug 18 02:01:18 20500",
    "Thu Aug 18 02:01:18 50",
    "Thu Aug   8 02:01:18 2050",
    "THU, 18 Aug 2050 02:01:18 GMT",
    "Thu, 18 AUG 2050 02:01:18 GMT",
    "Thu, 18 aug 2050 02:01:18 GMT",
    "Thu, 18 Aug 2050 02:01:18 gMT",
    "Thu, 18 Aug 2050 02:01:18 UTC",
    "Thu, 18 Aug 2050 02:01:18 AEST",
    "Thu, 18 Aug 2050 02:01:18 +0100",
    "Thu, 18 Aug 2050 02:01:18",
    "Thu, 18 Aug 2050 02:01:18GMT",
    "Thu, 18 Aug 2050 02:01:1",
    "Thu, 18 Aug 50 02:01:18 GMT",
    "Thu, 18 Aug 205 02:01:18 GMT",
    "Thu, 18 Aug 20500 02:01:18 GMT",
    "Thu, 18  Aug 2050 02:01:18 GMT",
    "Thu, 18 Aug  2050 02:01:18 GMT",
    "Thu, 18  Aug  2050  02:01:18  GMT",
    "Thu,  18 Aug 2050 02:01:18 GMT",
    "Thu,18 Aug 2050 02:01:18 GMT",
    "Thu 18 Aug 2050 02:01:18 GMT",
    "Thu, 8 Aug 2050 02:01:18 GMT",
    "Thu, 18-Aug-2050 02:01:18 GMT",
    "Thu, 18-Aug-50 02:01:18 GMT",
    "Thursday, 18-Aug-50 02:01:18",
    "Thursday, 18 Aug 2050 02:01:18 GMT",
    "Thu, 18, Aug, 2050, 02:01:18, GMT",
    "Thu, 18 Aug 2050 2:01:18 GMT",
    "Thu, 18 Aug 2050 02.01.18 GMT",
    "Thu, 18 Aug 2050 24:01:18 GMT",
    "Thu, 32 Aug 2050 02:01:18 GMT",
    "Tue, 29 Feb 2050 02:01:18 GMT",
    "2050-08-18T02:01:18Z",
    "2544000000",
];

#[test]
fn odd_dates() {
    let origin = Origin::start(answer);
    let requests: Vec<String> = ODD_DATES
        .iter()
        .enumerate()
        .flat_map(|(number, date)| {
            let since = date.replace("2050", "2024").replace("-50", "-24");
            [
                format!("GET /expires?{number}\nX-Expires: {date}"),
                // An exact date is that of the file: 304.
                format!("GET /fresh\nIf-Modified-Since: {since}"),
                format!(
                    "GET /fresh\nIf-Modified-Since: {}",
                    since
                        .replace("Aug", "Jan")
                        .replace("18 J", "02 J")
                        .replace(" 8 J", " 2 J")
                        .replace("18-J", "02-J")
                        .replace("Jan 18", "Jan 02")
                        .replace("02:01:18", "03:04:05")
                ),
            ]
        })
        .collect();
    agree(&site(&origin), &twice(&requests.iter().map(String::as_str).collect::<Vec<_>>()));
}

#[test]
fn heads_ranges_and_conditions() {
    let origin = Origin::start(answer);
    let time = "Tue, 02 Jan 2024 03:04:05 GMT";
    let since = format!("GET /fresh\nIf-Modified-Since: {time}");
    let range = format!("GET /fresh\nRange: bytes=0-1\nIf-Range: {time}");
    agree(
        &site(&origin),
        &[
            "HEAD /fresh",
            "HEAD /fresh",
            "GET /fresh",
            "GET /fresh\nRange: bytes=2-4",
            "GET /fresh\nRange: bytes=-3",
            "GET /fresh\nRange: bytes=900-",
            "GET /fresh\nRange: bytes=2-4\nIf-Range: \"x\"",
            "GET /fresh\nRange: bytes=2-4\nIf-Range: \"y\"",
            &range,
            &since,
            "GET /fresh\nIf-None-Match: \"x\"",
            "GET /fresh\nIf-None-Match: \"y\"",
            "HEAD /fresh\nIf-None-Match: \"x\"",
            "GET /fresh?cold\nIf-None-Match: \"x\"",
            "GET /fresh?cold\nIf-None-Match: \"x\"",
            "GET /fresh?part\nRange: bytes=2-4",
            "GET /fresh?part\nRange: bytes=2-4",
            "GET /a?part\nRange: bytes=2-4",
            "GET /nostore\nRange: bytes=2-4",
            "GET /nostore\nIf-None-Match: \"x\"\nIf-Modified-Since: now",
            "GET /sets/a\nRange: bytes=2-4",
            "GET /off/a\nRange: bytes=2-4\nIf-None-Match: \"x\"",
            "POST /fresh\nRange: bytes=2-4\nIf-None-Match: \"x\"\n\nbody",
            "GET /uses/b\nRange: bytes=2-4\nIf-None-Match: \"x\"",
            "GET /offset/fresh?1\nRange: bytes=9-",
            "GET /offset/fresh?1",
            "GET /offset/fresh?2\nRange: bytes=10-",
            "GET /offset/fresh?2",
            "GET /offset/fresh?3\nRange: bytes=-1",
            "GET /offset/fresh?3",
            "GET /both/fresh?bypass=1\nRange: bytes=12-",
            "GET /both/fresh?bypass=1\nRange: bytes=12-",
            "GET /refused/b\nX-Bypass: 1",
            "GET /refused/b",
            "GET /intercepts/missing\nX-Bypass: 1",
            "GET /intercepts/missing",
            "GET /dated\nIf-None-Match: \"x\"",
            "GET /dated\nIf-None-Match: \"x\"",
        ],
    );
}

/// A page in place of a response has the server's own `Date` and `Server`.
#[test]
fn pages_in_place_of_responses_whose_own_date_is_passed() {
    let origin = Origin::start(answer);
    // With `Connection: close`, because nginx closes the connection after 412 without announcing it.
    let all = |names: &[&str]| -> Vec<String> {
        let conditions = [
            "",
            "\nIf-Match: \"y\"",
            "\nIf-Unmodified-Since: Tue, 02 Jan 2001 03:04:05 GMT",
            "\nIf-None-Match: \"x\"",
            "\nRange: bytes=900-",
        ];
        let ask = |name: &&str, condition: &&str| format!("GET /passes/{name}{condition}\nConnection: close");
        names.iter().flat_map(|name| conditions.iter().map(move |condition| ask(name, condition))).collect()
    };
    let requests = all(&["fresh", "clock", "missing", "plain"]);
    agree(&site(&origin), &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn ranges_of_responses_that_might_be_kept() {
    let origin = Origin::start(answer);
    agree(
        &site(&origin),
        &twice(&[
            "GET /whole/fresh",
            "GET /whole/fresh?1\nRange: bytes=2-4",
            "GET /whole/offered",
            "GET /whole/nostore\nRange: bytes=2-4",
            "POST /whole/offered\n\nbody",
            "GET /fresh",
            "GET /offered",
            "GET /none",
            "GET /none?1\nRange: bytes=2-4",
            "GET /lost",
            "GET /lost?1\nRange: bytes=2-4",
            "GET /off/offered",
            "GET /off/none",
            "GET /uses/offered",
            "GET /timeless/offered",
            "GET /timeless/offered\nRange: bytes=2-4",
            "GET /timeless/offered\nIf-None-Match: \"x\"",
            "GET /timeless/a\nRange: bytes=2-4",
            "GET /bypass/offered?none=1",
            "GET /bypass/offered?none=1\nRange: bytes=2-4",
            "GET /bypass/offered?none=1\nIf-None-Match: \"x\"",
            "GET /bypass/offered?bypass=1\nRange: bytes=2-4",
            "GET /forced/none",
            "GET /forced/none\nRange: bytes=2-4",
        ]),
    );
}

#[test]
fn responses_to_head_are_kept() {
    let origin = Origin::start(answer);
    agree(
        &site(&origin),
        &twice(&[
            "HEAD /heads/fresh",
            "GET /heads/fresh",
            "HEAD /heads/fresh\nIf-None-Match: \"x\"",
            "HEAD /heads/fresh?1\nIf-None-Match: \"x\"",
            "HEAD /heads/a",
            "HEAD /heads/missing",
            "HEAD /heads/moved",
            "HEAD /heads/broken",
            "HEAD /heads/nostore",
            "HEAD /heads/cookie",
            "HEAD /heads/vary\nX-Kind: a",
            "HEAD /heads/vary\nX-Kind: b",
            "HEAD /heads/vary\nX-Kind: a",
            "HEAD /bare/fresh",
            "GET /bare/a",
            "HEAD /bare/a",
        ]),
    );
}

#[test]
fn responses_of_applications_without_content_are_kept() {
    let application = Application::start(|request, stream| {
        let text = match (request.param("SCRIPT_NAME"), request.param("REQUEST_METHOD")) {
            ("/none", _) => "Status: 204 None\r\nX-A: b\r\n\r\n",
            ("/sized", "HEAD") => "Content-Length: 5\r\n\r\n",
            ("/sized", _) => "Content-Length: 5\r\n\r\nhello",
            _ => "X-A: b\r\n\r\n",
        };
        stream.write_all(&application::answer(text)).is_err()
    });
    let configuration = format!(
        "fastcgi_cache_path %%LOGS%%/one levels=1:2 keys_zone=one:1m;
        server {{
            listen 127.0.0.1:%%PORT%%;
            add_header X-Cache $upstream_cache_status;
            fastcgi_param SCRIPT_NAME $uri;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_cache one;
            fastcgi_cache_key $request_method$uri;
            fastcgi_cache_valid any 1h;
            location / {{ fastcgi_pass {}; }}
        }}",
        application.address()
    );
    agree(
        &Site::new(&configuration),
        &twice(&["HEAD /sized", "GET /sized", "HEAD /a", "GET /none", "HEAD /none"]),
    );
}

#[test]
fn variants_and_bypass() {
    let origin = Origin::start(answer);
    agree(
        &site(&origin),
        &[
            "GET /vary\nX-Kind: a",
            "GET /vary\nX-Kind: a",
            "GET /vary\nX-Kind: b",
            "GET /vary\nX-Kind: b",
            "GET /vary\nX-Kind: a",
            "GET /vary",
            "GET /vary",
            "GET /bypass/a?",
            "GET /bypass/a?\nX-Bypass: 1",
            "GET /bypass/a?\nX-Bypass: 0",
            "GET /bypass/a?\nX-Bypass: yes\nX-Kind: new",
            "GET /bypass/a?",
            "GET /bypass/b?none=1",
            "GET /bypass/b?none=1",
            "GET /bypass/c?none=1&bypass=1",
            "GET /bypass/c?none=1&bypass=1",
        ],
    );
}

/// A location that only purges, in the shape of the module cache_purge: its page differs.
#[test]
fn purges_by_zone_and_key() {
    let Some(nginx) = nginx_with(&["ngx_http_cache_purge_module"]) else { return };
    let origin = Origin::start(answer);
    let site = Site::new(
        &r#"
        proxy_cache_path %%LOGS%%/one levels=1:2 keys_zone=one:1m;
        server {
            listen 127.0.0.1:%%PORT%%;
            proxy_cache_key $scheme$request_method$host$uri$is_args$args;
            proxy_cache_valid 200 1h;
            add_header X-Cache $upstream_cache_status always;
            error_page 404 = @none;
            location / { proxy_pass http://127.0.0.1:ORIGIN; proxy_cache one; }
            location ~ ^/purge(/.*) {
                allow 127.0.0.1;
                deny all;
                proxy_cache_purge one "${scheme}GET$host$1$is_args$args";
            }
            location ~ ^/closed(/.*) {
                deny all;
                proxy_cache_purge one "${scheme}GET$host$1$is_args$args";
            }
            location @none { return 404 "none\n"; }
        }
    "#
        .replace("ORIGIN", &origin.address().port().to_string()),
    )
    .nginx(nginx);
    let cases = [
        "GET /a",
        "GET /a",
        "GET /a?b=c",
        "HEAD /a",
        "GET /closed/a",
        "GET /a",
        "HEAD /purge/a",
        "GET /purge/a",
        "GET /a",
        "GET /a?b=c",
        "POST /purge/a?b=c",
        "GET /a?b=c",
        "GET /purge/none",
        "GET /purge",
        "GET /purge/",
    ];
    let [nginx, fulmar] = [Server::Nginx, Server::Fulmar].map(|server| {
        let running = site.start(server);
        let seen = cases.map(|case| {
            let response = running.ask(&format!("{case}\nConnection: close")).last().clone();
            (response.status, response.field("X-Cache").map(str::to_owned))
        });
        running.stop();
        seen
    });
    for (at, case) in cases.iter().enumerate() {
        assert_eq!(fulmar[at], nginx[at], "{case}");
    }
    assert_eq!((nginx[6].0, nginx[8].1.as_deref()), (200, Some("MISS")), "the first purge removes it");
}

#[test]
fn mistakes_are_found() {
    const PATH: &str = "proxy_cache_path %%LOGS%%/c keys_zone=z:1m;";
    for text in [
        "proxy_cache_path %%LOGS%%/c levels=1:2;",
        "proxy_cache_path %%LOGS%%/c keys_zone=z;",
        "proxy_cache_path %%LOGS%%/c keys_zone=z:1k;",
        "proxy_cache_path %%LOGS%%/c keys_zone=z:x;",
        "proxy_cache_path %%LOGS%%/c keys_zone=z:1m levels=3;",
        "proxy_cache_path %%LOGS%%/c keys_zone=z:1m levels=1:2:2:2;",
        "proxy_cache_path %%LOGS%%/c keys_zone=z:1m inactive=x;",
        "proxy_cache_path %%LOGS%%/c keys_zone=z:1m max_size=x;",
        "proxy_cache_path %%LOGS%%/c keys_zone=z:1m loader_files=x;",
        "proxy_cache_path %%LOGS%%/c keys_zone=z:1m use_temp_path=x;",
        "proxy_cache_path %%LOGS%%/c keys_zone=z:1m other=x;",
        &format!("{PATH} proxy_cache_path %%LOGS%%/d keys_zone=z:1m;"),
        &format!("{PATH} proxy_cache_valid 99 1m;"),
        &format!("{PATH} proxy_cache_valid any x;"),
        &format!("{PATH} proxy_cache_methods PUT;"),
        &format!("{PATH} proxy_cache_use_stale http_418;"),
        "proxy_cache z;",
        "proxy_cache '';",
    ] {
        let server = "server { listen 127.0.0.1:%%PORT%%; location / { proxy_pass http://127.0.0.1:1; } }";
        agree_on_mistake(&Site::new(&format!("{text} {server}")));
    }
}
