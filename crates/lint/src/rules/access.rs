//! Access rules.

use crate::tree::has_deep;
use crate::{Found, Rule};
use conf::Level;

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
