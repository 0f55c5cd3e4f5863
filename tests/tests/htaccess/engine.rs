//! Folders in which no program may run: `php_flag engine off`, mostly in sections for mod_php. Each file has the shape
//! of one that a product writes or ships.

use tempfile::TempDir;
use tests::apache::{Apache, have_apache};
use tests::binary::Server;
use tests::php::{Php, have_php};
use tests::site::Site;

/// As Drupal writes for files of users: a handler that nothing knows, and the engine off.
const DRUPAL: &str = "Options -Indexes -ExecCGI -Includes -MultiViews\n\
    SetHandler Nothing_runs_here_see_the_advisory_of_2006\n<Files *>\n\
    SetHandler Nothing_runs_here_see_the_advisory_of_2013\n</Files>\n\
    <IfModule mod_php.c>\nphp_flag engine off\n</IfModule>\n<IfModule mod_php5.c>\nphp_flag engine off\n</IfModule>\n\
    <IfModule mod_php7.c>\nphp_flag engine off\n</IfModule>\n";

/// As Drupal's private files: closed for all clients, with the same protection below.
const DRUPAL_PRIVATE: &str = "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n\
    <IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>\n";

/// As Wordfence writes for uploads, for each kind of PHP.
const WORDFENCE: &str = "# BEGIN protection against code\n<IfModule mod_php5.c>\nphp_flag engine 0\n</IfModule>\n\
    <IfModule mod_php7.c>\nphp_flag engine 0\n</IfModule>\n<IfModule mod_php.c>\nphp_flag engine 0\n</IfModule>\n\
    \nAddHandler cgi-script .php .phtml .pl .py .cgi\nOptions -ExecCGI\n# END protection against code\n";

/// As Magento's folder for media: missing pictures come from a program outside of it, some kinds of files are closed.
const MAGENTO: &str = "Options -Indexes\n<IfModule mod_php5.c>\nphp_flag engine 0\n</IfModule>\n\
    <IfModule mod_php7.c>\nphp_flag engine 0\n</IfModule>\n\nAddHandler cgi-script .php .pl .py .cgi\nOptions -ExecCGI\n\
    <IfModule mod_rewrite.c>\nOptions +FollowSymLinks\nRewriteEngine on\nRewriteCond %{REQUEST_FILENAME} !-f\n\
    RewriteRule .* ../make.php [L]\n</IfModule>\n\
    <IfModule mod_setenvif.c>\n<IfModule mod_headers.c>\n<FilesMatch \"\\.(ico|svg)$\">\n\
    Header set Access-Control-Allow-Origin \"*\"\n</FilesMatch>\n</IfModule>\n</IfModule>\n\
    <FilesMatch \"\\.(xml|csv)$\">\n<IfVersion < 2.4>\norder allow,deny\ndeny from all\n</IfVersion>\n\
    <IfVersion >= 2.4>\nRequire all denied\n</IfVersion>\n</FilesMatch>\n";

/// As MediaWiki's folder for images: no types guessed, no program.
const MEDIAWIKI: &str = "<IfModule rewrite_module>\nRewriteEngine On\n\
    RewriteCond %{QUERY_STRING} \\.[^\\\\/:*?\\x22<>|%]+(#|\\?|$) [nocase]\nRewriteRule . - [forbidden]\n</IfModule>\n\
    <IfModule headers_module>\nHeader set X-Content-Type-Options nosniff\n</IfModule>\n\
    <IfModule php7_module>\nphp_flag engine off\n</IfModule>\n<IfModule php_module>\nphp_flag engine off\n</IfModule>\n";

/// The folders and their files.
const FOLDERS: [(&str, &str); 8] = [
    ("drupal", DRUPAL),
    ("wordfence", WORDFENCE),
    ("magento", MAGENTO),
    ("mediawiki", MEDIAWIKI),
    ("panel", "<IfModule lsapi_module>\nphp_flag engine off\n</IfModule>\n"),
    ("plain", "php_flag engine off\n"),
    ("valued", "php_value engine 0\n"),
    ("named", "<Files \"*.php\">\nphp_flag engine off\n</Files>\n"),
];

fn site(php: &Php) -> Site {
    let configuration = format!(
        r"server {{
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            htaccess on;
            types {{ text/plain txt; }}
            location ~ \.php(/|$) {{
                fastcgi_split_path_info ^(.+?\.php)(/.*)$;
                fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                fastcgi_param REQUEST_METHOD $request_method;
                fastcgi_pass {};
            }}
        }}",
        php.address()
    );
    let site = Site::new(&configuration)
        .file("make.php", "<?php echo 'made';")
        .file("private/.htaccess", DRUPAL_PRIVATE)
        .file("private/a.txt", "a")
        .file(
            "some/.htaccess",
            "<IfModule mod_php.c>\n<Files x>\nphp_flag engine off\n</Files>\n</IfModule>\n",
        );
    FOLDERS.iter().fold(site, |site, (folder, text)| {
        site.file(&format!("{folder}/.htaccess"), text)
            .file(&format!("{folder}/a.txt"), "a")
            .file(&format!("{folder}/a.xml"), "x")
            .file(&format!("{folder}/evil.php"), "<?php echo 'evil';")
            .file(&format!("{folder}/deep/evil.php"), "<?php echo 'evil';")
            .file(&format!("{folder}/on/.htaccess"), "php_flag engine on\n")
            .file(&format!("{folder}/on/good.php"), "<?php echo 'good';")
    })
}

#[test]
fn no_program_runs_in_folders_without_an_engine() {
    if !have_php() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    let running = site(&php).start(Server::Fulmar);
    let status = |path: &str| running.ask(&format!("GET {path}")).last().status;
    for (folder, _) in FOLDERS {
        assert_eq!(status(&format!("/{folder}/a.txt")), 200, "{folder}");
        for program in ["evil.php", "deep/evil.php", "evil.php/more"] {
            assert_eq!(status(&format!("/{folder}/{program}")), 403, "{folder}/{program}");
        }
    }
    for folder in ["mediawiki", "panel", "plain", "valued"] {
        let inner = running.ask(&format!("GET /{folder}/on/good.php"));
        assert_eq!(inner.last().text(), "good", "{folder}: an inner file switches the engine on");
    }
    assert_eq!(running.ask("GET /magento/none.png").last().text(), "made", "from outside of the folder");
    assert_eq!(status("/some/x"), 500, "only for some files: the section is not understood");
    running.wait_for_log("error.log", "\"php_flag engine off\" of a .htaccess file");
    running.stop();
}

/// Apache has no mod_php here, so it skips the sections; what is no program is served alike.
#[test]
fn the_rest_of_such_folders_is_served_as_in_apache() {
    if !have_php() || !have_apache() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    let site = site(&php);
    let handler =
        format!("<FilesMatch \"\\.php$\">\nSetHandler \"proxy:fcgi://{}\"\n</FilesMatch>\n", php.address());
    let apache = Apache::start_with(&site, &handler);
    let fulmar = site.start(Server::Fulmar);
    for folder in ["drupal", "wordfence", "magento", "mediawiki", "panel", "private"] {
        for path in ["a.txt", "a.xml", "none.txt", "a.txt?x=a.html", ""] {
            let request = format!("GET /{folder}/{path}");
            let (expected, got) = (apache.ask(&request), fulmar.ask(&request));
            let shown = |answer: &tests::client::Answer| {
                let last = answer.last();
                let sniff = last.field("X-Content-Type-Options").map(str::to_owned);
                (last.status, sniff, if last.status == 200 { last.text() } else { String::new() })
            };
            assert_eq!(shown(&got), shown(&expected), "{request}\n{}", fulmar.all_logs());
        }
    }
    fulmar.stop();
}
