//! One worker: a separate process, or a thread where `master_process off`.

use std::io;
use std::mem::discriminant;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use journal::Level;
use net::channel::{Command, Incoming, Parcel, Report, SupervisorEnd, channel};
use net::identity::Identity;
use net::process::{self, Fork, Pid};
use net::signal::{self, Signal};
use net::{BoundSocket, DatagramLink, system_message};
use site::Site;

use crate::configuration::{Configuration, Reader, settings};
use crate::surroundings::{Surroundings, processors};

/// The exit status of a worker that another try would not help.
pub(crate) const FATAL: i32 = 2;

/// How far a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It does not accept on all threads yet.
    Starting,
    /// It accepts.
    Serving,
    /// It has the command to end.
    Leaving,
}

/// A worker as the supervisor sees it.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Which configuration it serves, counted from the start.
    pub(crate) generation: u32,
    /// How far it is.
    pub(crate) stage: Stage,
    /// When it was started.
    pub(crate) started: Instant,
    /// What it last complained about.
    pub(crate) complaint: Option<String>,
    running: Running,
    channel: Option<SupervisorEnd>,
    /// The commands to send as soon as it reads again, each kind once.
    unsent: Vec<Command>,
}

#[derive(Debug)]
enum Running {
    Process(Pid),
    Thread(JoinHandle<io::Result<()>>),
}

/// In which process [`launch`] returned.
pub(crate) enum Launched {
    /// In the supervisor.
    Supervisor(Worker),
    /// In the new worker, which drops all that is the supervisor's and then performs its task.
    Worker(Box<Task>),
}

/// What a new worker process is to do.
pub(crate) struct Task {
    worker: server::Worker,
    identity: Option<Identity>,
    open_files: OpenFiles,
    surroundings: Surroundings,
    directory: Option<std::path::PathBuf>,
}

/// Starts a worker on a configuration and on these sockets.
///
/// # Errors
/// The system has no process, thread or descriptor left.
pub(crate) fn launch(
    configuration: &Configuration,
    sockets: Vec<Vec<BoundSocket>>,
    generation: u32,
    reader: &Arc<Reader>,
    older: Option<DatagramLink>,
) -> io::Result<Launched> {
    let (supervisor_end, worker_end) = channel()?;
    let process = &configuration.process;
    let worker = server::Worker {
        site: Arc::clone(&configuration.site),
        sockets,
        threads: process.threads,
        processors: processors(process),
        settings: settings(process),
        replay: {
            let reader = Arc::clone(reader);
            Arc::new(move |record: &[u8], before| reader.replay(record, before))
        },
        channel: worker_end,
        older,
    };
    let running = if process.master_process {
        // What reading the configuration left behind is in pieces between all that stays.
        process::tidy_memory();
        match process::fork()? {
            Fork::Parent(pid) => Running::Process(pid),
            Fork::Child => {
                return Ok(Launched::Worker(Box::new(Task {
                    worker,
                    identity: configuration.identity.clone(),
                    open_files: OpenFiles::new(configuration),
                    surroundings: Surroundings::new(process),
                    directory: process.working_directory.clone(),
                })));
            }
        }
    } else {
        let open_files = OpenFiles::new(configuration);
        let run = move || {
            open_files.allow(&worker.site);
            server::run(worker)
        };
        Running::Thread(thread::Builder::new().name("worker".to_owned()).spawn(run)?)
    };
    Ok(Launched::Supervisor(Worker {
        generation,
        stage: Stage::Starting,
        started: Instant::now(),
        complaint: None,
        running,
        channel: Some(supervisor_end),
        unsent: Vec::new(),
    }))
}

impl Task {
    /// Serves until the supervisor says otherwise; the result is the process's exit status.
    pub(crate) fn perform(self) -> ExitCode {
        if let Err(reason) = self.prepare() {
            self.worker.site.log(Level::Emerg, &reason);
            drop(self.worker.channel.send(&Report::Text(reason)));
            return ExitCode::from(u8::try_from(FATAL).unwrap_or(u8::MAX));
        }
        match server::run(self.worker) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        }
    }

    /// Gives up what a worker must not have.
    fn prepare(&self) -> Result<(), String> {
        let failed = |call: &str| {
            let call = call.to_owned();
            move |error: io::Error| format!("{call} failed ({})", system_message(&error))
        };
        signal::restore_after_fork().map_err(failed("sigprocmask()"))?;
        self.open_files.allow(&self.worker.site);
        self.surroundings.assume(&self.worker.site);
        if let Some(identity) = &self.identity {
            identity.assume().map_err(|error| error.to_string())?;
        }
        self.surroundings.allow_core_file(&self.worker.site);
        if let Some(directory) = &self.directory {
            let call = format!("chdir(\"{}\")", directory.display());
            std::env::set_current_dir(directory).map_err(failed(&call))?;
        }
        Ok(())
    }
}

impl Worker {
    /// Tells the worker something. One that is gone already needs no telling, and one that does not read now gets it
    /// later ([`Worker::tell_again`]).
    pub(crate) fn tell(&mut self, command: Command) {
        if matches!(command, Command::Quit | Command::Terminate) {
            self.stage = Stage::Leaving;
        }
        let kind = discriminant(&command);
        self.unsent.retain(|unsent| discriminant(unsent) != kind);
        self.unsent.push(command);
        self.tell_again();
    }

    /// Sends the worker the commands that could not be sent before; returns whether it has all of them now.
    pub(crate) fn tell_again(&mut self) -> bool {
        let Some(channel) = &self.channel else { return true };
        let waits = |command: &Command| {
            channel.send(*command).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        let sent = self.unsent.iter().position(waits).unwrap_or(self.unsent.len());
        self.unsent.drain(..sent);
        self.unsent.is_empty()
    }

    /// Gives the worker another configuration to serve.
    ///
    /// # Errors
    /// It is gone, or does not listen.
    pub(crate) fn hand_over(&self, parcel: &Parcel) -> io::Result<()> {
        match &self.channel {
            Some(channel) => channel.send_parcel(parcel),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Tells the worker of a newer one, which reads its sockets of datagrams and passes on those of its sessions. Returns the
    /// newer one's end of their line.
    ///
    /// # Errors
    /// It is gone, does not listen, or no descriptors are left.
    pub(crate) fn introduce_newer(&self) -> io::Result<DatagramLink> {
        let Some(channel) = &self.channel else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let (older, newer) = DatagramLink::pair()?;
        channel.send_link(&newer)?;
        Ok(older)
    }

    /// Ends a worker process that does not end by itself.
    pub(crate) fn kill(&self) {
        if let Running::Process(pid) = self.running {
            drop(signal::send(pid, Signal::SIGKILL));
        }
    }

    /// What can be waited for: the worker's reports.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(AsFd::as_fd)
    }

    /// The next report; `None` if there is none yet, or if the worker has ended.
    pub(crate) fn report(&mut self) -> Option<Report> {
        match self.channel.as_ref()?.receive() {
            Ok(Incoming::Report(report)) => Some(report),
            Ok(Incoming::Empty) => None,
            Ok(Incoming::Closed) | Err(_) => {
                self.channel = None;
                None
            }
        }
    }

    /// Whether it runs as this process.
    pub(crate) fn is_process(&self, pid: Pid) -> bool {
        matches!(self.running, Running::Process(own) if own == pid)
    }

    /// Whether it is a thread of this process.
    pub(crate) fn is_thread(&self) -> bool {
        matches!(self.running, Running::Thread(_))
    }

    /// Whether it is a thread that left its channel, and so ends.
    pub(crate) fn is_thread_at_its_end(&self) -> bool {
        self.is_thread() && self.channel.is_none()
    }

    /// Waits for the end of a thread; success at once for a process.
    pub(crate) fn join(self) -> io::Result<()> {
        match self.running {
            Running::Process(_) => Ok(()),
            Running::Thread(handle) => {
                handle.join().unwrap_or_else(|_| Err(io::Error::other("the worker panicked")))
            }
        }
    }

    /// How messages call it.
    pub(crate) fn name(&self) -> String {
        match self.running {
            Running::Process(pid) => format!("worker process {pid}"),
            Running::Thread(_) => "worker thread".to_owned(),
        }
    }
}

/// The limit of open files of a worker: what nginx gives each of its processes, times the threads.
#[derive(Clone, Copy, Debug)]
struct OpenFiles {
    per_thread: Option<u64>,
    threads: u64,
    connections: u64,
}

impl OpenFiles {
    fn new(configuration: &Configuration) -> OpenFiles {
        let process = &configuration.process;
        OpenFiles {
            per_thread: process.open_files,
            threads: u64::try_from(process.threads).unwrap_or(u64::MAX),
            connections: process.connections,
        }
    }

    /// Sets the limit, or the highest that is allowed, and warns where it is too low for the connections.
    fn allow(self, site: &Site) {
        let present = process::nofile_limit().unwrap_or(u64::MAX);
        let wanted = self.per_thread.unwrap_or(present).saturating_mul(self.threads);
        if wanted != present
            && let Err(error) = process::set_nofile_limit(wanted)
        {
            let limit = process::raise_nofile_limit().unwrap_or(present);
            self.tell_of_refusal(site, wanted, limit, &error);
        }
        let limit = process::nofile_limit().unwrap_or(u64::MAX);
        let connections = self.connections.saturating_mul(self.threads);
        if connections > limit {
            let message =
                format!("{connections} worker_connections exceed open file resource limit: {limit}");
            site.log(Level::Warn, &message);
        }
    }

    /// An alert where not even one of nginx's processes would have had what was asked for, as there.
    fn tell_of_refusal(self, site: &Site, wanted: u64, limit: u64, error: &io::Error) {
        let Some(per_thread) = self.per_thread else { return };
        let reason = system_message(error);
        let failed = format!("setrlimit(RLIMIT_NOFILE, {wanted}) failed ({reason})");
        if limit < per_thread {
            site.log(Level::Alert, &failed);
        } else {
            let threads = self.threads;
            site.log(Level::Warn, &format!("{failed}; {threads} threads share the {limit} that are allowed"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::channel::Reloads;
    use rustix::net::{RecvFlags, recv};

    /// A worker that read nothing for a while gets everything once it does, each kind of command once.
    #[test]
    fn a_full_channel_loses_no_command() {
        let (supervisor_end, worker_end) = channel().unwrap();
        let reloads = |succeeded| Command::Reloads(Reloads { succeeded, ..Reloads::default() });
        while supervisor_end.send(reloads(0)).is_ok() {}
        let mut worker = Worker {
            generation: 1,
            stage: Stage::Serving,
            started: Instant::now(),
            complaint: None,
            running: Running::Thread(thread::spawn(|| Ok(()))),
            channel: Some(supervisor_end),
            unsent: Vec::new(),
        };
        for command in [reloads(1), Command::ReopenLogs, reloads(2), Command::Quit] {
            worker.tell(command);
        }
        assert!(!worker.tell_again());
        assert_eq!(worker.unsent, [Command::ReopenLogs, reloads(2), Command::Quit]);
        let next = || {
            let mut message = vec![0; 64];
            let length = recv(&worker_end, &mut message[..], RecvFlags::DONTWAIT).ok()?.0;
            message.truncate(length);
            Some(message)
        };
        let starts = || -> Vec<u8> { std::iter::from_fn(next).map(|message| message[0]).collect() };
        assert!(starts().iter().all(|&start| start == b'n'));
        assert!(worker.tell_again());
        assert_eq!(starts(), *b"rnq");
        drop(worker_end);
        worker.tell(Command::Terminate);
        assert!(worker.tell_again(), "nobody is there to be told");
    }
}
