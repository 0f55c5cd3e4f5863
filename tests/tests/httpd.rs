//! Apache's main configuration.

mod debian;
mod hosts;
mod reading;
mod refused;
mod sections;

use std::fmt::Write;

use tests::apache::{Apache, have_apache, load};
use tests::binary::Server;
use tests::site::Site;

use crate::htaccess::{shown, with_host};

/// The beginning of a main configuration, up to its servers.
fn start() -> String {
    let modules = load(&[
        "mpm_event",
        "authn_core",
        "authz_core",
        "authz_host",
        "access_compat",
        "alias",
        "autoindex",
        "dir",
        "mime",
        "headers",
        "rewrite",
        "setenvif",
        "env",
    ]);
    let user = if rustix::process::geteuid().is_root() { "User www-data\nGroup www-data\n" } else { "" };
    format!(
        "ServerRoot %%DIR%%\n{modules}{user}PidFile %%LOGS%%/pid\nErrorLog %%LOGS%%/error.log\nDefaultRuntimeDir %%LOGS%%\n\
        Listen 127.0.0.1:%%PORT%%\nServerName localhost\nDocumentRoot %%ROOT%%\nTypesConfig /dev/null\n\
        AddType text/html .html\nAddType text/plain .txt\n"
    )
}

/// A site with a main configuration that goes on with these lines.
fn site(lines: &str, files: &[(&str, &str)]) -> Site {
    let site = Site::whole(&(start() + lines));
    files.iter().fold(site, |site, (path, text)| site.file(path, text))
}

/// Has Apache and Fulmar answer the requests by the same main configuration.
fn agree(lines: &str, files: &[(&str, &str)], requests: &[&str]) {
    if !have_apache() {
        return;
    }
    let site = site(lines, files);
    let apache = Apache::start_whole(&site, &(start() + lines));
    let fulmar = site.start(Server::Fulmar);
    let mut report = String::new();
    for request in requests {
        let has_host = request.contains("Host:") || request.contains("HTTP/1.0");
        let request = if has_host { (*request).to_owned() } else { with_host(request) };
        let own = |port: u16| request.replace("%%PORT%%", &port.to_string());
        let expected = apache.ask(&own(apache.port()));
        let got = fulmar.ask(&own(fulmar.address().port()));
        let left = shown(expected.last(), apache.port());
        let right = shown(got.last(), fulmar.address().port());
        if left != right {
            let _ = writeln!(report, "==== {request}\n-- apache\n{left}\n-- fulmar\n{right}\n");
        }
    }
    let logs = format!("--- apache\n{}{}", apache.log(), fulmar.all_logs());
    assert!(report.is_empty(), "{report}\n{logs}");
    fulmar.stop();
}
