//! The manual's examples are true: of Fulmar always, and of nginx where the page does not say otherwise.

mod pages;

use std::fs;
use std::path::Path;

use tests::binary::{Nginx, Server, have_nginx, nginx_with};
use tests::manual::{self, Document};
use tests::site::Site;

#[test]
fn examples_are_true() {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/modules/src");
    let pattern = modules.join("**/*.rs");
    let nginx = have_nginx();
    let mut wrong = Vec::new();
    for path in glob::glob(pattern.to_str().expect("a path")).expect("a pattern").filter_map(Result::ok) {
        let name = path.strip_prefix(&modules).unwrap_or(&path).display().to_string();
        let source = fs::read_to_string(&path).expect("source");
        match manual::parse(&source) {
            Ok(document) => {
                let found = run(&document, Server::Fulmar, None);
                wrong.extend(found.map(|text| format!("{name}\n{text}")));
                if !nginx || !document.nginx {
                    continue;
                }
                let parts: Vec<&str> = document.parts.iter().map(String::as_str).collect();
                if let Some(nginx) = nginx_with(&parts) {
                    let found = run(&document, Server::Nginx, Some(&nginx));
                    wrong.extend(found.map(|text| format!("{name}\n{text}")));
                }
            }
            Err(message) => wrong.push(format!("{name}: {message}")),
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs all examples of a document; gives what was not as written.
fn run(document: &Document, server: Server, nginx: Option<&Nginx>) -> Option<String> {
    let mut wrong = String::new();
    let upstreams = document.start_upstreams();
    for example in &document.examples {
        if example.transcripts.is_empty() {
            // Nothing is asked, so that it need not run; and only a test leaves the paths in it alone.
            if server == Server::Fulmar
                && let Err(text) = document.site(example, &upstreams).test(server)
            {
                wrong.push_str(&text);
            }
            continue;
        }
        let site = document.site(example, &upstreams);
        let site = nginx.cloned().into_iter().fold(site, Site::nginx);
        match site.try_start(server) {
            Ok(running) => {
                wrong.push_str(&example.run(&running));
                running.stop();
            }
            Err(logs) => wrong.push_str(&format!(
                "{} does not start:\n{}\n{logs}",
                server.name(),
                example.configuration
            )),
        }
    }
    if wrong.is_empty() { None } else { Some(wrong) }
}
