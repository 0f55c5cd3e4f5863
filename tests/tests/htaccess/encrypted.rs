//! Variables that modules of Apache set over TLS, and the phase from which on they are there.

use std::fmt::Write;

use tests::apache::{Apache, have_apache, load};
use tests::binary::Server;
use tests::tls::{Client, Kind, certificate};

use super::{DOCUMENTS, Site, shown};

const CONFIGURATION: &str = "server {
    listen 127.0.0.1:%%PORT%% ssl;
    ssl_certificate %%DIR%%/a.pem;
    ssl_certificate_key %%DIR%%/a.key;
    root %%ROOT%%;
    htaccess on;
    default_type '';
    types { text/html html php; text/plain txt; text/css css; text/javascript js; }
}";

/// Has both servers answer the requests over TLS, with this name in the handshake and without one.
fn agree(files: &[(&str, &str)], requests: &[&str]) {
    if !have_apache() {
        return;
    }
    let made = certificate("localhost", Kind::Ecdsa);
    let site = Site::new(CONFIGURATION).in_prefix("a.pem", &made.pem).in_prefix("a.key", &made.key);
    let site = DOCUMENTS.iter().chain(files).fold(site, |site, (path, text)| site.file(path, text));
    let directory = site.prefix();
    let directory = directory.display();
    let more = format!(
        "{}SSLEngine on\nSSLCertificateFile {directory}/a.pem\nSSLCertificateKeyFile {directory}/a.key\n",
        load(&["socache_shmcb", "ssl"])
    );
    let apache = Apache::start_with(&site, &more);
    let fulmar = site.start(Server::Fulmar);
    let mut report = String::new();
    for name in [Some("localhost"), None] {
        let client = Client::new(name);
        for request in requests {
            let ask = |address: std::net::SocketAddr| {
                let own = request.replace("%%PORT%%", &address.port().to_string());
                let spoken = client.ask(address, &own).expect("a handshake");
                shown(spoken.answer.last(), address.port())
            };
            let (left, right) = (ask(apache.address()), ask(fulmar.address()));
            if left != right {
                let _ = writeln!(report, "==== {name:?} {request}\n-- apache\n{left}\n-- fulmar\n{right}\n");
            }
        }
    }
    assert!(report.is_empty(), "{report}\n--- apache\n{}{}", apache.log(), fulmar.all_logs());
    fulmar.stop();
}

#[test]
fn variables_of_mod_ssl_are_there_from_its_phase_on() {
    const SHOW: &str = "Header always set Strict-Transport-Security max-age=31536000 env=HTTPS\n\
        Header always set X-Clear 1 env=!HTTPS\nHeader always set X-Value %{HTTPS}e\n\
        Header always set X-Name %{SSL_TLS_SNI}e env=SSL_TLS_SNI\nHeader always set X-Redirected 1 env=REDIRECT_HTTPS\n\
        Header always set X-Early 1 env=EARLY\nHeader always set X-Expression 1 \"expr=reqenv('HTTPS') == 'on'\"\n";
    let root = format!(
        "{SHOW}Header set Set-Cookie a=b\nHeader edit Set-Cookie ^(.*)$ \"$1; Secure\" env=HTTPS\n\
         SetEnvIf HTTPS on EARLY\nSetEnvIf Request_URI ^/style HTTPS=off\n\
         RewriteEngine on\nRewriteCond %{{ENV:HTTPS}} on\nRewriteRule ^by-environment$ a.txt [L]\n\
         RewriteCond %{{HTTPS}} on\nRewriteRule ^by-variable$ a.txt [L]\n\
         RewriteCond %{{ENV:REDIRECT_HTTPS}} on\nRewriteRule ^page\\.html$ b.txt [L]\n\
         RewriteRule ^to-page$ page.html [L]\nRewriteRule ^moved$ https://localhost/a.txt [R=301,L]\n\
         RewriteRule ^forbidden$ - [F]\nRewriteRule ^gone$ - [G]\nRedirect 302 /redirected https://localhost/a.txt\n\
         <Files secret.bak>\nRequire all denied\n</Files>\n<Files script.js>\nRequire env HTTPS\n</Files>\n"
    );
    let section = format!("{SHOW}<If \"reqenv('HTTPS') == 'on'\">\nHeader always set X-If 1\n</If>\n");
    let set = format!("{SHOW}SetEnv HTTPS off\n");
    let unset = format!("{SHOW}UnsetEnv HTTPS\n");
    let rule = format!("{SHOW}RewriteEngine on\nRewriteRule ^ - [E=HTTPS:off]\n");
    let document = format!(
        "{SHOW}ErrorDocument 404 /error.html\nErrorDocument 403 /error.html\nRewriteEngine on\n\
        RewriteRule ^forbidden$ - [F]\n"
    );
    agree(
        &[
            (".htaccess", &root),
            ("set/.htaccess", &set),
            ("set/a.txt", "a"),
            ("unset/.htaccess", &unset),
            ("unset/a.txt", "a"),
            ("rule/.htaccess", &rule),
            ("rule/a.txt", "a"),
            ("document/.htaccess", &document),
            ("section/.htaccess", &section),
            ("section/a.txt", "a"),
        ],
        &[
            "GET /a.txt",
            "GET /",
            "HEAD /a.txt",
            "GET /missing",
            "GET /by-environment",
            "GET /by-variable",
            "GET /page.html",
            "GET /to-page",
            "GET /moved",
            "GET /forbidden",
            "GET /gone",
            "GET /redirected",
            "GET /secret.bak",
            "GET /script.js",
            "GET /style.css",
            "GET /sub/",
            "GET /set/a.txt",
            "GET /unset/a.txt",
            "GET /rule/a.txt",
            "GET /section/a.txt",
            "GET /document/none",
            "GET /document/forbidden",
        ],
    );
}
