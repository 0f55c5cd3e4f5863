//! Paths that would leave a directory, because of what a rewrite or a capture put there.

use crate::words::{any_word, where_is};

/// Whether any segment of a path is `..`. Few paths have two dots in a row, which is seen at a glance.
pub fn has_parent_segment(path: &[u8]) -> bool {
    may_climb(path) && path.split(|&byte| byte == b'/').any(|segment| segment == b"..")
}

/// Whether a text has two dots in a row or a NUL.
pub fn may_climb(text: &[u8]) -> bool {
    any_word(text, |word| {
        let dots = where_is(word, b'.');
        (dots & (dots << 8)) | where_is(word, 0) != 0
    })
}

#[cfg(test)]
mod tests {
    use super::has_parent_segment;

    #[test]
    fn only_whole_segments_climb() {
        assert!(has_parent_segment(b"/a/../b"));
        assert!(has_parent_segment(b".."));
        assert!(has_parent_segment(b"/a/.."));
        assert!(!has_parent_segment(b"/a..b/..c/d.."));
    }
}
