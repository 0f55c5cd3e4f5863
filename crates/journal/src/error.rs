//! The error log's lines.

use super::{Level, LogFile, Syslog, thread};
use crate::clock::{self, Time};
use crate::rate_limit::{LINES_PER_SECOND, RateLimit, Verdict};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// The longest line in bytes. Longer lines are truncated: a client chooses the length of a URI.
const LINE_MAX: usize = 2048;

/// The longest member of a JSON object in bytes, before escaping.
const MEMBER_MAX: usize = LINE_MAX / 2;

/// The error log of a scope.
#[derive(Clone, Debug, Default)]
pub struct ErrorLog {
    targets: Arc<[Target]>,
    /// The least severe level that a target shows.
    least: Option<Level>,
}

/// One destination of an error log.
#[derive(Clone, Debug)]
pub struct Target {
    /// The destination.
    pub sink: Sink,
    /// The least severe level that is shown.
    pub level: Level,
    /// The format of lines.
    pub form: Form,
}

/// The destination of lines.
#[derive(Clone, Debug)]
pub enum Sink {
    /// A file, or the standard error stream.
    File(Arc<LogFile>),
    /// A syslog server.
    Syslog(Arc<Syslog>),
}

/// The format of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The format of nginx.
    Text,
    /// A JSON object (RFC 8259).
    Json,
}

impl Target {
    /// Writes lines of text to a file.
    pub fn file(file: Arc<LogFile>, level: Level) -> Target {
        Target { sink: Sink::File(file), level, form: Form::Text }
    }
}

/// The connection and request that a message is about.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// The number of the connection.
    pub connection: Option<u64>,
    /// The members of the request, by name.
    pub members: &'a [(&'a str, &'a str)],
}

/// A message with everything that its line contains.
struct Message<'a> {
    time: Time,
    level: Level,
    text: &'a str,
    about: &'a About<'a>,
}

impl ErrorLog {
    /// A log with these targets.
    pub fn new(targets: Vec<Target>) -> ErrorLog {
        let least = targets.iter().map(|target| target.level).max();
        ErrorLog { targets: targets.into(), least }
    }

    /// The path of the first file. `None` if the log only writes to standard error or syslog.
    pub fn path(&self) -> Option<&Path> {
        self.targets.iter().find_map(|target| match &target.sink {
            Sink::File(file) => file.path(),
            Sink::Syslog(_) => None,
        })
    }

    /// Whether a target shows messages of this level.
    #[inline]
    pub fn shows(&self, level: Level) -> bool {
        self.least.is_some_and(|least| level <= least)
    }

    /// A log with the same targets that shows the messages of all levels.
    pub fn in_detail(&self) -> ErrorLog {
        let all = self.targets.iter().map(|target| Target { level: Level::Debug, ..target.clone() });
        ErrorLog::new(all.collect())
    }

    /// Writes a line.
    pub fn write(&self, level: Level, message: &str) {
        self.write_about(level, message, &About::default());
    }

    /// Writes a line about a request.
    pub fn write_about(&self, level: Level, text: &str, about: &About<'_>) {
        if !self.shows(level) {
            return;
        }
        let message = Message { time: Time::now(), level, text, about };
        self.put(&message, about.connection.is_some());
    }

    /// Writes a message to all targets that show it. If lines were suppressed before, a line says how many.
    fn put(&self, message: &Message<'_>, is_bounded: bool) {
        let Message { level, .. } = *message;
        let forms = [Form::Text, Form::Json];
        let lines = forms.map(|form| {
            let wants = |target: &&Target| target.form == form && level <= target.level;
            self.targets.iter().find(wants).map(|_| message.line(form))
        });
        for target in self.targets.iter().filter(|target| level <= target.level) {
            let Some(line) = &lines[target.form as usize] else { continue };
            if is_bounded && !self.admits(target, message) {
                continue;
            }
            if let Some(complaint) = target.sink.write(level, line) {
                self.complain(target, &complaint);
            }
        }
    }

    /// Whether a target accepts a line about a client, or had too many in this second.
    fn admits(&self, target: &Target, message: &Message<'_>) -> bool {
        let verdict = target.sink.rate_limit().judge(message.level, message.time.seconds);
        let text = match verdict {
            Verdict::Pass | Verdict::Suppress => return verdict == Verdict::Pass,
            Verdict::After(count) => format!("{count} lines suppressed"),
            Verdict::Last => {
                format!("{LINES_PER_SECOND} lines about clients in a second, suppressing the others")
            }
        };
        let told = Message { text: &text, about: &About::default(), level: Level::Warn, ..*message };
        if let Some(complaint) = target.sink.write(Level::Warn, &told.line(target.form)) {
            self.complain(target, &complaint);
        }
        verdict != Verdict::Last
    }

    /// Reports a target that cannot be written to the other targets, or else to the standard error stream.
    fn complain(&self, about: &Target, complaint: &str) {
        let (level, nobody) = (Level::Alert, About::default());
        let message = Message { time: Time::now(), level, text: complaint, about: &nobody };
        let others = self.targets.iter().filter(|target| !std::ptr::eq(*target, about));
        let mut told = false;
        for target in others.filter(|target| level <= target.level) {
            told |= target.sink.write(level, &message.line(target.form)).is_none();
        }
        if !told {
            drop(LogFile::stderr().write(&message.line(Form::Text)));
        }
    }
}

impl Sink {
    fn rate_limit(&self) -> &RateLimit {
        match self {
            Sink::File(file) => &file.rate_limit,
            Sink::Syslog(syslog) => &syslog.rate_limit,
        }
    }

    /// Writes a line, which ends with a newline. Report the complaint that is returned.
    fn write(&self, level: Level, line: &[u8]) -> Option<String> {
        match self {
            Sink::File(file) => file.write(line),
            Sink::Syslog(syslog) => syslog.send(Some(level as u8), line.trim_ascii_end()),
        }
    }
}

impl Message<'_> {
    fn line(&self, form: Form) -> Vec<u8> {
        match form {
            Form::Text => self.text(),
            Form::Json => self.json(),
        }
    }

    /// The format of nginx, which tools such as fail2ban parse.
    fn text(&self) -> Vec<u8> {
        let Message { time, level, text, about } = self;
        let (process, thread, name) = (std::process::id(), thread(), level.name());
        let mut line = clock::error_log_time(*time);
        line += &format!(" [{name}] {process}#{thread}: ");
        if let Some(connection) = about.connection {
            line += &format!("*{connection} ");
        }
        let mut add = |text: &str| {
            // Do not read what is truncated below: a URI may have megabytes.
            let room = LINE_MAX.saturating_sub(line.len());
            let shown = &text[..text.ceil_char_boundary(room)];
            // A control character in a request must not forge a line.
            line.extend(shown.chars().map(|c| if c.is_control() { '?' } else { c }));
        };
        add(text);
        for (name, value) in about.members {
            let quote = if matches!(*name, "client" | "server") { "" } else { "\"" };
            [", ", name, ": ", quote, value, quote].into_iter().for_each(&mut add);
        }
        line.truncate(line.floor_char_boundary(LINE_MAX - 1));
        line.push('\n');
        line.into_bytes()
    }

    fn json(&self) -> Vec<u8> {
        let Message { time, level, text, about } = self;
        let (process, thread, name) = (std::process::id(), thread(), level.name());
        let mut line = b"{\"time\":\"".to_vec();
        clock::write_iso8601_milliseconds(*time, &mut line);
        // Writing to memory does not fail.
        let _ = write!(line, "\",\"level\":\"{name}\",\"pid\":{process},\"thread\":{thread}");
        if let Some(connection) = about.connection {
            let _ = write!(line, ",\"connection\":{connection}");
        }
        let message = [("message", *text)];
        for (name, value) in message.iter().chain(about.members) {
            let _ = write!(line, ",\"{name}\":\"");
            http::escape::json(&value.as_bytes()[..value.floor_char_boundary(MEMBER_MAX)], &mut line);
            line.push(b'"');
        }
        line.extend_from_slice(b"}\n");
        line
    }
}

#[cfg(test)]
mod tests {
    use super::{About, ErrorLog, Form, Level, LogFile, Sink, Target};
    use std::path::Path;
    use std::sync::Arc;
    use tempfile::TempDir;

    struct Test {
        directory: TempDir,
    }

    impl Test {
        fn new() -> Test {
            Test { directory: tempfile::tempdir().unwrap() }
        }

        fn target(&self, name: &str, level: Level, form: Form) -> Target {
            let file = Arc::new(LogFile::at(&self.directory.path().join(name)));
            file.open().unwrap();
            Target { sink: Sink::File(file), level, form }
        }

        fn text(&self, name: &str) -> String {
            std::fs::read_to_string(self.directory.path().join(name)).unwrap()
        }
    }

    const ABOUT: About<'_> = About {
        connection: Some(7),
        members: &[("client", "::1"), ("request", "GET /\"\u{e9}\x01 HTTP/1.1")],
    };

    #[test]
    fn each_message_is_one_line_and_levels_filter() {
        let test = Test::new();
        let log = ErrorLog::new(vec![
            test.target("a", Level::Error, Form::Text),
            test.target("b", Level::Emerg, Form::Text),
        ]);
        log.write(Level::Warn, "quiet");
        log.write(Level::Error, "*1 loud\n2026/01/01 forged");
        let text = test.text("a");
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains("[error]") && text.ends_with("*1 loud?2026/01/01 forged\n"), "{text}");
        assert_eq!(test.text("b"), "");
    }

    #[test]
    fn both_formats() {
        let test = Test::new();
        let targets = [("text", Form::Text), ("json", Form::Json)]
            .map(|(name, form)| test.target(name, Level::Info, form));
        ErrorLog::new(targets.into()).write_about(Level::Info, "a\tb", &ABOUT);
        let end = "#0: *7 a?b, client: ::1, request: \"GET /\"\u{e9}? HTTP/1.1\"\n";
        assert!(test.text("text").ends_with(end), "{}", test.text("text"));
        let json = test.text("json");
        let (start, rest) = json.split_once("\",\"level\":").unwrap();
        assert_eq!(start.len(), "{\"time\":\"2026-11-21T20:05:56.123+00:00".len());
        let process = std::process::id();
        let end = r#","thread":0,"connection":7,"message":"a\tb","client":"::1","request":"GET /\""#;
        assert_eq!(rest, format!("\"info\",\"pid\":{process}{end}\u{e9}\\u0001 HTTP/1.1\"}}\n"));
    }

    #[test]
    fn long_lines_are_truncated() {
        let test = Test::new();
        let log = ErrorLog::new(vec![
            test.target("text", Level::Info, Form::Text),
            test.target("json", Level::Info, Form::Json),
        ]);
        log.write_about(Level::Info, &"\u{e9}".repeat(5000), &ABOUT);
        let (text, json) = (test.text("text"), test.text("json"));
        assert!((super::LINE_MAX - 2..=super::LINE_MAX).contains(&text.len()) && text.ends_with("\u{e9}\n"));
        assert!(json.len() < 2 * super::LINE_MAX && json.ends_with("HTTP/1.1\"}\n"), "{json}");
    }

    /// Lines about clients are limited; other lines are not.
    #[test]
    fn lines_about_clients_are_limited() {
        const MANY: usize = 20 * super::LINES_PER_SECOND as usize;
        let test = Test::new();
        let log = ErrorLog::new(vec![test.target("a", Level::Info, Form::Text)]);
        let started = crate::clock::Time::now().seconds;
        (0..MANY).for_each(|_| log.write_about(Level::Info, "client", &ABOUT));
        log.write_about(Level::Crit, "client", &ABOUT);
        let seconds = usize::try_from(crate::clock::Time::now().seconds - started).unwrap() + 1;
        let text = test.text("a");
        let written = text.matches("*7 client,").count();
        assert!(written <= 1 + seconds * super::LINES_PER_SECOND as usize && written < MANY, "{written}");
        assert!(text.contains("[crit]"));
        let told = text.matches("[warn]").count();
        assert!((1..=2 * seconds).contains(&told), "{told}");
        (0..MANY).for_each(|_| log.write(Level::Info, "server"));
        assert_eq!(test.text("a").matches(": server\n").count(), MANY);
    }

    #[test]
    fn a_failed_log_is_reported_in_the_others() {
        let test = Test::new();
        let full = Arc::new(LogFile::at(Path::new("/dev/full")));
        full.open().unwrap();
        let log =
            ErrorLog::new(vec![Target::file(full, Level::Info), test.target("a", Level::Crit, Form::Text)]);
        log.write(Level::Info, "lost");
        log.write(Level::Info, "lost");
        let text = test.text("a");
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains("[alert]") && text.contains("write() to \"/dev/full\" failed (28: "), "{text}");
    }
}
