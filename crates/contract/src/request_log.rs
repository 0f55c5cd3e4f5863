//! The error log, with what nginx tells of a request.

use crate::{Exchange, Peer};
use journal::{About, ErrorLog, Level};

/// An error log together with what nginx tells of a request.
#[derive(Clone, Debug)]
pub struct RequestLog {
    log: ErrorLog,
    connection: u64,
    about: Vec<(&'static str, String)>,
    fields: Vec<(&'static str, String)>,
}

impl RequestLog {
    /// Writes a line; `upstream` is the URL of the server that was asked on behalf of the request.
    pub fn write(&self, level: Level, message: &str, upstream: Option<&str>) {
        let mut members: Vec<(&str, &str)> = Vec::new();
        members.extend(self.about.iter().map(|(name, value)| (*name, &**value)));
        members.extend(upstream.map(|url| ("upstream", url)));
        members.extend(self.fields.iter().map(|(name, value)| (*name, &**value)));
        let about = About { connection: Some(self.connection), members: &members };
        self.log.write_about(level, message, &about);
    }
}

impl Exchange {
    /// The scope's error log with what nginx tells of the request, for work that goes on without it.
    pub fn request_log(&self) -> RequestLog {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let has_line = !self.request.head.line().is_empty();
        // Without a request line and a name, the address tells most about the server.
        let server = match (&self.connection.local, self.server_name().is_empty() && !has_line) {
            (Peer::Inet(local), true) => local.to_string(),
            (Peer::Unix(Some(path)), true) => format!("unix:{}", text(path)),
            _ => text(self.server_name()),
        };
        let mut about = vec![("client", self.connection.peer.address()), ("server", server)];
        if has_line {
            about.push(("request", text(self.request.head.line())));
        }
        if self.subrequest {
            about.push(("subrequest", text(&self.request.path)));
        }
        let fields = [("host", "host"), ("referer", "referrer")]
            .into_iter()
            .filter_map(|(name, shown)| self.request.head.fields.get(name).map(|value| (shown, text(value))));
        RequestLog {
            log: match self.connection.debug {
                true => self.scope.policy.error_log.in_detail(),
                false => self.scope.policy.error_log.clone(),
            },
            connection: self.connection.serial,
            about,
            fields: fields.collect(),
        }
    }
}
