//! The program `fulmar-lab`.

use std::process::ExitCode;

fn main() -> ExitCode {
    lab::show::commands::main()
}
