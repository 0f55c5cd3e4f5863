//! The threads of this process, as the kernel knows them.

use std::fs;

/// What a thread does, see proc_pid_stat(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It runs, or waits for a processor.
    Runs,
    /// It waits in a system call that a signal can interrupt.
    Sleeps,
    /// It waits for a disk.
    WaitsForDisk,
    /// A signal or a debugger stopped it.
    IsStopped,
}

/// The number of the calling thread, see gettid(2).
pub fn id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// What a thread of this process does, by its number. `None` if it has ended, or `/proc` is not mounted.
pub fn activity(id: i32) -> Option<Activity> {
    let stat = fs::read_to_string(format!("/proc/self/task/{id}/stat")).ok()?;
    // The name of the thread stands in parentheses, and may contain some.
    let (_, behind_name) = stat.rsplit_once(')')?;
    match behind_name.trim_start().chars().next()? {
        'R' => Some(Activity::Runs),
        'S' => Some(Activity::Sleeps),
        'D' => Some(Activity::WaitsForDisk),
        'T' | 't' => Some(Activity::IsStopped),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Activity, activity, id};
    use std::sync::mpsc;

    #[test]
    fn activity_is_read_by_thread_number() {
        assert_eq!(activity(id()), Some(Activity::Runs));
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("odd ) name".to_owned()).spawn(move || {
            tell.send(id()).unwrap();
            ended.recv().unwrap();
        });
        let other = told.recv().unwrap();
        while activity(other) != Some(Activity::Sleeps) {
            std::thread::yield_now();
        }
        end.send(()).unwrap();
        thread.unwrap().join().unwrap();
        assert_eq!(activity(-1), None);
    }
}
