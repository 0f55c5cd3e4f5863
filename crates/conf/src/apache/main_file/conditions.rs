//! Sections that count or not when a text is read, such as `<IfModule>`.

use super::{Reader, includes};
use crate::apache::{VERSION_TEXT, is_section, is_version, module_of};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Node, Word};
use crate::value::{Language, Pattern};

/// The modules that every build of Apache has. Names are written without `mod_`.
const STATIC: [&str; 8] = ["core", "http_core", "so", "unixd", "log_config", "logio", "version", "watchdog"];

/// What a condition asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Defined,
    Module,
    Directive,
    Section,
    File,
    Version,
}

impl Condition {
    /// The condition of a section of this name, in lower case.
    pub(super) fn of(name: &[u8]) -> Option<Condition> {
        Some(match name {
            b"ifdefine" => Condition::Defined,
            b"ifmodule" => Condition::Module,
            b"ifdirective" => Condition::Directive,
            b"ifsection" => Condition::Section,
            b"iffile" => Condition::File,
            b"ifversion" => Condition::Version,
            _ => return None,
        })
    }
}

impl Reader<'_> {
    /// Whether a section counts. Its node has no block yet.
    pub(super) fn holds(&self, condition: Condition, node: &Node) -> Result<bool, Diagnostic> {
        let name = &node.name;
        let missing =
            || Diagnostic::emerg(format!("<{name}> directive requires additional arguments")).at(node.span);
        if condition == Condition::Version {
            let wrong = |what: &str, word: &Word| {
                Diagnostic::emerg(format!("<{name}> has {what} \"{word}\"")).at(node.span).under(word.span)
            };
            return is_version(&node.args, |text| matches_version(text, node.span), wrong);
        }
        let word = node.args.first().filter(|word| !word.text.is_empty()).ok_or_else(missing)?;
        // As in Apache, quotes around a path make the mark a part of it.
        let can_negate = !(condition == Condition::File && word.quoted);
        let (negated, text) = match word.text.strip_prefix(b"!") {
            Some(text) if can_negate => (true, text),
            _ => (false, &*word.text),
        };
        if text.is_empty() {
            return Err(missing());
        }
        if self.is_left_out(condition, node) {
            return Ok(false);
        }
        // As in Apache, further words do not count.
        let shown = String::from_utf8_lossy(text);
        let is_there = match condition {
            Condition::Defined => self.variables.is_defined(text),
            Condition::Module => module_name(&shown).is_some_and(|name| self.has_module(&name)),
            Condition::Directive => !is_section(&shown) && self.has_directive(&shown),
            Condition::Section => {
                let shown = shown.trim_start_matches('<').trim_end_matches('>');
                is_section(shown) && self.has_directive(shown)
            }
            Condition::File => includes::is_there(self.inputs, &includes::absolute(&self.root, text)),
            Condition::Version => false,
        };
        Ok(is_there != negated)
    }

    /// Whether a section is about a module that the configuration loads and that is not built here. Such a section never
    /// counts, for Apache would skip it if it asks whether the module is missing. The same holds for a module that is built
    /// here while nothing is loaded: whether the program of Apache contains it is not known.
    pub(super) fn is_left_out(&self, condition: Condition, node: &Node) -> bool {
        let text = node.args.first().map(Word::to_string).unwrap_or_default();
        let text = text.trim_start_matches(['!', '<']).trim_end_matches('>');
        let module = match condition {
            Condition::Module => module_name(text),
            Condition::Directive | Condition::Section => {
                module_of(text).map(|module| module.trim_start_matches("mod_").to_owned())
            }
            _ => None,
        };
        module.is_some_and(|name| match (self.start.is_built)(&name) {
            true => self.modules.is_empty() && !self.is_loaded(&name),
            false => self.is_loaded(&name),
        })
    }

    fn is_loaded(&self, name: &str) -> bool {
        STATIC.contains(&name) || self.modules.iter().any(|module| *module.name == *name)
    }

    /// Whether a module was loaded, and is built here.
    fn has_module(&self, name: &str) -> bool {
        self.is_loaded(name) && (self.start.is_built)(name)
    }

    fn has_directive(&self, name: &str) -> bool {
        module_of(name).is_some_and(|module| self.has_module(module.strip_prefix("mod_").unwrap_or(module)))
    }
}

/// The module, without `mod_`, that `mod_rewrite.c`, `rewrite_module` or `core.c` name.
pub(super) fn module_name(text: &str) -> Option<String> {
    let name = text.strip_suffix("_module").or_else(|| text.strip_suffix(".c"))?;
    let name = name.strip_prefix("mod_").unwrap_or(name);
    Some(match name {
        "http" => "http_core".to_owned(),
        "event" | "worker" | "prefork" => format!("mpm_{name}"),
        name => name.to_owned(),
    })
}

fn matches_version(text: &[u8], span: Span) -> Result<bool, Diagnostic> {
    let pattern = Pattern::new(text, false, Language::Apache);
    let pattern = pattern.map_err(|error| Diagnostic::emerg(error.to_string()).at(span))?;
    Ok(pattern.is_match(VERSION_TEXT.as_bytes()))
}
