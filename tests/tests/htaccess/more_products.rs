//! More files in the shape of those that products ship or write, with other names.

use super::products::products;

/// As WordPress with several sites below paths: `/name/wp-…` leads to the one installation.
#[test]
fn several_sites_below_paths() {
    const TEXT: &str = "# BEGIN WordPress\nRewriteEngine On\nRewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\n\
        RewriteBase /\nRewriteRule ^index\\.php$ - [L]\n\n\
        # add a trailing slash to /wp-admin\nRewriteRule ^([_0-9a-zA-Z-]+/)?wp-admin$ $1wp-admin/ [R=301,L]\n\n\
        RewriteCond %{REQUEST_FILENAME} -f [OR]\nRewriteCond %{REQUEST_FILENAME} -d\nRewriteRule ^ - [L]\n\
        RewriteRule ^([_0-9a-zA-Z-]+/)?(wp-(content|admin|includes).*) $2 [L]\n\
        RewriteRule ^([_0-9a-zA-Z-]+/)?(.*\\.php)$ $2 [L]\nRewriteRule . index.php [L]\n# END WordPress\n";
    products(
        &[
            (".htaccess", TEXT),
            ("wp-admin/index.html", "admin"),
            ("wp-admin/users.php", "users"),
            ("wp-content/a.txt", "content"),
            ("wp-login.php", "login"),
        ],
        &[
            "GET /",
            "GET /shop/",
            "GET /shop/wp-admin",
            "GET /shop/wp-admin?x=1",
            "GET /wp-admin",
            "GET /shop/wp-admin/",
            "GET /shop/wp-admin/users.php?id=2",
            "GET /shop/wp-content/a.txt",
            "GET /wp-content/a.txt",
            "GET /wp-content/none.txt",
            "GET /shop/wp-content/none.txt",
            "GET /shop/wp-login.php",
            "GET /shop/deep/wp-login.php",
            "GET /shop/none.php",
            "GET /shop/a/post",
            "GET /sub",
            "GET /index.php",
            "POST /shop/wp-login.php\n\nlog=x",
        ],
    );
}

/// As WordPress with several sites by host.
#[test]
fn several_sites_by_host() {
    const TEXT: &str = "RewriteEngine On\nRewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\n\
        RewriteBase /\nRewriteRule ^index\\.php$ - [L]\n\n\
        RewriteRule ^wp-admin$ wp-admin/ [R=301,L]\n\n\
        RewriteCond %{REQUEST_FILENAME} -f [OR]\nRewriteCond %{REQUEST_FILENAME} -d\nRewriteRule ^ - [L]\n\
        RewriteRule ^(wp-(content|admin|includes).*) $1 [L]\nRewriteRule ^(.*\\.php)$ $1 [L]\nRewriteRule . index.php [L]\n";
    products(
        &[(".htaccess", TEXT), ("wp-admin/index.html", "admin"), ("wp-content/a.txt", "content")],
        &[
            "GET /\nHost: shop.example.com",
            "GET /wp-admin",
            "GET /wp-admin/",
            "GET /wp-content/a.txt\nHost: blog.example.com",
            "GET /wp-content/none.txt",
            "GET /none.php",
            "GET /a/post?x=1\nHost: blog.example.com",
            "GET /bare",
        ],
    );
}

/// As MediaWiki: short paths of pages, and folders that no client may see.
#[test]
fn a_wiki() {
    const TEXT: &str = "RewriteEngine On\nRewriteRule ^/?wiki(/.*)?$ %{DOCUMENT_ROOT}/index.php [L]\n\
        RewriteRule ^/?$ %{DOCUMENT_ROOT}/index.php [L]\n\
        RewriteRule ^/?images/thumb/[0-9a-f]/[0-9a-f][0-9a-f]/([^/]+)/([0-9]+)px-.*$ /thumb.php?f=$1&width=$2 [L,QSA,B]\n\
        <IfModule rewrite_module>\nRewriteCond %{QUERY_STRING} \\.[^\\\\/:*?\\x22<>|%]+(#|\\?|$) [nocase]\nRewriteRule ^q - [forbidden]\n</IfModule>\n";
    const IMAGES: &str = "# Protect against bug 28235\n<IfModule rewrite_module>\nRewriteEngine On\nRewriteOptions inherit\n\
        RewriteCond %{QUERY_STRING} \\.[^\\\\/:*?\\x22<>|%]+(#|\\?|$) [nocase]\nRewriteRule . - [forbidden]\n</IfModule>\n\
        <IfModule mod_headers.c>\n\
        Header set X-Content-Type-Options nosniff\n</IfModule>\nAddType text/plain .html .htm .shtml .phtml\n\
        RemoveHandler .php .phtml .php3\n";
    products(
        &[
            (".htaccess", TEXT),
            ("images/.htaccess", IMAGES),
            ("images/a.txt", "image"),
            ("images/page.html", "<b>not run</b>"),
            ("thumb.php", "thumb"),
            ("includes/.htaccess", "Require all denied\n"),
            ("includes/Setup.php", "secret"),
            ("cache/.htaccess", "Deny from all\n"),
            ("cache/x.txt", "secret"),
            ("skins/.htaccess", "<FilesMatch \"\\.(php|json)$\">\nRequire all denied\n</FilesMatch>\n"),
            ("skins/a.css", "css"),
            ("skins/a.json", "{}"),
        ],
        &[
            "GET /",
            "GET /wiki",
            "GET /wiki/Main_Page",
            "GET /wiki/A/B?action=edit",
            "GET /wikipedia",
            "GET /images/a.txt",
            "GET /images/a.txt?x.html",
            "GET /images/a.txt?x",
            "GET /images/page.html",
            "GET /images/thumb/a/ab/File%20name.png/120px-File.png",
            "GET /images/thumb/a/ab/x&y.png/120px-x.png?z=1",
            "GET /images/none",
            "GET /includes/Setup.php",
            "GET /includes/",
            "GET /includes/none",
            "GET /cache/x.txt",
            "GET /skins/a.css",
            "GET /skins/a.json",
            "GET /q?a.php",
        ],
    );
}

/// As CakePHP: the application is in a folder of the root, which has a file, too.
#[test]
fn an_application_in_a_folder() {
    const ROOT: &str = "<IfModule mod_rewrite.c>\nRewriteEngine on\nRewriteRule ^(\\.well-known/.*)$ $1 [L]\n\
        RewriteRule ^$ webroot/ [L]\nRewriteRule (.*) webroot/$1 [L]\n</IfModule>\n";
    const WEB: &str = "<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\n\
        RewriteRule ^ index.php [L]\n</IfModule>\n";
    products(
        &[
            (".htaccess", ROOT),
            ("webroot/.htaccess", WEB),
            ("webroot/index.php", "application"),
            ("webroot/css/a.css", "css"),
            (".well-known/x.txt", "known"),
        ],
        &[
            "GET /",
            "GET /articles/view/1?x=1",
            "GET /css/a.css",
            "GET /css",
            "GET /css/",
            "GET /css/none.css",
            "GET /webroot/css/a.css",
            "GET /webroot/",
            "GET /webroot",
            "GET /.well-known/x.txt",
            "GET /.well-known/none",
            "GET /index.php",
            "GET /a.txt",
            "POST /articles/add\n\ntitle=x",
        ],
    );
}

/// As Yii: a front controller, hidden files and folders of the framework.
#[test]
fn a_framework_that_hides_itself() {
    const TEXT: &str = "Options +FollowSymLinks\nIndexIgnore */*\nRewriteEngine on\n\n\
        # if a directory or a file exists, use it directly\nRewriteCond %{REQUEST_FILENAME} !-f\n\
        RewriteCond %{REQUEST_FILENAME} !-d\n# otherwise forward it to index.php\nRewriteRule . index.php\n";
    const PROTECTED: &str = "<IfModule authz_core_module>\nRequire all denied\n</IfModule>\n\
        <IfModule !authz_core_module>\ndeny from all\n</IfModule>\n";
    const WEB: &str = "RewriteEngine on\nRewriteRule ^\\.(?!well-known) - [F]\nRewriteCond %{REQUEST_URI} ^/web/admin(/.*)?$\n\
        RewriteRule ^admin(.*)$ admin/$1 [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . index.php [L]\n";
    products(
        &[
            (".htaccess", TEXT),
            ("protected/.htaccess", PROTECTED),
            ("protected/config.php", "secret"),
            ("web/.htaccess", WEB),
            ("web/index.php", "web"),
            ("web/admin/index.html", "admin"),
            ("web/.env", "secret"),
            ("listed/.htaccess", "Options +Indexes\nIndexIgnore *.bak\n"),
            ("listed/x.txt", "x"),
        ],
        &[
            "GET /",
            "GET /site/contact?x=1",
            "GET /a.txt",
            "GET /bare/",
            "GET /listed/",
            "GET /protected/config.php",
            "GET /protected/",
            "GET /protected/none",
            "GET /web/",
            "GET /web/post/1",
            "GET /web/.env",
            "GET /web/admin",
            "GET /web/admin/",
            "GET /web/admin/x",
        ],
    );
}

/// As phpMyAdmin: folders of libraries and templates, and a page for which only some hosts may ask.
#[test]
fn an_administration_of_databases() {
    const LIBRARIES: &str = "# This folder does NOT require access over HTTP\n# (the following directive denies access by default)\n\
        <IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n<IfModule !mod_authz_core.c>\nOrder allow,deny\nDeny from all\n</IfModule>\n";
    const SETUP: &str = "<IfModule mod_authz_core.c>\n<RequireAny>\nRequire ip 10.0.0.0/8\nRequire ip 127.0.0.1 ::1\n</RequireAny>\n\
        </IfModule>\n<IfModule mod_authn_core.c>\n<IfModule mod_authn_file.c>\n</IfModule>\n</IfModule>\n";
    const MAIN: &str = "<FilesMatch \"^(config\\.inc|.*\\.(sql|twig|md|lock))$\">\nRequire all denied\n</FilesMatch>\n\
        <IfModule mod_headers.c>\nHeader always set X-Robots-Tag \"noindex, nofollow\"\nHeader setifempty X-Frame-Options DENY\n</IfModule>\n\
        <IfModule mod_expires.c>\nExpiresActive on\nExpiresByType text/css \"access plus 1 week\"\nExpiresByType text/javascript \"access plus 1 week\"\n</IfModule>\n\
        DirectoryIndex index.php\n";
    products(
        &[
            ("dba/.htaccess", MAIN),
            ("dba/index.php", "login"),
            ("dba/style.css", "css"),
            ("dba/composer.lock", "{}"),
            ("dba/sql/create.sql", "create"),
            ("dba/libraries/.htaccess", LIBRARIES),
            ("dba/libraries/a.php", "library"),
            ("dba/setup/.htaccess", SETUP),
            ("dba/setup/index.php", "setup"),
            ("dba/far/.htaccess", "Require ip 192.0.2.0/24 2001:db8::/32\n"),
            ("dba/far/a.txt", "far"),
        ],
        &[
            "GET /dba",
            "GET /dba/",
            "GET /dba/index.php?db=x",
            "GET /dba/style.css",
            "GET /dba/composer.lock",
            "GET /dba/sql/create.sql",
            "GET /dba/sql/none.sql",
            "GET /dba/libraries/a.php",
            "GET /dba/libraries/none.php",
            "GET /dba/libraries/",
            "GET /dba/setup/",
            "GET /dba/far/a.txt",
        ],
    );
}

/// As Plesk: a protected folder, redirections to a host and a scheme, pages for errors, and handlers of PHP.
#[test]
fn a_panel_of_a_host() {
    const TEXT: &str = "#+PHPSETTINGS\n<IfModule mod_fcgid.c>\n<Files ~ (\\.fcgi)>\nSetHandler fcgid-script\nOptions +ExecCGI\n</Files>\n</IfModule>\n\
        <IfModule mod_php5.c>\nphp_admin_flag engine on\n</IfModule>\n#-PHPSETTINGS\n\
        ErrorDocument 400 /error_docs/bad_request.html\nErrorDocument 401 /error_docs/unauthorized.html\n\
        ErrorDocument 403 /error_docs/forbidden.html\nErrorDocument 404 /error_docs/not_found.html\n\
        ErrorDocument 500 /error_docs/internal_server_error.html\n\
        <IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteCond %{HTTP_HOST} ^www\\.(.*)$ [NC]\n\
        RewriteCond %{REQUEST_URI} !^/\\.well-known/acme-challenge\nRewriteRule ^(.*)$ http://%1/$1 [L,R=301]\n\
        RewriteCond %{HTTP:X-Forwarded-Proto} =http\nRewriteRule ^(.*)$ https://%{HTTP_HOST}%{REQUEST_URI} [L,R=302]\n</IfModule>\n\
        <Files ~ \"^\\.|~$|\\.(log|conf)$\">\nOrder allow,deny\nDeny from all\nSatisfy All\n</Files>\nOptions -Indexes +SymLinksIfOwnerMatch\n";
    products(
        &[
            (".htaccess", TEXT),
            ("error_docs/not_found.html", "nothing here"),
            ("error_docs/forbidden.html", "not for you"),
            (".well-known/acme-challenge/x.txt", "token"),
            ("app.log", "log"),
            ("old.txt~", "old"),
        ],
        &[
            "GET /",
            "GET /none",
            "GET /none/deep",
            "GET /app.log",
            "GET /old.txt~",
            "GET /bare/",
            "GET /.hidden",
            "GET /a/b?x=1\nHost: www.example.com",
            "GET /.well-known/acme-challenge/x.txt\nHost: www.example.com",
            "GET /a.txt\nX-Forwarded-Proto: http\nHost: example.com",
            "GET /a.txt\nX-Forwarded-Proto: https\nHost: example.com",
        ],
    );
}
