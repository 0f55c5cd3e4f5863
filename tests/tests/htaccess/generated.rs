//! `.htaccess` files that were made up by a grammar, on both servers: status, fields and body agree. `FOLDERS` and
//! `FOLDER_SEED` choose how many and which.

use std::fmt::Write;

use tests::apache::{Apache, have_apache};
use tests::binary::Server;
use tests::client;
use tests::htaccess_grammar::{FILES, Folder, generate};

use super::{aged, shown, site};

/// How many directories there are if nothing else is said.
const RUNS: u64 = 20;
/// How many one process serves at once.
const TOGETHER: u64 = 50;
/// How many requests meet each.
const REQUESTS: usize = 20;

/// Directories for which answers differ, of the first 500 and of those from 100,000 and 200,000 on, and why.
const KNOWN: [(u64, &str); 9] = [
    (219, "rules redirect a name of `DirectoryIndex` that does not exist"),
    (294, "END for a directory, whose index another rule rewrites"),
    (351, "rules for a name of the index of a directory"),
    (100_159, "as 219, and rules refuse the document of an error"),
    (100_384, "a section refuses a name of the index that does not exist"),
    (200_040, "a rule sends the document of an error to a file that the client may not have"),
    (200_075, "as 219, and the rule refuses the directory"),
    (200_106, "as 200075"),
    (200_359, "as 219"),
];

#[test]
fn are_carried_out_alike() {
    if !have_apache() {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (runs, first) = (number("FOLDERS").unwrap_or(RUNS), number("FOLDER_SEED").unwrap_or(0));
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
    let is_error = !shown.starts_with("200");
    let is_head = request.starts_with("HEAD ");
    let lines = shown.split('\n').filter_map(|line| {
        // The type of a server's own page, whose body is not there to tell.
        if is_head && is_error && line.starts_with("content-type: text/html") {
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
    let site = folders.iter().fold(site(&[root]), |site, folder| {
        let name = folder.seed;
        let site = FILES.iter().fold(site, |site, (path, text)| site.file(&format!("{name}/{path}"), text));
        let site = site.file(&format!("{name}/.htaccess"), &folder.text);
        match folder.inner.as_str() {
            "" => site,
            inner => site.file(&format!("{name}/sub/.htaccess"), inner),
        }
    });
    let site = aged(site);
    let mut apache = Apache::start(&site);
    let fulmar = site.start(Server::Fulmar);
    let mut differing = 0;
    for folder in folders {
        if KNOWN.iter().any(|(seed, _)| *seed == folder.seed) {
            continue;
        }
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
                apache = Apache::start(&site);
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
                        "\nFOLDERS=1 FOLDER_SEED={}\n{}--- sub\n{}",
                        folder.seed, folder.text, folder.inner
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
    fulmar.stop();
    differing
}
