//! The requests of a run.

use std::collections::HashSet;

use crate::client::Request;
use crate::files;
use crate::response::Response;
use crate::site::Site;
use crate::urls::Url;

/// A target that is longer than the buffers of most configurations.
const LONG_TARGET_BYTES: usize = 40_000;

/// A request, and the address that it is sent to.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// The position of the address among those of the site.
    pub(crate) listener: usize,
    pub(crate) request: Request,
    /// Whether only the name of a file suggests it.
    pub(crate) is_listed: bool,
}

/// The first requests: those that were made before come first, then those that the configuration and the files suggest.
pub(crate) fn first(site: &Site, urls: &[Url], hosts: &[String], max: usize) -> Vec<Trial> {
    let mut trials: Vec<Trial> = urls.iter().flat_map(|url| of_url(site, url, hosts)).collect();
    for server in &site.servers {
        let listed = server.roots.iter().flat_map(|(base, root)| files::below(root, base));
        let long = format!("/{}", "a".repeat(LONG_TARGET_BYTES));
        let paths = server.paths.iter().cloned().chain([long]).map(|path| (path, false));
        for (path, is_listed) in paths.chain(listed.map(|path| (path, true))) {
            let trial = |listener: &usize| Trial {
                listener: *listener,
                request: Request::get(&server.host, &target(&path)),
                is_listed,
            };
            trials.extend(one_of_each(site, &server.listeners).iter().map(trial));
        }
    }
    for host in hosts {
        let all: Vec<usize> = (0..site.listeners.len()).collect();
        let trial = |listener: &usize| Trial {
            listener: *listener,
            request: Request::get(host, "/"),
            is_listed: false,
        };
        trials.extend(one_of_each(site, &all).iter().map(trial));
    }
    let mut seen = HashSet::new();
    trials.retain(|trial| {
        seen.insert((trial.listener, trial.request.host.clone(), trial.request.target.clone()))
    });
    trials.truncate(max);
    trials
}

/// The first address without TLS and the first one with it.
fn one_of_each(site: &Site, listeners: &[usize]) -> Vec<usize> {
    let of_kind = |is_encrypted: bool| {
        let is_it = |at: &&usize| site.listeners.get(**at).is_some_and(|it| it.is_encrypted == is_encrypted);
        listeners.iter().find(is_it).copied()
    };
    [false, true].into_iter().filter_map(of_kind).collect()
}

/// A URL without a host goes to the first server, or to each of the hosts that were given.
fn of_url(site: &Site, url: &Url, hosts: &[String]) -> Vec<Trial> {
    let named: Vec<String> = match &url.host {
        Some(host) => vec![host.clone()],
        None if hosts.is_empty() => {
            site.servers.first().map(|server| server.host.clone()).into_iter().collect()
        }
        None => hosts.to_vec(),
    };
    let mut trials = Vec::new();
    for host in named {
        let server = site.servers.iter().find(|server| server.host == host).or(site.servers.first());
        let Some(server) = server else { continue };
        let suits = |at: &usize| {
            let listener = site.listeners.get(*at);
            listener.is_some_and(|it| url.is_encrypted.is_none_or(|encrypted| encrypted == it.is_encrypted))
        };
        let listeners: Vec<usize> = server.listeners.iter().copied().filter(suits).collect();
        let trial =
            |listener| Trial { listener, request: Request::get(&host, &url.target), is_listed: false };
        trials.extend(one_of_each(site, &listeners).into_iter().map(trial));
    }
    trials
}

/// A path of a configuration as a request has it.
fn target(path: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(byte);
    path.bytes()
        .map(|byte| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// More requests for what a request found.
pub(crate) fn variants(trial: &Trial, response: &Response, may_post: bool) -> Vec<Trial> {
    let with = |method: &'static str, field: Option<(&'static str, String)>| {
        let request = Request { method, fields: field.into_iter().collect(), ..trial.request.clone() };
        Trial { request, ..*trial }
    };
    let get = |name: &'static str, value: &str| with("GET", Some((name, value.to_owned())));
    let mut variants =
        vec![with("HEAD", None), get("Accept-Encoding", "gzip"), get("Accept-Encoding", "br, gzip")];
    if response.status == 200 {
        variants.extend(response.field("ETag").map(|tag| get("If-None-Match", tag)));
        variants.extend(response.field("Last-Modified").map(|time| get("If-Modified-Since", time)));
        if response.field("Accept-Ranges").is_some() {
            variants.extend(["bytes=0-3", "bytes=-3", "bytes=99999999999-"].map(|range| get("Range", range)));
        }
    }
    if may_post {
        variants.push(with("POST", Some(("Content-Length", "0".to_owned()))));
    }
    variants
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn site() -> Site {
        let text =
            b"http { server { listen 80; listen 443 ssl; server_name a.b; root /no/such; location /x y { } }
                     server { server_name c.d; listen 80; root /no/such; } }";
        Site::new(&conf::parse_bytes(text).nodes, Path::new("/"))
    }

    #[test]
    fn each_request_is_made_once_at_each_kind_of_address() {
        let url = |line: &str| Url::of_line(line).unwrap().unwrap();
        let trials = first(&site(), &[url("http://c.d/q"), url("https://a.b/q"), url("/")], &[], 1000);
        let made: Vec<(usize, &str, &str)> = trials
            .iter()
            .map(|it| {
                (it.listener, it.request.host.as_str(), &it.request.target[..it.request.target.len().min(9)])
            })
            .collect();
        assert_eq!(made[..4], [(0, "c.d", "/q"), (1, "a.b", "/q"), (0, "a.b", "/"), (1, "a.b", "/")]);
        assert_eq!(made.iter().filter(|it| **it == (0, "a.b", "/")).count(), 1);
        assert_eq!(first(&site(), &[], &["e.f".to_owned()], 3).len(), 3, "bounded");
    }

    #[test]
    fn variants_depend_on_the_response() {
        let trial = Trial { listener: 0, request: Request::get("a", "/"), is_listed: false };
        let methods = |response: &Response, may_post| {
            let variants = variants(&trial, response, may_post);
            variants
                .iter()
                .map(|it| format!("{} {}", it.request.method, it.request.lines().concat()))
                .collect::<Vec<_>>()
        };
        let plain = Response { status: 404, ..Response::default() };
        assert_eq!(methods(&plain, false).len(), 3);
        let fields =
            vec![("ETag".to_owned(), "\"x\"".to_owned()), ("Accept-Ranges".to_owned(), "bytes".to_owned())];
        let file = methods(&Response { status: 200, fields, ..Response::default() }, true);
        assert!(file.contains(&"GET If-None-Match: \"x\"".to_owned()), "{file:?}");
        assert_eq!(file.last().unwrap(), "POST Content-Length: 0");
        assert_eq!(file.len(), 8);
    }
}
