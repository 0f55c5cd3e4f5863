//! A project of Django that uWSGI runs, through nginx and through Fulmar.

use tests::binary::Server;
use tests::differential::agree;
use tests::python::{Uwsgi, have_django, have_uwsgi};
use tests::site::Site;

/// The parameters that every application in Python gets.
const PARAMS: &str = "\
uwsgi_param QUERY_STRING $query_string;
uwsgi_param REQUEST_METHOD $request_method;
uwsgi_param CONTENT_TYPE $content_type;
uwsgi_param CONTENT_LENGTH $content_length;
uwsgi_param REQUEST_URI $request_uri;
uwsgi_param PATH_INFO $document_uri;
uwsgi_param DOCUMENT_ROOT $document_root;
uwsgi_param SERVER_PROTOCOL $server_protocol;
uwsgi_param REQUEST_SCHEME $scheme;
uwsgi_param REMOTE_ADDR $remote_addr;
uwsgi_param REMOTE_PORT $remote_port;
uwsgi_param SERVER_PORT $server_port;
uwsgi_param SERVER_NAME $server_name;
";

fn site(uwsgi: &Uwsgi) -> Site {
    Site::new(&format!(
        "log_format short '$request_method $uri $status $upstream_status';
        access_log %%LOGS%%/access.log short;
        upstream django {{ server unix:{socket}; }}
        server {{
            listen 127.0.0.1:%%PORT%%;
            client_max_body_size 75m;
            location /static/ {{ alias %%ROOT%%/collected/; }}
            location / {{
                include uwsgi_params;
                uwsgi_param HTTP_X_FORWARDED_PROTO $http_x_scheme;
                uwsgi_pass django;
            }}
        }}",
        socket = uwsgi.socket().display()
    ))
    .in_prefix("uwsgi_params", PARAMS)
    .file("collected/site.css", "p { color: red }\n")
}

#[test]
fn django_answers_as_through_nginx() {
    if !have_uwsgi() || !have_django() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let uwsgi = Uwsgi::start_django(directory.path());
    let site = site(&uwsgi);
    let file = "a file\n".repeat(3_000);
    let parts = format!(
        "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n{file}\r\n--b--\r\n"
    );
    let upload = format!(
        "POST /upload/ HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n\
         Content-Length: {}\r\n\r\n{parts}",
        parts.len()
    );
    let raw = format!("POST /raw/\nContent-Type: application/octet-stream\n\n{file}");
    agree(
        &site,
        &[
            "GET /",
            "HEAD /",
            "GET /\nAccept-Encoding: gzip",
            "GET /about/?a=1&a=2&b=%C3%A4\nUser-Agent: test\nHost: shop.example",
            "GET /about/\nX-Scheme: https\nHost: shop.example",
            "GET /about\nHost: shop.example",
            "GET /hello/",
            "POST /form/\nContent-Type: application/x-www-form-urlencoded\n\nname=x",
            &upload,
            &raw,
            "GET /stream/",
            "GET /broken/",
            "GET /none/",
            "GET /static/site.css",
            "GET /static/none.css",
            "OPTIONS /",
        ],
    );
    let running = site.start(Server::Fulmar);
    let answer = running.ask(&upload);
    assert!(answer.last().text().starts_with(&format!("a.txt {} ", file.len())), "{}", answer.last().text());
    running.stop();
}

/// A form with its token in a cookie, then the session: what a browser does.
#[test]
fn django_knows_its_users() {
    if !have_uwsgi() || !have_django() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let uwsgi = Uwsgi::start_django(directory.path());
    let running = site(&uwsgi).start(Server::Fulmar);
    let cookie = |field: &str| field.split(';').next().unwrap_or_default().to_owned();
    let form = running.ask("GET /form/");
    let token = form.last().text();
    let own = cookie(form.last().field("Set-Cookie").expect("a cookie"));
    let send = format!(
        "POST /form/\nContent-Type: application/x-www-form-urlencoded\nCookie: {own}\nX-CSRFToken: {token}\n\nname=Ada"
    );
    let sent = running.ask(&send);
    assert_eq!((sent.last().status, sent.last().field("Location")), (302, Some("/hello/")));
    let session = cookie(sent.last().field("Set-Cookie").expect("a session"));
    assert_eq!(running.ask(&format!("GET /hello/\nCookie: {own}; {session}")).last().text(), "hello Ada");
    assert_eq!(running.ask("GET /hello/").last().text(), "hello stranger");
    running.stop();
}
