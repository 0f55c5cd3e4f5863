//! `modern_browser`, `ancient_browser` and `userid`.

use tests::differential::{agree, agree_on_mistake};
use tests::site::Site;

#[test]
fn browsers_are_told_apart() {
    let site = Site::new(
        "add_header X-Told \"<$modern_browser> <$ancient_browser> <$msie>\" always;
        server {
            listen 127.0.0.1:%%PORT%%;
            modern_browser msie 5.5;
            modern_browser gecko 1.9;
            modern_browser safari 413;
            ancient_browser Lynx netscape4;
            location / { return 204; }
            location /unlisted { modern_browser unlisted; ancient_browser Links; return 204; }
            location /both { modern_browser unlisted; modern_browser opera 9.0; modern_browser konqueror 3.4; return 204; }
            location /values { modern_browser_value new; ancient_browser_value old; return 204; }
        }
        server { listen 127.0.0.1:%%PORT_1%%; return 204; }",
    );
    let agents = [
        "",
        "User-Agent:",
        "User-Agent: Lynx/2.8",
        "User-Agent: Links (2.1)",
        "User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)",
        "User-Agent: Mozilla/4.0 (compatible; MSIE 5.0; Windows NT 5.1)",
        "User-Agent: Mozilla/4.0 (compatible; MSIE 5.5",
        "User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; X11; FreeBSD i386) Opera 7.50  [en]",
        "User-Agent: Opera/9.01 (X11; FreeBSD 6 i386; U; en)",
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
        "User-Agent: Mozilla/5.0 (X11; U; Linux i686; en-US; rv:1.8.1) Gecko/20061010",
        "User-Agent: Mozilla/5.0 (X11; U; Linux i686; en-US; rv:1.9",
        "User-Agent: Mozilla/5.0 (Macintosh) AppleWebKit/605.1.15 (KHTML, like Gecko) Safari/605.1.15",
        "User-Agent: Mozilla/5.0 (compatible; Konqueror/3.5; FreeBSD) KHTML/3.5.1",
        "User-Agent: Mozilla/4.72 [en] (X11; U; Linux)",
        "User-Agent: rv:",
        "User-Agent: MSIE 5",
    ];
    let paths = ["/", "/unlisted", "/both", "/values"];
    let cases: Vec<(usize, String)> = agents
        .iter()
        .flat_map(|agent| paths.map(|path| (0, path, agent)).into_iter().chain([(1, "/", agent)]))
        .map(|(port, path, agent)| (port, format!("GET {path}\n{agent}").trim_end().to_owned()))
        .collect();
    let cases: Vec<(usize, &str)> = cases.iter().map(|(port, text)| (*port, text.as_str())).collect();
    agree(&site, &cases);
}

/// Requests whose answers depend on the cookie of the request alone.
#[test]
fn clients_are_known_by_their_cookie() {
    const COOKIE: &str = "uid=AQAAfwAAAAAAAAAAAwMDAgMDAwI=";
    let site = Site::new(
        "add_header X-Got \"$uid_got\" always;
        server {
            listen 127.0.0.1:%%PORT%%;
            userid on;
            userid_service 7;
            location / { return 204; }
            location /log { userid log; return 204; }
            location /off { userid off; return 204; }
            location /mark { userid_mark t; userid_domain a.example; userid_path /x; userid_p3p policy; return 204; }
            location /flags { userid_mark q; userid_flags secure httponly samesite=strict; userid_expires max; return 204; }
            location /name { userid_name ID; return 204; }
            location /given { userid_mark z; return 200 $uid_set; }
        }",
    );
    let cases = [
        format!("GET /\nCookie: {COOKIE}"),
        "GET /\nCookie: a=b; UID = AQAAfwAAAAAAAAAAAwMDAgMDAwI".to_owned(),
        format!("GET /log\nCookie: {COOKIE}"),
        "GET /log".to_owned(),
        "GET /log\nCookie: uid=short".to_owned(),
        "GET /log\nCookie: uid=!!!!!!!!!!!!!!!!!!!!!!".to_owned(),
        format!("GET /off\nCookie: {COOKIE}"),
        format!("GET /mark\nCookie: {COOKIE}"),
        "GET /mark\nCookie: uid=AQAAfwAAAAAAAAAAAwMDAgMDAwIt=".to_owned(),
        format!("GET /flags\nCookie: {COOKIE}"),
        "GET /name\nCookie: ID=AQAAfwAAAAAAAAAAAwMDAgMDAwI=".to_owned(),
        format!("GET /given\nCookie: {COOKIE}"),
    ];
    let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
    agree(&site, &cases);
}

#[test]
fn mistakes_are_those_of_nginx() {
    for settings in [
        "modern_browser lynx 1.0;",
        "modern_browser msie 5x;",
        "userid yes;",
        "userid_flags some;",
        "userid_service x;",
        "userid_expires x;",
    ] {
        agree_on_mistake(&Site::new(&format!("server {{ listen 127.0.0.1:%%PORT%%; {settings} }}")));
    }
}
