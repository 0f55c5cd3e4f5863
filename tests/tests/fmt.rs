//! `fulmar fmt` as a program, and on stock configurations.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use tests::binary::Server;

fn fmt(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(Server::Fulmar.path()).arg("fmt").args(arguments).current_dir(directory).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The tree of a text, without the files that it includes.
fn tree(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text).replace("include ", "includes ");
    let parsed = conf::parse_bytes(text.as_bytes());
    assert_eq!(parsed.error.map(|error| error.message), None);
    conf::tree::to_text(&parsed.nodes)
}

fn configurations(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            configurations(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "conf") {
            found.push(path);
        }
    }
}

#[test]
fn stock_configurations_keep_their_tree_and_their_comments() {
    let mut files = Vec::new();
    configurations(&Path::new(env!("CARGO_MANIFEST_DIR")).join("stock"), &mut files);
    assert!(files.len() >= 10, "stock configurations are missing");
    for file in files {
        let before = fs::read(&file).unwrap();
        let output = fmt(Path::new("/"), &[file.to_str().unwrap()]);
        assert!(output.status.success(), "{}: {}", file.display(), text(&output.stderr));
        assert_eq!(text(&tree(&before)), text(&tree(&output.stdout)), "{}", file.display());
        let marks = |text: &[u8]| text.iter().filter(|byte| **byte == b'#').count();
        assert_eq!(marks(&before), marks(&output.stdout), "{}", file.display());
        let again = conf::layout(&file, output.stdout.clone()).unwrap();
        assert_eq!(text(&again), text(&output.stdout), "{}", file.display());
    }
}

#[test]
fn files_are_rewritten_with_their_permissions_and_through_links() {
    let directory = TempDir::with_prefix("fmt-").unwrap();
    let root = directory.path();
    fs::write(root.join("a.conf"), "a{b;}").unwrap();
    fs::write(root.join("b.conf"), "a {\n    b;\n}\n").unwrap();
    fs::set_permissions(root.join("a.conf"), fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("a.conf", root.join("link.conf")).unwrap();

    let check = fmt(root, &["--check", "a.conf", "b.conf"]);
    assert_eq!((check.status.code(), text(&check.stdout)), (Some(1), "a.conf\n".to_owned()));
    assert_eq!(fs::read_to_string(root.join("a.conf")).unwrap(), "a{b;}");

    let write = fmt(root, &["--write", "link.conf", "b.conf"]);
    assert_eq!((write.status.code(), text(&write.stdout)), (Some(0), "link.conf\n".to_owned()));
    assert_eq!(fs::read_to_string(root.join("a.conf")).unwrap(), "a {\n    b;\n}\n");
    assert!(root.join("link.conf").is_symlink());
    assert_eq!(fs::metadata(root.join("a.conf")).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fmt(root, &["--check", "a.conf", "b.conf"]).status.code(), Some(0));
    assert_eq!(fs::read_dir(root).unwrap().count(), 3, "nothing else is left");
}

#[test]
fn a_file_with_an_error_stays_as_it_is() {
    let directory = TempDir::with_prefix("fmt-").unwrap();
    fs::write(directory.path().join("a.conf"), "a {\n b;\n").unwrap();
    let output = fmt(directory.path(), &["--write", "a.conf", "missing.conf"]);
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("unexpected end of file, expecting \"}\" in a.conf:3"), "{told}");
    assert!(told.contains("the block \"a\" that begins on line 1 is not closed"), "{told}");
    assert!(told.contains("cannot read \"missing.conf\": No such file or directory"), "{told}");
    assert_eq!(fs::read_to_string(directory.path().join("a.conf")).unwrap(), "a {\n b;\n");
}

#[test]
fn the_standard_input_is_formatted() {
    let mut command = Command::new(Server::Fulmar.path());
    let command = command.args(["fmt", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"events{}\nhttp { server { listen 8080; # all\n return 204; } }")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let expected =
        "events {}\nhttp {\n    server {\n        listen 8080; # all\n        return 204;\n    }\n}\n";
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), expected.to_owned()));
}

#[test]
fn shipped_configurations_have_the_layout() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = vec![root.join("demo/fulmar.conf")];
    configurations(&root.join("packaging"), &mut files);
    for file in files {
        let output = fmt(Path::new("/"), &["--check", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "fulmar fmt --write {}", file.display());
    }
}
