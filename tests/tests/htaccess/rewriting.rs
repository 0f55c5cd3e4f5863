//! Flags, conditions and options of rules.

use std::collections::BTreeSet;

use tests::response::Response;

use super::{agree, agree_by, agree_with_host, shown, site, with_host};

#[test]
fn targets_that_are_addresses_of_mail_are_redirects() {
    let rules = "RewriteEngine on\nRewriteRule ^mail$ mailto:a@example.org [R]\n\
        RewriteRule ^news$ NEWS:comp.lang [R=303]\nRewriteRule ^bare$ mailto:a@example.org?subject=b\n";
    agree(&[(".htaccess", rules)], &["GET /mail", "GET /news", "GET /bare"]);
}

#[test]
fn flags() {
    const TEXT: &str = r"RewriteEngine on # comment
RewriteRule ^a1$ a.txt [L] # why
RewriteCond %{REQUEST_URI} a2 [NC] # words
RewriteRule ^a2$ a.txt [L] and more
RewriteRule ^t1$ a.txt [T=text/x-one]
RewriteRule ^a\.txt$ - [T=text/x-two]
RewriteRule ^co$ - [CO=name:value:example.com]
RewriteRule ^co2$ /b.txt [CO=n:v:.example.com:0:/x:1:1:Lax,R]
RewriteRule ^co3$ - [F,CO=;n:a;v;.example.com]
RewriteRule ^u1$ /a.txt?v=%{NOPE}x%{SSL:X}y [R]
RewriteRule ^b1/(.*)$ /a.txt?v=$1 [B,R]
RewriteRule ^b2/(.*)$ /a.txt?v=$1 [B,BNP,R]
RewriteRule ^b3/(.*)$ /a.txt?v=$1 [BCTLS,R]
RewriteRule ^b4/(.*)$ /a.txt?v=$1 [B=&,R]
RewriteRule ^b5/(.*)$ /a.txt?v=$1 [B,BNE=/&,R]
RewriteRule ^b6/(.*)$ /a.txt?v=$1 [B,R,NE]
RewriteRule ^n1(.*)$ n1x$1 [N=5]
RewriteRule ^q1$ /a.txt?x&%{QUERY_STRING} [R]
RewriteRule ^q2$ /a.txt? [R,QSA]
RewriteRule ^q3$ /a.txt?x [R,QSA]
RewriteRule ^q4$ /a.txt?a?b [R,QSL]
RewriteRule ^dpi(/.*)?$ sub$1 [DPI]
RewriteRule ^(.*)two$ $1three
RewriteRule ^one/(.*)$ sub/$1
RewriteRule ^grow(.*)$ grow/x$1 [L]
";
    let paths = [
        "/a1",
        "/a2",
        "/t1",
        "/a.txt",
        "/co",
        "/co2",
        "/co3",
        "/u1",
        "/b1/a%20b%26/c",
        "/b2/a%20b",
        "/b3/a%20b%26",
        "/b4/a%20b%26/",
        "/b5/a%20b%26/",
        "/b6/a%20b%26/",
        "/n1",
        "/q1",
        "/q1?y=1",
        "/q2?y=1",
        "/q3?y=1",
        "/q3",
        "/q4",
        "/dpi/a.txt",
        "/one/missing/two",
        "/sub/missing/two",
        "/one/a.txt",
        "/q3?y=%20",
        "/grow",
    ];
    let requests = paths.map(|path| format!("GET {path}"));
    agree_with_host(&[(".htaccess", TEXT)], &requests.each_ref().map(String::as_str));
}

#[test]
fn question_marks_of_the_path() {
    const TEXT: &str = "RewriteEngine on\nRewriteRule ^u/(.*)$ a.txt?x=$1 [L]\nRewriteRule ^v/(.*)$ $1 [L]\n\
        RewriteRule ^w/(.*)$ /a.txt/$1 [R,L]\nRewriteRule ^x/(.*)$ /a.txt?$1 [R,L]\n\
        RewriteRule ^y/(.*)$ /a.txt?$1 [R,L,B]\nRewriteRule ^z/(.*)$ $1 [L,UnsafeAllow3F]\n\
        RewriteCond $1 ^(.*)$\nRewriteRule ^t/(.*)$ %1 [L]\nRewriteRule ^env/(.*)$ - [E=Q:$1]\n\
        RewriteRule ^env/(.*)$ %{ENV:Q} [L]\n";
    agree_with_host(
        &[(".htaccess", TEXT)],
        &[
            "GET /u/x%3fy",
            "GET /v/a.txt%3fz",
            "GET /w/x%3Fy",
            "GET /x/x%3fy",
            "GET /y/x%3fy",
            "GET /z/a.txt%3fz",
            "GET /t/a.txt%3fz",
            "GET /env/a.txt%3fz",
            "GET /v/x%2541",
            "GET /w/x%2541",
        ],
    );
}

#[test]
fn question_marks_of_the_request_start_no_query() {
    const TEXT: &str = "RewriteEngine on\nRewriteCond %{THE_REQUEST} \\s(/r\\S*)\\s\n\
        RewriteRule ^ https://other.example%1 [R=301,L]\nRewriteCond %{THE_REQUEST} \\s/s(\\S*)\\s\n\
        RewriteRule ^ /a.txt%1 [L]\nRewriteCond %{THE_REQUEST} \\s/t(\\S*)\\s\n\
        RewriteRule ^ /a.txt?x=%1 [R,L]\nRewriteCond %{THE_REQUEST} \\s/u(\\S*)\\s\n\
        RewriteRule ^ /b%1?y=%1 [R,L,QSL]\nRewriteCond %{THE_REQUEST} \\s/v(\\S*)\\s\n\
        RewriteRule ^ /b?y=%1 [R,L,QSL]\nRewriteCond %{THE_REQUEST} \\s/w(\\S*)\\s\n\
        RewriteRule ^ /a.txt%1 [L,UnsafeAllow3F]\n";
    let paths = ["r/x", "r/x?a=b", "s", "s?a=b", "t/x", "t?a=b", "u", "u?a=b", "v", "v?a=b", "w?a=b"];
    let requests = paths.map(|path| format!("GET /{path}"));
    agree_with_host(&[(".htaccess", TEXT)], &requests.each_ref().map(String::as_str));
}

#[test]
fn dots_in_targets() {
    const TEXT: &str = "RewriteEngine on\nRewriteBase /sub/deep/\nRewriteRule ^r/1$ ../../a.txt [L]\n\
        RewriteRule ^r/2$ ../../../a.txt [L]\nRewriteRule ^r/3$ ./a.txt [L]\nRewriteRule ^r/4$ x/../.. [L]\n\
        RewriteRule ^r/5$ ../../private/a.txt [L]\nRewriteRule ^r/6$ /sub/./deep//../a.txt?q=../x [L]\n\
        RewriteRule ^r/7$ ../../a.txt [R,L]\nRewriteRule ^r/8$ /sub/.. [L]\nRewriteRule ^r/9$ /.. [L]\n";
    let files = [
        (".htaccess", "RewriteEngine on\nRewriteRule ^up$ ../a.txt\nRewriteRule ^in$ x/../b.txt\n"),
        ("sub/deep/.htaccess", TEXT),
        ("private/.htaccess", "Require all denied\n"),
        ("private/a.txt", "secret"),
    ];
    let mut requests: Vec<String> = (1..10).map(|number| format!("GET /sub/deep/r/{number}")).collect();
    requests.extend(["GET /up".to_owned(), "GET /in".to_owned()]);
    agree_with_host(&files, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

/// A type that a rule gives is also that of a file whose methods are asked for.
#[test]
fn types_of_rules_count_for_all_methods() {
    let rules = "RewriteEngine on\nRewriteRule ^sub/? - [T=text/x-sub]\nRewriteRule ^one$ b.html [T=text/plain]\n\
        RewriteRule html$ - [T=text/plain]\n";
    let files = [(".htaccess", rules), ("b.html", "b"), ("c.txt", "c"), ("sub/b.html", "b")];
    let requests: Vec<String> = ["GET", "HEAD", "OPTIONS"]
        .iter()
        .flat_map(|method| ["one", "b.html", "c.txt", "sub/b.html"].map(|path| format!("{method} /{path}")))
        .collect();
    agree_with_host(&files, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn statuses_of_rules() {
    const TEXT: &str = "RewriteEngine on\nHeader always set X-Always 1\nHeader set X-Set 1\n\
        RewriteCond %{REQUEST_METHOD} OPTIONS\nRewriteRule ^(.*)$ $1 [R=200,L]\n\
        RewriteRule ^r/200 - [R=200]\nRewriteRule ^r/204 /x [R=204,L]\nRewriteRule ^r/304 /x [R=304,L]\n\
        RewriteRule ^r/410 /x [R=410]\nRewriteRule ^r/503 - [R=503,L]\nRewriteRule ^r/seeother /x [R=seeother]\n";
    let paths = ["200", "204", "304", "410", "503", "seeother"];
    let mut requests: Vec<String> = paths.iter().map(|path| format!("GET /r/{path}")).collect();
    requests.extend(["/", "/a.txt", "/missing"].map(|path| format!("OPTIONS {path}")));
    requests.extend(["HEAD /r/200", "HEAD /r/204", "POST /r/204"].map(str::to_owned));
    let requests: Vec<String> = requests.iter().map(|request| with_host(request)).collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    // For 200 Apache sends a page that says "internal error", Fulmar no content.
    let shown = |response: &Response, port: u16| match response.status {
        200 => format!("{:?}", response.field("X-Always")),
        _ => shown(response, port),
    };
    agree_by(shown, site(&[(".htaccess", TEXT)]), &[], &requests);
}

/// A dollar sign with braces is a map only if a colon follows the name.
#[test]
fn braces_that_are_no_map_and_an_empty_list_of_bytes() {
    const TEXT: &str = "RewriteEngine on\nRewriteCond ${REQUEST_URI} !^/x\nRewriteRule ^r/1$ /b.txt?a=${x}&b=${ [R,L]\n\
        RewriteCond ${REQUEST_URI} {REQUEST_URI}\nRewriteRule ^r/2$ /${x}b [R,L]\n\
        RewriteRule ^r/3(.*)$ /b.txt?$1 \"[B= ,R,L]\"\n";
    agree_with_host(&[(".htaccess", TEXT)], &["GET /r/1", "GET /r/2", "GET /r/3/x%20y+z", "GET /a.txt"]);
}

#[test]
fn a_path_behind_the_file_stays_for_later_rules() {
    const TEXT: &str = "RewriteEngine on\nRewriteRule ^r/(.*)$ x/$1\nRewriteRule ^(.*)$ - [E=P:$1]\n\
        RewriteRule ^x/(.*)$ /b.txt?p=$1&i=%{PATH_INFO} [R]\n\
        RewriteRule ^a.txt/(.*)$ /b.txt?s=$1&i=%{PATH_INFO} [R]\nRewriteRule ^m/ - [S=1]\n\
        RewriteRule ^nothing - [F]\nRewriteRule ^m/(.*)$ m/$1\n";
    agree_with_host(
        &[(".htaccess", TEXT)],
        &["GET /r/a/b/c", "GET /a.txt/x/y", "GET /m/x", "GET /m/", "GET /r/a.txt"],
    );
}

#[test]
fn conditions() {
    const TESTS: [&str; 18] = [
        "%{HTTP:X} =%{HTTP:Y}",
        "%{HTTP:X} =ab [NC]",
        "%{HTTP:X} >9",
        "%{HTTP:X} <9",
        "%{HTTP:X} >=ab",
        "%{HTTP:X} <=ab",
        "%{HTTP:X} -gt5",
        "%{HTTP:X} -lt5",
        "%{HTTP:X} -ge5",
        "%{HTTP:X} -le5",
        "%{HTTP:X} -eq5",
        "%{HTTP:X} -ne5",
        "%{HTTP:X} !-ne5",
        "%{DOCUMENT_ROOT}/a.txt -F",
        "%{DOCUMENT_ROOT}/none.txt -F",
        "/a.txt -U",
        "%{HTTP:X} =",
        "%{HTTP:X}%{ b",
    ];
    let rule = |(at, test): (usize, &str)| format!("RewriteCond {test}\nRewriteRule ^c{at}$ a.txt\n");
    let text: String = TESTS.into_iter().enumerate().map(rule).collect();
    let fields = ["", "\nX: a\nY: a", "\nX: AB", "\nX: 5", "\nX: 10", "\nX: abc", "\nX: =", "\nX: 4"];
    let requests: Vec<String> =
        (0..TESTS.len()).flat_map(|at| fields.map(|fields| format!("GET /c{at}{fields}"))).collect();
    agree_with_host(
        &[(".htaccess", &format!("RewriteEngine on\n{text}"))],
        &requests.iter().map(String::as_str).collect::<Vec<_>>(),
    );
}

/// First rules that ask only for the requested file, and may do more than to leave it alone.
#[test]
fn first_rules_about_the_file() {
    const FILE: &str = "RewriteCond %{REQUEST_FILENAME}";
    let programs = [
        format!("{FILE} -f\nRewriteRule ^a\\.txt$ b.txt [L]\n"),
        format!("{FILE} -f\nRewriteRule ^a\\.txt$ - [L]\nRewriteRule ^ b.txt [L]\n"),
        format!("{FILE} -f [OR]\n{FILE} -d\nRewriteRule ^ - [L]\nRewriteRule ^ b.txt [L]\n"),
        format!("{FILE} !-f\nRewriteRule ^ - [C]\nRewriteRule ^ b.txt [L]\nRewriteRule ^a - [F]\n"),
        format!("{FILE} -f\nRewriteRule ^ - [F]\n"),
        format!("{FILE} -s\nRewriteRule !^a - [L]\nRewriteRule ^ - [G]\n"),
        format!("{FILE} -f\nRewriteRule ^ - [S=1]\nRewriteRule ^a - [F]\nRewriteRule ^b - [G]\n"),
        format!("{FILE} -f\nRewriteRule ^ - [E=X:1]\nRewriteCond %{{ENV:X}} 1\nRewriteRule ^a b.txt\n"),
        format!("{FILE} -f\n{FILE} !-x\nRewriteRule ^ - [END]\nRewriteRule ^ - [F]\n"),
        format!("{FILE} !-d\n{FILE} !-f\nRewriteRule ^ b.txt [L]\nRewriteRule ^a - [T=text/x-one]\n"),
    ];
    let mut files = Vec::new();
    for (at, program) in programs.iter().enumerate() {
        files.push((format!("p{at}/.htaccess"), format!("RewriteEngine on\n{program}")));
        files.extend(["a.txt", "b.txt"].map(|name| (format!("p{at}/{name}"), format!("{name} of {at}"))));
    }
    let paths = ["a.txt", "b.txt", "missing", "a.txt/more", ""];
    let requests: Vec<_> =
        (0..programs.len()).flat_map(|at| paths.map(|path| format!("GET /p{at}/{path}"))).collect();
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    agree_with_host(&files, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn options() {
    agree_with_host(
        &[
            (
                ".htaccess",
                "RewriteEngine on\nRewriteOptions InheritDown\nRewriteRule ^x$ a.txt\nRewriteRule ^deep/x$ b.txt\n",
            ),
            ("sub/.htaccess", "RewriteRule ^y$ a.txt\n"),
            ("sub/deep/.htaccess", "RewriteOptions IgnoreInherit\nRewriteRule ^z$ a.txt\n"),
            ("p/.htaccess", "RewriteEngine on\nRewriteRule ^x$ /a.txt\n"),
            ("p/c/.htaccess", "RewriteEngine on\nRewriteOptions Inherit\nRewriteRule ^y$ /b.txt"),
            (
                "p/d/.htaccess",
                "RewriteOptions InheritBefore AllowNoSlash\nRewriteRule ^$ /b.txt\nRewriteRule ^x$ /b.txt",
            ),
            ("p/d/x", ""),
            ("p/e/.htaccess", "RewriteOptions what\n"),
            ("p/e/a", ""),
            ("p/f/.htaccess", "RewriteEngine on\n"),
            ("p/f/x", "f"),
        ],
        &[
            "GET /x",
            "GET /sub/x",
            "GET /sub/y",
            "GET /sub/deep/x",
            "GET /sub/deep/z",
            "GET /p/x",
            "GET /p/c/x",
            "GET /p/c/y",
            "GET /p/d/x",
            "GET /p/d",
            "GET /p/e/a",
            "GET /p/f/x",
        ],
    );
}

/// What is outside of the root is nobody's concern there, and what needs a network is not granted.
#[test]
fn tests_of_files_end_at_the_root() {
    let site = super::site(&[
        (
            ".htaccess",
            "RewriteEngine on\nRewriteCond /etc/passwd -f\nRewriteRule ^out$ a.txt\n\
             RewriteCond %{DOCUMENT_ROOT}/../root/a.txt -f\nRewriteRule ^climb$ a.txt\n\
             RewriteCond %{DOCUMENT_ROOT}/a.txt -f\nRewriteRule ^in$ a.txt\n",
        ),
        ("proxy/.htaccess", "RewriteEngine on\nRewriteRule ^ http://127.0.0.1:1/ [P]\n"),
        ("handler/.htaccess", "RewriteEngine on\nRewriteRule ^ - [H=proxy:fcgi://127.0.0.1:1]\n"),
    ]);
    let running = site.start(tests::binary::Server::Fulmar);
    let status = |path: &str| running.ask(&format!("GET {path}")).last().status;
    assert_eq!(["/out", "/climb", "/in", "/proxy/x", "/handler/x"].map(status), [404, 404, 200, 500, 500]);
    running.wait_for_log("error.log", "has the flag \"P\", which is not granted to .htaccess files");
    running.stop();
}

/// An internal redirect decodes the path once more.
#[test]
fn escapes_in_targets() {
    const TEXT: &str = "RewriteEngine on\nRewriteRule ^b1/(.*)$ sub/$1 [B,L]\nRewriteRule ^b2/(.*)$ /$1 [B,L]\n\
        RewriteRule ^b3/(.*)$ /$1 [B,BNP,L]\nRewriteRule ^b4/(.*)$ /$1 [B,R,L]\nRewriteRule ^b5/(.*)$ /$1 [L]\n\
        RewriteRule ^b6/(.*)$ /a.txt?x=$1 [L]\nRewriteRule ^b7/(.*)$ /$1?x [R,L]\n\
        RewriteRule ^b8/(.*)$ /$1 [BNP,L]\nRewriteRule ^b9/(.*)$ /$1 [BNE=.,R,L]\n\
        RewriteRule ^b10/(.*)$ /$1 [backrefescaping=.,R,L]\nRewriteRule ^b11/(.*)$ /$1 [BCTLS,BNP,R,L]\n\
        RewriteRule ^p/1$ /a\\%2etxt [L]\nRewriteRule ^p/2$ /a\\%2ftxt [L]\nRewriteRule ^p/3$ /with\\%20space.txt [L]\n\
        RewriteRule ^p/4$ /a%zz [L]\nRewriteRule ^p/5$ /a\\%2etxt [NE,L]\nRewriteRule ^p/6$ /a\\%00 [L]\n\
        RewriteRule ^p/7$ \"/with space.txt\" [L]\nRewriteRule ^p/8$ /sub\\%2f..\\%2fa.txt [L]\n\
        RewriteRule ^p/9$ /\\%2e\\%2e/a.txt [L]\nRewriteRule ^p/10$ /sub/\\%2e\\%2e/a.txt [L]\n\
        RewriteRule ^p/11$ /a.txt\\%3fx [L]\nRewriteRule ^p/12$ /a.txt#x [L]\nRewriteRule ^p/13$ /a.txt\\%23x [L]\n\
        RewriteRule ^p/14$ /\\%2ehtaccess [L]\nRewriteRule ^p/15$ /a.txt% [L]\n";
    let mut requests: Vec<String> = (1..16).map(|number| format!("GET /p/{number}")).collect();
    let paths = [
        "a.txt",
        "x/y",
        "sub/a.txt",
        "with%20space.txt",
        "a%2525",
        "a%25",
        "a%2etxt",
        "a.txt%23?x",
        "a%252etxt",
    ];
    for folder in 1..12 {
        requests.extend(paths.map(|path| format!("GET /b{folder}/{path}")));
    }
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree_with_host(&[(".htaccess", TEXT)], &requests);
}

/// The status, and what the response varies by.
fn varied(response: &Response, _: u16) -> String {
    let fields = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("vary"));
    let names: BTreeSet<String> =
        fields.flat_map(|(_, value)| value.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect();
    format!("{} {names:?}", response.status)
}

#[test]
fn responses_vary_by_the_headers_that_conditions_ask_for() {
    const TEXT: &str = "RewriteEngine on\nRewriteCond %{HTTP:Authorization} .\nRewriteRule .* - [E=A:1]\n\
        RewriteCond %{HTTP_USER_AGENT} old [OR]\nRewriteCond %{HTTP_COOKIE} old\nRewriteRule ^a - [E=B:1]\n\
        RewriteCond %{HTTP_ACCEPT} webp\nRewriteRule ^style\\.css$ page.html [L]\n\
        RewriteCond %{HTTP_REFERER} other [NV]\nRewriteRule ^b - [E=C:1]\n\
        RewriteCond %{HTTP_HOST}%{HTTP:X-One}%{HTTP:X-Two} !^$\nRewriteCond %{HTTP:X-Three} !^$\nRewriteRule ^b - [L]\n\
        RewriteCond %{HTTP:X-Four} yes\nRewriteRule ^c - [F]\nRewriteCond %{HTTP:X-Four} yes\nRewriteRule ^d /x [R,L]\n\
        RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . index.php [L]\n";
    let paths = ["/", "/a.txt", "/b.txt", "/style.css", "/c", "/d", "/missing", "/sub/"];
    let heads = [
        "",
        "\nAuthorization: Basic YTpi",
        "\nUser-Agent: old",
        "\nUser-Agent: new\nCookie: old",
        "\nAccept: webp\nReferer: other\nX-Four: yes",
        "\nX-One: 1\nX-Three: 3\nAuthorization: Basic YTpi",
        "\nX-Two: 1",
    ];
    let requests: Vec<String> =
        paths.iter().flat_map(|path| heads.map(|head| with_host(&format!("GET {path}{head}")))).collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree_by(varied, site(&[(".htaccess", TEXT)]), &[], &requests);
}
