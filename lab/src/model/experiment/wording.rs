//! Conditions in words: what has to be measured for a finding to hold.

use std::fmt;

use super::{Clients, Condition};
use crate::model::words;

impl fmt::Display for Condition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = words::named(self.figure());
        match self {
            Condition::Better { load, of, over, by, clients, cores, .. } => {
                write!(out, "{load}: {of} better than {over} in {title}")?;
                if let Some(by) = by {
                    write!(out, ", {} times or more", words::number(*by))?;
                }
                places(out, clients.as_ref(), cores.as_deref())
            }
            Condition::Ratio { load, of, over, low, high, clients, cores, .. } => {
                write!(out, "{load}: {title} of {of} ÷ {over} ")?;
                bounds(out, Some(*low), Some(*high))?;
                places(out, clients.as_ref(), cores.as_deref())
            }
            Condition::Change {
                load, of, from_clients, to_clients, from_cores, to_cores, low, high, ..
            } => {
                write!(out, "{load}: {title} of {of}, ")?;
                let number = |count: &Option<u32>, other: &str| {
                    count.map_or_else(|| other.to_owned(), |count| words::number(f64::from(count)))
                };
                match (from_cores, to_cores) {
                    (None, None) => {
                        let (to, from) = (number(to_clients, "most"), number(from_clients, "fewest"));
                        write!(out, "{to} ÷ {from} clients ")?;
                    }
                    _ => {
                        write!(out, "{} ÷ {} cores ", number(to_cores, "most"), number(from_cores, "fewest"))?
                    }
                }
                bounds(out, *low, *high)
            }
            Condition::AnswersAll { load, of, clients } => {
                write!(out, "{load}: {of} fails no request")?;
                places(out, clients.as_ref(), None)
            }
            Condition::Fails { load, of, clients } => {
                write!(out, "{load}: {of} fails some request")?;
                places(out, clients.as_ref(), None)
            }
            Condition::AgainstLoad { load, against, of, low, high, .. } => {
                write!(out, "{title} of {of}, {load} ÷ {against} ")?;
                bounds(out, *low, *high)
            }
        }
    }
}

fn bounds(out: &mut fmt::Formatter<'_>, low: Option<f64>, high: Option<f64>) -> fmt::Result {
    match (low.map(words::number), high.map(words::number)) {
        (Some(low), Some(high)) => write!(out, "from {low} to {high}"),
        (Some(low), None) => write!(out, "at least {low}"),
        (None, Some(high)) => write!(out, "at most {high}"),
        (None, None) => out.write_str("without a bound"),
    }
}

fn places(out: &mut fmt::Formatter<'_>, clients: Option<&Clients>, cores: Option<&[u32]>) -> fmt::Result {
    match clients.map(Clients::each).as_deref() {
        None | Some([]) => {}
        Some([one]) => write!(out, ", {}", words::clients(*one))?,
        Some([first, .., last]) => {
            write!(out, ", {} to {}", words::number(f64::from(*first)), words::clients(*last))?;
        }
    }
    match cores {
        None | Some([]) => Ok(()),
        Some([1]) => out.write_str(", 1 core"),
        Some(cores) => {
            let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
            write!(out, ", {} cores", cores.join(" and "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Finding;

    #[test]
    fn conditions_are_words() {
        let said = |condition: &str| {
            let text = format!("experiment = 'e'\nid = 'F'\nclaim = 'c'\nholds_when = [{{ {condition} }}]");
            Finding::parse(&text).unwrap().holds_when[0].to_string()
        };
        let figure = "figure = 'requests_per_s'";
        for (condition, words) in [
            (
                format!("is = 'better', {figure}, load = 'l', of = 'a', over = 'b', by = 1.26, clients = 8"),
                "l: a better than b in requests/s, 1.26 times or more, 8 clients",
            ),
            (
                format!(
                    "is = 'ratio', {figure}, load = 'l', of = 'a', over = 'b', low = 0.9, high = 1.1, cores = [1]"
                ),
                "l: requests/s of a ÷ b from 0.90 to 1.10, 1 core",
            ),
            (
                format!("is = 'change', {figure}, load = 'l', of = 'a', to_clients = 1000, low = 0.7"),
                "l: requests/s of a, 1,000 ÷ fewest clients at least 0.70",
            ),
            (
                format!("is = 'against_load', {figure}, load = 'l', against = 'm', of = 'a', high = 2"),
                "requests/s of a, l ÷ m at most 2",
            ),
            (
                "is = 'fails', load = 'l', of = 'a', clients = [1, 10]".into(),
                "l: a fails some request, 1 to 10 clients",
            ),
        ] {
            assert_eq!(said(&condition), words);
        }
    }
}
