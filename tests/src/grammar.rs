//! Configurations of rewrites, maps, locations and similar directives, made up by a seed, with requests that meet them.
//!
//! Whatever is made here is a valid configuration: the pieces are few, so that they meet often, and every order of
//! them is allowed.

use std::collections::HashSet;
use std::fmt::Write;

use crate::mutation::Dice;

/// A virtual server, the tables that it uses, and requests to it.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The seed that it was made of.
    pub seed: u64,
    /// Directives of the level `http`.
    pub text: String,
    /// Targets of requests.
    pub requests: Vec<String>,
}

/// What every configuration needs that is made of generated ones: each variable is set somewhere.
pub const COMMON: &str = r#"
    variables_hash_max_size 65536;
    map_hash_max_size 65536;
    server_names_hash_max_size 65536;
    keepalive_requests 100000;
    types { text/plain txt; text/html html; }
    server {
        listen 127.0.0.1:%%PORT%% default_server;
        set $a "";
        set $b "";
        location ~ "(?<n>x)(?<k>y)" { return 404; }
    }
"#;

/// The documents below the root that generated configurations look for.
pub const DOCUMENTS: [(&str, &str); 10] = [
    ("f.txt", "file f\n"),
    ("a/f.txt", "file f of a\n"),
    ("a/b", "file b of a\n"),
    ("b.html", "page b\n"),
    ("c", "file c\n"),
    ("d/index.html", "index of d\n"),
    ("d/f.txt", "file f of d\n"),
    ("e/deep/x.txt", "deep\n"),
    ("x y", "file with a space\n"),
    ("error.html", "error page\n"),
];

/// A configuration by its seed; the server's name is `s` and the seed.
pub fn generate(seed: u64, requests: usize) -> Generated {
    let mut writer = Writer::new(seed);
    let mut text = writer.tables();
    let _ = write!(text, "{}", writer.server());
    let requests = (0..requests).map(|_| request(&mut writer.dice, seed)).collect();
    Generated { seed, text, requests }
}

/// What tells how a request was understood, in a field of each answer.
const STATE: &str = "$uri|$args|$a|$b|$n|$k|$1|$2|$request_uri|$is_args";

const PATHS: &[&str] = &[
    "/",
    "/a",
    "/a/",
    "/a/b",
    "/b",
    "/b.html",
    "/c",
    "/d/",
    "/d",
    "/e/",
    "/e/deep/",
    "/f.txt",
    "/x",
    "/d/f.txt",
    "/a/f.txt",
    "/error.html",
];
const PATTERNS: &[&str] = &[
    "^/a(.*)$",
    "^/([a-z]+)/(.*)$",
    "(?<n>[a-d])",
    "/(?<n>[^/]+)/(?<k>.*)$",
    "^(.*)\\.html$",
    "(a|b)(c)?",
    "\\.txt$",
    "^/(?!a)(.*)",
    "(.)\\1",
    "^$",
    ".",
    "^/((.*))$",
    "^/((x)|(y))",
    "/(?:x|y)(\\d*)",
    "(?i)^/A(.*)",
    "^/d/?(.*)$",
    "[^a-z/.]",
    "x+",
    "^/(.{2,4})$",
    "(?<k>e)(?<n>z)?",
    "^/e(/deep)?/(.*)",
    " ",
    "\\?|&",
    "^(?:(/)|(a))+",
    "(?<n>[a-z])$",
    "(a*?)(b*)",
    "(a+|ab)(c|bcd)?",
    "\\bf\\b",
    "^/?$",
    "=(.*)",
];
const VARIABLES: &[&str] = &[
    "$uri",
    "$args",
    "$arg_x",
    "$arg_y",
    "$a",
    "$b",
    "$n",
    "$k",
    "$1",
    "$2",
    "$3",
    "$request_uri",
    "$is_args",
    "$document_uri",
    "$query_string",
    "$request_method",
    "$host",
    "$http_x",
    "$cookie_x",
    "$scheme",
    "$status",
    "$server_name",
    "$status",
    "$request_filename",
    "$content_length",
    "$http_user_agent",
];
const LITERALS: [&str; 18] =
    ["x", "0", "1", "/", "/a", "/b", "", "%41", "%3f", "?", "&", "y=z", " ", ".html", "#", "+", "é", "\\"];
const STATUSES: &[&str] = &[
    "200", "200", "201", "204", "301", "302", "303", "307", "308", "400", "403", "404", "405", "410", "444",
    "500", "502", "503",
];

struct Writer {
    seed: u64,
    dice: Dice,
    tables: usize,
    named: usize,
    /// Whether texts may have captures.
    captures: bool,
}

impl Writer {
    fn new(seed: u64) -> Writer {
        let mut dice = Dice::new(seed);
        let (tables, named) = (dice.below(4), dice.below(3));
        Writer { seed, dice, tables, named, captures: true }
    }

    fn chance(&mut self, of: usize) -> bool {
        self.dice.below(of) == 0
    }

    fn tables(&mut self) -> String {
        let mut text = String::new();
        let tables = std::mem::take(&mut self.tables);
        // A table may use those before it: a circle has no value.
        for table in 0..tables {
            self.tables = table;
            let name = format!("$m{}_{table}", self.seed);
            if self.chance(6) {
                let _ = writeln!(
                    text,
                    "split_clients {} {name} {{ 30% \"one\"; 20% \"\"; * \"two\"; }}",
                    self.value()
                );
                continue;
            }
            // nginx computes a volatile value twice for some texts, which shows where captures meet.
            let is_volatile = table + 1 == tables && self.chance(3);
            self.captures = !is_volatile;
            if is_volatile {
                self.tables = 0;
            }
            let _ = writeln!(text, "map {} {name} {{", self.value());
            for flag in ["volatile;", "hostnames;"] {
                if if flag == "volatile;" { is_volatile } else { self.chance(4) } {
                    let _ = writeln!(text, "    {flag}");
                }
            }
            if self.chance(2) {
                let _ = writeln!(text, "    default {};", self.value());
            }
            let mut keys = HashSet::new();
            for _ in 0..self.dice.below(6) {
                let key = match self.dice.below(3) {
                    0 => ["a", "b", "/a", "/c", "x", "", "1", "GET", "/f.txt", "a.b"][self.dice.below(10)]
                        .to_owned(),
                    1 => format!("~{}", self.pattern()),
                    _ => format!("~*{}", self.pattern()),
                };
                if keys.insert(key.clone()) {
                    let _ = writeln!(text, "    \"{key}\" {};", self.value());
                }
            }
            text.push_str("}\n");
        }
        self.tables = tables;
        self.captures = true;
        text
    }

    fn server(&mut self) -> String {
        let mut text = format!(
            "server {{\n    listen 127.0.0.1:%%PORT%%;\n    server_name s{};\n    root %%ROOT%%;\n    \
             add_header X-State \"{STATE}\" always;\n    uninitialized_variable_warn off;\n",
            self.seed
        );
        for line in
            ["absolute_redirect off;", "recursive_error_pages on;", "merge_slashes off;", "rewrite_log on;"]
        {
            if self.chance(4) {
                let _ = writeln!(text, "    {line}");
            }
        }
        for _ in 0..self.dice.below(3) {
            text.push_str(&self.error_page(4));
        }
        for _ in 0..self.dice.below(3) {
            text.push_str(&self.instruction(4, true));
        }
        let mut taken = HashSet::new();
        for _ in 0..1 + self.dice.below(6) {
            text.push_str(&self.location(4, "", &mut taken));
        }
        for name in 0..self.named {
            let _ = writeln!(text, "    location @n{name} {{");
            text.push_str(&self.content(8, false));
            text.push_str("    }\n");
        }
        text + "}\n"
    }

    fn location(&mut self, indent: usize, outer: &str, taken: &mut HashSet<(bool, String)>) -> String {
        let pad = " ".repeat(indent);
        let (modifier, name) = match self.dice.below(8) {
            0 | 1 => (["~", "~*"][self.dice.below(2)], format!("\"{}\"", self.pattern())),
            2 => ("=", self.path_below(outer)),
            3 => ("^~", self.path_below(outer)),
            _ => ("", self.path_below(outer)),
        };
        if !modifier.starts_with('~') && !taken.insert((modifier == "=", name.clone())) {
            return String::new();
        }
        let mut text = format!("{pad}location {modifier} {name} {{\n");
        if self.chance(12) {
            let _ = writeln!(text, "{pad}    internal;");
        }
        let may_alias = modifier.starts_with('~') || name.ends_with('/');
        text.push_str(&self.content(indent + 4, may_alias));
        if indent < 8 && matches!(modifier, "" | "^~") && self.chance(3) {
            let mut inner = HashSet::new();
            for _ in 0..1 + self.dice.below(2) {
                text.push_str(&self.location(indent + 4, &name, &mut inner));
            }
        }
        let _ = writeln!(text, "{pad}}}");
        text
    }

    fn path_below(&mut self, outer: &str) -> String {
        let below: Vec<&str> = PATHS.iter().filter(|path| path.starts_with(outer)).copied().collect();
        below.get(self.dice.below(below.len().max(1))).map_or(outer, |path| path).to_owned()
    }

    /// The directives of a location. An alias needs no care only where a path cannot become shorter than what it
    /// replaces.
    fn content(&mut self, indent: usize, may_alias: bool) -> String {
        let pad = " ".repeat(indent);
        let mut text = String::new();
        for _ in 0..self.dice.below(4) {
            text.push_str(&self.instruction(indent, true));
        }
        if self.chance(4) {
            let _ = writeln!(text, "{pad}try_files {};", self.candidates());
        }
        if self.chance(4) {
            text.push_str(&self.error_page(indent));
        }
        match self.dice.below(12) {
            0 if may_alias => drop(writeln!(text, "{pad}alias %%ROOT%%/d/;")),
            1 => drop(writeln!(text, "{pad}root %%ROOT%%/a;")),
            2 => drop(writeln!(text, "{pad}add_header X-Other \"[{}]\" always;", self.pieces(1))),
            3 => drop(writeln!(text, "{pad}recursive_error_pages on;")),
            4 => drop(writeln!(text, "{pad}index f.txt /b.html;")),
            _ => {}
        }
        if self.chance(2) {
            text.push_str(&self.answer(indent));
        }
        text
    }

    /// A directive of the rewrite module.
    fn instruction(&mut self, indent: usize, outer: bool) -> String {
        let pad = " ".repeat(indent);
        match self.dice.below(if outer { 9 } else { 6 }) {
            0 | 1 => {
                let target = ["$a", "$b", "$n", "$a", "$b", "$args", "$k"][self.dice.below(7)];
                format!("{pad}set {target} {};\n", self.value())
            }
            2 | 3 => format!("{pad}rewrite {};\n", self.rewrite()),
            4 if self.chance(3) => format!("{pad}break;\n"),
            4 | 5 if self.chance(4) => self.answer(indent),
            4 | 5 => format!("{pad}set $a \"${{a}}{}\";\n", ["x", "1", "$1", "$n"][self.dice.below(4)]),
            _ => self.branch(indent),
        }
    }

    fn branch(&mut self, indent: usize) -> String {
        let pad = " ".repeat(indent);
        let mut text = format!("{pad}if ({}) {{\n", self.condition());
        for _ in 0..self.dice.below(3) {
            text.push_str(&self.instruction(indent + 4, false));
        }
        if self.chance(6) && indent > 4 {
            let _ = writeln!(text, "{pad}    add_header X-If \"[{}]\" always;", self.pieces(1));
        }
        if self.chance(8) && indent > 4 {
            text.push_str(&self.error_page(indent + 4));
        }
        let _ = writeln!(text, "{pad}}}");
        text
    }

    fn condition(&mut self) -> String {
        // A capture stands in texts only.
        let variable =
            Some(self.variable()).filter(|name| braced(name).starts_with("${")).unwrap_or("$uri".to_owned());
        match self.dice.below(9) {
            0 | 1 => variable,
            2 => format!("{variable} = {}", self.value()),
            3 => format!("{variable} != {}", self.value()),
            4 => {
                let file = ["$request_filename", "$document_root$uri", "%%ROOT%%/d", "%%ROOT%%/$a"]
                    [self.dice.below(4)];
                let letter = ["f", "d", "e", "x"][self.dice.below(4)];
                format!("{}-{letter} {file}", ["", "!"][self.dice.below(2)])
            }
            _ => {
                let operator = ["~", "~", "~*", "!~", "!~*"][self.dice.below(5)];
                format!("{variable} {operator} \"{}\"", self.pattern())
            }
        }
    }

    fn rewrite(&mut self) -> String {
        let pattern = self.pattern();
        let flag = ["", "", " last", " break", " redirect", " permanent"][self.dice.below(6)];
        let start = match self.dice.below(10) {
            0 => ["http://h", "https://h/", "$scheme://h"][self.dice.below(3)].to_owned(),
            1 => String::new(),
            _ => PATHS[self.dice.below(PATHS.len())].to_owned(),
        };
        let mut target = start + &self.pieces(0);
        if self.chance(3) {
            target.push('?');
            if !target.contains("${m") {
                let pieces = self.pieces(0);
                target.push_str(if pieces.contains("${m") { "x" } else { &pieces });
            }
            if self.chance(3) {
                target.push('?');
            }
        }
        if target.is_empty() {
            target.push('/');
        }
        format!("\"{pattern}\" \"{target}\"{flag}")
    }

    fn answer(&mut self, indent: usize) -> String {
        let pad = " ".repeat(indent);
        let status = STATUSES[self.dice.below(STATUSES.len())];
        match self.dice.below(5) {
            0 => format!("{pad}return {status};\n"),
            1 => format!("{pad}return \"http://h{}\";\n", self.piece()),
            _ => format!("{pad}return {status} {};\n", self.value()),
        }
    }

    fn error_page(&mut self, indent: usize) -> String {
        let codes = ["404", "403 404", "400 410 405", "500 502 503", "404 403 500", "301", "302 303"]
            [self.dice.below(7)];
        let answer = ["", "", "", " =200", " =", " =404", " =302"][self.dice.below(7)];
        let target = match self.dice.below(6) {
            0 if self.named > 0 => format!("@n{}", self.dice.below(self.named)),
            1 => "http://h/error".to_owned(),
            2 => format!("\"{}{}\"", PATHS[self.dice.below(PATHS.len())], self.piece()),
            _ => PATHS[self.dice.below(PATHS.len())].to_owned(),
        };
        format!("{}error_page {codes}{answer} {target};\n", " ".repeat(indent))
    }

    fn candidates(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..1 + self.dice.below(3) {
            let names = ["$uri", "$uri/", "$uri.html", "/f.txt", "/$a", "$1", "/d/", "/$n.html", "/c$args"];
            text.push_str(names[self.dice.below(names.len())]);
            text.push(' ');
        }
        let last = match self.dice.below(5) {
            0 => "=404".to_owned(),
            1 if self.named > 0 => format!("@n{}", self.dice.below(self.named)),
            2 => "=403".to_owned(),
            _ => format!(
                "\"{}{}\"",
                PATHS[self.dice.below(PATHS.len())],
                ["", "?x=$args", "$a", "?$1"][self.dice.below(4)]
            ),
        };
        text + &last
    }

    fn pattern(&mut self) -> &'static str {
        PATTERNS[self.dice.below(PATTERNS.len())]
    }

    /// A text in quotes.
    fn value(&mut self) -> String {
        format!("\"{}\"", self.pieces(1))
    }

    /// Some pieces. A capture does not stand next to a table, whose patterns would change it: there nginx is not of
    /// one mind about what it was.
    fn pieces(&mut self, least: usize) -> String {
        let pieces: Vec<String> = (0..least + self.dice.below(3)).map(|_| self.piece()).collect();
        let has_table = pieces.iter().any(|piece| piece.starts_with("${m"));
        let is_capture = |piece: &str| {
            ["${n}", "${k}"].contains(&piece) || piece.starts_with('$') && !piece.starts_with("${")
        };
        pieces.into_iter().filter(|piece| self.captures && !has_table || !is_capture(piece)).collect()
    }

    fn piece(&mut self) -> String {
        match self.dice.below(3) {
            0 => LITERALS[self.dice.below(LITERALS.len() - 1)].to_owned(),
            _ => braced(&self.variable()),
        }
    }

    fn variable(&mut self) -> String {
        if self.tables > 0 && self.chance(4) {
            return format!("$m{}_{}", self.seed, self.dice.below(self.tables));
        }
        VARIABLES[self.dice.below(VARIABLES.len())].to_owned()
    }
}

/// A variable in front of any text; a capture needs no braces, and may have none.
fn braced(variable: &str) -> String {
    match variable.strip_prefix('$') {
        Some(name) if !name.starts_with(|first: char| first.is_ascii_digit()) => format!("${{{name}}}"),
        _ => variable.to_owned(),
    }
}

/// A request in the short form of the tables.
fn request(dice: &mut Dice, seed: u64) -> String {
    const ODD: [&str; 14] =
        ["%20", "%41", "%3f", "%26", "%2f", "%25", "%2ea", "+", "//", "%C3%A9", "x", "aa", "/./", ".html"];
    let mut target = PATHS[dice.below(PATHS.len())].to_owned();
    for _ in 0..[0, 0, 0, 1, 2][dice.below(5)] {
        target.push_str(ODD[dice.below(ODD.len())]);
    }
    for _ in 0..[0, 0, 1][dice.below(3)] {
        target.push_str(PATHS[dice.below(PATHS.len())]);
    }
    if dice.below(2) == 0 {
        let parts = ["x=a", "y=/b", "x=%2f", "x=", "a", "x=1", "y=0", "x=x+y", "", "x=/f.txt", "y=a?b"];
        target.push('?');
        target.push_str(parts[dice.below(parts.len())]);
        if dice.below(3) == 0 {
            target.push('&');
            target.push_str(parts[dice.below(parts.len())]);
        }
    }
    let method = ["GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "DELETE"][dice.below(8)];
    let mut text = format!("{method} {target}\nHost: s{seed}");
    for field in ["X: ab", "Cookie: x=/a", "User-Agent: aa/b"] {
        if dice.below(4) == 0 {
            text.push('\n');
            text.push_str(field);
        }
    }
    if method == "POST" { text + "\n\nbody" } else { text }
}

#[cfg(test)]
mod tests {
    use super::generate;

    #[test]
    fn a_seed_is_a_configuration() {
        assert_eq!(generate(7, 3).text, generate(7, 3).text);
        assert_eq!(generate(7, 3).requests.len(), 3);
        let different: std::collections::HashSet<_> = (0..200).map(|seed| generate(seed, 0).text).collect();
        assert_eq!(different.len(), 200);
        assert!(
            (0..200).all(|seed| generate(seed, 0).text.matches('{').count()
                == generate(seed, 0).text.matches('}').count())
        );
    }
}
