//! Made blocks for tests and for the eye: every kind of experiment, with noise, failures and hostile words.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::measure::features::{self, Matrix, Verdict};
use crate::model::block::tests::block;
use crate::model::block::{Bar, Block, Cell, Circumstances, Sample};
use crate::model::experiment::{Configuration, Experiment, Kind, Load};
use crate::model::figure::{Figure, Phase, Phases, Spread};
use crate::model::machine::Machine;
use crate::model::order::ToolName;

const MADE: &str = "made";
const TURNS: u32 = 3;
const HOSTILE: &str = "<script>alert('x')</script><img src=x onerror=\"alert(1)\"> | `*_[a](b)";

/// A contender as its blocks are made up.
struct Made {
    name: &'static str,
    /// Its rate, relative to the others'.
    speed: f64,
    /// How far its latencies spread.
    spread: f64,
    /// Memory at rest.
    rest_mib: f64,
    /// Memory of a connection.
    kib_each: f64,
}

const CONTENDERS: &[Made] = &[
    Made { name: "fulmar", speed: 1.00, spread: 0.5, rest_mib: 9.0, kib_each: 1.1 },
    Made { name: "nginx", speed: 0.97, spread: 0.5, rest_mib: 11.0, kib_each: 1.4 },
    Made { name: "nginx-debian", speed: 0.98, spread: 0.5, rest_mib: 10.0, kib_each: 1.4 },
    Made { name: "nginx-apache", speed: 0.74, spread: 0.7, rest_mib: 52.0, kib_each: 4.0 },
    Made { name: "apache-prefork-php", speed: 0.33, spread: 1.3, rest_mib: 80.0, kib_each: 420.0 },
    Made { name: "apache-prefork", speed: 0.31, spread: 1.3, rest_mib: 48.0, kib_each: 410.0 },
    Made { name: "apache-worker", speed: 0.42, spread: 1.1, rest_mib: 35.0, kib_each: 22.0 },
    Made { name: "apache-event", speed: 0.47, spread: 0.9, rest_mib: 36.0, kib_each: 14.0 },
    Made { name: "lighttpd", speed: 0.81, spread: 0.6, rest_mib: 7.0, kib_each: 3.1 },
    Made { name: "h2o", speed: 0.99, spread: 0.5, rest_mib: 18.0, kib_each: 2.2 },
    Made { name: "caddy", speed: 0.36, spread: 1.0, rest_mib: 52.0, kib_each: 11.0 },
    Made { name: "varnish", speed: 0.55, spread: 0.7, rest_mib: 160.0, kib_each: 19.0 },
];

const EXPERIMENTS: &[&str] = &[
    r#"
id = "static-cores"
title = "A tiny file over kept connections, as clients and cores grow"
question = "Which server gives the most answers as clients and cores grow?"
contenders = ["fulmar", "nginx", "apache-prefork", "apache-worker", "apache-event", "lighttpd", "h2o", "caddy", "varnish", "openlitespeed"]
departures = ["The generator shares the machine with the servers.", "Versions are those of today."]
[source]
title = "A comparison of static web servers"
year = 2016
machine = "Xeon L5639, ESXi 5.5, CentOS 7.2, kernel 3.10"
[[files]]
path = "index.html"
length = 7
[[loads]]
id = "sweep"
title = "7 bytes, kept connections"
tool = "weighttp"
clients = { from = 0, to = 1000, step = 100 }
need = "static files"
requests = 100000
keep_alive = true
cores = [1, 2]
[[published]]
load = "sweep"
contender = "apache-prefork"
cores = 1
figures = { requests_per_s = 7500 }
[[published]]
load = "sweep"
contender = "apache-prefork"
cores = 2
figures = { requests_per_s = 15000 }
[[findings]]
id = "F1"
claim = "Apache comes last, yet grows linearly with cores."
[[findings.holds_when]]
is = "better"
figure = "requests_per_s"
load = "sweep"
of = "nginx"
over = "apache-prefork"
[[findings]]
id = "F4"
claim = "With four cores OpenLiteSpeed is slightly ahead up to 500 clients."
[[findings.holds_when]]
is = "better"
figure = "requests_per_s"
load = "sweep"
of = "nginx"
over = "apache-prefork"
cores = [4]
"#,
    r#"
id = "windows-hey"
title = "A picture of 72 KB at 400 clients, with two tools"
question = "Is nginx faster than Apache, and do two tools agree on it?"
contenders = ["fulmar", "nginx", "apache-event", "caddy"]
departures = ["Linux here, Windows there."]
[source]
authors = "An author & another <b>evil</b>"
title = "nginx against Apache"
year = 2025
machine = "Windows, 2 cores of 2.6 GHz, 2 GB; nginx 1.27.5, Apache 2.4.63"
[[loads]]
id = "hey"
title = "72 KB with hey, kept connections"
tool = "hey"
path = "/picture.png"
clients = 400
requests = 30000
keep_alive = true
[[loads]]
id = "ab"
title = "72 KB with ab, a connection a request"
tool = "ab"
path = "/picture.png"
clients = 400
requests = 30000
[[loads]]
id = "php"
title = "A page of WordPress"
clients = 10
requests = 100
not_yet = "needs PHP, which is not measured"
[[published]]
load = "hey"
contender = "nginx"
clients = 400
figures = { requests_per_s = 2138.43, total_s = 14.03, mean_ms = 181, min_ms = 159, max_ms = 352, p50_ms = 177.9, p99_ms = 232.9 }
[[published]]
load = "hey"
contender = "apache-event"
clients = 400
figures = { requests_per_s = 1560.2, total_s = 19.23, mean_ms = 142, min_ms = 0.4, max_ms = 18643, p50_ms = 32.8, p99_ms = 422 }
[[published]]
load = "ab"
contender = "nginx"
clients = 400
phases = { connect = [0, 0, 1.4, 0, 16], waiting = [0, 6, 10.0, 0, 80] }
figures = { requests_per_s = 2216.11, p50_ms = 174, p99_ms = 231, bytes_per_s = 159823872 }
[[published]]
load = "ab"
contender = "apache-event"
clients = 400
figures = { requests_per_s = 1641.42, p50_ms = 222, p99_ms = 408, bytes_per_s = 118795264 }
[[findings]]
id = "F1"
claim = "nginx is ahead by 37 % with hey and by 35 % with ab."
short = { of = "72 KB by hey", says = "+37 %" }
[[findings.holds_when]]
is = "better"
figure = "requests_per_s"
load = "hey"
of = "nginx"
over = "apache-event"
by = 1.2
[[findings]]
id = "F3"
claim = "Apache's median is the faster one with hey."
[[findings.holds_when]]
is = "better"
figure = "p50_ms"
load = "hey"
of = "apache-event"
over = "nginx"
"#,
    r#"
id = "idle-connections"
title = "Memory of idle connections"
question = "What does an open connection cost that does nothing?"
contenders = ["fulmar", "nginx", "apache-event", "lighttpd", "caddy"]
[[loads]]
id = "idle"
title = "Idle kept connections"
kind = "idle"
clients = [1000, 5000, 10000, 19000]
keep_alive = true
"#,
];

/// The experiments that the blocks belong to.
pub(super) fn experiments() -> Vec<Experiment> {
    EXPERIMENTS.iter().map(|text| Experiment::parse(text).unwrap()).collect()
}

/// Blocks of all of them, the same each time, with failures among them.
pub(super) fn blocks() -> Vec<Block> {
    let mut noise = Noise(7);
    let mut blocks = Vec::new();
    for experiment in &experiments() {
        for load in experiment.loads.iter().filter(|load| load.not_yet.is_none()) {
            for cores in &load.cores {
                for clients in load.clients.each() {
                    for turn in 0..TURNS {
                        let place = Place { experiment, load, cores: *cores, clients, turn };
                        blocks.extend(place.blocks(&mut noise));
                    }
                }
            }
        }
    }
    fail(&mut blocks);
    blocks
}

/// Blocks of one load with ten clients: each contender's rates, turn by turn.
pub(super) fn blocks_of(rates: &[(&str, &[f64])]) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (contender, rates) in rates {
        for (turn, rate) in (0..).zip(*rates) {
            let figures = [(Figure::RequestsPerS, *rate), (Figure::TotalS, 1.0), (Figure::Failed, 0.0)];
            let raw = "raw/x".into();
            blocks.push(Block { turn, raw, ..block(contender, "l", 10, &figures) });
        }
    }
    blocks
}

/// Blocks of a quick run of these experiments with so many turns.
pub(super) fn quick_blocks(experiments: &[&Experiment], turns: u32) -> Vec<Block> {
    let mut noise = Noise(7);
    let mut blocks = Vec::new();
    for experiment in experiments {
        for load in experiment.loads.iter().filter(|load| load.left_out(true).is_none()) {
            for cores in load.cores(true).iter().filter(|cores| **cores <= 2) {
                for clients in load.clients(true) {
                    for turn in 0..turns {
                        let place = Place { experiment, load, cores: *cores, clients, turn };
                        blocks.extend(place.blocks(&mut noise));
                    }
                }
            }
        }
    }
    blocks
}

/// All charts of the made blocks, each as a separate file.
pub(super) fn pictures(folder: &Path) -> Vec<(String, String)> {
    let paths = super::write_charts(folder, folder, &experiments(), &blocks()).unwrap();
    let read = |path: PathBuf| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap())
    };
    paths.into_iter().map(read).collect()
}

/// A matrix of features below `out`, with a path of the machine and a transcript that lies elsewhere.
pub(super) fn lay_features(out: &Path) {
    let cell = |verdict, detail: &str, transcript: Option<&str>| features::Cell {
        verdict,
        detail: detail.into(),
        transcript: transcript.map(str::to_owned),
    };
    let yes = |name: &str| cell(Verdict::Yes, "status 206", Some(&format!("features/{name}-ranges.txt")));
    let none = || cell(Verdict::NotOffered, "it speaks HTTP/1.1", None);
    let names = ["nginx", "apache-event", "fulmar"];
    let refused = "starting nginx: /tmp/made/run/nginx.conf: no such parameter\nand more";
    let rows = [
        ("language", ["C", "C", "Rust"].map(|language| cell(Verdict::Value, language, None))),
        ("ranges", [yes("nginx"), yes("apache-event"), cell(Verdict::No, HOSTILE, Some("../etc/passwd"))]),
        ("http3", [cell(Verdict::NotProbed, refused, Some("features/nginx-http3.txt")), none(), none()]),
    ];
    let column = |name: &str| features::Column {
        name: name.into(),
        title: name.into(),
        version: format!("{name}/1.2.3"),
        origin: MADE.into(),
    };
    let row = |(name, cells): (&str, [features::Cell; 3])| features::Row {
        name: name.into(),
        title: name.into(),
        cells: cells.into(),
    };
    let matrix = Matrix { contenders: names.map(column).into(), features: rows.map(row).into() };
    fs::create_dir_all(out.join("features")).unwrap();
    fs::write(out.join("features/features.json"), serde_json::to_string(&matrix).unwrap()).unwrap();
}

/// The page and its twin, written once for all tests.
pub(super) fn report() -> &'static (String, String) {
    static REPORT: OnceLock<(String, String)> = OnceLock::new();
    REPORT.get_or_init(|| {
        let out = tempfile::tempdir().unwrap();
        write_report(out.path())
    })
}

/// The page and its twin, written anew.
pub(super) fn write_report(out: &Path) -> (String, String) {
    lay_evidence(out);
    lay_features(out);
    let written = super::write(out, &experiments(), &blocks()).unwrap();
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    (read(&written.html), read(&written.markdown))
}

/// Raw output and a configuration of the blocks, below `out`.
fn lay_evidence(out: &Path) {
    fs::create_dir_all(out.join("raw")).unwrap();
    fs::create_dir_all(out.join("configurations/nginx-hey")).unwrap();
    fs::write(out.join("raw/nginx-hey-400-1-2.txt"), format!("Running {HOSTILE}\n```\n</pre></details>\n"))
        .unwrap();
    fs::write(out.join("configurations/nginx-hey/nginx.conf"), "worker_processes 1;\nevents {}\n").unwrap();
}

struct Place<'a> {
    experiment: &'a Experiment,
    load: &'a Load,
    cores: u32,
    clients: u32,
    turn: u32,
}

impl Place<'_> {
    fn blocks(&self, noise: &mut Noise) -> Vec<Block> {
        let takes_part = |name: &str| self.experiment.contenders.iter().any(|known| known == name);
        let machine_is_busy = 1.0 + 0.05 * noise.next();
        let mut blocks: Vec<Block> = CONTENDERS
            .iter()
            .filter(|contender| takes_part(contender.name))
            .map(|contender| self.block(contender, machine_is_busy, noise))
            .collect();
        if self.load.id == "hey" {
            let mut twin = self.block(&CONTENDERS[1], machine_is_busy, noise);
            twin.cell.contender = "nginx-twin".into();
            blocks.push(twin);
        }
        blocks
    }

    fn block(&self, contender: &Made, busy: f64, noise: &mut Noise) -> Block {
        let Made { name, speed, spread, rest_mib, kib_each } = *contender;
        let (clients, cores) = (f64::from(self.clients), f64::from(self.cores));
        let crowd = if speed < 0.5 { 1.0 / (1.0 + clients / 2500.0) } else { 1.0 - clients / 12_000.0 };
        let full = if self.load.path == "/" { 90_000.0 } else { 9_000.0 };
        let kept = if self.load.keep_alive { 1.0 } else { 0.35 };
        let share = speed * crowd * busy * clients / (clients + 6.0);
        let rate = full * kept * cores.powf(0.9) * share * (1.0 + 0.02 * noise.next());
        let memory = rest_mib * 1048576.0 + kib_each * 1024.0 * clients * (1.0 + 0.01 * noise.next());
        let mean_ms = clients / rate * 1000.0;
        let asked = self.load.requests.map(|requests| requests as f64 / rate);
        let seconds = asked.or(self.load.seconds).unwrap_or_default();
        let mut figures = vec![(Figure::MemoryBytes, memory.round())];
        if self.load.kind == Kind::Idle {
            figures.push((
                Figure::MemoryPerConnectionBytes,
                (kib_each * 1024.0 * (1.0 + 0.01 * noise.next())).round(),
            ));
            figures.push((Figure::Connections, clients));
        } else {
            let at = |z: f64| mean_ms * (spread * z - spread * spread / 2.0).exp();
            figures.extend([
                (Figure::RequestsPerS, rate),
                (Figure::BytesPerS, rate * 250.0),
                (Figure::Failed, 0.0),
                (Figure::TotalS, seconds),
                (Figure::MeanMs, mean_ms),
                (Figure::MinMs, at(-2.5)),
                (Figure::P10Ms, at(-1.28)),
                (Figure::P25Ms, at(-0.67)),
                (Figure::P50Ms, at(0.0)),
                (Figure::P75Ms, at(0.67)),
                (Figure::P90Ms, at(1.28)),
                (Figure::P95Ms, at(1.64)),
                (Figure::P99Ms, at(2.33)),
                (Figure::MaxMs, at(4.2)),
                (Figure::CpuUsPerRequest, 0.96e6 * cores / rate),
                (Figure::CpuPercent, 96.0 * cores),
                (Figure::CpuPeakPercent, 100.0 * cores),
            ]);
        }
        Block {
            cell: self.cell(name),
            kind: self.load.kind,
            turn: self.turn,
            start: 0,
            began_s: 1_795_302_765.0 + f64::from(self.turn) * 60.0,
            quick: self.experiment.id == "idle-connections",
            share: None,
            version: if name == "caddy" { HOSTILE.into() } else { format!("{name}/1.2.3") },
            origin: format!("{MADE}: {name} 1.2.3-1"),
            program_digest: String::new(),
            parts: Vec::new(),
            configuration: Configuration::Tuned,
            configuration_digest: format!("{name}-{}", self.load.id),
            tool: format!("{} 4.1.0", self.load.tool),
            command: ["tool", "-c", &self.clients.to_string(), "-H", HOSTILE].map(str::to_owned).to_vec(),
            figures: figures.into_iter().collect(),
            phases: if self.load.tool == ToolName::Ab { phases(mean_ms) } else { Phases::new() },
            histogram: if self.load.kind == Kind::Idle { Vec::new() } else { histogram(mean_ms, spread) },
            samples: samples(seconds.max(1.0), memory, cores, noise),
            circumstances: circumstances(cores),
            machine: machine(),
            raw: format!("raw/{name}-{}-{}-{}-{}.txt", self.load.id, self.clients, self.cores, self.turn),
            failure: None,
        }
    }

    fn cell(&self, contender: &str) -> Cell {
        Cell {
            experiment: self.experiment.id.clone(),
            load: self.load.id.clone(),
            contender: contender.into(),
            clients: self.clients,
            cores: self.cores,
        }
    }
}

/// Half of a request's time is waiting.
fn phases(mean_ms: f64) -> Phases {
    let waiting = [0.0, 0.5, 0.25, 0.5, 2.0].map(|part| part * mean_ms);
    Phases::from([(Phase::Waiting, Spread::from(waiting))])
}

/// A refusal of one contender, failed answers of another, and a block of an experiment that is not known.
fn fail(blocks: &mut Vec<Block>) {
    for block in blocks.iter_mut() {
        let cell = &block.cell;
        if cell.load == "ab" && cell.contender == "caddy" {
            block.failure = Some(format!("refused: answers differ: 10,701 bytes against 5,584 {HOSTILE}"));
            block.figures.clear();
            block.histogram.clear();
            block.samples.clear();
        }
        if cell.load == "sweep" && cell.contender == "apache-prefork" && cell.clients >= 900 {
            block.figures.insert(Figure::Failed, f64::from(cell.clients) * 0.3);
        }
    }
    let mut strange = blocks[0].clone();
    strange.cell.experiment = HOSTILE.into();
    blocks.push(strange);
}

/// A log-normal distribution in 90 steps.
fn histogram(mean_ms: f64, spread: f64) -> Vec<Bar> {
    let bar = |step: u32| {
        let z = f64::from(step) / 10.0 - 4.0;
        let share = (-z * z / 2.0).exp();
        let count = format!("{:.0}", 4000.0 * share).parse().unwrap();
        Bar { upto_ms: mean_ms * (spread * z - spread * spread / 2.0).exp(), count }
    };
    (0..90).map(bar).collect()
}

fn samples(seconds: f64, memory: f64, cores: f64, noise: &mut Noise) -> Vec<Sample> {
    let sample = |step: u32, noise: &mut Noise| {
        let share = f64::from(step) / 20.0;
        let bytes = memory * (1.0 - 0.4 * (-6.0 * share).exp());
        Sample {
            at_s: seconds * share,
            cpu_percent: if step == 0 { 0.0 } else { cores * (96.0 + 3.0 * noise.next()) },
            memory_bytes: format!("{bytes:.0}").parse().unwrap(),
        }
    };
    (0..=20).map(|step| sample(step, noise)).collect()
}

fn circumstances(cores: f64) -> Circumstances {
    Circumstances {
        server_cores: if cores > 1.0 { "0-1".into() } else { "0".into() },
        tool_cores: "1".into(),
        backend_cores: String::new(),
        tool_busy: 0.8,
        steal_s: 0.02,
        context_switches: 1234,
        load_average: 0.3,
        busy_before: 0.0,
    }
}

fn machine() -> Machine {
    Machine {
        processor: "A processor that does not exist".into(),
        cores: 2,
        memory_bytes: 24 << 30,
        kernel: "Linux 6.1.0".into(),
        system: "Debian GNU/Linux 12 (bookworm)".into(),
        governor: String::new(),
        virtual_machine: true,
    }
}

/// Numbers between -1 and 1, the same each time.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / f64::from(1 << 30) - 1.0
    }
}
