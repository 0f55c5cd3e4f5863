//! `.htaccess` files that were made up by a grammar, on both servers: status, fields and body agree. `FOLDERS` and
//! `FOLDER_SEED` choose how many and which.

use std::fmt::Write;

use tests::apache::{self, Apache, have_apache};
use tests::binary::Server;
use tests::client;
use tests::htaccess_grammar::{FILES, Folder, WIDE, generate, wider};
use tests::site::Site;

use super::{aged, shown, site};

/// How many directories there are if nothing else is said.
const RUNS: u64 = 20;
/// How many one process serves at once.
const TOGETHER: u64 = 50;
/// How many requests meet each.
const REQUESTS: usize = 20;

/// What Apache needs besides what it always has.
const MODULES: [&str; 5] = ["auth_basic", "authn_file", "authz_user", "authz_groupfile", "negotiation"];

#[test]
fn are_carried_out_alike() {
    if !have_apache() {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let runs = number("FOLDERS").unwrap_or(RUNS);
    match number("FOLDER_SEED") {
        Some(first) => agree_from(first, runs),
        None => [0, WIDE].into_iter().for_each(|first| agree_from(first, runs)),
    }
}

/// Has both servers answer the requests to so many directories.
fn agree_from(first: u64, runs: u64) {
    let (mut report, mut differing) = (String::new(), 0);
    for begin in (first..first + runs).step_by(usize::try_from(TOGETHER).unwrap()) {
        let seeds = begin..(begin + TOGETHER).min(first + runs);
        let folders: Vec<Folder> = seeds.map(|seed| generate(seed, REQUESTS)).collect();
        differing += compare(&folders, &mut report);
    }
    println!("{} requests to {runs} directories from seed {first} on", runs * REQUESTS as u64);
    assert!(differing == 0, "{differing} answers differ\n{report}");
}

/// A response without what differs as meant.
fn compared(request: &str, shown: &str) -> String {
    let is_head = request.starts_with("HEAD ");
    let lines = shown.split('\n').filter_map(|line| {
        // The type of a server's own page or of a listing, whose body is not there to tell.
        if is_head && line.starts_with("content-type: text/html") {
            return None;
        }
        let Some(location) = line.strip_prefix("location: ") else { return Some(line.to_owned()) };
        // To the host of the request Apache adds its port. Where a rule names no URL, Apache redirects to the path of the
        // file; Fulmar tells nobody where its files are.
        let location = location.replace(":PORT", "");
        let file = location.find("/tmp/site-").and_then(|start| {
            let end = start + location[start..].find("/html/")? + "/html".len();
            Some([&location[..start], &location[end..]].concat())
        });
        Some(format!("location: {}", file.unwrap_or(location)))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn compare(folders: &[Folder], report: &mut String) -> usize {
    let root = (".htaccess", "DirectoryIndex index.html\n");
    let users = wider::USERS.into_iter().chain([root]).collect::<Vec<_>>();
    let site = folders.iter().fold(site(&users), |site, folder| {
        let name = folder.seed;
        let site = FILES.iter().fold(site, |site, (path, text)| site.file(&format!("{name}/{path}"), text));
        let files = [("", &folder.text), ("sub/", &folder.inner), ("sub/deep/", &folder.innermost)];
        files.into_iter().filter(|(_, text)| !text.is_empty()).fold(site, |site, (directory, text)| {
            let text = text.replace(wider::ROOT, &site.root().display().to_string());
            site.file(&format!("{name}/{directory}.htaccess"), text)
        })
    });
    let site = aged(site);
    let modules =
        MODULES.map(|name| format!("LoadModule {name}_module {}/mod_{name}.so\n", apache::MODULES)).concat();
    let start = |site: &Site| Apache::start_with(site, &modules);
    let mut apache = start(&site);
    let fulmar = site.start(Server::Fulmar);
    let mut differing = 0;
    for folder in folders {
        let mut is_shown = false;
        for request in &folder.requests {
            let request = if request.contains("\nHost:") {
                request.clone()
            } else {
                format!("{request}\nHost: localhost:%%PORT%%")
            };
            let own = |port: u16| request.replace("%%PORT%%", &port.to_string());
            let theirs = client::ask(([127, 0, 0, 1], apache.port()).into(), &own(apache.port()));
            let ours = fulmar.ask(&own(fulmar.address().port()));
            let Some(theirs) = theirs.responses.last() else {
                // Some rules make Apache crash.
                drop(apache);
                apache = start(&site);
                continue;
            };
            let left = compared(&request, &shown(theirs, apache.port()));
            let right = compared(&request, &shown(ours.last(), fulmar.address().port()));
            if left == right {
                continue;
            }
            differing += 1;
            if report.len() < 60_000 {
                if !std::mem::replace(&mut is_shown, true) {
                    let _ = writeln!(
                        report,
                        "\nFOLDERS=1 FOLDER_SEED={}\n{}--- sub\n{}--- deep\n{}",
                        folder.seed, folder.text, folder.inner, folder.innermost
                    );
                }
                let _ = writeln!(
                    report,
                    "{}\n  apache {}\n  fulmar {}",
                    request.escape_debug(),
                    left.escape_debug(),
                    right.escape_debug()
                );
            }
        }
    }
    if differing > 0 && folders.len() == 1 {
        let _ = writeln!(report, "--- apache\n{}--- fulmar\n{}", apache.log(), fulmar.all_logs());
    }
    fulmar.stop();
    differing
}
