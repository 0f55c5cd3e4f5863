//! A configuration as one level sees it: the only implementation of inheritance.

use super::config::Entry;
use super::{Config, Info, Key, Origin, Rule, SectionId};
use crate::{Contexts, Span};

/// The place of a value, which decides between values that exclude each other: an inner level counts more than an outer
/// one, and a later directive more than an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// How many levels are around its own.
    depth: usize,
    /// The number among the directives of its level.
    number: usize,
}

/// A value and where it was written.
#[derive(Debug)]
pub struct Written<'a, T> {
    /// The value.
    pub value: &'a T,
    /// The place of the directive.
    pub span: Span,
}

/// The configuration as one level sees it, inheritance applied.
#[derive(Clone, Copy)]
pub struct View<'a> {
    config: &'a Config,
    section: SectionId,
}

impl<'a> View<'a> {
    pub(super) fn new(config: &'a Config, section: SectionId) -> View<'a> {
        View { config, section }
    }

    /// The level's identity.
    pub fn section(&self) -> SectionId {
        self.section
    }

    /// The level's context.
    pub fn context(&self) -> Contexts {
        self.config.context(self.section)
    }

    /// The origin: where files come from, and what the previous configuration left.
    pub fn origin(&self) -> &'a Origin {
        &self.config.origin
    }

    /// The same configuration, seen from another level.
    pub fn at(&self, section: SectionId) -> View<'a> {
        self.config.view(section)
    }

    /// The value of a directive, as inherited by its rule.
    pub fn get<K: Key>(&self, directive: &K) -> Option<&'a K::Value> {
        self.written(directive).map(|written| written.value)
    }

    /// The value of a directive and where it was written.
    pub fn written<K: Key>(&self, directive: &K) -> Option<Written<'a, K::Value>> {
        self.effective(directive.info()).iter().find_map(cast)
    }

    /// The place of the value of a directive.
    pub fn place<K: Key>(&self, directive: &K) -> Option<Place> {
        let section = self.found(directive.info());
        let number = self.config.number(section, directive.info())?;
        Some(Place { depth: self.at(section).depth(), number })
    }

    /// All values of a directive in the order they were written, as inherited by its rule.
    pub fn all<K: Key>(&self, directive: &K) -> Vec<Written<'a, K::Value>> {
        match directive.info().rule {
            Rule::Gather => self.gathered(directive.info()),
            _ => typed(self.effective(directive.info())),
        }
    }

    /// A part of the nearest value that has this part; the last such value of its level. It is for directives whose parts
    /// are inherited separately, such as the two times of `keepalive_timeout`.
    pub fn nearest<K: Key, U>(&self, directive: &K, part: impl Fn(&'a K::Value) -> Option<U>) -> Option<U> {
        let nearest = |level: View<'a>| {
            let entries = level.config.entries(level.section, directive.info()).iter().rev();
            entries.filter_map(cast).find_map(|written| part(written.value))
        };
        self.levels().find_map(nearest)
    }

    /// The nearest level whose value of a directive is in effect here; `None` if no level sets it.
    pub fn level_of<K: Key>(&self, directive: &K) -> Option<View<'a>> {
        let level = self.at(self.found(directive.info()));
        (!self.config.entries(level.section, directive.info()).is_empty()).then_some(level)
    }

    /// How many levels enclose this one.
    pub fn depth(&self) -> usize {
        self.enclosing().count()
    }

    /// The values that this level itself sets.
    pub fn here<K: Key>(&self, directive: &K) -> Vec<Written<'a, K::Value>> {
        typed(self.config.entries(self.section, directive.info()))
    }

    /// Whether any level of the whole configuration sets it.
    pub fn is_anywhere<K: Key>(&self, directive: &K) -> bool {
        self.config.is_written(directive.info())
    }

    /// This level and those outside of it, from the nearest to the main level.
    pub fn levels(&self) -> impl Iterator<Item = View<'a>> + use<'a> {
        std::iter::once(*self).chain(self.enclosing())
    }

    /// The levels right inside of this one.
    pub fn inner(&self) -> impl Iterator<Item = View<'a>> + use<'a> {
        let config = self.config;
        config.section(self.section).children.iter().map(move |section| config.view(*section))
    }

    /// The levels outside of this one, from the nearest to the main level.
    pub fn enclosing(&self) -> impl Iterator<Item = View<'a>> + use<'a> {
        let config = self.config;
        let parent = move |section: SectionId| config.section(section).parent;
        std::iter::successors(parent(self.section), move |&section| parent(section))
            .map(move |section| config.view(section))
    }

    fn effective(&self, info: &Info) -> &'a [Entry] {
        self.config.entries(self.found(info), info)
    }

    fn gathered<T: 'static>(&self, info: &Info) -> Vec<Written<'a, T>> {
        if !self.config.marks.has(info.mark) {
            return Vec::new();
        }
        let mut levels: Vec<_> = self.levels().collect();
        levels.reverse();
        let entries = levels.iter().flat_map(|level| self.config.entries(level.section, info));
        entries.filter_map(cast).collect()
    }

    /// The nearest level whose value of a directive is in effect. It has no value if no level sets one.
    fn found(&self, info: &Info) -> SectionId {
        let mut section = self.section;
        if !self.config.marks.has(info.mark) {
            return section;
        }
        loop {
            let entries = self.config.entries(section, info);
            let stops = match info.rule {
                Rule::Value | Rule::List | Rule::Gather => false,
                Rule::Never => !self.config.context(section).is_per_directory(),
                Rule::Unnamed => !self.config.is_unnamed(section),
            };
            let parent = self.config.section(section).parent;
            match parent {
                Some(parent) if entries.is_empty() && !stops => section = parent,
                _ => return section,
            }
        }
    }

    /// Puts the value of a directive in its place, where the directive is set.
    pub fn assign<K: Key<Value: Clone>>(&self, directive: &K, place: &mut K::Value) {
        if let Some(value) = self.get(directive) {
            place.clone_from(value);
        }
    }

    /// As [`View::assign`], for a number that counts things in memory.
    pub fn assign_size(&self, directive: &impl Key<Value = u64>, place: &mut usize) {
        if let Some(&value) = self.get(directive) {
            *place = usize::try_from(value).unwrap_or(usize::MAX);
        }
    }
}

fn typed<T: 'static>(entries: &[Entry]) -> Vec<Written<'_, T>> {
    entries.iter().filter_map(cast).collect()
}

fn cast<T: 'static>(entry: &Entry) -> Option<Written<'_, T>> {
    let value = entry.value.downcast_ref()?;
    Some(Written { value, span: entry.span })
}
