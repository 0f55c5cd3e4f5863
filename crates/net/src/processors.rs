//! Processors, and the threads that they run.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::process::Pid;

/// The calling thread: 0 means it in system calls that take the number of a thread.
const THIS_THREAD: Pid = Pid::from_raw(0);

/// The numbers of the processors that may run this thread.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(THIS_THREAD)?;
    Ok((0..CpuSet::count()).filter(|&number| set.is_set(number).unwrap_or(false)).collect())
}

/// Lets only these processors run this thread, and those that it starts from now on; see sched_setaffinity(2).
///
/// It is an error if none of them is there, or none may be used.
pub fn stay_on(processors: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &number in processors {
        set.set(number)?;
    }
    Ok(sched_setaffinity(THIS_THREAD, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_told_to() {
        let all = allowed().unwrap();
        let last = *all.last().unwrap();
        let inner = std::thread::spawn(move || {
            stay_on(&[last]).unwrap();
            std::thread::spawn(allowed).join().unwrap().unwrap()
        });
        assert_eq!(inner.join().unwrap(), [last]);
        assert_eq!(allowed().unwrap(), all, "other threads are left alone");
        assert!(stay_on(&[]).is_err());
        assert!(stay_on(&[usize::MAX]).is_err());
    }
}
