//! Reading files without waiting for a disk.

use rustix::io::{Errno, ReadWriteFlags, preadv2, retry_on_intr};
use std::fs::File;
use std::io::{self, IoSliceMut};

/// What came of an attempt to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// So many bytes were in memory and are read; 0 at the end of the file.
    Bytes(usize),
    /// The first of them would have to be waited for.
    Waits,
    /// The file system does not tell; nothing is read.
    Unknown,
}

/// Reads what the kernel has in memory of a file, from an offset on, and waits for nothing.
///
/// # Errors
/// Those of reading.
pub fn read_ready(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<Ready> {
    let read =
        retry_on_intr(|| preadv2(file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT));
    match read {
        Ok(count) => Ok(Ready::Bytes(count)),
        Err(Errno::AGAIN) => Ok(Ready::Waits),
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::PERM) => Ok(Ready::Unknown),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Ready, read_ready};
    use rustix::fs::{Advice, fadvise, fsync};
    use std::io::Write;

    #[test]
    fn what_is_in_memory_and_what_is_not() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[b'x'; 10_000]).unwrap();
        let mut buffer = [0; 20_000];
        let whole = read_ready(&file, &mut buffer, 0).unwrap();
        if whole == Ready::Unknown {
            return;
        }
        assert_eq!(whole, Ready::Bytes(10_000));
        assert!(buffer[..10_000].iter().all(|&byte| byte == b'x'));
        assert_eq!(read_ready(&file, &mut buffer, 10_000).unwrap(), Ready::Bytes(0), "the end");
        fsync(&file).unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        // The kernel need not follow the advice.
        let cold = read_ready(&file, &mut buffer, 0).unwrap();
        assert!(matches!(cold, Ready::Waits | Ready::Bytes(1..)), "{cold:?}");
    }
}
