//! What gave no figures, and why: nothing is dropped silently.

use std::collections::{BTreeMap, BTreeSet};

use super::document::{Group, Part, Section, Span, Table, Target, Text, slug};
use super::format;
use super::summary::Summary;
use crate::model::block::{Block, Cell};
use crate::model::experiment::{Experiment, Load};

/// What failed, was refused, was not run or is not known, over all experiments.
pub(super) fn section(summary: &Summary<'_>, experiments: &[Experiment]) -> Section {
    let mut parts = Vec::new();
    let mut table = Table::new(
        "By experiment",
        ["Experiment", "#runs", "#without figures", "#left out: quick beside full"],
    );
    let mut not_run = Vec::new();
    for experiment in experiments {
        let blocks = || summary.blocks().iter().filter(|block| block.cell.experiment == experiment.id);
        let failed = blocks().filter(|block| block.failure.is_some()).count();
        let used: usize = cells(summary, &experiment.id).map(|cell| summary.measured(cell).len()).sum();
        let all = blocks().count();
        if all == 0 {
            not_run.push(experiment.title.clone());
            continue;
        }
        let title = Span::Link(experiment.title.clone(), Target::Here(slug(&experiment.id)));
        let counts = [all, failed, all - failed - used].map(|count| Text::from(format::count(count)));
        table.row([Text::from(title)].into_iter().chain(counts));
    }
    if !table.rows.is_empty() {
        parts.push(Part::Table(table));
    }
    if !not_run.is_empty() {
        parts.push(Part::Text(format!("Not run: {}.", format::list(&not_run)).into()));
    }
    let known: BTreeSet<&str> = experiments.iter().map(|experiment| experiment.id.as_str()).collect();
    let unknown: BTreeSet<&str> =
        summary.cells().map(|cell| cell.experiment.as_str()).filter(|id| !known.contains(id)).collect();
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.into_iter().map(str::to_owned).collect();
        let words = format!(
            "There are runs of experiments that this report does not know; they are in the summary's CSV file only: {}.",
            format::list(&names)
        );
        parts.push(Part::Note(words.into()));
    }
    Section { id: "missing".into(), title: "What gave no figures".into(), parts, group: Group::Overview }
}

/// The same of one experiment, in full.
pub(super) fn of_experiment(summary: &Summary<'_>, experiment: &Experiment) -> Vec<Part> {
    let mut table =
        Table::new("Nothing is dropped silently", ["Load", "Server", "#cores", "#clients", "#turns", "Why"]);
    for row in failures(summary, experiment) {
        table.row(row);
    }
    for load in &experiment.loads {
        for row in missing(summary, experiment, load) {
            table.row(row);
        }
    }
    let unknown: BTreeSet<&str> = cells(summary, &experiment.id)
        .map(|cell| cell.load.as_str())
        .filter(|id| !experiment.loads.iter().any(|load| load.id == *id))
        .collect();
    for load in unknown {
        table.row([
            load,
            "",
            "",
            "",
            "",
            "the experiment has no such load any more: its runs are in the CSV file only",
        ]);
    }
    if table.rows.is_empty() {
        return Vec::new();
    }
    vec![Part::Heading("What gave no figures".into()), Part::Table(table)]
}

/// Blocks that failed, with all clients and turns that failed alike in one row.
fn failures(summary: &Summary<'_>, experiment: &Experiment) -> Vec<[String; 6]> {
    type Key<'a> = (&'a str, &'a str, u32, &'a str);
    let mut all: BTreeMap<Key<'_>, (BTreeSet<u32>, BTreeSet<u32>)> = BTreeMap::new();
    for block in summary.blocks().iter().filter(|block| block.cell.experiment == experiment.id) {
        if let Block { cell, failure: Some(failure), turn, .. } = block {
            let (clients, turns) = all.entry((&cell.load, &cell.contender, cell.cores, failure)).or_default();
            clients.insert(cell.clients);
            turns.insert(turn + 1);
        }
    }
    let row =
        |((load, contender, cores, failure), (clients, turns)): (Key<'_>, (BTreeSet<u32>, BTreeSet<u32>))| {
            let clients: Vec<u32> = clients.into_iter().collect();
            let turns: Vec<u32> = turns.into_iter().collect();
            let title =
                experiment.loads.iter().find(|known| known.id == load).map_or(load, |load| &load.title);
            [title, contender, &cores.to_string(), &format::runs(&clients), &format::runs(&turns), failure]
                .map(str::to_owned)
        };
    all.into_iter().map(row).collect()
}

/// Contenders of a load without a block.
fn missing(summary: &Summary<'_>, experiment: &Experiment, load: &Load) -> Vec<[String; 6]> {
    let row = |contender: &str, why: &str| [&load.title, contender, "", "", "", why].map(str::to_owned);
    let measured: BTreeSet<&str> = cells(summary, &experiment.id)
        .filter(|cell| cell.load == load.id)
        .map(|cell| cell.contender.as_str())
        .collect();
    if let Some(why) = load.not_yet.as_ref().filter(|_| measured.is_empty()) {
        return vec![row("all", why)];
    }
    if cells(summary, &experiment.id).next().is_none() {
        return Vec::new();
    }
    if measured.is_empty() {
        return vec![row("all", "there is no run of it: this load was not run")];
    }
    let asked = load.contenders.as_ref().unwrap_or(&experiment.contenders);
    let absent = asked.iter().filter(|name| !measured.contains(name.as_str()));
    absent
        .map(|name| row(name, "there is no run of it: it is not installed here, or was not asked for"))
        .collect()
}

fn cells<'a>(summary: &Summary<'a>, experiment: &str) -> impl Iterator<Item = &'a Cell> {
    summary.cells().filter(move |cell| cell.experiment == experiment)
}
