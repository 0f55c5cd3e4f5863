//! `disable_symlinks`.

use std::os::unix::fs::lchown;

use tests::differential::{agree, agree_on_mistake};
use tests::site::Site;

/// Files, and links of each kind.
fn site(http: &str) -> Site {
    Site::new(http)
        .file("a.txt", "a\n")
        .file("b.html", "b\n")
        .file("dir/c.txt", "c\n")
        .file("dir/index.html", "index\n")
        .file("z.txt.gz", "packed\n")
        .link("link.txt", "a.txt")
        .link("twice.txt", "link.txt")
        .link("try", "a.txt")
        .link("passwd", "/etc/passwd")
        .link("dirlink", "dir")
        .link("dir/up.txt", "../a.txt")
        .link("broken", "nowhere")
        .link("loop", "loop")
        .dir("linked")
        .link("linked/index.html", "../b.html")
        .dir("listed")
        .link("listed/a.txt", "../a.txt")
        .link("listed/dir", "../dir")
        .link("listed/broken", "nowhere")
}

const PATHS: [&str; 17] = [
    "a.txt",
    "link.txt",
    "twice.txt",
    "passwd",
    "dir/c.txt",
    "dir/",
    "dir",
    "dirlink/c.txt",
    "dirlink/",
    "dirlink",
    "dir/up.txt",
    "broken",
    "loop",
    "linked/",
    "listed/",
    "none",
    "a.txt/",
];

#[test]
fn every_setting_and_every_link() {
    let prefixes = ["off", "on", "owner", "from", "slash", "half", "exact", "cached", "cached-on", "alias"];
    let site = site(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            location /off/ { alias %%ROOT%%/; disable_symlinks off; autoindex on; }
            location /on/ { alias %%ROOT%%/; disable_symlinks on; autoindex on; }
            location /owner/ { alias %%ROOT%%/; disable_symlinks if_not_owner; }
            location /from/ { alias %%ROOT%%/; disable_symlinks on from=%%ROOT%%; }
            location /slash/ { alias %%ROOT%%/; disable_symlinks on from=%%ROOT%%/dirlink/; }
            location /half/ { alias %%ROOT%%/; disable_symlinks on from=%%ROOT%%/di; }
            location /exact/ { alias %%ROOT%%/; disable_symlinks on from=$request_filename; }
            location /cached/ {
                alias %%ROOT%%/;
                open_file_cache max=100;
                open_file_cache_errors on;
                disable_symlinks if_not_owner from=$document_root;
            }
            location /cached-on/ { alias %%ROOT%%/; open_file_cache max=100; disable_symlinks on; }
            location /alias/ { alias %%ROOT%%//./dir/..//; disable_symlinks on; }
        }
        "#,
    );
    let requests: Vec<String> =
        prefixes.iter().flat_map(|prefix| PATHS.map(|path| format!("GET /{prefix}/{path}"))).collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree(&site, &requests);
}

#[test]
fn whoever_looks_for_files() {
    let site = site(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            disable_symlinks on;
            open_file_cache max=100;
            location /try/ { try_files /try /b.html =404; }
            location /trydir/ { try_files /dirlink/ /dir/ =404; index index.html; }
            location /if { if (-f $document_root/link.txt) { return 204; } return 205; }
            location /e { if (-e $document_root/dirlink/c.txt) { return 204; } return 205; }
            location /d { if (-d $document_root/dirlink) { return 204; } return 205; }
            location /plain { if (-f $document_root/a.txt) { return 204; } return 205; }
            location /same/off/ { alias %%ROOT%%/; disable_symlinks off; }
            location /same/on/ { alias %%ROOT%%/; }
            location /page { error_page 404 /link.txt; }
            location /fine { error_page 404 /a.txt; }
        }
        "#,
    );
    agree(
        &site,
        &[
            "GET /try/x",
            "GET /trydir/x",
            "GET /if",
            "GET /e",
            "GET /d",
            "GET /plain",
            "GET /same/off/link.txt",
            "GET /same/on/link.txt",
            "GET /same/off/link.txt",
            "GET /same/off/a.txt",
            "GET /same/on/a.txt",
            "GET /page",
            "GET /fine",
            "HEAD /link.txt",
            "POST /link.txt\n\nx",
        ],
    );
}

#[test]
fn links_of_others() {
    let site = site(
        r#"
        server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            disable_symlinks if_not_owner;
            location /from/ { alias %%ROOT%%/; disable_symlinks if_not_owner from=%%ROOT%%/dirlink; }
        }
        "#,
    );
    const NOBODY: u32 = 65_534;
    for name in ["link.txt", "dirlink"] {
        if lchown(site.root().join(name), Some(NOBODY), None).is_err() {
            // Only root may give a link away.
            return;
        }
    }
    agree(
        &site,
        &[
            "GET /link.txt",
            "GET /twice.txt",
            "GET /try",
            "GET /a.txt",
            "GET /dirlink/c.txt",
            "GET /dirlink/",
            "GET /dirlink",
            "GET /from/dirlink/c.txt",
            "GET /from/link.txt",
            "GET /passwd",
        ],
    );
}

#[test]
fn what_cannot_be_written() {
    for wrong in [
        "disable_symlinks yes;",
        "disable_symlinks from=/;",
        "disable_symlinks on off;",
        "disable_symlinks off from=/;",
        "disable_symlinks on; disable_symlinks on;",
        "disable_symlinks on from=$nothing;",
    ] {
        agree_on_mistake(&Site::new(&format!("server {{ listen 127.0.0.1:%%PORT%%; {wrong} }}")));
    }
}
