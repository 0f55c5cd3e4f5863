//! Finding a contender's program, its version, and where it came from.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Contender, Family};
use crate::measure::digest;

/// A contender that is there.
#[derive(Clone, Debug)]
pub struct Found {
    /// The contender.
    pub contender: Contender,
    /// Its program.
    pub program: PathBuf,
    /// The version, as the program says it.
    pub version: String,
    /// The package that it came from with that package's version, or its path.
    pub origin: String,
    /// SHA-256 of the program's file.
    pub digest: String,
    /// The files that it needs, each with the package that it came from.
    pub parts: Vec<String>,
}

impl Found {
    /// Its title, version and origin.
    pub fn named(&self) -> String {
        format!("{} {} ({})", self.contender.title, self.version, self.origin)
    }

    /// Whether this contender is another one under a second name: the same file, run in the same way. Variants of one
    /// program differ in their configuration.
    pub fn is_same_as(&self, other: &Found) -> bool {
        self.digest == other.digest && self.contender.runs_like(&other.contender)
    }
}

/// Folders of programs that may not be on the `PATH`.
const ADMINISTRATORS: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Where `make install` and `make lab` unpack wheels and build programs, below the current folder.
const TARGET: &str = "target";

/// Looks for the program: `given` first, then the one that the contender's environment variable names, one that was
/// built or fetched here, one on the `PATH`. The error says how to install it.
pub fn find(contender: &Contender, given: Option<&Path>) -> Result<Found> {
    let family = &contender.family;
    // The lab's own servers are the program that runs.
    let own = || env::current_exe().ok().filter(|own| family.programs.iter().any(|name| own.ends_with(name)));
    let named = || env::var_os(family.environment.as_ref()?).map(PathBuf::from);
    let fetched = || below(&Path::new(TARGET).join(family.wheel.as_ref()?), &family.programs);
    let built = || {
        let programs = family.programs.iter().map(|program| Path::new(TARGET).join("release").join(program));
        programs.into_iter().find(|program| program.is_file())
    };
    let given = given.map(Path::to_path_buf);
    let given = if contender.installed {
        given
    } else {
        given.or_else(named).or_else(own).or_else(fetched).or_else(built)
    };
    let missing = || format!("not found; install it with: {}", family.install);
    let program = match given {
        Some(given) => given,
        None if contender.installed => packaged(&family.programs)
            .with_context(|| format!("no program of a Debian package; {}", missing()))?,
        None => installed(&family.programs).next().with_context(missing)?,
    };
    if let Some(reason) = &family.not_run {
        bail!("{} is there, but {reason}", program.display());
    }
    let program = real(&program).with_context(|| program.display().to_string())?;
    let version = version(contender, &program)?;
    let wheel = family.wheel.as_ref().filter(|wheel| program.iter().any(|part| part == wheel.as_str()));
    let origin = wheel.map_or_else(|| origin(&program), |wheel| format!("PyPI {wheel}"));
    let origin = match optimisation(family, &program) {
        Some(option) => format!("{origin}, built with {option}"),
        None => origin,
    };
    let digest = digest::of_file(&program)?;
    let mut contender = contender.clone();
    let mut parts = Vec::new();
    for (name, files) in &contender.needs {
        let file = files.iter().find(|file| Path::new(file).is_file());
        let missing = || format!("{name} not found; install it with: {}", contender.family.install);
        let file = file.with_context(missing)?;
        parts.push(self::origin(Path::new(file)));
        contender.values.insert(name.clone(), file.clone());
    }
    Ok(Found { contender, program, version, origin, digest, parts })
}

/// The first program that a package of Debian's has installed: one that a user built and put on the `PATH` is not
/// Debian's.
fn packaged(programs: &[String]) -> Option<PathBuf> {
    installed(programs).find(|program| {
        let program = real(program);
        program.is_ok_and(|program| origin(&program).starts_with(DEBIAN))
    })
}

/// How the origin of a packaged file begins.
const DEBIAN: &str = "Debian ";

/// All programs of these names, in the order of the folders that are searched.
fn installed(programs: &[String]) -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> =
        env::split_paths(&path).chain(ADMINISTRATORS.iter().map(PathBuf::from)).collect();
    let below = |program: &String| folders.iter().map(|folder| folder.join(program)).collect::<Vec<_>>();
    let all: Vec<PathBuf> = programs.iter().flat_map(below).collect();
    all.into_iter().filter(|program| program.is_file())
}

/// The path without links, but for the last part: some programs are what they are called.
fn real(program: &Path) -> Result<PathBuf> {
    let file = fs::canonicalize(program)?;
    let folder = program.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let name = program.file_name().context("not a program")?;
    Ok(if file.is_file() { fs::canonicalize(folder)?.join(name) } else { file })
}

/// The first file of one of these names below a folder.
fn below(folder: &Path, programs: &[String]) -> Option<PathBuf> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && programs.iter().any(|program| entry.file_name() == program.as_str()) {
                return Some(entry.path());
            }
        }
    }
    None
}

fn version(contender: &Contender, program: &Path) -> Result<String> {
    let output = Command::new(program).args(&contender.family.version).output();
    let output = output.with_context(|| format!("running {}", program.display()))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let after = &contender.family.version_after;
    let found = text
        .split_once(after.as_str())
        .and_then(|(_, version)| version.lines().next()?.split_ascii_whitespace().next().map(plain));
    found.with_context(|| format!("{} does not say its version: {text}", program.display()))
}

/// How the compiler optimised a program, where it says that: `-Os` is for size.
fn optimisation(family: &Family, program: &Path) -> Option<String> {
    let output = Command::new(program).arg("-V").output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    level(&String::from_utf8_lossy(&text), family.options_after.as_ref()?)
}

/// The last option `-O…` among those that follow a word.
fn level(text: &str, after: &str) -> Option<String> {
    let (_, options) = text.split_once(after)?;
    let options = match options.strip_prefix('\'') {
        Some(quoted) => quoted.split('\'').next(),
        None => options.split_ascii_whitespace().next(),
    };
    options?.split(' ').rfind(|option| option.starts_with("-O")).map(str::to_owned)
}

/// A version without what may stand around it: `v2.11`, `6.0.1)`.
fn plain(version: &str) -> String {
    let version = version.trim_end_matches([',', ')']);
    let number =
        version.strip_prefix('v').filter(|number| number.starts_with(|first: char| first.is_ascii_digit()));
    number.unwrap_or(version).to_owned()
}

/// The package of Debian's that a file belongs to, with its version, or the path of the file; what was built or fetched
/// here by its path below the current folder.
pub(crate) fn origin(program: &Path) -> String {
    let current = env::current_dir().unwrap_or_default();
    if let Ok(below) = program.strip_prefix(current.join(TARGET)) {
        let built = ["debug", "release"].iter().any(|folder| below.starts_with(folder));
        return format!("{} here, {TARGET}/{}", if built { "built" } else { "fetched" }, below.display());
    }
    let asked = |arguments: &[&str]| {
        let output = Command::new(arguments[0]).args(&arguments[1..]).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let path = program.display().to_string();
    let package = asked(&["dpkg-query", "--search", &path])
        // A merged /usr: the package may know the file by its path of old.
        .or_else(|| asked(&["dpkg-query", "--search", path.strip_prefix("/usr")?]))
        .and_then(|line| line.split_once(':').map(|(package, _)| package.to_owned()));
    package
        .and_then(|package| {
            asked(&["dpkg-query", "--show", "--showformat=Debian ${Package} ${Version}", &package])
        })
        .unwrap_or_else(|| {
            let here = env::current_dir().and_then(fs::canonicalize).unwrap_or_default();
            program.strip_prefix(here).unwrap_or(program).display().to_string()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_told_with_the_way_to_install_it() {
        let mut nginx =
            Contender::built_in().unwrap().into_iter().find(|contender| contender.name == "nginx").unwrap();
        nginx.family.programs = vec!["no-such-program".into()];
        nginx.family.environment = None;
        let error = find(&nginx, None).unwrap_err().to_string();
        assert!(error.contains("not found") && error.contains(&nginx.family.install), "{error}");
        assert!(find(&nginx, Some(Path::new("/no/such/nginx"))).is_err());
    }

    /// Two names for one file would be compared with each other, and nobody would see it.
    #[test]
    fn one_file_is_no_two_contenders() {
        let all = Contender::built_in().unwrap();
        let named = |name: &str| all.iter().find(|contender| contender.name == name).unwrap();
        let found = |name: &str, digest: &str| Found {
            contender: named(name).clone(),
            program: "/usr/sbin/x".into(),
            version: "1".into(),
            origin: "made".into(),
            digest: digest.into(),
            parts: Vec::new(),
        };
        assert!(found("nginx-debian", "a").is_same_as(&found("nginx", "a")));
        assert!(!found("nginx-debian", "a").is_same_as(&found("nginx", "b")));
        for [one, other] in [["apache-event", "apache-prefork"], ["nginx-apache", "nginx"]] {
            assert!(!found(one, "a").is_same_as(&found(other, "a")), "{one} is configured otherwise");
        }
    }

    /// A program that no package owns is not Debian's, wherever on the `PATH` it is.
    #[test]
    fn what_debian_s_package_has_installed_is_found_by_its_package() {
        if !Path::new("/usr/bin/dpkg-query").is_file() {
            println!("skipped: no dpkg here");
            return;
        }
        assert_eq!(packaged(&["no-such-program".into()]), None);
        let found = packaged(&["dpkg-query".into()]).unwrap();
        assert!(origin(&real(&found).unwrap()).starts_with("Debian dpkg "), "{}", found.display());
    }

    #[test]
    fn the_compiler_s_level_is_read() {
        let of =
            |options: &str| level(&format!("configure arguments: --x {options} --with-y"), "--with-cc-opt=");
        assert_eq!(of("--with-cc-opt='-g -Os -pipe'").as_deref(), Some("-Os"));
        assert_eq!(of("--with-cc-opt=-O2").as_deref(), Some("-O2"));
        assert_eq!((of("--with-cc-opt='-g'"), of("--none")), (None, None));
    }

    #[test]
    fn programs_of_packages_are_known() {
        if Path::new("/usr/bin/dpkg-query").is_file() {
            assert!(origin(Path::new("/usr/bin/dpkg-query")).starts_with("Debian dpkg "));
        }
        assert_eq!(origin(Path::new("/no/such/program")), "/no/such/program");
        let here = |path: &str| origin(&env::current_dir().unwrap().join(path));
        assert_eq!(here("target/release/x"), "built here, target/release/x");
        assert_eq!(here("target/tools/bin/x"), "fetched here, target/tools/bin/x");
    }
}
