//! A page of made-up words. Their number, how often each comes and how many of them are links are such that zlib makes
//! of 64 KB what it makes of an article: somewhat less than a quarter.

use crate::model::random::XorShift;

const WORDS: usize = 600;

/// One word of so many is a link.
const LINKS: usize = 10;

const BEGINS: &[&str] =
    &["b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr", "th", "ch", "pl"];
const MIDDLES: &[&str] = &["a", "e", "i", "o", "u", "ea", "ou", "io"];
const ENDS: &[&str] = &["", "", "n", "r", "s", "t", "l", "nd", "ng"];

/// An HTML page of this length, always the same.
pub(super) fn page(length: usize) -> Vec<u8> {
    let mut author = Author { random: XorShift::new(), words: Vec::new() };
    author.words = (0..WORDS).map(|_| author.invent()).collect();
    let mut page = "<!doctype html>\n<html>\n<body>\n".to_owned();
    while page.len() < length {
        page += &format!("<h2>{} {}</h2>\n", author.word(), author.word());
        for _ in 0..4 {
            let sentences: String = (0..3 + author.random.below(4)).map(|_| author.sentence()).collect();
            page += &format!("<p>{sentences}</p>\n");
        }
    }
    page.truncate(length);
    page.into_bytes()
}

struct Author {
    random: XorShift,
    words: Vec<String>,
}

impl Author {
    fn sentence(&mut self) -> String {
        let words: Vec<String> = (0..6 + self.random.below(14)).map(|_| self.linked()).collect();
        words.join(" ") + ". "
    }

    fn linked(&mut self) -> String {
        let word = self.word();
        if self.random.below(LINKS) == 0 { format!("<a href=\"/articles/{word}\">{word}</a>") } else { word }
    }

    /// A word; the first ones come most often.
    fn word(&mut self) -> String {
        let below = self.random.below(WORDS) + 1;
        let below = self.random.below(below) + 1;
        let place = self.random.below(below);
        self.words.get(place).cloned().unwrap_or_default()
    }

    fn invent(&mut self) -> String {
        let syllable = |author: &mut Author| {
            [BEGINS, MIDDLES, ENDS].map(|of| of[author.random.below(of.len())]).concat()
        };
        (0..1 + self.random.below(3)).map(|_| syllable(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_page_can_be_compressed_as_an_article() {
        let page = page(64 << 10);
        assert_eq!(page.len(), 64 << 10);
        let mut coder = GzEncoder::new(Vec::new(), Compression::new(6));
        coder.write_all(&page).unwrap();
        let length = coder.finish().unwrap().len();
        assert!((14_000..16_000).contains(&length), "{length}");
    }
}
