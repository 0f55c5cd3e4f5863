//! The command line of `fulmar-lab`.

fn main() {}
