//! Reloads: a new worker starts on the new configuration; when it is ready, the one before it drains.

use std::time::{Duration, Instant};

use contract::log::Level;
use net::bind::{Notice, Patience};
use net::channel::Command;
use net::control::Request;

use crate::configuration::Configuration;
use crate::pid_file::PidFile;
use crate::supervisor::{Generation, Supervisor, answer};

/// How long a new worker may take until it accepts.
const READY: Duration = Duration::from_secs(30);

/// A reload that waits for its worker.
pub(crate) struct Reload {
    /// What the new worker serves.
    pub(crate) generation: Generation,
    /// Whether the worker was started.
    pub(crate) launched: bool,
    /// When to give it up.
    pub(crate) deadline: Instant,
    clients: Vec<Request>,
}

impl Supervisor {
    /// Reads the configuration again and prepares what it needs; the loop then starts the worker.
    pub(crate) fn begin_reload(&mut self, clients: Vec<Request>) {
        if self.stop.is_some() {
            clients.into_iter().for_each(|client| answer(client, Err("the server stops".to_owned())));
            return;
        }
        if self.reload.is_some() {
            self.reload_again.get_or_insert_default().extend(clients);
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
        self.service_manager.reloading();
        match self.prepare() {
            Ok(generation) => {
                let deadline = Instant::now() + READY;
                self.reload = Some(Reload { generation, launched: false, deadline, clients });
            }
            Err(reason) => {
                self.service_manager.refused(&reason);
                self.respawn.reset();
                clients.into_iter().for_each(|client| answer(client, Err(reason.clone())));
            }
        }
    }

    /// The new worker accepts: the others may go.
    pub(crate) fn complete_reload(&mut self, generation: u32) {
        if self.reload.as_ref().is_none_or(|reload| reload.generation.number != generation) {
            return;
        }
        let Some(Reload { generation, clients, .. }) = self.reload.take() else { return };
        let before = std::mem::replace(&mut self.current, generation);
        before.sockets.remove_paths(&self.current.sockets);
        for worker in self.workers.iter_mut().filter(|worker| worker.generation == before.number) {
            worker.tell(Command::Quit);
        }
        self.respawn.reset();
        self.move_pid_file();
        clients.into_iter().for_each(|client| answer(client, Ok("reloaded".to_owned())));
        self.next_reload();
    }

    /// The configuration that serves stays.
    pub(crate) fn refuse_reload(&mut self, reason: &str) {
        let Some(Reload { generation, clients, .. }) = self.reload.take() else { return };
        generation.sockets.remove_paths(&self.current.sockets);
        for worker in self.workers.iter_mut().filter(|worker| worker.generation == generation.number) {
            worker.tell(Command::Terminate);
        }
        self.respawn.reset();
        self.service_manager.refused(reason);
        self.log(Level::Emerg, &format!("the configuration stays as it was: {reason}"));
        clients.into_iter().for_each(|client| answer(client, Err(format!("fulmar: [emerg] {reason}"))));
        self.next_reload();
    }

    fn next_reload(&mut self) {
        if let Some(clients) = self.reload_again.take() {
            self.begin_reload(clients);
        }
    }

    /// Everything up to the fork; on an error the text for whoever asked.
    fn prepare(&mut self) -> Result<Generation, String> {
        let configuration = match self.reader.read() {
            Ok(configuration) => configuration,
            Err(refusal) => {
                let error = &refusal.error;
                self.log(error.level, &refusal.read.line(error));
                return Err(refusal.read.render(error));
            }
        };
        let configuration = self.keep_process_model(configuration);
        let log = |level: Level, text: &str| self.log(level, text);
        let refuse = |text: String| {
            log(Level::Emerg, &text);
            format!("fulmar: [emerg] {text}")
        };
        let problems = configuration.open_logs();
        if !problems.is_empty() {
            return Err(refuse(problems.join("; ")));
        }
        let read = &configuration.read;
        read.notes.iter().for_each(|note| log(note.level, &read.line(note)));
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
            Ok(sockets) => Ok(Generation { number: self.current.number + 1, configuration, sockets }),
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
        let Some(file) = self.pid_file.take_if(|file| file.path() != path) else { return };
        match PidFile::write(&path) {
            Ok(written) => {
                self.pid_file = Some(written);
                if let Err(problem) = file.remove() {
                    self.log(Level::Alert, &problem);
                }
            }
            Err(problem) => {
                self.log(Level::Emerg, &problem);
                self.pid_file = Some(file);
            }
        }
    }
}
