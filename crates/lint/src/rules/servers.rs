//! Servers: which one answers, and what it tells of itself.

use crate::tree::{Spot, Tree, children};
use crate::{Found, Rule};
use conf::{Level, Node};

pub(crate) static NO_DEFAULT_SERVER: Rule = Rule {
    id: "no-default-server",
    level: Level::Notice,
    title: "requests for unknown hosts get the first server",
    why: "A request for an unknown name, or for the address, is answered by the first server of the address. \
          If servers are in several files, the first one may change with the name of a file. `default_server` \
          makes it explicit.",
    bad: "server { listen 80; server_name a.example; return 204; } server { listen 80; server_name b.example; return 204; }",
    good: "server { listen 80 default_server; return 444; } server { listen 80; server_name a.example; return 204; }",
    check: no_default,
};

fn no_default(tree: &Tree<'_>) -> Vec<Found> {
    let mut addresses: Vec<(String, Vec<&Spot<'_>>, bool)> = Vec::new();
    for spot in tree.named("server").filter(|spot| spot.parent().is_some_and(|parent| parent.is("http"))) {
        for (address, is_default) in listens(spot.node) {
            match addresses.iter_mut().find(|(known, ..)| *known == address) {
                Some((_, servers, has_default)) => {
                    servers.push(spot);
                    *has_default |= is_default;
                }
                None => addresses.push((address, vec![spot], is_default)),
            }
        }
    }
    let lonely = addresses.into_iter().filter(|(_, servers, has_default)| servers.len() > 1 && !has_default);
    let mut found: Vec<Found> = Vec::new();
    for (address, servers, _) in lonely {
        let Some(first) = servers.first() else { continue };
        let is_catch_all = names(first.node).iter().any(|name| name == "_" || name.is_empty());
        // One finding a server is enough.
        if is_catch_all || found.iter().any(|known| known.place == first.node.span) {
            continue;
        }
        let name = names(first.node).into_iter().next().unwrap_or_default();
        let text = format!("\"{name}\" answers for all unknown hosts at {address}, because it comes first");
        found.push(Found::at(first.node, text, format!("listen {address} default_server;")));
    }
    found
}

/// The addresses of a server, and whether it says that it is their default.
fn listens(server: &Node) -> Vec<(String, bool)> {
    let written: Vec<(String, bool)> = children(server, "listen")
        .filter_map(|node| {
            let address = node.arg(0)?.to_string();
            let address = address.strip_prefix("*:").map(str::to_owned).unwrap_or(address);
            let is_default = node.args.iter().any(|word| word.is("default_server") || word.is("default"));
            Some((address, is_default))
        })
        .collect();
    if written.is_empty() { vec![("80".to_owned(), false)] } else { written }
}

fn names(server: &Node) -> Vec<String> {
    let names: Vec<String> =
        children(server, "server_name").flat_map(|node| node.args.iter().map(ToString::to_string)).collect();
    if names.is_empty() { vec![String::new()] } else { names }
}

pub(crate) static UNDERSCORE_NAME: Rule = Rule {
    id: "underscore-name",
    level: Level::Notice,
    title: "`server_name _` does not match all hosts",
    why: "`_` is a name like any other, only that no host has it: it is not a wildcard. A server answers for \
          all other hosts if it has `default_server`, or if it comes first.",
    bad: "server { listen 80 default_server; server_name a.example; return 204; } \
          server { listen 80; server_name _; return 444; }",
    good: "server { listen 80; server_name a.example; return 204; } \
           server { listen 80 default_server; server_name _; return 444; }",
    check: |tree| {
        let servers =
            || tree.named("server").filter(|spot| spot.parent().is_some_and(|parent| parent.is("http")));
        servers()
            .filter(|spot| names(spot.node) == ["_"])
            .filter(|spot| {
                // It is never asked where it is neither the default nor the first of any of its addresses.
                listens(spot.node).iter().all(|(address, is_default)| {
                    let first =
                        servers().find(|other| listens(other.node).iter().any(|(known, _)| known == address));
                    !is_default && first.is_some_and(|first| !std::ptr::eq(first.node, spot.node))
                })
            })
            .filter_map(|spot| {
                let name = children(spot.node, "server_name").next()?;
                let fix = "add default_server to its listen";
                Some(Found::at(name, "no request comes here: another server of the address is first", fix))
            })
            .collect()
    },
};

pub(crate) static NO_NAME: Rule = Rule {
    id: "no-name",
    level: Level::Warn,
    title: "a `server_name` that no host can have",
    why: "A host has no scheme, no port, no path and no comma, so such a name never matches. Separate names by \
          spaces.",
    bad: "server { server_name https://a.example; }",
    good: "server { server_name a.example; }",
    check: |tree| {
        tree.named("server_name")
            .flat_map(|spot| {
                let odd = spot.node.args.iter().filter(|word| {
                    let text = word.as_str().unwrap_or_default();
                    !text.starts_with('~') && text.contains(['/', ':', ',']) && !text.contains('$')
                });
                odd.map(|word| {
                    let text = format!("\"{word}\" is not a host name");
                    Found::at(spot.node, text, "write the name alone").under(word.span)
                })
            })
            .collect()
    },
};

pub(crate) static MERGE_SLASHES_OFF: Rule = Rule {
    id: "merge-slashes-off",
    level: Level::Warn,
    title: "`//` bypasses locations",
    why: "With `merge_slashes off`, `location /admin` does not match the path `//admin`. Most applications \
          treat both paths alike, so rules for `/admin` can be bypassed.",
    bad: "server { merge_slashes off; location /admin/ { deny all; } }",
    good: "server { merge_slashes on; location /admin/ { deny all; } }",
    check: |tree| {
        tree.named("merge_slashes")
            .filter(|spot| spot.node.arg(0).is_some_and(|word| word.is("off")))
            .map(|spot| {
                Found::at(spot.node, "\"//admin\" is another location than \"/admin\"", "leave it on")
            })
            .collect()
    },
};

pub(crate) static SERVER_TOKENS_ON: Rule = Rule {
    id: "server-tokens",
    level: Level::Notice,
    title: "responses show the version",
    why: "`server_tokens on` shows the version in the `Server` header and in error pages. Attackers look for \
          old versions there.",
    bad: "server_tokens on;",
    good: "server_tokens off;",
    check: |tree| {
        tree.named("server_tokens")
            .filter(|spot| spot.node.arg(0).is_some_and(|word| word.is("on")))
            .map(|spot| Found::at(spot.node, "every answer has the server's version", "server_tokens off;"))
            .collect()
    },
};

pub(crate) static ERROR_LOG_OFF: Rule = Rule {
    id: "error-log-off",
    level: Level::Warn,
    title: "`error_log off` logs to a file called off",
    why: "`error_log` does not know the word `off`: it is the name of a file. To log as little as possible, \
          log only the most severe level.",
    bad: "server { error_log off; }",
    good: "server { error_log /var/log/nginx/error.log crit; }",
    check: |tree| {
        tree.named("error_log")
            .filter(|spot| spot.node.arg(0).is_some_and(|word| word.is("off")))
            .map(|spot| {
                let fix = "error_log /var/log/nginx/error.log crit;";
                Found::at(spot.node, "errors go to a file with the name \"off\"", fix)
            })
            .collect()
    },
};
