use super::*;
use crate::model::block::tests::block;
use crate::model::experiment::TURNS;
use crate::model::figure::Figure;

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

#[test]
fn a_full_run_has_enough_turns_for_verdicts() {
    for experiment in Experiment::built_in().unwrap() {
        let turns = experiment.turns.unwrap_or(TURNS);
        assert!(turns >= crate::judge::statistics::FEWEST, "{}: {turns} turns", experiment.id);
    }
}

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

/// As many turns as a claim needs, over and over with these values.
fn turns(contender: &str, clients: u32, values: &[f64]) -> Vec<Block> {
    let values: Vec<f64> = values.iter().copied().cycle().take(TURNS as usize).collect();
    blocks(contender, clients, Figure::RequestsPerS, &values)
}

/// The verdict, and the words for the first condition.
fn judged(conditions: &str, blocks: &[Vec<Block>]) -> (Verdict, String) {
    let answer = answered(conditions, blocks);
    (answer.verdict, answer.evidence[0].text.clone())
}

/// A published figure is of one turn, and a measured one of many: of idle connections, too.
#[test]
fn one_measurement_of_idle_connections_decides_nothing() {
    let idle = EXPERIMENT.replacen("seconds = 1.0", "kind = 'idle'", 1);
    let condition = "{ is = 'better', figure = 'memory_per_connection_bytes', load = 'l', of = 'a', over = 'b', by = 2.0 }";
    let finding = format!("[[findings]]\nid = 'F1'\nclaim = 'c'\nholds_when = [{condition}]\n");
    let experiment = Experiment::parse(&format!("{idle}{finding}")).unwrap();
    let answered = |turns: usize| {
        let of = |name, value| blocks(name, 100, Figure::MemoryPerConnectionBytes, &vec![value; turns]);
        answer(&experiment, &[of("a", 1000.0), of("b", 9000.0)].concat(), &machine()).remove(0)
    };
    let once = answered(1);
    assert_eq!(once.verdict, Verdict::Undecided, "{once:?}");
    assert!(once.evidence[0].text.contains("1 turn, and a verdict needs 6"), "{once:?}");
    assert_eq!(answered(12).verdict, Verdict::Holds);
}

/// A second core of two, which the load tool has to share, may be left out of a run.
#[test]
fn a_shared_core_is_the_reason_also_where_it_was_not_measured() {
    let condition =
        "{ is = 'change', figure = 'requests_per_s', load = 'l', of = 'a', from_cores = 1, to_cores = 2 }";
    let (verdict, text) = judged(condition, &[turns("a", 10, &[100.0])]);
    assert!(matches!(verdict, Verdict::CannotBeTested(_)), "{verdict}");
    assert!(text.contains("the load tool has to share the server's cores: this machine has 2"), "{text}");
}

#[test]
fn a_clear_lead_holds() {
    let clear = [
        turns("a", 10, &[150.0, 153.0, 151.0, 149.0, 152.0]),
        turns("b", 10, &[100.0, 101.0, 99.0, 100.0, 102.0]),
    ];
    let answer = answered(A_BEATS_B, &clear);
    assert_eq!((answer.verdict.clone(), answer.indicative), (Verdict::Holds, false), "{answer:?}");
    assert!(answer.evidence[0].text.contains("10 clients: 151 and 100, 1.50 × (1.49 to 1.51)"), "{answer:?}");
    let reversed = A_BEATS_B.replace("'a', over = 'b'", "'b', over = 'a'");
    let (verdict, text) = judged(&reversed, &clear);
    assert_eq!(verdict, Verdict::DoesNotHold);
    assert!(text.ends_with("0.67 × (0.66 to 0.67), not better"), "{text}");
}

#[test]
fn a_lead_is_as_large_as_asked_for_only_beyond_its_interval() {
    let lead = [turns("a", 10, &[148.0, 153.0, 151.0, 149.0, 152.0]), turns("b", 10, &[100.0])];
    let by = |factor: &str| judged(&A_BEATS_B.replace(" }", &format!(", by = {factor} }}")), &lead);
    assert_eq!(by("1.4").0, Verdict::Holds);
    let (verdict, text) = by("1.505");
    assert_eq!(verdict, Verdict::Undecided);
    assert!(
        text.ends_with(
            "asked for at least 1.50, undecided: the interval reaches over the bound; 100 turns would not be enough"
        ),
        "{text}"
    );
    let (verdict, text) = by("2.0");
    assert_eq!(verdict, Verdict::DoesNotHold);
    assert!(text.ends_with("asked for at least 2"), "{text}");
}

#[test]
fn noise_decides_nothing() {
    let noisy = [turns("a", 10, &[110.0, 90.0, 120.0, 95.0, 106.0]), turns("b", 10, &[100.0])];
    let (verdict, text) = judged(A_BEATS_B, &noisy);
    assert_eq!(verdict, Verdict::Undecided);
    assert!(text.ends_with("undecided: the interval holds 1; about 71 turns would decide"), "{text}");
    let level = [turns("a", 10, &[100.0]), turns("b", 10, &[100.0])];
    assert_eq!(judged(A_BEATS_B, &level).0, Verdict::Undecided);
    let noisy = [turns("a", 10, &[110.0, 90.0, 100.0, 95.0, 106.0]), turns("b", 10, &[100.0])];
    let answer = answered(A_BEATS_B, &noisy);
    assert_eq!(answer.remedy(), Some(Remedy::QuieterMachine));
    assert!(answer.evidence[0].text.ends_with("the interval holds 1; 100 turns would not be enough"));
}

#[test]
fn what_a_twin_differs_decides_nothing() {
    let three = [103.0, 103.1, 102.9, 103.0, 103.05];
    let mut all = vec![turns("a", 10, &three), turns("b", 10, &[100.0])];
    let reversed = A_BEATS_B.replace("'a', over = 'b'", "'b', over = 'a'");
    assert_eq!(judged(A_BEATS_B, &all).0, Verdict::Holds);
    assert_eq!(judged(&reversed, &all).0, Verdict::DoesNotHold);
    all.push(turns("b-twin", 10, &[105.0]));
    for condition in [A_BEATS_B, &reversed] {
        let (verdict, text) = judged(condition, &all);
        assert_eq!(verdict, Verdict::Undecided);
        assert!(
            text.ends_with(
                "within 5.0 %, by which two copies of one program differ; about 55 turns would decide"
            ),
            "{text}"
        );
    }
    let by = |factor: &str| judged(&A_BEATS_B.replace(" }", &format!(", by = {factor} }}")), &all);
    assert!(
        by("1.05")
            .1
            .contains("undecided: within 5.0 % of the bound, by which two copies of one program differ")
    );
    assert_eq!([by("1.05").0, by("1.2").0], [Verdict::Undecided, Verdict::DoesNotHold]);
}

#[test]
fn many_comparisons_need_more() {
    // One pair of this kind is worth p = 0.01; among thirteen, with twelve that show nothing, it is not enough.
    let slight = vec![turns("a", 10, &[103.0, 103.0, 103.0, 103.0, 96.0]), turns("b", 10, &[100.0])];
    let nothing = vec![turns("a", 100, &[103.0, 99.0, 100.0, 101.0, 98.0]), turns("b", 100, &[100.0])];
    let all = [slight, nothing].concat();
    let ratio = A_BEATS_B.replace("better", "ratio").replace(" }", ", low = 1.0, high = 2.0 }");
    for condition in [A_BEATS_B, &ratio] {
        let at = |clients: &str| condition.replace(" }", &format!(", clients = [{clients}] }}"));
        assert_eq!(judged(&at("10"), &all).0, Verdict::Holds);
        let nothing = (0..12).map(|_| at("100"));
        let several = [at("10")].into_iter().chain(nothing).collect::<Vec<_>>().join(",");
        let (_, among) = judged(&several, &all);
        assert!(among.ends_with("by Holm's correction for 13 comparisons"), "{among}");
    }
}

/// Holm's correction does not depend on the number of turns: one of three comparisons needs seven turns. Size and direction
/// are two comparisons.
#[test]
fn few_turns_are_corrected_too() {
    let pair = |turns: usize| {
        [
            blocks("a", 10, Figure::RequestsPerS, &vec![150.0; turns]),
            blocks("b", 10, Figure::RequestsPerS, &vec![100.0; turns]),
        ]
    };
    assert_eq!(judged(A_BEATS_B, &pair(6)).0, Verdict::Holds, "the only comparison");
    let sized = A_BEATS_B.replace(" }", ", by = 1.2 }");
    let answer = answered(&sized, &pair(6));
    assert_eq!((answer.verdict, answer.parts.direction), (Verdict::Undecided, Some(Direction::Undecided)));
    assert_eq!(answer.evidence[0].remedy, Some(Remedy::Turns(7)));
    let text = &answer.evidence[0].text;
    assert!(
        text.ends_with("6 turns cannot decide one of 2 comparisons (Holm's correction), 7 can"),
        "{text}"
    );
    let answer = answered(&sized, &pair(7));
    assert_eq!((answer.verdict, answer.indicative), (Verdict::Holds, true));
    let ratio = &answer.evidence[0].ratios[0];
    assert!(ratio.p_holm.is_some() && ratio.p_direction_holm.is_some(), "{ratio:?}");
}

#[test]
fn less_can_be_better() {
    let time = |name: &str, values: &[f64]| blocks(name, 10, Figure::P99Ms, values);
    let p99 = A_BEATS_B.replace("requests_per_s", "p99_ms");
    let both = [time("a", &[1.0, 1.1, 1.0].repeat(2)), time("b", &[3.0, 3.1, 2.9].repeat(2))];
    assert_eq!(answered(&p99, &both).verdict, Verdict::Holds);
}

#[test]
fn fewer_turns_than_a_claim_needs_only_hint() {
    let mut both = [turns("a", 10, &[150.0, 151.0, 152.0]), turns("b", 10, &[100.0, 101.0, 102.0])];
    for quick in [true, false] {
        both.iter_mut().flatten().for_each(|block| block.quick = quick);
        let answer = answered(A_BEATS_B, &both);
        assert_eq!((answer.verdict, answer.indicative), (Verdict::Holds, false));
        let mut fewer = both.clone();
        fewer[0].truncate(19);
        assert!(answered(A_BEATS_B, &fewer).indicative, "one turn of one server is missing");
        fewer.iter_mut().for_each(|blocks| blocks.truncate(2));
        let answer = answered(A_BEATS_B, &fewer);
        assert_eq!((answer.verdict.clone(), answer.indicative), (Verdict::Undecided, true), "quick: {quick}");
        assert!(answer.evidence[0].text.ends_with("undecided: 2 turns, and a verdict needs 6"), "{answer:?}");
        assert_eq!(answer.remedy(), Some(Remedy::EnoughTurns));
        let mut enough = both.clone();
        enough.iter_mut().for_each(|blocks| blocks.truncate(6));
        let answer = answered(A_BEATS_B, &enough);
        assert!(answer.to_string().ends_with("holds (indicative)"), "{answer}");
    }
}

#[test]
fn blocks_on_a_busy_machine_decide_nothing() {
    let mut both = [turns("a", 10, &[150.0, 151.0, 152.0]), turns("b", 10, &[100.0, 101.0, 102.0])];
    for block in both[0].iter_mut().skip(3) {
        block.circumstances.busy_before = 0.9;
    }
    let answer = answered(A_BEATS_B, &both);
    assert_eq!(answer.verdict, Verdict::Undecided);
    assert!(answer.evidence[0].text.ends_with("undecided: 3 turns, and a verdict needs 6"), "{answer:?}");
    both[0].iter_mut().for_each(|block| block.circumstances.busy_before = 0.9);
    let why = "all runs of a under “Load” began on a busy machine";
    assert_eq!(answered(A_BEATS_B, &both).verdict, Verdict::CannotBeTested(why.into()));
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
    assert_eq!(why(&eight, &[rate("a"), rate("b")]), "8 cores are needed, and this machine has 2");
    let four =
        EXPERIMENT.replace("cores = [1, 8]", "cores = [1, 4, 8]") + "[[findings]]\nid = 'F1'\nclaim = 'c'\n";
    let four = Experiment::parse(&format!("{four}holds_when = [{eight}]\n")).unwrap();
    let answer = answer(&four, &[], &machine()).remove(0);
    assert_eq!(
        answer.verdict,
        Verdict::CannotBeTested("4 or 8 cores are needed, and this machine has 2".into())
    );
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
    let rate = |name: &str, value: f64| blocks(name, 10, Figure::RequestsPerS, &[value; 6]);
    let all = format!("{A_BEATS_B}, {}", A_BEATS_B.replace("'b'", "'c'"));
    let mut experiment = experiment(&all);
    let blocks = [rate("a", 2.0), rate("b", 1.0)].concat();
    assert!(matches!(answer(&experiment, &blocks, &machine())[0].verdict, Verdict::CannotBeTested(_)));
    experiment.findings[0].partly = true;
    let answer = answer(&experiment, &blocks, &machine()).remove(0);
    assert_eq!((answer.verdict, answer.partly), (Verdict::Holds, true));
}

/// A server that refuses nine of ten requests at once is neither faster nor sooner.
#[test]
fn who_refuses_fast_is_not_favoured() {
    let of = |name: &str, rate: f64, failed: f64| -> Vec<Block> {
        let figures = [
            (Figure::RequestsPerS, rate),
            (Figure::Failed, failed),
            (Figure::FailedPercent, 100.0 * failed / (rate + failed)),
            (Figure::TotalS, 1.0),
            (Figure::MeanMs, if failed > 0.0 { 1.0 } else { 50.0 }),
            (Figure::P50Ms, if failed > 0.0 { 1.0 } else { 40.0 }),
        ];
        let of_turn = |turn| Block { turn, ..block(name, "l", 10, &figures) };
        (0..TURNS).map(of_turn).collect()
    };
    let both = [of("a", 1200.0, 0.0), of("b", 260.0, 2340.0)];
    for figure in ["requests_per_s", "mean_ms", "p50_ms"] {
        let condition = A_BEATS_B.replace("requests_per_s", figure);
        let (verdict, text) = judged(&condition, &both);
        assert_eq!(verdict, Verdict::Holds, "{figure}: {text}");
        assert!(text.contains("90 % of b's requests failed at 10 clients"), "{text}");
        assert!(
            text.contains("(260/s), and the mean time is 9,000 ms if each failure counts as 10 s"),
            "{text}"
        );
    }
    let p50 = judged(&A_BEATS_B.replace("requests_per_s", "p50_ms"), &both).1;
    assert!(p50.contains("40 and 10,000"), "{p50}");
    let few = [of("a", 1200.0, 0.0), of("b", 2000.0, 1.0)];
    let (_, text) = judged(&A_BEATS_B.replace("requests_per_s", "p50_ms"), &few);
    assert!(text.contains("40 and 1") && !text.contains("failed"), "a few failures change no time: {text}");
}

/// Where the load tool has the server's cores, rates and times are those of both.
#[test]
fn shared_cores_allow_no_verdict() {
    let mut both = [turns("a", 10, &[150.0, 151.0]), turns("b", 10, &[100.0])];
    both.iter_mut().flatten().for_each(|block| {
        block.figures.insert(Figure::MemoryBytes, if block.cell.contender == "a" { 1.0 } else { 2.0 });
        (block.circumstances.server_cores, block.circumstances.tool_cores) = ("0-1".into(), "1".into());
    });
    let why = "the load tool has to share the server's cores: this machine has 2";
    assert_eq!(answered(A_BEATS_B, &both).verdict, Verdict::CannotBeTested(why.into()));
    let memory = A_BEATS_B.replace("requests_per_s", "memory_bytes");
    assert_eq!(answered(&memory, &both).verdict, Verdict::Holds, "memory does not hang on it");
    let meant = format!("{EXPERIMENT}[[findings]]\nid = 'F1'\nclaim = 'c'\nholds_when = [{A_BEATS_B}]\n");
    let meant = meant.replace("cores = [1, 8]", "one_core = true");
    let meant = Experiment::parse(&meant).unwrap();
    assert_eq!(answer(&meant, &both.concat(), &machine()).remove(0).verdict, Verdict::Holds);
}

/// 1.91 (1.35 to 2.09) against a published 3 to 4: one leads, and by less.
#[test]
fn a_verdict_has_three_parts() {
    let lead = [turns("a", 10, &[190.0, 191.0, 200.0]), turns("b", 10, &[100.0])];
    let parts = |more: &str| answered(&A_BEATS_B.replace(" }", &format!("{more} }}")), &lead).parts;
    let far = parts(", by = 2.5, published = [3.0, 4.0]");
    assert_eq!(far.direction, Some(Direction::Holds));
    assert!(far.only_direction_holds() && far.sizes[0].position() == Position::SmallerHere);
    let said = far.to_string();
    assert!(said.starts_with("direction holds; size does not hold, smaller here: 1.91 ("), "{said}");
    assert!(said.ends_with("published 3.00 to 4.00"), "{said}");
    let near = parts(", published = [1.91]");
    assert!(!near.only_direction_holds() && near.sizes[0].position() == Position::Inside, "{near}");
    assert_eq!(parts(", published = [1.2]").sizes[0].position(), Position::LargerHere);
    let reversed = A_BEATS_B.replace("'a', over = 'b'", "'b', over = 'a'");
    assert_eq!(answered(&reversed, &lead).parts.direction, Some(Direction::DoesNotHold));
}

/// What is not what was published does not speak against it.
#[test]
fn does_not_hold_is_said_only_of_what_is_comparable() {
    let source = |more: &str| {
        format!("[source]\ntitle = 's'\nyear = 2020\nmachine = 'm'\n{more}\n[[loads]]\nid = \"l\"\n")
    };
    let finding = format!("[[findings]]\nid = 'F1'\nclaim = 'c'\nholds_when = [{A_BEATS_B}]\n");
    let verdict = |more: &str, load: &str, [a, b]: [f64; 2]| {
        let text = EXPERIMENT.replacen("[[loads]]\nid = \"l\"\n", &source(more), 1);
        let text = text.replacen("title = \"Load\"", &format!("title = \"Load\"\n{load}"), 1);
        let experiment = Experiment::parse(&format!("{text}{finding}")).unwrap();
        let blocks = [turns("a", 10, &[a]), turns("b", 10, &[b])].concat();
        answer(&experiment, &blocks, &machine()).remove(0)
    };
    let (leads, trails) = ([200.0, 100.0], [100.0, 200.0]);
    assert_eq!(verdict("", "", trails).verdict, Verdict::DoesNotHold);
    let few = "not_comparable = 'few clients'";
    assert_eq!(verdict("", few, trails).verdict, Verdict::CannotBeTested("few clients".into()));
    assert_eq!(verdict("", few, leads).verdict, Verdict::Holds);
    let other = "not_comparable = 'Windows is needed'";
    for rates in [leads, trails] {
        assert_eq!(verdict(other, "", rates).verdict, Verdict::CannotBeTested("Windows is needed".into()));
    }
    let own = verdict("", "", leads).parts.comparability;
    assert_eq!((own.as_printed, own.tools), (Some(false), vec!["none instead of fulmar-lab".to_owned()]));
    let other = verdict("", "printed_tool = 'wrk2'", leads).parts.comparability;
    assert_eq!(other.tools, ["none instead of wrk2"], "the publication's tool, not the lab's choice");
    let printed = verdict("", "printed = { workers = 'x' }", leads).parts.comparability;
    assert_eq!(printed.as_printed, Some(true));
}

/// That two are alike is shown, and not that no difference is.
#[test]
fn alike_is_shown_by_two_one_sided_tests() {
    let alike = |values: &[f64]| {
        let ratio = A_BEATS_B.replace("better", "ratio").replace(" }", ", low = 0.95, high = 1.05 }");
        judged(&ratio, &[turns("a", 10, values), turns("b", 10, &[100.0])])
    };
    let (verdict, text) = alike(&[99.0, 101.0, 100.0, 102.0]);
    assert_eq!(verdict, Verdict::Holds, "{text}");
    assert!(text.contains("alike by two one-sided tests: p = 0.000"), "{text}");
    assert_eq!(alike(&[80.0, 120.0, 100.0, 90.0, 110.0]).0, Verdict::Undecided, "noise shows no likeness");
}

#[test]
fn failures_are_counted() {
    let failed = |values: &[f64]| [blocks("a", 10, Figure::Failed, values)];
    let all = "{ is = 'answers_all', load = 'l', of = 'a' }";
    assert_eq!(answered(all, &failed(&[0.0; 6])).verdict, Verdict::Holds);
    assert_eq!(answered(all, &failed(&[0.0; 5])).verdict, Verdict::Undecided);
    assert!(answered(all, &failed(&[0.0; 19])).indicative && !answered(all, &failed(&[0.0; 20])).indicative);
    let some = answered(all, &failed(&[0.0, 3.0]));
    assert_eq!(some.verdict, Verdict::DoesNotHold);
    assert_eq!(some.evidence[0].text, "Load: of a's answers 3 failed at 10 clients");
    assert_eq!(answered(&all.replace("answers_all", "fails"), &failed(&[0.0, 3.0])).verdict, Verdict::Holds);
}

#[test]
fn bounds_are_judged_by_the_whole_interval() {
    let judged = |bounds: &str, values: &[f64]| {
        let change =
            format!("{{ is = 'change', figure = 'requests_per_s', load = 'l', of = 'a', {bounds} }}");
        judged(&change, &[turns("a", 10, &[100.0]), turns("a", 100, values)])
    };
    let (least, most, between) = ("low = 0.85", "high = 0.5", "low = 0.95, high = 1.05");
    for (bounds, values, verdict) in [
        (least, &[86.0, 90.0, 94.0], Verdict::Holds),
        (least, &[83.0, 86.0, 88.0], Verdict::Undecided),
        (least, &[82.0, 84.0, 88.0], Verdict::Undecided),
        (least, &[76.0, 80.0, 84.0], Verdict::DoesNotHold),
        (most, &[45.0, 47.0, 49.0], Verdict::Holds),
        (most, &[45.0, 49.0, 51.0], Verdict::Undecided),
        (most, &[52.0, 54.0, 55.0], Verdict::DoesNotHold),
        (between, &[99.0, 101.0, 103.0], Verdict::Holds),
        (between, &[94.0, 100.0, 106.0], Verdict::Undecided),
        (between, &[80.0, 100.0, 120.0], Verdict::Undecided),
        (between, &[90.0, 91.0, 92.0], Verdict::DoesNotHold),
        (between, &[107.0, 108.0, 109.0], Verdict::DoesNotHold),
    ] {
        let (told, text) = judged(bounds, values);
        assert_eq!(told, verdict, "{bounds} {values:?}: {text}");
        let is_doubted = text.contains("undecided: the interval reaches over the bound; ");
        assert_eq!(is_doubted, verdict == Verdict::Undecided, "{text}");
    }
    assert!(judged(least, &[80.0]).1.contains("100 clients by 10 clients: 80 and 100, 0.80 ×"));
    let cores = "from_cores = 1, to_cores = 8, low = 1.0";
    assert!(matches!(judged(cores, &[100.0]).0, Verdict::CannotBeTested(_)));
}

#[test]
fn of_several_conditions_the_worst_counts() {
    let condition = |of: &str| {
        format!(
            "{{ is = 'ratio', figure = 'requests_per_s', load = 'l', of = '{of}', over = 'c', low = 0.9, high = 1.1 }}"
        )
    };
    let all = [
        turns("a", 10, &[100.0, 101.0]),
        turns("b", 10, &[80.0, 100.0, 120.0]),
        turns("d", 10, &[50.0, 51.0]),
        turns("c", 10, &[100.0]),
    ];
    let verdict = |names: &[&str]| {
        let conditions: Vec<String> = names.iter().map(|name| condition(name)).collect();
        answered(&conditions.join(","), &all).verdict
    };
    assert_eq!(verdict(&["a"]), Verdict::Holds);
    assert_eq!(verdict(&["a", "b"]), Verdict::Undecided);
    assert_eq!(verdict(&["b", "d", "a", "nobody"]), Verdict::DoesNotHold);
    assert!(matches!(verdict(&["b", "nobody"]), Verdict::CannotBeTested(_)), "more turns would not help");
    let mut experiment = experiment(&format!("{}, {}", condition("b"), condition("nobody")));
    experiment.findings[0].partly = true;
    let answer = answer(&experiment, &all.concat(), &machine()).remove(0);
    assert_eq!((answer.verdict, answer.partly), (Verdict::Undecided, true));
}

#[test]
fn of_several_places_the_worst_counts() {
    let mut all = vec![turns("a", 10, &[150.0, 151.0]), turns("b", 10, &[100.0])];
    all.extend([turns("a", 100, &[80.0, 100.0, 120.0]), turns("b", 100, &[100.0])]);
    assert_eq!(judged(A_BEATS_B, &all).0, Verdict::Undecided);
    for clients in 101..104 {
        all.extend([turns("a", clients, &[150.0, 151.0]), turns("b", clients, &[100.0])]);
    }
    let (_, text) = judged(A_BEATS_B, &all);
    assert!(text.contains("so at 4 of 5, undecided at 1, weakest 100 clients: 100 and 100"), "{text}");
    all.extend([turns("a", 200, &[90.0, 91.0]), turns("b", 200, &[100.0])]);
    let (verdict, text) = judged(A_BEATS_B, &all);
    assert_eq!(verdict, Verdict::DoesNotHold);
    assert!(text.contains("so at 4 of 6, undecided at 1, weakest 200 clients: "), "{text}");
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

#[test]
fn what_is_kept_is_kept_while_the_configuration_is_read_anew() {
    let all = Experiment::built_in().unwrap();
    let experiment = all.iter().find(|other| other.id == "modern-vps").unwrap();
    let verdict = |failed: [f64; 2]| {
        let mut blocks = Vec::new();
        for (load, failed) in ["short", "kept-min-timeout"].into_iter().zip(failed) {
            for turn in 0..6 {
                let mut block = Block { turn, ..block("nginx", load, 64, &[(Figure::Failed, failed)]) };
                block.cell.experiment = "reload-under-load".into();
                blocks.push(block);
            }
        }
        let mut answers = answer(experiment, &blocks, &machine()).into_iter();
        answers.find(|answer| answer.finding == "F11").unwrap().verdict
    };
    assert_eq!(verdict([0.0, 0.0]), Verdict::Holds);
    assert_eq!([verdict([1.0, 0.0]), verdict([0.0, 1.0])], [Verdict::DoesNotHold, Verdict::DoesNotHold]);
}
