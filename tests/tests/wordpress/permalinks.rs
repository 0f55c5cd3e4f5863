//! The configurations of the manual's pages: an editor saves another form of the links, and a visitor opens a post.

use std::fs;

use tempfile::TempDir;
use tests::binary::Server;
use tests::browser::Browser;
use tests::manual::block_of_page;
use tests::mariadb::{MariaDb, have_mariadb};
use tests::php::{Php, have_php};
use tests::wordpress::{have_wordpress, place};

use super::{PERMALINKS, install, log_in, site};

/// A page, the heading of its configuration, and what it says in place of a test's address, directory and socket.
type OfPage = (&'static str, &'static str, [&'static str; 3]);

const PAGES: [OfPage; 3] = [
    ("applications.md", "WordPress", ["listen 8080;", "/srv/wordpress;", "/run/php/php-fpm.sock"]),
    ("from-apache.md", "From mod_php to PHP-FPM", ["listen 80;", "/srv/www/php;", "/run/php/php-fpm.sock"]),
    ("htaccess.md", "Example: WordPress", ["listen 80;", "/srv/www/wordpress;", "/run/php/php8.2-fpm.sock"]),
];

/// One installation for all of them: its address is that of the request.
const ADDRESS: &str = "define('WP_HOME', 'http://' . $_SERVER['HTTP_HOST']);\n\
    define('WP_SITEURL', WP_HOME);\n$table_prefix";

fn configuration((page, heading, written): OfPage) -> String {
    let [listen, root, socket] = written;
    let changes = [
        (listen, "listen 127.0.0.1:%%PORT%%; include mime.types;"),
        (root, "SOURCES;"),
        (socket, "SOCKET"),
        ("include fastcgi_params;", "include fastcgi_params; fastcgi_param DATABASE pages;"),
    ];
    changes.iter().fold(block_of_page(page, heading, "nginx"), |text, (from, to)| {
        assert!(text.contains(from), "docs/{page}: {from}");
        text.replace(from, to)
    })
}

#[test]
fn links_can_be_changed_with_the_configuration_of_each_page() {
    if !have_php() || !have_mariadb() || !have_wordpress() {
        return;
    }
    let directory = TempDir::with_prefix("wordpress-").unwrap();
    let mariadb = MariaDb::start(directory.path(), &["pages"]);
    let php = Php::start(directory.path());
    let sources = directory.path().join("sources");
    fs::create_dir(&sources).unwrap();
    place(&sources, &mariadb);
    let settings = sources.join("wp-config.php");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text.replace("$table_prefix", ADDRESS)).unwrap();
    let rules = sources.join(".htaccess");
    for (at, of_page) in PAGES.into_iter().enumerate() {
        let running = site(&configuration(of_page), &sources, &php).start(Server::Fulmar);
        let mut editor = Browser::new(running.address());
        if at == 0 {
            install(&mut editor);
        }
        log_in(&mut editor);
        for (structure, path) in [("", "/?p=1"), ("/%postname%/", "/hello-world/")] {
            let _ = fs::remove_file(&rules);
            save(&mut editor, structure);
            let post = Browser::new(running.address()).get(path);
            let is_shown = post.status == 200 && post.text().contains("Welcome to WordPress.");
            assert!(is_shown, "{}: {path}: {post}", of_page.0);
        }
        let written = fs::read_to_string(&rules).unwrap();
        assert!(written.contains("RewriteRule . /index.php [L]"), "{}: {written}", of_page.0);
        running.stop();
    }
}

/// Saves another form of links, by the page that offers the forms.
fn save(editor: &mut Browser, structure: &str) {
    let path = "/wp-admin/options-permalink.php";
    let page = editor.get(path);
    assert!(!page.text().contains("/index.php/"), "links without rules are offered: {page}");
    let filled = [("selection", structure), ("permalink_structure", structure), ("submit", "Save")];
    let saved = editor.submit(path, &page, PERMALINKS, &filled);
    let after = editor.redirect(&saved).unwrap_or_else(|| panic!("{saved}"));
    assert!(editor.get(&after).text().contains("Permalink structure updated"), "{after}");
}
