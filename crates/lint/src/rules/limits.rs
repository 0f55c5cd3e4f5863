//! Limits, and the keys that distinguish clients.

use crate::tree::uses;
use crate::{Found, Rule};
use conf::{Level, Node};

pub(crate) static SPOOFED_KEY: Rule = Rule {
    id: "spoofed-key",
    level: Level::Error,
    title: "a limit by a key that the client can choose",
    why: "A client can write any value into `X-Forwarded-For` and similar headers. With a new value for each \
          request it is never limited, and with the address of another client it uses up the limit of that \
          client. Name the proxy with `set_real_ip_from` and `real_ip_header`; then `$remote_addr` is the \
          client's address.",
    bad: "limit_req_zone $http_x_forwarded_for zone=a:1m rate=1r/s;",
    good: "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s;",
    check: |tree| {
        let zones = ["limit_req_zone", "limit_conn_zone"];
        tree.all()
            .filter(|spot| zones.iter().any(|name| spot.node.is(name)))
            .filter_map(|spot| {
                let key = spot.node.arg(0)?;
                let spoofed = [
                    "$http_x_forwarded_for",
                    "$proxy_add_x_forwarded_for",
                    "$http_x_real_ip",
                    "$http_forwarded",
                ];
                let variable = uses(key, &spoofed)?;
                let text = format!("the client chooses \"{variable}\"");
                Some(Found::at(spot.node, text, "use $binary_remote_addr").under(key.span))
            })
            .collect()
    },
};

pub(crate) static EVERYBODY_TRUSTED: Rule = Rule {
    id: "everybody-trusted",
    level: Level::Error,
    title: "every client may choose its own address",
    why: "`set_real_ip_from` names trusted proxies. If it names the whole internet, every client can choose \
          its own address, and rules and limits by address have no effect.",
    bad: "set_real_ip_from 0.0.0.0/0; real_ip_header X-Forwarded-For;",
    good: "set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For;",
    check: |tree| {
        tree.named("set_real_ip_from")
            .filter_map(|spot| {
                let network = spot.node.arg(0)?;
                let is_all = network.is("0.0.0.0/0") || network.is("::/0");
                is_all.then(|| {
                    let text = format!("\"{network}\" is every client");
                    Found::at(spot.node, text, "name the proxies in front").under(network.span)
                })
            })
            .collect()
    },
};

pub(crate) static WORKER_FILES: Rule = Rule {
    id: "worker-files",
    level: Level::Warn,
    title: "fewer files than connections",
    why: "Each connection needs an open file, and each forwarded request needs another one. If \
          `worker_rlimit_nofile` is less than `worker_connections`, clients are rejected before the limit of \
          connections is reached.",
    // Examples stand inside of `http { }`; these two leave it and enter it again.
    bad: "} worker_rlimit_nofile 1024; events { worker_connections 4096; } http {",
    good: "} worker_rlimit_nofile 8192; events { worker_connections 4096; } http {",
    check: |tree| {
        let number = |node: &Node| {
            node.arg(0).and_then(|word| word.as_str()).and_then(|text| text.parse::<u64>().ok())
        };
        let Some(files) = tree.named("worker_rlimit_nofile").find_map(|spot| number(spot.node)) else {
            return Vec::new();
        };
        tree.named("worker_connections")
            .filter_map(|spot| {
                let connections = number(spot.node).filter(|&connections| connections > files)?;
                let text = format!("{connections} connections, but only {files} open files");
                Some(Found::at(spot.node, text, format!("worker_rlimit_nofile {};", connections * 2)))
            })
            .collect()
    },
};
