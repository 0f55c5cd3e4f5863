//! Limits that an authority sets on names below it (RFC 5280, section 4.2.1.10), for hosts and mail addresses in
//! subjects. The library checks alternative names, and permits no subject where directory names are limited.

use crate::distinguished_name::{common_names, values};
use crate::x509::element;

/// How many subtrees are compared for one chain. A chain that needs more is rejected.
pub(crate) const COMPARISONS_MAX: usize = 1 << 16;

const MAIL_ADDRESS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1];

/// The names of hosts and mail addresses in the subject of a certificate.
pub(crate) struct SubjectNames(Vec<Name>);

enum Name {
    Host(String),
    Mail,
}

impl SubjectNames {
    /// Reads a subject. Common names that look like names of hosts count where `has_hosts` says so: in the peer's own
    /// certificate, if it has no alternative name of a host.
    pub(crate) fn of(subject: &[u8], has_hosts: bool) -> SubjectNames {
        let mut names = Vec::new();
        if has_hosts {
            let hosts = common_names(subject).map(|text| text.trim_end_matches('.').to_owned());
            names.extend(hosts.filter(|text| is_host(text)).map(Name::Host));
        }
        if !values(subject, MAIL_ADDRESS).is_empty() {
            names.push(Name::Mail);
        }
        SubjectNames(names)
    }

    /// Whether the constraints of an authority permit all names. Malformed constraints permit none. `left` is how many
    /// subtrees may still be compared.
    pub(crate) fn are_permitted(&self, constraints: &[u8], left: &mut usize) -> bool {
        self.check(constraints, left).is_some()
    }

    fn check(&self, mut constraints: &[u8], left: &mut usize) -> Option<()> {
        const PERMITTED: u8 = 0xa0;
        const EXCLUDED: u8 = 0xa1;
        while !constraints.is_empty() {
            let (tag, subtrees, next) = element(constraints)?;
            for name in &self.0 {
                let (is_limited, is_within) = name.compare(subtrees, tag == EXCLUDED, left)?;
                let is_right = match tag {
                    PERMITTED => is_within || !is_limited,
                    EXCLUDED => !is_within,
                    _ => false,
                };
                is_right.then_some(())?;
            }
            constraints = next;
        }
        Some(())
    }
}

impl Name {
    /// Whether there are subtrees for names of this kind, and whether the name is in one of them.
    fn compare(&self, mut subtrees: &[u8], is_excluded: bool, left: &mut usize) -> Option<(bool, bool)> {
        let (mut is_limited, mut is_within) = (false, false);
        while !subtrees.is_empty() {
            *left = left.checked_sub(1)?;
            let (_, subtree, next) = element(subtrees)?;
            let (tag, base, _) = element(subtree)?;
            if tag == self.tag() {
                is_limited = true;
                is_within |= self.is_within(base, is_excluded);
            }
            subtrees = next;
        }
        Some((is_limited, is_within))
    }

    /// The tag of names of this kind among general names.
    fn tag(&self) -> u8 {
        match self {
            Name::Mail => 0x81,
            Name::Host(_) => 0x82,
        }
    }

    fn is_within(&self, base: &[u8], is_excluded: bool) -> bool {
        match self {
            Name::Host(name) => {
                let domain = name.strip_prefix("*.").unwrap_or(name);
                // A star also stands for names in a subtree below it.
                let is_around = is_excluded && domain != name && is_below(base, domain.as_bytes());
                is_below(domain.as_bytes(), base) || is_around
            }
            // Addresses are not compared: whatever is limited is outside.
            Name::Mail => is_excluded,
        }
    }
}

/// Whether a name of a host is that of the base or below it. A base that begins with a dot stands for names below it.
fn is_below(name: &[u8], base: &[u8]) -> bool {
    let Some(start) = name.len().checked_sub(base.len()) else { return false };
    let (front, end) = name.split_at(start);
    let is_whole_label =
        front.is_empty() || base.is_empty() || base.starts_with(b".") || front.ends_with(b".");
    is_whole_label && end.eq_ignore_ascii_case(base)
}

/// Whether a common name looks like the name of a host: labels with dots between.
fn is_host(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.contains('.') && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMON_NAME: &[u8] = &[0x55, 4, 3];

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
    }

    /// The content of a name with one attribute in each set.
    fn name(attributes: &[(&[u8], &str)]) -> Vec<u8> {
        let set = |(kind, text): &(&[u8], &str)| {
            let both = [der(6, kind), der(0x0c, text.as_bytes())].concat();
            der(0x31, &der(0x30, &both))
        };
        attributes.iter().flat_map(set).collect()
    }

    fn limits(tag: u8, kind: u8, base: &[u8]) -> Vec<u8> {
        der(tag, &der(0x30, &der(kind, base)))
    }

    #[test]
    fn common_names_of_hosts_stay_in_the_subtrees_of_hosts() {
        for (text, base, may_be_permitted, may_be_excluded) in [
            ("a.example", "a.example", true, false),
            ("x.A.example", "a.example", true, false),
            ("x.a.example", ".a.example", true, false),
            ("xa.example", "a.example", false, true),
            ("b.example", "a.example", false, true),
            ("a.example.", "a.example", true, false),
            ("*.example", "a.example", true, true),
            ("*.a.example", "a.example", true, false),
            ("*.b.example", "x.b.example", false, false),
            ("no host", "a.example", true, true),
            ("x.example", "", true, false),
        ] {
            let subject = name(&[(COMMON_NAME, text)]);
            let names = SubjectNames::of(&subject, true);
            let permits = |tag| names.are_permitted(&limits(tag, 0x82, base.as_bytes()), &mut 9);
            assert_eq!((permits(0xa0), permits(0xa1)), (may_be_permitted, may_be_excluded), "{text} {base}");
            assert!(SubjectNames::of(&subject, false).are_permitted(&limits(0xa0, 0x82, b"z"), &mut 9));
        }
    }

    #[test]
    fn what_cannot_be_compared_is_not_permitted() {
        let mail = SubjectNames::of(&name(&[(MAIL_ADDRESS, "a@b.example")]), true);
        assert!(!mail.are_permitted(&limits(0xa0, 0x81, b"b.example"), &mut 9));
        assert!(!mail.are_permitted(&limits(0xa1, 0x81, b"c.example"), &mut 9));
        assert!(mail.are_permitted(&limits(0xa0, 0x82, b"b.example"), &mut 9));
        assert!(!mail.are_permitted(&limits(0xa0, 0x82, b"b.example"), &mut 0), "too much to compare");
        assert!(!mail.are_permitted(&limits(0xa2, 0x82, b"b.example"), &mut 9), "unknown part");
        assert!(!mail.are_permitted(&[0xa0, 9], &mut 9), "cut off");
    }
}
