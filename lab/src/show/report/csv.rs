//! The figures as comma-separated values (RFC 4180): a line a cell and turn for each experiment, and a summary.

use std::collections::BTreeSet;

use super::summary::Summary;
use crate::model::block::{Block, Cell};
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
    use crate::model::block::tests::block;

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
