//! Regular expressions.

use crate::regex;
use crate::tree::{Place, children, place};
use crate::{Found, Rule};
use conf::{Level, Node};

pub(crate) static CATASTROPHIC_PATTERN: Rule = Rule {
    id: "catastrophic-pattern",
    level: Level::Error,
    title: "a pattern whose time can grow without bound",
    why: "A repetition of repetitions, such as `(a+)+`, can divide a text in very many ways. If the whole \
          pattern does not match, all of them are tried, so a client chooses how long that takes. Fulmar stops \
          at a limit of steps, and the pattern then does not match.",
    bad: "server { location ~ ^/([a-z]+)*/x$ { return 204; } }",
    good: "server { location ~ ^/[a-z]*/x$ { return 204; } }",
    check: |tree| {
        tree.all()
            .filter_map(|spot| {
                let pattern = pattern_of(spot.node)?;
                regex::explodes(&pattern).then(|| {
                    let text = format!("\"{pattern}\" repeats a repetition");
                    Found::at(
                        spot.node,
                        text,
                        "leave one of the two repetitions out, or make it possessive (++)",
                    )
                })
            })
            .collect()
    },
};

/// The pattern of a directive that has one.
fn pattern_of(node: &Node) -> Option<String> {
    let text = match node.name.as_str()? {
        "location" => match place(node)? {
            Place::Pattern(text) => text,
            _ => return None,
        },
        "rewrite" | "fastcgi_split_path_info" => node.arg(0)?.as_str()?,
        "if" => match &*node.args {
            [_, operator, pattern] if operator.as_str()?.contains('~') => {
                let text = pattern.as_str()?;
                text.strip_suffix(')').unwrap_or(text)
            }
            _ => return None,
        },
        // An entry of a map.
        name => name.strip_prefix('~').map(|text| text.strip_prefix('*').unwrap_or(text))?,
    };
    Some(text.to_owned())
}

pub(crate) static LOOSE_DOT: Rule = Rule {
    id: "loose-dot",
    level: Level::Notice,
    title: "a dot in a pattern of a name matches any character",
    why: "In a pattern `.` matches any character: `www.example.com` also matches `wwwxexample.com`. If the \
          name is fixed, write it without a pattern; it is found faster.",
    bad: "server { server_name ~^www.example\\.com$; }",
    good: "server { server_name www.example.com; }",
    check: |tree| {
        tree.named("server_name")
            .flat_map(|spot| {
                let loose = spot.node.args.iter().filter(|word| {
                    word.as_str().and_then(|text| text.strip_prefix('~')).is_some_and(regex::has_loose_dot)
                });
                loose.map(|word| {
                    Found::at(
                        spot.node,
                        format!("a dot in \"{word}\" matches any character"),
                        "write \\. for a dot",
                    )
                    .under(word.span)
                })
            })
            .collect()
    },
};

pub(crate) static SAME_PATTERN: Rule = Rule {
    id: "same-pattern",
    level: Level::Warn,
    title: "a location is never reached, because an earlier one has the same pattern",
    why: "Of the locations with patterns, the first one that matches counts. A later one with the same pattern \
          is never reached.",
    bad: "server { location ~ \\.css$ { expires 1d; } location ~ \\.css$ { expires 2d; } }",
    good: "server { location ~ \\.css$ { expires 1d; } location ~ \\.js$ { expires 2d; } }",
    check: |tree| {
        let mut found = Vec::new();
        for spot in tree.all().filter(|spot| spot.node.is("server") || spot.node.is("location")) {
            let mut seen: Vec<(&Node, String)> = Vec::new();
            for location in children(spot.node, "location") {
                let Some(Place::Pattern(_)) = place(location) else { continue };
                let text = location.args.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
                match seen.iter().find(|(_, other)| *other == text) {
                    Some((first, _)) => found.push(Found::at(
                        location,
                        format!("line {} has the same pattern and is found first", first.span.line),
                        "join the two",
                    )),
                    None => seen.push((location, text)),
                }
            }
        }
        found
    },
};
