//! `-t` and `lint` find what is wrong with `.htaccess` files before a request does.

use std::process::Output;

use tests::binary::Server;
use tests::site::Site;

use super::site;

fn run(site: &Site, arguments: &[&str]) -> Output {
    let text = super::CONFIGURATION;
    site.write_configuration(Server::Fulmar, text);
    match arguments {
        ["lint", rest @ ..] => {
            let mut command = std::process::Command::new(Server::Fulmar.path());
            let configuration = site.prefix().join("fulmar.conf");
            command.arg("lint").arg("-c").arg(configuration).arg("-p").arg(site.prefix()).args(rest);
            command.output().unwrap()
        }
        arguments => site.command(Server::Fulmar).args(arguments).output().unwrap(),
    }
}

fn broken() -> Site {
    let files = [
        (".htaccess", "RewriteEngine on\nRewriteRule ^x$ y [L]\n"),
        ("sub/.htaccess", "\nAuthFormProvider file\n"),
        ("sub/deep/.htaccess", "<Files a.txt>\nNoSuchThing\n</Files>\n"),
        ("set/.htaccess", "SetEnv PHP_VALUE x\n"),
    ];
    site(&files).link("around", ".")
}

#[test]
fn a_test_warns_and_does_not_fail() {
    let site = broken();
    let output = run(&site, &["-t"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let root = site.root();
    let hint = "let the application ask for the password, or use AuthType Basic";
    let end = "all requests for this directory are answered with 500";
    for expected in [
        format!(
            "[warn] \"AuthFormProvider\" of mod_auth_form is not supported in {}/sub/.htaccess:2; {hint}; {end}",
            root.display()
        ),
        format!("[warn] unknown directive \"NoSuchThing\" in {}/sub/deep/.htaccess:2; {end}", root.display()),
        "[warn] \"SetEnv\" sets \"PHP_VALUE\", which is reserved".to_owned(),
        format!("{}/.htaccess: rewrites paths (2)\n", root.display()),
        format!("{}/set/.htaccess: sets variables (1)\n", root.display()),
        "read 4 .htaccess files in 5 directories\n".to_owned(),
    ] {
        assert!(text.contains(&expected), "{expected}\n{text}");
    }
    let quiet = run(&site, &["-t", "-q"]);
    let text = String::from_utf8_lossy(&quiet.stderr).into_owned();
    assert!(text.contains("AuthFormProvider") && !text.contains("rewrites paths"), "{text}");
}

#[test]
fn lint_finds_the_same() {
    let site = broken();
    let output = run(&site, &["lint"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("answered with 500 (htaccess)"), "{text}");
    assert!(text.contains("read 4 .htaccess files in 5 directories\n"), "{text}");
    assert!(text.contains("3 of level warn") && text.contains("/.htaccess: rewrites paths (2)\n"), "{text}");
    assert_eq!(run(&site, &["lint", "--deny", "warn"]).status.code(), Some(1));
    let json = run(&site, &["lint", "--json"]);
    let text = String::from_utf8_lossy(&json.stdout).into_owned();
    assert_eq!(text.matches("\"rule\":\"htaccess\"").count(), 3, "{text}");
    assert_eq!(text.matches("\"does\":").count(), 2, "{text}");
    let allowed = run(&site, &["lint", "--allow", "htaccess"]);
    assert!(!String::from_utf8_lossy(&allowed.stdout).contains("htaccess"));
}

/// Each warning names a file and a line. The last line says that a root is closed.
#[test]
fn doubtful_lines_are_told_with_their_place() {
    let files = [
        (".htaccess", "Header set X y env=NOWHERE\nSetEnv A 1\n"),
        ("users/.htaccess", "AuthType Basic\nAuthName a\nAuthUserFile /nowhere/x\nRequire valid-user\n"),
        ("php/.htaccess", "\nphp_value a b\n"),
        ("ldap/.htaccess", "<IfModule mod_authnz_ldap.c>\nRequire ldap-user x\n</IfModule>\n"),
        ("endless/.htaccess", "RewriteEngine on\nRewriteRule ^(.*)$ public/$1 [L]\n"),
        ("ends/.htaccess", "RewriteEngine on\nRewriteRule ^(.*)$ public/$1 [L]\nHeader set X y env=A\n"),
        ("ends/public/.htaccess", "RewriteEngine on\n"),
    ];
    let site = site(&files);
    let text = String::from_utf8_lossy(&run(&site, &["-t"]).stderr).into_owned();
    let root = site.root().display().to_string();
    for expected in [
        format!("variable \"NOWHERE\" in {root}/.htaccess:1; set it by SetEnvIf"),
        format!(
            "requests that need a user get 500 in {root}/users/.htaccess:3; write \"htaccess_user_files /nowhere;\""
        ),
        format!("in the server's configuration in {root}/php/.htaccess:2;"),
        format!("in {root}/ldap/.htaccess:1; if the section never counted in Apache"),
        "or use auth_request in the server's configuration, with a service that asks LDAP".to_owned(),
        format!("\"public/\u{2026}\": requests end with 500 in {root}/endless/.htaccess:2; write"),
        "test is successful\n".to_owned(),
    ] {
        assert!(text.contains(&expected), "{expected}\n{text}");
    }
    assert_eq!(text.matches("[warn]").count(), 5, "{text}");
    let closed = site.file(".htaccess", "php_value a b\n");
    let output = run(&closed, &["-t"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("whose root this is, are answered with 500"), "{text}");
    assert!(
        text.contains("test is successful, but all requests for 1 of its roots end with an error"),
        "{text}"
    );
}

#[test]
fn an_explanation_names_the_rule_and_the_condition() {
    let rules = "RewriteEngine on\nRewriteCond %{HTTPS} on\nRewriteRule ^old/(.*)$ /never [L]\n\
                 RewriteRule ^old/(.*)$ /new/$1 [R=301,L]\nRewriteRule ^secret - [F]\nRewriteRule ^a$ a.txt\n";
    let site = site(&[(".htaccess", rules), ("users/.htaccess", "Require all denied\n")]).file("a.txt", "a");
    let port = site.write_configuration(Server::Fulmar, super::CONFIGURATION)[&0];
    let explain = |path: &str| {
        let mut command = std::process::Command::new(Server::Fulmar.path());
        command.arg("explain").arg("-c").arg(site.prefix().join("fulmar.conf")).arg("-p").arg(site.prefix());
        let output = command.arg(format!("http://localhost:{port}{path}")).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let file = site.root().join(".htaccess").display().to_string();
    let old = explain("/old/x");
    for expected in [
        format!("condition    does not hold for \"off\"\n             {file}:2: RewriteCond %{{HTTPS}} on\n"),
        format!(
            "is redirected to \"/new/x\" with 301\n             {file}:4: RewriteRule ^old/(.*)$ /new/$1 [R=301,L]\n"
        ),
    ] {
        assert!(old.contains(&expected), "{expected}\n{old}");
    }
    assert!(
        explain("/secret").contains(&format!("\"secret\" is answered with 403\n             {file}:5: "))
    );
    assert!(explain("/a").contains("rule         \"a\" becomes \"a.txt\"\n"));
    let denied = explain("/users/x");
    assert!(denied.contains("mod_authz_core refuses the request with 403"), "{denied}");
}

#[test]
fn an_explanation_names_redirects_and_access_rules() {
    let redirects = "Redirect permanent /old /new\nRedirectMatch 410 ^/gone$\n";
    let closed = "Require ip 192.0.2.1\nRequire ip 192.0.2.2\n";
    let denied = "Order allow,deny\nAllow from all\nDeny from 127.0.0.0/8\n";
    let site = site(&[
        (".htaccess", redirects),
        ("closed/.htaccess", closed),
        ("denied/.htaccess", denied),
        ("ordered/.htaccess", "Order allow,deny\nAllow from 192.0.2.1\n"),
        ("users/.htaccess", "AuthType Basic\nAuthName x\nAuthUserFile none\nRequire valid-user\n"),
    ]);
    let port = site.write_configuration(Server::Fulmar, super::CONFIGURATION)[&0];
    let root = site.root();
    for (path, feature, text, line) in [
        ("/old/x", "redirect", "the request ends with 301", ".htaccess:1: Redirect permanent /old /new"),
        ("/gone", "redirect", "the request ends with 410", ".htaccess:2: RedirectMatch 410 ^/gone$"),
        ("/closed/x", "require", "the requirement is not met", "closed/.htaccess:1: Require ip 192.0.2.1"),
        ("/closed/x", "require", "the requirement is not met", "closed/.htaccess:2: Require ip 192.0.2.2"),
        ("/denied/x", "deny", "the line names the client", "denied/.htaccess:3: Deny from 127.0.0.0/8"),
        (
            "/ordered/x",
            "order",
            "the line lets in only clients that \"Allow\" names",
            "ordered/.htaccess:1: Order allow,deny",
        ),
        ("/users/x", "require", "the requirement needs a user", "users/.htaccess:4: Require valid-user"),
    ] {
        let mut command = std::process::Command::new(Server::Fulmar.path());
        command.arg("explain").arg("-c").arg(site.prefix().join("fulmar.conf")).arg("-p").arg(site.prefix());
        let output = command.arg(format!("http://localhost:{port}{path}")).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let expected = format!("{feature:<12} {text}\n             {}/{line}\n", root.display());
        assert!(told.contains(&expected), "{expected}\n{told}");
    }
}
