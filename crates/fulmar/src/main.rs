//! The program `fulmar`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    fulmar::run(std::env::args_os().collect())
}
