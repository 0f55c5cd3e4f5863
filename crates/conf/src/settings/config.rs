//! The values of a configuration, level by level.

use super::{Info, Origin, View};
use crate::{Contexts, Diagnostic, Span};
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
    pub(super) origin: Arc<Origin>,
    /// The slots in which any level has an entry, without those of the base.
    written: Vec<&'static str>,
    /// Their marks, with those of the base. Very many scopes look for every directive, and most directives are not used:
    /// a mark answers that without a search.
    pub(super) marks: Marks,
}

/// A set of slots' marks.
#[derive(Clone, Copy, Default)]
pub(super) struct Marks([u64; 4]);

impl Marks {
    fn add(&mut self, mark: u8) {
        self.0[usize::from(mark >> 6)] |= 1 << (mark & 63);
    }

    pub(super) fn has(&self, mark: u8) -> bool {
        self.0[usize::from(mark >> 6)] & (1 << (mark & 63)) != 0
    }
}

pub(super) struct Section {
    pub(super) parent: Option<SectionId>,
    pub(super) children: Vec<SectionId>,
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

pub(super) struct Entry {
    name: &'static str,
    pub(super) value: Box<dyn Any + Send + Sync>,
    pub(super) span: Span,
}

impl Config {
    /// The main level.
    pub const MAIN: SectionId = SectionId(0);

    /// A configuration with an empty main level, with this origin.
    pub fn within(origin: Arc<Origin>) -> Config {
        let sections = vec![Section::new(None, Contexts::MAIN)];
        Config { base: None, first: 0, sections, origin, written: Vec::new(), marks: Marks::default() }
    }

    /// A configuration that adds levels to this one, with a separate origin.
    pub fn over(base: &Arc<Config>, origin: Arc<Origin>) -> Config {
        let first = base.first + u32::try_from(base.sections.len()).unwrap_or(u32::MAX);
        Config {
            base: Some(Arc::clone(base)),
            first,
            sections: Vec::new(),
            origin,
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
        info: &Info,
        value: Box<dyn Any + Send + Sync>,
        span: Span,
    ) -> Result<(), Diagnostic> {
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
        View::new(self, section)
    }

    pub(super) fn section(&self, section: SectionId) -> &Section {
        match &self.base {
            Some(base) if section.0 < self.first => base.section(section),
            _ => &self.sections[(section.0 - self.first) as usize],
        }
    }

    fn section_mut(&mut self, section: SectionId) -> Option<&mut Section> {
        let index = section.0.checked_sub(self.first)?;
        self.sections.get_mut(index as usize)
    }

    pub(super) fn entries(&self, section: SectionId, info: &Info) -> &[Entry] {
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
    pub(super) fn number(&self, section: SectionId, info: &Info) -> Option<usize> {
        self.section(section).entries.iter().position(|(slot, _)| *slot == info.slot)
    }

    pub(super) fn is_written(&self, info: &Info) -> bool {
        self.marks.has(info.mark)
            && (self.written.contains(&info.slot)
                || self.base.as_ref().is_some_and(|base| base.is_written(info)))
    }

    /// Whether a level hands even unnamed settings down: `if`, `limit_except` and `.htaccess` files are
    /// part of the location around them.
    pub(super) fn is_unnamed(&self, section: SectionId) -> bool {
        const IFS: Contexts = Contexts::SERVER_IF.or(Contexts::LOCATION_IF);
        const UNNAMED: Contexts = IFS.or(Contexts::LIMIT_EXCEPT).or(Contexts::PER_DIRECTORY);
        UNNAMED.contains(self.context(section))
    }
}

#[cfg(test)]
mod tests {
    use super::Config;
    use crate::settings::{Info, Kept, Key, Origin, Rule};
    use crate::{Contexts, Disk, FileId, Span};
    use std::sync::Arc;

    const SPAN: Span = Span { file: FileId(0), start: 0, end: 0, line: 1 };

    /// A directive whose values are numbers.
    struct Number(Info);

    impl Key for Number {
        type Value = u32;

        fn info(&self) -> &Info {
            &self.0
        }
    }

    const fn number(name: &'static str, rule: Rule) -> Number {
        Number(Info::new(name).inherited(rule))
    }

    static VALUE: Number = number("value", Rule::Value);
    static LIST: Number = number("list", Rule::List);
    static GATHER: Number = number("gather", Rule::Gather);
    static NEVER: Number = number("never", Rule::Never);
    static UNNAMED: Number = number("unnamed", Rule::Unnamed);
    static ROOT: Number = number("root", Rule::Value);
    static ALIAS: Number = Number(Info::new("alias").in_slot("root"));

    fn origin() -> Arc<Origin> {
        Arc::new(Origin::new(Arc::new(Disk), Kept::default()))
    }

    fn set(config: &mut Config, at: super::SectionId, directive: &Number, value: u32) {
        config.store(at, &directive.0, Box::new(value), SPAN).unwrap();
    }

    fn values(config: &Config, at: super::SectionId, directive: &Number) -> Vec<u32> {
        config.view(at).all(directive).iter().map(|written| *written.value).collect()
    }

    #[test]
    fn values_are_inherited_by_their_rule() {
        let mut config = Config::within(origin());
        let server = config.open(Config::MAIN, Contexts::SERVER);
        let location = config.open(server, Contexts::LOCATION);
        let inner = config.open(location, Contexts::LOCATION_IF);
        for directive in [&VALUE, &LIST, &NEVER, &UNNAMED] {
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
        let mut config = Config::within(origin());
        let server = config.open(Config::MAIN, Contexts::SERVER);
        let location = config.open(server, Contexts::LOCATION);
        let inner = config.open(location, Contexts::LOCATION_IF);
        assert_eq!(values(&config, inner, &GATHER), []);
        for (level, value) in [(inner, 4), (server, 1), (location, 3), (server, 2)] {
            set(&mut config, level, &GATHER, value);
        }
        assert_eq!(values(&config, inner, &GATHER), [1, 2, 3, 4]);
        assert_eq!(values(&config, server, &GATHER), [1, 2]);
        let base = Arc::new(config);
        let mut overlay = Config::over(&base, origin());
        let directory = overlay.open(location, Contexts::HTACCESS);
        set(&mut overlay, directory, &GATHER, 5);
        assert_eq!(values(&overlay, directory, &GATHER), [1, 2, 3, 5]);
    }

    #[test]
    fn parts_and_levels_of_values() {
        let mut config = Config::within(origin());
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
        let mut config = Config::within(origin());
        let server = config.open(Config::MAIN, Contexts::SERVER);
        set(&mut config, server, &VALUE, 1);
        set(&mut config, server, &LIST, 2);
        set(&mut config, server, &NEVER, 5);
        let base = Arc::new(config);
        let mut overlay = Config::over(&base, origin());
        let directory = overlay.open(server, Contexts::HTACCESS);
        set(&mut overlay, directory, &VALUE, 3);
        assert_eq!(values(&overlay, directory, &VALUE), [3]);
        assert_eq!(values(&overlay, directory, &LIST), [2], "inherited from below");
        assert_eq!(values(&overlay, directory, &NEVER), [5], "it is part of what it lies over");
        assert_eq!(values(&base, server, &VALUE), [1]);
        assert!(overlay.store(server, &NEVER.0, Box::new(4_u32), SPAN).is_err());
    }

    #[test]
    fn a_slot_is_one_place() {
        let mut config = Config::within(origin());
        let server = config.open(Config::MAIN, Contexts::SERVER);
        let location = config.open(server, Contexts::LOCATION);
        set(&mut config, server, &ALIAS, 1);
        set(&mut config, location, &ROOT, 2);
        assert_eq!(values(&config, location, &ALIAS), [2], "root cancels an inherited alias");
        let error = config.store(location, &ALIAS.0, Box::new(3_u32), SPAN).unwrap_err();
        assert_eq!(
            error.message,
            "\"alias\" directive is duplicate, \"root\" directive was specified earlier"
        );
    }
}
