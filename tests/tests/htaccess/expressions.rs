//! Expressions: `<If>`, `Require expr`, `Header … expr=`, `RewriteCond expr`, `SetEnvIfExpr`.

use super::agree_with_host;

/// Conditions, some of which hold for some of the requests below, and some of which are mistakes.
const CONDITIONS: [&str; 52] = [
    "true",
    "false",
    "! false",
    "!true || true && false",
    "(true || false) && false",
    "%{REQUEST_URI} == '/a.txt'",
    "%{REQUEST_URI} = '/a.txt'",
    "%{REQUEST_METHOD} != 'GET'",
    "%{REQUEST_URI} =~ /\\.txt$/",
    "%{REQUEST_URI} =~ m#^/A#i",
    "%{REQUEST_URI} !~ m|b|",
    "%{REQUEST_URI} =~ /([a-z])\\.(txt)/ && $2 == 'txt'",
    "%{HTTP_HOST} =~ /^localhost/",
    "%{QUERY_STRING} -eq 5",
    "%{QUERY_STRING} gt 4",
    "%{QUERY_STRING} -le '10'",
    "%{QUERY_STRING} < '5'",
    "'abc' < 'abd'",
    "'b' >= 'abc'",
    "-n %{HTTP:X}",
    "-z %{HTTP:X}",
    "-n req('X') && req('X') in {'1', '2','y'}",
    "-T %{HTTP:X}",
    "! -T env('NONE')",
    "tolower(%{HTTP:X}) == 'y'",
    "'A' . 'B' == 'AB'",
    "toupper('a' . 'b') == 'AB'",
    "%{HTTP:X}.'z' == 'yz'",
    "%{REMOTE_ADDR} -ipmatch '127.0.0.0/8'",
    "%{REMOTE_ADDR} -ipmatch '10.0.0.0/8'",
    "-R '127.0.0.1'",
    "-R '10.0.0.0/8'",
    "%{REQUEST_URI} -strmatch '/?.txt'",
    "%{REQUEST_URI} -strcmatch '*.TXT'",
    "%{REQUEST_URI} -fnmatch '*.txt'",
    "-f %{REQUEST_FILENAME}",
    "-d %{DOCUMENT_ROOT}",
    "-e '%{DOCUMENT_ROOT}/none'",
    "-s %{REQUEST_FILENAME}",
    "%{HTTPS} == 'off'",
    "%{REQUEST_SCHEME}://%{HTTP_HOST} == 'x'",
    "\"%{REQUEST_METHOD} %{REQUEST_URI}\" == 'GET /a.txt'",
    "%{THE_REQUEST} =~ m#^GET /a#",
    "%{SERVER_PROTOCOL} == 'HTTP/1.1'",
    "unescape('a%20b') == 'a b'",
    "%{tolower:ABC} == 'abc'",
    "%{req:X} == 'y'",
    "%{NOPE} == 'x'",
    "nope('x') == 'x'",
    "%{REQUEST_URI}",
    "true &&",
    "%{REQUEST_URI} == /a.txt",
];

fn agree_on(texts: Vec<String>) {
    let paths: Vec<String> = (0..texts.len()).map(|at| format!("{at}/.htaccess")).collect();
    let pages: Vec<String> = (0..texts.len()).map(|at| format!("{at}/a.txt")).collect();
    let files = paths.iter().zip(&texts).map(|(path, text)| (path.as_str(), text.as_str()));
    let files: Vec<_> = files.chain(pages.iter().map(|path| (path.as_str(), "x"))).collect();
    let requests: Vec<String> = pages
        .iter()
        .flat_map(|path| ["", "?5", "?40\nX: y", "\nX: 0"].map(|rest| format!("GET /{path}{rest}")))
        .collect();
    agree_with_host(&files, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn sections() {
    let section = |condition: &str| {
        let condition = condition.replace('"', "\\\"");
        format!(
            "Header set X-In none\n<If \"{condition}\">\nHeader set X-In if\n</If>\n<Else>\nHeader set X-In else\n</Else>\n"
        )
    };
    agree_on(CONDITIONS.map(section).into());
}

#[test]
fn requirements() {
    let with = |condition: &str| format!("Require expr {condition}\n");
    let without = |condition: &str| {
        format!("<RequireAll>\nRequire all granted\nRequire not expr {condition}\n</RequireAll>\n")
    };
    let simple = CONDITIONS.iter().filter(|condition| !condition.contains('"'));
    agree_on(simple.flat_map(|condition| [with(condition), without(condition)]).collect());
}

#[test]
fn fields_rules_and_variables() {
    let text = |condition: &str| {
        let condition = condition.replace('"', "\\\"");
        format!(
            "Header set X-Holds yes \"expr={condition}\"\nSetEnvIfExpr \"{condition}\" HOLDS=1\n\
             Header set X-Env %{{HOLDS}}e\nRewriteEngine on\nRewriteCond expr \"{condition}\"\nRewriteRule . - [E=RULE:1]\n\
             Header set X-Rule yes env=RULE\n"
        )
    };
    let simple = CONDITIONS.iter().filter(|condition| !condition.contains('"'));
    agree_on(simple.map(|condition| text(condition)).collect());
}

#[test]
fn sections_within_sections() {
    const TEXT: &str = "Header set S 0\n<If \"%{REQUEST_URI} =~ /a\\.txt/\">\nHeader set S 1\nHeader set I a\n</If>\n\
        <ElseIf \"%{REQUEST_URI} == '/b.txt'\">\nHeader set S 2\n</ElseIf>\n<Else>\nHeader set S 3\n</Else>\n\
        <Files \"*.txt\">\nHeader set S files\nHeader set F f\n<If \"%{QUERY_STRING} == 'v'\">\nHeader set S inner\n\
        Require all denied\n</If>\n<Else>\nHeader set Q none\n</Else>\n</Files>\n<If \"true\">\n<If \"-n %{HTTP:X}\">\n\
        Header set N n\n</If>\n</If>\n";
    const SUB: &str =
        "<If \"%{HTTP:X} == 'no'\">\nRequire all denied\n</If>\n<Else>\nHeader set S subelse\n</Else>";
    agree_with_host(
        &[
            (".htaccess", TEXT),
            ("sub/.htaccess", SUB),
            ("alone/.htaccess", "<Else>\n</Else>"),
            ("alone/a.txt", ""),
            ("bare/.htaccess", "<If %{REQUEST_METHOD} == 'GET'>\n</If>"),
            ("away/.htaccess", "<If \"%{HTTP:X} == 'r'\">\nRedirect 301 / http://example.com/\n</If>\n"),
            ("away/a.txt", "r"),
        ],
        &[
            "GET /a.txt",
            "GET /b.txt",
            "GET /page.html",
            "GET /a.txt?v",
            "GET /a.txt\nX: y",
            "GET /sub/a.txt",
            "GET /sub/a.txt\nX: no",
            "GET /alone/a.txt",
            "GET /bare/a.txt",
            "GET /away/a.txt\nX: r",
            "GET /away/a.txt",
        ],
    );
}

/// What other tenants own, and what Apache would read, is not granted.
#[test]
fn files_elsewhere_are_not_seen() {
    let site = super::site(&[
        ("out/.htaccess", "<If \"-f '/etc/passwd'\">\nRequire all denied\n</If>\n"),
        ("out/a.txt", "a"),
        ("read/.htaccess", "<If \"file('/etc/passwd') != ''\">\nRequire all denied\n</If>\n"),
        ("read/a.txt", "a"),
    ]);
    let running = site.start(tests::binary::Server::Fulmar);
    assert_eq!(running.ask("GET /out/a.txt").statuses(), [200]);
    assert_eq!(running.ask("GET /read/a.txt").statuses(), [500]);
    running.wait_for_log("error.log", "uses the function \"file\", which is not granted to .htaccess files");
    running.stop();
}

/// The host of a target in absolute form counts, and not that of `Host`.
#[test]
fn the_host_is_that_of_the_target() {
    const RULES: &str =
        "RewriteEngine on\nRewriteCond %{HTTP_HOST} !^good\\.example(:1)?$\nRewriteRule . - [F]\n";
    const EXPRESSION: &str = "Require expr \"%{HTTP_HOST} == 'good.example'\"\n";
    const VARIABLE: &str =
        "SetEnvIf Host ^good\\.example$ ok\nRequire env ok\nHeader set X-Host \"expr=%{req:Host}\"\n";
    let texts = [("rules", RULES), ("expression", EXPRESSION), ("variable", VARIABLE)];
    let files: Vec<(String, &str)> =
        texts.iter().map(|(folder, text)| (format!("{folder}/.htaccess"), *text)).collect();
    let pages: Vec<(String, &str)> =
        texts.iter().map(|(folder, _)| (format!("{folder}/a.txt"), "a")).collect();
    let files: Vec<(&str, &str)> =
        files.iter().chain(&pages).map(|(path, text)| (path.as_str(), *text)).collect();
    let requests: Vec<String> = texts
        .iter()
        .flat_map(|(folder, _)| {
            [
                format!("GET http://good.example/{folder}/a.txt\nHost: bad.example"),
                format!("GET http://bad.example/{folder}/a.txt\nHost: good.example"),
                format!("GET http://GOOD.example:1/{folder}/a.txt\nHost: bad.example"),
                format!("GET /{folder}/a.txt\nHost: good.example"),
                format!("GET /{folder}/a.txt?http://good.example/\nHost: bad.example"),
            ]
        })
        .collect();
    super::agree(&files, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}
