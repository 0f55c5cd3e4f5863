//! What the commands (`fulmar serve`, `lint` and others) share: how their arguments are read, and which configuration they name.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser};

use crate::command_line::Flags;
use crate::console::{err, out};
use crate::{cache, certificate_list, completions, explain, fmt, lint, migrate, proxy, serve, status};

/// A command of the program, `fulmar NAME`.
pub(crate) struct Subcommand {
    pub(crate) name: &'static str,
    /// Does it; the arguments begin with the program's own name.
    pub(crate) run: fn(&[OsString]) -> ExitCode,
    /// Its arguments, as completions list them.
    pub(crate) arguments: fn() -> clap::Command,
}

/// All of them, in the order of the help.
pub(crate) const ALL: &[Subcommand] = &[
    Subcommand { name: "serve", run: serve::run, arguments: serve::Arguments::command },
    Subcommand { name: "proxy", run: proxy::run, arguments: proxy::Arguments::command },
    Subcommand { name: "status", run: status::run, arguments: status::Arguments::command },
    Subcommand { name: "explain", run: explain::run, arguments: explain::Arguments::command },
    Subcommand { name: "lint", run: lint::run, arguments: lint::Arguments::command },
    Subcommand { name: "migrate", run: migrate::run, arguments: migrate::Arguments::command },
    Subcommand { name: "fmt", run: fmt::run, arguments: fmt::Arguments::command },
    Subcommand { name: "cache", run: cache::run, arguments: cache::Arguments::command },
    Subcommand {
        name: "certificates",
        run: certificate_list::run,
        arguments: certificate_list::Arguments::command,
    },
    Subcommand { name: "completions", run: completions::run, arguments: completions::Arguments::command },
];

/// Reads the arguments after the program's own name; the word of the command stands for that. The exit status is that
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
