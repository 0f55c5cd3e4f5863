//! The files that `make release` makes in addition to the Debian package.

use super::{files, root};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use toml::Value;

/// Runs a program and returns its output.
#[track_caller]
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect(program);
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn digest(path: &Path) -> String {
    let sum = output("sha256sum", &[&path.display().to_string()]);
    sum.split_whitespace().next().expect("a digest").to_owned()
}

/// Writes an image of a program that is only a text.
fn image(directory: &Path, name: &str) -> Vec<u8> {
    let [program, archive] = ["program", name].map(|name| directory.join(name).display().to_string());
    fs::write(&program, "a program").expect("program");
    let script = root().join("packaging/image.sh").display().to_string();
    output(&script, &[&program, "1.2.3", "amd64", &archive]);
    fs::read(&archive).expect("archive")
}

#[test]
fn the_image_archive_is_complete_and_its_digests_are_right() {
    let directory = TempDir::new().expect("directory");
    let path = |name: &str| directory.path().join(name);
    assert!(image(directory.path(), "one.tar") == image(directory.path(), "two.tar"), "the archives differ");
    output(
        "tar",
        &["-C", &directory.path().display().to_string(), "-xf", &path("one.tar").display().to_string()],
    );
    // Every descriptor has the digest and the size of the blob that it refers to.
    let blob = |descriptor: &Json| {
        let sum =
            descriptor["digest"].as_str().and_then(|text| text.strip_prefix("sha256:")).expect("a digest");
        let path = path("blobs/sha256").join(sum);
        assert_eq!(digest(&path), sum);
        assert_eq!(descriptor["size"].as_u64(), Some(fs::metadata(&path).expect("blob").len()));
        path
    };
    let json =
        |path: &Path| -> Json { serde_json::from_slice(&fs::read(path).expect("file")).expect("JSON") };
    let manifest = json(&blob(&json(&path("index.json"))["manifests"][0]));
    let config = json(&blob(&manifest["config"]));
    assert_eq!(config["config"]["User"], "www-data");
    assert_eq!(config["config"]["StopSignal"], "SIGQUIT");
    let layer = blob(&manifest["layers"][0]).display().to_string();
    let layer_id = output("sh", &["-c", &format!("gzip -dc '{layer}' | sha256sum | cut -d ' ' -f 1")]);
    assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", layer_id.trim()));

    let listed = output("tar", &["-tzf", &layer]);
    let text = fs::read_to_string(root().join("packaging/Containerfile")).expect("text");
    let copied = text.lines().filter_map(|line| line.strip_prefix("COPY packaging/conf/"));
    let copied = copied.flat_map(str::split_whitespace).filter_map(|source| source.rsplit('/').next());
    for name in copied.filter(|name| !name.is_empty()).chain(["fulmar", "mime.types", "passwd"]) {
        assert!(
            listed.lines().any(|path| path.trim_end_matches('/').ends_with(&format!("/{name}"))),
            "{name}"
        );
    }
}

/// The files of the RPM and of the Debian package are the same, but for the manual and the folders that differ.
#[test]
fn the_rpm_has_the_files_of_the_debian_package() {
    let text = fs::read_to_string(root().join("crates/fulmar/Cargo.toml")).expect("manifest");
    let manifest: Value = toml::from_str(&text).expect("TOML");
    let metadata = &manifest["package"]["metadata"]["generate-rpm"];
    let is_manual = |path: &String| path.starts_with("usr/share/doc/");
    let mut packed = BTreeSet::new();
    for asset in metadata["assets"].as_array().expect("assets") {
        let [source, destination] = ["source", "dest"].map(|key| asset[key].as_str().expect("a text"));
        assert!(
            source.starts_with("target/") || source.contains('*') || root().join(source).exists(),
            "{source}"
        );
        let name = if destination.ends_with('/') { source.rsplit('/').next().expect("a name") } else { "" };
        let path = format!("{destination}{name}")
            .trim_start_matches('/')
            .replace("site-functions", "vendor-completions");
        packed.insert(path);
    }
    assert!(packed.remove("usr/lib/systemd/system/fulmar.service"));
    let packed: BTreeSet<String> = packed.into_iter().filter(|path| !is_manual(path)).collect();
    let expected: BTreeSet<String> =
        files().into_iter().map(|(_, path)| path).filter(|path| !is_manual(path)).collect();
    assert_eq!(packed, expected);
    for script in ["pre_install_script", "post_install_script", "pre_uninstall_script"] {
        let path = root().join(metadata[script].as_str().expect("a path"));
        output("sh", &["-n", &path.display().to_string()]);
    }
}
