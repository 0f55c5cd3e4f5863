//! How a file is found and answered: path info, indexes, actions, redirects, entity tags, and sections about what is there.

use tests::response::Response;

use super::modules::{agree_everywhere, everywhere, folders};
use super::{aged, agree_by, agree_on, with_host};

fn with_hosts(requests: &[&str]) -> Vec<String> {
    requests.iter().map(|request| with_host(request)).collect()
}

#[test]
fn path_info_of_files() {
    let texts = [
        "AcceptPathInfo On\n",
        "AcceptPathInfo Off\n",
        "AcceptPathInfo Default\n",
        "AcceptPathInfo On\nAddType text/x-own .txt\nAddLanguage de .txt\n",
        "AcceptPathInfo On\n<Files secret.txt>\nRequire all denied\n</Files>\n",
        "AcceptPathInfo On\nDirectoryIndex a.txt\nErrorDocument 404 \"not here\"\n",
        "<Files a.txt>\nAcceptPathInfo On\n</Files>\n",
    ];
    let files = [("a.txt", "a"), ("secret.txt", "secret"), ("in/b.txt", "b")];
    let paths = [
        "a.txt/x",
        "a.txt/",
        "a.txt/x/y.html?q=1",
        "a.txt",
        "secret.txt/x",
        "none.txt/x",
        "in/b.txt/x",
        "in/x",
        "in/b.txt//x",
    ];
    let mut requests: Vec<String> = paths.iter().map(|path| format!("GET /FOLDER/{path}")).collect();
    requests.push("POST /FOLDER/a.txt/x\n\nx".to_owned());
    agree_everywhere(&texts, &files, &[], &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_directory_whose_handler_is_set_is_not_listed() {
    let texts = [
        "SetHandler default-handler\n",
        "SetHandler image/gif\nOptions +Indexes\n",
        "SetHandler none\nOptions +Indexes\n",
        "SetHandler default-handler\nOptions +Indexes\n<Files in>\nSetHandler none\n</Files>\n",
        "Options +Indexes\n<Files a.txt>\nSetHandler default-handler\n</Files>\n",
    ];
    let files = [("a.txt", "a"), ("in/b.txt", "b"), ("with/index.html", "home")];
    let requests =
        ["GET /FOLDER/", "GET /FOLDER/in/", "GET /FOLDER/with/", "GET /FOLDER/a.txt", "POST /FOLDER/"];
    agree_everywhere(&texts, &files, &[], &requests);
}

#[test]
fn names_and_values_of_types() {
    let texts = [
        "AddType Text/X-Own .own\nAddCharset UTF-8 .own .txt\nAddLanguage DE .de\nAddEncoding X-GZIP .gz\n",
        "AddCharset utf-8 .own\nAddDefaultCharset Utf-8\nForceType Text/Plain\n",
        "AddType text/x-png .png\nExpiresActive on\nExpiresByType text/x-png \"access plus 1 day\"\n",
        "AddHandler application/x-httpd-php .php\n",
    ];
    let files = [
        ("a.own", "a"),
        ("a.own.de", "a"),
        ("a.txt", "a"),
        ("a.txt.gz", "a"),
        ("a.png", "a"),
        (".png", "a"),
        (".a.png", "a"),
    ];
    let names = files.map(|(name, _)| format!("GET /FOLDER/{name}"));
    let requests: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .chain(["GET /FOLDER/missing.php", "GET /FOLDER/in/missing.php"])
        .collect();
    agree_everywhere(&texts, &files, &[], &requests);
}

#[test]
fn directories_are_redirected_to_their_index() {
    let texts = [
        "DirectoryIndexRedirect on\n",
        "DirectoryIndexRedirect off\n",
        "DirectoryIndexRedirect permanent\n",
        "DirectoryIndexRedirect temp\n",
        "DirectoryIndexRedirect seeother\n",
        "DirectoryIndexRedirect 307\nDirectoryIndex none.html a.txt\n",
        "DirectoryIndexRedirect 303\nDirectoryIndex none.html\n",
        "DirectoryIndexRedirect on\nDirectoryIndex /b.txt\n",
    ];
    let files = [("index.html", "home"), ("a.txt", "a"), ("in/index.html", "in")];
    let requests =
        ["GET /FOLDER/", "GET /FOLDER/?q=1", "GET /FOLDER/in/", "GET /FOLDER/in", "GET /FOLDER/index.html"];
    agree_everywhere(
        &texts,
        &files,
        &[],
        &with_hosts(&requests).iter().map(String::as_str).collect::<Vec<_>>(),
    );
}

#[test]
fn redirects_may_stay_relative() {
    let texts = [
        "RedirectRelative On\nRedirect /0/x /a.txt\n",
        "RedirectRelative Off\nRedirect /1/x /a.txt\nRedirect /1/y mailto:a@example.com?subject=b\n",
        "RedirectRelative On\nRedirectMatch 301 x$ /a.txt\nRedirect /2/y http://example.com/y\n",
        "RedirectRelative On\nRewriteEngine on\nRewriteRule ^x$ /a.txt [R]\nRewriteRule ^y$ /z\nRedirect /3/y /b.txt\n",
    ];
    let requests = with_hosts(&["GET /FOLDER/x", "GET /FOLDER/x/in?q=1", "GET /FOLDER/y"]);
    agree_everywhere(&texts, &[], &[], &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn actions() {
    let texts = [
        "AddHandler own .own\nAction own /script.txt\nAcceptPathInfo On\n",
        "AddHandler own .own\nAction own /script.txt virtual\n",
        "Action text/x-own /script.txt\nAddType text/x-own .own\n",
        "SetHandler own\nAction own /script.txt virtual\n",
        "AddHandler own .own\nAction own /none.txt\n",
        "AddHandler own .own\nAction OWN /script.txt\n",
        "AddHandler own .own\n<Files b.own>\nSetHandler none\n</Files>\nAction own /script.txt\n",
        "AddHandler own .own\nAction own /script.txt\nAction own /other.txt\n",
    ];
    let files =
        [("a.own", "own"), ("b.own", "own b"), ("a.txt", "a"), ("in/c.own", "c"), ("index.html", "home")];
    let requests = [
        "GET /FOLDER/a.own",
        "GET /FOLDER/a.own?q=1",
        "GET /FOLDER/a.own/x",
        "GET /FOLDER/b.own",
        "GET /FOLDER/none.own",
        "GET /FOLDER/a.txt",
        "GET /FOLDER/in/c.own",
        "GET /FOLDER/",
        "GET /FOLDER/in",
    ];
    let site = folders(&texts, &files)
        .file("script.txt", "script")
        .file("other.txt", "other")
        .file(".htaccess", "AcceptPathInfo On\n");
    let requests = everywhere(texts.len(), &requests);
    agree_on(aged(site), &["actions"], &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

/// The status and the entity tag.
pub(super) fn tagged(response: &Response, _: u16) -> String {
    format!("{} {}", response.status, response.field("ETag").unwrap_or("none"))
}

#[test]
fn parts_of_entity_tags() {
    let texts = [
        "FileETag INode MTime Size\n",
        "FileETag All\n",
        "FileETag None\n",
        "FileETag INode\n",
        "FileETag MTime\n",
        "FileETag Size\n",
        "FileETag INode\nFileETag Size\n",
        "FileETag INode Size\n",
        "FileETag Size MTime INode\n",
        "FileETag -MTime -Size\n",
        "FileETag -MTime\n",
        "FileETag None\nFileETag +INode\n",
        "FileETag Digest\n",
        "FileETag Size Digest INode\n",
        "FileETag +Digest\n",
        "FileETag -Digest\n",
        "FileETag All\nFileETag +Digest\n",
        "FileETag None\nFileETag +Digest\n",
        "FileETag INode\nFileETag +Size\n",
        "FileETag +Size\nFileETag INode\n",
        "FileETag INode +Size\n",
        "FileETag None +INode\n",
        "FileETag All\nFileETag -INode\n",
        "FileETag Digest None\n",
        "FileETag None Digest\n",
    ];
    let inner =
        ["FileETag +INode\n", "FileETag -Size\n", "FileETag INode -Digest\n", "FileETag +Digest -INode\n"];
    let files: Vec<(String, &str)> =
        inner.iter().enumerate().map(|(index, text)| (format!("in{index}/.htaccess"), *text)).collect();
    let mut files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    files.extend([
        ("a.txt", "a"),
        ("in0/a.txt", "a"),
        ("in1/a.txt", "a"),
        ("in2/a.txt", "a"),
        ("in3/a.txt", "a"),
    ]);
    let requests = everywhere(
        texts.len(),
        &[
            "GET /FOLDER/a.txt",
            "GET /FOLDER/in0/a.txt",
            "GET /FOLDER/in1/a.txt",
            "GET /FOLDER/in2/a.txt",
            "GET /FOLDER/in3/a.txt",
            "HEAD /FOLDER/in3/a.txt",
            "POST /FOLDER/in3/a.txt\n\nx",
            "GET /FOLDER/in3/a.txt\nIf-None-Match: \"hvfkN/qlp/zhXR3cuerq6jd2Z7g=\"",
        ],
    );
    // A file that changed within the last second has a weak tag.
    let site = folders(&texts, &files);
    for (index, _) in texts.iter().enumerate() {
        for folder in ["", "in0/", "in1/", "in2/", "in3/"] {
            let file =
                std::fs::File::options().write(true).open(site.root().join(format!("{index}/{folder}a.txt")));
            let long_ago =
                std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_micros(1_700_000_000_123_456);
            file.and_then(|file| file.set_modified(long_ago)).expect("a time");
        }
    }
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree_by(tagged_as_apache, aged(site), &[], &requests);
}

/// As `tagged`; where Fulmar's own form counts, only whether there is a tag.
fn tagged_as_apache(response: &Response, port: u16) -> String {
    let text = tagged(response, port);
    // Size and time: Fulmar has nginx's form, in which the time comes first, in seconds.
    match text.matches('-').count() {
        1 if text.contains("\"1-") || text.ends_with("-1\"") => "usual".to_owned(),
        _ => text,
    }
}

#[test]
fn sections_about_directives() {
    let header = |section: &str, name: &str| {
        format!(
            "<{section} {name}>\nHeader set X-In yes\n</{section}>\n<{section} !{name}>\nHeader set X-Out yes\n</{section}>\n"
        )
    };
    let texts: Vec<String> = [
        ("IfDirective", "Header"),
        ("IfDirective", "headeR"),
        ("IfDirective", "NoSuchThing"),
        ("IfDirective", "Files"),
        ("IfDirective", "Listen"),
        ("IfSection", "Files"),
        ("IfSection", "VirtualHost"),
        ("IfSection", "Header"),
        ("IfSection", "NoSuchThing"),
        ("IfSection", "RequireAll"),
        ("IfSection", "IfModule"),
    ]
    .iter()
    .map(|(section, name)| header(section, name))
    .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    agree_everywhere(&texts, &[("a.txt", "a")], &[], &["GET /FOLDER/a.txt"]);
}

#[test]
fn extensions_of_negotiated_documents() {
    let texts = [
        "MultiviewsMatch NegotiatedOnly\n",
        "MultiviewsMatch Any\n",
        "MultiviewsMatch Handlers\n",
        "MultiviewsMatch Filters\n",
        "MultiviewsMatch Handlers Filters\n",
        "",
    ]
    .map(|text| format!("Options +MultiViews\nAddHandler own .own\nAddOutputFilter SUBSTITUTE .fil\n{text}"));
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let files =
        [("a.txt.own", "a"), ("b.txt.fil", "b"), ("c.txt.other", "c"), ("d.txt", "d"), ("e.own.txt", "e")];
    let requests = [
        "GET /FOLDER/a",
        "GET /FOLDER/b",
        "GET /FOLDER/c",
        "GET /FOLDER/d",
        "GET /FOLDER/e",
        "GET /FOLDER/e.own",
        "GET /FOLDER/a.txt",
    ];
    agree_everywhere(&texts, &files, &["negotiation", "filter", "substitute"], &requests);
}

#[test]
fn a_path_answers_for_directories_without_an_index() {
    let texts = [
        "FallbackResource /page.html\n",
        "FallbackResource /page.html\nOptions -Indexes\n",
        "FallbackResource /page.html\nDirectoryIndex disabled\n",
        "FallbackResource /page.html\nDirectoryIndex none.html\nDirectorySlash Off\n",
        "FallbackResource disabled\n",
        "FallbackResource /page.html\nOptions +Indexes\n",
        "FallbackResource /page.html\n<Files secret.txt>\nRequire all denied\n</Files>\n",
    ];
    let files =
        [("in/a.txt", "a"), ("page.txt", "page"), ("secret.txt", "secret"), ("has/index.html", "index")];
    let requests = [
        "GET /FOLDER/",
        "GET /FOLDER/?q=1",
        "GET /FOLDER/in/",
        "GET /FOLDER/in",
        "GET /FOLDER/has/",
        "GET /FOLDER/none",
        "GET /FOLDER/none/",
        "GET /FOLDER/in/none?q=1",
        "GET /FOLDER/page.txt/x",
        "GET /FOLDER/secret.txt",
    ];
    let requests = with_hosts(&requests);
    agree_everywhere(&texts, &files, &[], &requests.iter().map(String::as_str).collect::<Vec<_>>());
    // A relative path begins in the directory of the request. Where that has no such file, Apache fails by its own rule.
    let requests =
        with_hosts(&["GET /FOLDER/", "GET /FOLDER/has/", "GET /FOLDER/none", "GET /FOLDER/page.txt/x"]);
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree_everywhere(&["FallbackResource page.txt\n"], &files, &[], &requests);
}

#[test]
fn languages_of_files_come_before_those_of_header() {
    let texts = [
        "AddLanguage de .txt\nHeader set Content-Language ONE\n",
        "DefaultLanguage fr\nHeader append Content-Language \"en, FR\"\n",
        "AddLanguage de .txt\nAddLanguage fr .html\nHeader unset Content-Language\n",
        "AddLanguage de .txt\nHeader always set Content-Language \"a  b,,c\"\n",
        "AddLanguage de .txt\nAddLanguage en .txt\nHeader set X-A \"expr=%{resp:Content-Language}\"\n",
        "Header set Content-Language ONE\nHeader add Content-Language two\n",
        "Options +MultiViews\nAddLanguage de .txt .de\nHeader merge Content-Language de\n",
    ];
    let files = [("a.txt", "a"), ("c.html.txt", "c"), ("d.de.txt", "d")];
    let requests = [
        "GET /FOLDER/a.txt",
        "GET /FOLDER/c.html.txt",
        "GET /FOLDER/d",
        "OPTIONS /FOLDER/a.txt",
        "GET /FOLDER/none",
    ];
    agree_everywhere(&texts, &files, &["negotiation"], &requests);
}
