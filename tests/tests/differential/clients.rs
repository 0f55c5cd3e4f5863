//! Who the client is and where it comes from: `geo`, `set_real_ip_from`, `valid_referers`, `secure_link`, by what their
//! pages of the manual promise, and at the edges.

use tests::binary::{Server, have_nginx, nginx_with};
use tests::differential::{agree, agree_on_mistake};
use tests::site::Site;

fn cases(requests: &[String]) -> Vec<&str> {
    requests.iter().map(String::as_str).collect()
}

/// Addresses inside of, at the ends of and outside of what the tables name; and texts that are none.
const ADDRESSES: [&str; 33] = [
    "127.0.0.1",
    "127.0.0.0",
    "127.0.0.2",
    "127.0.0.255",
    "127.0.1.0",
    "127.0.255.255",
    "127.1.0.0",
    "10.1.0.0",
    "10.1.255.255",
    "10.2.0.1",
    "10.2.3.4",
    "10.3.0.0",
    "192.168.1.1",
    "192.168.2.77",
    "192.168.2.78",
    "255.255.255.255",
    "255.255.255.254",
    "0.0.0.0",
    "::1",
    "::2",
    "2001:db8::1",
    "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:db9::",
    "2001:DB8::0001",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:10.2.0.1",
    "[::1]",
    "127.0.0.1:80",
    "127.1",
    "nobody",
    "",
    "%20127.0.0.1",
];

const GEO: &str = r#"
    geo $arg_ip $plain {
        default        0;
        127.0.0.1      2;
        192.168.1.0/24 1;
        10.1.0.0/16    1;
        ::1            3;
        2001:0db8::/32 4;
    }
    geo $arg_ip $country {
        default        ZZ;
        include        %%DIR%%/geo.conf;
        delete         127.0.0.0/16;
        127.0.0.0/24   US;
        127.0.0.1/32   RU;
        10.1.0.0/16    RU;
        192.168.1.0/24 UK;
    }
    geo $arg_ip $whole {
        0.0.0.0/0 four;
        ::/0      six;
        10.0.0.0/8 ten;
        10.2.0.0/15 "";
    }
    geo $arg_ip $nothing { 10.0.0.0/8 ten; }
    geo $arg_ip $marked { default d; 255.255.255.255 none; 255.255.255.254/31 both; }
    geo $arg_ip $range {
        ranges;
        default                     ZZ;
        include                     %%DIR%%/ranges.conf;
        127.0.0.0-127.0.0.0         US;
        127.0.0.1-127.0.0.1         RU;
        127.0.0.2-127.0.0.255       US;
        10.1.0.0-10.1.255.255       RU;
        192.168.1.0-192.168.2.77    UK;
        10.1.5.0-10.1.6.0           inner;
        10.1.5.5-10.1.5.5           innermost;
    }
    geo $arg_ip $shortened {
        ranges;
        10.1.0.0-10.2.255.255 a;
        10.2.0.0-10.3.255.255 b;
        127.0.0.0-127.255.255.255 c;
        delete 127.0.0.0-127.255.255.255;
    }
    geo $changing { volatile; default outside; 127.0.0.0/8 here; }
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { return 200 "$plain|$country|$whole|$nothing|$marked|$range|$shortened|$changing\n"; }
    }
"#;

#[test]
fn geo() {
    let site = Site::new(GEO)
        .in_prefix("geo.conf", "10.2.0.0/16 RU;\n192.168.2.0/24 RU;\n127.0.0.0/16 gone;\n")
        .in_prefix("ranges.conf", "10.2.0.0-10.2.255.255 XX;\n");
    let mut requests: Vec<String> = ADDRESSES.map(|ip| format!("GET /?ip={ip}")).to_vec();
    requests.extend(["10.1.5.4", "10.1.5.5", "10.1.5.6", "10.1.6.1"].map(|ip| format!("GET /?ip={ip}")));
    requests.push("GET /".to_owned());
    agree(&site, &cases(&requests));
}

/// What stands in `X-Forwarded-For` and its like.
const FORWARDED: [&str; 22] = [
    "192.0.2.1",
    "192.0.2.1, 192.0.2.2",
    "192.0.2.1,192.0.2.2",
    "192.0.2.1 192.0.2.2",
    "192.0.2.1, 10.0.0.1",
    "192.0.2.1, 10.0.0.1, 10.0.0.2",
    "10.0.0.1, 10.0.0.2",
    "unknown",
    "192.0.2.1, unknown",
    "unknown, 10.0.0.1",
    "192.0.2.1:8080",
    "192.0.2.1:0",
    "192.0.2.1:99999",
    "192.0.2.1:",
    "[2001:db8::1]:443",
    "[2001:db8::1]",
    "2001:db8::1",
    "2001:db8::1:443",
    "::ffff:192.0.2.1",
    "192.0.2.1, ",
    ",",
    "\"192.0.2.1\"",
];

#[test]
fn real_ip() {
    let site = Site::new(
        r#"
        set_real_ip_from 127.0.0.1;
        set_real_ip_from 10.0.0.0/8;
        set_real_ip_from 2001:0db8:1::/48;
        server {
            listen 127.0.0.1:%%PORT%%;
            add_header X-Client "$remote_addr|$remote_port|$realip_remote_addr" always;
            location /default { try_files /none =404; }
            location /forwarded { real_ip_header X-Forwarded-For; try_files /none =404; }
            location /recursive {
                real_ip_header X-Forwarded-For;
                real_ip_recursive on;
                try_files /none =404;
            }
            location /own { real_ip_header X-Own; real_ip_recursive on; try_files /none =404; }
            location /stranger { set_real_ip_from 192.0.2.9; try_files /none =404; }
            location /denied { real_ip_header X-Forwarded-For; deny 192.0.2.1; try_files /none =404; }
            location /inside { error_page 404 /default; try_files /none =404; }
        }
        "#,
    );
    let mut requests = Vec::new();
    for path in ["default", "forwarded", "recursive", "own", "stranger", "denied", "inside"] {
        requests.push(format!("GET /{path}"));
        for value in FORWARDED {
            let name = match path {
                "default" | "stranger" | "inside" => "X-Real-IP",
                "own" => "X-Own",
                _ => "X-Forwarded-For",
            };
            requests.push(format!("GET /{path}\n{name}: {value}"));
            requests.push(format!("GET /{path}\n{name}: 192.0.2.77\n{name}: {value}"));
        }
    }
    // The client's own port is nothing that two connections have in common.
    let is_told = |request: &String| request.contains("192.0.2") || request.contains("[");
    let requests: Vec<String> = requests.into_iter().filter(is_told).collect();
    agree_but_for_ports(&site, &requests);
}

/// Where the client is its own peer, its port differs from connection to connection.
fn agree_but_for_ports(site: &Site, requests: &[String]) {
    if !have_nginx() {
        return;
    }
    let (nginx, fulmar) = (site.start(Server::Nginx), site.start(Server::Fulmar));
    for request in requests {
        let [expected, got] = [&nginx, &fulmar].map(|running| {
            let answer = running.ask(request);
            let client = answer.last().field("X-Client").unwrap_or_default().to_owned();
            let parts: Vec<&str> = client.split('|').collect();
            let is_itself = parts.first() == parts.last();
            (answer.statuses(), if is_itself { "itself".to_owned() } else { client })
        });
        assert_eq!(expected, got, "{request}");
    }
}

#[test]
fn geo_behind_proxies() {
    let site = Site::new(
        r#"
        geo $once { default d; proxy 127.0.0.0/8; proxy 2001:db8::/32; 192.0.2.1 one; 192.0.2.2 two; 10.0.0.0/8 ten; }
        geo $all {
            default d; proxy 127.0.0.0/8; proxy 10.0.0.0/8; proxy_recursive;
            192.0.2.1 one; 192.0.2.2 two; 10.0.0.0/8 ten; 2001:db8::/32 six;
        }
        server { listen 127.0.0.1:%%PORT%%; return 200 "$once|$all\n"; }
        "#,
    );
    let mut requests = vec!["GET /".to_owned()];
    for value in FORWARDED {
        requests.push(format!("GET /\nX-Forwarded-For: {value}"));
        requests.push(format!("GET /\nX-Forwarded-For: 192.0.2.2\nX-Forwarded-For: {value}"));
    }
    agree(&site, &cases(&requests));
}

#[test]
fn referers() {
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            server_name example.org *.example.org www.mirror.* ~^img\d+\.example\.info$;
            add_header X-Invalid "<$invalid_referer>" always;
            location /manual {
                valid_referers none blocked server_names *.example.com example.* www.example.org/galleries/ ~\.google\.;
                if ($invalid_referer) { return 403; }
                return 200 ok;
            }
            location /hosts { valid_referers a.example .b.example *.c.example d.* e.example/x; return 200 ok; }
            location /none { valid_referers none a.example; return 200 ok; }
            location /blocked { valid_referers blocked a.example; return 200 ok; }
            location /names { valid_referers server_names; return 200 ok; }
            location /pattern { valid_referers ~^a[0-9]+\.x ~/secret$; return 200 ok; }
            location /unset { return 200 ok; }
        }
        "#,
    );
    let referers = [
        "http://example.org/",
        "https://example.org",
        "https://www.example.org/galleries/1",
        "https://www.example.org/gallery",
        "http://EXAMPLE.org:8080/x",
        "http://a.b.example.com/",
        "http://example.com/",
        "http://example.net/",
        "http://example/",
        "http://www.google.de/search?q=x",
        "http://www.mirror.de/",
        "http://img5.example.info/",
        "ftp://example.org/",
        "//example.org/",
        "example.org",
        "-",
        "http://",
        "https://",
        "http:/",
        "http:///",
        "http://a.example/",
        "http://x.a.example/",
        "http://b.example/",
        "http://x.b.example/",
        "http://c.example/",
        "http://x.c.example/",
        "http://d.anything/",
        "http://d/",
        "http://x.d.y/",
        "http://e.example/x",
        "http://e.example/xy",
        "http://e.example/X",
        "http://e.example/",
        "http://e.example",
        "http://a15.x/",
        "http://A15.X/",
        "http://z/secret",
        "http://user@example.org/",
        "http://example.org.evil.net/",
        "HTTP://example.org/",
    ];
    let mut requests = Vec::new();
    for path in ["manual", "hosts", "none", "blocked", "names", "pattern", "unset"] {
        requests.push(format!("GET /{path}"));
        requests.push(format!("GET /{path}\nReferer:"));
        requests.extend(referers.iter().map(|referer| format!("GET /{path}\nReferer: {referer}")));
    }
    agree(&site, &cases(&requests));
}

#[test]
fn secure_links() {
    let Some(nginx) = nginx_with(&["--with-http_secure_link_module"]) else { return };
    let site = Site::new(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            add_header X-Link "<$secure_link|$secure_link_expires>" always;
            location /s/ {
                secure_link $arg_md5,$arg_expires;
                secure_link_md5 "$secure_link_expires$uri secret";
                if ($secure_link = "") { return 403; }
                if ($secure_link = "0") { return 410; }
                return 200 ok;
            }
            location /endless/ { secure_link $arg_md5; secure_link_md5 "$uri secret"; return 200 ok; }
            location /p/ {
                secure_link_secret secret;
                if ($secure_link = "") { return 403; }
                rewrite ^ /found/$secure_link;
            }
            location /found/ { return 200 "$uri\n"; }
            location /half/ { secure_link $arg_md5; return 200 ok; }
            location /other/ { secure_link_md5 "$uri secret"; return 200 ok; }
        }
        "#,
    )
    .nginx(nginx);
    // Made with: printf '4102444800/s/link secret' | openssl md5 -binary | openssl base64 | tr +/ -_ | tr -d =
    let requests = [
        "GET /s/link?md5=MyZGLp2TIndvCLTg6zzeKw&expires=4102444800",
        "GET /s/link?md5=MyZGLp2TIndvCLTg6zzeKw==&expires=4102444800",
        "GET /s/link?md5=MyZGLp2TIndvCLTg6zzeKx&expires=4102444800",
        "GET /s/link?md5=MyZGLp2TIndvCLTg6zzeK&expires=4102444800",
        "GET /s/link?md5=&expires=4102444800",
        "GET /s/link?expires=4102444800",
        "GET /s/link?md5=MyZGLp2TIndvCLTg6zzeKw",
        "GET /s/link?md5=MyZGLp2TIndvCLTg6zzeKw&expires=",
        "GET /s/link?md5=MyZGLp2TIndvCLTg6zzeKw&expires=x",
        "GET /s/link?md5=MyZGLp2TIndvCLTg6zzeKw&expires=-1",
        "GET /s/link?md5=MyZGLp2TIndvCLTg6zzeKw&expires=0",
        "GET /s/link?md5=%21%21&expires=4102444800",
        "GET /s/link?md5=jdih8jzYhQga19CO0g9zvg&expires=1",
        "GET /endless/a?md5=80lD3nIcJbZupc0sfb81vg",
        "GET /endless/b?md5=80lD3nIcJbZupc0sfb81vg",
        "GET /endless/a?md5=80lD3nIcJbZupc0sfb81vg,1",
        "GET /p/f78b4d3d9a2ebc5d36ed9a1ff2bd8b79/link",
        "GET /p/5e814704a28d9bc1914ff19fa0c4a00a/link",
        "GET /p/5E814704A28D9BC1914FF19FA0C4A00A/link",
        "GET /p/5e814704a28d9bc1914ff19fa0c4a00a/link/",
        "GET /p/5e814704a28d9bc1914ff19fa0c4a00/link",
        "GET /p/zz814704a28d9bc1914ff19fa0c4a00a/link",
        "GET /p/link",
        "GET /p/",
        "GET /p//link",
        "GET /half/a?md5=x",
        "GET /other/a",
    ];
    agree(&site, &requests);
}

#[test]
fn mistakes() {
    for wrong in [
        "geo $x { 10.0.0.0/33 a; }",
        "geo $x { 10.0.0 a; }",
        "geo $x { a b c; }",
        "geo $x { ranges; 10.0.0.2-10.0.0.1 a; }",
        "geo $x { ranges; 10.0.0.2 a; }",
        "geo $x { ranges; ::1-::2 a; }",
        "geo $x { 10.0.0.1 a; ranges; }",
        "geo $x { delete 10.0.0.0/99; }",
        "geo $x { proxy nobody; }",
        "geo x { default 1; }",
        "geo a $x { default 1; }",
        "server { set_real_ip_from nobody.invalid; }",
        "server { set_real_ip_from 10.0.0.0/40; }",
        "server { set_real_ip_from; }",
        "server { real_ip_header; }",
        "server { real_ip_header a; real_ip_header b; }",
        "server { real_ip_recursive maybe; }",
        "server { valid_referers; }",
        "server { valid_referers *.*; }",
        "server { location /a/ { secure_link_secret a; secure_link b; } }",
        "server { location /a/ { secure_link a; secure_link_secret b; } }",
        "server { location /a/ { secure_link_md5 a; secure_link_secret b; } }",
        "server { location /a/ { secure_link_md5 a; secure_link_md5 b; } }",
        "server { allow; }",
        "server { allow 10.0.0.0/33; }",
        "server { deny localhost; }",
        "server { deny 1.2.3.4 5.6.7.8; }",
        "server { satisfy both; }",
        "server { listen 1 proxy_protocol=on; }",
        "server { client_body_temp_path bodies 0; }",
        "server { client_body_temp_path bodies 1 x; }",
    ] {
        agree_on_mistake(&Site::new(wrong));
    }
}

/// What counts, and is most likely not meant.
#[test]
fn warnings() {
    if !have_nginx() {
        return;
    }
    for doubtful in [
        "geo $x { 10.0.0.0/8 a; 10.0.0.0/8 b; }",
        "geo $x { default a; default b; }",
        "geo $x { 10.0.0.1/8 a; }",
        "geo $x { delete 10.0.0.0/8; }",
        "geo $x { ranges; default a; default b; }",
        "geo $x { ranges; 10.0.0.0-10.0.0.9 a; 10.0.0.0-10.0.0.9 b; }",
        "geo $x { ranges; delete 10.0.0.0-10.0.0.9; }",
        "server { allow 10.0.0.1/8; }",
        "server { set_real_ip_from 10.0.0.1/8; }",
    ] {
        let site = Site::new(&format!("{doubtful} server {{ listen 127.0.0.1:%%PORT%%; }}"));
        let said = [Server::Nginx, Server::Fulmar].map(|server| {
            let _ = site.test(server);
            let output = site.command(server).arg("-t").output().expect("run");
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let warnings = text.lines().filter_map(|line| line.split_once("[warn] "));
            let message =
                |(_, message): (_, &str)| message.split(" in /").next().unwrap_or_default().to_owned();
            let mut told: Vec<_> = warnings.map(message).collect();
            // nginx tells what holds for both kinds of addresses twice.
            told.dedup();
            told
        });
        assert!(!said[0].is_empty(), "{doubtful}");
        assert_eq!(said[0], said[1], "{doubtful}");
    }
}
