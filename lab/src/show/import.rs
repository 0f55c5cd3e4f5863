//! Back from other machines: the result of an exported load as a run of the report.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, bail, ensure};

use crate::measure::tool::{Report, jmeter, k6};
use crate::model::block::{Block, Cell, Circumstances};
use crate::model::experiment::{Experiment, Kind};
use crate::model::machine::Machine;

/// A result larger than this is not read: k6 writes kilobytes, JMeter about 150 bytes a request.
const RESULT_BYTES_MAX: u64 = 2 << 30;

/// A result, and what it does not say of itself.
pub struct Import<'a> {
    /// The experiment whose load was exported.
    pub experiment: &'a Experiment,
    /// The load's name within it.
    pub load: &'a str,
    /// The server that was loaded: a contender of the experiment.
    pub server: &'a str,
    /// Its version.
    pub version: &'a str,
    /// Its machine.
    pub machine: &'a str,
    /// Its cores, where they are not those that the load names first.
    pub cores: Option<u32>,
    /// The number of clients.
    pub clients: u32,
    /// The file that k6 or JMeter wrote.
    pub result: &'a Path,
}

/// The run that a result stands for. It follows the runs of the same server and load that are known. The file is copied
/// into the results, below `out`. Fails for what is not the result of such a load.
pub fn import(asked: &Import<'_>, known: &[Block], out: &Path) -> Result<Block> {
    let experiment = asked.experiment;
    let load = experiment.loads.iter().find(|load| load.id == asked.load);
    let loads = || experiment.loads.iter().map(|load| load.id.as_str()).collect::<Vec<_>>().join(", ");
    let load =
        load.with_context(|| format!("{} has no load {}; it has {}", experiment.id, asked.load, loads()))?;
    ensure!(load.kind == Kind::Load, "{}/{}: only the lab itself can do this load", experiment.id, load.id);
    let servers = load.contenders.as_ref().unwrap_or(&experiment.contenders);
    ensure!(
        servers.iter().any(|name| name == asked.server),
        "--server {}: {}/{} has {}",
        asked.server,
        experiment.id,
        load.id,
        servers.join(", ")
    );
    let cell = Cell {
        experiment: experiment.id.clone(),
        load: load.id.clone(),
        contender: asked.server.to_owned(),
        clients: asked.clients,
        cores: asked.cores.or(load.cores.first().copied()).unwrap_or(1),
    };
    let (tool, ending, report) = read(asked.result)?;
    let turns = known.iter().filter(|block| block.cell == cell).map(|block| block.turn + 1);
    let turn = turns.max().unwrap_or_default();
    let raw = format!(
        "raw/imported-{}-{}-{}-{}-{turn}.{ending}",
        cell.experiment, cell.load, cell.contender, cell.clients
    );
    fs::create_dir_all(out.join("raw")).with_context(|| out.display().to_string())?;
    fs::copy(asked.result, out.join(&raw)).with_context(|| format!("copying {}", asked.result.display()))?;
    let written = fs::metadata(asked.result)?.modified().ok();
    let began = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Ok(Block {
        cell,
        kind: load.kind,
        turn,
        start: 0,
        began_s: began.as_secs_f64(),
        quick: false,
        share: None,
        version: asked.version.to_owned(),
        origin: "imported: not started by this lab".to_owned(),
        program_digest: String::new(),
        parts: Vec::new(),
        configuration: load.configuration,
        configuration_digest: String::new(),
        tool: format!("{tool}, imported"),
        command: Vec::new(),
        figures: report.figures,
        phases: report.phases,
        histogram: report.histogram,
        samples: Vec::new(),
        circumstances: Circumstances::default(),
        machine: Machine { processor: asked.machine.to_owned(), ..Machine::default() },
        raw,
        failure: None,
    })
}

/// The tool that wrote a result, the ending of its files, and what it says.
fn read(path: &Path) -> Result<(&'static str, &'static str, Report)> {
    let name = path.display();
    let length = fs::metadata(path).with_context(|| name.to_string())?.len();
    ensure!(
        length <= RESULT_BYTES_MAX,
        "{name}: {length} bytes are more than {RESULT_BYTES_MAX}, which is the most"
    );
    let text = fs::read_to_string(path).with_context(|| name.to_string())?;
    match text.trim_start().chars().next() {
        Some('{') => {
            let report = k6::reading(&text);
            Ok(("k6", "json", report.with_context(|| format!("{name}: no summary of an exported script"))?))
        }
        Some('t') => {
            let report = jmeter::reading(&text);
            Ok(("JMeter", "csv", report.with_context(|| format!("{name}: no samples of an exported plan"))?))
        }
        _ => bail!(
            "{name}: neither a summary of k6 (JSON) nor samples of JMeter (CSV with a first line of names)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::figure::Figure;

    const K6: &str = include_str!("../../tests/outputs/k6-good.json");
    const JMETER: &str = include_str!("../../tests/outputs/jmeter-good.csv");

    fn asked<'a>(experiment: &'a Experiment, result: &'a Path) -> Import<'a> {
        let (load, server, clients) = ("plain", "nginx", 4);
        Import { experiment, load, server, version: "1.31", machine: "m", cores: None, clients, result }
    }

    fn experiment() -> Experiment {
        Experiment::parse(
            "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = ['nginx']\n\
             [[loads]]\nid = 'plain'\ntitle = 'l'\nclients = 4\nrequests = 300\n\
             [[loads]]\nid = 'idle'\ntitle = 'i'\nkind = 'idle'\nclients = 4\n",
        )
        .unwrap()
    }

    #[test]
    fn results_of_both_tools_follow_each_other() {
        let out = tempfile::tempdir().unwrap();
        let (experiment, mut runs) = (experiment(), Vec::new());
        for (name, text) in [("k6.json", K6), ("jmeter.csv", JMETER)] {
            let result = out.path().join(name);
            fs::write(&result, text).unwrap();
            let run = import(&asked(&experiment, &result), &runs, out.path()).unwrap();
            assert_eq!(fs::read_to_string(out.path().join(&run.raw)).unwrap(), text);
            assert!(run.figures[&Figure::RequestsPerS] > 0.0 && run.figures[&Figure::Failed] == 0.0);
            runs.push(run);
        }
        assert_eq!(runs.iter().map(|run| run.turn).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(
            runs.iter().map(|run| run.tool.as_str()).collect::<Vec<_>>(),
            ["k6, imported", "JMeter, imported"]
        );
    }

    #[test]
    fn what_is_no_result_is_refused() {
        let out = tempfile::tempdir().unwrap();
        let experiment = experiment();
        let result = out.path().join("result");
        let refused = |text: &str, change: &dyn Fn(&mut Import<'_>)| {
            fs::write(&result, text).unwrap();
            let mut asked = asked(&experiment, &result);
            change(&mut asked);
            format!("{:#}", import(&asked, &[], out.path()).unwrap_err())
        };
        let as_it_is = |_: &mut Import<'_>| {};
        assert!(refused("{\"metrics\": {}}", &as_it_is).contains("no summary of an exported script"));
        assert!(refused("timeStamp,elapsed\n1,2\n", &as_it_is).contains("no samples of an exported plan"));
        assert!(refused("", &as_it_is).contains("neither a summary of k6"));
        assert!(
            refused(K6, &|asked| asked.load = "other").contains("e has no load other; it has plain, idle")
        );
        assert!(refused(K6, &|asked| asked.load = "idle").contains("only the lab itself"));
        assert!(refused(K6, &|asked| asked.server = "caddy").contains("--server caddy: e/plain has nginx"));
    }
}
