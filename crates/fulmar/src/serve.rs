//! `fulmar serve`: a directory served without a configuration.
//!
//! It writes the configuration that an administrator would write, keeps it in memory, and runs it in one
//! process. There is no second way to serve files.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use conf::Memory;

use crate::configuration::Reader;
use crate::listening::{self, Door, Listening};

/// Where the configuration is in memory.
const CONF: &str = "/serve.conf";
/// Where the media types are in memory.
const TYPES: &str = "/mime.types";

/// Media types whose content is compressed; `text/html` always is.
const COMPRESSED: &str = "text/css text/javascript text/plain text/markdown text/csv text/xml application/json \
    application/ld+json application/manifest+json application/geo+json application/wasm application/atom+xml \
    application/rss+xml application/xhtml+xml application/yaml image/svg+xml";

/// Serves the files of a directory over HTTP, except hidden ones. Directories without an index.html are listed. Prints up to
/// 20 requests a second, and counts the others. Ctrl-C stops it.
#[derive(Debug, Parser)]
#[command(name = "fulmar serve", bin_name = "fulmar serve", version = server::VERSION)]
pub(crate) struct Arguments {
    /// The directory to serve
    #[arg(default_value = ".")]
    directory: PathBuf,
    #[command(flatten)]
    listening: Listening,
    /// Answer with index.html if there is no file, for applications that route in the browser
    #[arg(long)]
    spa: bool,
    /// Serve hidden files, too, whose names begin with a dot; without this only /.well-known/ is served
    #[arg(long)]
    hidden: bool,
}

/// Serves until it is stopped.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    listening::run(arguments, prepare)
}

/// What to run, and what to print when it runs.
fn prepare(arguments: &Arguments) -> Result<(Reader, String), String> {
    let directory = &arguments.directory;
    let complain = |reason: &str| format!("cannot serve \"{}\": {reason}", directory.display());
    let root = directory.canonicalize().map_err(|error| complain(reason(&error)))?;
    if !root.is_dir() {
        return Err(complain("it is no directory"));
    }
    let door = arguments.listening.door()?;
    let text = configuration(&root, arguments, &door).ok_or_else(|| {
        complain("its name has a \"$\", which configurations take for the start of a variable")
    })?;
    let inputs = Memory::default().with(CONF, text).with(TYPES, conf::MEDIA_TYPES);
    let greeting = door.greeting(&format!("Serving {}", root.display()));
    Ok((door.reader(inputs, CONF, root), greeting))
}

/// Hides `.env`, `.git`, `.htaccess` and the like in every directory. `.well-known` is public (RFC 8615).
const HIDDEN: &str = r"location ~ /\.(?!well-known(?:/|$)) { return 404; }";

/// A reason in words that need no knowledge of system calls.
fn reason(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such directory",
        io::ErrorKind::PermissionDenied => "you may not enter it",
        _ => "it cannot be entered",
    }
}

/// The configuration; none for a directory whose name it cannot express.
fn configuration(root: &Path, arguments: &Arguments, door: &Door) -> Option<Vec<u8>> {
    if root.as_os_str().as_bytes().contains(&b'$') {
        return None;
    }
    let (fallback, listing) =
        if arguments.spa { ("$uri /index.html", "off") } else { ("$uri $uri/ =404", "on") };
    let hidden = if arguments.hidden { "" } else { HIDDEN };
    let mut text = format!(
        "{}\
         \x20   include {TYPES};\n\
         \x20   default_type application/octet-stream;\n\
         \x20   gzip on;\n\
         \x20   gzip_vary on;\n\
         \x20   gzip_min_length 256;\n\
         \x20   gzip_types {COMPRESSED};\n\
         \x20   server {{\n\
         \x20       {}\n\
         \x20       index index.html index.htm;\n\
         \x20       autoindex {listing};\n\
         \x20       autoindex_format page;\n\
         \x20       autoindex_localtime on;\n\
         \x20       location / {{ try_files {fallback}; }}\n\
         \x20       {hidden}\n\
         \x20       root ",
        door.preamble(),
        door.listen(),
    )
    .into_bytes();
    text.extend(quoted(root.as_os_str().as_bytes()));
    text.extend_from_slice(b";\n    }\n}\n");
    Some(text)
}

/// A word of a configuration that stands for these bytes.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut word = vec![b'"'];
    for &byte in bytes {
        if byte == b'"' || byte == b'\\' {
            word.push(b'\\');
        }
        word.push(byte);
    }
    word.push(b'"');
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_good_and_needs_no_note() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("a \"b\" \\c; {d}");
        std::fs::create_dir(&root).unwrap();
        for (spa, tls) in [(false, false), (true, false), (true, true)] {
            let quiet = spa;
            let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let listening = Listening::local(port, tls, quiet);
            let arguments = Arguments { directory: root.clone(), listening, spa, hidden: spa };
            let (reader, greeting) = prepare(&arguments).unwrap();
            let scheme = if tls { "https" } else { "http" };
            assert!(greeting.contains(&format!("{scheme}://127.0.0.1:{port}/")), "{greeting}");
            assert_eq!(greeting.contains("fingerprint"), tls);
            assert_eq!(greeting.contains("--quiet shows none"), !quiet);
            let configuration = reader.read().map_err(|refusal| refusal.error).unwrap();
            assert!(configuration.read.notes.is_empty(), "{:?}", configuration.read.notes);
            assert_eq!(configuration.site.listens.len(), 1);
            assert!(configuration.error_log.is_none());
        }
    }
}
