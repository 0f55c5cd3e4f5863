//! Crates that tend to grow have a bound.

use super::Finding;
use super::limits::product_lines;
use crate::tree::Tree;

/// How many lines of product code a crate may have.
struct Bound {
    /// Its name and that of its folder below `crates`.
    name: &'static str,
    lines_max: usize,
    /// What the bound is to become. Lower `lines_max` with each step on the way.
    aim: usize,
}

const BOUNDS: &[Bound] = &[Bound { name: "contract", lines_max: 2_976, aim: 2_976 }];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    BOUNDS.iter().filter_map(|bound| bound.check(tree)).collect()
}

/// A line for each bound: how large the crate is.
pub(super) fn report(tree: &Tree) -> Vec<String> {
    let line = |bound: &Bound| {
        let lines = bound.lines(tree);
        format!(
            "crates/{} has {lines} lines of product code of {}; the aim is {}",
            bound.name, bound.lines_max, bound.aim
        )
    };
    BOUNDS.iter().map(line).collect()
}

impl Bound {
    fn lines(&self, tree: &Tree) -> usize {
        let files = tree.product().filter(|file| file.crate_name() == Some(self.name));
        files.map(product_lines).sum()
    }

    fn check(&self, tree: &Tree) -> Option<Finding> {
        let lines = self.lines(tree);
        let message = format!("{lines} lines of product code, more than {}", self.lines_max);
        let instead = "move what only one crate uses into that crate";
        (lines > self.lines_max)
            .then(|| Finding::new(&format!("crates/{}/Cargo.toml", self.name), 1, message, instead))
    }
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn a_crate_has_a_bound_on_product_code() {
        let line = "const A: u8 = 1;\n";
        let check_lines = |count: usize| {
            let code = format!("mod a;\n#[cfg(test)]\nmod t {{\n{line}{line}}}\n");
            let more = line.repeat(count);
            let tree =
                Tree::of(&[("crates/contract/src/lib.rs", &code), ("crates/contract/src/a.rs", &more)]);
            places(&check(&tree))
        };
        let room = BOUNDS[0].lines_max - 1;
        assert_eq!(check_lines(room), [""; 0]);
        assert_eq!(check_lines(room + 1), ["crates/contract/Cargo.toml:1"]);
    }
}
