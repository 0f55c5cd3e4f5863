//! The program `fulmar-lab`.

use std::process::ExitCode;

fn main() -> ExitCode {
    lab::commands::main()
}
