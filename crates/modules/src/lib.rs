//! The features, one file each, and the one ordered list of them.
//!
//! Handlers of a phase and filters of a response run in the order of this list.

#![forbid(unsafe_code)]

#[cfg(test)]
mod testing;

/// Apache's `.htaccess` files, a file for each module of Apache.
pub mod apache {
    pub mod apache_core;
    pub mod htaccess;
    pub mod httpd;
    pub mod mod_access_compat;
    pub mod mod_actions;
    pub mod mod_alias;
    pub mod mod_auth_basic;
    pub mod mod_auth_digest;
    pub mod mod_authn_anon;
    pub mod mod_authz_core;
    pub mod mod_autoindex;
    pub mod mod_dir;
    pub mod mod_env;
    pub mod mod_expires;
    pub mod mod_filter;
    pub mod mod_headers;
    pub mod mod_include;
    pub mod mod_mime;
    pub mod mod_negotiation;
    pub mod mod_php;
    pub mod mod_ratelimit;
    pub mod mod_rewrite;
    pub mod mod_setenvif;
    pub mod mod_speling;
    pub mod mod_ssl;
    pub mod mod_substitute;
    pub mod mod_version;
    pub mod without_effect;
}

/// Access rules.
pub mod authorization {
    pub mod access;
    pub mod auth_basic;
    pub mod auth_delay;
    pub mod auth_request;
    pub mod referer;
    pub mod satisfy;
    pub mod secure_link;
}

/// The process, its connections, and TLS.
pub mod connection {
    pub mod acme;
    pub mod client;
    pub mod early_body;
    pub mod http2;
    pub mod keepalive;
    pub mod lingering;
    pub mod process;
    pub mod proxy_protocol;
    pub mod real_ip;
    pub mod sending;
    pub mod server_tokens;
    pub mod ssl;
}

/// Where files are, and how they are sent.
pub mod files {
    pub mod aio;
    pub mod autoindex;
    pub mod dav;
    pub mod empty_gif;
    pub mod flv;
    pub mod gzip_static;
    pub mod index;
    pub mod mp4;
    pub mod open_file_cache;
    pub mod precompressed;
    pub mod random_index;
    pub mod root;
    pub mod static_files;
    pub mod symlinks;
    pub mod try_files;
    pub mod types;
}

/// Servers that Fulmar passes requests on to.
pub mod gateway {
    pub mod cache_api;
    pub mod early_hints;
    pub mod fastcgi;
    pub mod grpc;
    pub mod memcached;
    pub mod mirror;
    pub mod proxy;
    pub mod resolver;
    pub mod scgi;
    pub mod tunnel;
    pub mod upstream;
    pub mod upstream_deny;
    pub mod uwsgi;

    /// What several of these features need, and `stream_proxy`.
    pub(crate) mod shared {
        pub(crate) mod cgi;
    }
}

/// How much and how often.
pub mod limits {
    pub mod limit_conn;
    pub mod limit_rate;
    pub mod limit_req;
}

/// Logs and pages that tell how the server does.
pub mod logging {
    pub mod access_log;
    pub mod error_log;
    pub mod fulmar_status;
    pub mod stub_status;
}

/// Which URI is served.
pub mod rewriting {
    pub mod error_page;
    pub mod internal;
    pub mod post_action;
    pub mod redirects;
    pub mod rewrite;
    pub mod set_misc;
}

/// Connections that are not HTTP.
pub mod stream {
    pub mod ssl_preread;
    pub mod stream_core;
    pub mod stream_pass;
    pub mod stream_proxy;
    pub mod stream_return;
    pub mod stream_udp;
}

/// What happens to a response on its way out.
pub mod transform {
    pub mod addition;
    pub mod brotli;
    pub mod cache_status;
    pub mod charset;
    pub mod coding;
    pub mod gunzip;
    pub mod gzip;
    pub mod headers;
    pub mod headers_more;
    pub mod not_modified;
    pub mod range;
    pub mod slice;
    pub mod ssi;
    pub mod sub_filter;
    pub mod zstd;
}

/// Variables.
pub mod values {
    pub mod browser;
    pub mod geo;
    pub mod geoip2;
    pub mod map;
    pub mod split_clients;
    pub mod userid;
    pub mod variables;
}

/// What several features share.
mod shared {
    pub(crate) mod addresses;
    pub(crate) mod alpn;
    pub(crate) mod apache;
    pub(crate) mod blocks;
    pub(crate) mod bounded;
    pub(crate) mod cached;
    pub(crate) mod changed;
    pub(crate) mod compression;
    pub(crate) mod connected;
    pub(crate) mod connection_fields;
    pub(crate) mod cookies;
    pub(crate) mod datagrams;
    pub(crate) mod directories;
    pub(crate) mod dynamic;
    pub(crate) mod eventually;
    pub(crate) mod files;
    pub(crate) mod forwarded;
    pub(crate) mod gateway;
    pub(crate) mod host;
    pub(crate) mod issued;
    pub(crate) mod lru;
    pub(crate) mod media_types;
    pub(crate) mod names;
    pub(crate) mod networks;
    pub(crate) mod per_directory;
    pub(crate) mod placing;
    pub(crate) mod proxy_header;
    pub(crate) mod scratch;
    pub(crate) mod secured;
    pub(crate) mod slices;
    pub(crate) mod store;
    pub(crate) mod syslog;
    pub(crate) mod trust;
    pub(crate) mod validators;
    pub(crate) mod walk;
    pub(crate) mod whole;
    pub(crate) mod zones;
}

use contract::Module;

/// Every feature, in the order in which their handlers and filters run.
pub static ALL: &[&Module] = &[
    // Settings, and what prepares a request. `open_file_cache` and `symlinks` come before all that look for a file.
    &connection::process::MODULE,
    &logging::error_log::MODULE,
    &files::root::MODULE,
    &files::types::MODULE,
    &connection::client::MODULE,
    &connection::http2::MODULE,
    &connection::keepalive::MODULE,
    &connection::lingering::MODULE,
    &connection::sending::MODULE,
    &limits::limit_rate::MODULE,
    &files::open_file_cache::MODULE,
    &files::symlinks::MODULE,
    &rewriting::redirects::MODULE,
    &gateway::resolver::MODULE,
    &gateway::upstream::MODULE,
    &gateway::upstream_deny::MODULE,
    &gateway::proxy::MODULE,
    &gateway::grpc::MODULE,
    &gateway::early_hints::MODULE,
    &gateway::fastcgi::MODULE,
    &gateway::scgi::MODULE,
    &gateway::uwsgi::MODULE,
    &gateway::memcached::MODULE,
    &connection::server_tokens::MODULE,
    &connection::ssl::MODULE,
    // Replaces `auto` and variables by certificates, and answers authorities before `rewrite` redirects them.
    &connection::acme::MODULE,
    &values::variables::MODULE,
    &connection::proxy_protocol::MODULE,
    &connection::early_body::MODULE,
    // `real_ip` comes first: rules and limits use the address that it finds. Limits stand in the order of nginx.
    &connection::real_ip::MODULE,
    &rewriting::rewrite::MODULE,
    &rewriting::set_misc::MODULE,
    &limits::limit_req::MODULE,
    &limits::limit_conn::MODULE,
    // Access rules, the cheapest check first.
    &authorization::access::MODULE,
    &authorization::auth_basic::MODULE,
    &authorization::auth_request::MODULE,
    &authorization::auth_delay::MODULE,
    // After those rules: without any of them a tunnel is closed.
    &gateway::tunnel::MODULE,
    &rewriting::error_page::MODULE,
    // `.htaccess` files are read after the limits, which may refuse a request without reading a file.
    &apache::htaccess::MODULE,
    &apache::httpd::MODULE,
    // Directives of `.htaccess` files, in the order in which Apache calls its modules.
    &apache::mod_version::MODULE,
    &apache::without_effect::MODULE,
    &apache::mod_setenvif::MODULE,
    &apache::mod_ssl::MODULE,
    &apache::mod_access_compat::MODULE,
    &apache::mod_auth_basic::MODULE,
    &apache::mod_auth_digest::MODULE,
    &apache::mod_authn_anon::MODULE,
    &apache::mod_authz_core::MODULE,
    &apache::mod_negotiation::MODULE,
    &apache::mod_rewrite::MODULE,
    &apache::mod_speling::MODULE,
    &apache::mod_alias::MODULE,
    &apache::mod_env::MODULE,
    &apache::mod_php::MODULE,
    &apache::mod_dir::MODULE,
    &apache::mod_actions::MODULE,
    &apache::mod_mime::MODULE,
    &apache::mod_filter::MODULE,
    &apache::apache_core::MODULE,
    &apache::mod_expires::MODULE,
    &apache::mod_headers::MODULE,
    &files::try_files::MODULE,
    &gateway::mirror::MODULE,
    // The content: the first that has an answer wins. An index comes before a listing, a compressed file before a plain one.
    &files::empty_gif::MODULE,
    &files::dav::MODULE,
    &files::flv::MODULE,
    &files::mp4::MODULE,
    &files::random_index::MODULE,
    &files::index::MODULE,
    &files::autoindex::MODULE,
    &apache::mod_autoindex::MODULE,
    &files::gzip_static::MODULE,
    &files::precompressed::MODULE,
    &files::static_files::MODULE,
    // Settings and variables, whose order does not matter.
    &rewriting::internal::MODULE,
    &rewriting::post_action::MODULE,
    &authorization::satisfy::MODULE,
    &values::map::MODULE,
    &authorization::referer::MODULE,
    &authorization::secure_link::MODULE,
    &values::geo::MODULE,
    &values::geoip2::MODULE,
    &values::split_clients::MODULE,
    &values::browser::MODULE,
    // Filters of the response. What changes the head comes first, and before that what makes one response of several. Then the body is decompressed, changed, compressed, and
    // cut into ranges.
    &transform::slice::MODULE,
    &transform::not_modified::MODULE,
    &transform::cache_status::MODULE,
    &transform::headers_more::MODULE,
    &transform::headers::MODULE,
    &values::userid::MODULE,
    &transform::gunzip::MODULE,
    &transform::sub_filter::MODULE,
    &transform::charset::MODULE,
    &transform::addition::MODULE,
    &transform::ssi::MODULE,
    &apache::mod_include::MODULE,
    &apache::mod_substitute::MODULE,
    &apache::mod_ratelimit::MODULE,
    &transform::brotli::MODULE,
    &transform::zstd::MODULE,
    &transform::gzip::MODULE,
    &transform::coding::MODULE,
    &transform::range::MODULE,
    &files::aio::MODULE,
    // Connections of `stream`.
    &stream::stream_core::MODULE,
    &stream::ssl_preread::MODULE,
    &stream::stream_pass::MODULE,
    &stream::stream_proxy::MODULE,
    &stream::stream_return::MODULE,
    &stream::stream_udp::MODULE,
    // Pages about the server, and the log.
    &logging::stub_status::MODULE,
    &logging::fulmar_status::MODULE,
    &gateway::cache_api::MODULE,
    &logging::access_log::MODULE,
];

#[cfg(test)]
mod tests {
    use super::ALL;
    use conf::apache::Classes;
    use conf::catalogue::Verdict;
    use conf::{Contexts, catalogue};

    /// Directives that nginx has in `stream` only.
    const OURS_IN_HTTP: [&str; 1] = ["proxy_protocol"];

    /// Directives that nginx does not have.
    const OURS: [&str; 53] = [
        // Those of nginx's module for ACME, which is not a part of nginx.
        "acme_issuer",
        "acme_certificate",
        "acme_shared_zone",
        "cache_api",
        "cache_status",
        "proxy_cache_purge",
        "fastcgi_cache_purge",
        "scgi_cache_purge",
        "uwsgi_cache_purge",
        "proxy_cache_rules",
        "fastcgi_cache_rules",
        "scgi_cache_rules",
        "uwsgi_cache_rules",
        "proxy_cache_heuristic",
        "fastcgi_cache_heuristic",
        "scgi_cache_heuristic",
        "uwsgi_cache_heuristic",
        "strict_line_ends",
        "upstream_deny",
        "preread_kind",
        "reload_connections",
        "request_memory",
        "client_body_min_rate",
        "send_min_rate",
        "htaccess",
        "htaccess_user_files",
        "ssl_certificate_watch",
        "htaccess_php",
        "htaccess_override",
        "htaccess_override_list",
        "htaccess_file",
        "htaccess_share",
        "fulmar_status",
        "symlinks",
        "more_set_headers",
        "more_clear_headers",
        "more_set_input_headers",
        "more_clear_input_headers",
        "brotli",
        "brotli_types",
        "brotli_comp_level",
        "brotli_min_length",
        "brotli_window",
        "brotli_buffers",
        "brotli_static",
        "zstd",
        "zstd_types",
        "zstd_comp_level",
        "zstd_min_length",
        "zstd_buffers",
        "zstd_dict_file",
        "zstd_static",
        "proxy_amplification",
    ];

    #[test]
    fn nothing_that_would_act_is_taken_in_silence() {
        let owned: Vec<_> =
            ALL.iter().flat_map(|module| module.directives).map(|known| known.info()).collect();
        let owns = |name: &str, contexts: Contexts| {
            owned.iter().any(|info| info.name == name && info.contexts.intersects(contexts))
        };
        for entry in catalogue::all().iter().filter(|entry| !owns(entry.name, entry.contexts)) {
            if let Verdict::Companion(of) = entry.verdict {
                assert!(!owns(of, entry.contexts), "{} beside {of}", entry.name);
            }
        }
    }

    #[test]
    fn directives_of_one_slot_are_inherited_alike() {
        let infos: Vec<_> =
            ALL.iter().flat_map(|module| module.directives).map(|known| known.info()).collect();
        for (index, info) in infos.iter().enumerate() {
            let same_slot = infos[..index].iter().filter(|other| other.slot == info.slot);
            let different: Vec<_> =
                same_slot.filter(|other| other.rule != info.rule).map(|other| other.name).collect();
            assert_eq!(different, [""; 0], "beside {}", info.name);
        }
    }

    /// A test beside Apache compares the classes with its own.
    #[test]
    fn directives_of_htaccess_files_have_classes() {
        let infos = ALL.iter().flat_map(|module| module.directives).map(|directive| directive.info());
        for info in infos.filter(|info| info.contexts.intersects(Contexts::HTACCESS)) {
            let classes = conf::apache::classes_of(info.name);
            assert!(classes.is_some_and(|classes| classes.intersects(Classes::ALL)), "{}", info.name);
        }
    }

    #[test]
    fn directives_stand_where_nginx_has_them_and_take_as_many_words() {
        for info in ALL.iter().flat_map(|module| module.directives).map(|directive| directive.info()) {
            if info.contexts.intersects(Contexts::ALL_APACHE) {
                continue;
            }
            let of_others = [&crate::rewriting::set_misc::MODULE, &crate::values::geoip2::MODULE];
            let mut of_others = of_others.iter().flat_map(|module| module.directives);
            let is_of_others = of_others.any(|directive| directive.info().name == info.name);
            if is_of_others || OURS.contains(&info.name) {
                assert_eq!(catalogue::entries(info.name).count(), 0, "{} is of nginx, too", info.name);
                continue;
            }
            let entries =
                catalogue::entries(info.name).filter(|entry| entry.contexts.intersects(info.contexts));
            let theirs: Vec<_> = entries.collect();
            if theirs.is_empty() && OURS_IN_HTTP.contains(&info.name) {
                continue;
            }
            let contexts = theirs.iter().fold(Contexts::EMPTY, |all, entry| all.or(entry.contexts));
            assert_eq!(info.contexts, contexts, "contexts of {}", info.name);
            for entry in theirs {
                let counts = |shape: conf::Shape| (0..10).filter(move |count| shape.arity.admits(*count));
                let (own, their) = (counts(info.shape), counts(entry.shape));
                assert!(own.eq(their), "{}: {:?}, nginx {:?}", info.name, info.shape, entry.shape);
                assert_eq!(info.shape.block, entry.shape.block, "block of {}", info.name);
            }
        }
    }
}
