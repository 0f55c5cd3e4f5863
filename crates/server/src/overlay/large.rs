//! Large files, which take long and become a hundred times as large: one at a time is read, and threads that want
//! the same share it.

use super::Base;
use super::chain::{self, Chain, Failure};
use super::files::{File, Files};
use contract::{Overlay, SectionId};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// From so many bytes on the files of one way are large.
const LARGE_BYTES: u64 = 16 * 1024;

/// What was read last, for as long as somebody has it.
struct Last {
    base: Weak<Base>,
    section: SectionId,
    list: Vec<File>,
    chain: Weak<Chain>,
}

static LAST: Mutex<Option<Last>> = Mutex::new(None);

/// As [`chain::load`], for files of any size.
pub(super) fn load(base: &Arc<Base>, overlay: Overlay, files: &mut Files) -> Result<Arc<Chain>, Failure> {
    if files.bytes() < LARGE_BYTES {
        return chain::load(base, overlay, files).map(Arc::new);
    }
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(chain) = last.as_ref().and_then(|last| last.of(base, overlay, files)) {
        return Ok(chain);
    }
    let chain = chain::load(base, overlay, files).map(Arc::new)?;
    *last = (!files.is_fresh).then(|| Last {
        base: Arc::downgrade(base),
        section: overlay.section,
        list: files.list.clone(),
        chain: Arc::downgrade(&chain),
    });
    Ok(chain)
}

impl Last {
    fn of(&self, base: &Arc<Base>, overlay: Overlay, files: &Files) -> Option<Arc<Chain>> {
        let is_same = self.base.ptr_eq(&Arc::downgrade(base))
            && self.section == overlay.section
            && self.list == files.list;
        self.chain.upgrade().filter(|_| is_same)
    }
}
