//! The answers to findings, as the report shows them.

use super::document::{Badge, Span, Text};
use crate::findings::{Answer, Verdict};

/// What kind of verdict an answer is.
pub(super) fn badge(answer: &Answer) -> Badge {
    match answer.verdict {
        Verdict::Holds => Badge::Yes,
        Verdict::DoesNotHold => Badge::No,
        Verdict::CannotBeTested(_) => Badge::Open,
    }
}

/// An answer's sign, where there is no room for more.
pub(super) fn sign(answer: &Answer) -> &'static str {
    signed(badge(answer))
}

/// The verdict, and what limits it.
pub(super) fn verdict(answer: &Answer) -> Text {
    let words = match badge(answer) {
        Badge::Yes => "holds",
        Badge::No => "does not hold",
        Badge::Open => "cannot be tested here",
    };
    let limits = [(answer.partly, "as far as it can be tested here"), (answer.indicative, "indicative")];
    let limits: Vec<&str> = limits.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words).collect();
    Text::from(Span::Badge(badge(answer), words.into())).aside(limits.join(", "))
}

/// Why it cannot be tested, or what each condition came to.
pub(super) fn evidence(answer: &Answer) -> Text {
    let mut text = Text::default();
    if let Verdict::CannotBeTested(reason) = &answer.verdict {
        text = text.say(format!("because {reason}"));
    }
    for evidence in
        answer.evidence.iter().filter(|evidence| evidence.holds.is_some() || badge(answer) != Badge::Open)
    {
        if !text.0.is_empty() {
            text = text.and(Span::Break);
        }
        let badge = match evidence.holds {
            Some(true) => Badge::Yes,
            Some(false) => Badge::No,
            None => Badge::Open,
        };
        text = text.say(format!("{} {}", signed(badge), evidence.text));
    }
    text
}

fn signed(badge: Badge) -> &'static str {
    match badge {
        Badge::Yes => "✓",
        Badge::No => "✗",
        Badge::Open => "–",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Evidence;

    #[test]
    fn what_limits_a_verdict_stands_beside_it() {
        let evidence = |holds, text: &str| Evidence { holds, text: text.into(), ratio: None };
        let answer = Answer {
            experiment: "e".into(),
            finding: "F1".into(),
            claim: "c".into(),
            verdict: Verdict::Holds,
            indicative: true,
            partly: true,
            evidence: vec![evidence(Some(true), "1.4 times"), evidence(None, "four cores are needed")],
        };
        assert_eq!(sign(&answer), "✓");
        let limits = verdict(&answer).0.pop().unwrap();
        assert!(
            matches!(limits, Span::Aside(words) if words == "as far as it can be tested here, indicative")
        );
        assert_eq!(super::evidence(&answer).0.len(), 3, "two pieces and a break");
    }
}
