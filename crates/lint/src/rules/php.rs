//! Scripts that are passed to PHP.

use super::access::{first_pattern, overridden_prefix};
use crate::tree::{Place, Spot, Tree, children, has, has_deep, place};
use crate::{Found, Rule};
use conf::{Level, Node};

pub(crate) static ANY_PATH: Rule = Rule {
    id: "php-any-path",
    level: Level::Warn,
    title: "PHP gets the names of scripts that do not exist",
    why: "PHP may look for a script in the beginning of the path: `/upload/cat.jpg/x.php` runs the picture \
          (`cgi.fix_pathinfo`), unless PHP's own settings forbid it. Check first that the script exists.",
    bad: "server { root /srv/public; location ~ \\.php$ { \
          fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:/run/php.sock; } }",
    good: "server { root /srv/public; location ~ \\.php$ { try_files $uri =404; \
           fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:/run/php.sock; } }",
    check: |tree| {
        scripts(tree)
            .filter(|(_, location, pattern)| {
                let is_known = pattern.starts_with('^') && !pattern.contains(['*', '+']);
                !is_known && !looks(location) && !is_set_to_a_script(location)
            })
            .map(|(spot, ..)| {
                Found::at(
                    spot.node,
                    "a path that only ends like a script is passed on",
                    "try_files $uri =404;",
                )
            })
            .collect()
    },
};

pub(crate) static UNBUFFERED_BODY: Rule = Rule {
    id: "php-unbuffered-body",
    level: Level::Warn,
    title: "PHP-FPM gets no body of unknown length",
    why: "With `fastcgi_request_buffering off` a body without `Content-Length` (chunked, as some sync clients send it) is passed \
          on without a length. PHP-FPM reads as many bytes as `CONTENT_LENGTH` says: the script sees an empty body.",
    bad: "server { root /srv/public; location ~ ^/index\\.php$ { fastcgi_request_buffering off; \
          fastcgi_pass unix:/run/php.sock; } }",
    good: "server { root /srv/public; location ~ ^/index\\.php$ { fastcgi_pass unix:/run/php.sock; } }",
    check: |tree| {
        scripts(tree)
            .filter(|(spot, ..)| spot.is_set("fastcgi_request_buffering", "off"))
            .filter_map(|(spot, ..)| spot.effective("fastcgi_request_buffering").into_iter().next_back())
            .map(|node| {
                let text = "scripts get an empty body if the client sends no Content-Length";
                Found::at(node, text, "leave the line out")
            })
            .collect()
    },
};

/// Locations with a pattern about `.php` that pass to an application.
fn scripts<'t, 'a>(tree: &'t Tree<'a>) -> impl Iterator<Item = (&'t Spot<'a>, &'a Node, &'a str)> {
    tree.named("fastcgi_pass").filter_map(|spot| {
        let location = spot.parent().filter(|parent| parent.is("location"))?;
        let Some(Place::Pattern(pattern)) = place(location) else { return None };
        pattern.contains("php").then_some((spot, location, pattern))
    })
}

/// Whether the script is looked for, by whatever means, or can only come from inside.
fn looks(location: &Node) -> bool {
    let by_condition = children(location, "if").any(|node| {
        node.args
            .iter()
            .filter_map(|word| word.as_str())
            .any(|text| text.contains("!-f") || text.contains("!-e"))
    });
    has(location, "try_files") || has(location, "internal") || by_condition
}

/// Whether the script's name does not come from the URI.
fn is_set_to_a_script(location: &Node) -> bool {
    children(location, "fastcgi_param").any(|node| {
        let value = node.arg(1).and_then(|word| word.as_str()).unwrap_or_default();
        node.arg(0).is_some_and(|name| name.is("SCRIPT_FILENAME")) && value.ends_with(".php")
    })
}

pub(crate) static UNANCHORED_SCRIPT: Rule = Rule {
    id: "php-unanchored",
    level: Level::Warn,
    title: "every path that contains .php is passed to PHP",
    why: "A pattern without `$` also matches `/notes.php.bak` and `/a.phpinfo`: PHP gets files that are not \
          scripts.",
    bad: "server { root /srv/public; location ~ \\.php { try_files $uri =404; fastcgi_pass unix:/run/php.sock; } }",
    good: "server { root /srv/public; location ~ \\.php$ { try_files $uri =404; fastcgi_pass unix:/run/php.sock; } }",
    check: |tree| {
        scripts(tree)
            .filter(|(_, _, pattern)| pattern.ends_with(".php") && !pattern.contains('|'))
            .map(|(_, location, pattern)| {
                Found::at(
                    location,
                    format!("\"{pattern}\" has no $ at its end"),
                    format!("location ~ {pattern}$"),
                )
            })
            .collect()
    },
};

pub(crate) static INDEX_WITHOUT_PHP: Rule = Rule {
    id: "index-without-php",
    level: Level::Notice,
    title: "a directory does not use its index.php",
    why: "`$uri/` in `try_files` finds a directory, and `index` says which file answers for it. If that list \
          contains no script, a directory that has only an `index.php` gets 403.",
    bad: "server { root /srv/public; location / { try_files $uri $uri/ /index.php; } \
          location ~ \\.php$ { try_files $uri =404; fastcgi_pass unix:/run/php.sock; } }",
    good: "server { root /srv/public; index index.php; location / { try_files $uri $uri/ /index.php; } \
           location ~ \\.php$ { try_files $uri =404; fastcgi_pass unix:/run/php.sock; } }",
    check: |tree| {
        tree.named("try_files")
            .filter(|spot| spot.nearest("server").is_some_and(|server| has_deep(server, "fastcgi_pass")))
            .filter(|spot| spot.node.args.iter().any(|word| word.is("$uri/")))
            .filter(|spot| {
                let leads_to_php = spot.node.args.iter().any(|word| word.to_string().contains(".php"));
                let names = spot.effective("index");
                let has_php = names.iter().any(|node| {
                    node.args
                        .iter()
                        .any(|word| word.to_string().contains("php") || word.to_string().contains('$'))
                });
                leads_to_php && !has_php
            })
            .map(|spot| {
                let text = "\"$uri/\" finds directories, and no index for them is a script";
                Found::at(spot.node, text, "index index.php;")
            })
            .collect()
    },
};

pub(crate) static BELOW_ALIAS: Rule = Rule {
    id: "php-below-alias",
    level: Level::Warn,
    title: "scripts below an alias are looked for below the root",
    why: "A location with a pattern comes before the longest prefix, and has its own root. So `location ~ \\.php$` looks \
          for `/tool/index.php` below `root`, not below the `alias`: the response is 404, or another file runs.",
    bad: "server { root /srv/public; location /tool/ { alias /srv/tool/; index index.php; } location ~ \\.php$ { \
          try_files $uri =404; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; \
          fastcgi_pass unix:/run/php.sock; } }",
    good: "server { root /srv/public; location /tool/ { alias /srv/tool/; index index.php; location ~ \\.php$ { \
           if (!-f $request_filename) { return 404; } fastcgi_param SCRIPT_FILENAME $request_filename; \
           fastcgi_pass unix:/run/php.sock; } } }",
    check: |tree| {
        tree.named("location")
            .filter(|spot| has(spot.node, "alias") && leads_to_a_script(spot.node))
            .filter_map(|spot| {
                let path = format!("{}index.php", overridden_prefix(spot.node)?);
                let program = first_pattern(spot.siblings(), &path)?;
                let is_elsewhere = has(program, "fastcgi_pass")
                    && !has(program, "alias")
                    && first_pattern(spot.node.children(), &path).is_none();
                let text = format!(
                    "{path} is answered by the location in line {}, which does not use this alias",
                    program.span.line
                );
                let fix = "inside: location ~ \\.php$ { fastcgi_param SCRIPT_FILENAME $request_filename; … }";
                is_elsewhere.then(|| Found::at(spot.node, text, fix))
            })
            .collect()
    },
};

/// Whether the index of a location, or its last resort, is a script.
fn leads_to_a_script(location: &Node) -> bool {
    ["index", "try_files"]
        .iter()
        .flat_map(|name| children(location, name))
        .any(|node| node.args.iter().filter_map(|word| word.as_str()).any(|word| word.ends_with(".php")))
}
