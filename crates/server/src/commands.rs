//! Commands to a worker: from its supervisor, or by a signal sent straight to it (nginx(8)).

use net::channel::{AsyncWorkerEnd, Command, Report, Told, WorkerEnd};
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Where commands come from.
pub(crate) struct Commands {
    channel: AsyncWorkerEnd,
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    reopen: Signal,
}

impl Commands {
    /// Listens to the supervisor and to signals.
    pub(crate) fn new(channel: WorkerEnd) -> io::Result<Commands> {
        Ok(Commands {
            channel: channel.into_tokio()?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            reopen: signal(SignalKind::user_defined1())?,
        })
    }

    /// The next command, or the next configuration ([`Told::Parcel`]). If the channel has ended, so has the supervisor: then
    /// the worker quits, because nobody else would stop it.
    pub(crate) async fn next(&mut self) -> Told {
        let command = tokio::select! {
            told = self.channel.receive() => match told {
                Ok(Some(told)) => return told,
                Ok(None) | Err(_) => Command::Quit,
            },
            _ = self.terminate.recv() => Command::Terminate,
            _ = self.interrupt.recv() => Command::Terminate,
            _ = self.quit.recv() => Command::Quit,
            _ = self.reopen.recv() => Command::ReopenLogs,
        };
        Told::Command(command)
    }

    /// Waits for [`Command::Terminate`]. Until then only [`Command::ReopenLogs`] has an effect.
    pub(crate) async fn terminated(&mut self, reopen: impl Fn(&Commands)) {
        let mut has_supervisor = true;
        loop {
            let told = tokio::select! {
                told = self.channel.receive(), if has_supervisor => match told {
                    Ok(Some(Told::Command(command))) => command,
                    Ok(Some(Told::Parcel(_) | Told::Newer(_))) => continue,
                    Ok(None) | Err(_) => {
                        has_supervisor = false;
                        continue;
                    }
                },
                _ = self.terminate.recv() => Command::Terminate,
                _ = self.interrupt.recv() => Command::Terminate,
                _ = self.reopen.recv() => Command::ReopenLogs,
            };
            match told {
                Command::Terminate => return,
                Command::ReopenLogs => reopen(self),
                Command::Quit | Command::Reloads(_) => {}
            }
        }
    }

    /// Tells the supervisor something to log.
    pub(crate) fn complain(&self, text: String) {
        self.report(&Report::Text(text));
    }

    /// Tells the supervisor something.
    pub(crate) fn report(&self, report: &Report) {
        // A supervisor that has ended, or does not read, gets no message.
        drop(self.channel.send(report));
    }
}
