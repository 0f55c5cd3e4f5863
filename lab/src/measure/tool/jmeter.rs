//! JMeter 5: a plan of ours, run without its window.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::reading::{Outcome, Received, even_requests, number, says};
use super::{Report, Tool};
use crate::model::block::Bar;
use crate::model::figure::Figure;
use crate::model::order::{Amount, Order, ToolName};

/// JMeter 5. It measures in whole milliseconds and writes a line for each request, from which all figures are
/// computed here. Its "latency" contains the time to connect, which is taken off.
pub(super) const TOOL: Tool = Tool {
    name: ToolName::Jmeter,
    program: "jmeter",
    install: "unpack apache-jmeter-5 from jmeter.apache.org and put its bin on the PATH (Debian has version 2)",
    version,
    refuses,
    arguments,
    read,
};

/// The plan, in the order's folder.
const PLAN: &str = "jmeter-plan.jmx";
/// A line for each request, in the order's folder.
const SAMPLES: &str = "jmeter-samples.csv";
/// What is not written for each request.
const UNNEEDED: &[&str] = &[
    "label",
    "thread_name",
    "thread_counts",
    "response_message",
    "assertion_results_failure_message",
    "data_type",
    "url",
    "sent_bytes",
    "idle_time",
];

fn version(program: &Path) -> Option<String> {
    let text = says(program, &["--version", "--jmeterlogfile", "/dev/null"])?;
    let mut words = text.split_ascii_whitespace();
    let version =
        words.find(|word| word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.'))?;
    Some(format!("JMeter {version}"))
}

fn refuses(order: &Order) -> Option<&'static str> {
    match order {
        Order { rate: Some(_), .. } => Some("JMeter does not count latency from when a request was due"),
        Order { pipeline: 2.., .. } => Some("JMeter does not pipeline"),
        Order { tls: Some(tls), .. } if tls.resume => Some("JMeter resumes sessions as it likes"),
        Order { path, .. } if path.contains("${") => Some("JMeter would take the path for an expression"),
        _ => None,
    }
}

fn arguments(order: &Order) -> Result<Vec<String>> {
    let (plan_path, samples) = (order.folder.join(PLAN), order.folder.join(SAMPLES));
    fs::write(&plan_path, plan(order, &order.url())?).with_context(|| plan_path.display().to_string())?;
    if samples.exists() {
        // It would append.
        fs::remove_file(&samples).with_context(|| samples.display().to_string())?;
    }
    let mut arguments = vec!["-n".to_owned()];
    for (flag, path) in [("-t", &plan_path), ("-l", &samples), ("-j", &order.folder.join("jmeter.log"))] {
        arguments.extend([flag.to_owned(), path.display().to_string()]);
    }
    // No port for its own remote control.
    arguments.push("-Jjmeterengine.nongui.port=0".into());
    arguments.push("-Jjmeter.save.saveservice.output_format=csv".into());
    arguments.extend(UNNEEDED.iter().map(|name| format!("-Jjmeter.save.saveservice.{name}=false")));
    Ok(arguments)
}

/// A plan that does what an order says. The address of the order is ignored: `url` is the target. When it is run,
/// the properties `protocol`, `host`, `port`, `path`, `clients` and `loops` (requests of each client) say otherwise.
pub(crate) fn plan(order: &Order, url: &str) -> Result<String> {
    let (protocol, rest) = url.split_once("://").with_context(|| format!("no URL: {url}"))?;
    let slash = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(slash);
    let usual = if protocol == "https" { "443" } else { "80" };
    let (host, port) = authority
        .rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
        .unwrap_or((authority, usual));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut text = String::new();
    writeln!(text, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(text, r#"<jmeterTestPlan version="1.2" properties="5.0" jmeter="5.6.3"><hashTree>"#)?;
    writeln!(text, r#"<TestPlan guiclass="TestPlanGui" testclass="TestPlan" testname="{}"/>"#, escaped(url))?;
    writeln!(text, "<hashTree>")?;
    text.push_str(&threads(order)?);
    writeln!(text, "<hashTree>")?;
    writeln!(
        text,
        r#"<HTTPSamplerProxy guiclass="HttpTestSampleGui" testclass="HTTPSamplerProxy" testname="request">"#
    )?;
    for (name, value) in [("protocol", protocol), ("domain", host), ("port", port), ("path", path)] {
        let known = if name == "domain" { "host" } else { name };
        writeln!(text, r#"<stringProp name="HTTPSampler.{name}">{}</stringProp>"#, property(known, value))?;
    }
    writeln!(text, r#"<stringProp name="HTTPSampler.method">GET</stringProp>"#)?;
    writeln!(text, r#"<stringProp name="HTTPSampler.implementation">HttpClient4</stringProp>"#)?;
    writeln!(text, r#"<boolProp name="HTTPSampler.use_keepalive">{}</boolProp>"#, order.keep_alive)?;
    writeln!(text, r#"<boolProp name="HTTPSampler.follow_redirects">false</boolProp>"#)?;
    writeln!(text, r#"<elementProp name="HTTPsampler.Arguments" elementType="Arguments"/>"#)?;
    writeln!(text, "</HTTPSamplerProxy>\n<hashTree>")?;
    text.push_str(&fields(order)?);
    writeln!(text, "</hashTree></hashTree></hashTree></hashTree></jmeterTestPlan>")?;
    Ok(text)
}

/// The group of clients. Each sends the same number of requests.
fn threads(order: &Order) -> Result<String> {
    let seconds = match order.amount {
        Amount::Requests(_) => None,
        Amount::Seconds(seconds) => Some(seconds.ceil().max(1.0)),
    };
    let clients = property("clients", &order.clients.to_string());
    let loops = property("loops", &loops(order.amount, order.clients).to_string());
    let mut text = String::new();
    writeln!(text, r#"<ThreadGroup guiclass="ThreadGroupGui" testclass="ThreadGroup" testname="clients">"#)?;
    writeln!(text, r#"<stringProp name="ThreadGroup.on_sample_error">continue</stringProp>"#)?;
    writeln!(text, r#"<stringProp name="ThreadGroup.num_threads">{clients}</stringProp>"#)?;
    writeln!(text, r#"<stringProp name="ThreadGroup.ramp_time">0</stringProp>"#)?;
    // Otherwise it closes its connections after each loop.
    writeln!(text, r#"<boolProp name="ThreadGroup.same_user_on_next_iteration">true</boolProp>"#)?;
    writeln!(text, r#"<boolProp name="ThreadGroup.scheduler">{}</boolProp>"#, seconds.is_some())?;
    if let Some(seconds) = seconds {
        writeln!(text, r#"<stringProp name="ThreadGroup.duration">{seconds}</stringProp>"#)?;
    }
    writeln!(
        text,
        r#"<elementProp name="ThreadGroup.main_controller" elementType="LoopController" guiclass="LoopControlPanel" testclass="LoopController">"#
    )?;
    writeln!(text, r#"<stringProp name="LoopController.loops">{loops}</stringProp>"#)?;
    writeln!(text, r#"<boolProp name="LoopController.continue_forever">false</boolProp>"#)?;
    writeln!(text, "</elementProp></ThreadGroup>")?;
    Ok(text)
}

/// How many requests each client sends; -1 stands for as many as the time allows.
pub(crate) fn loops(amount: Amount, clients: u32) -> i64 {
    match amount {
        Amount::Requests(requests) => {
            let each = even_requests(requests, clients) / u64::from(clients.max(1));
            i64::try_from(each).unwrap_or(i64::MAX)
        }
        Amount::Seconds(_) => -1,
    }
}

/// A value that a property of that name replaces.
fn property(name: &str, value: &str) -> String {
    // A comma would end the value.
    format!("${{__P({name},{})}}", escaped(&value.replace('\\', "\\\\").replace(',', "\\,")))
}

/// The order's own fields, if it has some.
fn fields(order: &Order) -> Result<String> {
    let mut text = String::new();
    if order.fields.is_empty() {
        return Ok(text);
    }
    writeln!(text, r#"<HeaderManager guiclass="HeaderPanel" testclass="HeaderManager" testname="fields">"#)?;
    writeln!(text, r#"<collectionProp name="HeaderManager.headers">"#)?;
    for field in &order.fields {
        let (name, value) = field.split_once(':').with_context(|| format!("no field: {field}"))?;
        writeln!(text, r#"<elementProp name="" elementType="Header">"#)?;
        writeln!(text, r#"<stringProp name="Header.name">{}</stringProp>"#, escaped(name.trim()))?;
        writeln!(text, r#"<stringProp name="Header.value">{}</stringProp>"#, escaped(value.trim()))?;
        writeln!(text, "</elementProp>")?;
    }
    writeln!(text, "</collectionProp></HeaderManager>\n<hashTree/>")?;
    Ok(text)
}

/// Text within XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn read(order: &Order, _text: &str) -> Result<Report> {
    let path = order.folder.join(SAMPLES);
    reading(&fs::read_to_string(&path).with_context(|| path.display().to_string())?)
}

/// One request, in milliseconds.
struct Sample {
    began: u64,
    elapsed: u64,
    answered: bool,
    right: bool,
    bytes: u64,
    latency: u64,
    connect: u64,
}

/// What the samples of [`plan`] say, which `jmeter -l` wrote.
pub(crate) fn reading(csv: &str) -> Result<Report> {
    let samples = samples(csv)?;
    let began = samples.iter().map(|sample| sample.began).min().context("JMeter wrote no samples")?;
    let ended = samples.iter().map(|sample| sample.began + sample.elapsed).max().unwrap_or(began);
    let answers = samples.iter().filter(|sample| sample.answered).count();
    let right: Vec<&Sample> = samples.iter().filter(|sample| sample.answered && sample.right).collect();
    let mut elapsed: Vec<u64> = right.iter().map(|sample| sample.elapsed).collect();
    elapsed.sort_unstable();
    let outcome = Outcome {
        answers: u64::try_from(answers)?,
        right: u64::try_from(right.len())?,
        failed: u64::try_from(samples.len() - right.len())?,
        tells_apart: true,
        // A run that is shorter than its clock can tell took at most one tick.
        total_s: (ended - began).max(1) as f64 / 1000.0,
        received: Received::Exactly(right.iter().map(|sample| sample.bytes).sum()),
        times: times(&right, &elapsed),
        histogram: histogram(&elapsed),
        ..Outcome::default()
    };
    outcome.report()
}

fn times(right: &[&Sample], sorted: &[u64]) -> Vec<(Figure, f64)> {
    let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    let count = sorted.len() as f64;
    let mean_of =
        |value: fn(&Sample) -> u64| right.iter().map(|sample| value(sample) as f64).sum::<f64>() / count;
    let mean = mean_of(|sample| sample.elapsed);
    let square = sorted.iter().map(|elapsed| (*elapsed as f64 - mean).powi(2)).sum::<f64>() / count;
    let mut times = vec![
        (Figure::MeanMs, mean),
        (Figure::DeviationMs, square.sqrt()),
        (Figure::MinMs, *min as f64),
        (Figure::MaxMs, *max as f64),
        (Figure::ConnectMs, mean_of(|sample| sample.connect)),
        (Figure::WaitingMs, mean_of(|sample| sample.latency.saturating_sub(sample.connect))),
    ];
    for (percent, figure) in Figure::PERCENTILES {
        // The nearest rank: so many percent of the requests took at most this long.
        let rank = (sorted.len() * *percent as usize).div_ceil(100).max(1);
        times.push((*figure, sorted[rank - 1] as f64));
    }
    times
}

/// A bar for each millisecond that was seen.
fn histogram(sorted: &[u64]) -> Vec<Bar> {
    let bars = sorted.chunk_by(|one, other| one == other);
    bars.map(|bar| Bar { upto_ms: bar[0] as f64, count: bar.len() as u64 }).collect()
}

/// The lines of the file, by the names of their columns.
fn samples(csv: &str) -> Result<Vec<Sample>> {
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().context("JMeter wrote nothing")?.split(',').collect();
    let column = |name: &str| {
        let at = header.iter().position(|column| *column == name);
        at.with_context(|| format!("JMeter wrote no column {name}"))
    };
    let (began, elapsed, code) = (column("timeStamp")?, column("elapsed")?, column("responseCode")?);
    let (success, bytes) = (column("success")?, column("bytes")?);
    let (latency, connect) = (column("Latency")?, column("Connect")?);
    let sample = |line: &str| {
        let values: Vec<&str> = line.split(',').collect();
        ensure!(values.len() == header.len(), "not as many values as columns: {line}");
        let status = values[code].parse::<u16>().ok();
        Ok(Sample {
            began: number(values[began])?,
            elapsed: number(values[elapsed])?,
            answered: status.is_some(),
            right: values[success] == "true" && status.is_some_and(|status| status / 100 == 2),
            bytes: number(values[bytes])?,
            latency: number(values[latency])?,
            connect: number(values[connect])?,
        })
    };
    lines.map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::{near, order};
    use super::*;

    const GOOD: &str = include_str!("../../../tests/outputs/jmeter-good.csv");
    const MIXED: &str = include_str!("../../../tests/outputs/jmeter-mixed.csv");
    const DROPPED: &str = include_str!("../../../tests/outputs/jmeter-dropped.csv");
    const REFUSED: &str = include_str!("../../../tests/outputs/jmeter-refused.csv");

    #[test]
    fn a_good_run() {
        let report = reading(GOOD).unwrap();
        assert_eq!((report.requests, report.figures[&Figure::Failed]), (40, 0.0));
        near(report.figures[&Figure::BytesPerAnswer], 1264.0);
        assert_eq!(report.histogram.iter().map(|bar| bar.count).sum::<u64>(), 40);
    }

    #[test]
    fn figures_are_those_of_the_lines() {
        let header = "timeStamp,elapsed,responseCode,success,bytes,Latency,Connect\n";
        let lines: String =
            (1..=10).map(|n| format!("{},{},200,true,100,{n},1\n", 1000 + n, 2 * n)).collect();
        let report = reading(&format!("{header}{lines}")).unwrap();
        near(report.figures[&Figure::TotalS], 0.029);
        near(report.figures[&Figure::MeanMs], 11.0);
        near(report.figures[&Figure::P50Ms], 10.0);
        near(report.figures[&Figure::P90Ms], 18.0);
        near(report.figures[&Figure::P95Ms], 20.0);
        near(report.figures[&Figure::ConnectMs], 1.0);
        near(report.figures[&Figure::WaitingMs], 4.5);
        near(report.figures[&Figure::DeviationMs], 33_f64.sqrt());
    }

    #[test]
    fn failures() {
        let failed =
            |text: &str| reading(text).map(|report| (report.requests, report.figures[&Figure::Failed]));
        assert_eq!(failed(MIXED).unwrap(), (40, 12.0));
        assert_eq!(failed(DROPPED).unwrap(), (29, 11.0));
        assert_eq!(failed(REFUSED).unwrap(), (0, 10.0));
        assert!(failed("").is_err());
        assert!(failed(&GOOD.replace("Connect", "Opened")).is_err());
        assert!(failed(&GOOD.replace(",200,", ",200,,")).is_err());
    }

    #[test]
    fn its_plan() {
        let with_field = Order { fields: vec!["A: <b>".into()], ..order(50, Amount::Requests(990)) };
        let text = plan(&with_field, "https://[::1]:8443/a,b?c&d").unwrap();
        for expected in [
            "${__P(clients,50)}",
            "${__P(loops,20)}",
            "use_keepalive\">true<",
            "${__P(protocol,https)}",
            "${__P(host,::1)}",
            "${__P(port,8443)}",
            "${__P(path,/a\\,b?c&amp;d)}",
            "&lt;b&gt;",
        ] {
            assert!(text.contains(expected), "{expected} is not in {text}");
        }
        assert!(plan(&with_field, "http://host").unwrap().contains("${__P(port,80)}"));
        let timed = plan(&order(5, Amount::Seconds(2.0)), "http://host/").unwrap();
        assert!(timed.contains("ThreadGroup.duration\">2<") && timed.contains("${__P(loops,-1)}"), "{timed}");
    }
}
