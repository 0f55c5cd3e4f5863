//! Rules about files: `root`, `alias`, `try_files`.

use crate::tree::{Place, Spot, children, has, has_deep, place};
use crate::{Found, Rule};
use conf::{Level, Node};

pub(crate) static ALIAS_TRAVERSAL: Rule = Rule {
    id: "alias-traversal",
    level: Level::Error,
    title: "`alias` lets a request leave its directory",
    why: "A location without a final slash also matches longer paths: `location /i` matches `/i../x`. If the \
          `alias` ends with a slash, the rest `../x` is appended to it, which leads to the parent directory.",
    bad: "server { location /i { alias /srv/images/; } }",
    good: "server { location /i/ { alias /srv/images/; } }",
    check: |tree| {
        tree.named("alias")
            .filter_map(|spot| {
                let location = spot.parent().filter(|parent| parent.is("location"))?;
                let Some(Place::Prefix(text)) = place(location) else { return None };
                let target = spot.node.arg(0)?.as_str()?;
                // `return` answers before any file is opened.
                let is_open = target.ends_with('/') && !text.ends_with('/') && !has(location, "return");
                is_open.then(|| {
                    let what = format!("\"{text}../\" leads out of \"{target}\"");
                    Found::at(spot.node, what, format!("location {text}/ {{ alias {target}; }}"))
                })
            })
            .collect()
    },
};

pub(crate) static ALIAS_WITHOUT_SLASH: Rule = Rule {
    id: "alias-without-slash",
    level: Level::Warn,
    title: "`alias` has no final slash, but its location has one",
    why: "`alias` replaces the text of the location. With `location /i/` and `alias /srv/images`, `/i/x` is \
          the file `/srv/imagesx`.",
    bad: "server { location /i/ { alias /srv/images; } }",
    good: "server { location /i/ { alias /srv/images/; } }",
    check: |tree| {
        tree.named("alias")
            .filter_map(|spot| {
                let location = spot.parent().filter(|parent| parent.is("location"))?;
                let Some(Place::Prefix(text)) = place(location) else { return None };
                let target = spot.node.arg(0)?.as_str()?;
                // A variable may end with a slash.
                let is_joined = text.ends_with('/') && !target.ends_with('/') && !target.contains('$');
                is_joined.then(|| {
                    let what = format!("\"{text}x\" is the file \"{target}x\"");
                    Found::at(spot.node, what, format!("alias {target}/;"))
                })
            })
            .collect()
    },
};

pub(crate) static ALIAS_WITHOUT_CAPTURE: Rule = Rule {
    id: "alias-without-capture",
    level: Level::Warn,
    title: "`alias` in a location with a pattern names no file",
    why: "In a location with a pattern, `alias` is the complete path: nothing of the URI is appended. Without \
          a capture, every request gets the same directory.",
    bad: "server { location ~ ^/img/.*\\.png$ { alias /srv/images/; } }",
    good: "server { location ~ ^/img/(.*\\.png)$ { alias /srv/images/$1; } }",
    check: |tree| {
        tree.named("alias")
            .filter_map(|spot| {
                let location = spot.parent().filter(|parent| parent.is("location"))?;
                let Some(Place::Pattern(_)) = place(location) else { return None };
                // With try_files the names are appended.
                let target = spot.node.arg(0)?.as_str()?;
                let is_lost =
                    target.ends_with('/') && !target.contains('$') && !has_deep(location, "try_files");
                let answers = has(location, "return") || has(location, "deny");
                (is_lost && !answers).then(|| {
                    let fix = "capture the rest of the URI in the pattern, and append it to the alias";
                    Found::at(spot.node, format!("every URI here is \"{target}\""), fix)
                })
            })
            .collect()
    },
};

pub(crate) static TRY_FILES_LAST: Rule = Rule {
    id: "try-files-last",
    level: Level::Warn,
    title: "the last argument of `try_files` is not tried",
    why: "The last argument is the fallback: Fulmar does not look for such a file, but redirects to it. With \
          `$uri` there, a missing file redirects to itself until the limit of redirects ends the request with \
          500.",
    bad: "server { location / { try_files $uri $uri/; } }",
    good: "server { location / { try_files $uri $uri/ =404; } }",
    check: |tree| {
        tree.named("try_files")
            .filter_map(|spot| {
                let last = spot.node.args.last()?;
                let is_uri = last.is("$uri") || last.is("$uri/");
                is_uri.then(|| {
                    let text =
                        format!("a missing file redirects to \"{last}\" again and again, and ends with 500");
                    Found::at(spot.node, text, "add =404 at the end").under(last.span)
                })
            })
            .collect()
    },
};

pub(crate) static AUTOINDEX_EVERYWHERE: Rule = Rule {
    id: "autoindex-everywhere",
    level: Level::Notice,
    title: "directories are listed for a whole site",
    why: "`autoindex on` in a server, or in its `location /`, lists every directory without an index file, \
          also directories that are added later.",
    bad: "server { root /srv/x; autoindex on; }",
    good: "server { root /srv/x; location /files/ { autoindex on; } }",
    check: |tree| {
        tree.named("autoindex")
            .filter(|spot| spot.node.arg(0).is_some_and(|word| word.is("on")))
            .filter(|spot| match spot.parent() {
                Some(parent) if parent.is("location") => {
                    place(parent) == Some(Place::Prefix("/")) && spot.nearest("server").is_some_and(is_a_site)
                }
                Some(parent) => parent.is("server") && is_a_site(parent) || parent.is("http"),
                None => false,
            })
            .map(|spot| {
                let fix = "set it in the location of that directory";
                Found::at(spot.node, "every directory without an index is listed", fix)
            })
            .collect()
    },
};

/// Whether the server does more than list files. A server that only lists files means to do so.
fn is_a_site(server: &Node) -> bool {
    let passes = ["proxy_pass", "fastcgi_pass", "index", "try_files"];
    passes.iter().any(|name| has_deep(server, name)) || children(server, "location").next().is_none()
}

pub(crate) static ROOT_IN_ONE_LOCATION: Rule = Rule {
    id: "root-in-one-location",
    level: Level::Notice,
    title: "`root` is set for `/` only, and other locations need one",
    why: "A `root` inside of `location /` applies to that location only. Other locations then look for files \
          in the default directory, `html`. Set `root` in the server instead.",
    bad: "server { location / { root /srv/x; } location ~ \\.css$ { expires 1d; } }",
    good: "server { root /srv/x; location / { } location ~ \\.css$ { expires 1d; } }",
    check: |tree| tree.named("server").filter_map(root_in_one).collect(),
};

fn root_in_one(spot: &Spot<'_>) -> Option<Found> {
    let locations = || children(spot.node, "location");
    if !spot.effective("root").is_empty() {
        return None;
    }
    let main = locations().find(|node| place(node) == Some(Place::Prefix("/")))?;
    let root = children(main, "root").next()?;
    let other = locations().find(|node| !std::ptr::eq(*node, main) && sends_files(node))?;
    let text = format!("\"location {}\" has no root, and looks for its files in \"html\"", words(other));
    Some(Found::at(root, text, "move it to the server"))
}

/// Whether a location certainly sends files, and has no `root`.
fn sends_files(location: &Node) -> bool {
    let elsewhere = ["root", "alias", "return", "deny", "rewrite", "internal", "stub_status", "empty_gif"];
    let is_elsewhere = |node: &Node| {
        let name = node.name.as_str().unwrap_or_default();
        elsewhere.contains(&name) || name.ends_with("_pass") || name == "if" || name == "try_files"
    };
    !location.children().is_empty()
        && matches!(place(location), Some(Place::Pattern(_) | Place::Prefix(_)))
        && !location.children().iter().any(is_elsewhere)
        && (has(location, "expires") || has(location, "add_header") || has(location, "autoindex"))
}

fn words(node: &Node) -> String {
    node.args.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

pub(crate) static HIDDEN_FILES: Rule = Rule {
    id: "hidden-files",
    level: Level::Notice,
    title: "files such as `.git` and `.env` can be fetched",
    why: "The directory of a PHP application is often a checkout: `.git` has its whole history, and `.env` its \
          passwords. Deny such files in one location. Certificates need `.well-known`.",
    bad: "server { root /srv/x; location / { try_files $uri /index.php; } \
          location ~ ^/index\\.php$ { fastcgi_pass unix:/run/php.sock; } }",
    good: "server { root /srv/x; location / { try_files $uri /index.php; } \
          location ~ ^/index\\.php$ { fastcgi_pass unix:/run/php.sock; } \
          location ~ /\\.(?!well-known) { deny all; } }",
    check: |tree| {
        tree.named("server")
            .filter(|spot| has(spot.node, "root") && has_deep(spot.node, "fastcgi_pass") && !hides(spot.node))
            .filter_map(|spot| {
                let root = children(spot.node, "root").next()?;
                // A directory called public contains only public files.
                let path = root.arg(0)?.as_str()?;
                let is_public = ["/public", "/web", "/pub", "/htdocs", "/html", "/webroot"].iter();
                let is_public = is_public.clone().any(|end| path.trim_end_matches('/').ends_with(end));
                (!is_public).then(|| {
                    let fix = "location ~ /\\.(?!well-known) { deny all; }";
                    Found::at(root, "hidden files can be fetched", fix)
                })
            })
            .collect()
    },
};

/// Whether any location or condition matches names that begin with a dot.
fn hides(block: &Node) -> bool {
    block.children().iter().any(|node| {
        let about = node.args.iter().filter_map(|word| word.as_str());
        let is_about_dots = about.clone().any(|text| text.contains("\\.") && is_about_hidden(text));
        ((node.is("location") || node.is("if")) && is_about_dots) || hides(node)
    })
}

fn is_about_hidden(text: &str) -> bool {
    ["/\\.", "/(\\.", "/(?:\\.", "|\\.", "(\\.", "(?:\\.", "/?\\.", "^\\."].iter().any(|start| {
        text.match_indices(start).any(|(at, _)| {
            // `\.(css|js)` and `\.php` match extensions, not hidden files.
            let behind = text[at + start.len()..].chars().next();
            start.starts_with('/')
                || behind.is_none_or(|c| !c.is_ascii_alphanumeric() || text.contains("git"))
        })
    })
}
