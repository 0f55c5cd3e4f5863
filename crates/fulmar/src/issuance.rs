//! The process that gets certificates from authorities. The supervisor starts it once a worker serves, which answers the
//! authorities, and starts it anew when it dies or when other certificates are wanted.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use acme::{Plan, Surroundings, Urgency};
use journal::Level;
use net::channel::{Incoming, Report, SupervisorEnd, WorkerEnd, channel};
use net::process::{self, Fork, Pid};
use net::signal::{self, Signal};
use net::{SharedBytes, system_message};

use crate::console::out;
use crate::respawn::Respawn;
use crate::supervisor::Supervisor;

/// What a configuration wants from authorities.
#[derive(Clone)]
pub(crate) struct Issuance {
    /// The certificates.
    pub(crate) plan: Arc<Plan>,
    /// The answers to challenges, which a worker has from its start.
    pub(crate) answers: Arc<SharedBytes>,
}

/// The process as the supervisor sees it.
pub(crate) struct Issuing {
    running: Option<Running>,
    respawn: Respawn,
    /// Whether there are certificates that do not serve yet.
    pub(crate) has_renewed: bool,
}

struct Running {
    /// None for a thread, where `master_process off`.
    pid: Option<Pid>,
    plan: Arc<Plan>,
    channel: Option<SupervisorEnd>,
    started: Instant,
}

/// What the new process is to do.
pub(crate) struct Task {
    issuance: Issuance,
    channel: WorkerEnd,
}

impl Issuing {
    pub(crate) fn new() -> Issuing {
        Issuing { running: None, respawn: Respawn::now(), has_renewed: false }
    }

    /// What can be waited for: its reports.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.running.as_ref()?.channel.as_ref()?.as_fd())
    }

    /// When to start it, if it waits for that.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.running.is_none().then(|| self.respawn.at()).flatten()
    }

    /// Ends it.
    pub(crate) fn end(&mut self) {
        if let Some(Running { pid: Some(pid), .. }) = self.running.take() {
            drop(signal::send(pid, Signal::SIGTERM));
        }
    }
}

impl Supervisor {
    /// Starts the process if certificates are wanted, and ends one that gets others; the task if this is the new process.
    pub(crate) fn launch_issuing(&mut self) -> Option<Box<Task>> {
        let wanted = self.current.configuration.issuance.clone();
        let is_wanted = |running: &Running| wanted.as_ref().is_some_and(|wanted| wanted.plan == running.plan);
        if self.stop.is_some() || !self.issuing.running.as_ref().is_none_or(is_wanted) {
            self.issuing.end();
        }
        if !self.waits_to_issue() || !self.issuing.respawn.is_due(Instant::now()) {
            return None;
        }
        match self.start_issuing(wanted?) {
            Ok(task) => task,
            Err(error) => {
                self.log(Level::Alert, &format!("fork() failed ({})", system_message(&error)));
                self.issuing.respawn.after(Duration::ZERO);
                None
            }
        }
    }

    /// Starts the process anew, so that it reads from the state's files what is due.
    pub(crate) fn renew(&mut self) -> Result<String, String> {
        if self.current.configuration.issuance.is_none() {
            return Err("this configuration gets no certificate from an authority".to_owned());
        }
        self.issuing.end();
        self.issuing.respawn.reset();
        Ok("the certificates that are due are ordered now; the error log has the result".to_owned())
    }

    /// Whether the process is to be started, now or later.
    pub(crate) fn waits_to_issue(&self) -> bool {
        let is_wanted = self.current.configuration.issuance.is_some() && self.issuing.running.is_none();
        // During an upgrade the newer server gets the certificates.
        is_wanted && self.stop.is_none() && self.served && !self.upgrade.is_under_way()
    }

    fn start_issuing(&mut self, issuance: Issuance) -> io::Result<Option<Box<Task>>> {
        let (supervisor_end, worker_end) = channel()?;
        let plan = Arc::clone(&issuance.plan);
        let task = Box::new(Task { issuance, channel: worker_end });
        let pid = if self.current.configuration.process.master_process {
            match process::fork()? {
                Fork::Child => return Ok(Some(task)),
                Fork::Parent(pid) => Some(pid),
            }
        } else {
            thread::Builder::new().name("acme".to_owned()).spawn(move || task.issue())?;
            None
        };
        let started = Instant::now();
        self.issuing.running = Some(Running { pid, plan, channel: Some(supervisor_end), started });
        if let Some(pid) = pid {
            self.log(Level::Notice, &format!("start certificate process {pid}"));
        }
        Ok(None)
    }

    /// Takes what the process tells.
    pub(crate) fn hear_of_certificates(&mut self) {
        while let Some(channel) = self.issuing.running.as_ref().and_then(|running| running.channel.as_ref()) {
            match channel.receive() {
                Ok(Incoming::Report(Report::Ready)) => self.issuing.has_renewed = true,
                Ok(Incoming::Report(Report::Text(text))) => self.log_of_issuing(&text),
                Ok(Incoming::Report(_)) => {}
                Ok(Incoming::Empty) => return,
                Ok(Incoming::Closed) | Err(_) => {
                    if let Some(running) = &mut self.issuing.running {
                        running.channel = None;
                    }
                }
            }
        }
    }

    fn log_of_issuing(&self, text: &str) {
        let (mark, message) = text.split_at_checked(1).unwrap_or(("", text));
        let level =
            LEVELS.iter().find(|(_, known, _)| *known == mark).map_or(Level::Error, |(.., level)| *level);
        self.log(level, &format!("acme: {message}"));
        // The log of `serve` and `proxy` has errors only. Who waits for a certificate at a terminal sees it there.
        if level == Level::Notice && self.upgrade.is_embedded() {
            out(format!("{message}\n").as_bytes());
        }
    }

    /// Takes note of the end of a child; whether it was this process.
    pub(crate) fn bury_issuing(&mut self, pid: Pid) -> bool {
        let Some(running) = self.issuing.running.take_if(|running| running.pid == Some(pid)) else {
            return false;
        };
        self.issuing.respawn.after(running.started.elapsed());
        true
    }
}

/// How the levels of messages are written, and what they are in the log.
const LEVELS: [(Urgency, &str, Level); 4] = [
    (Urgency::Notice, "n", Level::Notice),
    (Urgency::Warn, "w", Level::Warn),
    (Urgency::Error, "e", Level::Error),
    (Urgency::Crit, "c", Level::Crit),
];

impl Task {
    /// Gets certificates until the supervisor ends; the result is the process's exit status.
    pub(crate) fn perform(self) -> ExitCode {
        // Its memory has keys: no file may have them.
        let prepared = signal::restore_after_fork()
            .and_then(|()| process::set_dumpable(false))
            // Files are replaced as a whole, so that nothing is half done. The next server needs the lock of the state.
            .and_then(|()| process::end_with_parent());
        if prepared.is_err() {
            return ExitCode::FAILURE;
        }
        self.issue();
        ExitCode::SUCCESS
    }

    fn issue(self) {
        let Task { issuance, channel } = self;
        acme::run(&issuance.plan, &issuance.answers, &mut Line(channel));
    }
}

/// The line to the supervisor. It has no more to say to this process than its own end.
struct Line(WorkerEnd);

impl Surroundings for Line {
    fn now(&self) -> i64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    }

    fn wait(&mut self, time: Duration) -> bool {
        self.0.wait(time).is_ok_and(|is_over| !is_over)
    }

    fn log(&mut self, urgency: Urgency, message: &str) {
        let mark = LEVELS.iter().find(|(known, ..)| *known == urgency).map_or("e", |(_, mark, _)| mark);
        // A supervisor that reads nothing is busy with a reload; the line is lost.
        drop(self.0.send(&Report::Text(format!("{mark}{message}"))));
    }

    fn renewed(&mut self) {
        // The supervisor notices the file by itself, too, a little later.
        drop(self.0.send(&Report::Ready));
    }
}
