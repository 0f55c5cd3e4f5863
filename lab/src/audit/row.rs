//! The figures of one cell as the audit sees them, published or measured.

use std::collections::BTreeMap;

use crate::block::Block;
use crate::experiment::{Experiment, Generator, Load};
use crate::figure::Figure;
use crate::statistics::median;
use crate::tool::Amount;

/// One contender under one load.
pub(super) struct Row<'a> {
    pub(super) load: &'a Load,
    pub(super) contender: &'a str,
    /// How many clients there were, where it is known.
    pub(super) clients: Option<u32>,
    /// Where the load came from, if the figures are published.
    pub(super) published: Option<Generator>,
    /// How many requests were to be sent, where their number ends the load.
    pub(super) requests: Option<f64>,
    /// The length of the file that was asked for here.
    pub(super) file_bytes: Option<f64>,
    /// The blocks that were measured.
    pub(super) blocks: Vec<&'a Block>,
    figures: BTreeMap<Figure, f64>,
}

impl<'a> Row<'a> {
    /// The published rows of an experiment, in the order of its file.
    pub(super) fn published(experiment: &'a Experiment) -> Vec<Row<'a>> {
        let generator = experiment.source.as_ref().map_or(Generator::Unknown, |source| source.generator);
        let row = |published: &'a crate::experiment::Published| {
            let load = experiment.loads.iter().find(|load| load.id == published.load)?;
            Some(Row {
                load,
                contender: &published.contender,
                clients: published.clients,
                published: Some(generator),
                requests: requests(load, false),
                file_bytes: file_bytes(experiment, load),
                blocks: Vec::new(),
                figures: published.figures.clone(),
            })
        };
        experiment.published.iter().filter_map(row).collect()
    }

    /// The measured rows: the medians of all turns. Twins are left out.
    pub(super) fn measured(experiment: &'a Experiment, blocks: &'a [Block]) -> Vec<Row<'a>> {
        let mut cells: BTreeMap<(usize, &str, u32, u32), Vec<&Block>> = BTreeMap::new();
        for block in
            blocks.iter().filter(|block| block.cell.experiment == experiment.id && block.failure.is_none())
        {
            let cell = &block.cell;
            let load = experiment.loads.iter().position(|load| load.id == cell.load);
            if let (Some(load), false) = (load, cell.contender.ends_with("-twin")) {
                cells.entry((load, &cell.contender, cell.cores, cell.clients)).or_default().push(block);
            }
        }
        let rows = cells.into_iter().map(|((load, contender, _, clients), blocks)| {
            let load = &experiment.loads[load];
            Row {
                load,
                contender,
                clients: Some(clients),
                published: None,
                requests: requests(load, blocks.iter().any(|block| block.quick)),
                file_bytes: file_bytes(experiment, load),
                figures: medians(&blocks),
                blocks,
            }
        });
        rows.collect()
    }

    /// A figure, if there is one.
    pub(super) fn get(&self, figure: Figure) -> Option<f64> {
        self.figures.get(&figure).copied().filter(|value| value.is_finite())
    }

    /// Bytes of the content of an answer, as the figures say.
    pub(super) fn content(&self) -> Option<f64> {
        let total = self.get(Figure::TotalContentBytes);
        total.and_then(|total| Some(total / self.requests?)).or(self.get(Figure::ContentBytes))
    }

    /// Bytes of an answer with its head.
    pub(super) fn answer(&self) -> Option<f64> {
        let total = self.get(Figure::TotalBytes).and_then(|total| Some(total / self.requests?));
        let by_rate = || Some(self.get(Figure::BytesPerS)? / self.get(Figure::RequestsPerS)?);
        total.or(self.get(Figure::BytesPerAnswer)).or_else(by_rate)
    }

    /// Bytes of the head of an answer.
    pub(super) fn head(&self) -> Option<f64> {
        Some(self.answer()? - self.content()?)
    }

    /// What left the server in a second.
    pub(super) fn bytes_per_s(&self) -> Option<f64> {
        let by_rate = || Some(self.get(Figure::RequestsPerS)? * self.content().or(self.file_bytes)?);
        self.get(Figure::BytesPerS).or_else(by_rate)
    }
}

fn requests(load: &Load, quick: bool) -> Option<f64> {
    match load.amount(quick) {
        Some(Amount::Requests(requests)) => Some(requests as f64),
        _ => None,
    }
}

fn file_bytes(experiment: &Experiment, load: &Load) -> Option<f64> {
    let path = load.path.trim_start_matches('/');
    let path = if path.is_empty() { "index.html" } else { path };
    let file = experiment.files.iter().find(|file| file.path.trim_start_matches('/') == path)?;
    Some(file.length as f64)
}

fn medians(blocks: &[&Block]) -> BTreeMap<Figure, f64> {
    let mut all: BTreeMap<Figure, Vec<f64>> = BTreeMap::new();
    for (figure, value) in blocks.iter().flat_map(|block| &block.figures) {
        all.entry(*figure).or_default().push(*value);
    }
    all.into_iter().map(|(figure, values)| (figure, median(&values))).collect()
}
