//! What of a load is measured, and how much: its contenders, numbers of clients, turns, and the amount of a block. The run
//! and the estimate of its time both follow it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};

use super::{Settings, Shortened, TURNS_QUICK};
use crate::measure::contender::Contender;
use crate::model::block;
use crate::model::experiment::{
    ANSWERS_ENOUGH, Experiment, Kind, Load, Selected, SiteFile, TURNS, is_judged,
};
use crate::model::order::{Amount, Protocol, ToolName};

/// Guesses for two processors: requests that are answered in a second, and bytes that are sent.
const ANSWERED_PER_S: f64 = 15_000.0;
const ANSWERED_BY_PHP_PER_S: f64 = 800.0;
const SENT_BYTES_PER_S: f64 = 2.5e9;

/// A quick run's blocks are not shortened to less than this part, nor any block to less than this time, nor to so few
/// requests that no finding could be answered.
pub(super) const SHARE_MIN: f64 = 0.4;
const SECONDS_MIN: f64 = 0.5;
const REQUESTS_MIN: u32 = ANSWERS_ENOUGH;

/// Which part of the least time of a block a warm-up takes, where the load says nothing else.
const WARM_UP_PART: f64 = 0.15;

/// A number of requests is not repeated more often than this within a block.
const REPEATS_MOST: u64 = 1000;

/// A number of requests that takes too little time grows by such a part of it.
const STEPS: u64 = 20;

/// Requests are counted out in such parts.
const PARTS: u64 = 100;

/// A share of this time ends the blocks of a full run that keeps to a time. Publications load a server for a minute.
const LONGEST_S: f64 = 60.0;

/// Such a block lasts until each client has about so many responses, however short the time is.
const ANSWERS_FEW: f64 = 4.0;

/// How a load is measured in a run.
#[derive(Clone, Copy)]
pub(super) struct Schedule<'a> {
    pub(super) settings: &'a Settings<'a>,
    pub(super) experiment: &'a Experiment,
    pub(super) load: &'a Load,
}

impl<'a> Schedule<'a> {
    /// Repetitions of each block. A contender that had idle connections before does not begin as it began: if the turns of a
    /// run do not start it anew, idle connections are measured once.
    pub(super) fn turns(self) -> u32 {
        let turns = self.planned();
        if self.load.kind == Kind::Idle && !is_judged(turns) { turns.min(1) } else { turns }
    }

    fn planned(self) -> u32 {
        let whole = match self.settings {
            Settings { quick: true, .. } => TURNS_QUICK,
            _ => self.experiment.turns.unwrap_or(TURNS),
        };
        self.settings.turns.unwrap_or(whole)
    }

    /// Whether there are enough turns for verdicts. Then each turn starts its contenders anew, and several have twins.
    pub(super) fn is_judged(self) -> bool {
        is_judged(self.planned())
    }

    /// What of the load is measured, if that is not all of it.
    fn selected(self) -> Option<&'a Selected> {
        self.settings.selection.as_ref()?.of(&self.experiment.id, &self.load.id)
    }

    /// Whether a contender is measured with so many clients. A twin is measured where its original is.
    pub(super) fn has_block(self, label: &str, clients: u32) -> bool {
        let name = block::original_of(label).unwrap_or(label);
        self.selected().is_none_or(|selected| selected.has_block(name, clients))
    }

    /// The numbers of clients. A full run that keeps to a time has no time for each step of a sweep, nor to open very many idle
    /// connections in each turn.
    pub(super) fn counts(self) -> Vec<u32> {
        if let Some(selected) = self.selected() {
            return selected.counts();
        }
        match self.settings {
            Settings { quick: false, minutes: Some(_), .. } if self.load.kind == Kind::Idle => {
                self.load.clients(true)
            }
            Settings { quick: false, minutes: Some(_), .. } => self.load.clients.in_large_steps(),
            _ => self.load.clients(self.settings.quick),
        }
    }

    /// The contenders of the load, and each twin after its original. The noise floor is not that of one program: a run that
    /// allows verdicts has several twins.
    pub(super) fn labels(self) -> Vec<String> {
        let all = self.load.contenders.as_ref().unwrap_or(&self.experiment.contenders);
        let only = &self.settings.only;
        let is_selected = |name: &&String| self.selected().is_none_or(|selected| selected.has(name));
        let chosen = all.iter().filter(|name| only.is_empty() || only.contains(name)).filter(is_selected);
        let mut labels: Vec<String> = chosen.cloned().collect();
        // A run of a few turns has no time for it in its sweeps.
        let is_short_sweep = self.settings.quick && !self.is_judged() && self.load.clients(true).len() > 1;
        let is_compared = self.selected().is_none_or(|selected| selected.has_twins);
        if self.load.kind == Kind::Load && !is_short_sweep && is_compared {
            for index in self.originals(&labels).into_iter().rev() {
                labels.insert(index + 1, block::twin_of(&labels[index]));
            }
        }
        labels
    }

    /// Which of these contenders have twins: nginx, else the last one that is called after it, else the last one; with enough
    /// turns also the last one.
    fn originals(self, labels: &[String]) -> BTreeSet<usize> {
        let Some(last) = labels.len().checked_sub(1) else { return BTreeSet::new() };
        let nginx = labels.iter().position(|label| label == "nginx");
        let nginx = nginx.or_else(|| labels.iter().rposition(|label| label.starts_with("nginx")));
        [Some(nginx.unwrap_or(last)), self.is_judged().then_some(last)].into_iter().flatten().collect()
    }

    /// What the load asks of a configuration.
    pub(super) fn options(self) -> BTreeMap<String, String> {
        let mut options = self.load.options.clone();
        if self.load.tls.is_some() {
            options.insert("tls".into(), "on".into());
        }
        if self.load.protocol == Protocol::Http2 {
            options.insert("http2".into(), "on".into());
        }
        options
    }

    /// The options of one contender: those of the load, and what it knows of the printed configuration.
    pub(super) fn options_of(self, contender: &Contender) -> BTreeMap<String, String> {
        let is_known = |(name, to): &(&String, &String)| {
            contender.offers(&BTreeMap::from([((*name).clone(), (*to).clone())])).is_ok()
        };
        let printed = self.load.printed.iter().filter(is_known);
        let mut options: BTreeMap<String, String> =
            printed.map(|(name, to)| (name.clone(), to.clone())).collect();
        options.extend(self.options());
        options
    }

    /// Whether a contender can take part. The error says why it cannot.
    pub(super) fn suits(self, contender: &Contender) -> Result<()> {
        contender.offers(&self.options())?;
        let reads = contender.family.reads_nginx_conf || self.load.nginx_conf.is_none();
        ensure!(reads, "{} does not read nginx's configuration", contender.title);
        Ok(())
    }

    /// How much is sent in a block of so many clients; nothing where connections are idle. A run that keeps to a time
    /// shortens it by `share`. No block takes less than the settings' least time, as far as the contender's rate is known:
    /// responses per second, in a warm-up.
    pub(super) fn amount(self, share: f64, clients: u32, rate: Option<f64>) -> Option<Amount> {
        let Settings { quick, minutes, .. } = self.settings;
        let amount = self.load.amount(*quick)?;
        let amount = self.with_enough(amount, clients, rate);
        let is_whole = minutes.is_none() || (*quick && !self.load.is_smaller_when_quick());
        let most = || self.counts().into_iter().max().unwrap_or(1);
        let amount = match *quick {
            _ if is_whole => amount,
            true => shortened(amount, share, most()),
            false => self.limited(amount, share, clients),
        };
        // Where clients are added until they get no answer, a block is as long as it is.
        Some(if self.load.kind == Kind::Knee { amount } else { self.repeated(amount, rate) })
    }

    /// For the claims alone, a number of requests that is no published one is as large as a verdict needs: for each client, up to
    /// the number of a quick run, and for the least time of a block.
    fn with_enough(self, amount: Amount, clients: u32, rate: Option<f64>) -> Amount {
        match amount {
            Amount::Requests(requests) if self.selected().is_some() && self.load.is_smaller_when_quick() => {
                let of_time = rate.unwrap_or(1.0 / self.answer_s()) * self.settings.block_s;
                let enough = requests.min(u64::from(ANSWERS_ENOUGH) * u64::from(clients));
                let step = (enough / STEPS).max(1);
                let mut amounts = (0..STEPS * REPEATS_MOST).map(|steps| enough + steps * step);
                Amount::Requests(amounts.find(|amount| *amount as f64 >= of_time).unwrap_or(enough))
            }
            amount => amount,
        }
    }

    /// An amount that takes the least time of a block at this rate. So many requests are repeated as a whole.
    fn repeated(self, amount: Amount, rate: Option<f64>) -> Amount {
        let least_s = self.settings.block_s;
        match amount {
            Amount::Seconds(seconds) => Amount::Seconds(seconds.max(least_s)),
            Amount::Requests(requests) => {
                let rate = rate.unwrap_or(1.0 / self.answer_s());
                let times = (1..REPEATS_MOST).find(|times| (requests * times) as f64 >= rate * least_s);
                Amount::Requests(requests * times.unwrap_or(REPEATS_MOST))
            }
        }
    }

    /// What each contender gets after its start, before it is measured. It does not count.
    pub(super) fn warm_up(self) -> Option<Amount> {
        let is_of_requests = matches!(self.load.kind, Kind::Load | Kind::Reload);
        let short_s = self.settings.block_s * WARM_UP_PART;
        let short = (is_of_requests && short_s > 0.0).then_some(Amount::Seconds(short_s));
        self.load.warm_up.map(Amount::Requests).or(short).filter(|_| self.turns() > 0)
    }

    /// To which part of its amount a block of so many clients is shortened, if this run shortens blocks.
    pub(super) fn part(self, share: f64, clients: u32) -> Option<f64> {
        let Settings { quick, minutes, .. } = self.settings;
        (*minutes)?;
        if *quick {
            return Some(share);
        }
        let whole = self.load.amount(false)?;
        let amount = self.limited(whole, share, clients);
        (amount != whole).then(|| self.seconds(amount) / self.seconds(whole))
    }

    /// What a block of this amount takes, by a guess.
    pub(super) fn seconds(self, amount: Amount) -> f64 {
        match amount {
            Amount::Seconds(seconds) if self.counts_whole_seconds() => seconds.ceil(),
            Amount::Seconds(seconds) => seconds,
            Amount::Requests(requests) => requests as f64 * self.answer_s(),
        }
    }

    fn counts_whole_seconds(self) -> bool {
        matches!(self.load.tool, ToolName::Wrk | ToolName::Wrk2 | ToolName::Autocannon)
    }

    /// What an answer takes, by a guess.
    pub(super) fn answer_s(self) -> f64 {
        if self.load.application.is_some() {
            return 1.0 / ANSWERED_BY_PHP_PER_S;
        }
        let length = self.file(&self.load.path).map_or(0, |file| file.length);
        1.0 / ANSWERED_PER_S + length as f64 / SENT_BYTES_PER_S
    }

    /// An amount that ends after a share of the longest time, unless it is done before.
    fn limited(self, amount: Amount, share: f64, clients: u32) -> Amount {
        let least_s = match self.load.kind {
            // Where clients are added until they get no answer, few answers are what is looked for.
            Kind::Knee => SECONDS_MIN,
            _ => (f64::from(clients) * ANSWERS_FEW * self.answer_s()).max(SECONDS_MIN),
        };
        let limit_s = (share * LONGEST_S).max(least_s);
        if self.seconds(amount) <= limit_s { amount } else { Amount::Seconds(limit_s) }
    }
}

impl<'a> Schedule<'a> {
    /// The file that a path names, where no application answers.
    pub(super) fn file(self, path: &str) -> Option<&'a SiteFile> {
        let plain = path.split('?').next().unwrap_or_default();
        let plain = if plain.ends_with('/') { format!("{plain}index.html") } else { plain.to_owned() };
        let mut files = self.experiment.files.iter().filter(|_| self.load.application.is_none());
        files.find(|file| file.path.trim_start_matches('/') == plain.trim_start_matches('/'))
    }
}

/// What a share means in a run of this kind.
pub(super) fn shortening(settings: &Settings<'_>, share: f64) -> Shortened {
    let least_s = settings.block_s.max(SECONDS_MIN);
    if settings.quick { Shortened::Part(share) } else { Shortened::Seconds((share * LONGEST_S).max(least_s)) }
}

/// An amount of a quick run for so many clients, shortened.
fn shortened(amount: Amount, share: f64, clients: u32) -> Amount {
    match amount {
        Amount::Seconds(seconds) => Amount::Seconds((seconds * share).max(SECONDS_MIN.min(seconds))),
        Amount::Requests(requests) => {
            let least = requests.min(u64::from(REQUESTS_MIN) * u64::from(clients));
            let parts = (1..=PARTS).filter(|part| *part as f64 <= share * PARTS as f64).count() as u64;
            Amount::Requests((requests * parts / PARTS).max(least))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::tests::settings;
    use super::super::{BLOCK_S, NIGHT_MINUTES};
    use super::*;
    use crate::model::experiment::{Selection, TURNS_DECIDE};

    #[test]
    fn blocks_are_not_shortened_to_nothing() {
        assert_eq!(shortened(Amount::Seconds(2.0), 0.5, 64), Amount::Seconds(1.0));
        assert_eq!(shortened(Amount::Seconds(1.0), 0.01, 64), Amount::Seconds(SECONDS_MIN));
        assert_eq!(shortened(Amount::Requests(30_000), 0.5, 400), Amount::Requests(15_000));
        assert_eq!(shortened(Amount::Requests(30_000), 0.2, 400), Amount::Requests(8000));
        assert_eq!(shortened(Amount::Requests(100), 0.2, 400), Amount::Requests(100));
    }

    #[test]
    fn a_block_takes_its_least_time() {
        let text = "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = ['a']\n\
             [[loads]]\nid = 'few'\ntitle = 'l'\nclients = 10\nrequests = 1000\nkeep_alive = true\n\
             [[loads]]\nid = 'short'\ntitle = 'l'\nclients = 10\nseconds = 0.5\nkeep_alive = true\n\
             [[loads]]\nid = 'knee'\ntitle = 'l'\nkind = 'knee'\nclients = 10\nseconds = 0.5\n";
        let experiment = Experiment::parse(text).unwrap();
        let interrupted = AtomicBool::new(false);
        let judged = Settings { block_s: 2.0, ..settings(&interrupted) };
        let of = |load: usize, rate| {
            Schedule { settings: &judged, experiment: &experiment, load: &experiment.loads[load] }
                .amount(1.0, 10, rate)
        };
        assert_eq!(of(0, Some(20_000.0)), Some(Amount::Requests(40_000)), "forty times the published number");
        assert_eq!(of(0, Some(700.0)), Some(Amount::Requests(2000)), "no part of the published number");
        assert_eq!(of(0, Some(400.0)), Some(Amount::Requests(1000)), "long enough");
        assert_eq!([of(1, None), of(2, None)], [2.0, 0.5].map(|seconds| Some(Amount::Seconds(seconds))));
    }

    #[test]
    fn idle_connections_are_measured_in_each_turn_that_starts_its_contenders() {
        let text = "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = ['a']\n\
             [[loads]]\nid = 'l'\ntitle = 'l'\nkind = 'idle'\nclients = [10, 99]\nquick = { clients = 5 }\n";
        let experiment = Experiment::parse(text).unwrap();
        let interrupted = AtomicBool::new(false);
        let of = |turns, minutes| {
            let settings = Settings { turns: Some(turns), minutes, ..settings(&interrupted) };
            let one = Schedule { settings: &settings, experiment: &experiment, load: &experiment.loads[0] };
            (one.turns(), one.counts())
        };
        assert_eq!([of(2, None).0, of(6, None).0, of(20, None).0, of(0, None).0], [1, 6, 20, 0]);
        assert_eq!([of(20, None).1, of(20, Some(NIGHT_MINUTES)).1], [vec![10, 99], vec![5]]);
    }

    #[test]
    fn the_claims_alone_have_their_own_blocks_and_amounts() {
        let text = "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = ['a', 'b', 'c']\n\
             [source]\ntitle = 't'\nyear = 2026\nmachine = 'm'\n\
             [[loads]]\nid = 'l'\ntitle = 'l'\nclients = [1, 1000]\nrequests = 90000\n\
             quick = { clients = 1000, requests = 8000 }\n\
             [[loads]]\nid = 'whole'\ntitle = 'l'\nclients = 10\nrequests = 5000\n\
             [[findings]]\nid = 'F1'\nclaim = 'c'\nholds_when = [\
             { is = 'better', figure = 'requests_per_s', load = 'l', of = 'a', over = 'b', clients = [1] }, \
             { is = 'answers_all', load = 'l', of = 'a' }, { is = 'answers_all', load = 'whole', of = 'c' }]\n";
        let all = [Experiment::parse(text).unwrap()];
        let interrupted = AtomicBool::new(false);
        let claims = Settings {
            quick: true,
            turns: Some(TURNS_DECIDE),
            block_s: 2.0,
            selection: Some(Selection::of_claims(&all)),
            ..settings(&interrupted)
        };
        let of = |load: usize| Schedule { settings: &claims, experiment: &all[0], load: &all[0].loads[load] };
        assert_eq!((of(0).labels().join(" "), of(0).counts()), ("a b b-twin".into(), vec![1, 1000]));
        assert_eq!(["a", "b-twin"].map(|label| of(0).has_block(label, 1000)), [true, false]);
        assert_eq!(of(1).labels(), ["c"], "no lead, no twins");
        let amount = |load, clients, rate| of(load).amount(1.0, clients, Some(rate));
        assert_eq!(amount(0, 1, 500.0), Some(Amount::Requests(1000)), "two seconds");
        assert_eq!(amount(0, 1000, 500.0), Some(Amount::Requests(8000)), "as many as in a quick run");
        assert_eq!(amount(1, 10, 500.0), Some(Amount::Requests(5000)), "a published number is whole");
    }

    /// The noise floor is that of an event loop and of the last contender, which often is Apache.
    #[test]
    fn verdicts_have_several_twins() {
        let labels = |contenders: &str, turns: u32, clients: &str| {
            let text = format!(
                "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = [{contenders}]\n\
                 [[loads]]\nid = 'l'\ntitle = 'l'\nclients = {clients}\nseconds = 1.0\n"
            );
            let experiment = Experiment::parse(&text).unwrap();
            let interrupted = AtomicBool::new(false);
            let settings = Settings { quick: true, turns: Some(turns), ..settings(&interrupted) };
            let all = Schedule { settings: &settings, experiment: &experiment, load: &experiment.loads[0] }
                .labels();
            all.into_iter().filter(|label| label.ends_with("-twin")).collect::<Vec<_>>().join(" ")
        };
        let (four, five) =
            ("'fulmar', 'nginx', 'apache-event', 'h2o'", "'fulmar', 'nginx', 'caddy', 'h2o', 'apache-event'");
        assert_eq!(labels(four, 20, "10"), "nginx-twin h2o-twin");
        assert_eq!(labels(five, 20, "[10, 100]"), "nginx-twin apache-event-twin");
        assert_eq!([labels(five, 2, "10"), labels(five, 2, "[10, 100]")], ["nginx-twin", ""]);
        assert_eq!(labels("'apache-event'", 20, "10"), "apache-event-twin");
        assert_eq!(labels("'nginx', 'nginx-debian', 'nginx-apache', 'h2o'", 2, "10"), "nginx-twin");
        assert_eq!(labels("'nginx-debian', 'nginx-apache', 'h2o'", 2, "10"), "nginx-apache-twin");
    }

    #[test]
    fn a_night_ends_long_blocks_and_takes_large_steps() {
        let text = "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = ['a']\n\
             [[loads]]\nid = 'long'\ntitle = 'l'\nclients = { from = 0, to = 1000, step = 10 }\nseconds = 60\n\
             quick = { clients = 8, seconds = 1 }\n\
             [[loads]]\nid = 'many'\ntitle = 'l'\nclients = [1, 10]\nrequests = 100000\nkeep_alive = true\n\
             [[loads]]\nid = 'few'\ntitle = 'l'\nclients = 1000\nrequests = 1000\nkeep_alive = true\n";
        let experiment = Experiment::parse(text).unwrap();
        let interrupted = AtomicBool::new(false);
        let night = Settings {
            minutes: Some(NIGHT_MINUTES),
            turns: Some(TURNS_DECIDE),
            block_s: BLOCK_S,
            ..settings(&interrupted)
        };
        let of = |settings, load: usize| Schedule {
            settings,
            experiment: &experiment,
            load: &experiment.loads[load],
        };
        assert_eq!(of(&night, 0).amount(0.05, 10, None), Some(Amount::Seconds(3.0)));
        assert_eq!(of(&night, 0).part(0.05, 10), Some(0.05));
        assert_eq!(of(&night, 0).counts(), [1, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]);
        assert_eq!(of(&night, 1).amount(0.001, 10, None), Some(Amount::Seconds(BLOCK_S)));
        assert_eq!(
            of(&night, 2).amount(0.001, 10, None),
            Some(Amount::Requests(30_000)),
            "the whole number again and again, until the least time is over"
        );
        assert_eq!((of(&night, 2).part(0.001, 10), of(&night, 0).turns()), (None, TURNS_DECIDE));
        let many = of(&night, 0).amount(0.001, 10_000, None);
        assert!(
            matches!(many, Some(Amount::Seconds(seconds)) if seconds > BLOCK_S),
            "each client gets some: {many:?}"
        );
        let full = settings(&interrupted);
        assert_eq!(
            (of(&full, 0).amount(0.05, 10, None), of(&full, 0).part(0.05, 10)),
            (Some(Amount::Seconds(60.0)), None)
        );
        assert_eq!(of(&full, 0).counts().len(), 101);
        let quick = Settings { quick: true, minutes: Some(NIGHT_MINUTES), ..full.clone() };
        assert_eq!(
            (of(&quick, 0).amount(0.6, 10, None), of(&quick, 0).part(0.6, 10)),
            (Some(Amount::Seconds(0.6)), Some(0.6))
        );
        assert_eq!(
            of(&quick, 1).amount(0.6, 10, None),
            Some(Amount::Requests(100_000)),
            "as large in a quick run"
        );
    }
}
