//! The operating system's error messages, as logs have them.

use std::io;

/// An error as it follows a message in the log: `98: Address already in use`.
///
/// An error without a number of the operating system is given as its text alone.
pub fn system_message(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(number) => {
            let suffix = format!(" (os error {number})");
            format!("{number}: {}", text.strip_suffix(&suffix).unwrap_or(&text))
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_precedes_the_text() {
        assert_eq!(system_message(&io::Error::from_raw_os_error(98)), "98: Address already in use");
        assert_eq!(system_message(&io::Error::other("odd")), "odd");
    }
}
