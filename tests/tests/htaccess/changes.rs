//! What changes between two requests counts at the second one: files that sections and entity tags depend on, and the
//! directories of `.htaccess` files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tests::apache::{Apache, have_apache};
use tests::binary::Server;
use tests::site::{Running, Site};

use super::handling::tagged;
use super::{aged, agree_on, shown, site};

/// Sections that count if a file is there.
#[test]
fn sections_about_files() {
    let site = site(&[("there.txt", ""), ("folder/x", "")]);
    let root = site.root().display().to_string();
    let paths = [
        "%%/there.txt",
        "\"%%/there.txt\"",
        "%%/folder",
        "%%/folder/",
        "%%",
        "%%/",
        "%%/missing",
        "%%/there.txt/x",
        "%%//there.txt",
        "%%/./there.txt",
        "missing-relative",
        "/missing-at-all",
    ];
    let rules = [
        "Header set X-In yes\n",
        "RewriteEngine On\nRewriteRule ^a a.html\n",
        "<Files a.txt>\nHeader set X-Files yes\n</Files>\n",
        "ErrorDocument 404 no\n<IfFile %%/folder/x>\nHeader always set X-Deep yes\n</IfFile>\n",
        "<If \"true\">\n<IfFile !%%/nothing>\nHeader set X-If yes\n</IfFile>\n</If>\n",
    ];
    let (mut site, mut requests) = (site, Vec::new());
    for (number, (path, rules)) in paths.iter().flat_map(|path| rules.map(|rules| (path, rules))).enumerate()
    {
        let no = format!("!{path}").replace("!\"", "\"!");
        let text =
            format!("<IfFile {path}>\n{rules}</IfFile>\n<IfFile {no}>\nHeader set X-Not yes\n</IfFile>\n");
        let files = [(".htaccess", text.replace("%%", &root)), ("a.txt", "a".into()), ("a.html", "b".into())];
        site = files.iter().fold(site, |site, (name, text)| site.file(&format!("{number}/{name}"), text));
        requests.extend([format!("GET /{number}/a.txt"), format!("GET /{number}/none")]);
    }
    agree_on(aged(site), &[], &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

/// What a site may not look at is not there.
#[test]
fn sections_about_files_outside_of_the_root() {
    let site = site(&[]);
    let prefix = site.prefix().display().to_string();
    let header = "Header set X-In yes\n";
    let texts = [
        format!("<IfFile /dev/null>\n{header}</IfFile>\n"),
        format!("<IfFile {prefix}>\n{header}</IfFile>\n"),
        format!("<IfFile {prefix}/html/../html/a.txt>\n{header}</IfFile>\n"),
        format!("<IfFile {prefix}/html2>\n{header}</IfFile>\n"),
        format!("<IfFile !/dev/null>\n{header}</IfFile>\n"),
        format!("<IfFile html/a.txt>\n{header}</IfFile>\n"),
        "<IfFile /dev/null>\nRequire all denied\n</IfFile>\n".to_owned(),
        "<IfFile !/dev/null>\nRequire all granted\n</IfFile>\n".to_owned(),
        "<IfFile >\n</IfFile>\n".to_owned(),
        "<IfFile !>\n</IfFile>\n".to_owned(),
    ];
    let names = texts.iter().enumerate();
    let site = names.fold(site.file("../html2/x", ""), |site, (at, text)| {
        site.file(&format!("{at}/.htaccess"), text).file(&format!("{at}/a.txt"), "a")
    });
    let running = site.start(Server::Fulmar);
    let answers: Vec<(u16, bool)> = (0..texts.len())
        .map(|at| {
            let answer = running.ask(&format!("GET /{at}/a.txt"));
            (answer.last().status, answer.last().field("X-In").is_some())
        })
        .collect();
    let (no, yes, broken) = ((200, false), (200, true), (500, false));
    assert_eq!(answers, [no, no, no, no, yes, yes, broken, broken, broken, broken]);
    running.stop();
}

#[test]
fn sections_follow_their_files() {
    if !have_apache() {
        return;
    }
    let site = site(&[]);
    let root = site.root();
    let flag = root.join("flag");
    let site = site.file(
        ".htaccess",
        format!(
            "<IfFile {0}>\nHeader set X-In yes\n<Files b.txt>\nRequire all denied\n</Files>\n</IfFile>\n\
             <Files a.txt>\n<IfFile {0}>\nHeader set X-Files yes\n</IfFile>\n</Files>\n",
            flag.display()
        ),
    );
    let broken = format!("<IfFile {}>\nNonsense\n</IfFile>\n", flag.display());
    let site = aged(site.file("broken/.htaccess", broken).file("broken/a.txt", "a"));
    let apache = Apache::start(&site);
    let fulmar = site.start(Server::Fulmar);
    let mut seen = Vec::new();
    for is_there in [false, true, true, false, true, false] {
        match is_there {
            true => fs::write(&flag, "").expect("a file"),
            false => drop(fs::remove_file(&flag)),
        }
        for request in ["GET /a.txt", "GET /b.txt", "GET /broken/a.txt", "GET /a.txt", "GET /broken/a.txt"] {
            let ours = shown(fulmar.ask(request).last(), 0);
            assert_eq!(ours, shown(apache.ask(request).last(), 0), "{request} {is_there}");
            seen.push(ours);
        }
    }
    assert_ne!(seen[0], seen[5]);
    fulmar.stop();
}

#[test]
fn a_digest_follows_the_content() {
    if !have_apache() {
        return;
    }
    let site = site(&[(".htaccess", "FileETag Digest\n"), ("a.txt", "one")]);
    let path = site.root().join("a.txt");
    let apache = Apache::start(&site);
    let fulmar = site.start(Server::Fulmar);
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let mut tags = Vec::new();
    for text in ["one", "two", "one", "six"] {
        // Neither the size nor the time of the content tells the states apart.
        fs::write(&path, text).expect("a file");
        let file = fs::File::options().write(true).open(&path);
        file.and_then(|file| file.set_modified(old)).expect("a time");
        for _ in 0..2 {
            let ours = tagged(fulmar.ask("GET /a.txt").last(), 0);
            assert_eq!(ours, tagged(apache.ask("GET /a.txt").last(), 0), "{text}");
            tags.push(ours);
        }
    }
    assert!(tags[0] == tags[1] && tags[0] == tags[4] && tags[0] != tags[2] && tags[2] != tags[6], "{tags:?}");
    // Too long for a digest.
    fs::File::options().write(true).open(&path).and_then(|file| file.set_len(17 << 20)).expect("a file");
    assert!(tagged(fulmar.ask("HEAD /a.txt").last(), 0).contains("1100000-"), "size and time");
    fulmar.stop();
}

/// The version that each of two requests on one connection sees, with a change between them.
fn versions(running: &Running, path: &str, change: impl FnOnce()) -> [String; 2] {
    let version = || {
        let answer = running.ask(&format!("GET {path}"));
        let version = answer.last().field("X-Version").unwrap_or("none");
        format!("{} {version}", answer.last().status)
    };
    // The second is answered by what was kept.
    let (first, before) = (version(), version());
    assert_eq!(first, before);
    change();
    [before, version()]
}

fn set(version: &str) -> String {
    format!("Header set X-Version {version}\n")
}

fn versioned(files: &[(&str, &str)]) -> Site {
    let site = site(&[("d/e/f/a.txt", "a"), ("other/e/f/a.txt", "a")]);
    let site = files.iter().fold(site, |site, (path, version)| site.file(path, set(version)));
    aged(site)
}

/// What happens, the versions of files with settings, how they change, and the answers before and after.
type Case = (&'static str, &'static [(&'static str, &'static str)], fn(&Path), [&'static str; 2]);

/// Each change of the way to a file: the files and the requests to answer before and after.
#[test]
fn every_change_of_the_way_counts() {
    let cases: [Case; 9] = [
        (
            "an edit",
            &[("d/.htaccess", "1")],
            |root| fs::write(root.join("d/.htaccess"), set("2")).unwrap(),
            ["200 1", "200 2"],
        ),
        (
            "an edit of the same length by another name",
            &[("d/.htaccess", "1"), ("other/link", "1")],
            |root| {
                fs::remove_file(root.join("other/link")).unwrap();
                fs::hard_link(root.join("d/.htaccess"), root.join("other/link")).unwrap();
                fs::write(root.join("other/link"), set("2")).unwrap();
            },
            ["200 1", "200 2"],
        ),
        (
            "a removal",
            &[("d/.htaccess", "1"), ("d/e/.htaccess", "2")],
            |root| fs::remove_file(root.join("d/e/.htaccess")).unwrap(),
            ["200 2", "200 1"],
        ),
        (
            "a new file",
            &[("d/.htaccess", "1")],
            |root| fs::write(root.join("d/e/f/.htaccess"), set("2")).unwrap(),
            ["200 1", "200 2"],
        ),
        (
            "a parent is renamed, and another one takes its place",
            &[("d/e/.htaccess", "1"), ("other/e/.htaccess", "2")],
            |root| {
                fs::rename(root.join("d"), root.join("gone")).unwrap();
                fs::rename(root.join("other"), root.join("d")).unwrap();
            },
            ["200 1", "200 2"],
        ),
        (
            "a parent without files takes the place",
            &[("d/e/.htaccess", "1")],
            |root| {
                fs::rename(root.join("d"), root.join("gone")).unwrap();
                fs::rename(root.join("other"), root.join("d")).unwrap();
            },
            ["200 1", "200 none"],
        ),
        (
            "a link leads elsewhere",
            &[("d/e/.htaccess", "1"), ("other/e/.htaccess", "2")],
            |root| {
                fs::rename(root.join("d"), root.join("gone")).unwrap();
                symlink("other", root.join("d")).unwrap();
            },
            ["200 1", "200 2"],
        ),
        (
            "a file with settings is a link that leads elsewhere",
            &[("d/.htaccess", "1"), ("other/x", "2")],
            |root| {
                fs::remove_file(root.join("d/.htaccess")).unwrap();
                symlink("../other/x", root.join("d/.htaccess")).unwrap();
            },
            ["200 1", "200 2"],
        ),
        (
            "a directory takes the place of a file with settings",
            &[("d/.htaccess", "1")],
            |root| {
                fs::remove_file(root.join("d/.htaccess")).unwrap();
                fs::create_dir(root.join("d/.htaccess")).unwrap();
            },
            ["200 1", "403 none"],
        ),
    ];
    for (name, files, change, expected) in cases {
        let site = versioned(files);
        let running = site.start(Server::Fulmar);
        let root = site.root();
        assert_eq!(versions(&running, "/d/e/f/a.txt", || change(&root)), expected, "{name}");
        running.stop();
    }
}

/// Links that are repointed again and again, as deployments do.
#[test]
fn a_link_to_the_release_is_followed_at_each_request() {
    let site = versioned(&[("d/e/.htaccess", "1"), ("other/e/.htaccess", "2")]);
    let root = site.root();
    symlink("d", root.join("current")).expect("a link");
    let running = site.start(Server::Fulmar);
    for (target, from, to) in
        [("other", "200 1", "200 2"), ("d", "200 2", "200 1"), ("other", "200 1", "200 2")]
    {
        let change = || {
            symlink(target, root.join("next")).expect("a link");
            fs::rename(root.join("next"), root.join("current")).expect("a rename");
        };
        assert_eq!(versions(&running, "/current/e/f/a.txt", change), [from, to]);
    }
    running.stop();
}

/// What rules ask about the file of a request is asked at each request.
#[test]
fn conditions_follow_the_file() {
    let rules = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} -s\nRewriteRule ^ - [L]\nRewriteRule ^ /front.txt\n";
    let site = aged(site(&[("d/.htaccess", rules), ("front.txt", "front"), ("d/a.txt", "a")]));
    let file = site.root().join("d/a.txt");
    let running = site.start(Server::Fulmar);
    let mut answers = Vec::new();
    let changes: [&dyn Fn(); 4] = [
        &|| {},
        &|| fs::write(&file, "").expect("an empty file"),
        &|| fs::write(&file, "b").expect("a file"),
        &|| fs::remove_file(&file).expect("no file"),
    ];
    for change in changes {
        change();
        // The second is answered by what was kept.
        answers.extend((0..2).map(|_| running.ask("GET /d/a.txt").last().text()));
    }
    assert_eq!(answers, ["a", "a", "front", "front", "b", "b", "front", "front"]);
    running.stop();
}
