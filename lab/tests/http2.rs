//! A load in HTTP/2, run for real where h2load is installed: who speaks it is measured, who does not says so.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use lab::measure::contender::Contender;
use lab::measure::engine::{self, Lineup, Settings};
use lab::measure::tool;
use lab::model::block::{self, Block};
use lab::model::experiment::Experiment;
use lab::model::figure::Figure;
use lab::model::order::ToolName;

const EXPERIMENT: &str = r#"
id = "streams"
title = "Streams"
question = "Who speaks HTTP/2?"
contenders = ["fulmar", "nginx", "nginx-debian", "apache-event", "lighttpd", "caddy", "h2o", "haproxy"]

[[files]]
path = "1k.html"
length = 1024

[[loads]]
id = "l"
title = "Streams"
tool = "h2load"
protocol = "http2"
path = "/1k.html"
clients = 4
pipeline = 4
requests = 400
keep_alive = true
tls = {}
"#;

const CALLS: &str = r#"
id = "calls"
title = "Calls"
question = "Who passes on gRPC?"
contenders = ["fulmar", "nginx", "lighttpd"]

[[loads]]
id = "l"
title = "Calls"
tool = "h2load"
protocol = "http2"
path = "/passed/Echo"
fields = ["content-type: application/grpc", "te: trailers"]
body_bytes = 128
contains = "xyz"
clients = 4
pipeline = 4
requests = 400
keep_alive = true
tls = {}
backend = "reference-grpc"
options = { upstream = "keepalive_512", passing = "grpc" }
"#;

#[test]
fn who_speaks_http_2_is_measured_and_who_does_not_says_so() {
    let Some((blocks, lineup)) = run(EXPERIMENT).unwrap() else { return };
    for block in &blocks {
        let name = &block.cell.contender;
        println!("{name}: {:?} {:?}", block.failure, block.figures.get(&Figure::RequestsPerS));
        let found = lineup.find(block::original_of(name).unwrap_or(name));
        match found {
            Err(why) => assert_eq!(block.failure.as_deref(), Some(format!("{why:#}").as_str())),
            Ok(_) => measured(block, 1024.0),
        }
    }
}

#[test]
fn who_passes_on_grpc_is_measured_and_who_does_not_says_so() {
    let Some((blocks, lineup)) = run(CALLS).unwrap() else { return };
    for block in &blocks {
        let name = &block.cell.contender;
        println!("{name}: {:?} {:?}", block.failure, block.figures.get(&Figure::RequestsPerS));
        let is_there = lineup.find(block::original_of(name).unwrap_or(name)).is_ok();
        if name == "lighttpd" || !is_there {
            assert!(block.failure.is_some(), "{name}");
        } else {
            measured(block, 133.0);
        }
    }
}

/// The blocks of one turn, where h2load is installed.
fn run(experiment: &str) -> Result<Option<(Vec<Block>, Lineup)>> {
    if let Err(why) = tool::find(tool::named(ToolName::H2load).context("h2load")?) {
        println!("h2load: {why:#}");
        return Ok(None);
    }
    // Where `make lab` leaves what it fetched and built.
    std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    let out = tempfile::tempdir()?;
    let settings = Settings {
        out: out.path().to_path_buf(),
        quick: false,
        minutes: None,
        turns: Some(1),
        block_s: 0.0,
        window: None,
        resume: false,
        known: &[],
        only: Vec::new(),
        selection: None,
        interrupted: &AtomicBool::new(false),
    };
    let given = BTreeMap::from([("reference-grpc".to_owned(), env!("CARGO_BIN_EXE_fulmar-lab").into())]);
    let lineup = Lineup::new(Contender::built_in()?, given);
    let experiment = Experiment::parse(experiment)?;
    engine::run(&settings, &[experiment], &lineup, &mut |_| {})?;
    let blocks = block::read(&out.path().join("blocks.jsonl"))?;
    assert!(!blocks.is_empty());
    Ok(Some((blocks, lineup)))
}

fn measured(block: &Block, content_bytes: f64) {
    let figure = |figure| block.figures.get(&figure).copied();
    let name = &block.cell.contender;
    assert_eq!(block.failure, None, "{name}");
    assert_eq!(figure(Figure::Failed), Some(0.0), "{name}");
    assert_eq!(figure(Figure::ContentBytes), Some(content_bytes), "{name}");
    assert!(block.command.contains(&"h2load".into()) && !block.command.contains(&"--h1".into()));
}
