//! The table of weaknesses. Versions and references: <https://nginx.org/en/security_advisories.html>.

use conf::Level;

use super::{Version, Weakness, exposed};
use crate::{Check, Rule};

/// A rule: its number, what it is about, why it matters, and the check.
const fn rule(texts: [&'static str; 3], examples: [&'static str; 2], check: Check) -> Rule {
    let ([id, title, why], [bad, good]) = (texts, examples);
    Rule { id, level: Level::Warn, title, why, bad, good, check }
}

const fn v(major: u16, minor: u16, patch: u16) -> Version {
    Version::new(major, minor, patch)
}

pub(super) static ALL: &[Weakness] = &[
    Weakness {
        rule: rule(
            [
                "CVE-2026-42533",
                "a map with patterns after a capture",
                "Memory of a worker is overwritten where a text has a capture such as `$1`, and then the variable of a `map` whose matching pattern changes the captures.",
            ],
            [
                "http { map $uri $m { ~^/(a) b; } server { return 200 \"$1 $m\"; } }",
                "http { map $uri $m { /a b; } server { return 200 \"$1 $m\"; } }",
            ],
            exposed::map_after_capture,
        ),
        vulnerable: &[(v(0, 9, 6), v(1, 31, 2))],
        fixed: &[v(1, 31, 3), v(1, 30, 4)],
        reference: "https://my.f5.com/manage/s/article/K000162097",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2026-60005",
                "captures without names with `slice` or background updates",
                "Requests read memory that was not initialised, which shows memory of the worker or ends it.",
            ],
            ["http { slice 1m; }", "http { slice 0; }"],
            exposed::slice,
        ),
        vulnerable: &[(v(1, 15, 8), v(1, 31, 2))],
        fixed: &[v(1, 31, 3), v(1, 30, 4)],
        reference: "https://my.f5.com/manage/s/article/K000162100",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2026-56434",
                "`ssi` for responses of an upstream server",
                "A response of an upstream server can make a worker use memory that it gave back.",
            ],
            [
                "http { server { location / { ssi on; proxy_pass http://a; } } }",
                "http { server { location / { ssi off; proxy_pass http://a; } } }",
            ],
            exposed::ssi_of_upstream,
        ),
        vulnerable: &[(v(0, 8, 11), v(1, 31, 2))],
        fixed: &[v(1, 31, 3), v(1, 30, 4)],
        reference: "https://my.f5.com/manage/s/article/K000162098",
    },
    Weakness {
        rule: rule(
            ["CVE-2026-42530", "HTTP/3", "A client can make a worker use memory that it gave back."],
            ["http { server { listen 443 quic; } }", "http { server { listen 443 ssl; } }"],
            exposed::quic,
        ),
        vulnerable: &[(v(1, 31, 0), v(1, 31, 1))],
        fixed: &[v(1, 31, 2)],
        reference: "https://my.f5.com/manage/s/article/K000161616",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2026-42055",
                "`ignore_invalid_headers off` with gRPC or HTTP/2 upstream servers",
                "With large values of `large_client_header_buffers`, a request overwrites memory of the worker.",
            ],
            [
                "http { ignore_invalid_headers off; server { location / { grpc_pass a; } } }",
                "http { ignore_invalid_headers on; server { location / { grpc_pass a; } } }",
            ],
            exposed::invalid_headers,
        ),
        vulnerable: &[(v(1, 13, 10), v(1, 31, 1))],
        fixed: &[v(1, 31, 2), v(1, 30, 3)],
        reference: "https://my.f5.com/manage/s/article/K000161584",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2026-48142",
                "`charset_map` and UTF-8",
                "A response that is decoded from UTF-8 shows memory of the worker, or ends it.",
            ],
            [
                "http { charset_map koi8-r utf-8 { 80 E282AC; } }",
                "http { charset_map koi8-r windows-1251 { 80 88; } }",
            ],
            exposed::charset_map,
        ),
        vulnerable: &[(v(0, 3, 50), v(1, 31, 1))],
        fixed: &[v(1, 31, 2), v(1, 30, 3)],
        reference: "https://my.f5.com/manage/s/article/K000161585",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2026-9256",
                "a rewrite with overlapping captures",
                "Where a pattern has a capture within a capture and the replacement uses both, a request overwrites memory of the worker.",
            ],
            [
                "http { server { rewrite ^/((.*))$ /x?a=$1&b=$2 last; } }",
                "http { server { rewrite ^/(.*)/(.*)$ /x?a=$1&b=$2 last; } }",
            ],
            exposed::overlapping_captures,
        ),
        vulnerable: &[(v(0, 1, 17), v(1, 31, 0))],
        fixed: &[v(1, 31, 1), v(1, 30, 2)],
        reference: "https://my.f5.com/manage/s/article/K000161377",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2026-42926",
                "`proxy_set_body` over HTTP/2",
                "A client can put data into the request to the upstream server.",
            ],
            [
                "http { server { location / { proxy_http_version 2; proxy_set_body $arg_a; } } }",
                "http { server { location / { proxy_http_version 1.1; proxy_set_body $arg_a; } } }",
            ],
            exposed::body_over_http2,
        ),
        vulnerable: &[(v(1, 29, 4), v(1, 30, 0))],
        fixed: &[v(1, 31, 0), v(1, 30, 1)],
        reference: "https://my.f5.com/manage/s/article/K000161131",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2026-42945",
                "a rewrite to a query before a numbered capture",
                "After a `rewrite` whose replacement has a question mark, a `set`, `if` or `rewrite` with a capture such as `$1` overwrites memory of the worker.",
            ],
            [
                "http { server { rewrite ^/(.*)$ /x?a last; set $b $1; } }",
                "http { server { rewrite ^/(?<a>.*)$ /x?a last; set $b $a; } }",
            ],
            exposed::query_before_capture,
        ),
        vulnerable: &[(v(0, 6, 27), v(1, 30, 0))],
        fixed: &[v(1, 31, 0), v(1, 30, 1)],
        reference: "https://my.f5.com/manage/s/article/K000161019",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2026-42946",
                "`scgi_pass` or `uwsgi_pass`",
                "A response of an application shows memory of the worker, or ends it.",
            ],
            [
                "http { server { location / { uwsgi_pass a; } } }",
                "http { server { location / { fastcgi_pass a; } } }",
            ],
            exposed::scgi_or_uwsgi,
        ),
        vulnerable: &[(v(0, 8, 42), v(1, 30, 0))],
        fixed: &[v(1, 31, 0), v(1, 30, 1)],
        reference: "https://my.f5.com/manage/s/article/K000161027",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2026-42934",
                "`charset_map` and UTF-8",
                "A response that is decoded from UTF-8 shows memory of the worker, or ends it.",
            ],
            [
                "http { charset_map koi8-r utf-8 { 80 E282AC; } }",
                "http { charset_map koi8-r windows-1251 { 80 88; } }",
            ],
            exposed::charset_map,
        ),
        vulnerable: &[(v(0, 3, 50), v(1, 30, 0))],
        fixed: &[v(1, 31, 0), v(1, 30, 1)],
        reference: "https://my.f5.com/manage/s/article/K000161028",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2026-40460",
                "HTTP/3",
                "A client that changes its address can pretend to have another one.",
            ],
            ["http { server { listen 443 quic; } }", "http { server { listen 443 ssl; } }"],
            exposed::quic,
        ),
        vulnerable: &[(v(1, 25, 0), v(1, 30, 0))],
        fixed: &[v(1, 31, 0), v(1, 30, 1)],
        reference: "https://my.f5.com/manage/s/article/K000161068",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2026-40701",
                "`ssl_ocsp`",
                "The answer of a name server can make a worker use memory that it gave back.",
            ],
            ["http { ssl_ocsp on; }", "http { ssl_ocsp off; }"],
            exposed::ocsp,
        ),
        vulnerable: &[(v(1, 19, 0), v(1, 30, 0))],
        fixed: &[v(1, 31, 0), v(1, 30, 1)],
        reference: "https://my.f5.com/manage/s/article/K000161021",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2026-27654",
                "COPY or MOVE with `alias`",
                "A client can choose a source or a destination outside of the directory.",
            ],
            [
                "http { server { location /a/ { alias /b/; dav_methods PUT MOVE; } } }",
                "http { server { location /a/ { alias /b/; dav_methods PUT; } } }",
            ],
            exposed::copies_below_alias,
        ),
        vulnerable: &[(v(0, 5, 13), v(1, 29, 6))],
        fixed: &[v(1, 29, 7), v(1, 28, 3)],
        reference: "https://my.f5.com/manage/s/article/K000160382",
    },
    Weakness {
        rule: rule(
            ["CVE-2026-27784", "`mp4` on 32-bit systems", "A file of a video can end a worker."],
            ["http { server { location / { mp4; } } }", "http { server { location / { flv; } } }"],
            exposed::mp4,
        ),
        vulnerable: &[(v(1, 1, 19), v(1, 29, 6))],
        fixed: &[v(1, 29, 7), v(1, 28, 3)],
        reference: "https://my.f5.com/manage/s/article/K000160364",
    },
    Weakness {
        rule: rule(
            ["CVE-2026-32647", "`mp4`", "A file of a video can end a worker."],
            ["http { server { location / { mp4; } } }", "http { server { location / { flv; } } }"],
            exposed::mp4,
        ),
        vulnerable: &[(v(1, 1, 19), v(1, 29, 6))],
        fixed: &[v(1, 29, 7), v(1, 28, 3)],
        reference: "https://my.f5.com/manage/s/article/K000160366",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2026-27651",
                "CRAM-MD5 or APOP for mail",
                "Where the authentication server allows another attempt, a client can end a worker.",
            ],
            ["mail { pop3_auth plain apop; }", "mail { pop3_auth plain; }"],
            exposed::challenge_of_mail,
        ),
        vulnerable: &[(v(0, 5, 15), v(1, 29, 6))],
        fixed: &[v(1, 29, 7), v(1, 28, 3)],
        reference: "https://my.f5.com/manage/s/article/K000160383",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2026-28753",
                "host names of mail clients",
                "A name from DNS can put data into requests to the authentication server, and into XCLIENT.",
            ],
            ["mail { resolver 127.0.0.1; auth_http a; }", "mail { resolver off; auth_http a; }"],
            exposed::names_of_mail_clients,
        ),
        vulnerable: &[(v(0, 6, 27), v(1, 29, 6))],
        fixed: &[v(1, 29, 7), v(1, 28, 3)],
        reference: "https://my.f5.com/manage/s/article/K000160367",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2026-28755",
                "`ssl_ocsp` in `stream`",
                "A client whose certificate was revoked is accepted.",
            ],
            ["stream { server { ssl_ocsp on; } }", "http { server { ssl_ocsp on; } }"],
            exposed::ocsp_of_stream,
        ),
        vulnerable: &[(v(1, 27, 2), v(1, 29, 6))],
        fixed: &[v(1, 29, 7), v(1, 28, 3)],
        reference: "https://my.f5.com/manage/s/article/K000160368",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2026-1642",
                "upstream servers with TLS",
                "An attacker between nginx and the upstream server can put data in front of a response.",
            ],
            [
                "http { server { location / { proxy_pass https://a; } } }",
                "http { server { location / { proxy_pass http://a; } } }",
            ],
            exposed::encrypted_upstream,
        ),
        vulnerable: &[(v(1, 3, 0), v(1, 29, 4))],
        fixed: &[v(1, 29, 5), v(1, 28, 2)],
        reference: "https://my.f5.com/manage/s/article/K000159824",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2025-53859",
                "`smtp_auth none`",
                "A login can send memory of the worker to the authentication server.",
            ],
            ["mail { smtp_auth none; }", "mail { smtp_auth plain; }"],
            exposed::mail_without_password,
        ),
        vulnerable: &[(v(0, 7, 22), v(1, 29, 0))],
        fixed: &[v(1, 29, 1)],
        reference: "https://my.f5.com/manage/s/article/K000152786",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2025-23419",
                "certificates of clients",
                "With several servers on one address, a session of one server is accepted by another one, without the check of the certificate.",
            ],
            ["http { ssl_verify_client on; }", "http { ssl_verify_client off; }"],
            exposed::client_certificates,
        ),
        vulnerable: &[(v(1, 11, 4), v(1, 27, 3))],
        fixed: &[v(1, 27, 4), v(1, 26, 3)],
        reference: "https://mailman.nginx.org/pipermail/nginx-announce/2025/NYEUJX7NCBCGJGXDFVXNMAAMJDFSE45G.html",
    },
    Weakness {
        rule: rule(
            ["CVE-2024-7347", "`mp4`", "A file of a video can end a worker."],
            ["http { server { location / { mp4; } } }", "http { server { location / { flv; } } }"],
            exposed::mp4,
        ),
        vulnerable: &[(v(1, 5, 13), v(1, 27, 0))],
        fixed: &[v(1, 27, 1), v(1, 26, 2)],
        reference: "https://mailman.nginx.org/pipermail/nginx-announce/2024/UUOCLLONPR6244YQYU65PO5LB7JDYCWM.html",
    },
    Weakness {
        rule: rule(
            ["CVE-2024-32760", "HTTP/3", "A client can end a worker, or overwrite its memory."],
            ["http { server { listen 443 quic; } }", "http { server { listen 443 ssl; } }"],
            exposed::quic,
        ),
        vulnerable: &[(v(1, 25, 0), v(1, 25, 5)), (v(1, 26, 0), v(1, 26, 0))],
        fixed: &[v(1, 27, 0), v(1, 26, 1)],
        reference: "https://mailman.nginx.org/pipermail/nginx-announce/2024/GMY32CSHFH6VFTN76HJNX7WNEX4RLHF6.html",
    },
    Weakness {
        rule: rule(
            ["CVE-2024-31079", "HTTP/3", "A client can end a worker."],
            ["http { server { listen 443 quic; } }", "http { server { listen 443 ssl; } }"],
            exposed::quic,
        ),
        vulnerable: &[(v(1, 25, 0), v(1, 25, 5)), (v(1, 26, 0), v(1, 26, 0))],
        fixed: &[v(1, 27, 0), v(1, 26, 1)],
        reference: "https://mailman.nginx.org/pipermail/nginx-announce/2024/GMY32CSHFH6VFTN76HJNX7WNEX4RLHF6.html",
    },
    Weakness {
        rule: rule(
            ["CVE-2024-35200", "HTTP/3", "A client can end a worker."],
            ["http { server { listen 443 quic; } }", "http { server { listen 443 ssl; } }"],
            exposed::quic,
        ),
        vulnerable: &[(v(1, 25, 0), v(1, 25, 5)), (v(1, 26, 0), v(1, 26, 0))],
        fixed: &[v(1, 27, 0), v(1, 26, 1)],
        reference: "https://mailman.nginx.org/pipermail/nginx-announce/2024/GMY32CSHFH6VFTN76HJNX7WNEX4RLHF6.html",
    },
    Weakness {
        rule: rule(
            [
                "CVE-2024-34161",
                "HTTP/3",
                "On networks with large packets, a client can see memory of the worker.",
            ],
            ["http { server { listen 443 quic; } }", "http { server { listen 443 ssl; } }"],
            exposed::quic,
        ),
        vulnerable: &[(v(1, 25, 0), v(1, 25, 5)), (v(1, 26, 0), v(1, 26, 0))],
        fixed: &[v(1, 27, 0), v(1, 26, 1)],
        reference: "https://mailman.nginx.org/pipermail/nginx-announce/2024/GMY32CSHFH6VFTN76HJNX7WNEX4RLHF6.html",
    },
    Weakness {
        rule: rule(
            ["CVE-2024-24989", "HTTP/3", "A client can end a worker."],
            ["http { server { listen 443 quic; } }", "http { server { listen 443 ssl; } }"],
            exposed::quic,
        ),
        vulnerable: &[(v(1, 25, 3), v(1, 25, 3))],
        fixed: &[v(1, 25, 4)],
        reference: "https://mailman.nginx.org/pipermail/nginx-announce/2024/NW6MNW34VZ6HDIHH5YFBIJYZJN7FGNAV.html",
    },
    Weakness {
        rule: rule(
            ["CVE-2024-24990", "HTTP/3", "A client can end a worker."],
            ["http { server { listen 443 quic; } }", "http { server { listen 443 ssl; } }"],
            exposed::quic,
        ),
        vulnerable: &[(v(1, 25, 0), v(1, 25, 3))],
        fixed: &[v(1, 25, 4)],
        reference: "https://mailman.nginx.org/pipermail/nginx-announce/2024/NW6MNW34VZ6HDIHH5YFBIJYZJN7FGNAV.html",
    },
];
