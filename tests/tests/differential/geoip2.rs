//! Variables from databases about addresses, as Debian's module geoip2 sets them.

use tests::binary::{Server, nginx_with};
use tests::differential::agree;
use tests::mmdb::{Datum, database};
use tests::site::Site;

fn country(code: &str, name: &str) -> Datum {
    let names = Datum::map("en", Datum::text(name));
    Datum::maps([
        ("country", Datum::maps([("iso_code", Datum::text(code)), ("names", names)])),
        ("kinds", kinds()),
    ])
}

/// A value of each kind.
fn kinds() -> Datum {
    Datum::maps([
        ("bytes", Datum::Bytes(b"a\"b")),
        ("double", Datum::Double(-12.345_678_9)),
        ("float", Datum::Float(1.5)),
        ("u16", Datum::U16(65_535)),
        ("u32", Datum::U32(4_000_000_000)),
        ("i32", Datum::I32(-7)),
        ("u64", Datum::U64(u64::MAX)),
        ("u128", Datum::U128(1 << 100)),
        ("yes", Datum::Bool(true)),
        ("no", Datum::Bool(false)),
        ("empty", Datum::text("")),
        ("list", Datum::List(vec![Datum::text("first"), Datum::map("en", Datum::text("second"))])),
    ])
}

fn world() -> Vec<u8> {
    database(
        1_700_000_000,
        &[
            ("127.0.0.1/32", country("LO", "Here")),
            ("192.0.2.0/24", country("AA", "Ä land")),
            ("10.0.0.0/8", country("TT", "Ten")),
            ("2001:db8::/32", country("SX", "Six")),
            ("203.0.113.0/24", Datum::text("no map")),
        ],
    )
}

#[test]
fn values() {
    let Some(nginx) = nginx_with(&["ngx_http_geoip2_module"]) else { return };
    // The module reads beside a number of 128 bits.
    let names = "bytes double float u16 u32 i32 u64 yes no empty list missing";
    let kinds: String =
        names.split(' ').map(|name| format!("${name} source=$arg_ip kinds {name};\n")).collect();
    let shown = names.split(' ').map(|name| format!("{name}=<${name}>")).collect::<Vec<_>>().join(" ");
    let site = Site::new(&format!(
        r#"
        geoip2 %%ROOT%%/world.mmdb {{
            $client country iso_code;
            $code default=none source=$arg_ip country iso_code;
            $name source=$arg_ip default="no $arg_ip" country names en;
            $first source=$arg_ip kinds list 0;
            $second default=- source=$arg_ip kinds list 1 en;
            $third default=- source=$arg_ip kinds list 2;
            $wrong default=- source=$arg_ip country 0;
            $beyond default=- source=$arg_ip country iso_code more;
            $whole default=- source=$arg_ip country;
            $built metadata build_epoch;
            {kinds}
        }}
        geoip2_proxy 127.0.0.0/24;
        geoip2_proxy 10.0.0.0/8;
        geoip2_proxy_recursive on;
        server {{
            listen 127.0.0.1:%%PORT%%;
            location / {{ return 200 "$client|$code|$name|$first|$second|$third|$wrong|$beyond|$whole|$built"; }}
            location /kinds {{ return 200 "{shown}"; }}
            location /if {{ if ($missing) {{ return 403; }} if ($code = AA) {{ return 200 closed; }} return 200 open; }}
        }}
        "#
    ))
    .file("world.mmdb", world())
    .nginx(nginx);
    let mut requests = Vec::new();
    for ip in ["192.0.2.7", "10.1.2.3", "2001:db8::1", "198.51.100.1", "203.0.113.1", "::1", "x", "", "1.2.3"]
    {
        requests.extend(["", "kinds", "if"].map(|path| format!("GET /{path}?ip={ip}")));
    }
    for forwarded in ["192.0.2.1", "192.0.2.1, 10.0.0.1", "198.51.100.1, 192.0.2.1", "2001:db8::1", "x", ""] {
        requests.push(format!("GET /\nX-Forwarded-For: {forwarded}"));
    }
    agree(&site, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_file_that_changes_and_one_that_breaks() {
    let site = Site::new(
        r#"
        geoip2 %%ROOT%%/world.mmdb { auto_reload 1s; $code source=$arg_ip default=- country iso_code; $built metadata build_epoch;
            $wide source=$arg_ip default=0 kinds u128; }
        server {
            listen 127.0.0.1:%%PORT%%;
            location / { return 200 "$code $built"; }
            location /wide { return 200 $wide; }
        }
        "#,
    )
    .file("world.mmdb", world());
    let running = site.start(Server::Fulmar);
    let text = || running.ask("GET /?ip=192.0.2.7").last().text();
    assert_eq!(text(), "AA 1700000000");
    assert_eq!(running.ask("GET /wide?ip=192.0.2.7").last().text(), "0x00000010000000000000000000000000");
    // As programs replace such a file: a new one takes its name.
    let replace = |bytes: &[u8]| {
        let new = site.root().join("new");
        std::fs::write(&new, bytes).unwrap();
        std::fs::rename(new, site.root().join("world.mmdb")).unwrap();
    };
    let mut torn = world();
    torn.truncate(torn.len() - 40);
    replace(&torn);
    running.wait_for_log("error.log", "failed to reload");
    assert_eq!(text(), "AA 1700000000", "what was read before stays");
    replace(&database(1_800_000_000, &[("192.0.2.0/24", country("BB", "Bee"))]));
    assert!(
        tests::wait::until(std::time::Duration::from_secs(10), || text() == "BB 1800000000"),
        "{}",
        text()
    );
    running.stop();
}

#[test]
fn damaged_files_are_refused_or_say_less() {
    let server = |text: &str| {
        format!("{text} server {{ listen 127.0.0.1:%%PORT%%; location / {{ return 200 \"<$a|$b|$c>\"; }} }}")
    };
    let block =
        "geoip2 %%ROOT%%/world.mmdb { $a source=$arg_ip country iso_code; $b source=$arg_ip kinds list 1 en;
        $c source=$arg_ip kinds u128; }";
    let site = Site::new(&server(block)).file("world.mmdb", world());
    let running = site.start(Server::Fulmar);
    let whole = world();
    let mut random = 7_u64;
    let mut next = move |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).unwrap() % below
    };
    for _ in 0..40 {
        let mut bytes = whole.clone();
        for _ in 0..=next(8) {
            let at = next(bytes.len());
            bytes[at] = u8::try_from(next(256)).unwrap();
        }
        std::fs::write(site.root().join("world.mmdb"), bytes).unwrap();
        // It may be refused.
        let _ = site.command(Server::Fulmar).args(["-s", "reload"]).output().unwrap();
        for ip in ["192.0.2.7", "10.1.2.3", "2001:db8::1", "0.0.0.0", "ffff::"] {
            assert_eq!(running.ask(&format!("GET /?ip={ip}")).last().status, 200);
        }
    }
    running.assert_healthy();
    running.stop();
}
