//! Variables: names bound to functions at load, so that nothing looks up a name while serving.

use crate::Exchange;
use conf::catalogue::{self, Absent};
use conf::{Contexts, Diagnostic, Span};
use std::collections::HashMap;
use std::sync::Arc;

/// Appends the value of a variable for an exchange; `false` where it has none. For a family of
/// variables (`$arg_`) the second argument is the rest of the name, else it is empty.
pub type Getter = fn(&Exchange, &str, &mut Vec<u8>) -> bool;

/// A variable, or a family of variables, that a module owns.
#[derive(Clone, Copy)]
pub struct Variable {
    /// The name without `$`; the common start of the names for a family.
    pub name: &'static str,
    /// Whether any name that starts so is meant.
    pub family: bool,
    /// Computes the value.
    pub get: Getter,
    /// Where it is known: in `http`, in `stream`, or in both.
    contexts: Contexts,
}

impl Variable {
    /// A variable of this name, of requests.
    pub const fn new(name: &'static str, get: Getter) -> Variable {
        Variable { name, family: false, get, contexts: Contexts::HTTP }
    }

    /// All variables whose names start so.
    pub const fn family(name: &'static str, get: Getter) -> Variable {
        Variable { name, family: true, get, contexts: Contexts::HTTP }
    }

    /// The same, for requests and for connections of `stream`.
    #[must_use]
    pub const fn everywhere(mut self) -> Variable {
        self.contexts = Contexts::HTTP.or(Contexts::STREAM);
        self
    }

    /// The same, for connections of `stream` only.
    #[must_use]
    pub const fn of_stream(mut self) -> Variable {
        self.contexts = Contexts::STREAM;
        self
    }

    /// Whether directives in this context may use it.
    pub fn is_known_in(&self, context: Contexts) -> bool {
        let is_stream = context.intersects(Contexts::ALL_STREAM.or(Contexts::STREAM_UPSTREAM));
        self.contexts.contains(if is_stream { Contexts::STREAM } else { Contexts::HTTP })
    }
}

/// A computation that a directive defines, such as a `map`.
pub trait Evaluate: Send + Sync {
    /// Appends the value; `false` where there is none.
    fn evaluate(&self, exchange: &Exchange, out: &mut Vec<u8>) -> bool;

    /// Whether the value is computed anew each time, instead of being kept for the exchange.
    fn is_volatile(&self) -> bool {
        false
    }
}

/// Where a variable's value comes from.
#[derive(Clone)]
pub enum Definition {
    /// A function, with the rest of the name for a family.
    Get(Getter, Box<str>),
    /// A slot of the exchange, filled by `set` or by a named capture.
    Slot,
    /// A computation, kept in the variable's slot.
    Evaluated(Arc<dyn Evaluate>),
}

/// The index of a variable in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VariableId(pub(crate) u32);

/// Decides whether an unknown name is an error, which may be in lists alone that only servers look up.
pub type Judge<'a> = &'a mut dyn FnMut(Diagnostic, bool) -> Result<(), Diagnostic>;

/// The variables while a configuration is read.
pub struct Variables {
    /// What they are for: requests, or connections of `stream`. The two know nothing of each other.
    context: Contexts,
    entries: Vec<Entry>,
    by_name: HashMap<Box<str>, VariableId>,
    /// Whether what is read now is in a list that only servers look up.
    pub(crate) are_for_servers: bool,
}

struct Entry {
    name: Box<str>,
    definition: Option<Definition>,
    first_use: Option<Span>,
    /// Whether all uses so far are in lists that only servers look up.
    for_servers: bool,
    /// Whether it is written as names of the environment are.
    is_upper: bool,
}

/// The variables of a loaded site.
pub struct VariableTable {
    names: Box<[Box<str>]>,
    definitions: Box<[Definition]>,
    known: Box<[Variable]>,
}

impl Variables {
    /// No variables of requests.
    pub fn new() -> Variables {
        Variables::within(Contexts::HTTP)
    }

    /// No variables in this context.
    pub(crate) fn within(context: Contexts) -> Variables {
        Variables { context, entries: Vec::new(), by_name: HashMap::new(), are_for_servers: false }
    }

    /// The index of a variable that is used here, defined or not. Names know no case.
    pub fn refer(&mut self, name: &str, span: Option<Span>) -> VariableId {
        let (for_servers, lower) = (self.are_for_servers, name.to_ascii_lowercase());
        let is_upper = name != lower && name == name.to_ascii_uppercase();
        if let Some(&id) = self.by_name.get(lower.as_str()) {
            let entry = &mut self.entries[id.0 as usize];
            if entry.first_use.is_none() || (entry.for_servers && !for_servers && span.is_some()) {
                (entry.first_use, entry.for_servers) = (span, for_servers);
            }
            return id;
        }
        let id = VariableId(u32::try_from(self.entries.len()).unwrap_or(u32::MAX));
        self.by_name.insert(lower.as_str().into(), id);
        self.entries.push(Entry {
            name: lower.into(),
            definition: None,
            first_use: span,
            for_servers,
            is_upper,
        });
        id
    }

    /// Defines a variable. A later definition of the same name takes the place of the earlier one.
    pub fn define(&mut self, name: &str, definition: Definition) -> VariableId {
        let id = self.refer(name, None);
        self.entries[id.0 as usize].definition = Some(definition);
        id
    }

    /// Defines a variable unless it is defined already.
    pub fn define_if_new(&mut self, name: &str, definition: Definition) -> VariableId {
        let id = self.refer(name, None);
        let entry = &mut self.entries[id.0 as usize];
        entry.definition.get_or_insert(definition);
        id
    }

    /// The refusals of variables that nothing defines and whose feature is not built, in the order of their first uses.
    pub fn refusals(&self, known: &[Variable]) -> Vec<Diagnostic> {
        if self.context != Contexts::HTTP {
            return Vec::new();
        }
        let known = self.known(known);
        let refusal = |entry: &Entry| {
            let is_free = entry.definition.is_none() && find_known(&known, &entry.name).is_none();
            let feature = is_free.then(|| catalogue::variable(&entry.name)).flatten()?;
            Some(placed(feature.diagnostic(&entry.name)?, entry))
        };
        self.entries.iter().filter_map(refusal).collect()
    }

    /// Binds what is not defined to the variables of the modules. An unknown name that `judge` lets pass has no value.
    pub fn finish(self, known: &[Variable], judge: Judge<'_>) -> Result<VariableTable, Diagnostic> {
        let (context, known) = (self.context, self.known(known));
        let bind = |entry: Entry| match entry.definition {
            Some(definition) => Ok(definition),
            None => find((&known, context), &entry.name)
                .or_else(|error| judge(placed(error, &entry), entry.for_servers).map(|()| Definition::Slot)),
        };
        let names = self.entries.iter().map(|entry| entry.name.clone()).collect();
        let definitions = self.entries.into_iter().map(bind).collect::<Result<_, _>>()?;
        Ok(VariableTable { names, definitions, known: known.into() })
    }

    /// Those of the modules that are known in this context.
    fn known(&self, all: &[Variable]) -> Vec<Variable> {
        all.iter().filter(|variable| variable.is_known_in(self.context)).copied().collect()
    }
}

impl Default for Variables {
    fn default() -> Variables {
        Variables::new()
    }
}

impl VariableTable {
    /// The definition of a variable.
    pub fn definition(&self, id: VariableId) -> &Definition {
        &self.definitions[id.0 as usize]
    }

    /// The name of a variable, in lower case.
    pub fn name(&self, id: VariableId) -> &str {
        &self.names[id.0 as usize]
    }

    /// The variable of this name, which is in lower case.
    pub fn find(&self, name: &str) -> Option<VariableId> {
        (0..).map(VariableId).zip(&self.names).find(|(_, known)| &***known == name).map(|(id, _)| id)
    }

    /// The variable of a module with this name, which is in lower case, and the rest of the name for a family.
    pub fn built_in<'n>(&self, name: &'n str) -> Option<(Getter, &'n str)> {
        find_known(&self.known, name)
    }

    /// How many slots an exchange needs.
    pub fn len(&self) -> usize {
        self.definitions.len()
    }

    /// Whether no variable is used at all.
    pub fn is_empty(&self) -> bool {
        self.definitions.is_empty()
    }
}

fn placed(mut error: Diagnostic, entry: &Entry) -> Diagnostic {
    if entry.is_upper && error.hint.is_none() {
        let name = entry.name.to_ascii_uppercase();
        error = error
            .hint(format!("the environment has no \"{name}\", or include_template does not read this file"));
    }
    match entry.first_use {
        Some(span) => error.at(span),
        None => error,
    }
}

/// The definition of a variable that no directive defines. What belongs to a feature that is not built
/// stands for what it would without that feature.
fn find((known, context): (&[Variable], Contexts), name: &str) -> Result<Definition, Diagnostic> {
    let known = |name: &str| find_known(known, name).map(|(get, rest)| Definition::Get(get, rest.into()));
    if let Some(definition) = known(name) {
        return Ok(definition);
    }
    let unknown = || Diagnostic::emerg(format!("unknown \"{name}\" variable"));
    if context != Contexts::HTTP {
        return Err(unknown());
    }
    let feature = catalogue::variable(name).ok_or_else(unknown)?;
    match feature.absent {
        Absent::Empty => Ok(Definition::Get(|_, _, _| false, Box::default())),
        Absent::Same(other) => known(other).ok_or_else(unknown),
        Absent::Pending { .. } => Err(feature.diagnostic(name).unwrap_or_else(unknown)),
    }
}

fn find_known<'n>(known: &[Variable], name: &'n str) -> Option<(Getter, &'n str)> {
    let exact = known.iter().find(|variable| !variable.family && variable.name == name);
    let family = || {
        let in_family = |variable: &&Variable| variable.family && name.starts_with(variable.name);
        known.iter().filter(in_family).max_by_key(|variable| variable.name.len())
    };
    let variable = exact.or_else(family)?;
    Some((variable.get, if variable.family { &name[variable.name.len()..] } else { "" }))
}

#[cfg(test)]
mod tests {
    use super::{Definition, Variable, Variables};

    #[test]
    fn binds_families_and_reports_strangers() {
        let known = [Variable::family("arg_", |_, _, _| true), Variable::new("uri", |_, _, _| true)];
        let mut variables = Variables::new();
        let uri = variables.refer("URI", None);
        let argument = variables.refer("arg_a", None);
        assert_eq!(variables.refer("uri", None), uri);
        let table = variables.finish(&known, &mut |unknown, _| Err(unknown)).unwrap();
        assert!(matches!(table.definition(argument), Definition::Get(_, rest) if &**rest == "a"));

        let mut variables = Variables::new();
        variables.refer("nobody", None);
        let error = variables.finish(&known, &mut |unknown, _| Err(unknown)).map(|_| ()).unwrap_err();
        assert_eq!(error.message, "unknown \"nobody\" variable");
    }
}
