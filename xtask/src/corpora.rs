//! Inputs of the fuzzer, kept in one file a target: `fuzz/corpora/NAME`, with each input's length in four bytes
//! before it. The fuzzer wants files, in `fuzz/corpus/NAME`.

use crate::tree;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Longer inputs are left out: they are worth little, and every checkout would carry them.
const INPUT_BYTES_MAX: usize = 4096;

/// Lays the kept inputs out for the fuzzer; those that are there stay.
pub(crate) fn unpack() -> Result<bool> {
    let fuzz = tree::root().join("fuzz");
    for packed in entries(&fuzz.join("corpora"))? {
        let name = packed.file_name().unwrap_or_default();
        let folder = fuzz.join("corpus").join(name);
        fs::create_dir_all(&folder)?;
        let bytes = fs::read(&packed)?;
        let inputs = inputs(&bytes).with_context(|| packed.display().to_string())?;
        for (at, input) in inputs.iter().enumerate() {
            fs::write(folder.join(format!("kept-{at:05}")), input)?;
        }
    }
    Ok(true)
}

/// Puts the fuzzer's inputs in place of those that were kept.
pub(crate) fn pack() -> Result<bool> {
    let fuzz = tree::root().join("fuzz");
    fs::create_dir_all(fuzz.join("corpora"))?;
    for folder in entries(&fuzz.join("corpus"))? {
        let mut inputs = Vec::new();
        for path in entries(&folder)? {
            inputs.push(fs::read(&path)?);
        }
        inputs.retain(|input| input.len() <= INPUT_BYTES_MAX);
        // The names are the fuzzer's; the order is to be that of the content.
        inputs.sort();
        inputs.dedup();
        fs::write(fuzz.join("corpora").join(folder.file_name().unwrap_or_default()), packed(&inputs)?)?;
    }
    Ok(true)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    Ok(entries.into_iter().map(|entry| entry.path()).collect())
}

fn packed(inputs: &[Vec<u8>]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for input in inputs {
        bytes.extend_from_slice(&u32::try_from(input.len())?.to_le_bytes());
        bytes.extend_from_slice(input);
    }
    Ok(bytes)
}

fn inputs(packed: &[u8]) -> Result<Vec<&[u8]>> {
    let mut inputs = Vec::new();
    let mut rest = packed;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let Some((input, after)) = behind.split_at_checked(u32::from_le_bytes(*length) as usize) else {
            bail!("an input is longer than the file");
        };
        inputs.push(input);
        rest = after;
    }
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let all = [b"one".to_vec(), Vec::new(), vec![0; 300]];
        let bytes = packed(&all).unwrap();
        assert_eq!(inputs(&bytes).unwrap(), all.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert!(inputs(&bytes[..bytes.len() - 1]).is_err());
    }
}
