//! The start of a server, in nginx's order: what tools rely on is that the pid file means *it listens*.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use conf::Diagnostic;
use journal::{ErrorLog, Level};
use net::bind::{Notice, Patience};
use net::control::ControlSocket;
use net::identity::is_superuser;
use net::inherited::{self, Inherited};
use net::process::{Fork, daemonize, set_dumpable};
use net::signal::{SignalQueue, hear_of_parents_end};
use net::{BindError, system_message};

use crate::configuration::{Configuration, Reader};
use crate::console::err;
use crate::messages;
use crate::pid_file::PidFile;
use crate::service_manager::ServiceManager;
use crate::sockets::Sockets;
use crate::supervisor::{Generation, Process, Role, Settled, Supervisor};

/// What this process is started as.
pub(crate) enum Purpose {
    /// A separate server, started with this command line.
    Server(Vec<OsString>),
    /// `serve`: no pid file, no upgrade, and this greeting once it listens.
    Embedded(Box<dyn FnOnce()>),
}

/// Starts a server and runs it; returns when it stopped, or in each process that has nothing left to do.
///
/// `log` is the one that is written to until the configuration's own are open.
pub(crate) fn run(reader: Reader, log: ErrorLog, purpose: Purpose) -> ExitCode {
    let mut inherited = match inherited::take() {
        Ok(inherited) => inherited,
        Err(error) => return give_up(&system_message(&error), &log),
    };
    // The configuration has private keys: no core file may have them. Without the rights of the superuser a process that
    // leaves none has no access to its own files below /proc.
    if is_superuser()
        && let Err(error) = set_dumpable(false)
    {
        return give_up(&system_message(&error), &log);
    }
    let configuration = match reader.read() {
        Ok(configuration) => configuration,
        Err(refusal) => {
            messages::refusal(&refusal, &log);
            return ExitCode::FAILURE;
        }
    };
    messages::notes(&configuration.read, &log);
    let problems = configuration.open_files();
    problems.iter().for_each(|problem| messages::diagnostic(problem, &configuration.read, &log));
    if problems.iter().any(Diagnostic::is_error) {
        return ExitCode::FAILURE;
    }
    drop(log);
    let has_predecessor = inherited.predecessor.is_some();
    let older = inherited.link.take();
    let (mut service_manager, problem) = ServiceManager::from_environment(has_predecessor);
    if let Some(problem) = problem {
        configuration.site.log(Level::Warn, &problem);
    }
    let sockets = match sockets(&configuration, inherited, &mut service_manager) {
        Ok(sockets) => sockets,
        // Failures of single addresses are reported already.
        Err(error @ BindError::StillInUse) => return give_up_with(&configuration, &error.to_string()),
        Err(BindError::Call { .. }) => return ExitCode::FAILURE,
    };
    match settle(&configuration, purpose, has_predecessor, service_manager) {
        Ok(Some(settled)) => {
            let generation = Generation { number: 1, configuration, sockets };
            supervise(Supervisor::new(reader, generation, Settled { older, ..settled }))
        }
        Ok(None) => ExitCode::SUCCESS,
        Err(text) => {
            sockets.remove_paths(&Sockets::default());
            give_up_with(&configuration, &text)
        }
    }
}

fn supervise(supervisor: Supervisor) -> ExitCode {
    match supervisor.run() {
        Ok(Role::Worker(task)) => task.perform(),
        Ok(Role::Issuer(task)) => task.perform(),
        Ok(Role::Ended(true)) => ExitCode::SUCCESS,
        Ok(Role::Ended(false)) => ExitCode::FAILURE,
        Err(error) => give_up(&system_message(&error), &ErrorLog::default()),
    }
}

/// Opens what is to be listened on, apart from what was inherited.
fn sockets(
    configuration: &Configuration,
    inherited: Inherited,
    service_manager: &mut ServiceManager,
) -> Result<Sockets, BindError> {
    let site = &configuration.site;
    if let Some(value) = inherited.predecessor.filter(|value| !value.is_empty()) {
        site.log(Level::Notice, &format!("using inherited sockets from \"{value}\""));
    }
    for socket in inherited.sockets.iter().filter(|socket| socket.is_lent()) {
        site.log(Level::Notice, &format!("using the service manager's socket {}", socket.endpoint()));
    }
    for problem in &inherited.problems {
        tell(configuration, Level::Emerg, &problem.to_string());
    }
    let notice = |notice: Notice<'_>| match notice {
        Notice::Failed(error) => {
            tell(configuration, Level::Emerg, &error.to_string());
            error.hint().into_iter().for_each(|hint| err(&format!("  hint: {hint}\n")));
        }
        Notice::Retrying(pause) => {
            site.log(Level::Notice, &format!("try again to bind() after {}ms", pause.as_millis()));
        }
    };
    let (inherited, wanted) = (Sockets::inherited(inherited.sockets), configuration.wanted());
    service_manager.keeps(&inherited);
    for address in inherited.superfluous(&wanted) {
        let text = format!("the service manager listens on {address}, but no \"listen\" names that address");
        site.log(Level::Warn, &text);
    }
    let sockets = inherited.prepare(&wanted, Patience::default(), notice)?;
    sockets.shortages().iter().for_each(|shortage| site.log(Level::Warn, shortage));
    Ok(sockets)
}

/// Goes to the background, writes the pid file, and listens to signals; none in the process that stays behind.
fn settle(
    configuration: &Configuration,
    purpose: Purpose,
    inherited: bool,
    service_manager: ServiceManager,
) -> Result<Option<Settled>, String> {
    let failed = |call: &str, error: &io::Error| format!("{call} failed ({})", system_message(error));
    let daemon = configuration.process.daemon && matches!(purpose, Purpose::Server(_));
    if daemon && !inherited {
        // Checked while the parent process still waits for the exit status.
        PidFile::try_open(&configuration.process.pid)?;
        let fork = daemonize().map_err(|error| failed("fork()", &error))?;
        if fork != Fork::Child {
            return Ok(None);
        }
    }
    // Before the pid file, which invites signals.
    let signals = SignalQueue::new().map_err(|error| failed("signalfd()", &error))?;
    if inherited {
        // Else the service manager gets it with the next signal.
        drop(hear_of_parents_end());
    }
    let control = ControlSocket::open().ok();
    let (arguments, pid_file) = match purpose {
        Purpose::Server(arguments) => (Some(arguments), Some(PidFile::write(&configuration.process.pid)?)),
        Purpose::Embedded(greet) => {
            greet();
            (None, None)
        }
    };
    if daemon {
        keep_last_words(configuration);
    }
    let version = server::VERSION;
    configuration.site.log(Level::Notice, &format!("fulmar/{version}, compatible with nginx/1.31.5"));
    let daemon = daemon || inherited;
    let process = Process { signals, control, pid_file, daemon, service_manager };
    Ok(Some(Settled { arguments, inherited, older: None, process }))
}

/// Lets what a daemon says on its error stream, a crash's message say, end in the error log.
pub(crate) fn keep_last_words(configuration: &Configuration) {
    let Some(log) = configuration.error_log_file() else { return };
    if let Err(error) = log.take_stderr() {
        let text = format!("dup2(STDERR) failed ({})", system_message(&error));
        configuration.site.log(Level::Alert, &text);
    }
}

fn give_up(text: &str, log: &ErrorLog) -> ExitCode {
    messages::message(Level::Emerg, text, log);
    ExitCode::FAILURE
}

fn give_up_with(configuration: &Configuration, text: &str) -> ExitCode {
    tell(configuration, Level::Emerg, text);
    ExitCode::FAILURE
}

/// To the configured log, and to the person who started the server.
fn tell(configuration: &Configuration, level: Level, text: &str) {
    configuration.site.log(level, text);
    if configuration.error_log_file().is_some() {
        messages::message(level, text, &ErrorLog::default());
    }
}
