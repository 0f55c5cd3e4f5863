//! Directives of Apache's main configuration that have no effect here.

use super::SERVERS;
use conf::{Arity, Contexts};
use contract::Directive;

const PROCESSES: &str = "Has no effect: Fulmar has other processes, which need no such setting.";
const THREADS: &str = "Has no effect: `worker_processes` sets the number of threads, and each serves any number of connections.";
const NAMES: &str =
    "Has no effect: URLs that the server makes have the host and the port of the request, as with `Off`.";

const fn accepted(name: &'static str, arity: Arity, why: &'static str) -> Directive<()> {
    Directive::new(name, |_, _| Ok(())).within(Contexts::HTTPD).args(arity).help(why)
}

/// `Mutex MECHANISM …`
pub(super) static MUTEX: Directive<()> = accepted("Mutex", Arity::AtLeast(1), PROCESSES);
/// `DefaultRuntimeDir DIRECTORY`
pub(super) static DEFAULT_RUNTIME_DIR: Directive<()> =
    accepted("DefaultRuntimeDir", Arity::Exactly(1), PROCESSES);
/// `ServerLimit NUMBER`
pub(super) static SERVER_LIMIT: Directive<()> = accepted("ServerLimit", Arity::Exactly(1), THREADS);
/// `StartServers NUMBER`
pub(super) static START_SERVERS: Directive<()> = accepted("StartServers", Arity::Exactly(1), THREADS);
/// `MinSpareThreads NUMBER`
pub(super) static MIN_SPARE_THREADS: Directive<()> = accepted("MinSpareThreads", Arity::Exactly(1), THREADS);
/// `MaxSpareThreads NUMBER`
pub(super) static MAX_SPARE_THREADS: Directive<()> = accepted("MaxSpareThreads", Arity::Exactly(1), THREADS);
/// `MinSpareServers NUMBER`
pub(super) static MIN_SPARE_SERVERS: Directive<()> = accepted("MinSpareServers", Arity::Exactly(1), THREADS);
/// `MaxSpareServers NUMBER`
pub(super) static MAX_SPARE_SERVERS: Directive<()> = accepted("MaxSpareServers", Arity::Exactly(1), THREADS);
/// `ThreadsPerChild NUMBER`
pub(super) static THREADS_PER_CHILD: Directive<()> = accepted("ThreadsPerChild", Arity::Exactly(1), THREADS);
/// `ThreadLimit NUMBER`
pub(super) static THREAD_LIMIT: Directive<()> = accepted("ThreadLimit", Arity::Exactly(1), THREADS);
/// `MaxRequestWorkers NUMBER`
pub(super) static MAX_REQUEST_WORKERS: Directive<()> =
    accepted("MaxRequestWorkers", Arity::Exactly(1), THREADS);
/// `MaxClients NUMBER`
pub(super) static MAX_CLIENTS: Directive<()> = accepted("MaxClients", Arity::Exactly(1), THREADS);
/// `MaxConnectionsPerChild NUMBER`
pub(super) static MAX_CONNECTIONS_PER_CHILD: Directive<()> =
    accepted("MaxConnectionsPerChild", Arity::Exactly(1), THREADS);
/// `MaxRequestsPerChild NUMBER`
pub(super) static MAX_REQUESTS_PER_CHILD: Directive<()> =
    accepted("MaxRequestsPerChild", Arity::Exactly(1), THREADS);
/// `AsyncRequestWorkerFactor NUMBER`
pub(super) static ASYNC_REQUEST_WORKER_FACTOR: Directive<()> =
    accepted("AsyncRequestWorkerFactor", Arity::Exactly(1), THREADS);
/// `ExtendedStatus On | Off`
pub(super) static EXTENDED_STATUS: Directive<()> =
    accepted("ExtendedStatus", Arity::Flag, "Has no effect: the page about the server's state is not built.");
/// `GracefulShutdownTimeout SECONDS`
pub(super) static GRACEFUL_SHUTDOWN_TIMEOUT: Directive<()> =
    accepted("GracefulShutdownTimeout", Arity::Exactly(1), PROCESSES);
/// `ScoreBoardFile FILE`
pub(super) static SCORE_BOARD_FILE: Directive<()> = accepted("ScoreBoardFile", Arity::Exactly(1), PROCESSES);
/// `ServerAdmin ADDRESS`
pub(super) static SERVER_ADMIN: Directive<()> =
    accepted("ServerAdmin", Arity::Exactly(1), "Has no effect: pages about errors do not show an address.")
        .within(SERVERS);
/// `UseCanonicalName On | Off | DNS`
pub(super) static USE_CANONICAL_NAME: Directive<()> =
    accepted("UseCanonicalName", Arity::Exactly(1), NAMES).within(SERVERS);
/// `UseCanonicalPhysicalPort On | Off`
pub(super) static USE_CANONICAL_PHYSICAL_PORT: Directive<()> =
    accepted("UseCanonicalPhysicalPort", Arity::Flag, NAMES).within(SERVERS);
/// `HostnameLookups On | Off | Double`
pub(super) static HOSTNAME_LOOKUPS: Directive<()> =
    accepted("HostnameLookups", Arity::Exactly(1), "Has no effect: logs have the addresses of clients.")
        .within(SERVERS);
/// `TraceEnable On | Off | extended`
pub(super) static TRACE_ENABLE: Directive<()> =
    accepted("TraceEnable", Arity::Exactly(1), "Has no effect: the method TRACE is always refused.")
        .within(SERVERS);
/// `RequestReadTimeout header=SECONDS body=SECONDS`
pub(super) static REQUEST_READ_TIMEOUT: Directive<()> = accepted(
    "RequestReadTimeout",
    Arity::AtLeast(1),
    "Has no effect: `Timeout` limits how long Fulmar waits for a client.",
)
.within(SERVERS);
