//! Files in the shape of those that shops, schools, page caches and panels of hosts write, with other names.

use super::products::products;

/// As WP Super Cache: a page of the cache by host, cookie and scheme, and its folder's own file.
#[test]
fn a_cache_of_pages() {
    const TEXT: &str = "# BEGIN WPSuperCache\n<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteBase /\n\
        AddDefaultCharset UTF-8\nRewriteCond %{REQUEST_URI} !^.*[^/]$\nRewriteCond %{REQUEST_URI} !^.*//.*$\n\
        RewriteCond %{REQUEST_METHOD} !POST\nRewriteCond %{QUERY_STRING} ^$\n\
        RewriteCond %{HTTP:Cookie} !^.*(comment_author_|known_|postpass_).*$\n\
        RewriteCond %{HTTP:X-Profile} !^[a-z0-9\\\"]+ [NC]\nRewriteCond %{HTTPS} !on\n\
        RewriteCond %{DOCUMENT_ROOT}/kept/%{SERVER_NAME}/$1/index.html -f\n\
        RewriteRule ^(.*) \"/kept/%{SERVER_NAME}/$1/index.html\" [L]\n</IfModule>\n# END WPSuperCache\n\
        <IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteBase /\nRewriteRule ^index\\.php$ - [L]\n\
        RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</IfModule>\n";
    const FOLDER: &str = "<IfModule mod_mime.c>\n<FilesMatch \"\\.html\\.gz$\">\nForceType text/html\n\
        FileETag None\n</FilesMatch>\nAddEncoding gzip .gz\nAddType text/html .gz\n</IfModule>\n\
        <IfModule mod_headers.c>\nHeader set Vary \"Accept-Encoding, Cookie\"\n\
        Header set Cache-Control 'max-age=3, must-revalidate'\n</IfModule>\n\
        <IfModule mod_expires.c>\nExpiresActive On\nExpiresByType text/html A3\n</IfModule>\nOptions -Indexes\n";
    products(
        &[
            (".htaccess", TEXT),
            ("kept/.htaccess", FOLDER),
            ("kept/localhost/post/index.html", "a kept post"),
            ("kept/localhost//index.html", "a kept home page"),
        ],
        &[
            "GET /post/",
            "GET /post",
            "GET /post/?a=b",
            "POST /post/\n\nx",
            "GET /post/\nCookie: known_x=1",
            "GET /post/\nX-Profile: \"abc\"",
            "GET /post/\nHost: other.example",
            "GET /",
            "GET /other/",
            "GET /kept/localhost/post/index.html",
            "GET /kept/",
        ],
    );
}

/// As Wordfence: a program that PHP runs first, in sections for each kind of PHP, and its file closed.
#[test]
fn a_firewall_of_an_application() {
    const TEXT: &str = "# Firewall\n<IfModule mod_php5.c>\nphp_value auto_prepend_file '/srv/firewall.php'\n</IfModule>\n\
        <IfModule mod_php7.c>\nphp_value auto_prepend_file '/srv/firewall.php'\n</IfModule>\n\
        <IfModule mod_php.c>\nphp_value auto_prepend_file '/srv/firewall.php'\n</IfModule>\n\
        <IfModule LiteSpeed>\nphp_value auto_prepend_file '/srv/firewall.php'\n</IfModule>\n\
        <IfModule lsapi_module>\nphp_value auto_prepend_file '/srv/firewall.php'\n</IfModule>\n\
        <Files \".user.ini\">\n<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n\
        <IfModule !mod_authz_core.c>\nOrder deny,allow\nDeny from all\n</IfModule>\n</Files>\n# END Firewall\n";
    const LOGS: &str = "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n\
        <IfModule !mod_authz_core.c>\nOrder deny,allow\nDeny from all\n</IfModule>\n";
    products(
        &[
            (".htaccess", TEXT),
            (".user.ini", "auto_prepend_file = '/srv/firewall.php'"),
            ("wflogs/.htaccess", LOGS),
            ("wflogs/rules.php", "rules"),
        ],
        &["GET /", "GET /a.txt", "GET /.user.ini", "GET /wflogs/rules.php", "GET /wflogs/", "GET /index.php"],
    );
}

/// As PrestaShop: pictures by number at short paths, a web service, fonts with a field, and the front controller.
#[test]
fn a_shop_with_pictures() {
    const TEXT: &str = "<IfModule mod_rewrite.c>\n<IfModule mod_env.c>\nSetEnv HTTP_MOD_REWRITE On\n</IfModule>\n\
        RewriteEngine on\nRewriteRule . - [E=REWRITEBASE:/]\n\
        RewriteRule ^api(?:/(.*))?$ %{ENV:REWRITEBASE}service/dispatch.php?url=$1 [QSA,L]\n\
        RewriteRule ^upload/.+$ %{ENV:REWRITEBASE}index.php [QSA,L]\n\
        RewriteRule ^([0-9])(\\-[_a-zA-Z0-9-]*)?(-[0-9]+)?/.+\\.jpg$ %{ENV:REWRITEBASE}img/p/$1/$1$2$3.jpg [L]\n\
        RewriteRule ^([0-9])([0-9])(\\-[_a-zA-Z0-9-]*)?(-[0-9]+)?/.+\\.jpg$ %{ENV:REWRITEBASE}img/p/$1/$2/$1$2$3$4.jpg [L]\n\
        RewriteRule ^c/([0-9]+)(\\-[\\.*_a-zA-Z0-9-]*)(-[0-9]+)?/.+\\.jpg$ %{ENV:REWRITEBASE}img/c/$1$2$3.jpg [L]\n\
        RewriteCond %{REQUEST_FILENAME} -s [OR]\nRewriteCond %{REQUEST_FILENAME} -l [OR]\n\
        RewriteCond %{REQUEST_FILENAME} -d\nRewriteRule ^.*$ - [NC,L]\n\
        RewriteRule ^.*$ %{ENV:REWRITEBASE}index.php [NC,L]\n</IfModule>\n\
        AddType application/vnd.ms-fontobject .eot\nAddType font/woff .woff\n\
        <IfModule mod_headers.c>\n<FilesMatch \"\\.(ttf|otf|woff|svg)$\">\nHeader set Access-Control-Allow-Origin \"*\"\n\
        </FilesMatch>\n<FilesMatch \"\\.pdf$\">\nHeader set Content-Disposition \"Attachment\"\n\
        Header set X-Content-Type-Options \"nosniff\"\n</FilesMatch>\n</IfModule>\n\
        <Files composer.lock>\n<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n</Files>\n\
        <IfModule mod_expires.c>\nExpiresActive On\nAddType image/webp .webp\nExpiresByType image/jpeg \"access plus 1 month\"\n\
        ExpiresByType text/css \"access plus 1 week\"\n</IfModule>\n\
        <IfModule mod_deflate.c>\n<IfModule mod_filter.c>\nAddOutputFilterByType DEFLATE text/html text/css\n</IfModule>\n\
        </IfModule>\nErrorDocument 404 /index.php?controller=404\n";
    products(
        &[
            (".htaccess", TEXT),
            ("img/p/1/1-home.jpg", "picture 1"),
            ("img/p/1/2/12-home.jpg", "picture 12"),
            ("img/c/3-medium.jpg", "category 3"),
            ("service/dispatch.php", "service"),
            ("fonts/a.woff", "font"),
            ("terms.pdf", "terms"),
            ("composer.lock", "lock"),
        ],
        &[
            "GET /1-home/name-of-it.jpg",
            "GET /12-home/name.jpg",
            "GET /c/3-medium/name.jpg",
            "GET /7-home/none.jpg",
            "GET /api/products?id=1",
            "GET /api",
            "GET /upload/x.php",
            "GET /fonts/a.woff",
            "GET /terms.pdf",
            "GET /composer.lock",
            "GET /category/page?x=1",
            "GET /style.css",
            "GET /",
            "GET /sub/",
        ],
    );
}

/// As Moodle: files by a program with a path behind it, folders that no client may see, limits of uploads.
#[test]
fn a_school() {
    const TEXT: &str = "AcceptPathInfo On\nAddDefaultCharset utf-8\nDirectoryIndex index.php index.html\n\
        LimitRequestBody 0\n<IfModule mod_php.c>\nphp_value max_input_vars 5000\nphp_value upload_max_filesize 100M\n\
        php_flag register_globals off\n</IfModule>\n\
        ErrorDocument 403 /error.html\nErrorDocument 404 /error.html\nOptions -Indexes\n\
        RedirectMatch 404 /\\.git\nRedirectMatch 404 (?i)/(composer\\.json|readme\\.txt|upgrade\\.txt|package\\.json)\n\
        RewriteEngine On\nRewriteRule \"(^|/)\\.(?!well-known\\/)\" - [F]\n\
        RewriteRule \"(\\/vendor\\/|\\/node_modules\\/|\\/classes\\/)\" - [F]\n\
        RewriteRule \"^lib/(classes|vendor)(/|$)\" - [F]\n";
    products(
        &[
            (".htaccess", TEXT),
            ("file.php", "a file"),
            ("lib/classes/x.php", "class"),
            ("mod/vendor/x.txt", "vendor"),
            ("readme.txt", "read me"),
            ("mod/README.TXT", "read me, too"),
        ],
        &[
            "GET /",
            "GET /file.php",
            "GET /.git/config",
            "GET /readme.txt",
            "GET /mod/README.TXT",
            "GET /lib/classes/x.php",
            "GET /lib/classes",
            "GET /mod/vendor/x.txt",
            "GET /.env",
            "GET /.well-known/security.txt",
            "GET /bare/",
            "GET /none",
            "POST /file.php\n\nbody",
        ],
    );
}

/// As cPanel: handlers of PHP by a generated section, protected folders, redirects with a host, blocked addresses.
#[test]
fn a_panel_that_writes_sections() {
    const TEXT: &str = "RewriteEngine on\nRewriteCond %{HTTP_HOST} ^old\\.example\\.com$ [OR]\n\
        RewriteCond %{HTTP_HOST} ^www\\.old\\.example\\.com$\n\
        RewriteRule ^/?$ \"https\\:\\/\\/example\\.com\\/\" [R=301,L]\n\
        RewriteCond %{HTTP_REFERER} !^http://localhost/.*$      [NC]\nRewriteCond %{HTTP_REFERER} !^$\n\
        RewriteRule .*\\.(jpg|jpeg|gif|png|bmp)$ - [F,NC]\n\
        <Limit GET HEAD POST>\norder allow,deny\nallow from all\ndeny from 192.0.2.7\ndeny from 198.51.100.0/24\n</Limit>\n\
        # BEGIN cPanel-generated php ini directives, do not edit\n<IfModule php8_module>\nphp_flag display_errors Off\n\
        php_value memory_limit 128M\n</IfModule>\n<IfModule lsapi_module>\nphp_flag display_errors Off\n</IfModule>\n\
        # END cPanel-generated php ini directives, do not edit\nIndexIgnore *\nOptions -Indexes\n\
        AddType application/x-download .bin\nErrorDocument 404 /error.html\n";
    products(
        &[(".htaccess", TEXT), ("picture.jpg", "picture"), ("x.bin", "program")],
        &[
            "GET /\nHost: old.example.com",
            "GET /\nHost: www.old.example.com",
            "GET /a.txt\nHost: old.example.com",
            "GET /picture.jpg",
            "GET /picture.jpg\nReferer: http://other.example/",
            "GET /picture.jpg\nReferer: http://localhost/page\nHost: localhost:%%PORT%%",
            "GET /x.bin",
            "GET /bare/",
            "GET /none",
            "PUT /a.txt\n\nx",
        ],
    );
}

/// As Drupal: everything that its file has, with compressed forms of styles and scripts.
#[test]
fn a_content_system_with_compressed_forms() {
    const TEXT: &str = "<FilesMatch \"\\.(engine|inc|install|make|module|po|sh|.*sql|theme|twig|yml)(~|\\.sw[op]|\\.bak)?$|^(\\.(?!well-known).*|Entries.*|composer\\.(json|lock))$|^#.*#$\">\n\
        <IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n<IfModule !mod_authz_core.c>\nOrder allow,deny\n</IfModule>\n</FilesMatch>\n\
        Options -Indexes\nDirectoryIndex index.php index.html index.htm\nAddType image/svg+xml svg svgz\nAddEncoding gzip svgz\n\
        <IfModule mod_expires.c>\nExpiresActive On\nExpiresDefault A1209600\n<FilesMatch \\.php$>\nExpiresActive Off\n</FilesMatch>\n</IfModule>\n\
        <IfModule !mod_rewrite.c>\nFallbackResource /index.php\n</IfModule>\n<IfModule mod_rewrite.c>\nRewriteEngine on\nRewriteRule ^ - [E=protossl]\n\
        RewriteCond %{HTTPS} on\nRewriteRule ^ - [E=protossl:s]\nRewriteRule \"/\\.|^\\.(?!well-known/)\" - [F]\n\
        RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_URI} !=/favicon.ico\n\
        RewriteRule ^ index.php [L]\nRewriteCond %{REQUEST_URI} !/core/[^/]*\\.php$\n\
        RewriteCond %{REQUEST_URI} !/core/modules/system/tests/https?\\.php\nRewriteRule \"^(.+/.*|autoload)\\.php($|/)\" - [F]\n\
        <IfModule mod_headers.c>\nRewriteCond %{HTTP:Accept-encoding} gzip\nRewriteCond %{REQUEST_FILENAME}\\.gz -s\n\
        RewriteRule ^(.*css_[a-zA-Z0-9-_]+)\\.css$ $1\\.css\\.gz [QSA]\n\
        RewriteRule \\.css\\.gz$ - [T=text/css,E=no-gzip:1,E=no-brotli:1]\n\
        <FilesMatch \"(\\.js\\.gz|\\.css\\.gz)$\">\nHeader set Content-Encoding gzip\nHeader append Vary Accept-Encoding\n</FilesMatch>\n\
        </IfModule>\n</IfModule>\n<IfModule mod_headers.c>\nHeader always set X-Content-Type-Options nosniff\nHeader unset Proxy\n</IfModule>\n";
    products(
        &[
            (".htaccess", TEXT),
            ("files/css_abc-1.css", "p {}"),
            ("files/css_abc-1.css.gz", "not really gzip"),
            ("core/install.php", "install"),
            ("core/lib/x.php", "x"),
            ("site.module", "module"),
            ("dump.sql", "sql"),
            ("a.yml.bak", "yml"),
            ("picture.svg", "<svg/>"),
        ],
        &[
            "GET /",
            "GET /node/1?x=y",
            "GET /files/css_abc-1.css",
            "GET /files/css_abc-1.css\nAccept-Encoding: gzip",
            "GET /core/install.php",
            "GET /core/lib/x.php",
            "GET /autoload.php",
            "GET /site.module",
            "GET /dump.sql",
            "GET /a.yml.bak",
            "GET /composer.json",
            "GET /.git/HEAD",
            "GET /picture.svg",
            "GET /favicon.ico",
            "GET /style.css",
            "GET /bare/",
        ],
    );
}
