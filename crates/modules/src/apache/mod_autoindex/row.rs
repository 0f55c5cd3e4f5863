//! An entry of a listing, with what its columns show.

use std::borrow::Cow;

/// An entry of a listing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row<'a> {
    /// The name, with a slash if it is a directory; of the parent directory the path.
    pub(crate) name: Vec<u8>,
    /// Seconds and nanoseconds since 1970; none in a plain listing, and for the parent directory.
    pub(crate) modified: Option<(i64, u32)>,
    /// Bytes; none for a directory.
    pub(crate) size: Option<u64>,
    pub(crate) description: Option<Cow<'a, [u8]>>,
    /// Whether it comes before all others.
    pub(crate) is_first: bool,
    pub(super) icon: Option<&'a [u8]>,
    pub(super) alt: Option<&'a [u8]>,
}
