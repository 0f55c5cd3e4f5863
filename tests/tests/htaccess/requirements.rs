//! `Require`, in sections within each other.

use super::agree;

const LEAVES: [&str; 5] =
    ["Require all granted", "Require all denied", "Require not all granted", "Require not all denied", ""];

const SECTIONS: [&str; 3] = ["RequireAll", "RequireAny", "RequireNone"];

#[test]
fn sections_within_sections() {
    let within = |section: &str, inner: &str| format!("<{section}>\n{inner}\n</{section}>\n");
    let mut texts: Vec<String> = LEAVES.map(str::to_owned).into();
    for section in SECTIONS {
        for first in LEAVES {
            texts.push(within(section, first));
            texts.push(format!("{}Require all granted\n", within(section, first)));
            for second in LEAVES {
                texts.push(within(section, &format!("{first}\n{second}")));
            }
            for inner in SECTIONS {
                for next in ["", "Require all granted", "Require all denied"] {
                    texts.push(within(section, &format!("{}{next}", within(inner, first))));
                }
            }
        }
    }
    let paths: Vec<String> = (0..texts.len()).map(|at| format!("{at}/.htaccess")).collect();
    let pages: Vec<String> = (0..texts.len()).map(|at| format!("{at}/a.txt")).collect();
    let files = paths.iter().zip(&texts).map(|(path, text)| (path.as_str(), text.as_str()));
    let files: Vec<_> = files.chain(pages.iter().map(|path| (path.as_str(), "x"))).collect();
    let requests: Vec<String> = pages.iter().map(|path| format!("GET /{path}")).collect();
    agree(&files, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}
