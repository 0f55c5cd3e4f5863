//! Odd heads of answers: whatever nginx makes of them is right.

use std::io::Write;

use tests::application::{Application, answer, end, record, stderr, stdout};
use tests::differential::agree;
use tests::site::Site;

/// Heads with what follows.
const ODD: [&str; 34] = [
    "\r\nno head at all",
    "\nonly a line feed",
    "Content-Type: text/plain\n\nline feeds",
    "Content-Type: text/plain\r\nContent-Type: text/html\r\n\r\ntwice",
    "content-TYPE: Text/Plain; charset=x\r\n\r\nx",
    "Status: 404\r\n\r\nx",
    "Status: 404 Gone Fishing\r\nContent-Type: a/b\r\n\r\nx",
    "Status: 299 Odd\r\n\r\nx",
    "Status: 999 Odder\r\n\r\nx",
    "Status: 204 None\r\n\r\n",
    "Status: 304 Same\r\nETag: \"x\"\r\n\r\n",
    "Location: http://localhost/there\r\n\r\n",
    "Location: /local\r\n\r\n",
    "Location: relative\r\n\r\n",
    "Location: /one\r\nLocation: /two\r\n\r\n",
    "Status: 201 Made\r\nLocation: /made\r\n\r\nx",
    "Status: 200 OK\r\nLocation: /stays\r\n\r\nx",
    "Status: 307 Over\r\nLocation: /there\r\n\r\n",
    "X-Empty:\r\nX-Blank:   \r\nX-Two: a\r\nx-two: b\r\n\r\nx",
    "Set-Cookie: a=b\r\nSet-Cookie: c=d; Path=/\r\n\r\nx",
    "Date: Tue, 02 Jan 2024 03:04:05 GMT\r\nServer: mine\r\nX-Powered-By: tests\r\n\r\nx",
    "Last-Modified: Tue, 02 Jan 2024 03:04:05 GMT\r\nETag: \"x\"\r\n\r\nx",
    "Expires: 0\r\nCache-Control: no-store\r\nPragma: no-cache\r\n\r\nx",
    "Content-Length: 3\r\n\r\nabc",
    "Content-Length: 0\r\n\r\n",
    "Connection: close\r\nKeep-Alive: 1\r\nUpgrade: x\r\n\r\nx",
    "X-Accel-Redirect: /local\r\n\r\nnever",
    "X-Accel-Redirect:\r\n\r\nnever",
    "X-Accel-Redirect: /../etc/passwd\r\n\r\nnever",
    "X-Accel-Expires: 5\r\nX-Accel-Buffering: no\r\nX-Accel-Charset: x\r\n\r\nx",
    "WWW-Authenticate: Basic realm=\"a\"\r\nStatus: 401 No\r\n\r\nx",
    "Content-Encoding: gzip\r\n\r\nx",
    "X_Under: a\r\nX.Dot: b\r\nX-\u{e9}: c\r\n\r\nx",
    "Refresh: 5; url=http://localhost/\r\nContent-Disposition: inline\r\nContent-Range: bytes 0-0/1\r\n\r\nx",
];

#[test]
fn odd_heads() {
    let application = Application::start(|request, stream| {
        let name = request.param("SCRIPT_NAME").trim_start_matches("/streamed").trim_start_matches('/');
        let text = name.parse::<usize>().map_or("\r\nok", |at| ODD[at]);
        let bytes = match request.param("QUERY_STRING") {
            "pieces" => {
                [text.as_bytes().chunks(3).flat_map(|part| record(6, part, 5)).collect(), end()].concat()
            }
            "noisy" => [stderr("a word"), stdout(text), stderr("more"), end()].concat(),
            _ => answer(text),
        };
        stream.write_all(&bytes).is_err()
    });
    let configuration = format!(
        "log_format short '$request $status';
        access_log %%LOGS%%/access.log short;
        server {{
            listen 127.0.0.1:%%PORT%%;
            fastcgi_param SCRIPT_NAME $uri;
            fastcgi_param QUERY_STRING $query_string;
            error_log %%LOGS%%/error.log crit;
            location / {{ fastcgi_pass {0}; }}
            location /streamed/ {{ fastcgi_buffering off; fastcgi_pass {0}; }}
            location = /local {{ return 200 local; }}
            location = /is-it-kept {{ return 204; }}
        }}",
        application.address()
    );
    let mut requests = Vec::new();
    for at in 0..ODD.len() {
        requests.push(format!("GET /{at}"));
        requests.push(format!("HEAD /{at}"));
        requests.push(format!("GET /streamed/{at}"));
        requests.push(format!("GET /{at}?pieces"));
        requests.push(format!("GET /{at}?noisy"));
    }
    requests.push("GET /0 HTTP/1.0".to_owned());
    requests.push("POST /2\n\nbody".to_owned());
    agree(&Site::new(&configuration), &requests.iter().map(String::as_str).collect::<Vec<_>>());
}
