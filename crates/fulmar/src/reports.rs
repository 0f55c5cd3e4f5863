//! What workers report, and how they end.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Instant;

use journal::Level;
use net::channel::Report;
use net::process;
use net::system_message;

use crate::supervisor::Supervisor;
use crate::worker::{FATAL, Stage, Worker};

/// How many reports are read before signals and clients have their turn.
const REPORTS_AT_ONCE: usize = 64;

impl Supervisor {
    /// Reads what workers have to say, and joins threads that ended.
    pub(crate) fn take_reports(&mut self) {
        let next = |workers: &mut [Worker]| {
            let mut numbered = workers.iter_mut().enumerate();
            numbered.find_map(|(index, worker)| worker.report().map(|report| (index, report)))
        };
        // A worker that never stops talking keeps the supervisor from nothing else.
        for _ in 0..REPORTS_AT_ONCE {
            let Some((index, report)) = next(&mut self.workers) else { break };
            self.on_report(index, report);
        }
        while let Some(index) = self.workers.iter().position(Worker::is_thread_at_its_end) {
            let worker = self.workers.swap_remove(index);
            let (generation, stage, started) = (worker.generation, worker.stage, worker.started);
            let name = worker.name();
            let failure =
                worker.join().err().map(|error| format!("the worker failed ({})", system_message(&error)));
            match &failure {
                Some(reason) => self.log(Level::Alert, reason),
                None => self.log(Level::Notice, &format!("{name} exited")),
            }
            self.after_the_end(generation, stage, started, failure);
        }
    }

    fn on_report(&mut self, index: usize, report: Report) {
        let worker = &mut self.workers[index];
        match report {
            Report::Ready if worker.stage == Stage::Starting => {
                worker.stage = Stage::Serving;
                self.served = true;
                let generation = worker.generation;
                self.complete_reload(generation);
            }
            Report::Ready => {}
            Report::Text(text) => {
                let told = format!("{}: {text}", worker.name());
                worker.complaint = Some(text);
                self.log(Level::Error, &told);
            }
            Report::Adopted(generation) => self.went_over(index, generation),
            Report::Declined(generation, reason) => self.declined(index, generation, &reason),
        }
    }

    /// Takes note of the children that ended.
    pub(crate) fn bury(&mut self) {
        for (pid, status) in process::reap().unwrap_or_default() {
            if let Some(index) = self.workers.iter().position(|worker| worker.is_process(pid)) {
                let mut worker = self.workers.swap_remove(index);
                // Its last words may wait to be read.
                while let Some(report) = worker.report() {
                    if let Report::Text(text) = report {
                        worker.complaint = Some(text);
                    }
                }
                let name = worker.name();
                self.log_end(&name, status);
                if status.code() == Some(FATAL) {
                    self.respawn.never();
                }
                let reason = worker.complaint.unwrap_or_else(|| format!("{name} ended before it was ready"));
                self.after_the_end(worker.generation, worker.stage, worker.started, Some(reason));
            } else if self.bury_issuing(pid) {
                self.log_end(&format!("certificate process {pid}"), status);
            } else if self.upgrade.is(pid) {
                self.log_end(&format!("new binary process {pid}"), status);
                self.undo_upgrade();
            }
        }
    }

    fn log_end(&self, name: &str, status: ExitStatus) {
        match (status.signal(), status.code()) {
            (Some(signal), _) => {
                let core = if status.core_dumped() { " (core dumped)" } else { "" };
                // A terminal sends its signals to workers, too.
                let level = if self.stop.is_some() { Level::Notice } else { Level::Alert };
                self.log(level, &format!("{name} exited on signal {signal}{core}"));
            }
            (None, code) => {
                let code = code.unwrap_or(0);
                self.log(Level::Notice, &format!("{name} exited with code {code}"));
                if code == FATAL && self.stop.is_none() {
                    let message = format!("{name} exited with fatal code {code} and cannot be respawned");
                    self.log(Level::Alert, &message);
                }
            }
        }
    }

    /// Replaces a worker that ended without a command, or cancels a reload.
    fn after_the_end(&mut self, generation: u32, stage: Stage, started: Instant, reason: Option<String>) {
        if stage == Stage::Leaving {
            return;
        }
        if generation != self.current.number {
            self.refuse_reload(&reason.unwrap_or_default());
        } else {
            self.respawn.after(started.elapsed());
            self.replace_worker("it ended");
        }
    }
}
