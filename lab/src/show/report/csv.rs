//! The figures as comma-separated values (RFC 4180): a line a cell and turn for each experiment, a summary, and a line for
//! each ratio that a finding was tested on.

use std::collections::BTreeSet;

use super::summary::Summary;
use crate::judge::findings::{Answer, Ratio};
use crate::model::block::{Block, Cell};
use crate::model::experiment::{Condition, Experiment};
use crate::model::figure::{Figure, Phase, Spread};

const BLOCK_COLUMNS: &[&str] = &[
    "experiment",
    "load",
    "contender",
    "clients",
    "cores",
    "turn",
    "quick",
    "began_s",
    "version",
    "origin",
    "configuration",
    "configuration_digest",
    "tool",
    "command",
    "server_cores",
    "tool_cores",
    "backend_cores",
    "tool_busy",
    "steal_s",
    "context_switches",
    "load_average",
    "raw",
    "failure",
];
const SUMMARY_COLUMNS: &[&str] = &[
    "experiment",
    "load",
    "contender",
    "clients",
    "cores",
    "figure",
    "median",
    "lowest",
    "highest",
    "turns",
];

const RATIO_COLUMNS: &[&str] = &[
    "experiment",
    "finding",
    "load",
    "against_load",
    "contender",
    "over",
    "place",
    "figure",
    "first_median",
    "second_median",
    "ratio",
    "ratio_low",
    "ratio_high",
    "turns",
    "at_least",
    "at_most",
    "test",
    "p",
    "p_holm",
    "p_direction_holm",
    "outcome",
    "verdict",
    "indicative",
];

/// All blocks, a line each, in their order, with a column for each figure that any of them has.
pub(super) fn of_blocks(blocks: &[&Block]) -> String {
    let figures: BTreeSet<Figure> = blocks.iter().flat_map(|block| block.figures.keys().copied()).collect();
    let phases: BTreeSet<Phase> = blocks.iter().flat_map(|block| block.phases.keys().copied()).collect();
    let names = figures.iter().map(|figure| name(*figure));
    let of_phase = |phase: &Phase| Spread::NAMES.map(|name| format!("{}_{name}_ms", phase.title()));
    let names = names.chain(phases.iter().flat_map(of_phase));
    let mut out = line(BLOCK_COLUMNS.iter().map(|name| (*name).to_owned()).chain(names));
    for block in blocks {
        let value = |figure| block.figures.get(figure).map(f64::to_string).unwrap_or_default();
        let spread = |phase| {
            let spread = block.phases.get(phase).map(|spread| <[f64; 5]>::from(*spread));
            spread.map_or_else(Default::default, |times| times.map(|time| time.to_string()))
        };
        let values = figures.iter().map(value).chain(phases.iter().flat_map(spread));
        out.push_str(&line(of_block(block).into_iter().chain(values)));
    }
    out
}

/// Median, lowest and highest of each figure of each cell over its turns.
pub(super) fn of_summary(summary: &Summary<'_>) -> String {
    let mut out = line(SUMMARY_COLUMNS.iter().map(|name| (*name).to_owned()));
    for cell in summary.cells() {
        let measured = summary.measured(cell);
        let figures: BTreeSet<Figure> =
            measured.iter().flat_map(|block| block.figures.keys().copied()).collect();
        for figure in figures {
            let Some(span) = summary.span(cell, figure) else { continue };
            let turns = summary.turns(cell, figure).len();
            let values = [span.median, span.low, span.high].map(|value| value.to_string());
            let fields =
                of_cell(cell).into_iter().chain([name(figure)]).chain(values).chain([turns.to_string()]);
            out.push_str(&line(fields));
        }
    }
    out
}

/// A line for each ratio that a finding was tested on, with the test, its p-values and the finding's verdict.
pub(super) fn of_ratios(answers: &[(&Experiment, Vec<Answer>)]) -> String {
    let mut out = line(RATIO_COLUMNS.iter().map(|name| (*name).to_owned()));
    for (experiment, answers) in answers {
        for answer in answers {
            let finding = experiment.findings.iter().find(|finding| finding.id == answer.finding);
            let conditions = finding.into_iter().flat_map(|finding| &finding.holds_when);
            for (condition, evidence) in conditions.zip(&answer.evidence) {
                for ratio in &evidence.ratios {
                    out.push_str(&line(of_ratio(answer, condition, ratio).into_iter()));
                }
            }
        }
    }
    out
}

fn of_ratio(answer: &Answer, condition: &Condition, ratio: &Ratio) -> Vec<String> {
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let (loads, contenders) = (condition.loads(), condition.contenders());
    let word = |words: &[&str], at: usize| text(words.get(at).copied().unwrap_or_default());
    let estimate = ratio.estimate;
    vec![
        text(&answer.experiment),
        text(&answer.finding),
        word(&loads, 0),
        word(&loads, 1),
        word(&contenders, 0),
        word(&contenders, 1),
        text(&ratio.place),
        name(condition.figure()),
        ratio.medians.0.to_string(),
        ratio.medians.1.to_string(),
        estimate.median.to_string(),
        estimate.low.to_string(),
        estimate.high.to_string(),
        ratio.turns.to_string(),
        number(ratio.at_least),
        number(ratio.at_most),
        ratio.test.name().to_owned(),
        number(ratio.p),
        number(ratio.p_holm),
        number(ratio.p_direction_holm),
        ratio.outcome.name().to_owned(),
        answer.verdict.name().to_owned(),
        answer.indicative.to_string(),
    ]
}

fn of_cell(cell: &Cell) -> Vec<String> {
    let words = [&cell.experiment, &cell.load, &cell.contender].map(|word| text(word));
    words.into_iter().chain([cell.clients.to_string(), cell.cores.to_string()]).collect()
}

fn of_block(block: &Block) -> Vec<String> {
    let around = &block.circumstances;
    let mut fields = of_cell(&block.cell);
    fields.extend([
        block.turn.to_string(),
        block.quick.to_string(),
        block.began_s.to_string(),
        text(&block.version),
        text(&block.origin),
        format!("{:?}", block.configuration).to_lowercase(),
        text(&block.configuration_digest),
        text(&block.tool),
        text(&block.command.join(" ")),
        text(&around.server_cores),
        text(&around.tool_cores),
        text(&around.backend_cores),
        around.tool_busy.to_string(),
        around.steal_s.to_string(),
        around.context_switches.to_string(),
        around.load_average.to_string(),
        text(&block.raw),
        text(block.failure.as_deref().unwrap_or_default()),
    ]);
    fields
}

/// The figure's name as data files have it.
fn name(figure: Figure) -> String {
    let value = serde_json::to_value(figure).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Text that a spreadsheet does not take for a formula.
fn text(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if is_formula { format!("'{text}") } else { text.to_owned() }
}

fn line(fields: impl Iterator<Item = String>) -> String {
    let quoted = |field: String| match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    };
    fields.map(quoted).collect::<Vec<_>>().join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::findings;
    use crate::model::block::tests::block;
    use crate::show::report::fixture::blocks_of;

    #[test]
    fn a_line_a_block_with_all_figures() {
        let mut first = block("nginx", "l", 10, &[(Figure::RequestsPerS, 1234.5)]);
        first.version = "a,\"b\"".into();
        first.origin = "=1+1".into();
        let second = block("apache", "l", 10, &[(Figure::P99Ms, 4.0)]);
        let csv = of_blocks(&[&first, &second]);
        let lines: Vec<&str> = csv.split_terminator("\r\n").collect();
        assert!(lines[0].ends_with(",failure,requests_per_s,p99_ms"), "{csv}");
        assert!(lines[1].contains(",\"a,\"\"b\"\"\",'=1+1,") && lines[1].ends_with(",1234.5,"), "{csv}");
        assert!(lines[2].ends_with(",,4"), "{csv}");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn phases_have_five_columns_each() {
        let mut first = block("nginx", "l", 10, &[(Figure::P99Ms, 4.0)]);
        first.phases.insert(Phase::Waiting, Spread::from([0.0, 6.0, 1.5, 5.0, 80.0]));
        let csv = of_blocks(&[&first, &block("apache", "l", 10, &[])]);
        let lines: Vec<&str> = csv.split_terminator("\r\n").collect();
        let names = ",p99_ms,waiting_min_ms,waiting_mean_ms,waiting_sd_ms,waiting_median_ms,waiting_max_ms";
        assert!(lines[0].ends_with(names), "{csv}");
        assert!(lines[1].ends_with(",4,0,6,1.5,5,80") && lines[2].ends_with(",,,,,,"), "{csv}");
    }

    /// Twenty turns of a lead of 1.3 times and of an equal pair: the file has what a reader needs to compute both again.
    #[test]
    fn a_line_a_ratio_with_test_and_p_values() {
        let condition = |kind: &str| {
            format!(
                "[[findings]]\nid = '{kind}'\nclaim = 'c'\nholds_when = [{{ is = '{kind}', figure = 'requests_per_s', \
                 load = 'l', of = 'nginx', over = 'apache'{} }}]\n",
                if kind == "ratio" { ", low = 1.2, high = 1.4" } else { "" }
            )
        };
        let experiment = Experiment::parse(&format!(
            "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = ['nginx', 'apache']\n\
             [[loads]]\nid = 'l'\ntitle = 'l'\nclients = 10\nseconds = 1.0\n{}{}",
            condition("better"),
            condition("ratio")
        ))
        .unwrap();
        let lines = |turns: usize| -> Vec<Vec<String>> {
            let blocks = blocks_of(&[("nginx", &vec![130.0; turns]), ("apache", &vec![100.0; turns])]);
            let answers = findings::answer(&experiment, &blocks, &blocks[0].machine);
            let csv = of_ratios(&[(&experiment, answers)]);
            csv.split_terminator("\r\n").map(|row| row.split(',').map(str::to_owned).collect()).collect()
        };
        let full = lines(20);
        assert_eq!((full.len(), full[0].len()), (3, RATIO_COLUMNS.len()), "{full:?}");
        let value = |rows: &[Vec<String>], row: usize, name: &str| {
            let column = rows[0].iter().position(|column| column == name).unwrap();
            rows[row][column].clone()
        };
        let shared =
            ["e", "better", "l", "", "nginx", "apache", "10 clients", "requests_per_s", "130", "100"];
        assert_eq!(full[1][..10], shared);
        for (row, test) in [(1, "two-sided bootstrap of the median"), (2, "TOST by bootstrap of the median")]
        {
            assert_eq!(
                ["ratio", "ratio_low", "turns"].map(|name| value(&full, row, name)),
                ["1.3", "1.3", "20"]
            );
            assert_eq!(value(&full, row, "test"), test);
            assert_eq!(["outcome", "verdict"].map(|name| value(&full, row, name)), ["met", "holds"]);
        }
        let bounds = ["at_least", "at_most"].map(|name| [1, 2].map(|row| value(&full, row, name)));
        assert_eq!(bounds, [["1", "1.2"], ["", "1.4"]]);
        let p = |name: &str| -> f64 { value(&full, 1, name).parse().unwrap() };
        assert!(p("p") < 1e-5 && (p("p_holm") / p("p") - 1.0).abs() < 1e-9, "the larger of two: {full:?}");
        let halved: f64 = value(&full, 2, "p").parse().unwrap();
        let corrected: f64 = value(&full, 2, "p_holm").parse().unwrap();
        assert!((corrected / halved - 2.0).abs() < 1e-9, "the smaller of two: {full:?}");
        let few = lines(6);
        assert_eq!(["indicative", "p_direction_holm"].map(|name| value(&few, 1, name)), ["true", ""]);
        assert_eq!([1, 2].map(|row| value(&few, row, "outcome")), ["met", "met"]);
        assert!(["p", "p_holm"].iter().all(|name| !value(&few, 1, name).is_empty()));
    }

    #[test]
    fn the_summary_has_a_line_a_figure() {
        let blocks: Vec<Block> = (0..3)
            .map(|turn| Block {
                turn,
                ..block("nginx", "l", 10, &[(Figure::RequestsPerS, 100.0 + f64::from(turn))])
            })
            .collect();
        let csv = of_summary(&Summary::of(&blocks));
        assert!(csv.ends_with("\r\ne,l,nginx,10,1,requests_per_s,101,100,102,3\r\n"), "{csv}");
    }
}
