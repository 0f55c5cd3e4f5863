//! Differences that are meant. Each has its row in `docs/differences.md`.

use crate::client::Request;
use crate::compare::Difference;
use crate::response::Response;

/// A difference that is meant.
#[derive(Debug)]
pub struct Known {
    /// Its name in reports.
    pub id: &'static str,
    /// The first cell of its row in `docs/differences.md`.
    pub row: &'static str,
    is_it: fn(&Seen<'_>) -> bool,
}

/// A difference with the request and both responses.
pub(crate) struct Seen<'a> {
    pub(crate) request: &'a Request,
    pub(crate) expected: &'a Response,
    pub(crate) got: &'a Response,
    pub(crate) difference: &'a Difference,
}

/// All of them that a response shows.
pub const KNOWN: &[Known] = &[
    Known {
        id: "etag-of-416",
        row: "an error page for 416",
        is_it: |seen| both(seen, 416) && seen.is_about("ETag"),
    },
    Known {
        id: "status-without-text",
        row: "417, 425 and other statuses without text in nginx",
        is_it: |seen| {
            seen.expected.status >= 300
                && seen.expected.status == seen.got.status
                && seen.expected.reason.is_empty()
                && !seen.got.reason.is_empty()
        },
    },
    Known {
        id: "own-server-and-date",
        row: "`add_header Server …`, `add_header Date …`",
        is_it: |seen| {
            ["Server", "Date"].iter().any(|name| {
                let count =
                    |response: &Response| response.fields.iter().filter(|field| field.0 == *name).count();
                seen.is_about(name) && count(seen.expected) > count(seen.got)
            })
        },
    },
    Known {
        id: "types-with-parameters",
        row: "`gzip` and a media type with parameters in `types` or `default_type`",
        is_it: |seen| {
            let coding = |response: &Response| response.field("Content-Encoding").map(str::to_owned);
            coding(seen.expected).is_none()
                && coding(seen.got).as_deref() == Some("gzip")
                && seen.expected.field("Content-Type").is_some_and(|kind| kind.contains(';'))
        },
    },
    Known {
        id: "compressed-twice",
        row: "`gzip` after `add_header Content-Encoding …`",
        is_it: |seen| {
            let is_coding = |field: &&(String, String)| field.0.eq_ignore_ascii_case("Content-Encoding");
            seen.expected.fields.iter().filter(is_coding).count() > 1
        },
    },
    Known {
        id: "alias-traversal",
        row: "`location /i { alias /data/; }` and a request for `/i../x`",
        is_it: |seen| seen.request.target.contains("../") && seen.got.status == 403,
    },
    Known {
        id: "return-below-200",
        row: "`return` with a status below 200",
        is_it: |seen| (100..200).contains(&seen.expected.status) && seen.expected.status == seen.got.status,
    },
];

impl Known {
    /// The entry for a difference.
    pub(crate) fn of(seen: &Seen<'_>) -> Option<&'static Known> {
        KNOWN.iter().find(|known| (known.is_it)(seen))
    }
}

impl Seen<'_> {
    fn is_about(&self, field: &str) -> bool {
        match self.difference {
            Difference::Missing(name, _) | Difference::Extra(name, _) => name.eq_ignore_ascii_case(field),
            _ => false,
        }
    }
}

fn both(seen: &Seen<'_>, status: u16) -> bool {
    seen.expected.status == status && seen.got.status == status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_its_row_in_the_manual() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/differences.md");
        let page = std::fs::read_to_string(page).unwrap();
        for known in KNOWN {
            let row = page.lines().find(|line| line.starts_with(&format!("| {} |", known.row)));
            assert!(row.is_some(), "{}: no row begins with {:?}", known.id, known.row);
        }
    }
}
