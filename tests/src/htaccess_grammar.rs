//! `.htaccess` files that are made up by a seed: rewrite rules, expressions and sections about access, with requests that
//! meet them. Each is valid in Apache: the pieces are few, so that they meet often.

pub mod wider;

use std::fmt::Write;

use crate::mutation::Dice;

/// Directories from this seed on also have the parts of [`wider`].
pub const WIDE: u64 = 1_000_000;

/// The file of a directory, and requests to it.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The seed that it was made of; the directory has its name.
    pub seed: u64,
    /// The text of the `.htaccess` file.
    pub text: String,
    /// The text of the `.htaccess` file of the directory `sub` in it; empty for none.
    pub inner: String,
    /// The text of that of `sub/deep`.
    pub innermost: String,
    /// Requests in the short form.
    pub requests: Vec<String>,
}

/// The files of each directory.
pub const FILES: [(&str, &str); 13] = [
    ("a.txt", "file a\n"),
    ("b.html", "page b\n"),
    ("index.html", "index\n"),
    ("x y.txt", "a space\n"),
    ("sub/a.txt", "file a of sub\n"),
    ("sub/index.html", "index of sub\n"),
    ("sub/deep/c.txt", "deep\n"),
    ("bare/d.txt", "file d\n"),
    ("error.html", "an error\n"),
    ("doc.html.en", "a page in English\n"),
    ("doc.html.de", "eine deutsche Seite\n"),
    ("doc.txt", "a text without a language\n"),
    ("arch.txt.gz", "packed\n"),
];

/// A directory by its seed.
pub fn generate(seed: u64, requests: usize) -> Folder {
    let mut writer = Writer { dice: Dice::new(seed), seed };
    let text = writer.file();
    let has_inner = if writer.is_wide() { writer.dice.below(2) } else { writer.dice.below(3) } == 0;
    let inner = if has_inner { writer.file() } else { String::new() };
    let has_innermost = writer.is_wide() && writer.dice.below(3) == 0;
    let innermost = if has_innermost { writer.file() } else { String::new() };
    let requests = (0..requests).map(|_| writer.request()).collect();
    Folder { seed, text, inner, innermost, requests }
}

struct Writer {
    dice: Dice,
    seed: u64,
}

const PATHS: &[&str] = &[
    "",
    "a.txt",
    "b.html",
    "index.html",
    "sub",
    "sub/",
    "sub/a.txt",
    "sub/none",
    "sub/deep/c.txt",
    "bare/",
    "bare/d.txt",
    "none",
    "none.txt",
    "x%20y.txt",
    "a.txt/info",
    "A.TXT",
    "one/two",
    "q",
    "b",
    "sub/deep/",
];
const QUERIES: &[&str] = &["", "", "", "?x=1", "?x=2&y=a%20b", "?y=", "?id=42&x=1", "?a.txt"];
const FIELDS: &[&str] = &[
    "",
    "",
    "",
    "\nX-Key: open",
    "\nX-Key: shut",
    "\nUser-Agent: Bad Robot",
    "\nReferer: http://example.com/a",
    "\nCookie: theme=dark; id=7",
    "\nHost: www.example.com",
    "\nHost: WWW.Example.org",
    "\nAccept: text/html",
    "\nX-Number: 12",
    "\nX-Number: 9",
];
const PATTERNS: &[&str] = &[
    "^",
    "^$",
    ".",
    ".*",
    "^(.*)$",
    "^a\\.txt$",
    "^(.+)\\.txt$",
    "^sub/(.*)$",
    "^([a-z]+)/?(.*)$",
    "none",
    "^q$",
    "^(?!sub)(.*)",
    "\\.html$",
    "^b",
    "(a)|(b)",
    "^x y",
    "^[A-Z]",
    "/$",
    "^one/(\\w+)",
    "^/",
];
const TARGETS: &[&str] = &[
    "-",
    "-",
    "-",
    "a.txt",
    "b.html",
    "sub/a.txt",
    "index.html",
    "$1",
    "$1-x.html",
    "none",
    "error.html",
    "sub/",
    "b.html?n=$1",
    "b.html?",
    "a.txt?x=%{REQUEST_METHOD}",
    "BASE/a.txt",
    "BASE/$1",
    "BASE/sub/$1?k=%1",
    "http://example.com/$1",
    "http://other.example/%{REQUEST_URI}",
    "%1.txt",
    "$2/$1",
];
const FLAGS: &[&str] = &[
    "",
    "",
    "",
    "L",
    "L",
    "L",
    "R,L",
    "R=301,L",
    "R=307,L",
    "F",
    "G",
    "NC,L",
    "QSA,L",
    "QSD",
    "C",
    "S=1",
    "S=2",
    "E=key:$1",
    "E=flag:on",
    "E=!flag",
    "END",
    "PT,L",
    "R=404",
    "NE,R,L",
    "OR",
    "T=text/plain",
    "NS",
    "R=303,QSA,L",
];
const SUBJECTS: &[&str] = &[
    "%{REQUEST_FILENAME}",
    "%{REQUEST_URI}",
    "%{QUERY_STRING}",
    "%{HTTP_HOST}",
    "%{HTTP_USER_AGENT}",
    "%{REQUEST_METHOD}",
    "%{HTTP:X-Key}",
    "%{HTTP_COOKIE}",
    "%{ENV:flag}",
    "%{ENV:key}",
    "%{THE_REQUEST}",
    "$1",
    "%1",
    "x$0",
    "%{HTTPS}",
    "%{HTTP:X-Number}",
    "%{SERVER_PROTOCOL}",
    "%{IS_SUBREQ}",
    "%{HTTP_REFERER}",
    "%{PATH_INFO}",
];
const CONDITIONS: &[&str] = &[
    "-f",
    "!-f",
    "-d",
    "!-d",
    "-s",
    "^$",
    "!^$",
    ".",
    "^www\\.",
    "^GET$",
    "!=GET",
    "=open",
    "open",
    "(\\d+)",
    "^(.*)a(.*)$",
    "-eq9",
    "-gt10",
    "-le9",
    "<b",
    ">a",
    ">=a",
    "bot [NC]",
    "dark [OR]",
    "^off$",
    "!-s [OR]",
    "x=1 [OR]",
    "\\.txt",
    "on",
    "^HTTP/1",
    "!bare",
];
const VALUES: &[&str] = &[
    "%{REQUEST_URI}",
    "%{QUERY_STRING}",
    "%{REQUEST_METHOD}",
    "%{HTTP_HOST}",
    "%{req:X-Key}",
    "%{http:X-Number}",
    "%{reqenv:flag}",
    "'open'",
    "'GET'",
    "''",
    "'9'",
    "tolower(%{HTTP_HOST})",
    "toupper(%{req:X-Key})",
    "%{HTTP_USER_AGENT}",
    "escape(%{QUERY_STRING})",
    "unescape('a%20b')",
    "base64('x')",
    "md5('x')",
    "'a' . %{REQUEST_METHOD}",
    "sha1('x')",
];
const COMPARISONS: &[&str] = &["==", "!=", "<", "<=", ">", ">="];
const NUMBERS: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "eq", "ne", "lt", "ge"];
const SINGLE: &[&str] = &["-n", "-z", "-T"];
const MATCHES: &[&str] = &["/^GET$/", "/sub/", "m#/a#", "/OPEN/i", "/(\\d+)/", "/^$/", "/x=1/", "/www|bad/i"];
const LISTS: &[&str] = &["{'GET','HEAD'}", "{'open','shut'}", "{%{REQUEST_METHOD}}"];
const NAMES: &[&str] = &["a.txt", "*.html", "?.txt", "b*", "index.html", "[a-c].*", "none*", "*"];
const NAME_PATTERNS: &[&str] =
    &["\\.txt$", "^a", "^(index|b)\\.html$", "none", "^[^.]+$", "(?i)\\.TXT$", "."];

impl Writer {
    fn is_wide(&self) -> bool {
        self.seed >= WIDE
    }

    /// Whether to take something that only wide directories have.
    fn widens(&mut self) -> bool {
        self.is_wide() && self.dice.below(2) == 0
    }

    fn file(&mut self) -> String {
        let mut text = String::new();
        let parts = 1 + self.dice.below(4);
        for _ in 0..parts {
            let part = match self.dice.below(10) {
                _ if self.widens() => self.wider(),
                0..5 => self.rules(),
                5 => self.access(0),
                6 => self.section(),
                7 => self.condition_section(),
                8 => self.environment(),
                _ => self.others(),
            };
            text += &part;
        }
        text
    }

    fn of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        self.dice.of(texts)
    }

    /// Rules with conditions.
    fn rules(&mut self) -> String {
        let mut text = "RewriteEngine on\n".to_owned();
        if self.dice.below(4) == 0 {
            let _ = writeln!(text, "RewriteBase /{}/", self.seed);
        }
        if self.dice.below(8) == 0 {
            let option = match self.widens() {
                true => self.of(&["InheritDownBefore", "MergeBase", "Inherit InheritDown", "AllowNoSlash"]),
                false => {
                    self.of(&["Inherit", "InheritBefore", "InheritDown", "IgnoreInherit", "AllowNoSlash"])
                }
            };
            let _ = writeln!(text, "RewriteOptions {option}");
        }
        for _ in 0..1 + self.dice.below(4) {
            for _ in 0..self.dice.below(3) {
                if self.dice.below(5) == 0 {
                    let _ = writeln!(text, "RewriteCond expr \"{}\"", self.expression(1));
                } else {
                    let (subject, condition) = (self.of(SUBJECTS), self.of(CONDITIONS));
                    let _ = writeln!(text, "RewriteCond {subject} {condition}");
                }
            }
            let not = if self.dice.below(8) == 0 { "!" } else { "" };
            let (pattern, target, flags) = (self.of(PATTERNS), self.of(TARGETS), self.of(FLAGS));
            // A negated pattern has no groups, and OR is a flag of conditions.
            let target = if not.is_empty() { target } else { "a.txt" };
            let flags = if flags == "OR" { "" } else { flags };
            let several = if self.widens() { self.flags() } else { flags.to_owned() };
            let flags = &*several;
            // Further rules would change the target of a redirect, and Apache keep its status.
            let is_url = target.starts_with("http");
            let redirects = flags.split(',').any(|flag| flag == "R" || flag.starts_with("R=3"));
            let last = if is_url || self.is_wide() && redirects { "L" } else { "" };
            // PT says that the target is a path.
            let flags = if is_url && flags.split(',').any(|flag| flag == "PT") { "" } else { flags };
            let flags: Vec<&str> = [flags, last].into_iter().filter(|flag| !flag.is_empty()).collect();
            let flags = if flags.is_empty() { String::new() } else { format!(" [{}]", flags.join(",")) };
            let target = target.replace("BASE", &format!("/{}", self.seed));
            let _ = writeln!(text, "RewriteRule \"{not}{pattern}\" \"{target}\"{flags}");
        }
        text
    }

    /// An expression.
    fn expression(&mut self, depth: usize) -> String {
        if self.is_wide() && self.dice.below(4) == 0 {
            return self.test().to_owned();
        }
        match self.dice.below(if depth < 3 { 12 } else { 8 }) {
            0 | 1 => format!("{} {} {}", self.value(), self.of(COMPARISONS), self.value()),
            2 => format!("{} {} {}", self.value(), self.of(NUMBERS), self.value()),
            3 | 4 => format!("{} {} {}", self.value(), self.of(&["=~", "!~"]), self.of(MATCHES)),
            5 => format!("{} {}", self.of(SINGLE), self.value()),
            6 => format!("{} in {}", self.value(), self.of(LISTS)),
            7 => self
                .of(&[
                    "true",
                    "false",
                    "-R '127.0.0.0/8'",
                    "-R '10.0.0.1'",
                    "%{REMOTE_ADDR} -ipmatch '127.0.0.1'",
                ])
                .to_owned(),
            8 => format!("!({})", self.expression(depth + 1)),
            9 => format!("({}) && ({})", self.expression(depth + 1), self.expression(depth + 1)),
            10 => format!("({}) || ({})", self.expression(depth + 1), self.expression(depth + 1)),
            _ => format!("({})", self.expression(depth + 1)),
        }
    }

    fn value(&mut self) -> &'static str {
        if self.widens() { self.of(wider::VALUES) } else { self.of(VALUES) }
    }

    /// Rules about access, in sections.
    fn access(&mut self, depth: usize) -> String {
        if depth == 0 && self.dice.below(4) == 0 {
            return self.old_access();
        }
        let mut text = String::new();
        for _ in 0..1 + self.dice.below(3) {
            match self.dice.below(if depth < 3 { 7 } else { 4 }) {
                0..4 => {
                    let requirement = self.requirement();
                    let _ = writeln!(text, "Require {requirement}");
                }
                kind => {
                    let name = ["RequireAll", "RequireAny", "RequireAll"][kind - 4];
                    let mut inner = self.access(depth + 1);
                    if name == "RequireAll" && self.dice.below(2) == 0 {
                        let requirement = self.requirement();
                        inner += &match self.dice.below(2) {
                            0 => format!("Require not {requirement}\nRequire all granted\n"),
                            _ => format!("<RequireNone>\nRequire {requirement}\n</RequireNone>\n"),
                        };
                    }
                    let _ = writeln!(text, "<{name}>\n{inner}</{name}>");
                }
            }
        }
        text
    }

    fn requirement(&mut self) -> String {
        match self.dice.below(8) {
            0 => "all granted".to_owned(),
            1 => "all denied".to_owned(),
            2 => format!(
                "ip {}",
                self.of(&["127.0.0.1", "127", "10.0.0.0/8", "::1", "127.0.0.0/255.0.0.0 10"])
            ),
            3 => "local".to_owned(),
            4 => format!("env {}", self.of(&["flag", "key", "none", "flag key"])),
            5 => format!("method {}", self.of(&["GET", "GET POST", "PUT", "HEAD"])),
            _ => {
                // Apache does not ask again after a rewrite that stays in the directory, Fulmar does.
                let text = self.expression(1).replace("QUERY_STRING", "SERVER_PROTOCOL");
                format!("expr \"{}\"", text.replace("REQUEST_URI", "REQUEST_METHOD"))
            }
        }
    }

    /// The rules of Apache 2.2.
    fn old_access(&mut self) -> String {
        let mut text = String::new();
        if self.dice.below(4) > 0 {
            let _ = writeln!(text, "Order {}", self.of(&["allow,deny", "deny,allow"]));
        }
        for _ in 0..self.dice.below(3) {
            let (verb, who) = (
                self.of(&["Allow", "Deny"]),
                self.of(&["all", "127.0.0.1", "10", "env=flag", "env=!key", "127.0.0.0/8"]),
            );
            let _ = writeln!(text, "{verb} from {who}");
        }
        if self.dice.below(6) == 0 {
            // Apache's own configuration allows all clients without a `Require`.
            let _ = writeln!(text, "Satisfy {}\nRequire env flag", self.of(&["Any", "All"]));
        }
        text
    }

    /// A section for files or methods.
    fn section(&mut self) -> String {
        let (open, close) = match self.dice.below(4) {
            0 => (format!("Files \"{}\"", self.of(NAMES)), "Files"),
            1 => (format!("FilesMatch \"{}\"", self.of(NAME_PATTERNS)), "FilesMatch"),
            2 => (format!("Limit {}", self.of(&["GET", "POST PUT", "GET POST"])), "Limit"),
            _ => (format!("LimitExcept {}", self.of(&["GET", "POST", "GET HEAD"])), "LimitExcept"),
        };
        let inner = match close {
            "Limit" | "LimitExcept" => self.access(1),
            _ if self.dice.below(2) == 0 => self.access(0),
            _ => self.others(),
        };
        format!("<{open}>\n{inner}</{close}>\n")
    }

    /// Sections for requests for which an expression holds.
    fn condition_section(&mut self) -> String {
        let mut text = format!("<If \"{}\">\n{}</If>\n", self.expression(0), self.inside());
        if self.dice.below(2) == 0 {
            let _ = writeln!(text, "<ElseIf \"{}\">\n{}</ElseIf>", self.expression(0), self.inside());
        }
        if self.dice.below(2) == 0 {
            let _ = writeln!(text, "<Else>\n{}</Else>", self.inside());
        }
        text
    }

    fn inside(&mut self) -> String {
        if self.dice.below(3) == 0 { self.access(0) } else { self.others() }
    }

    fn environment(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..1 + self.dice.below(2) {
            let name = self.of(&["flag", "key", "!flag", "flag=on", "key=$0"]);
            let kind = self.dice.below(5);
            // Without a pattern Apache answers 500 to `$0`.
            let name = if kind == 3 { name.trim_end_matches("=$0") } else { name };
            let _ = match kind {
                0 => writeln!(text, "SetEnvIf Request_URI \"{}\" {name}", self.of(NAME_PATTERNS)),
                1 => writeln!(text, "SetEnvIf X-Key \"{}\" {name}", self.of(&["open", "^$", "(.*)", "^s"])),
                2 => writeln!(text, "BrowserMatchNoCase bad {name}"),
                3 => writeln!(text, "SetEnvIfExpr \"{}\" {name}", self.expression(1)),
                _ => writeln!(text, "SetEnv {}", self.of(&["flag on", "key open", "other 1"])),
            };
        }
        text
    }

    fn others(&mut self) -> String {
        match self.dice.below(9) {
            0 => "Header set X-A \"%{flag}e\"\n".to_owned(),
            1 => format!(
                "Header always set X-B \"expr=%{{REQUEST_METHOD}}\" \"expr={}\"\n",
                self.expression(1)
            ),
            2 => "Header append X-C one\nHeader merge X-C two env=flag\n".to_owned(),
            3 => format!("ErrorDocument {} /{}/error.html\n", self.of(&["403", "404", "410"]), self.seed),
            4 => format!("ErrorDocument {} \"a text\"\n", self.of(&["403", "404"])),
            5 => format!(
                "Redirect {} /{}/b http://example.com/b\n",
                self.of(&["301", "", "seeother"]),
                self.seed
            ),
            6 => format!(
                "RedirectMatch 302 \"{}\" /elsewhere/$1\n",
                self.of(&["/q$", "/one/(.*)", "none(.*)"])
            ),
            7 => format!(
                "DirectoryIndex {}\n",
                self.of(&["a.txt index.html", "none index.html", "b.html", "disabled"])
            ),
            _ => format!("ForceType {}\n", self.of(&["text/plain", "text/x-y"])),
        }
    }

    fn request(&mut self) -> String {
        let method = match self.dice.below(8) {
            0 => "POST",
            1 => "HEAD",
            2 => "PUT",
            _ => "GET",
        };
        let method = if method == "POST" && self.widens() { "OPTIONS" } else { method };
        let path = if self.widens() { self.of(wider::PATHS) } else { self.of(PATHS) };
        let query = self.of(QUERIES);
        let field = if self.widens() { self.of(wider::FIELDS) } else { self.of(FIELDS) };
        // Directories have no such method: the two servers refuse it for different reasons.
        let method = if method == "PUT" && (path.is_empty() || path.ends_with('/')) { "GET" } else { method };
        format!("{method} /{}/{path}{query}{field}", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::generate;

    #[test]
    fn a_seed_always_makes_the_same() {
        assert_eq!(generate(7, 5).text, generate(7, 5).text);
        assert_ne!(generate(7, 5).text, generate(8, 5).text);
    }
}
