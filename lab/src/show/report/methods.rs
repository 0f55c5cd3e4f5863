//! A paragraph for the “Methods” section of an article: what was done, with the tests by name and their numbers.

use std::collections::BTreeSet;

use super::document::{Group, Part, Section};
use super::format;
use super::summary::Summary;
use crate::judge::findings::{Answer, Ratio};
use crate::judge::statistics::{FEWEST, RESAMPLES};
use crate::model::block::{Block, original_of};
use crate::model::experiment::{Experiment, TURNS};
use crate::model::random::SEED;

/// The section; `None` if nothing was measured.
pub(super) fn section(summary: &Summary<'_>, answers: &[(&Experiment, Vec<Answer>)]) -> Option<Section> {
    let blocks = summary.blocks();
    let last = blocks.last()?;
    let parts = vec![
        Part::Text("These paragraphs state what was done. They may be copied.".into()),
        Part::Text(format!("{} {}", measured(blocks, last), repeated(summary)).into()),
        Part::Text(
            format!("{} {}", ESTIMATES.replace("{resamples}", &format::count(RESAMPLES)), family(answers))
                .into(),
        ),
        Part::Text(RESPONSES.into()),
        Part::List(REFERENCES.iter().map(|text| (*text).into()).collect()),
    ];
    Some(Section {
        id: "methods".into(),
        title: "For a “Methods” section".into(),
        parts,
        group: Group::Overview,
    })
}

/// How ratios are estimated and tested.
const ESTIMATES: &str = "Ratios were computed within each turn. We report the median over the turns with a 95 % interval from a \
    bootstrap over turns (percentiles of {resamples} resampled medians, expanded for small samples [1]). The p-value is the level at \
    which this interval reaches the bound that the claim names (two-sided; at least 2 ÷ 2ⁿ for n turns). That two servers are alike \
    within a margin was tested by two one-sided tests (TOST [2]) of the same kind, each at 5 %. A lead counts only if it is larger than \
    the largest difference between the medians of two copies of one program. If a lead has to be of a certain size, its size and its \
    direction are two comparisons.";

/// The tests' sources, by the numbers of the text.
const REFERENCES: [&str; 3] = [
    "[1] T. C. Hesterberg, What Teachers Should Know About the Bootstrap: Resampling in the Undergraduate Statistics Curriculum, \
     The American Statistician 69 (2015), 371 – 386.",
    "[2] D. J. Schuirmann, A comparison of the two one-sided tests procedure and the power approach for assessing the \
     equivalence of average bioavailability, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987), 657 – 680.",
    "[3] S. Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics 6 (1979), 65 – 70.",
];

/// What figures are of.
const RESPONSES: &str = "Rates, CPU times and latencies are those of correct responses. If more than 0.1 % of the requests failed, \
    each failed request counts as a latency of 10 s.";

/// The servers, the machine and the load tools.
fn measured(blocks: &[Block], last: &Block) -> String {
    let servers: BTreeSet<String> = blocks
        .iter()
        .filter(|block| original_of(&block.cell.contender).is_none() && !block.version.is_empty())
        .map(|block| {
            let program = block.cell.contender.split('-').next().unwrap_or_default();
            format!("{program} ({}; {})", block.version, block.origin)
        })
        .collect();
    let tools: BTreeSet<&str> =
        blocks.iter().map(|block| block.tool.as_str()).filter(|tool| !tool.is_empty()).collect();
    let machine = &last.machine;
    let virtual_machine = if machine.virtual_machine { ", a virtual machine" } else { "" };
    format!(
        "We measured {} with fulmar-lab {} on {} with {} and {} of memory ({}, {}{virtual_machine}). The load came over loopback from {} \
         on the same machine.",
        format::list(&servers.into_iter().collect::<Vec<_>>()),
        env!("CARGO_PKG_VERSION"),
        machine.processor,
        format::cores(machine.cores),
        format::bytes(machine.memory_bytes as f64),
        machine.system,
        machine.kernel,
        format::list(&tools.into_iter().map(str::to_owned).collect::<Vec<_>>()),
    )
}

/// How often each condition was measured, and what does not count.
fn repeated(summary: &Summary<'_>) -> String {
    let blocks = summary.blocks();
    let turns = summary.cells().map(|cell| {
        let turns: BTreeSet<u32> = summary.measured(cell).iter().map(|block| block.turn).collect();
        turns.len()
    });
    let turns: BTreeSet<usize> = turns.filter(|turns| *turns > 0).collect();
    let turns = match (turns.first(), turns.last()) {
        (Some(fewest), Some(most)) if fewest < most => format!("{fewest} to {most} turns"),
        (Some(fewest), _) => format::counted(*fewest, "turn"),
        _ => "no turn".into(),
    };
    let sittings = match sittings(blocks) {
        0 | 1 => String::new(),
        some => format!(" in {some} sittings (pauses of more than ten minutes)"),
    };
    let starts = blocks.iter().map(|block| block.start).max().unwrap_or_default() as usize + 1;
    let busy = blocks.iter().filter(|block| block.circumstances.is_busy()).count();
    let failed = blocks.iter().filter(|block| block.failure.is_some()).count();
    format!(
        "Each of {} (a server under a load, with a number of clients and of cores) was measured in {turns}{sittings}; the order of the servers \
         was reversed from turn to turn (ABBA), and their processes were started {} within a load. Of {}, {} began on a busy machine and {} \
         gave no figures; these do not count.",
        format::counted(summary.cells().count(), "condition"),
        format::counted(starts, "time"),
        format::counted(blocks.len(), "block"),
        format::count(busy),
        format::count(failed),
    )
}

/// In how many sittings the blocks were measured: a pause of more than this ends one.
fn sittings(blocks: &[Block]) -> usize {
    const PAUSE_S: f64 = 600.0;
    let mut began: Vec<f64> = blocks.iter().map(|block| block.began_s).collect();
    began.sort_by(f64::total_cmp);
    began.windows(2).filter(|pair| pair[1] - pair[0] > PAUSE_S).count() + usize::from(!began.is_empty())
}

/// Of how many comparisons each family is.
fn family(answers: &[(&Experiment, Vec<Answer>)]) -> String {
    let ratios = |answers: &[Answer]| -> Vec<Ratio> {
        answers
            .iter()
            .flat_map(|answer| &answer.evidence)
            .flat_map(|evidence| evidence.ratios.clone())
            .collect()
    };
    let all: Vec<(&str, Vec<Ratio>)> =
        answers.iter().map(|(experiment, answers)| (experiment.id.as_str(), ratios(answers))).collect();
    let comparisons = |ratios: &[Ratio]| -> usize {
        let each = ratios.iter().flat_map(|ratio| [ratio.p_holm, ratio.p_direction_holm]);
        each.flatten().count()
    };
    let families: Vec<String> = all
        .iter()
        .map(|(id, ratios)| (id, comparisons(ratios)))
        .filter(|(_, count)| *count > 0)
        .map(|(id, count)| format!("{id}, {}", format::counted(count, "comparison")))
        .collect();
    let mut words = Vec::new();
    if !families.is_empty() {
        words.push(format!(
            "The p-values of each experiment were corrected together by Holm's procedure [3] (family-wise error 5 %): {}.",
            families.join("; ")
        ));
    }
    let few = all.iter().flat_map(|(_, ratios)| ratios).filter(|ratio| ratio.turns < TURNS as usize).count();
    if few > 0 {
        words.push(format!(
            "{} had fewer than {TURNS} turns: verdicts on them are indicative, and with fewer than {FEWEST} turns there is none.",
            format::counted(few, "ratio")
        ));
    }
    words.push(format!("The seed of all resampling is {SEED:#x}."));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::findings;
    use crate::show::report::fixture::blocks_of;

    fn said(turns: usize) -> String {
        let experiment = Experiment::parse(
            "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = ['nginx', 'apache']\n\
             [[loads]]\nid = 'l'\ntitle = 'l'\nclients = 10\nseconds = 1.0\n\
             [[findings]]\nid = 'F1'\nclaim = 'c'\n\
             holds_when = [{ is = 'better', figure = 'requests_per_s', load = 'l', of = 'nginx', over = 'apache' }]\n",
        )
        .unwrap();
        let mut blocks = blocks_of(&[("nginx", &vec![130.0; turns]), ("apache", &vec![100.0; turns])]);
        blocks[0].start = 2;
        blocks[0].began_s -= if turns > 20 { 1e5 } else { 0.0 };
        if let Some(last) = blocks.last_mut() {
            last.failure = Some("it ended".into());
        }
        let answers = findings::answer(&experiment, &blocks, &blocks[0].machine);
        format!("{:?}", section(&Summary::of(&blocks), &[(&experiment, answers)]).unwrap().parts)
    }

    #[test]
    fn the_paragraph_names_the_tests_and_their_numbers() {
        let full = said(21);
        for words in [
            "2 conditions",
            "in 20 to 21 turns in 2 sittings (pauses",
            "started 3 times",
            "Of 42 blocks, 0 began on a busy machine and 1 gave no figures",
            "10,000 resampled medians",
            "TOST [2]",
            "Holm's procedure [3] (family-wise error 5 %): e, 1 comparison.",
            "S. Holm",
        ] {
            assert!(full.contains(words), "{words}: {full}");
        }
        assert!(!full.contains("indicative"), "{full}");
        let few = said(7);
        assert!(
            few.contains("1 ratio had fewer than 20 turns") && few.contains("Holm's procedure [3]"),
            "{few}"
        );
        assert!(!few.contains("sittings"), "{few}");
        assert!(section(&Summary::of(&[]), &[]).is_none());
    }
}
