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
            "a line in it may restrict access or name programs (\"Require\" in line",
        ),
        (
            "LoadModule cgi_module x\n<IfModule cgi_module>\nAddHandler cgi-script .cgi\n</IfModule>",
            "name programs",
        ),
        (
            "LoadModule remoteip_module x\n<IfModule remoteip_module>\nRemoteIPHeader X-Forwarded-For\n</IfModule>",
            "\"RemoteIPHeader\" in line",
        ),
        (
            "LoadModule lua_module x\n<IfModule lua_module>\nLuaHookAccessChecker a b\n</IfModule>",
            "\"LuaHookAccessChecker\" in line",
        ),
        (
            "<Directory />\nOptions None\n</Directory>\n<Location /a>\nOptions FollowSymLinks\n</Location>",
            "where other lines forbid links",
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
        AddHandler cgi-script .cgi\n<IfModule php_module>\nAddHandler application/x-httpd-php .phtml\n</IfModule>\n\
        LoadModule lua_module x\nAddHandler lua-script .lua\n\
        <Location /none>\nSetHandler none\n</Location>\n\
        AddType application/x-httpd-php .php5\n<Files forced>\nForceType application/x-httpd-cgi\n</Files>\n";
    let files = [
        ("a.php", "<?php secret"),
        ("a.cgi", "#!secret"),
        ("a.phtml", "<?php secret"),
        ("a.txt", "text"),
        ("a.lua", "secret"),
        ("a.php5", "<?php secret"),
        ("a.php5.gz", "<?php secret"),
        ("forced", "secret"),
        ("none/a.cgi", "#!secret"),
        ("none/a.php5", "<?php secret"),
        ("none/a.txt", "text"),
    ];
    let fulmar = site(lines, &files).start(Server::Fulmar);
    for path in [
        "/a.php",
        "/a.cgi",
        "/a.phtml",
        "/a.php/info",
        "/a.lua",
        "/a.php5",
        "/forced",
        "/none/a.cgi",
        "/none/a.php5",
    ] {
        let answer = fulmar.ask(&format!("GET {path}"));
        assert_eq!(answer.last().status, 403, "{path}: {}", answer.last().text());
    }
    for path in ["/a.txt", "/none/a.txt"] {
        assert_eq!(fulmar.ask(&format!("GET {path}")).last().text(), "text");
    }
    fulmar.stop();
}

/// Without LoadModule lines it is not known which modules the program of Apache contains.
#[test]
fn a_section_that_restricts_counts_or_is_refused() {
    let section = "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n";
    let text = format!("Listen 127.0.0.1:%%PORT%%\n<Directory />\n{section}</Directory>\n");
    let error = tests::site::Site::whole(&text).test(Server::Fulmar).expect_err("a refusal");
    assert!(error.contains("\"Require\" in line"), "{error}");
}

/// What a module would do that is not loaded is not done, whatever files of users say.
#[test]
fn directories_are_not_listed_without_the_module() {
    let start = super::start();
    let lines: Vec<&str> = start.lines().filter(|line| !line.contains("autoindex")).collect();
    let section = "<Directory />\nOptions Indexes MultiViews\nAllowOverride All\n</Directory>\n";
    let site = tests::site::Site::whole(&format!("{}\n{section}", lines.join("\n")))
        .file("list/note.txt", "text")
        .file("user/.htaccess", "Options +Indexes\n")
        .file("user/note.txt", "text");
    let fulmar = site.start(Server::Fulmar);
    for path in ["/list/", "/user/"] {
        let answer = fulmar.ask(&format!("GET {path}"));
        assert_ne!(answer.last().status, 200, "{path}: {}", answer.last().text());
    }
    assert_eq!(fulmar.ask("GET /user/note").last().status, 404, "no other form is chosen");
    assert_eq!(fulmar.ask("GET /user/note.txt").last().text(), "text");
    fulmar.stop();
}
