//! `fulmar cache`: what is in the directory of a cache, and removing some of it.
//!
//! It works on the files. A server that uses the directory notices within two seconds.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use ::cache::{Key, Levels, Object, REMOVAL_NOTICED_AFTER, Selection, Walk, Zone};
use clap::{Args, Parser, Subcommand};
use journal::clock::Time;

use crate::console::{out, say};
use crate::subcommand;

/// Shows or removes responses in the directory of a cache (`proxy_cache_path` and so on). A running server
/// notices within two seconds. Run it as root or as the user of the workers.
///
/// The exit status is 0; 1 if the directory or one of its files cannot be read or changed.
#[derive(Debug, Parser)]
#[command(name = "fulmar cache", bin_name = "fulmar cache", version = server::VERSION)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print a line for each response: status, bytes of content, seconds that it is still valid, key
    List {
        #[command(flatten)]
        about: About,
        /// Print a JSON object for each response
        #[arg(long)]
        json: bool,
    },
    /// Print how many responses there are, and their sizes and ages
    Stat {
        #[command(flatten)]
        about: About,
    },
    /// Remove responses
    Purge {
        #[command(flatten)]
        about: About,
        /// Remove all responses
        #[arg(long)]
        all: bool,
        /// Keep them, but as no longer valid: `proxy_cache_use_stale` may send them until there are new ones
        #[arg(long)]
        soft: bool,
    },
}

/// The directory, and which of its responses.
#[derive(Debug, Args)]
struct About {
    /// The directory of the cache
    directory: PathBuf,
    /// Only the response with this key, in all its variants
    #[arg(long, group = "which")]
    key: Option<String>,
    /// Only responses whose key starts with this
    #[arg(long, group = "which")]
    prefix: Option<String>,
    /// Only responses whose key names this host
    #[arg(long, group = "which")]
    host: Option<String>,
    /// Only responses with this tag in the field Surrogate-Key or xkey
    #[arg(long, group = "which")]
    tag: Option<String>,
}

impl About {
    fn selection(&self) -> Option<Selection> {
        let text = |text: &String| text.as_bytes().into();
        let key = self.key.as_ref().map(|key| Selection::Key(text(key)));
        let prefix = || self.prefix.as_ref().map(|prefix| Selection::Prefix(text(prefix)));
        let host = || self.host.as_ref().map(|host| Selection::Host(text(host)));
        let tag = || self.tag.as_ref().map(|tag| Selection::Tag(text(tag)));
        key.or_else(prefix).or_else(host).or_else(tag)
    }
}

/// Works on a cache; `arguments` begins with the program's own name, and `cache` follows.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let Arguments { command } = match subcommand::arguments(arguments, ExitCode::FAILURE) {
        Ok(arguments) => arguments,
        Err(status) => return status,
    };
    match command {
        Command::List { about, json } => {
            let status = with_each(&about, Selection::All, |_, _, object| {
                let line = if json { json_line(object) } else { line(object) };
                out(line.as_bytes());
                Ok(())
            });
            status.unwrap_or(ExitCode::FAILURE)
        }
        Command::Stat { about } => stat(&about),
        Command::Purge { about, all, soft } => purge(&about, all, soft),
    }
}

/// Does something with each response that is asked for; with all of `default` where none is named. Nothing if the directory
/// cannot be read.
fn with_each(
    about: &About,
    default: Selection,
    mut act: impl FnMut(&Arc<Zone>, &Key, &Object) -> std::io::Result<()>,
) -> Option<ExitCode> {
    let directory: &Path = &about.directory;
    if let Err(error) = std::fs::read_dir(directory) {
        say(&format!("\"{}\" cannot be read ({})", directory.display(), net::system_message(&error)));
        return None;
    }
    let zone = Arc::new(Zone::new(directory, Levels::found_in(directory), 1, 0));
    let selection = about.selection().unwrap_or(default);
    let mut walk = Walk::new(&zone);
    let mut status = ExitCode::SUCCESS;
    while let Some(key) = walk.next_key() {
        let acted = match zone.read_head(&key) {
            Ok(Some(object)) if selection.has(&object.head) => act(&zone, &key, &object),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = acted {
            let path = directory.join(zone.levels().path(&key));
            say(&format!("\"{}\": {}", path.display(), net::system_message(&error)));
            status = ExitCode::FAILURE;
        }
    }
    Some(status)
}

fn line(object: &Object) -> String {
    let head = &object.head;
    let left = head.freshness.valid_until.saturating_sub(Time::now().seconds);
    format!("{} {:>10} {left:>10} {}\n", head.status.0, head.length, head.key.escape_ascii())
}

fn json_line(object: &Object) -> String {
    let head = &object.head;
    let value = serde_json::json!({
        "key": String::from_utf8_lossy(&head.key),
        "status": head.status.0,
        "bytes": head.length,
        "kept_at": head.date,
        "valid_until": head.freshness.valid_until,
        "is_variant": head.variant.is_some(),
    });
    format!("{value}\n")
}

fn stat(about: &About) -> ExitCode {
    let now = Time::now().seconds;
    let (mut count, mut bytes, mut stale) = (0_u64, 0_u64, 0_u64);
    let (mut oldest, mut newest) = (0, i64::MAX);
    let status = with_each(about, Selection::All, |_, _, object| {
        let age = now.saturating_sub(object.head.date);
        (count, bytes) = (count + 1, bytes.saturating_add(object.head.length));
        stale += u64::from(!object.head.freshness.is_fresh(now));
        (oldest, newest) = (age.max(oldest), age.min(newest));
        Ok(())
    });
    let Some(status) = status else { return ExitCode::FAILURE };
    let mut text = format!("responses  {count}\nno longer valid  {stale}\nbytes of content  {bytes}\n");
    if count > 0 {
        text.push_str(&format!("ages in seconds  {newest} to {oldest}\n"));
    }
    out(text.as_bytes());
    status
}

fn purge(about: &About, all: bool, soft: bool) -> ExitCode {
    if all == about.selection().is_some() {
        say("\"purge\" needs one of --all, --key, --prefix, --host and --tag");
        return ExitCode::FAILURE;
    }
    let mut count = 0_u64;
    let status = with_each(about, Selection::All, |zone, key, object| {
        match soft {
            true => zone.outdate(key, object, Time::now().seconds)?,
            false => zone.remove(key)?,
        }
        count += 1;
        Ok(())
    });
    let Some(status) = status else { return ExitCode::FAILURE };
    if count > 0 {
        wait_until_noticed();
    } else if let Some(key) = first_key(&about.directory) {
        say(&format!("no response is selected; the key of another one is \"{}\"", key.escape_ascii()));
    }
    out(format!("{count} {}\n", if count == 1 { "response" } else { "responses" }).as_bytes());
    status
}

/// Waits until a server that runs no longer sends a response whose file is gone.
#[expect(clippy::disallowed_methods, reason = "a command has no connections that wait for it")]
fn wait_until_noticed() {
    std::thread::sleep(REMOVAL_NOTICED_AFTER);
}

/// The key of any response of a directory, to show what keys look like.
fn first_key(directory: &Path) -> Option<Box<[u8]>> {
    let zone = Arc::new(Zone::new(directory, Levels::found_in(directory), 1, 0));
    let mut walk = Walk::new(&zone);
    while let Some(key) = walk.next_key() {
        if let Ok(Some(object)) = zone.read_head(&key) {
            return Some(object.head.key.clone());
        }
    }
    None
}
