//! Fields of answers and of passed requests.

use super::redirects::DECODED;
use crate::regex;
use crate::tree::{Spot, children, has, has_deep, uses};
use crate::{Found, Rule};
use conf::{Level, Node};

pub(crate) static URI_IN_FIELD: Rule = Rule {
    id: "uri-in-field",
    level: Level::Error,
    title: "a decoded URI in a header",
    why: "`$uri` is decoded, and may contain a line end. In a header of a response, or of a forwarded request, \
          a client can add headers, on servers that do not check this. `$request_uri` is what the client sent.",
    bad: "server { add_header X-Path $uri; }",
    good: "server { add_header X-Path $request_uri; }",
    check: |tree| {
        let set = ["add_header", "proxy_set_header", "more_set_headers"];
        let spots = tree.all().filter(|spot| set.iter().any(|name| spot.node.is(name)));
        spots
            .filter_map(|spot| {
                let value = spot.node.args.iter().find(|word| uses(word, &DECODED).is_some())?;
                let variable = uses(value, &DECODED)?;
                let text = format!("\"{variable}\" is decoded, and may contain a line end");
                Some(Found::at(spot.node, text, "use $request_uri").under(value.span))
            })
            .collect()
    },
};

pub(crate) static ADD_HEADER_LOST: Rule = Rule {
    id: "add-header-lost",
    level: Level::Warn,
    title: "headers for security are missing in an inner level",
    why: "A level with its own `add_header` inherits none of the outer levels. Headers that protect the whole \
          site, such as `Strict-Transport-Security`, are missing in the responses of this level.",
    bad: "server { add_header X-Frame-Options DENY; location /a/ { add_header Cache-Control no-store; } }",
    good: "server { add_header X-Frame-Options DENY; \
           location /a/ { add_header X-Frame-Options DENY; add_header Cache-Control no-store; } }",
    check: |tree| {
        tree.all()
            .filter(|spot| spot.node.is("server") || spot.node.is("location"))
            .filter(|spot| has(spot.node, "add_header") && !has(spot.node, "return") && !merges(spot))
            .filter_map(|spot| {
                let own: Vec<String> = children(spot.node, "add_header").map(name_of).collect();
                let lost = outer(spot, "add_header")
                    .into_iter()
                    .map(name_of)
                    .find(|name| PROTECTING.contains(&name.as_str()) && !own.contains(name))?;
                let first = children(spot.node, "add_header").next()?;
                let text = format!(
                    "the outer add_header \"{lost}\" has no effect here: a level with its own add_header inherits none"
                );
                Some(Found::at(first, text, "repeat it here, or write add_header_inherit merge;"))
            })
            .collect()
    },
};

/// Fields that are there for the client's safety.
const PROTECTING: [&str; 7] = [
    "strict-transport-security",
    "content-security-policy",
    "x-frame-options",
    "x-content-type-options",
    "referrer-policy",
    "permissions-policy",
    "cross-origin-opener-policy",
];

fn merges(spot: &Spot<'_>) -> bool {
    spot.is_set("add_header_inherit", "merge")
}

fn name_of(node: &Node) -> String {
    node.arg(0).map(|word| word.to_string().to_ascii_lowercase()).unwrap_or_default()
}

/// What the nearest level around has of this directive.
fn outer<'a>(spot: &Spot<'a>, name: &str) -> Vec<&'a Node> {
    let levels = spot.around.iter().rev();
    let found = levels.map(|level| children_of(level, name)).find(|found| !found.is_empty());
    found.unwrap_or_default()
}

fn children_of<'a>(node: &'a Node, name: &str) -> Vec<&'a Node> {
    node.children().iter().filter(|child| child.is(name)).collect()
}

pub(crate) static PROXY_FIELDS_LOST: Rule = Rule {
    id: "proxy-fields-lost",
    level: Level::Warn,
    title: "headers of forwarded requests are missing in an inner level",
    why: "A location with its own `proxy_set_header` inherits none of the outer levels. `Host` is then the \
          name of the upstream server, and the client's address is not forwarded.",
    bad: "server { proxy_set_header Host $host; \
          location / { proxy_set_header X-A 1; proxy_pass http://127.0.0.1:8080; } }",
    good: "server { proxy_set_header Host $host; \
           location / { proxy_set_header Host $host; proxy_set_header X-A 1; proxy_pass http://127.0.0.1:8080; } }",
    check: |tree| {
        tree.named("location")
            .filter(|spot| has(spot.node, "proxy_set_header") && has_deep(spot.node, "proxy_pass"))
            .filter_map(|spot| {
                let own: Vec<String> = children(spot.node, "proxy_set_header").map(name_of).collect();
                let lost = outer(spot, "proxy_set_header")
                    .into_iter()
                    .map(name_of)
                    .find(|name| !own.contains(name) && FORWARDED.contains(&name.as_str()))?;
                let first = children(spot.node, "proxy_set_header").next()?;
                let text = format!(
                    "the outer proxy_set_header \"{lost}\" has no effect here: a level with its own proxy_set_header \
                     inherits none"
                );
                Some(Found::at(first, text, "repeat the outer proxy_set_header lines here"))
            })
            .collect()
    },
};

pub(crate) static TWO_HOSTS: Rule = Rule {
    id: "two-hosts",
    level: Level::Warn,
    title: "two `Host` headers for the upstream server",
    why: "Of two `proxy_set_header Host` in one level the last one counts. nginx before 1.31.4 sends both, and the \
          upstream server answers 400 or picks one of them. This happens if an included file, such as \
          `proxy_params`, sets `Host`, too.",
    bad: "server { location / { proxy_set_header Host $http_host; proxy_set_header Host $host; \
          proxy_pass http://127.0.0.1:8080; } }",
    good: "server { location / { proxy_set_header Host $host; proxy_pass http://127.0.0.1:8080; } }",
    check: |tree| {
        let set = |node: &Node| node.is("proxy_set_header") || node.is("grpc_set_header");
        tree.all()
            .filter(|spot| set(spot.node) && name_of(spot.node) == "host")
            .filter(|spot| {
                let is_before = |node: &&Node| !std::ptr::eq(*node, spot.node);
                let mut later = spot.siblings().iter().skip_while(is_before).skip(1);
                later.any(|node| node.name.text == spot.node.name.text && name_of(node) == "host")
            })
            .map(|spot| {
                let text = "a later line of this level sets \"Host\", too: only the last one is sent (nginx before \
                            1.31.4 sends both)";
                Found::at(spot.node, text, "keep one of the two lines")
            })
            .collect()
    },
};

pub(crate) static ALT_SVC_WITHOUT_QUIC: Rule = Rule {
    id: "alt-svc-without-quic",
    level: Level::Warn,
    title: "`Alt-Svc` announces HTTP/3, which Fulmar does not speak",
    why: "`Alt-Svc: h3` tells clients to connect over QUIC. No address of Fulmar speaks HTTP/3, so each client tries to connect \
          and gets no answer, again after every `ma=` seconds.",
    bad: "server { add_header Alt-Svc 'h3=\":443\"; ma=86400'; }",
    good: "server { add_header Alt-Svc clear; }",
    check: |tree| {
        let sets = |node: &Node| node.is("add_header") || node.is("more_set_headers");
        tree.all()
            .filter(|spot| sets(spot.node))
            .filter(|spot| {
                let text = spot.node.args.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
                let text = text.to_ascii_lowercase();
                text.contains("alt-svc") && text.contains("h3")
            })
            .map(|spot| {
                Found::at(spot.node, "clients try HTTP/3, which no address speaks", "leave the line out")
            })
            .collect()
    },
};

/// Fields by which an application knows its client.
const FORWARDED: [&str; 6] =
    ["host", "x-real-ip", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"];

pub(crate) static ORIGIN_PATTERN: Rule = Rule {
    id: "origin-pattern",
    level: Level::Error,
    title: "a pattern for trusted origins also matches other origins",
    why: "A pattern without `^` and `$` matches any text that contains the trusted name: \
          `https://example.com.evil.test` is trusted, too.",
    bad: "map $http_origin $cors { ~example\\.com $http_origin; }",
    good: "map $http_origin $cors { ~^https://example\\.com$ $http_origin; }",
    check: |tree| {
        let mut found = Vec::new();
        for spot in
            tree.named("map").filter(|spot| spot.node.arg(0).is_some_and(|word| word.is("$http_origin")))
        {
            for entry in spot.node.children() {
                // An empty entry trusts no peer.
                let gives = entry.arg(0).is_some_and(|word| !word.text.is_empty() && !word.is("0"));
                let pattern = entry.name.as_str().and_then(|name| name.strip_prefix('~'));
                let pattern = pattern.map(|pattern| pattern.strip_prefix('*').unwrap_or(pattern));
                found.extend(pattern.filter(|_| gives).and_then(|pattern| loose(entry, pattern)));
            }
        }
        for spot in tree.named("if") {
            let words: Vec<&str> = spot.node.args.iter().filter_map(|word| word.as_str()).collect();
            if let [variable, "~" | "~*", pattern] = words[..]
                && variable == "($http_origin"
            {
                found.extend(loose(spot.node, pattern.strip_suffix(')').unwrap_or(pattern)));
            }
        }
        found
    },
};

fn loose(node: &Node, pattern: &str) -> Option<Found> {
    let is_any = pattern.is_empty() || pattern == "." || pattern == ".*" || pattern == ".+";
    (!regex::is_anchored(pattern) && !is_any).then(|| {
        let text = format!("\"{pattern}\" also matches other origins that contain it");
        Found::at(node, text, "begin it with ^https:// and end it with $")
    })
}
