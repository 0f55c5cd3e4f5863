//! Apache's main configuration: `httpd.conf` and what it includes, as one tree.
//!
//! As in Apache, what decides how the text goes on is done while it is read: `Include`, `Define` and `${NAME}`, macros, and
//! sections such as `<IfModule>`. The tree holds what is left. A section about a module that the configuration loads, and that
//! is not built here, stays in the tree with its lines: a reader judges whether leaving it out opens something.

mod conditions;
mod includes;
mod macros;
mod variables;

use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::line::{Line, Lines};
use super::{Parser, close, directive, head_of, refuse_nul};
use crate::diagnostic::Diagnostic;
use crate::loader::{BLOCK_DEPTH_MAX, INCLUDE_DEPTH_MAX, Inputs, Loaded, TOTAL_BYTES_MAX, WORDS_MAX, reason};
use crate::source::{FileId, Sources, Span};
use crate::tree::{Node, Word, printable};
use conditions::Condition;
use macros::Macros;
use variables::Variables;

/// How deep folders that `Include` names may lie in each other.
const FOLDER_DEPTH_MAX: usize = 20;

/// How the path of the directives of the command line is shown.
const COMMAND_LINE: &str = "-c/-C directives";

/// What the reading starts from.
pub struct Start<'a> {
    /// The folder in which relative paths begin, until `ServerRoot` names another.
    pub root: PathBuf,
    /// Names that are defined (`-D`).
    pub defined: Vec<String>,
    /// Directives of the command line that come before those of the file (`-C`).
    pub before: Vec<String>,
    /// And those that come after them (`-c`).
    pub after: Vec<String>,
    /// A variable of the environment.
    pub environment: &'a dyn Fn(&str) -> Option<Vec<u8>>,
    /// Whether a module, which is named without `mod_`, is built here.
    pub is_built: &'a dyn Fn(&str) -> bool,
}

/// A `LoadModule` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedModule {
    /// The name of the module, without `mod_`.
    pub name: Box<str>,
    /// The line.
    pub span: Span,
}

/// What was read.
pub struct MainFile {
    /// The tree, the texts, and the first error.
    pub loaded: Loaded,
    /// What is doubtful.
    pub warnings: Vec<Diagnostic>,
    /// The modules that lines load, in their order.
    pub modules: Vec<LoadedModule>,
    /// The names that are defined at the end, sorted.
    pub defined: Vec<String>,
    /// The folder in which relative paths begin.
    pub root: PathBuf,
}

/// Reads a main configuration.
pub fn load(inputs: &dyn Inputs, path: &Path, start: &Start<'_>) -> MainFile {
    let mut variables = Variables::default();
    start.defined.iter().for_each(|name| variables.define(name.as_bytes(), None));
    let mut reader = Reader {
        inputs,
        start,
        root: start.root.as_os_str().as_bytes().to_vec(),
        sources: Sources::default(),
        pending: Vec::new(),
        open: Vec::new(),
        nodes: Vec::new(),
        variables,
        macros: Macros::default(),
        modules: Vec::new(),
        warnings: Vec::new(),
        bytes: 0,
        words: 0,
    };
    let error = reader.all(path).err();
    reader.finish(error)
}

struct Reader<'a> {
    inputs: &'a dyn Inputs,
    start: &'a Start<'a>,
    root: Vec<u8>,
    sources: Sources,
    /// What is still to be read, the next at the end.
    pending: Vec<Pending>,
    /// The sections that are open, outermost first.
    open: Vec<Open>,
    nodes: Vec<Node>,
    variables: Variables,
    macros: Macros,
    modules: Vec<LoadedModule>,
    warnings: Vec<Diagnostic>,
    bytes: u64,
    words: usize,
}

enum Pending {
    File(File),
    Text(Text),
}

/// A file or a folder that is to be read.
#[derive(Clone)]
struct File {
    path: Vec<u8>,
    from: Option<Span>,
    is_optional: bool,
    /// In how many folders that were included it lies.
    folders: usize,
}

/// A text that is being read.
struct Text {
    lines: Lines,
    /// Sections that were open when it began. A file must close its own and no others; the lines of a macro count as lines of
    /// the text that uses it.
    depth: usize,
    /// As places in it name it.
    name: String,
    /// The macro whose lines it is.
    of_macro: Option<String>,
}

/// A section that is open.
enum Open {
    /// Its node, and its lines so far.
    Section(Node, Vec<Node>),
    /// A condition that holds: its lines belong to the section around it.
    Condition(Word),
}

impl Open {
    fn name(&self) -> &Word {
        match self {
            Open::Section(Node { name, .. }, _) | Open::Condition(name) => name,
        }
    }
}

impl Reader<'_> {
    fn all(&mut self, path: &Path) -> Result<(), Diagnostic> {
        let start = self.start;
        self.command_line(&start.before)?;
        let path = includes::absolute(&self.root, path.as_os_str().as_bytes());
        self.pending.push(Pending::File(File { path, from: None, is_optional: false, folders: 0 }));
        self.run()?;
        self.command_line(&start.after)
    }

    fn command_line(&mut self, lines: &[String]) -> Result<(), Diagnostic> {
        if lines.is_empty() {
            return Ok(());
        }
        let file = self.sources.add_made(Path::new(COMMAND_LINE), lines.join("\n").into_bytes());
        self.text(file, 0, None)?;
        self.run()
    }

    fn finish(mut self, error: Option<Diagnostic>) -> MainFile {
        while let Some(open) = self.open.pop() {
            self.end(open, None);
        }
        MainFile {
            loaded: Loaded { nodes: self.nodes, sources: self.sources, error },
            warnings: self.warnings,
            modules: self.modules,
            defined: self.variables.names(),
            root: PathBuf::from(std::ffi::OsString::from_vec(self.root)),
        }
    }

    fn run(&mut self) -> Result<(), Diagnostic> {
        while let Some(next) = self.pending.pop() {
            match next {
                Pending::File(file) => self.file(file)?,
                Pending::Text(mut text) => match text.lines.next() {
                    Some(line) => self.line(line, text)?,
                    None => self.end_of(&text)?,
                },
            }
        }
        Ok(())
    }

    /// Ends a text. As in Apache, a condition that holds need not be closed.
    fn end_of(&mut self, text: &Text) -> Result<(), Diagnostic> {
        if text.of_macro.is_some() {
            return Ok(());
        }
        while let Some(last) = self.open.get(text.depth..).and_then(<[_]>::last) {
            let message = format!("<{}> was not closed", last.name());
            let span = last.name().span;
            if matches!(last, Open::Section(..)) {
                return Err(Diagnostic::emerg(message).at(span));
            }
            self.warnings.push(Diagnostic::warn(message).at(span));
            self.open.pop();
        }
        Ok(())
    }

    /// Begins to read a text, before which so many sections were open.
    fn text(&mut self, file: FileId, depth: usize, of_macro: Option<String>) -> Result<(), Diagnostic> {
        let text = self.sources.shared_text(file);
        self.bytes += text.len() as u64;
        if self.bytes > TOTAL_BYTES_MAX {
            return Err(Diagnostic::emerg(format!(
                "the configuration has more than {TOTAL_BYTES_MAX} bytes"
            )));
        }
        let name = includes::shown(self.sources.path(file));
        let lines = Lines::new(text, file);
        self.pending.push(Pending::Text(Text { lines, depth, name, of_macro }));
        Ok(())
    }

    /// Takes a line, and puts its text back among what is to be read.
    fn line(&mut self, line: Line, mut text: Text) -> Result<(), Diagnostic> {
        refuse_nul(&line)?;
        let line = self.filled_in(line);
        let span = line.span;
        if let Some(closed) = line.text.strip_prefix(b"</") {
            let inside = self.open.get(text.depth..).and_then(<[_]>::last);
            close(closed, inside.map(Open::name), span)?;
            if let Some(open) = self.open.pop() {
                self.end(open, Some(span));
            }
            self.pending.push(Pending::Text(text));
            return Ok(());
        }
        let Some(head) = line.text.strip_prefix(b"<") else {
            let node = directive(&line);
            self.count(&node)?;
            self.pending.push(Pending::Text(text));
            return self.directive(node);
        };
        let node = directive(&Line { text: head_of(head, span)?.to_vec(), span });
        self.count(&node)?;
        let name = node.name.text.to_ascii_lowercase();
        if name == b"macro" {
            self.macros.define(&node.args, span, &text.name, &mut text.lines)?;
        } else if let Some(condition) = Condition::of(&name) {
            self.condition(condition, node, &mut text)?;
        } else {
            self.open(Open::Section(node, Vec::new()), span)?;
        }
        self.pending.push(Pending::Text(text));
        Ok(())
    }

    fn filled_in(&mut self, line: Line) -> Line {
        let Line { text, span } = line;
        let warnings = &mut self.warnings;
        let unknown = |name: &[u8]| {
            // `${MAP:KEY}` is for mod_rewrite.
            if !name.contains(&b':') {
                let message = format!("Config variable ${{{}}} is not defined", printable(name));
                warnings.push(Diagnostic::warn(message).at(span));
            }
        };
        Line { text: self.variables.fill_in(&text, self.start.environment, unknown), span }
    }

    fn count(&mut self, node: &Node) -> Result<(), Diagnostic> {
        self.words += node.args.len() + 1;
        if self.words > WORDS_MAX {
            let message = format!("the configuration has more than {WORDS_MAX} words");
            return Err(Diagnostic::emerg(message).at(node.span));
        }
        Ok(())
    }

    fn open(&mut self, open: Open, span: Span) -> Result<(), Diagnostic> {
        if self.open.len() == BLOCK_DEPTH_MAX {
            return Err(Diagnostic::emerg("too many sections within sections").at(span));
        }
        self.open.push(open);
        Ok(())
    }

    /// Opens a section for a condition that holds, and takes the lines of another one out of the text.
    fn condition(&mut self, condition: Condition, mut node: Node, text: &mut Text) -> Result<(), Diagnostic> {
        if self.holds(condition, &node)? {
            let span = node.span;
            return self.open(Open::Condition(node.name), span);
        }
        let is_left_out = self.is_left_out(condition, &node);
        let mut skipped = Vec::new();
        node.end_line = Parser { lines: &mut text.lines }.block(&mut skipped, Some(&node.name), 0)?;
        node.block = Some(skipped);
        if is_left_out {
            self.push(node);
        }
        Ok(())
    }

    fn end(&mut self, open: Open, span: Option<Span>) {
        if let Open::Section(mut node, inside) = open {
            node.block = Some(inside);
            node.end_line = span.map_or(node.end_line, |span| span.line);
            self.push(node);
        }
    }

    /// Adds a node to the innermost section.
    fn push(&mut self, node: Node) {
        let sections = self.open.iter_mut().rev().find_map(|open| match open {
            Open::Section(_, inside) => Some(inside),
            Open::Condition(_) => None,
        });
        sections.unwrap_or(&mut self.nodes).push(node);
    }

    fn directive(&mut self, node: Node) -> Result<(), Diagnostic> {
        let name = node.name.text.to_ascii_lowercase();
        match (name.as_slice(), &*node.args) {
            (b"include" | b"includeoptional", [path]) => self.include(&path.text, node.span, name.len() > 7),
            (b"define", [name, value @ ..]) if value.len() < 2 => {
                if name.text.contains(&b':') {
                    return Err(Diagnostic::emerg("Variable name must not contain ':'").at(node.span));
                }
                self.variables.define(&name.text, value.first().map(|value| value.text.to_vec()));
                Ok(())
            }
            (b"undefine", [name]) => {
                self.variables.undefine(&name.text);
                Ok(())
            }
            (b"use", words) => self.use_macro(words, node.span),
            (b"undefmacro", [name]) => self.macros.undefine(name, node.span),
            (b"loadmodule", [name, _]) => self.load_module(name, &node),
            (b"serverroot", [path]) => {
                self.root = includes::absolute(&self.root, &path.text);
                Ok(())
            }
            (b"include" | b"includeoptional" | b"undefine" | b"undefmacro" | b"serverroot", _) => {
                Err(wrong_number(&node, "one argument"))
            }
            (b"define", _) => Err(wrong_number(&node, "1-2 arguments")),
            (b"loadmodule", _) => Err(wrong_number(&node, "two arguments")),
            _ => {
                self.push(node);
                Ok(())
            }
        }
    }

    fn load_module(&mut self, symbol: &Word, node: &Node) -> Result<(), Diagnostic> {
        let name = conditions::module_name(&symbol.to_string()).ok_or_else(|| {
            let message = format!("\"{symbol}\" is not the name of a module");
            Diagnostic::emerg(message)
                .at(node.span)
                .under(symbol.span)
                .hint("such a name ends in \"_module\"")
        })?;
        if self.modules.iter().any(|module| *module.name == *name) {
            let message = format!("module {symbol} is already loaded, skipping");
            self.warnings.push(Diagnostic::warn(message).at(node.span));
            return Ok(());
        }
        self.modules.push(LoadedModule { name: name.into(), span: node.span });
        Ok(())
    }

    fn use_macro(&mut self, words: &[Word], span: Span) -> Result<(), Diagnostic> {
        let (found, text) = self.macros.text(words, span)?;
        let definition = found.shown.clone();
        let mut above = self.pending.iter().filter_map(|pending| match pending {
            Pending::Text(text) => Some(text),
            Pending::File(_) => None,
        });
        if above.clone().any(|text| text.of_macro.as_ref() == Some(&definition)) {
            let message = format!("recursive use of {definition} is invalid");
            return Err(Diagnostic::emerg(message).at(span));
        }
        let (place, depth) =
            above.next_back().map(|text| (text.name.clone(), text.depth)).unwrap_or_default();
        let name = format!("{definition} used on line {} of \"{place}\"", span.line);
        let file = self.sources.add_made(Path::new(&name), text);
        self.text(file, depth, Some(definition))
    }

    fn include(&mut self, path: &[u8], span: Span, is_optional: bool) -> Result<(), Diagnostic> {
        let path = includes::absolute(&self.root, path);
        let found = includes::expand(self.inputs, &path).map_err(|error| {
            Diagnostic::emerg(format!("\"{}\" cannot be read ({})", printable(&path), reason(&error)))
                .at(span)
        })?;
        let paths = match found {
            Ok(paths) => paths,
            Err(_) if is_optional => return Ok(()),
            Err(missing) => return Err(missing.diagnostic().at(span)),
        };
        let file = |path| File { path, from: Some(span), is_optional, folders: 0 };
        self.pending.extend(paths.into_iter().rev().map(|path| Pending::File(file(path))));
        Ok(())
    }

    fn file(&mut self, file: File) -> Result<(), Diagnostic> {
        let path = PathBuf::from(std::ffi::OsString::from_vec(file.path.clone()));
        let placed = |error: Diagnostic| match file.from {
            Some(span) => error.at(span),
            None => error,
        };
        let texts = self.pending.iter().filter(|pending| matches!(pending, Pending::Text(_))).count();
        if texts >= INCLUDE_DEPTH_MAX {
            let message = format!("files include each other more than {INCLUDE_DEPTH_MAX} deep");
            return Err(placed(Diagnostic::emerg(message)));
        }
        if let Some(known) = self.sources.find(&path) {
            return self.text(known, self.open.len(), None).map_err(placed);
        }
        match self.inputs.read(&path) {
            Ok(text) => {
                let known = self.sources.add(&path, text);
                self.text(known, self.open.len(), None).map_err(placed)
            }
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => self.folder(&file).map_err(placed),
            Err(error) if error.kind() == io::ErrorKind::NotFound && file.is_optional => Ok(()),
            Err(error) => {
                let message = format!("open() \"{}\" failed ({})", includes::shown(&path), reason(&error));
                Err(placed(Diagnostic::emerg(message)))
            }
        }
    }

    /// Reads all files of a folder, and of those in it.
    fn folder(&mut self, folder: &File) -> Result<(), Diagnostic> {
        if folder.folders == FOLDER_DEPTH_MAX {
            let message =
                format!("\"{}\" lies in more than {FOLDER_DEPTH_MAX} folders", printable(&folder.path));
            return Err(Diagnostic::emerg(message));
        }
        let entries = includes::entries(self.inputs, &folder.path).map_err(|error| {
            Diagnostic::emerg(format!("\"{}\" cannot be read ({})", printable(&folder.path), reason(&error)))
        })?;
        let file = |path| File { path, folders: folder.folders + 1, ..folder.clone() };
        self.pending.extend(entries.into_iter().rev().map(|path| Pending::File(file(path))));
        Ok(())
    }
}

/// A directive with too few or too many arguments.
fn wrong_number(node: &Node, needed: &str) -> Diagnostic {
    Diagnostic::emerg(format!("{} takes {needed}", node.name)).at(node.span)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::loader::Memory;

    fn read(files: &[(&str, &str)]) -> MainFile {
        let memory = files.iter().fold(Memory::default(), |memory, (path, text)| memory.with(path, *text));
        let start = Start {
            root: PathBuf::from("/etc/httpd"),
            defined: vec!["GIVEN".to_owned()],
            before: vec!["First line".to_owned()],
            after: vec!["Last line".to_owned()],
            environment: &|name| (name == "LOGS").then(|| b"/var/log".to_vec()),
            is_built: &|name| name != "dav",
        };
        load(&memory, Path::new("httpd.conf"), &start)
    }

    fn names(nodes: &[Node]) -> String {
        let one = |node: &Node| match &node.block {
            None => node.name.to_string(),
            Some(block) => format!("{}({})", node.name, names(block)),
        };
        nodes.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_command_line_comes_before_and_after() {
        let read = read(&[("/etc/httpd/httpd.conf", "<IfDefine GIVEN>\nIn ${LOGS}\n</IfDefine>\n")]);
        assert_eq!((read.loaded.error, names(&read.loaded.nodes).as_str()), (None, "First In Last"));
        assert_eq!(read.loaded.nodes[1].args[0].to_string(), "/var/log");
        assert_eq!(read.defined, ["GIVEN"]);
        assert_eq!(read.loaded.sources.iter().count(), 1, "the command line is no file");
    }

    /// The lines of a section about a module stay, so that others can judge what is left out.
    #[test]
    fn what_a_missing_module_leaves_out_is_in_the_tree() {
        let text = "LoadModule dav_module x\nLoadModule php_module x\n<IfModule dav_module>\nDav on\n</IfModule>\n\
            <IfModule php_module>\nPhp\n</IfModule>\n<IfDefine NO>\nGone\n</IfDefine>\n";
        let read = read(&[("/etc/httpd/httpd.conf", text)]);
        assert_eq!(
            (read.loaded.error, names(&read.loaded.nodes).as_str()),
            (None, "First IfModule(Dav) Php Last")
        );
        let modules: Vec<&str> = read.modules.iter().map(|module| &*module.name).collect();
        assert_eq!(modules, ["dav", "php"]);
    }

    #[test]
    fn files_that_include_themselves_end() {
        let read = read(&[("/etc/httpd/httpd.conf", "Include httpd.conf\n")]);
        assert_eq!(read.loaded.error.unwrap().message, "files include each other more than 64 deep");
    }

    /// Macros that use each other make no more text than a configuration may have.
    #[test]
    fn macros_are_bounded() {
        let mut text = "<Macro m0 $a>\nA $a$a$a$a$a$a$a$a\n</Macro>\n".to_owned();
        for n in 1..30 {
            text += &format!("<Macro m{n} $a>\nUse m{} $a$a$a$a\nUse m{} $a$a$a$a\n</Macro>\n", n - 1, n - 1);
        }
        let read = read(&[("/etc/httpd/httpd.conf", &(text + "Use m29 xxxx\n"))]);
        let message = read.loaded.error.unwrap().message;
        assert!(message.contains("bytes"), "{message}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(
            text in "([A-Za-z<>/#\\\\\"' \n$@{}]|<IfDefine A>\n|</IfDefine>\n|Define A b\n|<Macro m \\$p>\n|</Macro>\n|Use m x\n){0,40}"
        ) {
            let read = read(&[("/etc/httpd/httpd.conf", &text)]);
            prop_assert!(read.loaded.error.is_some() || !read.loaded.nodes.is_empty());
        }
    }
}
