//! `$remote_user` with `htaccess on`: the name that a client claims is no user before a rule has verified it.

use std::fmt::Write;

use tempfile::TempDir;
use tests::apache::{Apache, have_apache, load};
use tests::binary::Server;
use tests::php::{Php, have_php};
use tests::site::Site;

const SHOW: &str = "<?php header('Content-Type: text/plain');
    foreach (['REMOTE_USER', 'REDIRECT_REMOTE_USER'] as $name) echo $name, '=', $_SERVER[$name] ?? '-', \"\\n\";";

/// `alice:secret`
const PASSWORDS: &str = "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";

/// `alice:secret`, `alice:wrong`, `eve:wrong`, and no user.
const HEADS: [&str; 5] = [
    "",
    "\nAuthorization: Basic YWxpY2U6c2VjcmV0",
    "\nAuthorization: Basic YWxpY2U6d3Jvbmc=",
    "\nAuthorization: Basic ZXZlOndyb25n",
    "\nAuthorization: Bearer YWxpY2U6c2VjcmV0",
];

fn configuration(php: &Php) -> String {
    format!(
        "log_format user '$remote_user $status $request_uri'; access_log %%LOGS%%/access.log user;
        server {{
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            index index.html;
            htaccess on;
            location ~ \\.php$ {{
                fastcgi_pass {};
                fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                fastcgi_param SCRIPT_NAME $fastcgi_script_name;
                fastcgi_param REQUEST_METHOD $request_method;
                fastcgi_param REQUEST_URI $request_uri;
                fastcgi_param QUERY_STRING $query_string;
                fastcgi_param REMOTE_USER $remote_user if_not_empty;
            }}
            location ~ \\.up$ {{ proxy_set_header X-User \"[$remote_user]\"; proxy_pass http://127.0.0.1:%%PORT_1%%; }}
            location /basic/ {{
                auth_basic x; auth_basic_user_file %%ROOT%%/users;
                proxy_set_header X-User \"[$remote_user]\"; proxy_pass http://127.0.0.1:%%PORT_1%%;
            }}
        }}
        server {{ listen 127.0.0.1:%%PORT_1%%; access_log off; return 200 $http_x_user; }}",
        php.address()
    )
}

#[test]
fn programs_and_logs_have_verified_users_as_in_apache() {
    if !have_apache() || !have_php() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    let site = Site::new(&configuration(&php)).file("users", PASSWORDS);
    let basic = format!("AuthType Basic\nAuthName x\nAuthUserFile {}/users\n", site.root().display());
    let rules = [
        ("open", String::new()),
        ("granted", format!("{basic}Require all granted\n")),
        ("closed", format!("{basic}Require valid-user\n")),
        ("any", format!("{basic}Require local\nRequire valid-user\n")),
        ("document", format!("{basic}Require valid-user\nErrorDocument 401 /open/own.php\n")),
        (
            "rewritten",
            format!(
                "{basic}Require valid-user\nRewriteEngine on\nRewriteRule ^own.php$ /closed/own.php [L]\n"
            ),
        ),
    ];
    let site = rules.iter().fold(site, |site, (folder, text)| {
        let site = site.file(&format!("{folder}/.htaccess"), text).file(&format!("{folder}/own.php"), SHOW);
        site.file(&format!("{folder}/a.html"), "a").file(&format!("{folder}/own.up"), "")
    });
    let log = site.prefix().join("apache").join("users.log");
    let more = format!(
        "{}<FilesMatch \"\\.php$\">\nSetHandler \"proxy:fcgi://{}\"\n</FilesMatch>\n\
         LogFormat \"%u %>s %U\" users\nCustomLog {} users\n",
        load(&["auth_basic", "authn_file", "authz_user"]),
        php.address(),
        log.display()
    );
    let apache = Apache::start_with(&site, &more);
    let fulmar = site.start(Server::Fulmar);
    let mut report = String::new();
    for (folder, _) in &rules {
        for head in HEADS {
            for file in ["own.php", "a.html"] {
                let request = format!("GET /{folder}/{file}{head}");
                let shown = |answer: &tests::client::Answer| match answer.last().status {
                    200 => answer.last().text(),
                    status if answer.last().text().contains("REMOTE_USER") => {
                        format!("{status} {}", answer.last().text())
                    }
                    status => status.to_string(),
                };
                let (expected, got) = (shown(&apache.ask(&request)), shown(&fulmar.ask(&request)));
                // Fulmar has no REDIRECT_REMOTE_USER.
                let first =
                    |text: &str| text.split("REDIRECT_REMOTE_USER").next().unwrap_or_default().to_owned();
                if first(&expected) != first(&got) {
                    let _ = writeln!(report, "==== {request}\n-- apache\n{expected}\n-- fulmar\n{got}\n");
                }
            }
        }
    }
    let upstream = |path: &str, head: &str| fulmar.ask(&format!("GET {path}{head}")).last().text();
    for head in HEADS {
        assert_eq!(upstream("/open/own.up", head), "[]", "{head}");
    }
    assert_eq!(upstream("/closed/own.up", HEADS[1]), "[alice]");
    assert_eq!(upstream("/basic/a", HEADS[1]), "[alice]", "nginx's rule verifies, too");
    assert!(report.is_empty(), "{report}\n--- apache\n{}{}", apache.log(), fulmar.all_logs());
    drop(apache);
    let expected = std::fs::read_to_string(&log).expect("a log");
    let logged = fulmar.stop_and(|fulmar| fulmar.log("access.log"));
    let is_compared = |line: &&str| line.contains(".html") || line.contains("closed/own.php");
    let lines = |text: &str| text.lines().filter(is_compared).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&logged), lines(&expected));
}
