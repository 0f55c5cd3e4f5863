//! The feature matrix of the contenders that are found.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use lab::contender::{Contender, Found, find};
use lab::features::{self, Cell, Matrix, Verdict};

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
    let matrix = features::probe(&found, folder.path()).unwrap();
    println!("{}", matrix.terminal());
    for found in &found {
        for feature in ["https", "ranges", "conditional", "virtual_hosts", "rewriting", "fastcgi", "proxying"]
        {
            let cell = cell(&matrix, feature, &found.contender.name).unwrap();
            assert_eq!(cell.verdict, Verdict::Yes, "{} {feature}: {}", found.contender.name, cell.detail);
            let transcript = folder.path().join(cell.transcript.as_ref().unwrap());
            assert!(fs::read_to_string(transcript).unwrap().contains("\n> GET /"));
        }
    }
    let kept = fs::read_to_string(folder.path().join("features/features.json")).unwrap();
    assert_eq!(serde_json::from_str::<Matrix>(&kept).unwrap(), matrix);
}

fn cell<'a>(matrix: &'a Matrix, feature: &str, contender: &str) -> Option<&'a Cell> {
    let row = matrix.features.iter().find(|row| row.name == feature)?;
    row.cells.get(matrix.contenders.iter().position(|column| column.name == contender)?)
}
