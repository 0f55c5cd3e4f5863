//! Patterns mean what Apache means by them, wherever a `.htaccess` file has one: `.` matches a line end, `$` only the very
//! end.

use super::{agree, agree_on, agree_with_host, site};

/// Sends what is no file to a front controller, as most applications do.
const FRONT: &str = "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n";

/// Paths below a folder, with line ends where a pattern may stumble.
fn paths(folder: &str) -> Vec<String> {
    let rests = [
        "x",
        "",
        "users/1%0a%0a",
        "users/1%0a",
        "%0a",
        "%0ax",
        "a%0ab",
        "a%0db",
        "a%0d",
        "a%0d%0a",
        "x%0b",
        "x%e2%80%a8",
    ];
    rests.iter().map(|rest| format!("GET /{folder}{rest}")).collect()
}

/// The file, and requests below each folder.
fn agree_below(text: &str, folders: &[&str]) {
    let requests: Vec<String> = folders.iter().flat_map(|folder| paths(folder)).collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree_with_host(&[(".htaccess", text)], &requests);
}

#[test]
fn a_line_end_does_not_pass_by_a_rewrite_rule() {
    let text = format!("RewriteEngine On\nRewriteRule ^admin/.*$ - [F]\nRewriteRule ^exact$ - [F]\n{FRONT}");
    agree_below(&text, &["admin/", "exact", "other/"]);
}

#[test]
fn a_line_end_does_not_pass_by_a_condition() {
    let text = format!(
        "RewriteEngine On\nRewriteCond %{{REQUEST_URI}} ^/uri/.*$\nRewriteRule ^ - [F]\n\
         RewriteCond %{{REQUEST_FILENAME}} file/.*$ [NC]\nRewriteRule ^ - [F]\n\
         RewriteCond %{{REQUEST_URI}} !^/only/.*$\nRewriteCond %{{REQUEST_URI}} ^/onl\nRewriteRule ^ - [F]\n\
         RewriteCond $1 ^.*$\nRewriteRule ^group/(.*) - [F]\n\
         RewriteCond expr \"%{{REQUEST_URI}} =~ m#^/expression/.*$#\"\nRewriteRule ^ - [F]\n{FRONT}"
    );
    agree_below(&text, &["uri/", "file/", "FILE/", "only/", "onl", "group/", "expression/", "other/"]);
}

#[test]
fn a_line_end_does_not_pass_by_a_redirect() {
    let text = "RedirectMatch 403 ^/closed/.*$\nRedirectMatch 404 \\.txt$\nRedirectMatch 302 ^/moved/(.*)$ /new/$1\n";
    agree_below(text, &["closed/", "a.txt", "moved/", "other/"]);
}

#[test]
fn a_line_end_does_not_pass_by_a_section_for_files() {
    let site = site(&[
        (
            ".htaccess",
            "<FilesMatch \"^x.*\\.bak$\">\nRequire all denied\n</FilesMatch>\n<FilesMatch \"^y.*\\.bak$\">\n\
             Header set X-Matched 1\n</FilesMatch>\n<Files ~ \"^z.z$\">\nRequire all denied\n</Files>\n\
             <Files \"g*.bak\">\nRequire all denied\n</Files>\n<Files \"h?h\">\nRequire all denied\n</Files>\n",
        ),
        ("x\n.bak", "1"),
        ("x\n1\n.bak", "2"),
        ("x.bak\n", "3"),
        ("y.bak\n", "4"),
        ("y\n.bak", "5"),
        ("z\nz", "6"),
        ("g\n.bak", "7"),
        ("g.bak\n", "8"),
        ("h\nh", "9"),
    ]);
    agree_on(
        site,
        &[],
        &[
            "GET /x%0a.bak",
            "GET /x%0a1%0a.bak",
            "GET /x.bak%0a",
            "GET /y.bak%0a",
            "GET /y%0a.bak",
            "GET /z%0az",
            "GET /g%0a.bak",
            "GET /g.bak%0a",
            "GET /h%0ah",
            "GET /x.bak%0a/info",
        ],
    );
}

#[test]
fn a_line_end_does_not_pass_by_variables_of_setenvif() {
    let text = "SetEnvIf Request_URI ^/env/.*$ marked\nSetEnvIfNoCase Request_URI ^/ENV/(.*)$ rest=$1\n\
        SetEnvIfExpr \"%{REQUEST_URI} =~ m#^/expression/.*$#\" marked\nBrowserMatch ^a.b$ browser\n\
        Header always set X-Marked 1 env=marked\nHeader always set X-Browser 1 env=browser\n\
        <RequireAll>\nRequire all granted\nRequire not env marked\n</RequireAll>\n";
    agree_below(text, &["env/", "expression/", "other/"]);
}

#[test]
fn a_line_end_does_not_pass_by_expressions() {
    let text = "<If \"%{REQUEST_URI} =~ m#^/if/.*$#\">\nRequire all denied\n</If>\n\
        <If \"%{REQUEST_URI} =~ m#^/i2/.*$#i\">\nHeader always set X-If 1\n</If>\n\
        <ElseIf \"%{REQUEST_URI} =~ /not.*x$/\">\nRequire all denied\n</ElseIf>\n\
        <RequireAll>\nRequire expr \"%{REQUEST_URI} !~ m#^/require/.*$#\"\nRequire all granted\n</RequireAll>\n\
        Header always set X-Expr 1 \"expr=%{REQUEST_URI} =~ m#^/header/.*$#\"\n";
    agree_below(text, &["if/", "I2/", "not", "require/", "header/", "other/"]);
}

#[test]
fn groups_hold_line_ends() {
    let text = "RewriteEngine On\nRewriteRule ^one/(.*)$ /new/$1 [R,L]\nRewriteRule ^two/(.+?)(.?)$ /new/$1-$2 [R,L,NE]\n\
        RewriteCond %{REQUEST_URI} /(.*)$\nRewriteRule ^three/ /new?x=%1 [R,L,B]\n";
    agree_below(text, &["one/", "three/"]);
}

/// mod_substitute alone lets `.` stop at a line end.
#[test]
fn substitute_works_line_by_line() {
    let site = site(&[
        (
            ".htaccess",
            "AddOutputFilterByType SUBSTITUTE text/plain\nSubstitute s/b.*$/[$0]/\nSubstitute s/c.d/[cd]/\n\
             Substitute s/e$/E/\nSubstitute s/f\\s/F/\n",
        ),
        ("lines.txt", "a b c\nb\nc\nd\ne\nf\ne"),
        ("ends.txt", "b\r\ne\r\nb x e\n"),
    ]);
    agree_on(site, &["substitute", "filter"], &["GET /lines.txt", "GET /ends.txt"]);
}

/// Bytes are bytes, letters are those of ASCII, names of groups may repeat, a missing group is empty.
#[test]
fn the_other_defaults() {
    let text = "RewriteEngine On\n\
        RewriteRule ^names/(?:(?<n>a)|(?<n>b))$ /new/$1-$2 [R,L]\n\
        RewriteRule ^empty/(a|)(b|)$ /new/-$1-$2- [R,L]\n\
        RewriteRule ^none/()$ /new/-$1-$2-$9- [R,L]\n\
        RewriteRule ^case/\u{c9}$ /new/nocase [R,L,NC]\n\
        RewriteRule ^word/\\w+$ /new/word [R,L]\n\
        RewriteRule ^class/[[:alpha:]]+$ /new/class [R,L]\n\
        RewriteRule ^byte/.$ /new/byte [R,L]\n\
        RewriteRule ^two/..$ /new/two [R,L]\n\
        RewriteRule (*UTF8)^utf/.$ /new/utf [R,L]\n\
        RewriteRule (?m)^line$ /new/line [R,L]\n\
        RewriteRule (?-s)^no-dot/.$ /new/no-dot [R,L]\n\
        RewriteRule ^upper/\\Z /new/upper [R,L]\n\
        RewriteRule ^(m)(a)(n)(y)(g)(r)(o)(u)(p)(s)/$ /new/$1$10$9 [R,L]\n\
        RewriteRule ^extended/(?x) a # [$\n";
    agree(
        &[(".htaccess", text)],
        &[
            "GET /names/a",
            "GET /names/b",
            "GET /empty/",
            "GET /empty/b",
            "GET /none/",
            "GET /case/%c3%89",
            "GET /case/%c3%a9",
            "GET /CASE/%c3%89",
            "GET /word/a%c3%a9",
            "GET /word/a_9",
            "GET /class/abC",
            "GET /class/%c3%a9",
            "GET /byte/%c3",
            "GET /byte/%c3%a9",
            "GET /byte/%0a",
            "GET /two/%c3%a9",
            "GET /utf/%c3%a9",
            "GET /utf/a",
            "GET /line%0aline",
            "GET /a%0aline%0ab",
            "GET /no-dot/%0a",
            "GET /no-dot/a",
            "GET /upper/%0a",
            "GET /manygroups/",
        ],
    );
}
