//! What one cell's figures say of each other.

use crate::model::experiment::Kind;
use crate::model::figure::Figure;
use crate::model::order::ToolName;
use crate::model::words::number;

use super::Rule;
use super::row::Row;

/// A check of one row: what does not fit, in a sentence.
type Check = fn(&Row<'_>) -> Option<String>;

/// All checks of single rows.
pub(super) const CHECKS: &[(Rule, Check)] = &[
    (Rule::LittlesLaw, littles_law),
    (Rule::Stragglers, stragglers),
    (Rule::WholeBytes, whole_bytes),
    (Rule::WholeBytes, whole_bytes_by_rate),
    (Rule::WholeBytes, whole_file),
    (Rule::HeadSize, head_size),
    (Rule::KnownPage, known_page),
    (Rule::Percentiles, order_of_percentiles),
    (Rule::Percentiles, mean_within_percentiles),
    (Rule::Requests, requests),
];

/// Pages that packages install, by their length: what the page is, and the contenders that it belongs to.
const KNOWN_PAGES: &[(f64, &str, &str)] = &[
    (10_701.0, "the default page of Debian's Apache package", "apache"),
    (10_918.0, "the default page of Ubuntu's Apache package", "apache"),
    (612.0, "nginx's welcome page", "nginx"),
    (615.0, "nginx's welcome page", "nginx"),
    (45.0, "the page that Apache's sources install", "apache"),
];

/// About how long the head of a file's answer is, as these servers are delivered.
const DEFAULT_HEADS: &[(&str, &str, f64)] = &[("apache", "Apache", 250.0), ("nginx", "nginx", 240.0)];

/// A head that is so much longer than the default one is not the default one.
const LONG_HEAD: f64 = 1.6;

/// Rate times mean time is the number of clients that were busy (J. D. C. Little, 1961).
fn littles_law(row: &Row<'_>) -> Option<String> {
    let busy = row.get(Figure::RequestsPerS)? * row.get(Figure::MeanMs)? / 1000.0;
    let shown = number(busy.round());
    let Some(clients) = row.clients else {
        let text =
            format!("By Little's law (requests a second times mean time) {shown} clients were busy at once");
        return Some(format!("{text}; how many there were is not published."));
    };
    if row.load.rate.is_some() || row.load.kind != Kind::Load || row.load.pipeline > 1 {
        return None;
    }
    let (least, most) = if row.published.is_some() { (0.9, 1.05) } else { (0.5, 1.15) };
    let clients = f64::from(clients);
    let all = number(clients);
    if busy > clients * most {
        let tool = if row.tool() == "wrk" { "wrk does so." } else { "Some tools do so." };
        return Some(format!(
            "By Little's law {shown} clients were busy at once, but there were {all}. The mean is not that of the \
             requests which made the rate: waiting was added of requests that the tool reckons were held back. {tool}"
        ));
    }
    // Of a short run with long answers, many did not end.
    let short = row
        .get(Figure::TotalS)
        .is_some_and(|total| total * 1000.0 < 10.0 * row.get(Figure::MeanMs).unwrap_or(0.0));
    if row.block.is_some() && short {
        return None;
    }
    (busy < clients * least).then(|| {
        format!(
            "By Little's law {shown} of {all} clients were busy. The others waited for something that the mean does not \
             show: for a connection, or for a few stragglers at the end."
        )
    })
}

fn stragglers(row: &Row<'_>) -> Option<String> {
    let (slowest, p99, total) = (row.get(Figure::MaxMs)?, row.get(Figure::P99Ms)?, row.get(Figure::TotalS)?);
    let seconds = |ms: f64| number(ms / 1000.0);
    (slowest > 500.0 * total && slowest > 10.0 * p99).then(|| {
        format!(
            "The slowest request took {} of the run's {} s, while 99 % took less than {} s: the rate says how long a few \
             stragglers took, not how fast the server answers.",
            seconds(slowest),
            number(total),
            seconds(p99)
        )
    })
}

fn whole_bytes(row: &Row<'_>) -> Option<String> {
    let (total, requests) = (row.get(Figure::TotalContentBytes)?, row.requests?);
    let failed = row.get(Figure::Failed);
    if (total / requests).fract() == 0.0
        || row.published.is_none() && failed.is_some_and(|failed| failed > 0.0)
    {
        return None;
    }
    let each = format!("{:.3}", total / requests);
    let text = format!(
        "{} bytes of content by {} requests are {each} each, no whole number: the answers differed in length.",
        number(total),
        number(requests)
    );
    let none_failed = failed == Some(0.0) && row.load.tool == ToolName::Ab;
    let contradiction = " ab counts an answer that is not as long as the first one as failed, unless an option says otherwise, \
                         so that no request failed cannot be.";
    Some(if none_failed { text + contradiction } else { text })
}

/// The same by rates, as far as their rounding allows it. A kept connection's heads may differ in length.
fn whole_bytes_by_rate(row: &Row<'_>) -> Option<String> {
    let (rate, bytes) = (row.get(Figure::RequestsPerS)?, row.get(Figure::BytesPerS)?);
    if row.published.is_none() || row.load.keep_alive || row.get(Figure::TotalContentBytes).is_some() {
        return None;
    }
    let printed = format!("{rate}");
    let decimals =
        printed.split_once('.').map_or(0, |(_, fraction)| i32::try_from(fraction.len()).unwrap_or(0));
    let answer = bytes / rate;
    // Half of the last digit of the rate, and as much for that of the bytes.
    let rounding = answer * 10.0_f64.powi(-decimals) / rate;
    let apart = (answer - answer.round()).abs();
    (rounding < 0.4 && apart > rounding).then(|| {
        format!(
            "{printed} requests and {} bytes a second are {answer:.1} bytes an answer, no whole number: the answers differed in length.",
            number(bytes)
        )
    })
}

/// What a tool counted of the content, next to the file that was asked for.
fn whole_file(row: &Row<'_>) -> Option<String> {
    let (content, file) = (row.content()?, row.file_bytes?);
    if row.published.is_some() || row.get(Figure::Failed).is_some_and(|failed| failed > 0.0) {
        return None;
    }
    ((content - file).abs() > 0.5).then(|| {
        format!("An answer's content has {} bytes on average, the file {}.", number(content), number(file))
    })
}

fn head_size(row: &Row<'_>) -> Option<String> {
    let (head, content) = (row.head()?, row.content()?);
    if head < -0.005 * content {
        let (answer, content) = (number(row.answer()?), number(content));
        return Some(format!(
            "Answers have {answer} bytes on average, though the content alone has {content}: some were cut short."
        ));
    }
    let (_, server, default) = DEFAULT_HEADS.iter().find(|(family, ..)| row.contender.starts_with(family))?;
    (head > default * LONG_HEAD).then(|| {
        format!(
            "The heads have {} bytes, where {server}'s own head of a file has about {}: fields were added, so that the \
             configurations are unequal, or a script made the answer.",
            number(head.round()),
            number(*default)
        )
    })
}

fn known_page(row: &Row<'_>) -> Option<String> {
    row.published?;
    let content = row.content()?;
    let (length, page, family) = KNOWN_PAGES.iter().find(|(length, ..)| *length == content)?;
    (!row.contender.starts_with(family)).then(|| {
        format!(
            "{} bytes are the length of {page}, and {} answered with them.",
            number(*length),
            row.contender
        )
    })
}

/// Of every percentile, and of the fastest and the slowest, the part of the requests that were faster.
fn percentiles() -> impl Iterator<Item = (Figure, f64)> {
    let between = Figure::PERCENTILES.iter().map(|(percent, figure)| (*figure, f64::from(*percent) / 100.0));
    std::iter::once((Figure::MinMs, 0.0)).chain(between).chain([(Figure::MaxMs, 1.0)])
}

fn order_of_percentiles(row: &Row<'_>) -> Option<String> {
    let known: Vec<(Figure, f64)> =
        percentiles().filter_map(|(figure, _)| Some((figure, row.get(figure)?))).collect();
    let wrong = known.windows(2).find(|pair| pair[0].1 > pair[1].1 * 1.001)?;
    let [(lower, less), (upper, more)] = [wrong[0], wrong[1]];
    Some(format!("{lower} is {}, above {upper} with {}.", number(less), number(more)))
}

fn mean_within_percentiles(row: &Row<'_>) -> Option<String> {
    let mean = row.get(Figure::MeanMs)?;
    let mut below = (0.0, 0.0);
    let (mut least, mut most) = (0.0, 0.0);
    let mut known = 0;
    for (figure, part) in percentiles() {
        let Some(value) = row.get(figure) else { continue };
        least += (part - below.0) * below.1;
        most += (part - below.0) * value;
        below = (part, value);
        known += 1;
    }
    least += (1.0 - below.0) * below.1;
    if known < 3 {
        return None;
    }
    // Tools print whole milliseconds, and a mean over clients instead of one over requests.
    let (least_allowed, most_allowed) = (least * 0.95 - 1.0, most * 1.05 + 1.0);
    let shown = number(mean);
    if mean < least_allowed {
        return Some(format!(
            "The mean of {shown} ms is less than the percentiles allow: at least {}.",
            number(least)
        ));
    }
    (row.get(Figure::MaxMs).is_some() && mean > most_allowed).then(|| {
        format!("The mean of {shown} ms is more than the percentiles allow: at most {}.", number(most))
    })
}

fn requests(row: &Row<'_>) -> Option<String> {
    let (rate, total, sent) = (row.get(Figure::RequestsPerS)?, row.get(Figure::TotalS)?, row.requests?);
    let tolerance = if row.published.is_some() { 0.01 } else { 0.05 };
    // A measured rate is that of correct responses.
    let failed = row.get(Figure::Failed).filter(|_| row.block.is_some()).unwrap_or_default();
    let answered = rate * total + failed;
    ((answered / sent - 1.0).abs() > tolerance).then(|| {
        format!(
            "{} requests/s over {} s are {} requests, but {} were sent.",
            number(rate),
            number(total),
            number(answered.round()),
            number(sent)
        )
    })
}
