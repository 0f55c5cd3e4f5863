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
