//! Looking up fields by the names that variables can have.

use http::Fields;

/// Appends the values of all fields whose name is `name` when its dashes are taken for underscores,
/// joined by `separator`; `false` where there are none.
pub(crate) fn joined(fields: &Fields, name: &str, separator: &[u8], out: &mut Vec<u8>) -> bool {
    let mut found = false;
    for field in fields.iter().filter(|field| is_named(field.name, name.as_bytes())) {
        if found {
            out.extend_from_slice(separator);
        }
        out.extend_from_slice(field.value);
        found = true;
    }
    found
}

/// Whether a field's name is this part of a variable's name, which is in lower case.
fn is_named(field: &[u8], variable: &[u8]) -> bool {
    let folded = |byte: u8| if byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
    field.len() == variable.len() && field.iter().zip(variable).all(|(&a, &b)| folded(a) == b)
}

/// Appends a value and says that there is one.
pub(super) fn put(value: impl AsRef<[u8]>, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(value.as_ref());
    true
}

/// Appends a port, if there is one. Without one the value is empty.
pub(super) fn put_port(port: Option<u16>, out: &mut Vec<u8>) -> bool {
    port.is_none_or(|port| put_number(port, out))
}

/// Appends a number, and says that there is a value.
pub(super) fn put_number(number: impl Into<u64>, out: &mut Vec<u8>) -> bool {
    http::write_number(number.into(), 1, out);
    true
}

/// Appends seconds with three decimals, and says that there is a value.
pub(super) fn put_thousandths((seconds, thousandths): (u64, u32), out: &mut Vec<u8>) -> bool {
    http::write_number(seconds, 1, out);
    out.push(b'.');
    http::write_number(thousandths.into(), 3, out);
    true
}

/// Appends a value that may be missing.
pub(super) fn put_some(value: Option<impl AsRef<[u8]>>, out: &mut Vec<u8>) -> bool {
    value.is_some_and(|value| put(value, out))
}
