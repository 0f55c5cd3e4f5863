//! On what all was measured: the machine, what else ran, the noise floor, and the contenders with their origins.

use std::collections::{BTreeMap, BTreeSet};

use super::document::{Group, Part, Section, Span, Table, Text};
use super::format;
use super::summary::Summary;
use crate::judge::statistics::median;
use crate::model::block::{Block, Circumstances, original_of};
use crate::model::machine::Machine;

/// The section about them.
pub(super) fn section(summary: &Summary<'_>) -> Section {
    let blocks = summary.blocks();
    let mut parts = vec![Part::Table(machines(blocks))];
    parts.push(Part::Table(circumstances(blocks)));
    parts.extend(busy(blocks).map(Part::Note));
    parts.extend(shared_cores(blocks).map(Part::Note));
    parts.extend(noise(summary));
    parts.push(Part::Table(contenders(blocks)));
    parts.push(Part::Table(tools(blocks)));
    Section { id: "machine".into(), title: "On what it was measured".into(), parts, group: Group::Overview }
}

fn machines(blocks: &[Block]) -> Table {
    let mut all: Vec<(&Machine, usize)> = Vec::new();
    for block in blocks {
        match all.iter_mut().find(|(machine, _)| **machine == block.machine) {
            Some((_, count)) => *count += 1,
            None => all.push((&block.machine, 1)),
        }
    }
    let columns = ["Processor", "#cores", "#memory", "Kernel", "System", "Frequency", "Kind", "#runs"];
    let mut table = Table::new("The machine", columns);
    for (machine, count) in all {
        let governor = if machine.governor.is_empty() { "not told" } else { &machine.governor };
        let kind = if machine.virtual_machine {
            "virtual: its neighbours cost time"
        } else {
            "physical, as far as it tells"
        };
        table.row([
            machine.processor.clone(),
            machine.cores.to_string(),
            format::bytes(machine.memory_bytes as f64),
            machine.kernel.clone(),
            machine.system.clone(),
            governor.to_owned(),
            kind.to_owned(),
            format::count(count),
        ]);
    }
    table
}

fn circumstances(blocks: &[Block]) -> Table {
    let mut table = Table::new("What else took part, run by run", ["What", "#median", "#most"]);
    let mut row = |what: &str, value: fn(&Circumstances) -> f64| {
        let values: Vec<f64> = blocks.iter().map(|block| value(&block.circumstances)).collect();
        let most = values.iter().copied().fold(0.0, f64::max);
        table.row([what.to_owned(), format::number(median(&values)), format::number(most)]);
    };
    row("load average before a run", |around| around.load_average);
    row("cores that other programs kept busy before a run", |around| around.busy_before);
    row("cores that the load tool kept busy", |around| around.tool_busy);
    row("time that the hypervisor took, s", |around| around.steal_s);
    row("context switches of the server", |around| around.context_switches as f64);
    table
}

/// A warning where other programs were busy.
fn busy(blocks: &[Block]) -> Option<Text> {
    let count = blocks.iter().filter(|block| block.circumstances.is_busy()).count();
    (count > 0).then(|| {
        Text::from(format!(
            "{} of {} runs began while other programs kept the machine busy. Their figures are shown, and no verdict \
             rests on them.",
            format::count(count),
            format::count(blocks.len())
        ))
    })
}

/// A warning where the tool ran on the contender's cores.
fn shared_cores(blocks: &[Block]) -> Option<Text> {
    let shared = |block: &&Block| {
        let (server, tool) =
            (cores(&block.circumstances.server_cores), cores(&block.circumstances.tool_cores));
        !server.is_disjoint(&tool)
    };
    let count = blocks.iter().filter(shared).count();
    (count > 0).then(|| {
        Text::from(format!(
            "In {} of {} runs the load tool ran on cores of the server: the two took time from each other, and \
             rates are lower than the server could reach alone.",
            format::count(count),
            format::count(blocks.len())
        ))
    })
}

/// The cores of a list such as `0-2,5`.
fn cores(list: &str) -> BTreeSet<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().ok()?;
        let last: u32 = last.trim().parse().ok()?;
        Some(first..=last.min(first.saturating_add(1024)))
    };
    list.split(',').filter_map(range).flatten().collect()
}

fn noise(summary: &Summary<'_>) -> Vec<Part> {
    let twins = summary.twins();
    if twins.is_empty() {
        let words = "No server was measured against its twin: the noise floor of this machine is not known, and small differences may be chance.";
        return vec![Part::Note(words.into())];
    }
    let caption = "The noise floor: one program measured as if it were two";
    let mut table =
        Table::new(caption, ["Server", "Experiment", "Load", "#clients", "#cores", "#twin's rate", "#turns"]);
    for twin in twins {
        let cell = twin.cell;
        table.row([
            cell.contender.as_str().into(),
            cell.experiment.as_str().into(),
            cell.load.as_str().into(),
            format::count(cell.clients).into(),
            cell.cores.to_string().into(),
            format::percent_range(twin.ratio, twin.turns),
            twin.turns.to_string().into(),
        ]);
    }
    vec![Part::Table(table)]
}

fn contenders(blocks: &[Block]) -> Table {
    type Key<'a> = (&'a str, &'a str, &'a str, &'a [String]);
    let mut all: BTreeMap<Key<'_>, (BTreeSet<&str>, usize)> = BTreeMap::new();
    // What was not found has no version; the section on what gave no figures tells why.
    let known = |block: &&Block| original_of(&block.cell.contender).is_none() && !block.version.is_empty();
    for block in blocks.iter().filter(known) {
        let (name, version) = (block.cell.contender.as_str(), block.version.as_str());
        let key = (name, version, block.origin.as_str(), block.parts.as_slice());
        let (digests, count) = all.entry(key).or_default();
        if !block.configuration_digest.is_empty() {
            digests.insert(&block.configuration_digest);
        }
        *count += 1;
    }
    let columns = ["Server", "Version, as it says it", "Origin", "Together with", "Configurations", "#runs"];
    let mut table = Table::new("The servers", columns);
    for ((contender, version, origin, parts), (digests, count)) in all {
        let mut configurations = Text::default();
        for (index, digest) in digests.iter().enumerate() {
            configurations =
                configurations.say(if index > 0 { " " } else { "" }).and(Span::Code((*digest).to_owned()));
        }
        let version = Text::from(Span::Code(version.to_owned()));
        let parts = Text::from(parts.join(", "));
        let count = format::count(count).into();
        table.row([contender.into(), version, origin.into(), parts, configurations, count]);
    }
    table
}

fn tools(blocks: &[Block]) -> Table {
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    // Where nothing ran, no tool did.
    for block in blocks.iter().filter(|block| !block.tool.is_empty()) {
        *all.entry(&block.tool).or_default() += 1;
    }
    let mut table = Table::new("The load tools", ["Tool and version", "#runs"]);
    for (tool, count) in all {
        table.row([Text::from(Span::Code(tool.to_owned())), format::count(count).into()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::block::tests::block;

    #[test]
    fn cores_of_a_list() {
        assert_eq!(cores("0-2,5"), BTreeSet::from([0, 1, 2, 5]));
        assert_eq!(cores(""), BTreeSet::new());
        assert_eq!(cores("x-1,0-4294967295").len(), 1025, "a wrong list costs no memory");
    }

    #[test]
    fn what_did_not_run_has_no_line() {
        let mut missing = block("cherokee", "l", 1, &[]);
        missing.version.clear();
        missing.tool.clear();
        let blocks = [block("nginx", "l", 1, &[]), missing];
        assert_eq!((contenders(&blocks).rows.len(), tools(&blocks).rows.len()), (1, 1));
    }

    #[test]
    fn an_interpreter_is_named_with_its_version() {
        let plain = block("nginx", "l", 1, &[]);
        let mut with_php = block("nginx", "php", 1, &[]);
        with_php.parts = vec!["PHP-FPM 8".into(), "MariaDB 10".into()];
        let rows = contenders(&[plain, with_php]).rows;
        assert_eq!(rows.len(), 2);
        assert!(format!("{:?}", rows[1]).contains("PHP-FPM 8, MariaDB 10"));
    }

    #[test]
    fn blocks_on_a_busy_machine_are_counted() {
        let mut blocks = [block("nginx", "l", 1, &[]), block("nginx", "l", 1, &[])];
        assert!(busy(&blocks).is_none());
        blocks[1].circumstances.busy_before = 1.0;
        assert!(format!("{:?}", busy(&blocks)).contains("1 of 2 runs began"));
    }

    #[test]
    fn shared_cores_are_told() {
        let with = |server: &str, tool: &str| {
            let mut block = block("nginx", "l", 1, &[]);
            block.circumstances.server_cores = server.into();
            block.circumstances.tool_cores = tool.into();
            block
        };
        assert!(shared_cores(&[with("0", "1")]).is_none());
        assert!(shared_cores(&[with("0", "1"), with("0-1", "1")]).is_some());
    }
}
