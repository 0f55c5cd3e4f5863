//! Request targets: the path of a valid target starts with a slash and has no dot segments, and parsing the escaped path
//! gives the same path.

use http::uri::{Target, TargetForm, normalise_path, parse_target, split_unchecked_uri, unescape_uri};

/// Checks the parser with this input.
pub fn run(input: &[u8]) {
    for merge_slashes in [true, false] {
        let mut target = Target::default();
        if parse_target(input, merge_slashes, &mut target).is_ok() {
            check(&target, input, merge_slashes);
        }
    }
    let mut path = Vec::new();
    if normalise_path(input, true, &mut path).is_ok() {
        assert!(stays_inside(&path), "{path:?}");
    }
    if let Some((path, _)) = split_unchecked_uri(input) {
        assert!(!path.contains(&0) && path.split(|&byte| byte == b'/').all(|part| part != b".."), "{path:?}");
    }
    let mut plain = Vec::new();
    unescape_uri(input, &mut plain);
    assert!(plain.len() <= input.len());
}

fn check(target: &Target, raw: &[u8], merge_slashes: bool) {
    assert!(stays_inside(&target.path), "{:?}", target.path);
    assert!(!merge_slashes || !target.path.windows(2).any(|pair| pair == b"//"));
    assert!(!target.request_uri(raw).is_empty());
    if target.form == TargetForm::Authority {
        return;
    }
    let mut escaped = Vec::new();
    http::escape::path(&target.path, &mut escaped);
    let mut again = Target::default();
    assert!(parse_target(&escaped, merge_slashes, &mut again).is_ok(), "{escaped:?}");
    assert_eq!(target.path, again.path, "{escaped:?}");
}

/// Whether appending the path to a directory stays below that directory.
fn stays_inside(path: &[u8]) -> bool {
    let segments = || path.split(|&byte| byte == b'/');
    path.starts_with(b"/") && !path.contains(&0) && segments().all(|segment| !matches!(segment, b"." | b".."))
}
