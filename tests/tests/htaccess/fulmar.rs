//! What is Fulmar's own: freshness, limits, what is written to the log, and how it goes with locations.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use tests::application::{Application, answer};
use tests::binary::Server;
use tests::client::Client;
use tests::site::{Running, Site};
use tests::{wait, worker};

use super::{aged, site};
use crate::catalogue::surroundings::Tracer;

fn status(running: &Running, request: &str) -> u16 {
    running.ask(request).last().status
}

#[test]
fn an_edit_counts_at_the_next_request() {
    let site = site(&[(".htaccess", "Header set X-Version 0\n")]);
    let running = site.start(Server::Fulmar);
    let version = || running.ask("GET /a.txt").last().field("X-Version").map(str::to_owned);
    assert_eq!(version().as_deref(), Some("0"));
    for number in 1..40 {
        if number < 5 {
            // Old enough to be kept; kept by one request.
            wait::until(Duration::from_millis(80), || false);
            assert_eq!(version(), Some((number - 1).to_string()));
        }
        let text = format!("Header set X-Version {}\n", number % 10);
        fs::write(site.root().join(".htaccess"), text).unwrap();
        assert_eq!(version(), Some((number % 10).to_string()));
    }
    fs::remove_file(site.root().join(".htaccess")).unwrap();
    assert_eq!(version(), None);
    running.stop();
}

/// Requests that wait for the same turn of a thread share what it sees of files, and see an edit that came before.
#[test]
fn an_edit_counts_on_kept_connections() {
    let site = site(&[(".htaccess", "Header set X-Version 0\n"), ("sub/b.txt", "b")]);
    let running = site.start(Server::Fulmar);
    let worker = worker::of(&running);
    let mut clients: Vec<_> = (0..8).map(|_| running.connect()).collect();
    let version = |client: &mut Client| {
        let answer = client.response("GET").expect("an answer");
        answer.field("X-Version").map(str::to_owned)
    };
    let requests: [&[u8]; 2] =
        [b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /sub/b.txt HTTP/1.1\r\nHost: a\r\n\r\n"];
    for number in 0..100 {
        let expected = Some((number % 10).to_string());
        fs::write(site.root().join(".htaccess"), format!("Header set X-Version {}\n", number % 10)).unwrap();
        if number % 10 == 9 {
            // Old enough to be kept.
            wait::until(Duration::from_millis(80), || false);
        }
        kill_process(worker, Signal::STOP).unwrap();
        for (at, client) in clients.iter_mut().enumerate() {
            assert!(client.send(requests[at % 2]));
        }
        kill_process(worker, Signal::CONT).unwrap();
        for client in &mut clients {
            assert_eq!(version(client), expected, "together");
        }
        fs::write(site.root().join(".htaccess"), "Header set X-Version next\n").unwrap();
        assert!(clients[0].send(requests[0]));
        assert_eq!(version(&mut clients[0]).as_deref(), Some("next"), "alone");
    }
    running.stop();
}

/// A thread that has answered one request may answer one of a new connection before it takes events again. An edit that
/// came in between counts. The tracer makes the time in between long enough for an edit.
#[test]
fn an_edit_counts_within_one_turn_of_a_thread() {
    const REQUEST: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n";
    let site = aged(site(&[(".htaccess", "Header set X-Version 0\n")]));
    let running = site.start(Server::Fulmar);
    let version = |client: &mut Client| {
        assert!(client.send(REQUEST));
        let answer = client.response("GET").expect("an answer");
        answer.field("X-Version").map(str::to_owned)
    };
    let mut kept = running.connect();
    assert_eq!(version(&mut kept).as_deref(), Some("0"));
    let delay = ["-e", "trace=sendto", "-e", "inject=sendto:delay_exit=300000"];
    let Some(tracer) = Tracer::attach(worker::of(&running), &delay) else { return };
    assert_eq!(version(&mut kept).as_deref(), Some("0"));
    fs::write(site.root().join(".htaccess"), "Header set X-Version 1\n").unwrap();
    let mut clients: Vec<_> = (0..4).map(|_| running.connect()).collect();
    for client in &mut clients {
        assert_eq!(version(client).as_deref(), Some("1"));
    }
    tracer.leave();
    running.stop();
}

/// The last extension that has a type gives it, also where the server's configuration has a type for all others.
#[test]
fn a_default_type_is_for_names_without_a_known_extension() {
    let site = Site::new(&super::CONFIGURATION.replace("default_type ''", "default_type a/b"));
    let names = ["a.html", "a.xyz", "a.html.xyz", "a.xyz.html", "a.html.txt"];
    let site = names.iter().fold(site, |site, name| site.file(name, "a"));
    let running = site.start(Server::Fulmar);
    let types = names
        .map(|name| running.ask(&format!("GET /{name}")).last().field("Content-Type").map(str::to_owned));
    assert_eq!(
        types.each_ref().map(Option::as_deref),
        ["text/html", "a/b", "text/html", "text/html", "text/plain"].map(Some)
    );
    running.stop();
}

#[test]
fn mistakes_are_told_with_their_place() {
    let files = [("sub/.htaccess", "# one\n<IfModule mod_rewrite.c>\nRewriteEngin on\n</IfModule>\n")];
    let site = site(&files);
    let running = site.start(Server::Fulmar);
    assert_eq!(status(&running, "GET /sub/a.txt"), 500);
    assert_eq!(status(&running, "GET /a.txt"), 200);
    let line = format!("unknown directive \"RewriteEngin\" in {}/sub/.htaccess:3", site.root().display());
    running.wait_for_log("error.log", &line);
    running.wait_for_log("error.log", "did you mean \"RewriteEngine\"?");
    running.stop();
}

/// Apache, with the module, asks for a password or forbids: content must not be served instead.
#[test]
fn sections_that_restrict_access_are_not_skipped() {
    const RULES: [&str; 9] = [
        "AuthType Basic\nAuthName x\nAuthUserFile /none\nRequire valid-user\n",
        "Require valid-user\n",
        "Require all denied\n",
        "Order allow,deny\n",
        "Deny from all\n",
        "<Limit GET POST>\nRequire valid-user\n</Limit>\n",
        "<Files a.txt>\n<IfModule mod_authz_core.c>\nRequire ip 10\n</IfModule>\n</Files>\n",
        "RewriteEngine on\nRewriteRule .* - [NC,F]\n",
        "<RequireNone>\nRequire all granted\n</RequireNone>\n",
    ];
    const SECTIONS: [&str; 12] = [
        "IfModule mod_auth_form.c",
        "IfModule auth_form_module",
        "IfModule mod_authn_dbd.c",
        "IfModule mod_authn_dbm.c",
        "IfModule mod_authz_owner.c",
        "IfModule mod_authz_dbm.c",
        "IfModule mod_authnz_ldap.c",
        "IfModule mod_auth_openidc.c",
        "IfModule mod_session_cookie.c",
        "IfModule mod_session.c",
        "IfDefine SECURE",
        "IfModule mod_rewrite.c>\n<IfModule mod_auth_form.c>\n</IfModule>\n<IfModule mod_auth_form.c",
    ];
    let sections = SECTIONS.iter().flat_map(|section| RULES.map(|rules| (*section, rules)));
    let texts: Vec<String> = sections
        .map(|(section, rules)| {
            let more = if section.contains('\n') { "</IfModule>\n" } else { "" };
            format!("<{section}>\n{rules}</{}>\n{more}", &section[..8])
        })
        .collect();
    let folders = texts.iter().enumerate();
    let site = folders.fold(site(&[]), |site, (at, text)| {
        site.file(&format!("{at}/.htaccess"), text).file(&format!("{at}/a.txt"), "secret")
    });
    let running = site.start(Server::Fulmar);
    for (at, text) in texts.iter().enumerate() {
        assert_eq!(status(&running, &format!("GET /{at}/a.txt")), 500, "{text}");
    }
    let text = "\"<IfModule mod_auth_form.c>\" restricts access (\"AuthType\" in line 2), and that module is not supported";
    running.wait_for_log("error.log", text);
    running.stop();
}

/// Rules for LiteSpeed, which WordPress's plugins write, are skipped as in Apache; rules about access are not.
#[test]
fn sections_for_unknown_modules() {
    let site = site(&[
        (
            "cache/.htaccess",
            "<IfModule LiteSpeed>\nRewriteEngine on\nRewriteRule \\.dat - [F]\n</IfModule>\n",
        ),
        ("closed/.htaccess", "<IfModule mod_geoip.c>\nOrder allow,deny\nDeny from all\n</IfModule>\n"),
        ("old/.htaccess", "<IfModule mod_access.c>\nOrder allow,deny\nDeny from all\n</IfModule>\n"),
        ("old/a.txt", "a"),
        ("cache/a.txt", "a"),
        ("closed/a.txt", "a"),
    ]);
    let running = site.start(Server::Fulmar);
    assert_eq!(status(&running, "GET /cache/a.txt"), 200);
    assert_eq!(status(&running, "GET /closed/a.txt"), 500);
    assert_eq!(status(&running, "GET /old/a.txt"), 403, "the rules of Apache 1.3 count");
    running.wait_for_log("error.log", "neither Fulmar nor Apache has that module: access is denied");
    running.stop();
}

#[test]
fn what_is_not_built_is_told_from_what_is_unknown() {
    let files = [
        ("auth/.htaccess", "AuthFormProvider file\n"),
        ("map/.htaccess", "RewriteMap a txt:b\n"),
        ("php/.htaccess", "php_value a b\n"),
    ];
    let running = site(&files).start(Server::Fulmar);
    for (folder, text) in [
        ("auth", "\"AuthFormProvider\" of mod_auth_form is not supported in "),
        ("map", "\"RewriteMap\" of mod_rewrite is not allowed in .htaccess files in "),
        ("php", "settings of PHP in a .htaccess file need \"htaccess_php on\" in the server's configuration"),
    ] {
        assert_eq!(status(&running, &format!("GET /{folder}/a.txt")), 500);
        running.wait_for_log("error.log", text);
    }
    running.stop();
}

#[test]
fn an_open_section_is_a_mistake() {
    let site = site(&[(".htaccess", "<IfModule mod_rewrite.c>\nRewriteEngine on\n")]);
    let running = site.start(Server::Fulmar);
    assert_eq!(status(&running, "GET /a.txt"), 500);
    running.wait_for_log("error.log", "<IfModule> was not closed in ");
    running.stop();
}

#[test]
fn patterns_that_repeat_a_lot_take_little_memory() {
    let rules = format!("RewriteEngine on\n{}", "RewriteRule ^(a{100}){80}x /x\n".repeat(600));
    let site = site(&[(".htaccess", &rules)]);
    let running = site.start(Server::Fulmar);
    let before = running.peak_bytes();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(status(&running, "GET /a.txt"), 200));
        }
    });
    let grown = running.peak_bytes() - before;
    assert!(grown < 64_000_000, "{grown} bytes of memory");
    running.stop();
}

#[test]
fn a_file_that_cannot_be_read_lets_nobody_pass() {
    let large = "#\n".repeat(600 * 1024);
    let site =
        site(&[("large/.htaccess", &large), ("large/a.txt", "x"), ("pipe/a.txt", "x"), ("loop/a.txt", "x")])
            .link("loop/.htaccess", ".htaccess");
    let pipe = site.root().join("pipe/.htaccess");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::from(0o644), 0)
        .unwrap();
    let running = site.start(Server::Fulmar);
    assert_eq!(status(&running, "GET /large/a.txt"), 500);
    assert_eq!(status(&running, "GET /pipe/a.txt"), 403);
    assert_eq!(status(&running, "GET /loop/a.txt"), 403);
    fs::set_permissions(site.root().join("sub"), fs::Permissions::from_mode(0o700)).unwrap();
    if fs::metadata(site.root()).unwrap().uid() != 0 {
        fs::write(site.root().join("bare/.htaccess"), "").unwrap();
        fs::set_permissions(site.root().join("bare/.htaccess"), fs::Permissions::from_mode(0o0)).unwrap();
        assert_eq!(status(&running, "GET /bare/a.txt"), 403);
    }
    running.stop();
}

#[test]
fn rules_without_end_are_ended() {
    let files = [
        ("a/.htaccess", "RewriteEngine on\nRewriteRule ^(.*)$ $1$1x [N]\n"),
        ("b/.htaccess", "RewriteEngine on\nRewriteRule ^(a+)+$(?=) /b.txt [L]\n"),
        ("c/.htaccess", "RewriteEngine on\nRewriteRule .* /c/again/%{THE_REQUEST}\n"),
    ];
    let site = site(&files);
    let running = site.start(Server::Fulmar);
    assert_eq!(status(&running, "GET /a/x"), 500);
    assert_eq!(status(&running, &format!("GET /b/{}b", "a".repeat(64))), 500);
    assert_eq!(status(&running, "GET /c/x"), 500);
    running.stop();
}

#[test]
fn texts_that_grow_are_ended() {
    let on = "RewriteEngine on\n";
    let doubled = "RewriteRule .* - [E=X:x%{ENV:X}%{ENV:X}]\n".repeat(60);
    let groups = "$0".repeat(30_000);
    let conditions = "RewriteCond %{ENV:X} x\n".repeat(30_000);
    let large = "x".repeat(60_000);
    let query = "RewriteRule ^(.*)$ $1?a=%{QUERY_STRING}b [QSA,N]\n";
    let texts = [
        format!("{on}{doubled}"),
        format!("{on}RewriteRule .* /{groups} [L]\n"),
        format!("{on}{query}"),
        format!("{on}RewriteRule .* - [E=X:{large}]\n{conditions}RewriteRule .* - [N]\n"),
        format!(
            "{on}RewriteRule .* - [S=18446744073709551615]\nRewriteRule .* - [E=X:{large}1,E=Y:{large}2]\nRewriteRule .* - [E=Z:{large},E=Y:{large}]\n"
        ),
        format!("SetEnvIf Request_URI .* X={groups}\n"),
        format!("RedirectMatch (.*) /{groups}\n"),
        format!("SetEnv X {large}\n{}", "Header append X-Long %{X}e\n".repeat(30)),
        format!("SetEnv X {large}\n{}", "RequestHeader append X-Long %{X}e\n".repeat(30)),
        (0..5000).map(|n| format!("SetEnv NAME{n} value\n")).collect(),
    ];
    let names: Vec<String> = (0..texts.len()).map(|n| format!("{n}/.htaccess")).collect();
    let files: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
    let running = files
        .iter()
        .fold(site(&files), |site, (path, _)| site.file(&path.replace(".htaccess", "long-name.txt"), "x"));
    let running = running.start(Server::Fulmar);
    for at in (0..texts.len()).filter(|&at| at != 4) {
        assert_eq!(status(&running, &format!("GET /{at}/long-name.txt?q")), 500, "{}", &texts[at][..60]);
    }
    assert_eq!(status(&running, "GET /4/long-name.txt"), 200, "all rules are skipped");
    running.wait_for_log("error.log", "a text of more than 65536 bytes");
    running.wait_for_log("error.log", "take too long for one request");
    running.stop();
}

#[test]
fn a_file_lies_over_its_location() {
    let site = Site::new(
        "server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            location / { htaccess on; add_header X-Location 1; try_files $uri /b.txt; }
            location /off/ { }
            location /inner/ { internal; }
            location = /own/index.html { internal; }
            location /index/ { htaccess on; }
            location /own/ { htaccess on; }
            location ~ \\.prog$ { htaccess on; return 200 program; }
            location /alias/ { alias %%ROOT%%/other/; htaccess on; }
        }",
    );
    let site = site
        .file(".htaccess", "RewriteEngine on\nRewriteRule ^x\\.txt$ a.txt [L]\nRewriteRule ^in$ /inner/a.txt [L]\nRewriteRule ^no - [F]\n")
        .file("doc/.htaccess", "ErrorDocument 404 /inner/a.txt\n")
        .file("index/.htaccess", "DirectoryIndex /inner/a.txt\n")
        .file("own/.htaccess", "Header set X-Own 1\n")
        .file("own/index.html", "own")
        .file("off/.htaccess", "Require all denied\n")
        .file("off/a.txt", "off")
        .file("a.txt", "a")
        .file("b.txt", "b")
        .file("inner/a.txt", "inner")
        .file("other/.htaccess", "RewriteEngine on\nRewriteRule ^one$ two.txt [L]\nHeader set X-Other 1\n")
        .file("other/two.txt", "two");
    let running = site.start(Server::Fulmar);
    let answer = running.ask("GET /x.txt");
    assert_eq!((answer.last().text().as_str(), answer.last().field("X-Location")), ("a", Some("1")));
    assert_eq!(running.ask("GET /missing").last().text(), "b", "try_files stays the location's");
    assert_eq!(running.ask("GET /off/a.txt").last().text(), "off");
    assert_eq!(status(&running, "GET /in"), 404, "a location for internal redirects stays closed");
    assert_eq!(status(&running, "GET /no"), 403);
    assert_eq!(
        running.ask("GET /doc/missing").last().text().matches("inner").count(),
        0,
        "nor for documents"
    );
    assert_eq!(status(&running, "GET /index/"), 404, "nor for indexes");
    assert_eq!(running.ask("GET /own/").last().text(), "own", "but for the location's own index");
    let answer = running.ask("GET /alias/one");
    assert_eq!((answer.last().text().as_str(), answer.last().field("X-Other")), ("two", Some("1")));
    running.stop();
}

#[test]
fn what_try_files_finds_has_the_settings_of_its_own_path() {
    let site = Site::new(
        "server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            htaccess on;
            location / { try_files $uri $uri.html /fallback.txt =404; }
            location /part { try_files $uri.html $uri =404; }
            location /other/ { root %%ROOT%%/elsewhere; try_files /part.txt =404; }
            location = /part.txt { try_files /never =404; }
            location /named/ { error_page 404 = @named; try_files /none =404; }
            location @named { root %%ROOT%%/elsewhere; try_files /part.txt =404; }
            location ~ ^/captured/(.*)$ { alias %%ROOT%%/closed/$1; try_files /secret.html =404; }
        }",
    );
    let site = site
        .file(".htaccess", "<Files \"secret.html\">\nRequire all denied\n</Files>\n<Files \"*.html\">\nHeader set X-Html 1\n</Files>\n")
        .file("open.html", "open")
        .file("secret.html", "secret")
        .file("closed/secret.html", "secret")
        .file("part.html", "part")
        .file("part.html.html", "too far")
        .file("fallback.txt", "fallback")
        .file("part.txt", "not this one")
        .file("elsewhere/.htaccess", "Header set X-Elsewhere 1\n<Files \"other.txt\">\nRequire all denied\n</Files>\n")
        .file("elsewhere/part.txt", "elsewhere");
    let running = site.start(Server::Fulmar);
    assert_eq!(status(&running, "GET /secret.html"), 403);
    // The location stays, and with it its root; the rules of others do not apply.
    for path in ["/other/x", "/named/x"] {
        let answer = running.ask(&format!("GET {path}"));
        assert_eq!(
            (answer.last().text().as_str(), answer.last().field("X-Elsewhere")),
            ("elsewhere", Some("1"))
        );
    }
    assert_eq!(status(&running, "GET /part.txt"), 404);
    assert_eq!(status(&running, "GET /secret"), 403, "the section for the file counts");
    assert_eq!(status(&running, "GET /closed/secret"), 403);
    let answer = running.ask("GET /open");
    assert_eq!((answer.last().text().as_str(), answer.last().field("X-Html")), ("open", Some("1")));
    assert_eq!(running.ask("GET /missing").last().text(), "fallback");
    assert_eq!(running.ask("GET /part").last().text(), "part", "a path is looked for once");
    assert_eq!(status(&running, "GET /captured/"), 403, "it has no path that sections could match");
    running.stop();
}

#[test]
fn access_rules_of_files_cannot_be_overridden() {
    let site = Site::new(
        "server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            htaccess on;
            location /any/ { satisfy any; allow all; }
            location /asked/ { auth_request /check/a.txt; }
            location /added/ { types { text/html txt; } add_after_body /any/required.txt; }
        }",
    );
    let closed = [
        "<Files \"required.txt\">\nRequire all denied\n</Files>\n",
        "<Files \"ordered.txt\">\nOrder allow,deny\nDeny from all\n</Files>\n",
    ]
    .concat();
    let site = site
        .file("any/.htaccess", &closed)
        .file("any/required.txt", "secret")
        .file("any/ordered.txt", "secret")
        .file("any/a.txt", "a")
        .file("asked/a.txt", "a")
        .file("check/.htaccess", "Require all denied\n")
        .file("check/a.txt", "a")
        .file("added/a.txt", "a");
    let running = site.start(Server::Fulmar);
    assert_eq!(running.ask("GET /any/a.txt").last().text(), "a");
    assert_eq!(status(&running, "GET /any/required.txt"), 403, "satisfy any does not override Require");
    assert_eq!(status(&running, "GET /any/ordered.txt"), 403, "nor Deny");
    assert_eq!(status(&running, "GET /asked/a.txt"), 403, "files count for auth_request");
    assert!(!running.ask("GET /added/a.txt").last().text().contains("secret"), "and for add_after_body");
    running.stop();
}

#[test]
fn a_front_controller_behind_fastcgi() {
    let application = Application::start(|request, stream| {
        let shown =
            ["SCRIPT_FILENAME", "REQUEST_URI", "QUERY_STRING"].map(|name| request.param(name).to_owned());
        let text = format!("Content-Type: text/plain\r\n\r\n{}", shown.join(" "));
        stream.write_all(&answer(&text)).is_ok()
    });
    let site = Site::new(&format!(
        "server {{
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            htaccess on;
            location ~ \\.php$ {{
                fastcgi_pass {};
                fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                fastcgi_param REQUEST_URI $request_uri;
                fastcgi_param QUERY_STRING $query_string;
            }}
        }}",
        application.address()
    ));
    let rules = "RewriteEngine On\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
        RewriteRule ^(.*)$ index.php?path=$1 [L,QSA]\nHeader set X-File yes\n<Files secret.php>\nRequire all denied\n</Files>\n";
    let site = site.file(".htaccess", rules).file("index.php", "").file("secret.php", "").file("a.txt", "a");
    let running = site.start(Server::Fulmar);
    let found = running.ask("GET /shop/5?x=1");
    let root = site.root();
    let expected = format!("{}/index.php /shop/5?x=1 path=shop/5&x=1", root.display());
    assert_eq!((found.last().text(), found.last().field("X-File")), (expected, Some("yes")));
    assert_eq!(running.ask("GET /a.txt").last().text(), "a");
    assert_eq!(status(&running, "GET /secret.php"), 403, "rules about access count for programs, too");
    running.stop();
}

#[test]
fn many_directories_with_files() {
    let mut site = site(&[]);
    let mut path = String::new();
    for depth in 0..60 {
        path += &format!("d{depth}/");
        site = site.file(&format!("{path}.htaccess"), format!("Header set X-Depth {depth}\n"));
    }
    let site = site.file(&format!("{path}a.txt"), "deep");
    let running = site.start(Server::Fulmar);
    let answer = running.ask(&format!("GET /{path}a.txt"));
    assert_eq!((answer.last().text().as_str(), answer.last().field("X-Depth")), ("deep", Some("59")));
    assert_eq!(status(&running, &format!("GET /{}a.txt", "e/".repeat(200))), 403);
    running.stop();
}

/// What links may not lead to for content, they may not lead to for its settings.
#[test]
fn links_that_do_not_count_let_nobody_pass() {
    for (links, expected) in [
        ("", ["200 plain", "200 near", "200 outside", "200 "]),
        ("symlinks inside;", ["200 plain", "200 near", "403 ", "403 "]),
        ("disable_symlinks on from=$document_root;", ["200 plain", "403 ", "403 ", "403 "]),
    ] {
        let text = format!(
            "server {{ listen 127.0.0.1:%%PORT%%; root %%ROOT%%; htaccess on; {links} location / {{ try_files $uri @made; }}
             location @made {{ return 200 ok; }} }}"
        );
        let site = Site::new(&text)
            .file("plain/.htaccess", "Header set X-From plain\n")
            .file("plain/a.txt", "a")
            .file("out/a.txt", "a")
            .file("near/a.txt", "a")
            .file("near/rules", "Header set X-From near\n")
            .in_prefix("rules", "Header set X-From outside\n")
            .in_prefix("elsewhere/.htaccess", "Header set X-From elsewhere\n")
            .link("near/.htaccess", "rules")
            .link("out/.htaccess", "../../rules")
            .link("linked", "../elsewhere");
        let running = site.start(Server::Fulmar);
        let from = |path: &str| {
            let answer = running.ask(&format!("GET {path}\nConnection: close"));
            let last = answer.last();
            format!("{} {}", last.status, last.field("X-From").unwrap_or_default())
        };
        let got = ["/plain/a.txt", "/near/a.txt", "/out/a.txt", "/linked/a.txt"].map(from);
        assert_eq!(got, expected, "{links}");
        running.stop();
    }
}

/// What would be refused is not named, and a compressed file takes no other's place.
#[test]
fn refused_files_are_neither_listed_nor_sent_for_others() {
    let site = Site::new(
        "server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            htaccess on;
            autoindex on;
            location /always/ { gzip_static always; }
            location /on/ { gzip_static on; brotli_static on; }
            location /json/ { autoindex_format json; }
        }",
    );
    let rules = "<Files *.gz>\nRequire all denied\n</Files>\nIndexIgnore *.bak\n";
    let site = ["always", "on", "json"].iter().fold(site, |site, folder| {
        site.file(&format!("{folder}/.htaccess"), rules)
            .file(&format!("{folder}/dump.sql"), "plain")
            .file(&format!("{folder}/dump.sql.gz"), "compressed")
            .file(&format!("{folder}/only.sql.gz"), "compressed")
            .file(&format!("{folder}/x.bak"), "old")
            .file(&format!("{folder}/env.txt"), "x")
    });
    let site = site
        .file("on/dump.sql.br", "brotli")
        .file("free/a.sql", "plain")
        .file("closed/.htaccess", "Require all denied\n")
        .file("closed/a", "a")
        .file("json/.htaccess", format!("{rules}SetEnvIf Request_URI env hide\nDeny from env=hide\n"));
    let running = site.start(Server::Fulmar);
    let text = |request: &str| running.ask(request).last().text();
    assert_eq!(text("GET /always/dump.sql"), "plain");
    assert_eq!(status(&running, "GET /always/only.sql"), 404);
    assert_eq!(text("GET /on/dump.sql\nAccept-Encoding: gzip"), "plain");
    assert_eq!(text("GET /on/dump.sql\nAccept-Encoding: gzip, br;q=0.5"), "brotli");
    let names = |listing: &str| -> Vec<String> {
        listing.split("\"name\":\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&text("GET /json/")), ["dump.sql"]);
    let root = text("GET /");
    assert!(root.contains("free/") && !root.contains("closed"), "{root}");
    running.stop();
}
