//! Which server to use for what, on the first page: a line for each need that a load stands for.

use super::document::{Entry, Table, Text};
use super::format;
use super::lead::{Share, Standing};
use super::leads::{Judged, Leads};
use crate::judge::statistics::FEWEST;

/// So many servers are named where there are too few runs for a verdict.
const NAMED_MAX: usize = 3;

impl Leads<'_> {
    /// The needs that were measured, each with the servers to use.
    pub(super) fn uses(&self) -> Table {
        let mut table = Table::new("Answers", ["Question", "Answer"]);
        let mut seen: Vec<&str> = Vec::new();
        for judged in &self.all {
            let Some(need) = judged.work.load.need.as_deref().filter(|need| !seen.contains(need)) else {
                continue;
            };
            if judged.lead.count() > 1 {
                seen.push(need);
                let asked = format!("Which server for {need}?");
                table.row([Entry::from(asked), judged.advice().into()]);
            }
        }
        table
    }
}

impl Judged<'_> {
    /// The servers to use, and the distance to the next ones.
    fn advice(&self) -> Text {
        let Some(first) = self.lead.first() else {
            return "no server answered all requests".into();
        };
        let measured = || self.lead.shares.iter().filter(|share| share.turns > 0);
        let runs = measured().map(|share| share.turns).min().unwrap_or_default();
        let rate = format::with_unit(self.lead.figure, first.value.median);
        if !self.has_verdict() {
            let all: Vec<String> = measured().take(NAMED_MAX).map(named).collect();
            let runs = match self.busy {
                0 => format!("{}, a verdict needs {FEWEST}", format::counted(runs, "run")),
                busy => format!(
                    "{runs} of {} began on a quiet machine, a verdict needs {FEWEST}",
                    format::counted(runs + busy, "run")
                ),
            };
            let by = self.work.load.ranked_by.map(|figure| format!(" by {}", format::named(figure)));
            let words = format!(": so far{} {}", by.unwrap_or_default(), all.join(", "));
            return Text::default().stress("no verdict yet").say(words).aside(runs);
        }
        let behind = || self.lead.shares.iter().skip(1).zip(&self.standings);
        let as_good = behind().filter(|(_, standing)| **standing != Standing::Behind);
        let mut names = vec![first.contender.to_owned()];
        names.extend(as_good.map(|(share, _)| share.contender.to_owned()));
        let next = behind().find(|(_, standing)| **standing == Standing::Behind).map(|(share, _)| share);
        let (any_of, sure, whose) = match names.len() {
            1 => ("", ", which is ahead of all others", "its"),
            _ => ("any of ", ": no difference between these is shown", "their"),
        };
        // A difference may be there that is not significant among all comparisons.
        let looks_slower = |(share, standing): &(&Share<'_>, &Standing)| {
            **standing == Standing::Unshown && share.of_best.high < 1.0
        };
        let slower: Vec<String> = behind().filter(looks_slower).map(|(share, _)| named(share)).collect();
        let doubt = match slower.is_empty() {
            true => String::new(),
            false => {
                format!(", which does not make them equal: {} by an interval below 100 %", slower.join(", "))
            }
        };
        let next = next.map(|next| self.next_in_words(next, whose)).unwrap_or_default();
        let by = self.work.load.ranked_by.map(|figure| format!("compared by {}: ", format::named(figure)));
        let named = Text::from(any_of).stress(format::list(&names)).say(format!("{sure}{doubt}{next}"));
        let runs = format::counted(runs, "run");
        named.aside(format!("{}{rate}; {runs}", by.unwrap_or_default()))
    }

    /// The distance of the next server to the best ones.
    fn next_in_words(&self, next: &Share<'_>, whose: &str) -> String {
        let (figure, share) = (format::named(self.lead.figure), next.of_best.median);
        let how = match self.lead.figure.higher_is_better() {
            Some(false) => format!("needs {:.1} times {whose} {figure}", 1.0 / share),
            _ => format!("reaches {} of {whose} {figure}", format::percent(share)),
        };
        format!(". The next, {}, {how}", next.contender)
    }
}

/// `caddy 41 %`.
fn named(share: &Share<'_>) -> String {
    format!("{} {}", share.contender, format::percent(share.of_best.median))
}

#[cfg(test)]
mod tests {
    use super::super::document::Row;
    use super::super::summary::{Summary, Work};
    use super::*;
    use crate::model::block::Block;
    use crate::model::figure::Figure;
    use crate::show::report::fixture;

    /// The only row of the table, as text.
    fn advice(rates: &[(&str, &[f64])]) -> String {
        ranked(&fixture::blocks_of(rates), "")
    }

    /// The same with another line of the load.
    fn ranked(blocks: &[Block], line: &str) -> String {
        let text = "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = ['nginx', 'apache', 'caddy']\n\
             [[loads]]\nid = 'l'\ntitle = 'l'\nclients = 10\nrequests = 1\nneed = 'static files'\n";
        let experiment = crate::model::experiment::Experiment::parse(&format!("{text}{line}\n")).unwrap();
        let summary = Summary::of(blocks);
        let works: Vec<Work<'_>> = summary.works(&experiment);
        let table = Leads::of(&summary, &works).uses();
        let [Row::Cells(cells)] = &table.rows[..] else { panic!("{table:?}") };
        format!("{:?} {:?}", cells[0].text, cells[1].text)
    }

    #[test]
    fn who_is_ahead_is_to_be_used_and_who_is_level_too() {
        let even = |rate: f64| [0.0, 1.0, 2.0, 1.0, 0.0, 1.0, 2.0, 0.0, 1.0].map(|more| rate + more);
        let (first, near, far) = (even(1000.0), even(995.0), even(400.0));
        let said = advice(&[("nginx", &first), ("caddy", &far)]);
        assert!(said.contains("static files") && said.contains("Strong(\"nginx\")"), "{said}");
        assert!(
            said.contains(". The next, caddy, reaches 40") && said.contains("ahead of all others"),
            "{said}"
        );
        let said = advice(&[("nginx", &first), ("nginx-twin", &near), ("apache", &near), ("caddy", &far)]);
        assert!(
            said.contains("Strong(\"nginx and apache\")")
                && said.contains("no difference between these is shown"),
            "{said}"
        );
    }

    #[test]
    fn a_load_that_the_tool_limits_is_ranked_by_cpu() {
        let mut blocks = fixture::blocks_of(&[("nginx", &[1000.0; 6]), ("caddy", &[1100.0; 6])]);
        for block in &mut blocks {
            let cpu_us = if block.cell.contender == "nginx" { 20.0 } else { 80.0 };
            block.figures.insert(Figure::CpuUsPerRequest, cpu_us);
        }
        assert!(ranked(&blocks, "").contains("Strong(\"caddy\")"));
        let said = ranked(&blocks, "ranked_by = 'cpu_us_per_request'");
        assert!(
            said.contains("Strong(\"nginx\")") && said.contains("caddy, needs 4.0 times its CPU"),
            "{said}"
        );
    }

    #[test]
    fn runs_on_a_busy_machine_are_no_verdict_and_the_answer_says_so() {
        let mut blocks = fixture::blocks_of(&[("nginx", &[1000.0; 6]), ("caddy", &[400.0; 6])]);
        assert!(ranked(&blocks, "").contains("Strong(\"nginx\")"));
        blocks[0].circumstances.busy_before = 1.0;
        let said = ranked(&blocks, "");
        assert!(said.contains("no verdict yet"), "{said}");
        assert!(said.contains("5 of 6 runs began on a quiet machine, a verdict needs 6"), "{said}");
    }

    #[test]
    fn two_runs_are_no_verdict() {
        let said = advice(&[("nginx", &[1000.0, 1001.0]), ("caddy", &[400.0, 401.0])]);
        assert!(said.contains("no verdict yet") && said.contains("2 runs, a verdict needs 6"), "{said}");
        assert!(said.contains("nginx 100") && said.contains("caddy 40"), "the figures are shown: {said}");
    }
}
