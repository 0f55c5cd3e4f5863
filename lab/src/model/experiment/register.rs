//! The register of claims: the files of `lab/claims`, as they are built into the program.

macro_rules! claims {
    ($($experiment:literal: $($claim:literal),+;)+) => {
        &[$($(include_str!(concat!("../../../claims/", $experiment, "/", $claim, ".toml"))),+),+]
    };
}

/// In the order of the report.
pub(crate) const CLAIMS: &[&str] = claims! {
    "stress-debian": "F1", "F1-as-published", "F2", "F6", "F3", "F4", "F5";
    "modern-vps": "F1", "F2", "F12", "F3", "F4", "F5", "F13", "F6", "F7", "F8", "F9", "F10", "F11", "F14", "F15", "F16", "F17", "F18", "F19", "F20", "F21", "F22", "F23", "F24";
    "static-cores": "F1", "F12", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9", "F10", "F11", "F13", "F14", "F15", "F16", "F17", "F18", "F19";
    "static-and-dynamic": "F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9", "F10";
    "windows-hey": "F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8";
};
