//! What a worker process finds around itself: its environment, its priority, its core files and its processors.

use std::env;
use std::ffi::OsString;

use journal::Level;
use journal::clock;
use modules::connection::process::{Env, ProcessSettings, environment};
use net::{process, processors, system_message};
use site::Site;

/// What a supervisor needs of its environment, whatever the worker may have: where programs are, and who gets messages about how
/// it does.
const OF_SUPERVISORS: [&str; 2] = ["PATH", net::notify::VARIABLE];

/// What a worker is to find, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    env: Vec<Env>,
    priority: Option<i32>,
    core_file: Option<u64>,
}

impl Surroundings {
    pub(crate) fn new(process: &ProcessSettings) -> Surroundings {
        Surroundings { env: process.env.clone(), priority: process.priority, core_file: process.core_file }
    }

    /// Changes what needs the supervisor's rights. What fails is logged, and the worker works without it.
    pub(crate) fn assume(&self, site: &Site) {
        if let Some(priority) = self.priority
            && let Err(error) = process::set_priority(priority)
        {
            let reason = system_message(&error);
            site.log(Level::Alert, &format!("setpriority({priority}) failed ({reason})"));
        }
        if let Some(bytes) = self.core_file
            && let Err(error) = process::set_core_limit(bytes)
        {
            let reason = system_message(&error);
            site.log(Level::Alert, &format!("setrlimit(RLIMIT_CORE, {bytes}) failed ({reason})"));
        }
        let variables = environment(&self.env, env::vars_os());
        if let Err(error) = net::environment::replace(&variables) {
            site.log(Level::Alert, &format!("the environment stays as it is: {error}"));
        }
        clock::forget_zone();
    }

    /// Lets a crash leave a core file where that was asked for: to give up rights takes it away.
    pub(crate) fn allow_core_file(&self, site: &Site) {
        if self.core_file.is_some_and(|bytes| bytes > 0)
            && let Err(error) = process::set_dumpable(true)
        {
            let reason = system_message(&error);
            site.log(Level::Alert, &format!("prctl(PR_SET_DUMPABLE) failed ({reason})"));
        }
    }
}

/// The environment of a new program that is to replace this one: what a worker would have, and what a supervisor needs.
pub(crate) fn of_successor(process: &ProcessSettings) -> Vec<(OsString, OsString)> {
    let mut variables = environment(&process.env, env::vars_os());
    for name in OF_SUPERVISORS {
        if let Some(value) = env::var_os(name).filter(|_| !variables.iter().any(|(known, _)| known == name)) {
            variables.push((name.into(), value));
        }
    }
    variables
}

/// The processors of each thread; nothing leaves them all to the kernel.
pub(crate) fn processors(process: &ProcessSettings) -> Vec<Vec<usize>> {
    let Some(affinity) = &process.affinity else { return Vec::new() };
    let allowed = processors::allowed().unwrap_or_default();
    (0..process.threads).map(|index| affinity.of_thread(index, &allowed)).collect()
}
