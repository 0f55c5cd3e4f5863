//! Whether a password is the one that a file stores, in each form that files have.

use super::des_crypt::des_crypt;
use super::md5_crypt::md5_crypt;
use http::base64::decode;
use sha_crypt::{PasswordVerifier, ShaCrypt};
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

/// The highest cost of bcrypt that is computed: about a second.
const BCRYPT_COST_MAX: u32 = 14;

/// The most rounds of SHA-crypt that are computed.
const SHA_CRYPT_ROUNDS_MAX: u32 = 500_000;

/// The longest password for SHA-crypt, whose time grows with it, in bytes.
const SHA_CRYPT_PASSWORD_MAX: usize = 256;

/// How a password compares to a stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    Yes,
    No,
    NotUnderstood,
    TooExpensive,
}

impl From<bool> for Match {
    fn from(equal: bool) -> Match {
        if equal { Match::Yes } else { Match::No }
    }
}

/// Compares a password with a stored one, in a time that does not depend on how much of it is right.
pub(super) fn matches(stored: &[u8], password: &[u8]) -> Match {
    if password.contains(&0) {
        // Programs of other languages see its start only.
        return Match::No;
    }
    let form = FORMS.iter().find_map(|(start, compare)| Some((*compare, stored.strip_prefix(*start)?)));
    match form {
        Some((compare, rest)) => compare(stored, rest, password),
        None => des(stored, password),
    }
}

/// Takes what is stored, what of it follows the start, and the password.
type Compare = fn(&[u8], &[u8], &[u8]) -> Match;

const FORMS: [(&[u8], Compare); 10] = [
    (b"$2y$", bcrypt_form),
    (b"$2b$", bcrypt_form),
    (b"$2a$", bcrypt_form),
    (b"$5$", sha_crypt_form),
    (b"$6$", sha_crypt_form),
    (b"$apr1$", |_, rest, password| md5_form(b"$apr1$", rest, password)),
    (b"$1$", |_, rest, password| md5_form(b"$1$", rest, password)),
    (b"{SHA}", |_, rest, password| match decode(rest) {
        Some(digest) if digest.len() == SHA1_LENGTH => equal(&digest, &Sha1::digest(password)),
        _ => Match::NotUnderstood,
    }),
    (b"{SSHA}", |_, rest, password| {
        match decode(rest).as_deref().and_then(|all| all.split_at_checked(SHA1_LENGTH)) {
            Some((digest, salt)) => {
                equal(digest, &Sha1::new_with_prefix(password).chain_update(salt).finalize())
            }
            None => Match::NotUnderstood,
        }
    }),
    (b"{PLAIN}", |_, rest, password| equal(rest, password)),
];

const SHA1_LENGTH: usize = 20;

fn equal(stored: &[u8], computed: &[u8]) -> Match {
    bool::from(stored.ct_eq(computed)).into()
}

fn bcrypt_form(stored: &[u8], rest: &[u8], password: &[u8]) -> Match {
    let cost = number(rest.split(|&byte| byte == b'$').next().unwrap_or_default());
    match (cost, std::str::from_utf8(stored)) {
        (Some(cost), _) if cost > BCRYPT_COST_MAX => Match::TooExpensive,
        (Some(_), Ok(stored)) => bcrypt::verify(password, stored).map_or(Match::NotUnderstood, Match::from),
        _ => Match::NotUnderstood,
    }
}

fn sha_crypt_form(stored: &[u8], rest: &[u8], password: &[u8]) -> Match {
    if let Some(rest) = rest.strip_prefix(b"rounds=") {
        match number(rest.split(|&byte| byte == b'$').next().unwrap_or_default()) {
            Some(rounds) if rounds <= SHA_CRYPT_ROUNDS_MAX => {}
            Some(_) => return Match::TooExpensive,
            None => return Match::NotUnderstood,
        }
    }
    if password.len() > SHA_CRYPT_PASSWORD_MAX {
        return Match::No;
    }
    use sha_crypt::password_hash::Error;
    let verified =
        std::str::from_utf8(stored).map(|stored| ShaCrypt::default().verify_password(password, stored));
    match verified {
        Ok(Ok(())) => Match::Yes,
        Ok(Err(Error::PasswordInvalid)) => Match::No,
        Ok(Err(_)) | Err(_) => Match::NotUnderstood,
    }
}

fn md5_form(magic: &[u8], rest: &[u8], password: &[u8]) -> Match {
    let mut parts = rest.split(|&byte| byte == b'$');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(salt), Some(stored), None) => equal(stored, &md5_crypt(password, magic, salt)),
        _ => Match::NotUnderstood,
    }
}

/// The oldest form has no mark: two characters of salt and eleven of the password.
fn des(stored: &[u8], password: &[u8]) -> Match {
    des_crypt(password, stored).map_or(Match::NotUnderstood, |computed| equal(stored, &computed))
}

/// Decimal digits; a sign or a further character is no number.
fn number(text: &[u8]) -> Option<u32> {
    let text =
        std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    // What does not fit is too much in any case.
    (!text.is_empty()).then(|| text.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::{FORMS, Match, matches};
    use proptest::prelude::*;

    /// The password is `secret`, as htpasswd, openssl and crypt of the C library store it.
    const SECRETS: [&str; 15] = [
        "$2y$04$KGYx/Hoa0vRVxFqOv1kYUOz50CtNXIQNJLdGaInNL3diLIGsGdC0m",
        "$2a$04$KGYx/Hoa0vRVxFqOv1kYUOz50CtNXIQNJLdGaInNL3diLIGsGdC0m",
        "$2b$04$KGYx/Hoa0vRVxFqOv1kYUOz50CtNXIQNJLdGaInNL3diLIGsGdC0m",
        "$apr1$ZrfCvvaN$FUiZuofnEO2yDvT9xruCO.",
        "$1$saltsalt$9xy1btjgzLYfb7hivXtC//",
        "css.MoY7wDXZI",
        "abNANd1rDfiNc",
        "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
        "{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0",
        "{PLAIN}secret",
        "$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA",
        "$5$rounds=1234$abcdefgh$kTVqJqhTxJja37YYybK4z25xcKovYD6AZG90TrZhsA8",
        "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1",
        "$6$rounds=1000$abcdefghijklmnop$/ySzNKkDy6wawo9hTH6WxjPbiNMjvDjUNjja1ca1Iw8M6hvIP5521AJRYCq2LKFri/5fZ6KSUYfs/3ZzFVhh./",
        "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0",
    ];

    proptest! {
        /// Only what says the password in clear can be right by chance.
        #[test]
        fn no_line_lets_anybody_in_by_chance(
            form in 0..FORMS.len(),
            rest in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..80),
                "[0-9a-zA-Z./$=,*]{0,80}".prop_map(String::into_bytes),
            ],
            password in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let start = FORMS[form].0;
            let stored = [start, &rest].concat();
            let is_right = start == b"{PLAIN}" && rest == password && !password.contains(&0);
            prop_assert_eq!(matches(&stored, &password) == Match::Yes, is_right);
            prop_assert!(matches(&rest, &password) != Match::Yes);
        }
    }

    #[test]
    fn every_form() {
        for stored in SECRETS {
            assert_eq!(matches(stored.as_bytes(), b"secret"), Match::Yes, "{stored}");
            for wrong in [&b""[..], b"Secret", b"secre", b"secret2", b"secret\0"] {
                assert_eq!(matches(stored.as_bytes(), wrong), Match::No, "{stored}");
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_no_match() {
        for broken in [
            "",
            "x",
            "*",
            "!",
            "secret",
            "$1$",
            "$apr1$",
            "$apr1$salt",
            "$5$",
            "$6$salt",
            "$7$a$b",
            "$2y$",
            "$2y$04$",
            "$2x$04$KGYx/Hoa0vRVxFqOv1kYUOz50CtNXIQNJLdGaInNL3diLIGsGdC0m",
            "$argon2id$v=19$m=65536",
            "{SHA}Zm9vCg==",
            "{SHA}_____Mm5Pz8GgiULbPgzG37mj9g=",
            "{SSHA}",
            "{SSHA}Zm9vCg==",
            "{MD5}xyz",
            "{plain}secret",
            "$6$rounds=x$a$b",
        ] {
            assert_eq!(matches(broken.as_bytes(), b"secret"), Match::NotUnderstood, "{broken}");
        }
        for stored in SECRETS.iter().filter(|stored| !stored.starts_with('{')) {
            assert_ne!(
                matches(&stored.as_bytes()[..stored.len() - 1], b"secret"),
                Match::Yes,
                "{stored}, cut"
            );
        }
    }

    #[test]
    fn cost_is_bounded() {
        let stored = "$2y$15$KGYx/Hoa0vRVxFqOv1kYUOz50CtNXIQNJLdGaInNL3diLIGsGdC0m";
        assert_eq!(matches(stored.as_bytes(), b"secret"), Match::TooExpensive);
        for rounds in ["500001", "999999999", "99999999999999"] {
            let stored = format!("$5$rounds={rounds}$abcdefgh$kTVqJqhTxJja37YYybK4z25xcKovYD6AZG90TrZhsA8");
            assert_eq!(matches(stored.as_bytes(), b"secret"), Match::TooExpensive);
        }
        assert_eq!(matches(SECRETS[10].as_bytes(), &[b'x'; 8000]), Match::No);
    }
}
