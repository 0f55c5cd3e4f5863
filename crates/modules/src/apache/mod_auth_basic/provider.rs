//! Where users are looked up, and their groups.

use crate::shared::apache::wrong;
use conf::{Diagnostic, Word};
use contract::{Args, Loading};

/// Where users are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Provider {
    File,
    Anonymous,
}

pub(super) fn parse(args: &Args<'_>, _: &mut Loading) -> Result<Vec<Provider>, Diagnostic> {
    let provider = |word: &Word| match word.text.to_ascii_lowercase().as_slice() {
        b"file" => Ok(Provider::File),
        b"anon" => Ok(Provider::Anonymous),
        _ => {
            Err(wrong(args, "an unsupported provider", word).hint("the providers are \"file\" and \"anon\""))
        }
    };
    args.words().iter().map(provider).collect()
}

/// The groups of a user. A line has the name of a group, a colon, and users with spaces between them.
pub(super) fn groups_of(text: &[u8], user: &[u8]) -> Vec<Vec<u8>> {
    let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.starts_with(b"#"));
    let groups = lines.filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let mut users = line[colon + 1..].split(u8::is_ascii_whitespace);
        users.any(|member| member == user && !user.is_empty()).then(|| line[..colon].trim_ascii().to_vec())
    });
    groups.filter(|group| !group.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::groups_of;

    #[test]
    fn groups_of_a_user() {
        let text = b"# a: u\na: v  u\r\nb:\tu\nc: uu\n: u\nd u\n";
        assert_eq!(groups_of(text, b"u"), [b"a".to_vec(), b"b".to_vec()]);
        assert!(groups_of(text, b"x").is_empty() && groups_of(text, b"").is_empty());
    }
}
