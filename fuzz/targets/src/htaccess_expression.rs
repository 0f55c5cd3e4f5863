//! Expressions of `.htaccess` files: any text is one or an error that can be shown, and one holds for a request or does
//! not. The first line is the target of the request, the rest is the expression.

use std::path::Path;

use conf::{Word, apache};

use crate::htaccess_rewrite::{head, turn};
use crate::served;

/// Longer ones only take longer.
const BYTES_MAX: usize = 2048;

/// Where a text stands instead of the expression.
const DIRECTIVES: &[u8] = b"SetEnvIfExpr x flag=$1\nRequire expr x\nRewriteEngine on\nRewriteCond expr x\n\
    RewriteRule ^ /found-%1\n";

/// Holds the expression to it.
pub fn run(input: &[u8]) {
    let mut lines = input.splitn(2, |&byte| byte == b'\n');
    let (target, expression) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    if input.len() > BYTES_MAX || target.contains(&b' ') {
        return;
    }
    let mut loaded = apache::parse(Path::new("/nowhere/.htaccess"), DIRECTIVES.to_vec());
    for node in &mut loaded.nodes {
        let is_placeholder = |word: &&mut Word| *word.text == *b"x";
        if let Some(word) = node.args.iter_mut().find(is_placeholder) {
            word.text = expression.into();
        }
    }
    if let Some(mut exchange) = served::exchange_below(&loaded.nodes, head(target)) {
        turn(&mut exchange);
    }
}
