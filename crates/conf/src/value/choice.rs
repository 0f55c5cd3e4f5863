//! Words out of a fixed set.

use super::ValueError;
use crate::diagnostic::suggest;
use crate::tree::Word;

/// `on` or `off`, in either case.
///
/// # Errors
/// [`ValueError::Flag`].
pub fn flag(word: &Word) -> Result<bool, ValueError> {
    match &*word.text {
        text if text.eq_ignore_ascii_case(b"on") => Ok(true),
        text if text.eq_ignore_ascii_case(b"off") => Ok(false),
        _ => Err(ValueError::Flag),
    }
}

/// The value that a table has for the word; case does not matter.
///
/// # Errors
/// [`ValueError::Choice`], with the nearest word of the table.
pub fn choice<T: Copy>(word: &Word, table: &[(&'static str, T)]) -> Result<T, ValueError> {
    let found = table.iter().find(|(name, _)| word.text.eq_ignore_ascii_case(name.as_bytes()));
    let names = table.iter().map(|(name, _)| *name);
    found.map(|(_, value)| *value).ok_or_else(|| {
        // The suggestion may borrow from `written`, so the table's own word is looked up again.
        let written = word.to_string();
        let near = suggest(&written, names.clone()).and_then(|near| names.clone().find(|name| *name == near));
        ValueError::Choice(near)
    })
}

/// The bits that a table has for the words, joined. A word that shares a bit with an earlier one adds nothing and is
/// given to `duplicate`, for a warning.
///
/// # Errors
/// [`ValueError::Choice`] and the word that is in no row of the table.
pub fn bitmask<'w>(
    words: &'w [Word],
    table: &[(&'static str, u32)],
    mut duplicate: impl FnMut(&'w Word),
) -> Result<u32, (ValueError, &'w Word)> {
    let mut mask = 0;
    for word in words {
        let bits = choice(word, table).map_err(|error| (error, word))?;
        if mask & bits != 0 {
            duplicate(word);
        } else {
            mask |= bits;
        }
    }
    Ok(mask)
}

/// Permissions of a new file, as mode bits: `user:rw group:r all:r`. Without a word for `user`, the user may read and
/// write.
///
/// # Errors
/// [`ValueError::Choice`] and the word that is wrong.
pub fn access(words: &[Word]) -> Result<u32, (ValueError, &Word)> {
    let mut mode = 0;
    let mut user = 0o600;
    for word in words {
        let wrong = || (ValueError::Choice(None), word);
        let colon = word.text.iter().position(|&byte| byte == b':').ok_or_else(wrong)?;
        let (who, rights) = word.text.split_at(colon);
        let shift = match who {
            b"user" => 6,
            b"group" => 3,
            b"all" => 0,
            _ => return Err(wrong()),
        };
        let bits: u32 = match rights {
            b":rw" => 6,
            b":r" => 4,
            _ => return Err(wrong()),
        };
        if shift == 6 {
            user = 0;
        }
        mode |= bits << shift;
    }
    Ok(mode | user)
}

#[cfg(test)]
mod tests {
    use super::super::word;
    use super::*;

    const TABLE: [(&str, u32); 3] = [("off", 1), ("error", 2), ("timeout", 4)];

    #[test]
    fn flags_ignore_case() {
        assert_eq!(flag(&word("on")), Ok(true));
        assert_eq!(flag(&word("OFF")), Ok(false));
        assert_eq!(flag(&word("yes")), Err(ValueError::Flag));
    }

    #[test]
    fn a_choice_suggests_the_nearest_word() {
        assert_eq!(choice(&word("Error"), &TABLE), Ok(2));
        assert_eq!(choice(&word("eror"), &TABLE), Err(ValueError::Choice(Some("error"))));
        assert_eq!(choice(&word("nothing"), &TABLE), Err(ValueError::Choice(None)));
    }

    #[test]
    fn bits_join_and_duplicates_are_reported() {
        let words = [word("error"), word("timeout"), word("error")];
        let mut twice = 0;
        assert_eq!(bitmask(&words, &TABLE, |_| twice += 1), Ok(6));
        assert_eq!(twice, 1);
        let words = [word("error"), word("x")];
        assert_eq!(bitmask(&words, &TABLE, |_| ()), Err((ValueError::Choice(None), &words[1])));
    }

    #[test]
    fn access_gives_mode_bits() {
        assert_eq!(access(&[word("user:rw"), word("group:r"), word("all:r")]), Ok(0o644));
        assert_eq!(access(&[word("group:rw")]), Ok(0o660));
        assert_eq!(access(&[word("user:r")]), Ok(0o400));
        for wrong in ["user", "user:", "user:w", "users:rw", "user:rwx", ""] {
            assert!(access(&[word(wrong)]).is_err(), "{wrong}");
        }
    }
}
