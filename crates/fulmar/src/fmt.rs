//! `fulmar fmt`: configuration files in one layout.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use crate::console::{PROGRAM, err, out, say};
use crate::subcommand;

/// Formats files in nginx's language: one directive a line, four spaces for each level. Comments and words stay as they
/// are written. Without --write the result goes to the standard output.
///
/// The exit status is 0; 1 if --check found a file that would change; 2 if a file cannot be read, parsed or written.
#[derive(Debug, Parser)]
#[command(name = "fulmar fmt", bin_name = "fulmar fmt", version = server::VERSION)]
pub(crate) struct Arguments {
    /// The files; - is the standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Rewrite the files that change, and print their names
    #[arg(long, short)]
    write: bool,
    /// Print the names of the files that would change
    #[arg(long, conflicts_with = "write")]
    check: bool,
}

/// The exit status if a file cannot be read, parsed or written.
const FAILED: u8 = 2;

/// The result of one file.
enum Outcome {
    Formatted,
    /// `--check`: the file has another layout.
    Differs,
    Failed,
}

/// Formats files; `arguments` begins with the program's own name, and `fmt` follows.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let arguments: Arguments = match subcommand::arguments(arguments, ExitCode::from(FAILED)) {
        Ok(arguments) => arguments,
        Err(status) => return status,
    };
    let (mut differs, mut failed) = (false, false);
    for file in &arguments.files {
        match one(file, &arguments) {
            Outcome::Formatted => {}
            Outcome::Differs => differs = true,
            Outcome::Failed => failed = true,
        }
    }
    match (failed, differs) {
        (true, _) => ExitCode::from(FAILED),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    }
}

fn one(file: &Path, arguments: &Arguments) -> Outcome {
    let from_input = file.as_os_str() == "-";
    let name = if from_input { Path::new("standard input") } else { file };
    let text = match if from_input { read_input() } else { fs::read(file) } {
        Ok(text) => text,
        Err(error) => return failed("read", name, &error),
    };
    let formatted = match conf::layout(name, text.clone()) {
        Ok(formatted) => formatted,
        Err(rejected) => {
            let apache = conf::in_place_of_nginx(&rejected.error, &rejected.sources);
            err(&conf::render(apache.as_ref().unwrap_or(&rejected.error), &rejected.sources, PROGRAM));
            return Outcome::Failed;
        }
    };
    if !arguments.check && (!arguments.write || from_input) {
        out(&formatted);
        return Outcome::Formatted;
    }
    if formatted == text {
        return Outcome::Formatted;
    }
    if arguments.write
        && let Err(error) = replace(file, &formatted)
    {
        return failed("write", file, &error);
    }
    out(format!("{}\n", name.display()).as_bytes());
    if arguments.check { Outcome::Differs } else { Outcome::Formatted }
}

fn failed(call: &str, file: &Path, error: &io::Error) -> Outcome {
    say(&format!("cannot {call} \"{}\": {error}", file.display()));
    Outcome::Failed
}

fn read_input() -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    io::stdin().lock().read_to_end(&mut text)?;
    Ok(text)
}

/// Replaces a file by a new one with the same permissions. A failure in between leaves the file as it was.
fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    // A link stays a link: the file that it leads to is replaced.
    let file = file.canonicalize()?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(text)?;
    let before = fs::metadata(&file)?;
    new.as_file().set_permissions(before.permissions())?;
    let owner = std::os::unix::fs::MetadataExt::uid(&before);
    let group = std::os::unix::fs::MetadataExt::gid(&before);
    std::os::unix::fs::fchown(new.as_file(), Some(owner), Some(group))?;
    new.as_file().sync_all()?;
    new.persist(&file).map(drop).map_err(|error| error.error)
}
