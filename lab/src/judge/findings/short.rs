//! Blocks that are too short for anything to be said of them: what is measured there is how connections are opened.

use std::collections::BTreeMap;

use crate::judge::statistics::median;
use crate::model::experiment::{ANSWERS_ENOUGH, Kind, Load};
use crate::model::figure::Figure;
use crate::model::words;

use super::data::{Place, Row};

/// On kept connections each client has to have so many answers, of which the first is that of a new connection.
const KEPT_MIN: f64 = 3.0;

/// Where each request has its own connection, each client comes again.
const SHORT_MIN: f64 = 2.0;

/// About half a second: tools end a block somewhat before or after its time.
const SECONDS_MIN: f64 = 0.45;

/// Why nothing can be said of these blocks, if nothing can: of a contender at a place they were too short. Of several, it
/// is the one with the fewest answers a client. A load that has its full amount is as short as it is meant to be, and
/// where clients are added until they get no answer, few answers are what is looked for.
pub(super) fn too_short<'a>(load: &Load, rows: impl Iterator<Item = &'a Row<'a>>) -> Option<String> {
    if load.kind == Kind::Knee {
        return None;
    }
    let is_smaller = |row: &&Row<'_>| row.shortened || (row.quick && load.is_smaller_when_quick());
    let mut cells: BTreeMap<(&str, Place), Vec<(f64, f64)>> = BTreeMap::new();
    for row in rows.filter(is_smaller).filter(|row| row.failure.is_none()) {
        if let Some(length) = length(row) {
            cells.entry((row.contender, row.place)).or_default().push(length);
        }
    }
    let answers_min = if load.keep_alive { KEPT_MIN } else { SHORT_MIN };
    let short = cells.into_iter().filter_map(|((contender, (_, clients)), turns)| {
        let middle = |pick: fn(&(f64, f64)) -> f64| median(&turns.iter().map(pick).collect::<Vec<f64>>());
        let (seconds, answers) = (middle(|turn| turn.0), middle(|turn| turn.1));
        let is_short =
            answers < answers_min || (seconds < SECONDS_MIN && answers < f64::from(ANSWERS_ENOUGH));
        is_short.then_some((contender, clients, seconds, answers))
    });
    let (contender, clients, seconds, answers) = short.min_by(|one, other| one.3.total_cmp(&other.3))?;
    Some(format!(
        "“{}” was too short: {contender} had {} requests a client in {seconds:.2} s at {}",
        load.title,
        words::number(answers),
        words::clients(clients)
    ))
}

/// Why memory says nothing of these blocks, if it does not: they ended before the load's processes were started.
pub(super) fn too_short_for_memory<'a>(
    load: &Load,
    rows: impl Iterator<Item = &'a Row<'a>>,
) -> Option<String> {
    let needed = load.memory_after_s?;
    let seconds: Vec<f64> = rows.filter_map(|row| row.figures.get(&Figure::TotalS).copied()).collect();
    let seconds = (!seconds.is_empty()).then(|| median(&seconds)).filter(|seconds| *seconds < needed)?;
    Some(format!(
        "“{}” was too short for memory: {seconds:.1} s, and processes are started under load for {} s",
        load.title,
        words::number(needed)
    ))
}

/// The seconds of a block, and its requests a client, failed ones too. `None` where it was not requests.
fn length(row: &Row<'_>) -> Option<(f64, f64)> {
    let seconds = *row.figures.get(&Figure::TotalS)?;
    let failed = row.figures.get(&Figure::Failed).copied().unwrap_or_default();
    let answers = row.figures.get(&Figure::RequestsPerS)? * seconds + failed;
    Some((seconds, answers / f64::from(row.place.1)))
}

#[cfg(test)]
mod tests {
    use crate::judge::findings::{Verdict, answer};
    use crate::model::block::{Block, tests::block};
    use crate::model::experiment::{Experiment, TURNS};
    use crate::model::figure::Figure;
    use crate::model::machine::Machine;

    const LOAD: &str = "id = 'l'\ntitle = 'Load'\nclients = [10, 100]\nseconds = 60.0\nkeep_alive = true\n\
                        quick = { seconds = 1.0 }\n";

    /// Blocks of a quick run, of this length and with so many answers a client.
    fn quick(contender: &str, clients: u32, seconds: f64, answers: f64) -> Vec<Block> {
        let rate = answers * f64::from(clients) / seconds;
        let figures = [(Figure::RequestsPerS, rate), (Figure::TotalS, seconds), (Figure::Failed, 0.0)];
        let of_turn = |turn| Block { turn, quick: true, ..block(contender, "l", clients, &figures) };
        (0..TURNS).map(of_turn).collect()
    }

    fn verdict(load: &str, condition: &str, blocks: &[Vec<Block>]) -> Verdict {
        let text = format!(
            "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = []\n[[loads]]\n{load}\n\
             [[findings]]\nid = 'F1'\nclaim = 'c'\nholds_when = [{{ load = 'l', of = 'a', {condition} }}]\n"
        );
        let experiment = Experiment::parse(&text).unwrap();
        answer(&experiment, &blocks.concat(), &Machine::default()).remove(0).verdict
    }

    const BETTER: &str = "is = 'better', figure = 'requests_per_s', over = 'b'";

    /// What happens to a clear lead where both have this length and b so many answers a client.
    fn lead(load: &str, seconds: f64, answers: f64) -> Verdict {
        let both = [quick("a", 100, seconds, 2.0 * answers), quick("b", 100, seconds, answers)];
        verdict(load, BETTER, &both)
    }

    #[test]
    fn a_short_block_is_not_judged() {
        let short =
            |words: &str| Verdict::CannotBeTested(format!("“Load” was too short: {words} at 100 clients"));
        assert_eq!(lead(LOAD, 0.5, 3.0), Verdict::Holds);
        assert_eq!(lead(LOAD, 0.5, 2.9), short("b had 2.90 requests a client in 0.50 s"));
        assert_eq!(lead(LOAD, 0.4, 19.0), short("b had 19 requests a client in 0.40 s"));
        assert_eq!(lead(LOAD, 0.4, 20.0), Verdict::Holds);
        let new = LOAD.replace("keep_alive = true", "");
        assert_eq!(lead(&new, 0.5, 2.0), Verdict::Holds);
        assert_eq!(lead(&new, 0.5, 1.9), short("b had 1.90 requests a client in 0.50 s"));
    }

    #[test]
    fn what_is_as_long_as_it_is_meant_to_be_is_judged() {
        let full = LOAD.replace("quick = { seconds = 1.0 }", "");
        assert_eq!(lead(&full, 0.04, 1.0), Verdict::Holds);
        assert_eq!(lead(&LOAD.replace("seconds = 1.0", "clients = 100"), 0.04, 1.0), Verdict::Holds);
        assert_eq!(lead(&format!("{LOAD}kind = 'knee'\n"), 0.04, 1.0), Verdict::Holds);
        let mut both = [quick("a", 100, 0.04, 2.0), quick("b", 100, 0.04, 1.0)];
        both.iter_mut().flatten().for_each(|block| block.quick = false);
        assert_eq!(verdict(LOAD, BETTER, &both), Verdict::Holds);
        both.iter_mut().flatten().for_each(|block| block.share = Some(0.1));
        assert!(
            matches!(verdict(LOAD, BETTER, &both), Verdict::CannotBeTested(_)),
            "shortened in a full run"
        );
    }

    #[test]
    fn the_middle_block_counts_and_only_what_is_compared() {
        let mut both = [quick("a", 100, 1.0, 20.0), quick("b", 100, 1.0, 10.0)];
        both[1][..9].iter_mut().for_each(|block| *block.figures.get_mut(&Figure::TotalS).unwrap() = 0.1);
        assert_eq!(verdict(LOAD, BETTER, &both), Verdict::Holds);
        both[1][..11].iter_mut().for_each(|block| *block.figures.get_mut(&Figure::TotalS).unwrap() = 0.1);
        assert!(matches!(verdict(LOAD, BETTER, &both), Verdict::CannotBeTested(_)));
        let counts = [quick("a", 10, 1.0, 100.0), quick("a", 100, 1.0, 10.0), quick("a", 50, 0.1, 1.0)];
        let change = |of: &str| {
            verdict(LOAD, &format!("is = 'change', figure = 'requests_per_s', low = 0.9{of}"), &counts)
        };
        assert_eq!(change(""), Verdict::Holds);
        assert!(matches!(change(", to_clients = 50"), Verdict::CannotBeTested(_)));
    }

    #[test]
    fn memory_is_not_judged_before_processes_are_started() {
        let both = ["a", "b"].map(|name| {
            let mut blocks = quick(name, 100, 1.0, 20.0);
            let bytes = if name == "a" { 1.0 } else { 2.0 };
            blocks.iter_mut().for_each(|block| _ = block.figures.insert(Figure::MemoryBytes, bytes));
            blocks
        });
        let memory = "is = 'better', figure = 'memory_bytes', over = 'b'";
        assert_eq!(verdict(LOAD, memory, &both), Verdict::Holds);
        let late = format!("{LOAD}memory_after_s = 20.0\n");
        let Verdict::CannotBeTested(why) = verdict(&late, memory, &both) else { panic!() };
        assert!(why.contains("too short for memory: 1.0 s"), "{why}");
        assert_eq!(verdict(&late, BETTER, &[both[0].clone(), quick("b", 100, 1.0, 10.0)]), Verdict::Holds);
    }

    #[test]
    fn a_failure_is_one_however_short_the_block() {
        let mut blocks = [quick("a", 100, 0.1, 9.0)];
        let both = |blocks: &[Vec<Block>]| {
            ["answers_all", "fails"].map(|is| verdict(LOAD, &format!("is = '{is}'"), blocks))
        };
        assert!(both(&blocks).iter().all(|verdict| matches!(verdict, Verdict::CannotBeTested(_))));
        blocks[0][3].figures.insert(Figure::Failed, 1.0);
        assert_eq!(both(&blocks), [Verdict::DoesNotHold, Verdict::Holds]);
    }
}
