//! Sections of a main configuration, and the files with settings between them.

use super::agree;

const FILES: [(&str, &str); 8] = [
    ("index.html", "home"),
    ("a.txt", "a"),
    ("sub/a.txt", "sub a"),
    ("sub/index.html", "sub"),
    ("sub/deep/a.txt", "deep a"),
    ("sub/deep/secret.bak", "secret"),
    ("list/a.txt", "in a list"),
    (".hidden/a.txt", "hidden"),
];

const REQUESTS: [&str; 8] = [
    "GET /",
    "GET /a.txt",
    "GET /sub/",
    "GET /sub/a.txt",
    "GET /sub/deep/a.txt",
    "GET /sub/deep/missing",
    "GET /sub/deep",
    "GET /.hidden/a.txt",
];

/// A section that adds to a header, so that the header tells the order.
fn mark(section: &str, argument: &str) -> String {
    format!("<{section} {argument}>\nHeader append X-Order {section}-{}\n</{section}>\n", argument.len())
}

#[test]
fn sections_come_in_apaches_order() {
    let sections = [
        mark("If", "\"true\""),
        mark("Location", "/sub"),
        mark("LocationMatch", "deep"),
        mark("Files", "a.txt"),
        mark("FilesMatch", "^a"),
        mark("DirectoryMatch", "/sub/"),
        mark("DirectoryMatch", "deep/$"),
        mark("Directory", "%%ROOT%%/sub/deep"),
        mark("Directory", "%%ROOT%%/sub/"),
        mark("Directory", "%%ROOT%%/[sa]*"),
        mark("Directory", "%%ROOT%%"),
        mark("Directory", "~ sub"),
        "<Directory />\nRequire all granted\nAllowOverride FileInfo\nHeader append X-Order root\n</Directory>\n".to_owned(),
        "Header append X-Order server\n".to_owned(),
    ];
    let files = [
        ("sub/.htaccess", "Header append X-Order file\n"),
        ("sub/deep/.htaccess", "Header append X-Order deep\n"),
    ];
    let all: Vec<_> = FILES.into_iter().chain(files).collect();
    agree(&sections.concat(), &all, &REQUESTS);
    // For each kind, sections of the main server come before those of the host.
    let host = format!("<VirtualHost *:%%PORT%%>\n{}</VirtualHost>\n", sections[..12].concat());
    let with_host = sections.iter().rev().map(String::as_str).collect::<String>() + &host;
    agree(&with_host, &all, &REQUESTS);
}

#[test]
fn access_follows_the_sections() {
    for lines in [
        // Without a section nothing is denied.
        "",
        "<Directory />\nRequire all denied\n</Directory>\n<Directory %%ROOT%%>\nRequire all granted\n</Directory>\n",
        "<Directory %%ROOT%%/sub>\nRequire all denied\n</Directory>\n<Directory %%ROOT%%/sub/deep>\nRequire all granted\n\
        </Directory>\n",
        "<Directory %%ROOT%%/[sa]*>\nRequire all denied\n</Directory>\n",
        "<Directory \"%%ROOT%%/s?b\">\nRequire all denied\n</Directory>\n",
        "<DirectoryMatch \"/\\.hidden/\">\nRequire all denied\n</DirectoryMatch>\n",
        "<Files \"*.txt\">\nRequire all denied\n</Files>\n",
        "<Location /sub>\nRequire all denied\n</Location>\n",
        "<Location /sub/>\nRequire all denied\n</Location>\n",
        "<Location /s*>\nRequire all denied\n</Location>\n",
        "<Location ~ /deep/>\nRequire all denied\n</Location>\n",
        "<LocationMatch \"^/sub/.+\">\nOrder allow,deny\nDeny from all\n</LocationMatch>\n",
        "<Location />\nRequire all denied\n</Location>\n<Location /sub>\nRequire all granted\n</Location>\n",
        "<If \"%{REQUEST_URI} =~ /deep/\">\nRequire all denied\n</If>\n",
        "<Directory />\nRequire all denied\n</Directory>\n<Location /sub>\nRequire all granted\n</Location>\n",
        "<VirtualHost *:%%PORT%%>\n<Directory %%ROOT%%/sub>\nRequire all denied\n</Directory>\n</VirtualHost>\n",
        "<Directory %%ROOT%%/sub>\n<Files a.txt>\nRequire all denied\n</Files>\n</Directory>\n",
        "<Directory %%ROOT%%/sub>\n<Limit GET>\nRequire all denied\n</Limit>\n</Directory>\n",
    ] {
        println!("{lines}");
        agree(lines, &FILES, &REQUESTS);
    }
}

#[test]
fn files_with_settings_count_where_they_may() {
    let files = [
        (".htaccess", "Header set X-Top top\n"),
        ("sub/.htaccess", "Header set X-Sub sub\nDirectoryIndex a.txt\n"),
        ("sub/deep/.htaccess", "Require all denied\n"),
        ("list/.settings", "Header set X-List list\n"),
    ];
    let all: Vec<_> = FILES.into_iter().chain(files).collect();
    let requests: Vec<&str> = REQUESTS.into_iter().chain(["GET /list/a.txt", "GET /.htaccess"]).collect();
    let within = |path: &str, what: &str| format!("<Directory {path}>\nAllowOverride {what}\n</Directory>\n");
    for lines in [
        String::new(),
        within("/", "All"),
        within("%%ROOT%%", "All"),
        within("%%ROOT%%", "FileInfo Indexes"),
        within("%%ROOT%%", "FileInfo Indexes AuthConfig"),
        within("/", "All") + &within("%%ROOT%%/sub", "None"),
        within("%%ROOT%%/sub", "All"),
        within("%%ROOT%%/sub", "FileInfo Nonfatal=Override"),
        within("%%ROOT%%/sub/deep", "AuthConfig"),
        within("%%ROOT%%/*", "All"),
        within("/", "All") + "AccessFileName .settings .htaccess\n",
    ] {
        println!("{lines}");
        let hidden = "<FilesMatch \"^\\.ht\">\nRequire all denied\n</FilesMatch>\n";
        agree(&(lines + hidden), &all, &requests);
    }
}

#[test]
fn lines_of_directories_count() {
    let lines = "Options None\n<Directory %%ROOT%%/list>\nOptions Indexes\n</Directory>\n<Directory %%ROOT%%/sub>\n\
        Options +Indexes\nDirectoryIndex none.html\nErrorDocument 404 /index.html\nAddType text/x-own .txt\n</Directory>\n\
        <Location /sub/deep>\nForceType text/x-deep\n</Location>\n";
    let requests: Vec<&str> = REQUESTS.into_iter().chain(["GET /list/", "GET /list/?C=N;O=D"]).collect();
    agree(lines, &FILES, &requests);
}

/// Rules of a section count as those of a file in its directory do.
#[test]
fn rules_of_directories_run() {
    let rules = "<Directory %%ROOT%%/sub>\nRewriteEngine On\nRewriteRule ^old/(.*)$ deep/$1\nRewriteRule ^gone - [G]\n\
        RewriteRule ^away$ /a.txt [R]\nRedirect /sub/there http://localhost:%%PORT%%/index.html\n</Directory>\n";
    agree(
        rules,
        &FILES,
        &[
            "GET /sub/old/a.txt\nHost: localhost:%%PORT%%",
            "GET /sub/gone\nHost: localhost:%%PORT%%",
            "GET /sub/away\nHost: localhost:%%PORT%%",
            "GET /sub/there\nHost: localhost:%%PORT%%",
            "GET /old/a.txt\nHost: localhost:%%PORT%%",
        ],
    );
}
