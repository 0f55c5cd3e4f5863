//! How long a run takes, before it begins, and how much its blocks are shortened if it keeps to a time.

use super::schedule::{SHARE_MIN, Schedule};
use crate::model::experiment::Kind;

/// To start a contender, to see that it answers, and to end it.
const START_S: f64 = 0.25;

/// To start the services of an application, and to fill its database.
const SET_UP_S: f64 = 10.0;

/// Next to the tool's time: to start it, and to look at the contender before and afterwards.
const BLOCK_S: f64 = 0.14;

/// To look at idle connections, once they are open.
const LOOK_S: f64 = 2.0;

/// Guesses: connections that are opened in a second, for requests, and for idle connections, of which some are not accepted
/// before a time-out.
const CONNECTED_PER_S: f64 = 30_000.0;
const CONNECTED_IDLE_PER_S: f64 = 4000.0;

/// The share is looked for in so many steps, each half as large as the one before.
const STEPS: u32 = 30;

/// What the time of a load depends on.
pub(super) struct Takes<'a> {
    pub(super) schedule: Schedule<'a>,
    /// The contenders that take part, the twins among them; none if the machine has too few cores.
    pub(super) contenders: Vec<String>,
    /// Whether this load is the first one that needs its application.
    pub(super) sets_up: bool,
    /// The turns that have not been measured yet.
    pub(super) turns: u32,
}

impl Takes<'_> {
    /// What the load takes, with blocks shortened by this share.
    pub(super) fn seconds(&self, share: f64) -> f64 {
        let Schedule { load, .. } = self.schedule;
        let turns = f64::from(self.turns);
        if self.contenders.is_empty() || turns == 0.0 {
            return 0.0;
        }
        let starts = if self.schedule.is_judged() { turns } else { 1.0 };
        let warm_up_s = self.schedule.warm_up().map_or(0.0, |amount| self.schedule.seconds(amount));
        let set_up_s = if self.sets_up { SET_UP_S } else { 0.0 };
        let block_s = |clients: u32| {
            let amount = self.schedule.amount(share, clients, None);
            BLOCK_S + amount.map_or(0.0, |amount| self.schedule.seconds(amount))
        };
        let of_count = |clients: u32| match load.kind {
            Kind::Idle => f64::from(clients) / CONNECTED_IDLE_PER_S + LOOK_S,
            _ => f64::from(clients) / CONNECTED_PER_S + block_s(clients),
        };
        let of_contender = |label: &String| -> f64 {
            let counts = self.schedule.counts().into_iter();
            let measured = counts.filter(|clients| self.schedule.has_block(label, *clients));
            starts * (START_S + warm_up_s) + turns * measured.map(of_count).sum::<f64>()
        };
        set_up_s + self.contenders.iter().map(of_contender).sum::<f64>()
    }
}

/// What all of these loads take.
pub(super) fn seconds<'a>(takes: impl IntoIterator<Item = &'a Takes<'a>>, share: f64) -> f64 {
    takes.into_iter().map(|one| one.seconds(share)).sum()
}

/// The largest share with which these loads fit into the time that is left; the least one if they do not fit.
pub(super) fn share(left_s: f64, to_come: &[&Takes<'_>]) -> f64 {
    let is_quick = to_come.first().is_some_and(|one| one.schedule.settings.quick);
    let least = if is_quick { SHARE_MIN } else { 0.0 };
    let fits = |share: f64| seconds(to_come.iter().copied(), share) <= left_s;
    if fits(1.0) {
        return 1.0;
    }
    let (mut low, mut high) = (least, 1.0);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicBool;

    use super::super::series::application_key;
    use super::super::tests::settings;
    use super::super::{BLOCK_S, NIGHT_MINUTES, Settings, loads};
    use super::*;
    use crate::measure::contender::Contender;
    use crate::model::block::original_of;
    use crate::model::experiment::{Experiment, Selection, TURNS, TURNS_DECIDE};

    /// The machine that the limits are for.
    const CORES: u32 = 2;

    /// In no registry, so `make lab` does not install them.
    const MISSING: [&str; 2] = ["openlitespeed", "cherokee"];

    /// What a run takes on a machine with two cores and all that `make lab` installs.
    fn takes<'a>(
        settings: &'a Settings<'a>,
        experiments: &[&'a Experiment],
        contenders: &[Contender],
    ) -> Vec<Takes<'a>> {
        let mut set_up = BTreeSet::new();
        let all = experiments.iter().flat_map(|experiment| {
            loads(settings, experiment, CORES).map(|(load, cores)| (*experiment, load, cores))
        });
        let one = |(experiment, load, cores)| {
            let schedule = Schedule { settings, experiment, load };
            let is_here = |label: &String| {
                let name = original_of(label).unwrap_or(label);
                let known = contenders.iter().find(|contender| contender.name == name);
                !MISSING.contains(&name) && known.is_some_and(|contender| schedule.suits(contender).is_ok())
            };
            let mut contenders = schedule.labels();
            contenders.retain(|label| cores <= CORES && is_here(label));
            let sets_up = application_key(load, cores).is_some_and(|key| set_up.insert(key));
            let turns = schedule.turns();
            Takes { schedule, contenders, sets_up, turns }
        };
        all.map(one).collect()
    }

    #[test]
    fn the_published_runs_keep_to_their_times() {
        let (all, contenders) = (Experiment::built_in().unwrap(), Contender::built_in().unwrap());
        let published = Experiment::answering_publications(&all);
        let interrupted = AtomicBool::new(false);
        let full = settings(&interrupted);
        let minutes = |settings: &Settings<'_>| {
            let takes = takes(settings, &published, &contenders);
            let share = settings
                .minutes
                .map_or(1.0, |minutes| share(minutes * 60.0, &takes.iter().collect::<Vec<_>>()));
            for experiment in &published {
                let of_it = takes.iter().filter(|one| one.schedule.experiment.id == experiment.id);
                println!("{}: {:.1}", experiment.id, seconds(of_it, share) / 60.0);
            }
            (seconds(&takes, share) / 60.0, share)
        };
        // `make lab`: some time is left for what the guesses miss.
        let (quick, _) = minutes(&Settings { quick: true, ..full.clone() });
        assert!((15.0..31.0).contains(&quick), "{quick:.1} minutes");
        let short = Settings { quick: true, minutes: Some(20.0), turns: Some(2), ..full.clone() };
        let (short, _) = minutes(&short);
        assert!((15.0..24.0).contains(&short), "{short:.1} minutes");
        let judged = |turns| Settings { quick: true, turns: Some(turns), block_s: BLOCK_S, ..full.clone() };
        let [small, large] = [TURNS_DECIDE, TURNS].map(|turns| minutes(&judged(turns)).0);
        let claims = Settings { selection: Some(Selection::of_claims(&all)), ..judged(TURNS_DECIDE) };
        let takes = takes(&claims, &all.iter().collect::<Vec<_>>(), &contenders);
        for one in &takes {
            println!(
                "{} {}: {:.1}",
                one.schedule.experiment.id,
                one.schedule.load.id,
                one.seconds(1.0) / 60.0
            );
        }
        let claims = seconds(&takes, 1.0) / 60.0;
        assert!((60.0..150.0).contains(&claims), "{claims:.1} minutes");
        assert!((300.0..420.0).contains(&small), "{small:.1} minutes");
        assert!((500.0..700.0).contains(&large), "{large:.1} minutes");
        let (night, share) = minutes(&Settings {
            minutes: Some(NIGHT_MINUTES),
            turns: Some(TURNS_DECIDE),
            block_s: BLOCK_S,
            ..full
        });
        assert!(
            (NIGHT_MINUTES * 0.95..=NIGHT_MINUTES).contains(&night) && share > 0.0,
            "{night:.1} minutes, {share}"
        );
    }

    #[test]
    fn what_is_to_come_fits_into_the_time() {
        let text = "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = ['a']\n\
             [[loads]]\nid = 'l'\ntitle = 'l'\nclients = 10\nseconds = 60\nquick = { seconds = 2.0 }\n";
        let experiment = Experiment::parse(text).unwrap();
        let interrupted = AtomicBool::new(false);
        let settings =
            Settings { quick: true, minutes: Some(1.0), turns: Some(10), ..settings(&interrupted) };
        let schedule = Schedule { settings: &settings, experiment: &experiment, load: &experiment.loads[0] };
        let contenders = ['a', 'b'].map(String::from).into();
        let one = Takes { schedule, contenders, sets_up: false, turns: 10 };
        let (whole, half) = (one.seconds(1.0), one.seconds(0.5));
        assert!((whole - half - 20.0).abs() < 1e-9, "{whole} {half}");
        assert!((share(half, &[&one]) - 0.5).abs() < 1e-6);
        assert_eq!((share(whole, &[&one]), share(0.0, &[&one])), (1.0, SHARE_MIN));
        assert!((share(2.0 * half, &[&one, &one]) - 0.5).abs() < 1e-6);
        let nobody = Takes { contenders: Vec::new(), sets_up: true, ..one };
        assert_eq!(nobody.seconds(1.0), 0.0);
    }
}
