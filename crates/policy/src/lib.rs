//! The settings of a scope that the server acts on before and after the handlers of a request: how it reads heads and
//! bodies, keeps and closes connections, and writes redirections. These are plain values with nginx's defaults.

#![forbid(unsafe_code)]

use conf::value::Network;
use http::Status;
use net::Peer;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

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

/// Whether clients are asked for certificates (`ssl_verify_client`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyClient {
    /// No.
    #[default]
    Off,
    /// Each request needs a right one.
    On,
    /// A wrong one is an error, none is not.
    Optional,
    /// As `Optional`, and authorities need not be known.
    OptionalNoCa,
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

/// The clients whose connections are logged in all detail.
#[derive(Clone, Debug, Default)]
pub struct DebuggedClients {
    /// By their addresses.
    pub networks: Vec<Network>,
    /// All that come by a Unix socket.
    pub unix: bool,
}

impl DebuggedClients {
    /// Whether a client is one of them.
    pub fn has(&self, client: &Peer) -> bool {
        match client {
            Peer::Inet(address) => self.networks.iter().any(|network| network.net.contains(&address.ip())),
            Peer::Unix(_) => self.unix,
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

impl Default for RedirectPolicy {
    fn default() -> RedirectPolicy {
        RedirectPolicy {
            absolute_redirect: true,
            server_name_in_redirect: false,
            port_in_redirect: true,
            msie_refresh: false,
            to_slash: false,
        }
    }
}
