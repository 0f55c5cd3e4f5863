//! Encryption.

use crate::tree::{children, has, has_deep};
use crate::{Found, Rule};
use conf::Level;

pub(crate) static OLD_PROTOCOLS: Rule = Rule {
    id: "old-protocols",
    level: Level::Warn,
    title: "versions of TLS that are not secure",
    why: "TLS 1.0 and 1.1 must not be used any more (RFC 8996), and SSL is broken. Fulmar offers only TLS 1.2 \
          and 1.3, whatever is named here.",
    bad: "server { listen 443 ssl; ssl_certificate a; ssl_certificate_key b; ssl_protocols TLSv1 TLSv1.2; }",
    good: "server { listen 443 ssl; ssl_certificate a; ssl_certificate_key b; ssl_protocols TLSv1.2 TLSv1.3; }",
    check: |tree| {
        tree.named("ssl_protocols")
            .filter_map(|spot| {
                let old = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1"];
                let word = spot.node.args.iter().find(|word| old.iter().any(|name| word.is(name)))?;
                let text = format!("\"{word}\" is not secure");
                Some(Found::at(spot.node, text, "ssl_protocols TLSv1.2 TLSv1.3;").under(word.span))
            })
            .collect()
    },
};

pub(crate) static WEAK_CIPHERS: Rule = Rule {
    id: "weak-ciphers",
    level: Level::Warn,
    title: "ciphers that are not secure",
    why: "RC4, DES, MD5, export and anonymous ciphers are not secure. A name selects ciphers unless it starts \
          with `!` or `-`.",
    bad: "server { ssl_ciphers HIGH:RC4-SHA:!aNULL; }",
    good: "server { ssl_ciphers HIGH:!RC4:!aNULL:!MD5; }",
    check: |tree| {
        tree.named("ssl_ciphers")
            .filter_map(|spot| {
                let list = spot.node.arg(0)?;
                let weak =
                    ["RC4", "DES-CBC", "3DES", "MD5", "NULL", "EXP", "EXPORT", "aNULL", "eNULL", "LOW"];
                let text = list.as_str()?;
                let cipher = text.split(':').find(|cipher| {
                    let parts = cipher.trim_start_matches('+').split('-').collect::<Vec<_>>();
                    !cipher.starts_with(['!', '-'])
                        && weak
                            .iter()
                            .any(|name| parts.contains(name) || (name.contains('-') && cipher.contains(name)))
                })?;
                let text = format!("\"{cipher}\" is not secure");
                Some(
                    Found::at(spot.node, text, format!("leave it out, or exclude it: !{cipher}"))
                        .under(list.span),
                )
            })
            .collect()
    },
};

pub(crate) static COMPRESSED_SECRETS: Rule = Rule {
    id: "compressed-secrets",
    level: Level::Notice,
    title: "responses of an application are compressed over TLS",
    why: "The length of a compressed response shows whether a text from the request also occurs in the page. \
          An attacker who can change the request can find a secret of the page, such as a form token, letter \
          by letter (BREACH). Compress files; compress pages that contain secrets only if the application \
          masks the secrets.",
    bad: "server { listen 443 ssl; ssl_certificate a; ssl_certificate_key b; \
          location /account/ { gzip on; proxy_pass http://127.0.0.1:8080; } }",
    good: "server { listen 443 ssl; ssl_certificate a; ssl_certificate_key b; \
           location /account/ { gzip off; proxy_pass http://127.0.0.1:8080; } }",
    check: |tree| {
        let is_encrypted = |server: &conf::Node| {
            children(server, "listen").any(|node| node.args.iter().any(|word| word.is("ssl")))
        };
        tree.named("gzip")
            .filter(|spot| spot.node.arg(0).is_some_and(|word| word.is("on")))
            .filter(|spot| spot.nearest("server").is_some_and(is_encrypted))
            .filter(|spot| {
                // What is inherited from far is a decision about everything, and says nothing about this.
                spot.parent().is_some_and(|parent| {
                    parent.is("location") && has(parent, "proxy_pass")
                        || parent.is("server") && passes_all(parent)
                })
            })
            .map(|spot| {
                let text = "what an application answers is compressed, secrets with what the client sent";
                Found::at(spot.node, text, "gzip off; where answers have secrets and repeat what was sent")
            })
            .collect()
    },
};

fn passes_all(server: &conf::Node) -> bool {
    has_deep(server, "proxy_pass") && !has_deep(server, "root") && !has_deep(server, "alias")
}
