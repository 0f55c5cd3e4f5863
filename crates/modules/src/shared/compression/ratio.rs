//! The ratio of compression: `$gzip_ratio`, `$brotli_ratio` and `$zstd_ratio`.

use super::Coding;
use contract::Exchange;
use std::cell::Cell;
use std::rc::Rc;

/// The lengths of content before and after it was compressed, once that is done.
#[derive(Debug, Default)]
pub(crate) struct Ratio {
    lengths: Cell<(u64, u64)>,
}

impl Ratio {
    pub(crate) fn set(&self, plain: u64, compressed: u64) {
        self.lengths.set((plain, compressed));
    }

    #[cfg(test)]
    pub(crate) fn lengths(&self) -> (u64, u64) {
        self.lengths.get()
    }

    /// How many times smaller the content became, in hundredths and rounded.
    fn hundredths(&self) -> Option<u64> {
        let (plain, compressed) = self.lengths.get();
        let thousandths = plain.saturating_mul(1000).checked_div(compressed)?;
        Some(thousandths.saturating_add(5) / 10)
    }
}

/// The ratio of the response's content in one coding.
pub(crate) struct RatioOf {
    pub(crate) coding: Coding,
    pub(crate) ratio: Rc<Ratio>,
}

/// Appends the ratio of content that was sent in this coding.
pub(crate) fn show(exchange: &Exchange, coding: Coding, out: &mut Vec<u8>) -> bool {
    let ratio = exchange.attached::<RatioOf>().filter(|of| of.coding == coding);
    let text = ratio.and_then(|of| of.ratio.hundredths());
    let text = text.map(|ratio| format!("{}.{:02}", ratio / 100, ratio % 100));
    text.inspect(|text| out.extend_from_slice(text.as_bytes())).is_some()
}

#[cfg(test)]
mod tests {
    use super::Ratio;

    #[test]
    fn ratios() {
        let of = |plain, compressed| {
            let ratio = Ratio::default();
            ratio.set(plain, compressed);
            ratio.hundredths()
        };
        assert_eq!((of(2125, 1000), of(2124, 1000), of(1999, 1000)), (Some(213), Some(212), Some(200)));
        assert_eq!(of(0, 0), None);
    }
}
