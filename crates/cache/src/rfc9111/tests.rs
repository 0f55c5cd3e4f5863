use super::{Came, Control, Kept, Use, Wish, age, describes, is_unsafe, judge, kept_age, selects, updated};
use crate::freshness::{Ignoring, ValidTimes};
use crate::head::Head;
use http::{Fields, Method, Status};
use proptest::prelude::*;

const NOW: i64 = 784_111_777;

/// The time `NOW` in a field.
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const MINUTE_LATER: &str = "Sun, 06 Nov 1994 08:50:37 GMT";
const TEN_BEFORE: &str = "Sun, 06 Nov 1994 08:49:27 GMT";

/// Fields by their names.
type List<'a> = &'a [(&'a str, &'a str)];

fn fields(list: List<'_>) -> Fields {
    let mut fields = Fields::new();
    list.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()).unwrap());
    fields
}

fn came(wish: &[(&str, &str)], status: u16, list: &[(&str, &str)]) -> Option<Kept> {
    let (wish, fields) = (Wish::of(&fields(wish)), fields(list));
    let came =
        Came { wish, status: Status(status), fields: &fields, asked: NOW - 2, now: NOW, is_part: false };
    came.kept(Ignoring::default(), &ValidTimes { by_status: vec![(None, 600)], is_heuristic: false })
}

/// For how many seconds a response is fresh, how long it may be sent stale for an update and a failure, and its age.
fn times(list: &[(&str, &str)]) -> Option<(i64, i64, i64, i64)> {
    let Kept { freshness, age } = came(&[], 200, list)?;
    Some((freshness.valid_until + 1 - NOW, freshness.updating_s, freshness.error_s, age))
}

/// A response that came at `NOW` and is fresh for a minute.
fn head(list: &[(&str, &str)]) -> Head {
    let list = [&[("Cache-Control", "max-age=60")], list].concat();
    let kept = came(&[], 200, &list).unwrap();
    let mut fields = fields(&list);
    kept_age(&mut fields, kept.age);
    Head { freshness: kept.freshness, date: NOW, ..Head::plain("k", fields) }
}

fn used(wish: &[(&str, &str)], head: &Head, now: i64) -> Use {
    judge(&Wish::of(&fields(wish)), head, Ignoring::default(), now)
}

#[test]
fn a_time_counts_in_its_order() {
    let control = |value| ("Cache-Control", value);
    // Two seconds passed while the upstream server was asked.
    assert_eq!(times(&[control("max-age=60")]), Some((58, 0, 0, 2)));
    assert_eq!(times(&[control("max-age=60, s-maxage=30")]), Some((28, 0, 0, 2)), "5.2.2.10");
    assert_eq!(times(&[control("max-age=60"), ("Expires", "0")]), Some((58, 0, 0, 2)), "5.3");
    assert_eq!(times(&[("Expires", MINUTE_LATER), ("Date", DATE)]), Some((58, 0, 0, 2)));
    assert_eq!(times(&[("Expires", MINUTE_LATER), ("Date", TEN_BEFORE)]), Some((60, 0, 0, 10)), "4.2.3");
    assert_eq!(times(&[("Expires", "0")]), None, "4.2.1: a wrong date is over");
    assert_eq!(times(&[control("max-age=x")]), None);
    assert_eq!(times(&[control("max-age=60, max-age=5")]), Some((58, 0, 0, 2)), "the first one counts");
    assert_eq!(times(&[control("max-age=\"60\"")]), Some((58, 0, 0, 2)), "5.2");
    assert_eq!(times(&[control("MAX-AGE=60")]), Some((58, 0, 0, 2)));
    assert_eq!(times(&[control("max-age=99999999999999999999"), ("Age", "5")]).map(|times| times.3), Some(7));
    assert_eq!(times(&[control("max-age=60"), ("Age", "20, 30")]), Some((38, 0, 0, 22)), "5.1");
    assert_eq!(times(&[control("max-age=60"), ("Age", "x")]), Some((58, 0, 0, 2)));
    assert_eq!(times(&[control("x=\"a, no-store\", max-age=60")]), Some((58, 0, 0, 2)), "a quoted text");
    let stale = "max-age=60, stale-while-revalidate=5, stale-if-error=6";
    assert_eq!(times(&[control(stale)]), Some((58, 5, 6, 2)));
    assert_eq!(times(&[]), Some((598, 0, 0, 2)), "the configuration's");
    assert_eq!(came(&[], 500, &[]), None, "4.2.2: no time is made up for this status");
    assert!(came(&[], 500, &[control("public")]).is_some());
    assert!(came(&[], 500, &[control("max-age=9")]).is_some());
}

#[test]
fn what_must_not_be_kept_is_not_kept() {
    let never: [(&str, List<'_>, u16, List<'_>); 12] = [
        ("5.2.2.5", &[], 200, &[("Cache-Control", "max-age=60, no-store")]),
        ("5.2.2.7", &[], 200, &[("Cache-Control", "max-age=60, Private")]),
        ("5.2.1.5", &[("Cache-Control", "no-store")], 200, &[("Cache-Control", "max-age=60")]),
        ("3.5", &[("Authorization", "Basic x")], 200, &[("Cache-Control", "max-age=60")]),
        ("3.3: parts are not put together", &[], 206, &[("Cache-Control", "max-age=60")]),
        ("3: a 304 is no whole response", &[], 304, &[("Cache-Control", "max-age=60")]),
        ("5.2.2.3", &[], 299, &[("Cache-Control", "max-age=60, must-understand")]),
        ("4.1", &[], 200, &[("Cache-Control", "max-age=60"), ("Vary", "a, *")]),
        ("4.2.1", &[], 200, &[("Cache-Control", "max-age=0")]),
        ("5.2.2.4, without a validator", &[], 200, &[("Cache-Control", "no-cache, max-age=60")]),
        ("safety", &[], 200, &[("Cache-Control", "max-age=60"), ("Set-Cookie", "a=b")]),
        ("RFC 9213", &[], 200, &[("Cache-Control", "max-age=60"), ("CDN-Cache-Control", "no-store")]),
    ];
    for (section, wish, status, list) in never {
        assert_eq!(came(wish, status, list), None, "{section}");
    }
    for leave in ["public", "must-revalidate", "s-maxage=9"] {
        let control = format!("max-age=60, {leave}");
        assert!(
            came(&[("Authorization", "x")], 200, &[("Cache-Control", &control)]).is_some(),
            "3.5 {leave}"
        );
    }
    let understood = [("Cache-Control", "no-store, must-understand, max-age=60")];
    assert!(came(&[], 200, &understood).is_some(), "5.2.2.3: the status is known");
    let checked = [("Cache-Control", "no-cache"), ("ETag", "\"a\"")];
    assert_eq!(times(&checked).map(|times| times.0), Some(-2), "5.2.2.4: kept, and asked about each time");
}

#[test]
fn a_targeted_field_takes_the_place_of_the_others() {
    let both = |cdn: &str| {
        times(&[("Cache-Control", "max-age=60"), ("Expires", MINUTE_LATER), ("CDN-Cache-Control", cdn)])
            .map(|times| times.0)
    };
    assert_eq!(both("max-age=10"), Some(8));
    assert_eq!(both("max-age=10;a=b, stale-if-error=5"), Some(8));
    assert_eq!(both("public"), Some(598), "neither Cache-Control nor Expires count");
    assert_eq!(both(""), Some(58), "an empty field does not count");
    assert_eq!(both("Max-Age=10"), Some(58), "a wrong field does not count");
    assert_eq!(both("no-store=?0, max-age=10"), Some(8));
}

#[test]
fn fields_that_are_named_are_not_kept() {
    let control = |value| Control::of(&fields(&[("Cache-Control", value)]), Ignoring::default());
    for (value, is_kept) in [
        ("no-cache=\"X-A\", max-age=9", false),
        ("private=\"a, x-a\"", false),
        ("private=x-a", false),
        ("max-age=9", true),
        ("no-cache", true),
    ] {
        assert_eq!(control(value).keeps(b"X-A"), is_kept, "{value}");
    }
    assert!(!control("public").keeps(b"proxy-authenticate"), "3.1");
    assert!(came(&[], 200, &[("Cache-Control", "private=\"x\", max-age=9")]).is_some());
}

#[test]
fn a_request_says_what_it_takes() {
    let plain = head(&[]);
    for (wish, seconds, expected) in [
        ("", 57, Use::Sent),
        ("", 58, Use::Stale),
        ("no-cache", 0, Use::Asked),
        ("max-age=12", 10, Use::Sent),
        ("max-age=11", 10, Use::Stale),
        ("min-fresh=48", 10, Use::Sent),
        ("min-fresh=49", 10, Use::Stale),
        ("max-stale", 5000, Use::Sent),
        ("max-stale=10", 68, Use::Sent),
        ("max-stale=10", 69, Use::Stale),
        ("max-stale, max-age=100", 99, Use::Stale),
    ] {
        assert_eq!(used(&[("Cache-Control", wish)], &plain, NOW + seconds), expected, "{wish} at {seconds}");
    }
    assert_eq!(used(&[("Pragma", "no-cache")], &plain, NOW), Use::Asked, "5.4");
    assert_eq!(used(&[("Pragma", "no-cache"), ("Cache-Control", "a")], &plain, NOW), Use::Sent, "5.4");
    assert_eq!(used(&[], &plain, NOW - 100), Use::Asked, "the clock was set back");
    assert!(Wish::of(&fields(&[("Cache-Control", "only-if-cached")])).only_if_cached);
}

#[test]
fn nothing_is_sent_after_its_time_where_that_is_forbidden() {
    for control in ["must-revalidate", "proxy-revalidate", "s-maxage=60"] {
        let strict = head(&[("Cache-Control", control)]);
        assert_eq!(used(&[("Cache-Control", "max-stale")], &strict, NOW + 10), Use::Sent, "{control}");
        assert_eq!(used(&[("Cache-Control", "max-stale")], &strict, NOW + 100), Use::Asked, "{control}");
    }
    let strict = head(&[("Cache-Control", "must-revalidate, stale-if-error=50, stale-while-revalidate=50")]);
    assert_eq!((strict.freshness.updating_s, strict.freshness.error_s), (0, 0));
}

#[test]
fn an_answer_that_nothing_changed_updates_the_fields() {
    let kept = fields(&[("Content-Range", "a"), ("X-A", "1"), ("X-B", "2"), ("Age", "9"), ("Date", "old")]);
    let said = fields(&[("content-range", "no"), ("x-a", "3"), ("X-C", "4"), ("Content-Length", "0")]);
    let fields = updated(&kept, &said, (7, 784_111_777));
    let value = |name| fields.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
    let all = ["Content-Range", "X-A", "X-B", "X-C", "Content-Length", "Age", "Date"].map(value);
    let some = |text: &str| Some(text.to_owned());
    let (age, date) = (some("0000000007"), some("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_eq!(all, [some("a"), some("3"), some("2"), some("4"), None, age, date]);
}

#[test]
fn an_answer_is_about_the_response_with_its_tag() {
    for (kept, said, is_same) in [
        ("\"a\"", "\"a\"", true),
        ("\"a\"", "\"b\"", false),
        ("W/\"a\"", "\"a\"", false),
        ("W/\"a\"", "W/\"a\"", true),
        ("\"a\"", "W/\"a\"", true),
        ("W/\"a\"", "W/\"b\"", false),
    ] {
        assert_eq!(selects(&fields(&[("ETag", said)]), &head(&[("ETag", kept)])), is_same, "{kept} {said}");
    }
    assert!(selects(&fields(&[]), &head(&[("ETag", "\"a\"")])));
    assert!(!selects(&fields(&[("ETag", "\"a\"")]), &head(&[])));
}

#[test]
fn methods_that_may_change_something_are_unsafe() {
    let safe = [Method::Get, Method::Head, Method::Options, Method::Trace, Method::Propfind];
    let others = [Method::Post, Method::Put, Method::Delete, Method::Patch, Method::Other];
    assert!(!safe.into_iter().any(is_unsafe) && others.into_iter().all(is_unsafe));
}

proptest! {
    /// Whatever is said: "no-store" is obeyed, a kept response is sent only within its time, and ages never fall.
    #[test]
    fn any_texts_obey_the_rules(
        said in "([a-z-]{1,8}(=\"?[0-9a-z, ]{0,6}\"?)?,? ?){0,4}",
        wanted in "((max-age|min-fresh|max-stale|no-cache|x)(=[0-9]{0,4})?, ?){0,3}",
        known in "(max-age=[0-9]{1,4}|s-maxage=[0-9]{1,4}|public)",
        later in 0_i64..5000,
    ) {
        let control = format!("{known}, {said}");
        let refused = format!("{control}\", no-store");
        let refused = if control.matches('"').count() % 2 == 0 { format!("{control}, no-store") } else { refused };
        if !said.contains("must-understand") {
            prop_assert_eq!(came(&[], 200, &[("Cache-Control", &refused)]), None);
        }
        if let Some(kept) = came(&[], 200, &[("Cache-Control", &control)]) {
            let until = kept.freshness.valid_until;
            let list = [("Cache-Control", control.as_str()), ("Age", "3")];
            let head = Head { freshness: kept.freshness, date: NOW, ..Head::plain("k", fields(&list)) };
            let (now, wish) = (NOW + later, [("Cache-Control", wanted.as_str())]);
            if used(&wish, &head, now) == Use::Sent && !wanted.contains("max-stale") {
                prop_assert!(now <= until);
            }
            prop_assert!(age(&head, now) >= age(&head, now - 1));
            if wanted.contains("no-cache") && !wanted.contains("no-cache=") {
                prop_assert_eq!(used(&wish, &head, now), Use::Asked);
            }
        }
    }
}

#[test]
fn a_part_is_kept_only_if_its_validator_shows_what_it_is_a_part_of() {
    let kept = |is_part, status: u16, tag: &str| {
        let fields = fields(&[("Cache-Control", "max-age=60"), ("ETag", tag)]);
        let came = Came {
            wish: Wish::default(),
            status: Status(status),
            fields: &fields,
            asked: NOW,
            now: NOW,
            is_part,
        };
        came.kept(Ignoring::default(), &ValidTimes::default()).is_some()
    };
    assert_eq!([kept(true, 206, "\"a\""), kept(true, 200, "W/\"a\"")], [true, true]);
    assert_eq!([kept(false, 206, "\"a\""), kept(true, 206, "W/\"a\""), kept(true, 304, "\"a\"")], [false; 3]);
}

#[test]
fn a_response_to_head_describes_what_is_kept() {
    let head = Head { length: 5, ..head(&[("ETag", "\"a\""), ("Last-Modified", DATE)]) };
    let says = |list: &[(&str, &str)]| describes(&fields(list), &head);
    assert!(says(&[]) && says(&[("ETag", "\"a\""), ("Last-Modified", DATE), ("Content-Length", "5")]));
    for (name, value) in [
        ("ETag", "\"b\""),
        ("ETag", "W/\"a\""),
        ("Last-Modified", TEN_BEFORE),
        ("Content-Length", "6"),
        ("Content-Length", "x"),
    ] {
        assert!(!says(&[(name, value)]), "{name}: {value}");
    }
}
