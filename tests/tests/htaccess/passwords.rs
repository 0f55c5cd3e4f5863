//! Users, passwords and groups in `.htaccess` files.

use std::fmt::Write as _;

use super::{agree_on, site};
use tests::binary::Server;
use tests::site::{Running, Site};

/// What Apache needs for them.
const MODULES: [&str; 4] = ["auth_basic", "authn_file", "authz_user", "authz_groupfile"];

/// `alice:secret`, `bob:word` and `eve:wrong`.
const USERS: [&str; 3] = ["YWxpY2U6c2VjcmV0", "Ym9iOndvcmQ=", "ZXZlOndyb25n"];

/// Where users and groups are; `FILES` becomes the directory of the documents.
const BASIC: &str = "AuthType Basic\nAuthName \"Members only\"\nAuthUserFile FILES/users\n";

/// What the passwords of the users are: SHA-1 and apr1.
const PASSWORDS: &str =
    "# users\nalice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nbob:$apr1$abcdefgh$1E2SungQ2bYfViwLCC9XL0\n";

/// Rules about users, each for a directory.
const RULES: [&str; 41] = [
    "Require valid-user",
    "Require user alice",
    "Require user bob carol",
    "Require user Alice",
    "Require group staff",
    "Require group staff guests",
    "Require group none",
    "Require group guests",
    "Require valid-user\nRequire all denied",
    "Require all granted\nRequire valid-user",
    "Require ip 10\nRequire valid-user",
    "Require local\nRequire valid-user",
    "<RequireAll>\nRequire valid-user\nRequire not user bob\n</RequireAll>",
    "<RequireAll>\nRequire valid-user\nRequire not group staff\n</RequireAll>",
    "<RequireAll>\nRequire valid-user\nRequire ip 10\n</RequireAll>",
    "<RequireAll>\nRequire valid-user\nRequire local\n</RequireAll>",
    "<RequireAll>\nRequire all granted\nRequire not valid-user\n</RequireAll>",
    "<RequireAny>\nRequire user bob\nRequire ip 10\n</RequireAny>",
    "<RequireAny>\n<RequireAll>\nRequire user bob\nRequire local\n</RequireAll>\nRequire group guests\n</RequireAny>",
    "<RequireAll>\n<RequireNone>\nRequire user bob\n</RequireNone>\nRequire valid-user\n</RequireAll>",
    "<RequireAll>\n<RequireNone>\nRequire user bob\nRequire ip 10\n</RequireNone>\nRequire all granted\n</RequireAll>",
    "Require valid-user\nSatisfy Any",
    "Require valid-user\nSatisfy Any\nOrder deny,allow\nDeny from all",
    "Require valid-user\nSatisfy Any\nOrder deny,allow\nDeny from all\nAllow from 127.0.0.1",
    "Require user bob\nSatisfy All\nOrder deny,allow\nDeny from all\nAllow from 127.0.0.1",
    "Require user bob\nOrder allow,deny",
    "Require all denied\nSatisfy Any\nOrder deny,allow\nDeny from all",
    "Require all granted\nSatisfy Any\nOrder deny,allow\nDeny from all",
    "Require all denied\nSatisfy Any\nOrder allow,deny\nAllow from all",
    "<Limit POST>\nRequire valid-user\n</Limit>",
    "<LimitExcept POST>\nRequire user bob\n</LimitExcept>",
    "<Files a.txt>\nRequire user bob\n</Files>",
    "<Files b.txt>\nRequire user bob\n</Files>",
    "<If \"%{QUERY_STRING} == 'open'\">\nRequire all granted\n</If>\n<Else>\nRequire valid-user\n</Else>",
    "AuthName \"Others\"\nRequire valid-user",
    "AuthName \"a \\\"quoted\\\" name\"\nRequire valid-user",
    "AuthBasicProvider file\nAuthBasicAuthoritative On\nRequire valid-user",
    "AuthType None\nRequire all granted",
    "<IfModule mod_auth_basic.c>\nRequire valid-user\n</IfModule>",
    "Require valid-user\nErrorDocument 401 \"Who are you?\"",
    "Require valid-user\nErrorDocument 401 /40/b.txt",
];

fn basic(rules: &str, site: &Site) -> String {
    let text = format!("{BASIC}AuthGroupFile FILES/groups\n{rules}\n");
    text.replace("FILES", &site.root().display().to_string())
}

fn protected() -> Site {
    let groups = "staff: alice\n# guests: alice\nguests: bob  carol\n";
    let site = site(&[("users", PASSWORDS), ("groups", groups)]);
    RULES.iter().enumerate().fold(site, |site, (at, rules)| {
        let text = basic(rules, &site);
        let site = site.file(&format!("{at}/.htaccess"), text).file(&format!("{at}/a.txt"), "for members");
        site.file(&format!("{at}/b.txt"), "who are you?")
    })
}

/// Requests by nobody, by each user, with other schemes and by other methods.
fn requests(path: &str) -> Vec<String> {
    let mut requests = vec![
        format!("GET {path}"),
        format!("GET {path}?open"),
        format!("POST {path}"),
        format!("GET {path}\nAuthorization: Bearer {}", USERS[0]),
        format!("GET {path}\nAuthorization: Basic YWxpY2U6d3Jvbmc="),
        format!("GET {path}\nAuthorization: Basic *"),
    ];
    requests.extend(USERS.map(|user| format!("GET {path}\nAuthorization: Basic {user}")));
    requests
}

#[test]
fn users_and_groups() {
    let paths = (0..RULES.len()).map(|at| format!("/{at}/a.txt"));
    let requests: Vec<String> = paths.flat_map(|path| requests(&path)).collect();
    agree_on(protected(), &MODULES, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn directories_inherit_and_indexes_are_protected() {
    let site = protected();
    let text = basic("Require user alice", &site);
    let site = site
        .file("outer/.htaccess", text)
        .file("outer/index.html", "index")
        .file("outer/inner/a.txt", "inner")
        .file("outer/other/.htaccess", "Require user bob\n")
        .file("outer/other/a.txt", "other")
        .file("outer/open/.htaccess", "AuthType None\nRequire all granted\n")
        .file("outer/open/a.txt", "open");
    let paths =
        ["/outer/", "/outer", "/outer/inner/a.txt", "/outer/other/a.txt", "/outer/open/a.txt", "/outer/none"];
    let requests: Vec<String> = paths.iter().flat_map(|path| requests(path)).collect();
    agree_on(site, &MODULES, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Mistakes for which Apache answers 500, too.
#[test]
fn incomplete_rules_let_nobody_pass() {
    let texts = [
        "Require valid-user\n",
        "AuthType Basic\nRequire valid-user\n",
        "AuthType Basic\nAuthName x\nRequire valid-user\n",
        "AuthType Basic\nAuthName x\nAuthUserFile FILES/none\nRequire valid-user\n",
        "AuthType Basic\nAuthName x\nAuthUserFile FILES/users\nAuthBasicProvider ldap\nRequire valid-user\n",
    ];
    let site = site(&[("users", PASSWORDS)]);
    let site = texts.iter().enumerate().fold(site, |site, (at, text)| {
        let text = text.replace("FILES", &site.root().display().to_string());
        site.file(&format!("{at}/.htaccess"), text).file(&format!("{at}/a.txt"), "secret")
    });
    let requests: Vec<String> =
        (0..texts.len()).map(|at| format!("GET /{at}/a.txt\nAuthorization: Basic {}", USERS[0])).collect();
    agree_on(site, &MODULES, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

fn status(running: &Running, path: &str) -> u16 {
    running.ask(&format!("GET {path}\nAuthorization: Basic {}", USERS[0])).last().status
}

/// A tenant's file cannot name the files of others.
#[test]
fn files_elsewhere_need_the_server_s_permission() {
    let site = Site::new(
        "server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%/site;
            htaccess on;
            htaccess_user_files %%ROOT%%/shared;
            location /closer/ { htaccess_user_files %%ROOT%%/closer; }
        }",
    );
    let root = site.root().display().to_string();
    let mut report = String::new();
    let site = ["shared", "closer", "elsewhere", "site"].iter().fold(site, |site, folder| {
        let text =
            format!("AuthType Basic\nAuthName x\nAuthUserFile {root}/{folder}/users\nRequire valid-user\n");
        let climbing = text.replace(folder, &format!("shared/../{folder}"));
        site.file(&format!("{folder}/users"), PASSWORDS)
            .file(&format!("site/{folder}/.htaccess"), &text)
            .file(&format!("site/{folder}/a.txt"), "a")
            .file(&format!("site/closer/{folder}/.htaccess"), &text)
            .file(&format!("site/closer/{folder}/a.txt"), "a")
            .file(&format!("site/up-{folder}/.htaccess"), climbing)
            .file(&format!("site/up-{folder}/a.txt"), "a")
    });
    let linked = |name: &str| {
        format!("AuthType Basic\nAuthName x\nAuthUserFile {root}/site/{name}\nRequire valid-user\n")
    };
    let site = site
        .link("site/linked-users", "../elsewhere/users")
        .link("site/linked", "../elsewhere")
        .link("site/own-users", "site/users")
        .file("site/by-link/.htaccess", linked("linked-users"))
        .file("site/by-link/a.txt", "a")
        .file("site/by-folder/.htaccess", linked("linked/users"))
        .file("site/by-folder/a.txt", "a")
        .file("site/by-own/.htaccess", linked("own-users"))
        .file("site/by-own/a.txt", "a")
        .file("site/site/users", PASSWORDS);
    let running = site.start(Server::Fulmar);
    for (path, expected) in [
        ("/by-link/a.txt", 500),
        ("/by-folder/a.txt", 500),
        ("/by-own/a.txt", 200),
        ("/shared/a.txt", 200),
        ("/site/a.txt", 200),
        ("/elsewhere/a.txt", 500),
        ("/closer/closer/a.txt", 200),
        ("/closer/shared/a.txt", 500),
        ("/up-elsewhere/a.txt", 500),
        ("/up-shared/a.txt", 500),
    ] {
        let got = status(&running, path);
        if got != expected {
            let _ = writeln!(report, "{path}: {got} instead of {expected}");
        }
    }
    assert!(report.is_empty(), "{report}{}", running.all_logs());
    running.wait_for_log(
        "error.log",
        "is neither below the root nor below a directory of \"htaccess_user_files\"",
    );
    running.stop();
}

/// Rules and fields know a user whom other rules required.
#[test]
fn rules_know_the_user() {
    let site = site(&[
        ("users", PASSWORDS),
        ("open/a.txt", "open"),
        ("closed/b.txt", "b"),
        ("closed/alice.txt", "hers"),
    ]);
    let rules = "RewriteEngine on\nRewriteCond %{REMOTE_USER} ^(alice)$\nRewriteRule ^own$ %1.txt [L]\n\
        RewriteRule ^own$ http://example.com/%{REMOTE_USER}/%{AUTH_TYPE} [R,L]\n\
        RewriteCond %{REMOTE_USER} =\"\"\nRewriteRule ^who$ - [G]\n\
        Header set X-User \"expr=%{REMOTE_USER} by %{AUTH_TYPE}\"\n";
    let text =
        format!("{BASIC}Require valid-user\n{rules}").replace("FILES", &site.root().display().to_string());
    let site = site.file("closed/.htaccess", text).file("open/.htaccess", rules);
    let paths = ["/closed/own", "/closed/who", "/closed/b.txt", "/open/own", "/open/who", "/open/a.txt"];
    let requests: Vec<String> = paths.iter().flat_map(|path| requests(path)).collect();
    agree_on(site, &MODULES, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

/// In `<Limit>` and `<LimitExcept>` the directive counts for their methods only.
#[test]
fn satisfy_counts_for_the_methods_of_its_section() {
    const ANY: &str = "Satisfy Any\nAllow from all\n";
    let texts = [
        format!("<Limit POST>\n{ANY}</Limit>\nOrder deny,allow\nRequire valid-user\n"),
        format!("<LimitExcept GET>\n{ANY}</LimitExcept>\nRequire valid-user\n"),
        format!("{ANY}<Limit GET>\nSatisfy All\n</Limit>\nRequire valid-user\n"),
        format!("{ANY}<LimitExcept GET>\nOrder deny,allow\nDeny from all\n</LimitExcept>\nRequire user alice\n"),
        "Satisfy Any\n<Limit GET>\nSatisfy All\nOrder deny,allow\nDeny from all\n</Limit>\n\
         Require valid-user\n"
            .to_owned(),
        "Order deny,allow\nDeny from all\n<Limit POST>\nSatisfy Any\nAllow from 127\n</Limit>\nRequire valid-user\n"
            .to_owned(),
    ];
    let site = texts.iter().enumerate().fold(protected(), |site, (at, text)| {
        let text = basic(text, &site);
        let site = site.file(&format!("limited{at}/.htaccess"), text);
        site.file(&format!("limited{at}/a.txt"), "a").file(&format!("limited{at}/in/a.txt"), "in")
    });
    let heads = ["", "\nAuthorization: Basic YWxpY2U6c2VjcmV0"];
    let requests: Vec<String> = (0..texts.len())
        .flat_map(|at| [format!("/limited{at}/a.txt"), format!("/limited{at}/in/a.txt")])
        .flat_map(|path| ["GET", "POST", "PUT"].map(|method| format!("{method} {path}")))
        .flat_map(|request| heads.map(|head| format!("{request}{head}")))
        .collect();
    agree_on(site, &MODULES, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}
