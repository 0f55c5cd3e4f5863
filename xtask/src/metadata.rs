//! What `cargo metadata` knows of the workspace's packages and of those they use.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A package: ours when `dir` is given, a third party's otherwise.
#[derive(Clone, Debug, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// The folder of the manifest, relative to the root; none outside the workspace.
    pub(crate) dir: Option<String>,
    /// The SPDX expression.
    pub(crate) licence: Option<String>,
    /// Where cargo takes it from; none for a folder.
    pub(crate) source: Option<String>,
    /// Names of its manifest's dependencies, as sources call them.
    pub(crate) dependencies: Vec<String>,
    /// Names of the features, without `default`.
    pub(crate) features: Vec<String>,
    pub(crate) targets: Vec<Target>,
}

/// Something that cargo builds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    /// `lib`, `bin`, `test`, `bench`, `example` or `custom-build`.
    pub(crate) kind: String,
    /// The file it starts at, relative to the root.
    pub(crate) path: String,
}

impl Package {
    /// Whether it is one of the crates that make the product.
    pub(crate) fn is_product(&self) -> bool {
        self.dir.as_ref().is_some_and(|dir| dir.starts_with("crates/"))
    }

    /// The path of its manifest, relative to the root; `Cargo.lock` for a third party's package.
    pub(crate) fn manifest(&self) -> String {
        self.dir.as_ref().map_or_else(|| "Cargo.lock".into(), |dir| format!("{dir}/Cargo.toml"))
    }
}

/// Asks cargo for the packages that a Linux build resolves to.
pub(crate) fn load(root: &Path) -> Result<Vec<Package>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--filter-platform=x86_64-unknown-linux-gnu"])
        .current_dir(root)
        .output()
        .context("running cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    parse(&String::from_utf8_lossy(&output.stdout), root)
}

fn parse(json: &str, root: &Path) -> Result<Vec<Package>> {
    let metadata: Value = serde_json::from_str(json).context("reading cargo metadata")?;
    let resolved: Vec<&str> = array(&metadata["resolve"]["nodes"]).map(|node| text(&node["id"])).collect();
    let packages = array(&metadata["packages"]);
    Ok(packages
        .filter(|package| resolved.contains(&text(&package["id"])))
        .map(|p| package(p, root))
        .collect())
}

fn package(json: &Value, root: &Path) -> Package {
    let relative = |path: &str| {
        let path = Path::new(path).strip_prefix(root).ok()?;
        Some(path.to_string_lossy().into_owned())
    };
    let source = json["source"].as_str().map(String::from);
    let manifest = relative(text(&json["manifest_path"])).filter(|_| source.is_none());
    let dir = manifest.and_then(|path| path.strip_suffix("/Cargo.toml").map(String::from));
    let target = |target: &Value| Target {
        kind: text(&target["kind"][0]).into(),
        path: relative(text(&target["src_path"])).unwrap_or_default(),
    };
    let dependency = |line: &Value| line["rename"].as_str().unwrap_or(text(&line["name"])).into();
    let features = json["features"].as_object().into_iter().flat_map(|features| features.keys());
    Package {
        name: text(&json["name"]).into(),
        dir,
        licence: json["license"].as_str().map(String::from),
        source,
        dependencies: array(&json["dependencies"]).map(dependency).collect(),
        features: features.filter(|name| *name != "default").cloned().collect(),
        targets: array(&json["targets"]).map(target).collect(),
    }
}

fn array(json: &Value) -> impl Iterator<Item = &Value> {
    json.as_array().into_iter().flatten()
}

fn text(json: &Value) -> &str {
    json.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_ours_and_theirs_and_drops_what_is_not_resolved() {
        let json = r#"{
            "packages": [
                {"id": "a", "name": "a", "source": null, "license": "MIT", "manifest_path": "/r/crates/a/Cargo.toml",
                 "dependencies": [{"name": "b", "kind": null}, {"name": "c", "rename": "d"}],
                 "features": {"default": [], "x": []},
                 "targets": [{"kind": ["lib"], "src_path": "/r/crates/a/src/lib.rs"}]},
                {"id": "b", "name": "b", "source": "registry+u", "license": null, "manifest_path": "/c/b/Cargo.toml",
                 "dependencies": [], "features": {}, "targets": []},
                {"id": "w", "name": "windows", "source": "registry+u", "manifest_path": "/c/w/Cargo.toml"}
            ],
            "resolve": {"nodes": [{"id": "a"}, {"id": "b"}]}
        }"#;
        let packages = parse(json, Path::new("/r")).unwrap();
        assert_eq!(packages.len(), 2);
        assert_eq!(packages[0].dir.as_deref(), Some("crates/a"));
        assert_eq!(packages[0].dependencies, ["b", "d"]);
        assert_eq!(packages[0].features, ["x"]);
        assert_eq!(packages[0].targets[0].path, "crates/a/src/lib.rs");
        assert_eq!(packages[1].dir, None);
    }
}
