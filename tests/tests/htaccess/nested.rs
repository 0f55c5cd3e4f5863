//! No nesting of sections, and no way to a file, lets a client pass in Fulmar that Apache turns away.

use std::collections::BTreeSet;
use std::fmt::Write;

use tests::apache::{Apache, have_apache};
use tests::binary::Server;

use super::site;

/// Ways to put rules into sections.
type Wrap = fn(&str) -> String;

/// Sections within sections, in each of which rules may count or not.
const WRAPS: [Wrap; 23] = [
    |rules| format!("{rules}\n"),
    |rules| format!("<Files a.txt>\n{rules}\n</Files>\n"),
    |rules| format!("<Files \"[a-b].tx?\">\n{rules}\n</Files>\n"),
    |rules| format!("<Files \"./a.txt\">\n{rules}\n</Files>\n"),
    |rules| format!("<FilesMatch \"^[^.]+\\.txt$\">\n{rules}\n</FilesMatch>\n"),
    |rules| format!("<If \"true\">\n{rules}\n</If>\n"),
    |rules| format!("<If \"%{{REQUEST_URI}} =~ m#a\\.txt#\">\n{rules}\n</If>\n"),
    |rules| format!("<If \"-f '%{{REQUEST_FILENAME}}'\">\n{rules}\n</If>\n"),
    |rules| format!("<If \"false\">\n</If>\n<Else>\n{rules}\n</Else>\n"),
    |rules| {
        format!(
            "<If \"false\">\n</If>\n<ElseIf \"req('X-No') == ''\">\n{rules}\n</ElseIf>\n<Else>\n</Else>\n"
        )
    },
    |rules| format!("<If \"true\">\n</If>\n<If \"false\">\n</If>\n<Else>\n{rules}\n</Else>\n"),
    |rules| format!("<If \"file('/etc/passwd') != ''\">\n{rules}\n</If>\n"),
    |rules| format!("<Files a.txt>\n<If \"true\">\n{rules}\n</If>\n</Files>\n"),
    |rules| format!("<If \"true\">\n<Files a.txt>\n{rules}\n</Files>\n</If>\n"),
    |rules| format!("<If \"true\">\n<If \"false\">\n</If>\n<Else>\n{rules}\n</Else>\n</If>\n"),
    |rules| format!("<Files a.txt>\n<Files *.txt>\n{rules}\n</Files>\n</Files>\n"),
    |rules| format!("<FilesMatch a>\n<If \"true\">\n<If \"true\">\n{rules}\n</If>\n</If>\n</FilesMatch>\n"),
    |rules| format!("<Files none>\n<If \"true\">\n{rules}\n</If>\n</Files>\n<If \"false\">\n</If>\n"),
    |rules| format!("<Files \"no/../a.txt\">\n{rules}\n</Files>\n<Files \"/a.txt\">\n</Files>\n"),
    |rules| format!("<Files \"a.txt/\">\n{rules}\n</Files>\n"),
    |rules| format!("<Limit GET POST>\n{rules}\n</Limit>\n"),
    |rules| format!("<LimitExcept POST>\n{rules}\n</LimitExcept>\n"),
    |rules| format!("<IfModule mod_rewrite.c>\n<Files *.txt>\n{rules}\n</Files>\n</IfModule>\n"),
];

/// What is put into them, in an outer and in an inner directory.
const RULES: [&str; 5] = [
    "Require all denied",
    "Require all granted",
    "Require expr \"%{REQUEST_METHOD} == 'POST'\"",
    "Order deny,allow\nDeny from all",
    "Order allow,deny\nAllow from all",
];

/// Rules that stand alone in a directory, about what a request is.
const ALONE: [&str; 46] = [
    "SetEnvIf Request_URI . BAD\nOrder allow,deny\nAllow from all\nDeny from env=bad",
    "SetEnvIf Request_URI . Bad=1\n<RequireAll>\nRequire all granted\nRequire not env BAD\n</RequireAll>",
    "SetEnvIf Request_URI . bad\nSetEnvIf BAD 1 worse\nOrder allow,deny\nAllow from all\nDeny from env=worse",
    "SetEnvIf Request_URI . good\nSetEnvIf Request_URI . !GOOD\nRequire env good",
    "SetEnvIf Request_URI . BAD\n<If \"reqenv('bad') == ''\">\n</If>\nRequire expr \"reqenv('bad') == ''\"",
    "SetEnvIf Request_URI . BAD\nRewriteEngine on\nRewriteCond %{ENV:bad} 1\nRewriteRule . - [F]",
    "SetEnvIf X-List evil bad\nOrder allow,deny\nAllow from all\nDeny from env=bad",
    "SetEnvIfNoCase ^X-Lis.$ evil bad\nOrder allow,deny\nAllow from all\nDeny from env=bad",
    "SetEnvIf X-List ^fine$ good\nRequire env good",
    "SetEnvIfExpr \"req('X-List') =~ /evil/\" bad\nOrder allow,deny\nAllow from all\nDeny from env=bad",
    "Require expr \"%{HTTP:X-List} != '' && ! (%{HTTP:X-List} =~ /evil/)\"",
    "<If \"%{HTTP:X-List} =~ /evil/\">\nRequire all denied\n</If>",
    "RewriteEngine on\nRewriteCond %{HTTP:X-List} evil\nRewriteRule . - [F]",
    "RewriteEngine on\nRewriteCond %{HTTP_USER_AGENT} evil\nRewriteRule . - [F]",
    "BrowserMatch evil bad\nDeny from env=bad",
    "Require method POST",
    "<RequireAll>\nRequire all granted\nRequire not method GET\n</RequireAll>",
    "<RequireAll>\nRequire all granted\nRequire not method HEAD\n</RequireAll>",
    "<RequireAll>\nRequire all granted\nRequire not method get\n</RequireAll>",
    "<RequireAll>\nRequire all granted\nRequire not method NONSENSE\n</RequireAll>",
    "Require expr \"%{QUERY_STRING} -le 5\"",
    "Require expr %{QUERY_STRING} -lt 99999999999999999999",
    "Require expr \"99999999999999999999 -le 5\"",
    "Require expr '%{REQUEST_METHOD} == \"PUT\"'",
    "Require expr %{REQUEST_METHOD} == 'PUT'",
    "Require expr %{REQUEST_URI} in { '/x', '/y' }",
    "Require expr %{REMOTE_ADDR} -ipmatch '10.0.0.0/8'",
    "Require not expr true",
    "Require expr !true",
    "Require expr \"%{SCRIPT_FILENAME} =~ m#/b\\.txt$#\"",
    "Require expr \"toupper(%{REQUEST_METHOD}) == 'get'\"",
    "Require expr \"%{HANDLER} == 'x'\"",
    "Require expr \"%{REMOTE_USER} != ''\"",
    "Require expr \"-n osenv('NONE')\"",
    "Require expr \"md5('x') == 'y'\"",
    "Require expr \"-T '1' && -T 'no'\"",
    "Require expr \"'b' -in { 'a' }\"",
    "Require expr \"'abc' -strmatch 'a?d'\"",
    "Require expr \"%{THE_REQUEST} =~ /PUT/\"",
    "<RequireAny>\nRequire not ip 10\nRequire ip 11\n</RequireAny>",
    "<RequireAll>\nRequire not ip 127.0.0.1\n</RequireAll>",
    "<RequireNone>\nRequire ip 127.0.0.1\n</RequireNone>",
    "<RequireAll>\nRequire all granted\n<RequireAny>\nRequire env none\nRequire method PUT\n</RequireAny>\n</RequireAll>",
    "<RequireAll>\nRequire all granted\n<RequireNone>\nRequire method HEAD\n</RequireNone>\n</RequireAll>",
    "ErrorDocument 403 /open/../%{REQUEST_URI}\nRequire all denied",
    "Options -FollowSymLinks\nRewriteEngine on\nRewriteRule . - [E=a:b]",
];

const HEADS: [&str; 10] = [
    "GET %%/a.txt",
    "HEAD %%/a.txt",
    "POST %%/a.txt",
    "NONSENSE %%/a.txt",
    "GET %%/%61.txt?6",
    "GET /%%///./a.txt",
    "GET %%/a.txt/info",
    "GET %%/",
    "GET %%/a.txt\nX-List: fine\nX-List: evil\nUser-Agent: fine\nUser-Agent: evil",
    "GET %%/sub/../a.txt?99999999999999999999",
];

/// Has both servers answer for all of these directories, and tells what only Fulmar answers.
fn compare(directories: &[Vec<(String, String)>], requests: &[&str]) -> usize {
    let site = directories.iter().enumerate().fold(site(&[]), |site, (at, files)| {
        files.iter().fold(site, |site, (path, text)| site.file(&format!("{at}/{path}"), text))
    });
    let apache = Apache::start_with(&site, "");
    let fulmar = site.start(Server::Fulmar);
    let (mut report, mut turned_away) = (String::new(), 0);
    for (at, files) in directories.iter().enumerate() {
        let mut seen = BTreeSet::new();
        for request in requests {
            let request = request.replace("%%", &format!("/{at}"));
            let (expected, got) = (apache.ask(&request), fulmar.ask(&request));
            let (expected, got) = (expected.last(), got.last());
            turned_away += usize::from(expected.status >= 400);
            let shows = |text: &str| text.contains("secret");
            let leaks = shows(&got.text()) && !shows(&expected.text());
            if (leaks || expected.status >= 400 && got.status < 400) && seen.insert(expected.status) {
                let settings: Vec<_> = files.iter().filter(|(path, _)| path.ends_with(".htaccess")).collect();
                let _ = writeln!(
                    report,
                    "==== {request}: apache {}, fulmar {}\n{settings:#?}",
                    expected.status, got.status
                );
            }
        }
    }
    assert!(report.is_empty(), "{report}");
    fulmar.stop();
    turned_away
}

fn own(path: &str, text: &str) -> (String, String) {
    (path.to_owned(), text.to_owned())
}

#[test]
fn rules_over_two_directories_turn_the_same_clients_away() {
    if !have_apache() {
        return;
    }
    let wrapped = || WRAPS.iter().flat_map(|wrap| RULES.map(wrap));
    // Each outer file meets some of the inner ones; over all of them every inner file is met.
    let mut directories = Vec::new();
    for (at, outer) in wrapped().enumerate() {
        for inner in wrapped().skip(at % 7).step_by(7) {
            directories.push(vec![
                (".htaccess".to_owned(), outer.clone()),
                ("in/.htaccess".to_owned(), inner),
                own("in/a.txt", "secret"),
            ]);
        }
    }
    let requests = ["GET %%/in/a.txt", "HEAD %%/in/a.txt", "POST %%/in/a.txt"];
    let turned_away = compare(&directories, &requests);
    assert!(turned_away > directories.len(), "{turned_away}");
}

#[test]
fn conditions_turn_the_same_requests_away() {
    if !have_apache() {
        return;
    }
    let directories: Vec<_> = ALONE
        .iter()
        .map(|rules| {
            vec![
                (".htaccess".to_owned(), format!("{rules}\n")),
                own("a.txt", "secret"),
                own("index.html", "secret"),
                own("sub/x", ""),
            ]
        })
        .collect();
    let turned_away = compare(&directories, &HEADS);
    assert!(turned_away > directories.len(), "{turned_away}");
}
