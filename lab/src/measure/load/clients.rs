//! How many clients: a number, or weighttp's sweep over numbers.

use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

/// `64`, or `[0-1000 step:10 rounds:3]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCounts {
    /// Each number, in its order. 0 stands for 1.
    pub(super) counts: Vec<u32>,
    /// How often each is measured.
    pub(super) rounds: u32,
}

impl FromStr for ClientCounts {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<ClientCounts> {
        let number = |text: &str| text.parse::<u32>().with_context(|| format!("{text}: no number"));
        let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let Some(inside) = inside else {
            let count = number(text)?;
            ensure!(count > 0, "no clients");
            return Ok(ClientCounts { counts: vec![count], rounds: 1 });
        };
        let mut words = inside.split_ascii_whitespace();
        let range =
            words.next().and_then(|range| range.split_once('-')).context("a sweep begins as `[0-1000`")?;
        let (from, to) = (number(range.0)?, number(range.1)?);
        ensure!(from <= to, "{from}-{to}: the first is the smaller one");
        let (mut step, mut rounds) = (1, 1);
        for word in words {
            match word.split_once(':') {
                Some(("step", value)) => step = number(value)?.max(1),
                Some(("rounds", value)) => rounds = number(value)?.max(1),
                _ => bail!("{word}: a sweep has `step:` and `rounds:`"),
            }
        }
        let counts = (from..=to).step_by(usize::try_from(step)?).map(|count| count.max(1)).collect();
        Ok(ClientCounts { counts, rounds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps() {
        let read = |text: &str| text.parse::<ClientCounts>();
        assert_eq!(read("64").unwrap(), ClientCounts { counts: vec![64], rounds: 1 });
        assert_eq!(
            read("[0-30 step:10 rounds:3]").unwrap(),
            ClientCounts { counts: vec![1, 10, 20, 30], rounds: 3 }
        );
        assert_eq!(read("[2-3]").unwrap(), ClientCounts { counts: vec![2, 3], rounds: 1 });
        for wrong in ["0", "x", "[1]", "[3-2]", "[1-2 stop:1]", "[1-2 step:x]"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
