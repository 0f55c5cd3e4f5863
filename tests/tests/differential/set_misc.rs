//! Values computed from texts, by set-misc.

use tests::binary::nginx_with;
use tests::differential::agree;
use tests::site::Site;

#[test]
fn values() {
    let Some(nginx) = nginx_with(&["ndk_http_module", "ngx_http_set_misc_module"]) else { return };
    // The set-misc of PyPI's nginx reads beside its values and crashes; that of Debian works.
    let functions = [
        "escape_uri",
        "unescape_uri",
        "quote_json_str",
        "encode_base64",
        "decode_base64",
        "encode_base64url",
        "decode_base64url",
        "encode_hex",
        "decode_hex",
        "md5",
        "sha1",
    ];
    let locations: String = functions
        .iter()
        .map(|name| {
            format!(
                "location /of-text/{name} {{ set_{name} $x $arg_x; return 200 \"<$x>\"; }}
                location /of-itself/{name} {{ set $x \"-$arg_x\"; set_{name} $x; return 200 \"<$x>\"; }}\n"
            )
        })
        .collect();
    let site = Site::new(&format!(
        r#"
        server {{
            listen 127.0.0.1:%%PORT%%;
            server_name localhost;
            error_page 500 @failed;
            {locations}
            location @failed {{ return 500 failed; }}
            location /if_empty {{ set $x $arg_x; set_if_empty $x "other $arg_y"; return 200 "<$x>"; }}
            location /unset {{ if ($arg_set) {{ set $z $arg_set; }} set_if_empty $z none; return 200 "<$z>"; }}
            location /sha1 {{ set_hmac_sha1 $h $arg_key $arg_x; set_encode_base64 $h; return 200 "<$h>"; }}
            location /sha256 {{ set_hmac_sha256 $h $arg_key $arg_x; set_encode_hex $h; return 200 "<$h>"; }}
            location /same {{ set_random $x 7 $arg_to; return 200 "<$x>"; }}
            location /letters {{
                set_secure_random_lcalpha $x $arg_n;
                set_secure_random_alphanum $y $arg_n;
                if ($x ~ ^[a-z]+$) {{ set $kind letters; }}
                set $both $x$y;
                if ($both ~ "^.{{16}}$") {{ set $kind "$kind of the length"; }}
                return 200 "<$kind>";
            }}
            location /order {{
                set $x a;
                set_encode_hex $x;
                if ($x = 61) {{ set_md5 $x; }}
                set_escape_uri $y "$x/";
                return 200 "<$y>";
            }}
            location ~ ^/captured/(?<part>.*) {{ set_escape_uri $x $part; set_escape_uri $y $1; return 200 "<$x|$y>"; }}
        }}
        "#
    ))
    .nginx(nginx);
    let texts = [
        "",
        "a",
        "plain",
        "a%2Fb%3fc",
        "%2561+b",
        "100%25",
        "%",
        "a%zz",
        "!$'()*,-.@_`|~;:<>[]^{}\\\"",
        "%C3%A4%FF",
        "aGVsbG8=",
        "aGVsbG8",
        "-_8",
        "+/8=",
        "====",
        "616263",
        "61626",
        "6x",
        "00ff",
    ];
    let mut requests: Vec<String> = Vec::new();
    for kind in ["of-text", "of-itself"] {
        for name in functions {
            requests.extend(texts.iter().map(|text| format!("GET /{kind}/{name}?x={text}")));
        }
    }
    for path in [
        "if_empty?x=1&y=2",
        "if_empty?y=2",
        "unset",
        "unset?set=1",
        "sha1?key=k&x=message",
        "sha1?key=&x=",
        "sha256?key=k&x=message",
        "same?to=7",
        "same?to=x",
        "letters?n=8",
        "letters?n=0",
        "letters?n=65",
        "letters",
        "order",
        "captured/a/b%2Fc%20d?e",
    ] {
        requests.push(format!("GET /{path}"));
    }
    agree(&site, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}
