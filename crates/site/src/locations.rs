//! From a path to a location: exact paths by hash, prefixes by a sorted list, patterns in their order.

mod considered;

use conf::Span;
use conf::value::PatternSets;
use conf::value::TooManySteps;
use contract::hash::KeyedMap;
use contract::{Exchange, LocationKind, LocationName, Regex, Regexes, Scope};
use http::Method;
use std::sync::Arc;

/// A location, compiled.
pub struct Location {
    /// How it is named, and by which kind of name.
    pub name: LocationName,
    /// Where it was written.
    pub place: Span,
    /// What holds in it.
    pub scope: Arc<Scope>,
    /// The locations in it.
    pub inner: Locations,
    /// The scope for methods that `limit_except` does not name.
    pub limited: Option<Limited>,
}

/// The content of `limit_except`.
pub struct Limited {
    /// The methods that it names. They keep the scope of the location.
    spared: Box<[Method]>,
    /// The scope of all other methods.
    scope: Arc<Scope>,
}

impl Limited {
    /// These methods keep the scope of the location, all others have this one.
    pub fn new(spared: Box<[Method]>, scope: Arc<Scope>) -> Limited {
        Limited { spared, scope }
    }
}

impl Location {
    /// The scope for requests with this method.
    pub fn scope_for(&self, method: Method) -> &Arc<Scope> {
        let is_spared = |limited: &Limited| {
            let as_get = method == Method::Head && limited.spared.contains(&Method::Get);
            as_get || limited.spared.contains(&method)
        };
        match &self.limited {
            Some(limited) if !is_spared(limited) => &limited.scope,
            _ => &self.scope,
        }
    }
}

impl Location {
    /// This location, or the one in it, with a scope.
    pub(crate) fn with_scope(&self, is_it: &dyn Fn(&Arc<Scope>) -> bool) -> Option<&Location> {
        let is_here =
            is_it(&self.scope) || self.limited.as_ref().is_some_and(|limited| is_it(&limited.scope));
        if is_here { Some(self) } else { self.inner.with_scope(is_it) }
    }
}

/// The locations of a server or inside of a location.
#[derive(Default)]
pub struct Locations {
    exact: KeyedMap<Box<[u8]>, Arc<Location>>,
    prefixes: Prefixes,
    patterns: Regexes,
    /// The locations of the patterns.
    matched: Vec<Arc<Location>>,
    /// Locations `/a/` for which a request for `/a` is redirected to `/a/`, by `/a`.
    slash_redirects: KeyedMap<Box<[u8]>, Arc<Location>>,
    /// Bit `n % 64` is set if one of these paths has a length of `n` bytes.
    slash_redirect_lengths: u64,
    /// Whether locations inside of those here have such redirects.
    redirects_inside: bool,
}

/// Prefixes, sorted. The parent of an entry is the longest other entry that is a prefix of it.
///
/// To find the longest prefix of a path, take the last entry that does not sort after the path, and follow the parents until
/// one is a prefix of the path.
#[derive(Default)]
struct Prefixes {
    /// Each entry with the index of its parent.
    entries: Vec<(Arc<Location>, Option<usize>)>,
    /// The first bytes of each text, as numbers that sort as the texts do.
    beginnings: Vec<u64>,
}

impl Locations {
    /// Sorts locations for finding.
    pub fn new(locations: Vec<(Option<Regex>, Location)>, sets: &mut PatternSets) -> Locations {
        let mut sorted = Locations::default();
        let (mut prefixes, mut patterns) = (Vec::new(), Vec::new());
        for (regex, location) in locations {
            let location = Arc::new(location);
            sorted.redirects_inside |= location.inner.redirects();
            if location.scope.policy.redirects.to_slash
                && let Some(path) = location.name.text.strip_suffix(b"/")
            {
                sorted.slash_redirects.insert(path.into(), Arc::clone(&location));
                sorted.slash_redirect_lengths |= length_bit(path);
            }
            match (location.name.kind, regex) {
                (LocationKind::Exact, _) => {
                    sorted.exact.insert(location.name.text.clone(), location);
                }
                (LocationKind::Regex, Some(regex)) => {
                    patterns.push(regex);
                    sorted.matched.push(location);
                }
                _ => prefixes.push(location),
            }
        }
        sorted.prefixes = Prefixes::new(prefixes);
        sorted.patterns = Regexes::sharing(patterns, sets);
        sorted
    }

    /// The location for a path.
    ///
    /// An exact location comes first. Otherwise the search goes on inside of the longest prefix, which is the result if
    /// nothing is found there. The first pattern of this level that matches replaces a result that is a prefix, unless the
    /// longest prefix of this level has `^~`; then the search goes on inside of the pattern's location.
    ///
    /// # Errors
    /// [`TooManySteps`] where a pattern gave up.
    pub fn find(&self, exchange: &Exchange, path: &[u8]) -> Result<Option<&Arc<Location>>, TooManySteps> {
        Ok(match self.search(exchange, path)? {
            Found::Final(location) | Found::Tentative(location) => Some(location),
            Found::Nothing => None,
        })
    }

    /// The location with a scope.
    pub(crate) fn with_scope(&self, is_it: &dyn Fn(&Arc<Scope>) -> bool) -> Option<&Location> {
        let prefixes = self.prefixes.entries.iter().map(|(location, _)| location);
        let mut all = self.exact.values().chain(prefixes).chain(&self.matched);
        all.find_map(|location| location.with_scope(is_it))
    }

    /// The location `/a/` for the path `/a`, if the path is redirected to it and no other location has the path itself.
    pub fn slash_redirect(&self, path: &[u8]) -> Option<&Arc<Location>> {
        let may_be_here = self.slash_redirect_lengths & length_bit(path) != 0;
        if !(may_be_here || self.redirects_inside) || self.exact.contains_key(path) {
            return None;
        }
        let longest = self.prefixes.longest(path);
        if longest.is_some_and(|longest| *longest.name.text == *path) {
            return None;
        }
        self.slash_redirects.get(path).or_else(|| longest?.inner.slash_redirect(path))
    }

    /// The location with an `alias` that would have a path, were there no patterns.
    pub fn lost_alias(&self, path: &[u8]) -> Option<&Arc<Location>> {
        let longest = self.prefixes.longest(path)?;
        (longest.name.kind == LocationKind::Prefix && longest.scope.policy.root.alias.is_some())
            .then_some(longest)
    }

    /// Whether any location here or deeper has such a redirect.
    fn redirects(&self) -> bool {
        self.slash_redirect_lengths != 0 || self.redirects_inside
    }

    /// Whether there is no location but named ones.
    fn is_empty(&self) -> bool {
        self.prefixes.entries.is_empty() && self.matched.is_empty() && self.exact.is_empty()
    }

    fn search(&self, exchange: &Exchange, path: &[u8]) -> Result<Found<'_>, TooManySteps> {
        if self.is_empty() {
            return Ok(Found::Nothing);
        }
        if let Some(location) = self.exact.get(path) {
            return Ok(Found::Final(location));
        }
        let mut found = Found::Nothing;
        let mut patterns_allowed = true;
        if let Some(prefix) = self.prefixes.longest(path) {
            patterns_allowed = prefix.name.kind != LocationKind::PrefixOnly;
            found = match prefix.inner.search(exchange, path)? {
                Found::Nothing => Found::Tentative(prefix),
                inner => inner,
            };
        }
        if matches!(found, Found::Final(_)) || !patterns_allowed || self.matched.is_empty() {
            return Ok(found);
        }
        let first = self.patterns.first(exchange, path)?;
        Ok(match first.and_then(|index| self.matched.get(index)) {
            Some(location) => Found::Final(match location.inner.search(exchange, path)? {
                Found::Nothing => location,
                Found::Final(inner) | Found::Tentative(inner) => inner,
            }),
            None => found,
        })
    }
}

enum Found<'a> {
    Nothing,
    /// A prefix, which a pattern of an outer level still outranks.
    Tentative(&'a Arc<Location>),
    Final(&'a Arc<Location>),
}

fn length_bit(path: &[u8]) -> u64 {
    1 << (path.len() % 64)
}

impl Prefixes {
    fn new(mut locations: Vec<Arc<Location>>) -> Prefixes {
        locations.sort_by(|a, b| a.name.text.cmp(&b.name.text));
        let mut entries: Vec<(Arc<Location>, Option<usize>)> = Vec::new();
        for location in locations {
            let mut parent = entries.len().checked_sub(1);
            while let Some(index) = parent
                && !location.name.text.starts_with(&entries[index].0.name.text)
            {
                parent = entries[index].1;
            }
            entries.push((location, parent));
        }
        let beginnings = entries.iter().map(|(location, _)| beginning(&location.name.text)).collect();
        Prefixes { entries, beginnings }
    }

    #[inline]
    fn longest(&self, path: &[u8]) -> Option<&Arc<Location>> {
        if self.entries.is_empty() {
            return None;
        }
        let start = beginning(path);
        let before = self.beginnings.partition_point(|&beginning| beginning < start);
        let same = self.beginnings[before..].partition_point(|&beginning| beginning == start);
        let same = self.entries.get(before..before + same).unwrap_or_default();
        let not_behind = before + same.partition_point(|(location, _)| *location.name.text <= *path);
        let mut candidate = not_behind.checked_sub(1);
        while let Some(index) = candidate {
            let (location, parent) = &self.entries[index];
            if path.starts_with(&location.name.text) {
                return Some(location);
            }
            candidate = *parent;
        }
        None
    }
}

/// The first eight bytes of a text as a number; what a shorter one lacks counts as zeros.
fn beginning(text: &[u8]) -> u64 {
    if let Some(bytes) = text.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..text.len()].copy_from_slice(text);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use crate::testing;

    /// The text of the location that each path is found in; nothing for the server itself.
    fn find(server: &str, paths: &[&str]) -> Vec<String> {
        let (_, site) = testing::site(&format!("server {{ {server} }}"), &[]).unwrap();
        let found = |path: &&str| {
            let exchange = testing::exchange(path, "", |_| {});
            let server = site.listens[0].hosts(None).default_server();
            let location = server.locations.find(&exchange, path.as_bytes()).unwrap();
            let text = location.map(|location| location.name.text.to_vec()).unwrap_or_default();
            String::from_utf8(text).unwrap()
        };
        paths.iter().map(found).collect()
    }

    #[test]
    fn exact_then_pattern_then_the_longest_prefix() {
        let server = "location / {} location /a {} location /a/b {} location = /a/b/c {} location ^~ /s {} \
                      location ~ \\.txt$ {} location ~* \\.TXT {} location @n {}";
        let paths =
            ["/", "/a", "/ab", "/a/bx", "/a/b/c", "/a/b/cd", "/a/b/c.txt", "/s.txt", "/x.Txt", "/@n", "x"];
        let found = ["/", "/a", "/a", "/a/b", "/a/b/c", "/a/b", "\\.txt$", "/s", "\\.TXT", "/", ""];
        assert_eq!(find(server, &paths), found);
        assert_eq!(
            find("location /b {} location /ba {}", &["/a", "/c", "/bz", "/baa"]),
            ["", "", "/b", "/ba"]
        );
    }

    #[test]
    fn patterns_inside_come_first_and_those_outside_outrank_prefixes() {
        let server = "location /a { location /a/b { location = /a/b/c {} location ~ in {} } location ~ mid {} } \
                      location ~ out { location ~ deep {} } location ^~ /f { location /f/g {} }";
        let paths =
            ["/a/b", "/a/b/c", "/a/b/in-mid-out", "/a/mid-out", "/a/b/mid", "/a/out", "/a/b/out-deep"];
        assert_eq!(find(server, &paths), ["/a/b", "/a/b/c", "in", "mid", "mid", "out", "deep"]);
        assert_eq!(find(server, &["/f/out", "/f/g/out", "/z"]), ["/f", "/f/g", ""]);
    }

    #[test]
    fn what_cannot_be() {
        for (server, message) in [
            ("location /a {} location ^~ /a {}", "duplicate location \"/a\""),
            ("location = /a {} location = /a {}", "duplicate location \"/a\""),
            ("location /a { location /b {} }", "location \"/b\" is outside location \"/a\""),
            ("location ~ a { location /b {} }", "location \"/b\" is outside location \"a\""),
            (
                "location = /a { location /a/b {} }",
                "location \"/a/b\" cannot be inside the exact location \"/a\"",
            ),
            ("location /a { location @b {} }", "named location \"@b\" can be on the server level only"),
            ("location !~ a {}", "invalid location modifier \"!~\""),
        ] {
            let error = testing::site(&format!("server {{ {server} }}"), &[]).map(|_| ()).unwrap_err();
            assert_eq!(error, message, "{server}");
        }
    }
}
