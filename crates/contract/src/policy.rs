//! The settings of a scope that the server itself acts on.

use crate::{Amount, DebuggedClients, Opener, Overlay, Root, Template, TlsPolicy};
use bytes::Bytes;
use conf::Span;
use http::{Status, TypesByExtension};
use journal::ErrorLog;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

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

/// How heads of requests are read.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each field is the directive of that name")]
pub struct HeadPolicy {
    pub client_header_timeout: Duration,
    pub proxy_protocol_timeout: Option<Duration>,
    pub client_header_buffer_size: usize,
    pub large_client_header_buffers: (usize, usize),
    pub max_headers: usize,
    pub ignore_invalid_headers: bool,
    pub underscores_in_headers: bool,
    pub merge_slashes: bool,
    pub strict_line_ends: bool,
    pub preread: Option<PrereadPolicy>,
}

/// How the first bytes of a connection of `stream` are looked at before it is passed on.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each field is the directive of that name")]
pub struct PrereadPolicy {
    pub ssl_preread: bool,
    pub preread_kind: bool,
    pub preread_buffer_size: usize,
    pub preread_timeout: Duration,
}

/// HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Policy {
    /// Whether clients may speak it.
    pub is_enabled: bool,
    /// How many requests of a connection are served at a time.
    pub max_concurrent_streams: u32,
    /// How much of a body a client may send before anything asks for it, in bytes.
    pub body_preread_size: u32,
    /// How much content one frame of a response has, in bytes.
    pub chunk_size: usize,
}

/// How bodies of requests are read.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each field is the directive of that name")]
pub struct RequestBodyPolicy {
    /// Bytes; `None` is unlimited.
    pub client_max_body_size: Option<u64>,
    pub client_body_timeout: Duration,
    /// Bytes a second over the whole body, after one `client_body_timeout`; 0 is any rate.
    pub client_body_min_rate: u64,
    pub client_body_buffer_size: usize,
    pub client_body_temp_path: Arc<Path>,
    pub client_body_in_file_only: BodyFile,
}

/// Whether the body of a request is in a file that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFile {
    /// A long one is in a file without a name.
    WhenLong,
    /// It is, until the request has ended.
    UntilTheEnd,
    /// It is, and stays there.
    Forever,
}

/// How long connections are kept.
#[derive(Clone, Debug)]
pub struct KeepalivePolicy {
    /// How long an idle connection is kept; zero keeps none.
    pub timeout: Duration,
    /// The value of a `Keep-Alive` field, in seconds.
    pub announced: Option<u64>,
    /// How many requests a connection may bring.
    pub requests: u64,
    /// How long a connection may live.
    pub time: Duration,
    /// How long a graceful stop leaves an idle connection.
    pub min_timeout: Duration,
    /// Connections of old Internet Explorer close after a POST.
    pub disable_msie6: bool,
    /// Connections of old Safari close.
    pub disable_safari: bool,
}

/// When unread input is drained before a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LingeringClose {
    /// Never.
    Off,
    /// Where the client may still be sending.
    On,
    /// Always.
    Always,
}

/// How connections are closed.
#[derive(Clone, Debug)]
pub struct LingeringPolicy {
    /// When input is drained.
    pub close: LingeringClose,
    /// How long in all.
    pub time: Duration,
    /// How long for the next byte.
    pub timeout: Duration,
    /// Whether a connection that timed out is reset.
    pub reset_timed_out: bool,
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

/// How the server writes the target of its own redirections.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each field is the directive of that name")]
pub struct RedirectPolicy {
    pub absolute_redirect: bool,
    pub server_name_in_redirect: bool,
    pub port_in_redirect: bool,
    pub msie_refresh: bool,
    /// A request for the location's prefix without its last slash is redirected to the location.
    pub to_slash: bool,
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

/// The status that is sent with an error page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorAnswer {
    /// The error's own.
    Original,
    /// Another.
    Fixed(Status),
    /// Whatever the page answers.
    FromTarget,
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
            redirects: RedirectPolicy {
                absolute_redirect: true,
                server_name_in_redirect: false,
                port_in_redirect: true,
                msie_refresh: false,
                to_slash: false,
            },
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

const MINUTE: Duration = Duration::from_secs(60);

impl Default for HeadPolicy {
    fn default() -> HeadPolicy {
        HeadPolicy {
            client_header_timeout: MINUTE,
            proxy_protocol_timeout: None,
            client_header_buffer_size: 1024,
            large_client_header_buffers: (4, 8 * 1024),
            max_headers: 1000,
            ignore_invalid_headers: true,
            underscores_in_headers: false,
            merge_slashes: true,
            strict_line_ends: false,
            preread: None,
        }
    }
}

impl Default for Http2Policy {
    fn default() -> Http2Policy {
        Http2Policy {
            is_enabled: false,
            max_concurrent_streams: 128,
            body_preread_size: 64 * 1024,
            chunk_size: 8 * 1024,
        }
    }
}

impl Default for RequestBodyPolicy {
    fn default() -> RequestBodyPolicy {
        RequestBodyPolicy {
            client_max_body_size: Some(1024 * 1024),
            client_body_timeout: MINUTE,
            client_body_min_rate: 0,
            client_body_buffer_size: 16 * 1024,
            client_body_temp_path: net::temporary::directory().into(),
            client_body_in_file_only: BodyFile::WhenLong,
        }
    }
}

impl Default for KeepalivePolicy {
    fn default() -> KeepalivePolicy {
        KeepalivePolicy {
            timeout: Duration::from_secs(75),
            announced: None,
            requests: 1000,
            time: Duration::from_secs(3600),
            min_timeout: Duration::ZERO,
            disable_msie6: true,
            disable_safari: false,
        }
    }
}

impl Default for LingeringPolicy {
    fn default() -> LingeringPolicy {
        LingeringPolicy {
            close: LingeringClose::On,
            time: Duration::from_secs(30),
            timeout: Duration::from_secs(5),
            reset_timed_out: false,
        }
    }
}

impl Default for SendingPolicy {
    fn default() -> SendingPolicy {
        SendingPolicy {
            send_timeout: MINUTE,
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
