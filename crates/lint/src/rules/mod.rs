//! The rules.

mod access;
mod fields;
mod files;
mod limits;
mod patterns;
mod php;
mod proxies;
mod redirects;
mod servers;
mod tls;
mod users;

use crate::Rule;

/// All rules, grouped by topic.
pub(crate) static ALL: &[&Rule] = &[
    &files::ALIAS_TRAVERSAL,
    &files::ALIAS_WITHOUT_SLASH,
    &files::ALIAS_WITHOUT_CAPTURE,
    &files::TRY_FILES_LAST,
    &files::AUTOINDEX_EVERYWHERE,
    &files::ROOT_IN_ONE_LOCATION,
    &files::HIDDEN_FILES,
    &redirects::URI_IN_REDIRECT,
    &redirects::HOST_IN_REDIRECT,
    &redirects::IF_WITH_MORE,
    &redirects::RETURN_BEFORE_ACCESS,
    &fields::URI_IN_FIELD,
    &fields::ADD_HEADER_LOST,
    &fields::PROXY_FIELDS_LOST,
    &fields::TWO_HOSTS,
    &fields::ORIGIN_PATTERN,
    &fields::ALT_SVC_WITHOUT_QUIC,
    &patterns::CATASTROPHIC_PATTERN,
    &patterns::LOOSE_DOT,
    &patterns::SAME_PATTERN,
    &servers::NO_DEFAULT_SERVER,
    &servers::UNDERSCORE_NAME,
    &servers::NO_NAME,
    &servers::MERGE_SLASHES_OFF,
    &servers::SERVER_TOKENS_ON,
    &servers::ERROR_LOG_OFF,
    &proxies::PASS_SLASH,
    &proxies::CACHE_WITHOUT_KEY,
    &proxies::VARIABLE_WITHOUT_RESOLVER,
    &proxies::HOST_PASSED_ON,
    &proxies::ACCEL_NOT_INTERNAL,
    &php::ANY_PATH,
    &php::UNANCHORED_SCRIPT,
    &php::INDEX_WITHOUT_PHP,
    &php::BELOW_ALIAS,
    &php::UNBUFFERED_BODY,
    &access::SATISFY_ANY_ALL,
    &access::REFERER_NONE,
    &access::RULES_AFTER_ALL,
    &access::HTACCESS_NOT_READ,
    &access::PROGRAMS_PASS,
    &users::UNVERIFIED_USER,
    &limits::SPOOFED_KEY,
    &limits::EVERYBODY_TRUSTED,
    &limits::WORKER_FILES,
    &tls::OLD_PROTOCOLS,
    &tls::WEAK_CIPHERS,
    &tls::COMPRESSED_SECRETS,
];
