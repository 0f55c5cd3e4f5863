//! The supervisor: starts workers, and acts on signals, on clients of `-s` and on what workers report.
//!
//! Everything decides first and starts workers afterwards, in one place of the loop, because after a fork the
//! new worker has to leave the supervisor's code behind.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::Level;
use net::channel::{Command, Reloads};
use net::control::{self, Answer, ControlSocket, Request};
use net::process::Pid;
use net::signal::{Received, Signal, SignalQueue};
use net::{DatagramLink, system_message};

use crate::certificates::Watch;
use crate::configuration::{Configuration, Reader};
use crate::issuance::{self, Issuing};
use crate::pid_file::{LEAVING, PidFile};
use crate::reload::{Reload, Way};
use crate::respawn::Respawn;
use crate::service_manager::ServiceManager;
use crate::sockets::Sockets;
use crate::upgrade::Upgrade;
use crate::worker::{Launched, Stage, Task, Worker, launch};

/// How long workers may take to end at once before they are killed.
const TERMINATION: Duration = Duration::from_secs(1);

/// How long a worker that reads nothing is left alone before the message is repeated.
const AGAIN: Duration = Duration::from_millis(100);

/// A configuration and the sockets that it listens on.
pub(crate) struct Generation {
    /// Counted from the start of the supervisor.
    pub(crate) number: u32,
    /// The configuration.
    pub(crate) configuration: Configuration,
    /// The sockets.
    pub(crate) sockets: Sockets,
}

/// What a process has once it is settled as the supervisor.
pub(crate) struct Settled {
    /// The command line, for a new binary; none where the server is part of something else (`serve`).
    pub(crate) arguments: Option<Vec<OsString>>,
    /// Whether the sockets are another supervisor's, which this one is to replace.
    pub(crate) inherited: bool,
    /// The line to that supervisor's worker.
    pub(crate) older: Option<DatagramLink>,
    /// Its place in the system.
    pub(crate) process: Process,
}

/// The supervisor's place in the system: how it is found, and what it listens to.
pub(crate) struct Process {
    /// The signals, queued since before the pid file was written.
    pub(crate) signals: SignalQueue,
    /// Where `-s` asks.
    pub(crate) control: Option<ControlSocket>,
    /// The pid file.
    pub(crate) pid_file: Option<PidFile>,
    /// Whether no terminal belongs to this process.
    pub(crate) daemon: bool,
    /// The service manager, which gets the server's state.
    pub(crate) service_manager: ServiceManager,
}

/// What this process is to do after [`Supervisor::run`].
pub(crate) enum Role {
    /// It was forked: work.
    Worker(Box<Task>),
    /// It was forked: get certificates.
    Issuer(Box<issuance::Task>),
    /// The server stopped: end, in success or not.
    Ended(bool),
}

/// The supervisor and all that it looks after.
pub(crate) struct Supervisor {
    pub(crate) reader: Arc<Reader>,
    pub(crate) current: Generation,
    /// The result of reloads.
    pub(crate) reloads: Reloads,
    pub(crate) reload: Option<Reload>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) respawn: Respawn,
    pub(crate) process: Process,
    pub(crate) upgrade: Upgrade,
    /// Whether workers were sent away by WINCH.
    pub(crate) resting: bool,
    pub(crate) stop: Option<Stop>,
    /// The looks at certificates that may change on disk.
    pub(crate) watch: Watch,
    /// The process that gets certificates.
    pub(crate) issuing: Issuing,
    pub(crate) served: bool,
    /// When messages are repeated to workers that did not read them.
    again: Option<Instant>,
}

/// The way to the end.
pub(crate) struct Stop {
    /// When workers are killed; none for a graceful stop.
    kill_at: Option<Instant>,
    /// Clients that wait for the end.
    clients: Vec<Request>,
}

impl Supervisor {
    /// A supervisor that starts its first worker when it runs.
    pub(crate) fn new(reader: Reader, generation: Generation, settled: Settled) -> Supervisor {
        Supervisor {
            reader: Arc::new(reader),
            current: generation,
            reloads: Reloads::default(),
            reload: None,
            workers: Vec::new(),
            respawn: Respawn::now(),
            process: settled.process,
            upgrade: Upgrade::new(settled.arguments, settled.inherited, settled.older),
            resting: false,
            stop: None,
            watch: Watch::new(),
            issuing: Issuing::new(),
            served: false,
            again: None,
        }
    }

    /// Runs until the server stopped, or until this process is a worker.
    ///
    /// # Errors
    /// The system fails in what cannot fail.
    pub(crate) fn run(mut self) -> io::Result<Role> {
        self.note_generation();
        loop {
            if let Some(task) = self.launch_due() {
                return Ok(Role::Worker(task));
            }
            if let Some(task) = self.launch_issuing() {
                return Ok(Role::Issuer(task));
            }
            if self.is_over() {
                return Ok(Role::Ended(self.end()));
            }
            let events = {
                let mut others: Vec<_> = self.process.control.iter().map(AsFd::as_fd).collect();
                others.extend(self.workers.iter().filter_map(Worker::descriptor));
                others.extend(self.issuing.descriptor());
                self.process.signals.wait(&others, self.time_left())?
            };
            events.signals.into_iter().for_each(|received| self.on_signal(received));
            self.serve_clients();
            self.take_reports();
            self.hear_of_certificates();
            self.look_at_the_clock();
            self.check_certificate_files();
            self.warn_of_expiry();
            self.tell_again();
            self.tell_service_manager();
        }
    }

    /// Writes to the error log of the configuration that serves.
    pub(crate) fn log(&self, level: Level, message: &str) {
        self.current.configuration.site.log(level, message);
    }

    pub(crate) fn has_worker(&self) -> bool {
        let number = self.current.number;
        self.workers.iter().any(|worker| worker.generation == number && worker.stage != Stage::Leaving)
    }

    /// Starts what is to be started; the task if this is the new process.
    fn launch_due(&mut self) -> Option<Box<Task>> {
        if self.stop.is_some() {
            return None;
        }
        if self.reload.as_ref().is_some_and(|reload| reload.way == Way::NewWorker) {
            let older = self.link_to_older_worker();
            let reload = self.reload.as_mut()?;
            reload.way = Way::Launched;
            return match start(&reload.generation, &self.reader, older) {
                Ok(launched) => self.welcome(launched),
                Err(error) => {
                    self.refuse_reload(&format!("fork() failed ({})", system_message(&error)));
                    None
                }
            };
        }
        if self.resting || self.has_worker() || !self.respawn.is_due(Instant::now()) {
            return None;
        }
        match start(&self.current, &self.reader, self.link_to_older_worker()) {
            Ok(launched) => self.welcome(launched),
            Err(error) => {
                self.log(Level::Alert, &format!("fork() failed ({})", system_message(&error)));
                self.respawn.after(Duration::ZERO);
                None
            }
        }
    }

    fn welcome(&mut self, launched: Launched) -> Option<Box<Task>> {
        match launched {
            Launched::Worker(task) => Some(task),
            Launched::Supervisor(mut worker) => {
                self.log(Level::Notice, &format!("start {}", worker.name()));
                worker.tell(Command::Reloads(self.reloads));
                self.workers.push(worker);
                None
            }
        }
    }

    fn on_signal(&mut self, Received { signal, sender }: Received) {
        let action = match signal {
            Signal::SIGTERM | Signal::SIGINT => ", exiting",
            Signal::SIGQUIT => ", shutting down",
            Signal::SIGHUP => ", reconfiguring",
            Signal::SIGUSR1 => ", reopening logs",
            Signal::SIGUSR2 if self.upgrade.is_possible() => ", changing binary",
            Signal::SIGWINCH if self.may_rest() => ", stop accepting connections",
            Signal::SIGUSR2 | Signal::SIGWINCH => ", ignoring",
            _ => "",
        };
        let from = sender.map_or(String::new(), |pid| format!(" from {pid}"));
        let number = signal as i32;
        self.log(Level::Notice, &format!("signal {number} ({}) received{from}{action}", signal.as_str()));
        match signal {
            Signal::SIGTERM | Signal::SIGINT => self.stop_fast(None),
            Signal::SIGQUIT => self.stop_gracefully(),
            Signal::SIGHUP => self.begin_reload(Vec::new()),
            Signal::SIGUSR1 => drop(self.reopen_logs()),
            Signal::SIGUSR2 if self.upgrade.is_possible() => self.begin_upgrade(),
            Signal::SIGWINCH if self.may_rest() => self.rest(),
            Signal::SIGCHLD => self.bury(),
            _ => {}
        }
    }

    fn serve_clients(&mut self) {
        while let Some(Ok(Some(request))) = self.process.control.as_ref().map(ControlSocket::accept) {
            let command = request.command();
            if !matches!(command, control::Command::Identify | control::Command::Status) {
                self.log(Level::Notice, &format!("\"-s {}\" received", command.name()));
            }
            match command {
                control::Command::Identify => {
                    let leaves = if self.stop.is_some() { LEAVING } else { "" };
                    answer(request, Ok(format!("fulmar {}{leaves}", server::VERSION)));
                }
                control::Command::Status => answer(request, self.status()),
                control::Command::Renew => answer(request, self.renew()),
                control::Command::Reload => self.begin_reload(vec![request]),
                control::Command::Stop => self.stop_fast(Some(request)),
                control::Command::Quit => {
                    self.stop_gracefully();
                    answer(request, Ok("shutting down".to_owned()));
                }
                control::Command::Reopen => {
                    let problems = self.reopen_logs();
                    let told = if problems.is_empty() {
                        Ok("reopened".to_owned())
                    } else {
                        Err(problems.join("\n"))
                    };
                    answer(request, told);
                }
            }
        }
    }

    /// Which configuration is served, or why none is.
    fn status(&self) -> Result<String, String> {
        if self.stop.is_some() {
            return Err("the server shuts down".to_owned());
        }
        let number = self.current.number;
        match self.workers.iter().any(|it| it.generation == number && it.stage == Stage::Serving) {
            true => Ok(self.process.service_manager.state(number)),
            false => Err("no worker serves yet".to_owned()),
        }
    }

    pub(crate) fn reopen_logs(&mut self) -> Vec<String> {
        let problems = self.current.configuration.reopen_logs();
        if let Some(reload) = &mut self.reload {
            reload.reopened = true;
        }
        problems.iter().for_each(|problem| self.log(Level::Emerg, problem));
        self.workers.iter_mut().for_each(|worker| worker.tell(Command::ReopenLogs));
        problems
    }

    /// WINCH comes from terminals, too, whenever their size changes.
    fn may_rest(&self) -> bool {
        self.process.daemon || self.upgrade.is_under_way()
    }

    fn rest(&mut self) {
        self.resting = true;
        self.workers.iter_mut().for_each(|worker| worker.tell(Command::Quit));
    }

    fn stop_fast(&mut self, client: Option<Request>) {
        // First of all, so that no other reload begins behind the one that is refused.
        let stop = self.stop.get_or_insert(Stop { kill_at: None, clients: Vec::new() });
        stop.kill_at.get_or_insert(Instant::now() + TERMINATION);
        stop.clients.extend(client);
        self.refuse_reload("the server stops");
        self.workers.iter_mut().for_each(|worker| worker.tell(Command::Terminate));
    }

    fn stop_gracefully(&mut self) {
        if self.stop.is_some() {
            return;
        }
        self.stop = Some(Stop { kill_at: None, clients: Vec::new() });
        self.refuse_reload("the server stops");
        self.workers.iter_mut().for_each(|worker| worker.tell(Command::Quit));
        self.close_sockets();
    }

    fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        if let Some(at) = self.stop.as_ref().and_then(|stop| stop.kill_at)
            && at <= now
        {
            self.workers.iter().for_each(Worker::kill);
            // A thread cannot be killed: it ends with the process.
            self.workers.retain(|worker| !worker.is_thread());
        }
        if self.reload.as_ref().is_some_and(|reload| reload.deadline <= now) {
            self.give_up_waiting();
        }
    }

    /// Sends workers the commands that could not be sent before.
    fn tell_again(&mut self) {
        let behind =
            self.workers.iter_mut().filter_map(|worker| (!worker.tell_again()).then_some(())).count();
        self.again = (behind > 0).then(|| Instant::now() + AGAIN);
    }

    fn time_left(&self) -> Option<Duration> {
        let waits_for_worker = self.stop.is_none() && !self.resting && !self.has_worker();
        let moments = [
            self.stop.as_ref().and_then(|stop| stop.kill_at),
            self.reload.as_ref().map(|reload| reload.deadline),
            self.respawn.at().filter(|_| waits_for_worker),
            self.again,
            self.next_check_of_certificate_files(),
            self.next_expiry_warning(),
            self.issuing.due().filter(|_| self.waits_to_issue()),
        ];
        let next = moments.into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn is_over(&self) -> bool {
        let stopped = self.stop.is_some() || (!self.served && self.respawn.at().is_none());
        stopped && self.workers.is_empty()
    }

    /// Cleans up after the last worker; returns whether a command ended the server.
    fn end(&mut self) -> bool {
        self.close_sockets();
        if let Some(Err(problem)) = self.process.pid_file.take().map(PidFile::remove) {
            self.log(Level::Alert, &problem);
        }
        self.log(Level::Notice, "exit");
        let stop = self.stop.take();
        let told = stop.is_some();
        let clients = stop.into_iter().flat_map(|stop| stop.clients);
        clients.for_each(|client| answer(client, Ok("stopped".to_owned())));
        told
    }

    fn close_sockets(&mut self) {
        let sockets = std::mem::take(&mut self.current.sockets);
        if !self.upgrade.shares_sockets() {
            sockets.remove_paths(&Sockets::default());
        }
    }
}

/// Answers a client; one that did not wait needs no answer.
pub(crate) fn answer(request: Request, verdict: Result<String, String>) {
    let answer = match verdict {
        Ok(text) => Answer::Ok(text),
        Err(text) => Answer::Error(text),
    };
    drop(request.answer(&answer));
}

fn start(generation: &Generation, reader: &Arc<Reader>, older: Option<DatagramLink>) -> io::Result<Launched> {
    launch(&generation.configuration, generation.sockets.duplicates()?, generation.number, reader, older)
}

/// The process that is this one's parent.
pub(crate) fn parent() -> Option<Pid> {
    i32::try_from(std::os::unix::process::parent_id()).ok().map(Pid::from_raw)
}
