//! The features, one file each, and the one ordered list of them.
//!
//! Handlers of a phase and filters of a response run in the order of this list.

#![forbid(unsafe_code)]

pub mod access;
pub mod access_log;
pub mod addition;
pub mod aio;
pub mod auth_basic;
pub mod auth_delay;
pub mod auth_request;
pub mod autoindex;
pub mod brotli;
pub mod charset;
pub mod client;
pub mod coding;
pub mod empty_gif;
pub mod error_log;
pub mod error_page;
pub mod fastcgi;
pub mod fulmar_status;
pub mod geo;
pub mod gunzip;
pub mod gzip;
pub mod gzip_static;
pub mod headers;
pub mod headers_more;
pub mod htaccess;
pub mod index;
pub mod internal;
pub mod keepalive;
pub mod limit_conn;
pub mod limit_rate;
pub mod limit_req;
pub mod lingering;
pub mod map;
pub mod mirror;
pub mod not_modified;
pub mod open_file_cache;
pub mod post_action;
pub mod precompressed;
pub mod process;
pub mod proxy;
pub mod proxy_protocol;
pub mod random_index;
pub mod range;
pub mod real_ip;
pub mod redirects;
pub mod referer;
pub mod rewrite;
pub mod root;
pub mod satisfy;
pub mod secure_link;
pub mod sending;
pub mod server_tokens;
pub mod split_clients;
pub mod ssl;
pub mod static_files;
pub mod stub_status;
pub mod sub_filter;
pub mod symlinks;
#[cfg(test)]
mod testing;
pub mod try_files;
pub mod types;
pub mod upstream;
pub mod variables;
pub mod zstd;

/// What several features share.
mod shared {
    pub(crate) mod addresses;
    pub(crate) mod blocks;
    pub(crate) mod changed;
    pub(crate) mod directories;
    pub(crate) mod files;
    pub(crate) mod forwarded;
    pub(crate) mod gateway;
    pub(crate) mod lru;
    pub(crate) mod media_types;
    pub(crate) mod names;
    pub(crate) mod networks;
    pub(crate) mod scratch;
    pub(crate) mod syslog;
    pub(crate) mod trust;
    pub(crate) mod validators;
    pub(crate) mod zones;
}

use contract::Module;

/// Every feature, in the order in which their handlers and filters run.
pub static ALL: &[&Module] = &[
    &process::MODULE,
    &error_log::MODULE,
    &root::MODULE,
    &types::MODULE,
    &client::MODULE,
    &keepalive::MODULE,
    &lingering::MODULE,
    &sending::MODULE,
    &limit_rate::MODULE,
    &open_file_cache::MODULE,
    &symlinks::MODULE,
    &redirects::MODULE,
    &upstream::MODULE,
    &proxy::MODULE,
    &fastcgi::MODULE,
    &server_tokens::MODULE,
    &ssl::MODULE,
    &variables::MODULE,
    &proxy_protocol::MODULE,
    &real_ip::MODULE,
    &rewrite::MODULE,
    &limit_req::MODULE,
    &limit_conn::MODULE,
    &access::MODULE,
    &auth_basic::MODULE,
    &auth_request::MODULE,
    &auth_delay::MODULE,
    &error_page::MODULE,
    &htaccess::MODULE,
    &try_files::MODULE,
    &mirror::MODULE,
    &empty_gif::MODULE,
    &random_index::MODULE,
    &index::MODULE,
    &autoindex::MODULE,
    &gzip_static::MODULE,
    &precompressed::MODULE,
    &static_files::MODULE,
    &internal::MODULE,
    &post_action::MODULE,
    &satisfy::MODULE,
    &map::MODULE,
    &referer::MODULE,
    &secure_link::MODULE,
    &geo::MODULE,
    &split_clients::MODULE,
    &not_modified::MODULE,
    &headers_more::MODULE,
    &headers::MODULE,
    &gunzip::MODULE,
    &sub_filter::MODULE,
    &charset::MODULE,
    &addition::MODULE,
    &brotli::MODULE,
    &zstd::MODULE,
    &gzip::MODULE,
    &coding::MODULE,
    &range::MODULE,
    &aio::MODULE,
    &stub_status::MODULE,
    &fulmar_status::MODULE,
    &access_log::MODULE,
];

#[cfg(test)]
mod tests {
    use super::ALL;
    use conf::catalogue::Verdict;
    use conf::{Contexts, catalogue};

    /// Directives that nginx does not have.
    const OURS: [&str; 26] = [
        "strict_line_ends",
        "reload_connections",
        "request_memory",
        "client_body_min_rate",
        "send_min_rate",
        "htaccess",
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
    ];

    #[test]
    fn nothing_that_would_act_is_taken_in_silence() {
        // Certificates are read once, so that there is nothing to cache; when a body is read cannot be seen.
        let is_idle = |name: &str| ["proxy_ssl_certificate_cache", "client_body_early_read"].contains(&name);
        let owned: Vec<_> =
            ALL.iter().flat_map(|module| module.directives).map(|known| known.info()).collect();
        let owns = |name: &str, contexts: Contexts| {
            owned.iter().any(|info| info.name == name && info.contexts.intersects(contexts))
        };
        for entry in catalogue::all().iter().filter(|entry| !owns(entry.name, entry.contexts)) {
            if let Verdict::Companion(of) = entry.verdict {
                assert!(!owns(of, entry.contexts) || is_idle(entry.name), "{} beside {of}", entry.name);
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

    #[test]
    fn directives_stand_where_nginx_has_them_and_take_as_many_words() {
        for info in ALL.iter().flat_map(|module| module.directives).map(|directive| directive.info()) {
            if info.contexts == Contexts::HTACCESS {
                continue;
            }
            if OURS.contains(&info.name) {
                assert_eq!(catalogue::entries(info.name).count(), 0, "{} is of nginx, too", info.name);
                continue;
            }
            let entries =
                catalogue::entries(info.name).filter(|entry| entry.contexts.intersects(info.contexts));
            let theirs: Vec<_> = entries.collect();
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
