//! Why a path is found in its location, and in no other one.

use super::{Location, Locations};
use contract::{Event, LocationKind, Regex};
use std::sync::Arc;

impl Locations {
    /// All locations that were not chosen, in the order in which they were written, each with the reason. Locations inside
    /// of another one are listed only if that one matches and can be searched.
    pub fn considered(&self, path: &[u8], chosen: Option<&Arc<Location>>) -> Vec<Event> {
        let mut events = Vec::new();
        self.consider(path, chosen, &mut events);
        events
    }

    fn consider(&self, path: &[u8], chosen: Option<&Arc<Location>>, events: &mut Vec<Event>) {
        let mut all = self.all();
        all.sort_by_key(|(location, _)| (location.place.file.0, location.place.start));
        let longest = self.prefixes.longest(path);
        // The location of this level that was chosen, or that leads to it.
        let leads = |location: &Location| chosen.is_some_and(|chosen| location.contains(chosen));
        let is_same = |location: &Arc<Location>| chosen.is_some_and(|chosen| Arc::ptr_eq(chosen, location));
        let winner = all.iter().map(|(location, _)| *location).find(|it| is_same(it) || leads(it));
        for (location, regex) in all {
            let matches = location.holds(path, regex);
            let is_longest = longest.is_some_and(|longest| Arc::ptr_eq(longest, location));
            if !is_same(location) {
                let reason = match matches {
                    true if leads(location) => "matches, and so does the one inside of it",
                    true => outranked(location, winner.or(chosen), is_longest),
                    false => "does not match",
                };
                let event = Event::new("location", reason).at(Some(location.place));
                let matches = if matches { "yes" } else { "no" };
                events.push(event.with("location", &location.name.text).with("matches", matches));
            }
            if matches && (is_longest || regex.is_some()) {
                location.inner.consider(path, chosen, events);
            }
        }
    }

    fn all(&self) -> Vec<(&Arc<Location>, Option<&Regex>)> {
        let exact = self.exact.values().map(|location| (location, None));
        let prefixes = self.prefixes.entries.iter().map(|(location, _)| (location, None));
        let regexes = self.matched.iter().zip(self.patterns.iter().map(Some));
        exact.chain(prefixes).chain(regexes).collect()
    }
}

impl Location {
    fn holds(&self, path: &[u8], regex: Option<&Regex>) -> bool {
        match (self.name.kind, regex) {
            (LocationKind::Exact, _) => *self.name.text == *path,
            (_, Some(regex)) => regex.is_match(path),
            _ => path.starts_with(&self.name.text),
        }
    }

    fn contains(&self, other: &Arc<Location>) -> bool {
        let inside = self.inner.all();
        inside.iter().any(|(location, _)| Arc::ptr_eq(location, other) || location.contains(other))
    }
}

/// Why a location that matches is not the one. The winner is the location that was preferred to it.
fn outranked(location: &Location, winner: Option<&Arc<Location>>, is_longest: bool) -> &'static str {
    let Some(winner) = winner else { return "matches, but no location was chosen" };
    match (location.name.kind, winner.name.kind) {
        (_, LocationKind::Exact) => "matches, but an exact location (=) goes first",
        (LocationKind::Regex, LocationKind::Regex) => "would match, but an earlier pattern does",
        (LocationKind::Regex, LocationKind::PrefixOnly) => "is not tried: the longest prefix says ^~",
        (LocationKind::Regex, _) => "is not tried: a location inside of the longest prefix goes first",
        (_, LocationKind::Regex) if is_longest => "is the longest prefix of its level, but a pattern matches",
        _ => "matches, but there is a longer prefix",
    }
}

#[cfg(test)]
mod tests {
    use crate::testing;

    /// `LOCATION: REASON` of all that are not chosen.
    fn considered(server: &str, path: &str) -> Vec<String> {
        let (_, site) = testing::site(&format!("server {{ {server} }}"), &[]).unwrap();
        let exchange = testing::exchange(path, "", |_| {});
        let locations = &site.listens[0].hosts(None).default_server().locations;
        let chosen = locations.find(&exchange, path.as_bytes()).unwrap();
        let events = locations.considered(path.as_bytes(), chosen);
        let shown = |event: contract::Event| format!("{}: {}", event.member("location").unwrap(), event.text);
        events.into_iter().map(shown).collect()
    }

    #[test]
    fn every_other_location_has_its_reason() {
        let server = "location / {} location /a { location /a/b {} location ~ in {} } location = /x.c {} \
                      location ~ \\.c$ {} location ~ c$ {} location ^~ /s {}";
        assert_eq!(
            considered(server, "/a/b.c"),
            [
                "/: matches, but there is a longer prefix",
                "/a: is the longest prefix of its level, but a pattern matches",
                "/a/b: is the longest prefix of its level, but a pattern matches",
                "in: does not match",
                "/x.c: does not match",
                "c$: would match, but an earlier pattern does",
                "/s: does not match",
            ]
        );
        assert_eq!(
            considered(server, "/a/b")[..2],
            ["/: matches, but there is a longer prefix", "/a: matches, and so does the one inside of it"]
        );
        assert_eq!(considered(server, "/s.c")[3], "\\.c$: is not tried: the longest prefix says ^~");
        let exact = considered(server, "/x.c");
        assert_eq!(exact[0], "/: matches, but an exact location (=) goes first");
        assert_eq!(exact[2], "\\.c$: matches, but an exact location (=) goes first");
    }

    #[test]
    fn patterns_that_are_not_tried_have_a_reason() {
        let forbidden = "location ^~ /a { location /a/b {} } location ~ c {}";
        assert_eq!(considered(forbidden, "/a/b.c")[1], "c: is not tried: the longest prefix says ^~");
        let earlier = "location ~ ^/a { location ~ b {} } location ~ c$ {}";
        assert_eq!(considered(earlier, "/a/b.c")[1], "c$: would match, but an earlier pattern does");
        let exact = "location /a { location = /a/b.c {} } location ~ c$ {}";
        let reason = "c$: is not tried: a location inside of the longest prefix goes first";
        assert_eq!(considered(exact, "/a/b.c")[1], reason);
    }
}
