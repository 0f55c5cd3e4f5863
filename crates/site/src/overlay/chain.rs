//! Settings for a directory, layer over layer, read into one configuration. A layer is a file with settings.

use super::Base;
use super::files::{self, File, Files, Found, Stamp};
use super::looked::{Looked, Looker};
use super::memory::Charge;
use crate::layers::Layers;
use crate::load::{self, Reader};
use crate::scopes::Scopes;
use conf::apache::{Allowed, SetNames};
use conf::{Contexts, Diagnostic, Node, Sources};
use contract::{
    Budget, Config, Directive, Exchange, Loading, LocationName, Overlay, Scope, SectionId, Selection, Spent,
};
use http::Status;
use journal::clock::Time;
use rustix::fs::{FileType, OFlags};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The size of a file, and of all that lie one over the other, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
const CHAIN_BYTES_MAX: u64 = 4 * FILE_BYTES_MAX;

/// The memory that the files of one way take when they are compiled, in bytes.
const COMPILED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// About how much memory a directive and a section take, in bytes; and each byte of their words. These are measured
/// sizes, rounded up.
const DIRECTIVE_BYTES: usize = 640;
const SECTION_BYTES: usize = 1600;
const BYTES_PER_BYTE: usize = 2;

/// A compiled scope shares most of its chain: this part of the chain's size is its own.
const SCOPE_PART: usize = 8;

/// Blocks that count for some requests only.
const SELECTIONS_MAX: usize = 10_000;

/// Warnings about the files of one way.
const NOTES_MAX: usize = 20;

/// Clocks of file systems go in steps of some milliseconds: within them a change may leave the stamp alone.
const FRESH_MS: i64 = 50;

/// Settings that lie over those of the layers before: a file, or a section of the main configuration.
struct Layer<'a> {
    /// The file that they stand in.
    file: Arc<Path>,
    /// The settings. Their places are among the sources of the loader.
    nodes: &'a [Node],
    /// The error that ends the text.
    error: Option<Diagnostic>,
    /// What kind of level they are.
    context: Contexts,
    /// What they may contain; `None` for everything.
    allowed: Option<Arc<Allowed>>,
}

/// The configuration of a directory.
pub(super) struct Chain {
    config: Arc<Config>,
    /// The innermost directory's level.
    last: SectionId,
    selections: Vec<Placed>,
    /// The files, without their texts.
    sources: Sources,
    /// Warnings about what was read.
    pub(super) notes: Vec<String>,
    /// How often each directive was read.
    pub(super) counts: Box<[(&'static str, u32)]>,
    /// What sections looked for.
    pub(super) looked: Arc<Looked>,
    charge: Charge,
    used: AtomicU64,
}

/// Which blocks count for a request, as far as that was decided.
#[derive(Default)]
pub(super) struct Decisions {
    pub(super) counting: Vec<bool>,
    /// Whether a block counts or one that it is the other case of.
    settled: Vec<bool>,
}

/// A block that counts for some requests only, and where it stands.
struct Placed {
    parent: Option<usize>,
    /// The block of the same level that this one is the other case of.
    before: Option<usize>,
    /// Blocks with a lower rank come first; those of the same rank in the order of the files.
    rank: Rank,
    selection: Selection,
    file: Arc<Path>,
    /// What kind of level it is.
    context: Contexts,
    /// What the block may contain; `None` for everything.
    allowed: Option<Arc<Allowed>>,
}

/// In Apache conditional blocks override all others, and those inside of them come last. Blocks of the directory come
/// before those inside of a block for files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// How many conditional blocks there are, around this one and with it.
    conditions: usize,
    /// Whether this is a block for files, or inside of one.
    is_for_files: bool,
}

/// Why a directory cannot be served.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) status: Status,
    pub(super) message: String,
    /// What else is wrong, where all mistakes are looked for.
    pub(super) further: Vec<String>,
}

impl Failure {
    pub(super) fn new(status: Status, message: String) -> Failure {
        Failure { status, message, further: Vec::new() }
    }
}

/// Reads the files. Their stamps become those of what was read.
pub(super) fn load(base: &Base, files: &mut Files) -> Result<Chain, Failure> {
    load_to(base, files, None)
}

/// As [`load`], but a directive that is refused does not end the reading.
/// Doubtful lines become notes. `set` holds the variables that the files so far set.
pub(super) fn check(base: &Base, files: &mut Files, set: &mut SetNames) -> Result<Chain, Failure> {
    load_to(base, files, Some(set))
}

/// Reads all sections over a host, to see whether they can be read.
pub(super) fn check_layers(
    base: &Base,
    overlay: &Arc<Overlay>,
    layers: &Arc<Layers>,
) -> Result<(), Diagnostic> {
    let mut files = Files {
        overlay: Arc::clone(overlay),
        innermost: b"/".to_vec(),
        root_end: 0,
        list: (0..layers.len()).map(|index| Found::Section(index, 0)).collect(),
        layers: Some(Arc::clone(layers)),
        opened: Vec::new(),
        is_fresh: false,
        found: 0,
    };
    load(base, &mut files).map(drop).map_err(|failure| Diagnostic::emerg(failure.message))
}

fn load_to(base: &Base, files: &mut Files, set: Option<&mut SetNames>) -> Result<Chain, Failure> {
    let mut loader = Loader::new(base, &files.overlay, set);
    let looker = Looker::default();
    loader.reader.loading.htaccess.look = Some(looker.look(files.root()));
    let read = loader.files(files);
    let looked = Arc::new(looker.end(files.root()));
    // Whether a mistake is in a section that counts may depend on a file that is there at the next request.
    files.is_fresh |= read.is_err() && !looked.is_empty();
    read?;
    loader.finish(looked).map_err(|(bytes, limit)| {
        // There may be room for the same files at the next request.
        files.is_fresh = true;
        no_room(files, bytes, limit)
    })
}

impl Chain {
    /// Goes on to decide which blocks count, in their order. `false` if the request's slice of time ended before.
    ///
    /// # Errors
    /// [`Spent`].
    pub(super) fn decide(
        &self,
        decisions: &mut Decisions,
        exchange: &Exchange,
        budget: &Budget,
    ) -> Result<bool, Spent> {
        let Decisions { counting, settled } = decisions;
        counting.reserve_exact(self.selections.len() - counting.len());
        settled.reserve_exact(self.selections.len() - settled.len());
        for placed in &self.selections[counting.len()..] {
            if budget.ends_slice() {
                return Ok(false);
            }
            budget.spend(1)?;
            let outer = placed.parent.is_none_or(|parent| counting[parent]);
            let is_settled = placed.before.is_some_and(|before| settled[before]);
            let counts =
                outer && !placed.is_ignored() && !is_settled && (placed.selection.holds)(exchange, budget)?;
            counting.push(counts);
            settled.push(is_settled || counts);
        }
        Ok(true)
    }

    /// Whether nothing but the files decides which scope they come to.
    pub(super) fn is_fixed(&self) -> bool {
        self.selections.is_empty() && self.looked.is_empty()
    }

    /// How many blocks there are.
    pub(super) fn selection_count(&self) -> usize {
        self.selections.len()
    }

    /// About how much memory this takes.
    pub(super) fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Notes that this is used. Threads share the note, so that it is written once in a millisecond.
    pub(super) fn touch(&self) {
        let now = Time::now().uptime_ms;
        if self.used.load(Ordering::Relaxed) != now {
            self.used.store(now, Ordering::Relaxed);
        }
    }

    /// When this was used last, in milliseconds of uptime.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Compiles the directories with the blocks that count over them; also gives about how much memory that takes, and
    /// warnings.
    pub(super) fn compile(
        &self,
        base: &Base,
        location: Option<&LocationName>,
        decisions: &[bool],
    ) -> Result<(Arc<Scope>, usize, Vec<String>), Failure> {
        let broken =
            |error: Diagnostic| Failure::new(Status::INTERNAL_SERVER_ERROR, shown(&error, &self.sources));
        let mut reader = reader(base, &self.config);
        reader.loading.memory_bytes = (self.bytes() / SCOPE_PART, COMPILED_BYTES_MAX);
        reader.loading.htaccess.look = Some(self.looked.again());
        let mut last = self.last;
        let counting = self.selections.iter().zip(decisions).filter(|(_, counts)| **counts);
        let mut counting: Vec<&Placed> = counting.map(|(placed, _)| placed).collect();
        counting.sort_by_key(|placed| placed.rank);
        for placed in counting {
            last = reader.config.open(last, placed.context);
            reader.loading.htaccess.path = Some(Arc::clone(&placed.file));
            reader.allowed.clone_from(&placed.allowed);
            reader.block(&placed.selection.nodes, last, placed.context).map_err(broken)?;
        }
        let scopes = Scopes::new(&reader.config, &base.modules, &base.prefix, &base.logs);
        let scope = scopes.scope(last, location).map_err(broken)?;
        let notes = scopes.notes.take().iter().map(|note| shown(note, &self.sources)).collect();
        Ok((scope, reader.loading.memory_bytes.0, notes))
    }
}

/// A reader of levels over these.
fn reader(base: &Base, below: &Arc<Config>) -> Reader {
    let loading = Loading::new(&base.prefix, &base.prefix);
    let config = Config::over(below, Arc::clone(&loading.origin));
    Reader::with_table(Arc::clone(&base.table), config, loading)
}

/// Puts layers over each other.
struct Loader<'a> {
    /// The blocks that count for some requests only.
    kinds: &'static Directive<Selection>,
    reader: Reader,
    last: SectionId,
    selections: Vec<Placed>,
    sources: Sources,
    /// The variables that the layers set, where doubtful lines are looked for.
    set: Option<&'a mut SetNames>,
    notes: Vec<String>,
}

impl<'a> Loader<'a> {
    fn new(base: &Base, overlay: &Overlay, set: Option<&'a mut SetNames>) -> Loader<'a> {
        let mut reader = reader(base, &base.config);
        reader.counts = Some(BTreeMap::new());
        reader.loading.refusals = set.is_some().then(Vec::new);
        reader.loading.memory_bytes = (0, COMPILED_BYTES_MAX);
        Loader {
            kinds: overlay.selections,
            reader,
            last: overlay.section,
            selections: Vec::new(),
            sources: base.sources.clone(),
            set,
            notes: Vec::new(),
        }
    }

    /// The chain of all layers.
    ///
    /// # Errors
    /// How many bytes it takes, and how many there are for all chains.
    fn finish(self, looked: Arc<Looked>) -> Result<Chain, (usize, usize)> {
        let Loader { reader, last, selections, sources, notes, .. } = self;
        let (bytes, _) = reader.loading.memory_bytes;
        let charge = Charge::new(bytes).map_err(|limit| (bytes, limit))?;
        let used = AtomicU64::new(Time::now().uptime_ms);
        let counts = reader.counts.unwrap_or_default().into_iter().collect();
        let config = Arc::new(reader.config);
        Ok(Chain { config, last, selections, sources, notes, counts, looked, charge, used })
    }

    fn files(&mut self, files: &mut Files) -> Result<(), Failure> {
        let mut total = 0;
        let mut opened = std::mem::take(&mut files.opened).into_iter();
        for index in 0..files.list.len() {
            let file = match files.list[index] {
                Found::File(file) => file,
                Found::Section(section, directory_end) => {
                    self.section(files, section, directory_end)?;
                    continue;
                }
            };
            let path = files.path(&file);
            let (text, stamp) = read(&path, opened.next().as_ref(), &mut files.is_fresh)?;
            files.list[index] = Found::File(File { stamp, ..file });
            total += text.len() as u64;
            if total > CHAIN_BYTES_MAX {
                return Err(too_large(&path));
            }
            self.file(&path, text, files.allowed(&file).cloned())?;
        }
        Ok(())
    }

    /// Reads a section of the main configuration, which counts from a directory on.
    fn section(&mut self, files: &Files, section: usize, directory_end: usize) -> Result<(), Failure> {
        let Some(layers) = &files.layers else { return Ok(()) };
        let directory = files.innermost().get(..directory_end).unwrap_or_default();
        let file = Arc::from(files::as_path(&[directory, b"/httpd.conf"].concat()));
        let nodes = Arc::clone(&layers.section(section).nodes);
        let context = Contexts::DIRECTORY;
        self.layer(Layer { file, nodes: &nodes, error: None, context, allowed: None })
    }

    fn file(&mut self, path: &Path, text: Vec<u8>, allowed: Option<Arc<Allowed>>) -> Result<(), Failure> {
        let (nodes, error) = conf::apache::parse_among(&mut self.sources, path, text);
        self.sources.drop_texts();
        let (file, context) = (Arc::from(path), Contexts::HTACCESS);
        self.layer(Layer { file, nodes: &nodes, error, context, allowed })
    }

    /// Reads a layer over those before.
    fn layer(&mut self, layer: Layer<'_>) -> Result<(), Failure> {
        let Layer { file, nodes, error, context, allowed } = layer;
        self.reader.loading.htaccess.path = Some(Arc::clone(&file));
        self.reader.allowed = allowed;
        self.last = self.reader.config.open(self.last, context);
        let span = nodes.last().map(|node| node.span);
        let held = span.map(|span| self.reader.loading.hold(size(nodes), span));
        let read = match held.transpose() {
            Ok(_) => self.level(nodes, self.last, None, &file),
            Err(error) => Err(error),
        };
        let mut notes = std::mem::take(&mut self.reader.loading.notes);
        notes.extend(self.doubts(&file, nodes));
        let room = NOTES_MAX.saturating_sub(self.notes.len());
        self.notes.extend(notes.iter().take(room).map(|note| shown(note, &self.sources)));
        let mut errors = self.reader.loading.refusals.as_mut().map(std::mem::take).unwrap_or_default();
        errors.extend(read.err().or(error));
        let mut texts = load::told(errors).into_iter().map(|error| shown(&error, &self.sources));
        let Some(message) = texts.next() else { return Ok(()) };
        Err(Failure { status: Status::INTERNAL_SERVER_ERROR, message, further: texts.collect() })
    }

    /// The doubtful lines of a layer, if they are looked for.
    fn doubts(&mut self, path: &Path, nodes: &[Node]) -> Vec<Diagnostic> {
        let Some(set) = &mut self.set else { return Vec::new() };
        set.add(nodes);
        let name = path.file_name().unwrap_or_default();
        let has_settings = |folder: &String| path.with_file_name(folder).join(name).exists();
        let mut doubts = conf::apache::doubts(nodes, set);
        doubts.retain(|doubt| !doubt.unless_settings_in.as_ref().is_some_and(has_settings));
        doubts.into_iter().map(|doubt| doubt.warning).collect()
    }

    /// Reads a level; blocks that count for some requests only are read to see what is wrong with them.
    fn level(
        &mut self,
        nodes: &[Node],
        section: SectionId,
        parent: Option<usize>,
        file: &Arc<Path>,
    ) -> Result<(), Diagnostic> {
        let context = self.reader.config.context(section);
        self.reader.block(nodes, section, context)?;
        let here = self.reader.config.view(section).here(self.kinds);
        let here: Vec<_> = here.iter().map(|written| (written.value.clone(), written.span)).collect();
        let mut previous = None;
        for (selection, span) in here {
            if self.selections.len() == SELECTIONS_MAX {
                return Err(Diagnostic::emerg("too many sections").at(span));
            }
            let before = if selection.is_else { previous } else { None };
            if selection.is_else && before.is_none() {
                return Err(
                    Diagnostic::emerg("a section for the other case has no section before it").at(span)
                );
            }
            let outer = parent.map_or_else(Rank::default, |parent| self.selections[parent].rank);
            let rank = Rank {
                conditions: outer.conditions + usize::from(selection.is_late),
                is_for_files: outer.is_for_files || !selection.is_late,
            };
            let nodes = Arc::clone(&selection.nodes);
            let trial = self.reader.config.open(section, context);
            let is_conditional = selection.is_late;
            let (file_of, allowed) = (Arc::clone(file), self.reader.allowed.clone());
            self.selections.push(Placed { parent, before, rank, selection, file: file_of, context, allowed });
            let index = self.selections.len() - 1;
            previous = is_conditional.then_some(index);
            // Nesting is bounded by the parser.
            self.level(&nodes, trial, Some(index), file)?;
        }
        Ok(())
    }
}

impl Placed {
    /// Whether this is a block for files in another block. Apache looks for files before it looks at conditions, and
    /// never again: such a block does not count.
    fn is_ignored(&self) -> bool {
        self.parent.is_some() && !self.selection.is_late
    }
}

/// About how much memory directives take, in bytes, without their patterns.
fn size(nodes: &[Node]) -> usize {
    let of = |node: &Node| {
        let words = node.args.iter().map(|word| word.text.len()).fold(0, usize::saturating_add);
        let own = match &node.block {
            Some(inner) => SECTION_BYTES.saturating_add(size(inner)),
            None => DIRECTIVE_BYTES,
        };
        own.saturating_add(words.saturating_mul(BYTES_PER_BYTE))
    };
    nodes.iter().map(of).fold(0, usize::saturating_add)
}

fn no_room(files: &Files, bytes: usize, limit: usize) -> Failure {
    let path = String::from_utf8_lossy(files.innermost());
    let message = format!(
        "\"{path}\" takes {bytes} bytes of memory when it is compiled, and all such files together take no more than {limit}"
    );
    Failure::new(Status::INTERNAL_SERVER_ERROR, message)
}

fn shown(error: &Diagnostic, sources: &Sources) -> String {
    let line = error.line(sources, "");
    let message = line.split_once("] ").map_or(line.as_str(), |(_, message)| message);
    let hint = error.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("{message}{hint}")
}

/// Reads a file without blocking on a pipe; also gives the stamp of the file that was read.
fn read(
    path: &Path,
    opened: Option<&Arc<std::fs::File>>,
    is_fresh: &mut bool,
) -> Result<(Vec<u8>, Stamp), Failure> {
    let refused = |message: String| Failure::new(Status::FORBIDDEN, message);
    let failed = |error: std::io::Error| refused(files::failed(path, &error));
    let mut open = match opened {
        Some(opened) => opened.try_clone().map_err(failed)?,
        None => {
            let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
            OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?
        }
    };
    let stat = |open: &std::fs::File| rustix::fs::fstat(open).map_err(|error| failed(error.into()));
    let before = stat(&open)?;
    if !FileType::from_raw_mode(before.st_mode).is_file() {
        let message = format!("\"{}\" is not a regular file, so all requests are denied", path.display());
        return Err(refused(message));
    }
    if u64::try_from(before.st_size).is_ok_and(|size| size > FILE_BYTES_MAX) {
        return Err(too_large(path));
    }
    let mut text = Vec::new();
    open.by_ref().take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    let after = Stamp::of(&stat(&open)?);
    *is_fresh |= after != Stamp::of(&before) || changed_now(&after);
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(too_large(path));
    }
    Ok((text, after))
}

fn changed_now(stamp: &Stamp) -> bool {
    let (seconds, nanoseconds) = stamp.changed();
    let now = Time::now();
    let milliseconds = |seconds: i64, part: i64| seconds.saturating_mul(1000).saturating_add(part);
    let changed = milliseconds(seconds, i64::try_from(nanoseconds / 1_000_000).unwrap_or(0));
    milliseconds(now.seconds, i64::from(now.milliseconds)).saturating_sub(changed) < FRESH_MS
}

fn too_large(path: &Path) -> Failure {
    let message = format!("\"{}\" is larger than {FILE_BYTES_MAX} bytes", path.display());
    Failure::new(Status::INTERNAL_SERVER_ERROR, message)
}

#[cfg(test)]
mod tests {
    use super::{
        Arc, Base, Chain, Config, Contexts, Directive, Layer, Loader, Looked, Path, Selection, Sources,
    };
    use crate::load::table;
    use contract::{Module, Overlay, Rule};
    use journal::LogFiles;
    use std::collections::HashMap;

    static SETTING: Directive<Box<[u8]>> =
        Directive::new("Setting", |args, _| Ok(args.word(0)?.text.clone())).within(Contexts::HTACCESS);
    static LINES: Directive<Box<[u8]>> = Directive::new("Line", |args, _| Ok(args.word(0)?.text.clone()))
        .within(Contexts::HTACCESS)
        .rule(Rule::Gather);
    static SELECTIONS: Directive<Selection> = Directive::new("If", |args, _| Err(args.error("is unknown")));
    static MODULE: Module =
        Module { name: "trial", directives: &[&SETTING, &LINES], variables: &[], compile: None };

    fn all(chain: &Chain, directive: &Directive<Box<[u8]>>) -> String {
        let values = chain.config.view(chain.last).all(directive);
        values.iter().map(|written| String::from_utf8_lossy(written.value)).collect()
    }

    /// `<Directory>` of a main configuration is a layer as a file is.
    #[test]
    fn sections_and_files_are_layers() {
        let modules: &[&'static Module] = &[&MODULE];
        let base = Base {
            config: Arc::new(Config::within(inputs::origin())),
            modules: modules.into(),
            table: Arc::new(table(modules)),
            prefix: "/".into(),
            logs: LogFiles::default(),
            layers: HashMap::new(),
            sources: Sources::default(),
        };
        let overlay = Overlay {
            section: Config::MAIN,
            names: Arc::from([]),
            rules: Box::default(),
            selections: &SELECTIONS,
            share: 1,
        };
        let mut loader = Loader::new(&base, &overlay, None);
        let text = "<Directory /srv>\nSetting outer\nLine a\n</Directory>\n<Directory /srv/in>\nLine b\n</Directory>\n";
        let (sections, error) =
            conf::apache::parse_among(&mut loader.sources, Path::new("/etc/main.conf"), text.into());
        assert_eq!(error, None);
        for section in &sections {
            let file = Arc::from(Path::new("/etc/main.conf"));
            let (nodes, context) = (section.children(), Contexts::HTACCESS);
            loader.layer(Layer { file, nodes, error: None, context, allowed: None }).unwrap();
        }
        loader.file(Path::new("/srv/in/.htaccess"), b"Setting inner\nLine c\n".into(), None).unwrap();
        let wrong = loader.file(Path::new("/srv/in/.htaccess"), b"\nSetting\n".into(), None).unwrap_err();
        assert!(
            wrong.message.ends_with("in /srv/in/.htaccess:2; it takes this number of arguments: 1"),
            "{wrong:?}"
        );
        let chain = loader.finish(Arc::new(Looked::default())).unwrap();
        assert_eq!((all(&chain, &SETTING).as_str(), all(&chain, &LINES).as_str()), ("inner", "abc"));
    }
}
