//! Looking up fields by the names that variables can have.

use http::Fields;
use std::io::Write;

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
    if let Some(port) = port {
        http::write_number(port.into(), 1, out);
    }
    true
}

/// Appends a value as it is shown, and says that there is one.
pub(super) fn put_shown(value: impl std::fmt::Display, out: &mut Vec<u8>) -> bool {
    // Writing to memory does not fail.
    write!(out, "{value}").is_ok()
}

/// Appends a value that may be missing.
pub(super) fn put_some(value: Option<impl AsRef<[u8]>>, out: &mut Vec<u8>) -> bool {
    value.is_some_and(|value| put(value, out))
}
