//! Which blocks a run measures that answers the publications and nothing else (`run --claims`).

use std::collections::{BTreeMap, BTreeSet};

use super::{Clients, Condition, Experiment, Finding, Load};

/// The loads that are measured, by experiment and name, and what of each.
#[derive(Clone, Debug, Default)]
pub struct Selection(BTreeMap<(String, String), Selected>);

/// What of a load is measured.
#[derive(Clone, Debug, Default)]
pub struct Selected {
    /// The numbers of clients of each contender.
    blocks: BTreeMap<String, BTreeSet<u32>>,
    /// Whether a lead is compared with the noise floor, which twins measure.
    pub has_twins: bool,
}

impl Selection {
    /// What is read by the claims about publications that can be tested at all, and by the needs that the report answers. For
    /// a need, all contenders of the load are measured. The numbers of clients are those of a quick run, and those that a claim
    /// names.
    pub fn of_claims(all: &[Experiment]) -> Selection {
        let mut selection = Selection::default();
        for experiment in all {
            for load in experiment.loads.iter().filter(|load| load.need.is_some()) {
                let selected = selection.0.entry((experiment.id.clone(), load.id.clone())).or_default();
                selected.has_twins = true;
                let contenders = load.contenders.as_ref().unwrap_or(&experiment.contenders);
                contenders.iter().for_each(|name| selected.add(name, load.clients(true)));
            }
            let conditions = experiment.claims().flat_map(|finding| &finding.holds_when);
            conditions.for_each(|condition| selection.add(condition, experiment, all));
        }
        selection
    }

    /// What of a load is measured; `None` if nothing is.
    pub fn of(&self, experiment: &str, load: &str) -> Option<&Selected> {
        self.0.get(&(experiment.to_owned(), load.to_owned()))
    }

    /// Whether something of an experiment is measured.
    pub fn has(&self, experiment: &str) -> bool {
        self.0.keys().any(|(of, _)| of == experiment)
    }

    /// Each load with the contenders and numbers of clients that are measured, a line for each load of these experiments.
    pub fn lines(&self, experiments: &[Experiment]) -> Vec<String> {
        let loads = experiments
            .iter()
            .flat_map(|experiment| experiment.loads.iter().map(move |load| (&experiment.id, &load.id)));
        loads.filter_map(|(of, load)| Some(format!("{of}/{load}: {}", self.of(of, load)?.words()))).collect()
    }

    fn add(&mut self, condition: &Condition, of: &Experiment, all: &[Experiment]) {
        for name in condition.loads() {
            let (experiment, id) = name.split_once('/').unwrap_or((&of.id, name));
            let known = all.iter().find(|other| other.id == experiment);
            let Some(load) = known.and_then(|known| known.loads.iter().find(|load| load.id == id)) else {
                continue;
            };
            let selected = self.0.entry((experiment.to_owned(), id.to_owned())).or_default();
            selected.has_twins |= matches!(condition, Condition::Better { .. });
            for name in condition.contenders() {
                selected.add(name, counts(condition, load));
            }
        }
    }
}

impl Selected {
    fn add(&mut self, contender: &str, counts: Vec<u32>) {
        self.blocks.entry(contender.to_owned()).or_default().extend(counts);
    }

    /// Whether a contender takes part.
    pub fn has(&self, contender: &str) -> bool {
        self.blocks.contains_key(contender)
    }

    /// Whether a contender is measured with so many clients.
    pub fn has_block(&self, contender: &str, clients: u32) -> bool {
        self.blocks.get(contender).is_some_and(|counts| counts.contains(&clients))
    }

    /// The contenders, each with its numbers of clients.
    fn words(&self) -> String {
        let of_one = |(name, counts): (&String, &BTreeSet<u32>)| {
            let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
            format!("{name} ({})", counts.join(", "))
        };
        self.blocks.iter().map(of_one).collect::<Vec<_>>().join(", ")
    }

    /// All numbers of clients, in their order.
    pub fn counts(&self) -> Vec<u32> {
        let all: BTreeSet<u32> = self.blocks.values().flatten().copied().collect();
        all.into_iter().collect()
    }
}

impl Experiment {
    /// What is concluded of the publication and can be tested on this system; nothing if there is no publication.
    fn claims(&self) -> impl Iterator<Item = &Finding> {
        let can_be = self.source.as_ref().is_some_and(|source| source.not_comparable.is_none());
        self.findings.iter().filter(move |finding| can_be && finding.not_comparable.is_none())
    }
}

/// The numbers of clients at which a condition looks at a load.
fn counts(condition: &Condition, load: &Load) -> Vec<u32> {
    let own = load.clients(true);
    match condition {
        Condition::Better { clients, .. }
        | Condition::Ratio { clients, .. }
        | Condition::AnswersAll { clients, .. }
        | Condition::Fails { clients, .. } => match clients {
            // Of a sweep, a quick run takes the numbers that the load says.
            Some(sweep @ Clients::Sweep { .. }) => {
                let within = sweep.each();
                own.into_iter().filter(|count| within.contains(count)).collect()
            }
            Some(named) => named.each(),
            None => own,
        },
        Condition::Change { from_clients: Some(from), to_clients: Some(to), .. } => vec![*from, *to],
        Condition::Change { .. } | Condition::AgainstLoad { .. } => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(id: &str, source: &str, findings: &str) -> Experiment {
        let text = format!(
            "id = '{id}'\ntitle = 't'\nquestion = 'q'\ncontenders = ['a', 'b', 'c']\n{source}\
             [[loads]]\nid = 'l'\ntitle = 'l'\nclients = [1, 10, 100, 1000]\nseconds = 9.0\n\
             quick = {{ clients = [10, 1000] }}\n\
             [[loads]]\nid = 'unread'\ntitle = 'l'\nclients = 1\nseconds = 9.0\n{findings}"
        );
        Experiment::parse(&text).unwrap()
    }

    const SOURCE: &str = "[source]\ntitle = 't'\nyear = 2026\nmachine = 'm'\n";

    fn finding(id: &str, more: &str, condition: &str) -> String {
        format!("[[findings]]\nid = '{id}'\nclaim = 'c'\n{more}holds_when = [{condition}]\n")
    }

    #[test]
    fn only_what_a_claim_reads_is_measured() {
        let better = finding(
            "F1",
            "",
            "{ is = 'better', figure = 'requests_per_s', load = 'l', of = 'a', over = 'b', clients = [1] }",
        );
        let kept = finding("F2", "", "{ is = 'answers_all', load = 'l', of = 'a' }");
        let never =
            finding("F3", "not_comparable = 'n'\n", "{ is = 'answers_all', load = 'unread', of = 'a' }");
        let all = [published("e", SOURCE, &format!("{better}{kept}{never}"))];
        let selection = Selection::of_claims(&all);
        let load = selection.of("e", "l").unwrap();
        assert_eq!((load.counts(), load.has_twins), (vec![1, 10, 1000], true));
        assert_eq!(["a", "b", "c"].map(|name| load.has(name)), [true, true, false]);
        assert_eq!([1, 10, 100].map(|clients| load.has_block("a", clients)), [true, true, false]);
        assert_eq!([1, 10].map(|clients| load.has_block("b", clients)), [true, false]);
        assert_eq!(selection.lines(&all), ["e/l: a (1, 10, 1000), b (1)"]);
        assert!(selection.of("e", "unread").is_none(), "no run on this system tests that claim");
    }

    #[test]
    fn claims_read_loads_of_other_experiments_and_own_questions_none() {
        let other = finding(
            "F1",
            "",
            "{ is = 'change', figure = 'requests_per_s', load = 'own/l', of = 'a', from_clients = 1, to_clients = 100 }",
        );
        let own = finding("F1", "", "{ is = 'answers_all', load = 'unread', of = 'a' }");
        let windows = SOURCE.replace("year", "not_comparable = 'w'\nyear");
        let all = [
            published("e", SOURCE, &other),
            published("own", "", &own),
            published("w", &windows, &finding("F1", "", "{ is = 'answers_all', load = 'l', of = 'a' }")),
        ];
        let selection = Selection::of_claims(&all);
        let load = selection.of("own", "l").unwrap();
        assert_eq!((load.counts(), load.has_twins), (vec![1, 100], false));
        assert!(selection.of("own", "unread").is_none() && selection.of("e", "l").is_none());
        assert_eq!(["e", "own", "w"].map(|id| selection.has(id)), [false, true, false]);
    }

    #[test]
    fn a_need_ranks_all_contenders() {
        let mut own = published("own", "", "");
        own.loads[0].need = Some("small files".into());
        let selection = Selection::of_claims(&[own]);
        let load = selection.of("own", "l").unwrap();
        assert_eq!((load.counts(), load.has_twins, load.has("c")), (vec![10, 1000], true, true));
    }

    /// Each condition of a claim that can be tested finds its blocks among those that are measured.
    #[test]
    fn every_claim_of_the_publications_finds_its_blocks() {
        let all = Experiment::built_in().unwrap();
        let selection = Selection::of_claims(&all);
        for experiment in &all {
            for condition in experiment.claims().flat_map(|finding| &finding.holds_when) {
                for name in condition.loads() {
                    let (of, load) = name.split_once('/').unwrap_or((&experiment.id, name));
                    let selected = selection.of(of, load).unwrap();
                    let is_there = |name: &&str| selected.has(name);
                    assert!(condition.contenders().iter().all(is_there), "{}: {condition:?}", experiment.id);
                }
            }
        }
        assert!(!selection.has("windows-hey") && selection.has("cache-hit") && selection.has("tuning"));
    }
}
