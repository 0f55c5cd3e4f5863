//! The limits of the control groups that a process is in (cgroups(7)), such as those of a container.

use std::fs;
use std::path::Path;

/// The files with limits of memory: of version 2, where a group is slowed down before it is at its limit, and of version 1.
const LIMITS: [&str; 2] = ["memory.max", "memory.high"];
const LIMIT_1: &str = "memory.limit_in_bytes";

/// The least limit of memory that holds for this process, in bytes.
pub(crate) fn memory_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    least(&groups, Path::new("/sys/fs/cgroup"))
}

/// The least limit of the groups in a text as `/proc/self/cgroup` has it, and of the groups around them.
fn least(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let files = if controllers.is_empty() { &LIMITS[..] } else { &[LIMIT_1] };
        let is_about_memory = controllers.is_empty() || controllers.split(',').any(|name| name == "memory");
        // Version 2 may be there together with version 1.
        let mounted = match controllers {
            "" if root.join("unified").is_dir() => root.join("unified"),
            "" => root.to_owned(),
            _ => root.join("memory"),
        };
        is_about_memory.then(|| along(&mounted, Path::new(path.trim_start_matches('/')), files)).flatten()
    });
    limits.min()
}

/// The least limit from a group up to the root. In a container the path may be that of the machine, which is not there;
/// the root is then the group of the container.
fn along(mounted: &Path, path: &Path, files: &[&str]) -> Option<u64> {
    let groups = path.ancestors().map(|group| mounted.join(group));
    groups.flat_map(|group| files.iter().filter_map(move |file| read(&group.join(file)))).min()
}

/// The number in a file; `None` for `max`, or where there is none.
fn read(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::least;
    use std::fs;

    #[test]
    fn the_least_limit_of_all_groups_holds() {
        let root = tempfile::tempdir().unwrap();
        let limit = |file: &str, text: &str| {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let of = |groups: &str| least(groups, root.path());
        assert_eq!(of("0::/a/b\n"), None);
        // Version 2.
        limit("a/b/memory.max", "max\n");
        limit("a/memory.max", "3000\n");
        limit("a/b/memory.high", "4000\n");
        assert_eq!(of("0::/a/b\n"), Some(3000));
        limit("a/b/memory.high", "2000\n");
        assert_eq!((of("0::/a/b\n"), of("0::/a\n"), of("0::/\n")), (Some(2000), Some(3000), None));
        // A container sees its own group as the root, whatever its path is outside.
        limit("memory.max", "1000\n");
        assert_eq!(of("0::/system.slice/docker-1.scope\n"), Some(1000));
        // Version 1.
        let groups = "5:cpu,memory:/c\n3:cpuset:/d\n";
        limit("cpuset/d/memory.limit_in_bytes", "5\n");
        assert_eq!(of(groups), None);
        limit("memory/memory.limit_in_bytes", "9223372036854771712\n");
        limit("memory/c/memory.limit_in_bytes", "500\n");
        assert_eq!(of(groups), Some(500));
        assert_eq!(of("5:memory:/elsewhere\n"), Some(9_223_372_036_854_771_712));
        limit("unified/e/memory.max", "50\n");
        assert_eq!(of("0::/e\n5:memory:/c\n"), Some(50));
        assert_eq!(of("nonsense\n\n::\n"), None);
    }
}
