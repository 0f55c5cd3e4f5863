//! A configuration as the server reads it: any content of `http {}` is a site or an error that can be shown. This is
//! the way to the parser of every directive's words: `listen`, `log_format`, `map`, `geo`, `rewrite` and all others,
//! but for those that look up the names of other servers.

use std::path::Path;

use conf::{Memory, render};
use contract::{Loading, Module};
use site::{Options, Site, load};

/// Features whose directives ask the system's resolver.
const ASK_THE_RESOLVER: [&str; 3] = ["proxy", "fastcgi", "upstream"];

/// Longer ones only take longer.
const BYTES_MAX: usize = 4096;

/// Holds the loader to it.
pub fn run(input: &[u8]) {
    if input.len() > BYTES_MAX || input.windows(7).any(|word| word == b"include") {
        return;
    }
    // An address is a number here.
    if input.split(|byte| byte.is_ascii_whitespace()).collect::<Vec<_>>().windows(2).any(asks_for_a_name) {
        return;
    }
    let text = [b"http { server { listen 80; ", input, b" } }"].concat();
    let inputs = Memory::default().with("/x.conf", String::from_utf8_lossy(&text).into_owned());
    let options = Options {
        path: "/x.conf".into(),
        prefix: "/nowhere".into(),
        globals: None,
        apache: site::ApacheOptions::default(),
    };
    let modules: Vec<&'static Module> =
        modules::ALL.iter().copied().filter(|module| !ASK_THE_RESOLVER.contains(&module.name)).collect();
    let loading = Loading::new(Path::new("/nowhere"), Path::new("/nowhere"));
    let mut loaded = load(&inputs, &options, &modules, loading);
    let error = match &loaded.error {
        Some(_) => loaded.error.take(),
        None => Site::compile(&mut loaded, &modules).err(),
    };
    for told in error.iter().chain(&loaded.loading.notes) {
        assert!(render(told, &loaded.sources, "fulmar").ends_with('\n'));
    }
}

fn asks_for_a_name(words: &[&[u8]]) -> bool {
    let is_listen = words[0].ends_with(b"listen") || words[0].contains(&b'{') || words[0].contains(&b'"');
    is_listen && words[1].iter().any(|byte| byte.is_ascii_alphabetic())
}
