//! No file lets a client pass in Fulmar that Apache, with all of its usual modules, turns away.

use std::fmt::Write;

use tests::apache::{Apache, have_apache};
use tests::binary::Server;

use super::site;

/// Modules that a usual Apache has besides those of the other tests.
const MODULES: [&str; 11] = [
    "auth_basic",
    "auth_digest",
    "authn_file",
    "authz_user",
    "authz_groupfile",
    "allowmethods",
    "filter",
    "deflate",
    "status",
    "actions",
    "negotiation",
];

/// Rules that turn clients away, each in some way.
const RULES: [&str; 40] = [
    "Require all denied",
    "Require not all granted",
    "Require valid-user",
    "AuthType Basic\nAuthName x\nAuthUserFile /dev/null\nRequire valid-user",
    "AuthType Basic\nAuthName x\nAuthUserFile /dev/null\nRequire user a",
    "AuthType Digest\nAuthName x\nAuthUserFile /dev/null\nRequire valid-user",
    "AuthType Basic\nAuthName x\nAuthUserFile /dev/null\nAuthGroupFile /dev/null\nRequire group a",
    "Require ip 10.0.0.0/8",
    "Require host example.com",
    "Require forward-dns example.com",
    "Require expr false",
    "Require expr \"%{REQUEST_METHOD} == 'PUT'\"",
    "Require env none",
    "Require method PUT",
    "Require nonsense",
    "<RequireAll>\nRequire all granted\nRequire ip 10\n</RequireAll>",
    "<RequireAll>\nRequire all granted\nRequire not local\n</RequireAll>",
    "<RequireAll>\nRequire all granted\nRequire expr false\n</RequireAll>",
    "<RequireAny>\nRequire ip 10\nRequire env none\n</RequireAny>",
    "<RequireNone>\nRequire all granted\n</RequireNone>",
    "<RequireAny>\n<RequireAll>\nRequire all granted\nRequire all denied\n</RequireAll>\n</RequireAny>",
    "<RequireAll>\n<RequireNone>\nRequire local\n</RequireNone>\nRequire all granted\n</RequireAll>",
    "Order deny,allow\nDeny from all",
    "Order allow,deny",
    "Order allow,deny\nAllow from all\nDeny from 127",
    "Order allow,deny\nAllow from example.com",
    "Order mutual-failure\nAllow from 10",
    "deny from all",
    "Order deny,allow\nDeny from env=!none",
    "Order deny,allow\nDeny from all\nSatisfy Any\nRequire all denied",
    "Order deny,allow\nDeny from all\nSatisfy Any\nAuthType Basic\nAuthName x\nRequire valid-user",
    "SetEnvIf Request_URI . bad\nOrder allow,deny\nAllow from all\nDeny from env=bad",
    "SetEnvIfExpr true bad\nOrder allow,deny\nAllow from all\nDeny from env=bad",
    "RewriteEngine on\nRewriteRule . - [F]",
    "RewriteEngine on\nRewriteRule . - [R=404]",
    "RewriteEngine on\nRewriteCond expr \"true\"\nRewriteRule . - [G]",
    "Redirect 410 /",
    "RewriteEngine on\nRewriteRule . - [NC,GONE]",
    "RedirectMatch 403 .",
    "Redirect gone /",
];

/// What lets clients pass, in sections that do not count for an Apache as it is here.
const GRANTS: [&str; 6] = [
    "Require ip 10\n<IfModule !mod_auth_basic.c>\nRequire all granted\n</IfModule>",
    "Require ip 10\n<IfDefine !GIVEN>\nRequire all granted\n</IfDefine>",
    "Deny from all\n<IfDefine !GIVEN>\nAllow from all\n</IfDefine>",
    "Order allow,deny\n<IfModule !mod_deflate.c>\nOrder deny,allow\n</IfModule>",
    "Require ip 10\n<IfModule !mod_auth_basic.c>\n<Files *>\nRequire all granted\n</Files>\n</IfModule>",
    "Require ip 10\n<IfVersion < 2.4>\nRequire all granted\n</IfVersion>",
];

/// Sections that count for the requests below in an Apache as it is here.
const SECTIONS: [&str; 33] = [
    "",
    "IfModule mod_authz_core.c",
    "IfModule authz_core_module",
    "IfModule mod_authz_core",
    "IfModule !mod_nothing.c",
    "IfModule mod_auth_basic.c",
    "IfModule mod_access_compat.c",
    "IfModule mod_version.c",
    "IfModule mod_rewrite.c",
    "IfModule mod_deflate.c",
    "ifmodule MOD_AUTHZ_CORE.C",
    "IfDefine !NOTHING",
    "IfDefine GIVEN",
    "IfVersion >= 2.4",
    "IfVersion 2.4",
    "IfVersion !< 2.3.99",
    "IfVersion = /^2\\.4/",
    "IfVersion ~ ^2\\.[0-9]",
    "IfFile /dev/null",
    "IfFile \"/dev/null\"",
    "IfDirective Require",
    "IfSection Files",
    "If true",
    "If \"%{REQUEST_METHOD} == 'GET'\"",
    "Files a.txt",
    "Files \"?.txt\"",
    "files *",
    "Files ~ \"\\.(txt|html)$\"",
    "FilesMatch \"^a\\.\"",
    "FilesMatch \"(?i)^A\\.TXT$\"",
    "Limit GET HEAD",
    "LimitExcept POST",
    "LIMIT get GET",
];

const REQUESTS: [&str; 3] = ["GET", "HEAD", "POST"];

#[test]
fn whom_apache_turns_away_does_not_pass() {
    if !have_apache() {
        return;
    }
    let mut texts: Vec<String> = GRANTS.map(|text| format!("{text}\n")).into();
    for rules in RULES {
        for section in SECTIONS {
            let name = section.split(' ').next().unwrap_or_default();
            texts.push(match section {
                "" => format!("{rules}\n"),
                _ => format!("<{section}>\n{rules}\n</{name}>\n"),
            });
            if name == "Files" || name == "FilesMatch" {
                for outer in ["IfModule mod_auth_basic.c", "IfVersion >= 2.4", "IfDefine GIVEN"] {
                    let end = outer.split(' ').next().unwrap_or_default();
                    texts.push(format!("<{outer}>\n<{section}>\n{rules}\n</{name}>\n</{end}>\n"));
                }
            }
        }
        texts.push(format!("<If false>\n</If>\n<Else>\n{rules}\n</Else>\n"));
        texts.push(format!("<If false>\n</If>\n<ElseIf true>\n{rules}\n</ElseIf>\n"));
        texts.push(format!("{rules}\n<IfModule mod_nothing.c>\nRequire all granted\n</IfModule>\n"));
    }
    let site = texts.iter().enumerate().fold(site(&[]), |site, (at, text)| {
        site.file(&format!("{at}/.htaccess"), text).file(&format!("{at}/a.txt"), "secret")
    });
    let modules = MODULES
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .concat();
    let apache = Apache::start_with(&site, &format!("{modules}Define GIVEN\n"));
    let fulmar = site.start(Server::Fulmar);
    let (mut report, mut turned_away) = (String::new(), 0);
    for (at, text) in texts.iter().enumerate() {
        for method in REQUESTS {
            let request = format!("{method} /{at}/a.txt");
            let (expected, got) = (apache.ask(&request).last().status, fulmar.ask(&request).last().status);
            turned_away += usize::from(expected >= 400);
            if expected >= 400 && got < 400 {
                let _ = writeln!(report, "==== {method}: apache {expected}, fulmar {got}\n{text}");
            }
        }
    }
    assert!(report.is_empty(), "{report}");
    assert!(turned_away > texts.len(), "{turned_away}");
    fulmar.stop();
}
