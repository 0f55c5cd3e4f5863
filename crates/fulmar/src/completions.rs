//! `fulmar completions`: scripts with which shells complete the flags and commands.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, Parser, ValueEnum, ValueHint};
use clap_complete::generate;
use clap_complete::shells::{Bash, Fish, Zsh};

use crate::command_line::SIGNALS;
use crate::console::out;
use crate::subcommand;

/// Prints a script with which a shell completes the flags and commands of fulmar
#[derive(Debug, Parser)]
#[command(name = "fulmar completions", bin_name = "fulmar completions", version = server::VERSION)]
pub(crate) struct Arguments {
    /// The shell that reads the script
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    match subcommand::arguments(arguments, ExitCode::FAILURE) {
        Ok(Arguments { shell }) => {
            out(&script(shell));
            ExitCode::SUCCESS
        }
        Err(status) => status,
    }
}

fn script(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    let mut program = program();
    match shell {
        Shell::Bash => generate(Bash, &mut program, "fulmar", &mut text),
        Shell::Zsh => generate(Zsh, &mut program, "fulmar", &mut text),
        Shell::Fish => generate(Fish, &mut program, "fulmar", &mut text),
    }
    text
}

/// The whole command line. Only completions read this: [`Flags`](crate::command_line::Flags) reads the flags of the
/// server as nginx does, which clap cannot.
fn program() -> Command {
    let flag =
        |letter: &'static str, help: &'static str| Arg::new(letter).short(letter.chars().next()).help(help);
    let switch = |letter: &'static str, help: &'static str| flag(letter, help).action(ArgAction::SetTrue);
    let value = |letter: &'static str, name: &'static str, help: &'static str| {
        let hint = match name {
            "FILE" => ValueHint::FilePath,
            "DIRECTORY" => ValueHint::DirPath,
            _ => ValueHint::Other,
        };
        flag(letter, help).value_name(name).value_hint(hint)
    };
    Command::new("fulmar")
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .args([
            switch("h", "shows the help"),
            switch("v", "shows the version"),
            switch("V", "shows the version and what is built in"),
            switch("t", "tests the configuration"),
            switch("T", "tests the configuration and prints it"),
            switch("q", "shows only warnings and errors of a test"),
            value("s", "SIGNAL", "sends a command to the running server")
                .value_parser(PossibleValuesParser::new(SIGNALS)),
            value("p", "DIRECTORY", "where relative paths start"),
            value("e", "FILE", "the error log until the configuration names one"),
            value("c", "FILE", "the configuration"),
            value("g", "DIRECTIVES", "directives of the main level, read before the file"),
        ])
        .subcommands(subcommand::ALL.iter().map(|command| (command.arguments)().name(command.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::Flags;

    #[test]
    fn the_flags_are_those_that_the_program_reads() {
        for argument in program().get_arguments() {
            let letter = argument.get_short().unwrap();
            let mut line = vec![OsString::from(format!("-{letter}"))];
            if argument.get_action().takes_values() {
                line.push(if letter == 's' { "quit" } else { "value" }.into());
            }
            assert_ne!(Flags::parse(&line).unwrap(), Flags::default(), "-{letter}");
        }
    }
}
