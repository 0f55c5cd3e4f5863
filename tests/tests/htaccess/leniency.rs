//! Lines that are written wrong, or for an Apache of old, and that Apache 2.4 takes all the same.

use tests::binary::Server;

use super::{agree, agree_on, site};

/// Folders with these files, and a request for a file in each.
fn in_folders(texts: &[&str]) -> (Vec<(String, String)>, Vec<String>) {
    let files = texts.iter().enumerate().flat_map(|(at, text)| {
        [(format!("{at}/.htaccess"), format!("{text}\n")), (format!("{at}/a.txt"), "a".to_owned())]
    });
    (files.collect(), (0..texts.len()).map(|at| format!("GET /{at}/a.txt")).collect())
}

fn agree_in_folders(texts: &[&str]) {
    let (files, requests) = in_folders(texts);
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    agree(&files, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn units_of_time_by_their_first_letters() {
    const TIMES: [&str; 30] = [
        "access plus 1 year?",
        "access plus 1 yr",
        "access plus 2 mo",
        "access plus 2 mos.",
        "access plus 3 d",
        "access 1 week",
        "now plus 1 h",
        "access plus 5 mi",
        "access plus 50 s",
        "modification plus 1 d",
        "m plus 1 day",
        "a plus 1 day",
        "n 2 days 3 hours",
        "access p 1 day",
        "access plus plus 1 day",
        "access plus 1 day, 2 hours",
        "ACCESS plus 1 day",
        "Access plus 1 month",
        "access Plus 1 Year",
        "access plus 10 minutesx",
        "access plus 1 m",
        "access plus year",
        "access plus 1",
        "access plus 1.5 days",
        "access plus 1day",
        "access plus one day",
        "access",
        "A86400 seconds",
        "a86400",
        "x plus 1 day",
    ];
    let texts = TIMES.map(|time| format!("ExpiresActive on\nExpiresDefault \"{time}\""));
    agree_in_folders(&texts.each_ref().map(String::as_str));
}

#[test]
fn a_star_is_the_name_of_no_host() {
    agree_in_folders(&[
        "Order deny,allow\nAllow from *",
        "Order deny,allow\nDeny from all\nAllow from *",
        "Order allow,deny\nAllow from *",
        "Order allow,deny\nAllow from * 127.0.0.1",
        "Order allow,deny\nAllow from 127 *",
        "Order deny,allow\nDeny from env=none\nAllow from *",
    ]);
    let site = site(&[
        ("a/.htaccess", "Order deny,allow\nAllow from *\n"),
        ("b/.htaccess", "Deny from *\n"),
        ("b/a.txt", "a"),
    ]);
    let running = site.start(Server::Fulmar);
    assert_eq!(running.ask("GET /a/none.txt").last().status, 404);
    running.wait_for_log("error.log", "\"Allow from *\" lets no client in, as in Apache");
    assert_eq!(running.ask("GET /b/a.txt").last().status, 500, "it was meant to deny all");
    running.stop();
}

/// Names of mod_access of Apache 1.3 and 2.0, and names without their ending, next to the sections that count.
#[test]
fn sections_for_modules_of_apache_1_3() {
    const DENIED: &str = "<IfModule mod_access.c>\nDeny from all\n</IfModule>\n\
        <IfModule !mod_access_compat>\n<IfModule mod_authz_host.c>\nDeny from all\n</IfModule>\n</IfModule>\n\
        <IfModule mod_access_compat>\nDeny from all\n</IfModule>\n";
    let in_files = format!("<Files \"*\">\n{DENIED}</Files>");
    let opened = DENIED.replace("Deny", "Allow");
    let some =
        format!("<Files \"*.php\">\n{DENIED}</Files>\n<FilesMatch \"\\.txt$\">\n{opened}</FilesMatch>");
    agree_in_folders(&[
        DENIED,
        &in_files,
        &opened,
        &some,
        "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n<IfModule mod_access.c>\nOrder allow,deny\nDeny from all\n</IfModule>",
        "<IfModule mod_authz_core.c>\nRequire all granted\n</IfModule>\n<IfModule mod_access.c>\nOrder allow,deny\nAllow from all\n</IfModule>",
        "<IfModule mod_authz_core>\nRequire all denied\n</IfModule>\n<IfModule !mod_authz_core>\nOrder allow,deny\nDeny from all\n</IfModule>",
        "<IfModule !mod_access.c>\nHeader set X-A b\n</IfModule>\n<IfModule mod_access.c>\nHeader set X-B b\n</IfModule>",
    ]);
}

#[test]
fn the_environment_of_the_server_is_empty() {
    const TEXT: &str = "SetEnvIfExpr \"osenv('NO_SUCH_MODE') =~ /^(.+)$/\" MODE=$1\n\
        SetEnvIfExpr \"-z osenv('NO_SUCH_MODE')\" PLAIN\nHeader set X-Mode yes env=MODE\nHeader set X-Plain yes env=PLAIN\n";
    agree_on(site(&[(".htaccess", TEXT)]), &[], &["GET /a.txt"]);
    let running = site(&[(".htaccess", TEXT)]).start(Server::Fulmar);
    assert_eq!(running.ask("GET /a.txt").last().field("X-Plain"), Some("yes"));
    running.wait_for_log(
        "error.log",
        "\"osenv\" is empty: .htaccess files do not see the server's own environment",
    );
    running.stop();
}
