//! The copy of a configuration that one of the two servers runs: on spare ports, without logs, and with all of its files in a
//! directory of the run.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use conf::{Node, Word};

use crate::old_server::OldServer;
use crate::site::{Listener, Site};

/// What Fulmar decides about a request, by the configuration that was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The request is passed to another server.
    pub is_passed: bool,
    /// A file is the response.
    pub is_file: bool,
    /// The directive that decides: file, line and text.
    pub place: Option<(String, u32, String)>,
}

/// The addresses of the two servers. Both use the same ports, so that links and redirects are the same.
pub(crate) const OLD_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 77, 1, 1);
pub(crate) const FULMAR_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 77, 1, 2);

/// Where a copy runs.
pub(crate) struct Place<'a> {
    pub(crate) address: Ipv4Addr,
    /// For files that the server writes.
    pub(crate) directory: &'a Path,
    /// The directory of the configuration that was given.
    pub(crate) conf_directory: &'a Path,
    /// The server that reads the copy; none is Fulmar.
    pub(crate) old: Option<&'a OldServer>,
    /// Whether the server may choose its user.
    pub(crate) is_root: bool,
}

/// Directives of the main level that a trial sets or leaves out.
const PROCESS: [&str; 9] = [
    "daemon",
    "master_process",
    "pid",
    "lock_file",
    "worker_processes",
    "worker_priority",
    "worker_cpu_affinity",
    "worker_rlimit_core",
    "working_directory",
];

/// What is left out at all levels, and what a report says about it; nothing where responses do not depend on it.
const LEFT_OUT: [(&str, &str); 20] = [
    ("stream", "its servers are not started"),
    ("mail", "its servers are not started"),
    ("limit_req", "left out, so that the number of requests does not change responses"),
    ("limit_conn", "left out, so that the number of connections does not change responses"),
    ("limit_rate", "left out"),
    ("limit_rate_after", "left out"),
    ("mirror", "left out, so that requests are not sent twice"),
    ("post_action", "left out, so that requests are not sent twice"),
    ("proxy_store", "left out, because it writes files"),
    ("fastcgi_store", "left out, because it writes files"),
    ("uwsgi_store", "left out, because it writes files"),
    ("scgi_store", "left out, because it writes files"),
    ("client_body_in_file_only", "left out, because it writes files"),
    ("google_perftools_profiles", "left out, because it writes files"),
    ("access_log", ""),
    ("error_log", ""),
    ("http2", ""),
    ("http3", ""),
    ("http3_hq", ""),
    ("ssl", ""),
];

/// What is left out of names that begin so, as in [`LEFT_OUT`].
const LEFT_OUT_FAMILIES: [(&str, &str); 5] = [
    ("acme_", "left out, so that no authority is asked for a certificate"),
    ("quic_", ""),
    ("http2_", ""),
    ("http3_", ""),
    ("ssl_", ""),
];

/// What a report says about a directive that the copies do not have; none if they have it.
fn left_out(name: &str) -> Option<&'static str> {
    let family = || {
        let is_it = |(start, _): &&(&str, &str)| name.starts_with(start) && !name.starts_with("ssl_preread");
        LEFT_OUT_FAMILIES.iter().find(is_it)
    };
    let said = LEFT_OUT.iter().find(|(known, _)| *known == name).or_else(family).map(|(_, said)| *said);
    let writes = name.ends_with("_temp_path") || name.ends_with("_ssl_key_log");
    said.or(writes.then_some(""))
}

/// Directives whose file names start from the directory of the configuration.
const BY_CONFIGURATION: [&str; 1] = ["auth_basic_user_file"];
/// The modules that have a directory for temporary files.
const TEMPORARY: [&str; 5] = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];

/// A port for each address, free at both servers' addresses.
///
/// # Errors
/// No port can be bound.
pub(crate) fn spare_ports(count: usize) -> std::io::Result<Vec<u16>> {
    let mut held = Vec::new();
    let mut ports = Vec::new();
    // A port may be taken at one of the two addresses; then another one is chosen.
    for _ in 0..count * 20 + 20 {
        if ports.len() == count {
            break;
        }
        let first = TcpListener::bind(SocketAddr::from((OLD_ADDRESS, 0)))?;
        let port = first.local_addr()?.port();
        if let Ok(second) = TcpListener::bind(SocketAddr::from((FULMAR_ADDRESS, port))) {
            ports.push(port);
            held.push((first, second));
        }
    }
    if ports.len() < count { Err(std::io::ErrorKind::AddrInUse.into()) } else { Ok(ports) }
}

/// What a trial of this configuration leaves out.
pub(crate) fn untried(nodes: &[Node]) -> Vec<String> {
    let mut found = BTreeSet::new();
    note(nodes, &mut found);
    found.into_iter().collect()
}

fn note(nodes: &[Node], found: &mut BTreeSet<String>) {
    for node in nodes {
        let name = node.name.as_str().unwrap_or_default();
        found.extend(left_out(name).filter(|said| !said.is_empty()).map(|said| format!("{name}: {said}")));
        if name == "load_module" {
            let said = "load_module: Fulmar loads no modules; fulmar -t says which directives it lacks";
            found.insert(said.to_owned());
        }
        if node.is("listen") {
            let has = |text: &str| node.args.iter().any(|word| word.is(text));
            let said = [
                ("ssl", "TLS: these addresses are tried without encryption, and HTTP/2 is not tried"),
                ("quic", "HTTP/3: addresses with \"quic\" are not tried"),
                ("proxy_protocol", "proxy_protocol: these addresses are tried without its header"),
            ];
            found.extend(said.iter().filter(|(word, _)| has(word)).map(|(_, text)| (*text).to_owned()));
        }
        if !node.is("stream") && !node.is("mail") {
            note(node.children(), found);
        }
    }
}

/// The directives of a copy. `ports` has the port of each of the site's addresses. What is read has the places of the
/// configuration that was given; what is made has line 0.
pub(crate) fn of(nodes: &[Node], site: &Site, ports: &[u16], place: &Place<'_>) -> Vec<Node> {
    let mut writer = Writer { site, ports, place, caches: Vec::new() };
    let directory = place.directory.display();
    let mut out =
        made(&format!("daemon off; pid \"{directory}/pid\"; error_log stderr crit; worker_processes 1;"));
    let kept = nodes
        .iter()
        .filter(|node| !PROCESS.iter().any(|name| node.is(name)) && (place.is_root || !node.is("user")));
    out.extend(kept.filter_map(|node| writer.node(node)));
    out
}

/// Directives that are made rather than read.
fn made(text: &str) -> Vec<Node> {
    let mut nodes = conf::parse_bytes(text.as_bytes()).nodes;
    nodes.iter_mut().for_each(|node| node.span.line = 0);
    nodes
}

struct Writer<'a> {
    site: &'a Site,
    ports: &'a [u16],
    place: &'a Place<'a>,
    /// Directories of caches, as they were written.
    caches: Vec<Box<[u8]>>,
}

impl Writer<'_> {
    /// A directive as the copy has it; none if it is left out. The loader bounds how deep blocks are.
    fn node(&mut self, node: &Node) -> Option<Node> {
        let name = node.name.as_str().unwrap_or_default();
        if left_out(name).is_some() {
            return None;
        }
        let mut copy = Node { block: None, ..node.clone() };
        if name.ends_with("_cache_path") {
            self.own_cache(&mut copy);
        }
        if BY_CONFIGURATION.contains(&name) || name.contains("_ssl_") {
            self.absolute(&mut copy);
        }
        if name == "listen" {
            return self.listen(node);
        }
        if let Some(children) = &node.block {
            let mut block = match name {
                "http" => self.beginning_of_http(),
                _ => Vec::new(),
            };
            block.extend(children.iter().filter_map(|child| self.node(child)));
            if name == "server" && !self.has_address(node, &mut block) {
                return None;
            }
            copy.block = Some(block);
        }
        Some(copy)
    }

    fn beginning_of_http(&self) -> Vec<Node> {
        let lacks = |module: &str| self.place.old.is_some_and(|old| old.lacks(module));
        let mut text = "access_log off;".to_owned();
        for module in TEMPORARY.iter().filter(|module| !lacks(module)) {
            let path = self.place.directory.join(module);
            text.push_str(&format!("{module}_temp_path \"{}\";", path.display()));
        }
        made(&text)
    }

    /// Whether a server of `http` has an address in the copy; a server without `listen` gets the one that it has by default.
    fn has_address(&self, server: &Node, block: &mut Vec<Node>) -> bool {
        // The servers of an upstream group have no block, so this is a server of `http`.
        if block.iter().any(|child| child.is("listen")) {
            return true;
        }
        let is_default = !server.children().iter().any(|child| child.is("listen"));
        if is_default && let Some(address) = self.spare(&Listener::usual()) {
            block.extend(made(&format!("listen {address};")));
        }
        is_default
    }

    fn listen(&self, node: &Node) -> Option<Node> {
        let address = self.spare(&Listener::of(node)?)?;
        let is_default = node.args.iter().any(|word| word.is("default_server") || word.is("default"));
        let default = if is_default { " default_server" } else { "" };
        made(&format!("listen {address}{default};")).pop()
    }

    /// The address in place of another one.
    fn spare(&self, listener: &Listener) -> Option<SocketAddr> {
        let at = self.site.listeners.iter().position(|known| known.written == listener.written)?;
        Some(SocketAddr::from((self.place.address, *self.ports.get(at)?)))
    }

    fn own_cache(&mut self, node: &mut Node) {
        let Some(word) = node.args.first_mut() else { return };
        let at = self.caches.iter().position(|known| *known == word.text).unwrap_or_else(|| {
            self.caches.push(word.text.clone());
            self.caches.len() - 1
        });
        *word = self.path_word(word, &self.place.directory.join(format!("cache-{at}")));
        // Where temporary files are does not matter to responses.
        node.args = node.args.iter().filter(|word| !word.is("use_temp_path=on")).cloned().collect();
    }

    fn absolute(&self, node: &mut Node) {
        for word in &mut node.args {
            let Some(text) = word.as_str().map(str::to_owned) else { continue };
            let path = self.place.conf_directory.join(&text);
            if !text.starts_with('/') && !text.contains('$') && path.exists() {
                *word = self.path_word(word, &path);
            }
        }
    }

    fn path_word(&self, word: &Word, path: &Path) -> Word {
        Word { text: path.as_os_str().as_encoded_bytes().into(), quoted: true, span: word.span }
    }
}

/// The directories that the two servers write to.
pub(crate) fn directories(run: &Path) -> [PathBuf; 2] {
    ["old", "fulmar"].map(|name| run.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(text: &str) -> String {
        let nodes = conf::parse_bytes(text.as_bytes()).nodes;
        let site = Site::new(&nodes, Path::new("/p"));
        let ports: Vec<u16> = (0u16..).map(|at| 9000 + at).take(site.listeners.len()).collect();
        let place = Place {
            address: OLD_ADDRESS,
            directory: Path::new("/d"),
            conf_directory: Path::new("/etc/nginx"),
            old: None,
            is_root: false,
        };
        let copy = conf::tree::to_text(&super::of(&nodes, &site, &ports, &place));
        String::from_utf8(copy).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ports_logs_and_directories_are_those_of_the_run() {
        let copy = copied(
            "user a; pid /run/x; error_log /var/log/e; events { } stream { server { listen 1; } }
             http { access_log /var/log/a; proxy_cache_path /var/cache/c keys_zone=a:1m; limit_req zone=a;
               acme_issuer i { uri https://x; state_path /acme; } proxy_ssl_key_log /var/log/keys;
               upstream u { server 127.0.0.1:1; }
               server { acme_certificate i; listen 443 ssl http2 default_server; listen 443 quic; ssl_certificate a; root /r; }
               server { listen 443 quic; }
               server { location / { access_log /x; proxy_pass http://u; } } }",
        );
        for gone in
            ["user", "/run/x", "/var/log", "/var/cache", "stream {", "limit_req", "ssl", "quic", "acme"]
        {
            assert!(!copy.contains(gone), "{gone} in {copy}");
        }
        for there in [
            "daemon off; pid \"/d/pid\"; error_log stderr crit; worker_processes 1; events { }",
            "http { access_log off; client_body_temp_path \"/d/client_body\";",
            "proxy_cache_path \"/d/cache-0\" keys_zone=a:1m;",
            "upstream u { server 127.0.0.1:1; }",
            "server { listen 127.77.1.1:9000 default_server; root /r; }",
            "server { location / { proxy_pass http://u; } listen 127.77.1.1:9001; }",
        ] {
            assert!(copy.contains(there), "{there} not in {copy}");
        }
        assert_eq!(copy.matches("server {").count(), 2);
    }

    #[test]
    fn what_is_left_out_is_said() {
        let nodes = conf::parse_bytes(
            b"http { server { listen 443 ssl; mirror /a; acme_certificate a; } } stream { limit_conn a 1; }",
        )
        .nodes;
        let said = untried(&nodes);
        let starts: Vec<&str> = said.iter().filter_map(|text| text.split(':').next()).collect();
        assert_eq!(starts, ["TLS", "acme_certificate", "mirror", "stream"]);
    }

    #[test]
    fn ports_are_free_at_both_addresses() {
        let ports = spare_ports(20).unwrap();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 20);
        for port in ports {
            TcpListener::bind((OLD_ADDRESS, port)).unwrap();
        }
    }
}
