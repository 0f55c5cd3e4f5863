//! A WordPress that Fulmar serves: installed, logged in to, written with and read, by the forms and calls that a browser
//! sends; once by an nginx configuration, once by the `.htaccess` file that WordPress writes.

mod caching;
mod permalinks;

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use tempfile::TempDir;
use tests::binary::Server;
use tests::browser::{Browser, Sent, between, form};
use tests::mariadb::{MariaDb, have_mariadb};
use tests::php::{Php, have_php};
use tests::response::Response;
use tests::site::{Running, Site};
use tests::wordpress::{have_wordpress, place};

const NGINX: &str = r"
    include mime.types;
    server {
        listen 127.0.0.1:%%PORT%%;
        root SOURCES;
        index index.php;

        location / { try_files $uri $uri/ /index.php?$args; }
        location ~ /\.ht { deny all; }
        location ~ \.php$ {
            include fastcgi_params;
            fastcgi_param DATABASE nginx;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_pass unix:SOCKET;
        }
    }
";

/// The packaged parameters tell WordPress that files with rules count, so that it writes one.
const HTACCESS: &str = r"
    include mime.types;
    server {
        listen 127.0.0.1:%%PORT%%;
        root SOURCES;
        index index.php;
        htaccess on;

        location ~ \.php$ {
            include fastcgi_params;
            fastcgi_param DATABASE htaccess;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_pass unix:SOCKET;
        }
    }
";

/// What a user knows.
const USER: &str = "editor";
const PASSWORD: &str = "correct horse battery staple";

#[test]
fn wordpress_works_by_nginx_conf_and_by_htaccess() {
    if !have_php() || !have_mariadb() || !have_wordpress() {
        return;
    }
    let directory = TempDir::with_prefix("wordpress-").unwrap();
    let mariadb = MariaDb::start(directory.path(), &["nginx", "htaccess"]);
    let php = Php::start(directory.path());
    let sources = directory.path().join("sources");
    fs::create_dir(&sources).unwrap();
    place(&sources, &mariadb);
    let use_behind = |configuration: &str| {
        let running = site(configuration, &sources, &php).start(Server::Fulmar);
        use_wordpress(&running);
        assert_eq!(Browser::new(running.address()).get("/.htaccess").status, 403);
        running.stop();
    };
    // They share the programs and the directory of uploads, which two sites cannot make at the same moment.
    use_behind(NGINX);
    use_behind(HTACCESS);
    let written = fs::read_to_string(sources.join(".htaccess")).unwrap();
    assert!(written.contains("RewriteRule . /index.php [L]"), "{written}");
}

/// A site with these sources and this PHP.
fn site(configuration: &str, sources: &Path, php: &Php) -> Site {
    let configuration = configuration
        .replace("SOURCES", &sources.display().to_string())
        .replace("SOCKET", &php.socket().display().to_string());
    Site::new(&configuration)
        .in_prefix("fastcgi_params", include_str!("../../packaging/conf/fastcgi_params"))
        .in_prefix("mime.types", include_str!("../stock/debian/mime.types"))
}

/// From the first visit of a site that is not set up yet to a post that a visitor reads.
fn use_wordpress(running: &Running) {
    let mut editor = Browser::new(running.address());
    install(&mut editor);
    log_in(&mut editor);
    choose_permalinks(&mut editor);
    let page = editor.get("/wp-admin/post-new.php").text();
    let nonce = between(&page, "createNonceMiddleware( \"", "\"").expect("a nonce in the editor").to_owned();
    let image = upload(&mut editor, &nonce);
    let post = publish(&mut editor, &nonce, &image.path);
    read(&mut Browser::new(running.address()), &post, &image);
}

fn install(browser: &mut Browser) {
    let page = browser.visit("/");
    assert_eq!(page.status, 200, "{page}");
    let filled = [
        ("weblog_title", "A site of birds"),
        ("user_name", USER),
        ("admin_password", PASSWORD),
        ("admin_password2", PASSWORD),
        ("admin_email", "editor@example.com"),
    ];
    let done = browser.submit("/wp-admin/install.php?step=2", &page, "id=\"setup\"", &filled);
    assert!(done.status == 200 && done.text().contains("<h1>Success!</h1>"), "{done}");
}

fn log_in(browser: &mut Browser) {
    assert_eq!(status_and_path(browser, "/wp-admin"), (301, "/wp-admin/".to_owned()));
    let (status, login) = status_and_path(browser, "/wp-admin/");
    assert!(status == 302 && login.starts_with("/wp-login.php?redirect_to="), "{status} {login}");
    let page = browser.get(&login);
    let wrong = [("log", USER), ("pwd", "wrong"), ("wp-submit", "Log In")];
    let refused = browser.submit("/wp-login.php", &page, "id=\"loginform\"", &wrong);
    assert!(refused.status == 200 && refused.text().contains("login_error"), "{refused}");
    let right = [("log", USER), ("pwd", PASSWORD), ("wp-submit", "Log In")];
    let accepted = browser.submit("/wp-login.php", &page, "id=\"loginform\"", &right);
    assert_eq!((accepted.status, browser.redirect(&accepted).as_deref()), (302, Some("/wp-admin/")));
    assert!(browser.cookies().keys().any(|name| name.starts_with("wordpress_logged_in_")));
    let dashboard = browser.get("/wp-admin/");
    assert!(dashboard.status == 200 && dashboard.text().contains("<h1>Dashboard</h1>"), "{dashboard}");
}

const PERMALINKS: &str = "action=\"options-permalink.php\"";

/// WordPress found out at its installation that it can have paths, by asking the server for one.
fn choose_permalinks(browser: &mut Browser) {
    let path = "/wp-admin/options-permalink.php";
    let page = browser.get(path);
    let fields = form(&page.text(), PERMALINKS).expect("the form of the permalinks");
    let chosen = fields.iter().find(|(name, _)| name == "permalink_structure");
    assert_eq!(chosen.map(|(_, value)| value.as_str()), Some("/%year%/%monthnum%/%day%/%postname%/"));
    let filled = [("selection", "/%postname%/"), ("permalink_structure", "/%postname%/"), ("submit", "Save")];
    let saved = browser.submit(path, &page, PERMALINKS, &filled);
    let after = browser.redirect(&saved).unwrap_or_else(|| panic!("{saved}"));
    let page = browser.get(&after);
    assert!(page.text().contains("Permalink structure updated"), "{after}: {page}");
}

/// Uploads an image as the editor of posts does; gives its path.
fn upload(browser: &mut Browser, nonce: &str) -> Image {
    let content = noise(400, 300);
    let path = "/wp-json/wp/v2/media?_locale=user";
    let answer = browser.upload(path, ("grey.png", "image/png"), &content, &[("X-WP-Nonce", nonce)]);
    assert_eq!(answer.status, 201, "{answer}");
    let text = answer.text().replace("\\/", "/");
    let address = between(&text, "\"guid\":{\"rendered\":\"", "\"").expect("its address");
    let path = browser.path_of(address).expect("an address on the site");
    let image = Image { thumbnail: path.replace(".png", "-150x150.png"), path, content };
    assert!(text.contains(&image.thumbnail), "{text}");
    image
}

struct Image {
    path: String,
    thumbnail: String,
    content: Vec<u8>,
}

/// Publishes a post with an image as the editor of posts does; gives its path.
fn publish(browser: &mut Browser, nonce: &str, image: &str) -> String {
    let body = format!(
        r#"{{"title":"Fulmars glide","content":"<!-- wp:paragraph --><p>Stiff wings, <img src=\"{}\"> few beats.</p><!-- /wp:paragraph -->","status":"publish"}}"#,
        image
    );
    let sent =
        Sent { fields: &[("X-WP-Nonce", nonce)], content_type: "application/json", body: body.as_bytes() };
    let answer = browser.request("POST", "/wp-json/wp/v2/posts?_locale=user", &sent);
    assert_eq!(answer.status, 201, "{answer}");
    let text = answer.text().replace("\\/", "/");
    let link = between(&text, "\"link\":\"", "\"").expect("its address");
    browser.path_of(link).expect("an address on the site")
}

/// What a visitor without cookies sees.
fn read(visitor: &mut Browser, post: &str, image: &Image) {
    assert_eq!(post, "/fulmars-glide/");
    let page = visitor.get(post);
    assert_eq!((page.status, page.field("Content-Type")), (200, Some("text/html; charset=UTF-8")));
    assert!(page.text().contains("Stiff wings, <img") && page.text().contains("A site of birds"), "{page}");
    assert!(visitor.get("/").text().contains("Fulmars glide"));
    assert_eq!(status_and_path(visitor, "/fulmars-glide?a=b"), (301, "/fulmars-glide/?a=b".to_owned()));
    let found = visitor.get("/?s=stiff+wings").text();
    assert!(found.contains("Fulmars glide") && !found.contains("Hello world!"), "{found}");

    let feed = visitor.get("/feed/");
    assert_eq!((feed.status, feed.field("Content-Type")), (200, Some("application/rss+xml; charset=UTF-8")));
    let known = [("If-None-Match", feed.field("ETag").expect("the feed's validator"))];
    let unchanged = visitor.request("GET", "/feed/", &Sent { fields: &known, ..Sent::default() });
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    let filled = [("comment", "So they do."), ("author", "A visitor"), ("email", "visitor@example.com")];
    let noted = visitor.submit("/wp-comments-post.php", &page, "id=\"commentform\"", &filled);
    let after = visitor.redirect(&noted).unwrap_or_else(|| panic!("{noted}"));
    assert!(visitor.get(&after).text().contains("So they do."), "{after}");

    let missing = visitor.get("/no/such/page/");
    assert_eq!((missing.status, missing.field("Content-Type")), (404, Some("text/html; charset=UTF-8")));
    assert!(missing.text().contains("A site of birds"), "{missing}");
    assert_eq!(visitor.get("/no-such-script.php").status, 404);

    let style = visitor.get("/wp-includes/css/dashicons.min.css");
    assert_eq!((style.status, style.field("Content-Type")), (200, Some("text/css")));
    assert!(is_file(&style), "{style}");
    let original = visitor.get(&image.path);
    assert_eq!((original.status, original.field("Content-Type")), (200, Some("image/png")));
    assert!(is_file(&original));
    assert!(original.body == image.content, "{} bytes came of the image", original.body.len());
    let thumbnail = visitor.get(&image.thumbnail);
    assert_eq!((thumbnail.status, thumbnail.field("Content-Type")), (200, Some("image/png")));
}

/// A file that the server itself sends has a validator, and no field of PHP's.
fn is_file(response: &Response) -> bool {
    response.field("ETag").is_some() && response.field("Link").is_none()
}

fn status_and_path(browser: &mut Browser, path: &str) -> (u16, String) {
    let response = browser.get(path);
    (response.status, browser.redirect(&response).unwrap_or_default())
}

/// A grey image (PNG) that hardly compresses, so that uploading it takes more than one read.
fn noise(width: u32, height: u32) -> Vec<u8> {
    let mut state = 1_u32;
    let mut row = || {
        let pixel = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        std::iter::once(0).chain((0..width).map(pixel)).collect::<Vec<u8>>()
    };
    let pixels: Vec<u8> = (0..height).flat_map(|_| row()).collect();
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&pixels).unwrap();
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 0, 0, 0, 0]].concat();
    let chunks = [chunk(b"IHDR", &header), chunk(b"IDAT", &encoder.finish().unwrap()), chunk(b"IEND", &[])];
    [&b"\x89PNG\r\n\x1a\n"[..], &chunks.concat()].concat()
}

fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut sum = flate2::Crc::new();
    sum.update(kind);
    sum.update(data);
    let length = u32::try_from(data.len()).unwrap();
    [&length.to_be_bytes()[..], kind, data, &sum.sum().to_be_bytes()].concat()
}
