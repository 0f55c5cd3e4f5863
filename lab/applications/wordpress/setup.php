<?php
// Copies WordPress, puts the lab's own files to where it looks for them, installs it, and writes ten posts.
const SOURCES = '/usr/share/wordpress';
const TEXT = 'A made-up post has as many words as a short note in a diary would have. ';

is_file(SOURCES . '/wp-load.php') || exit("there is no WordPress in " . SOURCES . "\n");
// Files that are here already stay.
passthru('cp --recursive --dereference --no-clobber ' . SOURCES . '/. .', $status);
$status === 0 || exit("WordPress cannot be copied\n");
mkdir('wp-content/mu-plugins');
rename('lab.php', 'wp-content/mu-plugins/lab.php');
rename('object-cache.php', 'wp-content/object-cache.php');

// The letter to the administrator.
function wp_mail()
{
    return true;
}

$_SERVER['HTTP_HOST'] = 'localhost';
define('WP_INSTALLING', true);
require __DIR__ . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install('A site of the lab', 'editor', 'editor@example.com', true, '', 'correct horse battery staple');
wp_installing(false);
foreach (range(1, 10) as $number) {
    $post = ['post_title' => "Post number $number", 'post_status' => 'publish',
        'post_date' => "2026-01-$number 12:00:00", 'post_content' => '<p>' . str_repeat(TEXT, 10) . '</p>'];
    is_int(wp_insert_post($post)) || exit("post $number cannot be written\n");
}
wp_cache_flush();
