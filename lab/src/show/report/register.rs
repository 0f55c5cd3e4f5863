//! The register of claims as a page: what was published, what would have to be measured for it to hold, what was measured, and
//! what the author answers.

use super::document::{Document, Group, Part, Section, Table, Text, slug};
use super::{markdown, verdict};
use crate::judge::findings::Answer;
use crate::model::experiment::{Experiment, Finding, Source};

/// What the page says first.
const LEAD: &str = "Claims of published comparisons. Each is a file in lab/claims, and you can add one: the source, the \
    published figures, and what has to be measured for the claim to hold. The verdict is that of the named measurements; on \
    another machine it may be another one. Authors are welcome to answer: their answer stands next to the verdict. Not claims: \
    shares of the market, and figures about browsers and networks.";

/// The page, with the answers by measurements if there are some. `measured` names them: an archive, or a folder.
pub fn register(claims: &[(&Experiment, Vec<Answer>)], measured: Option<&str>) -> String {
    let published = claims.iter().filter_map(|(experiment, answers)| {
        let source = experiment.source.as_ref()?;
        Some(section(experiment, source, answers))
    });
    let lead = match measured {
        Some(name) => format!("{LEAD} Measured: {name}."),
        None => format!(
            "{LEAD} This page has no measurements: `fulmar-lab claims --from ARCHIVE --write FILE` adds them."
        ),
    };
    markdown::write(&Document { title: "The register of claims".into(), lead, sections: published.collect() })
}

fn section(experiment: &Experiment, source: &Source, answers: &[Answer]) -> Section {
    let by = if source.authors.is_empty() { String::new() } else { format!("{}: ", source.authors) };
    let text = format!("{by}{} ({}). {}.", source.title, source.year, source.machine.trim_end_matches('.'));
    let mut table = Table::new(
        format!("Claims of {}", experiment.id),
        ["Claim", "Published", "Holds if", "Verdict", "The author's answer"],
    );
    for finding in &experiment.findings {
        let answer = answers.iter().find(|answer| answer.finding == finding.id);
        table.row([
            Text::default().stress(format!("{} ", finding.id)).say(&finding.claim),
            finding.quoted.clone().unwrap_or_default().into(),
            Text::lines(finding.holds_when.iter().map(|condition| Text::from(condition.to_string()))),
            answer.map_or_else(|| "not measured".into(), verdict::verdict),
            reply(finding),
        ]);
    }
    let parts = vec![Part::Text(text.into()), Part::Table(table)];
    Section { id: slug(&experiment.id), title: experiment.title.clone(), parts, group: Group::Overview }
}

fn reply(finding: &Finding) -> Text {
    let Some(reply) = &finding.answer else { return "none yet".into() };
    Text::from(reply.says.as_str()).aside(format!("{}, {}", reply.by, reply.on))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::findings;
    use crate::model::machine::Machine;

    #[test]
    fn a_claim_has_its_figures_its_bounds_and_room_for_an_answer() {
        let mut all = Experiment::built_in().unwrap();
        let text = "experiment = 'windows-hey'\nid = 'F99'\nclaim = 'Answered'\nquoted = '1 to 2'\n\
            holds_when = [{ is = 'answers_all', load = 'hey', of = 'nginx' }]\n\
            [answer]\nby = 'A. Author'\non = '2026-01-01'\nsays = 'We agree.'\n";
        Experiment::add_claim(&mut all, Finding::parse(text).unwrap()).unwrap();
        let claims: Vec<(&Experiment, Vec<Answer>)> =
            all.iter().map(|one| (one, findings::answer(one, &[], &Machine::default()))).collect();
        let page = register(&claims, Some("made.tar.gz"));
        for words in [
            "Measured: made.tar.gz.",
            "48,200 against 31,400 requests per second",
            "small: nginx better than apache-event in requests/s, 1.26 times or more",
            "We agree. \\[A. Author, 2026-01-01\\]",
            "cannot be tested here",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        assert_eq!(page.matches("| none yet |").count() + 1, page.matches("\n| **F").count());
    }

    /// The page of the manual names every claim.
    #[test]
    fn the_page_of_the_manual_is_current() {
        let page = include_str!("../../../../docs/lab/claims.md");
        for experiment in Experiment::built_in().unwrap().iter().filter(|one| one.source.is_some()) {
            for finding in &experiment.findings {
                let claim = markdown::escape(&finding.claim);
                assert!(
                    page.contains(&claim),
                    "{}: write it again by `fulmar-lab claims --write`",
                    finding.claim
                );
            }
        }
    }
}
