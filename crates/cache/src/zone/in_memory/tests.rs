use super::DiskUse;
use crate::residents::{Found, is_new};
use crate::zone::tests::{NOW, asking, head, read, text};
use crate::{Freshness, Head, Key, Levels, Look, Object, Selection, Walk, Whole, Writer, Zone};
use http::{Fields, Status};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

/// Room for about 200 small objects, a quarter of them newcomers.
const MEMORY: usize = 256 * 1024;

fn zone(directory: &Path, disk_use: DiskUse) -> Arc<Zone> {
    let zone = Zone::new(directory, Levels::parse(b"1:2").unwrap(), 100_000, MEMORY).with_disk_use(disk_use);
    zone.warmed();
    Arc::new(zone)
}

fn key(text: &str) -> Key {
    Key::of(text.as_bytes())
}

/// Keeps a response whose content is there, as a request does.
fn keep_after(zone: &Arc<Zone>, name: &str, content: &str, removals: u64) {
    let (head, content) = (head(name), [content.as_bytes()]);
    let mut fields = Fields::new();
    fields.push(b"X-A", b"b").unwrap();
    let (parts, lines) = (head.parts(), fields.lines_max());
    let whole = Whole { key: key(name), head: parts, lines, content: &content, removals, expires: NOW + 60 };
    whole.store(zone, |out| out.extend_from_slice(&fields.lines())).unwrap();
}

/// Asks as a request does: the object, after its file was written if that is due.
fn look(zone: &Arc<Zone>, name: &str) -> Option<Arc<Object>> {
    let asking = asking(1, NOW);
    match zone.look(&key(name), &asking) {
        Look::Ready(object) => {
            zone.write_due(&key(name), &object).unwrap();
            Some(object)
        }
        Look::Failed(_) => None,
        Look::Known { has_file, reading, .. } => {
            let object = Arc::new(read(zone.open(&key(name)).unwrap().filter(|_| has_file)?).ok()?);
            zone.note_read(&key(name), &object, reading, &asking);
            Some(object)
        }
    }
}

/// Asks, and keeps a response if there was none. Tells whether it was a hit.
fn ask(zone: &Arc<Zone>, name: &str) -> bool {
    match look(zone, name) {
        Some(object) => {
            assert_eq!(text(&object).as_deref(), Some(name));
            true
        }
        None => {
            keep_after(zone, name, name, zone.removals());
            false
        }
    }
}

fn fill(zone: &Arc<Zone>, name: &str) {
    ask(zone, name);
}

fn has_file(zone: &Zone, name: &str) -> bool {
    zone.open(&key(name)).unwrap().is_some()
}

#[test]
fn the_file_is_written_at_the_right_request() {
    for uses in 2..6 {
        let directory = tempfile::tempdir().unwrap();
        let zone = zone(directory.path(), DiskUse::At(uses));
        for use_ in 1..uses + 4 {
            assert_eq!(ask(&zone, "a"), use_ > 1);
            assert_eq!(has_file(&zone, "a"), use_ >= uses, "request {use_} of {uses}");
            assert_eq!(zone.totals().disk_bytes, if use_ < uses { 0 } else { 4096 });
        }
        let object = read(zone.open(&key("a")).unwrap().unwrap()).unwrap();
        assert_eq!((object.head.fields.get("x-a"), text(&object).as_deref()), (Some(&b"b"[..]), Some("a")));
        assert!(look(&zone, "a").unwrap().has_file(), "the object in memory is that of the file");
    }
}

#[test]
fn a_response_that_arrives_in_parts_gets_no_file_either() {
    let directory = tempfile::tempdir().unwrap();
    let write = |zone: &Arc<Zone>, name: &str, length: usize| {
        let mut writer = Writer::new(zone, key(name), head(name)).unwrap();
        writer.append(&vec![b'x'; length]).unwrap();
        writer.finish(NOW + 60).unwrap();
        (look(zone, name).map(|object| object.head.length), has_file(zone, name))
    };
    let zone_at = zone(directory.path(), DiskUse::At(5));
    let max = usize::try_from(zone_at.in_memory_max).unwrap();
    assert_eq!(write(&zone_at, "a", max), (Some(max as u64), false));
    assert!(write(&zone_at, "b", max + 1).1, "a long one gets its file at once");
    let never = zone(directory.path(), DiskUse::Never);
    assert_eq!(write(&never, "c", max), (Some(max as u64), false));
    assert_eq!((write(&never, "d", max + 1), never.takes(max as u64 + 1)), ((None, false), false));
    let files = || {
        std::fs::read_dir(directory.path()).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_file())
    };
    assert_eq!(files().count(), 0, "no temporary file stays");
}

/// Each object would otherwise need new memory, and give a part of it back.
#[test]
fn memory_for_an_object_is_as_long_as_its_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), DiskUse::Never);
    for length in [0, 10, 1000, 1024, 5000] {
        let (name, before) = (format!("http://a/{length}"), zone.totals().memory_bytes);
        keep_after(&zone, &name, &"x".repeat(length), zone.removals());
        let longer = zone.totals().memory_bytes - before - length;
        assert!((100..400).contains(&longer), "{length} bytes take {longer} more");
    }
}

#[test]
fn responses_without_files_survive_a_walk_through_other_keys() {
    for disk_use in [DiskUse::At(10), DiskUse::Never] {
        let directory = tempfile::tempdir().unwrap();
        let zone = zone(directory.path(), disk_use);
        let often: Vec<String> = (0..5).map(|number| format!("often {number}")).collect();
        (0..3).for_each(|_| often.iter().for_each(|name| fill(&zone, name)));
        for number in 0..10_000 {
            assert!(!ask(&zone, &format!("once {number}")));
            assert!(zone.totals().memory_bytes <= MEMORY);
        }
        assert!(often.iter().all(|name| ask(&zone, name)));
        assert!(zone.totals().ready_objects > often.len());
        assert!(!has_file(&zone, "once 9999") && ask(&zone, "once 9999"), "the last newcomers are there");
        let evicted = key("once 0");
        assert!(matches!(
            zone.look(&evicted, &asking(1, NOW)),
            Look::Known { has_file: false, may_store: true, .. }
        ));
        assert_eq!(zone.lock().index.get(&evicted).map(|entry| entry.uses), Some(2), "its uses stay known");
    }
}

#[test]
fn a_second_miss_gets_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), DiskUse::At(2));
    (0..1000).for_each(|number| fill(&zone, &number.to_string()));
    assert!(!has_file(&zone, "0") && !ask(&zone, "0"), "it was pushed out");
    assert!(has_file(&zone, "0") && ask(&zone, "0"));
}

#[test]
fn what_is_only_in_memory_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), DiskUse::Never);
    for name in ["a", "b", "c", "d"] {
        ask(&zone, name);
    }
    assert!(zone.purge(&key("a")) && !zone.purge(&key("a")));
    assert!(look(&zone, "a").is_none());
    keep_after(&zone, "a", "old", 0);
    assert!(look(&zone, "a").is_none(), "it was asked for before the removal");
    zone.purge_coming(&Selection::Key(b"b".as_slice().into()));
    let mut walk = Walk::new(&zone);
    let mut met = Vec::new();
    while let Some(key) = walk.next_key() {
        let head = zone.read_head(&key).unwrap().unwrap().head;
        if Selection::Key(b"b".as_slice().into()).has(&head) {
            assert!(zone.discard(&key));
        }
        met.push(String::from_utf8(head.key.to_vec()).unwrap());
    }
    met.sort();
    assert_eq!(met, ["b", "c", "d"]);
    assert_eq!(["b", "c"].map(|name| look(&zone, name).is_some()), [false, true]);
    assert_eq!(zone.expire(NOW + 61, 10).1, None);
    assert_eq!((look(&zone, "c").is_none(), zone.totals().memory_bytes), (true, 0));
}

#[test]
fn a_walk_meets_all_that_is_only_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let zone =
        Zone::new(directory.path(), Levels::default(), 100_000, 64 << 20).with_disk_use(DiskUse::At(5));
    let zone = Arc::new(zone);
    zone.warmed();
    let name = |number: usize| format!("{number:05}");
    for number in 0..5000 {
        // Some are newcomers, some are in the ring, and some have files.
        (0..=number % 7).for_each(|_| fill(&zone, &name(number)));
    }
    let mut walk = Walk::new(&zone);
    let mut met = Vec::new();
    while let Some(key) = walk.next_key() {
        met.push(String::from_utf8(zone.read_head(&key).unwrap().unwrap().head.key.to_vec()).unwrap());
        // Newcomers move into the ring meanwhile.
        ask(&zone, &name(met.len() % 5000));
    }
    met.sort();
    met.dedup();
    assert_eq!(met, (0..5000).map(name).collect::<Vec<_>>());
}

#[test]
fn a_later_head_takes_the_place_of_the_one_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), DiskUse::At(9));
    ask(&zone, "a");
    let old = look(&zone, "a").unwrap();
    let later = Freshness { valid_until: NOW + 99, ..Freshness::default() };
    zone.refresh(&key("a"), &old, &later, NOW).unwrap();
    let new = look(&zone, "a").unwrap();
    assert_eq!((new.head.freshness.valid_until, text(&new).as_deref()), (NOW + 99, Some("a")));
    zone.outdate(&key("a"), &old, NOW).unwrap();
    assert!(look(&zone, "a").unwrap().head.freshness.is_fresh(NOW), "another one is there now");
    zone.outdate(&key("a"), &new, NOW).unwrap();
    assert!(!look(&zone, "a").unwrap().head.freshness.is_fresh(NOW));
    let mut fields = Fields::new();
    fields.push(b"X-Longer", b"than before").unwrap();
    let longer = Head { fields, ..new.head.clone() };
    let current = look(&zone, "a").unwrap();
    assert!(zone.replace_head(&key("a"), &current, &longer).unwrap());
    assert!(look(&zone, "a").unwrap().head.fields.get("x-longer").is_some());
    assert!(!has_file(&zone, "a"));
}

#[test]
fn a_file_is_not_written_for_what_was_removed_or_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), DiskUse::At(2));
    ask(&zone, "a");
    let Look::Ready(object) = zone.look(&key("a"), &asking(1, NOW)) else { panic!() };
    let again = |object: &Object| zone.write_due(&key("a"), object).unwrap();
    zone.purge(&key("a"));
    again(&object);
    assert!(!has_file(&zone, "a"));
    ask(&zone, "a");
    again(&object);
    assert!(!has_file(&zone, "a") && look(&zone, "a").is_some());
    assert!(has_file(&zone, "a"));
}

#[test]
fn a_failed_write_leaves_the_object_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let gone = directory.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let zone = zone(&gone, DiskUse::At(2));
    ask(&zone, "a");
    std::fs::remove_dir(&gone).unwrap();
    let Look::Ready(object) = zone.look(&key("a"), &asking(1, NOW)) else { panic!() };
    assert!(zone.write_due(&key("a"), &object).is_err());
    assert!(look(&zone, "a").is_some(), "and is tried once");
}

#[test]
fn a_file_from_before_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let first = zone(directory.path(), DiskUse::At(1));
    ["a", "b"].iter().for_each(|name| fill(&first, name));
    // The index does not know the files yet.
    let second = Zone::new(directory.path(), Levels::parse(b"1:2").unwrap(), 100, MEMORY);
    let second = Arc::new(second.with_disk_use(DiskUse::Never));
    keep_after(&second, "a", "again", 0);
    assert!(!has_file(&second, "a"));
    second.note_found(&key("b"), 4096, NOW + 60);
    second.warmed();
    keep_after(&second, "b", "again", 0);
    assert!(!has_file(&second, "b"));
    assert_eq!(look(&second, "b").and_then(|object| text(&object)).as_deref(), Some("again"));
    assert_eq!(second.totals().disk_bytes, 0);
    second.note_failure(&key("b"), (Status::BAD_GATEWAY, NOW + 5), NOW + 60);
    assert!(look(&second, "b").is_none());
    keep_after(&second, "b", "b", 0);
    assert!(ask(&second, "b"));
}

/// Every place in the index is that of the key's object, unless it was a newcomer's, and every object has its place.
fn assert_consistent(zone: &Zone) {
    let state = zone.lock();
    let places = state.index.oldest_first().filter_map(|(key, entry)| Some((*key, entry.resident()?)));
    let mut found = 0;
    for (key, at) in places {
        let text = match state.residents.get(at, &key) {
            Some(Found::Object(object, _)) => object.head.key.clone(),
            Some(Found::Packed(packed)) => Head::read(&packed).unwrap().0.key,
            None => {
                assert!(is_new(at));
                continue;
            }
        };
        assert_eq!(Key::of(&text), key);
        found += 1;
    }
    let (bytes, objects) = state.residents.totals();
    assert_eq!(found, objects);
    assert!(bytes <= MEMORY);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_requests_and_removals_keep_places_right(
        uses in prop_oneof![Just(DiskUse::Never), (2_u32..6).prop_map(DiskUse::At)],
        capacity in 20_usize..200,
        steps in proptest::collection::vec((0_u8..20, 0_u16..300, 0_usize..20_000), 0..400),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let zone = Zone::new(directory.path(), Levels::default(), capacity, MEMORY).with_disk_use(uses);
        zone.warmed();
        let zone = Arc::new(zone);
        for (step, number, length) in steps {
            let name = number.to_string();
            match step {
                0 => assert!(!zone.discard(&key(&name)) || look(&zone, &name).is_none()),
                1 => assert!(zone.evict_one() || zone.totals().disk_bytes == 0),
                2 => assert!(zone.expire(NOW + 61, 3).0 <= 3),
                3 => keep_after(&zone, &name, &"x".repeat(length), zone.removals()),
                4 => {
                    if let Some(object) = look(&zone, &name) {
                        zone.outdate(&key(&name), &object, NOW).unwrap();
                    }
                }
                _ if look(&zone, &name).is_none() => keep_after(&zone, &name, &name, zone.removals()),
                _ => {}
            }
            assert_consistent(&zone);
            let found = look(&zone, &name);
            prop_assert!(found.is_none_or(|object| *object.head.key == *name.as_bytes()));
        }
    }
}
