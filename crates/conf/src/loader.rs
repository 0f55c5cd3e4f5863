//! Files → tree: reads the main file, expands `include` in place, and keeps what was read.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use crate::diagnostic::Diagnostic;
use crate::dialect::{Dialect, Inclusion};
use crate::glob;
use crate::lexer::{Lexer, Token};
use crate::lua;
use crate::source::{Sources, Span};
use crate::tree::{Node, Word, printable};

/// Bytes of one file.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of all files together, a file counted as often as it is included.
pub const TOTAL_BYTES_MAX: u64 = 256 << 20;
/// Words of the whole configuration.
pub const WORDS_MAX: usize = 8 << 20;
/// Blocks within blocks.
pub const BLOCK_DEPTH_MAX: usize = 128;
/// Files that include files.
pub const INCLUDE_DEPTH_MAX: usize = 64;

pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Where configuration files come from.
pub trait Inputs {
    /// The whole content of a file.
    ///
    /// # Errors
    /// What the system said; `FileTooLarge` beyond [`FILE_BYTES_MAX`].
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// As [`read`](Inputs::read), and the file may be a named pipe, into which another program writes its content.
    ///
    /// # Errors
    /// What the system said; `TimedOut` if nothing is written.
    fn read_pipe(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.read(path)
    }

    /// As [`read`](Inputs::read), with the environment's variables filled in ([`fill_in`](crate::fill_in)). What has no
    /// environment fills nothing in.
    ///
    /// # Errors
    /// As [`read`](Inputs::read).
    fn read_template(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.read(path)
    }

    /// The existing paths that a shell pattern names, sorted by their bytes; none is not an error.
    ///
    /// # Errors
    /// What the system said.
    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>>;

    /// The addresses of a host's name. What knows files only knows none.
    ///
    /// # Errors
    /// What the system said.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, format!("unknown file \"{name}\"")))
    }
}

/// What was read, up to the first error.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The directives, those of the command line first. Where there is an error these are the ones before
    /// it, and blocks that were still open end there.
    pub nodes: Vec<Node>,
    /// Every text.
    pub sources: Sources,
    /// The first error of reading or grammar. Errors of meaning in `nodes` stand before it.
    pub error: Option<Diagnostic>,
}

/// Reads a configuration: `globals` are the directives of the command line, `path` the main file, whose
/// directory is what relative names in `include` start from.
pub fn load(inputs: &dyn Inputs, path: &Path, globals: Option<&str>) -> Loaded {
    let mut loader = Loader::new(inputs, path);
    let mut error = globals.and_then(|text| loader.command_line(text).err());
    if error.is_none() {
        error = loader.main_file(path).err();
    }
    loader.finish(error)
}

/// Reads one text that includes nothing that exists. For tests and fuzzing.
pub fn parse_bytes(text: &[u8]) -> Loaded {
    let path = Path::new("/fulmar.conf");
    load(&Memory::default().with(path, text), path, None)
}

/// The file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Inputs for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let kind = fs::metadata(path)?.file_type();
        if kind.is_fifo() || kind.is_socket() || kind.is_block_device() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        let mut text = Vec::new();
        // A character device has no size: `/dev/null` reads as empty, and so do the others.
        if !kind.is_char_device() {
            file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
        }
        Ok(text)
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        let list = |folder: &[u8]| {
            let folder = if folder.is_empty() { Path::new("/") } else { as_path(folder) };
            let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
            entries.map(|entry| entry.file_name().into_encoded_bytes()).collect()
        };
        let exists = |path: &[u8]| fs::symlink_metadata(as_path(path)).is_ok();
        Ok(owned_paths(glob::expand(pattern.as_bytes(), list, exists)))
    }
}

/// A map in place of a file system. For tests and fuzzing.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Memory {
    /// Adds a file.
    #[must_use]
    pub fn with(mut self, path: impl Into<PathBuf>, text: impl Into<Vec<u8>>) -> Memory {
        self.files.insert(path.into(), text.into());
        self
    }
}

impl Inputs for Memory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        const ENOENT: i32 = 2;
        self.files.get(path).cloned().ok_or_else(|| io::Error::from_raw_os_error(ENOENT))
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        let list = |folder: &[u8]| {
            let inside = |path: &PathBuf| {
                let rest = path.as_os_str().as_bytes().strip_prefix(folder)?.strip_prefix(b"/")?;
                rest.split(|&byte| byte == b'/').next().map(<[u8]>::to_vec)
            };
            self.files.keys().filter_map(inside).collect::<BTreeSet<_>>().into_iter().collect()
        };
        let exists = |path: &[u8]| self.files.contains_key(as_path(path));
        Ok(owned_paths(glob::expand(pattern.as_bytes(), list, exists)))
    }
}

/// Reads the files of one configuration.
struct Loader<'a> {
    inputs: &'a dyn Inputs,
    /// What relative names start from, with a slash at its end.
    prefix: Vec<u8>,
    sources: Sources,
    pending: Vec<Pending>,
    /// The blocks that are open, outermost first; their own children are collected next to them.
    open: Vec<(Node, Vec<Node>)>,
    nodes: Vec<Node>,
    bytes: u64,
    words: usize,
}

/// What is still to be read, the next at the end.
enum Pending {
    File { path: PathBuf, from: Option<Span>, kind: Inclusion },
    Text(Reading),
}

/// A text that is being read.
struct Reading {
    lexer: Lexer,
    path: PathBuf,
    /// Blocks that were open when it began; it must close its own and no others.
    depth: usize,
}

impl<'a> Loader<'a> {
    fn new(inputs: &'a dyn Inputs, main: &Path) -> Loader<'a> {
        let main = main.as_os_str().as_bytes();
        let directory = main.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        Loader {
            inputs,
            prefix: main[..directory].to_vec(),
            sources: Sources::default(),
            pending: Vec::new(),
            open: Vec::new(),
            nodes: Vec::new(),
            bytes: 0,
            words: 0,
        }
    }

    fn command_line(&mut self, text: &str) -> Result<(), Diagnostic> {
        let file = self.sources.add_command_line(text);
        let lexer = Lexer::of_parameter(self.sources.shared_text(file), file);
        self.pending.push(Pending::Text(Reading { lexer, path: PathBuf::new(), depth: 0 }));
        self.run()
    }

    fn main_file(&mut self, path: &Path) -> Result<(), Diagnostic> {
        self.pending.push(Pending::File { path: path.to_owned(), from: None, kind: Inclusion::Verbatim });
        self.run()
    }

    fn finish(mut self, error: Option<Diagnostic>) -> Loaded {
        while self.close(None) {}
        Loaded { nodes: self.nodes, sources: self.sources, error }
    }

    fn run(&mut self) -> Result<(), Diagnostic> {
        while let Some(next) = self.pending.pop() {
            match next {
                Pending::File { path, from, kind } => {
                    let reading = self.open_file(path, from, kind)?;
                    self.pending.push(Pending::Text(reading));
                }
                Pending::Text(mut reading) => {
                    let token = reading.lexer.next_token()?;
                    if matches!(&token, Token::Open(words, _) if lua::holds_lua(&words[0].text)) {
                        reading.lexer.skip_lua();
                    }
                    self.take(token, reading)?;
                }
            }
        }
        Ok(())
    }

    /// Puts a token into the tree, and the text back among what is to be read.
    fn take(&mut self, token: Token, reading: Reading) -> Result<(), Diagnostic> {
        let (parameter, base) = (reading.lexer.is_parameter(), reading.depth);
        if let Token::End(span) = token {
            return match self.open.get(base..).and_then(<[_]>::last) {
                Some((block, _)) => Err(unclosed(block, span)),
                None => Ok(()),
            };
        }
        self.pending.push(Pending::Text(reading));
        match token {
            Token::Simple(words, line) => {
                let node = self.node(words, line)?;
                match node.dialect.inclusion(&node.name.text) {
                    Some(kind) => self.include(&node, kind),
                    None => self.push(node),
                }
            }
            Token::Open(words, line) => {
                let node = self.node(words, line)?;
                if parameter {
                    let message = "block directives are not supported in -g option";
                    return Err(Diagnostic::emerg(message).at(node.span));
                }
                if node.dialect.inclusion(&node.name.text).is_some() {
                    let message = format!("directive \"{}\" is not terminated by \";\"", node.name);
                    return Err(Diagnostic::emerg(message).at(node.span));
                }
                if self.open.len() == BLOCK_DEPTH_MAX {
                    let message = format!("blocks are nested more than {BLOCK_DEPTH_MAX} deep");
                    return Err(Diagnostic::emerg(message).at(node.span));
                }
                self.open.push((node, Vec::new()));
                Ok(())
            }
            Token::Close(span) if self.open.len() == base => {
                Err(Diagnostic::emerg("unexpected \"}\"").at(span).hint("no block is open here"))
            }
            Token::Close(span) => {
                self.close(Some(span));
                Ok(())
            }
            Token::End(_) => Ok(()),
        }
    }

    fn node(&mut self, words: Vec<Word>, line: u32) -> Result<Node, Diagnostic> {
        let mut words = words.into_iter();
        // The lexer gives no run without words.
        let Some(name) = words.next() else {
            return Err(Diagnostic::emerg("unexpected \";\""));
        };
        let args: Box<[Word]> = words.collect();
        let end = args.last().map_or(name.span.end, |word| word.span.end);
        let span = Span { end, line, ..name.span };
        if name.span.start == 0 && name.text.starts_with(BYTE_ORDER_MARK) {
            let error = Diagnostic::emerg(format!("unknown directive \"{name}\"")).at(span);
            return Err(error.hint("the file begins with a UTF-8 byte order mark: save it without one"));
        }
        self.words += args.len() + 1;
        if self.words > WORDS_MAX {
            let message = format!("the configuration has more than {WORDS_MAX} words");
            return Err(Diagnostic::emerg(message).at(span));
        }
        Ok(Node { name, args, block: None, span, end_line: line, dialect: Dialect::Nginx })
    }

    fn push(&mut self, node: Node) -> Result<(), Diagnostic> {
        match self.open.last_mut() {
            Some((_, children)) => children.push(node),
            None => self.nodes.push(node),
        }
        Ok(())
    }

    /// Ends the innermost block; false if none is open.
    fn close(&mut self, span: Option<Span>) -> bool {
        let Some((mut node, children)) = self.open.pop() else {
            return false;
        };
        node.block = Some(children);
        node.end_line = span.map_or(node.end_line, |span| span.line);
        match self.open.last_mut() {
            Some((_, siblings)) => siblings.push(node),
            None => self.nodes.push(node),
        }
        true
    }

    fn include(&mut self, node: &Node, kind: Inclusion) -> Result<(), Diagnostic> {
        let [name] = &*node.args else {
            let message = format!("invalid number of arguments in \"{}\" directive", node.name);
            return Err(Diagnostic::emerg(message).at(node.span));
        };
        let mut full = if name.text.starts_with(b"/") { Vec::new() } else { self.prefix.clone() };
        full.extend_from_slice(&name.text);
        let mut paths = vec![PathBuf::from(OsStr::from_bytes(&full))];
        if glob::is_pattern(&full) {
            let shown = printable(&full);
            let pattern = std::str::from_utf8(&full).map_err(|_| io::ErrorKind::InvalidInput.into());
            let found = pattern.and_then(|pattern| self.inputs.glob(pattern));
            paths = found.map_err(|error| {
                let message = format!("glob() \"{shown}\" failed ({})", reason(&error));
                Diagnostic::emerg(message).at(node.span).under(name.span)
            })?;
        }
        let from = Some(node.span.narrowed_to(name.span));
        self.pending.extend(paths.into_iter().rev().map(|path| Pending::File { path, from, kind }));
        Ok(())
    }

    fn open_file(
        &mut self,
        path: PathBuf,
        from: Option<Span>,
        kind: Inclusion,
    ) -> Result<Reading, Diagnostic> {
        let placed = |error: Diagnostic| match from {
            Some(span) => error.at(span),
            None => error,
        };
        let above = self.pending.iter().filter_map(|pending| match pending {
            Pending::Text(reading) => Some(&reading.path),
            Pending::File { .. } => None,
        });
        if above.clone().any(|open| *open == path) {
            let message = format!("\"{}\" includes itself", path.display());
            return Err(placed(Diagnostic::emerg(message)));
        }
        if above.count() >= INCLUDE_DEPTH_MAX {
            let message = format!("files include each other more than {INCLUDE_DEPTH_MAX} deep");
            return Err(placed(Diagnostic::emerg(message)));
        }
        let file = match self.sources.find(&path) {
            Some(file) => file,
            None => {
                let read = match kind {
                    Inclusion::Verbatim => self.inputs.read(&path),
                    Inclusion::Template => self.inputs.read_template(&path),
                };
                let text = read.map_err(|error| placed(unreadable(&path, &error)))?;
                self.sources.add(&path, text)
            }
        };
        let text = self.sources.shared_text(file);
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(bytes);
        if bytes > FILE_BYTES_MAX || self.bytes > TOTAL_BYTES_MAX {
            let max = if bytes > FILE_BYTES_MAX { FILE_BYTES_MAX } else { TOTAL_BYTES_MAX };
            let message = format!("\"{}\" is too large, the limit is {} MB", path.display(), max >> 20);
            return Err(placed(Diagnostic::emerg(message)));
        }
        Ok(Reading { lexer: Lexer::new(text, file), path, depth: self.open.len() })
    }
}

fn unclosed(block: &Node, end: Span) -> Diagnostic {
    let hint = format!("the block \"{}\" that begins on line {} is not closed", block.name, block.span.line);
    let error = Diagnostic::emerg("unexpected end of file, expecting \"}\"");
    error.at(end).under(block.span).hint(hint)
}

fn unreadable(path: &Path, error: &io::Error) -> Diagnostic {
    let call = if error.kind() == io::ErrorKind::IsADirectory { "pread" } else { "open" };
    let shown = printable(path.as_os_str().as_bytes());
    let diagnostic = Diagnostic::emerg(format!("{call}() \"{shown}\" failed ({})", reason(error)));
    match missing_hint(path).filter(|_| error.kind() == io::ErrorKind::NotFound) {
        Some(hint) => diagnostic.hint(hint),
        None => diagnostic,
    }
}

/// What to do if one of the files is missing that examples include.
fn missing_hint(path: &Path) -> Option<&'static str> {
    match path.file_name()?.as_bytes() {
        b"mime.types" => Some("leave the line out: the usual media types are built in"),
        b"fastcgi.conf" | b"fastcgi_params" | b"proxy_params" | b"scgi_params" | b"uwsgi_params" => {
            Some("the package has this file in /etc/fulmar, the source in packaging/conf")
        }
        _ => None,
    }
}

/// An error of the system as messages show it: its number, then its words.
pub(crate) fn reason(error: &io::Error) -> String {
    let words = error.to_string();
    match error.raw_os_error() {
        Some(number) => format!("{number}: {}", words.split(" (os error").next().unwrap_or(&words)),
        None => words,
    }
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn owned_paths(paths: Vec<Vec<u8>>) -> Vec<PathBuf> {
    paths.into_iter().map(|path| PathBuf::from(OsString::from_vec(path))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::to_text;
    use proptest::prelude::*;

    fn headline(loaded: &Loaded) -> String {
        loaded.error.as_ref().map(|error| error.headline(&loaded.sources, "x")).unwrap_or_default()
    }

    fn texts(nodes: &[Node]) -> String {
        String::from_utf8_lossy(&to_text(nodes)).into_owned()
    }

    fn in_memory(files: &[(&str, &str)]) -> Loaded {
        let inputs = files.iter().fold(Memory::default(), |memory, (path, text)| memory.with(path, *text));
        load(&inputs, Path::new("/etc/x.conf"), None)
    }

    #[test]
    fn includes_are_expanded_in_place_and_files_are_kept_once() {
        let loaded = in_memory(&[
            ("/etc/x.conf", "a; include d/*.conf; types { include t; } include /etc/t; z;"),
            ("/etc/d/2.conf", "two;"),
            ("/etc/d/1.conf", "one; include d/deep/y;"),
            ("/etc/d/.hidden.conf", "hidden;"),
            ("/etc/d/deep/3.conf", "three;"),
            ("/etc/d/deep/y", "y;"),
            ("/etc/t", "t;"),
        ]);
        assert_eq!(headline(&loaded), "");
        assert_eq!(texts(&loaded.nodes), "a;\none;\ny;\ntwo;\ntypes {\n    t;\n}\nt;\nz;\n");
        let paths: Vec<_> = loaded.sources.iter().map(|(_, path, _)| path.to_str().unwrap()).collect();
        assert_eq!(paths, ["/etc/x.conf", "/etc/d/1.conf", "/etc/d/deep/y", "/etc/d/2.conf", "/etc/t"]);
    }

    #[test]
    fn a_missing_file_of_the_examples_has_a_hint() {
        let hint = |text: &str| {
            in_memory(&[("/etc/x.conf", text)]).error.and_then(|error| error.hint).unwrap_or_default()
        };
        assert!(hint("http { include mime.types; }").contains("built in"));
        assert!(hint("include /etc/nginx/fastcgi_params;").contains("packaging/conf"));
        assert_eq!(hint("include no;"), "");
    }

    #[test]
    fn what_cannot_be_included_is_named_with_its_place() {
        let error =
            |text: &str, other: &str| headline(&in_memory(&[("/etc/x.conf", text), ("/etc/y", other)]));
        let missing = "open() \"/etc/no\" failed (2: No such file or directory)";
        assert_eq!(error("\ninclude no;", ""), format!("x: [emerg] {missing} in /etc/x.conf:2"));
        assert_eq!(error("include no*;", ""), "");
        assert_eq!(error("include /no[a-z]/?;", ""), "");
        assert_eq!(error("include y;", "\n}"), "x: [emerg] unexpected \"}\" in /etc/y:2");
        assert_eq!(error("a { include y; }", "}"), "x: [emerg] unexpected \"}\" in /etc/y:1");
        assert_eq!(
            error("include y;", "include x.conf;"),
            "x: [emerg] \"/etc/x.conf\" includes itself in /etc/y:1"
        );
        assert_eq!(
            error("include y;", "a {"),
            "x: [emerg] unexpected end of file, expecting \"}\" in /etc/y:1"
        );
    }

    #[test]
    fn directives_of_the_command_line_come_first() {
        let inputs = Memory::default().with("/x", "b;");
        let loaded = load(&inputs, Path::new("/x"), Some("a 1;"));
        assert_eq!(texts(&loaded.nodes), "a 1;\nb;\n");
        assert_eq!(loaded.sources.iter().count(), 1);
        for (globals, message) in [
            ("a", "unexpected end of parameter, expecting \";\" in command line"),
            ("a {", "block directives are not supported in -g option in command line"),
            ("}", "unexpected \"}\" in command line"),
            ("include /no;", "open() \"/no\" failed (2: No such file or directory) in command line"),
        ] {
            let loaded = load(&inputs, Path::new("/x"), Some(globals));
            assert_eq!(headline(&loaded), format!("x: [emerg] {message}"));
        }
        let long = format!("a {};", "x".repeat(5000));
        assert!(load(&inputs, Path::new("/x"), Some(&long)).error.is_none());
    }

    #[test]
    fn a_missing_main_file_has_no_place() {
        let loaded = load(&Memory::default(), Path::new("/x"), None);
        assert_eq!(headline(&loaded), "x: [emerg] open() \"/x\" failed (2: No such file or directory)");
    }

    #[test]
    fn limits_are_errors() {
        let deep = "a{".repeat(BLOCK_DEPTH_MAX);
        assert_eq!(parse_bytes((deep.clone() + &"}".repeat(BLOCK_DEPTH_MAX)).as_bytes()).error, None);
        let error = parse_bytes((deep + "a{").as_bytes()).error.unwrap();
        assert_eq!(error.message, "blocks are nested more than 128 deep");

        let chain = (0..=INCLUDE_DEPTH_MAX).fold(Memory::default(), |memory, file| {
            memory.with(format!("/{file}"), format!("include {};", file + 1))
        });
        let error = load(&chain, Path::new("/0"), None).error.unwrap();
        assert_eq!(error.message, "files include each other more than 64 deep");

        // Each file includes the next one twice: few bytes, endless work.
        let bomb = (0..60).fold(Memory::default(), |memory, file| {
            memory.with(format!("/{file}"), format!("include {0}; include {0};", file + 1))
        });
        let bomb = bomb.with("/60", "#".repeat(4000));
        let error = load(&bomb, Path::new("/0"), None).error.unwrap();
        assert_eq!(error.message, "\"/60\" is too large, the limit is 256 MB");
    }

    #[test]
    fn the_disk_refuses_what_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("x.conf");
        fs::write(&main, "include d/*.conf; include /dev/null;").unwrap();
        fs::create_dir(folder.path().join("d")).unwrap();
        fs::write(folder.path().join("d/b.conf"), "b;").unwrap();
        fs::write(folder.path().join("d/a.conf"), "a;").unwrap();
        let loaded = load(&Disk, &main, None);
        assert_eq!((headline(&loaded).as_str(), texts(&loaded.nodes).as_str()), ("", "a;\nb;\n"));

        let directory = folder.path().join("d");
        let error = load(&Disk, &directory, None).error.unwrap();
        assert_eq!(error.message, format!("pread() \"{}\" failed (21: Is a directory)", directory.display()));

        let socket = folder.path().join("s");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let error = load(&Disk, &socket, None).error.unwrap();
        assert_eq!(error.message, format!("open() \"{}\" failed (not a regular file)", socket.display()));
    }

    #[test]
    fn lua_is_no_configuration() {
        let loaded = parse_bytes(b"a_by_lua_block {\n ngx.say(\"}\") -- it's\n if { } }\nb;");
        assert_eq!(
            (headline(&loaded).as_str(), texts(&loaded.nodes).as_str()),
            ("", "a_by_lua_block {\n}\nb;\n")
        );
        assert_eq!(loaded.nodes[1].span.line, 4);
        let loaded = parse_bytes(b"a_by_lua_block { {\n}\n");
        assert!(headline(&loaded).ends_with("unexpected end of file, expecting \"}\" in /fulmar.conf:3"));
    }

    #[test]
    fn a_byte_order_mark_is_named() {
        let error = parse_bytes(b"\xEF\xBB\xBFuser x;").error.unwrap();
        assert_eq!(error.message, "unknown directive \"\\xEF\\xBB\\xBFuser\"");
        assert!(error.hint.unwrap().contains("byte order mark"));
    }

    #[test]
    fn nodes_before_an_error_are_kept_in_their_blocks() {
        let loaded = parse_bytes(b"a; b { c; d { e; } } }");
        assert_eq!(texts(&loaded.nodes), "a;\nb {\n    c;\n    d {\n        e;\n    }\n}\n");
        let loaded = parse_bytes(b"a; b { c; d { e; ;");
        assert_eq!(texts(&loaded.nodes), "a;\nb {\n    c;\n    d {\n        e;\n    }\n}\n");
        assert!(loaded.error.is_some());
    }

    #[test]
    fn lines_are_those_where_a_directive_ends() {
        let loaded = parse_bytes(b"a\n1\n;\nb\n{\nc;\n}");
        let [a, b] = &*loaded.nodes else { panic!("two directives") };
        assert_eq!((a.name.span.line, a.args[0].span.line, a.span.line, a.end_line), (1, 2, 3, 3));
        assert_eq!((b.name.span.line, b.span.line, b.end_line), (4, 5, 7));
        assert_eq!((a.span.start, a.span.end), (0, 3));
    }

    fn same(a: &[Node], b: &[Node]) -> bool {
        a.len() == b.len()
            && a.iter().zip(b).all(|(a, b)| {
                let words = |node: &Node| node.args.iter().map(|word| word.text.clone()).collect::<Vec<_>>();
                a.name.text == b.name.text
                    && words(a) == words(b)
                    && a.block.is_some() == b.block.is_some()
                    && same(a.children(), b.children())
            })
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let loaded = parse_bytes(&text);
            if let Some(error) = &loaded.error {
                prop_assert!(crate::render(error, &loaded.sources, "x").starts_with("x: [emerg] "));
            }
        }

        #[test]
        fn the_text_of_a_tree_reads_back_as_the_same_tree(
            text in "([a-c$\\\\\"'{};# \n\té]|a |; |\\{|\\}){0,60}"
        ) {
            let read = parse_bytes(text.as_bytes());
            let again = parse_bytes(&to_text(&read.nodes));
            prop_assert_eq!(&again.error, &None);
            prop_assert!(same(&read.nodes, &again.nodes), "{}", texts(&read.nodes));
            prop_assert_eq!(to_text(&read.nodes), to_text(&again.nodes));
        }
    }
}
