//! What a client accepts: `Accept-Encoding` (RFC 9110, section 12.5.3).

use http::Fields;

/// How much a client wants a coding, in thousandths; nothing where it does not accept it.
pub(crate) type Weight = u16;

/// The weight of what is wanted without reserve.
pub(crate) const FULL: Weight = 1000;

/// What a client accepts.
#[derive(Clone, Copy)]
pub(crate) struct Accept<'a> {
    field: Option<&'a [u8]>,
}

impl<'a> Accept<'a> {
    /// What a request says.
    pub(crate) fn of(fields: &'a Fields) -> Accept<'a> {
        Accept { field: fields.get("accept-encoding") }
    }

    /// The weight of a coding. As in nginx it has to be named, since content without any coding is always good
    /// enough; only a client that refuses that takes what `*` stands for. An invalid weight counts as zero.
    pub(crate) fn weight(&self, coding: &str) -> Weight {
        let Some(field) = self.field else { return 0 };
        named(field, coding).unwrap_or_else(|| match (self.identity(), named(field, "*")) {
            (Some(0), Some(any)) => any,
            _ => 0,
        })
    }

    /// The weight of content without a coding, where the client says something about it.
    pub(crate) fn identity(&self) -> Option<Weight> {
        let field = self.field?;
        named(field, "identity").or_else(|| named(field, "*").filter(|&any| any == 0))
    }
}

/// The weight of a coding that is named.
fn named(field: &[u8], name: &str) -> Option<Weight> {
    let parameter = match behind_spaces(behind(field, name.as_bytes())?) {
        [] | [b',', ..] => return Some(FULL),
        [b';', parameter @ ..] => behind_spaces(parameter),
        _ => return Some(0),
    };
    Some(match parameter {
        [] => FULL,
        [b'q' | b'Q', b'=', weight @ ..] => thousandths(weight),
        _ => 0,
    })
}

/// The text after a coding's name, which stands at the start, or after a comma or a space.
fn behind<'a>(field: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut from = 0;
    loop {
        let rest = field.get(from..)?;
        let start = from + rest.windows(name.len()).position(|part| part.eq_ignore_ascii_case(name))?;
        let end = start + name.len();
        if start == from || matches!(field[start - 1], b',' | b' ') {
            return Some(&field[end..]);
        }
        from = end;
    }
}

fn behind_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|&&byte| byte == b' ').count();
    &text[spaces..]
}

/// A weight (RFC 9110, section 12.4.2); an invalid one counts as zero.
fn thousandths(text: &[u8]) -> Weight {
    let weight = text.split(|byte| matches!(byte, b',' | b' ')).next().unwrap_or_default();
    let (whole, digits) = match weight {
        [whole] => (whole, &b""[..]),
        [whole, b'.', digits @ ..] => (whole, digits),
        _ => return 0,
    };
    if digits.len() > 3 || !digits.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let places = [100, 10, 1];
    let fraction = digits.iter().zip(places).map(|(digit, place)| Weight::from(digit - b'0') * place).sum();
    match (whole, fraction) {
        (b'0', fraction) => fraction,
        (b'1', 0) => FULL,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{Accept, FULL};

    fn accept(field: &str) -> Accept<'_> {
        Accept { field: Some(field.as_bytes()) }
    }

    #[test]
    fn the_coding_must_be_named_and_weigh_something() {
        for field in
            ["gzip", "GZip, br", "br, gzip", "br;gzip, gzip", "gzip;q=0.001", "gzip ; q=1.", "x-gzip, gzip"]
        {
            assert!(accept(field).weight("gzip") > 0, "{field}");
        }
        for field in
            ["", "*", "br", "x-gzip", "gzipx", "gzip;q=0", "gzip;q=0.000", "gzip;q=1.001", "gzip;q=0.0001"]
        {
            assert_eq!(accept(field).weight("gzip"), 0, "{field}");
        }
        for field in ["gzip;q", "gzip;q=", "gzip;q=2", "gzip;x=1", "gzip;q= 1", "gzip;q=.5", "gzip x"] {
            assert_eq!(accept(field).weight("gzip"), 0, "{field}");
        }
        assert_eq!(Accept { field: None }.weight("gzip"), 0);
    }

    #[test]
    fn weights() {
        let of = |field: &str| ["br", "zstd", "gzip"].map(|coding| accept(field).weight(coding));
        assert_eq!(of("gzip;q=0.25, br;q=0.5,zstd"), [500, FULL, 250]);
        assert_eq!(of("gzip;q=0.025, br;q=0.005"), [5, 0, 25]);
        assert_eq!(of("brx, x-zstd"), [0, 0, 0]);
    }

    #[test]
    fn what_is_not_named_is_taken_only_by_who_refuses_everything_else() {
        let of = |field: &str| (accept(field).weight("gzip"), accept(field).weight("br"));
        assert_eq!(of("*"), (0, 0));
        assert_eq!(of("*;q=0.5, identity;q=0"), (500, 500));
        assert_eq!(of("identity;q=0, *, gzip;q=0"), (0, FULL));
        assert_eq!(of("gzip, *;q=0"), (FULL, 0));
    }

    #[test]
    fn content_without_a_coding() {
        let of = |field: &str| accept(field).identity();
        assert_eq!(of("gzip"), None);
        assert_eq!(of("gzip, *"), None);
        assert_eq!(of("gzip;q=0.5, identity"), Some(FULL));
        assert_eq!((of("gzip, *;q=0"), of("identity;q=0")), (Some(0), Some(0)));
        assert_eq!(of("identity;q=0.1, *;q=0"), Some(100));
        assert_eq!(Accept { field: None }.identity(), None);
    }
}
