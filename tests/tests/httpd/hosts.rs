//! Virtual hosts: which one answers, where its files are, what it inherits.

use tests::binary::Server;

use super::{agree, site};

const GRANTED: &str = "<Directory />\nRequire all granted\n</Directory>\n";

fn files() -> Vec<(&'static str, &'static str)> {
    vec![
        ("index.html", "main"),
        ("a/index.html", "a"),
        ("b/index.html", "b"),
        ("b/note.txt", "a note"),
        ("c/index.html", "c"),
        ("c/start.html", "start of c"),
        ("other/pic.txt", "picture"),
        ("other/deep/pic.txt", "deep picture"),
        ("other/index.html", "other"),
    ]
}

fn host(address: &str, name: &str, more: &str) -> String {
    format!("<VirtualHost {address}>\nDocumentRoot %%ROOT%%/{name}\n{more}</VirtualHost>\n")
}

#[test]
fn names_choose_a_host() {
    let hosts = [
        host("*:%%PORT%%", "a", "ServerName a.example\nServerAlias www.a.example both.example\n"),
        host("*:%%PORT%%", "b", "ServerName B.example:8080\nServerAlias both.example\n"),
        host("*:%%PORT%%", "c", "ServerName http://c.example\n"),
    ];
    agree(
        &(GRANTED.to_owned() + &hosts.concat()),
        &files(),
        &[
            "GET /\nHost: a.example",
            "GET /\nHost: WWW.A.example",
            "GET /\nHost: b.example",
            "GET /\nHost: b.example:1",
            "GET /\nHost: c.example",
            "GET /\nHost: both.example",
            "GET /\nHost: unknown.example",
            "GET /\nHost: b.example.",
            "GET / HTTP/1.0",
        ],
    );
}

/// With a wildcard the first host that matches answers, though a later one has the exact name.
#[test]
fn wildcards_count_in_their_order() {
    let hosts = [
        host("*:%%PORT%%", "a", "ServerName a.example\n"),
        host("*:%%PORT%%", "b", "ServerName b.example\nServerAlias *.example.org w?w.example.net\n"),
        host("*:%%PORT%%", "c", "ServerName www.example.org\nServerAlias x.example.net\n"),
    ];
    agree(
        &(GRANTED.to_owned() + &hosts.concat()),
        &files(),
        &[
            "GET /\nHost: www.example.org",
            "GET /\nHost: a.b.example.org",
            "GET /\nHost: example.org",
            "GET /\nHost: wxw.example.net",
            "GET /\nHost: x.example.net",
            "GET /\nHost: wxwwexample.net",
        ],
    );
}

/// The hosts of the best address count, and names choose among them only.
#[test]
fn the_best_address_counts_first() {
    let hosts = [
        host("*:%%PORT%%", "a", "ServerName a.example\n"),
        host("127.0.0.1:%%PORT%%", "b", "ServerName b.example\n"),
        host("127.0.0.1", "c", "ServerName c.example\n"),
    ];
    let requests = [
        "GET /\nHost: a.example",
        "GET /\nHost: b.example",
        "GET /\nHost: c.example",
        "GET /\nHost: x.example",
    ];
    agree(&(GRANTED.to_owned() + &hosts.concat()), &files(), &requests);
    agree(&(GRANTED.to_owned() + &hosts[..1].concat() + &hosts[2]), &files(), &requests);
    let elsewhere = host("192.0.2.1:%%PORT%%", "a", "ServerName a.example\n");
    agree(&(GRANTED.to_owned() + &elsewhere), &files(), &requests);
}

#[test]
fn hosts_inherit_from_the_main_server() {
    let main = "DirectoryIndex start.html index.html\nHeader set X-Main main\nErrorDocument 404 \"Nothing.\"\n\
        Alias /pictures/ %%ROOT%%/other/\nAlias /both %%ROOT%%/other\n";
    let hosts = [
        host("*:%%PORT%%", "c", "ServerName c.example\n"),
        host(
            "*:%%PORT%%",
            "b",
            "ServerName b.example\nDirectoryIndex note.txt\nHeader set X-Host b\nErrorDocument 404 \"Not in b.\"\n\
            Alias /both %%ROOT%%/c\n",
        ),
        "<VirtualHost *:%%PORT%%>\nServerName d.example\n</VirtualHost>\n".to_owned(),
    ];
    let mut requests = Vec::new();
    for name in ["b", "c", "d"] {
        for path in ["/", "/missing", "/pictures/pic.txt", "/both/index.html", "/both", "/bothx", "/both/"] {
            requests.push(format!("GET {path}\nHost: {name}.example:%%PORT%%"));
        }
    }
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree(&(GRANTED.to_owned() + main + &hosts.concat()), &files(), &requests);
}

/// The first of two aliases counts, and one without a slash is for whole segments.
#[test]
fn aliases_count_in_their_order() {
    let aliases = "Alias /one/deep %%ROOT%%/c\nAlias /one %%ROOT%%/other\nAlias /two/ %%ROOT%%/other/\n\
        Alias /two/deep/ %%ROOT%%/c/\nAlias /note.txt %%ROOT%%/b/note.txt\n";
    agree(
        &(GRANTED.to_owned() + aliases),
        &files(),
        &[
            "GET /one/pic.txt",
            "GET /one/deep/index.html",
            "GET /one/deeper",
            "GET /onepic.txt",
            "GET /two/pic.txt",
            "GET /two/deep/pic.txt",
            "GET /two/deep/index.html",
            "GET /note.txt",
            "GET /note.txts",
        ],
    );
}

/// Redirects of a server come before access rules and aliases; those of the host come before those of the main server.
#[test]
fn redirects_of_servers_come_first() {
    let main = "Redirect permanent /old http://x.example/new\nRedirect /temp /b\nRedirectMatch 301 ^/m/(.*)\\.html$ http://x.example/$1.txt\n\
        RedirectPermanent /with/ http://x.example/w/\nRedirectTemp /query http://x.example/?own=1\nAlias /old %%ROOT%%/c\n\
        Redirect /a.b http://x.example/dot\n<Location /old>\nRequire all denied\n</Location>\n";
    let host = host("*:%%PORT%%", "b", "ServerName b.example\nRedirect /temp http://b.example/own\n")
        + &host("*:%%PORT%%", "c", "ServerName c.example\nRedirect permanent / https://c.example/\n");
    let mut requests = Vec::new();
    for path in [
        "/old",
        "/old/a%20b?c=d",
        "/older",
        "/temp",
        "/temp/x",
        "/m/a.html",
        "/m/a.txt",
        "/with",
        "/with/a",
        "/query",
        "/query?b",
        "/a.b",
        "/axb",
        "/note.txt",
    ] {
        requests.extend(["b", "c"].map(|name| format!("GET {path}\nHost: {name}.example:%%PORT%%")));
    }
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree(&(GRANTED.to_owned() + main + &host), &files(), &requests);
}

/// A line end in a path does not lead around a redirect. Apache writes the same escape with small letters.
#[test]
fn a_line_end_is_redirected() {
    let fulmar = site("Redirect permanent / https://c.example/\n", &[]).start(Server::Fulmar);
    let answer = fulmar.ask("GET /a%0ab");
    assert_eq!(answer.last().field("Location"), Some("https://c.example/a%0Ab"));
    fulmar.stop();
}

/// An address without a host part is every address.
#[test]
fn an_unspecified_address_is_every_address() {
    let hosts = [
        host(
            "0.0.0.0:%%PORT%%",
            "a",
            "ServerName a.example\n<Location />\nRequire all denied\n</Location>\n",
        ),
        host("*:%%PORT%%", "b", "ServerName b.example\n"),
    ];
    let requests = ["GET /\nHost: a.example", "GET /\nHost: b.example", "GET /\nHost: unknown.example"];
    agree(&(GRANTED.to_owned() + &hosts.concat()), &files(), &requests);
}

/// Sections for directories compare with whole paths, however the root and an alias are written.
#[test]
fn paths_are_whole_before_sections_compare_with_them() {
    let sections = "<Directory %%ROOT%%/other>\nRequire all denied\n</Directory>\n\
        <DirectoryMatch \"^%%ROOT%%/b/\">\nRequire all denied\n</DirectoryMatch>\n";
    let aliases = "Alias /up/ %%ROOT%%/a/../other/\nAlias /dot %%ROOT%%/./other\nAlias /two %%ROOT%%//b\n\
        Alias /fine %%ROOT%%/a/../c\n";
    let requests = [
        "GET /up/pic.txt",
        "GET /dot/pic.txt",
        "GET /two/note.txt",
        "GET /fine/start.html",
        "GET /fine/../other/pic.txt",
    ];
    agree(&format!("{GRANTED}{sections}{aliases}"), &files(), &requests);
    let root = host("*:%%PORT%%", "a/../other", "");
    agree(&format!("{GRANTED}{sections}{root}"), &files(), &["GET /pic.txt", "GET /deep/pic.txt"]);
}

/// Debian's list of types has names that end as those of handlers do.
#[test]
fn types_come_from_a_file() {
    let files = [
        (
            "types",
            "# a list\napplication/x-msdos-program com exe\ntext/x-tcl tcl tk\napplication/vnd.yamaha.hv-script hvs\n",
        ),
        ("a.exe", "a program of another system"),
        ("a.tk", "text"),
        ("a.hvs", "a script of another system"),
    ];
    let lines = format!("{GRANTED}TypesConfig %%ROOT%%/types\n");
    agree(&lines, &files, &["GET /a.exe", "GET /a.tk", "GET /a.hvs"]);
}
