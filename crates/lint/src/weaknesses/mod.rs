//! Public weaknesses of nginx, and whether a configuration exposes a server to them.
//!
//! Versions and references are those of nginx's list of security advisories. What exposes a server is what the advisory, or the list
//! of changes, says about the configuration. A finding says that a server may be exposed, not that it is.

mod exposed;
mod table;

use std::fmt;
use std::str::FromStr;

use conf::Node;

use crate::tree::Tree;
use crate::{Finding, Rule, findings};

/// A version of nginx, such as `1.22.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version([u16; 3]);

/// A weakness with a public number.
#[derive(Debug)]
pub struct Weakness {
    /// The number is its id. `bad` is a configuration that exposes a server.
    pub rule: Rule,
    /// The versions that have it, from the first to the last of each range.
    pub vulnerable: &'static [(Version, Version)],
    /// Within a range, the versions of stable branches from which on it is fixed.
    pub fixed: &'static [Version],
    /// The advisory.
    pub reference: &'static str,
}

/// All weaknesses from 2024 on, the newest first.
pub fn weaknesses() -> impl Iterator<Item = &'static Weakness> {
    table::ALL.iter()
}

/// Weaknesses that a configuration exposes a server to: one of this version, or of any version.
pub fn check_weaknesses(nodes: &[Node], version: Option<Version>) -> Vec<Finding> {
    let of_version = weaknesses().filter(|weakness| version.is_none_or(|version| weakness.is_in(version)));
    let mut found = findings(&Tree::new(nodes), of_version.map(|weakness| &weakness.rule));
    for finding in &mut found {
        if let Some(weakness) = weaknesses().find(|weakness| weakness.rule.id == finding.rule.id) {
            finding.fix = format!("{}; {}", weakness.versions(), weakness.reference);
        }
    }
    found
}

impl Version {
    const fn new(major: u16, minor: u16, patch: u16) -> Version {
        Version([major, minor, patch])
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Version, String> {
        let numbers: Option<Vec<u16>> = text.split('.').map(|number| number.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[major, minor, patch]) => Ok(Version::new(major, minor, patch)),
            _ => Err("a version has three numbers, such as 1.22.1".to_owned()),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

impl Weakness {
    /// Whether a version has the weakness.
    pub fn is_in(&self, version: Version) -> bool {
        let is_branch = |fixed: &Version| fixed.0[..2] == version.0[..2] && version >= *fixed;
        let is_vulnerable = |(first, last): &(Version, Version)| (*first..=*last).contains(&version);
        self.vulnerable.iter().any(is_vulnerable) && !self.fixed.iter().any(is_branch)
    }

    /// The versions in words.
    fn versions(&self) -> String {
        let ranges: Vec<String> =
            self.vulnerable.iter().map(|(first, last)| format!("{first} to {last}")).collect();
        let fixed: Vec<String> = self.fixed.iter().map(ToString::to_string).collect();
        format!("versions {} have it, it is fixed in {}", ranges.join(" and "), fixed.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str, version: Option<&str>) -> Vec<&'static str> {
        let loaded = conf::parse_bytes(text.as_bytes());
        assert!(loaded.error.is_none(), "{text}");
        let found = check_weaknesses(&loaded.nodes, version.map(|text| text.parse().unwrap()));
        found.into_iter().map(|finding| finding.rule.id).collect()
    }

    #[test]
    fn every_weakness_is_found_in_its_example_only() {
        for weakness in weaknesses() {
            let rule = &weakness.rule;
            assert!(ids(rule.bad, None).contains(&rule.id), "{}: {}", rule.id, rule.bad);
            assert!(!ids(rule.good, None).contains(&rule.id), "{}: {}", rule.id, rule.good);
            assert!(
                rule.id.starts_with("CVE-202") && weakness.reference.starts_with("https://"),
                "{}",
                rule.id
            );
            let (_, last) = weakness.vulnerable.last().unwrap();
            assert!(weakness.is_in(*last) && !weakness.fixed.iter().any(|fixed| weakness.is_in(*fixed)));
        }
    }

    #[test]
    fn stable_branches_are_fixed_within_a_range() {
        let dav = "http { server { location /a { dav_methods COPY; alias /b; } } }";
        for (version, is_exposed) in
            [("1.28.2", true), ("1.28.3", false), ("1.29.6", true), ("1.29.7", false), ("0.5.12", false)]
        {
            assert_eq!(!ids(dav, Some(version)).is_empty(), is_exposed, "{version}");
        }
        assert!("1.22".parse::<Version>().is_err() && "1.22.x".parse::<Version>().is_err());
    }

    #[test]
    fn a_plain_site_has_nothing() {
        let text = "events {} http { server { listen 80; root /r; rewrite ^/a/(.*)$ /b/$1 last;
                    location / { proxy_pass http://a; } location ~ (\\.php)$ { fastcgi_pass a; } } }";
        assert!(ids(text, None).is_empty());
    }
}
