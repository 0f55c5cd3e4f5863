//! The project's own tools: `cargo xtask tidy` checks the habits that no compiler checks,
//! `cargo xtask docs` writes the directive manual from the features' doc comments, `cargo xtask book` makes the manual a
//! site, `cargo xtask corpora` keeps the fuzzer's inputs, `cargo xtask nginx-tests` runs nginx's own tests, and `cargo xtask test` all of the workspace's.

mod arguments;
mod book;
mod corpora;
mod docs;
mod metadata;
mod nginx_tests;
mod syntax;
mod testing;
mod tidy;
mod tree;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test            run all tests; one that fails is run once more, alone
  tidy            check levels, limits, words, dead files and dependencies
  docs            write docs/directives/ from the features
  docs --check    fail when a page of docs/directives/ is stale

  book            build the manual as a site with mdBook, and check its links

  corpora pack    keep the fuzzer's inputs in fuzz/corpora/
  corpora unpack  lay them out for the fuzzer in fuzz/corpus/

  nginx-tests FOLDER [--binary FILE] [--jobs N] [--all] [--update] [NAME...]
                  run files of a checkout of nginx's test suite: those of tests/nginx-tests.txt,
                  the named ones, or all; with --update add what passes to the list
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["test"] => testing::run(),
        ["tidy"] => tidy::run(),
        ["docs"] => docs::run(false),
        ["docs", "--check"] => docs::run(true),
        ["book"] => book::run(),
        ["corpora", "pack"] => corpora::pack(),
        ["corpora", "unpack"] => corpora::unpack(),
        ["nginx-tests", rest @ ..] => nginx_tests::run(rest),
        [] | ["help" | "-h" | "--help"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
