//! What may be done with the files of a directory.

use super::OPTIONS;
use contract::View;

/// What one line says about options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// What is not named is off.
    pub(crate) absolute: bool,
    /// Directories are listed.
    pub(crate) indexes: Option<bool>,
    /// Symbolic links are followed.
    pub(crate) follow: Option<bool>,
    /// Links that lead to what their own owner has are followed.
    pub(crate) follow_own: Option<bool>,
    /// A path that names no file gets one of several forms of a document.
    pub(crate) multi_views: Option<bool>,
    /// Commands in pages are done.
    pub(crate) includes: Option<bool>,
}

/// What one option comes to in all files, if a file says so.
fn option(view: &View<'_>, part: impl Fn(&Options) -> Option<bool>) -> Option<bool> {
    let step = |on: Option<bool>, options: Options| match part(&options) {
        None if options.absolute => Some(false),
        said => said.or(on),
    };
    view.all(&OPTIONS).into_iter().map(|written| *written.value).fold(None, step)
}

/// Whether rewriting is allowed.
pub(crate) fn follows(view: &View<'_>) -> bool {
    option(view, |options| options.follow).unwrap_or(true)
        || option(view, |options| options.follow_own).unwrap_or(false)
}

/// Whether links that lead to what their own owner has are followed, if files say that others are not.
pub(crate) fn refuses_links(view: &View<'_>) -> Option<bool> {
    let follows = option(view, |options| options.follow).unwrap_or(true);
    (!follows).then(|| option(view, |options| options.follow_own).unwrap_or(false))
}

/// Whether a path that names no file gets one of several forms of a document.
pub(crate) fn negotiates(view: &View<'_>) -> bool {
    option(view, |options| options.multi_views).unwrap_or(false)
}

/// Whether commands in pages are done, if a filter says so, too.
pub(crate) fn includes(view: &View<'_>) -> bool {
    option(view, |options| options.includes).unwrap_or(false)
}

/// Whether directories are listed, where a file says so.
pub(crate) fn lists_directories(view: &View<'_>) -> Option<bool> {
    option(view, |options| options.indexes)
}
