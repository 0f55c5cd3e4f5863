//! Modules that Debian's Apache has and does not load by itself: texts that are replaced, misspelt names, guests, and
//! others.

use std::fmt::Write;

use super::{agree_by, agree_on, shown, site};
use tests::response::Response;
use tests::site::Site;

/// A directory for each text, with the same files.
pub(super) fn folders(texts: &[&str], files: &[(&str, &str)]) -> Site {
    texts.iter().enumerate().fold(site(&[]), |site, (at, text)| {
        let site = site.file(&format!("{at}/.htaccess"), text);
        files.iter().fold(site, |site, (path, content)| site.file(&format!("{at}/{path}"), content))
    })
}

/// Each request to each directory; `FOLDER` is its name.
pub(super) fn everywhere(count: usize, requests: &[&str]) -> Vec<String> {
    (0..count)
        .flat_map(|at| requests.iter().map(move |request| request.replace("FOLDER", &at.to_string())))
        .collect()
}

pub(super) fn agree_everywhere(texts: &[&str], files: &[(&str, &str)], modules: &[&str], requests: &[&str]) {
    let requests = everywhere(texts.len(), requests);
    agree_on(folders(texts, files), modules, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn texts_are_replaced() {
    const CONTENT: &str = "one two\nTwo three one\n\n<a href=\"http://example.com/a\">$1 one</a>\nlast one";
    let lines = [
        "Substitute s/one/1/",
        "Substitute s/one/1/n",
        "Substitute s/two/2/i",
        "Substitute s/TWO/2/ni",
        "Substitute s|http://(\\w+)\\.com/(\\w)|https://$2.$1/|",
        "Substitute \"s/one two/1 2/\"",
        "Substitute s/one/1/f\nSubstitute s/1/first/",
        "Substitute s/one/1/q\nSubstitute s/two/2/q",
        "Substitute s/one/$0$0/",
        "Substitute s/one/$0$0/n",
        "Substitute s/one/\\$1/",
        "Substitute s/t(w)o/[$1]/",
        "Substitute s/one//",
        "Substitute s/./x/",
        "Substitute s/none/1/",
        "Substitute s/$1/group/n",
        "Substitute s/one/two/\nSubstitute s/two/one/",
        "Substitute s/o/0/\nSubstituteMaxLineLength 2k",
        "Substitute s/one/1/\n<Files a.txt>\nSubstitute s/two/2/\n</Files>",
        "Substitute s/one/1/\n<Files a.txt>\nSubstituteInheritBefore on\nSubstitute s/1/2/\n</Files>",
        "Substitute s/one/1/\n<Files a.txt>\nSubstitute s/1/2/\n</Files>",
        "Substitute s/one",
        "Substitute s/one/1/x",
        "Substitute one/1/",
    ];
    let kinds = ["SetOutputFilter SUBSTITUTE\n", "AddOutputFilterByType SUBSTITUTE text/plain\n"];
    let mut texts: Vec<String> = lines.iter().map(|line| format!("{}{line}\n", kinds[0])).collect();
    texts.push(format!("{}{}\n", kinds[1], lines[0]));
    texts.push(format!("AddOutputFilter SUBSTITUTE txt\n{}\n", lines[0]));
    texts.push(format!("AddOutputFilter SUBSTITUTE txt\nRemoveOutputFilter .txt\n{}\n", lines[0]));
    texts.push(format!("{}\n", lines[0]));
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    agree_everywhere(
        &texts,
        &[("a.txt", CONTENT), ("b.html", "one"), ("empty.txt", "")],
        &["substitute", "filter"],
        &["GET /FOLDER/a.txt", "GET /FOLDER/b.html", "GET /FOLDER/empty.txt"],
    );
}

#[test]
fn filters_with_conditions() {
    let provider = "FilterDeclare REPLACE CONTENT_SET\n\
        FilterProvider REPLACE SUBSTITUTE \"%{CONTENT_TYPE} =~ m#^text/plain#\"\nSubstitute s/one/1/\n";
    let texts: Vec<String> = [
        "FilterChain REPLACE",
        "FilterChain +REPLACE",
        "FilterChain @replace",
        "FilterChain =REPLACE",
        "FilterChain REPLACE -REPLACE",
        "FilterChain REPLACE\nFilterChain !",
        "FilterProvider REPLACE SUBSTITUTE \"%{REQUEST_METHOD} == 'POST'\"\nFilterChain REPLACE",
        "FilterProtocol REPLACE \"change=yes\"\nFilterChain REPLACE",
        "FilterChain NONE",
        "",
    ]
    .iter()
    .map(|chain| format!("{provider}{chain}\n"))
    .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    agree_everywhere(
        &texts,
        &[("a.txt", "one\n"), ("b.html", "one\n")],
        &["substitute", "filter"],
        &["GET /FOLDER/a.txt", "GET /FOLDER/b.html"],
    );
}

#[test]
fn misspelt_names() {
    let texts = [
        "CheckSpelling On\n",
        "CheckSpelling On\nCheckCaseOnly On\n",
        "CheckSpelling On\nCheckBasenameMatch Off\n",
        "CheckSpelling On\nCheckCaseOnly On\nCheckBasenameMatch Off\n",
        "CheckSpelling Off\n",
    ];
    let files = [("Manual.txt", "m"), ("one/page.html", "p"), ("film.txt", "1"), ("filn.txt", "2")];
    let paths = [
        "Manual.txt",
        "manual.txt",
        "MANUAL.TXT",
        "maunal.txt",
        "mnual.txt",
        "mannual.txt",
        "manval.txt",
        "manuel.txt?a=b",
        "Manual.html",
        "Manual",
        "guide.txt",
        "one/Page.html",
        "One/page.html",
        "one/page.html/info",
        "film.tx",
        "one",
    ];
    let requests: Vec<String> = (0..texts.len())
        .flat_map(|at| paths.iter().map(move |path| format!("GET /{at}/{path}\nHost: localhost:%%PORT%%")))
        .chain(["POST /0/manual.txt\nHost: localhost:%%PORT%%\n\nx".to_owned()])
        .collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree_by(without_page, folders(&texts, &files), &["speling"], &requests);
}

/// Of a list of names only the status counts: each server has its own page.
fn without_page(response: &Response, port: u16) -> String {
    let text = shown(response, port);
    if response.status == 300 { "300".to_owned() } else { text }
}

/// `alice:secret`, `Guest:me@example.com`, `guest:`, `guest:me`, `eve:x` and `:me@example.com`.
const CREDENTIALS: [&str; 7] = [
    "",
    "YWxpY2U6c2VjcmV0",
    "R3Vlc3Q6bWVAZXhhbXBsZS5jb20=",
    "Z3Vlc3Q6",
    "Z3Vlc3Q6bWU=",
    "ZXZlOng=",
    "Om1lQGV4YW1wbGUuY29t",
];

fn with_credentials(folders: usize) -> Vec<String> {
    let mut requests = Vec::new();
    for at in 0..folders {
        for credentials in CREDENTIALS {
            let mut request = format!("GET /{at}/a.txt");
            if !credentials.is_empty() {
                let _ = write!(request, "\nAuthorization: Basic {credentials}");
            }
            requests.push(request);
        }
    }
    requests
}

#[test]
fn guests() {
    let rules = [
        "AuthBasicProvider anon\nAnonymous guest ftp\nRequire valid-user",
        "AuthBasicProvider anon\nAnonymous *\nRequire valid-user",
        "AuthBasicProvider anon\nAnonymous guest\nAnonymous_MustGiveEmail Off\nRequire valid-user",
        "AuthBasicProvider anon\nAnonymous guest\nAnonymous_VerifyEmail On\nRequire valid-user",
        "AuthBasicProvider anon\nAnonymous guest\nAnonymous_NoUserId On\nAnonymous_LogEmail Off\nRequire valid-user",
        "AuthBasicProvider file anon\nAnonymous guest\nRequire valid-user",
        "AuthBasicProvider anon file\nAnonymous guest\nRequire valid-user",
        "AuthBasicProvider file anon\nAnonymous guest alice\nRequire user alice",
        "AuthBasicProvider anon\nRequire valid-user",
        "AuthzSendForbiddenOnFailure On\nRequire user bob",
        "AuthzSendForbiddenOnFailure Off\nRequire user bob",
    ];
    let site = site(&[("users", "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")]);
    let users = site.root().join("users").display().to_string();
    let site = rules.iter().enumerate().fold(site, |site, (at, rules)| {
        let text = format!("AuthType Basic\nAuthName guests\nAuthUserFile {users}\n{rules}\n");
        site.file(&format!("{at}/.htaccess"), &text).file(&format!("{at}/a.txt"), "a")
    });
    let requests = with_credentials(rules.len());
    agree_on(
        site,
        &["auth_basic", "authn_file", "authn_anon", "authz_user"],
        &requests.iter().map(String::as_str).collect::<Vec<_>>(),
    );
}

#[test]
fn requirements_of_several_directories() {
    let outer = ["Require all granted", "Require all denied", "Require env outer", "Require method GET"];
    let inner = [
        "Require all granted",
        "Require all denied",
        "Require env inner",
        "<Files a.txt>\nRequire env inner\n</Files>",
        "<Limit POST>\nRequire env inner\n</Limit>",
        "",
    ];
    let mut site = site(&[(".htaccess", "SetEnvIf X-Outer . outer\nSetEnvIf X-Inner . inner\n")]);
    let mut requests = Vec::new();
    let mut at = 0;
    for outer in outer {
        for inner in inner {
            for merging in ["", "AuthMerging Off\n", "AuthMerging And\n", "AuthMerging Or\n"] {
                site = site
                    .file(&format!("{at}/.htaccess"), format!("{outer}\n"))
                    .file(&format!("{at}/in/.htaccess"), format!("{merging}{inner}\n"))
                    .file(&format!("{at}/in/a.txt"), "a");
                for fields in ["", "\nX-Outer: 1", "\nX-Inner: 1", "\nX-Inner: 1\nX-Outer: 1"] {
                    requests.push(format!("GET /{at}/in/a.txt{fields}"));
                }
                requests.push(format!("POST /{at}/in/a.txt\nX-Inner: 1\n\nx"));
                at += 1;
            }
        }
    }
    agree_on(site, &[], &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn directives_without_effect() {
    let texts = [
        "EnableSendfile Off\nEnableMMAP Off\nCGIPassAuth On\nAliasPreservePath On\n",
        "RLimitCPU 10\nRLimitMEM 1000000 2000000\nRLimitNPROC max\nLimitXMLRequestBody 1000\n",
        "RemoveInputFilter .txt\n",
        "DeflateInflateLimitRequestBody 1000\nDeflateInflateRatioBurst 3\nDeflateInflateRatioLimit 200\n",
        "SSLOptions +StdEnvVars -FakeBasicAuth\n",
        "SSLRequireSSL\n",
        "<Files a.txt>\nSSLRequireSSL\n</Files>\n",
        "SSLVerifyClient none\n",
        "SetOutputFilter RATE_LIMIT\nSetEnv rate-limit 4000\n",
    ];
    agree_everywhere(
        &texts,
        &[("a.txt", "a"), ("b.txt", "b")],
        &["deflate", "socache_shmcb", "ssl", "ratelimit"],
        &["GET /FOLDER/a.txt", "GET /FOLDER/b.txt", "GET /FOLDER/none"],
    );
}

#[test]
fn what_is_refused_closes_its_directory() {
    let texts = ["Error \"not here\"\n", "NoSuchDirective\n", "MetaFiles maybe\n", "RewriteMap a txt:b\n"];
    agree_everywhere(&texts, &[("a.txt", "a")], &["cern_meta"], &["GET /FOLDER/a.txt"]);
}
