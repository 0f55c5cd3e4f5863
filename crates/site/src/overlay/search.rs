//! The search for files with settings: one `stat` for each directory and name, unless the request shares an earlier look.

use super::files::{File, Files, Found, Stamp, as_path, failed, reads_files, rule_of};
use super::seen::{self, Way};
use crate::layers::{Layers, UNSAID};
use conf::value::TooManySteps;
use contract::{Exchange, LocationKind, Opener, Overlaid, Overlay};
use journal::clock::Time;
use rustix::fs::Stat;
use rustix::io::Errno;
use std::rc::Rc;
use std::sync::Arc;
use std::{fs, io};

/// How many directories one request may lead through.
const DIRECTORIES_MAX: usize = 128;

/// Room for so many files is made at once.
const USUAL_COUNT: usize = 4;

/// Looks for the files, one `stat` for each directory and name, and one for the request's own file. The error says why
/// all requests are denied.
pub(super) fn find(
    exchange: &Exchange,
    overlay: &Arc<Overlay>,
    layers: Option<&Arc<Layers>>,
) -> Result<Way, String> {
    let path = exchange.path().map_err(|_| format!("the path of \"{}\" leaves its root", uri(exchange)))?;
    let root_end = start(exchange, &path);
    let root = (root_end, overlay);
    // Where links are refused, only files that are open may be looked at.
    let is_free = exchange.scope.policy.overlay_opener.is_none();
    if is_free && let Some(way) = seen::shared(|seen| seen.find(&path, root)).flatten() {
        return Ok(way);
    }
    let (metadata, directories_end) = if is_free { own_file(&path) } else { (None, path.len()) };
    let directories = &path[..directories_end];
    // Sections of the main configuration may depend on the name of the file.
    let known = match is_free && layers.is_none() {
        true => seen::shared(|seen| seen.find_directory(directories, root)).flatten(),
        false => None,
    };
    let (files, moment, scope) = match known {
        Some(known) => known,
        None => (
            search(exchange, &path, directories_end, Below { root_end, overlay, layers }).map(Rc::new)?,
            net::moment(),
            None,
        ),
    };
    let below = Arc::downgrade(&exchange.scope);
    let is_chosen = scope.is_some() || files.list.is_empty();
    let scope = scope.unwrap_or_else(|| below.clone());
    let own = Overlaid { uri_start: uri_start(exchange, root_end), root_end, path, metadata, below, scope };
    let way = Way { moment, own: Rc::new(own), directories_end, files, is_chosen };
    if is_free {
        seen::shared(|seen| seen.keep(way.clone()));
    }
    Ok(way)
}

/// Looks again for the files of an earlier request for the same path in the same location. If they are the same, so is the
/// scope.
pub(super) fn find_again(exchange: &Exchange) -> Option<Way> {
    let (scope, uri) = (&exchange.scope, &exchange.request.path);
    let mut way = seen::shared(|seen| seen.take_past(scope, uri, Time::now().uptime_ms)).flatten()?;
    // An earlier request that still runs keeps what it saw.
    let own = Rc::make_mut(&mut way.own);
    let (metadata, directories_end) = own_file(&own.path);
    let Files { root_end, overlay, list, layers, .. } = &*way.files;
    let below = Below { root_end: *root_end, overlay, layers: layers.as_ref() };
    let is_same = directories_end == way.directories_end
        && search(exchange, &own.path, directories_end, below).is_ok_and(|files| files.list == *list);
    own.metadata = metadata;
    way.moment = net::moment();
    is_same.then_some(way)
}

fn uri(exchange: &Exchange) -> String {
    String::from_utf8_lossy(&exchange.request.path).into_owned()
}

/// What is looked for below a root.
#[derive(Clone, Copy)]
struct Below<'a> {
    root_end: usize,
    overlay: &'a Arc<Overlay>,
    layers: Option<&'a Arc<Layers>>,
}

/// Looks for the files in the directories of a path, which end there. Where sections of the main configuration count, the way
/// begins at the root of the file system, else at the root of the site.
fn search(
    exchange: &Exchange,
    path: &[u8],
    directories_end: usize,
    below: Below<'_>,
) -> Result<Files, String> {
    let Below { root_end, overlay, layers } = below;
    let directories = &path[..directories_end];
    let (mut list, mut opened) = (Vec::with_capacity(USUAL_COUNT), Vec::new());
    let name_length = overlay.names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut file = Vec::with_capacity(directories.len() + 1 + name_length);
    let start = if layers.is_some() { 0 } else { root_end };
    file.extend_from_slice(&directories[..start.min(directories.len())]);
    let segments = directories.get(start..).unwrap_or_default().split(|&byte| byte == b'/');
    // The root itself comes before the first segment.
    let segments = std::iter::once(&b""[..]).chain(segments.filter(|segment| !segment.is_empty()));
    let mut rule_of_sections = Some(UNSAID);
    for (depth, segment) in segments.enumerate() {
        if depth > DIRECTORIES_MAX {
            return Err(format!("the path of \"{}\" leads through too many directories", uri(exchange)));
        }
        if !segment.is_empty() {
            file.push(b'/');
            file.extend_from_slice(segment);
        }
        let directory_end = file.len();
        let rule = match layers {
            None => {
                Some(rule(exchange, overlay, &file[root_end..])).filter(|rule| reads_files(overlay, *rule))
            }
            Some(layers) => {
                for section in layers.at(&file) {
                    list.push(Found::Section(section, directory_end));
                    rule_of_sections = layers.rule(section).unwrap_or(rule_of_sections);
                }
                rule_of_sections
            }
        };
        let Some(rule) = rule else { continue };
        match first(exchange, overlay, &mut file) {
            Ok(Some((name, stat, open))) => {
                list.push(Found::File(File { directory_end, name, rule, stamp: Stamp::of(&stat) }));
                opened.extend(open.map(Arc::new));
            }
            Ok(None) => {}
            // Not a directory but the file, with its own path behind it at most; or one behind a link.
            Err(Errno::NOTDIR | Errno::NAMETOOLONG) if !is_refused(exchange, &file[..directory_end]) => {
                file.truncate(directory_end);
                break;
            }
            Err(error) => return Err(failed(as_path(&file), &error.into())),
        }
        file.truncate(directory_end);
    }
    if let Some(layers) = layers {
        let sections = sections_of_file(layers, path, directories_end);
        let gave_up = |_| format!("a pattern of a section gave up on the path of \"{}\"", uri(exchange));
        let sections = sections.map_err(gave_up)?.into_iter();
        list.extend(sections.map(|section| Found::Section(section, file.len())));
    }
    let (overlay, layers) = (Arc::clone(overlay), layers.cloned());
    let found = Time::now().uptime_ms;
    let files = Files { overlay, innermost: file, root_end, list, layers, opened, is_fresh: false, found };
    Ok(files.named_by_last())
}

/// The sections that count for a file besides those of its directories.
fn sections_of_file(
    layers: &Layers,
    path: &[u8],
    directories_end: usize,
) -> Result<Vec<usize>, TooManySteps> {
    let mut path = path;
    // Apache does not compare what comes after the name of a file.
    while path.len() > directories_end
        && matches!(rustix::fs::stat(as_path(path)), Err(Errno::NOTDIR | Errno::NOENT))
        && last_slash(path) > directories_end
    {
        path = &path[..last_slash(path)];
    }
    let mut sections = Vec::new();
    if path.len() > directories_end + 1 {
        sections.extend(layers.at(path));
    }
    if layers.has_patterns() {
        sections.extend(layers.matching(path)?);
    }
    Ok(sections)
}

/// The rule of a directory on the way to a request's file.
fn rule(exchange: &Exchange, overlay: &Overlay, below_root: &[u8]) -> usize {
    match &exchange.scope.policy.root.alias {
        _ if overlay.rules.len() == 1 => 0,
        // The URI of the directory is not known.
        Some(name) if name.kind == LocationKind::Regex => 0,
        alias => rule_of(overlay, alias.as_ref(), below_root),
    }
}

/// The first of the names that is in the directory with this path. A name is added to the path, also that of a failure.
fn first(
    exchange: &Exchange,
    overlay: &Overlay,
    path: &mut Vec<u8>,
) -> Result<Option<(usize, Stat, Option<fs::File>)>, Errno> {
    let directory_end = path.len();
    for (index, name) in overlay.names.iter().enumerate() {
        path.truncate(directory_end);
        path.push(b'/');
        path.extend_from_slice(name);
        match look(exchange, path) {
            Ok((stat, open)) => return Ok(Some((index, stat, open))),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// What is at the path of a request, if that is looked at, and where the directories end in it. There are no settings below
/// what is not a directory.
fn own_file(path: &[u8]) -> (Option<Option<fs::Metadata>>, usize) {
    // This is the path of a directory, whatever is there.
    if path.ends_with(b"/") {
        return (None, path.len());
    }
    let found = fs::metadata(as_path(path));
    let is_no_directory = match &found {
        Ok(metadata) => !metadata.is_dir(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    (Some(found.ok()), if is_no_directory { last_slash(path) } else { path.len() })
}

/// What is at a path; it is open where the way to it matters.
fn look(exchange: &Exchange, path: &[u8]) -> Result<(Stat, Option<fs::File>), Errno> {
    match &exchange.scope.policy.overlay_opener {
        None => Ok((rustix::fs::stat(path)?, None)),
        Some(Opener(open)) => {
            let unknown = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
            let file = open(exchange, path).map_err(unknown)?;
            Ok((rustix::fs::fstat(&file)?, Some(file)))
        }
    }
}

/// Whether a path that is no directory to those who do not follow links is one to those who do.
fn is_refused(exchange: &Exchange, directory: &[u8]) -> bool {
    let follows = exchange.scope.policy.overlay_opener.is_none();
    !follows && as_path(directory).is_dir()
}

/// Where the URI begins in a path with this root, if the path depends on nothing else.
fn uri_start(exchange: &Exchange, root_end: usize) -> Option<usize> {
    let root = &exchange.scope.policy.root;
    let is_below = root.alias.is_none() && exchange.request.path.starts_with(b"/");
    (is_below && root.path.constant().is_some()).then_some(root_end)
}

/// Where in a path its root ends, without the slash.
fn start(exchange: &Exchange, path: &[u8]) -> usize {
    let root = &exchange.scope.policy.root;
    let uri = &exchange.request.path;
    if root.alias.is_none() && uri.starts_with(b"/") {
        // The path is the root's without its last slash, and the URI.
        return path.len().saturating_sub(uri.len());
    }
    let directory = root.directory(exchange);
    let mut end = directory.len();
    match &root.alias {
        // A pattern's alias is the whole path: the directory of the file is all that is known.
        Some(name) if name.kind == LocationKind::Regex => end = path.len(),
        Some(_) => {}
        None if directory.ends_with(b"/") => {}
        None => end += 1,
    }
    let end = end.min(path.len());
    last_slash(&path[..end])
}

fn last_slash(path: &[u8]) -> usize {
    path.iter().rposition(|&byte| byte == b'/').unwrap_or(0)
}
