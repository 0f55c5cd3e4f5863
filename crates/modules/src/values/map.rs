//! Defines a variable whose value depends on other variables.
//!
//! The first argument is a text with variables. Fulmar looks for its value on the left side of the block's lines;
//! the variable gets the right side of the line that matches. The order is:
//!
//! 1. a line with exactly this text, in upper or lower case;
//! 2. with `hostnames`, a host name with a wildcard (`*.example.com`, `.example.com`, `www.*`);
//! 3. regular expressions (`~`, or `~*` to ignore case), in the order of the lines;
//! 4. `default`. Without it, the value is empty.
//!
//! Write a backslash before a first character that has a special meaning. The right side may contain variables and
//! captures. The value is computed when it is first used, and kept for the request, unless the block contains
//! `volatile`.
//!
//! ```conf
//! map $arg_size $answer {
//!     default  unknown;
//!     small    1;
//!     ~^x+(.*)$ big-$1;
//! }
//! server {
//!     listen 8080;
//!     location / {
//!         return 200 $answer;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /?size=SMALL HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! 1
//! ---
//! GET /?size=xxl HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! big-l
//! ---
//! GET / HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! unknown
//! ```

use crate::shared::names;
use conf::spec::unexpected_block;
use conf::value::HostNames;
use conf::{Arity, Contexts, Diagnostic, Node};
use contract::{
    Args, Definition, Directive, Evaluate, Exchange, Loading, Module, Regex, Regexes, Rule, Template,
};
use std::sync::Arc;

/// Variables that depend on others.
pub static MODULE: Module = Module {
    name: "map",
    directives: &[&MAP, &MAP_HASH_MAX_SIZE, &MAP_HASH_BUCKET_SIZE],
    variables: &[],
    compile: None,
};

/// `map TEXT $VARIABLE { … }`
pub static MAP: Directive<()> = Directive::new("map", parse_map)
    .within(Contexts::HTTP.or(Contexts::STREAM))
    .block(Arity::Exactly(2))
    .rule(Rule::Never)
    .repeats()
    .help("Defines a variable by a table of values.");

/// `map_hash_max_size NUMBER`
pub static MAP_HASH_MAX_SIZE: Directive<u64> = Directive::number("map_hash_max_size")
    .within(Contexts::HTTP)
    .default("2048")
    .help("Accepted and not needed: tables grow as they have to.");

/// `map_hash_bucket_size NUMBER`
pub static MAP_HASH_BUCKET_SIZE: Directive<u64> = Directive::number("map_hash_bucket_size")
    .within(Contexts::HTTP)
    .default("64")
    .help("Accepted and not needed: tables grow as they have to.");

fn parse_map(args: &Args<'_>, loading: &mut Loading) -> Result<(), Diagnostic> {
    let source = loading.template(args.word(0)?)?;
    let name = names::variable(args, args.word(1)?, loading)?;
    let mut map = Map { source, ..Map::default() };
    let mut patterns = Vec::new();
    for entry in args.node.children() {
        map.read(entry, loading, &mut patterns)?;
    }
    map.patterns = Regexes::new(patterns);
    loading.variables.define(&name, Definition::Evaluated(Arc::new(map)));
    Ok(())
}

struct Map {
    source: Template,
    hostnames: bool,
    volatile: bool,
    /// Keys in lower case.
    table: HostNames<Template>,
    patterns: Regexes,
    /// The values of the patterns.
    matched: Vec<Template>,
    default: Option<Template>,
}

impl Default for Map {
    fn default() -> Map {
        Map {
            source: Template::literal(b""),
            hostnames: false,
            volatile: false,
            table: HostNames::default(),
            patterns: Regexes::default(),
            matched: Vec::new(),
            default: None,
        }
    }
}

impl Map {
    fn read(
        &mut self,
        entry: &Node,
        loading: &mut Loading,
        patterns: &mut Vec<Regex>,
    ) -> Result<(), Diagnostic> {
        let error = |message: String| Diagnostic::emerg(message).at(entry.span).under(entry.name.span);
        if entry.block.is_some() {
            return Err(unexpected_block(entry));
        }
        let value = match (&*entry.name.text, &*entry.args) {
            (b"hostnames", []) => {
                self.hostnames = true;
                return Ok(());
            }
            (b"volatile", []) => {
                self.volatile = true;
                return Ok(());
            }
            (_, [value]) => loading.template(value)?,
            _ => return Err(error("invalid number of the map parameters".to_owned())),
        };
        match &*entry.name.text {
            b"default" if self.default.is_some() => Err(error("duplicate default map parameter".to_owned())),
            b"default" => {
                self.default = Some(value);
                Ok(())
            }
            [b'~', pattern @ ..] => {
                let (pattern, ignore_case) =
                    pattern.strip_prefix(b"*").map_or((pattern, false), |pattern| (pattern, true));
                patterns.push(loading.regex(&entry.name, pattern, ignore_case)?);
                self.matched.push(value);
                Ok(())
            }
            key => {
                let key = key.strip_prefix(b"\\").unwrap_or(key);
                self.insert(key, value).map_err(error)
            }
        }
    }

    fn insert(&mut self, key: &[u8], value: Template) -> Result<(), String> {
        let lower = key.to_ascii_lowercase();
        let inserted = match self.hostnames {
            true => self.table.insert(&lower, value),
            false => self.table.insert_exact(&lower, value),
        };
        inserted.map_err(|error| error.message(&lower))
    }

    fn find(&self, exchange: &Exchange, value: &[u8]) -> Option<&Template> {
        self.table.get(&value.to_ascii_lowercase()).or_else(|| {
            // A pattern that gives up leaves the default.
            let first = if value.is_empty() { None } else { self.patterns.first(exchange, value).ok()? };
            self.matched.get(first?)
        })
    }
}

impl Evaluate for Map {
    fn evaluate(&self, exchange: &Exchange, out: &mut Vec<u8>) -> bool {
        let value = self.source.evaluate(exchange);
        let value = match value.strip_suffix(b".") {
            Some(name) if self.hostnames => name,
            _ => &value,
        };
        if let Some(found) = self.find(exchange, value).or(self.default.as_ref()) {
            found.write(exchange, out);
        }
        true
    }

    fn is_volatile(&self) -> bool {
        self.volatile
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    /// The value of `$x` for a request with this query, which `$args` of the map sees.
    fn value(map: &str, args: &str) -> String {
        let site = Site::location(&format!("map $args $x {{ {map} }} index $x;"));
        site.variable("x", &site.get(&format!("/?{args}")))
    }

    #[test]
    fn exact_then_patterns_then_default() {
        let map = r"default D; a 1; ~^B 2; ~*^b 3; \~t 4; ~c(?<rest>.*) $rest-$1; '' E;";
        let values: Vec<_> =
            ["A", "B", "b", "~t", "cde", "", "z"].iter().map(|args| value(map, args)).collect();
        assert_eq!(values, ["1", "2", "3", "4", "de-de", "E", "D"]);
        assert_eq!(value("a 1;", "b"), "");
    }

    #[test]
    fn host_names() {
        let map = "hostnames; example.com e; *.example.com w; .example.org o; *.a.example.com a; \
                   www.* t; www.x.* tx;";
        let find = |host| value(map, host);
        assert_eq!(find("EXAMPLE.com."), "e");
        assert_eq!(find("b.example.com"), "w");
        assert_eq!(find("b.a.example.com"), "a");
        assert_eq!(find("a.example.com"), "w");
        assert_eq!((find("example.org"), find("q.example.org")), ("o".into(), "o".into()));
        assert_eq!((find("www.y"), find("www.x.y"), find("www")), ("t".into(), "tx".into(), String::new()));
    }

    #[test]
    fn wildcards_need_hostnames() {
        assert_eq!(value("*.a w; b. x;", "*.A"), "w");
        assert_eq!(value("*.a w; b. x;", "b."), "x");
        assert_eq!(value("*.a w;", "q.a"), "");
    }

    #[test]
    fn a_circle_has_an_end() {
        let site = Site::location("map $y $x { default x$y; } map $x $y { default y$x; }");
        let value = site.variable("x", &site.get("/"));
        assert!(value.starts_with("xyxy") && value.len() == 100, "{value}");
    }

    #[test]
    fn a_circle_of_what_is_never_kept_has_an_end() {
        let site = Site::location(
            "map $y$y $x { volatile; default x; ~. $y$y; } map $x$x $y { volatile; default y; }",
        );
        assert!(site.variable("x", &site.get("/")).len() < 100_000);
    }

    #[test]
    fn messages() {
        let error = |map: &str| Site::error(&format!("map $uri $x {{ {map} }}"));
        assert_eq!(error("a;"), "invalid number of the map parameters");
        assert_eq!(error("a 1; A 2;"), "conflicting parameter \"a\"");
        assert_eq!(error("hostnames; a.*.b 1;"), "invalid hostname or wildcard \"a.*.b\"");
        assert_eq!(error("default 1; default 2;"), "duplicate default map parameter");
        assert_eq!(Site::error("map $uri x {}"), "invalid variable name \"x\"");
    }
}
