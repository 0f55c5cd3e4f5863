//! Where a line of a `.htaccess` file stands, for explanations.

use conf::tree::printable;
use contract::{Args, Event, Loading};
use std::path::Path;
use std::sync::Arc;

/// A line of a `.htaccess` file.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    file: Option<Arc<Path>>,
    line: u32,
    words: Box<str>,
}

impl Place {
    pub(crate) fn new(args: &Args<'_>, loading: &Loading) -> Place {
        let node = args.node;
        let words: Vec<String> =
            std::iter::once(&node.name).chain(&node.args).map(ToString::to_string).collect();
        Place { file: loading.htaccess.path.clone(), line: node.span.line, words: words.join(" ").into() }
    }

    /// An event about the line.
    pub(crate) fn event(&self, feature: &'static str, text: String) -> Event {
        let file = self.file.as_deref().unwrap_or(Path::new("")).as_os_str().as_encoded_bytes();
        let written = format!("{}:{}: {}", printable(file), self.line, self.words);
        Event::new(feature, text).with("written", written)
    }
}
