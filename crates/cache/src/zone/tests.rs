use super::{Look, Zone};
use crate::{Batch, Fill, Freshness, Head, Key, Levels, Object, ReadError, Walk, Writer};
use http::{Fields, Status};
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

const NOW: i64 = 1000;

fn zone(directory: &Path, capacity: usize) -> Arc<Zone> {
    Arc::new(Zone::new(directory, Levels::parse(b"1:2").unwrap(), capacity))
}

fn head(key: &str) -> Head {
    Head {
        freshness: Freshness { valid_until: NOW + 10, ..Freshness::default() },
        date: NOW,
        length: 0,
        key: key.as_bytes().into(),
        variant: None,
        status: Status::OK,
        reason: Box::default(),
        fields: Fields::new(),
    }
}

fn store(zone: &Arc<Zone>, key: &str, content: &str) -> Object {
    let mut writer = Writer::new(zone, Key::of(key.as_bytes()), head(key)).unwrap();
    content.as_bytes().chunks(3).for_each(|part| writer.append(part).unwrap());
    writer.finish(60, NOW).unwrap()
}

fn read(file: File) -> Result<Object, ReadError> {
    Object::read(Arc::new(file), &mut |file, buffer, offset| file.read_at(buffer, offset).map(Some))
}

fn content(zone: &Zone, key: &str) -> Option<String> {
    let object = read(zone.open(&Key::of(key.as_bytes())).unwrap()?).ok()?;
    let mut bytes = vec![0; usize::try_from(object.head.length).unwrap()];
    object.file.read_exact_at(&mut bytes, object.start).unwrap();
    Some(String::from_utf8(bytes).unwrap())
}

fn walk(zone: &Arc<Zone>) {
    let batch = Batch { files: 2, time: Duration::from_secs(60), expires: NOW + 60 };
    let mut walk = Walk::new(zone);
    while walk.go_on(batch) {}
    zone.warmed();
}

fn look(zone: &Zone, key: &str, min_uses: u32) -> Look {
    zone.look(&Key::of(key.as_bytes()), min_uses, NOW + 60, NOW)
}

const MISSING: Look = Look::Known { has_file: false, may_store: true };
const SCARCE: Look = Look::Known { has_file: false, may_store: false };
const THERE: Look = Look::Known { has_file: true, may_store: true };

#[test]
fn an_object_is_found_once_it_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    zone.warmed();
    assert_eq!(look(&zone, "a", 1), MISSING);
    assert_eq!(zone.totals().objects, 0, "nothing is known of what is not kept");
    let mut writer = Writer::new(&zone, Key::of(b"a"), head("a")).unwrap();
    writer.append(b"hel").unwrap();
    assert_eq!((look(&zone, "a", 1), content(&zone, "a")), (MISSING, None));
    drop(writer);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing stays of it");
    store(&zone, "a", "hello");
    assert_eq!((look(&zone, "a", 1), content(&zone, "a").as_deref()), (THERE, Some("hello")));
    assert_eq!((zone.totals().objects, zone.totals().disk_bytes), (1, 4096));
    let path = directory.path().join(zone.levels().path(&Key::of(b"a")));
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    store(&zone, "a", "again");
    assert_eq!((content(&zone, "a").as_deref(), zone.totals().objects), (Some("again"), 1));
    assert!(zone.purge(&Key::of(b"a")) && !zone.purge(&Key::of(b"a")));
    assert_eq!((content(&zone, "a"), zone.totals().disk_bytes), (None, 0));
}

#[test]
fn uses_are_counted_before_an_object_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    zone.warmed();
    let looks: Vec<_> = (0..3).map(|_| look(&zone, "a", 3)).collect();
    assert_eq!(looks, [SCARCE, SCARCE, MISSING]);
}

#[test]
fn failures_are_kept_for_a_while() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    zone.warmed();
    let key = Key::of(b"a");
    zone.note_failure(&key, (Status::BAD_GATEWAY, NOW + 5), NOW + 60);
    assert_eq!(look(&zone, "a", 1), Look::Failed(Status::BAD_GATEWAY));
    assert_eq!(zone.look(&key, 1, NOW + 60, NOW + 6), MISSING);
}

#[test]
fn one_request_fills_and_others_wait() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    let (key, now, age) = (Key::of(b"a"), Instant::now(), Duration::from_secs(5));
    let fill: Fill = zone.fill(&key, age, now).unwrap();
    assert!(zone.fill(&key, age, now).is_none());
    assert_eq!(zone.fill_left(&key, now), Some(age));
    let waiting = || zone.poll_filled(&key, &mut Context::from_waker(Waker::noop()));
    assert_eq!(waiting(), Poll::Pending);
    let second = zone.fill(&key, age, now + age).unwrap();
    drop(fill);
    assert_eq!(waiting(), Poll::Pending, "the first one was too slow, and counts no more");
    drop(second);
    assert_eq!((waiting(), zone.fill_left(&key, now)), (Poll::Ready(()), None));
}

#[test]
fn a_full_zone_forgets_what_was_used_longest_ago() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 3);
    zone.warmed();
    ["a", "b", "c"].iter().for_each(|key| drop(store(&zone, key, "x")));
    assert_eq!(look(&zone, "a", 1), THERE);
    store(&zone, "d", "x");
    let there = |zone: &Zone| ["a", "b", "c", "d"].map(|key| content(zone, key).is_some());
    assert_eq!(there(&zone), [true, false, true, true]);
    assert_eq!(zone.make_room(8192, 10), 1);
    assert_eq!(there(&zone), [true, false, false, true]);
    assert_eq!(
        (zone.expire(NOW + 60, 10).0, zone.expire(NOW + 61, 1), zone.expire(NOW + 61, 9)),
        (0, (1, Some(NOW + 60)), (1, None))
    );
    assert_eq!(there(&zone), [false; 4]);
}

#[test]
fn files_are_found_again_and_others_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let first = zone(directory.path(), 10);
    ["a", "b", "c"].iter().for_each(|key| drop(store(&first, key, key)));
    let writing = Writer::new(&first, Key::of(b"d"), head("d")).unwrap();
    std::fs::write(directory.path().join(".fulmar-1-1"), "left by a dead process").unwrap();
    std::fs::write(directory.path().join("README"), "foreign").unwrap();
    std::fs::write(directory.path().join(Key::of(b"z").digits()), "not in its place").unwrap();
    let second = zone(directory.path(), 10);
    assert_eq!(look(&second, "a", 1), THERE, "a file may be there before all are known");
    walk(&second);
    assert_eq!((second.totals().objects, content(&second, "b").as_deref()), (3, Some("b")));
    let names = std::fs::read_dir(directory.path()).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.len() > 1
    });
    assert_eq!(names.count(), 3, "the abandoned file is gone, the one that is being written is not");
    writing.finish(60, NOW).unwrap();
}

#[test]
fn damaged_files_and_links_are_no_objects() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    let path = |key: &str| directory.path().join(zone.levels().path(&Key::of(key.as_bytes())));
    store(&zone, "a", "hello");
    let file = File::options().write(true).open(path("a")).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length - 1).unwrap();
    assert!(matches!(read(File::open(path("a")).unwrap()), Err(ReadError::Damaged)));
    file.set_len(length).unwrap();
    assert!(read(File::open(path("a")).unwrap()).is_ok());
    file.write_all_at(b"x", 40).unwrap();
    assert!(matches!(read(File::open(path("a")).unwrap()), Err(ReadError::Damaged)));
    store(&zone, "b", "hello");
    std::fs::remove_file(path("a")).unwrap();
    symlink(path("b"), path("a")).unwrap();
    assert!(zone.open(&Key::of(b"a")).is_err());
}

#[test]
fn a_later_freshness_is_written_only_to_the_same_file() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    let (key, old) = (Key::of(b"a"), store(&zone, "a", "old"));
    let later = Freshness { valid_until: NOW + 99, ..Freshness::default() };
    let until = |zone: &Zone| read(zone.open(&key).unwrap().unwrap()).unwrap().head.freshness.valid_until;
    store(&zone, "a", "a longer one");
    zone.refresh(&key, &old, &later, NOW).unwrap();
    assert_eq!((until(&zone), content(&zone, "a").as_deref()), (NOW + 10, Some("a longer one")));
    let new = read(zone.open(&key).unwrap().unwrap()).unwrap();
    zone.refresh(&key, &new, &later, NOW).unwrap();
    assert_eq!((until(&zone), content(&zone, "a").as_deref()), (NOW + 99, Some("a longer one")));
}
