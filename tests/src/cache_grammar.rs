//! Configurations of caches, made up by a seed, with requests that meet them one after the other.
//!
//! Nothing here waits for a time to pass: the upstream server says of some responses that they have expired already.

pub mod upstream;

use std::fmt::Write;

use crate::mutation::Dice;
use upstream::Resource;

/// A virtual server with its caches, and requests to it.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The seed that it was made of.
    pub seed: u64,
    /// Directives of the level `http`. `ORIGIN`, `FASTCGI`, `SCGI` and `UWSGI` stand for the places of upstream servers.
    pub text: String,
    /// Requests in the short form.
    pub requests: Vec<String>,
}

/// What every configuration needs that is made of generated ones.
pub const COMMON: &str = "
    server_names_hash_max_size 65536;
    variables_hash_max_size 65536;
    access_log off;
    server { listen 127.0.0.1:%%PORT%% default_server; return 404; }
";

/// The locations of each server.
const LOCATIONS: [&str; 3] = ["a", "b", "c"];
const RESOURCES: usize = 3;

/// Directives without their protocols, one of each list.
const LINES: [&[&str]; 16] = [
    &["cache_background_update on", "cache_background_update off"],
    &["cache_revalidate on", "cache_revalidate on", "cache_revalidate off"],
    &["cache_lock on"],
    &["cache_methods POST", "cache_methods GET", "cache_methods GET HEAD POST"],
    &["cache_min_uses 2", "cache_min_uses 3"],
    &[
        "cache_bypass $arg_bypass",
        "cache_bypass $http_x_bypass $cookie_session",
        "cache_bypass $http_authorization",
    ],
    &["no_cache $arg_none", "no_cache $http_x_bypass $cookie_session", "no_cache $http_authorization"],
    &[
        "ignore_headers Cache-Control Expires",
        "ignore_headers Set-Cookie",
        "ignore_headers Vary",
        "ignore_headers X-Accel-Expires",
        "ignore_headers Set-Cookie Vary Expires",
    ],
    &["hide_header X-Other", "hide_header ETag", "hide_header Set-Cookie"],
    &["pass_header X-Accel-Expires"],
    &["cache_max_range_offset 10", "cache_max_range_offset 200", "cache_max_range_offset 0"],
    &["buffering off"],
    &["force_ranges on"],
    &["intercept_errors on"],
    &["next_upstream off"],
    &["cache_lock_timeout 1ms"],
];

/// A configuration and requests by their seed. `slice` is used if nginx has it.
pub fn generate(seed: u64, requests: usize, has_slices: bool) -> Sequence {
    let mut writer = Writer { seed, dice: Dice::new(seed), has_slices, families: [""; LOCATIONS.len()] };
    let text = writer.server();
    let requests = (0..requests).map(|_| writer.request()).collect();
    Sequence { seed, text, requests }
}

struct Writer {
    seed: u64,
    dice: Dice,
    has_slices: bool,
    /// The protocols of the locations.
    families: [&'static str; LOCATIONS.len()],
}

impl Writer {
    fn chance(&mut self, of: usize) -> bool {
        self.dice.below(of) == 0
    }

    fn server(&mut self) -> String {
        let seed = self.seed;
        let families =
            LOCATIONS.map(|_| self.dice.of(&["proxy", "proxy", "proxy", "fastcgi", "scgi", "uwsgi"]));
        self.families = families;
        let mut text = String::new();
        for family in ["proxy", "fastcgi", "scgi", "uwsgi"] {
            for zone in ["m", "n"].into_iter().filter(|_| families.contains(&family)) {
                let levels = self.dice.of(&["", " levels=1:2", " levels=1", " use_temp_path=off"]);
                let _ = writeln!(
                    text,
                    "{family}_cache_path %%LOGS%%/{family}{zone}{seed} keys_zone={family}{zone}{seed}:128k{levels} inactive=1h;"
                );
            }
        }
        let _ = writeln!(
            text,
            "server {{\n    listen 127.0.0.1:%%PORT%%;\n    server_name s{seed} t{seed};\n    \
             location = /page {{ internal; return 200 \"page\\n\"; }}"
        );
        for family in ["proxy", "fastcgi", "scgi", "uwsgi"].into_iter().filter(|name| families.contains(name))
        {
            self.settings(family, 6, &mut text);
        }
        for (name, family) in LOCATIONS.iter().zip(families) {
            self.location(name, family, &mut text);
        }
        text + "}\n"
    }

    fn location(&mut self, name: &str, family: &str, text: &mut String) {
        let seed = self.seed;
        let slices = self.chance(8) && self.has_slices;
        let forwards_range = slices || self.chance(10);
        let mut key = self.dice.of(&[
            "$uri",
            "$uri$is_args$args",
            "$request_uri",
            "$request_uri",
            "$host$request_uri",
            "$request_method$request_uri",
            "$scheme$host$uri$arg_x",
            "$uri$http_accept_language",
            "$uri-$cookie_session",
            "$http_host$request_uri$http_x_bypass",
        ]);
        let keeps_head = family == "proxy" && self.chance(8);
        if keeps_head || family != "proxy" {
            // A response to HEAD is not sent to GET, as nginx does.
            key = "$request_method$request_uri";
        }
        let _ = writeln!(text, "    location /{name}/ {{");
        let mut add = |line: &str| text.push_str(&format!("        {line}\n"));
        let place = if family == "proxy" { "http://ORIGIN".to_owned() } else { family.to_uppercase() };
        let rewrites = family == "proxy" && self.chance(6);
        add(&format!(
            "{family}_pass {place}{};",
            if rewrites { format!("/up/{name}/") } else { String::new() }
        ));
        add(&format!("{family}_cache {family}{}{seed};", self.dice.of(&["m", "m", "n"])));
        let suffix = if slices {
            "$slice_range"
        } else if forwards_range {
            "$http_range"
        } else {
            ""
        };
        if family != "proxy" || keeps_head || slices || forwards_range || !self.chance(8) {
            add(&format!("{family}_cache_key \"{key}{suffix}\";"));
        } else {
            // The default has the forwarded URL, and not the method.
            key = "$request_uri";
        }
        if keeps_head {
            add("proxy_cache_convert_head off;");
        }
        if slices {
            add(&format!("slice {};", self.dice.of(&["300", "1k", "1k"])));
        }
        let field = |name: &str, value: &str| match family {
            "proxy" => format!("proxy_set_header {name} \"{value}\";"),
            _ => format!("{family}_param HTTP_{} \"{value}\";", name.replace('-', "_").to_uppercase()),
        };
        add(&field("X-Key", &format!("{seed} {key}")));
        if forwards_range {
            add(&field("Range", suffix));
        }
        if family != "proxy" {
            add(&format!("{family}_param REQUEST_METHOD $request_method;"));
            add(&format!("{family}_param REQUEST_URI $request_uri;"));
            add(&format!("{family}_param CONTENT_LENGTH $content_length;"));
        } else if self.chance(4) {
            add("proxy_set_header Host $host;");
        }
        add(&format!("add_header X-Key \"{seed} {key}\" always;"));
        add("add_header X-Cache \"$upstream_cache_status\" always;");
        add("add_header X-Kept \"[$upstream_cache_last_modified $upstream_cache_etag]\" always;");
        self.settings(family, 3, text);
        self.pages(text);
        text.push_str("    }\n");
    }

    /// Directives of any location.
    fn pages(&mut self, text: &mut String) {
        if self.chance(9) {
            let codes = self.dice.of(&["404", "500 503", "404 500 502 503 ="]);
            let _ = writeln!(text, "        error_page {codes} /page;");
        }
        if self.chance(9) {
            let _ = writeln!(text, "        max_ranges {};", self.dice.of(&["0", "1"]));
        }
    }

    /// Directives that both levels may have; each one is there in one of `of` cases.
    fn settings(&mut self, family: &str, of: usize, text: &mut String) {
        const STALE: [&str; 9] = [
            "error",
            "timeout",
            "invalid_header",
            "updating",
            "http_500",
            "http_503",
            "http_404",
            "http_403",
            "http_429",
        ];
        let mut add = |line: &str| text.push_str(&format!("        {family}_{line};\n"));
        if self.dice.below(of) < 2 {
            for line in self
                .dice
                .of(&[
                    "200 1h",
                    "any 1h",
                    "1h",
                    "200 302 1h|404 1h",
                    "200 0|any 1h",
                    "200 204 206 1h|any 1m",
                    "301 302 410 1h|500 503 1h",
                    "304 1h|200 1h",
                    "any 0",
                ])
                .split('|')
            {
                add(&format!("cache_valid {line}"));
            }
        }
        if self.dice.below(of) < 2 {
            let mut classes: Vec<&str> = STALE.into_iter().filter(|_| self.chance(2)).collect();
            if classes.is_empty() {
                classes.push("off");
            }
            add(&format!("cache_use_stale {}", classes.join(" ")));
        }
        let rare = [3, 10, 11, 12, 13, 14, 15];
        // In nginx a request that bypasses the cache counts as a use, so that no sequence has both directives.
        let absent = if self.seed.is_multiple_of(4) { 5 } else { 4 };
        for (at, choices) in LINES.into_iter().enumerate().filter(|&(at, _)| at != absent) {
            if self.chance(if rare.contains(&at) { 3 * of } else { of }) {
                add(self.dice.of(choices));
            }
        }
    }

    fn request(&mut self) -> String {
        let seed = self.seed;
        let place = [0, 0, 0, 1, 1, 2][self.dice.below(6)];
        let location = LOCATIONS[place];
        let resource = [0, 0, 0, 1, 2][self.dice.below(5)] % RESOURCES;
        let query = self.dice.of(&["", "", "", "", "?x=1", "?bypass=1", "?none=1", "?x=1&bypass=1"]);
        let methods =
            ["GET", "GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "HEAD", "POST", "PUT", "DELETE"];
        // nginx keeps the response of an application to HEAD only if its end arrives after its head.
        let methods =
            methods.map(|name| if name == "HEAD" && self.families[place] != "proxy" { "GET" } else { name });
        let method = self.dice.of(&methods);
        let host = self.dice.of(&["s", "s", "s", "t"]);
        let mut text = format!("{method} /{location}/r{resource}{query}\nHost: {host}{seed}");
        // Where the length of a response is unknown at first, nginx sends no parts of it.
        let has_length = Resource::of(seed, &format!("/{location}/r{resource}")).has_length();
        if has_length && self.chance(4) {
            let range = self.dice.of(&[
                "bytes=0-9",
                "bytes=2-",
                "bytes=-5",
                "bytes=150-180",
                "bytes=150-",
                "bytes=9000-",
                "bytes=5-2",
                "bytes=x",
                "bytes=-0",
                "bytes=0-",
                "lines=1-2",
                "bytes=0-99999",
                "bytes=64-127",
                "bytes=250-400",
            ]);
            let _ = write!(text, "\nRange: {range}");
            if self.chance(4) {
                let _ = write!(
                    text,
                    "\nIf-Range: {}",
                    self.dice.of(&["\"v0\"", "\"v1\"", "W/\"v0\"", upstream::MODIFIED, "x"])
                );
            }
        }
        let fields = [
            ("If-None-Match", &["\"v0\"", "W/\"v0\"", "\"v1\"", "*", "\"x\", \"v0\""][..], 8),
            ("If-Modified-Since", &[upstream::MODIFIED, "Tue, 02 Jan 2001 03:04:05 GMT", "x"][..], 10),
            ("If-Match", &["\"v0\"", "*", "\"x\""][..], 30),
            ("If-Unmodified-Since", &[upstream::MODIFIED, "Tue, 02 Jan 2001 03:04:05 GMT"][..], 30),
            ("Cookie", &["session=1", "session=2", "other=1"][..], 6),
            ("Authorization", &["Basic YTpi"][..], 10),
            ("Cache-Control", &["no-cache", "max-age=0", "only-if-cached"][..], 10),
            ("Pragma", &["no-cache"][..], 20),
            ("Accept-Encoding", &["gzip", "br", "gzip, br", "gzip,br", "identity"][..], 2),
            ("Accept-Language", &["en", "de"][..], 3),
            ("X-Bypass", &["1", "0", "yes"][..], 12),
        ];
        for (name, values, of) in fields {
            if self.chance(of) {
                let _ = write!(text, "\n{name}: {}", self.dice.of(values));
            }
        }
        if matches!(method, "POST" | "PUT") { text + "\n\nbody" } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::generate;

    #[test]
    fn a_seed_is_a_configuration() {
        assert_eq!(generate(7, 3, true).text, generate(7, 3, true).text);
        assert_eq!(generate(7, 3, true).requests.len(), 3);
        let different: std::collections::HashSet<_> =
            (0..200).map(|seed| generate(seed, 0, true).text).collect();
        assert_eq!(different.len(), 200);
    }
}
