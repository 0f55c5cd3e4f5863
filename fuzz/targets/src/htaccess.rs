//! `.htaccess` files: any bytes are one or an error that can be shown, and so are the words of each directive.

use std::path::Path;

use conf::{Contexts, Diagnostic, Loaded, Node, apache, render};
use contract::{Args, Loading};

/// Longer ones only take longer.
const BYTES_MAX: usize = 4096;

/// Holds the parsers to it.
pub fn run(input: &[u8]) {
    if input.len() > BYTES_MAX {
        return;
    }
    let loaded = apache::parse(Path::new("/site/.htaccess"), input.to_vec());
    if let Some(error) = &loaded.error {
        show(error, &loaded);
    }
    let mut loading = Loading::new(Path::new("/site"), Path::new("/site"));
    loading.htaccess.path = Some(Path::new("/site/.htaccess").into());
    for node in &loaded.nodes {
        read(node, &loaded, &mut loading);
    }
}

fn read(node: &Node, loaded: &Loaded, loading: &mut Loading) {
    let name = node.name.to_string();
    let all = modules::ALL.iter().flat_map(|module| module.directives);
    for directive in all.filter(|directive| directive.info().contexts.intersects(Contexts::HTACCESS)) {
        if directive.info().name.eq_ignore_ascii_case(&name) {
            let args = Args { node, context: Contexts::HTACCESS, opened: None };
            if let Err(error) = directive.parse(&args, loading) {
                show(&error, loaded);
            }
        }
    }
    for child in node.children() {
        read(child, loaded, loading);
    }
}

fn show(told: &Diagnostic, loaded: &Loaded) {
    assert!(render(told, &loaded.sources, "fulmar").ends_with('\n'));
}
