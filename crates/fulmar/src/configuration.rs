//! From the files to a configuration that can serve, or to the reason why not.

use std::fs::DirBuilder;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use conf::{Diagnostic, Inputs, Sources, Span};
use contract::{Config, Kept, Loading, Module, Origin};
use journal::LogFile;
use modules::apache::httpd;
use modules::connection::process::{EVENTS, ProcessSettings, Reloading, User};
use net::bind::Wanted;
use net::identity::{Identity, is_superuser};
use net::system_message;
use server::{Settings, Successor};
use site::{HTTP, Site};

use crate::certificates::Certificates;
use crate::console::PROGRAM;
use crate::issuance::Issuance;
use crate::paths::{PID, Paths};
use crate::recorder::Recorder;

/// The user of the worker if the supervisor runs as root and the configuration names no user.
const DEFAULT_USER: &str = "nobody";
/// That user's group, by its name on different systems.
const DEFAULT_GROUPS: [&str; 2] = ["nogroup", "nobody"];

/// What to do where the default directory for temporary files cannot be used.
const NO_TEMPORARY_FILES: &str = "long bodies would be cut: name other directories with \"client_body_temp_path\" and \
     \"proxy_temp_path\", or set TMPDIR";

/// What to do where the default access log cannot be opened.
const NO_ACCESS_LOG: &str = "this is the default place: name another one with \"access_log FILE;\" in \"http {}\", or \
     write \"access_log off;\"";
/// The same for the error log.
const NO_ERROR_LOG: &str = "this is the default place: name another one with \"error_log FILE;\" at the top, or with \
     -e FILE (-e stderr for this terminal)";

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
    /// Where the main level's error log is; none if that is the standard error stream.
    pub(crate) error_log: Option<PathBuf>,
    /// The directories for temporary files, and where they were named.
    directories: Vec<(PathBuf, Span)>,
    /// The files, and what there is to tell about them.
    pub(crate) read: Read,
    /// The files that are served without a reload when they change.
    pub(crate) certificates: Certificates,
    /// The certificates that authorities are asked for.
    pub(crate) issuance: Option<Issuance>,
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
        self.record(Recorder::new(Arc::clone(&self.inputs)), Kept::default())
            .map(|(configuration, _)| configuration)
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
        self.record(Recorder::new(Arc::clone(&self.inputs)), before.site.kept.clone())
    }

    /// Reads a configuration once more from what was recorded, but its certificates from their files. The result is as
    /// for [`Reader::read_after`].
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(crate) fn renew(&self, before: &Configuration) -> Result<(Configuration, Vec<u8>), Box<Refusal>> {
        let inputs = Arc::clone(&self.inputs);
        // The record is this process's own; a malformed one would mean that everything is read again.
        let recorder = Recorder::resume(&before.certificates.record, Arc::clone(&inputs));
        self.record(recorder.unwrap_or_else(|_| Recorder::new(inputs)), before.site.kept.clone())
    }

    fn record(&self, recorder: Recorder, before: Kept) -> Result<(Configuration, Vec<u8>), Box<Refusal>> {
        let recorder = Arc::new(recorder);
        let mut configuration = self.check(Arc::clone(&recorder) as SharedInputs, before)?;
        let record = recorder.record();
        let issued = configuration.issuance.iter().flat_map(|issuance| issuance.plan.files());
        let watched: Vec<PathBuf> = configuration.site.watched.iter().chain(issued).cloned().collect();
        configuration.certificates = Certificates::new(&watched, &recorder);
        Ok((configuration, record))
    }

    /// What [`Reader::read_after`] gave to another process, in this one.
    ///
    /// # Errors
    /// Why it cannot be, for the log.
    pub(crate) fn replay(&self, record: &[u8], before: Kept) -> Result<Successor, String> {
        let recorder = Arc::new(Recorder::replay(record).map_err(|error| error.to_string())?);
        let mut loaded = self.load(Arc::clone(&recorder) as SharedInputs, before);
        let compile = |loaded: &mut site::Loaded| match loaded.error.take() {
            Some(error) => Err(error),
            None => {
                let main = loaded.config.view(Config::MAIN);
                let process = modules::connection::process::settings(&main, &mut loaded.loading.notes)?;
                Ok(Successor { site: Site::compile(loaded, &self.modules)?, settings: settings(&process) })
            }
        };
        let result = compile(&mut loaded).map_err(|error| error.message);
        recorder.forget();
        result
    }

    /// The pid file that a configuration with an error names. None if a file cannot be read, if the grammar is wrong, or if
    /// `pid` does not have one argument.
    pub(crate) fn pid_path(&self) -> Option<PathBuf> {
        let loaded = conf::load(&*self.inputs, &self.paths.conf, self.globals.as_deref());
        let named = loaded.nodes.iter().find(|node| &*node.name.text == b"pid").map(|node| &*node.args);
        match (loaded.error, named) {
            (None, None) => Some(PathBuf::from(PID)),
            (None, Some([path])) => {
                let loading = Loading::new(&self.paths.prefix, self.paths.conf_prefix());
                Some(loading.path(&path.text))
            }
            _ => None,
        }
    }

    /// Whether the directives, and the servers, addresses and locations of `http` and `stream`, can be read. Files that the configuration
    /// names, such as certificates, are not read.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(crate) fn structure(&self) -> Result<(), Box<Refusal>> {
        let loaded = self.load(Arc::clone(&self.inputs), Kept::default());
        let Some(error) = loaded.error.or(loaded.plan.err()) else { return Ok(()) };
        let read = Read { sources: loaded.sources, notes: Vec::new() };
        Err(Box::new(Refusal { error, further: loaded.further, read }))
    }

    fn load(&self, inputs: SharedInputs, before: Kept) -> site::Loaded {
        let mut loading = Loading::new(&self.paths.prefix, self.paths.conf_prefix());
        loading.logs.default_error_log = self.paths.error_log.clone();
        loading.logs.error_log_is_named = self.paths.error_log_given;
        loading.default_port = self.default_port;
        loading.origin = Arc::new(Origin::new(Arc::clone(&inputs), before));
        let options = site::Options {
            path: self.paths.conf.clone(),
            prefix: self.paths.prefix.clone(),
            globals: self.globals.clone(),
            apache: site::ApacheOptions {
                defaults: httpd::DEFAULTS,
                server_defaults: httpd::SERVER_DEFAULTS,
                is_built: httpd::is_built,
            },
        };
        site::load(&*inputs, &options, &self.modules, loading)
    }

    fn check(&self, inputs: SharedInputs, before: Kept) -> Result<Configuration, Box<Refusal>> {
        let mut loaded = self.load(inputs, before);
        let result = check(&mut loaded, &self.modules);
        let directories = loaded.loading.directories;
        let read = Read { sources: loaded.sources, notes: conf::grouped(loaded.loading.notes) };
        match result {
            Ok(Checked { site, process, identity, error_log, issuance }) => {
                let (site, certificates) = (Arc::new(site), Certificates::default());
                Ok(Configuration {
                    site,
                    process,
                    identity,
                    error_log,
                    directories,
                    read,
                    certificates,
                    issuance,
                })
            }
            Err(error) => Err(Box::new(Refusal { error, further: loaded.further, read })),
        }
    }
}

/// Gives a directory to the worker that an administrator made for it: one of root that is empty. Any other is left as
/// it is, since the configuration may name it by mistake.
fn hand_over(path: &Path, owner: u32) -> io::Result<()> {
    let metadata = path.symlink_metadata()?;
    let is_of_root = metadata.is_dir() && metadata.uid() == 0 && owner != 0;
    if !is_of_root || path.read_dir()?.next().is_some() {
        return Ok(());
    }
    std::os::unix::fs::lchown(path, Some(owner), None)
}

/// What of the settings of processes a worker takes over while it serves.
pub(crate) fn settings(process: &ProcessSettings) -> Settings {
    Settings {
        connections: usize::try_from(process.connections).unwrap_or(usize::MAX),
        shutdown_timeout: process.shutdown_timeout,
        request_memory: request_memory(process),
        drains: process.reloading == Reloading::Drain,
    }
}

/// How many bytes requests may hold: what the configuration says, or half of the machine's memory.
fn request_memory(process: &ProcessSettings) -> Option<usize> {
    let written =
        process.request_memory.map(|memory| memory.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)));
    written.unwrap_or_else(|| net::process::machine_memory().map(|bytes| bytes / 2))
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
            request_memory: None,
            shutdown_timeout: None,
            reloading: Reloading::Keep,
            ..settings.clone()
        };
        // A worker has the memory for answers to authorities from its start.
        let answers = |issuance: &Option<Issuance>| issuance.as_ref().map(|it| Arc::as_ptr(&it.answers));
        answers(&self.issuance) == answers(&other.issuance)
            && self.identity == other.identity
            && of_process(&self.process) == of_process(&other.process)
    }

    /// The addresses to listen on, in the site's order.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        let want = |listen: &site::Listen| Wanted {
            endpoint: listen.endpoint.clone(),
            options: listen.options.clone(),
            count: self.process.threads,
        };
        self.site.listens.iter().map(want).collect()
    }

    /// Makes the directories for temporary files for the worker, and opens all log files. Gives what went wrong: errors, and warnings
    /// about default logs, whose lines go to the standard error stream from now on.
    pub(crate) fn open_files(&self) -> Vec<Diagnostic> {
        let default = net::temporary::own_directory().map_or(Ok(()), |path| self.make(path));
        let open = |file: &LogFile| {
            let opened = file.open();
            if opened.is_ok() || file.is_named() { opened } else { file.fall_back().and(opened) }
        };
        self.each_file(|path| self.make(path), open).into_iter().chain(self.unwritable(default)).collect()
    }

    /// What [`Configuration::open_files`] would give; creates and changes nothing.
    pub(crate) fn check_files(&self) -> Vec<Diagnostic> {
        let check = |path: &Path| match fs::symlink_metadata(path) {
            Ok(_) => Ok(()),
            Err(_) => net::append::check_creation(path),
        };
        self.each_file(check, LogFile::check).into_iter().chain(self.unwritable(Ok(()))).collect()
    }

    /// A warning if the worker cannot write to the default directory for temporary files, or if it was not made.
    fn unwritable(&self, made: io::Result<()>) -> Option<Diagnostic> {
        let path = net::temporary::directory();
        // At its start the server makes a directory that only it uses.
        let is_made_later = net::temporary::own_directory().is_some() && fs::symlink_metadata(&path).is_err();
        let error = match made {
            Ok(()) if is_made_later => net::append::check_creation(&path),
            Ok(()) => self.check_writable(&path),
            Err(error) => Err(error),
        };
        let text = format!(
            "no temporary files can be written to \"{}\" ({})",
            path.display(),
            system_message(&error.err()?)
        );
        Some(Diagnostic::warn(text).hint(NO_TEMPORARY_FILES))
    }

    /// Whether the worker can make files in a directory, as far as its owner and mode say. Root can write everywhere.
    fn check_writable(&self, path: &Path) -> io::Result<()> {
        let metadata = fs::metadata(path)?;
        let (mode, worker) = (metadata.permissions().mode(), self.identity.as_ref().map(Identity::uid));
        let is_open = match worker {
            _ if !metadata.is_dir() => return Err(io::ErrorKind::NotADirectory.into()),
            None | Some(0) => return net::append::check_creation(&path.join("fulmar-check")),
            Some(uid) if uid == metadata.uid() => mode & 0o300 == 0o300,
            // The worker may be in the group of the directory.
            Some(_) => mode & 0o003 == 0o003 || mode & 0o030 == 0o030,
        };
        if is_open { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }

    /// Prepares each directory; where that went well, each log.
    fn each_file(
        &self,
        directory: impl Fn(&Path) -> io::Result<()>,
        log: impl Fn(&LogFile) -> io::Result<()>,
    ) -> Vec<Diagnostic> {
        let failed = |(path, place): &(PathBuf, Span)| {
            let error = directory(path).err()?;
            let text = format!("mkdir() \"{}\" failed ({})", path.display(), system_message(&error));
            Some(Diagnostic::emerg(text).at(*place))
        };
        let problems: Vec<_> = self.directories.iter().filter_map(failed).collect();
        if !problems.is_empty() {
            return problems;
        }
        self.site.logs.iter().filter_map(|file| Some(self.unopened(&file, &log(&file).err()?))).collect()
    }

    /// Makes a directory for the worker, and none around it.
    fn make(&self, path: &Path) -> io::Result<()> {
        let owner = self.identity.as_ref().map(Identity::uid);
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => owner.map_or(Ok(()), |owner| std::os::unix::fs::lchown(path, Some(owner), None)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                owner.map_or(Ok(()), |owner| hand_over(path, owner))
            }
            Err(error) => Err(error),
        }
    }

    fn unopened(&self, file: &LogFile, error: &io::Error) -> Diagnostic {
        let path = file.path().unwrap_or(Path::new(""));
        let text = format!("open() \"{}\" failed ({})", path.display(), system_message(error));
        if file.is_named() {
            return Diagnostic::emerg(text);
        }
        let (what, hint) = match path == self.site.logs.default_access_log {
            true => ("requests", NO_ACCESS_LOG),
            false => ("errors", NO_ERROR_LOG),
        };
        Diagnostic::warn(format!("{text}, {what} are logged to the standard error stream")).hint(hint)
    }

    /// The main level's error log; none if that is the standard error stream.
    pub(crate) fn error_log_file(&self) -> Option<Arc<LogFile>> {
        let file = self.site.logs.find(self.error_log.as_ref()?)?;
        Some(file).filter(|file| !file.has_fallen_back())
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
        let reopen = |file: Arc<LogFile>| {
            let path = file.path()?;
            let hand_over = || if file.has_fallen_back() { Ok(()) } else { self.hand_over(path) };
            let error = file.open().and_then(|()| hand_over()).err()?;
            Some(format!("open() \"{}\" failed ({})", path.display(), system_message(&error)))
        };
        self.site.logs.iter().filter_map(reopen).collect()
    }

    /// Lets the worker open a log file that is the supervisor's. A user who may write to the directory can put a link
    /// in its place. So the file is not handed over if it is a link or has more than one name.
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
    issuance: Option<Issuance>,
}

fn check(loaded: &mut site::Loaded, modules: &[&'static Module]) -> Result<Checked, Diagnostic> {
    if let Some(error) = loaded.error.take() {
        return Err(error);
    }
    let main = loaded.config.view(Config::MAIN);
    // A reload may read a file that an editor has just emptied: the server would stop listening.
    if main.get(&HTTP).is_none() && main.get(&EVENTS).is_none() {
        return Err(Diagnostic::emerg("no \"events\" section in configuration"));
    }
    let process = modules::connection::process::settings(&main, &mut loaded.loading.notes)?;
    let identity = match &process.user {
        Some(user) if is_superuser() => Some(look_up(user)?),
        Some(user) => {
            loaded.loading.note(user_is_ignored(user));
            None
        }
        None if is_superuser() && process.master_process => Some(default_identity()?),
        None => None,
    };
    let issuance = modules::connection::acme::plan(&loaded.config)?;
    let issuance = issuance.map(|(plan, answers)| Issuance { plan: Arc::new(plan), answers });
    let site = Site::compile(loaded, modules)?;
    let log = modules::logging::error_log::of_level(&loaded.config.view(Config::MAIN), &loaded.loading.logs);
    let error_log = log.path().map(Path::to_path_buf);
    Ok(Checked { site, process, identity, error_log, issuance })
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
    fn only_an_empty_directory_of_root_is_handed_over() {
        const OTHER: u32 = 65534;
        let around = tempfile::tempdir().unwrap();
        let [empty, full] = ["empty", "full"].map(|name| around.path().join(name));
        std::fs::create_dir(&empty).unwrap();
        std::fs::create_dir_all(full.join("inner")).unwrap();
        let uid = |path: &Path| path.metadata().unwrap().uid();
        if uid(&empty) != 0 {
            println!("skipped: it needs root");
            return;
        }
        hand_over(&empty, OTHER).unwrap();
        hand_over(&full, OTHER).unwrap();
        assert_eq!((uid(&empty), uid(&full)), (OTHER, 0));
    }

    #[test]
    fn what_a_configuration_says_of_processes_is_found() {
        let text = "worker_processes 3; error_log e.log; events {}
            http { access_log a.log; server { listen 8081; } server { listen [::1]:8082; } }";
        let configuration = read(text).map_err(|refusal| refusal.error).unwrap();
        assert_eq!(configuration.error_log.as_deref(), Some(Path::new("/p/e.log")));
        let wanted = configuration.wanted();
        let shown: Vec<_> = wanted.iter().map(|want| (want.endpoint.to_string(), want.count)).collect();
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
            assert_eq!(error("user no-such-user; events {}"), text);
        } else {
            let read = read("user root; events {}").map_err(|refusal| refusal.error).unwrap().read;
            assert!(read.line(&read.notes[0]).ends_with("privileges, ignored in /etc/x/x.conf:1"));
        }
    }

    #[test]
    fn a_log_that_cannot_be_opened_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let (good, bad) = (directory.path().join("e"), directory.path().join("none/e"));
        let open = |path: &Path| {
            let configuration = read(&format!("error_log {}; events {{}}", path.display()));
            configuration.map_err(|refusal| refusal.error).unwrap().open_files()
        };
        let check = |path: &Path| {
            let configuration = read(&format!("error_log {}; events {{}}", path.display()));
            configuration.map_err(|refusal| refusal.error).unwrap().check_files()
        };
        assert!(check(&good).is_empty() && !good.exists());
        assert!(open(&good).is_empty() && good.exists());
        let text = format!("open() \"{}\" failed (2: No such file or directory)", bad.display());
        assert_eq!(open(&bad), [Diagnostic::emerg(text.clone())]);
        assert_eq!(check(&bad), [Diagnostic::emerg(text)]);
        assert_eq!(fs::metadata(&good).unwrap().permissions().mode() & 0o022, 0);
    }
}
