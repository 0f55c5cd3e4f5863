//! What a configuration serves: its addresses, its servers, and the paths that its locations suggest.

use std::path::{Path, PathBuf};

use conf::Node;

use crate::example;

/// Servers, and locations of one server, that are looked at.
const SERVERS_MAX: usize = 1000;
const LOCATIONS_MAX: usize = 1000;

/// An address that the configuration listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    /// The address, in one spelling for all that mean the same.
    pub(crate) written: String,
    /// Whether clients use TLS.
    pub(crate) is_encrypted: bool,
}

/// A block `server` of `http`.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// A host that reaches it.
    pub(crate) host: String,
    /// Its addresses, as positions in [`Site::listeners`].
    pub(crate) listeners: Vec<usize>,
    /// Paths that its locations and rewrites suggest.
    pub(crate) paths: Vec<String>,
    /// Directories of files, with the path that leads there.
    pub(crate) roots: Vec<(String, PathBuf)>,
}

/// The servers of `http`, and their addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Site {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) servers: Vec<Server>,
}

impl Site {
    /// Looks through a configuration. Relative directories start from `prefix`.
    pub(crate) fn new(nodes: &[Node], prefix: &Path) -> Site {
        let mut site = Site::default();
        for http in nodes.iter().filter(|node| node.is("http")) {
            let root = root_of(http, prefix).unwrap_or_else(|| prefix.join("html"));
            for server in http.children().iter().filter(|node| node.is("server")).take(SERVERS_MAX) {
                let server = site.server(server, (&root, prefix));
                site.servers.push(server);
            }
        }
        site
    }

    fn server(&mut self, node: &Node, (root, prefix): (&Path, &Path)) -> Server {
        let listens: Vec<&Node> = node.children().iter().filter(|child| child.is("listen")).collect();
        let mut listeners: Vec<usize> = listens
            .iter()
            .filter_map(|listen| Listener::of(listen))
            .map(|listener| self.add(listener))
            .collect();
        if listens.is_empty() {
            listeners.push(self.add(Listener::usual()));
        }
        let names =
            node.children().iter().filter(|child| child.is("server_name")).flat_map(|child| &child.args);
        let host = names.filter_map(|word| host(word.as_str()?)).next();
        let root = root_of(node, prefix).unwrap_or_else(|| root.to_owned());
        let mut server = Server {
            host: host.unwrap_or_else(|| "localhost".to_owned()),
            listeners,
            paths: vec!["/".to_owned(), "/no-such-file".to_owned()],
            roots: vec![("/".to_owned(), root)],
        };
        server.look_into(node, prefix);
        server.paths.dedup();
        server
    }

    fn add(&mut self, listener: Listener) -> usize {
        match self.listeners.iter().position(|known| known.written == listener.written) {
            Some(at) => {
                self.listeners[at].is_encrypted |= listener.is_encrypted;
                at
            }
            None => {
                self.listeners.push(listener);
                self.listeners.len() - 1
            }
        }
    }
}

impl Server {
    /// Adds what the directives of a block suggest. The loader bounds how deep blocks are.
    fn look_into(&mut self, node: &Node, prefix: &Path) {
        for child in node.children() {
            if self.paths.len() >= LOCATIONS_MAX {
                return;
            }
            if child.is("location") {
                self.location(child, prefix);
            } else if child.is("rewrite")
                && let Some(pattern) = child.arg(0).and_then(|word| word.as_str())
            {
                self.paths.extend(example::of_pattern(pattern));
            }
            self.look_into(child, prefix);
        }
    }

    fn location(&mut self, node: &Node, prefix: &Path) {
        let Some(first) = node.arg(0).and_then(|word| word.as_str()) else { return };
        let second = node.arg(1).and_then(|word| word.as_str());
        let (modifier, text) = match second {
            Some(text) => (first, text),
            None => ["=", "^~", "~*", "~"]
                .into_iter()
                .find_map(|modifier| first.strip_prefix(modifier).map(|rest| (modifier, rest)))
                .unwrap_or(("", first)),
        };
        match modifier {
            "~" | "~*" => self.paths.extend(example::of_pattern(text)),
            _ if !text.starts_with('/') => {}
            _ => {
                self.paths.push(text.to_owned());
                if modifier != "=" {
                    let slash = if text.ends_with('/') { "" } else { "/" };
                    self.paths.push(format!("{text}{slash}no-such-file"));
                }
                let directory = |name: &str| {
                    let word = node.children().iter().rfind(|child| child.is(name))?.arg(0)?.as_str()?;
                    (!word.contains('$')).then(|| prefix.join(word))
                };
                if let Some(alias) = directory("alias") {
                    self.roots.push((text.to_owned(), alias));
                } else if let Some(root) = directory("root") {
                    self.roots.push((text.to_owned(), root.join(text.trim_start_matches('/'))));
                }
            }
        }
    }
}

impl Listener {
    /// The address of a `listen` that clients of HTTP over TCP use.
    pub(crate) fn of(node: &Node) -> Option<Listener> {
        if node.args.iter().any(|word| word.is("quic") || word.is("udp")) {
            return None;
        }
        let is_encrypted = node.args.iter().skip(1).any(|word| word.is("ssl"));
        let text = node.arg(0)?.as_str()?;
        if text.starts_with("unix:") {
            return Some(Listener { written: text.to_owned(), is_encrypted });
        }
        let (address, port): (_, u16) = match text.rsplit_once(':') {
            Some((address, port)) if !port.contains(']') => (address, port.parse().ok()?),
            _ => match text.parse() {
                Ok(port) => ("*", port),
                Err(_) => (text, 80),
            },
        };
        let address = if address.is_empty() || address == "0.0.0.0" { "*" } else { address };
        Some(Listener { written: format!("{address}:{port}"), is_encrypted })
    }

    /// The address of a server without `listen`.
    pub(crate) fn usual() -> Listener {
        Listener { written: "*:80".to_owned(), is_encrypted: false }
    }
}

/// The directory that a block's `root` names, if it names one without variables.
fn root_of(node: &Node, prefix: &Path) -> Option<PathBuf> {
    let word = node.children().iter().rfind(|child| child.is("root"))?.arg(0)?.as_str()?;
    (!word.contains('$')).then(|| prefix.join(word))
}

/// A host that a `server_name` matches.
fn host(name: &str) -> Option<String> {
    if let Some(pattern) = name.strip_prefix('~') {
        let path = example::of_pattern(pattern)?;
        return Some(path.trim_start_matches('/').to_owned()).filter(|host| is_host(host));
    }
    let name = match name.strip_prefix('.') {
        Some(rest) => rest.to_owned(),
        None => name.replacen("*.", "www.", 1).replacen(".*", ".example", 1),
    };
    Some(name).filter(|name| is_host(name) && name != "_")
}

fn is_host(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(text: &str) -> Site {
        Site::new(&conf::parse_bytes(text.as_bytes()).nodes, Path::new("/p"))
    }

    #[test]
    fn addresses_that_mean_the_same_are_one() {
        let site = site(
            "http { server { listen 80; listen *:80; listen 0.0.0.0:80; listen [::]:443 ssl; listen unix:/a; }
             server { listen 127.0.0.1:80; listen 443 quic; } server { } }",
        );
        let written: Vec<&str> = site.listeners.iter().map(|listener| listener.written.as_str()).collect();
        assert_eq!(written, ["*:80", "[::]:443", "unix:/a", "127.0.0.1:80"]);
        assert!(site.listeners[1].is_encrypted && !site.listeners[2].is_encrypted);
        assert_eq!(site.servers[2].listeners, [0]);
    }

    #[test]
    fn locations_suggest_paths_and_directories() {
        let site = site(
            "http { server { server_name _ *.a.b; root html;
               location = /x { } location /d/ { alias /data/; location ~ \\.png$ { } } location @n { }
               rewrite ^/old/(\\d+)$ /new; } }",
        );
        let server = &site.servers[0];
        assert_eq!(server.host, "www.a.b");
        let expected =
            ["/", "/no-such-file", "/x", "/d/", "/d/no-such-file", "/x.png", "/old/1"].map(str::to_owned);
        assert_eq!(server.paths, expected);
        let roots = [("/".to_owned(), PathBuf::from("/p/html")), ("/d/".to_owned(), PathBuf::from("/data/"))];
        assert_eq!(server.roots, roots);
    }
}
