//! When two servers' answers count as the same, and how a difference is shown: as `fulmar migrate` does it, and what happens to
//! the connection.

use std::fmt::Write;

use migrate::compare::{Replaced, date_of, differences};

use crate::client::Answer;
use crate::site::Running;

pub use migrate::compare::replace_number;

/// Replaces what names the instance and not the behaviour: ports, log directory, product, boundaries, Date.
pub fn normalise(answer: &Answer, running: &Running) -> Answer {
    const PORTS: [&[u8]; 4] = [b"PORT0", b"PORT1", b"PORT2", b"PORT3"];
    let replaced = Replaced {
        numbers: running.ports().map(|(n, port)| (port.to_string(), PORTS[n])).collect(),
        texts: vec![(format!("logs-{}", running.server().name()).into_bytes(), b"logs")],
    };
    let mut answer = answer.clone();
    answer.responses.iter_mut().for_each(|response| replaced.normalise(response));
    answer
}

/// Describes how normalised answers differ; `None` when they agree. The originals give the times that
/// relative values such as Expires are measured from.
pub fn difference(left: &Compared<'_>, right: &Compared<'_>) -> Option<String> {
    let (a, b) = (&left.normal, &right.normal);
    if a.responses.len() != b.responses.len() {
        return Some(format!("{} responses, not {}", b.responses.len(), a.responses.len()));
    }
    let mut found = String::new();
    for (at, (x, y)) in a.responses.iter().zip(&b.responses).enumerate() {
        let dates = [date_of(&left.plain.responses[at]), date_of(&right.plain.responses[at])];
        for difference in differences(x, y, dates) {
            let _ = writeln!(found, "{difference}");
        }
    }
    if a.end != b.end {
        let _ = writeln!(found, "connection: {:?}, not {:?}", b.end, a.end);
    }
    if found.is_empty() { None } else { Some(found) }
}

/// An answer as it came and as it is compared.
#[derive(Debug)]
pub struct Compared<'a> {
    /// As received.
    pub plain: &'a Answer,
    /// After `normalise`.
    pub normal: Answer,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::End;
    use crate::response::Response;

    #[test]
    fn the_end_of_the_connection_counts() {
        let response = Response { status: 200, ..Response::default() };
        let kept = Answer { responses: vec![response], end: End::Kept };
        let compare = |right: &Answer| {
            let left = Compared { plain: &kept, normal: kept.clone() };
            difference(&left, &Compared { plain: right, normal: right.clone() })
        };
        assert_eq!(compare(&kept), None);
        assert!(compare(&Answer { end: End::Closed, ..kept.clone() }).is_some());
    }
}
