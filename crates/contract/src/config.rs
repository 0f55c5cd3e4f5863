//! The directives of a configuration, level by level, and the only implementation of inheritance.

use crate::{AnyDirective, Directive, Info, Origin, Rule};
use conf::{Contexts, Diagnostic, Span};
use std::any::Any;
use std::sync::Arc;

/// A level of the configuration: the main level or the inside of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SectionId(u32);

/// The whole configuration, read and not yet compiled. It may extend another one without a copy: so
/// `.htaccess` files can be compiled while requests are served.
pub struct Config {
    base: Option<Arc<Config>>,
    /// How many levels the base has.
    first: u32,
    sections: Vec<Section>,
    origin: Arc<Origin>,
    /// The slots in which any level has an entry, without those of the base.
    written: Vec<&'static str>,
    /// Their marks, with those of the base. Very many scopes look for every directive, and most directives are not used:
    /// a mark answers that without a search.
    marks: Marks,
}

/// A set of slots' marks.
#[derive(Clone, Copy, Default)]
struct Marks([u64; 4]);

impl Marks {
    fn add(&mut self, mark: u8) {
        self.0[usize::from(mark >> 6)] |= 1 << (mark & 63);
    }

    fn has(&self, mark: u8) -> bool {
        self.0[usize::from(mark >> 6)] & (1 << (mark & 63)) != 0
    }
}

struct Section {
    parent: Option<SectionId>,
    children: Vec<SectionId>,
    context: Contexts,
    /// By their slots; few of them.
    entries: Vec<(&'static str, Vec<Entry>)>,
    /// The marks of those slots.
    marks: Marks,
}

impl Section {
    fn new(parent: Option<SectionId>, context: Contexts) -> Section {
        Section { parent, children: Vec::new(), context, entries: Vec::new(), marks: Marks::default() }
    }
}

struct Entry {
    name: &'static str,
    value: Box<dyn Any + Send + Sync>,
    span: Span,
}

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

impl Config {
    /// The main level.
    pub const MAIN: SectionId = SectionId(0);

    /// A configuration with an empty main level.
    pub fn new() -> Config {
        Config::within(Arc::default())
    }

    /// A configuration with an empty main level, with this origin.
    pub fn within(origin: Arc<Origin>) -> Config {
        let sections = vec![Section::new(None, Contexts::MAIN)];
        Config { base: None, first: 0, sections, origin, written: Vec::new(), marks: Marks::default() }
    }

    /// A configuration that adds levels to this one.
    pub fn over(base: &Arc<Config>) -> Config {
        let first = base.first + u32::try_from(base.sections.len()).unwrap_or(u32::MAX);
        Config {
            base: Some(Arc::clone(base)),
            first,
            sections: Vec::new(),
            origin: Arc::default(),
            written: Vec::new(),
            marks: base.marks,
        }
    }

    /// Opens a level below `parent`.
    pub fn open(&mut self, parent: SectionId, context: Contexts) -> SectionId {
        let id = SectionId(self.first + u32::try_from(self.sections.len()).unwrap_or(u32::MAX));
        self.sections.push(Section::new(Some(parent), context));
        if let Some(parent) = self.section_mut(parent) {
            parent.children.push(id);
        }
        id
    }

    /// Stores one use of a directive. Fails with nginx's error if the directive may be used only once.
    pub fn store(
        &mut self,
        section: SectionId,
        directive: &'static dyn AnyDirective,
        value: Box<dyn Any + Send + Sync>,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let info = directive.info();
        let foreign = || Diagnostic::emerg("a level of another configuration cannot be changed").at(span);
        let section = self.section_mut(section).ok_or_else(foreign)?;
        let slots = &mut section.entries;
        let place = slots.iter().position(|(slot, _)| *slot == info.slot).unwrap_or_else(|| {
            slots.push((info.slot, Vec::with_capacity(1)));
            section.marks.add(info.mark);
            slots.len() - 1
        });
        let entries = &mut slots[place].1;
        if let Some(earlier) = entries.first()
            && !info.repeats
        {
            let detail = if earlier.name == info.name {
                String::new()
            } else {
                format!(", \"{}\" directive was specified earlier", earlier.name)
            };
            let message = format!("\"{}\" directive is duplicate{detail}", info.name);
            return Err(Diagnostic::emerg(message).at(span));
        }
        entries.push(Entry { name: info.name, value, span });
        if !self.written.contains(&info.slot) {
            self.written.push(info.slot);
            self.marks.add(info.mark);
        }
        Ok(())
    }

    /// The context of a level.
    pub fn context(&self, section: SectionId) -> Contexts {
        self.section(section).context
    }

    /// A view of one level.
    pub fn view(&self, section: SectionId) -> View<'_> {
        View { config: self, section }
    }

    fn section(&self, section: SectionId) -> &Section {
        match &self.base {
            Some(base) if section.0 < self.first => base.section(section),
            _ => &self.sections[(section.0 - self.first) as usize],
        }
    }

    fn section_mut(&mut self, section: SectionId) -> Option<&mut Section> {
        let index = section.0.checked_sub(self.first)?;
        self.sections.get_mut(index as usize)
    }

    fn entries(&self, section: SectionId, info: &Info) -> &[Entry] {
        if !self.marks.has(info.mark) {
            return &[];
        }
        let section = self.section(section);
        if !section.marks.has(info.mark) {
            return &[];
        }
        let mut slots = section.entries.iter();
        slots.find(|(slot, _)| *slot == info.slot).map_or(&[], |(_, entries)| entries)
    }

    /// The number of a directive among those of a level, by the first use of each.
    fn number(&self, section: SectionId, info: &Info) -> Option<usize> {
        self.section(section).entries.iter().position(|(slot, _)| *slot == info.slot)
    }

    fn is_written(&self, info: &Info) -> bool {
        self.marks.has(info.mark)
            && (self.written.contains(&info.slot)
                || self.base.as_ref().is_some_and(|base| base.is_written(info)))
    }

    /// Whether a level hands even unnamed settings down: `if`, `limit_except` and `.htaccess` files are
    /// part of the location around them.
    fn is_unnamed(&self, section: SectionId) -> bool {
        const IFS: Contexts = Contexts::SERVER_IF.or(Contexts::LOCATION_IF);
        const UNNAMED: Contexts = IFS.or(Contexts::LIMIT_EXCEPT).or(Contexts::PER_DIRECTORY);
        UNNAMED.contains(self.context(section))
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::new()
    }
}

/// The configuration as one level sees it, inheritance applied.
#[derive(Clone, Copy)]
pub struct View<'a> {
    config: &'a Config,
    section: SectionId,
}

impl<'a> View<'a> {
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
    pub fn get<T>(&self, directive: &Directive<T>) -> Option<&'a T> {
        self.written(directive).map(|written| written.value)
    }

    /// The value of a directive and where it was written.
    pub fn written<T>(&self, directive: &Directive<T>) -> Option<Written<'a, T>> {
        self.effective(&directive.info).iter().find_map(cast)
    }

    /// The place of the value of a directive.
    pub fn place<T>(&self, directive: &Directive<T>) -> Option<Place> {
        let section = self.found(&directive.info);
        let number = self.config.number(section, &directive.info)?;
        Some(Place { depth: self.at(section).depth(), number })
    }

    /// All values of a directive in the order they were written, as inherited by its rule.
    pub fn all<T>(&self, directive: &Directive<T>) -> Vec<Written<'a, T>> {
        match directive.info.rule {
            Rule::Gather => self.gathered(&directive.info),
            _ => typed(self.effective(&directive.info)),
        }
    }

    /// A part of the nearest value that has this part; the last such value of its level. It is for directives whose parts
    /// are inherited separately, such as the two times of `keepalive_timeout`.
    pub fn nearest<T, U>(&self, directive: &Directive<T>, part: impl Fn(&'a T) -> Option<U>) -> Option<U> {
        let nearest = |level: View<'a>| {
            let entries = level.config.entries(level.section, &directive.info).iter().rev();
            entries.filter_map(cast).find_map(|written| part(written.value))
        };
        self.levels().find_map(nearest)
    }

    /// The nearest level whose value of a directive is in effect here; `None` if no level sets it.
    pub fn level_of<T>(&self, directive: &Directive<T>) -> Option<View<'a>> {
        let level = self.at(self.found(&directive.info));
        (!self.config.entries(level.section, &directive.info).is_empty()).then_some(level)
    }

    /// How many levels enclose this one.
    pub fn depth(&self) -> usize {
        self.enclosing().count()
    }

    /// The values that this level itself sets.
    pub fn here<T>(&self, directive: &Directive<T>) -> Vec<Written<'a, T>> {
        typed(self.config.entries(self.section, &directive.info))
    }

    /// Whether any level of the whole configuration sets it.
    pub fn is_anywhere<T>(&self, directive: &Directive<T>) -> bool {
        self.config.is_written(&directive.info)
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
}

fn typed<'a, T: 'static>(entries: &'a [Entry]) -> Vec<Written<'a, T>> {
    entries.iter().filter_map(cast).collect()
}

fn cast<T: 'static>(entry: &Entry) -> Option<Written<'_, T>> {
    let value = entry.value.downcast_ref()?;
    Some(Written { value, span: entry.span })
}

#[cfg(test)]
mod tests {
    use super::Config;
    use crate::{AnyDirective, Directive, Rule};
    use conf::{Contexts, FileId, Span};

    const SPAN: Span = Span { file: FileId(0), start: 0, end: 0, line: 1 };

    static VALUE: Directive<u32> = Directive::new("value", |_, _| Ok(0));
    static LIST: Directive<u32> = Directive::new("list", |_, _| Ok(0)).rule(Rule::List);
    static GATHER: Directive<u32> = Directive::new("gather", |_, _| Ok(0)).rule(Rule::Gather);
    static NEVER: Directive<u32> = Directive::new("never", |_, _| Ok(0)).rule(Rule::Never);
    static UNNAMED: Directive<u32> = Directive::new("unnamed", |_, _| Ok(0)).rule(Rule::Unnamed);
    static ROOT: Directive<u32> = Directive::new("root", |_, _| Ok(0)).slot("root");
    static ALIAS: Directive<u32> = Directive::new("alias", |_, _| Ok(0)).slot("root");

    fn set(config: &mut Config, at: super::SectionId, directive: &'static dyn AnyDirective, value: u32) {
        config.store(at, directive, Box::new(value), SPAN).unwrap();
    }

    fn values(config: &Config, at: super::SectionId, directive: &Directive<u32>) -> Vec<u32> {
        config.view(at).all(directive).iter().map(|written| *written.value).collect()
    }

    #[test]
    fn values_are_inherited_by_their_rule() {
        let mut config = Config::new();
        let server = config.open(Config::MAIN, Contexts::SERVER);
        let location = config.open(server, Contexts::LOCATION);
        let inner = config.open(location, Contexts::LOCATION_IF);
        for directive in [&VALUE as &'static dyn AnyDirective, &LIST, &NEVER, &UNNAMED] {
            set(&mut config, server, directive, 1);
        }
        set(&mut config, server, &LIST, 2);
        assert_eq!(values(&config, inner, &VALUE), [1]);
        assert_eq!(values(&config, inner, &LIST), [1, 2]);
        assert_eq!(values(&config, location, &NEVER), []);
        assert_eq!(values(&config, location, &UNNAMED), []);
        set(&mut config, location, &UNNAMED, 3);
        set(&mut config, location, &LIST, 4);
        assert_eq!(values(&config, inner, &UNNAMED), [3], "an if block is part of its location");
        assert_eq!(values(&config, inner, &LIST), [4], "one own value hides the whole list");
    }

    #[test]
    fn gather_takes_all_levels_outermost_first() {
        let mut config = Config::new();
        let server = config.open(Config::MAIN, Contexts::SERVER);
        let location = config.open(server, Contexts::LOCATION);
        let inner = config.open(location, Contexts::LOCATION_IF);
        assert_eq!(values(&config, inner, &GATHER), []);
        for (level, value) in [(inner, 4), (server, 1), (location, 3), (server, 2)] {
            set(&mut config, level, &GATHER, value);
        }
        assert_eq!(values(&config, inner, &GATHER), [1, 2, 3, 4]);
        assert_eq!(values(&config, server, &GATHER), [1, 2]);
        let base = std::sync::Arc::new(config);
        let mut overlay = Config::over(&base);
        let directory = overlay.open(location, Contexts::HTACCESS);
        set(&mut overlay, directory, &GATHER, 5);
        assert_eq!(values(&overlay, directory, &GATHER), [1, 2, 3, 5]);
    }

    #[test]
    fn parts_and_levels_of_values() {
        let mut config = Config::new();
        let server = config.open(Config::MAIN, Contexts::SERVER);
        let location = config.open(server, Contexts::LOCATION);
        for (level, value) in [(server, 1), (server, 3), (server, 6), (location, 8)] {
            set(&mut config, level, &LIST, value);
        }
        let view = config.view(location);
        assert_eq!(
            view.nearest(&LIST, |value| (value % 2 == 1).then_some(*value)),
            Some(3),
            "the last odd one"
        );
        assert_eq!(view.nearest(&LIST, |value| (value % 2 == 0).then_some(*value)), Some(8));
        assert_eq!(view.nearest(&VALUE, |value| Some(*value)), None);
        set(&mut config, server, &VALUE, 1);
        let view = config.view(location);
        assert_eq!(view.level_of(&LIST).map(|level| level.section()), Some(location));
        assert_eq!(view.level_of(&VALUE).map(|level| (level.section(), level.depth())), Some((server, 1)));
        assert!(view.level_of(&ROOT).is_none());
    }

    #[test]
    fn levels_on_top_of_a_shared_configuration() {
        let mut config = Config::new();
        let server = config.open(Config::MAIN, Contexts::SERVER);
        set(&mut config, server, &VALUE, 1);
        set(&mut config, server, &LIST, 2);
        set(&mut config, server, &NEVER, 5);
        let base = std::sync::Arc::new(config);
        let mut overlay = Config::over(&base);
        let directory = overlay.open(server, Contexts::HTACCESS);
        set(&mut overlay, directory, &VALUE, 3);
        assert_eq!(values(&overlay, directory, &VALUE), [3]);
        assert_eq!(values(&overlay, directory, &LIST), [2], "inherited from below");
        assert_eq!(values(&overlay, directory, &NEVER), [5], "it is part of what it lies over");
        assert_eq!(values(&base, server, &VALUE), [1]);
        assert!(overlay.store(server, &NEVER, Box::new(4_u32), SPAN).is_err());
    }

    #[test]
    fn a_slot_is_one_place() {
        let mut config = Config::new();
        let server = config.open(Config::MAIN, Contexts::SERVER);
        let location = config.open(server, Contexts::LOCATION);
        set(&mut config, server, &ALIAS, 1);
        set(&mut config, location, &ROOT, 2);
        assert_eq!(values(&config, location, &ALIAS), [2], "root cancels an inherited alias");
        let error = config.store(location, &ALIAS, Box::new(3_u32), SPAN).unwrap_err();
        assert_eq!(
            error.message,
            "\"alias\" directive is duplicate, \"root\" directive was specified earlier"
        );
    }
}
