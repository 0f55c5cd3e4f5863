//! What the commands (`fulmar serve`, `lint` and others) share: how their arguments are read, and which configuration they name.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser};

use crate::command_line::Flags;
use crate::console::{err, out};

/// Reads the arguments behind the program's own name; the word of the command stands for that. The exit status is that
/// of a help that was asked for, or `misused`.
pub(crate) fn arguments<T: Parser>(arguments: &[OsString], misused: ExitCode) -> Result<T, ExitCode> {
    T::try_parse_from(arguments.get(1..).unwrap_or_default()).map_err(|error| {
        let text = error.render().to_string();
        if error.use_stderr() {
            err(&text);
            misused
        } else {
            out(text.as_bytes());
            ExitCode::SUCCESS
        }
    })
}

/// The configuration that a command is about.
#[derive(Clone, Debug, Args)]
pub(crate) struct Named {
    /// The configuration [default: /etc/fulmar/fulmar.conf]
    #[arg(short, value_name = "FILE")]
    configuration: Option<PathBuf>,
    /// Where relative paths start [default: the directory of the configuration]
    #[arg(short, value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
    /// Directives of the main level, read before the file
    #[arg(short, value_name = "DIRECTIVES")]
    globals: Option<String>,
}

impl Named {
    /// The same as flags of the server.
    pub(crate) fn flags(self) -> Flags {
        let Named { configuration, prefix, globals } = self;
        Flags { prefix, conf: configuration, globals, ..Flags::default() }
    }
}
