//! The picture of the first page: what publications claim of two servers, and what the same comparison gives here.

use super::chart::{Axis, Chart, Claim};
use super::document::{Badge, Span, Text};
use super::scale::Spread;
use crate::judge::findings::{self, Answer, Evidence, Outcome, Verdict};
use crate::judge::statistics::Estimate;
use crate::model::experiment::{Experiment, Finding, Short};

/// So many claims are drawn: they have to fit on one screen.
const CLAIMS_MAX: usize = 9;

/// A claim of a publication that was repeated here.
pub(super) struct Repeated {
    /// What was compared.
    of: String,
    year: u16,
    /// The published advantage in words.
    says: String,
    published: f64,
    here: Estimate,
    outcome: Outcome,
}

/// The findings that have a short name, and a ratio both in the publication and here.
pub(super) fn repeated(answers: &[(&Experiment, Vec<Answer>)]) -> Vec<Repeated> {
    let published = answers.iter().filter(|(experiment, _)| experiment.source.is_some());
    published.flat_map(|(experiment, answers)| of_experiment(experiment, answers)).collect()
}

/// The picture of these claims, if there are some.
pub(super) fn picture(claims: &[Repeated]) -> Option<Chart> {
    let claim = |claim: &Repeated| Claim {
        name: format!("{} {}, {}", sign(claim.outcome), claim.of, claim.year),
        label: format!("{} published, {} here", claim.says, advantage(claim.here.median)),
        published: claim.published,
        here: claim.here.median,
        span: (claim.here.low, claim.here.high),
    };
    let x = Axis {
        title: "requests per second or bytes per second, nginx ÷ Apache".into(),
        spread: Spread::Log,
    };
    let claims = claims.iter().take(CLAIMS_MAX).map(claim).collect();
    Chart::claims("How far nginx is ahead of Apache: published (◇) and measured here (●)", x, claims)
}

impl Repeated {
    /// The claim as a question, and its answer.
    pub(super) fn row(&self) -> [Text; 2] {
        let Repeated { of, year, says, here, published, .. } = self;
        let (badge, words) = match self.outcome {
            Outcome::Met if here.low > *published => {
                (Badge::Yes, "the direction, but more here than published")
            }
            Outcome::Met => (Badge::Yes, "yes, it holds"),
            Outcome::Unmet => (Badge::No, "no, it does not hold"),
            Outcome::Undecided => (Badge::Undecided, "undecided"),
            Outcome::Untested => (Badge::Open, "not tested"),
        };
        // Per cent and a factor are hard to compare.
        let is_factor = |words: &str| words.ends_with("times");
        let as_factor = match is_factor(&advantage(here.median)) && !is_factor(says) {
            true => format!(" (published: {published:.1}\u{a0}times)"),
            false => String::new(),
        };
        let answer = format!(": here nginx {}{as_factor}", in_words(here.median));
        let interval = format!("95\u{a0}% interval {} to {}", advantage(here.low), advantage(here.high));
        let says = match says.strip_prefix('+') {
            Some(percent) => format!("is {percent} ahead of Apache"),
            None => format!("reaches {says} Apache's rate"),
        };
        let asked = format!("Is it true, as published in {year}, that nginx {says} with {of}?");
        [asked.into(), Text::from(Span::Badge(badge, words.into())).say(answer).aside(interval)]
    }
}

/// A ratio of nginx and Apache as the rest of a sentence about nginx.
fn in_words(ratio: f64) -> String {
    let advantage = advantage(ratio);
    match advantage.strip_prefix('+').or(advantage.strip_prefix('−')) {
        Some("0\u{a0}%") => "is level with Apache".into(),
        Some(percent) if ratio < 1.0 => format!("is {percent} behind Apache"),
        Some(percent) => format!("is {percent} ahead of Apache"),
        None => format!("reaches {advantage} Apache's rate"),
    }
}

fn of_experiment(experiment: &Experiment, answers: &[Answer]) -> Vec<Repeated> {
    let told = findings::answer_published(experiment);
    let year = experiment.source.as_ref().map(|source| source.year).unwrap_or_default();
    let named = experiment.findings.iter().filter_map(|finding| Some((finding, finding.short.as_ref()?)));
    let is_open = |finding: &Finding| {
        let mut of_it = answers.iter().filter(|answer| answer.finding == finding.id);
        of_it.any(|answer| matches!(answer.verdict, Verdict::CannotBeTested(_)))
    };
    let named = named.filter(|(finding, _)| !is_open(finding));
    let claim = |(finding, short): (&Finding, &Short)| {
        let of = |all: &[Answer]| -> Vec<Evidence> {
            let found = all.iter().find(|answer| answer.finding == finding.id);
            found.map(|answer| answer.evidence.clone()).unwrap_or_default()
        };
        let (here, told) = (of(answers), of(&told));
        here.iter().zip(&told).find_map(|(here, told)| {
            let (ratio, published) = (here.ratio?, told.ratio?.median);
            let is_drawn = [ratio.low, ratio.median, ratio.high, published].iter().all(|value| *value > 0.0);
            let says = short.says.clone().unwrap_or_else(|| advantage(published));
            let (of, outcome) = (short.of.clone(), here.outcome);
            is_drawn.then_some(Repeated { of, year, says, published, here: ratio, outcome })
        })
    };
    named.filter_map(claim).collect()
}

/// A ratio as an advantage: `+53 %`; from twice on as a factor, `2.4 times`.
fn advantage(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    match ratio {
        ratio if ratio >= 9.95 => format!("{ratio:.0}\u{a0}times"),
        ratio if ratio >= 2.0 => format!("{ratio:.1}\u{a0}times"),
        _ if percent.round() < 0.0 => format!("−{:.0}\u{a0}%", percent.abs()),
        _ => format!("+{:.0}\u{a0}%", percent.abs()),
    }
}

fn sign(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Met => "✓",
        Outcome::Unmet => "✗",
        Outcome::Undecided => "?",
        Outcome::Untested => "–",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::machine::Machine;
    use crate::show::report::fixture;

    #[test]
    fn a_claim_stands_beside_what_was_measured() {
        let (experiments, blocks) = (fixture::experiments(), fixture::blocks());
        let answers: Vec<(&Experiment, Vec<Answer>)> = experiments
            .iter()
            .map(|experiment| (experiment, findings::answer(experiment, &blocks, &Machine::default())))
            .collect();
        let claims = repeated(&answers);
        let [asked, answered] = claims[0].row().map(|text| format!("{text:?}"));
        assert!(
            asked.contains(
                "Is it true, as published in 2025, that nginx is 37 % ahead of Apache with 72 KB by hey?"
            ),
            "{asked}"
        );
        assert!(
            answered.contains("Undecided")
                && answered.contains(": here nginx reaches 2.3\\u{a0}times Apache's rate"),
            "three runs are no verdict: {answered}"
        );
        let chart = picture(&claims).unwrap();
        assert_eq!(chart.words.len(), 1, "only findings with a short name: {:?}", chart.words);
        assert!(chart.words[0].starts_with("? 72 KB by hey, 2025: +37 % published, "), "{:?}", chart.words);
        assert!(picture(&[]).is_none());
    }

    #[test]
    fn an_advantage_is_a_sentence() {
        let said = [4.0, 1.04, 1.001, 0.97].map(in_words);
        let percent = |words: &str| words.replace(' ', "\u{a0}");
        assert_eq!(said[0], format!("reaches {} Apache's rate", percent("4.0 times")));
        assert_eq!(said[1], format!("is {} ahead of Apache", percent("4 %")));
        assert_eq!(
            [&said[2], &said[3]],
            ["is level with Apache", &format!("is {} behind Apache", percent("3 %"))]
        );
    }

    #[test]
    fn an_advantage_is_read_at_once() {
        let shown = [0.5, 0.88, 1.0, 1.534, 2.0, 23.0].map(advantage);
        assert_eq!(
            shown,
            ["−50\u{a0}%", "−12\u{a0}%", "+0\u{a0}%", "+53\u{a0}%", "2.0\u{a0}times", "23\u{a0}times"]
        );
    }
}
