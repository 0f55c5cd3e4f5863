//! Apache on the documents of a site, as the oracle for `.htaccess` files.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::client::{self, Answer};
use crate::parts;
use crate::site::Site;
use crate::wait;

const PROGRAM: &str = "/usr/sbin/apache2";
/// The directory of its modules.
pub const MODULES: &str = "/usr/lib/apache2/modules";
const LOADED: [&str; 16] = [
    "mpm_event",
    "authn_core",
    "authz_core",
    "authz_host",
    "access_compat",
    "alias",
    "autoindex",
    "dir",
    "mime",
    "headers",
    "expires",
    "rewrite",
    "setenvif",
    "env",
    "proxy",
    "proxy_fcgi",
];

/// Whether an Apache to compare with exists. Without one a line is printed, and in CI the test fails.
pub fn have_apache() -> bool {
    parts::is_present("Apache", Path::new(PROGRAM).exists())
}

/// A started Apache, ended when dropped.
#[derive(Debug)]
pub struct Apache {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

/// Whether Apache loads these lines in its main configuration; what it prints if it does not.
///
/// # Errors
///
/// Apache's messages.
pub fn loads(site: &Site, lines: &str) -> Result<(), String> {
    let output = run(site, &(load(&["ssl", "socache_shmcb"]) + lines), "-t");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(text) }
}

/// Apache's dump of its configuration as it was read (`-D DUMP_CONFIG`), without the lines that say where a directive stands.
/// The file is in a folder that is `ServerRoot`, and these modules are loaded before it is read.
///
/// # Errors
///
/// Apache's messages.
pub fn dump(root: &Path, file: &str, modules: &[&str]) -> Result<String, String> {
    let mut command = Command::new(PROGRAM);
    command.current_dir(root).arg("-d").arg(root).arg("-f").arg(root.join(file));
    for name in modules.iter().chain(&["info"]) {
        command.args(["-C", &format!("LoadModule {name}_module {MODULES}/mod_{name}.so")]);
    }
    for line in ["ServerName localhost", "ErrorLog error.log", "PidFile pid"] {
        command.args(["-c", line]);
    }
    let output = command.args(["-t", "-D", "DUMP_CONFIG"]).output().expect("apache2");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(told);
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect())
}

/// What Apache says about the directives of all its modules (`-L`).
pub fn directives(site: &Site) -> String {
    // Other modules need these.
    const FIRST: [&str; 8] = ["dav", "proxy", "session", "ldap", "dbd", "cache", "slotmem_shm", "watchdog"];
    let files = fs::read_dir(MODULES).expect("modules").map(|file| file.expect("module").file_name());
    let mut names: Vec<String> = files
        .filter_map(|file| Some(file.to_str()?.strip_prefix("mod_")?.strip_suffix(".so")?.to_owned()))
        .filter(|name| !name.starts_with("mpm_") && !LOADED.contains(&name.as_str()))
        .collect();
    names.sort_by_key(|name| (!FIRST.contains(&name.as_str()), name.clone()));
    let output = run(site, &load(&names.iter().map(String::as_str).collect::<Vec<_>>()), "-L");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs Apache with this argument and more lines in its configuration; it ends by itself.
fn run(site: &Site, lines: &str, argument: &str) -> Output {
    let folder = site.prefix().join("apache");
    fs::create_dir_all(&folder).expect("directory");
    let path = folder.join("tested.conf");
    fs::write(&path, configuration(site, &folder, 1) + lines).expect("configuration");
    Command::new(PROGRAM).arg(argument).arg("-f").arg(&path).output().expect("apache2")
}

/// Lines that load modules.
pub fn load(modules: &[&str]) -> String {
    let line = |name| format!("LoadModule {name}_module {MODULES}/mod_{name}.so\n");
    modules.iter().map(line).collect()
}

impl Apache {
    /// Serves the documents of a site. Panics with its log when it does not start.
    pub fn start(site: &Site) -> Apache {
        Apache::start_with(site, "")
    }

    /// As `start`, with more lines of configuration.
    pub fn start_with(site: &Site, more: &str) -> Apache {
        let prefix = site.prefix();
        // Apache's workers run as another user.
        fs::set_permissions(&prefix, fs::Permissions::from_mode(0o755)).expect("mode");
        let folder = prefix.join("apache");
        fs::create_dir_all(&folder).expect("directory");
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|any| any.local_addr())
            .expect("port")
            .port();
        Apache::run(&folder, port, &(configuration(site, &folder, port) + more))
    }

    /// Serves the documents of a site by a whole main configuration, with the marks of [`Site`] in it.
    pub fn start_whole(site: &Site, text: &str) -> Apache {
        let prefix = site.prefix();
        fs::set_permissions(&prefix, fs::Permissions::from_mode(0o755)).expect("mode");
        let folder = prefix.join("apache");
        fs::create_dir_all(&folder).expect("directory");
        let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("port");
        let sockets = [free(), free()];
        let [port, second] = sockets.map(|socket| socket.local_addr().expect("port").port());
        let text = text
            .replace("%%ROOT%%", &site.root().display().to_string())
            .replace("%%LOGS%%", &folder.display().to_string())
            .replace("%%DIR%%", &prefix.display().to_string())
            .replace("%%PORT%%", &port.to_string())
            .replace("%%PORT_1%%", &second.to_string());
        Apache::run(&folder, port, &text)
    }

    fn run(folder: &Path, port: u16, text: &str) -> Apache {
        let path = folder.join("httpd.conf");
        fs::write(&path, text).expect("configuration");
        let mut command = Command::new(PROGRAM);
        command.arg("-X").arg("-f").arg(&path).stdin(Stdio::null());
        let console = fs::File::create(folder.join("console")).expect("console");
        command.stdout(console.try_clone().expect("console")).stderr(console);
        let child = command.spawn().expect("apache2");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let apache = Apache { child, address, log: folder.join("error.log") };
        let listens = wait::until(Duration::from_secs(10), || TcpStream::connect(address).is_ok());
        assert!(listens, "apache2 does not start:\n{}", apache.log());
        apache
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a request in the short form (see `request::expand`) on a separate connection.
    pub fn ask(&self, short: &str) -> Answer {
        client::ask(self.address, short)
    }

    /// Its error log.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(site: &Site, folder: &Path, port: u16) -> String {
    let modules = load(&LOADED);
    let (folder, root) = (folder.display(), site.root());
    let root = root.display();
    let user = if rustix::process::geteuid().is_root() { "User www-data\nGroup www-data\n" } else { "" };
    format!(
        "{modules}{user}ServerRoot {folder}\nPidFile {folder}/pid\nErrorLog {folder}/error.log\n\
         DefaultRuntimeDir {folder}\nListen 127.0.0.1:{port}\nServerName localhost:{port}\nDocumentRoot {root}\n\
         LogLevel info\nTypesConfig /dev/null\nAddType text/html .html\nAddType text/plain .txt\n\
         AddType text/css .css\nAddType text/javascript .js\nAddType text/html .php\nDirectoryIndex index.html\n\
         <Directory {root}>\nAllowOverride All\nRequire all granted\nOptions FollowSymLinks\n</Directory>\n\
         <FilesMatch \"^\\.ht\">\nRequire all denied\n</FilesMatch>\n"
    )
}
