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
            files: &[$(($file, include_str!(concat!("../../contenders/", $name, "/", $file)))),+],
        }
    };
}

/// In the order of `fulmar-lab list`.
pub(super) const FOLDERS: &[Folder] = &[
    folder!("fulmar": "contender.toml", "default.conf", "tuned.conf"),
    folder!("nginx": "contender.toml", "default.conf", "tuned.conf"),
    folder!("reference": "contender.toml"),
];
