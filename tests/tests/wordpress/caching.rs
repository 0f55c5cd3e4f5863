//! WordPress with a cache of its pages: the configuration and the plugin of the manual, and the same pages by nginx.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tests::binary::{Nginx, Server, nginx_with};
use tests::browser::{Browser, Sent, between};
use tests::manual::block_of_page;
use tests::mariadb::{MariaDb, have_mariadb};
use tests::php::{Php, have_php};
use tests::response::Response;
use tests::site::{Running, Site};
use tests::wordpress::{have_wordpress, place};

use super::{choose_permalinks, install, log_in, publish, site};

fn written(language: &str) -> String {
    block_of_page("caching.md", "WordPress", language)
}

/// The configuration of the manual, with the paths and ports of a test.
fn configuration(database: &str) -> String {
    let changes = [
        ("/var/cache/fulmar/wordpress", "%%LOGS%%/cache"),
        ("listen 127.0.0.1:8090;", "listen 127.0.0.1:%%PORT_1%%;"),
        ("http://127.0.0.1:8090/cache", "http://127.0.0.1:%%PORT_1%%/cache"),
        (
            "listen 80;",
            "listen 127.0.0.1:%%PORT%%; include mime.types; add_header X-Cache $upstream_cache_status always;",
        ),
        ("/var/www/wordpress", "SOURCES"),
        ("/run/php/php-fpm.sock", "SOCKET"),
        ("include fastcgi_params;", "include fastcgi_params; fastcgi_param DATABASE DATABASE_NAME;"),
    ];
    changes
        .iter()
        .fold(written("nginx"), |text, (from, to)| {
            assert!(text.contains(from), "docs/caching.md: {from}");
            text.replace(from, to)
        })
        .replace("DATABASE_NAME", database)
}

/// The programs of a site.
struct Stage {
    directory: TempDir,
    mariadb: MariaDb,
    php: Php,
}

impl Stage {
    fn start(databases: &[&str]) -> Stage {
        let directory = TempDir::with_prefix("wordpress-").unwrap();
        let mariadb = MariaDb::start(directory.path(), databases);
        let php = Php::start(directory.path());
        Stage { directory, mariadb, php }
    }

    /// A WordPress with this plugin.
    fn sources(&self, plugin: &str) -> PathBuf {
        let sources = self.directory.path().join("sources");
        fs::create_dir(&sources).unwrap();
        place(&sources, &self.mariadb);
        fs::write(sources.join("wp-content/mu-plugins/cache.php"), plugin).unwrap();
        sources
    }

    fn site(&self, configuration: &str, sources: &Path) -> Site {
        site(configuration, sources, &self.php)
    }
}

/// An editor with a post.
struct Editor {
    browser: Browser,
    nonce: String,
    post: String,
}

impl Editor {
    /// Sets the site up, and publishes a post.
    fn begin(running: &Running) -> Editor {
        let mut browser = Browser::new(running.address());
        install(&mut browser);
        log_in(&mut browser);
        choose_permalinks(&mut browser);
        let page = browser.get("/wp-admin/post-new.php").text();
        let nonce =
            between(&page, "createNonceMiddleware( \"", "\"").expect("a nonce in the editor").to_owned();
        let post = publish(&mut browser, &nonce, "/grey.png");
        Editor { browser, nonce, post }
    }

    /// Changes something by the calls of the editor of posts.
    fn change(&mut self, path: &str, body: &str) {
        let fields = [("X-WP-Nonce", &*self.nonce)];
        let sent = Sent { fields: &fields, content_type: "application/json", body: body.as_bytes() };
        let answer = self.browser.request("POST", &format!("/wp-json/wp/v2/{path}?_locale=user"), &sent);
        assert_eq!(answer.status, 200, "{answer}");
    }

    fn change_post(&mut self) {
        let found = self.browser.get("/wp-json/wp/v2/posts?slug=fulmars-glide").text();
        let number = between(&found, "\"id\":", ",").expect("the number of the post").to_owned();
        let body = r#"{"title":"Fulmars soar","content":"<!-- wp:paragraph --><p>No beats.</p><!-- /wp:paragraph -->"}"#;
        self.change(&format!("posts/{number}"), body);
    }
}

#[test]
fn pages_are_kept_until_a_plugin_says_that_they_changed() {
    if !have_php() || !have_mariadb() || !have_wordpress() {
        return;
    }
    let stage = Stage::start(&["cached"]);
    let sources = stage.sources(&written("php"));
    let running = stage.site(&configuration("cached"), &sources).start(Server::Fulmar);
    let mut editor = Editor::begin(&running);
    let post = editor.post.clone();
    let mut visitor = Browser::new(running.address());
    let mut see = |path: &str, text: &str| {
        let page = visitor.get(path);
        assert!(page.status == 200 && page.text().contains(text), "{path}: {page}");
        page.field("X-Cache").unwrap_or_default().to_owned()
    };
    let found = "/wp-json/wp/v2/posts?search=fulmars";
    let pages = ["/", &post, "/hello-world/", "/feed/", found];
    pages.iter().for_each(|path| drop(see(path, "")));
    assert_eq!(pages.map(|path| see(path, "")), ["HIT"; 5]);
    assert_eq!(
        editor.browser.get(&post).field("X-Cache"),
        Some("BYPASS"),
        "an editor sees what there is now"
    );
    editor.change_post();
    assert_eq!((see(&post, "No beats."), see("/", "Fulmars soar")), ("MISS".into(), "MISS".into()));
    assert_eq!(see("/hello-world/", "A site of birds"), "HIT", "other pages stay");
    assert_eq!((see(&post, "No beats."), see("/feed/", "Fulmars soar")), ("HIT".into(), "MISS".into()));
    assert_eq!(see(found, "Fulmars soar"), "MISS", "what programs read changes, too");
    // A comment is shown when an editor approves it.
    let page = visitor.get(&post);
    let filled = [("comment", "So they do."), ("author", "A visitor"), ("email", "visitor@example.com")];
    let noted = visitor.submit("/wp-comments-post.php", &page, "id=\"commentform\"", &filled);
    assert_eq!(noted.status, 302, "{noted}");
    let held = editor.browser.request(
        "GET",
        "/wp-json/wp/v2/comments?status=hold",
        &Sent { fields: &[("X-WP-Nonce", &editor.nonce)], ..Sent::default() },
    );
    let number = between(&held.text(), "\"id\":", ",").expect("the number of the comment").to_owned();
    assert!(!visitor.get(&post).text().contains("So they do."));
    editor.change(&format!("comments/{number}"), r#"{"status":"approved"}"#);
    assert!(visitor.get(&post).text().contains("So they do."));
    settings_and_drafts(&mut editor, &running);
    running.stop();
}

/// A draft removes nothing, a setting removes all pages, and the page for an unknown address is kept.
fn settings_and_drafts(editor: &mut Editor, running: &Running) {
    let mut visitor = Browser::new(running.address());
    let mut see = |path: &str| {
        let page = visitor.get(path);
        (page.status, page.field("X-Cache").unwrap_or_default().to_owned(), page.text())
    };
    let is_kept = |(status, cached, _): (u16, String, String), expected| {
        assert_eq!((status, cached.as_str()), (expected, "HIT"));
    };
    see("/");
    assert_eq!(see("/no/such/page/").0, 404);
    is_kept(see("/no/such/page/"), 404);
    let page = editor.browser.get("/wp-admin/post-new.php");
    assert_eq!(page.status, 200, "{page}");
    let number = between(&page.text(), "\"post_id\":", ",").map(str::to_owned);
    is_kept(see("/"), 200);
    let number = number.or_else(|| between(&page.text(), "post_ID' value='", "'").map(str::to_owned));
    let number = number.expect("the number of the draft");
    editor.change(&format!("posts/{number}"), r#"{"title":"A draft","status":"draft"}"#);
    is_kept(see("/"), 200);
    editor.change("settings", r#"{"title":"Terns and fulmars"}"#);
    let (_, cached, text) = see("/");
    assert!(cached == "MISS" && text.contains("Terns and fulmars"), "{cached}: {text}");
    let (_, cached, text) = see("/hello-world/");
    assert!(cached == "MISS" && text.contains("Terns and fulmars"), "{cached}: {text}");
}

/// As plugins do for the module cache_purge: they request the addresses of pages in a location that only purges.
const PURGES: &str = "<?php
add_action('clean_post_cache', function ($post) {
    foreach ([wp_make_link_relative(get_permalink($post)), '/', '/feed/'] as $path) {
        wp_remote_get($_SERVER['PURGE'] . $path);
    }
});
";

/// The configuration of the manual, with that location in place of `cache_api`.
fn with_purges(database: &str) -> String {
    let location = "location ~ ^/purge(/.*) {
        allow 127.0.0.1;
        deny all;
        fastcgi_cache_purge pages $scheme://$http_host$1$is_args$args;
    }
    location / {";
    configuration(database)
        .replace("location = /cache { cache_api; }", "return 404;")
        .replacen("location / {", location, 1)
        .replace(
            "fastcgi_param FULMAR_CACHE http://127.0.0.1:%%PORT_1%%/cache;",
            "fastcgi_param PURGE http://127.0.0.1:%%PORT%%/purge;",
        )
}

/// What clients of a site got: each request with the status, some fields, and the content.
type Seen = BTreeMap<String, String>;

/// Visitors and an editor use a site. What depends on the time and the address is left out.
fn use_site(running: &Running) -> Seen {
    let mut editor = Editor::begin(running);
    let post = editor.post.clone();
    let mut seen = Seen::new();
    let mut note = |what: &str, response: &Response| {
        let field = |name: &str| response.field(name).unwrap_or("-").to_owned();
        let fields = ["X-Cache", "Content-Type", "Cache-Control", "X-Pingback"].map(field).join(" ");
        let text = format!("{fields}\n{}", response.text()).replace(&running.address().to_string(), "HOST");
        // A number that is used once, and the name of the server in its own pages.
        let lines = text.lines().filter(|line| !line.contains("nonce") && !line.starts_with("<hr><center>"));
        let text: String = lines
            .flat_map(|line| line.chars().chain(['\n']))
            .filter(|letter| !letter.is_ascii_digit())
            .collect();
        let entry = format!("{} {text}", response.status);
        assert!(seen.insert(format!("{:02} {what}", seen.len()), entry).is_none());
    };
    let mut visitor = Browser::new(running.address());
    let paths = [
        "/",
        &post,
        "/hello-world/",
        "/feed/",
        "/?s=wings",
        "/?p=1",
        "/no/such/",
        "/wp-json/wp/v2/posts",
        "/wp-login.php",
        "/wp-cron.php",
        "/robots.txt",
        "/wp-admin/",
    ];
    for path in paths.iter().chain(&paths) {
        note(path, &visitor.get(path));
    }
    let ask = |browser: &mut Browser, method: &str, path: &str, cookie: &str| {
        let fields = [("Cookie", cookie)];
        let fields = if cookie.is_empty() { &[][..] } else { &fields[..] };
        browser.request(method, path, &Sent { fields, ..Sent::default() })
    };
    let mut known = Browser::new(running.address());
    for cookie in ["comment_author_a=b", "wordpress_logged_in_a=b", "wp-postpass_a=b", "other=1"] {
        note(cookie, &ask(&mut known, "GET", &post, cookie));
    }
    for (method, path) in
        [("HEAD", "/hello-world/"), ("HEAD", "/?s=head"), ("POST", "/"), ("POST", &*post), ("PURGE", "/")]
    {
        let what = format!("{method} {path}");
        note(&what, &ask(&mut Browser::new(running.address()), method, path, ""));
    }
    note("the editor", &editor.browser.get("/?p=1"));
    editor.change_post();
    for path in paths.iter().take(4).chain(paths.iter().take(4)) {
        note(&format!("after the change: {path}"), &visitor.get(path));
    }
    for path in ["/purge/hello-world/", "/purge/hello-world/", "/hello-world/"] {
        let response = visitor.get(path);
        // The module has a page.
        let response = if response.status == 200 && path.starts_with("/purge") {
            Response { body: Vec::new(), fields: Vec::new(), ..response }
        } else {
            response
        };
        note(&format!("by hand: {path}"), &response);
    }
    seen
}

#[test]
fn visitors_get_the_same_pages_by_fulmar_and_by_nginx() {
    let Some(nginx): Option<Nginx> = nginx_with(&["ngx_http_cache_purge_module"]) else { return };
    if !have_php() || !have_mariadb() || !have_wordpress() {
        return;
    }
    let stage = Stage::start(&["nginx", "fulmar"]);
    let sources = stage.sources(PURGES);
    let [by_nginx, by_fulmar] =
        [(Server::Nginx, "nginx"), (Server::Fulmar, "fulmar")].map(|(server, name)| {
            // nginx lacks `$server_software`.
            let parameters = include_str!("../../../packaging/conf/fastcgi_params");
            let parameters = parameters.replace("$server_software", "nginx/1.31.5");
            let site = stage.site(&with_purges(name), &sources).in_prefix("fastcgi_params", parameters);
            let running = site.nginx(nginx.clone()).start(server);
            let seen = use_site(&running);
            running.stop();
            seen
        });
    for (what, expected) in &by_nginx {
        let mut lines = expected.lines().zip(by_fulmar[what].lines());
        let differing = lines.find(|(one, other)| one != other);
        assert!(*expected == by_fulmar[what], "{what}: nginx and Fulmar have {differing:?}");
    }
    let cached = |what: &str| by_nginx[what].split(' ').nth(1);
    assert_eq!(cached("12 /"), Some("HIT"));
    assert_eq!(cached("34 after the change: /"), Some("MISS"), "{:?}", by_nginx.keys());
}
