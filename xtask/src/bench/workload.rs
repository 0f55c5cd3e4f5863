//! What is asked of the servers.

/// One kind of load.
pub(super) struct Workload {
    pub(super) name: &'static str,
    /// The path that is asked for.
    pub(super) path: &'static str,
    /// Fields that wrk sends beside its own.
    pub(super) fields: &'static [&'static str],
}

/// A file below the root, and its length in bytes.
pub(super) const FILES: &[(&str, usize)] = &[("1k", 1024), ("72k", 71_882)];

pub(super) const WORKLOADS: &[Workload] = &[
    Workload { name: "keepalive-1k", path: "/1k", fields: &[] },
    Workload { name: "connection-per-request", path: "/1k", fields: &["Connection: close"] },
    Workload { name: "72k-sendfile", path: "/72k", fields: &[] },
    Workload { name: "access-log", path: "/logged/1k", fields: &[] },
];

/// The one configuration of both servers, tuned as nginx's documentation says. `prefix` is the folder of
/// the server, with `root` as the folder of the files.
pub(super) fn configuration(port: u16, threads: usize, user: &str) -> String {
    format!(
        "{user}
daemon off;
worker_processes {threads};
worker_rlimit_nofile 16384;
pid server.pid;
error_log error.log;

events {{
    worker_connections 16000;
}}

http {{
    sendfile on;
    tcp_nopush on;
    access_log off;
    keepalive_requests 1000000;
    keepalive_timeout 300s;
    open_file_cache max=1000 inactive=300s;
    open_file_cache_valid 60s;

    server {{
        listen 127.0.0.1:{port} backlog=4096;
        root ../files;

        location /logged/ {{
            alias ../files/;
            access_log access.log;
        }}
    }}
}}
"
    )
}

/// Content of a file: letters, so that a shift or a cut shows.
pub(super) fn content(length: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(length).collect()
}
