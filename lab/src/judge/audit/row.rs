//! The figures of one contender under one load, as the audit sees them, published or measured.

use std::collections::BTreeMap;

use crate::model::block::{self, Block};
use crate::model::experiment::{Experiment, Generator, Load};
use crate::model::figure::Figure;
use crate::model::order::Amount;

/// How many bytes for each response may come from responses that were cut off. Beyond that the length of a head cannot be
/// computed.
const CUT_OFF_MAX: f64 = 20.0;

/// One contender under one load.
pub(super) struct Row<'a> {
    pub(super) load: &'a Load,
    pub(super) contender: &'a str,
    /// How many clients there were, where it is known.
    pub(super) clients: Option<u32>,
    /// Where the load came from, if the figures are published.
    pub(super) published: Option<Generator>,
    /// How many requests were to be sent, if the load is a number of requests and not a time.
    pub(super) requests: Option<f64>,
    /// The length of the file that was asked for here.
    pub(super) file_bytes: Option<f64>,
    /// The block, if the figures are measured.
    pub(super) block: Option<&'a Block>,
    figures: &'a BTreeMap<Figure, f64>,
}

impl<'a> Row<'a> {
    /// The published rows of an experiment, in the order of its file.
    pub(super) fn published(experiment: &'a Experiment) -> Vec<Row<'a>> {
        let generator = experiment.source.as_ref().map_or(Generator::Unknown, |source| source.generator);
        let row = |published: &'a crate::model::experiment::Published| {
            let load = experiment.loads.iter().find(|load| load.id == published.load)?;
            Some(Row {
                load,
                contender: &published.contender,
                clients: published.clients,
                published: Some(generator),
                requests: load.requests.map(|requests| requests as f64),
                file_bytes: file_bytes(experiment, load, &published.contender),
                block: None,
                figures: &published.figures,
            })
        };
        experiment.published.iter().filter_map(row).collect()
    }

    /// The measured rows, one for each block. Second copies of a contender (twins) are left out.
    pub(super) fn measured(experiment: &'a Experiment, blocks: &'a [Block]) -> Vec<Row<'a>> {
        let row = |block: &'a Block| {
            let cell = &block.cell;
            let load = experiment.loads.iter().find(|load| load.id == cell.load)?;
            Some(Row {
                load,
                contender: &cell.contender,
                clients: Some(cell.clients),
                published: None,
                // A block that was shortened in a full run ended after a time.
                requests: requests(load, block).filter(|_| block.quick || block.share.is_none()),
                file_bytes: file_bytes(experiment, load, &block.cell.contender),
                block: Some(block),
                figures: &block.figures,
            })
        };
        let of_experiment = blocks.iter().filter(|block| block.cell.experiment == experiment.id);
        let usable = of_experiment
            .filter(|block| block.failure.is_none() && block::original_of(&block.cell.contender).is_none());
        usable.filter_map(row).collect()
    }

    /// The tool that sent the load.
    pub(super) fn tool(&self) -> String {
        let measured = self.block.map(|block| block.tool.split(' ').next().unwrap_or_default().to_owned());
        measured.unwrap_or_else(|| self.load.tool.to_string())
    }

    /// Which repetition it is.
    pub(super) fn turn(&self) -> u32 {
        self.block.map_or(0, |block| block.turn)
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

    /// Bytes of the head of an answer. If the load is a time, each client may have received a part of one more answer at its
    /// end. Of large answers that part is too much to know the head.
    pub(super) fn head(&self) -> Option<f64> {
        let content = self.content()?;
        if self.block.is_some() && self.requests.is_none() {
            let answers = self.get(Figure::RequestsPerS)? * self.get(Figure::TotalS)?;
            let cut_off = content * f64::from(self.clients.unwrap_or(0)) / answers;
            (cut_off < CUT_OFF_MAX).then_some(())?;
        }
        Some(self.answer()? - content)
    }

    /// What left the server in a second.
    pub(super) fn bytes_per_s(&self) -> Option<f64> {
        let by_rate = || Some(self.get(Figure::RequestsPerS)? * self.content().or(self.file_bytes)?);
        self.get(Figure::BytesPerS).or_else(by_rate)
    }
}

/// The requests of a block: the load's number, or as many times that as are nearest to what was answered or failed, since a
/// short number is repeated within a block.
fn requests(load: &Load, block: &Block) -> Option<f64> {
    let Some(Amount::Requests(requests)) = load.amount(block.quick) else { return None };
    let figure = |figure: Figure| block.figures.get(&figure).copied();
    let answered = figure(Figure::RequestsPerS).zip(figure(Figure::TotalS)).map(|(rate, total)| rate * total);
    let all = answered.unwrap_or_default() + figure(Figure::Failed).unwrap_or_default();
    Some(requests as f64 * (all / requests as f64).round().max(1.0))
}

fn file_bytes(experiment: &Experiment, load: &Load, contender: &str) -> Option<f64> {
    let path = load.path_for(contender).trim_start_matches('/');
    let path = if path.is_empty() { "index.html" } else { path };
    let file = experiment.files.iter().find(|file| file.path.trim_start_matches('/') == path)?;
    Some(file.length as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::block::tests::block;

    #[test]
    fn a_block_repeats_its_requests() {
        let text = "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = []\n\
             [[loads]]\nid = 'l'\ntitle = 'l'\nclients = 10\nrequests = 1000\n";
        let load = Experiment::parse(text).unwrap().loads.remove(0);
        let sent = |rate: f64, failed: f64| {
            let figures = [(Figure::RequestsPerS, rate), (Figure::TotalS, 2.0), (Figure::Failed, failed)];
            requests(&load, &block("a", "l", 10, &figures))
        };
        assert_eq!(
            [sent(20_000.0, 0.0), sent(19_990.0, 20.0), sent(10.0, 0.0)],
            [40_000.0, 40_000.0, 1000.0].map(Some)
        );
    }
}
