use super::{Asking, Look, Zone};
use crate::{
    Batch, Check, Content, Demand, FillRight, Freshness, Head, Key, Levels, Object, ReadError, Selection,
    Walk, Whole, Writer,
};
use http::{Fields, Status};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

pub(super) const NOW: i64 = 1000;

/// How many bytes of objects may be in memory.
const MEMORY: usize = 8192;

fn zone(directory: &Path, capacity: usize) -> Arc<Zone> {
    Arc::new(Zone::new(directory, Levels::parse(b"1:2").unwrap(), capacity, MEMORY))
}

pub(super) fn head(key: &str) -> Head {
    let freshness = Freshness { valid_until: NOW + 10, ..Freshness::default() };
    Head { freshness, date: NOW, ..Head::plain(key, Fields::new()) }
}

fn store(zone: &Arc<Zone>, key: &str, content: &str) -> Object {
    let mut writer = Writer::new(zone, Key::of(key.as_bytes()), head(key)).unwrap();
    content.as_bytes().chunks(3).for_each(|part| writer.append(part).unwrap());
    writer.finish(NOW + 60).unwrap();
    zone.read_head(&Key::of(key.as_bytes())).unwrap().unwrap()
}

/// Stores a response whose content is there.
fn store_whole(zone: &Arc<Zone>, key: &str, content: &str, removals: u64) -> std::io::Result<()> {
    let head = head(key);
    let content = [content.as_bytes()];
    let whole = Whole {
        key: Key::of(key.as_bytes()),
        head: head.parts(),
        lines: 8,
        content: &content,
        removals,
        expires: NOW + 60,
    };
    whole.store(zone, |out| out.extend_from_slice(b"X-A: b\r\n"))
}

pub(super) fn read(file: File) -> Result<Object, ReadError> {
    let demand = Demand { check: Check::Always, loads: 4096, may_block: true };
    Object::read(Arc::new(file), demand, &mut |file, buffer, offset| file.read_at(buffer, offset).map(Some))
}

fn content(zone: &Zone, key: &str) -> Option<String> {
    text(&read(zone.open(&Key::of(key.as_bytes())).unwrap()?).ok()?)
}

pub(super) fn text(object: &Object) -> Option<String> {
    let Content::Memory(bytes) = &object.content else { return None };
    Some(String::from_utf8(bytes.to_vec()).unwrap())
}

fn walk(zone: &Arc<Zone>) {
    let batch = Batch { files: 2, time: Duration::from_secs(60), expires: NOW + 60 };
    let mut walk = Walk::new(zone);
    while walk.go_on(batch) {}
    zone.warmed();
}

pub(super) fn asking(min_uses: u32, now: i64) -> Asking {
    Asking { min_uses, counts: true, expires: NOW + 60, now }
}

/// What the zone says: whether there is a file, and whether a response may be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Failed(Status),
    Ready(Option<String>),
    Known(bool, bool),
}

fn look_at(zone: &Zone, key: &str, asking: &Asking) -> Said {
    match zone.look(&Key::of(key.as_bytes()), asking) {
        Look::Failed(status) => Said::Failed(status),
        Look::Ready(object) => Said::Ready(text(&object)),
        Look::Known { has_file, may_store, .. } => Said::Known(has_file, may_store),
    }
}

fn look(zone: &Zone, key: &str, min_uses: u32) -> Said {
    look_at(zone, key, &asking(min_uses, NOW))
}

/// Asks as a request does, which reads the file.
fn ask(zone: &Zone, key: &str, now: i64) -> Option<String> {
    let asking = asking(1, now);
    let name = Key::of(key.as_bytes());
    let (has_file, reading) = match zone.look(&name, &asking) {
        Look::Ready(object) => return text(&object),
        Look::Failed(_) => return None,
        Look::Known { has_file, reading, .. } => (has_file, reading),
    };
    let object = Arc::new(read(zone.open(&name).unwrap().filter(|_| has_file)?).ok()?);
    zone.note_read(&name, &object, reading, &asking);
    text(&object)
}

const MISSING: Said = Said::Known(false, true);
const SCARCE: Said = Said::Known(false, false);
const THERE: Said = Said::Known(true, true);

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
fn a_response_whose_content_is_there_becomes_an_object_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    zone.warmed();
    let path = directory.path().join(zone.levels().path(&Key::of(b"a")));
    for text in ["hello", "", "again"] {
        // The directory is missing at first, and then the file is there already.
        store_whole(&zone, "a", text, 0).unwrap();
        assert_eq!((look(&zone, "a", 1), content(&zone, "a").as_deref()), (THERE, Some(text)));
    }
    let object = read(zone.open(&Key::of(b"a")).unwrap().unwrap()).unwrap();
    assert_eq!((object.head.fields.get("x-a"), &*object.head.key), (Some(&b"b"[..]), &b"a"[..]));
    std::fs::remove_file(&path).unwrap();
    store_whole(&zone, "a", "new", 0).unwrap();
    assert_eq!(content(&zone, "a").as_deref(), Some("new"), "neither is there");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!((zone.totals().objects, zone.totals().disk_bytes), (1, 4096));
    assert!(store_whole(&zone, &"x".repeat(1 << 20), "", 0).is_err(), "the head is too long");
    zone.purge(&Key::of(b"a"));
    store_whole(&zone, "a", "old", 0).unwrap();
    assert_eq!((content(&zone, "a"), zone.totals().objects), (None, 0), "removed meanwhile");
    store_whole(&zone, "a", "new", zone.removals()).unwrap();
    assert_eq!(content(&zone, "a").as_deref(), Some("new"));
}

#[test]
fn a_file_that_is_being_written_is_unfinished() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    store_whole(&zone, "a", "hello", 0).unwrap();
    let path = directory.path().join(zone.levels().path(&Key::of(b"a")));
    let whole = std::fs::read(&path).unwrap();
    for end in 0..whole.len() {
        std::fs::write(&path, &whole[..end]).unwrap();
        let read = read(File::open(&path).unwrap());
        assert!(matches!(read, Err(ReadError::Unfinished(_))), "{end} bytes: {read:?}");
    }
    std::fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
    assert!(matches!(read(File::open(&path).unwrap()), Err(ReadError::Damaged)));
    // What another writer has left is replaced.
    std::fs::write(&path, &whole[..10]).unwrap();
    store_whole(&zone, "a", "again", 0).unwrap();
    assert_eq!(content(&zone, "a").as_deref(), Some("again"));
}

#[test]
fn no_link_is_followed_where_an_object_is_written() {
    let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let zone = zone(directory.path(), 10);
    let path = zone.levels().path(&Key::of(b"a"));
    let first = path.components().next().unwrap();
    symlink(elsewhere.path(), directory.path().join(first)).unwrap();
    std::fs::create_dir(elsewhere.path().join(path.components().nth(1).unwrap())).unwrap();
    assert!(store_whole(&zone, "a", "hello", 0).is_err());
    assert_eq!(
        std::fs::read_dir(elsewhere.path().join(path.components().nth(1).unwrap())).unwrap().count(),
        0
    );
}

#[test]
fn uses_are_counted_before_an_object_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    zone.warmed();
    assert_eq!((look(&zone, "a", 3), look(&zone, "a", 3)), (SCARCE, SCARCE));
    let waited = Asking { counts: false, ..asking(3, NOW) };
    assert_eq!(look_at(&zone, "a", &waited), SCARCE, "a request that waited counts once");
    assert_eq!(look(&zone, "a", 3), MISSING);
}

#[test]
fn failures_are_kept_for_a_while() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    zone.warmed();
    let key = Key::of(b"a");
    zone.note_failure(&key, (Status::BAD_GATEWAY, NOW + 5), NOW + 60);
    assert_eq!(look(&zone, "a", 1), Said::Failed(Status::BAD_GATEWAY));
    assert_eq!(look_at(&zone, "a", &asking(1, NOW + 6)), MISSING);
}

#[test]
fn one_request_fills_and_others_wait() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    let (key, now, age) = (Key::of(b"a"), Instant::now(), Duration::from_secs(5));
    let fill: FillRight = zone.try_fill(&key, age, now).unwrap();
    assert!(zone.try_fill(&key, age, now).is_none());
    assert_eq!(zone.fill_left(&key, now), Some(age));
    let waiting = || zone.poll_filled(&key, &mut Context::from_waker(Waker::noop()));
    assert_eq!(waiting(), Poll::Pending);
    let second = zone.try_fill(&key, age, now + age).unwrap();
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
    writing.finish(NOW + 60).unwrap();
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
    assert!(matches!(read(File::open(path("a")).unwrap()), Err(ReadError::Unfinished(_))));
    file.write_all_at(b"o", length - 1).unwrap();
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

#[test]
fn an_object_is_in_memory_from_its_second_hit_on() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    store(&zone, "a", "hello");
    assert_eq!((ask(&zone, "a", NOW).as_deref(), zone.totals().ready_objects), (Some("hello"), 0));
    assert_eq!((ask(&zone, "a", NOW).as_deref(), zone.totals().ready_objects), (Some("hello"), 1));
    assert_eq!(look(&zone, "a", 1), Said::Ready(Some("hello".into())));
    store(&zone, "a", "again");
    assert_eq!(zone.totals().ready_objects, 0, "the file has another content");
    assert_eq!(ask(&zone, "a", NOW).as_deref(), Some("again"));
    assert_eq!(look(&zone, "a", 1), Said::Ready(Some("again".into())));
    assert!(zone.purge(&Key::of(b"a")));
    assert_eq!((ask(&zone, "a", NOW), zone.totals().memory_bytes), (None, 0));
}

#[test]
fn an_object_leaves_memory_when_its_file_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    zone.warmed();
    store(&zone, "a", "hello");
    (0..2).for_each(|_| drop(ask(&zone, "a", NOW)));
    std::fs::remove_file(directory.path().join(zone.levels().path(&Key::of(b"a")))).unwrap();
    assert_eq!(ask(&zone, "a", NOW + 1).as_deref(), Some("hello"), "it is looked for once in a while");
    assert_eq!((ask(&zone, "a", NOW + 2), zone.totals().ready_objects), (None, 0));
}

#[test]
fn what_is_asked_for_once_pushes_nothing_out_of_memory() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 1000);
    let often: Vec<String> = (0..4).map(|number| format!("often {number}")).collect();
    let ask_often = || often.iter().for_each(|key| assert_eq!(ask(&zone, key, NOW).as_ref(), Some(key)));
    often.iter().for_each(|key| drop(store(&zone, key, key)));
    (0..4).for_each(|_| ask_often());
    let ready = zone.totals();
    assert_eq!(ready.ready_objects, often.len());
    for number in 0..100 {
        let key = format!("once {number}");
        store(&zone, &key, &key);
        (0..2).for_each(|_| assert_eq!(ask(&zone, &key, NOW).as_ref(), Some(&key)));
        ask_often();
        assert!(zone.totals().memory_bytes <= MEMORY);
    }
    let are_ready = often.iter().filter(|key| matches!(look(&zone, key, 1), Said::Ready(_))).count();
    assert_eq!(are_ready, often.len());
}

#[test]
fn a_content_that_the_disk_has_lost_is_no_object() {
    let directory = tempfile::tempdir().unwrap();
    let first = zone(directory.path(), 10);
    store(&first, "a", "hello");
    let path = directory.path().join(first.levels().path(&Key::of(b"a")));
    let length = path.metadata().unwrap().len();
    File::options().write(true).open(&path).unwrap().write_all_at(&[0; 5], length - 5).unwrap();
    assert!(matches!(read(File::open(&path).unwrap()), Err(ReadError::Damaged)));
    let second = zone(directory.path(), 10);
    walk(&second);
    let Look::Known { has_file, reading, .. } = second.look(&Key::of(b"a"), &asking(1, NOW)) else {
        panic!()
    };
    assert!(has_file && reading.check() == Check::Always);
}

/// Changes bytes of a file so that its time differs.
fn damage(path: &Path, offset: u64) {
    let changed = |path: &Path| path.metadata().map(|file| (file.ctime(), file.ctime_nsec())).unwrap();
    let before = changed(path);
    while changed(path) == before {
        File::options().write(true).open(path).unwrap().write_all_at(b"x", offset).unwrap();
    }
}

#[test]
fn a_content_is_checked_again_after_its_file_changed() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    let key = Key::of(b"a");
    let path = directory.path().join(zone.levels().path(&key));
    let check = || match zone.look(&key, &asking(1, NOW)) {
        Look::Known { reading, .. } => reading.check(),
        other => panic!("{other:?}"),
    };
    let read = |check: Check, length: u64| {
        let demand = Demand { check, loads: 4096, may_block: true };
        let file = Arc::new(zone.open(&key).unwrap().unwrap());
        let object = Object::read(file, demand, &mut |file, buffer, at| file.read_at(buffer, at).map(Some));
        object.map(|object| assert_eq!(object.head.length, length))
    };
    for content in ["hello".to_owned(), "y".repeat(100_000)] {
        let length = content.len() as u64;
        let object = store(&zone, "a", &content);
        assert_eq!(check(), Check::Unless(object.stamp().unwrap()), "this process has written it");
        read(check(), length).unwrap();
        zone.refresh(&key, &object, &object.head.freshness, NOW + 1).unwrap();
        let refreshed = zone.read_head(&key).unwrap().unwrap();
        assert_eq!(check(), Check::Unless(refreshed.stamp().unwrap()), "only its head has changed");
        damage(&path, path.metadata().unwrap().len() - 1);
        assert!(matches!(read(check(), length), Err(ReadError::Damaged)));
        let damaged = zone.read_head(&key).unwrap().unwrap();
        zone.refresh(&key, &damaged, &damaged.head.freshness, NOW + 2).unwrap();
        assert_eq!(check(), Check::Always, "another program has changed it before");
        zone.purge(&key);
    }
}

#[test]
fn requests_that_waited_for_a_response_that_is_not_kept_go_on_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    let (key, now, age) = (Key::of(b"a"), Instant::now(), Duration::from_secs(5));
    zone.try_fill(&key, age, now).unwrap().pass(now);
    assert!(!zone.is_passed(&key, now), "no request has waited");
    let fill = zone.try_fill(&key, age, now).unwrap();
    assert!(zone.poll_filled(&key, &mut Context::from_waker(Waker::noop())).is_pending());
    fill.pass(now);
    assert!(zone.poll_filled(&key, &mut Context::from_waker(Waker::noop())).is_ready());
    assert!(zone.is_passed(&key, now + age) && !zone.is_passed(&Key::of(b"b"), now));
    store(&zone, "a", "hello");
    assert!(!zone.is_passed(&key, now + age), "a response is kept");
}

#[test]
fn a_response_that_was_asked_for_before_a_removal_is_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    let write = |key: &str, removals: u64| {
        let writer = Writer::new(&zone, Key::of(key.as_bytes()), head(key)).unwrap().after(removals);
        writer.finish(NOW + 60).unwrap();
        zone.open(&Key::of(key.as_bytes())).unwrap().is_some()
    };
    let before = zone.removals();
    let fill = zone.try_fill(&Key::of(b"a"), Duration::from_secs(60), Instant::now());
    assert!(fill.is_some() && !zone.purge(&Key::of(b"a")));
    let again = zone.try_fill(&Key::of(b"a"), Duration::from_secs(60), Instant::now());
    assert!(again.is_some(), "the next request does not wait for the one before");
    assert_eq!((write("a", before), write("b", before), write("a", zone.removals())), (false, true, true));
    let before = zone.removals();
    zone.purge_coming(&Selection::Prefix(b"c".as_slice().into()));
    assert_eq!((write("c", before), write("d", before), write("c", zone.removals())), (false, true, true));
}

#[test]
fn a_removal_leaves_other_responses_that_come_alone() {
    let directory = tempfile::tempdir().unwrap();
    let zone = zone(directory.path(), 10);
    let key = |text: &str| Key::of(text.as_bytes());
    let fills = ["a", "b", "c"]
        .map(|text| (text, zone.try_fill(&key(text), Duration::from_secs(60), Instant::now()).unwrap()));
    let writers: Vec<_> = fills[..2]
        .iter()
        .map(|(text, fill)| {
            let mut writer = Writer::new(&zone, key(text), head(text)).unwrap();
            writer.share(fill, None);
            writer
        })
        .collect();
    zone.purge_coming(&Selection::Key(b"a".as_slice().into()));
    let is_filled = |text: &str| zone.fill_left(&key(text), Instant::now()).is_some();
    assert_eq!(["a", "b", "c"].map(is_filled), [false, true, false], "of the third one nothing is known");
    let stays: Vec<bool> = writers
        .into_iter()
        .zip(["a", "b"])
        .map(|(writer, text)| writer.finish(NOW + 60).is_ok() && zone.open(&key(text)).unwrap().is_some())
        .collect();
    assert_eq!(stays, [false, true]);
}
