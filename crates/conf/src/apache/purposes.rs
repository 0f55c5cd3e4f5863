//! What a `.htaccess` file does, in a line.

use super::module_of;

/// What the directives of modules do.
const PURPOSES: [(&str, &[&str]); 14] = [
    ("rewrites paths", &["mod_rewrite"]),
    ("redirects", &["mod_alias", "mod_speling"]),
    (
        "decides about access",
        &[
            "mod_access_compat",
            "mod_authz_core",
            "mod_authz_host",
            "mod_authz_user",
            "mod_authz_groupfile",
            "mod_ssl",
        ],
    ),
    (
        "asks for passwords",
        &["mod_auth_basic", "mod_auth_digest", "mod_authn_core", "mod_authn_file", "mod_authn_anon"],
    ),
    ("chooses indexes", &["mod_dir"]),
    ("passes files to scripts", &["mod_actions"]),
    ("sets types, encodings and handlers", &["mod_mime"]),
    ("negotiates", &["mod_negotiation"]),
    ("lists directories", &["mod_autoindex"]),
    ("changes header fields", &["mod_headers"]),
    ("sets when content expires", &["mod_expires"]),
    ("sets variables", &["mod_env", "mod_setenvif"]),
    ("sets options of PHP", &["mod_php"]),
    (
        "changes content",
        &["mod_filter", "mod_deflate", "mod_brotli", "mod_include", "mod_substitute", "mod_ratelimit"],
    ),
];

/// The same for directives of Apache's core.
const OF_CORE: [(&str, &[&str]); 3] = [
    ("sets error pages", &["ErrorDocument"]),
    ("sets options", &["Options"]),
    (
        "has sections for some requests",
        &["Files", "FilesMatch", "If", "ElseIf", "Else", "Limit", "LimitExcept"],
    ),
];

const OTHER: &str = "has other settings";

/// What directives do, each with its number of lines.
pub fn purposes<'a>(directives: impl IntoIterator<Item = (&'a str, u32)>) -> String {
    let mut counts: Vec<(&str, u32)> = Vec::new();
    for (name, count) in directives {
        let purpose = purpose(name);
        match counts.iter_mut().find(|(known, _)| *known == purpose) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => counts.push((purpose, count)),
        }
    }
    if counts.is_empty() {
        return "has no directive".to_owned();
    }
    // The order of the tables, so that the texts of files compare.
    let rows = PURPOSES.iter().chain(&OF_CORE).map(|(purpose, _)| *purpose).chain([OTHER]);
    let texts = rows.filter_map(|purpose| {
        let (_, count) = counts.iter().find(|(known, _)| *known == purpose)?;
        Some(format!("{purpose} ({count})"))
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn purpose(directive: &str) -> &'static str {
    let owner = module_of(directive).unwrap_or_default();
    let of_module = PURPOSES.iter().find(|(_, modules)| modules.contains(&owner));
    let of_core = || OF_CORE.iter().find(|(_, names)| names.contains(&directive));
    of_module.or_else(of_core).map_or(OTHER, |(purpose, _)| purpose)
}

#[cfg(test)]
mod tests {
    use super::{OTHER, purpose, purposes};

    #[test]
    fn files_are_summed_up() {
        let names =
            [("RewriteRule", 2), ("Header", 1), ("RewriteEngine", 1), ("FileETag", 1), ("Options", 1)];
        assert_eq!(
            purposes(names),
            "rewrites paths (3), changes header fields (1), sets options (1), has other settings (1)"
        );
        assert_eq!(purposes([]), "has no directive");
    }

    #[test]
    fn directives_have_purposes() {
        assert_eq!(purpose("Require"), "decides about access");
        assert_eq!(purpose("php_value"), "sets options of PHP");
        assert_eq!(purpose("NoSuchThing"), OTHER);
    }
}
