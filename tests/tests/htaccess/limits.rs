//! What `.htaccess` files may cost: time on the event loop for each request, and memory.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tests::binary::Server;
use tests::site::{Running, Site};
use tests::wait;

use super::site;

const SPENT: &str = "the rules and patterns in .htaccess files take too long for one request";

fn status(running: &Running, request: &str) -> u16 {
    running.ask(request).last().status
}

/// A name for which the patterns backtrack often, but stay below their limit.
fn name() -> String {
    format!("{}b", "a".repeat(17))
}

/// Rules that backtrack and do not match.
fn slow_rules(count: usize, last: &str) -> String {
    let rules = r"RewriteRule ^(a|aa)+$(?=) -".to_owned() + "\n";
    format!("RewriteEngine on\n{}{last}\n", rules.repeat(count))
}

/// Two directories whose rules backtrack and lead to each other.
fn slow_site(count: usize) -> Site {
    let name = name();
    let rules = |other: &str| slow_rules(count, &format!("RewriteRule . /{other}/{name}"));
    site(&[("one/.htaccess", &rules("two")), ("two/.htaccess", &rules("one"))])
}

#[test]
fn one_request_cannot_hold_its_thread() {
    let site = slow_site(3_000);
    let running = site.start(Server::Fulmar);
    let attack = format!("GET /one/{}", name());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let statuses = (0..8).map(|_| status(&running, &attack)).collect::<Vec<_>>();
            is_over.store(true, Ordering::Relaxed);
            // A client that has spent the budget of one request waits for another one: 503, unless the file was just
            // written, whose rules are compiled for each request.
            assert!(
                statuses[0] == 500 && statuses.iter().all(|status| matches!(status, 500 | 503)),
                "{statuses:?}"
            );
        });
        let mut answered = 0;
        while !is_over.load(Ordering::Relaxed) || answered == 0 {
            assert_eq!(status(&running, "GET /a.txt"), 200);
            answered += 1;
        }
    });
    let told = || running.log("error.log").matches(SPENT).count();
    assert!(wait::until(Duration::from_secs(10), || told() >= 8), "a line for each request, not {}", told());
    assert_eq!(told(), 8, "one line for each request");
    running.stop();
}

/// As many rules as a file can hold are too many to be compiled.
#[test]
fn a_file_with_very_many_patterns_is_refused() {
    let site = slow_site(31_000);
    let running = site.start(Server::Fulmar);
    assert_eq!(status(&running, "GET /one/a"), 500);
    assert_eq!(status(&running, "GET /a.txt"), 200);
    running.wait_for_log("error.log", "bytes of memory, the limit is 33554432 in ");
    let place = format!("{}/one/.htaccess:", site.root().display());
    running.wait_for_log("error.log", &place);
    running.stop();
}

/// The form of apache-ultimate-bad-bot-blocker, whose list has 7,851 lines.
#[test]
fn a_list_of_thousands_of_referrers_is_served() {
    let hosts = (0..4_000)
        .map(|n| format!("RewriteCond %{{HTTP_REFERER}} ^http(s)?://(www.)?.*bad-site{n}\\.com.*$ [NC,OR]"));
    let lines: Vec<String> = hosts.collect();
    let last = "RewriteCond %{HTTP_REFERER} ^none$\nRewriteRule .* - [F]\n";
    let text = format!("RewriteEngine on\n{}\n{last}", lines.join("\n"));
    let site = site(&[(".htaccess", &text)]);
    let running = site.start(Server::Fulmar);
    for (referrer, expected) in [
        ("", 200),
        ("\nReferer: https://example.org/", 200),
        ("\nReferer: ftp://www.bad-site3999.com/", 200),
        ("\nReferer: https://www.bad-site3.com/", 403),
        ("\nReferer: http://x.BAD-site3999.com/page", 403),
    ] {
        assert_eq!(
            status(&running, &format!("GET /a.txt{referrer}")),
            expected,
            "{referrer:?} {}",
            running.all_logs()
        );
    }
    running.stop();
}

/// What a rule costs besides its pattern counts, too: calls of the file system, and texts.
#[test]
fn other_work_of_rules_has_an_end() {
    let condition = "RewriteCond %{REQUEST_FILENAME} x\nRewriteRule ^x$ -\n";
    let section = "<FilesMatch \"^(a|aa)+$(?=)\">\n</FilesMatch>\n";
    let environment = "SetEnvIf Request_URI ^/3/(a|aa)+$(?=) x\n";
    let texts = [
        format!("RewriteEngine on\n{}RewriteRule . - [N]\n", "RewriteRule . -\n".repeat(1_000)),
        format!("RewriteEngine on\n{}", condition.replace("^x$", "^").repeat(3_000)),
        section.repeat(4_000),
        environment.repeat(4_000),
        format!("Require env{}\n", " x".repeat(100_000)),
        format!("Order deny,allow\nDeny from{}\n", " env=x".repeat(100_000)),
    ];
    let site = texts
        .iter()
        .enumerate()
        .fold(site(&[]), |site, (at, text)| site.file(&format!("{at}/.htaccess"), text));
    let running = site.start(Server::Fulmar);
    let deep = "a/".repeat(1_500);
    for at in 0..texts.len() {
        let path = if at == 1 { format!("/{at}/{deep}") } else { format!("/{at}/{}", name()) };
        assert!(matches!(status(&running, &format!("GET {path}")), 500 | 403), "{at}");
        // Sections are judged where the files are read, and then by the event loop.
        assert!(matches!(status(&running, &format!("GET {path}")), 503 | 500 | 403), "{at}");
    }
    running.stop();
}

/// Files as applications have them stay far below the limits.
#[test]
fn many_plain_rules_are_no_burden() {
    let redirects: String =
        (0..8_000).map(|n| format!("RewriteRule ^old/page-{n}\\.html$ /new/{n} [R=301,L]\n")).collect();
    let rules = format!(
        "RewriteEngine on\n{redirects}RewriteRule ^index\\.php$ - [L]\nRewriteCond %{{REQUEST_FILENAME}} !-f\nRewriteRule . /index.php [L]\n"
    );
    let running = site(&[(".htaccess", &rules)]).start(Server::Fulmar);
    assert_eq!(running.ask("GET /old/page-7999.html").last().status, 301);
    assert_eq!(running.ask("GET /some/where").last().text(), "front controller");
    running.stop();
}

#[test]
fn memory_is_bounded_and_comes_back() {
    let line = |n: usize| format!("Redirect 301 /some-old-page-{n} http://example.com/{n}\n");
    let text: String = (0..16_000).map(line).collect();
    assert!((850_000..1_000_000).contains(&text.len()), "{}", text.len());
    let site =
        site(&[("one/.htaccess", &text), ("one/a.txt", "1"), ("two/.htaccess", &text), ("two/a.txt", "2")]);
    let running = site.start(Server::Fulmar);
    assert_eq!(status(&running, "GET /a.txt"), 200);
    let before = running.peak_bytes();
    for folder in ["one", "two"] {
        assert_eq!(status(&running, &format!("GET /{folder}/a.txt")), 200);
    }
    for edit in 0..10 {
        let edited = format!("{text}# {edit}\n");
        fs::write(site.root().join("one/.htaccess"), edited).unwrap();
        // Old enough to be kept.
        wait::until(Duration::from_millis(80), || false);
        assert_eq!(status(&running, "GET /one/a.txt"), 200);
    }
    let grown = running.peak_bytes() - before;
    assert!(grown < 100_000_000, "{grown} bytes of memory");
    running.stop();
}

/// The compiled files of 10,000 directories are kept up to a limit, and an edit of any counts at the next request.
#[test]
fn ten_thousand_directories_take_bounded_memory() {
    const FOLDERS: usize = 10_000;
    let text = |at: usize| {
        format!(
            "Header set X-At {at}\nRewriteEngine on\nRewriteRule ^old-(.*)$ /new/$1 [R=301]\n\
             RewriteRule ^page-(\\d+)$ a.txt?n=$1\n<Files b.txt>\nRequire all denied\n</Files>\n"
        )
    };
    let site = (0..FOLDERS).fold(site(&[]), |site, at| site.file(&format!("{at}/.htaccess"), text(at)));
    let running = site.start(Server::Fulmar);
    assert_eq!(status(&running, "GET /a.txt"), 200);
    let before = running.peak_bytes();
    let redirects = |at: usize| {
        assert_eq!(status(&running, &format!("GET /{at}/old-{at}")), 301, "{at}");
    };
    (0..FOLDERS).for_each(redirects);
    let grown = running.peak_bytes() - before;
    assert!(grown < 256 * 1024 * 1024, "{grown} bytes of memory");
    for at in [0, FOLDERS / 2, FOLDERS - 1] {
        fs::write(site.root().join(format!("{at}/.htaccess")), "Redirect 302 / /edited/\n").unwrap();
        assert_eq!(status(&running, &format!("GET /{at}/old-{at}")), 302, "{at}");
    }
    running.stop();
}
