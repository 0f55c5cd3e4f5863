//! Beyond one machine: the loads of an experiment as scripts for k6 and plans for JMeter, whose own distributed modes
//! run them from many machines.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::measure::engine::site;
use crate::measure::tool::{self, jmeter, k6};
use crate::model::experiment::{Experiment, Kind, Load};
use crate::model::order::{Order, ToolName};

/// What says how the files are run.
const COMMANDS: &str = "commands.txt";

/// The folder of the files that the target has to serve.
const SITE: &str = "site";

/// What was exported.
#[derive(Debug, Default)]
pub struct Exported {
    /// The files that were written.
    pub written: Vec<PathBuf>,
    /// What was left out, and why.
    pub left_out: Vec<String>,
}

/// Writes one k6 script and one JMeter plan for each load into a folder, and `commands.txt` with the commands that run
/// them and with what could not be exported, and why. The files that the target has to serve go into `site`. `target` is a host with an optional port, or a URL without a
/// path. Nothing is sent.
pub fn export(experiment: &Experiment, target: &str, folder: &Path) -> Result<Exported> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let (mut written, mut left_out) = (Vec::new(), Vec::new());
    let mut commands = format!(
        "# {}: against {target}\n# k6 shares a load out among its machines; each of JMeter's sends all of it.\n",
        experiment.title
    );
    let serves_files = experiment.loads.iter().any(|load| load.application.is_none());
    if serves_files && !experiment.files.is_empty() {
        site::write(&folder.join(SITE), &experiment.files)?;
        writeln!(commands, "# The target serves the files of {SITE}/, from its root.")?;
        written.push(folder.join(SITE));
    }
    for load in &experiment.loads {
        writeln!(commands, "\n# {}", load.title)?;
        if let Some(name) = &load.application {
            writeln!(
                commands,
                "# The target serves the application {name}, which is not exported: lab/applications/{name}"
            )?;
            left_out.push(format!("{}: the application {name}; the target has to have it", load.id));
        }
        let Some(order) = order(load, folder) else {
            let why = load.not_yet.as_deref().unwrap_or("only the lab itself can do this");
            writeln!(commands, "# not exported: {why}")?;
            left_out.push(format!("{}: {why}", load.id));
            continue;
        };
        let url = url(target, load)?;
        let counts = load.clients(false);
        for name in [ToolName::K6, ToolName::Jmeter] {
            if let Some(why) = tool::named(name).and_then(|tool| tool.cannot(&order)) {
                writeln!(commands, "# not exported for {name}: {why}")?;
                left_out.push(format!("{}, for {name}: {why}", load.id));
                continue;
            }
            let (ending, text) = match name {
                ToolName::K6 => ("js", k6::script(&order, &url)?),
                _ => ("jmx", jmeter::plan(&order, &url)?),
            };
            let file = format!("{}-{}.{ending}", experiment.id, load.id);
            let path = folder.join(&file);
            fs::write(&path, &text).with_context(|| path.display().to_string())?;
            written.push(path);
            for clients in &counts {
                writeln!(commands, "{}", command(name, &file, &order, *clients))?;
            }
            if name == ToolName::K6 {
                let resource = format!("{}-{}.yaml", experiment.id, load.id);
                let path = folder.join(&resource);
                fs::write(&path, test_run(&file, &text, order.clients)?)
                    .with_context(|| path.display().to_string())?;
                written.push(path);
                writeln!(commands, "kubectl apply -f {resource}")?;
            }
        }
    }
    let path = folder.join(COMMANDS);
    fs::write(&path, commands).with_context(|| path.display().to_string())?;
    written.push(path);
    Ok(Exported { written, left_out })
}

/// The script as resources for k6's operator for Kubernetes: a ConfigMap that holds it, and a TestRun that shares it out
/// among four pods.
fn test_run(file: &str, script: &str, clients: u32) -> Result<String, std::fmt::Error> {
    let name = file.trim_end_matches(".js");
    let mut text = String::from("apiVersion: v1\nkind: ConfigMap\n");
    writeln!(text, "metadata:\n  name: {name}\ndata:\n  {file}: |")?;
    for line in script.lines() {
        writeln!(text, "{}", format!("    {line}").trim_end())?;
    }
    writeln!(text, "---\napiVersion: k6.io/v1alpha1\nkind: TestRun")?;
    writeln!(text, "metadata:\n  name: {name}\nspec:\n  parallelism: 4")?;
    writeln!(text, "  script:\n    configMap:\n      name: {name}\n      file: {file}")?;
    for part in ["initializer", "runner"] {
        writeln!(text, "  {part}:\n    env:\n      - name: CLIENTS\n        value: \"{clients}\"")?;
    }
    Ok(text)
}

fn command(name: ToolName, file: &str, order: &Order, clients: u32) -> String {
    match name {
        ToolName::K6 => format!("k6 run -e CLIENTS={clients} --summary-export {file}-{clients}.json {file}"),
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
        has_own_cores: false,
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
        let exported = export(&experiment, "http://server.example:8080/", folder.path()).unwrap();
        let written = exported.written;
        let names: Vec<_> =
            written.iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
        assert_eq!(
            names,
            ["e-plain.js", "e-plain.yaml", "e-plain.jmx", "e-constant.js", "e-constant.yaml", "commands.txt"]
        );
        let text = |at: usize| fs::read_to_string(&written[at]).unwrap();
        assert!(text(0).contains(r#"__ENV.TARGET || "http://server.example:8080/1k""#));
        assert!(text(0).contains("__ENV.CLIENTS || 100"));
        assert!(
            text(1).contains("kind: TestRun")
                && text(1).contains("      name: e-plain\n      file: e-plain.js")
        );
        assert!(text(1).contains("    const clients = Number(__ENV.CLIENTS || 100);\n"), "{}", text(1));
        assert!(text(2).contains("${__P(host,server.example)}"));
        assert!(text(3).contains("https://server.example:8080/"));
        let commands = text(5);
        assert!(
            commands.contains("k6 run -e CLIENTS=10 --summary-export e-plain.js-10.json e-plain.js"),
            "{commands}"
        );
        assert!(commands.contains("kubectl apply -f e-plain.yaml"), "{commands}");
        assert!(
            commands.contains("-Gclients=10 -Gloops=100 ") && commands.contains("-Gclients=100 -Gloops=10 ")
        );
        assert!(commands.contains("not exported for jmeter: "), "{commands}");
        assert!(commands.contains("# Idle\n# not exported: "), "{commands}");
        assert!(export(&experiment, "http://server.example/path", folder.path()).is_err());
        assert_eq!(exported.left_out.len(), 2, "{:?}", exported.left_out);
        assert!(exported.left_out[0].starts_with("constant, for jmeter: "), "{:?}", exported.left_out);
        assert_eq!(exported.left_out[1], "idle: only the lab itself can do this");
    }

    #[test]
    fn the_files_that_the_target_serves_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let files = "[[files]]\npath = \"a/1k\"\nlength = 1024\n";
        let experiment =
            Experiment::parse(&TEXT.replacen("[[loads]]", &format!("{files}[[loads]]"), 1)).unwrap();
        let exported = export(&experiment, "server.example", folder.path()).unwrap();
        assert!(exported.written.contains(&folder.path().join("site")));
        assert_eq!(fs::read(folder.path().join("site/a/1k")).unwrap().len(), 1024);
        let commands = fs::read_to_string(folder.path().join("commands.txt")).unwrap();
        assert!(commands.contains("# The target serves the files of site/"), "{commands}");
    }
}
