//! Files in the shape of those that products ship or write: each combines directives as the product does, with other
//! names and patterns.

use super::{agree_on, site, with_host};

/// What these files use of Apache besides what is always there.
const MODULES: [&str; 3] = ["filter", "deflate", "negotiation"];

pub(super) fn products(files: &[(&str, &str)], requests: &[&str]) {
    let named =
        |request: &&str| if request.contains("Host:") { (*request).to_owned() } else { with_host(request) };
    let requests: Vec<String> = requests.iter().map(named).collect();
    agree_on(site(files), &MODULES, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

/// As Nextcloud: headers by page and by kind of file, hidden folders, endpoints after well-known paths.
#[test]
fn a_file_store() {
    const TEXT: &str = "<IfModule mod_headers.c>
<IfModule mod_setenvif.c>
<IfModule mod_fcgid.c>
SetEnvIfNoCase ^Authorization$ \"(.+)\" XAUTH=$1
RequestHeader set XAuth %{XAUTH}e env=XAUTH
</IfModule>
<IfModule mod_proxy_fcgi.c>
SetEnvIfNoCase Authorization \"(.+)\" HTTP_AUTHORIZATION=$1
</IfModule>
</IfModule>
<IfModule mod_env.c>
<If \"%{REQUEST_URI} =~ m#/sign-in$#\">
Header onsuccess unset Referrer-Policy
Header always set Referrer-Policy \"same-origin\"
</If>
<Else>
Header onsuccess unset Referrer-Policy
Header always set Referrer-Policy \"no-referrer\"
</Else>
Header onsuccess unset X-Frame-Options
Header always set X-Frame-Options \"SAMEORIGIN\"
SetEnv headersAreThere true
</IfModule>
<FilesMatch \"\\.(css|js|svg)$\">
<If \"%{QUERY_STRING} =~ /(^|&)rev=/\">
Header set Cache-Control \"max-age=31000000, immutable\"
</If>
<Else>
Header set Cache-Control \"max-age=31000000\"
</Else>
</FilesMatch>
</IfModule>
<IfModule mod_php.c>
php_value default_charset 'UTF-8'
</IfModule>
<IfModule mod_mime.c>
AddType image/svg+xml svg svgz
AddEncoding gzip svgz
</IfModule>
<IfModule mod_dir.c>
DirectoryIndex index.html index.php
</IfModule>
<IfModule unknown_speed_module>
ModSpeed Off
</IfModule>
<IfModule mod_rewrite.c>
RewriteEngine on
RewriteRule .* - [env=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteCond %{HTTP_USER_AGENT} OldDavClient
RewriteRule ^$ /sub/ [L,R=302]
RewriteRule ^\\.well-known/files /sub/dav/ [R=301,L]
RewriteRule ^(?:private|lib)/.* - [R=404,L]
RewriteRule ^\\.well-known/(?!challenge|pki) /index.html [L]
RewriteRule ^(?:\\.(?!well-known)|console|db_).* - [R=404,L]
</IfModule>
<IfModule mod_setenvif.c>
SetEnvIfNoCase Transfer-Encoding \"chunked\" proxy-sendcl=1
</IfModule>
<IfModule mod_env.c>
SetEnv trust_length
</IfModule>
AddDefaultCharset utf-8
Options -Indexes
";
    products(
        &[(".htaccess", TEXT), ("sign-in", "in"), ("lib/a.txt", "hidden"), ("i.svg", "<svg/>")],
        &[
            "GET /",
            "GET /sign-in",
            "GET /a.txt",
            "GET /style.css",
            "GET /style.css?rev=3",
            "GET /style.css?a=1&rev=3",
            "GET /i.svg",
            "GET /lib/a.txt",
            "GET /.well-known/files",
            "GET /.well-known/other",
            "GET /.well-known/challenge/x",
            "GET /.hidden",
            "GET /console",
            "GET /bare/",
            "GET /\nUser-Agent: OldDavClient/1",
        ],
    );
}

/// As TYPO3: the folder of the site kept in a variable, versions in file names, one pattern over all that is hidden.
#[test]
fn a_content_system_in_any_folder() {
    const TEXT: &str = "<IfModule mod_deflate.c>
<IfModule mod_setenvif.c>
<IfModule mod_headers.c>
SetEnvIfNoCase ^(X-cept-Encoding|X{15}|~{15})$ ^((gzip|deflate)\\s*,?\\s*)+|[X~-]{4,13}$ HAVE_ENC
RequestHeader append Accept-Encoding \"gzip,deflate\" env=HAVE_ENC
</IfModule>
</IfModule>
</IfModule>
<IfModule mod_expires.c>
ExpiresActive On
ExpiresDefault \"access plus 1 month\"
ExpiresByType text/css \"access plus 1 year\"
ExpiresByType text/html \"access plus 0 seconds\"
</IfModule>
<IfModule mod_mime.c>
RemoveType .html .htm
<FilesMatch \".+\\.html?$\">
AddType text/html .html .htm
</FilesMatch>
AddCharset utf-8 .css .js
</IfModule>
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteCond $0#%{REQUEST_URI} ([^#]*)#(.*)\\1$
RewriteRule ^.*$ - [E=BASE_DIR:%2]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule ^(.+)\\.(\\d+)\\.(js|css|png)$ %{ENV:BASE_DIR}$1.$3 [L]
RewriteRule _(?:trash|tmp)_/ - [F]
RewriteCond %{REQUEST_URI} \"!(^|/)\\.well-known/([^./]+./?)+$\" [NC]
RewriteCond %{SCRIPT_FILENAME} -d [OR]
RewriteCond %{SCRIPT_FILENAME} -f
RewriteRule (?:^|/)\\. - [F]
RewriteRule ^(?:uploads/|assets/) - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteCond %{REQUEST_FILENAME} !-l
RewriteRule ^.*$ %{ENV:BASE_DIR}index.html [QSA,L]
</IfModule>
<IfModule !mod_authz_core.c>
<FilesMatch \"(?i:^\\.|~)$\">
Order allow,deny
Deny from all
Satisfy All
</FilesMatch>
</IfModule>
<IfModule mod_authz_core.c>
<If \"%{REQUEST_URI} =~ m#(?i:/\\.|/\\x23.*\\x23|/(?:ToDo|License)(?:\\.md|\\.txt)?|\\.(?:bak|ya?ml)|.*~)$#\">
Require all denied
</If>
</IfModule>
<IfModule mod_alias.c>
RedirectMatch 404 /\\.(?:git|hg)/
</IfModule>
Options -MultiViews
<IfModule mod_headers.c>
Header set X-UA-Compatible \"IE=edge\"
<FilesMatch \"\\.(css|js|png)$\">
Header unset X-UA-Compatible
</FilesMatch>
Header unset ETag
</IfModule>
FileETag None
";
    products(
        &[
            (".htaccess", TEXT),
            ("cms/.htaccess", TEXT),
            ("cms/index.html", "cms"),
            ("cms/style.css", "p {}"),
            ("cms/notes.yaml", "hidden"),
            ("cms/License.txt", "hidden"),
            ("cms/.git/config", "hidden"),
            ("cms/uploads/a.txt", "a"),
        ],
        &[
            "GET /",
            "GET /cms/",
            "GET /cms/page/1?x=y",
            "GET /cms/style.1234.css",
            "GET /cms/style.css",
            "GET /style.9.css",
            "GET /cms/notes.yaml",
            "GET /cms/License.txt",
            "GET /cms/license.txt",
            "GET /cms/.git/config",
            "GET /cms/uploads/a.txt",
            "GET /cms/uploads/none",
            "GET /cms/a_tmp_/b",
            "GET /cms/page~",
        ],
    );
}

/// As the page caches of WordPress: a file of the cache by cookie, scheme and coding, found by variables.
#[test]
fn a_page_cache() {
    const TEXT: &str = "<IfModule mod_deflate.c>
<IfModule mod_setenvif.c>
BrowserMatch ^Oldzilla/4 gzip-only-text/html
BrowserMatch ^Oldzilla/4\\.0[678] no-gzip
BrowserMatch \\bMSI[E] !no-gzip !gzip-only-text/html
</IfModule>
<IfModule mod_headers.c>
Header append Vary User-Agent env=!dont-vary
</IfModule>
</IfModule>
<FilesMatch \"\\.(css|js)$\">
FileETag MTime Size
<IfModule mod_headers.c>
Header set Pragma \"public\"
Header append Cache-Control \"public\"
</IfModule>
</FilesMatch>
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteBase /
RewriteCond %{HTTPS} =on
RewriteRule .* - [E=PC_SSL:_ssl]
RewriteCond %{HTTP:Accept-Encoding} gzip
RewriteRule .* - [E=PC_ENC:_gzip]
RewriteCond %{HTTP_COOKIE} preview [NC]
RewriteRule .* - [E=PC_PRE:_preview]
RewriteCond %{REQUEST_METHOD} !=POST
RewriteCond %{QUERY_STRING} =\"\"
RewriteCond %{REQUEST_URI} \\/$
RewriteCond %{HTTP_COOKIE} !(author|logged_in|postpass) [NC]
RewriteCond \"%{DOCUMENT_ROOT}/cache/%{HTTP_HOST}/%{REQUEST_URI}/_page%{ENV:PC_SSL}%{ENV:PC_PRE}.html%{ENV:PC_ENC}\" -f
RewriteRule .* \"/cache/%{HTTP_HOST}/%{REQUEST_URI}/_page%{ENV:PC_SSL}%{ENV:PC_PRE}.html%{ENV:PC_ENC}\" [L]
RewriteRule ^index\\.html$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.html [L]
</IfModule>
<files config.txt>
order allow,deny
deny from all
</files>
";
    products(
        &[
            (".htaccess", TEXT),
            ("cache/localhost/post/_page.html", "kept"),
            ("cache/localhost/post/_page_preview.html", "kept preview"),
            ("config.txt", "secret"),
        ],
        &[
            "GET /post/\nHost: localhost",
            "GET /post/?a\nHost: localhost",
            "POST /post/\nHost: localhost",
            "GET /post/\nHost: localhost\nCookie: logged_in=1",
            "GET /post/\nHost: localhost\nCookie: preview=1",
            "GET /post\nHost: localhost",
            "GET /post/\nHost: other",
            "GET /config.txt\nHost: localhost",
            "GET /style.css\nHost: localhost",
            "GET /a.txt\nHost: localhost\nUser-Agent: Oldzilla/4.07",
        ],
    );
}

/// As phpBB, Matomo, OpenCart and Magento: access by version of Apache, by name, and by what is not a robots file.
#[test]
fn access_in_many_spellings() {
    const FORUM: &str = "<IfModule mod_version.c>
<IfVersion < 2.4>
<Files \"config.txt\">
Order Allow,Deny
Deny from All
</Files>
</IfVersion>
<IfVersion >= 2.4>
<Files \"config.txt\">
Require all denied
</Files>
</IfVersion>
</IfModule>
<IfModule !mod_version.c>
<IfModule !mod_authz_core.c>
<Files \"config.txt\">
Order Allow,Deny
Deny from All
</Files>
</IfModule>
</IfModule>
<IfModule mod_negotiation.c>
Options -MultiViews
</IfModule>
";
    const STATISTICS: &str = "<IfModule mod_version.c>
<IfVersion >= 2.4>
Require all denied
</IfVersion>
<IfVersion < 2.4>
Deny from all
</IfVersion>
</IfModule>
<Files ~ \"\\.(css|js|html)$\">
Require all granted
</Files>
";
    const SHOP: &str = "Options +FollowSymlinks
Options -Indexes
<FilesMatch \"(?i)((\\.tpl|\\.ini|(?<!robots)\\.txt))\">
 Require all denied
</FilesMatch>
RewriteEngine On
RewriteBase /shop/
RewriteRule ^map.xml$ index.html?route=map [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteCond %{REQUEST_URI} !.*\\.(ico|png|css)
RewriteRule ^([^?]*) index.html?_route_=$1 [L,QSA]
";
    const LARGE: &str = "DirectoryIndex index.html
<IfModule mod_php7.c>
php_value memory_limit 768M
</IfModule>
<IfModule mod_security.c>
SecFilterEngine Off
</IfModule>
<IfModule mod_rewrite.c>
Options +FollowSymLinks
RewriteEngine on
RewriteCond %{REQUEST_METHOD} ^TRAC[EK]
RewriteRule .* - [L,R=405]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteCond %{REQUEST_FILENAME} !-l
RewriteRule .* index.html [L]
</IfModule>
AddDefaultCharset Off
RedirectMatch 403 /\\.git
<Files deploy.json>
<IfVersion < 2.4>
order allow,deny
deny from all
</IfVersion>
<IfVersion >= 2.4>
Require all denied
</IfVersion>
</Files>
ErrorDocument 404 /error.html
ErrorDocument 403 /error.html
";
    products(
        &[
            ("forum/.htaccess", FORUM),
            ("forum/config.txt", "secret"),
            ("forum/a.txt", "a"),
            ("statistics/.htaccess", STATISTICS),
            ("statistics/a.txt", "secret"),
            ("statistics/a.css", "p {}"),
            ("shop/.htaccess", SHOP),
            ("shop/index.html", "shop"),
            ("shop/notes.txt", "secret"),
            ("shop/robots.txt", "robots"),
            ("large/.htaccess", LARGE),
            ("large/index.html", "large"),
            ("large/deploy.json", "secret"),
        ],
        &[
            "GET /forum/config.txt",
            "GET /forum/a.txt",
            "GET /statistics/a.txt",
            "GET /statistics/a.css",
            "GET /statistics/",
            "GET /shop/",
            "GET /shop/map.xml",
            "GET /shop/chairs/red?size=2",
            "GET /shop/none.png",
            "GET /shop/notes.txt",
            "GET /shop/NOTES.TXT",
            "GET /shop/robots.txt",
            "GET /large/",
            "GET /large/any/page",
            "GET /large/deploy.json",
            "GET /large/.git/config",
            "HEAD /large/any",
        ],
    );
}

/// As HTML5 Boilerplate and CodeIgniter: the scheme in a variable, headers by the type of the response, slashes at the
/// end.
#[test]
fn a_careful_site() {
    const TEXT: &str = "<IfModule mod_rewrite.c>
RewriteEngine On
RewriteCond %{HTTPS} =on
RewriteRule ^ - [env=scheme:https]
RewriteCond %{HTTPS} !=on
RewriteRule ^ - [env=scheme:http]
RewriteCond %{HTTP_HOST} ^www\\.(.+)$ [NC]
RewriteRule ^ %{ENV:SCHEME}://%1%{REQUEST_URI} [R=301,L]
RewriteCond %{REQUEST_FILENAME} !-d
RewriteCond %{REQUEST_URI} (.+)/$
RewriteRule ^ %1 [L,R=301]
RewriteCond %{REQUEST_METHOD} ^TRACE [NC]
RewriteRule .* - [R=405,L]
RewriteCond %{SCRIPT_FILENAME} -d [OR]
RewriteCond %{SCRIPT_FILENAME} -f
RewriteRule \"(^|/)\\.\" - [F]
</IfModule>
<IfModule mod_headers.c>
Header always set X-Frame-Options \"DENY\" \"expr=%{CONTENT_TYPE} =~ m#text/html#i\"
Header always set Content-Security-Policy \"default-src 'self'\" \"expr=%{CONTENT_TYPE} =~ m#text\\/(html|javascript)|xml#i\"
Header always set Strict-Transport-Security \"max-age=9\" \"expr=%{HTTPS} == 'on'\"
Header always unset X-Powered-By
Header merge Cache-Control \"no-transform\"
</IfModule>
<IfModule mod_authz_core.c>
<FilesMatch \"(^#.*#|\\.(bak|conf|sql|sw[op])|~)$\">
Require all denied
</FilesMatch>
</IfModule>
<IfModule mod_autoindex.c>
Options -Indexes
</IfModule>
<IfModule !mod_rewrite.c>
ErrorDocument 404 index.html
</IfModule>
ServerSignature Off
AddEncoding br .br
<FilesMatch \"\\.(?:html\\.br)$\">
RemoveLanguage .br
</FilesMatch>
";
    products(
        &[(".htaccess", TEXT), (".env", "secret"), ("dump.sql", "secret")],
        &[
            "GET /",
            "GET /page.html",
            "GET /script.js",
            "GET /style.css",
            "GET /a/b/",
            "GET /sub/",
            "GET /bare/",
            "GET /.env",
            "GET /dump.sql",
            "GET /secret.bak",
            "GET /a.txt\nHost: www.example.com",
            "GET /missing",
        ],
    );
}
