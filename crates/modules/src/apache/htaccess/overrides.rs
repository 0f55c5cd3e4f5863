//! What `.htaccess` files may contain: `htaccess_override` and `htaccess_override_list`.

use super::PLACES;
use crate::files::root::ROOT;
use crate::shared::per_directory::are_files_judged;
use conf::apache::{Allowed, Classes, classes_of, directive_names};
use conf::{Arity, Diagnostic, Word};
use contract::{Args, Directive, Loading, LocationKind, LocationName, View};

/// `htaccess_override All | None | CLASS … [Options=WORD,…] [Nonfatal=Override|Unknown|All]`
pub(super) static HTACCESS_OVERRIDE: Directive<Override> = Directive::new("htaccess_override", parse_override)
    .within(PLACES)
    .args(Arity::AtLeast(1))
    .default("All")
    .help("The classes of directives that `.htaccess` files may contain; `None` by default where there is a `htaccess_override_list`.");

/// `htaccess_override_list None | DIRECTIVE …`
pub(super) static HTACCESS_OVERRIDE_LIST: Directive<List> =
    Directive::new("htaccess_override_list", parse_list)
        .within(PLACES)
        .args(Arity::AtLeast(1))
        .default("None")
        .help("Directives that `.htaccess` files may contain, whatever their classes.");

/// Where it is said what files may contain.
#[derive(Clone, Debug)]
enum Place {
    Server,
    /// A location with this prefix.
    Prefix(Box<[u8]>),
    /// Another location.
    Location,
}

impl Place {
    fn of(loading: &Loading) -> Place {
        match &loading.location {
            None => Place::Server,
            Some(LocationName { kind: LocationKind::Prefix | LocationKind::PrefixOnly, text }) => {
                Place::Prefix(text.clone())
            }
            Some(_) => Place::Location,
        }
    }
}

/// What `htaccess_override` says.
#[derive(Clone, Debug)]
pub(super) struct Override {
    place: Place,
    /// What files may contain, without the list.
    allowed: Allowed,
}

/// What `htaccess_override_list` says.
#[derive(Clone, Debug)]
pub(super) struct List {
    place: Place,
    /// In lower case.
    names: Vec<Box<str>>,
}

fn parse_override(args: &Args<'_>, loading: &mut Loading) -> Result<Override, Diagnostic> {
    Ok(Override { place: Place::of(loading), allowed: Allowed::of_words(args.node)? })
}

fn parse_list(args: &Args<'_>, loading: &mut Loading) -> Result<List, Diagnostic> {
    let place = Place::of(loading);
    if let [word] = args.words()
        && word.text.eq_ignore_ascii_case(b"none")
    {
        return Ok(List { place, names: Vec::new() });
    }
    let name = |word: &Word| {
        // Apache writes a section with its first bracket.
        let name = word.to_string().trim_matches(['<', '>']).to_ascii_lowercase();
        match classes_of(&name) {
            Some(Classes::NONE) => {
                let message = format!("names \"{word}\", which Apache allows in httpd.conf only");
                Err(args.error(&message).under(word.span))
            }
            Some(_) => Ok(name.into()),
            None => {
                let error =
                    args.error(&format!("names \"{word}\", which Apache does not have")).under(word.span);
                Err(error.hint_near(&name, directive_names()))
            }
        }
    };
    Ok(List { place, names: args.words().iter().map(name).collect::<Result<_, _>>()? })
}

/// What files may contain, by the beginnings of the URIs of their directories, the longest first; the last one is empty. As
/// in Apache's `<Directory>` a location's settings count for the directories of its prefix, whichever location of the same
/// root the request belongs to. Locations without a prefix count for all directories on the way of their requests.
pub(super) fn rules(view: &View<'_>, location: Option<&LocationName>) -> Vec<(Box<[u8]>, Allowed)> {
    let is_limited = view.is_anywhere(&HTACCESS_OVERRIDE) || view.is_anywhere(&HTACCESS_OVERRIDE_LIST);
    // In files themselves only the files of a location count.
    if !is_limited || view.context().is_per_directory() {
        return vec![(Box::default(), Allowed::EVERYTHING)];
    }
    let root_depth = view.level_of(&ROOT).map_or(0, |level| level.depth());
    let is_around = |level: &View<'_>| level.depth() >= root_depth && are_files_judged(level);
    let levels: Vec<_> = view.levels().take_while(is_around).collect();
    let nearest = levels.iter().find_map(|level| Some((level, place(level)?)));
    let top = match (nearest, levels.last()) {
        (Some((_, Place::Location)), _) | (_, None) => return vec![(Box::default(), allowed(view))],
        (_, Some(top)) => *top,
    };
    let prefix = location.filter(|name| !matches!(name.kind, LocationKind::Regex | LocationKind::Named));
    let mut rules = Vec::new();
    gather(&top, root_depth, prefix.map(|name| &*name.text), &mut rules);
    rules.sort_by_key(|(start, _)| std::cmp::Reverse(start.len()));
    rules.push((Box::default(), allowed(&top)));
    rules
}

/// Adds what locations with a prefix say, this level's and those of the levels within it that have the same root. Only
/// directories matter that requests with this prefix lead through.
fn gather(level: &View<'_>, root_depth: usize, prefix: Option<&[u8]>, rules: &mut Vec<(Box<[u8]>, Allowed)>) {
    if level.level_of(&ROOT).map_or(0, |level| level.depth()) != root_depth {
        return;
    }
    if let Some(Place::Prefix(start)) = place(level).filter(|_| are_files_judged(level))
        && prefix.is_none_or(|prefix| prefix.starts_with(&start) || start.starts_with(prefix))
    {
        rules.push((start, allowed(level)));
    }
    level.inner().for_each(|inner| gather(&inner, root_depth, prefix, rules));
}

/// The place of a level that says what files may contain.
fn place(level: &View<'_>) -> Option<Place> {
    let said = level.here(&HTACCESS_OVERRIDE).first().map(|written| written.value.place.clone());
    said.or_else(|| level.here(&HTACCESS_OVERRIDE_LIST).first().map(|written| written.value.place.clone()))
}

/// What files may contain. As in Apache the list is inherited separately.
fn allowed(view: &View<'_>) -> Allowed {
    let list = view.get(&HTACCESS_OVERRIDE_LIST).map(|list| list.names.clone());
    let classes = if list.is_some() { Classes::NONE } else { Classes::ALL };
    let default = Allowed { classes, ..Allowed::EVERYTHING };
    let said = view.get(&HTACCESS_OVERRIDE).map_or(default, |said| said.allowed.clone());
    Allowed { names: list.unwrap_or_default(), ..said }
}
