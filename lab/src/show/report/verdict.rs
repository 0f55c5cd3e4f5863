//! The answers to findings, as the report shows them.

use super::document::{Badge, Span, Text};
use crate::judge::findings::{Answer, Outcome, Verdict};

/// What kind of verdict an answer is.
pub(super) fn badge(answer: &Answer) -> Badge {
    match answer.verdict {
        Verdict::Holds => Badge::Yes,
        Verdict::DoesNotHold => Badge::No,
        Verdict::Undecided => Badge::Undecided,
        Verdict::CannotBeTested(_) => Badge::Open,
    }
}

/// An answer's sign, where there is no room for more.
pub(super) fn sign(answer: &Answer) -> &'static str {
    signed(badge(answer))
}

/// The verdict alone.
pub(super) fn word(answer: &Answer) -> &'static str {
    match badge(answer) {
        Badge::Yes => "holds",
        Badge::No => "does not hold",
        Badge::Undecided => "undecided",
        Badge::Open => "cannot be tested here",
    }
}

/// The verdict, and what limits it.
pub(super) fn verdict(answer: &Answer) -> Text {
    let words = match answer.verdict {
        Verdict::DoesNotHold | Verdict::Undecided if answer.parts.only_direction_holds() => {
            "direction holds, size does not"
        }
        _ => word(answer),
    };
    let limits = [(answer.partly, "as far as it can be tested here"), (answer.indicative, "indicative")];
    let limits: Vec<&str> = limits.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words).collect();
    let text = Text::from(Span::Badge(badge(answer), words.into())).aside(limits.join(", "));
    let is_open = badge(answer) == Badge::Open;
    let parts = Some(answer.parts.to_string()).filter(|parts| !parts.is_empty() && !is_open);
    parts.map_or(text.clone(), |parts| text.say(format!(" {parts}")))
}

/// Why findings cannot be tested, or what each condition came to. Several findings are those that cannot be tested for the
/// same reason.
pub(super) fn evidence(answers: &[&Answer]) -> Text {
    let mut lines: Vec<String> = Vec::new();
    if let Some(Verdict::CannotBeTested(reason)) = answers.first().map(|answer| &answer.verdict) {
        lines.push(format!("because {reason}"));
    }
    for answer in answers {
        let of_which = if answers.len() > 1 { format!("{}: ", answer.finding) } else { String::new() };
        let is_said = |outcome: Outcome| outcome != Outcome::Untested || badge(answer) != Badge::Open;
        for evidence in answer.evidence.iter().filter(|evidence| is_said(evidence.outcome)) {
            let badge = match evidence.outcome {
                Outcome::Met => Badge::Yes,
                Outcome::Unmet => Badge::No,
                Outcome::Undecided => Badge::Undecided,
                Outcome::Untested => Badge::Open,
            };
            let line = format!("{of_which}{} {}", signed(badge), evidence.text);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    Text::lines(lines.into_iter().map(Text::from))
}

fn signed(badge: Badge) -> &'static str {
    match badge {
        Badge::Yes => "✓",
        Badge::No => "✗",
        Badge::Undecided => "?",
        Badge::Open => "–",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::judge::findings::{Evidence, Parts};
    use crate::model::figure::Figure;
    use crate::show::report::document::{Document, Group, Part, Section};
    use crate::show::report::{self, fixture, html, markdown};

    fn answer(verdict: Verdict) -> Answer {
        Answer {
            experiment: "e".into(),
            finding: "F1".into(),
            claim: "c".into(),
            verdict,
            indicative: false,
            partly: false,
            parts: Parts::default(),
            evidence: Vec::new(),
        }
    }

    #[test]
    fn each_verdict_has_a_sign_and_words_of_its_own() {
        let verdicts =
            [Verdict::Holds, Verdict::DoesNotHold, Verdict::Undecided, Verdict::CannotBeTested("w".into())];
        let shown = [
            ("yes", "✓", "holds"),
            ("no", "✗", "does not hold"),
            ("undecided", "?", "undecided"),
            ("open", "–", "cannot be tested here"),
        ];
        for (told, (class, sign, words)) in verdicts.into_iter().zip(shown) {
            let answer = answer(told);
            assert_eq!(self::sign(&answer), sign);
            let parts = vec![Part::Text(verdict(&answer))];
            let section = Section { id: "s".into(), title: "s".into(), parts, group: Group::Overview };
            let page = Document { title: "t".into(), lead: "l".into(), sections: vec![section] };
            assert!(markdown::write(&page).contains(&format!("\n{sign} {words}")), "{words}");
            let (html, badge) =
                (html::write(&page), format!("<span aria-hidden=\"true\">{sign}</span> {words}"));
            assert!(html.contains(&badge) && html.contains(&format!("class=\"badge {class}\"")), "{html}");
            assert!(html.contains(&format!("\n.{class} {{ color: ")), "{class} has no colour");
        }
    }

    #[test]
    fn what_is_undecided_is_counted() {
        let mut blocks = fixture::blocks();
        for block in blocks.iter_mut().filter(|block| block.cell.load == "hey") {
            let swings = f64::from(block.turn % 2) * 20.0;
            let is_apache = block.cell.contender == "apache-event";
            block.figures.insert(Figure::P50Ms, if is_apache { 90.0 + swings } else { 100.0 });
            block.figures.insert(Figure::RequestsPerS, if is_apache { 90.0 + swings } else { 120.0 });
        }
        let out = tempfile::tempdir().unwrap();
        let written = report::write(out.path(), &fixture::experiments(), &blocks).unwrap();
        let (html, markdown) =
            (fs::read_to_string(written.html).unwrap(), fs::read_to_string(written.markdown).unwrap());
        assert!(markdown.contains(" hold | do not | undecided | not testable here |"), "{markdown}");
        assert!(
            markdown.contains(" do not, **3** are undecided, and **1** cannot be tested here"),
            "{markdown}"
        );
        assert!(html.contains("</strong> do not, <strong>3</strong> are undecided, and "), "{html}");
        for page in [html, markdown] {
            assert!(page.contains(" do not, 3 are undecided, and 1 cannot be tested here"), "{page}");
            assert!(page.contains("undecided: 3 turns, and a verdict needs 6"), "{page}");
        }
    }

    #[test]
    fn what_limits_a_verdict_stands_beside_it() {
        let evidence = |outcome, text: &str| Evidence {
            outcome,
            text: text.into(),
            ratio: None,
            direction: None,
            remedy: None,
            ratios: Vec::new(),
        };
        let answer = Answer {
            experiment: "e".into(),
            finding: "F1".into(),
            claim: "c".into(),
            verdict: Verdict::Holds,
            indicative: true,
            partly: true,
            parts: Parts::default(),
            evidence: vec![
                evidence(Outcome::Met, "1.4 times"),
                evidence(Outcome::Untested, "four cores are needed"),
            ],
        };
        assert_eq!(sign(&answer), "✓");
        let limits = verdict(&answer).0.pop().unwrap();
        assert!(
            matches!(limits, Span::Aside(words) if words == "as far as it can be tested here, indicative")
        );
        assert_eq!(super::evidence(&[&answer]).0.len(), 3, "two pieces and a break");
        let untested = Answer { verdict: Verdict::CannotBeTested("four cores are needed".into()), ..answer };
        let other = Answer { finding: "F2".into(), ..untested.clone() };
        let said = format!("{:?}", super::evidence(&[&untested, &other]));
        for once in ["because four cores are needed", "F1: ✓ 1.4 times", "F2: ✓ 1.4 times"] {
            assert_eq!(said.matches(once).count(), 1, "{once}: {said}");
        }
    }
}
