//! Where the manual's facts come from: the modules' tables, and the prose of their source files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use conf::{Arity, Contexts, Shape};
use contract::{AnyDirective, Module, Rule};

use super::page::{Directive, Feature};
use super::prose;

/// The directives that the server itself reads, and every feature in the order of the list.
pub(super) fn features(root: &Path) -> Result<Vec<Feature>> {
    let modules: &[&Module] = modules::ALL;
    let mut features = vec![feature(root, "structure", "crates/site/src/structure.rs", site::STRUCTURE)?];
    features[0]
        .directives
        .push(include("include", "Inserts another file, or all files that match a pattern."));
    features[0].directives.push(include(
        "include_template",
        "As `include`, with the variables of the environment filled in (Fulmar only).",
    ));
    for module in modules {
        let source = source(root, module.name)?;
        let mut feature = feature(root, module.name, &source, module.directives)?;
        let name = |variable: &contract::Variable| {
            format!("{}{}", variable.name, if variable.family { "…" } else { "" })
        };
        feature.variables = module.variables.iter().map(name).collect();
        features.push(feature);
    }
    Ok(features)
}

/// The file with a feature's `MODULE`: `name.rs` or `name/mod.rs` in one of the rooms.
fn source(root: &Path, name: &str) -> Result<String> {
    let rooms = fs::read_dir(root.join("crates/modules/src")).context("reading crates/modules/src")?;
    for room in rooms.flatten() {
        let room = format!("crates/modules/src/{}", room.file_name().display());
        let files = [format!("{room}/{name}.rs"), format!("{room}/{name}/mod.rs")];
        if let Some(file) = files.into_iter().find(|file| root.join(file).exists()) {
            return Ok(file);
        }
    }
    bail!("crates/modules/src has no file for the feature {name}")
}

fn feature(root: &Path, name: &str, source: &str, directives: &[&dyn AnyDirective]) -> Result<Feature> {
    let text = fs::read_to_string(root.join(source)).with_context(|| format!("reading {source}"))?;
    Ok(Feature {
        name: name.into(),
        source: source.into(),
        prose: prose::of(&text),
        directives: directives.iter().map(|directive| row(*directive)).collect(),
        variables: Vec::new(),
    })
}

/// `include` and `include_template` belong to the language: they are gone before any directive is looked up.
fn include(name: &str, help: &str) -> Directive {
    Directive {
        name: name.into(),
        arguments: arguments(Shape { arity: Arity::Exactly(1), block: false }),
        contexts: Contexts::ANY,
        inheritance: inheritance(Rule::Never, Arity::Exactly(1), Contexts::ANY).into(),
        help: help.into(),
        ..Directive::default()
    }
}

fn row(directive: &dyn AnyDirective) -> Directive {
    let info = directive.info();
    Directive {
        name: info.name.into(),
        arguments: arguments(info.shape),
        contexts: info.contexts,
        classes: conf::apache::classes_of(info.name).filter(|_| info.contexts == Contexts::HTACCESS),
        default: info.default.into(),
        inheritance: inheritance(info.rule, info.shape.arity, info.contexts).into(),
        help: info.help.into(),
    }
}

fn arguments(shape: Shape) -> String {
    let words = match shape.arity {
        Arity::Flag => "`on` or `off`".into(),
        Arity::None => "none".into(),
        arity => arity.to_string(),
    };
    match (shape.block, shape.arity) {
        (false, _) => words,
        (true, Arity::None) => "a block".into(),
        (true, _) => format!("{words} and a block"),
    }
}

/// Levels that are never inside of a level of the same kind: a directive of one of them alone inherits nothing.
const OUTERMOST: [Contexts; 5] =
    [Contexts::MAIN, Contexts::EVENTS, Contexts::HTTP, Contexts::SERVER, Contexts::UPSTREAM];

fn inheritance(rule: Rule, arity: Arity, contexts: Contexts) -> &'static str {
    match (rule, arity) {
        _ if OUTERMOST.contains(&contexts) => "no",
        (Rule::Value, _) | (Rule::List, Arity::Flag) => "the value of the nearest level",
        (Rule::List, _) => "all values of the nearest level",
        (Rule::Gather, _) => "the values of all levels; where only one can count, the innermost",
        (Rule::Never, _) => "no",
        (Rule::Unnamed, _) => "into `if` and `limit_except` only",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_said_in_words() {
        assert_eq!(arguments(Shape { arity: Arity::Flag, block: false }), "`on` or `off`");
        assert_eq!(arguments(Shape { arity: Arity::Range(1, 2), block: false }), "1 to 2");
        assert_eq!(arguments(Shape { arity: Arity::OneOf(&[1, 3]), block: false }), "1 or 3");
        assert_eq!(arguments(Shape { arity: Arity::None, block: true }), "a block");
        assert_eq!(arguments(Shape { arity: Arity::AtLeast(1), block: true }), "1 or more and a block");
    }

    #[test]
    fn inheritance_is_said_where_there_is_an_outer_level() {
        let nearest = |arity, contexts| inheritance(Rule::List, arity, contexts);
        let server = Contexts::SERVER;
        assert_eq!(nearest(Arity::AtLeast(1), server), "no");
        assert_eq!(nearest(Arity::AtLeast(1), server.or(Contexts::HTTP)), "all values of the nearest level");
        assert_eq!(nearest(Arity::Flag, Contexts::HTACCESS), "the value of the nearest level");
        assert_eq!(nearest(Arity::AtLeast(1), Contexts::LOCATION), "all values of the nearest level");
    }

    #[test]
    fn the_manual_covers_what_the_binary_has() {
        let features = features(&crate::tree::root()).unwrap();
        assert!(features.iter().all(|feature| !feature.prose.is_empty()));
        assert_eq!(features.len(), modules::ALL.len() + 1);
        assert!(features[0].directives.iter().any(|directive| directive.name == "location"));
    }
}
