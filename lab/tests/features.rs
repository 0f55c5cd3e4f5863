//! The feature matrix of the contenders that are found.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use lab::measure::contender::{Contender, Found, find};
use lab::measure::features::{self, Cell, Matrix, Verdict};

/// Next to what all three have.
const KNOWN_FOR: &[(&str, &[&str])] = &[
    (
        "nginx",
        &[
            "resumption",
            "ocsp",
            "scgi",
            "uwsgi",
            "pooling",
            "websocket",
            "access",
            "authentication",
            "rate_limit",
            "ipv6",
            "proxy_protocol",
            "modules",
            "configuration_test",
            "upgrade",
        ],
    ),
    (
        "apache-event",
        &[
            "resumption",
            "ocsp",
            "htaccess",
            "cgi",
            "scgi",
            "uwsgi",
            "ajp",
            "pooling",
            "access",
            "authentication",
            "status",
            "ipv6",
            "proxy_protocol",
            "modules",
            "configuration_test",
        ],
    ),
    (
        "lighttpd",
        &[
            "resumption",
            "ocsp",
            "cgi",
            "scgi",
            "uwsgi",
            "ajp",
            "access",
            "authentication",
            "status",
            "ipv6",
            "proxy_protocol",
        ],
    ),
];

#[test]
fn what_contenders_are_known_for_is_found_by_probing() {
    // Where `make lab` leaves what it fetched and built.
    std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let names = ["nginx", "apache-event", "lighttpd"];
    let all = Contender::built_in().unwrap();
    let found: Vec<Found> = all
        .iter()
        .filter(|contender| names.contains(&contender.name.as_str()))
        .filter_map(|contender| find(contender, None).inspect_err(|error| println!("left out: {error}")).ok())
        .collect();
    let matrix = features::probe(&found, folder.path(), &AtomicBool::new(false)).unwrap().unwrap();
    println!("{}", matrix.terminal());
    for found in &found {
        for feature in ["https", "ranges", "conditional", "virtual_hosts", "rewriting", "fastcgi", "proxying"]
        {
            let cell = cell(&matrix, feature, &found.contender.name).unwrap();
            assert_eq!(cell.verdict, Verdict::Yes, "{} {feature}: {}", found.contender.name, cell.detail);
            let transcript = folder.path().join(cell.transcript.as_ref().unwrap());
            assert!(fs::read_to_string(transcript).unwrap().contains("\n> GET /"));
        }
        let own = KNOWN_FOR.iter().filter(|(name, _)| *name == found.contender.name);
        for feature in own.flat_map(|(_, features)| *features) {
            let cell = cell(&matrix, feature, &found.contender.name).unwrap();
            // Without the program of openssl, or without IPv6.
            if cell.verdict == Verdict::NotProbed && ["ocsp", "ipv6"].contains(feature) {
                println!("left out: {feature}: {}", cell.detail);
                continue;
            }
            assert_eq!(cell.verdict, Verdict::Yes, "{} {feature}: {}", found.contender.name, cell.detail);
            assert!(cell.transcript.is_some(), "{} {feature}: no transcript", found.contender.name);
        }
    }
    let [apache, lighttpd] =
        ["apache-event", "lighttpd"].map(|name| cell(&matrix, "rate_limit", name).map(|cell| cell.verdict));
    assert!(apache.is_none_or(|verdict| verdict == Verdict::NotOffered), "{apache:?}");
    assert!(lighttpd.is_none_or(|verdict| verdict == Verdict::NotOffered), "{lighttpd:?}");
    let kept = fs::read_to_string(folder.path().join("features/features.json")).unwrap();
    assert_eq!(serde_json::from_str::<Matrix>(&kept).unwrap(), matrix);
}

fn cell<'a>(matrix: &'a Matrix, feature: &str, contender: &str) -> Option<&'a Cell> {
    let row = matrix.features.iter().find(|row| row.name == feature)?;
    row.cells.get(matrix.contenders.iter().position(|column| column.name == contender)?)
}
