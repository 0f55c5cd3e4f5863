//! Accepts directives of `.htaccess` files that have no effect here.
//!
//! Most are about how Apache reads files, logs, runs programs, or uses HTTP/2. Three of them deserve a look: programs get
//! the `Authorization` header even with `CGIPassAuth Off` (`RequestHeader unset Authorization` hides it), `H2EarlyHint` adds
//! no hints, and the limits of `RLimit…` have to be set in the service that runs the programs.
//!
//! nginx: none
//!
//! ```file html/a.txt
//! a
//! ```
//!
//! ```file html/.htaccess
//! EnableSendfile Off
//! CGIPassAuth On
//! <IfModule mod_http2.c>
//! H2Push On
//! </IfModule>
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     htaccess on;
//! }
//! ```
//!
//! ```http
//! GET /a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! a
//! ```

use crate::shared::apache::without_effect;
use conf::Arity;
use contract::{Directive, Module};

/// Directives without effect.
pub static MODULE: Module = Module {
    name: "without_effect",
    directives: &[
        &ALIAS_PRESERVE_PATH,
        &AUTHN_CACHE_PROVIDE_FOR,
        &AUTHN_CACHE_TIMEOUT,
        &CGI_PASS_AUTH,
        &INFLATE_BODY,
        &INFLATE_BURST,
        &INFLATE_RATIO,
        &ENABLE_MMAP,
        &ENABLE_SENDFILE,
        &H2_COPY_FILES,
        &H2_EARLY_HINT,
        &H2_PUSH,
        &H2_PUSH_RESOURCE,
        &H2_UPGRADE,
        &LIMIT_XML,
        &LOG_IO,
        &FCGI_BACKEND,
        &REMOVE_INPUT_FILTER,
        &LIMIT_CPU,
        &LIMIT_MEMORY,
        &LIMIT_PROCESSES,
    ],
    variables: &[],
    compile: None,
};

const FILES: &str = "Has no effect: the server's configuration says how files are read.";
const PROGRAMS: &str = "Has no effect: the service that runs the programs has such limits.";
const PUSH: &str = "Has no effect: browsers no longer take pushed responses.";
const BODIES: &str = "Has no effect: bodies of requests are not decompressed.";
const CACHE: &str = "Has no effect: a correct password is always remembered for a short time.";

/// `AliasPreservePath On | Off`
static ALIAS_PRESERVE_PATH: Directive<()> = without_effect(
    "AliasPreservePath",
    Arity::Flag,
    "Has no effect: `.htaccess` files cannot contain `Alias`.",
);
/// `AuthnCacheProvideFor PROVIDER …`
static AUTHN_CACHE_PROVIDE_FOR: Directive<()> =
    without_effect("AuthnCacheProvideFor", Arity::AtLeast(1), CACHE);
/// `AuthnCacheTimeout SECONDS`
static AUTHN_CACHE_TIMEOUT: Directive<()> = without_effect("AuthnCacheTimeout", Arity::Exactly(1), CACHE);
/// `CGIPassAuth On | Off`
static CGI_PASS_AUTH: Directive<()> = without_effect(
    "CGIPassAuth",
    Arity::Flag,
    "Has no effect: programs always get the header `Authorization`.",
);
/// `DeflateInflateLimitRequestBody BYTES`
static INFLATE_BODY: Directive<()> =
    without_effect("DeflateInflateLimitRequestBody", Arity::Exactly(1), BODIES);
/// `DeflateInflateRatioBurst NUMBER`
static INFLATE_BURST: Directive<()> = without_effect("DeflateInflateRatioBurst", Arity::Exactly(1), BODIES);
/// `DeflateInflateRatioLimit NUMBER`
static INFLATE_RATIO: Directive<()> = without_effect("DeflateInflateRatioLimit", Arity::Exactly(1), BODIES);
/// `EnableMMAP On | Off`
static ENABLE_MMAP: Directive<()> = without_effect("EnableMMAP", Arity::Exactly(1), FILES);
/// `EnableSendfile On | Off`
static ENABLE_SENDFILE: Directive<()> = without_effect("EnableSendfile", Arity::Exactly(1), FILES);
/// `H2CopyFiles On | Off`
static H2_COPY_FILES: Directive<()> = without_effect("H2CopyFiles", Arity::Exactly(1), FILES);
/// `H2EarlyHint NAME VALUE`
static H2_EARLY_HINT: Directive<()> = without_effect(
    "H2EarlyHint",
    Arity::Exactly(2),
    "Has no effect: only early hints of the application are passed on.",
);
/// `H2Push On | Off`
static H2_PUSH: Directive<()> = without_effect("H2Push", Arity::Exactly(1), PUSH);
/// `H2PushResource [add] PATH [critical]`
static H2_PUSH_RESOURCE: Directive<()> = without_effect("H2PushResource", Arity::Range(1, 3), PUSH);
/// `H2Upgrade On | Off`
static H2_UPGRADE: Directive<()> = without_effect(
    "H2Upgrade",
    Arity::Exactly(1),
    "Has no effect: the TLS handshake chooses HTTP/2, not the header `Upgrade`.",
);
/// `LimitXMLRequestBody BYTES`
static LIMIT_XML: Directive<()> =
    without_effect("LimitXMLRequestBody", Arity::Exactly(1), "Has no effect: WebDAV is not part of Fulmar.");
/// `LogIOTrackTTFB On | Off`
static LOG_IO: Directive<()> = without_effect(
    "LogIOTrackTTFB",
    Arity::Flag,
    "Has no effect: the server's configuration says what is logged.",
);
/// `ProxyFCGIBackendType FPM | GENERIC`
static FCGI_BACKEND: Directive<()> = without_effect(
    "ProxyFCGIBackendType",
    Arity::Exactly(1),
    "Has no effect: `fastcgi_param` says what programs get.",
);
/// `RemoveInputFilter EXTENSION …`
static REMOVE_INPUT_FILTER: Directive<()> =
    without_effect("RemoveInputFilter", Arity::AtLeast(1), "Has no effect: there are no input filters.");
/// `RLimitCPU SECONDS | max …`
static LIMIT_CPU: Directive<()> = without_effect("RLimitCPU", Arity::Range(1, 2), PROGRAMS);
/// `RLimitMEM BYTES | max …`
static LIMIT_MEMORY: Directive<()> = without_effect("RLimitMEM", Arity::Range(1, 2), PROGRAMS);
/// `RLimitNPROC NUMBER | max …`
static LIMIT_PROCESSES: Directive<()> = without_effect("RLimitNPROC", Arity::Range(1, 2), PROGRAMS);
