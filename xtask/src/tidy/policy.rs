//! `Policy` has what the server itself acts on. What only features read, they keep themselves: in their handlers and
//! filters, or by `ScopeBuilder::keep`.

use syn::Item;
use syn::spanned::Spanned;

use super::Finding;
use crate::tree::Tree;

const POLICY: &str = "crates/contract/src/policy.rs";

/// The crates that act on a policy.
const READERS: &[&str] =
    &["crates/contract/", "crates/engine/", "crates/server/", "crates/site/", "crates/upstream/"];

/// Fields that several features share, and no crate below them reads. None may be added.
const SHARED: &[&str] = &["etag"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(items) = tree.file(POLICY).and_then(|file| file.ast()).map(|ast| &ast.items) else {
        return Vec::new();
    };
    let structure = items.iter().find_map(|item| match item {
        Item::Struct(item) if item.ident == "Policy" => Some(item),
        _ => None,
    });
    let fields = structure.into_iter().flat_map(|structure| &structure.fields);
    let unread = fields.filter_map(|field| {
        let name = field.ident.as_ref()?.to_string();
        (!SHARED.contains(&&*name) && !is_read(tree, &name)).then_some((name, field.span().start().line))
    });
    let found = unread.map(|(name, line)| {
        let message = format!("only features read `Policy::{name}`");
        Finding::new(
            POLICY,
            line,
            message,
            "keep the value in the feature's handler or filter, or by `ScopeBuilder::keep`",
        )
    });
    found.collect()
}

fn is_read(tree: &Tree, field: &str) -> bool {
    let places = [format!("policy.{field}"), format!("policy().{field}")];
    let is_used = |line: &str| {
        let after = |place: &String| Some(&line[line.find(place.as_str())? + place.len()..]);
        let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
        places.iter().any(|place| after(place).is_some_and(ends))
    };
    let mut files = tree.product().filter(|file| READERS.iter().any(|reader| file.path.starts_with(reader)));
    files.any(|file| file.text.lines().any(is_used))
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn a_field_that_only_features_read_is_found() {
        let tree = Tree::of(&[
            (
                POLICY,
                "pub struct Policy {\n    pub root: Root,\n    pub log: bool,\n    pub log_not_found: bool,\n}\n",
            ),
            ("crates/engine/src/lib.rs", "fn a() { scope.policy.root.map(policy.log_not_found) }"),
            ("crates/modules/src/room/a.rs", "fn a() { scope.policy.log }"),
        ]);
        assert_eq!(places(&check(&tree)), [format!("{POLICY}:3")]);
    }
}
