<?php
require_once __DIR__ . '/settings.php';
define('DB_NAME', 'lab');
define('DB_USER', 'lab');
define('DB_PASSWORD', 'lab');
define('DB_HOST', 'localhost:' . DATABASE_SOCKET);
// All servers answer alike, whatever their ports are.
define('WP_HOME', 'http://localhost');
define('WP_SITEURL', 'http://localhost');
// It asks no other site.
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('DISABLE_WP_CRON', true);
$table_prefix = 'wp_';
defined('ABSPATH') || define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
