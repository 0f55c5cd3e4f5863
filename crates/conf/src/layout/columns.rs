//! Adjacent directives whose words stand in columns.

use std::ops::Range;

/// Spaces up to which a tab goes on.
const TAB: usize = 8;

/// A directive on one line of the new text.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Where its words are in the new text.
    pub(super) words: Vec<Range<usize>>,
    /// The columns in which they began in the old text, from the beginning of the line.
    pub(super) columns: Vec<usize>,
}

impl Row {
    /// How far right of the directive's name a word began.
    fn offset(&self, index: usize) -> Option<usize> {
        self.columns.get(index)?.checked_sub(self.columns[0])
    }
}

/// The column of an offset in a text.
pub(super) fn of(text: &[u8], offset: usize) -> usize {
    let line = memchr::memrchr(b'\n', &text[..offset]).map_or(0, |end| end + 1);
    let wide = |column: usize, byte: &u8| if *byte == b'\t' { column / TAB * TAB + TAB } else { column + 1 };
    text[line..offset].iter().filter(|byte| !is_continuation(**byte)).fold(0, wide)
}

/// Whether a byte belongs to the character that an earlier byte began, in UTF-8.
fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// The new text with the columns that it had: of adjacent rows the leading words that began in the same columns.
pub(super) fn keep(text: &[u8], rows: &[Row]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    let adjacent = |a: &Row, b: &Row| {
        let between = &text[a.words[0].start..b.words[0].start];
        memchr::memchr_iter(b'\n', between).count() == 1
    };
    for group in rows.chunk_by(adjacent) {
        let columns = if group.len() > 1 { aligned(group) } else { 1 };
        for row in group {
            for (index, pair) in row.words.windows(2).enumerate().take(columns - 1) {
                let [before, word] = pair else { continue };
                out.extend_from_slice(&text[from..before.end]);
                let spaces = match (row.offset(index), row.offset(index + 1)) {
                    (Some(start), Some(next)) => next - start - characters(&text[before.clone()]),
                    _ => 1,
                };
                out.resize(out.len() + spaces, b' ');
                from = word.start;
            }
        }
    }
    out.extend_from_slice(&text[from..]);
    out
}

/// How many leading words of the rows began in the same columns. Two rows at least must have each of them.
fn aligned(group: &[Row]) -> usize {
    let same = |index: &usize| {
        let mut offsets = group.iter().filter_map(|row| row.offset(*index));
        let (first, second) = (offsets.next(), offsets.next());
        second.is_some() && second == first && offsets.all(|offset| Some(offset) == first)
    };
    (0..).take_while(same).count()
}

fn characters(word: &[u8]) -> usize {
    word.iter().filter(|byte| !is_continuation(**byte)).count()
}
