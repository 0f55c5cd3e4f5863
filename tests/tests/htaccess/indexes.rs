//! Which file answers for a directory, and what rules do to it.

use super::agree_with_host;

#[test]
fn redirects_do_not_count_for_the_lookup_of_an_index() {
    const RULES: &str = "RewriteEngine on\nRewriteRule ^index\\.html$ /a.txt [R]\n\
        RewriteRule ^sub/index\\.html$ - [R=404]\nRewriteRule ^bare/index\\.html$ - [F]\n\
        RewriteRule ^passed/index\\.html$ b.txt [L]\nRewriteRule ^b\\.txt$ /page.html [R]\n";
    agree_with_host(
        &[(".htaccess", RULES), ("bare/index.html", "x"), ("passed/index.html", "x")],
        &[
            "GET /",
            "GET /sub/",
            "GET /bare/",
            "GET /passed/",
            "GET /index.html",
            "GET /sub/index.html",
            "GET /passed/index.html",
        ],
    );
}

#[test]
fn a_home_page_that_its_rules_redirect_to() {
    const SYMFONY: &str = "DirectoryIndex index.php\nRewriteEngine On\n\
        RewriteCond %{REQUEST_URI}::$0 ^(/.+)/(.*)::\\2$\nRewriteRule .* - [E=BASE:%1]\n\
        RewriteCond %{ENV:REDIRECT_STATUS} =\"\"\nRewriteRule ^index\\.php(?:/(.*)|$) %{ENV:BASE}/$1 [R=301,L]\n\
        RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ %{ENV:BASE}/index.php [L]\n";
    agree_with_host(
        &[(".htaccess", SYMFONY)],
        &["GET /", "GET /sub", "GET /sub/", "GET /bare", "GET /index.php", "GET /index.php/x", "GET /x/y"],
    );
}

#[test]
fn a_directory_gets_its_slash_before_a_rule_takes_effect() {
    const RULES: &str = "RewriteEngine on\nRewriteCond %{REQUEST_FILENAME} !-f\n\
        RewriteRule ^(.*)$ index.php?url=$1 [QSA,L]\n";
    const OFF: &str = "DirectorySlash Off\nRewriteEngine on\nRewriteRule ^ /index.php [L]\n";
    const NONE: &str = "DirectorySlash Off\nRewriteEngine off\n";
    agree_with_host(
        &[
            (".htaccess", RULES),
            ("off/.htaccess", OFF),
            ("off/in/a.txt", "a"),
            ("none/.htaccess", NONE),
            ("none/index.html", "none"),
        ],
        &[
            "GET /sub",
            "GET /sub?x=1",
            "GET /bare",
            "POST /bare\n\nx",
            "GET /off",
            "GET /off/in",
            "GET /none",
            "GET /none/",
        ],
    );
}

#[test]
fn an_index_that_is_refused_is_passed_over() {
    const DENIED: &str =
        "DirectoryIndex index.php index.html\n<Files index.php>\nRequire all denied\n</Files>\n";
    const OLD: &str = "DirectoryIndex index.php index.html\n<Files index.php>\nDeny from all\n</Files>\n";
    const RULE: &str = "DirectoryIndex index.php index.html\nRewriteEngine on\nRewriteRule index.php - [F]\n";
    const GONE: &str = "DirectoryIndex index.php index.html\nRedirectMatch 410 index\\.php\n";
    const AWAY: &str = "DirectoryIndex index.php index.html\nRedirectMatch index\\.php http://example.com/\n";
    let texts = [("denied", DENIED), ("old", OLD), ("rule", RULE), ("gone", GONE), ("away", AWAY)];
    let mut files = Vec::new();
    for (name, text) in texts {
        files.push((format!("{name}/.htaccess"), text));
        files.push((format!("{name}/index.php"), "php"));
        files.push((format!("{name}/index.html"), "html"));
        files.push((format!("{name}/listed/.htaccess"), "Options +Indexes\n"));
        files.push((format!("{name}/listed/index.php"), "php"));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let requests: Vec<String> = texts
        .iter()
        .flat_map(|(name, _)| {
            ["GET", "POST"].map(|method| [format!("{method} /{name}/"), format!("{method} /{name}/listed/")])
        })
        .flatten()
        .collect();
    agree_with_host(&files, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_fallback_answers_where_there_is_no_file() {
    agree_with_host(
        &[
            (".htaccess", "FallbackResource /index.php\n"),
            ("bare/.htaccess", "Options +Indexes\n"),
            ("sub/.htaccess", "FallbackResource disabled\n"),
            ("none/.htaccess", "FallbackResource /none.php\n"),
        ],
        &[
            "GET /nope",
            "GET /nope/deep/er?x",
            "GET /a.txt",
            "GET /a.txt/x",
            "GET /bare/",
            "GET /bare/nope",
            "GET /sub/nope",
            "GET /sub/",
            "GET /",
            "GET /none/x",
            "POST /nope\n\nx",
        ],
    );
}

#[test]
fn methods_of_files() {
    let paths = ["/a.txt", "/", "/missing", "/sub"];
    let methods = ["POST", "OPTIONS", "PUT", "DELETE", "PATCH", "PROPFIND", "PURGE", "SEARCH", "BREW"];
    let requests: Vec<String> =
        paths.iter().flat_map(|path| methods.map(|method| format!("{method} {path}"))).collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree_with_host(&[(".htaccess", "Header set X-A b\n")], &requests);
    // Where there could be a file with settings, methods are answered alike.
    agree_with_host(&[], &requests);
    agree_with_host(&[("other/.htaccess", "Header set X-A b\n")], &requests);
}

#[test]
fn only_a_directory_has_an_index() {
    const ABSOLUTE: &str = "DirectoryIndex /index.php\n";
    let texts = [("", ABSOLUTE), ("info/", "AcceptPathInfo On\n"), ("sent/", "DirectoryIndexRedirect On\n")];
    let files: Vec<(String, &str)> =
        texts.iter().map(|(folder, text)| (format!("{folder}.htaccess"), *text)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let pages = [("info/a.txt", "a"), ("sent/a.txt", "a"), ("sent/in/a.txt", "a")];
    let requests: Vec<String> = ["", "info/", "sent/"]
        .iter()
        .flat_map(|folder| ["", "a.txt/", "a.txt/x/", "none/", "in/"].map(|path| format!("/{folder}{path}")))
        .flat_map(|path| ["GET", "POST", "OPTIONS"].map(|method| format!("{method} {path}")))
        .collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree_with_host(&[&files[..], &pages[..]].concat(), &requests);
}

#[test]
fn the_index_of_an_error_document_is_looked_up_like_others() {
    const INNER: &str = "RewriteEngine on\nRewriteRule ^index\\.html$ /a.txt [NS]\n";
    agree_with_host(
        &[
            (".htaccess", "ErrorDocument 403 /sub/\nErrorDocument 404 /bare/\n"),
            ("sub/.htaccess", INNER),
            ("closed/.htaccess", "Require all denied\n"),
            (
                "bare/.htaccess",
                "DirectoryIndex index.php index.html\nRewriteEngine on\nRewriteRule ^index - [F]\n",
            ),
            ("bare/index.php", "bare"),
        ],
        &["GET /closed/x", "GET /sub/", "GET /sub/index.html", "GET /none", "GET /bare/"],
    );
}

#[test]
fn an_absolute_index_that_is_missing_is_passed_over() {
    const LISTED: &str = "DirectoryIndex none.php /none.php\nOptions +Indexes\n";
    const DENIED: &str = "Require all denied\n";
    agree_with_host(
        &[
            ("bare/.htaccess", LISTED),
            ("next/.htaccess", "DirectoryIndex /none.php /bare/b.txt /bare /closed/x /a.txt\n"),
            ("next/in/a.txt", "a"),
            ("closed/.htaccess", DENIED),
            ("closed/x", "x"),
            ("refused/.htaccess", "DirectoryIndex /closed/x\nOptions +Indexes\n"),
            ("forms/.htaccess", "DirectoryIndex /page\nOptions +MultiViews\n"),
            ("climbing/.htaccess", "DirectoryIndex /sub/../b.txt\n"),
            ("last/.htaccess", "DirectoryIndex index.php /none.php\nErrorDocument 404 \"none\"\n"),
        ],
        &[
            "GET /bare/",
            "GET /next/",
            "GET /next/in/",
            "GET /refused/",
            "GET /forms/",
            "GET /climbing/",
            "GET /last/",
            "GET /last/x/",
        ],
    );
}
