//! Results as one file, from which another person computes the same figures: `pack`, `verify` and `report --from`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// An experiment that the program does not know.
const EXPERIMENT: &str = r#"
id = "short"
title = "Short"
question = "Does it work?"
contenders = ["reference-epoll", "reference-thread"]

[source]
authors = "A. Nobody"
title = "On \"short\" loads"
year = 2020
machine = "none"

[[files]]
path = "1k"
length = 1024

[[loads]]
id = "kept"
title = "Kept"
path = "/1k"
clients = 2
requests = 200
keep_alive = true

[[findings]]
id = "F1"
claim = "It answers every request."
holds_when = [{ is = "answers_all", load = "kept", of = "reference-epoll" }]
"#;

fn lab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fulmar-lab")).args(arguments).current_dir(folder).output().unwrap()
}

fn said(output: &Output) -> String {
    let [out, error] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{error}")
}

fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    said(output)
}

fn fails(output: &Output, says: &[&str]) {
    let told = said(output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(says.iter().all(|says| told.contains(says)), "{says:?}: {told}");
}

/// A folder with results of a run and the archive of them.
fn packed() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("short.toml"), EXPERIMENT).unwrap();
    let run = ["run", "short", "--experiment", "short.toml", "--turns", "1", "--out", "results"];
    succeeds(&lab(place.path(), &run));
    let pack = ["pack", "--out", "results", "--archive", "a.tar.gz", "--author", "A \"Tester\""];
    let told = succeeds(&lab(place.path(), &pack));
    assert!(told.contains("3 measurements in"), "{told}");
    place
}

fn shell(folder: &Path, command: &str) -> Output {
    Command::new("sh").args(["-c", command]).current_dir(folder).output().unwrap()
}

/// The files of a report.
fn report(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let csv = fs::read_dir(folder.join("csv")).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        csv.chain(["report.html", "report.md"].map(|name| folder.join(name))).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let content = fs::read(&path).unwrap();
        (path.strip_prefix(folder).unwrap().to_owned(), content)
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn an_archive_gives_the_same_report_without_the_experiment_s_file() {
    let place = packed();
    let told = succeeds(&lab(place.path(), &["verify", "a.tar.gz"]));
    assert!(told.contains("3 of 3 measurements were read again"), "{told}");
    assert!(told.contains("Everything is the same, byte for byte."), "{told}");

    let elsewhere = tempfile::tempdir().unwrap();
    fs::copy(place.path().join("a.tar.gz"), elsewhere.path().join("a.tar.gz")).unwrap();
    succeeds(&lab(elsewhere.path(), &["report", "--from", "a.tar.gz"]));
    let ours = report(&place.path().join("results"));
    assert!(ours.len() >= 4, "{}", ours.len());
    assert!(ours == report(&elsewhere.path().join("a")), "the report differs");
    let again = lab(elsewhere.path(), &["report", "--from", "a.tar.gz"]);
    fails(&again, &["a is there already", "--out"]);

    // The same results give the same bytes, and nothing is overwritten.
    fails(&lab(place.path(), &["pack", "--out", "results", "--archive", "a.tar.gz"]), &["is there already"]);
    fs::create_dir(place.path().join("again")).unwrap();
    let pack = ["pack", "--out", "results", "--archive", "again/a.tar.gz", "--author", "A \"Tester\""];
    succeeds(&lab(place.path(), &pack));
    let [one, other] = ["a.tar.gz", "again/a.tar.gz"].map(|name| fs::read(place.path().join(name)).unwrap());
    assert!(one == other, "the archive differs");
    fails(&lab(place.path(), &["pack", "--out", "results", "--archive", "a.zip"]), &["ends in .tar.gz"]);
}

#[test]
fn an_archive_needs_no_fulmar_lab_to_be_read() {
    let place = packed();
    let command = "tar xzf a.tar.gz && cd a && sha256sum --check --quiet SHA256SUMS && ls";
    let listed = succeeds(&shell(place.path(), command));
    for name in ["CITATION.cff", "README.txt", "blocks.jsonl", "manifest.json", "procedure.txt", "raw"] {
        assert!(listed.contains(name), "{name}: {listed}");
    }
    let folder = place.path().join("a");
    let text = fs::read_to_string(folder.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    let environment = &manifest["environments"][0];
    assert_eq!(environment["lab"]["sha256"].as_str().unwrap().len(), 64);
    assert!(environment["machine"]["kernel"].as_str().unwrap().starts_with("Linux "), "{environment}");
    assert!(environment["settings"]["net.core.somaxconn"].is_string(), "{environment}");
    assert!(environment["seed"].as_str().unwrap().starts_with("0x"), "{environment}");
    let contenders = manifest["contenders"].as_array().unwrap();
    assert!(contenders.iter().all(|one| one["sha256"].as_str().unwrap().len() == 64), "{contenders:?}");
    let citation = fs::read_to_string(folder.join("CITATION.cff")).unwrap();
    let lines =
        ["cff-version: 1.2.0", "  - name: \"A \\\"Tester\\\"\"", "    title: \"On \\\"short\\\" loads\""];
    for line in lines {
        assert!(citation.lines().any(|one| one == line), "{line}: {citation}");
    }
}

#[test]
fn what_was_changed_in_an_archive_is_named() {
    let place = packed();
    let change = |command: &str| {
        let command = format!(
            "rm -rf a b.tar.gz && tar xzf a.tar.gz && cd a && {command} && cd .. && tar czf b.tar.gz a"
        );
        succeeds(&shell(place.path(), &command));
        lab(place.path(), &["verify", "b.tar.gz"])
    };
    fails(&change("echo more >> report.md"), &["changed after it was packed", "report.md has the SHA-256"]);
    fails(&change("rm procedure.txt && touch new"), &["procedure.txt is missing", "new was added"]);
    // A new list of digests does not change what the tools printed.
    let sums = "find . -type f ! -name SHA256SUMS | sed 's|^./||' | sort | xargs sha256sum > SHA256SUMS";
    let faster = format!("sed -i 's/\"requests_per_s\":/\"requests_per_s\":9/' blocks.jsonl && {sums}");
    fails(
        &change(&faster),
        &["differs: raw/short/kept-reference", "the tool printed RequestsPerS", "report.md: line"],
    );
    let link = format!("ln -s /etc/passwd raw/link && {sums}");
    fails(&change(&link), &["raw/link: only files are expected"]);
    fails(&lab(place.path(), &["verify", "short.toml"]), &["short.toml: not a whole archive"]);
    fails(&lab(place.path(), &["pack", "--out", "none"]), &["--out none: there is no such folder"]);
}

/// A folder of results contains its experiment.
#[test]
fn results_need_no_other_file() {
    let place = packed();
    let told = succeeds(&lab(place.path(), &["report", "short", "--out", "results"]));
    assert!(told.contains("F1 It answers every request."), "{told}");
    succeeds(&lab(place.path(), &["audit", "short", "--out", "results"]));
}

/// A claim is added by a separate file, without a change of its experiment.
#[test]
fn a_claim_is_a_file() {
    let place = packed();
    let claim = "experiment = \"short\"\nid = \"F2\"\nclaim = \"Threads answer, too\"\nquoted = \"0 failed\"\n\
        holds_when = [{ is = \"answers_all\", load = \"kept\", of = \"reference-thread\" }]\n";
    fs::write(place.path().join("claim.toml"), claim).unwrap();
    let run = [
        "run",
        "short",
        "--experiment",
        "short.toml",
        "--claim",
        "claim.toml",
        "--turns",
        "1",
        "--out",
        "more",
    ];
    let told = succeeds(&lab(place.path(), &run));
    assert!(told.contains("F2 Threads answer, too\n     "), "{told}");
    succeeds(&lab(place.path(), &["pack", "--out", "more", "--archive", "more.tar.gz"]));
    fs::remove_file(place.path().join("claim.toml")).unwrap();
    succeeds(&lab(place.path(), &["verify", "more.tar.gz"]));
    let told = succeeds(&lab(place.path(), &["claims", "short", "--out", "more", "--write", "claims.md"]));
    assert!(told.contains("published: 0 failed") && told.contains("2 claims of 1 publications"), "{told}");
    let page = fs::read_to_string(place.path().join("claims.md")).unwrap();
    assert!(page.contains("Threads answer, too") && !page.contains("not measured"), "{page}");
    let told = succeeds(&lab(place.path(), &["claims", "windows-hey"]));
    assert!(told.contains("not measured") && told.contains("8 claims of 1 publications"), "{told}");

    for (right, wrong, says) in [
        ("short", "colours", "line 1: no experiment is called colours"),
        ("kept", "lost", "line 5: finding F2: no load is called lost"),
        ("reference-thread", "nobody", "line 5: finding F2: no contender is called nobody"),
    ] {
        fs::write(place.path().join("claim.toml"), claim.replace(right, wrong)).unwrap();
        fails(&lab(place.path(), &run), &["claim.toml: ", says]);
    }
}
