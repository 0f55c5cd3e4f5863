//! How responses are sent: `limit_rate`, `sendfile`, `chunked_transfer_encoding` and so on. The rates are so high
//! that time plays no part.

use tests::differential::{agree, agree_on_mistake};
use tests::site::Site;

#[test]
fn limit_rate() {
    let site = Site::new(
        r#"
        log_format rate "$uri $status $limit_rate $body_bytes_sent";
        map $arg_m $mapped { default 0; fast 3m; slow 2m; bad rubbish; }
        server {
            listen 127.0.0.1:%%PORT%%;
            listen 127.0.0.1:%%PORT_1%%;
            root %%ROOT%%;
            access_log %%LOGS%%/access.log rate;
            add_header X-Rate $limit_rate always;
            limit_rate 1m;
            location /file.txt { }
            location /large.txt { }
            location /after.txt { limit_rate 2m; limit_rate_after 500k; }
            location /off.txt { limit_rate 0; }
            location /mapped.txt { limit_rate $mapped; limit_rate_after $arg_a; }
            location /sendfile.txt { sendfile on; }
            location /return { return 200 "rate $limit_rate\n"; }
            location /set { set $limit_rate $arg_r; return 200 "rate $limit_rate\n"; }
            location /setfile.txt { set $limit_rate 3m; }
            location /if.txt { if ($arg_x) { limit_rate 4m; } if ($arg_y) { set $limit_rate 5m; } }
            location /missing { limit_rate 6m; }
            location /page { limit_rate 6m; error_page 404 /file.txt; }
            location /redirect { return 302 /; }
            location /unchunked { chunked_transfer_encoding off; autoindex on; }
            location /listed/ { autoindex on; autoindex_format json; }
            location /accel { add_header X-Accel-Limit-Rate $arg_r; add_header X-Accel-Redirect $arg_to; return 200 x; }
            location /proxy { proxy_pass http://127.0.0.1:%%PORT_1%%/accel; }
            location /ignores {
                proxy_pass http://127.0.0.1:%%PORT_1%%/accel;
                proxy_ignore_headers X-Accel-Limit-Rate;
            }
            location /large { proxy_pass http://127.0.0.1:%%PORT_1%%/large.txt; limit_rate 9m; }
        }
        "#,
    )
    .file("file.txt", "file\n")
    .file("large.txt", "0123456789".repeat(30_000))
    .file("after.txt", "0123456789".repeat(20_000))
    .file("off.txt", "off\n")
    .file("mapped.txt", "mapped\n")
    .file("sendfile.txt", "0123456789".repeat(20_000))
    .file("setfile.txt", "0123456789".repeat(5_000))
    .file("if.txt", "if\n")
    .file("void.txt", "");
    agree(
        &site,
        &[
            "GET /file.txt",
            "GET /file.txt HTTP/1.0",
            "HEAD /file.txt",
            "GET /file.txt\nRange: bytes=1-2",
            "GET /large.txt",
            "GET /large.txt\nRange: bytes=1-200000",
            "GET /large.txt\nRange: bytes=0-99,1000-1099,-5",
            "HEAD /large.txt",
            "GET /after.txt",
            "GET /off.txt",
            "GET /mapped.txt?m=fast&a=1",
            "GET /mapped.txt?m=slow",
            "GET /mapped.txt?m=bad",
            "GET /mapped.txt",
            "GET /sendfile.txt",
            "GET /return",
            "GET /set?r=40k",
            "GET /set?r=400000",
            "GET /set?r=0",
            "GET /set?r=40g",
            "GET /set?r=",
            "GET /set",
            "GET /setfile.txt",
            "GET /if.txt?x=1",
            "GET /if.txt?y=1",
            "GET /if.txt",
            "GET /missing",
            "GET /page",
            "GET /redirect",
            "GET /void.txt",
            "GET /listed/",
            "GET /proxy?r=5000000",
            "GET /proxy?r=5m",
            "GET /proxy?r=+5",
            "GET /proxy?r=",
            "GET /proxy?r=5000000&to=/file.txt",
            "GET /proxy?to=/mapped.txt",
            "GET /ignores?r=5000000",
            "GET /ignores?r=5000000&to=/large.txt",
            "GET /large",
            "GET /file.txt\n\nGET /off.txt\n\nGET /return",
        ],
    );
}

#[test]
fn files_by_every_way() {
    // No digits: a port may be among them.
    let letter = |number: u32| char::from(b'a' + (number.wrapping_mul(2_654_435_761) >> 24) as u8 % 26);
    let large: String = (0..600_000).map(letter).collect();
    // Files of root's are there for root only.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let site = Site::whole(
        &r#"
        %%USER%%
        daemon off;
        pid %%LOGS%%/pid;
        error_log %%LOGS%%/error.log;
        thread_pool second threads=2 max_queue=10;
        thread_pool default threads=1;
        events { }
        http {
            access_log %%LOGS%%/access.log;
            server {
                listen 127.0.0.1:%%PORT%%;
                root %%ROOT%%;
                location /plain/ { alias %%ROOT%%/; }
                location /sendfile/ { alias %%ROOT%%/; sendfile on; sendfile_max_chunk 10k; }
                location /threads/ { alias %%ROOT%%/; aio threads; output_buffers 1 16k; }
                location /both/ { alias %%ROOT%%/; sendfile on; aio threads=second; read_ahead 1k; }
                location /chosen/ { alias %%ROOT%%/; aio threads=$arg_pool; aio_write on; }
                location /direct/ { alias %%ROOT%%/; directio 100k; directio_alignment 4k; aio threads; }
                location /kernel/ { alias %%ROOT%%/; directio 100k; sendfile on; }
                location /off/ { alias %%ROOT%%/; directio off; aio off; }
                location /unchunked/ { alias %%ROOT%%/; chunked_transfer_encoding off; }
            }
        }
        "#
        .replace("%%USER%%", user),
    )
    .file("large.txt", large)
    .file("small.txt", "small\n")
    .file("void.txt", "");
    let ways = ["plain", "sendfile", "threads", "both", "chosen", "direct", "kernel", "off", "unchunked"];
    let requests: Vec<String> = ways
        .iter()
        .flat_map(|way| {
            let asked = [
                "GET /{}/large.txt?pool=second",
                "GET /{}/small.txt?pool=default",
                "GET /{}/void.txt",
                "HEAD /{}/large.txt",
                "GET /{}/large.txt?pool=default\nRange: bytes=4097-400000",
                "GET /{}/large.txt?pool=default\nRange: bytes=0-0,300000-300010,-7",
                "GET /{}/large.txt?pool=default HTTP/1.0",
            ];
            asked.map(|request| request.replace("{}", way))
        })
        .collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree(&site, &requests);
}

#[test]
fn pools_and_sizes_that_are_none() {
    let whole = |main: &str, location: &str| {
        Site::whole(&format!(
            "{main} events {{ }} http {{ server {{ listen 127.0.0.1:%%PORT%%; {location} }} }}"
        ))
    };
    for wrong in [
        "aio thread;",
        "aio threads=none;",
        "directio x;",
        "directio 1; directio 2;",
        "directio_alignment x;",
    ] {
        agree_on_mistake(&whole("", wrong));
    }
    for wrong in [
        "threads=0",
        "threads=x",
        "max_queue=1",
        "threads=1 max_queue=x",
        "threads=1; thread_pool a threads=1",
    ] {
        agree_on_mistake(&whole(&format!("thread_pool a {wrong};"), ""));
    }
}

#[test]
fn rates_that_are_none() {
    for wrong in ["limit_rate fast;", "limit_rate 1g;", "limit_rate_after -1;", "limit_rate 1; limit_rate 2;"]
    {
        agree_on_mistake(&Site::new(&format!("server {{ listen 127.0.0.1:%%PORT%%; {wrong} }}")));
    }
}
