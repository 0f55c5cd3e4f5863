//! Tests of what belongs to a whole process run in separate processes.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::ForkResult;

/// Set in the process that [`alone`] starts.
const ALONE: &str = "NET_TEST_ALONE";

/// Runs the body of the calling test in a separate process, which has one thread.
pub(crate) fn alone(body: impl FnOnce()) {
    if env::var_os(ALONE).is_some() {
        assert_eq!(in_fork(body), 0, "the body of the test failed");
        return;
    }
    let test = thread::current().name().expect("tests have names").to_owned();
    let output = Command::new(env::current_exe().expect("the test's program"))
        .args([&test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .expect("a process for the test");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// Runs the body in a copy of this process that has one thread, and returns the copy's exit status.
#[allow(unsafe_code)]
pub(crate) fn in_fork(body: impl FnOnce()) -> i32 {
    // SAFETY: the only other thread is the test harness's, which waits for this one and holds no lock.
    match unsafe { nix::unistd::fork() }.expect("fork") {
        ForkResult::Parent { child } => match waitpid(child, None).expect("waitpid") {
            WaitStatus::Exited(_, code) => code,
            other => panic!("{other:?}"),
        },
        ForkResult::Child => end_with(catch_unwind(AssertUnwindSafe(body)).map_or(101, |()| 0)),
    }
}

/// Ends a forked process without the test harness's destructors.
#[allow(unsafe_code)]
pub(crate) fn end_with(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Waits until a child ended, and returns how.
pub(crate) fn reap_one() -> ExitStatus {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some((_, status)) = crate::process::reap().expect("reap").pop() {
            return status;
        }
        assert!(Instant::now() < deadline, "no child ended");
        pause();
    }
}

/// Keeps a forked process until it is killed, though not for ever if its test failed.
pub(crate) fn linger() -> ! {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        pause();
    }
    end_with(1)
}

/// A moment between two looks at another process.
#[expect(clippy::disallowed_methods, reason = "a test has nothing else to do")]
pub(crate) fn pause() {
    thread::sleep(Duration::from_millis(2));
}

/// Runs a future on an event loop of this thread.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime").block_on(async {
        tokio::time::timeout(Duration::from_secs(10), future).await.expect("the future hangs")
    })
}
