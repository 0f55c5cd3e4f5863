//! WordPress as Debian packages it, in a directory of a test, with a configuration of the test's own.

use std::fs;
use std::path::Path;

use crate::mariadb::MariaDb;
use crate::parts;

const SOURCES: &str = "/usr/share/wordpress";
const THEME: &str = "wp-content/themes/twentytwentythree";

/// While it is installed it asks its own site whether paths work, and would not wait long for a busy machine.
const PATIENCE: &str = "<?php
add_filter('http_request_args', fn($arguments) => ['timeout' => 60] + $arguments);
";

/// Whether there is a WordPress. Without one a line is printed, and in CI the test fails.
pub fn have_wordpress() -> bool {
    parts::is_present("WordPress", Path::new(SOURCES).join(THEME).exists())
}

/// Puts WordPress into an existing directory, to use the database that the parameter `DATABASE` names, as the user of
/// that name with that password.
pub fn place(directory: &Path, mariadb: &MariaDb) {
    copy(Path::new(SOURCES), directory);
    let configuration = format!(
        "<?php
define('DB_NAME', $_SERVER['DATABASE']);
define('DB_USER', DB_NAME);
define('DB_PASSWORD', DB_NAME);
define('DB_HOST', 'localhost:{socket}');
// It asks its own site, and nobody else.
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('DISABLE_WP_CRON', true);
$table_prefix = 'wp_';
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
",
        socket = mariadb.socket().display()
    );
    fs::write(directory.join("wp-config.php"), configuration).expect("configuration");
    let plugins = directory.join("wp-content/mu-plugins");
    fs::create_dir(&plugins).expect("plugins");
    fs::write(plugins.join("patience.php"), PATIENCE).expect("plugin");
}

/// Copies files, but for those whose names begin with a dot; links become what they lead to.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("sources") {
        let entry = entry.expect("sources");
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if source.is_dir() {
            fs::create_dir(&target).expect("directory");
            copy(&source, &target);
        } else {
            fs::copy(&source, &target).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        }
    }
}
