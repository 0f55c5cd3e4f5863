//! Access by path and method: Fulmar denies what Apache denies.

use std::fmt::Write;

use tests::apache::{Apache, have_apache};
use tests::binary::Server;

use super::{agree_on, site};

/// Files with rules about access, for files, methods and directories within each other.
const FILES: [(&str, &str); 85] = [
    ("n1/.htaccess", "Deny from all\n<Limit GET>\nAllow from 10\n</Limit>\n"),
    ("n2/.htaccess", "Require all denied\n<Limit GET>\nRequire ip 10\n</Limit>\n"),
    ("n3/.htaccess", "<Limit GET>\nOrder allow,deny\nAllow from all\n</Limit>\n"),
    ("n3/sub/.htaccess", "Deny from all\n"),
    ("n4/.htaccess", "<Limit GET>\nRequire all granted\n</Limit>\n"),
    ("n4/sub/.htaccess", "Require all denied\n"),
    ("n5/.htaccess", "Order allow,deny\n<Limit POST>\nAllow from all\n</Limit>\n"),
    ("n6/.htaccess", "<Limit POST>\nRequire all denied\n</Limit>\nRequire ip 10\n"),
    ("n9/.htaccess", "<Limit GET>\n<Limit POST>\nDeny from all\n</Limit>\n</Limit>\n"),
    ("o1/.htaccess", "<Limit GET>\n<IfModule mod_rewrite.c>\nDeny from all\n</IfModule>\n</Limit>\n"),
    ("o3/.htaccess", "<LimitExcept GET>\nRequire all granted\n</LimitExcept>\nRequire all denied\n"),
    ("o4/.htaccess", "<Limit POST>\nOrder deny,allow\nDeny from all\n</Limit>\nAllow from 10\n"),
    ("o5/.htaccess", "<Limit GET>\nRewriteEngine on\nRewriteRule a - [F]\n</Limit>\n"),
    ("o6/.htaccess", "<Limit POST>\nRewriteEngine on\nRewriteRule a - [F]\n</Limit>\n"),
    ("o7/.htaccess", "<Limit HEAD>\nDeny from all\n</Limit>\n"),
    ("o8/.htaccess", "Require ip 10\n<Limit POST PUT>\nRequire all denied\n</Limit>\n"),
    ("f1/.htaccess", "<Files index.html>\nRequire all denied\n</Files>"),
    ("f2/.htaccess", "<Files a.txt>\nRequire all denied\n</Files>"),
    ("f3/.htaccess", "<FilesMatch \"^$\">\nRequire all denied\n</FilesMatch>"),
    ("f4/.htaccess", "<FilesMatch \"^.+$\">\nRequire all denied\n</FilesMatch>"),
    ("f5/.htaccess", "<Files sub>\nRequire all denied\n</Files>"),
    ("f6/.htaccess", "Require all denied\n<Files a.txt>\nRequire all granted\n</Files>"),
    ("f7/.htaccess", "<Files a.txt>\nRequire all granted\n</Files>\nRequire all denied\n"),
    ("f9/.htaccess", "Deny from all\n"),
    ("f9/sub/.htaccess", "Order allow,deny\nAllow from all\n"),
    ("g1/.htaccess", "Require all denied\n"),
    ("g1/sub/.htaccess", "Order allow,deny\nAllow from all\n"),
    ("g2/.htaccess", "Require all denied\n"),
    ("g2/sub/.htaccess", "Require all granted\n"),
    ("g3/.htaccess", "Deny from all\n"),
    ("g3/sub/.htaccess", "Require all granted\n"),
    ("g4/.htaccess", "Deny from all\n"),
    ("g4/sub/.htaccess", "Order deny,allow\n"),
    ("g5/.htaccess", "Order allow,deny\n"),
    ("g5/sub/.htaccess", "Allow from 10\n"),
    ("g6/.htaccess", "<Limit POST>\nRequire all denied\n</Limit>\n"),
    ("g7/.htaccess", "<LimitExcept GET>\nRequire all denied\n</LimitExcept>\n"),
    ("g8/.htaccess", "<Limit GET>\nOrder deny,allow\nDeny from all\n</Limit>\n"),
    ("g9/.htaccess", "RewriteEngine on\nRewriteRule ^a\\.txt$ - [F]\n"),
    ("g9/sub/.htaccess", "RewriteEngine on\n"),
    ("h1/.htaccess", "RewriteEngine on\nRewriteRule a\\.txt$ - [F]\n"),
    ("h1/sub/.htaccess", "RewriteEngine off\n"),
    ("h2/.htaccess", "RewriteEngine on\nRewriteRule a\\.txt$ - [F]\n"),
    ("h2/sub/.htaccess", "Header set X-a b\n"),
    ("h3/.htaccess", "RedirectMatch 403 a\\.txt\n"),
    ("h3/sub/.htaccess", "Redirect 301 /nothing http://x/\n"),
    ("h4/.htaccess", "SetEnvIf Request_URI sub bad\n"),
    ("h4/sub/.htaccess", "Order allow,deny\nAllow from all\nDeny from env=bad\n"),
    ("h5/.htaccess", "Order allow,deny\nAllow from all\nDeny from env=bad\nSetEnvIf Request_URI . bad\n"),
    ("h6/.htaccess", "SetEnv bad 1\nOrder allow,deny\nAllow from all\nDeny from env=bad\n"),
    ("h7/.htaccess", "<Files ~ \"^\\.\">\nRequire all denied\n</Files>\n"),
    ("h7/.git/a.txt", "x"),
    ("h7/.env", "x"),
    ("h8/.htaccess", "Order allow,deny\nAllow from all\n<Files a.txt>\nDeny from all\n</Files>\n"),
    ("i1/.htaccess", "DirectoryIndex a.txt\n<Files a.txt>\nRequire all denied\n</Files>"),
    ("i2/.htaccess", "ErrorDocument 404 /i2/a.txt\n<Files a.txt>\nRequire all denied\n</Files>"),
    ("i4/.htaccess", "RewriteEngine on\nRewriteRule ^x$ /f2/a.txt\n"),
    ("i6/.htaccess", "<RequireAll>\n</RequireAll>\n"),
    ("i7/.htaccess", "<RequireAny>\n</RequireAny>\n"),
    ("i8/.htaccess", "<RequireNone>\nRequire all denied\n</RequireNone>\n"),
    ("i9/.htaccess", "Require ip 127.0.0.1\nRequire all denied\n"),
    ("j2/.htaccess", "Options -Indexes\n"),
    ("j5/.htaccess", "Deny from all\nOrder allow,deny\nOrder deny,allow\nAllow from 127.0.0.1\n"),
    ("j6/.htaccess", "Deny from 127.0.0.1/8\n"),
    ("j7/.htaccess", "Order allow,deny\nAllow from 127.0.0.0/255.0.0.0\n"),
    ("j8/.htaccess", "Deny from 127.0.\n"),
    ("j9/.htaccess", "Deny from 0.0.0.0/0\n"),
    ("k1/.htaccess", "Deny from localhost\n"),
    ("k2/.htaccess", "Deny from env=REMOTE_ADDR\n"),
    ("k3/.htaccess", "RewriteEngine on\nRewriteCond %{REMOTE_ADDR} ^127\nRewriteRule ^ - [F,L]\n"),
    ("k4/.htaccess", "RewriteEngine on\nRewriteCond %{HTTP_USER_AGENT} ^$\nRewriteRule ^ - [F,L]\n"),
    ("k6/.htaccess", "RewriteEngine on\nRewriteCond %{REQUEST_FILENAME} -f\nRewriteRule ^ - [F,L]\n"),
    ("k8/.htaccess", "AuthType None\nRequire all granted\nSatisfy Any\n"),
    ("k9/.htaccess", "<Files \"*.TXT\">\nRequire all denied\n</Files>\n"),
    ("l1/.htaccess", "<Files \"[a-b].txt\">\nRequire all denied\n</Files>\n"),
    ("l3/.htaccess", "Require all denied\n<Limit GET>\nRequire all granted\n</Limit>\n"),
    ("l4/.htaccess", "Require all denied\nRequire all granted\n"),
    ("l5/.htaccess", "<Files a.txt>\nOrder allow,deny\n</Files>\nSatisfy All\nRequire all granted\n"),
    ("l6/.htaccess", "RewriteEngine on\nRewriteOptions inherit\n"),
    ("l7/.htaccess", "Redirect 403 /l7/a.txt\n"),
    ("l8/.htaccess", "Redirect 404 /l8\n"),
    ("l9/.htaccess", "<Files a.txt>\nRedirect 403 /l9\n</Files>\n"),
    ("m1/.htaccess", "<Files a.txt>\nRewriteEngine on\nRewriteRule ^ - [F]\n</Files>\n"),
    ("m2/.htaccess", "RewriteEngine on\n<Files a.txt>\nRewriteRule ^ - [F]\n</Files>\n"),
    ("m4/.htaccess", "RewriteEngine on\nRewriteRule . - [F]\n<Files *.txt>\nRewriteRule x y\n</Files>\n"),
];

/// What is in each directory besides its rules.
const DOCUMENTS: [&str; 5] = ["a.txt", "index.html", "sub/a.txt", "sub/index.html", "b/a.txt"];

const PATHS: [&str; 24] = [
    "a.txt",
    "",
    "index.html",
    "sub/",
    "sub",
    "sub/a.txt",
    "sub/index.html",
    "b/a.txt",
    "a.txt/",
    "a.txt/x",
    "%61.txt",
    "./a.txt",
    "/a.txt",
    "sub/../a.txt",
    "A.TXT",
    "x",
    "missing",
    ".git/a.txt",
    ".env",
    "a.txt?x",
    "a.txt%00",
    "a.txt%0a",
    "sub//a.txt",
    "sub/%2e%2e/a.txt",
];

#[test]
fn no_path_and_no_method_leads_around_rules() {
    if !have_apache() {
        return;
    }
    let mut directories: Vec<&str> = FILES.iter().filter_map(|(path, _)| path.split('/').next()).collect();
    directories.dedup();
    let documents =
        directories.iter().flat_map(|directory| DOCUMENTS.map(|document| format!("{directory}/{document}")));
    let site = documents.fold(site(&FILES), |site, path| site.file(&path, "x"));
    let modules = ["auth_basic", "authz_user"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"));
    let apache = Apache::start_with(&site, &modules.concat());
    let fulmar = site.start(Server::Fulmar);
    let mut report = String::new();
    for directory in &directories {
        for (path, method) in
            PATHS.iter().flat_map(|path| ["GET", "HEAD", "POST"].map(|method| (path, method)))
        {
            let request = format!("{method} /{directory}/{path}");
            let (expected, got) = (apache.ask(&request).last().status, fulmar.ask(&request).last().status);
            if expected >= 400 && got < 400 {
                let _ = writeln!(report, "{request}: apache {expected}, fulmar {got}");
            }
        }
    }
    assert!(report.is_empty(), "{report}");
    fulmar.stop();
}

#[test]
fn symbolic_links() {
    let site = site(&[
        ("none/.htaccess", "Options +Indexes -FollowSymLinks\nIndexOptions Charset=UTF-8\n"),
        ("own/.htaccess", "Options Indexes SymLinksIfOwnerMatch\n"),
        ("any/.htaccess", "Options +FollowSymLinks\n"),
        ("none/deep/.htaccess", "Options +FollowSymLinks\n"),
        ("none/a.txt", "a"),
        ("own/a.txt", "a"),
        ("any/a.txt", "a"),
        ("none/deep/a.txt", "a"),
    ]);
    let site = ["none", "own", "any", "none/deep"].iter().fold(site, |site, folder| {
        site.link(&format!("{folder}/link.txt"), "a.txt")
            .link(&format!("{folder}/folder"), "../sub")
            .link(&format!("{folder}/dangling"), "nowhere")
    });
    let mut requests = Vec::new();
    for folder in ["none", "own", "any"] {
        for path in ["a.txt", "link.txt"] {
            requests.push(format!("GET /{folder}/{path}"));
        }
    }
    requests.extend(
        ["/any/folder/a.txt", "/own/folder/a.txt", "/none/deep/link.txt", "/none/deep/a.txt", "/none/"]
            .map(|path| format!("GET {path}")),
    );
    agree_on(site, &[], &requests.iter().map(String::as_str).collect::<Vec<_>>());
}
