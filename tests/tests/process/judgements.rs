//! What `-t` says of a configuration, for people: all refusals at once, and each thing once.

use std::path::Path;
use std::process::Command;

use tests::binary::Server;
use tests::site::Site;

/// Whether `-t` takes this file, and what it prints.
fn judged(configuration: &str) -> (bool, String) {
    let site = Site::whole("");
    site.write_configuration(Server::Fulmar, configuration);
    let output = site.command(Server::Fulmar).arg("-t").output().unwrap();
    let path = site.prefix().join("fulmar.conf").display().to_string();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).replace(&path, "CONF"))
}

fn headlines<'a>(printed: &'a str, level: &str) -> Vec<&'a str> {
    let start = format!("fulmar: [{level}] ");
    printed.lines().filter_map(|line| line.strip_prefix(&start)).collect()
}

/// The quoted name that a headline begins with.
fn subject(headline: &str) -> &str {
    headline.split('"').nth(1).unwrap_or_default()
}

const REFUSED: &str = "events {}
stream { server { listen 1; } }
mail { }
http {
    access_log off;
    server {
        ssl_verify_client on;
        location / { ssi on; echo hi; }
        location /b { content_by_lua_block { ngx.say(\"}\") if { } } }
    }
    server { ssl_verify_client on; location / { echo x; } }
    server { MORE; }
}
";

#[test]
fn all_refusals_are_told_at_once() {
    let (good, printed) = judged(REFUSED);
    let told = headlines(&printed, "emerg");
    let subjects: Vec<_> = told.iter().map(|line| subject(line)).collect();
    let refused = ["stream", "mail", "ssl_verify_client", "ssi", "echo", "content_by_lua_block"];
    assert_eq!(subjects, [&refused[..], &["MORE"]].concat(), "{printed}");
    assert!(!good && told[2].ends_with(" in CONF:7"), "{printed}");
    assert!(printed.contains("\n  also in CONF:11\n  hint: "), "{printed}");

    let (good, printed) = judged(&REFUSED.replace("MORE;", ""));
    assert_eq!((good, headlines(&printed, "emerg").len()), (false, refused.len()), "{printed}");
}

#[test]
fn what_is_no_refusal_ends_the_reading() {
    let (_, printed) = judged("events {} http { server { root a; root b; lisen 1; } } stream { }");
    assert_eq!(headlines(&printed, "emerg"), ["\"root\" directive is duplicate in CONF:1"], "{printed}");
}

#[test]
fn very_many_refusals_are_counted() {
    let lines: String = (0..25).map(|number| format!("lua_{number} a;\n")).collect();
    let (good, printed) = judged(&format!("events {{}} http {{\n{lines}}}"));
    let told = headlines(&printed, "emerg");
    assert_eq!((good, told.len()), (false, 21), "{printed}");
    assert_eq!(told[20], "5 more directives are refused");
}

#[test]
fn where_logs_are_by_default_is_told() {
    if Path::new("/var/log/fulmar").exists() {
        return;
    }
    let site = Site::whole("");
    site.write_configuration(Server::Fulmar, "events {} http { server { listen 127.0.0.1:8080; } }");
    let path = site.prefix().join("fulmar.conf");
    let judge = |arguments: &[&str]| {
        let mut command = Command::new(Server::Fulmar.path());
        let output = command.arg("-t").arg("-c").arg(&path).args(arguments).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let hint = |printed: &str, file: &str| {
        let mut lines = printed.lines().skip_while(|line| !line.contains(file));
        lines.nth(1).is_some_and(|line| line.starts_with("  hint: this is where "))
    };
    let printed = judge(&[]);
    assert!(hint(&printed, "/fulmar/error.log") && hint(&printed, "/fulmar/access.log"), "{printed}");
    let printed = judge(&["-e", "/none/e"]);
    assert!(printed.contains("[emerg] open() \"/none/e\"") && !hint(&printed, "/none/e\""), "{printed}");
}

#[test]
fn sizes_that_do_not_fit_have_a_place() {
    let judge = |text: &str| {
        let server = format!(
            "server {{ listen 127.0.0.1:8080;\n{text}\nlocation / {{ proxy_pass http://[::1]:1; }} }}"
        );
        let (good, printed) = judged(&format!("events {{}}\nhttp {{ access_log off;\n{server} }}"));
        assert!(!good);
        headlines(&printed, "emerg").join("|")
    };
    let less =
        "\"proxy_busy_buffers_size\" must be less than the size of all \"proxy_buffers\" minus one buffer";
    assert_eq!(judge("proxy_buffer_size 64k;"), format!("{less} in CONF:4"));
    assert_eq!(judge("proxy_buffer_size 64k;\nproxy_buffers 4 16k;"), format!("{less} in CONF:5"));
    assert_eq!(judge("proxy_buffers 4 8k; proxy_busy_buffers_size 64k;"), format!("{less} in CONF:4"));
    assert!(judge("proxy_buffers 1 8k;").ends_with(" in CONF:4"));
    assert!(judge("proxy_max_temp_file_size 1k;").ends_with(" in CONF:4"));
}

#[test]
fn what_is_copied_along_with_an_empty_answer_is_no_error() {
    let server =
        "server { listen 127.0.0.1:8080; location / { add_header 'Content-Length' 0; return 204; } }";
    let (good, printed) = judged(&format!("events {{}} http {{ access_log off; {server} }}"));
    let told = headlines(&printed, "warn");
    assert!(
        good && told.len() == 1 && told[0].starts_with("\"add_header Content-Length\" is left out"),
        "{printed}"
    );
}

#[test]
fn a_directory_for_bodies_is_made_and_none_around_it() {
    let site = Site::whole("");
    let judge = |name: &str| {
        let server = "server { listen 127.0.0.1:8080; }";
        let http = format!("access_log off;\nclient_body_temp_path {name};\n{server}");
        site.write_configuration(Server::Fulmar, &format!("events {{}}\nhttp {{ {http} }}"));
        let output = site.command(Server::Fulmar).arg("-t").output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (good, printed) = judge("none/bodies");
    let told = headlines(&printed, "emerg");
    assert!(!good && told.len() == 1 && told[0].starts_with("mkdir() \""), "{printed}");
    assert!(told[0].contains("/none/bodies\" failed (2: No such file or directory) in "), "{printed}");
    assert!(told[0].ends_with("fulmar.conf:3") && !site.prefix().join("none").exists(), "{printed}");
    assert!(judge("bodies").0 && site.prefix().join("bodies").is_dir());
    assert!(judge("bodies").0, "it may be there");
}

#[test]
fn what_many_servers_have_in_common_is_told_once() {
    let server = "server { listen 127.0.0.1:8080; server_name N; ssl_stapling on; resolver_timeout 1s; }\n";
    let servers: String = (0..6).map(|number| server.replace('N', &number.to_string())).collect();
    let (good, printed) = judged(&format!("events {{}}\nhttp {{ access_log off;\n{servers}}}"));
    let told = headlines(&printed, "warn");
    assert!(good && told.len() == 1 && told[0].ends_with(" in CONF:3"), "{printed}");
    assert!(printed.contains("\n  also in CONF:4, CONF:5, CONF:6 and in 2 more places\n"), "{printed}");
}
