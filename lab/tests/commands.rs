//! The command line as its users meet it: what is refused, what is said, and with which code it ends. The contenders are
//! the lab's own reference servers, which are always there.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// An experiment that takes a second.
const EXPERIMENT: &str = r#"
id = "short"
title = "Short"
question = "Does it work?"
contenders = ["reference-epoll"]

[[files]]
path = "1k"
length = 1024

[[loads]]
id = "kept"
title = "Kept"
path = "/1k"
clients = 2
requests = 100
keep_alive = true
"#;

/// A folder for an experiment and its results.
struct Bench(TempDir);

impl Bench {
    fn new() -> Bench {
        let bench = Bench(tempfile::tempdir().unwrap());
        fs::write(bench.experiment(), EXPERIMENT).unwrap();
        bench
    }

    fn experiment(&self) -> PathBuf {
        self.0.path().join("short.toml")
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    /// A command with the experiment, and with the folder for results.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = lab(arguments);
        command.arg("--experiment").arg(self.experiment()).arg("--out").arg(self.out());
        command
    }

    fn lab(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn run(&self) -> Output {
        self.lab(&["run", "short", "--turns", "1"])
    }

    /// The measured blocks, a line of JSON each.
    fn blocks(&self) -> Vec<String> {
        let text = fs::read_to_string(self.out().join("blocks.jsonl")).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn at(command: &[&str], out: &Path) -> Output {
    lab(command).arg("--out").arg(out).output().unwrap()
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Sees that a command fails and says all of this.
fn fails(output: &Output, says: &[&str]) {
    let error = error(output);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(says.iter().all(|says| error.contains(says)), "{says:?}: {error}");
}

/// Runs a command whose output is closed after its first line.
fn cut(mut command: Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    child.wait_with_output().unwrap()
}

/// What the Debian package holds is there: the program, and files of the repository.
#[test]
fn files_of_the_package() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let manifest: toml::Table = toml::from_str(&text).unwrap();
    let package = &manifest["package"]["metadata"]["deb"];
    let names: Vec<&str> =
        package["assets"].as_array().unwrap().iter().map(|asset| asset[0].as_str().unwrap()).collect();
    assert_eq!(names[0], "target/release/fulmar-lab");
    let others = names[1..]
        .iter()
        .copied()
        .chain(["changelog", "license-file"].map(|key| package[key].as_str().unwrap()));
    for name in others {
        assert!(folder.join(name).exists(), "{name}");
    }
}

#[test]
fn a_port_in_use_is_named() {
    let other = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = other.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let output =
        lab(&["reference", "--kind", "epoll", "--root", root, "--listen", &address]).output().unwrap();
    fails(&output, &[&format!("listening on {address}: Address already in use")]);
}

/// A contender in a folder, and a program that takes its port before it starts.
#[test]
fn a_port_that_another_program_takes_in_a_run_is_named() {
    let bench = Bench::new();
    let folder = bench.0.path().join("late");
    fs::create_dir(&folder).unwrap();
    // It ends by itself.
    let takes = "timeout 10 {{program}} reference --kind epoll --workers 1 --listen 127.0.0.1:{{port}} \
         --root {{root}} > /dev/null 2>&1 & sleep 1";
    let start = "\"{{program}}\", \"reference\", \"--kind\", \"epoll\", \"--listen\", \"127.0.0.1:{{port}}\", \
         \"--root\", \"{{root}}\"";
    let text = |prepare: &str| {
        format!(
            "programs = [\"none\"]\nversion = [\"reference\", \"--version\"]\nversion_after = \"fulmar-lab-reference \"\n\
             install = \"\"\nprepare = [{prepare}]\nstart = [{start}]\n[default]\n[tuned]\n\
             [[contenders]]\nname = \"late\"\ntitle = \"Late\"\n"
        )
    };
    fs::write(bench.experiment(), EXPERIMENT.replace("reference-epoll", "late")).unwrap();
    let program = format!("late={}", env!("CARGO_BIN_EXE_fulmar-lab"));
    let run = || {
        let folder = folder.to_str().unwrap();
        bench.lab(&["run", "short", "--turns", "1", "--contender", folder, "--program", &program])
    };
    let contender = folder.join("contender.toml");
    fs::write(&contender, text("")).unwrap();
    let output = run();
    assert!(output.status.success(), "{}", error(&output));
    fs::write(&contender, text(&format!("[\"sh\", \"-c\", \"{takes}\"]"))).unwrap();
    let output = run();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("another program took port "), "{said}{}", error(&output));
    assert_eq!(output.status.code(), Some(1));
}

/// One file under two names would be compared with itself, and nobody would see it.
#[test]
fn one_program_under_two_names_is_measured_once() {
    let bench = Bench::new();
    let folder = bench.0.path().join("twice");
    fs::create_dir(&folder).unwrap();
    let text = "programs = [\"none\"]\nversion = [\"reference\", \"--version\"]\nversion_after = \"fulmar-lab-reference \"\n\
        install = \"\"\nstart = [\"{{program}}\", \"reference\", \"--kind\", \"epoll\", \"--listen\", \"127.0.0.1:{{port}}\", \
        \"--root\", \"{{root}}\"]\n[default]\n[tuned]\n[[contenders]]\nname = \"one\"\ntitle = \"One\"\n\
        [[contenders]]\nname = \"other\"\ntitle = \"Other\"\n";
    fs::write(folder.join("contender.toml"), text).unwrap();
    let copy = bench.0.path().join("copy");
    fs::copy(env!("CARGO_BIN_EXE_fulmar-lab"), &copy).unwrap();
    fs::write(bench.experiment(), EXPERIMENT.replace("\"reference-epoll\"", "\"one\", \"other\"")).unwrap();
    let programs = [("one", env!("CARGO_BIN_EXE_fulmar-lab")), ("other", copy.to_str().unwrap())];
    let [one, other] = programs.map(|(name, path)| format!("{name}={path}"));
    let folder = folder.to_str().unwrap();
    let output = bench.lab(&[
        "run",
        "short",
        "--turns",
        "1",
        "--contender",
        folder,
        "--program",
        &one,
        "--program",
        &other,
    ]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", error(&output));
    assert!(said.contains("it is the same file as one (SHA-256 "), "{said}");
    let is_of_other = |line: &String| line.contains("\"contender\":\"other\"");
    let of_other: Vec<String> = bench.blocks().into_iter().filter(is_of_other).collect();
    assert_eq!(of_other.len(), 1, "{of_other:?}");
    assert!(of_other[0].contains("\"failure\":\"it is the same file as one"), "{of_other:?}");
    let report = fs::read_to_string(bench.out().join("report.md")).unwrap();
    assert!(report.contains("it is the same file as one"), "{report}");
}

/// It needs no other file: not this folder, and no server.
#[test]
fn the_demonstration_stands_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo =
        lab(&["demo", "--only", "reference-epoll,reference-thread", "--seconds", "0.1", "--turns", "1"]);
    let output = demo.current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", error(&output));
    assert!(said.contains("reference-epoll and reference-thread"), "{said}");
    for load in ["kept", "closed"] {
        let lines = said.lines().filter(|line| line.trim_start().starts_with(load) && line.contains("p99"));
        assert_eq!(lines.filter(|line| !line.contains("not measured")).count(), 2, "{load}: {said}");
    }
    assert!(said.contains("reference-thread differ cannot be said: fewer than 6 turns"), "{said}");
    let report = fs::read_to_string(folder.path().join("fulmar-lab-demo/report.html")).unwrap();
    // A load during which the machine was busy has no answer; if that is so of both loads, the report says so.
    let answers = ["Which server for small files", "No server is ranked"];
    assert!(answers.iter().any(|answer| report.contains(answer)), "{report}");
    assert!(report.len() < 200_000, "{} bytes", report.len());
    let one = lab(&["demo", "--only", "reference-epoll"]).current_dir(folder.path()).output().unwrap();
    fails(&one, &["two servers are compared, and 1 are named"]);
}

#[test]
fn nobody_has_to_read_to_the_end() {
    let bench = Bench::new();
    let run = bench.command(&["run", "short", "--turns", "2"]);
    let run = cut(run);
    assert_eq!((run.status.code(), error(&run)), (Some(0), String::new()));
    assert!(bench.out().join("report.html").exists(), "a run goes on");
    for arguments in [&["list"][..], &["check", "short"], &["doctor", "reference-epoll"], &["audit"]] {
        let mut command = if arguments == ["list"] { lab(arguments) } else { bench.command(arguments) };
        command.current_dir(bench.0.path());
        let ended = cut(command);
        assert_eq!((ended.status.code(), error(&ended)), (Some(141), String::new()), "{arguments:?}");
    }
}

#[test]
fn a_report_is_not_replaced_by_an_empty_one() {
    let bench = Bench::new();
    let run = bench.run();
    assert!(run.status.success(), "{}", error(&run));
    let page = bench.out().join("report.html");
    let before = fs::read(&page).unwrap();
    fails(&bench.lab(&["report", "costs"]), &["no block of costs", "belong to short"]);
    // Results of earlier versions do not contain their experiments.
    fs::remove_dir_all(bench.out().join("experiments")).unwrap();
    fails(&at(&["report"], &bench.out()), &["blocks of short", "--experiment"]);
    assert_eq!(fs::read(&page).unwrap(), before);
    fs::remove_file(&page).unwrap();
    assert!(bench.lab(&["report"]).status.success());
    assert!(page.exists());
}

#[test]
fn what_an_experiment_names_is_there_before_it_is_run() {
    let bench = Bench::new();
    let finding = "[[findings]]\nid = \"F1\"\nclaim = \"?\"\nholds_when = [\n\
        { is = \"answers_all\", load = \"lost\", of = \"reference-epoll\" },\n]\n";
    let cases = [
        (format!("{EXPERIMENT}{finding}"), "short.toml: line 22: finding F1: no load is called lost"),
        (
            EXPERIMENT.replace("reference-epoll", "nobody"),
            "short.toml: line 5: no contender is called nobody",
        ),
        (EXPERIMENT.replace("\"short\"", "\"costs\""), "line 2: another experiment is called costs"),
    ];
    for (text, told) in cases {
        fs::write(bench.experiment(), text).unwrap();
        fails(&bench.run(), &[told]);
    }
    assert!(!bench.out().exists());
    fails(
        &lab(&["list", "--program", "nosuch=/bin/ls"]).output().unwrap(),
        &["no contender is called nosuch"],
    );
}

#[test]
fn one_run_writes_into_a_folder() {
    let bench = Bench::new();
    fs::create_dir(bench.out()).unwrap();
    let lock = fs::File::create(bench.out().join("lock")).unwrap();
    lock.lock().unwrap();
    fails(&bench.run(), &["another fulmar-lab", "choose another --out"]);
    drop(lock);
    assert!(bench.run().status.success());
}

#[test]
fn an_estimate_measures_nothing() {
    let bench = Bench::new();
    assert!(bench.run().status.success());
    let before = bench.blocks();
    let estimate = bench.lab(&["run", "short", "--turns", "4", "--estimate"]);
    let said = String::from_utf8_lossy(&estimate.stdout);
    assert!(estimate.status.success(), "{said}{}", error(&estimate));
    assert!(said.starts_with("This takes about ") && said.contains(" minutes: short "), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.contains("\n4 turns give no verdict about a ratio: "), "{said}");
    let night = bench.lab(&["run", "--published", "--night", "--estimate"]);
    let said = String::from_utf8_lossy(&night.stdout);
    assert!(night.status.success() && said.starts_with("This takes about "), "{said}{}", error(&night));
    assert!(said.contains("\nblocks end after "), "{said}");
    assert_eq!(bench.blocks(), before);
}

#[test]
fn a_resumed_run_measures_what_is_missing() {
    let bench = Bench::new();
    assert!(bench.run().status.success());
    let before = bench.blocks();
    // Of three turns or more, those that began on a busy machine would be made up for.
    let resumed = bench.lab(&["run", "short", "--turns", "2", "--resume"]);
    assert!(resumed.status.success(), "{}", error(&resumed));
    let blocks = bench.blocks();
    assert_eq!(blocks.len(), 2 * before.len());
    assert!(blocks.starts_with(&before));
}

#[test]
fn one_contender_is_compared_under_two_loads() {
    let bench = Bench::new();
    let other = "[[loads]]\nid = \"closed\"\ntitle = \"Closed\"\npath = \"/1k\"\nclients = 2\nrequests = 100\n\
        keep_alive = false\n";
    let finding = "[[findings]]\nid = \"F1\"\nclaim = \"Kept connections save requests\"\nholds_when = [\n\
        { is = \"against_load\", figure = \"requests_per_s\", load = \"kept\", against = \"closed\", of = \
        \"reference-epoll\", low = 0.01 },\n]\n";
    fs::write(bench.experiment(), format!("{EXPERIMENT}{other}{finding}")).unwrap();
    let compare = ["compare", "reference-epoll", "--workload", "short", "--turns", "2"];
    let output = bench.lab(&compare);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", error(&output));
    assert!(said.contains("requests/s: under one load, and under the other"), "{said}");
    // Without a finding no two loads belong together, so there is nothing to compare.
    fs::write(bench.experiment(), EXPERIMENT).unwrap();
    fails(&bench.lab(&compare), &["there was nothing to compare"]);
}

#[test]
fn a_comparison_stops_if_a_side_cannot_run() {
    let bench = Bench::new();
    fs::write(bench.experiment(), EXPERIMENT.replace("clients = 2", "clients = 2\ncores = [4096]")).unwrap();
    let output = bench.lab(&["compare", "reference-epoll", "reference-thread", "--workload", "short"]);
    fails(&output, &["reference-epoll cannot run under short/kept: 4096 cores are needed"]);
    assert_eq!(bench.blocks().len(), 1, "it stops with the first side");
}

#[test]
fn programs_share_a_core_and_requests_come_at_a_rate() {
    let bench = Bench::new();
    let load = |id: &str, more: &str| {
        format!(
            "[[loads]]\nid = \"{id}\"\ntitle = \"{id}\"\npath = \"/1k\"\nclients = 2\nkeep_alive = true\n{more}\n"
        )
    };
    let shared = load("shared", "requests = 100\none_core = true\nbackend = \"reference-epoll\"");
    let constant = load("constant", "seconds = 0.2\nrate = 500\nbackend = \"reference-epoll\"");
    fs::write(bench.experiment(), format!("{EXPERIMENT}{shared}{constant}")).unwrap();
    let compare = ["compare", "reference-epoll", "reference-thread", "--workload", "short", "--turns", "1"];
    let output = bench.lab(&compare);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", error(&output));
    for figure in ["median", "99th percentile"] {
        let table = said.split(&format!("latency at an equal rate, {figure}, ms: ")).nth(1).unwrap();
        let loads: Vec<&str> = table.lines().skip(2).take_while(|line| line.contains(" clients")).collect();
        assert!(loads.len() == 1 && loads[0].starts_with("constant, 2 clients"), "{figure}: {said}");
    }
    let of_load = |load: &str| {
        let blocks = bench.blocks();
        blocks.into_iter().filter(|block| block.contains(&format!("\"load\":\"{load}\""))).collect::<Vec<_>>()
    };
    let on_one = "\"server_cores\":\"0\",\"tool_cores\":\"0\",\"backend_cores\":\"0\"";
    assert!(!of_load("shared").is_empty() && of_load("shared").iter().all(|block| block.contains(on_one)));
    assert!(of_load("kept").iter().all(|block| block.contains("\"backend_cores\":\"\"")));
    let audit = bench.lab(&["audit", "short"]);
    let remarks = String::from_utf8_lossy(&audit.stdout);
    // On a busy machine the load tool may be at its limit. That is no remark about the shared core.
    let is_about_the_core = |line: &str| line.contains("shared") && !line.contains("load tool used all");
    assert!(audit.status.success() && !remarks.lines().any(is_about_the_core), "{remarks}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let cases: [(&[&str], &str); 10] = [
        (&["run", "--turns", "0"], "--turns"),
        (&["check", "--turns", "0"], "--turns"),
        (&["compare", "fulmar", "nginx", "--turns", "0"], "--turns"),
        (&["run", "--minutes", "0"], "a number of minutes is needed"),
        (&["run", "--minutes", "nan"], "a number of minutes is needed"),
        (&["run", "--night", "--quick"], "cannot be used with"),
        (&["export", "--target", "a b\"c"], "a host with an optional port is needed"),
        (&["export", "--target", "ftp://a"], "a host with an optional port is needed"),
        (&["load", "-n", "0", "127.0.0.1:1"], "--requests"),
        (&["load", "-c", "5000000", "-n", "100", "127.0.0.1:1"], "only 100 of these clients"),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (arguments, told) in cases {
        let output = lab(arguments).current_dir(folder.path()).output().unwrap();
        assert!(
            !output.status.success() && error(&output).contains(told),
            "{arguments:?}: {}",
            error(&output)
        );
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_gave_no_figures_is_no_success() {
    let bench = Bench::new();
    fs::write(bench.experiment(), EXPERIMENT.replace("/1k", "/lost")).unwrap();
    let run = bench.run();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert_eq!(run.status.code(), Some(1), "{said}{}", error(&run));
    assert!(said.contains("Nothing was measured"), "{said}");
    assert!(bench.out().join("report.html").exists());
}

#[test]
fn the_doctor_knows_first_whom_to_look_at() {
    let output = lab(&["doctor", "nosuch"]).output().unwrap();
    fails(&output, &["no contender is called nosuch"]);
    assert!(output.stdout.is_empty());
}

#[test]
fn a_publication_without_authors_has_a_year() {
    let output = lab(&["list"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("A picture, by two tools (2025)\n"), "{said}");
}

/// A comparison whose blocks are short, with bounds for checks that run by themselves.
#[test]
fn a_comparison_fails_beyond_a_bound() {
    let bench = Bench::new();
    fs::write(bench.experiment(), EXPERIMENT.replace("requests = 100", "seconds = 30")).unwrap();
    let compare = |more: &[&str]| {
        let always =
            ["compare", "reference-epoll", "reference-thread", "--workload", "short", "--seconds", "0.1"];
        bench.lab(&[&always[..], more].concat())
    };
    let output =
        compare(&["--turns", "6", "--fail-if", "requests_per_s>0.0001", "--fail-if", "requests_per_s>9999"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}{}", error(&output));
    assert!(said.contains("--fail-if requests_per_s>0.0001: kept, 2 clients: beyond: "), "{said}");
    assert!(said.contains("--fail-if requests_per_s>9999: kept, 2 clients: not beyond: "), "{said}");
    let output = compare(&["--turns", "1", "--fail-if", "requests_per_s>0.0001"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("undecided, 6 pairs are needed"), "{said}");
    let load = bench.lab(&["compare", "reference-epoll", "reference-thread", "--workload", "short/ketp"]);
    fails(&load, &["short: no load is called ketp; did you mean kept? There are kept"]);
    fails(&bench.lab(&["run", "shrot"]), &["no experiment is called shrot; did you mean short?"]);
    fails(&bench.lab(&["compare", "reference-epol", "nginx"]), &["did you mean reference-epoll?"]);
}
