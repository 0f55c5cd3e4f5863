//! Which directives files may contain (`AllowOverride`, `AllowOverrideList`), and what the files are called
//! (`AccessFileName`).

use std::fs;
use std::iter::once;

use conf::apache::{Classes, classes_of, is_module};
use tests::apache::{directives, have_apache, load};
use tests::binary::Server;
use tests::site::Site;
use tests::worker;

use super::{agree_beside, shown};
use crate::catalogue::surroundings::Tracer;

/// Settings of a directory in Apache's and in Fulmar's language.
const SETTINGS: [(&str, &str); 25] = [
    ("AllowOverride None", "htaccess_override None;"),
    ("AllowOverride AuthConfig", "htaccess_override AuthConfig;"),
    ("AllowOverride FileInfo", "htaccess_override FileInfo;"),
    ("AllowOverride Indexes", "htaccess_override Indexes;"),
    ("AllowOverride Limit", "htaccess_override Limit;"),
    ("AllowOverride Options", "htaccess_override Options;"),
    ("AllowOverride All", "htaccess_override All;"),
    ("AllowOverride authconfig limit", "htaccess_override authconfig limit;"),
    ("AllowOverride FileInfo None Indexes", "htaccess_override FileInfo None Indexes;"),
    ("AllowOverride FileInfo Nonfatal=Override", "htaccess_override FileInfo Nonfatal=Override;"),
    ("AllowOverride AuthConfig Nonfatal=Unknown", "htaccess_override AuthConfig Nonfatal=Unknown;"),
    ("AllowOverride Indexes Nonfatal=All", "htaccess_override Indexes Nonfatal=All;"),
    ("AllowOverride Nonfatal=Override", "htaccess_override Nonfatal=Override;"),
    ("AllowOverride All Nonfatal=Unknown", "htaccess_override All Nonfatal=Unknown;"),
    ("AllowOverride Options=Indexes,MultiViews", "htaccess_override Options=Indexes,MultiViews;"),
    ("AllowOverride Options=IncludesNOEXEC", "htaccess_override Options=IncludesNOEXEC;"),
    ("AllowOverride Options=All", "htaccess_override Options=All;"),
    (
        "AllowOverride Options=Includes,SymLinksIfOwnerMatch",
        "htaccess_override Options=Includes,SymLinksIfOwnerMatch;",
    ),
    ("AllowOverride Options=None Nonfatal=All", "htaccess_override Options=None Nonfatal=All;"),
    ("AllowOverride All Options=Indexes", "htaccess_override All Options=Indexes;"),
    (
        "AllowOverride None\nAllowOverrideList Redirect header",
        "htaccess_override None; htaccess_override_list Redirect header;",
    ),
    (
        "AllowOverride None\nAllowOverrideList <Files <IfModule Header",
        "htaccess_override_list Files <IfModule> Header;",
    ),
    (
        "AllowOverride Limit\nAllowOverrideList Require",
        "htaccess_override Limit; htaccess_override_list Require;",
    ),
    (
        "AllowOverride None Nonfatal=Override\nAllowOverrideList <RequireAll Require Options",
        "htaccess_override None Nonfatal=Override; htaccess_override_list <RequireAll Require Options;",
    ),
    ("AllowOverride None\nAllowOverrideList None", "htaccess_override None; htaccess_override_list None;"),
];

/// Files, with directives of each class and of none.
const FILES: [&str; 44] = [
    "# nothing",
    // AuthConfig
    "Require all denied",
    "AuthName x",
    "CGIPassAuth on",
    "<RequireAll>\nRequire all denied\n</RequireAll>",
    "Satisfy All",
    // FileInfo
    "Header set X-A b",
    "Redirect /FOLDER/a.txt http://example.com/",
    "SetEnv a b",
    "SetEnvIf Request_URI . a=b",
    "ErrorDocument 403 text",
    "RewriteEngine on\nRewriteRule a.txt - [F]",
    "AddType text/css .txt",
    "ForceType text/css",
    // Indexes
    "DirectoryIndex a.txt",
    "ExpiresActive on\nExpiresDefault A100",
    "IndexIgnore *",
    "DirectorySlash Off",
    // Limit
    "Order allow,deny",
    "Deny from all",
    // Options
    "Options +Indexes",
    "Options -indexes",
    "Options MultiViews FollowSymLinks",
    "Options None",
    "Options All",
    "Options SymLinksIfOwnerMatch",
    "Options +IncludesNOEXEC",
    "Options +Includes",
    "Options +ExecCGI",
    // Any class
    "<Files a.txt>\nHeader set X-A b\n</Files>",
    "<Files a.txt>\nRequire all denied\n</Files>",
    "<IfModule mod_headers.c>\nHeader set X-A b\n</IfModule>",
    "<IfModule mod_nothing.c>\nHeader set X-A b\nNoSuchThing\n</IfModule>",
    "<If true>\nHeader set X-A b\n</If>\n<Else>\nRequire all denied\n</Else>",
    "ServerSignature on",
    "LimitRequestBody 5",
    // AuthConfig or Limit
    "<Limit GET>\nRequire all denied\n</Limit>",
    "<Limit GET>\nDeny from all\n</Limit>",
    // Unknown ones, and those of the server's configuration
    "NoSuchThing on",
    "<NoSuchThing>\nRequire all denied\n</NoSuchThing>",
    "RewriteMap a txt:/dev/null",
    "Listen 80",
    // Several, of which some may be skipped
    "NoSuchThing on\nHeader set X-A b\nRequire all denied",
    "<Files a.txt>\nNoSuchThing on\nHeader set X-A b\nExpiresActive on\n</Files>\nDirectoryIndex a.txt",
];

/// A site with `htaccess on` and these directives in its server.
fn site(directives: &str) -> Site {
    Site::new(&configuration(directives))
}

fn configuration(directives: &str) -> String {
    super::CONFIGURATION.replace("htaccess on;", &format!("htaccess on;\n{directives}"))
}

fn directory(site: &Site, folder: &str, settings: &str) -> String {
    format!("<Directory {}/{folder}>\n{settings}\n</Directory>\n", site.root().display())
}

fn words(requests: &[String]) -> Vec<&str> {
    requests.iter().map(String::as_str).collect()
}

#[test]
fn each_directive_has_apaches_class() {
    if !have_apache() {
        return;
    }
    let text = directives(&site(""));
    let mut directive = None;
    let mut counts = (0, 0);
    for line in text.lines() {
        let named = line.strip_suffix(".c)").and_then(|line| line.split_once(" ("));
        if let Some((name, module)) = named.filter(|_| !line.starts_with('\t')) {
            directive = Some((name.trim_start_matches('<'), module.trim_start_matches("mod_")));
        }
        let (Some((name, module)), Some(place)) = (directive, line.strip_prefix('\t')) else { continue };
        let expected = match place.strip_prefix("when AllowOverride ") {
            Some("isn't None") => Classes::ALL,
            Some(includes) => {
                let is_named = |class: &str| includes.split([' ', ',']).any(|word| word == class);
                let classes = Classes::NAMES.iter().filter(|(class, _)| is_named(class));
                classes.fold(Classes::NONE, |sum, (_, class)| sum.or(*class))
            }
            // Whether files may contain it is in the next line.
            None if place.starts_with("Allowed in *.conf") && !place.ends_with(".htaccess") => Classes::NONE,
            None => continue,
        };
        // Modules that are not Apache's may be there, too.
        if !is_module(module) && classes_of(name).is_none() {
            continue;
        }
        assert_eq!(classes_of(name), Some(expected), "{name} of {module}: {place}");
        match expected {
            Classes::NONE => counts.0 += 1,
            _ => counts.1 += 1,
        }
    }
    assert!(counts.0 > 300 && counts.1 > 250, "{counts:?}");
}

#[test]
fn each_class_allows_its_directives() {
    let (mut locations, mut folders) = (String::new(), Vec::new());
    for (apache, fulmar) in SETTINGS {
        for text in FILES {
            let folder = folders.len();
            locations += &format!("location /{folder}/ {{ {fulmar} }}\n");
            folders.push((apache, text.replace("FOLDER", &folder.to_string())));
        }
    }
    let site = folders.iter().enumerate().fold(site(&locations), |site, (folder, (_, text))| {
        site.file(&format!("{folder}/.htaccess"), format!("{text}\n"))
            .file(&format!("{folder}/a.txt"), "a")
            .file(&format!("{folder}/b.en.txt"), "b")
    });
    let sections = folders.iter().enumerate();
    let sections: String =
        sections.map(|(at, (apache, _))| directory(&site, &at.to_string(), apache)).collect();
    let paths = |folder| ["a.txt", "b", ""].map(|path| format!("GET /{folder}/{path}"));
    let requests: Vec<String> = (0..folders.len()).flat_map(paths).collect();
    agree_beside(shown, &site, &(load(&["negotiation", "include"]) + &sections), &words(&requests));
}

/// In Apache the settings of a directory count for its own file.
#[test]
fn directories_in_each_other_have_their_own_settings() {
    const TEXTS: [[&str; 2]; 4] = [
        ["Header set X-Outer 1", "Header set X-Inner 1"],
        ["Require all denied", "Require all granted"],
        ["Options +Indexes", "Options +MultiViews"],
        ["<Files a.txt>\nHeader set X-Outer 1\n</Files>", "<If true>\nRequire all denied\n</If>"],
    ];
    let chosen = [0, 1, 2, 5, 6, 9, 14, 20].map(|index: usize| SETTINGS[index]);
    let (mut locations, mut sections, mut files) = (String::new(), Vec::new(), Vec::new());
    let pairs = chosen.iter().flat_map(|outer| chosen.iter().map(move |inner| (outer, inner)));
    for ((outer, inner), texts) in pairs.flat_map(|pair| TEXTS.iter().map(move |texts| (pair, texts))) {
        let folder = sections.len() / 2;
        // Also where the inner location is not in the outer one, and so does not inherit its list.
        let is_nested = folder % 2 == 0 || [inner.1, outer.1].iter().any(|text| text.contains("list"));
        let inner_location = format!("location /{folder}/in/ {{ {} }}", inner.1);
        locations += &match is_nested {
            true => format!("location /{folder}/ {{ {}\n{inner_location} }}\n", outer.1),
            false => format!("location /{folder}/ {{ {} }}\n{inner_location}\n", outer.1),
        };
        sections.push((format!("{folder}"), outer.0));
        sections.push((format!("{folder}/in"), inner.0));
        files.push((format!("{folder}/.htaccess"), texts[0]));
        files.push((format!("{folder}/in/.htaccess"), texts[1]));
        files.push((format!("{folder}/in/deep/.htaccess"), "Header set X-Deep 1"));
    }
    let folders = sections.len() / 2;
    let site = files.iter().fold(site(&locations), |site, (path, text)| {
        let folder = path.trim_end_matches(".htaccess");
        site.file(path, format!("{text}\n")).file(&format!("{folder}a.txt"), "a")
    });
    let sections: String = sections.iter().map(|(path, settings)| directory(&site, path, settings)).collect();
    let paths =
        |folder| ["a.txt", "in/a.txt", "in/deep/a.txt", "in/"].map(|path| format!("GET /{folder}/{path}"));
    let requests: Vec<String> = (0..folders).flat_map(paths).collect();
    agree_beside(shown, &site, &(load(&["negotiation"]) + &sections), &words(&requests));
}

/// A location with a pattern does not read what the directory's own location forbids.
#[test]
fn settings_of_directories_count_for_all_locations() {
    let site = site(
        "location /up/ { htaccess_override None; }
         location ^~ /files/ { htaccess_override FileInfo; location ~ \\.txt$ { } }
         location ~ \\.html$ { default_type text/html; }
         location = /up/exact.txt { htaccess_override FileInfo; }
         location /other/ { alias %%ROOT%%/else/; htaccess_override FileInfo;
             location /other/in/ { htaccess_override None; } }",
    );
    let header = |name: &str| format!("Header set X-{name} 1\n");
    let site = site
        .file(".htaccess", header("Root"))
        .file("up/.htaccess", header("Up"))
        .file("up/a.html", "a")
        .file("up/exact.txt", "a")
        .file("files/.htaccess", "Require all denied\n")
        .file("files/a.txt", "a")
        .file("files/a.html", "a")
        .file("else/.htaccess", header("Else"))
        .file("else/a.txt", "a")
        .file("else/in/.htaccess", "Require all denied\n")
        .file("else/in/a.txt", "a");
    let sections = directory(&site, "up", "AllowOverride None")
        + &directory(&site, "files", "AllowOverride FileInfo")
        + &directory(&site, "else", "AllowOverride FileInfo")
        + &directory(&site, "else/in", "AllowOverride None");
    let alias = format!("Alias /other {}/else\n", site.root().display());
    let requests =
        ["GET /up/a.html", "GET /files/a.txt", "GET /files/a.html", "GET /other/none", "GET /up/none.html"];
    agree_beside(shown, &site, &(alias + &sections), &requests);
    let running = site.start(Server::Fulmar);
    let fields = |request: &str| {
        let answer = running.ask(request);
        let names = ["X-Root", "X-Up", "X-Else"].map(|name| u8::from(answer.last().field(name).is_some()));
        (answer.last().status, names)
    };
    assert_eq!(
        fields("GET /up/exact.txt"),
        (200, [1, 1, 0]),
        "a location of one file counts for the whole way"
    );
    assert_eq!(fields("GET /other/a.txt"), (200, [0, 0, 1]), "the alias is the root");
    assert_eq!(fields("GET /other/in/a.txt"), (200, [0, 0, 1]));
    running.stop();
}

#[test]
fn the_first_file_that_exists_counts() {
    let site = site("htaccess_file .htaccess .site-access access.conf;")
        .file("first/.htaccess", "Header set X-From first\n")
        .file("first/.site-access", "Header set X-From second\n")
        .file("second/.site-access", "Header set X-From second\n")
        .file("second/access.conf", "Header set X-From third\nNoSuchThing\n")
        .file("second/in/.htaccess", "Header set X-Inner 1\n")
        .file("second/in/deep/access.conf", "Header set X-From third\n")
        .file("third/access.conf", "Require all denied\n")
        .file("empty/.htaccess", "")
        .file("empty/.site-access", "Require all denied\n");
    let folders = ["first", "second", "second/in", "second/in/deep", "third", "empty", "none"];
    let site = folders.iter().fold(site, |site, folder| site.file(&format!("{folder}/a.txt"), "a"));
    let requests = folders.map(|folder| format!("GET /{folder}/a.txt"));
    agree_beside(shown, &site, "AccessFileName .htaccess .site-access access.conf\n", &words(&requests));
}

/// Apache sends what its `<Files ".ht*">` lets through.
#[test]
fn files_with_settings_are_never_sent() {
    let rules = "RewriteEngine on
        RewriteRule ^rule$ site.txt
        DirectoryIndex site.txt
        Options +MultiViews +Includes +Indexes
        ErrorDocument 404 /site.txt
        CheckSpelling on
        AddOutputFilter INCLUDES .html
        # secret";
    let site = site(
        "htaccess_file site.txt;
         location /off/ { htaccess off; }
         location /none/ { htaccess_override None; }
         location /named/ { try_files $uri /site.txt; }
         location /alias/ { alias %%ROOT%%/in/; }
         location /chosen/ { try_files /$arg_name =404; }
         location /chosen/off/ { htaccess off; try_files /$arg_name =404; }
         location /chosen/none/ { htaccess_override None; try_files /$arg_name =404; }
         location ~ ^/chosen/alias { alias %%ROOT%%/$arg_name; }
         location ~ ^/chosen/off/alias { htaccess off; alias %%ROOT%%/$arg_name; }
         location /chosen/error/ { error_page 404 /$arg_name; }
         location /chosen/index/ { index $arg_name; }",
    )
    .file(".htaccess", "# secret")
    .file("a.txt", "a");
    let folders = ["", "off/", "none/", "in/", "chosen/index/"];
    let site = folders.iter().fold(site, |site, folder| site.file(&format!("{folder}site.txt"), rules));
    let running = site.file("page.html", "<!--#include virtual=\"/site.txt\" -->").start(Server::Fulmar);
    let own = folders.map(|folder| format!("/{folder}site.txt"));
    for path in &own {
        assert_eq!(running.ask(&format!("GET {path}")).last().status, 403, "{path}");
    }
    for location in ["", "off/", "none/", "alias", "off/alias"] {
        for name in ["site.txt", "in/site.txt", ".htaccess"] {
            let got = running.ask(&format!("GET /chosen/{location}x?name={name}")).last().status;
            assert_eq!(got, 403, "{location}: {name}");
        }
        let a = running.ask(&format!("GET /chosen/{location}x?name=a.txt"));
        assert_eq!(a.last().text(), "a", "{location}");
    }
    let others = [
        "/chosen/error/x?name=site.txt",
        "/chosen/index/?name=site.txt",
        "/",
        "/site",
        "/sit.txt",
        "/rule",
        "/none",
        "/page.html",
        "/SITE.TXT",
        "/site.txt/info",
        "/named/x",
        "/in/",
        "/alias/site.txt",
        "/alias/",
        "/off/",
        "/none/",
        "//site.txt",
        "/in/../site.txt",
        "/%73ite.txt",
        "/none/site",
    ];
    for request in own.iter().map(String::as_str).chain(others) {
        for method in ["GET", "POST"] {
            let answer = running.ask(&format!("{method} {request}"));
            assert!(!answer.last().text().contains("secret"), "{method} {request}");
            assert!(!answer.last().text().contains(">site.txt<"), "{method} {request}");
        }
    }
    running.stop();
}

/// A directory with `None` costs no system call.
#[test]
fn files_that_do_not_count_are_not_looked_for() {
    let site = site(
        "htaccess_file .first .second;
         location /none/ { htaccess_override None; }
         location /outer/ { htaccess off; location /outer/none/ { htaccess on; htaccess_override None; } }",
    );
    let site = ["none/in/a.txt", "outer/none/in/a.txt", "some/in/a.txt"].iter().fold(site, |site, path| {
        site.file(path, "a").file(&path.replace("a.txt", ".second"), "Require all denied\n")
    });
    let running = site.start(Server::Fulmar);
    let calls = |request: &str| -> Option<Vec<String>> {
        let path = site.prefix().join("calls");
        let output = path.display().to_string();
        let tracer = Tracer::attach(worker::of(&running), &["-e", "trace=%file", "-o", &output])?;
        let status = running.ask(request).last().status;
        tracer.leave();
        let text = fs::read_to_string(&path).unwrap();
        // A second request asks whether the connection is kept.
        let is_here = |line: &&str| {
            let directory = request.trim_start_matches("GET ").trim_end_matches("in/a.txt");
            line.contains(directory) && (line.contains("/.first\"") || line.contains("/.second\""))
        };
        let lines = text.lines().filter(is_here);
        Some(once(status.to_string()).chain(lines.map(str::to_owned)).collect())
    };
    for request in ["GET /none/in/a.txt", "GET /outer/none/in/a.txt"] {
        if let Some(calls) = calls(request) {
            assert_eq!(calls, ["200"], "{request}");
        }
    }
    if let Some(calls) = calls("GET /some/in/a.txt") {
        assert_eq!(calls[0], "403");
        assert!(calls.len() > 4, "{calls:#?}");
    }
    running.stop();
}

const LIMITED: &str = "htaccess_override FileInfo Options=Indexes;
    location /skips/ { htaccess_override AuthConfig Nonfatal=All; }
    location /none/ { htaccess_override None; }";

fn limited() -> Site {
    site(LIMITED)
        .file(
            "sub/.htaccess",
            "Header set X-A b\n<Files a.txt>\nRequire all denied\n</Files>\nDeny from all\n",
        )
        .file("sub/in/.htaccess", "Options +Indexes +MultiViews\nRequire all denied\nRequire all granted\n")
        .file("skips/.htaccess", "RewriteEngine on\nNoSuchThing\nRequire all granted\n")
        .file("none/.htaccess", "NoSuchThing\n")
        .file("sub/a.txt", "a")
        .file("skips/a.txt", "a")
        .file("none/a.txt", "a")
}

#[test]
fn the_log_names_the_directive_and_its_class() {
    let site = limited();
    let running = site.start(Server::Fulmar);
    let statuses =
        ["sub", "skips", "none"].map(|folder| running.ask(&format!("GET /{folder}/a.txt")).last().status);
    assert_eq!(statuses, [500, 200, 200]);
    let root = site.root().display().to_string();
    for line in [
        format!(
            "[error] the server's configuration does not allow \"Deny\" in {root}/sub/.htaccess:5; \
             Limit in \"htaccess_override\" would allow it"
        ),
        format!(
            "[warn] skipped: the server's configuration does not allow \"RewriteEngine\" in {root}/skips/.htaccess:1; \
             FileInfo in \"htaccess_override\" would allow it"
        ),
        format!("[warn] skipped: unknown directive \"NoSuchThing\" in {root}/skips/.htaccess:2"),
    ] {
        let (level, text) = line.split_once("] ").unwrap();
        running.wait_for_log("error.log", text);
        let log = running.log("error.log");
        assert!(log.lines().any(|logged| logged.contains(level) && logged.contains(text)), "{log}");
    }
    running.stop();
}

#[test]
fn a_test_and_lint_name_what_is_not_allowed() {
    let site = limited();
    site.write_configuration(Server::Fulmar, &configuration(LIMITED));
    let root = site.root().display().to_string();
    let end = "all requests for this directory are answered with 500";
    let lines = [
        format!(
            "[warn] the server's configuration does not allow \"Require\" in {root}/sub/.htaccess:3; \
             AuthConfig in \"htaccess_override\" would allow it; {end}"
        ),
        format!(
            "[warn] the server's configuration does not allow \"Deny\" in {root}/sub/.htaccess:5; \
             Limit in \"htaccess_override\" would allow it; {end}"
        ),
        format!(
            "[warn] the server's configuration does not allow \"MultiViews\" in \"Options\" in {root}/sub/in/.htaccess:1; \
             \"htaccess_override Options=MultiViews\" would allow it; {end}"
        ),
        format!(
            "[warn] the server's configuration does not allow \"Require\" in {root}/sub/in/.htaccess:2 and in 1 more \
             place; AuthConfig in \"htaccess_override\" would allow it; {end}"
        ),
        format!("[warn] skipped: unknown directive \"NoSuchThing\" in {root}/skips/.htaccess:2"),
        format!("{root}/skips/.htaccess: decides about access (1)"),
        "read 3 .htaccess files".to_owned(),
    ];
    let test = site.command(Server::Fulmar).arg("-t").output().unwrap();
    let mut lint = std::process::Command::new(Server::Fulmar.path());
    lint.arg("lint").arg("-c").arg(site.prefix().join("fulmar.conf")).arg("-p").arg(site.prefix());
    let lint = lint.output().unwrap();
    for text in [test.stderr, lint.stdout] {
        let text = String::from_utf8_lossy(&text).into_owned();
        for line in &lines {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(!text.contains(&format!("{root}/none/.htaccess")), "{text}");
    }
}
