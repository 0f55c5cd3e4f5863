//! What happened to a request, as it is explained and as it is heard.

use std::fs;

use serde_json::Value;
use tests::response::Response;

use super::stage::Stage;

/// What nginx answered.
pub(super) enum Heard {
    Answer(Response),
    /// It closed the connection without a word.
    Nothing,
}

/// Fields that are the connection's, or the server's own.
const OWN: [&str; 6] = ["server", "date", "connection", "keep-alive", "transfer-encoding", "content-length"];

/// Fields of a passed request that say nothing about the configuration.
const OF_CONNECTION: [&str; 1] = ["connection"];

/// The outcome on a line: the answer or the server behind, the location, the server.
pub(super) fn shown(stage: &Stage, explained: &Value) -> String {
    let text = |name: &str| stage.plain(explained[name].as_str().unwrap_or_default());
    let outcome = match text("end").as_str() {
        "closed" => "closed".to_owned(),
        "passed" if explained["script"].is_string() => format!("-> {} {}", text("upstream"), text("script")),
        "passed" => format!("-> {}", text("upstream")),
        _ => {
            let content = text("content").replace('\n', "\\n");
            let detail = match () {
                () if field(explained, "location").is_some() => {
                    stage.plain(&field(explained, "location").unwrap_or_default())
                }
                () if explained["file"].is_string() => text("file"),
                () if field(explained, "content-encoding").is_some() => "(compressed)".to_owned(),
                () if content.contains("<hr><center>") || content.is_empty() => String::new(),
                () => format!("{content:.60}"),
            };
            format!("{} {detail}", explained["status"]).trim_end().to_owned()
        }
    };
    let location = explained["location"].as_str().unwrap_or("none");
    let server = text("server");
    let server = if server.is_empty() { "no name" } else { &server };
    format!("{outcome} | {} | {server}", stage.plain(location))
}

/// Whether what was heard is what is explained; else how it differs.
pub(super) fn agree(stage: &Stage, explained: &Value, heard: &Heard) -> Result<(), String> {
    let end = explained["end"].as_str().unwrap_or_default();
    let response = match (end, heard) {
        ("closed", Heard::Nothing) => return Ok(()),
        ("closed", Heard::Answer(response)) => return Err(differ("closed", &response.status.to_string())),
        (_, Heard::Nothing) => return Err(differ(&shown(stage, explained), "closed")),
        (_, Heard::Answer(response)) => response,
    };
    if end == "passed" { passed(stage, explained, response) } else { answered(stage, explained, response) }
}

fn differ(explained: &str, heard: &str) -> String {
    format!("  explained  {explained}\n  nginx      {heard}")
}

fn passed(stage: &Stage, explained: &Value, response: &Response) -> Result<(), String> {
    let text = response.text();
    let heard = text.strip_prefix("asked ").and_then(|text| text.split_once('\n'));
    let Some((server, asked)) = heard else {
        return Err(differ(&shown(stage, explained), &format!("{}\n{text:.300}", response.status)));
    };
    let upstream = stage.plain(explained["upstream"].as_str().unwrap_or_default());
    let name = upstream.split("://").nth(1).unwrap_or_default();
    let name = if name.starts_with("unix:") { name } else { name.split('/').next().unwrap_or_default() };
    // A socket is followed by the URI.
    let servers = stage.servers_of(name);
    if !servers.iter().any(|own| own == server || (own.starts_with("unix:") && own.starts_with(server))) {
        return Err(differ(&upstream, &format!("asked {server}")));
    }
    if let Some(script) = explained["script"].as_str() {
        return if script == asked { Ok(()) } else { Err(differ(script, asked)) };
    }
    // What cannot be printed is escaped in the explanation.
    let head = explained["head"].as_str().unwrap_or_default().replace("\\x0D\\x0A", "\r\n");
    let (own, theirs) = (head_of(&head), head_of(asked));
    if own == theirs {
        Ok(())
    } else {
        Err(differ(&own.join("\n             "), &theirs.join("\n             ")))
    }
}

/// The lines of a request's head, fields in lower case and in order.
fn head_of(text: &str) -> Vec<String> {
    let mut lines = text.split("\r\n\r\n").next().unwrap_or_default().split("\r\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let field = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        let name = name.to_ascii_lowercase();
        let is_own = OF_CONNECTION.contains(&name.as_str()) && value == "close";
        (!is_own).then(|| format!("{name}: {value}"))
    };
    let mut fields: Vec<String> = lines.filter_map(field).collect();
    fields.sort();
    [vec![first], fields].concat()
}

fn answered(stage: &Stage, explained: &Value, response: &Response) -> Result<(), String> {
    if explained["status"].as_u64() != Some(u64::from(response.status)) {
        let heard = format!("{} {}", response.status, response.field("location").unwrap_or_default());
        return Err(differ(&shown(stage, explained), &heard));
    }
    let own: Vec<(String, String)> = explained["fields"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|pair| [0, 1].map(|at| pair[at].as_str().unwrap_or_default().to_owned()))
        .map(|[name, value]| (name, value))
        .collect();
    let (own, theirs) = (comparable(&own), comparable(&response.fields));
    if own != theirs {
        return Err(differ(&own.join("\n             "), &theirs.join("\n             ")));
    }
    let content = match (explained["file"].as_str(), explained["content"].as_str()) {
        (Some(path), _) => fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?,
        (None, Some(text)) if !text.contains("<hr><center>") => text.to_owned(),
        _ => return Ok(()),
    };
    let heard = response.text();
    let is_partial = response.status == 206 || response.field("content-encoding").is_some();
    if content == heard || is_partial { Ok(()) } else { Err(differ(&content, &heard)) }
}

fn comparable(fields: &[(String, String)]) -> Vec<String> {
    let line = |(name, value): &(String, String)| {
        let name = name.to_ascii_lowercase();
        let value = if name == "expires" && value.ends_with("GMT") && !value.contains("1970") {
            "DATE"
        } else {
            value
        };
        (!OWN.contains(&name.as_str())).then(|| format!("{name}: {value}"))
    };
    let mut lines: Vec<String> = fields.iter().filter_map(line).collect();
    lines.sort();
    lines
}

fn field(explained: &Value, name: &str) -> Option<String> {
    let fields = explained["fields"].as_array()?;
    let found =
        fields.iter().find(|pair| pair[0].as_str().is_some_and(|own| own.eq_ignore_ascii_case(name)))?;
    Some(found[1].as_str()?.to_owned())
}
