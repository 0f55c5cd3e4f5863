//! What is written for another program, another module, or with a slip: the error says what it is, and what to do.

use std::process::{Command, Output};

use tests::binary::Server;
use tests::site::Site;

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_configuration_of_apache_is_recognized() {
    let debian = "# Global configuration\nDefaultRuntimeDir ${APACHE_RUN_DIR}\nTimeout 300\n<Directory />\n\
                  Options FollowSymLinks\n</Directory>\nLogFormat \"%h %l %u %t \\\"%r\\\" %>s %O\" common\n";
    let httpd = "\nServerRoot \"/etc/httpd\"\nListen 80\nInclude conf.modules.d/*.conf\n";
    let host = "Listen 8080\n<VirtualHost *:8080>\n    DocumentRoot \"/var/www/html\"\n</VirtualHost>\n";
    let modules = "LoadModule rewrite_module modules/mod_rewrite.so\n";
    let rules =
        "RewriteEngine On\nRewriteCond %{HTTPS} off\nRewriteRule ^(.*)$ https://%{HTTP_HOST}/$1 [L]\n";
    for (text, line, excerpt) in [
        (debian, 2, "  2 | DefaultRuntimeDir ${APACHE_RUN_DIR}\n    | ^^^^^^^^^^^^^^^^^\n"),
        (httpd, 2, "  2 | ServerRoot \"/etc/httpd\"\n    | ^^^^^^^^^^\n"),
        (host, 1, "  1 | Listen 8080\n    | ^^^^^^\n"),
        (&host[12..], 1, "  1 | <VirtualHost *:8080>\n    | ^^^^^^^^^^^^\n"),
        (modules, 1, "  1 | LoadModule "),
        (rules, 1, "  1 | RewriteEngine On\n    | ^^^^^^^^^^^^^\n"),
    ] {
        let site = Site::whole(text);
        site.write_configuration(Server::Fulmar, text);
        let path = site.prefix().join("fulmar.conf").display().to_string();
        let message = format!(
            "[emerg] this file is in Apache's configuration language, and Fulmar reads nginx's here in {path}:{line}\n"
        );
        let mut command = Command::new(Server::Fulmar.path());
        command.current_dir(site.prefix()).args(["lint", "-c", "fulmar.conf"]);
        let output = command.output().expect("run");
        let told_of_lint = told(&output);
        assert!(!output.status.success() && told_of_lint.contains(&message), "{told_of_lint}");
        assert!(
            told_of_lint.contains(excerpt) && told_of_lint.contains("hint: a main file in it"),
            "{told_of_lint}"
        );
        // The server reads such a file.
        let output = site.command(Server::Fulmar).arg("-t").output().expect("run");
        assert!(!told(&output).contains("this file is in"), "{}", told(&output));
    }
}

/// A file that another one includes is judged for itself.
#[test]
fn an_included_file_of_apache_is_recognized() {
    let site =
        Site::new("include sites/*.conf;").in_prefix("sites/a.conf", "<VirtualHost *:80>\n</VirtualHost>\n");
    let told = site.test(Server::Fulmar).expect_err("a refusal");
    assert!(told.contains("this file is in Apache's configuration language"), "{told}");
    assert!(told.contains("/sites/a.conf:1\n"), "{told}");
}

#[test]
fn files_of_other_programs_are_recognized() {
    for (text, language, page) in [
        (
            "example.org {\n    root * /srv\n    file_server\n}\n",
            "the language of a Caddyfile",
            "from-caddy.md",
        ),
        ("{\n    email a@example.org\n}\n", "the language of a Caddyfile", "from-caddy.md"),
        ("http:\n  routers: {}\n", "YAML", "README.md"),
        ("{ \"apps\": {} }\n", "JSON", "from-caddy.md"),
    ] {
        let told = Site::whole(text).test(Server::Fulmar).expect_err(text);
        assert!(
            told.contains(&format!("this file is in {language}, and Fulmar reads nginx's here")),
            "{told}"
        );
        assert!(told.contains(page), "{told}");
    }
}

/// nginx takes such words as they are, too.
#[test]
fn curly_quotes_are_warned_of() {
    let site = Site::new(
        "server { listen 127.0.0.1:1; server_name \u{201c}a.test\u{201d}; add_header X \u{201c}a b\u{201d}; }",
    );
    let told = site.test(Server::Fulmar).expect_err("a refusal");
    assert!(told.contains("[warn] \u{201c} is not a quote here, but a part of the word"), "{told}");
    assert!(told.contains("hint: write \" or '") && told.contains("[emerg] invalid parameter"), "{told}");
}

#[test]
fn an_unknown_upstream_has_a_hint() {
    for (pass, hint) in [
        ("proxy_pass http://backnd;", "did you mean the upstream \"backend\"?"),
        ("fastcgi_pass backnd;", "did you mean the upstream \"backend\"?"),
        ("proxy_pass http://no-such.invalid;", "no \"upstream no-such.invalid { \u{2026} }\" is in \"http\""),
    ] {
        let text = format!(
            "upstream backend {{ server 127.0.0.1:1; }}
            server {{ listen 127.0.0.1:1; location / {{ {pass} }} }}"
        );
        let told = Site::new(&text).test(Server::Fulmar).expect_err(pass);
        assert!(told.contains("in upstream \"") && told.contains(hint), "{told}");
    }
}

/// With nginx the same request is 404 in silence.
#[test]
fn the_log_says_why_a_program_below_an_alias_is_not_found() {
    let site = Site::new(
        "server {
            listen 127.0.0.1:%%PORT%%;
            location /tools/ { alias %%ROOT%%/lib/tools/; }
            location /inner/ { alias %%ROOT%%/lib/tools/; location ~ \\.php$ { return 404; } }
            location ~ \\.php$ { try_files $uri =404; }
        }",
    )
    .file("lib/tools/a.php", "");
    let running = site.start(Server::Fulmar);
    for path in ["/tools/a.php", "/inner/a.php", "/a.php"] {
        assert_eq!(running.ask(&format!("GET {path}\nConnection: close")).statuses(), [404], "{path}");
    }
    running.wait_for_log(
        "error.log",
        "\"/tools/a.php\" is below the alias of location \"/tools/\", but location \"\\.php$\" comes first",
    );
    assert_eq!(running.log("error.log").matches("below the alias").count(), 1);
}

#[test]
fn directives_of_other_modules_have_the_hint_that_helps() {
    for (directive, product, hint) in [
        ("vhost_traffic_status_zone;", "vhost_traffic_status", "\"fulmar_status\" in a location"),
        ("vhost_traffic_status_display;", "vhost_traffic_status", "\"fulmar_status\" in a location"),
        ("status_zone a;", "nginx's commercial edition", "\"fulmar_status\" in a location"),
        ("lua_code_cache on;", "the Lua module", "map, if, return"),
        ("content_by_lua_block { ngx.say(\"a\") }", "the Lua module", "map, if, return"),
        ("js_import a.js;", "njs", "map, if, return"),
        ("pagespeed on;", "PageSpeed", "when they are built"),
        ("modsecurity on;", "ModSecurity", "a server before this one"),
        ("upload_pass /a;", "the upload module", "client_body_in_file_only"),
        ("upload_progress a 1m;", "uploadprogress", "progress"),
        ("fancyindex on;", "fancyindex", "autoindex"),
        ("cache_purge_response_type html;", "cache_purge", "proxy_cache_purge"),
        ("echo hello;", "the echo module", "return 200"),
        ("set_rotate $a 1 3;", "set-misc", "map sets a variable"),
        ("set_encode_base32 $a b;", "set-misc", "map sets a variable"),
        ("SecRulesEnabled;", "naxsi", "a server before this one"),
        ("libinjection_sql;", "naxsi", "a server before this one"),
        ("auth_pam on;", "auth_pam", "auth_basic"),
        ("dav_ext_methods PROPFIND;", "dav_ext", "WebDAV"),
        ("set_cookie_flag * secure;", "cookie_flag", "proxy_cookie_flags"),
        ("req_status_show;", "Tengine", "\"fulmar_status\" in a location"),
        ("subs_filter a b;", "substitutions_filter", "sub_filter"),
    ] {
        let told = Site::new(&format!("server {{ listen 127.0.0.1:1; location / {{ {directive} }} }}"))
            .test(Server::Fulmar)
            .expect_err(directive);
        let expected = format!("belongs to {product}, which is not part of Fulmar in ");
        let hinted = told.lines().any(|line| line.starts_with("  hint: ") && line.contains(hint));
        assert!(told.contains(&expected) && hinted, "{directive}: {told}");
    }
    let rtmp = Site::whole("events { }\nrtmp { server { listen 1935; } }");
    let told = rtmp.test(Server::Fulmar).expect_err("a refusal");
    assert!(told.contains("\"rtmp\" belongs to the RTMP module"), "{told}");
    let perl = Site::new("perl_modules a;").test(Server::Fulmar).expect_err("a refusal");
    assert!(perl.contains("\"perl_modules\" is not supported (Fulmar runs no Perl"), "{perl}");
}

#[test]
fn commands_that_do_not_exist_have_a_suggestion() {
    for (arguments, hint) in [
        (&["serv"][..], "invalid option: \"serv\"; did you mean \"fulmar serve\"?"),
        (&["explian", "http://a/"], "did you mean \"fulmar explain\"?"),
        (&["reload"], "did you mean \"fulmar -s reload\"?"),
        (&["-s", "relod"], "did you mean \"-s reload\"?"),
    ] {
        let output = Command::new(Server::Fulmar.path()).args(arguments).output().expect("run");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(told(&output).contains(hint), "{arguments:?}: {output:?}");
    }
    let output = Command::new(Server::Fulmar.path()).arg("nonsense").output().expect("run");
    assert_eq!(told(&output), "fulmar: invalid option: \"nonsense\"\n");
}
