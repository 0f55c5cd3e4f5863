//! A load in HTTP/2, run for real where h2load is installed: who speaks it is measured, who does not says so.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

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

#[test]
fn who_speaks_http_2_is_measured_and_who_does_not_says_so() {
    if let Err(why) = tool::find(tool::named(ToolName::H2load).unwrap()) {
        println!("h2load: {why:#}");
        return;
    }
    // Where `make lab` leaves what it fetched and built.
    std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    let out = tempfile::tempdir().unwrap();
    let settings = Settings {
        out: out.path().to_path_buf(),
        quick: false,
        minutes: None,
        turns: Some(1),
        resume: false,
        known: &[],
        only: Vec::new(),
        interrupted: &AtomicBool::new(false),
    };
    let lineup = Lineup::new(Contender::built_in().unwrap(), BTreeMap::new());
    let experiment = Experiment::parse(EXPERIMENT).unwrap();
    engine::run(&settings, &[experiment], &lineup, &mut |_| {}).unwrap();
    let blocks = block::read(&out.path().join("blocks.jsonl")).unwrap();
    assert!(!blocks.is_empty());
    for block in &blocks {
        let name = &block.cell.contender;
        println!("{name}: {:?} {:?}", block.failure, block.figures.get(&Figure::RequestsPerS));
        let found = lineup.find(block::original_of(name).unwrap_or(name));
        match found {
            Err(why) => assert_eq!(block.failure.as_deref(), Some(format!("{why:#}").as_str())),
            Ok(_) => measured(block),
        }
    }
}

fn measured(block: &Block) {
    let figure = |figure| block.figures.get(&figure).copied();
    let name = &block.cell.contender;
    assert_eq!(block.failure, None, "{name}");
    assert_eq!(figure(Figure::Failed), Some(0.0), "{name}");
    assert_eq!(figure(Figure::ContentBytes), Some(1024.0), "{name}");
    assert!(block.command.contains(&"h2load".into()) && !block.command.contains(&"--h1".into()));
}
