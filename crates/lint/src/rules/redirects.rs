//! Redirects, conditions and the order in which a location decides.

use crate::tree::{has, uses};
use crate::{Found, Rule};
use conf::{Level, Node};

/// Variables that are decoded: what the client sends as `%0d%0a` is a line end in them.
pub(super) const DECODED: [&str; 2] = ["$uri", "$document_uri"];

pub(crate) static URI_IN_REDIRECT: Rule = Rule {
    id: "uri-in-redirect",
    level: Level::Error,
    title: "a decoded URI in a redirect",
    why: "`$uri` and `$document_uri` are decoded: `%0d%0a` in a request becomes a line end. In the target of a \
          `return`, a client can add headers to the response, on servers that do not check this. \
          `$request_uri` is what the client sent, and contains the query.",
    bad: "server { return 301 https://www.example.com$uri; }",
    good: "server { return 301 https://www.example.com$request_uri; }",
    check: |tree| {
        tree.named("return")
            .filter(|spot| is_redirect(spot.node))
            .filter_map(|spot| {
                let target = spot.node.args.last()?;
                let variable = uses(target, &DECODED)?;
                let text = format!("\"{variable}\" is decoded, and may contain a line end");
                Some(Found::at(spot.node, text, "use $request_uri").under(target.span))
            })
            .collect()
    },
};

pub(crate) static HOST_IN_REDIRECT: Rule = Rule {
    id: "host-in-redirect",
    level: Level::Error,
    title: "a redirect to a host that the client chooses",
    why: "`$http_host` is what the client sent, unchecked: a cache in front of the server may keep a response \
          that leads to another site. `$host` is checked, and `$server_name` is your own name.",
    bad: "server { server_name a.example; return 301 https://$http_host$request_uri; }",
    good: "server { server_name a.example; return 301 https://$host$request_uri; }",
    check: |tree| {
        let returns = tree.named("return").filter(|spot| is_redirect(spot.node));
        let rewrites = tree.named("rewrite");
        returns
            .chain(rewrites)
            .filter_map(|spot| {
                let target = spot.node.args.get(1).or(spot.node.args.first())?;
                let is_url = target.as_str()?.contains("://$") || target.as_str()?.starts_with("//$");
                let variable = uses(target, &["$http_host"]).filter(|_| is_url)?;
                let text = format!("the client chooses \"{variable}\"");
                Some(Found::at(spot.node, text, "use $host, or the name itself").under(target.span))
            })
            .collect()
    },
};

fn is_redirect(node: &Node) -> bool {
    let codes = ["301", "302", "303", "307", "308"];
    match &*node.args {
        [only] => only.as_str().is_some_and(|text| text.starts_with("http") || text.starts_with("$scheme")),
        [code, ..] => codes.iter().any(|known| code.is(known)),
        [] => false,
    }
}

pub(crate) static IF_WITH_MORE: Rule = Rule {
    id: "if-with-more",
    level: Level::Warn,
    title: "`if` in a location contains more than rewriting",
    why: "An `if` inside of a location works like a location, and replaces the one around it. If several \
          conditions are true, only the last block counts; `try_files` of the outer location does not run; and \
          lists such as `add_header` are inherited only as a whole. `return`, `rewrite`, `set` and `break` are \
          safe.",
    bad: "server { location / { try_files $uri /index.html; if ($arg_a) { add_header X-A 1; } } }",
    good: "map $arg_a $a { default 1; '' ''; } \
           server { location / { try_files $uri /index.html; add_header X-A $a; } }",
    check: |tree| {
        tree.named("if")
            .filter(|spot| spot.parent().is_some_and(|parent| parent.is("location")))
            .filter_map(|spot| {
                let safe =
                    ["return", "rewrite", "set", "break", "access_log", "limit_rate", "limit_rate_after"];
                let odd = spot.node.children().iter().find(|node| !safe.iter().any(|name| node.is(name)))?;
                // A directive that answers at once has the settings of its level.
                if has(spot.node, "return") {
                    return None;
                }
                let location = spot.parent()?;
                let conditions = location.children().iter().filter(|node| node.is("if")).count();
                // One condition that only chooses another content is what many write, and works.
                let is_plain = conditions == 1 && !has(location, "try_files") && !is_list(odd);
                (!is_plain).then(|| {
                    let text = format!("\"{}\" inside of an if may not do what you expect", odd.name);
                    let fix = "set a variable by map, or go to a separate location by rewrite or error_page";
                    Found::at(odd, text, fix)
                })
            })
            .collect()
    },
};

fn is_list(node: &Node) -> bool {
    ["add_header", "proxy_set_header", "fastcgi_param"].iter().any(|name| node.is(name))
}

pub(crate) static RETURN_BEFORE_ACCESS: Rule = Rule {
    id: "return-before-access",
    level: Level::Error,
    title: "`return` answers before access is checked",
    why: "`return` runs before access is checked: `allow`, `deny`, `auth_basic` and `auth_request` of the same \
          location have no effect.",
    bad: "server { location = /secret { allow 10.0.0.0/8; deny all; return 200 secret; } }",
    good: "server { location = /secret { allow 10.0.0.0/8; deny all; try_files /none @secret; } \
           location @secret { internal; return 200 secret; } }",
    check: |tree| {
        tree.named("return")
            .filter(|spot| spot.parent().is_some_and(|parent| parent.is("location")))
            .filter_map(|spot| {
                let location = spot.parent()?;
                let refuses = spot.node.arg(0)?.as_str()?.parse::<u16>().is_ok_and(|code| code >= 400);
                let rules = ["deny", "auth_basic", "auth_request"];
                let guard = location.children().iter().find(|node| {
                    rules.iter().any(|name| node.is(name)) && !node.arg(0).is_some_and(|word| word.is("off"))
                })?;
                (!refuses).then(|| {
                    let text = format!("\"{}\" of the same location has no effect", guard.name);
                    let fix =
                        "let a separate location answer, which try_files leads to: try_files /none @answer;";
                    Found::at(spot.node, text, fix)
                })
            })
            .collect()
    },
};
