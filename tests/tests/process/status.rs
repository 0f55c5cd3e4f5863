//! `fulmar status`, and what the environment gives to a configuration.

use std::process::Output;

use rustix::process::Signal;
use tests::binary::Server;
use tests::site::Site;
use tests::wait::until;

use std::time::Duration;

fn status(site: &Site) -> (bool, String) {
    let path = site.prefix().join("fulmar.conf");
    let mut command = std::process::Command::new(Server::Fulmar.path());
    command.arg("status").arg("-p").arg(site.prefix()).arg("-c").arg(path);
    let Output { status, stdout, stderr } = command.output().expect("run");
    (status.success(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[test]
fn status_says_whether_the_server_serves() {
    let site = Site::new("server { listen 127.0.0.1:%%PORT%%; return 200 ok; }");
    let running = site.start(Server::Fulmar);
    // The listening socket accepts before the worker has reported that it serves.
    let serves = || status(&site) == (true, "serving configuration 1\n".to_owned());
    assert!(until(Duration::from_secs(20), serves), "{:?}", status(&site));
    running.signal(Signal::HUP);
    let reloaded = || status(&site) == (true, "serving configuration 2\n".to_owned());
    assert!(until(Duration::from_secs(20), reloaded), "{:?}", status(&site));
    running.stop();
    let (good, text) = status(&site);
    assert!(!good && text.contains("No such file or directory"), "{text}");
}

#[test]
fn templates_have_values_of_the_environment() {
    let site = Site::new("include_template *.template;").in_prefix(
        "a.template",
        "server { listen 127.0.0.1:${OWN_PORT}; location / { return 200 \"$OWN_TEXT $request_method $OWN_NONE\"; } }",
    );
    let port = Site::whole("%%PORT%%").write_configuration(Server::Fulmar, "%%PORT%%")[&0];
    site.write_configuration(Server::Fulmar, "include_template *.template;");
    let run = |text: &str| {
        let mut command = site.command(Server::Fulmar);
        command.arg("-T").env("OWN_PORT", port.to_string()).env("OWN_TEXT", text);
        let Output { status, stdout, stderr } = command.output().expect("run");
        (status.success(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
    };
    let (good, text) = run("hello");
    assert!(
        !good
            && text.contains("unknown \"own_none\" variable")
            && text.contains("environment has no \"OWN_NONE\""),
        "a name without a value is a variable: {text}"
    );
    let whole = site.prefix().join("a.template");
    std::fs::write(&whole, std::fs::read_to_string(&whole).expect("file").replace(" $OWN_NONE", ""))
        .expect("file");
    let (good, text) = run("hello");
    assert!(
        good && text.contains(&format!(
            "listen 127.0.0.1:{port}; location / {{ return 200 \"hello $request_method\""
        )),
        "{text}"
    );
    let (good, text) = run("\"; no_such_directive; \"");
    assert!(!good && text.contains("a.template:1"), "errors name the file: {text}");
}
