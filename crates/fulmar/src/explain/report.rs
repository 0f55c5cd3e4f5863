//! An explanation as data.

use std::path::Path;

use conf::tree::printable;
use conf::{Sources, Span};
use contract::Event;
use serde_json::{Map, Value, json};
use server::{Content, End, Explanation};

use super::Request;

/// An explanation with what is needed to show it.
pub(super) struct Report<'a> {
    pub(super) request: &'a Request,
    pub(super) explanation: &'a Explanation,
    pub(super) sources: &'a Sources,
    /// Where the main file is.
    pub(super) directory: &'a Path,
}

/// Where a directive was written.
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) line: u32,
    /// The directive, without its block.
    pub(crate) text: String,
}

/// A response's head as it would be on the wire.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) fields: Vec<(String, String)>,
}

impl Report<'_> {
    /// An object, and a line end.
    pub(super) fn json(&self) -> String {
        let request = self.request;
        let mut object = Map::new();
        object.insert(
            "request".to_owned(),
            json!({
                "method": request.method, "url": request.url, "fields": request.fields, "from": request.from.to_string(),
            }),
        );
        let steps: Vec<Value> = self.explanation.steps.iter().map(|step| self.step(step)).collect();
        object.insert("steps".to_owned(), steps.into());
        object.insert("server".to_owned(), self.last("server").and_then(|step| step.member("name")).into());
        object.insert("location".to_owned(), self.location().into());
        match &self.explanation.end {
            End::Closed => {
                object.insert("end".to_owned(), "closed".into());
            }
            End::Passed => {
                object.insert("end".to_owned(), "passed".into());
                let steps = &self.explanation.steps;
                if let Some(step) = steps.iter().rfind(|step| step.member("upstream").is_some()) {
                    for (name, value) in &step.members {
                        object.insert((*name).to_owned(), value.as_str().into());
                    }
                }
            }
            End::Answered(head, content) => {
                object.insert("end".to_owned(), "answered".into());
                let answer = Answer::new(head);
                object.insert("status".to_owned(), answer.status.into());
                object.insert("reason".to_owned(), answer.reason.into());
                let fields: Vec<Value> =
                    answer.fields.iter().map(|(name, value)| json!([name, value])).collect();
                object.insert("fields".to_owned(), fields.into());
                match content {
                    Content::None | Content::Made => {}
                    Content::File => {
                        object.insert("file".to_owned(), self.file().into());
                    }
                    Content::Bytes(bytes) => {
                        if let Ok(text) = std::str::from_utf8(bytes) {
                            object.insert("content".to_owned(), text.into());
                        }
                    }
                }
            }
        }
        format!("{}\n", Value::Object(object))
    }

    /// The file that is sent.
    pub(super) fn file(&self) -> Option<&str> {
        let files = self.explanation.steps.iter().rev().filter(|step| step.feature == "file");
        let mut found = files.filter(|step| step.member("kind") == Some("file"));
        found.next().and_then(|step| step.member("path"))
    }

    /// The location as it was written, without the word itself; none for the server alone.
    fn location(&self) -> Option<String> {
        let place = self.place(self.last("location")?.place)?;
        Some(place.text.strip_prefix("location").unwrap_or(&place.text).trim().to_owned())
    }

    fn last(&self, feature: &str) -> Option<&Event> {
        self.explanation.steps.iter().rev().find(|step| step.feature == feature)
    }

    fn step(&self, step: &Event) -> Value {
        let mut object = Map::new();
        object.insert("feature".to_owned(), step.feature.into());
        object.insert("text".to_owned(), step.text.as_str().into());
        for (name, value) in &step.members {
            object.insert((*name).to_owned(), value.as_str().into());
        }
        if let Some(Place { file, line, text }) = self.place(step.place) {
            object.insert("at".to_owned(), json!({ "file": file, "line": line, "directive": text }));
        }
        if !step.considered.is_empty() {
            let inner: Vec<Value> = step.considered.iter().map(|inner| self.step(inner)).collect();
            object.insert("considered".to_owned(), inner.into());
        }
        Value::Object(object)
    }

    /// A place with its text on one line.
    pub(super) fn place(&self, span: Option<Span>) -> Option<Place> {
        place(span, self.sources, self.directory)
    }
}

/// A place with its text on one line; `directory` is that of the main file.
pub(crate) fn place(span: Option<Span>, sources: &Sources, directory: &Path) -> Option<Place> {
    let span = span?;
    let (start, end) = (usize::try_from(span.start).ok()?, usize::try_from(span.end).ok()?);
    let text = printable(sources.text(span.file).get(start..end)?).replace("\\x0A", " ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // What lies next to the main file is named as the configuration names it.
    let path = sources.path(span.file);
    let path = path.strip_prefix(directory).unwrap_or(path);
    let file = printable(path.as_os_str().as_encoded_bytes());
    Some(Place { file, line: span.line, text })
}

impl Answer {
    /// Takes a head apart that this server made.
    pub(super) fn new(head: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(head);
        let mut lines = text.split("\r\n");
        let mut first = lines.next().unwrap_or_default().splitn(3, ' ').skip(1);
        let status = first.next().and_then(|status| status.parse().ok()).unwrap_or_default();
        let reason = first.next().unwrap_or_default().to_owned();
        let field =
            |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        Answer { status, reason, fields: lines.filter_map(field).collect() }
    }
}
