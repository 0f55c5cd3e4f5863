//! The settings of a scope that the server itself acts on.

use crate::{Amount, Opener, Overlay, Root, Template, TlsPolicy};
use bytes::Bytes;
use conf::Span;
use http::{Status, TypesByExtension};
use journal::ErrorLog;
use std::sync::Arc;
use std::time::Duration;

pub use ::policy::{
    BodyFile, DebuggedClients, ErrorAnswer, HeadPolicy, Http2Policy, KeepalivePolicy, LingeringClose,
    LingeringPolicy, PrereadPolicy, RedirectPolicy, RequestBodyPolicy, VerifyClient,
};

/// The settings of a scope that the server itself acts on. Modules fill it when they compile.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Where files are.
    pub root: Root,
    /// Media types by extension.
    pub types: Arc<TypesByExtension>,
    /// The media type of all else.
    pub default_type: Bytes,
    /// How a virtual server is to encrypt; only a server's own scope says it.
    pub tls: Option<Box<TlsPolicy>>,
    /// How heads of requests are read.
    pub head: HeadPolicy,
    /// HTTP/2.
    pub http2: Http2Policy,
    /// How bodies of requests are read.
    pub request_body: RequestBodyPolicy,
    /// How long connections are kept.
    pub keepalive: KeepalivePolicy,
    /// How connections are closed.
    pub lingering: LingeringPolicy,
    /// How responses are sent.
    pub sending: SendingPolicy,
    /// How redirections are written.
    pub redirects: RedirectPolicy,
    /// Where errors are logged.
    pub error_log: ErrorLog,
    /// Whose connections are logged in all detail; only the main level says it.
    pub debugged: Option<Arc<DebuggedClients>>,
    /// Whether requests inside of the server are logged, too.
    pub log_subrequest: bool,
    /// Settings in `.htaccess` files.
    pub overlay: Option<Arc<Overlay>>,
    /// How these are opened; none follows every link.
    pub overlay_opener: Option<Opener>,
    /// What replaces an error.
    pub error_pages: Arc<[ErrorPage]>,
    /// Whether an error while serving an error page is replaced again.
    pub recursive_error_pages: bool,
    /// A path or a named location that a request goes through when its response was sent.
    pub post_action: Option<Box<[u8]>>,
    /// Whether one granted access rule is enough.
    pub satisfy_any: bool,
    /// How long a refusal with 401 waits.
    pub auth_delay: Duration,
    /// Whether the scope opens tunnels to other servers (CONNECT).
    pub opens_tunnels: bool,
    /// Whether only internal redirects reach this scope.
    pub internal: bool,
    /// Whether `Server` and the server's own pages tell the version.
    pub server_tokens: bool,
    /// Whether files get entity tags.
    pub etag: bool,
}

/// How responses are sent.
#[derive(Clone, Debug)]
pub struct SendingPolicy {
    /// How long a client may read nothing.
    pub send_timeout: Duration,
    /// Bytes a second that a client must take over the whole response, after one `send_timeout`; 0 is any rate.
    pub send_min_rate: u64,
    /// Whether files go by `sendfile`.
    pub sendfile: bool,
    /// How much one `sendfile` may send, in bytes; zero is unlimited.
    pub sendfile_max_chunk: u64,
    /// Whether a file is read by other threads where its file system does not tell that it is in memory.
    pub aio_threads: bool,
    /// How many bytes a second are sent; none is any number.
    pub limit_rate: Option<Amount>,
    /// How many bytes go before that limit counts.
    pub limit_rate_after: Option<Amount>,
    /// Whether a body of unknown length is chunked for HTTP/1.1.
    pub chunked: bool,
    /// Clients get early hints if one of these is neither empty nor `0`.
    pub early_hints: Arc<[Template]>,
}

/// What replaces an error.
#[derive(Clone, Debug)]
pub struct ErrorPage {
    /// The statuses that are replaced.
    pub statuses: Box<[Status]>,
    /// The status that is sent.
    pub answer: ErrorAnswer,
    /// A path, an absolute URL, or a named location.
    pub target: Template,
    /// Whether the target is the page itself, in HTML.
    pub is_text: bool,
    /// Whether a path leads to no more than a client may ask for.
    pub is_public: bool,
    /// Where it is named, in a file of the site.
    pub place: Option<Span>,
}

impl Policy {
    /// The defaults, with relative paths starting from `prefix`.
    pub fn new(root: Root) -> Policy {
        Policy {
            root,
            types: Arc::new(TypesByExtension::default()),
            default_type: Bytes::from_static(b"text/plain"),
            tls: None,
            head: HeadPolicy::default(),
            http2: Http2Policy::default(),
            request_body: RequestBodyPolicy::default(),
            keepalive: KeepalivePolicy::default(),
            lingering: LingeringPolicy::default(),
            sending: SendingPolicy::default(),
            redirects: RedirectPolicy::default(),
            error_log: ErrorLog::default(),
            debugged: None,
            log_subrequest: false,
            overlay: None,
            overlay_opener: None,
            error_pages: Arc::new([]),
            recursive_error_pages: false,
            post_action: None,
            satisfy_any: false,
            auth_delay: Duration::ZERO,
            opens_tunnels: false,
            internal: false,
            server_tokens: true,
            etag: true,
        }
    }
}

impl Default for SendingPolicy {
    fn default() -> SendingPolicy {
        SendingPolicy {
            send_timeout: Duration::from_secs(60),
            send_min_rate: 0,
            sendfile: false,
            sendfile_max_chunk: 2 * 1024 * 1024,
            aio_threads: false,
            limit_rate: None,
            limit_rate_after: None,
            chunked: true,
            early_hints: Arc::default(),
        }
    }
}
