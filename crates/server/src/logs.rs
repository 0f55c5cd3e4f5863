//! Logs while a worker serves: lines that were gathered are written when they are due, and all of them at its end.

use crate::commands::Commands;
use journal::{Level, LogFiles};
use site::Site;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::ready;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// How often lines of sites before are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Writes gathered lines when they are due, off the event loop; never ends.
pub(crate) async fn write_when_due(site: &Site) {
    loop {
        due(&site.logs).await;
        let logs = site.logs.clone();
        let complaints = spawn_blocking(move || logs.write_due(Instant::now())).await;
        tell(site, complaints.unwrap_or_default());
    }
}

/// The same for sites of which only the last requests are left: once in a while, so that they are not kept by it.
pub(crate) async fn write_for(past: &[Weak<Site>]) {
    loop {
        sleep(LOOK).await;
        for site in past.iter().filter_map(Weak::upgrade) {
            tell(&site, site.logs.write_due(Instant::now()));
        }
    }
}

/// Waits until something is due, which may come to be sooner than it was first said.
async fn due(logs: &LogFiles) {
    let mut timer = pin!(sleep(Duration::MAX));
    poll_fn(|cx| {
        let due = ready!(logs.poll_due(cx));
        timer.as_mut().reset(due.into());
        timer.as_mut().poll(cx)
    })
    .await;
}

/// Opens all logs anew, those of sites before included.
pub(crate) fn reopen(site: &Arc<Site>, past: &[Weak<Site>], commands: &Commands) {
    let sites = past.iter().filter_map(Weak::upgrade).chain([Arc::clone(site)]);
    for (file, error) in sites.flat_map(|site| site.logs.reopen()) {
        if let Some(path) = file.path() {
            let reason = net::system_message(&error);
            commands.complain(format!("open() \"{}\" failed ({reason})", path.display()));
        }
    }
}

/// Leaves the logs of a site to the one after it: all that was gathered is written, and the standard error stream
/// ends in the error log as it did. What ends later under the site is written when the last of it is gone.
pub(crate) fn hand_over(before: &Site, after: &Site) {
    finish(before);
    let Some(path) = after.error_log() else { return };
    if before.logs.iter().any(|file| file.has_stderr())
        && let Some(Err(error)) = after.logs.find(path).map(|file| file.take_stderr())
    {
        after.log(Level::Alert, &format!("dup2(STDERR) failed ({})", net::system_message(&error)));
    }
}

/// Writes all that was gathered.
pub(crate) fn finish(site: &Site) {
    tell(site, site.logs.flush());
}

fn tell(site: &Site, complaints: Vec<String>) {
    complaints.iter().for_each(|complaint| site.log(Level::Alert, complaint));
}
