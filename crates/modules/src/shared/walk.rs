//! Opens files by way of checked components. Every step starts from a directory that is open, so that what was
//! checked is what is used.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat, statat};
use rustix::io::{Errno, Result, retry_on_intr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// How a path is opened. Lengths are of parts of the path, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Links are followed.
    Follow,
    /// Links behind the first `from` bytes are refused, or only those whose target has another owner.
    Walk {
        /// Whether a link is fine that leads to what its own owner has.
        owned_is_fine: bool,
        /// What is trusted.
        from: usize,
    },
    /// Links are followed as long as they lead to something below the first `base` bytes.
    Beneath {
        /// The directory.
        base: usize,
    },
}

/// How a directory is opened that is only passed through. `openat2` rejects most other flags together with `O_PATH`.
pub(crate) const PASS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens what is at a path for reading, without waiting for the other end of a pipe.
///
/// # Errors
/// Those of the system; `ELOOP` also where a link is refused. A path with a NUL is invalid.
pub(crate) fn open(path: &[u8], way: Way) -> io::Result<File> {
    open_with(path, way, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC).map(File::from)
}

/// Opens a directory only to name what is in it, as in calls such as `renameat`.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_directory(path: &[u8], way: Way) -> io::Result<OwnedFd> {
    open_with(path, way, PASS)
}

fn open_with(path: &[u8], way: Way, flags: OFlags) -> io::Result<OwnedFd> {
    if path.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let opened = retry_on_intr(|| match way {
        Way::Follow => openat(CWD, path, flags, Mode::empty()),
        Way::Walk { owned_is_fine, from } => walk(path, owned_is_fine, from, flags),
        Way::Beneath { base } => beneath(path, base, flags),
    });
    Ok(opened?)
}

/// A path that leads to what is open, for calls that take paths only.
pub(crate) fn place(file: &impl AsFd) -> Vec<u8> {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()).into_bytes()
}

fn walk(path: &[u8], owned_is_fine: bool, from: usize, flags: OFlags) -> Result<OwnedFd> {
    let (start, mut rest) = match path {
        _ if from > 0 => (&path[..from], path.get(from + 1..).unwrap_or_default()),
        [b'/', rest @ ..] => (&b"/"[..], rest),
        rest => (&b"."[..], rest),
    };
    let mut directory = openat(CWD, start, PASS, Mode::empty())?;
    while let Some(slash) = rest.iter().position(|&byte| byte == b'/') {
        let (name, behind) = (&rest[..slash], &rest[slash + 1..]);
        if !name.is_empty() {
            directory = step(directory.as_fd(), name, owned_is_fine, PASS)?;
        }
        rest = behind;
    }
    match rest {
        b"" => openat(directory, ".", flags, Mode::empty()),
        name => step(directory.as_fd(), name, owned_is_fine, flags),
    }
}

/// Opens one component.
fn step(directory: BorrowedFd<'_>, name: &[u8], owned_is_fine: bool, flags: OFlags) -> Result<OwnedFd> {
    if !owned_is_fine {
        return openat(directory, name, flags | OFlags::NOFOLLOW, Mode::empty());
    }
    let opened = openat(directory, name, flags, Mode::empty())?;
    let link = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if link.st_uid == fstat(&opened)?.st_uid { Ok(opened) } else { Err(Errno::LOOP) }
}

fn beneath(path: &[u8], base: usize, flags: OFlags) -> Result<OwnedFd> {
    let directory = openat(CWD, &path[..base], PASS, Mode::empty())?;
    let slashes = path[base..].iter().take_while(|&&byte| byte == b'/').count();
    let rest = match &path[base + slashes..] {
        b"" => b".",
        rest => rest,
    };
    match openat2(&directory, rest, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS)
    {
        // A link that is written as an absolute path may lead inside all the same. The others are of systems
        // that do not have the call, or do not allow it.
        Err(Errno::XDEV | Errno::AGAIN | Errno::NOSYS | Errno::PERM) => compared(&directory, rest, flags),
        result => result,
    }
}

/// Opens a path below a directory, if what it leads to is there, too.
fn compared(directory: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd> {
    let found = openat(directory, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let name = |file: &OwnedFd| readlinkat(CWD, place(file), Vec::new()).map_err(|_| Errno::ACCESS);
    let (root, leads_to) = (name(directory)?, name(&found)?);
    let is_inside = match leads_to.as_bytes().strip_prefix(root.as_bytes()) {
        Some(rest) => rest.is_empty() || rest.starts_with(b"/") || root.as_bytes() == b"/",
        None => false,
    };
    if is_inside { openat(CWD, place(&found), flags, Mode::empty()) } else { Err(Errno::LOOP) }
}

#[cfg(test)]
mod tests {
    use super::{OFlags, PASS, Way, compared, open};
    use rustix::fs::{CWD, Mode, openat};
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn read(path: &Path, way: impl FnOnce(usize) -> Way, base: &Path) -> Result<String, i32> {
        let mut file = open(path.as_os_str().as_bytes(), way(base.as_os_str().len()))
            .map_err(|error| error.raw_os_error().unwrap())?;
        let mut text = String::new();
        file.read_to_string(&mut text).map(|_| text).map_err(|error| error.raw_os_error().unwrap())
    }

    #[test]
    fn both_ways_to_stay_beneath_agree() {
        let directory = tempfile::tempdir().unwrap();
        let outer = directory.path().canonicalize().unwrap();
        let root = outer.join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::create_dir(outer.join("root-beside")).unwrap();
        std::fs::write(root.join("sub/a"), "inside").unwrap();
        std::fs::write(outer.join("root-beside/a"), "outside").unwrap();
        symlink("sub/a", root.join("near")).unwrap();
        symlink(root.join("sub"), root.join("absolute")).unwrap();
        symlink("../root/sub/a", root.join("around")).unwrap();
        symlink("../root-beside/a", root.join("beside")).unwrap();
        symlink(outer.join("root-beside"), root.join("far")).unwrap();
        symlink("nowhere", root.join("broken")).unwrap();
        let handle = openat(CWD, &root, PASS, Mode::empty()).unwrap();
        let (inside, refused) = (Ok("inside".to_owned()), Err(rustix::io::Errno::LOOP.raw_os_error()));
        let missing = Err(rustix::io::Errno::NOENT.raw_os_error());
        for (name, expected) in [
            ("sub/a", &inside),
            ("near", &inside),
            ("absolute/a", &inside),
            ("around", &inside),
            ("beside", &refused),
            ("far/a", &refused),
            ("broken", &missing),
            ("none", &missing),
        ] {
            assert_eq!(&read(&root.join(name), |base| Way::Beneath { base }, &root), expected, "{name}");
            let compared = compared(&handle, name.as_bytes(), OFlags::RDONLY).map(std::fs::File::from);
            let compared = compared.map_err(rustix::io::Errno::raw_os_error).map(|mut file| {
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                text
            });
            assert_eq!(&compared, expected, "{name}, compared");
        }
    }

    #[test]
    fn the_trusted_part_and_odd_slashes() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("sub")).unwrap();
        std::fs::write(root.join("sub/a"), "a").unwrap();
        symlink("sub", root.join("link")).unwrap();
        let all = |_| Way::Walk { owned_is_fine: false, from: 0 };
        let behind = |from| Way::Walk { owned_is_fine: false, from };
        let owned = |_| Way::Walk { owned_is_fine: true, from: 0 };
        let linked = root.join("link");
        assert_eq!(read(&linked.join("a"), behind, &linked).as_deref(), Ok("a"));
        assert_eq!(read(&linked.join("a"), owned, &linked).as_deref(), Ok("a"));
        assert_eq!(read(&linked.join("a"), all, &root), Err(rustix::io::Errno::NOTDIR.raw_os_error()));
        assert_eq!(read(&root.join("sub//./a"), all, &root).as_deref(), Ok("a"));
        assert_eq!(read(&root.join("sub/"), all, &root), Err(rustix::io::Errno::ISDIR.raw_os_error()));
    }
}
