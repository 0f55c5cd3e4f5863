//! Files and requests, on which both servers agree.

use super::agree;

#[test]
fn wordpress() {
    const TEXT: &str = "# BEGIN WordPress\n<IfModule mod_rewrite.c>\nRewriteEngine On\n\
        RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteBase /\n\
        RewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
        RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</IfModule>\n# END WordPress\n";
    agree(
        &[(".htaccess", TEXT)],
        &[
            "GET /",
            "GET /hello-world/",
            "GET /index.php",
            "GET /a.txt",
            "GET /2024/01/post?x=1",
            "GET /sub\nHost: localhost:%%PORT%%",
            "GET /sub/",
            "GET /sub/missing",
            "GET /index.php/path/info",
            "HEAD /nothing",
            "GET /bare/",
            "GET /with%20space.txt",
        ],
    );
}

#[test]
fn wordpress_in_a_folder() {
    const TEXT: &str = "RewriteEngine On\nRewriteBase /blog/\nRewriteRule ^index\\.php$ - [L]\n\
        RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /blog/index.php [L]\n";
    agree(
        &[("blog/.htaccess", TEXT), ("blog/index.php", "blog"), ("blog/x.txt", "x")],
        &[
            "GET /blog/",
            "GET /blog/post",
            "GET /blog/x.txt",
            "GET /other",
            "GET /blog\nHost: localhost:%%PORT%%",
        ],
    );
}

#[test]
fn laravel() {
    const TEXT: &str = "<IfModule mod_rewrite.c>\n    <IfModule mod_negotiation.c>\n        Options -MultiViews -Indexes\n\
        </IfModule>\n\n    RewriteEngine On\n\n    # Handle Authorization Header\n\
        RewriteCond %{HTTP:Authorization} .\n    RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\n\n\
        # Redirect Trailing Slashes If Not A Folder...\n    RewriteCond %{REQUEST_FILENAME} !-d\n\
        RewriteCond %{REQUEST_URI} (.+)/$\n    RewriteRule ^ %1 [L,R=301]\n\n    # Send Requests To Front Controller...\n\
        RewriteCond %{REQUEST_FILENAME} !-d\n    RewriteCond %{REQUEST_FILENAME} !-f\n    RewriteRule ^ index.php [L]\n\
        </IfModule>\n";
    agree(
        &[(".htaccess", TEXT)],
        &[
            "GET /",
            "GET /users",
            "GET /users/\nHost: localhost:%%PORT%%",
            "GET /users/5/?x=1&y=2\nHost: localhost:%%PORT%%",
            "GET /a.txt",
            "GET /sub/",
            "GET /login\nAuthorization: Bearer x",
            "GET /sub/deep/none",
        ],
    );
}

#[test]
fn symfony() {
    const TEXT: &str = "DirectoryIndex index.php\n<IfModule mod_negotiation.c>\nOptions -MultiViews\n</IfModule>\n\
        <IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteCond %{REQUEST_URI}::$0 ^(/.+)/(.*)::\\2$\n\
        RewriteRule .* - [E=BASE:%1]\nRewriteCond %{HTTP:Authorization} .+\n\
        RewriteRule ^ - [E=HTTP_AUTHORIZATION:%0]\nRewriteCond %{ENV:REDIRECT_STATUS} =\"\"\n\
        RewriteRule ^index\\.php(?:/(.*)|$) %{ENV:BASE}/$1 [R=301,L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
        RewriteRule ^ %{ENV:BASE}/index.php [L]\n</IfModule>\n<IfModule !mod_rewrite.c>\n<IfModule mod_alias.c>\n\
        RedirectMatch 307 ^/$ /index.php/\n</IfModule>\n</IfModule>\n";
    agree(
        &[(".htaccess", TEXT)],
        &[
            "GET /",
            "GET /blog/5",
            "GET /index.php\nHost: localhost:%%PORT%%",
            "GET /index.php/x\nHost: localhost:%%PORT%%",
            "GET /a.txt",
            "GET /nothing?q=1",
        ],
    );
}

#[test]
fn drupal_like_rules() {
    const TEXT: &str = "<FilesMatch \"\\.(engine|inc|bak|sql|sh)$|^(\\..*|Entries.*)$\">\n\
        <IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n<IfModule !mod_authz_core.c>\nOrder allow,deny\n\
        </IfModule>\n</FilesMatch>\nOptions -Indexes\nErrorDocument 404 /error.html\nDirectoryIndex index.php index.html\n\
        AddType image/svg+xml svg svgz\n<IfModule mod_expires.c>\nExpiresActive On\nExpiresDefault A1209600\n\
        <FilesMatch \\.php$>\nExpiresActive Off\n</FilesMatch>\n</IfModule>\n<IfModule mod_rewrite.c>\nRewriteEngine on\n\
        RewriteRule \"/\\.|^\\.(?!well-known/)\" - [F]\nRewriteCond %{REQUEST_URI} ^(.*)?/(install\\.php) [OR]\n\
        RewriteCond %{REQUEST_URI} ^(.*)?/(rebuild\\.php)\nRewriteRule core %1/core/%2 [L]\n\
        RewriteRule ^(.+/.*|autoload)\\.php($|/) - [F]\n</IfModule>\n<IfModule mod_headers.c>\n\
        Header always set X-Content-Type-Options nosniff\n</IfModule>\n";
    agree(
        &[(".htaccess", TEXT)],
        &[
            "GET /",
            "GET /secret.bak",
            "GET /sub/x.php",
            "GET /autoload.php",
            "GET /.git/config",
            "GET /a.txt",
            "GET /missing",
            "GET /bare/",
            "GET /style.css",
            "GET /index.php",
            "GET /sub/",
        ],
    );
}

#[test]
fn flags_of_rules() {
    const TEXT: &str = "RewriteEngine on\nRewriteRule ^gone$ - [G]\nRewriteRule ^no$ - [F]\n\
        RewriteRule ^temp$ /a.txt [R]\nRewriteRule ^perm$ http://example.com/x [R=301,L]\n\
        RewriteRule ^url$ http://example.com/y\nRewriteRule ^see$ /a.txt?x=y [R=303,QSA]\n\
        RewriteRule ^discard$ /a.txt [R,QSD]\nRewriteRule ^empty$ /a.txt? [R]\nRewriteRule ^ne$ /a.txt#x%20y [R,NE]\n\
        RewriteRule ^esc$ /a.txt#x [R]\nRewriteRule ^CASE$ a.txt [NC,L]\nRewriteRule ^skip$ - [S=1]\n\
        RewriteRule ^skip$ - [F]\nRewriteRule ^skip$ b.txt [L]\nRewriteRule ^(chain)x$ $1 [C]\nRewriteRule ^chain$ a.txt [L]\n\
        RewriteRule ^(.*)_(.*)$ $1-$2 [N]\nRewriteRule ^x-y-z$ b.txt [L]\nRewriteRule !^[a-z./0-9-]*$ - [G]\n\
        RewriteRule ^end$ a.txt [END]\nRewriteRule ^pass$ /sub/a.txt [PT]\nRewriteRule ^status$ - [R=404]\n\
        RewriteRule ^q(\\d)$ page.html?n=$1 [QSA,L]\nRewriteRule ^own$ http://localhost:%{SERVER_PORT}/a.txt [L]\n\
        RewriteRule ^loop$ /loop2 [L]\nRewriteRule ^loop2$ /loop [L]\nRewriteRule ^space\\ here$ a.txt [L]\n\
        RewriteRule ^nested/(.*)$ sub/$1 [L]\nRewriteRule ^b(.*)!$ /a.txt?v=$1 [B,R]\n";
    agree(
        &[(".htaccess", TEXT)],
        &[
            "GET /gone",
            "GET /no",
            "GET /temp?q=1\nHost: localhost:%%PORT%%",
            "GET /perm",
            "GET /url?q",
            "GET /see?z=1\nHost: localhost:%%PORT%%",
            "GET /discard?a\nHost: localhost:%%PORT%%",
            "GET /empty?a\nHost: localhost:%%PORT%%",
            "GET /ne\nHost: localhost:%%PORT%%",
            "GET /esc\nHost: localhost:%%PORT%%",
            "GET /case",
            "GET /CaSe",
            "GET /skip",
            "GET /chainx",
            "GET /x_y_z",
            "GET /UPPER",
            "GET /end",
            "GET /pass",
            "GET /status",
            "GET /q5",
            "GET /own\nHost: localhost:%%PORT%%",
            "GET /loop",
            "GET /space%20here",
            "GET /nested/a.txt",
            "GET /nested/deep/a.txt",
            "GET /b%26%20c!\nHost: localhost:%%PORT%%",
        ],
    );
}

#[test]
fn conditions_of_rules() {
    const TEXT: &str = "RewriteEngine on\nRewriteCond %{QUERY_STRING} ^id=(\\d+)$\nRewriteRule ^id$ /%1 [R,QSD]\n\
        RewriteCond %{HTTP_HOST} ^www\\.(.+)$ [NC]\nRewriteRule ^ http://%1%{REQUEST_URI} [R=301,L]\n\
        RewriteCond %{REQUEST_METHOD} ^(TRACE|PUT)$\nRewriteRule .* - [F]\n\
        RewriteCond %{HTTP_USER_AGENT} bad [NC,OR]\nRewriteCond %{HTTP_REFERER} ^http://spam\\.\nRewriteRule ^a\\.txt$ - [F]\n\
        RewriteCond %{HTTP_COOKIE} theme=dark\nRewriteRule ^page\\.html$ b.txt [L]\n\
        RewriteCond %{REQUEST_URI} =/equal\nRewriteRule ^ a.txt [L]\nRewriteCond %{HTTPS} off\nRewriteCond %{HTTP:X-Test} >m\n\
        RewriteRule ^greater$ a.txt [L]\nRewriteCond %{HTTP:X-Test} !=\"\"\nRewriteCond %{HTTP:X-Num} -ge5\nRewriteRule ^num$ b.txt [L]\n\
        RewriteCond %{THE_REQUEST} \\s/secret\\s\nRewriteRule ^ - [G]\nRewriteCond %{DOCUMENT_ROOT}/sub/$1.txt -f\n\
        RewriteRule ^in/(\\w+)$ sub/$1.txt [L]\nRewriteCond %{REQUEST_SCHEME}://%{SERVER_NAME}%{REQUEST_URI} ^http://localhost/scheme$\n\
        RewriteRule ^ a.txt [L]\nRewriteCond %{REQUEST_FILENAME} -d\nRewriteCond %{REQUEST_FILENAME} !/sub/?$\nRewriteRule /$ a.txt [L]\n\
        RewriteCond %{ENV:FLAG} yes\nRewriteRule ^flag$ a.txt [L]\nSetEnvIf X-Flag (y.*) FLAG=$1\n";
    agree(
        &[(".htaccess", TEXT)],
        &[
            "GET /id?id=7\nHost: localhost:%%PORT%%",
            "GET /id?id=x",
            "GET /some/where?x=1\nHost: WWW.example.com",
            "PUT /a.txt\n\nx",
            "GET /a.txt\nUser-Agent: BadBot",
            "GET /a.txt\nReferer: http://spam.example/",
            "GET /a.txt",
            "GET /page.html\nCookie: theme=dark",
            "GET /page.html",
            "GET /equal",
            "GET /greater\nX-Test: z",
            "GET /greater\nX-Test: a",
            "GET /num\nX-Test: 1\nX-Num: 10",
            "GET /num\nX-Test: 1\nX-Num: 4",
            "GET /secret",
            "GET /in/a",
            "GET /in/none",
            "GET /scheme",
            "GET /bare/",
            "GET /sub/",
            "GET /flag\nX-Flag: yes",
            "GET /flag",
        ],
    );
}

#[test]
fn inner_directories_count_over_outer_ones() {
    const OUTER: &str = "RewriteEngine on\nRewriteRule ^(.*)moved$ /b.txt [L]\nHeader set X-Outer 1\nHeader set X-Both outer\n\
        ErrorDocument 404 \"outer text\"\nRequire all granted\nDirectoryIndex a.txt\n";
    const INNER: &str = "RewriteRule ^moved$ a.txt [L]\nHeader set X-Both inner\n";
    const DEEP: &str =
        "ErrorDocument 404 \"deep text\"\nRequire all denied\n<Files a.txt>\nRequire all granted\n</Files>\n";
    agree(
        &[(".htaccess", OUTER), ("sub/.htaccess", INNER), ("sub/deep/.htaccess", DEEP)],
        &[
            "GET /moved",
            "GET /sub/moved",
            "GET /sub/deep/moved",
            "GET /bare/moved",
            "GET /missing",
            "GET /sub/missing",
            "GET /sub/deep/missing",
            "GET /sub/deep/a.txt",
            "GET /a.txt",
            "GET /sub/a.txt",
            "GET /sub/",
            "GET /sub/deep/",
            "GET /bare/",
        ],
    );
}

#[test]
fn access() {
    let granted = "<RequireAll>\nRequire all granted\nRequire not ip 10.0.0.0/8\n</RequireAll>\n";
    let any = "<RequireAny>\nRequire ip 10\nRequire local\n</RequireAny>\n";
    let none = "<RequireAll>\nRequire all granted\n<RequireNone>\nRequire ip 127.0.0.1\n</RequireNone>\n</RequireAll>\n";
    let env = "SetEnvIf X-Key ^open$ key\nRequire env key\n";
    let method = "Require method GET POST\n";
    let old_deny = "Order allow,deny\nDeny from all\n";
    let old_allow = "order deny,allow\ndeny from all\nallow from 127.0.0.1\n";
    let old_env =
        "SetEnvIf User-Agent Bad bad_bot\nOrder Allow,Deny\nAllow from all\nDeny from env=bad_bot\n";
    let limit = "<Limit POST>\nRequire all denied\n</Limit>\n";
    let network = "Order deny,allow\nDeny from 127.0.0.0/255.0.0.0\n";
    let names: Vec<(String, &str)> =
        ["all", "any", "none", "env", "method", "deny", "allow", "oldenv", "limit", "net"]
            .into_iter()
            .map(|name| format!("{name}/.htaccess"))
            .zip([granted, any, none, env, method, old_deny, old_allow, old_env, limit, network])
            .collect();
    let files: Vec<(&str, &str)> = names.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let pages: Vec<(String, &str)> =
        names.iter().map(|(path, _)| (path.replace(".htaccess", "x.txt"), "x")).collect();
    let pages = pages.iter().map(|(path, text)| (path.as_str(), *text));
    let all: Vec<(&str, &str)> = files.into_iter().chain(pages).collect();
    agree(
        &all,
        &[
            "GET /all/x.txt",
            "GET /any/x.txt",
            "GET /none/x.txt",
            "GET /env/x.txt",
            "GET /env/x.txt\nX-Key: open",
            "GET /method/x.txt",
            "DELETE /method/x.txt",
            "GET /deny/x.txt",
            "GET /deny/missing",
            "GET /allow/x.txt",
            "GET /oldenv/x.txt\nUser-Agent: BadBot",
            "GET /oldenv/x.txt",
            "GET /limit/x.txt",
            "POST /limit/x.txt\n\nx",
            "GET /net/x.txt",
            "GET /.htaccess",
            "GET /any/.htaccess",
            "GET /.htpasswd",
        ],
    );
}

#[test]
fn fields_and_freshness() {
    const TEXT: &str = "ExpiresActive On\nExpiresByType text/css \"access plus 1 month\"\nExpiresByType text/javascript A3600\n\
        ExpiresByType text/html \"access plus 0 seconds\"\nExpiresDefault \"now plus 2 days 3 hours\"\nHeader set X-One 1\nHeader add X-One 2\n\
        Header append X-Two a\nHeader append X-Two b\nHeader merge X-Two a\nHeader setifempty X-Two c\nHeader setifempty X-Three c\n\
        Header set X-Gone x\nHeader unset X-Gone\nHeader always set X-Always yes\nHeader set X-Percent \"100%%\"\n\
        <FilesMatch \"\\.(css|js)$\">\nHeader append Cache-Control public\n</FilesMatch>\nSetEnvIf Request_URI \"a\\.txt\" NAME=value\n\
        Header set X-Env \"is %{NAME}e\" env=NAME\nHeader set X-Not-Env yes env=!NAME\nHeader unset Last-Modified\n\
        <Files \"b.*\">\nForceType text/css\nHeader set Content-Disposition attachment\n</Files>\nAddType text/x-page .html\nFileETag None\n";
    agree(
        &[(".htaccess", TEXT)],
        &[
            "GET /style.css",
            "GET /script.js",
            "GET /page.html",
            "GET /a.txt",
            "GET /b.txt",
            "GET /missing",
            "GET /sub\nHost: localhost:%%PORT%%",
            "HEAD /style.css",
            "GET /style.css\nIf-None-Match: \"x\"",
        ],
    );
}

#[test]
fn redirects() {
    const TEXT: &str = "Redirect 301 /old.html /new.html\nRedirect /dir http://example.com/there\nRedirect gone /gone\n\
        Redirect permanent /p https://example.org/p\nRedirectMatch 302 ^/m/(.*)\\.gif$ http://img.example.com/$1.png\n\
        RedirectPermanent /rp http://example.com/\nRedirectTemp /rt http://example.com/q?x\nRedirectMatch 404 \"^/hidden\"\nRedirect seeother /so /a.txt\n";
    agree(
        &[(".htaccess", TEXT)],
        &[
            "GET /old.html\nHost: localhost:%%PORT%%",
            "GET /old.html/x\nHost: localhost:%%PORT%%",
            "GET /old.htmlx",
            "GET /dir",
            "GET /dir/a%20b?q=1",
            "GET /directory",
            "GET /gone/x",
            "GET /p?a=b",
            "GET /m/x%20y.gif?q",
            "GET /rp",
            "GET /rt?z",
            "GET /hidden/a",
            "GET /so\nHost: localhost:%%PORT%%",
        ],
    );
}

#[test]
fn redirects_beside_rules() {
    const TEXT: &str = "RewriteEngine on\nRewriteRule ^private/r$ http://example.com/rule [R=302]\n\
        RewriteRule ^private/url$ http://example.com/rule\nRewriteRule ^private/f$ - [F]\nRewriteRule ^private/g$ - [G]\n\
        RewriteRule ^private/s$ - [R=404]\nRewriteRule ^private/none$ - [L]\nRewriteRule ^private/end$ public/a.txt [END]\n\
        RewriteRule ^private/pass$ /public/a.txt [PT]\nRewriteRule ^private/same$ private/same [L]\n\
        RewriteRule ^to$ /gone/x [L]\nRewriteRule ^to-end$ /gone/x [END]\nRewriteRule ^args$ public/a.txt?rule=1 [QSA,L]\n\
        RewriteRule ^private/(.*)$ public/$1 [L]\nRewriteRule ^gone/a$ a.txt [L]\nRewriteRule ^moved/(.*)$ public/$1\n\
        RewriteRule ^open/(.*)$ public/$1 [L]\nRedirectMatch 403 ^/private\nRedirect gone /gone\n\
        Redirect 301 /moved http://example.com/alias\nRedirect 302 /args http://example.com/args\n";
    const SUB: &str = "RewriteEngine on\nRewriteRule ^(.*)$ /public/$1 [L]\n";
    agree(
        &[
            (".htaccess", TEXT),
            ("public/a.txt", "public"),
            ("public/r", "public"),
            ("public/pass", "public"),
            ("private/a.txt", "private"),
            ("private/sub/.htaccess", SUB),
            ("moved/a.txt", "moved"),
        ],
        &[
            "GET /private/a.txt",
            "GET /private/r",
            "GET /private/url",
            "GET /private/f",
            "GET /private/g",
            "GET /private/s",
            "GET /private/none",
            "GET /private/end",
            "GET /private/pass",
            "GET /private/same",
            "GET /private/sub/a.txt",
            "GET /private",
            "GET /open/a.txt",
            "GET /to",
            "GET /to-end",
            "GET /gone/a",
            "GET /gone/b",
            "GET /moved/a.txt",
            "GET /moved/a.txt?q=1",
            "GET /args?q=1",
            "GET /a.txt",
        ],
    );
}

#[test]
fn documents_of_errors() {
    const TEXT: &str = "ErrorDocument 404 /error.html\nErrorDocument 403 \"Keep out.\"\nErrorDocument 410 http://example.com/gone\n\
        RewriteEngine on\nRewriteRule ^no$ - [F]\nRewriteRule ^gone$ - [G]\nHeader set X-Set 1\nHeader always set X-Always 1\n";
    const SUB: &str = "ErrorDocument 404 default\nErrorDocument 403 /nothing.html\n<Files a.txt>\nDeny from all\n</Files>\n";
    agree(
        &[(".htaccess", TEXT), ("sub/.htaccess", SUB)],
        &["GET /missing", "GET /no", "GET /gone", "GET /sub/missing", "HEAD /missing"],
    );
}

#[test]
fn directories() {
    agree(
        &[
            ("sub/.htaccess", "DirectoryIndex none.html a.txt\n"),
            ("bare/.htaccess", "Options +Indexes\n"),
            ("off/.htaccess", "Options -Indexes\n"),
            ("dis/.htaccess", "DirectoryIndex disabled\nOptions Indexes\n"),
            ("dis/index.html", "x"),
            ("abs/.htaccess", "DirectoryIndex none.html /a.txt\n"),
            ("one/.htaccess", "options All -Indexes\n"),
            ("two/.htaccess", "Options -Indexes FollowSymLinks\n"),
        ],
        &[
            "GET /sub/",
            "GET /bare/",
            "GET /off/",
            "GET /dis/",
            "GET /abs/",
            "GET /one/",
            "GET /two/",
            "GET /sub/deep\nHost: localhost:%%PORT%%",
            "GET /sub\nHost: localhost:%%PORT%%",
        ],
    );
}

#[test]
fn mistakes_close_their_directory() {
    agree(
        &[
            ("name/.htaccess", "NoSuchDirective on\n"),
            ("name/deep/a.txt", "x"),
            ("regex/.htaccess", "RewriteEngine on\nRewriteRule ( - [F]\n"),
            ("regex/a.txt", "x"),
            ("flag/.htaccess", "RewriteRule a b [XX]\n"),
            ("flag/a.txt", "x"),
            ("require/.htaccess", "Require nobody\n"),
            ("require/a.txt", "x"),
            ("not/.htaccess", "Require not ip 10\n"),
            ("not/a.txt", "x"),
            ("php/.htaccess", "php_flag display_errors on\n"),
            ("php/a.txt", "x"),
            ("skipped/.htaccess", "<IfModule mod_php5.c>\nphp_flag x on\n</IfModule>\n"),
            ("skipped/a.txt", "fine"),
            ("fifo/a.txt", "x"),
            ("folder/.htaccess/x", ""),
            ("folder/a.txt", "x"),
        ],
        &[
            "GET /name/deep/a.txt",
            "GET /regex/a.txt",
            "GET /flag/a.txt",
            "GET /require/a.txt",
            "GET /not/a.txt",
            "GET /php/a.txt",
            "GET /skipped/a.txt",
            "GET /a.txt",
            "GET /folder/a.txt",
        ],
    );
}

#[test]
fn versions() {
    let conditions = [
        ">= 2.4",
        "< 2.4",
        "2.4",
        "= 2.4",
        "!= 2.4",
        "> 2",
        ">= 3",
        "<= 2.4",
        "!<= 2.4",
        "= /^2\\.4/",
        "~ ^2\\.5",
        "!~ ^2",
        "> 2.4.100",
        "< 2.5.0",
        "== 2.4.0",
    ];
    let section = |(at, condition)| format!("<IfVersion {condition}>\nHeader set X-{at} yes\n</IfVersion>\n");
    let text: String = conditions.into_iter().enumerate().map(section).collect();
    agree(&[(".htaccess", &text)], &["GET /a.txt"]);
}

#[test]
fn sections_that_are_skipped() {
    let files = [
        (
            "grants/.htaccess",
            "<IfModule mod_cern_meta.c>\nRequire all granted\nOrder allow,deny\nAllow from all\n</IfModule>\n",
        ),
        ("older/.htaccess", "<IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>\n"),
        (
            "inner/.htaccess",
            "<IfModule mod_cern_meta.c>\n<IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>\n</IfModule>\n",
        ),
        ("third/.htaccess", "<IfModule mod_php5.c>\nphp_flag x on\n</IfModule>\n"),
        ("missing/.htaccess", "<IfModule !mod_cern_meta.c>\nDeny from all\n</IfModule>\n"),
        ("tuned/.htaccess", "<IfModule mod_deflate.c>\nSetOutputFilter DEFLATE\n</IfModule>\n"),
        (
            "named/.htaccess",
            "<IfDefine NAME>\nHeader set X-A b\n</IfDefine>\n<IfDefine !NAME>\nHeader set X-B b\n</IfDefine>\n",
        ),
    ];
    let pages: Vec<String> = files.iter().map(|(path, _)| path.replace(".htaccess", "a.txt")).collect();
    let all: Vec<(&str, &str)> =
        files.into_iter().chain(pages.iter().map(|path| (path.as_str(), "x"))).collect();
    let requests: Vec<String> = pages.iter().map(|path| format!("GET /{path}")).collect();
    agree(&all, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn joomla_like_rules() {
    const TEXT: &str = "<IfModule mod_autoindex.c>\n  IndexIgnore *\n</IfModule>\n<IfModule mod_headers.c>\n\
        Header always set X-Content-Type-Options \"nosniff\"\n</IfModule>\nOptions +FollowSymlinks\nOptions -Indexes\n\
        RewriteEngine On\nRewriteCond %{QUERY_STRING} base64_encode[^(]*\\([^)]*\\) [OR]\n\
        RewriteCond %{QUERY_STRING} (<|%3C)([^s]*s)+cript.*(>|%3E) [NC,OR]\n\
        RewriteCond %{QUERY_STRING} GLOBALS(=|\\[|\\%[0-9A-Z]{0,2}) [OR]\n\
        RewriteCond %{QUERY_STRING} _REQUEST(=|\\[|\\%[0-9A-Z]{0,2})\nRewriteRule .* index.php [F]\n\
        RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteCond %{REQUEST_URI} !^/index\\.php\n\
        RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule .* index.php [L]\n";
    agree(
        &[(".htaccess", TEXT)],
        &[
            "GET /",
            "GET /article/1",
            "GET /a.txt?x=%3Cscript%3E",
            "GET /a.txt?GLOBALS[x]=1",
            "GET /a.txt?x=base64_encode(x)",
            "GET /a.txt",
            "GET /bare/",
        ],
    );
}

#[test]
fn character_sets() {
    const TEXT: &str = "AddDefaultCharset UTF-8\nAddCharset windows-1252 .css html\n";
    agree(
        &[
            (".htaccess", TEXT),
            ("sub/.htaccess", "AddDefaultCharset Off\n"),
            ("bare/.htaccess", "AddDefaultCharset On\n"),
        ],
        &[
            "GET /a.txt",
            "GET /style.css",
            "GET /page.html",
            "GET /script.js",
            "GET /sub/a.txt",
            "GET /bare/a.txt",
            "GET /missing",
        ],
    );
}

#[test]
fn odd_spellings() {
    let files = [
        ("crlf/.htaccess", "RewriteEngine On\r\nRewriteRule ^x$ a.txt [L]\r\nHeader set X-A b\r\n"),
        ("bom/.htaccess", "\u{feff}Header set X-A b\n"),
        ("open/.htaccess", "Header set X-A b"),
        (
            "line/.htaccess",
            "Header set \\\n  X-A \\\n\tb\nRewriteEngine \\\nOn\nRewriteRule ^x$ \\\n a.txt\n",
        ),
        ("last/.htaccess", "Header set X-A b\\\n"),
        ("tabs/.htaccess", "\t HEADER\tSET\tX-A\t\"b c\"\t\n\n   \n# comment \\\nHeader set X-B c\n"),
        (
            "quotes/.htaccess",
            "Header set X-A 'b \"c\" d'\nHeader set X-B \"b \\\"c\\\" 'd'\"\nHeader set X-C \"\"\n",
        ),
        ("behind/.htaccess", "Header set X-A b # comment\n"),
        (
            "case/.htaccess",
            "<ifmodule MOD_HEADERS.C>\nheader Set X-A b\n</IFMODULE>\n<IfModule mod_headers.c>\nHeader set X-B c\n</IfModule>\n",
        ),
        (
            "nested/.htaccess",
            "<IfModule mod_rewrite.c>\n<IfModule !mod_none.c>\n<IfModule mod_none.c>\nNonsense on\n<IfModule x>\n</IfModule>\n</IfModule>\nHeader set X-A b\n</IfModule>\n</IfModule>\n",
        ),
        (
            "files/.htaccess",
            "<Files \"a.txt\">\nHeader set X-A b\n</Files>\n<Files ~ \"^A\\.\">\nHeader set X-B c\n</Files>\n<FilesMatch \"(?i)^A\\.\">\nHeader set X-C d\n</FilesMatch>\n<Files ?.t*>\nHeader set X-D e\n</Files>\n",
        ),
        (
            "escaped/.htaccess",
            "RewriteEngine On\nRewriteRule ^with\\ space$ a.txt [L]\nRewriteRule \"^with two$\" \"a.txt\" [L]\nRewriteRule ^\\$dollar$ a.txt [L]\nRewriteRule ^plus\\+$ a.txt\n",
        ),
        (
            "flags/.htaccess",
            "RewriteEngine On\nRewriteRule ^X$ a.txt [nc,l]\nRewriteRule ^y$ a.txt [ L , NC ]\nRewriteRule ^z$ a.txt []\n",
        ),
        ("empty/.htaccess", ""),
        ("blank/.htaccess", "\n\n\n"),
        ("closed/.htaccess", "</IfModule>\n"),
        ("crossed/.htaccess", "<IfModule mod_headers.c>\n<Files a.txt>\n</IfModule>\n</Files>\n"),
        ("nameless/.htaccess", "<IfModule>\n</IfModule>\n"),
        ("engine/.htaccess", "RewriteEngine maybe\n"),
        ("few/.htaccess", "RewriteEngine On\nRewriteRule ^x$\n"),
        ("many/.htaccess", "RewriteEngine On\nRewriteRule ^x$ a b c d\n"),
        ("condition/.htaccess", "RewriteEngine On\nRewriteCond %{REQUEST_URI}\nRewriteRule x y\n"),
        ("alone/.htaccess", "RewriteEngine On\nRewriteCond %{REQUEST_URI} x\n"),
        ("status/.htaccess", "ErrorDocument 999 /x\n"),
        ("group/.htaccess", "RewriteEngine On\nRewriteRule (a $1\n"),
        ("unicode/.htaccess", "Header set X-A \"ünïcode\"\n"),
    ];
    let pages: Vec<String> = files.iter().map(|(path, _)| path.replace(".htaccess", "a.txt")).collect();
    let all: Vec<(&str, &str)> =
        files.into_iter().chain(pages.iter().map(|path| (path.as_str(), "page"))).collect();
    let mut requests: Vec<String> = pages.iter().map(|path| format!("GET /{path}")).collect();
    for path in [
        "crlf/x",
        "line/x",
        "escaped/with%20space",
        "escaped/with%20two",
        "escaped/$dollar",
        "escaped/plus+",
        "flags/x",
        "flags/Y",
        "flags/z",
        "alone/none",
    ] {
        requests.push(format!("GET /{path}"));
    }
    agree(&all, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_wall_of_rules() {
    const TEXT: &str = "<IfModule mod_rewrite.c>\nRewriteEngine On\n\
        RewriteCond %{REQUEST_METHOD} ^(connect|debug|delete|move|put|trace|track) [NC]\nRewriteRule .* - [F]\n\
        RewriteCond %{QUERY_STRING} (eval\\() [NC,OR]\nRewriteCond %{QUERY_STRING} (127\\.0\\.0\\.1) [NC,OR]\n\
        RewriteCond %{QUERY_STRING} ([a-z0-9]{2000,}) [NC,OR]\nRewriteCond %{QUERY_STRING} (javascript:)(.*)(;) [NC,OR]\n\
        RewriteCond %{QUERY_STRING} (\\\\|\\.\\.\\.|\\.\\./|~|`|<|>|\\|) [NC,OR]\nRewriteCond %{QUERY_STRING} (\"|%22|'|%27) [NC]\n\
        RewriteRule .* - [F]\nRewriteCond %{HTTP_REFERER} ([a-z0-9]{2000,}) [NC,OR]\n\
        RewriteCond %{HTTP_REFERER} (semalt\\.com|todaperfeita) [NC]\nRewriteRule .* - [F]\n\
        RewriteCond %{THE_REQUEST} \\?.*\\?\nRewriteRule .* - [G]\n</IfModule>\n\
        <IfModule mod_alias.c>\nRedirectMatch 403 (?i)([a-z0-9]{2000,})\nRedirectMatch 403 (?i)(https?|ftp|php):/\n\
        RedirectMatch 403 (?i)(,|;|=`)/?$\nRedirectMatch 403 (?i)/(\\$(\\&)?|\\*|\\\"|\\.|,|&)/?$\n\
        RedirectMatch 403 (?i)\\.(aspx?|bash|bak?|cfg|cgi|dll|exe|git|ini|jsp|log|mdb|out|sql|svn|swp|tar)$\n</IfModule>\n\
        <IfModule mod_setenvif.c>\nSetEnvIfNoCase User-Agent ([a-z0-9]{2000,}) bad_bot\n\
        SetEnvIfNoCase User-Agent (archive.org|binlar|casper|checkpriv) bad_bot\nSetEnvIfNoCase ^X-Scan.*$ . bad_bot\n\
        <IfModule !mod_authz_core.c>\nOrder Allow,Deny\nAllow from all\nDeny from env=bad_bot\n</IfModule>\n\
        <IfModule mod_authz_core.c>\n<RequireAll>\nRequire all Granted\nRequire not env bad_bot\n</RequireAll>\n</IfModule>\n</IfModule>\n";
    let long = format!("GET /a.txt?{}", "a".repeat(2100));
    let agent = format!("GET /a.txt\nUser-Agent: {}", "a".repeat(2100));
    agree(
        &[(".htaccess", TEXT)],
        &[
            "GET /a.txt",
            "DELETE /a.txt",
            "GET /a.txt?x=eval(1)",
            "GET /a.txt?x=127.0.0.1",
            "GET /a.txt?x=127a0a0a1",
            "GET /a.txt?JavaScript:x;",
            "GET /a.txt?../x",
            "GET /a.txt?a%22",
            "GET /a.txt?a=b?c",
            "GET /a.txt\nReferer: http://semalt.com/",
            "GET /http:/x",
            "GET /dir,",
            "GET /secret.BAK",
            "GET /x/*",
            "GET /a.txt\nUser-Agent: xCasperx",
            "GET /a.txt\nX-Scanner: 1",
            &long,
            &agent,
        ],
    );
}
