//! Settings for single directories, as the features of files ask for them. Here they have no spelling: a directive of a
//! configuration language sets one of them by its slot.

pub(crate) mod hidden;
pub(crate) mod options;

use contract::{Directive, Rule, View};
use http::Status;
use options::Options;
use std::sync::Arc;

/// The slots of the settings.
pub(crate) mod slot {
    /// A `bool`: whether settings for single directories count.
    pub(crate) const JUDGED: &str = "judged files";
    /// What files with such settings are called.
    pub(crate) const NAMES: &str = "names of files with settings";
    /// [`Options`](super::Options); those of all levels add up.
    pub(crate) const OPTIONS: &str = "options of directories";
    /// A path, or `None`.
    pub(crate) const FALLBACK: &str = "fallback of directories";
    /// A status, or `None`.
    pub(crate) const INDEX_REDIRECT: &str = "redirect to the index";
    /// A `bool`.
    pub(crate) const SLASH: &str = "slash of directories";
    /// The name of a handler for all files, or `none`.
    pub(crate) const HANDLER: &str = "handler of files";
}

static JUDGED: Directive<bool> = unspelled(slot::JUDGED);
static NAMES: Directive<Arc<[Box<[u8]>]>> = unspelled(slot::NAMES);
static OPTIONS: Directive<Options> = unspelled(slot::OPTIONS).rule(Rule::Gather);
static FALLBACK: Directive<Option<Box<[u8]>>> = unspelled(slot::FALLBACK).rule(Rule::List);
static INDEX_REDIRECT: Directive<Option<Status>> = unspelled(slot::INDEX_REDIRECT).rule(Rule::List);
static SLASH: Directive<bool> = unspelled(slot::SLASH).rule(Rule::List);
static HANDLER: Directive<Box<[u8]>> = unspelled(slot::HANDLER).rule(Rule::List);

const fn unspelled<T>(slot: &'static str) -> Directive<T> {
    Directive::new(slot, |args, _| Err(args.error("is set by other directives")))
}

/// A redirect to the slash of a directory names the whole URL, though redirects to paths are sent as paths. A scope keeps this.
pub(crate) struct RelativeRedirects;

/// Whether settings for single directories count here, even if no directory has any. They judge each file that a client
/// asks for.
pub(crate) fn are_files_judged(view: &View<'_>) -> bool {
    view.get(&JUDGED).copied().unwrap_or(false)
}

/// The path that answers where there is no file.
pub(crate) fn fallback(view: &View<'_>) -> Option<Box<[u8]>> {
    last(view, &FALLBACK).flatten()
}

/// The path that a fallback names for a request; a relative one begins in the directory of the request's path.
pub(crate) fn fallback_for(named: &[u8], path: &[u8]) -> Vec<u8> {
    let directory = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let start = if named.starts_with(b"/") { 0 } else { directory };
    [&path[..start], named].concat()
}

/// The status with which a directory is redirected to its index, if it is.
pub(crate) fn index_redirect(view: &View<'_>) -> Option<Status> {
    last(view, &INDEX_REDIRECT).flatten()
}

/// Whether a directory without its slash is redirected to the path with it.
pub(crate) fn has_slash(view: &View<'_>) -> bool {
    last(view, &SLASH).unwrap_or(true)
}

/// Whether a handler is named for all files and directories.
pub(crate) fn has_handler(view: &View<'_>) -> bool {
    last(view, &HANDLER).is_some_and(|handler| !handler.eq_ignore_ascii_case(b"none"))
}

fn last<T: Clone>(view: &View<'_>, directive: &Directive<T>) -> Option<T> {
    view.all(directive).last().map(|written| written.value.clone())
}
