//! Every variable of nginx 1.31: it is set for some request, it is refused when the configuration is read, or the manual
//! says that it is empty. A variable that loads and is never set would be a trap.

use std::collections::BTreeSet;
use std::time::Duration;
use tests::binary::Server;
use tests::client::Client;
use tests::site::{Running, Site};
use tests::tls::{Authority, Kind, certificate};

/// Variables of requests; one of a family stands for it.
const SET: &str = "
    ancient_browser modern_browser msie
    args arg_a cookie_c is_args query_string request request_body request_body_file request_completion request_id
    request_length request_method request_port is_request_port request_time request_uri uri document_uri
    request_filename document_root realpath_root content_length content_type host remote_user
    http_x_own http_host http_user_agent http_referer http_via http_x_forwarded_for http_cookie
    binary_remote_addr remote_addr remote_port realip_remote_addr realip_remote_port
    proxy_protocol_addr proxy_protocol_port proxy_protocol_server_addr proxy_protocol_server_port
    proxy_protocol_tlv_authority
    server_addr server_port server_name server_protocol scheme https http2
    bytes_sent body_bytes_sent status pipe connection connection_requests connection_time
    sent_http_content_type sent_http_content_length sent_http_location sent_http_last_modified sent_http_connection
    sent_http_keep_alive sent_http_transfer_encoding sent_http_cache_control sent_http_link sent_http_x_own
    sent_trailer_x_t
    limit_rate limit_conn_status limit_req_status
    connections_active connections_reading connections_writing connections_waiting
    nginx_version hostname pid msec time_iso8601 time_local date_local date_gmt
    tcpinfo_rtt tcpinfo_rttvar tcpinfo_snd_cwnd tcpinfo_rcv_space
    fastcgi_script_name fastcgi_path_info
    proxy_host proxy_port proxy_add_x_forwarded_for
    upstream_addr upstream_status upstream_connect_time upstream_header_time upstream_response_time
    upstream_response_length upstream_bytes_received upstream_bytes_sent upstream_cache_status
    upstream_cache_last_modified upstream_cache_etag upstream_http_x_own upstream_trailer_x_t upstream_cookie_c
    gzip_ratio slice_range memcached_key invalid_referer secure_link secure_link_expires uid_got uid_set uid_reset
    ssl_protocol ssl_cipher ssl_ciphers ssl_curve ssl_curves ssl_sigalg ssl_sigalgs ssl_session_id ssl_session_reused
    ssl_server_name ssl_alpn_protocol ssl_client_cert ssl_client_raw_cert ssl_client_escaped_cert ssl_client_s_dn
    ssl_client_i_dn ssl_client_s_dn_legacy ssl_client_i_dn_legacy ssl_client_serial ssl_client_fingerprint
    ssl_client_verify ssl_client_v_start ssl_client_v_end ssl_client_v_remain ssl_client_sigalg
";

/// Set where a client sends its request before the handshake is over: `tests/tls/early_data.rs` asks so.
const ELSEWHERE: &str = "ssl_early_data";

/// Always empty, as the manual says.
const EMPTY: &str = "
    http3 ssl_ech_status ssl_ech_outer_server_name
    grpc_internal_trailers proxy_internal_body_length proxy_internal_chunked
";

/// Refused in `http`. nginx's source names `proxy_add_via`, and does not define it.
const REFUSED: &str = "
    geoip_country_code geoip_country_code3 geoip_country_name geoip_org geoip_city_continent_code
    geoip_city_country_code geoip_city_country_code3 geoip_city_country_name geoip_region geoip_region_name geoip_city
    geoip_postal_code geoip_latitude geoip_longitude geoip_dma_code geoip_area_code
    proxy_add_via
";

/// Variables of connections of `stream`.
const SET_IN_STREAM: &str = "
    limit_conn_status realip_remote_addr realip_remote_port
    ssl_protocol ssl_cipher ssl_ciphers ssl_curve ssl_curves ssl_sigalg ssl_sigalgs ssl_session_id ssl_session_reused
    ssl_server_name ssl_alpn_protocol
    ssl_client_cert ssl_client_raw_cert ssl_client_escaped_cert ssl_client_s_dn ssl_client_i_dn ssl_client_serial
    ssl_client_fingerprint ssl_client_verify ssl_client_v_start ssl_client_v_end ssl_client_v_remain ssl_client_sigalg
    ssl_preread_protocol ssl_preread_server_name ssl_preread_alpn_protocols
    upstream_addr upstream_bytes_sent upstream_connect_time upstream_first_byte_time upstream_session_time
    upstream_bytes_received
    binary_remote_addr remote_addr remote_port proxy_protocol_addr proxy_protocol_port proxy_protocol_server_addr
    proxy_protocol_server_port proxy_protocol_tlv_authority server_addr server_port server_name
    bytes_sent bytes_received session_time status connection nginx_version hostname pid msec time_iso8601 time_local
    protocol
";

const REFUSED_IN_STREAM: &str = "
    geoip_country_code geoip_country_code3 geoip_country_name geoip_org geoip_city_continent_code
    geoip_city_country_code geoip_city_country_code3 geoip_city_country_name geoip_region geoip_region_name geoip_city
    geoip_postal_code geoip_latitude geoip_longitude geoip_dma_code geoip_area_code
    ssl_ech_status ssl_ech_outer_server_name
";

fn names(table: &str) -> impl Iterator<Item = &str> {
    table.split_whitespace()
}

/// The words of a log format with all of these.
fn format(table: &str) -> String {
    names(table).map(|name| format!("'{name}=<${name}> ' ")).collect()
}

/// Those that no line of a log has a value of.
fn never_set<'t>(log: &str, table: &'t str) -> BTreeSet<&'t str> {
    let is_set = |name: &&str| {
        log.lines().any(|line| {
            let value = line.split_once(&format!(" {name}=<")).and_then(|(_, rest)| rest.split_once("> "));
            value.is_some_and(|(value, _)| !matches!(value, "" | "-"))
        })
    };
    names(table).filter(|name| !is_set(name)).collect()
}

const HTTP: &str = r#"
    uninitialized_variable_warn off;
    access_log %%LOGS%%/all.log all;
    proxy_cache_path %%DIR%%/kept keys_zone=kept:1m;
    limit_req_zone $binary_remote_addr zone=requests:1m rate=1000r/s;
    limit_conn_zone $binary_remote_addr zone=clients:1m;
    server {
        listen 127.0.0.1:%%PORT%% proxy_protocol;
        server_name variables.example;
        root %%ROOT%%;
        set_real_ip_from 127.0.0.1;
        real_ip_header proxy_protocol;
        keepalive_timeout 60 60;
        limit_rate 10m;
        limit_req zone=requests burst=100;
        limit_conn clients 100;
        modern_browser gecko 1.0;
        userid on;
        set $uid_reset log;
        set $memcached_key key;
        valid_referers server_names;
        secure_link $arg_md5,$arg_e;
        secure_link_md5 "$secure_link_expires x";
        add_trailer X-T trailer;
        location / { }
        location /moved { return 302 /there; }
        location /in/ {
            proxy_pass http://127.0.0.1:%%PORT_1%%/;
            proxy_pass_trailers on;
            proxy_set_header TE trailers;
            proxy_set_header Connection te;
        }
        location /on-disk/ { client_body_in_file_only clean; proxy_pass http://127.0.0.1:%%PORT_1%%/; }
        location /kept/ {
            proxy_pass http://127.0.0.1:%%PORT_1%%/;
            proxy_ignore_headers Cache-Control Set-Cookie;
            proxy_cache kept;
            proxy_cache_valid 200 206 1h;
            slice 1m;
            proxy_cache_key $uri$slice_range;
            proxy_set_header Range $slice_range;
        }
        location /expires/ {
            proxy_pass http://127.0.0.1:%%PORT_1%%/;
            proxy_ignore_headers Cache-Control Set-Cookie;
            proxy_cache kept;
            proxy_cache_key $uri;
            proxy_cache_valid 200 1s;
            proxy_cache_revalidate on;
            proxy_set_header If-None-Match "";
            proxy_set_header If-Modified-Since "";
        }
        location ~ \.php { fastcgi_split_path_info ^(.+\.php)(/.*)$; return 200 $fastcgi_script_name; }
        location /packed { gzip on; gzip_types *; gzip_min_length 1; try_files /file =404; }
        location /tls/ {
            proxy_ssl_certificate %%DIR%%/client.pem;
            proxy_ssl_certificate_key %%DIR%%/client.key;
            proxy_ssl_server_name on;
            proxy_ssl_name a.example;
            location /tls/2/ { proxy_pass https://127.0.0.1:%%PORT_2%%/; proxy_http_version 2; }
            location /tls/1/ { proxy_pass https://127.0.0.1:%%PORT_2%%/; proxy_ssl_protocols TLSv1.2; }
            location /tls/stream/ { proxy_pass http://127.0.0.1:%%PORT_5%%/; }
        }
    }
    server {
        listen 127.0.0.1:%%PORT_1%%;
        root %%ROOT%%;
        add_header Link "</a>; rel=preload";
        add_header Cache-Control "max-age=60";
        add_header X-Own own;
        add_header Set-Cookie c=d;
        location / { error_page 405 =200 /file; }
        location /trailers { add_trailer X-T trailer; try_files /file =404; }
    }
    server {
        listen 127.0.0.1:%%PORT_2%% ssl;
        http2 on;
        ssl_certificate %%DIR%%/a.pem;
        ssl_certificate_key %%DIR%%/a.key;
        ssl_client_certificate %%DIR%%/authority.pem;
        ssl_verify_client on;
        ssl_session_cache shared:sessions:1m;
        return 200 fine;
    }
"#;

const STREAM: &str = r"
    access_log %%LOGS%%/stream.log all;
    limit_conn_zone $binary_remote_addr zone=connections:1m;
    limit_conn connections 100;
    server {
        listen 127.0.0.1:%%PORT_3%% proxy_protocol;
        server_name variables.example;
        set_real_ip_from 127.0.0.1;
        proxy_pass 127.0.0.1:%%PORT_1%%;
    }
    server {
        listen 127.0.0.1:%%PORT_4%% ssl;
        ssl_certificate %%DIR%%/a.pem;
        ssl_certificate_key %%DIR%%/a.key;
        ssl_session_cache shared:of_stream:1m;
        ssl_client_certificate %%DIR%%/authority.pem;
        ssl_verify_client on;
        ssl_alpn a;
        proxy_pass 127.0.0.1:%%PORT_1%%;
    }
    server {
        listen 127.0.0.1:%%PORT_5%%;
        proxy_ssl on;
        proxy_ssl_alpn a;
        proxy_ssl_certificate %%DIR%%/client.pem;
        proxy_ssl_certificate_key %%DIR%%/client.key;
        proxy_ssl_server_name on;
        proxy_ssl_name a.example;
        proxy_ssl_protocols TLSv1.2;
        proxy_pass 127.0.0.1:%%PORT_6%%;
    }
    server {
        listen 127.0.0.1:%%PORT_6%%;
        ssl_preread on;
        proxy_pass 127.0.0.1:%%PORT_4%%;
    }
";

fn site() -> Site {
    let authority = Authority::new("variables authority");
    let shown = authority.certificate("client.example", 7);
    let own = certificate("a.example", Kind::Ecdsa);
    Site::whole(&format!(
        "daemon off; user root; worker_processes 1; pid %%LOGS%%/pid; error_log %%LOGS%%/error.log info;
         events {{ worker_connections 512; }}
         http {{ log_format all ' ' {}; {HTTP} }}
         stream {{ log_format all ' ' {}; {STREAM} }}",
        format(&[SET, ELSEWHERE, EMPTY].join(" ")),
        format(SET_IN_STREAM)
    ))
    .file("file", "text ".repeat(200))
    .in_prefix("a.pem", own.pem)
    .in_prefix("a.key", own.key)
    .in_prefix("client.pem", shown.pem)
    .in_prefix("client.key", shown.key)
    .in_prefix("authority.pem", &authority.pem)
}

/// A header of the PROXY protocol with the name of a host.
const PROXY: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x18\xc0\0\x02\x01\xc6\x33\x64\x02\0\x7b\x16\x2e\x02\0\x09a.example";

const LAST: &str = "GET /expires/file?again";

const REQUESTS: [&str; 15] = [
    "GET /expires/file",
    "POST /in/trailers?a=1\nHost: variables.example:81\nX-Own: own\nUser-Agent: me\nReferer: http://other.example/\n\
     Via: 1.1 other\nX-Forwarded-For: 192.0.2.9\nCookie: c=d\nAuthorization: Basic dTpw\nContent-Type: text/x\n\nbody",
    "GET /in/trailers",
    "GET /in/file",
    "POST /on-disk/file\n\nbody",
    "GET /kept/file",
    "GET /kept/file",
    "GET /file?md5=eV6X2Z2WrqBtUJmMqrpIXA&e=1\nCookie: uid=fwAAAWVlZWVlZWVlAwMEAg==",
    "GET /moved\nUser-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)",
    "GET /x.php/info\nUser-Agent: Mozilla/5.0 (X11; rv:1.9) Gecko/20100101 Firefox/99.0",
    "GET /packed\nAccept-Encoding: gzip",
    "GET /tls/2/",
    "GET /tls/1/",
    "GET /tls/stream/file",
    LAST,
];

fn ask_all(running: &Running) {
    // The kept response expires while the other requests are sent, or in the pause before the last one.
    let all = REQUESTS.iter().map(|request| (0, *request)).chain([(3, "GET /file")]);
    for (port, request) in all {
        if request == LAST {
            tests::wait::pause(Duration::from_millis(2500));
        }
        let mut client = Client::connect(running.address_of(port));
        client.send(&[PROXY, &tests::request::expand(request)].concat());
        assert!(client.response("GET").is_some(), "{request}: {}", running.all_logs());
    }
}

#[test]
fn every_variable_that_loads_is_set_or_documented_as_empty() {
    let site = site();
    let running = site.start(Server::Fulmar);
    ask_all(&running);
    let [http, stream, errors] =
        running.stop_and(|running| ["all.log", "stream.log", "error.log"].map(|name| running.log(name)));
    assert_eq!(never_set(&http, SET), BTreeSet::new(), "{http}\n{errors}");
    assert_eq!(never_set(&http, EMPTY), names(EMPTY).collect(), "{http}");
    assert_eq!(never_set(&stream, SET_IN_STREAM), BTreeSet::new(), "{stream}\n{errors}");
    let manual =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/differences.md")).unwrap();
    for name in names(EMPTY) {
        assert!(manual.contains(&format!("`${name}`")), "{name} is not in the manual");
    }
}

#[test]
fn what_cannot_be_set_is_refused() {
    for name in names(REFUSED) {
        let site = Site::new(&format!("server {{ listen 127.0.0.1:%%PORT%%; return 200 ${name}; }}"));
        let told = site.test(Server::Fulmar).unwrap_err();
        assert!(told.contains(&format!("\"{name}\"")), "{name}: {told}");
    }
    for name in names(REFUSED_IN_STREAM) {
        let site = Site::whole(&format!(
            "pid %%LOGS%%/pid; error_log %%LOGS%%/error.log; events {{ }}
             stream {{ server {{ listen 127.0.0.1:%%PORT%%; return ${name}; }} }}"
        ));
        let told = site.test(Server::Fulmar).unwrap_err();
        assert!(told.contains(&format!("\"{name}\"")), "{name}: {told}");
    }
}
