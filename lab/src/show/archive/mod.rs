//! An archive of a folder of results: one file with the blocks, the tools' output, the configurations, the experiments, the
//! report, and a manifest with the SHA-256 of everything. From it `report --from` gives the same report, byte for byte.

mod contents;
mod manifest;
mod pack;
mod unpack;
mod verify;

pub use contents::Contents;
pub use manifest::Manifest;
pub use pack::{pack, stem};
pub use unpack::{Opened, unpack};
pub use verify::{Verified, verify};

/// The file with the SHA-256 of all others, as `sha256sum -c` reads it.
const SUMS: &str = "SHA256SUMS";
/// What a machine reads about the archive.
const MANIFEST: &str = "manifest.json";
/// How the archive is cited, in the Citation File Format.
const CITATION: &str = "CITATION.cff";
/// What a person reads first.
const README: &str = "README.txt";
