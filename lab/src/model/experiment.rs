//! An experiment: what was published, what is loaded here, and what is to be answered. All of it is data, one
//! TOML file each (`lab/experiments`); this is the shape of those files.

mod claims;
pub mod folder;
mod names;
mod register;
mod selection;
mod wording;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

pub use selection::{Selected, Selection};

use crate::model::figure::{Figure, Phases};
use crate::model::numbers;
use crate::model::order::{Amount, Protocol, Tls, ToolName};

/// One published comparison, or one of the lab's own questions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name on the command line.
    pub id: String,
    /// Its name for people.
    pub title: String,
    /// What it asks, in one sentence.
    pub question: String,
    /// Where it was published; the lab's own experiments have none.
    pub source: Option<Source>,
    /// The contenders that take part, by name, in the order of the report.
    pub contenders: Vec<String>,
    /// How the repetition differs from what was published.
    #[serde(default)]
    pub departures: Vec<String>,
    /// How often each block is repeated in a full run, where the publication says so or where narrow intervals need more
    /// turns than others.
    pub turns: Option<u32>,
    /// The files that are served.
    #[serde(default)]
    pub files: Vec<SiteFile>,
    /// What is asked of the contenders.
    #[serde(default)]
    pub loads: Vec<Load>,
    /// The published figures.
    #[serde(default)]
    pub published: Vec<Published>,
    /// What was published and is no figure.
    #[serde(default)]
    pub stated: Vec<Stated>,
    /// What was concluded from them.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Whether a report on the publications has it: what they ask, and none of them tests.
    #[serde(default)]
    pub belongs_to_published: bool,
    /// The text of its file.
    #[serde(skip)]
    pub text: String,
}

/// Who published it, and on which machine it was measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Authors as they are cited; empty where none is named.
    #[serde(default)]
    pub authors: String,
    /// The title of the publication, or what it is about where it has none.
    pub title: String,
    /// The year.
    pub year: u16,
    /// The machine, the system and the versions, in a sentence.
    pub machine: String,
    /// Where the load came from.
    #[serde(default)]
    pub generator: Generator,
    /// Why its findings cannot be tested on this system at all, if they cannot: servers for Windows.
    pub not_comparable: Option<String>,
}

/// Where a published load came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Generator {
    /// From the server's own machine, whose cores it shared.
    SameMachine,
    /// From another machine, over a network.
    OtherMachine,
    /// The publication does not say.
    #[default]
    Unknown,
}

/// A file below the root of every contender.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteFile {
    /// Its path below the root.
    pub path: String,
    /// Its length in bytes, where its text is not given. The content is the same for every contender.
    #[serde(default)]
    pub length: u64,
    /// What it consists of, where its text is not given.
    #[serde(default)]
    pub content: Content,
    /// Its text.
    pub text: Option<String>,
    /// How many lines it has: the text is one of them, with `{number}` or `{network}` for what differs.
    pub lines: Option<u32>,
    /// How many such files there are, with `{number}` in their path.
    pub count: Option<u32>,
    /// Whether it lies next to itself compressed, as `.gz`.
    #[serde(default)]
    pub gzipped: bool,
}

/// What a made-up file consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// The alphabet, so that a shift or a cut shows.
    #[default]
    Letters,
    /// A page of made-up words, which can be compressed about as well as an article.
    Prose,
}

/// Directives of nginx's language that a load needs, the same for all contenders that read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NginxConf {
    /// Within `http`.
    #[serde(default)]
    pub http: String,
    /// Within `server`.
    #[serde(default)]
    pub server: String,
}

/// One kind of load, at one or several numbers of clients.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Its name within the experiment.
    pub id: String,
    /// Its name for people.
    pub title: String,
    /// What is done with the contenders.
    #[serde(default)]
    pub kind: Kind,
    /// The tool that the publication used. Where it is missing, the lab's own generator takes its place.
    #[serde(default)]
    pub tool: ToolName,
    /// The tool of the publication, if the lab uses another one for this load on purpose.
    pub printed_tool: Option<ToolName>,
    /// The path that is asked for.
    #[serde(default = "root_path")]
    pub path: String,
    /// Other paths of some contenders, by name, where a publication did not compare like with like. Of such a load
    /// nobody is said to lead.
    #[serde(default)]
    pub paths: BTreeMap<String, String>,
    /// How many clients there are at once.
    pub clients: Clients,
    /// How many requests are sent at each number of clients.
    pub requests: Option<u64>,
    /// How often that is repeated within a block, because one time takes a fraction of a second here.
    #[serde(default = "one_time")]
    pub repeats: u64,
    /// Or for how long they are sent.
    pub seconds: Option<f64>,
    /// Whether a connection is used again.
    #[serde(default)]
    pub keep_alive: bool,
    /// Requests in flight on one connection.
    #[serde(default = "one")]
    pub pipeline: u32,
    /// Whether the connection is TLS, and whether sessions are resumed.
    pub tls: Option<Tls>,
    /// The version of HTTP that the tool speaks.
    #[serde(default)]
    pub protocol: Protocol,
    /// How many cores the contenders get; one series of measurements each.
    #[serde(default = "one_core")]
    pub cores: Vec<u32>,
    /// Which configuration of the contenders: `default` or `tuned`.
    #[serde(default)]
    pub configuration: Configuration,
    /// What is different in that configuration: `access_log = "on"`. A contender that does not know the option
    /// is left out, and the report says so.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Options by which contenders run the configuration that the publication prints. Each takes those that it knows; what
    /// no option says is as in `configuration`.
    #[serde(default)]
    pub printed: BTreeMap<String, String>,
    /// Why what is measured under this load cannot speak against the publication, if it cannot: 200 clients for
    /// thousands. A finding that does not hold under it cannot be tested.
    pub not_comparable: Option<String>,
    /// Memory says nothing before a block has lasted so many seconds: processes are started while the load runs.
    pub memory_after_s: Option<f64>,
    /// A contender that the others pass requests on to. There is one for all, and its CPU is not theirs.
    pub backend: Option<String>,
    /// An application that is served instead of the experiment's files. A contender without the interpreter inside gets
    /// a separate one, which counts as a part of that contender. All contenders share one database.
    pub application: Option<String>,
    /// Options of interpreters, databases and backends. Each takes those that it knows.
    #[serde(default)]
    pub backend_options: BTreeMap<String, String>,
    /// A text that a right answer has, where no file says what is right.
    pub contains: Option<String>,
    /// Whether the backend has the cores of the tool, and not those of the contenders.
    #[serde(default)]
    pub backend_beside_tool: bool,
    /// Whether contender, backend and tool share one core, so that this core is always busy and nobody sleeps.
    #[serde(default)]
    pub one_core: bool,
    /// Requests a second over all clients, where they come at a constant rate.
    pub rate: Option<f64>,
    /// Fields that clients send besides the tool's own, each `Name: value`.
    #[serde(default)]
    pub fields: Vec<String>,
    /// How many different requests there are, asked in a mixed order: `{number}` stands for its number.
    pub numbers: Option<u32>,
    /// Bytes of content that each request brings along; it is a POST then. With the fields of gRPC they are one message,
    /// which has its prefix besides, and a right answer has `grpc-status: 0` in its trailers.
    pub body_bytes: Option<u64>,
    /// Requests that each contender gets before it is measured, so that it knows what it can remember.
    pub warm_up: Option<u64>,
    /// Directives that it needs. A contender that does not read nginx's language is left out.
    pub nginx_conf: Option<NginxConf>,
    /// What is smaller with `--quick`.
    pub quick: Option<Quick>,
    /// Contenders of this load, where they are not all of the experiment's.
    pub contenders: Option<Vec<String>>,
    /// Why it cannot be run, if it cannot: the finding that needs it is answered with this.
    pub not_yet: Option<String>,
    /// The purpose that this load stands for: `a WordPress site`. The first page of the report
    /// answers it.
    pub need: Option<String>,
    /// The figure that ranks the servers, if their rate does not: on one machine, the load tool or the application behind
    /// them may be the limit.
    pub ranked_by: Option<Figure>,
}

/// What is done with the contenders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A tool sends requests.
    #[default]
    Load,
    /// Connections are opened, used once and left idle; memory is read at each number of clients.
    Idle,
    /// A tool sends requests while the contender reloads its configuration, again and again.
    Reload,
    /// The number of clients is raised until answers fail or take too long.
    Knee,
}

/// Repetitions that a claim needs.
pub const TURNS: u32 = 20;

/// Turns that can decide one of 102 comparisons. No publication has more in a quick run, nor in a full run on two cores; with
/// four cores or more, `static-cores` has more in a full run.
pub const TURNS_DECIDE: u32 = 12;

/// A verdict needs so many pairs. Of fewer, the interval from the least to the greatest leaves out the true ratio in more
/// than one case of twenty: with three pairs, one comparison of four finds a difference between equal servers.
pub const FEWEST: u32 = 6;

/// Whether a run of so many turns allows verdicts. Then every turn of a load starts its contenders anew, so that turns are
/// independent of each other, and the loads take turns, too, so that a run can pause after each of them.
pub fn is_judged(turns: u32) -> bool {
    turns >= FEWEST
}

/// A short block says enough if each client has so many answers: how it began hardly counts then.
pub const ANSWERS_ENOUGH: u32 = 20;

/// A client that waits so long is not served: where [`Kind::Knee`] ends.
pub const KNEE_MS: f64 = 1000.0;

/// A list of numbers, or weighttp's sweep.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Clients {
    /// One number.
    One(u32),
    /// Each of these.
    Each(Vec<u32>),
    /// From the first to the last in steps; 0 stands for 1.
    Sweep {
        /// The smallest number.
        from: u32,
        /// The largest number.
        to: u32,
        /// What lies between two.
        step: u32,
    },
}

impl Clients {
    /// All numbers in their order.
    pub fn each(&self) -> Vec<u32> {
        match self {
            Clients::One(count) => vec![*count],
            Clients::Each(counts) => counts.clone(),
            Clients::Sweep { from, to, step } => {
                let step = usize::try_from((*step).max(1)).unwrap_or(1);
                (*from..=*to).step_by(step).map(|count| count.max(1)).collect()
            }
        }
    }

    /// The same with ten times larger steps where it is a sweep.
    pub fn in_large_steps(&self) -> Vec<u32> {
        match *self {
            Clients::Sweep { from, to, step } => Clients::Sweep { from, to, step: 10 * step }.each(),
            _ => self.each(),
        }
    }
}

impl Load {
    /// Whether contenders run what the publication prints, or what their packages install.
    pub fn is_as_printed(&self) -> bool {
        !self.printed.is_empty() || self.configuration == Configuration::Default
    }

    /// The numbers of clients.
    pub fn clients(&self, quick: bool) -> Vec<u32> {
        self.quick(quick).and_then(|quick| quick.clients.as_ref()).unwrap_or(&self.clients).each()
    }

    /// The path that a contender is asked for.
    pub fn path_for(&self, contender: &str) -> &str {
        self.paths.get(contender).unwrap_or(&self.path)
    }

    /// The numbers of cores.
    pub fn cores(&self, quick: bool) -> &[u32] {
        self.quick(quick).and_then(|quick| quick.cores.as_ref()).unwrap_or(&self.cores)
    }

    /// The path of the first request.
    pub fn first_path(&self, contender: &str) -> String {
        numbers::put(self.path_for(contender), 0, self.numbers.unwrap_or(1))
    }

    /// Whether clients ask for compressed content, so that an answer without compression is wrong.
    pub fn wants_gzip(&self) -> bool {
        let wants = |field: &String| {
            let field = field.to_ascii_lowercase();
            field.starts_with("accept-encoding:") && field.contains("gzip")
        };
        self.fields.iter().any(wants)
    }

    /// How much is sent; nothing where connections are idle.
    pub fn amount(&self, quick: bool) -> Option<Amount> {
        let either = |requests: Option<u64>, seconds: Option<f64>| {
            requests.map(Amount::Requests).or(seconds.map(Amount::Seconds))
        };
        let smaller = self.quick(quick).and_then(|quick| either(quick.requests, quick.seconds));
        smaller.or_else(|| either(self.requests.map(|requests| requests * self.repeats), self.seconds))
    }

    /// The status code of a right answer.
    pub fn expected_status(&self) -> u16 {
        let upgrade = |field: &String| field.to_ascii_lowercase().starts_with("upgrade:");
        if self.fields.iter().any(upgrade) { 101 } else { 200 }
    }

    /// Why it is not run, if it is not.
    pub fn left_out(&self, quick: bool) -> Option<&str> {
        let skipped = self.quick(quick).is_some_and(|quick| quick.skip);
        self.not_yet.as_deref().or(skipped.then_some("it is left out of a quick run"))
    }

    /// Whether less is sent in a quick run.
    pub fn is_smaller_when_quick(&self) -> bool {
        self.quick.as_ref().is_some_and(|quick| quick.requests.is_some() || quick.seconds.is_some())
    }

    fn quick(&self, quick: bool) -> Option<&Quick> {
        self.quick.as_ref().filter(|_| quick)
    }
}

/// Which of a contender's configurations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Configuration {
    /// As its package has it, with the fewest changes that the load needs.
    Default,
    /// As its own documentation advises for this kind of load.
    #[default]
    Tuned,
}

/// The numbers that `--quick` uses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// Instead of `clients`.
    pub clients: Option<Clients>,
    /// Instead of `requests`, or of `seconds`.
    pub requests: Option<u64>,
    /// Instead of `seconds`, or of `requests`.
    pub seconds: Option<f64>,
    /// Instead of `cores`.
    pub cores: Option<Vec<u32>>,
    /// Whether the load is left out, because it says nothing when it is short.
    #[serde(default)]
    pub skip: bool,
}

/// A figure as it was published.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The load that it belongs to.
    pub load: String,
    /// The contender that stands for the published server here.
    pub contender: String,
    /// The number of clients, where it was published.
    pub clients: Option<u32>,
    /// The number of cores, where it was published.
    pub cores: Option<u32>,
    /// The figures.
    pub figures: BTreeMap<Figure, f64>,
    /// How the parts of a request's time spread: of each phase min, mean, sd, median and max, in milliseconds.
    #[serde(default)]
    pub phases: Phases,
}

/// A property or a price that was published.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stated {
    /// What it is about.
    pub subject: String,
    /// The name of the feature, where the lab's matrix has it.
    pub feature: Option<String>,
    /// The contender that stands for the published server here.
    pub contender: String,
    /// What was published of it, in our words.
    pub says: String,
}

/// A conclusion of the publication. One in a separate file is a claim of the register (`lab/claims`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// The experiment that it belongs to, if it has a separate file.
    pub experiment: Option<String>,
    /// `F1`, `F2`, …
    pub id: String,
    /// What it says, in our words.
    pub claim: String,
    /// The published figures.
    pub quoted: Option<String>,
    /// What the author of the publication says of the verdict.
    pub answer: Option<Reply>,
    /// The text of its file, if it has one.
    #[serde(skip)]
    pub text: String,
    /// The same in few words, for the picture on the report's first page.
    pub short: Option<Short>,
    /// Why it cannot be tested here, if it cannot: what was published is not measured.
    pub not_comparable: Option<String>,
    /// It holds where all of these do.
    #[serde(default)]
    pub holds_when: Vec<Condition>,
    /// Whether conditions that cannot be tested are left out, as long as one can: what is said of all servers is
    /// asked of those that are here.
    #[serde(default)]
    pub partly: bool,
}

/// What an author answered.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// Who.
    pub by: String,
    /// The day.
    pub on: String,
    /// The answer, word for word.
    pub says: String,
}

/// A finding in few words. Of its conditions the first one that has both a published and a measured ratio is drawn.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Short {
    /// What was compared: `small files`.
    pub of: String,
    /// The published advantage as the publication puts it; else it is computed from the published figures.
    pub says: Option<String>,
}

/// What can be checked on measured figures. `load` names a load of the experiment, or `experiment/load` of
/// another one; where `clients` or `cores` are not given, it must be so for each that was measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is", deny_unknown_fields)]
pub enum Condition {
    /// `of` is better than `over` in this figure, and by this factor if one is given (1.5: half as good again). The
    /// data ask for half of a published advantage, since it belongs to another machine. How large the advantage is
    /// stands beside the verdict.
    Better {
        /// The figure; what better means is known from it.
        figure: Figure,
        /// The load.
        load: String,
        /// Who leads.
        of: String,
        /// Whom.
        over: String,
        /// At least by this factor.
        by: Option<f64>,
        /// The published advantage as a factor, or the two ends of it, where no published figures give it.
        #[serde(default)]
        published: Vec<f64>,
        /// Only at these numbers of clients.
        clients: Option<Clients>,
        /// Only with these numbers of cores.
        cores: Option<Vec<u32>>,
        /// Whether all numbers of clients are taken together, by their geometric mean, instead of each alone.
        #[serde(default)]
        together: bool,
    },
    /// `of` divided by `over` lies between two bounds.
    Ratio {
        /// The figure.
        figure: Figure,
        /// The load.
        load: String,
        /// The dividend.
        of: String,
        /// The divisor.
        over: String,
        /// The lower bound.
        low: f64,
        /// The upper bound.
        high: f64,
        /// Only at these numbers of clients.
        clients: Option<Clients>,
        /// Only with these numbers of cores.
        cores: Option<Vec<u32>>,
        /// Whether all numbers of clients are taken together, by their geometric mean, instead of each alone.
        #[serde(default)]
        together: bool,
    },
    /// A contender's figure at one number of clients (or of cores) divided by that at another lies between two bounds.
    /// Where only the cores change, all numbers of clients are taken together, by their geometric mean.
    Change {
        /// The figure.
        figure: Figure,
        /// The load.
        load: String,
        /// Whose.
        of: String,
        /// Clients of the divisor; the load's fewest where absent.
        from_clients: Option<u32>,
        /// Clients of the dividend; the load's most where absent.
        to_clients: Option<u32>,
        /// Cores of the divisor.
        from_cores: Option<u32>,
        /// Cores of the dividend.
        to_cores: Option<u32>,
        /// The lower bound; none where absent.
        low: Option<f64>,
        /// The upper bound; none where absent.
        high: Option<f64>,
    },
    /// Every request was answered rightly.
    AnswersAll {
        /// The load.
        load: String,
        /// By whom.
        of: String,
        /// Only at these numbers of clients.
        clients: Option<Clients>,
    },
    /// Some request was not.
    Fails {
        /// The load.
        load: String,
        /// By whom.
        of: String,
        /// Only at these numbers of clients.
        clients: Option<Clients>,
    },
    /// A contender's figure divided by that of another load lies between two bounds.
    AgainstLoad {
        /// The figure.
        figure: Figure,
        /// The load of the dividend.
        load: String,
        /// The load of the divisor.
        against: String,
        /// Whose.
        of: String,
        /// The lower bound; none where absent.
        low: Option<f64>,
        /// The upper bound; none where absent.
        high: Option<f64>,
    },
}

/// The experiments that the program brings along, in the order of the report.
pub(crate) const BUILT_IN: &[&str] = &[
    include_str!("../../experiments/stress-debian.toml"),
    include_str!("../../experiments/modern-vps.toml"),
    include_str!("../../experiments/static-cores.toml"),
    include_str!("../../experiments/static-and-dynamic.toml"),
    include_str!("../../experiments/windows-hey.toml"),
    include_str!("../../experiments/costs.toml"),
    include_str!("../../experiments/proxying.toml"),
    include_str!("../../experiments/deciding.toml"),
    include_str!("../../experiments/architectures.toml"),
    include_str!("../../experiments/churn.toml"),
    include_str!("../../experiments/pipelining.toml"),
    include_str!("../../experiments/http2.toml"),
    include_str!("../../experiments/idle-connections.toml"),
    include_str!("../../experiments/knee.toml"),
    include_str!("../../experiments/memory.toml"),
    include_str!("../../experiments/htaccess-cost.toml"),
    include_str!("../../experiments/cache-hit.toml"),
    include_str!("../../experiments/tuning.toml"),
    include_str!("../../experiments/logging-cost.toml"),
    include_str!("../../experiments/reload-under-load.toml"),
    include_str!("../../experiments/generators.toml"),
];

impl Experiment {
    /// Reads one file. Fails with the place of what is wrong in it.
    pub fn parse(text: &str) -> Result<Experiment> {
        let experiment = Experiment { text: text.to_owned(), ..toml::from_str(text)? };
        for load in &experiment.loads {
            let amount = usize::from(load.requests.is_some()) + usize::from(load.seconds.is_some());
            let needed = usize::from(load.kind != Kind::Idle);
            let wrong = |what: &str| names::at(text, &load.id, &format!("load {}: {what}", load.id));
            ensure!(amount == needed, wrong("give either requests or seconds"));
            ensure!(!load.clients.each().is_empty(), wrong("no number of clients"));
            let divides =
                load.backend_beside_tool || [false, true].iter().any(|quick| load.cores(*quick) != [1]);
            ensure!(
                !(load.one_core && divides),
                wrong("with one_core, leave out backend_beside_tool and cores: one core has everything")
            );
        }
        Ok(experiment)
    }

    /// All that the program brings along, with the claims of the register.
    pub fn built_in() -> Result<Vec<Experiment>> {
        let parse = |text: &&str| {
            Experiment::parse(text).with_context(|| text.lines().next().unwrap_or_default().to_owned())
        };
        let mut all: Vec<Experiment> = BUILT_IN.iter().map(parse).collect::<Result<_>>()?;
        for text in register::CLAIMS {
            Experiment::add_claim(&mut all, Finding::parse(text)?)?;
        }
        Ok(all)
    }

    /// What answers the publications: their experiments, those of the lab's own that their findings name, and those that
    /// belong to them.
    pub fn answering_publications(all: &[Experiment]) -> Vec<&Experiment> {
        let published = || all.iter().filter(|experiment| experiment.source.is_some());
        let belongs = |experiment: &Experiment| {
            experiment.source.is_some()
                || experiment.belongs_to_published
                || published().any(|other| other.refers_to(experiment))
        };
        all.iter().filter(|experiment| belongs(experiment)).collect()
    }

    /// Whether a finding names a load of another experiment.
    pub fn refers_to(&self, other: &Experiment) -> bool {
        let conditions = self.findings.iter().flat_map(|finding| &finding.holds_when);
        let mut names = conditions.flat_map(Condition::loads).filter_map(|load| load.split_once('/'));
        names.any(|(of, _)| of == other.id)
    }
}

impl Condition {
    /// The figure that it looks at.
    pub fn figure(&self) -> Figure {
        match self {
            Condition::Better { figure, .. }
            | Condition::Ratio { figure, .. }
            | Condition::Change { figure, .. }
            | Condition::AgainstLoad { figure, .. } => *figure,
            Condition::AnswersAll { .. } | Condition::Fails { .. } => Figure::Failed,
        }
    }

    /// The loads that it looks at.
    pub fn loads(&self) -> Vec<&str> {
        match self {
            Condition::AgainstLoad { load, against, .. } => vec![load, against],
            Condition::Better { load, .. }
            | Condition::Ratio { load, .. }
            | Condition::Change { load, .. }
            | Condition::AnswersAll { load, .. }
            | Condition::Fails { load, .. } => vec![load],
        }
    }
}

fn root_path() -> String {
    "/".into()
}

fn one() -> u32 {
    1
}

fn one_time() -> u64 {
    1
}

fn one_core() -> Vec<u32> {
    vec![1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_runs_are_smaller() {
        let load = "id = 'l'\ntitle = 'l'\nclients = [1, 2]\nrequests = 9\ncores = [1, 4]\n";
        let load: Load = toml::from_str(&format!("{load}quick = {{ clients = 3, seconds = 1.0 }}")).unwrap();
        assert_eq!((load.clients(false), load.clients(true)), (vec![1, 2], vec![3]));
        assert_eq!(load.amount(false), Some(Amount::Requests(9)));
        assert_eq!(load.amount(true), Some(Amount::Seconds(1.0)));
        assert_eq!((load.cores(true), load.left_out(true)), ([1, 4].as_slice(), None));
    }

    #[test]
    fn a_contender_may_be_asked_for_something_else() {
        let text =
            "id = 'l'\ntitle = 'l'\nclients = 1\nrequests = 1\npath = '/a'\npaths = { apache = '/b' }\n";
        let load: Load = toml::from_str(text).unwrap();
        assert_eq!((load.path_for("apache"), load.path_for("nginx")), ("/b", "/a"));
        for experiment in Experiment::built_in().unwrap() {
            for name in experiment.loads.iter().flat_map(|load| load.paths.keys()) {
                assert!(experiment.contenders.contains(name), "{}: {name} does not take part", experiment.id);
            }
        }
    }

    #[test]
    fn sweeps() {
        let clients = |text: &str| toml::from_str::<BTreeMap<String, Clients>>(text).unwrap()["c"].each();
        assert_eq!(clients("c = 4"), [4]);
        assert_eq!(clients("c = [1, 10]"), [1, 10]);
        assert_eq!(clients("c = { from = 0, to = 30, step = 10 }"), [1, 10, 20, 30]);
        let in_steps = |clients: &Clients| clients.in_large_steps();
        assert_eq!(in_steps(&Clients::Sweep { from: 0, to: 30, step: 1 }), [1, 10, 20, 30]);
        assert_eq!(in_steps(&Clients::Each(vec![1, 2])), [1, 2]);
    }

    #[test]
    fn mistakes_are_told() {
        let text = "id = 'x'\ntitle = 'x'\nquestion = 'x'\ncontenders = []\n[[loads]]\nid = 'l'\ntitle = 'l'\nclients = 1\n";
        assert!(Experiment::parse(text).unwrap_err().to_string().contains("requests or seconds"));
        assert!(Experiment::parse(&text.replace("clients", "client")).is_err());
        let shared = format!("{text}seconds = 1\none_core = true\n");
        assert!(Experiment::parse(&shared).is_ok());
        for also in ["cores = [1, 2]", "quick = { cores = [2] }", "backend_beside_tool = true"] {
            let wrong = Experiment::parse(&format!("{shared}{also}\n")).unwrap_err().to_string();
            assert!(wrong.contains("load l: with one_core"), "{wrong}");
        }
    }
}
