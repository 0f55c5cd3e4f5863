//! Odd heads of answers: whatever nginx makes of them is right.

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

/// Heads with what follows, which an application answers with by their names.
const RELAYED: [(&str, &str); 8] = [
    (
        "/tagged",
        "ETag: \"e\"\r\nLast-Modified: Tue, 02 Jan 2024 03:04:05 GMT\r\nContent-Type: a/b\r\n\r\ntext",
    ),
    ("/untyped", "Content-Type:\r\nContent-Length: 4\r\n\r\ntext"),
    ("/untypedfile", "X-Accel-Redirect: /a.txt\r\nContent-Type:\r\n\r\n"),
    ("/none", "Status: 204 None\r\nContent-Type: text/plain\r\n\r\n"),
    ("/wordless", "Status: 204\r\nContent-Type: text/plain\r\n\r\n"),
    ("/odd", "Status: 200 X\r\nContent-Type: a/b\r\n\r\ntext"),
    ("/basic", "Status: 403 No\r\nWWW-Authenticate: Basic realm=\"x\"\r\n\r\nno"),
    ("/typednamed", "X-Accel-Redirect: @named\r\nContent-Type: x/y\r\n\r\n"),
];

/// What an application answers is passed on: conditions are for it, and its words are its own.
#[test]
fn answers_are_the_applications_own() {
    let application = Application::start(|request, stream| {
        let name = request.param("SCRIPT_NAME");
        let known = RELAYED.iter().find(|(known, _)| name.ends_with(known));
        stream.write_all(&answer(known.map_or("\r\nok", |(_, text)| text))).is_err()
    });
    let configuration = format!(
        "log_format sent '$request $status type=$sent_http_content_type of=$upstream_response_length';
        access_log %%LOGS%%/access.log sent;
        server {{
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            fastcgi_param SCRIPT_NAME $uri;
            location / {{ fastcgi_pass {0}; }}
            location /streamed/ {{ fastcgi_buffering off; fastcgi_pass {0}; }}
            location /named/ {{ error_page 403 = @application; return 403; }}
            location /named200/ {{ error_page 403 =200 @application; return 403; }}
            location @application {{ fastcgi_pass {0}; }}
            location /intercept/ {{ fastcgi_pass {0}; fastcgi_intercept_errors on; error_page 403 /a.txt; }}
            location /a.txt {{ types {{ text/plain txt; }} }}
            location /pass/ {{ fastcgi_pass {0}; fastcgi_pass_header Server; fastcgi_pass_header Date; }}
            location @named {{ return 200 named; }}
        }}",
        application.address()
    );
    let mut requests: Vec<String> = [
        "If-None-Match: *",
        "If-Match: \"e\"",
        "If-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
        "If-Unmodified-Since: Tue, 02 Jan 2024 03:04:06 GMT",
    ]
    .iter()
    .flat_map(|condition| {
        ["GET /tagged", "HEAD /tagged", "GET /streamed/tagged", "GET /named/tagged", "GET /untypedfile"]
            .map(|asked| format!("{asked}\n{condition}\nConnection: close"))
    })
    .collect();
    let others = [
        "GET /untyped",
        "GET /streamed/untyped",
        "GET /untypedfile",
        "GET /none",
        "GET /streamed/none",
        "GET /wordless",
        "GET /odd",
        "GET /named/odd",
        "GET /named200/odd",
        "GET /intercept/basic",
        "GET /typednamed",
        "GET /pass/odd",
    ];
    requests.extend(others.map(str::to_owned));
    agree(
        &Site::new(&configuration).file("a.txt", "a text\n"),
        &requests.iter().map(String::as_str).collect::<Vec<_>>(),
    );
}
