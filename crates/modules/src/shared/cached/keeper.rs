//! The work on a cache besides requests: finding the files after a start, and removing what is not used or has no room.

use super::uptime_s;
use cache::{Batch, Walk, Zone};
use conf::Diagnostic;
use contract::{AnyDirective, Identity, ScopeBuilder, Service, Threads, View};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use upstream::{Options, Store, stores};
use wire::{Job, Timer};

/// Runs the work for all zones of a protocol.
pub(crate) fn serve(
    view: &View<'_>,
    builder: &mut ScopeBuilder,
    options: &Options,
) -> Result<(), Diagnostic> {
    for store in stores(view, &options.cache)? {
        register(&store);
        let identity = |kind: &str| Identity::default().bytes(kind).bytes(format!("{:?}", store.path));
        let name = options.cache.path.info().name;
        let Ok(loader) = view
            .origin()
            .share(identity("loader").bytes(name), || Ok::<_, Infallible>(Loader(Arc::clone(&store))));
        let Ok(manager) = view
            .origin()
            .share(identity("manager").bytes(name), || Ok::<_, Infallible>(Manager(Arc::clone(&store))));
        builder.serve(Threads::One, loader);
        builder.serve(Threads::One, manager);
    }
    Ok(())
}

/// The zones of the configurations in use, by name.
static ZONES: Mutex<Vec<(Box<str>, Weak<Zone>)>> = Mutex::new(Vec::new());

/// Notes a zone for the metrics and for control.
fn register(store: &Store) {
    let zone = Arc::downgrade(&store.zone);
    let mut zones = ZONES.lock().unwrap_or_else(PoisonError::into_inner);
    zones.retain(|(_, other)| other.strong_count() > 0);
    if !zones.iter().any(|(_, other)| other.ptr_eq(&zone)) {
        zones.push((String::from_utf8_lossy(&store.path.name).into(), zone));
    }
}

/// The zones of the configurations in use, by name. Of two with one name the later one counts.
pub(crate) fn zones() -> Vec<(Box<str>, Arc<Zone>)> {
    let mut found: Vec<(Box<str>, Arc<Zone>)> = Vec::new();
    for (name, zone) in ZONES.lock().unwrap_or_else(PoisonError::into_inner).iter().rev() {
        if let Some(zone) = zone.upgrade().filter(|_| found.iter().all(|(other, _)| other != name)) {
            found.push((name.clone(), zone));
        }
    }
    found.reverse();
    found
}

/// Finds the files of a zone.
struct Loader(Arc<Store>);

/// Removes objects of a zone.
struct Manager(Arc<Store>);

/// The longest pause between two looks at what may be removed.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The shortest one where nothing is in a hurry.
const PAUSE_MIN: Duration = Duration::from_secs(1);

impl Service for Loader {
    fn start(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let Store { path, zone } = &*self.0;
            if !zone.is_cold() {
                return;
            }
            let Ok(timer) = Timer::here() else { return };
            let mut walk = Walk::new(zone);
            loop {
                let expires = uptime_s().saturating_add(path.inactive_s);
                let batch = Batch { files: path.loader.files, time: path.loader.threshold, expires };
                let job = Job::start(move || {
                    let has_more = walk.go_on(batch);
                    Ok((walk, has_more))
                });
                match job.await {
                    Ok((gone_on, true)) => walk = gone_on,
                    Ok((_, false)) => break zone.warmed(),
                    // The index learns of the other files when requests ask for them.
                    Err(_) => break,
                }
                pause(&timer, path.loader.sleep).await;
            }
        })
    }
}

impl Service for Manager {
    fn start(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let Ok(timer) = Timer::here() else { return };
            loop {
                let store = Arc::clone(&self.0);
                let now = uptime_s();
                let delay = Job::start(move || Ok(tidy_up(&store, now))).await.unwrap_or(PAUSE_MAX);
                pause(&timer, delay).await;
            }
        })
    }
}

/// Removes what is due, as much as may be done at once, and tells how long to rest.
fn tidy_up(store: &Store, now: i64) -> Duration {
    let Store { path, zone } = store;
    let (mut count, next) = zone.expire(now, path.manager.files);
    count += zone.make_room(path.max_size, path.manager.files.saturating_sub(count));
    while count < path.manager.files
        && path.min_free > 0
        && zone.free_bytes().is_ok_and(|free| free < path.min_free)
        && zone.evict_one()
    {
        count += 1;
    }
    if count >= path.manager.files {
        return path.manager.sleep;
    }
    let until = next.map(|next| u64::try_from(next.saturating_sub(now).saturating_add(1)).unwrap_or(0));
    until.map_or(PAUSE_MAX, Duration::from_secs).clamp(PAUSE_MIN, PAUSE_MAX)
}

async fn pause(timer: &Timer, delay: Duration) {
    timer.set(delay);
    poll_fn(|cx| timer.poll(cx)).await;
}
