//! The folders of `lab/contenders`, as they are built into the program.

/// A folder: its files by name.
pub(super) struct Folder {
    pub(super) name: &'static str,
    pub(super) files: &'static [(&'static str, &'static str)],
}

macro_rules! folder {
    ($name:literal: $($file:literal),+) => {
        Folder {
            name: $name,
            files: &[$(($file, include_str!(concat!("../../../contenders/", $name, "/", $file)))),+],
        }
    };
}

/// In the order of `fulmar-lab list`.
pub(super) const FOLDERS: &[Folder] = &[
    folder!("fulmar": "contender.toml", "default.conf", "tuned.conf", "features.toml", "features.conf"),
    folder!("nginx": "contender.toml", "default.conf", "tuned.conf", "features.toml", "features.conf"),
    folder!("apache": "contender.toml", "default.conf", "tuned.conf", "features.toml", "features.conf"),
    folder!("lighttpd": "contender.toml", "default.conf", "tuned.conf", "features.toml", "features.conf"),
    folder!("h2o": "contender.toml", "default.conf", "tuned.conf", "features.toml", "features.conf"),
    folder!("caddy": "contender.toml", "default.conf", "tuned.conf", "features.toml", "features.conf"),
    folder!("varnish": "contender.toml", "default.vcl", "default.cli", "tuned.vcl", "tuned.cli", "features.toml", "features.vcl"),
    folder!("haproxy": "contender.toml", "default.cfg", "tuned.cfg", "certificate.pem", "features.toml", "features.cfg"),
    folder!(
        "trafficserver": "contender.toml", "default.config", "tuned.config", "runroot.yaml", "remap.config",
        "storage.config", "ssl_multicert.config", "ip_allow.yaml", "logging.yaml", "features.toml", "features.config"
    ),
    folder!("openlitespeed": "contender.toml"),
    folder!("cherokee": "contender.toml"),
    folder!("hybrid": "contender.toml", "tuned.conf"),
    folder!("node": "contender.toml", "application.js"),
    folder!("php-fpm": "contender.toml", "fpm.conf"),
    folder!("mariadb": "contender.toml", "mariadb.cnf", "first.sql"),
    folder!("redis": "contender.toml"),
    folder!("reference": "contender.toml"),
];
