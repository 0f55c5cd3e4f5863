//! Requests that are passed on.

use crate::tree::{Place, Tree, children, has, place, uses};
use crate::{Found, Rule};
use conf::{Level, Node, Word};

pub(crate) static PASS_SLASH: Rule = Rule {
    id: "pass-slash",
    level: Level::Error,
    title: "`proxy_pass` lets a request leave its path",
    why: "A location without a final slash also matches longer paths. If the path of `proxy_pass` ends with a \
          slash, `/api../x` is forwarded as `/v1/../x`, and `/api/x` as `/v1//x`.",
    bad: "server { location /api { proxy_pass http://127.0.0.1:8080/v1/; } }",
    good: "server { location /api/ { proxy_pass http://127.0.0.1:8080/v1/; } }",
    check: |tree| {
        tree.named("proxy_pass")
            .filter_map(|spot| {
                let location = spot.parent().filter(|parent| parent.is("location"))?;
                let Some(Place::Prefix(text)) = place(location) else { return None };
                let url = spot.node.arg(0)?.as_str()?;
                let (_, rest) = url.split_once("://")?;
                let uri = rest.find('/').map(|at| &rest[at..])?;
                let is_open = uri.ends_with('/')
                    && !text.ends_with('/')
                    && !url.contains('$')
                    && !rest.starts_with("unix:");
                is_open.then(|| {
                    let what = format!("\"{text}../\" is passed as \"{uri}../\"");
                    Found::at(spot.node, what, format!("location {text}/"))
                })
            })
            .collect()
    },
};

pub(crate) static CACHE_WITHOUT_KEY: Rule = Rule {
    id: "cache-without-key",
    level: Level::Warn,
    title: "a cache without a key keeps nothing",
    why: "`proxy_cache` has a default key, but `fastcgi_cache`, `uwsgi_cache` and `scgi_cache` have none. Without a key \
          Fulmar keeps no response. nginx sends the first response for every URI.",
    bad: "fastcgi_cache_path /srv/cache keys_zone=pages:1m; \
          server { fastcgi_cache pages; location /app/ { fastcgi_pass unix:/run/app.sock; } }",
    good: "fastcgi_cache_path /srv/cache keys_zone=pages:1m; \
           server { fastcgi_cache pages; fastcgi_cache_key $scheme$request_method$host$request_uri; \
           location /app/ { fastcgi_pass unix:/run/app.sock; } }",
    check: |tree| {
        let mut found: Vec<&Node> = Vec::new();
        for protocol in ["fastcgi", "uwsgi", "scgi"] {
            let [pass, cache, key] = ["_pass", "_cache", "_cache_key"].map(|end| format!("{protocol}{end}"));
            for spot in tree.named(&pass).filter(|spot| spot.effective(&key).is_empty()) {
                let used = spot.effective(&cache).into_iter().next_back();
                let used = used.filter(|node| node.arg(0).is_some_and(|zone| !zone.is("off")));
                found.extend(used.filter(|node| !found.iter().any(|known| std::ptr::eq(*known, *node))));
            }
        }
        let tell = |node: &Node| {
            let name = node.name.to_string();
            let fix = format!("add {name}_key $scheme$request_method$host$request_uri;");
            Found::at(node, format!("\"{name}\" has no \"{name}_key\", so no response is kept"), fix)
        };
        found.into_iter().map(tell).collect()
    },
};

pub(crate) static VARIABLE_WITHOUT_RESOLVER: Rule = Rule {
    id: "variable-without-resolver",
    level: Level::Warn,
    title: "`proxy_pass` with a variable host, but no `resolver`",
    why: "If the host contains a variable, it is looked up for each request, by the name servers of \
          `resolver`. Without a `resolver`, and without an `upstream` of that name, the request ends with 502.",
    bad: "server { location / { set $backend app.internal; proxy_pass http://$backend; } }",
    good: "server { resolver 127.0.0.53; location / { set $backend app.internal; proxy_pass http://$backend; } }",
    check: |tree| {
        let has_groups = tree.named("upstream").next().is_some();
        let is_bad = |spot: &&crate::tree::Spot<'_>| !has_groups && spot.effective("resolver").is_empty();
        tree.named("proxy_pass")
            .filter(is_bad)
            .filter_map(|spot| {
                let word = spot.node.arg(0)?;
                let (_, rest) = word.as_str()?.split_once("://")?;
                let host = first_variable(rest)?;
                // An address that a variable brings needs no look-up.
                let is_address = host_values(tree, host).is_some_and(|values| {
                    let is_address = |value: &String| {
                        value.split(':').next().is_some_and(|ip| ip.parse::<std::net::Ipv4Addr>().is_ok())
                    };
                    values.iter().all(|value| value.is_empty() || is_address(value))
                });
                (!is_address).then(|| {
                    let text = format!("\"{host}\" can only be an address");
                    Found::at(spot.node, text, "add a resolver, or an upstream of that name").under(word.span)
                })
            })
            .collect()
    },
};

/// The variable that a text begins with.
fn first_variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    (end > 0).then(|| &text[..=end])
}

/// What `set` and tables give a variable; none where nothing is known.
fn host_values(tree: &Tree<'_>, variable: &str) -> Option<Vec<String>> {
    let is_it = |word: Option<&Word>| word.is_some_and(|word| word.is(variable));
    let sets = tree.named("set").filter(|spot| is_it(spot.node.arg(0)));
    let mut values: Vec<String> = sets.filter_map(|spot| spot.node.arg(1).map(ToString::to_string)).collect();
    for table in ["map", "split_clients"] {
        for spot in tree.named(table).filter(|spot| is_it(spot.node.arg(1))) {
            values.extend(
                spot.node.children().iter().filter_map(|entry| entry.arg(0).map(ToString::to_string)),
            );
        }
    }
    (!values.is_empty()).then_some(values)
}

pub(crate) static HOST_PASSED_ON: Rule = Rule {
    id: "host-passed-on",
    level: Level::Notice,
    title: "the upstream server gets any host that the client sends",
    why: "`$http_host` is what the client sent. If the server answers for all hosts, and the application \
          builds links from the host, for example in a mail to set a new password, a client can choose where \
          these links lead.",
    bad: "server { listen 80 default_server; \
          location / { proxy_set_header Host $http_host; proxy_pass http://127.0.0.1:8080; } }",
    good: "server { listen 80 default_server; \
           location / { proxy_set_header Host $host; proxy_pass http://127.0.0.1:8080; } }",
    check: |tree| {
        tree.named("proxy_set_header")
            .filter(|spot| spot.node.arg(0).is_some_and(|name| name.to_string().eq_ignore_ascii_case("host")))
            .filter(|spot| {
                let server = spot.nearest("server");
                // Where the server has names, only they come here.
                server.is_some_and(|server| {
                    let mut listens = children(server, "listen");
                    listens.any(|node| node.args.iter().any(|word| word.is("default_server")))
                })
            })
            .filter_map(|spot| {
                let value = spot.node.arg(1)?;
                uses(value, &["$http_host"])?;
                let text = "the client chooses \"$http_host\", and this server answers for all hosts";
                Some(Found::at(spot.node, text, "use $host, or the name itself").under(value.span))
            })
            .collect()
    },
};

pub(crate) static ACCEL_NOT_INTERNAL: Rule = Rule {
    id: "accel-not-internal",
    level: Level::Error,
    title: "files that an application protects can be fetched directly",
    why: "With `X-Accel-Redirect` an application decides which client gets a file, and the server sends it. \
          The location of these files must be `internal`; otherwise every client can fetch them directly.",
    bad: "server { location / { proxy_set_header X-Accel-Mapping /srv/files/=/files/; proxy_pass http://127.0.0.1:8080; } \
          location /files/ { alias /srv/files/; } }",
    good: "server { location / { proxy_set_header X-Accel-Mapping /srv/files/=/files/; proxy_pass http://127.0.0.1:8080; } \
           location /files/ { internal; alias /srv/files/; } }",
    check: |tree| {
        let mut found = Vec::new();
        for spot in tree.named("proxy_set_header") {
            let [name, value] = &*spot.node.args else { continue };
            let Some(server) = spot.nearest("server") else { continue };
            if !name.to_string().eq_ignore_ascii_case("x-accel-mapping") {
                continue;
            }
            let value = value.to_string();
            for uri in value.split(',').filter_map(|pair| pair.split_once('=').map(|(_, uri)| uri.trim())) {
                let guarded = children(server, "location").find(|location| {
                    matches!(place(location), Some(Place::Prefix(text)) if text == uri && text != "/")
                });
                found.extend(guarded.filter(|location| !has(location, "internal")).map(|location| {
                    let text = format!("\"{uri}\" is sent to every client");
                    Found::at(location, text, "write internal; into it")
                }));
            }
        }
        found
    },
};
