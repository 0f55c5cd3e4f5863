//! `unsafe` only where the system is called: crates/net, and a counting allocator of the tests.
//! There each block says why it is sound.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Finding;
use crate::syntax::identifiers;
use crate::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources()
        .flat_map(|file| if is_allowed(&file.path) { unexplained(file) } else { any(file) })
        .collect()
}

fn is_allowed(path: &str) -> bool {
    path.starts_with("crates/net/") || (path.starts_with("tests/") && path.contains("alloc"))
}

fn any(file: &File) -> Vec<Finding> {
    let mut lines = Vec::new();
    if let Ok(tokens) = file.text.parse() {
        identifiers(tokens, &mut |ident| {
            if ident == "unsafe" {
                lines.push(ident.span().start().line);
            }
        });
    }
    let instead = "use a safe function of crates/net, or write one there";
    lines
        .into_iter()
        .map(|line| Finding::new(&file.path, line, "`unsafe` outside crates/net", instead))
        .collect()
}

fn unexplained(file: &File) -> Vec<Finding> {
    let mut blocks = Blocks { statement: 0, found: Vec::new() };
    if let Some(ast) = file.ast() {
        blocks.visit_file(ast);
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let unexplained = blocks
        .found
        .into_iter()
        .filter(|(line, statement)| !explains(&lines, *line) && !explains(&lines, *statement));
    let finding = |(line, _)| {
        Finding::new(
            &file.path,
            line,
            "`unsafe` without a reason",
            "use a `// SAFETY:` comment directly above it",
        )
    };
    unexplained.map(finding).collect()
}

/// Whether the comment that ends directly above `line` (from 1), or on it, says SAFETY.
fn explains(lines: &[&str], line: usize) -> bool {
    let above = lines[..line.saturating_sub(1).min(lines.len())].iter().rev();
    let comment = above
        .map(|text| text.trim_start())
        .take_while(|text| text.starts_with("//") || text.starts_with("#["));
    let here = lines.get(line.saturating_sub(1)).copied();
    comment.chain(here).any(|text| text.contains("// SAFETY:"))
}

/// Lines of `unsafe` blocks and impls, each with that of the statement or item around it.
struct Blocks {
    statement: usize,
    found: Vec<(usize, usize)>,
}

impl<'ast> Visit<'ast> for Blocks {
    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        let outside = std::mem::replace(&mut self.statement, statement.span().start().line);
        visit::visit_stmt(self, statement);
        self.statement = outside;
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.found.push((block.unsafe_token.span.start().line, self.statement));
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let Some(token) = item.unsafety {
            let line = token.span.start().line;
            self.found.push((line, line));
        }
        visit::visit_item_impl(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn is_found_outside_net_also_in_macro_calls() {
        let found = check(&Tree::of(&[
            ("crates/h1/src/lib.rs", "fn a() {\n unsafe { b() } }"),
            ("tests/tests/all.rs", "t!(unsafe { b() });"),
            ("crates/h1/src/alloc.rs", "unsafe fn a() {}"),
        ]));
        assert_eq!(
            places(&found),
            ["crates/h1/src/lib.rs:2", "tests/tests/all.rs:1", "crates/h1/src/alloc.rs:1"]
        );
    }

    #[test]
    fn is_explained_inside_net() {
        let code = "fn a() {\n    // SAFETY: b has\n    // no conditions.\n    let x =\n        unsafe { b() };\n    unsafe { c() }\n}";
        let found = check(&Tree::of(&[("crates/net/src/lib.rs", code)]));
        assert_eq!(places(&found), ["crates/net/src/lib.rs:6"]);
    }

    #[test]
    fn words_and_comments_are_not_code() {
        let tree = Tree::of(&[
            ("crates/h1/src/lib.rs", "// unsafe\nfn unsafe_name() { \"unsafe\"; }"),
            ("tests/src/counting_allocator.rs", "// SAFETY: as the system's.\nunsafe impl A for B {}"),
        ]);
        assert_eq!(check(&tree), []);
    }
}
