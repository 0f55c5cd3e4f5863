//! What speaks against figures, for the first screen: the audit's weightiest remarks, and how much time the load tool had left.

use super::document::{Part, Span, Target, Text, slug};
use super::format;
use super::summary::{Summary, Work};
use crate::judge::audit::{Remark, TOOL_FULL, weightiest};
use crate::judge::statistics::median;
use crate::model::block::{Circumstances, core_numbers};
use crate::model::experiment::{Experiment, Kind};

/// So many of the audit's remarks are shown.
const REMARKS: usize = 5;

/// So many loads are named.
const NAMED: usize = 3;

/// The audit's weightiest remarks, each with its experiment. Nothing if figures contradict nothing.
pub(super) fn audit(experiments: &[&Experiment], remarks: &[Remark]) -> Vec<Part> {
    let items: Vec<Text> = weightiest(remarks, REMARKS)
        .into_iter()
        .filter_map(|remark| {
            let experiment = experiments.iter().find(|experiment| experiment.id == remark.experiment)?;
            let words = first_sentence(&remark.to_string());
            let link = Span::Link("All of it".into(), Target::Here(slug(&experiment.id)));
            Some(
                Text::default()
                    .stress(format!("{}: ", experiment.title))
                    .say(format!("{words} "))
                    .and(link)
                    .say("."),
            )
        })
        .collect();
    if items.is_empty() {
        return Vec::new();
    }
    let words = match remarks.len() {
        1 => "one figure or conclusion, published or measured, does not fit the others.".to_owned(),
        all if all == items.len() => {
            format!("{all} figures or conclusions, published or measured, do not fit others.")
        }
        all => format!(
            "{all} figures or conclusions, published or measured, do not fit others. The {} that weigh most:",
            items.len()
        ),
    };
    vec![Part::Text(Text::default().stress("The audit: ").say(words)), Part::List(items)]
}

/// How much of its time the load tool had left. `None` if no load was measured.
pub(super) fn headroom(summary: &Summary<'_>, works: &[Work<'_>]) -> Option<Text> {
    let mut left = Vec::new();
    let mut full = Vec::new();
    let mut shared = 0;
    for work in works.iter().filter(|work| work.load.kind == Kind::Load) {
        match busiest(summary, work) {
            Busy::Shared => shared += 1,
            Busy::Own(share) if share > TOOL_FULL => full.push(format!("“{}”", work.title())),
            Busy::Own(share) => left.push(1.0 - share),
            Busy::Unknown => {}
        }
    }
    let all = left.len() + full.len() + shared;
    if all == 0 {
        return None;
    }
    let mut words = Vec::new();
    if let Some(least) = left.iter().copied().reduce(f64::min) {
        let of_all = format!("in {} of {} it had", left.len(), format::counted(all, "load"));
        words.push(format!(
            "{of_all} at least {} of its time left, so the servers were the limit",
            format::percent(least)
        ));
    }
    if !full.is_empty() {
        let count = full.len();
        let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
        full.truncate(NAMED);
        words.push(format!(
            "in {count} it had none left with at least one server, so fast servers look alike there ({}{more})",
            full.join(", ")
        ));
    }
    if shared > 0 {
        words.push(format!("in {shared} it shared the server's cores, so rates allow no verdict there"));
    }
    Some(Text::default().stress("The load tool: ").say(format!("{}.", words.join("; "))))
}

/// How busy the load tool was.
enum Busy {
    /// With the server that needed most of it, this part of the tool's own cores.
    Own(f64),
    /// The tool ran on the server's cores.
    Shared,
    /// No figures.
    Unknown,
}

/// The load tool under a load: the largest of the medians over turns.
fn busiest(summary: &Summary<'_>, work: &Work<'_>) -> Busy {
    let mut most = Busy::Unknown;
    for contender in &work.contenders {
        for clients in &work.clients {
            let blocks = summary.measured(&work.cell(contender, *clients));
            if blocks.iter().any(|block| block.circumstances.tool_shares_cores()) {
                return Busy::Shared;
            }
            let part = |around: &Circumstances| {
                let count = core_numbers(&around.tool_cores).len();
                (count > 0).then(|| around.tool_busy / count as f64)
            };
            let parts: Vec<f64> = blocks.iter().filter_map(|block| part(&block.circumstances)).collect();
            let middle = median(&parts);
            most = match most {
                _ if middle.is_nan() => most,
                Busy::Own(other) => Busy::Own(other.max(middle)),
                _ => Busy::Own(middle),
            };
        }
    }
    most
}

/// The words up to the first full stop that a space follows.
fn first_sentence(words: &str) -> String {
    words.split_once(". ").map_or_else(|| words.to_owned(), |(first, _)| format!("{first}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::audit;
    use crate::model::block::Block;
    use crate::show::report::fixture::blocks_of;

    fn experiment() -> Experiment {
        Experiment::parse(
            "id = 'e'\ntitle = 'Title'\nquestion = 'q'\ncontenders = ['nginx', 'apache']\n\
             [[loads]]\nid = 'l'\ntitle = 'Small'\nclients = 10\nseconds = 1.0\n",
        )
        .unwrap()
    }

    fn said(busy: [f64; 2], tool_cores: &str, server_cores: &str) -> String {
        let mut blocks = blocks_of(&[("nginx", &[100.0; 3]), ("apache", &[80.0; 3])]);
        for block in &mut blocks {
            let index = usize::from(block.cell.contender == "apache");
            block.circumstances.tool_busy = busy[index];
            block.circumstances.tool_cores = tool_cores.into();
            block.circumstances.server_cores = server_cores.into();
        }
        let (summary, experiment) = (Summary::of(&blocks), experiment());
        headroom(&summary, &summary.works(&experiment)).map(|text| format!("{text:?}")).unwrap_or_default()
    }

    #[test]
    fn the_headroom_is_that_with_the_server_that_needs_most() {
        let left = said([1.2, 0.4], "1-2", "0");
        assert!(left.contains("in 1 of 1 load it had at least 40"), "{left}");
        let full = said([1.98, 0.4], "1-2", "0");
        assert!(full.contains("in 1 it had none left") && full.contains("(“Small”)"), "{full}");
        assert!(!full.contains("at least 4"), "{full}");
        let shared = said([1.0, 1.0], "0-1", "0");
        assert!(
            shared.contains("in 1 it shared the server's cores") && !shared.contains("none left"),
            "{shared}"
        );
        assert!(headroom(&Summary::of(&[]), &[]).is_none());
    }

    #[test]
    fn the_audit_is_five_lines_with_links() {
        let all = Experiment::built_in().unwrap();
        let experiments: Vec<&Experiment> = all.iter().collect();
        let none: &[Block] = &[];
        let remarks: Vec<Remark> = all.iter().flat_map(|experiment| audit::audit(experiment, none)).collect();
        let parts = audit(&experiments, &remarks);
        let Some(Part::List(items)) = parts.get(1) else { panic!("{parts:?}") };
        assert_eq!(items.len(), REMARKS);
        let text = format!("{parts:?}");
        assert!(text.contains("The 5 that weigh most:") && text.contains("static-and-dynamic"), "{text}");
        let first = format!("{:?}", items[0]);
        assert!(
            first.contains("does not follow from the published figures.") && !first.contains("It says"),
            "{first}"
        );
        assert!(audit(&experiments, &[]).is_empty());
    }
}
