//! From the files to a configuration that can serve, or to the reason why not.

use std::fs::DirBuilder;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use conf::{Diagnostic, Inputs, Sources, Span};
use contract::inputs::Recorder;
use contract::log::LogFile;
use contract::{Config, Kept, Loading, Module, Origin};
use modules::process::{ProcessSettings, Reloading, User};
use net::bind::Wanted;
use net::identity::{Identity, is_superuser};
use net::system_message;
use server::{Settings, Site, Successor};

use crate::console::PROGRAM;
use crate::paths::{ERROR_LOG, Paths};

/// Who the worker of a superuser runs as where the configuration names nobody.
const DEFAULT_USER: &str = "nobody";
/// That user's group, by its name on different systems.
const DEFAULT_GROUPS: [&str; 2] = ["nogroup", "nobody"];

/// What to do where the place of a package is not there.
const NO_ACCESS_LOG: &str = "this is where requests are logged where nothing else is written: create the directory, \
     or write \"access_log FILE;\" or \"access_log off;\" into \"http {}\"";
/// The same for errors.
const NO_ERROR_LOG: &str = "this is where errors are logged where nothing else is written: create the directory, or \
     name a file with \"error_log FILE;\" at the top, or with -e FILE (-e stderr for this terminal)";

/// How this run reads its configuration, at its start and at each reload.
pub(crate) struct Reader {
    /// Where files come from.
    inputs: SharedInputs,
    /// The paths that the flags gave.
    pub(crate) paths: Paths,
    /// Directives of the command line.
    globals: Option<String>,
    /// The features, in their order.
    modules: Vec<&'static Module>,
    /// The port of a server that names none: 80, or 8000 where that is out of reach.
    default_port: u16,
}

type SharedInputs = Arc<dyn Inputs + Send + Sync>;

/// A configuration that was found to be good.
pub(crate) struct Configuration {
    /// What serves.
    pub(crate) site: Arc<Site>,
    /// How processes are to be.
    pub(crate) process: ProcessSettings,
    /// Whom the worker becomes; none where the supervisor may not choose.
    pub(crate) identity: Option<Identity>,
    /// The first file of the main level's error log; none if that is the standard error stream.
    pub(crate) error_log: Option<PathBuf>,
    /// The directories for temporary files, and where they were named.
    directories: Vec<(PathBuf, Span)>,
    /// The files, and what there is to tell about them.
    pub(crate) read: Read,
}

/// A configuration that cannot be used.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Why.
    pub(crate) error: Diagnostic,
    /// What else is known to be wrong.
    pub(crate) further: Vec<Diagnostic>,
    /// What was read until then.
    pub(crate) read: Read,
}

/// The files that were read, and the warnings about them.
#[derive(Debug)]
pub(crate) struct Read {
    /// The files.
    pub(crate) sources: Sources,
    /// Warnings and notes.
    pub(crate) notes: Vec<Diagnostic>,
}

impl Reader {
    /// How this process reads what these flags gave.
    pub(crate) fn new(
        inputs: SharedInputs,
        paths: Paths,
        globals: Option<String>,
        modules: Vec<&'static Module>,
    ) -> Reader {
        let default_port = if is_superuser() { 80 } else { 8000 };
        Reader { inputs, paths, globals, modules, default_port }
    }

    /// Reads and checks everything that can be checked without touching anything.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(crate) fn read(&self) -> Result<Configuration, Box<Refusal>> {
        self.check(Arc::clone(&self.inputs), Kept::default())
    }

    /// Reads what comes after another configuration, and gives a record of all that was read, by which another process
    /// can do the same.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(crate) fn read_after(
        &self,
        before: &Configuration,
    ) -> Result<(Configuration, Vec<u8>), Box<Refusal>> {
        let recorder = Arc::new(Recorder::new(Arc::clone(&self.inputs)));
        let configuration = self.check(Arc::clone(&recorder) as SharedInputs, before.site.kept.clone())?;
        let record = recorder.record();
        recorder.forget();
        Ok((configuration, record))
    }

    /// What [`Reader::read_after`] gave to another process, in this one.
    ///
    /// # Errors
    /// Why it cannot be, for the log.
    pub(crate) fn replay(&self, record: &[u8], before: Kept) -> Result<Successor, String> {
        let recorder = Arc::new(Recorder::replay(record).map_err(|error| error.to_string())?);
        let mut loaded = self.load(Arc::clone(&recorder) as SharedInputs, before);
        let compile = |loaded: &mut server::Loaded| match loaded.error.take() {
            Some(error) => Err(error),
            None => {
                let main = loaded.config.view(Config::MAIN);
                let process = modules::process::settings(&main, &mut loaded.loading.notes)?;
                Ok(Successor { site: Site::compile(loaded, &self.modules)?, settings: settings(&process) })
            }
        };
        let result = compile(&mut loaded).map_err(|error| error.message);
        recorder.forget();
        result
    }

    fn load(&self, inputs: SharedInputs, before: Kept) -> server::Loaded {
        let mut loading = Loading::new(&self.paths.prefix, self.paths.conf_prefix());
        loading.logs.default_error_log = self.paths.error_log.clone();
        loading.default_port = self.default_port;
        loading.origin = Arc::new(Origin::new(Arc::clone(&inputs), before));
        let options = server::Options {
            path: self.paths.conf.clone(),
            prefix: self.paths.prefix.clone(),
            globals: self.globals.clone(),
        };
        server::load(&*inputs, &options, &self.modules, loading)
    }

    fn check(&self, inputs: SharedInputs, before: Kept) -> Result<Configuration, Box<Refusal>> {
        let mut loaded = self.load(inputs, before);
        let result = check(&mut loaded, &self.modules);
        let directories = loaded.loading.directories;
        let read = Read { sources: loaded.sources, notes: conf::grouped(loaded.loading.notes) };
        match result {
            Ok(Checked { site, process, identity, error_log }) => {
                Ok(Configuration { site: Arc::new(site), process, identity, error_log, directories, read })
            }
            Err(error) => Err(Box::new(Refusal { error, further: loaded.further, read })),
        }
    }
}

/// What of the settings of processes a worker takes over while it serves.
pub(crate) fn settings(process: &ProcessSettings) -> Settings {
    Settings {
        connections: usize::try_from(process.connections).unwrap_or(usize::MAX),
        shutdown_timeout: process.shutdown_timeout,
        drains: process.reloading == Reloading::Drain,
    }
}

impl Configuration {
    /// Whether a worker of this configuration can serve the other one, too: nothing differs that a process has from its
    /// start.
    pub(crate) fn suits_worker_of(&self, other: &Configuration) -> bool {
        let of_process = |settings: &ProcessSettings| ProcessSettings {
            user: None,
            daemon: true,
            pid: PathBuf::new(),
            connections: 0,
            shutdown_timeout: None,
            reloading: Reloading::Keep,
            ..settings.clone()
        };
        self.identity == other.identity && of_process(&self.process) == of_process(&other.process)
    }

    /// The addresses to listen on, in the site's order.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        let want = |listen: &server::Listen| Wanted {
            address: listen.address.clone(),
            options: listen.options.clone(),
            count: self.process.threads,
        };
        self.site.listens.iter().map(want).collect()
    }

    /// Makes the directories for temporary files, and opens all log files; nothing if all went well, else what to tell
    /// of each that did not.
    pub(crate) fn open_files(&self) -> Vec<Diagnostic> {
        let problems: Vec<_> =
            self.directories.iter().filter_map(|(path, at)| self.make(path, *at)).collect();
        if problems.is_empty() { self.open_logs() } else { problems }
    }

    /// Makes a directory for the worker, and none around it.
    fn make(&self, path: &Path, place: Span) -> Option<Diagnostic> {
        let owner = self.identity.as_ref().map(Identity::uid);
        let made = match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => owner.map_or(Ok(()), |owner| std::os::unix::fs::lchown(path, Some(owner), None)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        };
        let error = made.err()?;
        let text = format!("mkdir() \"{}\" failed ({})", path.display(), system_message(&error));
        Some(Diagnostic::emerg(text).at(place))
    }

    fn open_logs(&self) -> Vec<Diagnostic> {
        let tell = |(path, text): (PathBuf, String)| {
            let error = Diagnostic::emerg(text);
            let logs = &self.site.logs;
            let is_packaged = path == Path::new(ERROR_LOG) && logs.default_error_log.as_ref() == Some(&path);
            if path == logs.default_access_log {
                error.hint(NO_ACCESS_LOG)
            } else if is_packaged {
                error.hint(NO_ERROR_LOG)
            } else {
                error
            }
        };
        self.each_log(|_| Ok(())).map(tell).collect()
    }

    /// Further handles of all log files, which are open, in their order.
    ///
    /// # Errors
    /// No descriptors are left, or a file is not open.
    pub(crate) fn share_logs(&self) -> io::Result<Vec<OwnedFd>> {
        let files = self.site.logs.iter().filter(|file| file.path().is_some());
        let share = |file: Arc<LogFile>| Ok(file.share()?.ok_or(io::ErrorKind::NotFound)?.into());
        files.map(share).collect()
    }

    /// Opens all log files anew, and lets the worker do the same by itself; a text for each that failed.
    pub(crate) fn reopen_logs(&self) -> Vec<String> {
        self.each_log(|path| self.hand_over(path)).map(|(_, text)| text).collect()
    }

    /// The files that could not be opened, and why.
    fn each_log(&self, then: impl Fn(&Path) -> io::Result<()>) -> impl Iterator<Item = (PathBuf, String)> {
        let open = move |file: Arc<LogFile>| {
            let path = file.path()?;
            let error = file.open().and_then(|()| then(path)).err()?;
            let text = format!("open() \"{}\" failed ({})", path.display(), system_message(&error));
            Some((path.to_path_buf(), text))
        };
        self.site.logs.iter().filter_map(open)
    }

    /// Lets the worker open a log file that is the supervisor's. Whoever may write to the directory can put a link in
    /// its place: what a link leads to, or what has another name, too, is given to nobody.
    fn hand_over(&self, path: &Path) -> io::Result<()> {
        let Some(identity) = &self.identity else { return Ok(()) };
        let metadata = fs::metadata(path)?;
        if !metadata.is_file() || metadata.uid() == identity.uid() {
            return Ok(());
        }
        let file = net::append::open_itself(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.nlink() > 1 {
            return Err(io::Error::other("it has several names, and is not given to the worker"));
        }
        std::os::unix::fs::fchown(&file, Some(identity.uid()), None)?;
        file.set_permissions(fs::Permissions::from_mode(metadata.permissions().mode() | 0o600))
    }
}

impl Refusal {
    /// All that is known to be wrong.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        std::iter::once(&self.error).chain(&self.further)
    }
}

impl Read {
    /// The diagnostic as a person is shown it, with an excerpt. Ends with a newline.
    pub(crate) fn render(&self, diagnostic: &Diagnostic) -> String {
        conf::render(diagnostic, &self.sources, PROGRAM)
    }

    /// The diagnostic as one line of a log, without its level.
    pub(crate) fn line(&self, diagnostic: &Diagnostic) -> String {
        let headline = diagnostic.line(&self.sources, PROGRAM);
        let start = format!("{PROGRAM}: [{}] ", diagnostic.level);
        headline.strip_prefix(&start).unwrap_or(&headline).to_owned()
    }
}

struct Checked {
    site: Site,
    process: ProcessSettings,
    identity: Option<Identity>,
    error_log: Option<PathBuf>,
}

fn check(loaded: &mut server::Loaded, modules: &[&'static Module]) -> Result<Checked, Diagnostic> {
    if let Some(error) = loaded.error.take() {
        return Err(error);
    }
    let main = loaded.config.view(Config::MAIN);
    let process = modules::process::settings(&main, &mut loaded.loading.notes)?;
    let identity = match &process.user {
        Some(user) if is_superuser() => Some(look_up(user)?),
        Some(user) => {
            loaded.loading.note(user_is_ignored(user));
            None
        }
        None if is_superuser() && process.master_process => Some(default_identity()?),
        None => None,
    };
    let site = Site::compile(loaded, modules)?;
    let log = modules::error_log::of_level(&loaded.config.view(Config::MAIN), &loaded.loading.logs);
    let error_log = log.path().map(Path::to_path_buf);
    Ok(Checked { site, process, identity, error_log })
}

fn look_up(user: &User) -> Result<Identity, Diagnostic> {
    Identity::look_up(&user.name, user.group.as_deref())
        .map_err(|error| Diagnostic::emerg(error.to_string()).at(user.span))
}

fn user_is_ignored(user: &User) -> Diagnostic {
    let why = "the \"user\" directive makes sense only if the master process runs with super-user privileges";
    Diagnostic::warn(format!("{why}, ignored")).at(user.span)
}

fn default_identity() -> Result<Identity, Diagnostic> {
    let look_up = |group: &&str| Identity::look_up(DEFAULT_USER, Some(group)).ok();
    DEFAULT_GROUPS.iter().find_map(look_up).ok_or_else(|| {
        let message = format!("the user \"{DEFAULT_USER}\", or a group for it, does not exist");
        Diagnostic::emerg(message).hint("name another one with the \"user\" directive")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Configuration, Box<Refusal>> {
        let conf = Path::new("/etc/x/x.conf");
        let paths = Paths {
            conf: conf.to_path_buf(),
            prefix: PathBuf::from("/p"),
            error_log: None,
            error_log_given: false,
        };
        let inputs = Arc::new(conf::Memory::default().with(conf, text));
        Reader::new(inputs, paths, None, modules::ALL.to_vec()).read()
    }

    fn error(text: &str) -> String {
        let refusal = read(text).map(|_| ()).unwrap_err();
        refusal.read.line(&refusal.error)
    }

    #[test]
    fn what_a_configuration_says_of_processes_is_found() {
        let text = "worker_processes 3; error_log e.log; events {}
            http { access_log a.log; server { listen 8081; } server { listen [::1]:8082; } }";
        let configuration = read(text).map_err(|refusal| refusal.error).unwrap();
        assert_eq!(configuration.error_log.as_deref(), Some(Path::new("/p/e.log")));
        let wanted = configuration.wanted();
        let shown: Vec<_> = wanted.iter().map(|want| (want.address.to_string(), want.count)).collect();
        assert_eq!(shown, [("0.0.0.0:8081".to_owned(), 3), ("[::1]:8082".to_owned(), 3)]);
        assert_eq!(configuration.identity.is_some(), is_superuser());
        let stderr = read("events {}").map_err(|refusal| refusal.error).unwrap();
        assert_eq!(stderr.error_log, None);
    }

    #[test]
    fn refusals_name_the_place() {
        assert_eq!(error("\nnonsense;"), "unknown directive \"nonsense\" in /etc/x/x.conf:2");
        assert_eq!(error("events {} http { server { listen 1; listen 1; } }"), {
            "a duplicate listen 0.0.0.0:1 in /etc/x/x.conf:1"
        });
        if is_superuser() {
            let text = "getpwnam(\"no-such-user\") failed in /etc/x/x.conf:1";
            assert_eq!(error("user no-such-user;"), text);
        } else {
            let read = read("user root;").map_err(|refusal| refusal.error).unwrap().read;
            assert!(read.line(&read.notes[0]).ends_with("privileges, ignored in /etc/x/x.conf:1"));
        }
    }

    #[test]
    fn a_log_that_cannot_be_opened_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let (good, bad) = (directory.path().join("e"), directory.path().join("none/e"));
        let open = |path: &Path| {
            let configuration = read(&format!("error_log {};", path.display()));
            configuration.map_err(|refusal| refusal.error).unwrap().open_logs()
        };
        assert!(open(&good).is_empty() && good.exists());
        let text = format!("open() \"{}\" failed (2: No such file or directory)", bad.display());
        assert_eq!(open(&bad), [Diagnostic::emerg(text)]);
        assert_eq!(fs::metadata(&good).unwrap().permissions().mode() & 0o022, 0);
    }
}
