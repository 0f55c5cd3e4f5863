//! What the system calls cost that put a response into the cache, without a server: no server that keeps files can need less.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, Mode, OFlags, ResolveFlags, flock, openat2, renameat};
use rustix::time::{ClockId, clock_gettime};

/// A head and 1 KB of content, in bytes.
const LENGTH: usize = 1500;

/// How many directories the files are distributed to, as with `levels=1:2`.
const DIRECTORIES: usize = 4096;

#[test]
#[ignore = "it measures the machine and writes many files: make cache-calls"]
fn files_without_a_server() {
    let count = std::env::var("CACHE_FILES").map_or(20_000_usize, |text| text.parse().unwrap());
    let parent =
        std::env::var_os("CACHE_DIRECTORY").map_or(env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from);
    let directory = tempfile::tempdir_in(parent).unwrap();
    let name = |number: usize| format!("{:x}/{:02x}", number % 16, number / 16 % 256);
    (0..DIRECTORIES).for_each(|number| fs::create_dir_all(directory.path().join(name(number))).unwrap());
    let root = File::open(directory.path()).unwrap();
    // The digits of a key are distributed evenly.
    let place = |number: usize| format!("{}/{number}", name(number.wrapping_mul(2_654_435_761)));
    let measure = |what: &str, write: &dyn Fn(&str)| {
        let before = clock_gettime(ClockId::ThreadCPUTime);
        (0..count).for_each(|number| write(&place(number)));
        let after = clock_gettime(ClockId::ThreadCPUTime);
        let nanoseconds = (after.tv_sec - before.tv_sec) * 1_000_000_000 + after.tv_nsec - before.tv_nsec;
        let each = nanoseconds / i64::try_from(count).unwrap() / 100;
        eprintln!("{}.{} µs of processor time for each of {count} {what}", each / 10, each % 10);
    };
    measure("new files", &|place| create(&root, place).write_all_at(&[b'x'; LENGTH], 0).unwrap());
    measure("replaced files", &|place| {
        let file = create(&root, "temporary");
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        file.write_all_at(&[b'x'; LENGTH], 0).unwrap();
        renameat(&root, "temporary", &root, place).unwrap();
    });
}

fn create(root: &File, path: &str) -> File {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    openat2(root, path, flags, Mode::RUSR | Mode::WUSR, resolve).unwrap().into()
}
