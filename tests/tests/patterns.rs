//! Regular expressions: what takes too many steps ends in time and is reported, what is wrong shows where.

use conf::value::{Captures, Language, Pattern};
use tests::binary::{Server, have_nginx};
use tests::site::{Running, Site};

/// Needs to look ahead, so that it is no pattern for linear time, and goes back more often than any limit allows.
const ENDLESS: &str = "^/?[a-z]*/?(?=a)(a+)+$";

#[test]
fn a_pattern_without_end_is_an_error_of_the_server() {
    let site = Site::new(&format!(
        r#"
        map $arg_x $table {{ default "default"; "~{ENDLESS}" "matches"; }}
        server {{
            listen 127.0.0.1:%%PORT%%;
            location /if {{ if ($arg_x ~ "{ENDLESS}") {{ return 200 "matches"; }} return 200 "does not"; }}
            location /table {{ return 200 "$table"; }}
            location ^~ /rewrite {{ rewrite "{ENDLESS}" /if; return 200 "stays"; }}
            location /place {{ return 200 "prefix"; }}
            location ~ "{ENDLESS}" {{ return 200 "pattern"; }}
            location = /fine {{ return 200 "fine"; }}
        }}
        "#
    ));
    let long = "a".repeat(60);
    let told = |running: &Running| {
        let paths = [
            format!("/if?x={long}!"),
            format!("/table?x={long}!"),
            format!("/rewrite/{long}!"),
            format!("/place/{long}!"),
            "/fine".to_owned(),
            format!("/table?x={}", &long[..9]),
        ];
        let answers = paths.map(|path| running.ask(&format!("GET {path}")).last().clone());
        answers.map(|answer| if answer.status == 200 { answer.text() } else { answer.status.to_string() })
    };
    let expected = ["500", "default", "500", "500", "fine", "matches"];
    let fulmar = site.start(Server::Fulmar);
    assert_eq!(told(&fulmar), expected);
    fulmar.wait_for_log("error.log", "match limit exceeded");
    fulmar.stop();
    if have_nginx() {
        let nginx = site.start(Server::Nginx);
        assert_eq!(told(&nginx), expected);
        drop(nginx);
    }
}

/// Reason: a client that waits for an answer should get an error (a row of `docs/differences.md`).
#[test]
fn a_host_that_makes_a_pattern_give_up_reaches_no_server() {
    let site = Site::new(&format!(
        r#"
        server {{ listen 127.0.0.1:%%PORT%%; return 200 "default"; }}
        server {{ listen 127.0.0.1:%%PORT%%; server_name "~{ENDLESS}"; return 200 "pattern"; }}
        "#
    ));
    let told = |running: &Running| {
        let hosts = ["b".to_owned(), "a".repeat(9), "a".repeat(60) + "!"];
        hosts.map(|host| {
            let answer = running.ask_bytes(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
            answer.responses.first().map_or_else(String::new, |first| match first.status {
                200 => first.text(),
                status => status.to_string(),
            })
        })
    };
    let fulmar = site.start(Server::Fulmar);
    assert_eq!(told(&fulmar), ["default", "pattern", "500"]);
    fulmar.wait_for_log("error.log", "match limit exceeded");
    fulmar.stop();
    if have_nginx() {
        let nginx = site.start(Server::Nginx);
        assert_eq!(told(&nginx), ["default", "pattern", ""], "nginx no longer differs");
        drop(nginx);
    }
}

#[test]
fn a_wrong_pattern_shows_where() {
    for (directive, wrong) in [
        (r#"location ~ "^/a**b" { }"#, "*b\""),
        ("location ~* ^/(?<a>b)(?<a>c) { }", "c) { }"),
        ("rewrite ^/[z-a] /x;", "a] /x"),
        ("if ($uri ~ ^/x[y) { }", ") { }"),
    ] {
        let text =
            format!("events {{ }}\nhttp {{ server {{ listen 127.0.0.1:%%PORT%%;\n{directive}\n}} }}\n");
        let said = Site::whole(&text).test(Server::Fulmar).expect_err("it is wrong");
        let shown: Vec<&str> = said.lines().filter_map(|line| Some(line.split_once(" | ")?.1)).collect();
        let [line, caret] = shown[..] else { panic!("{said}") };
        assert_eq!(line, directive);
        assert_eq!(caret.find('^'), line.find(wrong), "{said}");
    }
}

/// Pieces of patterns; joined at random most of them are well-formed.
const PIECES: [&str; 44] = [
    "a",
    "b",
    ".",
    ".*",
    ".+",
    "$",
    "$",
    "^",
    "\n",
    r"\n",
    "(a|b)",
    "(b)?",
    "(?:a$|b)",
    "(?m)",
    "(?m:",
    "(?-m)",
    "(?s)",
    "(?-s:.)",
    "(?x)",
    " ",
    "# [\n",
    ")",
    "(",
    "[$]",
    r"[\]$]",
    "[]$]",
    "[^]$]",
    r"\$",
    r"\Q$\E",
    r"[\Q]$\E]",
    "(?#$)",
    r"\z",
    r"\Z",
    "(?=$)",
    "(?!$)",
    "(?<=^)",
    "(?<n>a)",
    "(?<n>b)",
    "(?<m>.)",
    "|",
    "[[:alpha:]$]",
    "(?i)A",
    "{2}",
    r"\N",
];

/// The options of PCRE2 by which each language compiles, in PHP's letters. PHP is the witness: Rust's own library does not
/// know the option DOLLAR_ENDONLY.
const LANGUAGES: [(Language, &str); 3] =
    [(Language::Nginx, ""), (Language::Apache, "sDJ"), (Language::ApacheLines, "DJ")];

#[test]
fn patterns_match_as_pcre_compiles_them_for_each_language() {
    let has_php =
        std::process::Command::new("php").arg("-v").output().is_ok_and(|output| output.status.success());
    if !has_php {
        assert!(std::env::var_os("CI").is_none(), "php is missing");
        println!("skipped: php is missing");
        return;
    }
    let mut state = 0x5eed_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let subjects =
        ["", "a", "b", "ab", "a\n", "b\n", "\n", "a\nb", "a\nb\n", "\n\n", "aa", "A$", "]", "ab\r\n", "b$\n"];
    let cases: Vec<(String, usize)> = (0..4000)
        .map(|_| {
            ((0..1 + random(6)).map(|_| PIECES[random(PIECES.len())]).collect(), random(LANGUAGES.len()))
        })
        .collect();
    let asked: Vec<_> = cases.iter().map(|(text, at)| (text, LANGUAGES[*at].1)).collect();
    let directory = tempfile::tempdir().unwrap();
    let (script, input) = (directory.path().join("ask.php"), directory.path().join("cases.json"));
    std::fs::write(&input, serde_json::to_vec(&(asked, subjects)).unwrap()).unwrap();
    let text = "<?php [$cases, $subjects] = json_decode(file_get_contents($argv[1]));
        foreach ($cases as [$text, $options]) {
            $told = [];
            foreach ($subjects as $subject) {
                $found = @preg_match(\"\\1$text\\1$options\", $subject, $groups, PREG_OFFSET_CAPTURE | PREG_UNMATCHED_AS_NULL);
                $place = fn($group) => $group[1] < 0 ? null : [$group[1], $group[1] + strlen($group[0])];
                $numbered = array_filter($groups ?? [], 'is_int', ARRAY_FILTER_USE_KEY);
                $told[] = $found === false ? 'wrong' : ($found ? array_map($place, array_values($numbered)) : 'none');
            }
            $all[] = $told;
        }
        echo json_encode($all);";
    std::fs::write(&script, text).unwrap();
    let output = std::process::Command::new("php").arg(&script).arg(&input).output().unwrap();
    let told: Vec<Vec<serde_json::Value>> = serde_json::from_slice(&output.stdout).expect("an answer of PHP");
    let mut well_formed = 0;
    for ((text, at), expected) in cases.iter().zip(&told) {
        let pattern = Pattern::new(text.as_bytes(), false, LANGUAGES[*at].0);
        well_formed += usize::from(pattern.is_ok());
        for (subject, expected) in subjects.iter().zip(expected) {
            let mut captures = Captures::default();
            let got = match &pattern {
                Err(_) => "wrong".into(),
                Ok(pattern) if pattern.captures(subject.as_bytes(), &mut captures) => {
                    serde_json::json!(captures.groups)
                }
                Ok(_) => serde_json::Value::from("none"),
            };
            assert_eq!(&got, expected, "{text:?} as {:?} in {subject:?}", LANGUAGES[*at].0);
        }
    }
    assert!(well_formed > 1500, "{well_formed}");
}

/// In nginx `.` does not match a line end, and `$` also matches in front of a final one.
#[test]
fn line_ends_in_patterns_are_nginxs() {
    let site = Site::new(
        r#"
        map $uri $mapped { default no; ~^/map/.*$ yes; ~^/exact$ exact; }
        server {
            listen 127.0.0.1:%%PORT%%;
            location ~ ^/place/.*\.php$ { return 200 "pattern $mapped"; }
            location ~ ^/groups/(.*)$ { return 200 "[$1]"; }
            location /if/ { if ($uri ~ ^/if/.*x$) { return 200 "holds"; } return 200 "does not"; }
            location /rewrite/ { rewrite ^/rewrite/(.*)$ /groups/$1 last; return 200 "stays"; }
            location / { return 200 "prefix $mapped"; }
        }
        "#,
    );
    let rests =
        ["x", "x.php", "x%0a", "x.php%0a", "x%0a%0a", "%0ax", "a%0ax.php", "x.php%0d", "%0d%0a", "a%0dx", ""];
    let places = ["place/", "groups/", "if/", "rewrite/", "map/", "exact"];
    let requests: Vec<String> =
        places.iter().flat_map(|place| rests.map(|rest| format!("GET /{place}{rest}"))).collect();
    tests::differential::agree(&site, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}
