//! Access rules.

use crate::tree::{Place, children, has, has_deep, place};
use crate::{Found, Rule};
use conf::value::{Language, Pattern};
use conf::{Level, Node};

pub(crate) static SATISFY_ANY_ALL: Rule = Rule {
    id: "satisfy-any-all",
    level: Level::Error,
    title: "`satisfy any` with `allow all` lets every client in",
    why: "With `satisfy any`, one check that allows the request is enough. `allow all` allows every client, so \
          no password is required.",
    bad: "server { satisfy any; allow all; auth_basic x; auth_basic_user_file /etc/nginx/users; }",
    good: "server { satisfy any; allow 10.0.0.0/8; deny all; auth_basic x; auth_basic_user_file /etc/nginx/users; }",
    check: |tree| {
        tree.named("satisfy")
            .filter(|spot| spot.node.arg(0).is_some_and(|word| word.is("any")))
            .filter_map(|spot| {
                let allow = spot
                    .siblings()
                    .iter()
                    .find(|node| node.is("allow") && node.arg(0).is_some_and(|word| word.is("all")))?;
                let fix = "name the networks that need no password, and deny all others";
                Some(Found::at(allow, "with satisfy any, this lets every client in without a password", fix))
            })
            .collect()
    },
};

pub(crate) static REFERER_NONE: Rule = Rule {
    id: "referer-none",
    level: Level::Notice,
    title: "`valid_referers none` accepts requests without a Referer",
    why: "With `none`, a request without `Referer` is valid, and any page can make browsers leave it out \
          (`referrerpolicy=\"no-referrer\"`). This is enough against sites that embed your pictures. It does \
          not protect forms.",
    bad: "server { location /transfer/ { valid_referers none server_names; if ($invalid_referer) { return 403; } \
          proxy_pass http://127.0.0.1:8080; } }",
    good: "server { location /transfer/ { valid_referers server_names; if ($invalid_referer) { return 403; } \
           proxy_pass http://127.0.0.1:8080; } }",
    check: |tree| {
        tree.named("valid_referers")
            .filter(|spot| {
                // Next to files it is a courtesy; in front of an application it is taken for a protection.
                let passes = |name: &str| spot.siblings().iter().any(|node| node.is(name));
                passes("proxy_pass") || passes("fastcgi_pass")
            })
            .filter_map(|spot| {
                let none = spot.node.args.iter().find(|word| word.is("none"))?;
                let text = "requests without a Referer are accepted, and any page can leave it out";
                Some(Found::at(spot.node, text, "leave none out").under(none.span))
            })
            .collect()
    },
};

pub(crate) static RULES_AFTER_ALL: Rule = Rule {
    id: "rules-after-all",
    level: Level::Warn,
    title: "rules after a rule that matches all clients",
    why: "The first `allow` or `deny` that matches decides: rules after `allow all` or `deny all` have no \
          effect.",
    bad: "server { deny all; allow 10.0.0.0/8; }",
    good: "server { allow 10.0.0.0/8; deny all; }",
    check: |tree| {
        let blocks = ["http", "server", "location", "limit_except"];
        tree.all()
            .filter(|spot| blocks.iter().any(|name| spot.node.is(name)))
            .filter_map(|spot| {
                let mut rules =
                    spot.node.children().iter().filter(|node| node.is("allow") || node.is("deny"));
                let all = rules.find(|node| node.arg(0).is_some_and(|word| word.is("all")))?;
                // The same once more does no harm.
                let behind = rules.find(|node| !(node.name == all.name && node.args == all.args))?;
                let text = format!("\"{} all\" in line {} decides before it", all.name, all.span.line);
                Some(Found::at(behind, text, "put the rule for all last"))
            })
            .collect()
    },
};

pub(crate) static HTACCESS_NOT_READ: Rule = Rule {
    id: "htaccess-not-read",
    level: Level::Warn,
    title: "`htaccess_override` without `htaccess on`",
    why: "`htaccess_override` only says what `.htaccess` files may contain. Fulmar reads them where `htaccess` is on. \
          Otherwise their rules about access protect nothing.",
    bad: "server { root /srv/www; htaccess_override AuthConfig; }",
    good: "server { root /srv/www; htaccess on; htaccess_override AuthConfig; }",
    check: |tree| {
        let names = ["htaccess_override", "htaccess_override_list", "htaccess_file"];
        tree.all()
            .filter(|spot| names.iter().any(|name| spot.node.is(name)))
            .filter(|spot| {
                let is_set_inside = spot.parent().is_some_and(|parent| has_deep(parent, "htaccess"));
                !spot.is_set("htaccess", "on") && !is_set_inside
            })
            .map(|spot| Found::at(spot.node, ".htaccess files are not read here", "htaccess on;"))
            .collect()
    },
};

pub(crate) static PROGRAMS_PASS: Rule = Rule {
    id: "programs-pass-rules",
    level: Level::Error,
    title: "programs are not protected by the rules of their folder",
    why: "One location answers a request, and a location with a pattern (`~`) comes before the longest prefix. So the \
          rules of `location /private/` do not apply to `/private/x.php` if `location ~ \\.php$` answers it. In Apache \
          both sections would apply.",
    bad: "server { root /srv/public; location /private/ { deny all; } \
          location ~ \\.php$ { try_files $uri =404; fastcgi_pass unix:/run/php.sock; } }",
    good: "server { root /srv/public; location ^~ /private/ { deny all; } \
           location ~ \\.php$ { try_files $uri =404; fastcgi_pass unix:/run/php.sock; } }",
    check: |tree| {
        tree.named("location")
            .filter_map(|spot| {
                let (rule, prefix) = (protection(spot.node)?, overridden_prefix(spot.node)?);
                let path = ["php", "cgi", "pl", "py"].iter().map(|end| format!("{prefix}x.{end}"));
                let (path, program) = path
                    .filter_map(|path| Some((first_pattern(spot.siblings(), &path)?, path)))
                    .map(|(program, path)| (path, program))
                    .find(|(path, program)| {
                        let is_inner = first_pattern(spot.node.children(), path).is_some();
                        passes(program) && protection(program).is_none() && !is_inner
                    })?;
                let text = format!(
                    "\"{rule}\" does not apply to {path}: the location in line {} answers it",
                    program.span.line
                );
                let fix = format!("location ^~ {prefix} {{ … }}, or the same rules in both locations");
                Some(Found::at(spot.node, text, fix))
            })
            .collect()
    },
};

/// The directive by which a location keeps clients away.
fn protection(location: &Node) -> Option<&'static str> {
    let is_on = |name: &'static str| {
        children(location, name).any(|node| node.arg(0).is_some_and(|word| !word.is("off")))
    };
    let is_refused = |node: &Node| {
        node.arg(0).and_then(|word| word.as_str()).is_some_and(|status| ["403", "404"].contains(&status))
    };
    // "location /" that only refuses is the usual way to allow nothing but the other locations.
    let is_everything = matches!(place(location), Some(Place::Prefix("/")));
    match location {
        _ if is_on("auth_basic") => Some("auth_basic"),
        _ if is_on("auth_request") => Some("auth_request"),
        _ if is_everything => None,
        _ if has(location, "deny") => Some("deny"),
        _ if has(location, "internal") => Some("internal"),
        _ if children(location, "return").any(is_refused) => Some("return"),
        _ => None,
    }
}

/// The prefix of a location that patterns override, with a slash at its end.
pub(super) fn overridden_prefix(location: &Node) -> Option<String> {
    let first = location.arg(0)?.as_str()?;
    match place(location) {
        Some(Place::Prefix(prefix)) if !first.starts_with("^~") => {
            Some(if prefix.ends_with('/') { prefix.to_owned() } else { format!("{prefix}/") })
        }
        _ => None,
    }
}

/// The first location with a pattern that matches a path.
pub(super) fn first_pattern<'a>(nodes: &'a [Node], path: &str) -> Option<&'a Node> {
    nodes.iter().filter(|node| node.is("location")).find(|node| {
        let Some(Place::Pattern(text)) = place(node) else { return false };
        let ignores_case =
            node.arg(0).and_then(|word| word.as_str()).is_some_and(|word| word.starts_with("~*"));
        Pattern::new(text.as_bytes(), ignores_case, Language::Nginx)
            .is_ok_and(|pattern| pattern.is_match(path.as_bytes()))
    })
}

/// Whether a location passes requests to a program.
fn passes(location: &Node) -> bool {
    ["fastcgi_pass", "uwsgi_pass", "scgi_pass", "proxy_pass"].iter().any(|name| has(location, name))
}
