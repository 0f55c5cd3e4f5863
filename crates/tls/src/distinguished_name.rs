//! Names of subjects and issuers as text (RFC 2253), and as OpenSSL wrote them before.

use crate::x509::{element, split};
use std::fmt::Write;

/// Short names of the kinds of attributes, by their identifiers (RFC 4519, RFC 5280).
const KINDS: [(&[u8], &str); 29] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 4], "SN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "street"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 12], "title"),
    (&[0x55, 4, 13], "description"),
    (&[0x55, 4, 15], "businessCategory"),
    (&[0x55, 4, 17], "postalCode"),
    (&[0x55, 4, 20], "telephoneNumber"),
    (&[0x55, 4, 41], "name"),
    (&[0x55, 4, 42], "GN"),
    (&[0x55, 4, 43], "initials"),
    (&[0x55, 4, 44], "generationQualifier"),
    (&[0x55, 4, 45], "x500UniqueIdentifier"),
    (&[0x55, 4, 46], "dnQualifier"),
    (&[0x55, 4, 65], "pseudonym"),
    (&[0x55, 4, 97], "organizationIdentifier"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "emailAddress"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 2], "unstructuredName"),
    (&[0x2b, 6, 1, 4, 1, 0x82, 0x37, 0x3c, 2, 1, 1], "jurisdictionL"),
    (&[0x2b, 6, 1, 4, 1, 0x82, 0x37, 0x3c, 2, 1, 2], "jurisdictionST"),
    (&[0x2b, 6, 1, 4, 1, 0x82, 0x37, 0x3c, 2, 1, 3], "jurisdictionC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
];

/// An attribute of a name.
struct Attribute<'a> {
    identifier: &'a [u8],
    tag: u8,
    value: &'a [u8],
    /// The whole element of the value.
    whole: &'a [u8],
    /// Which set of attributes it stands in.
    set: usize,
}

/// The last attribute first, with commas between, and `+` between those of one set.
pub(crate) fn rfc2253(name: &[u8]) -> String {
    let mut text = String::new();
    let mut previous = None;
    for attribute in attributes(name).iter().rev() {
        match previous {
            Some(set) if set == attribute.set => text.push('+'),
            Some(_) => text.push(','),
            None => {}
        }
        previous = Some(attribute.set);
        text += &attribute.kind();
        text.push('=');
        match attribute.known_kind().and_then(|_| attribute.characters()) {
            Some(characters) => escape(&characters, &mut text),
            None => {
                text.push('#');
                attribute.whole.iter().for_each(|byte| hexadecimal(*byte, &mut text));
            }
        }
    }
    text
}

/// The first common name.
pub(crate) fn common_name(name: &[u8]) -> Option<String> {
    let attributes = attributes(name);
    let found = attributes.iter().find(|attribute| attribute.known_kind() == Some("CN"))?;
    found.characters()
}

/// Each attribute after a slash, in their order.
pub(crate) fn oneline(name: &[u8]) -> String {
    let mut text = String::new();
    for attribute in attributes(name) {
        text.push('/');
        text += &attribute.kind();
        text.push('=');
        for &byte in &*attribute.shown_bytes() {
            if matches!(byte, b'/' | b'+') {
                text.extend(['\\', char::from(byte)]);
            } else if (b' '..=b'~').contains(&byte) {
                text.push(char::from(byte));
            } else {
                text += "\\x";
                hexadecimal(byte, &mut text);
            }
        }
    }
    text
}

/// The common names that are strings.
pub(crate) fn common_names(name: &[u8]) -> impl Iterator<Item = String> {
    const COMMON_NAME: &[u8] = &[0x55, 4, 3];
    values(name, COMMON_NAME).into_iter().flatten()
}

/// The characters of the attributes of one kind; `None` for one without characters.
pub(crate) fn values(name: &[u8], identifier: &[u8]) -> Vec<Option<String>> {
    let all = attributes(name).into_iter().filter(|attribute| attribute.identifier == identifier);
    all.map(|attribute| attribute.characters()).collect()
}

fn hexadecimal(byte: u8, text: &mut String) {
    // Writing to a string succeeds.
    let _ = write!(text, "{byte:02X}");
}

/// Escapes the characters of a value (RFC 2253, section 2.4); bytes that are not ASCII, too.
fn escape(characters: &str, text: &mut String) {
    let last = characters.len().saturating_sub(1);
    for (index, byte) in characters.bytes().enumerate() {
        let is_edge = index == 0 && (byte == b'#' || byte == b' ') || index == last && byte == b' ';
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => text.extend(['\\', char::from(byte)]),
            _ if is_edge => text.extend(['\\', char::from(byte)]),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => {
                text.push('\\');
                hexadecimal(byte, text);
            }
        }
    }
}

fn attributes(mut name: &[u8]) -> Vec<Attribute<'_>> {
    let mut all = Vec::new();
    let mut number = 0;
    while let Some((_, mut set, after)) = element(name) {
        while let Some((_, attribute, next)) = element(set) {
            all.extend(Attribute::of(attribute, number));
            set = next;
        }
        (name, number) = (after, number + 1);
    }
    all
}

impl<'a> Attribute<'a> {
    fn of(attribute: &'a [u8], set: usize) -> Option<Attribute<'a>> {
        let (_, identifier, rest) = element(attribute)?;
        let (tag, value, _) = element(rest)?;
        let (whole, _) = split(rest)?;
        Some(Attribute { identifier, tag, value, whole, set })
    }

    fn known_kind(&self) -> Option<&'static str> {
        KINDS.iter().find(|(identifier, _)| *identifier == self.identifier).map(|(_, name)| *name)
    }

    /// The short name, or the identifier's numbers.
    fn kind(&self) -> String {
        self.known_kind().map_or_else(|| numbers(self.identifier), str::to_owned)
    }

    /// The characters of a value of a kind of string that is known.
    fn characters(&self) -> Option<String> {
        let wide = |size: usize| {
            let codes = self
                .value
                .chunks(size)
                .map(|part| part.iter().fold(0_u32, |code, &byte| code << 8 | u32::from(byte)));
            codes.map(char::from_u32).collect::<Option<String>>()
        };
        match self.tag {
            // UTF8String.
            0x0c => str::from_utf8(self.value).ok().map(str::to_owned),
            // NumericString, PrintableString, TeletexString, IA5String, VisibleString: a byte is a character.
            0x12..=0x14 | 0x16 | 0x1a => Some(self.value.iter().copied().map(char::from).collect()),
            // UniversalString and BMPString.
            0x1c => wide(4),
            0x1e => wide(2),
            _ => None,
        }
    }

    /// The bytes for the form with slashes. Of wide characters those are left out that are zero in all of them.
    fn shown_bytes(&self) -> Vec<u8> {
        const GENERAL_STRING: u8 = 0x1b;
        let is_wide = matches!(self.tag, GENERAL_STRING | 0x1c) && self.value.len().is_multiple_of(4);
        if !is_wide {
            return self.value.to_vec();
        }
        let is_used = |place: usize| self.value.iter().skip(place).step_by(4).any(|&byte| byte != 0);
        let used = [0, 1, 2, 3].map(is_used);
        let used = if used == [false, false, false, true] { used } else { [true; 4] };
        self.value.iter().enumerate().filter(|(index, _)| used[index & 3]).map(|(_, &byte)| byte).collect()
    }
}

/// An object identifier as numbers joined by dots.
fn numbers(identifier: &[u8]) -> String {
    let mut all: Vec<u64> = Vec::new();
    let mut number = 0_u64;
    for &byte in identifier {
        number = number.saturating_mul(128).saturating_add(u64::from(byte & 0x7f));
        if byte & 0x80 == 0 {
            match all.is_empty() {
                true => all.extend([number.min(80) / 40, number - number.min(80) / 40 * 40]),
                false => all.push(number),
            }
            number = 0;
        }
    }
    all.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(identifier: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        let wrap =
            |tag: u8, content: Vec<u8>| [&[tag, u8::try_from(content.len()).unwrap()][..], &content].concat();
        wrap(0x30, [wrap(6, identifier.to_vec()), wrap(tag, value.to_vec())].concat())
    }

    fn set(attributes: &[Vec<u8>]) -> Vec<u8> {
        let content = attributes.concat();
        [&[0x31, u8::try_from(content.len()).unwrap()][..], &content].concat()
    }

    #[test]
    fn names_are_escaped() {
        let name = [
            set(&[attribute(&[0x55, 4, 6], 0x13, b"US")]),
            set(&[attribute(&[0x55, 4, 10], 0x0c, "Ä, \"B\" ".as_bytes())]),
            set(&[attribute(&[0x55, 4, 3], 0x0c, b"#a/"), attribute(&[0x2a, 3, 0x84, 5], 0x0c, b"x")]),
        ]
        .concat();
        assert_eq!(rfc2253(&name), "1.2.3.517=#0C0178+CN=\\#a/,O=\\C3\\84\\, \\\"B\\\"\\ ,C=US");
        assert_eq!(oneline(&name), "/C=US/O=\\xC3\\x84, \"B\" /CN=#a\\//1.2.3.517=x");
        for length in 0..name.len() {
            let (_, _) = (rfc2253(&name[..length]), oneline(&name[..length]));
        }
    }

    #[test]
    fn identifiers_are_numbers() {
        for (identifier, text) in [
            (&[0x2a, 0x86, 0x48][..], "1.2.840"),
            (&[0x55, 4, 3], "2.5.4.3"),
            (&[0x88, 0x37], "2.999"),
            (&[], ""),
        ] {
            assert_eq!(numbers(identifier), text);
        }
    }
}
