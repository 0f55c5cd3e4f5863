//! Beyond one machine: the loads of an experiment as scripts for k6 and plans for JMeter, whose own distributed modes
//! run them from many machines.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::measure::tool::{self, jmeter, k6};
use crate::model::experiment::{Experiment, Kind, Load};
use crate::model::order::{Order, ToolName};

/// What says how the files are run.
const COMMANDS: &str = "commands.txt";

/// Writes one k6 script and one JMeter plan for each load into a folder, and `commands.txt` with the commands that run
/// them and with what could not be exported, and why. `target` is a host with an optional port, or a URL without a
/// path. Nothing is sent.
pub fn export(experiment: &Experiment, target: &str, folder: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut written = Vec::new();
    let mut commands = format!(
        "# {}: against {target}\n# k6 shares a load out among its machines; each of JMeter's sends all of it.\n",
        experiment.title
    );
    for load in &experiment.loads {
        writeln!(commands, "\n# {}", load.title)?;
        let Some(order) = order(load, folder) else {
            let why = load.not_yet.as_deref().unwrap_or("only the lab itself can do this");
            writeln!(commands, "# not exported: {why}")?;
            continue;
        };
        let url = url(target, load)?;
        let counts = load.clients(false);
        for name in [ToolName::K6, ToolName::Jmeter] {
            if let Some(why) = tool::named(name).and_then(|tool| tool.cannot(&order)) {
                writeln!(commands, "# not exported for {name}: {why}")?;
                continue;
            }
            let (ending, text) = match name {
                ToolName::K6 => ("js", k6::script(&order, &url)?),
                _ => ("jmx", jmeter::plan(&order, &url)?),
            };
            let file = format!("{}-{}.{ending}", experiment.id, load.id);
            let path = folder.join(&file);
            fs::write(&path, text).with_context(|| path.display().to_string())?;
            written.push(path);
            for clients in &counts {
                writeln!(commands, "{}", command(name, &file, &order, *clients))?;
            }
        }
    }
    let path = folder.join(COMMANDS);
    fs::write(&path, commands).with_context(|| path.display().to_string())?;
    written.push(path);
    Ok(written)
}

fn command(name: ToolName, file: &str, order: &Order, clients: u32) -> String {
    match name {
        ToolName::K6 => format!("k6 run -e CLIENTS={clients} {file}"),
        _ => {
            let loops = jmeter::loops(order.amount, clients);
            format!(
                "jmeter -n -t {file} -l {file}-{clients}.csv -Gclients={clients} -Gloops={loops} -R HOST,HOST"
            )
        }
    }
}

/// The load as an order for the tools' generators, with its greatest number of clients. `None` where a tool alone
/// cannot do it.
fn order(load: &Load, folder: &Path) -> Option<Order> {
    if load.kind != Kind::Load || load.not_yet.is_some() {
        return None;
    }
    Some(Order {
        address: ([127, 0, 0, 1], 0).into(),
        path: load.path.clone(),
        clients: load.clients(false).into_iter().max()?,
        amount: load.amount(false)?,
        keep_alive: load.keep_alive,
        pipeline: load.pipeline,
        tls: load.tls,
        protocol: load.protocol,
        rate: load.rate,
        fields: load.fields.clone(),
        numbers: load.numbers,
        body_bytes: load.body_bytes,
        threads: 1,
        folder: folder.to_path_buf(),
    })
}

fn url(target: &str, load: &Load) -> Result<String> {
    let scheme = if load.tls.is_some() { "https" } else { "http" };
    let host = target.split_once("://").map_or(target, |(_, host)| host).trim_end_matches('/');
    ensure!(!host.is_empty() && !host.contains('/'), "a host with an optional port is needed: {target}");
    Ok(format!("{scheme}://{host}{}", load.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        id = "e"
        title = "An experiment"
        question = "?"
        contenders = ["nginx"]
        [[loads]]
        id = "plain"
        title = "Plain"
        path = "/1k"
        clients = [10, 100]
        requests = 1000
        [[loads]]
        id = "constant"
        title = "Constant"
        clients = 10
        seconds = 2
        rate = 500
        tls = {}
        [[loads]]
        id = "idle"
        title = "Idle"
        kind = "idle"
        clients = 10
    "#;

    #[test]
    fn loads_become_scripts_and_plans() {
        let folder = tempfile::tempdir().unwrap();
        let experiment = Experiment::parse(TEXT).unwrap();
        let written = export(&experiment, "http://server.example:8080/", folder.path()).unwrap();
        let names: Vec<_> =
            written.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
        assert_eq!(names, ["e-plain.js", "e-plain.jmx", "e-constant.js", "commands.txt"]);
        let text = |at: usize| fs::read_to_string(&written[at]).unwrap();
        assert!(text(0).contains(r#"__ENV.TARGET || "http://server.example:8080/1k""#));
        assert!(text(0).contains("__ENV.CLIENTS || 100"));
        assert!(text(1).contains("${__P(host,server.example)}"));
        assert!(text(2).contains("https://server.example:8080/"));
        let commands = text(3);
        assert!(commands.contains("k6 run -e CLIENTS=10 e-plain.js"), "{commands}");
        assert!(
            commands.contains("-Gclients=10 -Gloops=100 ") && commands.contains("-Gclients=100 -Gloops=10 ")
        );
        assert!(commands.contains("not exported for jmeter: "), "{commands}");
        assert!(commands.contains("# Idle\n# not exported: "), "{commands}");
        assert!(export(&experiment, "http://server.example/path", folder.path()).is_err());
    }
}
