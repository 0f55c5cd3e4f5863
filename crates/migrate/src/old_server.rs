//! The server that is installed: its program, its version, and the parts that it was built with.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::{self, Output};

/// `nginx -V` takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// An nginx that is installed.
#[derive(Clone, Debug)]
pub struct OldServer {
    /// The program.
    pub path: PathBuf,
    /// What it calls itself, such as `nginx/1.22.1`.
    pub name: String,
    /// The arguments of `configure`.
    arguments: Vec<String>,
}

impl OldServer {
    /// Asks a program for its version and its parts.
    ///
    /// # Errors
    /// It cannot be started, does not end in time, or does not answer as nginx does.
    pub fn ask(path: &Path) -> Result<OldServer, String> {
        let output = process::output(Command::new(path).arg("-V"), PATIENCE)?;
        OldServer::read(path, &output)
            .ok_or_else(|| format!("\"{} -V\" does not answer as nginx does", path.display()))
    }

    fn read(path: &Path, output: &Output) -> Option<OldServer> {
        let name = output.text.lines().find_map(|line| line.strip_prefix("nginx version: "))?;
        let configured = output.text.lines().find_map(|line| line.strip_prefix("configure arguments:"))?;
        let arguments = configured.split_whitespace().map(|word| word.trim_matches('\'').to_owned());
        Some(OldServer {
            path: path.to_owned(),
            name: name.trim().to_owned(),
            arguments: arguments.collect(),
        })
    }

    /// The version, such as `1.22.1`.
    pub fn version(&self) -> &str {
        self.name
            .split_whitespace()
            .next()
            .and_then(|name| name.split_once('/'))
            .map_or("", |(_, number)| number)
    }

    /// Whether it has the flag `-e`.
    pub(crate) fn takes_error_log(&self) -> bool {
        let numbers: Vec<u32> = self.version().split('.').map_while(|part| part.parse().ok()).collect();
        numbers >= vec![1, 19, 5]
    }

    /// Where relative paths start unless `-p` says otherwise.
    pub fn prefix(&self) -> Option<PathBuf> {
        self.arguments.iter().find_map(|word| word.strip_prefix("--prefix=")).map(PathBuf::from)
    }

    /// Whether the HTTP module of this name was left out.
    pub(crate) fn lacks(&self, module: &str) -> bool {
        let option = format!("--without-http_{module}_module");
        self.arguments.contains(&option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_prefix_and_parts_are_read() {
        let text = "nginx version: nginx/1.22.1\nbuilt with OpenSSL\nconfigure arguments: \
                    --prefix=/usr/share/nginx --without-http_scgi_module --with-cc-opt='-g -O2'\n";
        let output = Output { text: text.to_owned() };
        let server = OldServer::read(Path::new("/usr/sbin/nginx"), &output).unwrap();
        assert_eq!((server.version(), server.name.as_str()), ("1.22.1", "nginx/1.22.1"));
        assert_eq!(server.prefix(), Some(PathBuf::from("/usr/share/nginx")));
        assert!(server.takes_error_log());
        assert!(server.lacks("scgi") && !server.lacks("uwsgi"));
        assert!(OldServer::read(Path::new("a"), &Output { text: "hello".to_owned() }).is_none());
    }
}
