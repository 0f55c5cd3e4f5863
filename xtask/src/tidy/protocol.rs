//! Protocols and the language do no I/O and read no clock: bytes and `now` come in, bytes go out.

use super::Finding;
use crate::tree::{File, Tree};

const PROTOCOL_CRATES: &[&str] =
    &["field_codes", "http", "conf", "h1", "http2", "http3", "fcgi", "dns", "proxy_protocol"];

/// What no protocol crate names, and what it takes instead.
const BANNED: &[(&str, &str)] = &[
    ("std::fs", "use the `Inputs` of crates/conf, whose `Disk` is the only one to open files"),
    ("std::net", "take bytes, and leave sockets to crates/net"),
    ("std::os", "leave the system to crates/net"),
    ("tokio", "return what is to be done, and leave it to crates/server"),
    ("Instant::now", "take `now` as an argument"),
    ("SystemTime::now", "take `now` as an argument"),
];

/// Pure values and conversions of the banned modules: naming them opens nothing.
const PURE: &[&str] = &[
    "std::net::AddrParseError",
    "std::net::IpAddr",
    "std::net::Ipv4Addr",
    "std::net::Ipv6Addr",
    "std::net::SocketAddr",
    "std::net::SocketAddrV4",
    "std::net::SocketAddrV6",
    "std::os::unix::ffi::OsStrExt",
    "std::os::unix::ffi::OsStringExt",
];

/// The one file that may open others: `include`, and all that a configuration names.
const DISK: &str = "crates/conf/src/loader.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let protocol =
        tree.product().filter(|file| file.crate_name().is_some_and(|name| PROTOCOL_CRATES.contains(&name)));
    protocol.flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let Some(ast) = file.ast() else { return Vec::new() };
    let disk = file.path == DISK;
    let mut found = Vec::new();
    for name in crate::syntax::names(ast) {
        let free = PURE.iter().any(|pure| names(&name.text, pure))
            || disk && (names(&name.text, "std::fs") || names(&name.text, "std::os::unix::fs"));
        let banned = BANNED.iter().find(|(banned, _)| !free && names(&name.text, banned));
        found.extend(banned.map(|(banned, instead)| {
            Finding::new(&file.path, name.line, format!("`{banned}` in a protocol crate"), *instead)
        }));
    }
    found
}

/// Whether a path in the code is `banned` or begins or ends with it, by whole segments.
fn names(path: &str, banned: &str) -> bool {
    let (path, banned): (Vec<&str>, Vec<&str>) = (path.split("::").collect(), banned.split("::").collect());
    path.starts_with(&banned) || (banned.last() == Some(&"now") && path.ends_with(&banned))
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn sockets_clocks_and_files_are_found_however_they_are_imported() {
        let found = check(&Tree::of(&[
            (
                "crates/h1/src/lib.rs",
                "use std::{fs,\n net::TcpStream};\nfn a() { std::time::Instant::now(); }",
            ),
            ("crates/conf/src/lib.rs", "mod a;\nuse std::fs::File;\nfn a() { tokio::spawn(x); }"),
            ("crates/conf/src/a.rs", "fn a() { t!(SystemTime::now()) }"),
        ]));
        let expected = [
            "crates/h1/src/lib.rs:1",
            "crates/h1/src/lib.rs:2",
            "crates/h1/src/lib.rs:3",
            "crates/conf/src/lib.rs:2",
            "crates/conf/src/lib.rs:3",
            "crates/conf/src/a.rs:1",
        ];
        assert_eq!(places(&found), expected);
    }

    #[test]
    fn addresses_the_disk_tests_and_other_crates_are_free() {
        let found = check(&Tree::of(&[
            (
                "crates/conf/src/lib.rs",
                "mod loader; use std::net::IpAddr; #[cfg(test)] mod t { use std::fs; }",
            ),
            (
                "crates/conf/src/loader.rs",
                "use std::fs; use std::os::unix::{ffi::OsStrExt, fs::FileTypeExt}; fn a() { fs::read(b); std::fs::read(b); }",
            ),
            ("crates/net/src/lib.rs", "use std::net::TcpStream;"),
        ]));
        assert_eq!(found, []);
    }

    #[test]
    fn the_disk_opens_files_and_no_sockets() {
        let found = check(&Tree::of(&[
            ("crates/conf/src/lib.rs", "mod loader;"),
            ("crates/conf/src/loader.rs", "use std::fs;\nuse std::os::unix::net::UnixStream;"),
        ]));
        assert_eq!(places(&found), ["crates/conf/src/loader.rs:2"]);
    }
}
