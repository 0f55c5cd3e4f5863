//! What the system calls cost that put a response into the cache, without a server: no server that keeps files can need less.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat, renameat};
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
    let (root, bytes) = (File::open(directory.path()).unwrap(), [b'x'; LENGTH]);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let before = clock_gettime(ClockId::ThreadCPUTime);
    for number in 0..count {
        // The digits of a key are distributed evenly.
        let place = format!("{}/{number}", name(number.wrapping_mul(2_654_435_761)));
        let file: File = openat(&root, "temporary", flags, Mode::RUSR | Mode::WUSR).unwrap().into();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        renameat(&root, "temporary", &root, place).unwrap();
    }
    let after = clock_gettime(ClockId::ThreadCPUTime);
    let nanoseconds = (after.tv_sec - before.tv_sec) * 1_000_000_000 + after.tv_nsec - before.tv_nsec;
    let each = nanoseconds / i64::try_from(count).unwrap() / 100;
    eprintln!("{}.{} µs of processor time for each of {count} files", each / 10, each % 10);
}
