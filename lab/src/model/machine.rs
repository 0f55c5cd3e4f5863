//! The machine that everything runs on.

use std::fs;
use std::thread;

use serde::{Deserialize, Serialize};

/// What a reader has to know of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Cores that may be used.
    pub cores: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The kernel and its version.
    pub kernel: String,
    /// The distribution.
    pub system: String,
    /// How the processor's frequency is governed, where it says so.
    pub governor: String,
    /// Whether it is a guest of another machine, whose other guests cost time.
    pub virtual_machine: bool,
}

impl Machine {
    /// This machine.
    pub fn this() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let processor = read("/proc/cpuinfo");
        let uname = rustix::system::uname();
        Machine {
            processor: value(&processor, "model name", ':').unwrap_or_else(|| "unknown".into()),
            cores: thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1)),
            memory_bytes: kilobytes(&read("/proc/meminfo"), "MemTotal") * 1024,
            kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
            system: value(&read("/etc/os-release"), "PRETTY_NAME", '=').unwrap_or_else(|| "unknown".into()),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").trim().to_owned(),
            virtual_machine: processor
                .lines()
                .any(|line| line.starts_with("flags") && line.contains(" hypervisor")),
        }
    }
}

fn value(text: &str, name: &str, separator: char) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(separator));
    let (_, value) = pairs.find(|(key, _)| key.trim() == name)?;
    Some(value.trim().trim_matches('"').to_owned())
}

/// A value of `/proc/meminfo`, in kilobytes.
pub(crate) fn kilobytes(text: &str, name: &str) -> u64 {
    let value = value(text, name, ':');
    value.and_then(|value| value.split(' ').next()?.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known() {
        let machine = Machine::this();
        assert!(machine.cores > 0 && machine.memory_bytes > 1 << 20, "{machine:?}");
        assert!(machine.kernel.starts_with("Linux "), "{machine:?}");
    }

    #[test]
    fn values_are_found_by_name() {
        assert_eq!(value("a: 1\nb c\t: \"2\"\n", "b c", ':').as_deref(), Some("2"));
        assert_eq!(kilobytes("MemTotal:    24 kB\n", "MemTotal"), 24);
    }
}
