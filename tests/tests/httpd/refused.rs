//! What a main configuration may not contain yet: each line is refused by name.

use tests::binary::Server;

use super::site;

#[test]
fn lines_that_are_not_built_are_refused_by_name() {
    for (line, told) in [
        ("RewriteRule ^/a /b", "\"RewriteRule\" directive is not allowed here"),
        ("Redirect gone /a", "\"Redirect\""),
        ("Redirect 303 /a /b", "\"303\" in \"Redirect\" outside of directories is not built"),
        ("RedirectMatch a /b$0", "\"/b$0\" in \"RedirectMatch\" outside"),
        ("Require all denied", "\"Require\" directive is not allowed here"),
        ("SSLEngine on", "\"SSLEngine\" of mod_ssl is not supported"),
        ("ProxyPass / http://127.0.0.1:1/", "\"ProxyPass\" of mod_proxy is not supported"),
        ("ScriptAlias /cgi-bin/ /usr/lib/cgi-bin/", "\"ScriptAlias\" of mod_alias is not supported"),
        ("AssignUserID a b", "unknown directive \"AssignUserID\""),
        ("CustomLog \"|cat\" x", "\"|cat\" as a log is not built"),
        ("CustomLog %%LOGS%%/a \"%h\"", "\"%h\" in \"CustomLog\" is not built"),
        ("LogFormat %D x", "\"%D\" in \"LogFormat\" is not built"),
        ("Listen 127.0.0.1:%%PORT_1%% https", "the protocol \"https\" of \"Listen\" is not built"),
        ("<Directory srv>\n</Directory>", "which is not a whole path"),
        ("<Directory /srv>\nNoSuchThing\n</Directory>", "unknown directive \"NoSuchThing\""),
        ("<Location /x>\nAuthLDAPURL x\n</Location>", "\"AuthLDAPURL\" of mod_authnz_ldap is not supported"),
        ("<VirtualHost *:80>\nUser x\n</VirtualHost>", "\"User\" directive is not allowed here"),
        ("<VirtualHost nosuchhost.invalid:80>\n</VirtualHost>", "which is not found"),
        (
            "LoadModule dav_module x\n<IfModule dav_module>\n<Directory /srv>\nRequire user a\n</Directory>\n</IfModule>",
            "it restricts access or names programs (\"Require\" in line",
        ),
        (
            "LoadModule cgi_module x\n<IfModule cgi_module>\nAddHandler cgi-script .cgi\n</IfModule>",
            "names programs",
        ),
    ] {
        let error = site(&format!("{line}\n"), &[]).test(Server::Fulmar).expect_err(line);
        assert!(error.contains(told), "{line}: {error}");
        assert!(error.contains("fulmar.conf:"), "{line}: the place is missing: {error}");
    }
}

/// A file that Apache would run is not sent as text.
#[test]
fn programs_are_not_sent() {
    let lines = "LoadModule php_module x\n<FilesMatch \"\\.php$\">\nSetHandler application/x-httpd-php\n</FilesMatch>\n\
        AddHandler cgi-script .cgi\n<IfModule php_module>\nAddHandler application/x-httpd-php .phtml\n</IfModule>\n";
    let files =
        [("a.php", "<?php secret"), ("a.cgi", "#!secret"), ("a.phtml", "<?php secret"), ("a.txt", "text")];
    let fulmar = site(lines, &files).start(Server::Fulmar);
    for path in ["/a.php", "/a.cgi", "/a.phtml", "/a.php/info"] {
        let answer = fulmar.ask(&format!("GET {path}"));
        assert_eq!(answer.last().status, 403, "{path}: {}", answer.last().text());
    }
    assert_eq!(fulmar.ask("GET /a.txt").last().text(), "text");
    fulmar.stop();
}
