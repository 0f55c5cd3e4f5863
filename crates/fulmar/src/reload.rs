//! Reloads: the worker that serves goes over to the new configuration; where it cannot, a new one starts on it, and
//! when that is ready the one before drains.

use std::time::{Duration, Instant};

use conf::Diagnostic;
use journal::Level;
use journal::clock::Time;
use net::bind::{Notice, Patience};
use net::channel::{Command, Parcel};
use net::control::Request;
use net::process::release_memory;
use net::system_message;

use crate::configuration::{Configuration, Refusal};
use crate::pid_file::{self, PidFile};
use crate::sockets::Sockets;
use crate::start::keep_last_words;
use crate::supervisor::{Generation, Supervisor, answer};
use crate::worker::{Stage, Worker};

/// How long a worker may take until it serves a configuration.
const READY: Duration = Duration::from_secs(30);

/// A reload that waits for its worker.
pub(crate) struct Reload {
    /// What is to be served.
    pub(crate) generation: Generation,
    /// By whom.
    pub(crate) way: Way,
    /// When to give that up.
    pub(crate) deadline: Instant,
    /// Whether the log files were opened anew meanwhile.
    pub(crate) reopened: bool,
    /// Whether only certificates are new.
    is_renewal: bool,
    clients: Vec<Request>,
    /// Whether another reload begins after this one, with its clients; it may have none.
    next: Option<Vec<Request>>,
}

/// How a configuration comes to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The worker that serves was asked to go over to it.
    InPlace,
    /// A new worker is to be started.
    NewWorker,
    /// That worker was started.
    Launched,
}

impl Supervisor {
    /// Reads the configuration again, prepares what it needs, and hands it to the worker; where that cannot be, the
    /// loop starts another one.
    pub(crate) fn begin_reload(&mut self, clients: Vec<Request>) {
        if self.stop.is_some() {
            clients.into_iter().for_each(|client| answer(client, Err("the server stops".to_owned())));
            return;
        }
        if let Some(reload) = &mut self.reload {
            reload.next.get_or_insert_default().extend(clients);
            return;
        }
        let rested = std::mem::take(&mut self.resting);
        if rested && self.upgrade.is_under_way() {
            // The way back from an upgrade: the program before it serves again, as it did.
            self.respawn.reset();
            clients.into_iter().for_each(|client| answer(client, Ok("serving again".to_owned())));
            return;
        }
        self.log(Level::Notice, "reconfiguring");
        self.process.service_manager.reloading();
        match self.prepare() {
            Ok((generation, record)) => {
                self.begin(generation, record, clients, false);
            }
            Err(reason) => {
                self.process.service_manager.refused(&reason);
                self.respawn.reset();
                self.count_failure();
                clients.into_iter().for_each(|client| answer(client, Err(reason.clone())));
                release_memory();
            }
        }
    }

    /// Serves the configuration with the certificates that are on disk now. If they cannot be used, the log says why, and
    /// the previous ones stay.
    pub(crate) fn reload_certificates(&mut self) {
        self.log(Level::Notice, "certificate files changed, reading them");
        let read = self.reader.renew(&self.current.configuration);
        match read.map_err(|refusal| self.log_unusable(&refusal)).map(|read| self.make_ready(read)) {
            Ok(Ok((generation, record))) => self.begin(generation, record, Vec::new(), true),
            // The log says why.
            Ok(Err(_)) | Err(()) => release_memory(),
        }
    }

    fn log_unusable(&self, refusal: &Refusal) {
        for error in refusal.errors() {
            let line = refusal.read.line(error);
            self.log(Level::Error, &format!("{line}; the previous certificates stay in use"));
        }
    }

    fn begin(&mut self, generation: Generation, record: Vec<u8>, clients: Vec<Request>, is_renewal: bool) {
        let way = if self.hand_over(&generation, record) { Way::InPlace } else { Way::NewWorker };
        let deadline = Instant::now() + READY;
        let reload = Reload { generation, way, deadline, reopened: false, is_renewal, clients, next: None };
        self.reload = Some(reload);
    }

    /// Asks the worker that serves to go over; whether there is one that may.
    fn hand_over(&self, generation: &Generation, record: Vec<u8>) -> bool {
        let current = self.current.number;
        // One that starts still finds it when it has started.
        let serves = |worker: &&Worker| worker.generation == current && worker.stage != Stage::Leaving;
        let Some(worker) = self.workers.iter().find(serves) else { return false };
        if !self.current.configuration.suits_worker_of(&generation.configuration) {
            return false;
        }
        let packed = generation.configuration.share_logs().and_then(|logs| {
            let sockets = generation.sockets.added_to(&self.current.sockets)?;
            Ok(Parcel { generation: generation.number, record, logs, sockets })
        });
        match packed.and_then(|parcel| worker.hand_over(&parcel)) {
            Ok(()) => true,
            Err(error) => {
                self.log_decline(&system_message(&error));
                false
            }
        }
    }

    /// The worker that was asked does not go over: another one is to start.
    pub(crate) fn replace_worker(&mut self, reason: &str) {
        let Some(reload) = self.reload.as_mut().filter(|reload| reload.way == Way::InPlace) else { return };
        reload.way = Way::NewWorker;
        reload.deadline = Instant::now() + READY;
        self.log_decline(reason);
    }

    fn log_decline(&self, reason: &str) {
        self.log(Level::Warn, &format!("a new worker starts, because the one that serves cannot: {reason}"));
    }

    /// The time is over in which a worker was to serve.
    pub(crate) fn give_up_waiting(&mut self) {
        match self.reload.as_ref().map(|reload| reload.way) {
            Some(Way::InPlace) => {
                // The command has reported a failure, so the configuration must not come into use later.
                let current = self.current.number;
                for worker in self.workers.iter_mut().filter(|worker| worker.generation == current) {
                    worker.tell(Command::Quit);
                }
                self.replace_worker("it has not answered in time");
            }
            _ => self.refuse_reload("the new worker was not ready in time"),
        }
    }

    /// The worker that was asked serves the configuration.
    pub(crate) fn went_over(&mut self, worker: usize, generation: u32) {
        if self.was_asked(worker, generation) {
            self.workers[worker].generation = generation;
            self.complete_reload(generation);
        }
    }

    /// The worker that was asked stays with what it serves. What it could not even read has the number 0.
    pub(crate) fn declined(&mut self, worker: usize, generation: u32, reason: &str) {
        let unread = self.reload.as_ref().filter(|_| generation == 0).map(|reload| reload.generation.number);
        if self.was_asked(worker, unread.unwrap_or(generation)) {
            self.replace_worker(reason);
        }
    }

    /// Whether this worker was asked to go over to this configuration, and may still answer. Workers are not trusted.
    fn was_asked(&self, worker: usize, generation: u32) -> bool {
        let worker = &self.workers[worker];
        let serves = worker.generation == self.current.number && worker.stage != Stage::Leaving;
        let asked = |reload: &Reload| reload.way == Way::InPlace && reload.generation.number == generation;
        serves && self.reload.as_ref().is_some_and(asked)
    }

    /// A worker serves the new configuration: others may go.
    pub(crate) fn complete_reload(&mut self, generation: u32) {
        if self.reload.as_ref().is_none_or(|reload| reload.generation.number != generation) {
            return;
        }
        let Some(Reload { generation, clients, next, reopened, is_renewal, .. }) = self.reload.take() else {
            return;
        };
        let before = std::mem::replace(&mut self.current, generation);
        self.remove_paths(&before.sockets);
        if self.current.configuration.process.daemon {
            keep_last_words(&self.current.configuration);
        }
        for worker in self.workers.iter_mut().filter(|worker| worker.generation == before.number) {
            worker.tell(Command::Quit);
        }
        self.respawn.reset();
        self.move_pid_file();
        if is_renewal {
            self.log(Level::Notice, "certificates renewed");
        } else {
            self.reloads.succeeded += 1;
        }
        self.note_generation();
        if reopened {
            drop(self.reopen_logs());
        }
        clients.into_iter().for_each(|client| answer(client, Ok("reloaded".to_owned())));
        drop(before);
        release_memory();
        self.next_reload(next);
    }

    /// The configuration that serves stays.
    pub(crate) fn refuse_reload(&mut self, reason: &str) {
        let Some(Reload { generation, clients, next, .. }) = self.reload.take() else { return };
        self.remove_paths(&generation.sockets);
        self.current.sockets.restore();
        for worker in self.workers.iter_mut().filter(|worker| worker.generation == generation.number) {
            worker.tell(Command::Terminate);
        }
        self.respawn.reset();
        self.count_failure();
        self.process.service_manager.refused(reason);
        self.log(Level::Emerg, &format!("the configuration stays as it was: {reason}"));
        clients.into_iter().for_each(|client| answer(client, Err(format!("fulmar: [emerg] {reason}"))));
        drop(generation);
        release_memory();
        self.next_reload(next);
    }

    /// Removes the paths that do not serve, unless another program serves by the same ones.
    fn remove_paths(&self, sockets: &Sockets) {
        if !self.upgrade.shares_sockets() {
            sockets.remove_paths(&self.current.sockets);
        }
    }

    fn next_reload(&mut self, next: Option<Vec<Request>>) {
        if let Some(clients) = next {
            self.begin_reload(clients);
        }
    }

    fn count_failure(&mut self) {
        self.reloads.failed += 1;
        self.tell_of_reloads();
    }

    /// Takes note of which configuration serves, and since when.
    pub(crate) fn note_generation(&mut self) {
        self.reloads.generation = self.current.number;
        self.reloads.since = u64::try_from(Time::now().seconds).unwrap_or(0);
        self.tell_of_reloads();
    }

    fn tell_of_reloads(&mut self) {
        let told = Command::Reloads(self.reloads);
        self.workers.iter_mut().for_each(|worker| worker.tell(told));
    }

    /// Everything that can be done before a worker has to do with it; on an error the message for the requester of the reload.
    fn prepare(&mut self) -> Result<(Generation, Vec<u8>), String> {
        match self.reader.read_after(&self.current.configuration) {
            Ok(read) => self.make_ready(read),
            Err(refusal) => {
                let read = &refusal.read;
                refusal.errors().for_each(|error| self.log(error.level, &read.line(error)));
                Err(refusal.errors().map(|error| read.render(error)).collect())
            }
        }
    }

    /// Opens the logs and sockets of a configuration that was read.
    fn make_ready(
        &mut self,
        (configuration, record): (Configuration, Vec<u8>),
    ) -> Result<(Generation, Vec<u8>), String> {
        let configuration = self.keep_process_model(configuration);
        let log = |level: Level, text: &str| self.log(level, text);
        let refuse = |text: String| {
            log(Level::Emerg, &text);
            format!("fulmar: [emerg] {text}")
        };
        if self.process.pid_file.is_some() {
            pid_file::refuse_if_taken(&configuration.process.pid).map_err(refuse)?;
        }
        let (errors, warnings): (Vec<_>, Vec<_>) =
            configuration.open_files().into_iter().partition(Diagnostic::is_error);
        if !errors.is_empty() {
            let texts: Vec<_> = errors.into_iter().map(|error| error.message).collect();
            return Err(refuse(texts.join("; ")));
        }
        let read = &configuration.read;
        read.notes.iter().chain(&warnings).for_each(|note| log(note.level, &read.line(note)));
        let notice = |notice: Notice<'_>| {
            if let Notice::Retrying(pause) = notice {
                log(Level::Notice, &format!("try again to bind() after {}ms", pause.as_millis()));
            }
        };
        let mut failed = Vec::new();
        let collect = |notice_now: Notice<'_>| match notice_now {
            Notice::Failed(error) => failed.push(error.to_string()),
            retrying => notice(retrying),
        };
        let sockets = self.current.sockets.prepare(&configuration.wanted(), Patience::default(), collect);
        match sockets {
            Ok(sockets) => {
                sockets.shortages().iter().for_each(|shortage| log(Level::Warn, shortage));
                let generation = Generation { number: self.current.number + 1, configuration, sockets };
                Ok((generation, record))
            }
            Err(error) => Err(refuse(failed.pop().unwrap_or_else(|| error.to_string()))),
        }
    }

    /// Whether there is a worker process cannot change while the server runs.
    fn keep_process_model(&self, mut configuration: Configuration) -> Configuration {
        configuration.process.master_process = self.current.configuration.process.master_process;
        configuration
    }

    fn move_pid_file(&mut self) {
        let path = self.current.configuration.process.pid.clone();
        let Some(file) = self.process.pid_file.take_if(|file| file.path() != path) else { return };
        match PidFile::write(&path) {
            Ok(written) => {
                self.process.pid_file = Some(written);
                if let Err(problem) = file.remove() {
                    self.log(Level::Alert, &problem);
                }
            }
            Err(problem) => {
                self.log(Level::Emerg, &problem);
                self.process.pid_file = Some(file);
            }
        }
    }
}
