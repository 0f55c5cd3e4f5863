use super::*;
use crate::block::tests::block;
use crate::figure::Figure;

const EXPERIMENT: &str = r#"
id = "e"
title = "t"
question = "q"
contenders = ["a", "b", "c"]

[[loads]]
id = "l"
title = "Load"
clients = [10, 100]
seconds = 1.0
cores = [1, 8]

[[loads]]
id = "later"
title = "Later"
clients = 10
seconds = 1.0
not_yet = "it follows later"
"#;

/// An experiment with one finding, whose conditions are these.
fn experiment(conditions: &str) -> Experiment {
    let finding = format!("[[findings]]\nid = 'F1'\nclaim = 'c'\nholds_when = [{conditions}]\n");
    Experiment::parse(&format!("{EXPERIMENT}{finding}")).unwrap()
}

fn blocks(contender: &str, clients: u32, figure: Figure, values: &[f64]) -> Vec<Block> {
    let of_turn = |(turn, value): (u32, &f64)| {
        let mut block = block(contender, "l", clients, &[(figure, *value)]);
        block.turn = turn;
        block
    };
    (0..).zip(values).map(of_turn).collect()
}

fn machine() -> Machine {
    Machine { cores: 2, ..Machine::default() }
}

fn answered(conditions: &str, blocks: &[Vec<Block>]) -> Answer {
    answer(&experiment(conditions), &blocks.concat(), &machine()).remove(0)
}

const A_BEATS_B: &str = "{ is = 'better', figure = 'requests_per_s', load = 'l', of = 'a', over = 'b' }";

#[test]
fn a_clear_lead_holds() {
    let rate = |name: &str, values: &[f64]| blocks(name, 10, Figure::RequestsPerS, values);
    let clear =
        [rate("a", &[150.0, 153.0, 151.0, 149.0, 152.0]), rate("b", &[100.0, 101.0, 99.0, 100.0, 102.0])];
    let answer = answered(A_BEATS_B, &clear);
    assert_eq!((answer.verdict.clone(), answer.indicative), (Verdict::Holds, false), "{answer:?}");
    assert!(answer.evidence[0].text.contains("10 clients: 151 and 100, 1.50 × (1.49 to 1.53)"), "{answer:?}");
    let by = A_BEATS_B.replace(" }", ", by = 2.0 }");
    let answer = answered(&by, &clear);
    assert_eq!(answer.verdict, Verdict::DoesNotHold);
    assert!(answer.evidence[0].text.ends_with("less than 2 ×, which is asked for"), "{answer:?}");
}

#[test]
fn noise_is_no_lead() {
    let rate = |name: &str, values: &[f64]| blocks(name, 10, Figure::RequestsPerS, values);
    let noisy = [rate("a", &[110.0, 90.0, 120.0, 95.0, 106.0]), rate("b", &[100.0; 5])];
    let answer = answered(A_BEATS_B, &noisy);
    assert_eq!(answer.verdict, Verdict::DoesNotHold);
    assert!(answer.evidence[0].text.ends_with("not for sure: the interval holds 1"), "{answer:?}");
}

#[test]
fn a_lead_within_what_a_twin_differs_is_none() {
    let rate = |name: &str, values: &[f64]| blocks(name, 10, Figure::RequestsPerS, values);
    let three = [103.0, 103.1, 102.9, 103.0, 103.05];
    let mut all = vec![rate("a", &three), rate("b", &[100.0; 5])];
    assert_eq!(answered(A_BEATS_B, &all).verdict, Verdict::Holds);
    all.push(rate("b-twin", &[104.0, 98.0, 105.0, 100.0, 101.0]));
    let answer = answered(A_BEATS_B, &all);
    assert_eq!(answer.verdict, Verdict::DoesNotHold);
    assert!(answer.evidence[0].text.contains("within the 5.0 % by which a twin differs"), "{answer:?}");
}

#[test]
fn many_comparisons_need_more() {
    // One pair of this kind is worth p = 0.02; among four, with three that show nothing, it is not enough.
    let rate = |name: &str, clients: u32, values: &[f64]| blocks(name, clients, Figure::RequestsPerS, values);
    let slight = [rate("a", 10, &[101.5, 102.0, 106.0, 103.0, 102.0]), rate("b", 10, &[100.0; 5])];
    let only = A_BEATS_B.replace(" }", ", clients = [10] }");
    assert_eq!(answered(&only, &slight).verdict, Verdict::Holds);
    let nothing = [rate("a", 100, &[103.0, 99.0, 100.0, 101.0, 98.0]), rate("b", 100, &[100.0; 5])];
    let others = only.replace("[10]", "[100]");
    let answer =
        answered(&[only, others.clone(), others.clone(), others].join(","), &[slight, nothing].concat());
    assert!(answer.evidence[0].text.contains("by Holm's correction"), "{answer:?}");
}

#[test]
fn less_can_be_better() {
    let time = |name: &str, values: &[f64]| blocks(name, 10, Figure::P99Ms, values);
    let p99 = A_BEATS_B.replace("requests_per_s", "p99_ms");
    let both = [time("a", &[1.0, 1.1, 1.0]), time("b", &[3.0, 3.1, 2.9])];
    assert_eq!(answered(&p99, &both).verdict, Verdict::Holds);
}

#[test]
fn a_quick_run_only_hints() {
    let rate = |name: &str, values: &[f64]| blocks(name, 10, Figure::RequestsPerS, values);
    let mut both = [rate("a", &[150.0, 160.0]), rate("b", &[100.0, 100.0])];
    both.iter_mut().flatten().for_each(|block| block.quick = true);
    let answer = answered(A_BEATS_B, &both);
    assert_eq!((answer.verdict.clone(), answer.indicative), (Verdict::Holds, true));
    assert!(answer.to_string().ends_with("holds (indicative)"), "{answer}");
}

#[test]
fn a_quick_run_with_all_turns_claims() {
    let rate = |name: &str, values: &[f64]| blocks(name, 10, Figure::RequestsPerS, values);
    let turns: Vec<f64> = (0..20).map(|turn| f64::from(turn % 3)).collect();
    let values = |base: f64| turns.iter().map(|turn| base + turn).collect::<Vec<f64>>();
    let mut both = [rate("a", &values(150.0)), rate("b", &values(100.0))];
    both.iter_mut().flatten().for_each(|block| block.quick = true);
    let answer = answered(A_BEATS_B, &both);
    assert_eq!((answer.verdict, answer.indicative), (Verdict::Holds, false));
    both.iter_mut().for_each(|blocks| blocks.truncate(19));
    assert!(answered(A_BEATS_B, &both).indicative);
}

#[test]
fn what_is_missing_is_said() {
    let why = |conditions: &str, blocks: &[Vec<Block>]| match answered(conditions, blocks).verdict {
        Verdict::CannotBeTested(reason) => reason,
        other => panic!("{other}"),
    };
    let rate = |name: &str| blocks(name, 10, Figure::RequestsPerS, &[1.0, 1.0]);
    assert_eq!(why(A_BEATS_B, &[rate("a")]), "b was not measured under “Load”");
    assert_eq!(why(&A_BEATS_B.replace("'l'", "'later'"), &[]), "it follows later");
    let eight = A_BEATS_B.replace(" }", ", cores = [8] }");
    assert_eq!(why(&eight, &[rate("a"), rate("b")]), "it needs 8 cores, and this machine has 2");
    let mut failed = rate("b");
    for block in &mut failed {
        block.figures.clear();
        block.failure = Some("not found".into());
    }
    assert_eq!(why(A_BEATS_B, &[rate("a"), failed]), "b: not found");
    let other_figure = A_BEATS_B.replace("requests_per_s", "memory_bytes");
    assert_eq!(why(&other_figure, &[rate("a")]), "no figure of a says memory in MB");
    let hundred = A_BEATS_B.replace(" }", ", clients = [100] }");
    assert!(why(&hundred, &[rate("a"), rate("b")]).starts_with("a was measured with 10 clients only"));
}

#[test]
fn what_is_said_of_all_is_asked_of_those_that_are_here() {
    let rate = |name: &str, value: f64| blocks(name, 10, Figure::RequestsPerS, &[value, value, value]);
    let all = format!("{A_BEATS_B}, {}", A_BEATS_B.replace("'b'", "'c'"));
    let mut experiment = experiment(&all);
    let blocks = [rate("a", 2.0), rate("b", 1.0)].concat();
    assert!(matches!(answer(&experiment, &blocks, &machine())[0].verdict, Verdict::CannotBeTested(_)));
    experiment.findings[0].partly = true;
    let answer = answer(&experiment, &blocks, &machine()).remove(0);
    assert_eq!((answer.verdict, answer.partly), (Verdict::Holds, true));
}

#[test]
fn failures_are_counted() {
    let failed = |values: &[f64]| [blocks("a", 10, Figure::Failed, values)];
    let all = "{ is = 'answers_all', load = 'l', of = 'a' }";
    assert_eq!(answered(all, &failed(&[0.0, 0.0])).verdict, Verdict::Holds);
    let mut quick = failed(&[0.0]);
    quick[0][0].quick = true;
    assert!(answered(all, &quick).indicative && !answered(all, &failed(&[0.0])).indicative);
    let some = answered(all, &failed(&[0.0, 3.0]));
    assert_eq!(some.verdict, Verdict::DoesNotHold);
    assert_eq!(some.evidence[0].text, "Load: of a's answers 3 failed at 10 clients");
    assert_eq!(answered(&all.replace("answers_all", "fails"), &failed(&[0.0, 3.0])).verdict, Verdict::Holds);
}

#[test]
fn changes_have_bounds() {
    let rate = |clients: u32, value: f64| blocks("a", clients, Figure::RequestsPerS, &[value, value]);
    let change = "{ is = 'change', figure = 'requests_per_s', load = 'l', of = 'a', low = 0.85 }";
    assert_eq!(answered(change, &[rate(10, 100.0), rate(100, 90.0)]).verdict, Verdict::Holds);
    let answer = answered(change, &[rate(10, 100.0), rate(100, 80.0)]);
    assert_eq!(answer.verdict, Verdict::DoesNotHold);
    assert!(answer.evidence[0].text.contains("100 clients by 10 clients: 80 and 100, 0.80 ×"), "{answer:?}");
    let cores = change.replace("low", "from_cores = 1, to_cores = 8, low");
    assert!(matches!(answered(&cores, &[rate(10, 100.0)]).verdict, Verdict::CannotBeTested(_)));
}

#[test]
fn publications_are_held_to_their_own_figures() {
    let all = Experiment::built_in().unwrap();
    let verdict = |experiment: &str, finding: &str| {
        let experiment = all.iter().find(|other| other.id == experiment).unwrap();
        let mut answers = answer_published(experiment).into_iter();
        answers.find(|answer| answer.finding == finding).unwrap().verdict
    };
    assert_eq!(verdict("stress-debian", "F3"), Verdict::DoesNotHold);
    assert_eq!(verdict("modern-vps", "F1"), Verdict::Holds);
    assert_eq!(verdict("static-and-dynamic", "F2"), Verdict::Holds);
    assert_eq!(verdict("windows-hey", "F1"), Verdict::Holds);
    assert_eq!(verdict("windows-hey", "F3"), Verdict::Holds);
    assert_eq!(verdict("windows-hey", "F4"), Verdict::DoesNotHold);
}
