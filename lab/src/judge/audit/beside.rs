//! What the figures of several cells say of each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::statistics::median;
use crate::model::block::core_numbers;
use crate::model::experiment::Generator;
use crate::model::figure::Figure;
use crate::model::words::{self, number};

use super::row::Row;
use super::{About, Rule, TOOL_FULL};

/// What a check found: whom it is about, and the sentence.
type Found<'a> = Vec<(About<'a>, String)>;

/// A check of all rows.
type Check = for<'a> fn(&'a [Row<'a>]) -> Found<'a>;

/// All checks of several rows.
pub(super) const CHECKS: &[(Rule, Check)] = &[
    (Rule::SamePage, same_page),
    (Rule::SamePage, same_length),
    (Rule::MemoryPerConnection, memory_per_connection),
    (Rule::TransferTime, transfer_time),
    (Rule::Link, link),
    (Rule::Tools, tools),
    (Rule::SharedCores, shared_cores),
    (Rule::ToolBusy, tool_busy),
    (Rule::Impossible, more_work),
    (Rule::Impossible, not_resumed),
];

/// Lengths of answers that differ by less are taken for equal: dates and lengths in heads differ by some bytes.
const EQUAL: f64 = 0.05;

/// What a fast network card carries, in bits a second.
const FAST_LINK: f64 = 10e9;

/// A tail that is so much longer by one tool than by another is another tail.
const OTHER_TAIL: f64 = 10.0;

/// All contenders of a published load were asked for the same.
fn same_page<'a>(rows: &'a [Row<'a>]) -> Found<'a> {
    let mut found = Found::new();
    for (index, row) in rows.iter().enumerate().filter(|(_, row)| row.published.is_some()) {
        let mut before =
            rows[..index].iter().filter(|other| other.load.id == row.load.id && other.clients == row.clients);
        let other = before.find(|other| other.content().is_some());
        let Some((other, (one, two))) =
            other.and_then(|other| Some((other, (other.content()?, row.content()?))))
        else {
            continue;
        };
        if (one / two - 1.0).abs() <= EQUAL {
            continue;
        }
        let heads = other.head().zip(row.head()).map_or_else(String::new, |(one, two)| {
            let (less, more) = (one.min(two).round(), one.max(two).round());
            let script = if more > less * 1.6 { ", which looks like a file against a script" } else { "" };
            format!(" Their heads have {} and {} bytes{script}.", number(one.round()), number(two.round()))
        });
        let text = format!(
            "{} answered with {} bytes of content, {} with {}: they were not asked for the same.{heads}",
            other.contender,
            number(one),
            row.contender,
            number(two)
        );
        found.push((About::load(row), text));
    }
    found
}

/// A contender's answers to one path stay as long, whatever the number of clients.
fn same_length<'a>(rows: &'a [Row<'a>]) -> Found<'a> {
    let mut found = Found::new();
    let mut seen = BTreeSet::new();
    for first in rows.iter().filter(|row| row.published.is_some() && row.answer().is_some()) {
        if !seen.insert((first.contender, &first.load.path)) {
            continue;
        }
        let same =
            |other: &&Row<'_>| other.contender == first.contender && other.load.path == first.load.path;
        let last =
            rows.iter().rev().filter(same).find(|row| row.published.is_some() && row.answer().is_some());
        let Some(last) = last else { continue };
        let ratio = |figure: Figure| Some(last.get(figure)? / first.get(figure)?);
        let lengths = first.answer().zip(last.answer());
        let Some((((one, two), rate), bytes)) =
            lengths.zip(ratio(Figure::RequestsPerS)).zip(ratio(Figure::BytesPerS))
        else {
            continue;
        };
        if (two / one - 1.0).abs() > EQUAL {
            let text = format!(
                "From “{}” to “{}” an answer goes from {} to {} bytes: the rate changes by {} ×, the bytes a second by {} × \
                 only, so that part of the change may be shorter answers.",
                first.load.title,
                last.load.title,
                number(one.round()),
                number(two.round()),
                number(rate),
                number(bytes)
            );
            found.push((About::contender(last), text));
        }
    }
    found
}

/// What a connection is said to take, and by how much memory grows with the clients.
fn memory_per_connection<'a>(rows: &'a [Row<'a>]) -> Found<'a> {
    let mut found = Found::new();
    for claim in rows {
        let Some(each) = claim.get(Figure::MemoryPerConnectionBytes).filter(|each| *each > 0.0) else {
            continue;
        };
        let of_claim = |row: &&Row<'_>| {
            row.contender == claim.contender && row.published.is_some() == claim.published.is_some()
        };
        let mut grown: Vec<(u32, f64, &Row<'_>)> = rows
            .iter()
            .filter(of_claim)
            .filter_map(|row| Some((row.clients?, row.get(Figure::MemoryBytes)?, row)))
            .collect();
        grown.sort_by_key(|(clients, ..)| *clients);
        let (Some((few, less, first)), Some((many, more, last))) = (grown.first(), grown.last()) else {
            continue;
        };
        if first.load.id != last.load.id || few == many {
            continue;
        }
        let slope = (more - less) / f64::from(many - few);
        if slope > 3.0 * each || slope < each / 3.0 {
            let text = format!(
                "{} KB a connection are named, but from {} to {} memory grows from {} to {} MB, which is {} KB a connection.",
                words::scaled(Figure::MemoryPerConnectionBytes, each),
                words::clients(*few),
                words::clients(*many),
                words::scaled(Figure::MemoryBytes, *less),
                words::scaled(Figure::MemoryBytes, *more),
                words::scaled(Figure::MemoryPerConnectionBytes, slope)
            );
            found.push((About::contender(last), text));
        }
    }
    found
}

/// With so many transfers at once, one of them takes longer than the whole run.
fn transfer_time<'a>(rows: &'a [Row<'a>]) -> Found<'a> {
    let mut found = Found::new();
    for row in rows.iter().filter(|row| row.published.is_some()) {
        let (Some(at_once), Some(file), Some(run)) =
            (row.get(Figure::Connections), row.file_bytes, row.load.seconds)
        else {
            continue;
        };
        let same = |other: &&Row<'_>| other.contender == row.contender && other.load.path == row.load.path;
        let Some(bytes) = rows.iter().filter(same).find_map(|other| other.get(Figure::BytesPerS)) else {
            continue;
        };
        let seconds = at_once * file / bytes;
        if seconds > run {
            let text = format!(
                "{} transfers at once of {} MB each take {} s at {} MB/s, longer than the run of {} s: hardly one could end.",
                number(at_once),
                number(file / 1e6),
                number(seconds.round()),
                words::scaled(Figure::BytesPerS, bytes),
                number(run)
            );
            found.push((About::contender(row), text));
        }
    }
    found
}

/// More than a network carries cannot have come from another machine.
fn link<'a>(rows: &'a [Row<'a>]) -> Found<'a> {
    let apart = rows.iter().filter(|row| row.published.is_some_and(|place| place != Generator::SameMachine));
    let bits = apart.filter_map(|row| Some((row.bytes_per_s()? * 8.0, row)));
    let most = bits.max_by(|one, other| one.0.total_cmp(&other.0)).filter(|(bits, _)| *bits > FAST_LINK);
    let text = |bits: f64| {
        format!(
            "{} Gb/s left the server, more than a network card of {} Gb/s carries: the clients shared the machine, and took \
             time from the server.",
            number((bits / 1e9).round()),
            number(FAST_LINK / 1e9)
        )
    };
    most.into_iter().map(|(bits, row)| (About::contender(row), text(bits))).collect()
}

/// Two tools that asked for the same with as many clients have seen the same.
fn tools<'a>(rows: &'a [Row<'a>]) -> Found<'a> {
    let mut found = Found::new();
    for (index, one) in rows.iter().enumerate() {
        for other in &rows[..index] {
            let alike = one.contender == other.contender
                && one.load.path == other.load.path
                && one.clients == other.clients
                && one.published == other.published
                && one.turn() == other.turn()
                && one.load.tls.is_some() == other.load.tls.is_some()
                && one.load.options == other.load.options
                && one.load.rate == other.load.rate
                && one.load.one_core == other.load.one_core
                && one.tool() != other.tool();
            let tail = |row: &Row<'_>| Some(row.get(Figure::MaxMs)? / row.get(Figure::P50Ms)?);
            let (true, Some((first, second))) = (alike, tail(other).zip(tail(one))) else { continue };
            if first.max(second) > OTHER_TAIL * first.min(second) {
                let kept = if one.load.keep_alive == other.load.keep_alive {
                    ""
                } else {
                    " Only one of them kept connections."
                };
                let text = format!(
                    "The slowest request took {} times the median by {} and {} times by {}: that the two tools agree is doubtful.{}{kept}",
                    number(first),
                    other.tool(),
                    number(second),
                    one.tool(),
                    turned(rows, other, one)
                );
                found.push((About::contender(one), text));
            }
        }
    }
    found
}

/// Whom else a tool has before or after this contender by the median, where the other tool has it the other way round.
fn turned(rows: &[Row<'_>], first: &Row<'_>, second: &Row<'_>) -> String {
    let median = |like: &Row<'_>, contender: &str| {
        let same = |row: &&Row<'_>| {
            row.load.id == like.load.id && row.clients == like.clients && row.turn() == like.turn()
        };
        rows.iter().filter(same).find(|row| row.contender == contender)?.get(Figure::P50Ms)
    };
    let mut others =
        rows.iter().filter(|row| row.load.id == first.load.id && row.contender != first.contender);
    let turned = others.find_map(|row| {
        let by_first = median(first, row.contender)? > median(first, first.contender)?;
        let by_second = median(second, row.contender)? > median(second, first.contender)?;
        (by_first != by_second).then(|| {
            let (ahead, behind) =
                if by_first { (first.contender, row.contender) } else { (row.contender, first.contender) };
            format!(" By the median {} has {ahead} ahead, {} {behind}.", first.tool(), second.tool())
        })
    });
    turned.unwrap_or_default()
}

/// A contender and the tool that share cores take time from each other. A load with `one_core` says so itself.
fn shared_cores<'a>(rows: &'a [Row<'a>]) -> Found<'a> {
    let shared = |row: &&Row<'_>| {
        let has_shared = row.block.is_some_and(|block| {
            let tool = core_numbers(&block.circumstances.tool_cores);
            core_numbers(&block.circumstances.server_cores).iter().any(|core| tool.contains(core))
        });
        has_shared && !row.load.one_core
    };
    let loads: BTreeSet<&str> = rows.iter().filter(shared).map(|row| row.load.title.as_str()).collect();
    let Some(first) = rows.iter().find(shared) else { return Found::new() };
    let text = format!(
        "The load tool ran on the server's own cores and took time from it; rates are those of both together. Loads: {}.",
        loads.into_iter().collect::<Vec<_>>().join("; ")
    );
    vec![(About { load: None, ..About::load(first) }, text)]
}

/// A tool that has no time left may be what was measured.
fn tool_busy<'a>(rows: &'a [Row<'a>]) -> Found<'a> {
    let busy = |row: &&&Row<'_>| {
        row.block.is_some_and(|block| {
            let cores = core_numbers(&block.circumstances.tool_cores).len();
            cores > 0 && block.circumstances.tool_busy > TOOL_FULL * cores as f64
        })
    };
    let mut found = Found::new();
    let mut seen = BTreeSet::new();
    for row in rows.iter().filter(|row| row.block.is_some() && seen.insert(&row.load.id)) {
        let of_load: Vec<&Row<'_>> = rows.iter().filter(|other| other.load.id == row.load.id).collect();
        let names: BTreeSet<&str> = of_load.iter().filter(busy).map(|row| row.contender).collect();
        if !names.is_empty() {
            let text = format!(
                "In {} of {} runs the load tool used all the time of its cores, so the rates may be its own limit: {}.",
                of_load.iter().filter(busy).count(),
                of_load.len(),
                names.into_iter().collect::<Vec<_>>().join(", ")
            );
            found.push((About::load(row), text));
        }
    }
    found
}

/// A rate so many times above or below the published one is not a repetition of it.
const OUT_OF_REACH: f64 = 20.0;

/// Rates that are far from the published ones: what was measured is something else.
pub(super) fn out_of_reach(published: &[Row<'_>], measured: &[Row<'_>]) -> Vec<(About<'static>, String)> {
    let mut found = Vec::new();
    for told in published {
        let same = |row: &&Row<'_>| {
            let is_place = told.clients.is_none_or(|clients| row.clients == Some(clients));
            row.load.id == told.load.id && row.contender == told.contender && is_place
        };
        let rates: Vec<f64> =
            measured.iter().filter(same).filter_map(|row| row.get(Figure::RequestsPerS)).collect();
        let Some(rate) = told.get(Figure::RequestsPerS).filter(|_| !rates.is_empty()) else { continue };
        let here = median(&rates);
        if here <= 0.0 || (1.0 / OUT_OF_REACH..=OUT_OF_REACH).contains(&(here / rate)) {
            continue;
        }
        let (times, how) = if here < rate { (rate / here, "below") } else { (here / rate, "above") };
        let text = format!(
            "{} under “{}”: {} requests/s here are {} times {how} the published {}. A repetition so far away says little \
             about the published figures.",
            told.contender,
            told.load.title,
            number(here),
            number(times),
            number(rate)
        );
        found.push((About { load: None, contender: None, clients: None, published: false }, text));
    }
    found
}

/// Options that only add work to a request: what does it, and the setting without it.
const MORE_WORK: &[(&str, &str, &str)] =
    &[("access_log", "off", "a log"), ("allow_override", "none", "looking for .htaccess files")];

/// A gain that is no larger than this may be chance.
const GAIN_MAX: f64 = 1.05;

/// Resuming a TLS session saves more than this part of the work of a handshake.
const RESUMED_MIN: f64 = 1.15;

/// What is written or looked up for each request cannot make a server faster. If it seems to, something else differed.
fn more_work<'a>(rows: &'a [Row<'a>]) -> Found<'a> {
    let mut found = Found::new();
    for (option, without, what) in MORE_WORK {
        let setting = |row: &Row<'_>| {
            row.load.options.get(*option).map_or((*without).to_owned(), |setting| setting.to_lowercase())
        };
        for (with, less) in loads_apart(rows, |one, other| {
            setting(one) != *without
                && setting(other) == *without
                && one.load.tls == other.load.tls
                && others_equal(&one.load.options, &other.load.options, option)
        }) {
            let Some(ratio) = ratio_of(rows, with, less).filter(|ratio| *ratio > GAIN_MAX) else { continue };
            let text = format!(
                "With {what} it answers {} times as many requests a second as without, which cannot be its work: another \
                 difference between “{}” and “{}” was measured.",
                number(ratio),
                with.load.title,
                less.load.title
            );
            found.push((About::contender(with), text));
        }
    }
    found
}

/// A resumed session needs no signature. If it is not faster, sessions were not resumed.
fn not_resumed<'a>(rows: &'a [Row<'a>]) -> Found<'a> {
    let resumes = |row: &Row<'_>| row.load.tls.map(|tls| tls.resume);
    let mut found = Found::new();
    for (resumed, new) in
        loads_apart(rows, |one, other| (resumes(one), resumes(other)) == (Some(true), Some(false)))
    {
        let Some(ratio) = ratio_of(rows, resumed, new).filter(|ratio| *ratio < RESUMED_MIN) else { continue };
        let text = format!(
            "Resumed connections are {} times as many a second as new ones: by that figure this server resumes no sessions.",
            number(ratio)
        );
        found.push((About::contender(resumed), text));
    }
    found
}

/// Measured rows of one contender under two loads for the same path and clients that differ as asked, a pair for each
/// contender and number of clients and cores.
fn loads_apart<'a>(
    rows: &'a [Row<'a>],
    differ: impl Fn(&Row<'_>, &Row<'_>) -> bool,
) -> Vec<(&'a Row<'a>, &'a Row<'a>)> {
    let mut seen = BTreeSet::new();
    let mut pairs = Vec::new();
    for one in rows.iter().filter(|row| row.block.is_some()) {
        let same = |other: &&Row<'_>| {
            is_like(one, other)
                && other.load.path == one.load.path
                && other.load.keep_alive == one.load.keep_alive
                && other.load.tool == one.load.tool
                && differ(one, other)
        };
        let place = (&one.load.id, one.contender, one.clients, cores(one));
        for other in rows.iter().filter(same) {
            if seen.insert((place, &other.load.id)) {
                pairs.push((one, other));
            }
        }
    }
    pairs
}

/// Whether two measured rows are of one contender at one place.
fn is_like(one: &Row<'_>, other: &Row<'_>) -> bool {
    let place = |row: &Row<'_>| (row.clients, cores(row), row.block.is_some());
    one.contender == other.contender && place(one) == place(other)
}

fn cores(row: &Row<'_>) -> Option<u32> {
    row.block.map(|block| block.cell.cores)
}

/// The median rate of all rows like one, by that of all rows like the other.
fn ratio_of(rows: &[Row<'_>], one: &Row<'_>, other: &Row<'_>) -> Option<f64> {
    let rate = |of: &Row<'_>| {
        let same = rows.iter().filter(|row| row.load.id == of.load.id && is_like(row, of));
        let rates: Vec<f64> = same.filter_map(|row| row.get(Figure::RequestsPerS)).collect();
        (!rates.is_empty()).then(|| median(&rates))
    };
    Some(rate(one)? / rate(other).filter(|rate| *rate > 0.0)?)
}

fn others_equal(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>, option: &str) -> bool {
    let rest = |options: &BTreeMap<String, String>| -> Vec<(String, String)> {
        options
            .iter()
            .filter(|(name, _)| *name != option)
            .map(|(name, to)| (name.clone(), to.clone()))
            .collect()
    };
    rest(one) == rest(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(core_numbers("0-1,3"), [0, 1, 3]);
        assert!(core_numbers("").is_empty());
    }
}
