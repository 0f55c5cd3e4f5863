//! What `-v`, `-V` and `-h` show.

use std::collections::HashSet;

use conf::Contexts;
use contract::Module;

use crate::paths;

/// The nginx whose configuration and behaviour are followed; tools look for this line.
const NGINX_VERSION: &str = "nginx version: nginx/1.31.5 (compatible)";

/// The directive that is there where TLS is.
const TLS: &str = "ssl_certificate";

/// The lines of `-v`.
pub(crate) fn version() -> String {
    format!("fulmar version: fulmar/{}\n{NGINX_VERSION}\n", server::VERSION)
}

/// The lines of `-V`.
pub(crate) fn features(modules: &[&Module]) -> String {
    let has_tls = modules.iter().flat_map(|module| module.directives).any(|d| d.info().name == TLS);
    let built = if has_tls { "built with AWS-LC\nTLS SNI support enabled\n" } else { "" };
    format!("{}{built}configure arguments:{}\n", version(), configure_arguments(modules))
}

/// The lines of `-h`.
pub(crate) fn help() -> String {
    let (conf, prefix, error_log) = (paths::CONF, paths::PREFIX, paths::ERROR_LOG);
    format!(
        "{}\
Usage: fulmar [-?hvVtTq] [-s signal] [-p prefix] [-e file] [-c file] [-g directives]
       fulmar serve [directory] [--listen address] [--port port] [--spa] [--tls | --domain name] [--quiet]
       fulmar proxy --to host:port [--listen address] [--port port] [--tls | --domain name] [--quiet]
       fulmar explain [-c file] [-X method] [-H field] [--json] url
       fulmar lint [-c file] [--deny level] [--allow rule] [--cve] [--json]
       fulmar migrate [--server file] [--log file] [--urls file] [--json | --html file] [file]
       fulmar fmt [--write | --check] file...
       fulmar cache list | stat | purge directory
       fulmar certificates [-c file] [--json]
       fulmar completions bash | zsh | fish

  -?, -h         show this help
  -v             show the version
  -V             show the version and what is built in, in the words of nginx's configure
  -t             test the configuration
  -T             test the configuration and print all of its files
  -q             while testing, print only warnings and errors
  -s signal      send a signal to the running server: stop, quit, reopen, reload
  -p prefix      where relative paths start
                 (default: {prefix}, with -c the directory of its file)
  -e file        error log until the configuration names one, or stderr
                 (default: {error_log})
  -c file        configuration (default: {conf})
  -g directives  directives of the main level, read before the file

  serve          serves a directory without a configuration; see fulmar serve --help
  proxy          passes requests to another server without a configuration; see fulmar proxy --help
  explain        shows how Fulmar would answer a request, and why; see fulmar explain --help
  lint           finds traps in a configuration; see fulmar lint --help
  migrate        compares the installed server with Fulmar; see fulmar migrate --help
  fmt            formats configuration files; see fulmar fmt --help
  cache          lists and removes cached responses; see fulmar cache --help
  certificates   lists automatic certificates; see fulmar certificates --help
  completions    prints a script that completes flags and commands in a shell
",
        version()
    )
}

/// A part that nginx's configure can include or leave out. It is there if its directive is.
struct Part {
    option: &'static str,
    directive: &'static str,
}

const fn part(option: &'static str, directive: &'static str) -> Part {
    Part { option, directive }
}

/// The parts that nginx has unless they are left out.
const DEFAULT: [Part; 48] = [
    part("http_charset_module", "charset"),
    part("http_gzip_module", "gzip"),
    part("http_ssi_module", "ssi"),
    part("http_userid_module", "userid"),
    part("http_access_module", "allow"),
    part("http_auth_basic_module", "auth_basic"),
    part("http_mirror_module", "mirror"),
    part("http_autoindex_module", "autoindex"),
    part("http_geo_module", "geo"),
    part("http_map_module", "map"),
    part("http_split_clients_module", "split_clients"),
    part("http_referer_module", "valid_referers"),
    part("http_rewrite_module", "rewrite"),
    part("http_proxy_module", "proxy_pass"),
    part("http_fastcgi_module", "fastcgi_pass"),
    part("http_uwsgi_module", "uwsgi_pass"),
    part("http_scgi_module", "scgi_pass"),
    part("http_grpc_module", "grpc_pass"),
    part("http_tunnel_module", "tunnel_pass"),
    part("http_memcached_module", "memcached_pass"),
    part("http_limit_conn_module", "limit_conn"),
    part("http_limit_req_module", "limit_req"),
    part("http_empty_gif_module", "empty_gif"),
    part("http_browser_module", "ancient_browser"),
    part("http_upstream_hash_module", "hash"),
    part("http_upstream_ip_hash_module", "ip_hash"),
    part("http_upstream_least_conn_module", "least_conn"),
    part("http_upstream_least_time_module", "least_time"),
    part("http_upstream_random_module", "random"),
    part("http_upstream_keepalive_module", "keepalive"),
    part("http_upstream_zone_module", "zone"),
    part("http_upstream_sticky_module", "sticky"),
    part("http-cache", "proxy_cache"),
    part("mail_pop3_module", "pop3_auth"),
    part("mail_imap_module", "imap_auth"),
    part("stream_limit_conn_module", "limit_conn"),
    part("stream_access_module", "allow"),
    part("stream_geo_module", "geo"),
    part("stream_map_module", "map"),
    part("stream_split_clients_module", "split_clients"),
    part("stream_return_module", "return"),
    part("stream_pass_module", "pass"),
    part("stream_set_module", "set"),
    part("stream_upstream_hash_module", "hash"),
    part("stream_upstream_least_conn_module", "least_conn"),
    part("stream_upstream_least_time_module", "least_time"),
    part("stream_upstream_random_module", "random"),
    part("stream_upstream_zone_module", "zone"),
];

/// The levels of `stream`.
const IN_STREAM: Contexts = Contexts::ALL_STREAM.or(Contexts::STREAM_UPSTREAM);

/// The parts that nginx has only where they were asked for.
const OPTIONAL: [Part; 20] = [
    part("http_ssl_module", "ssl_certificate"),
    part("http_v2_module", "http2"),
    part("http_v3_module", "http3"),
    part("http_realip_module", "set_real_ip_from"),
    part("http_addition_module", "add_before_body"),
    part("http_sub_module", "sub_filter"),
    part("http_dav_module", "dav_methods"),
    part("http_flv_module", "flv"),
    part("http_mp4_module", "mp4"),
    part("http_gunzip_module", "gunzip"),
    part("http_gzip_static_module", "gzip_static"),
    part("http_auth_request_module", "auth_request"),
    part("http_random_index_module", "random_index"),
    part("http_secure_link_module", "secure_link"),
    part("http_slice_module", "slice"),
    part("http_stub_status_module", "stub_status"),
    part("stream", "stream"),
    part("stream_ssl_module", "ssl_certificate"),
    part("stream_realip_module", "set_real_ip_from"),
    part("stream_ssl_preread_module", "ssl_preread"),
];

/// The defaults of paths, then what is there beyond nginx's defaults, then what is missing from them. Test
/// suites and roles read this, so it names nothing else.
fn configure_arguments(modules: &[&Module]) -> String {
    let own = site::STRUCTURE.iter().chain(modules.iter().flat_map(|module| module.directives));
    let names: HashSet<&str> = own.clone().map(|directive| directive.info().name).collect();
    let in_stream = own.clone().filter(|directive| directive.info().contexts.intersects(IN_STREAM));
    let in_stream: HashSet<&str> = in_stream.map(|directive| directive.info().name).collect();
    let is_there = |part: &&Part| match part.option.starts_with("stream_") {
        true => in_stream.contains(part.directive),
        false => names.contains(part.directive),
    };
    let with = OPTIONAL.iter().filter(is_there);
    let without = DEFAULT.iter().filter(|part| !is_there(part));
    let paths = [
        ("prefix", paths::PREFIX),
        ("conf-path", paths::CONF),
        ("error-log-path", paths::ERROR_LOG),
        ("http-log-path", paths::ACCESS_LOG),
        ("pid-path", paths::PID),
    ];
    let paths = paths.iter().map(|(name, path)| format!(" --{name}={path}"));
    // Debug messages are always there to be asked for.
    let debug = [" --with-debug".to_owned()];
    let with = with.map(|part| format!(" --with-{}", part.option));
    let without = without.map(|part| format!(" --without-{}", part.option));
    paths.chain(debug).chain(with).chain(without).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::{AnyDirective, Directive};

    static SLICE: Directive<()> = Directive::new("slice", |_, _| Ok(()));
    static GZIP: Directive<()> = Directive::new("gzip", |_, _| Ok(()));
    static MODULE: Module = Module {
        name: "test",
        directives: &[&SLICE as &dyn AnyDirective, &GZIP],
        variables: &[],
        compile: None,
    };

    #[test]
    fn what_is_there_and_what_is_missing_is_told() {
        let without = features(&[]);
        assert!(without.contains("--without-http_gzip_module") && !without.contains("slice"));
        let with = features(&[&MODULE]);
        assert!(with.contains("--with-http_slice_module"));
        assert!(!with.contains("http_gzip_module"), "{with}");
        assert!(with.contains("--without-http_ssi_module --without-http_userid_module"));
        assert!(with.contains("\nnginx version: nginx/1.31.5 "));
        assert_eq!(with.lines().count(), 3);
        let all = features(modules::ALL);
        assert!(all.contains("\nTLS SNI support enabled\nconfigure arguments: "), "{all}");
        assert!(all.contains("--with-http_ssl_module"));
    }

    #[test]
    fn every_part_is_known_by_a_directive_that_exists() {
        for Part { option, directive } in DEFAULT.iter().chain(&OPTIONAL) {
            assert!(conf::catalogue::entries(directive).next().is_some(), "{option}: {directive}");
        }
    }
}
