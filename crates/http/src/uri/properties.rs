//! Properties that hold for all request targets.

use super::{Target, normalise_path, parse_target, unescape_uri};
use crate::escape;
use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;

/// Parts of targets, valid and invalid.
const PIECES: [&str; 21] = [
    "/", "/", "/a", "/.", "/..", "/%2e", "%2e", "%2F", "%41", "%", "%00", "?", "#", "http://h", "h:80",
    "[::1]", "*", "a", "\\", "\0", "\u{e9}",
];

/// `merge_slashes`, nginx's default.
const MERGE_SLASHES: bool = true;

fn targets() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        9 => select(&PIECES[..]).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn parsed_paths_stay_below_the_root(input in prop_oneof![targets(), prop::collection::vec(any::<u8>(), 0..200)]) {
        let mut target = Target::default();
        if parse_target(&input, MERGE_SLASHES, &mut target).is_ok() {
            prop_assert!(target.path.starts_with(b"/"));
            prop_assert!(!target.path.split(|&byte| byte == b'/').any(|segment| segment == b".." || segment == b"."));
            prop_assert!(!target.path.contains(&0));
        }
    }

    #[test]
    fn parsing_undoes_escaping(path in prop::collection::vec(1..=255u8, 0..40)) {
        let mut plain = Vec::new();
        let path = [b"/", &path[..]].concat();
        if normalise_path(&path, MERGE_SLASHES, &mut plain).is_ok() {
            let mut escaped = Vec::new();
            escape::path(&plain, &mut escaped);
            let mut target = Target::default();
            prop_assert!(parse_target(&escaped, MERGE_SLASHES, &mut target).is_ok());
            prop_assert_eq!(&target.path, &plain);
            let mut unescaped = Vec::new();
            unescape_uri(&escaped, &mut unescaped);
            prop_assert_eq!(&unescaped, &plain);
        }
    }
}
