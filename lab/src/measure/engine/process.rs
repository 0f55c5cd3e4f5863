//! A load tool that runs.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use super::cores::Cores;

/// A tool on separate cores. It ends, with all that it started, when this is dropped, and when the lab is killed.
pub(super) struct Process {
    child: Child,
    /// Its command line as it is written down: without the folder of the program, which is nobody's business.
    pub(super) command: Vec<String>,
}

impl Process {
    /// Starts a program; what it prints goes to a file.
    pub(super) fn start(
        program: &Path,
        arguments: &[String],
        cores: Cores,
        input: Stdio,
        raw: &Path,
    ) -> Result<Process> {
        let folder = raw.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let output = File::create(raw).with_context(|| raw.display().to_string())?;
        let errors = output.try_clone()?;
        let own = ["taskset", "--cpu-list", &cores.to_string()].map(str::to_owned);
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(&own).arg(program).args(arguments);
        command.stdin(input).stdout(output).stderr(errors).process_group(0);
        let child = command.spawn().context("running setpriv: apt-get install util-linux")?;
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Process { child, command: [own.as_slice(), &[name], arguments].concat() })
    }

    /// The process that was started.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it reads, if that was piped and not taken before.
    pub(super) fn take_input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // After `wait`, the kernel may give its number to another process.
        if let (Some(group), Ok(None)) = (group, self.child.try_wait()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
