//! What programs get of the environment that `.htaccess` files make: the same PHP-FPM after Apache and
//! behind Fulmar.

use std::fmt::Write;
use std::time::Duration;

use tempfile::TempDir;
use tests::apache::{Apache, have_apache};
use tests::binary::{Server, have_nginx};
use tests::php::{Php, have_php};
use tests::site::Site;
use tests::wait;

/// A line that sets a variable to a value.
type Way = fn(&str, &str) -> String;

/// What the script gets, but for what does not come from the files.
const SHOW: &str = r#"<?php
header('Content-Type: text/plain');
ksort($_SERVER);
foreach ($_SERVER as $name => $value) {
    if (preg_match('/^(REDIRECT_)*(HTTP_(?!HOST|CONNECTION|CONTENT_LENGTH)|URL$|STATUS$|QUERY_STRING$|REQUEST_METHOD$|APP_|BASE$|HTTPS$|PHP_AUTH|PHP_VALUE|MY)/', $name)) {
        echo "$name=$value\n";
    }
}
"#;

const PARAMS: &str = "
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    fastcgi_param SCRIPT_NAME $fastcgi_script_name;
    fastcgi_param REQUEST_METHOD $request_method;
    fastcgi_param REQUEST_URI $request_uri;
    fastcgi_param QUERY_STRING $query_string;
    fastcgi_param CONTENT_LENGTH $content_length;
    fastcgi_param HTTPS $https if_not_empty;
";

/// A site whose scripts go to PHP-FPM.
fn site(php: &Php, more: &str, files: &[(&str, &str)]) -> Site {
    let configuration = format!(
        "server {{
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            index index.php;
            htaccess on;
            location ~ \\.php$ {{ fastcgi_pass {}; {PARAMS} {more} }}
        }}",
        php.address()
    );
    let site = Site::new(&configuration).file("index.php", SHOW).file("sub/index.php", SHOW);
    files.iter().fold(site, |site, (path, text)| site.file(path, text))
}

/// The fields of responses that are compared.
const SHOWN: [&str; 5] =
    ["X-Parts", "X-Query", "X-Expression", "Access-Control-Allow-Origin", "Content-Language"];

/// Has both servers answer the requests with these files.
fn agree(files: &[(&str, &str)], requests: &[&str]) {
    if !have_apache() || !have_php() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    let site = site(&php, "", files);
    let handler = format!("SetHandler \"proxy:fcgi://{}\"", php.address());
    let more = format!("DirectoryIndex index.php\n<FilesMatch \"\\.php$\">\n{handler}\n</FilesMatch>\n");
    let apache = Apache::start_with(&site, &more);
    let fulmar = site.start(Server::Fulmar);
    let mut report = String::new();
    for request in requests {
        let (expected, got) = (apache.ask(request), fulmar.ask(request));
        let shown = |answer: &tests::client::Answer| {
            let answer = answer.last();
            let fields = SHOWN.map(|name| answer.field(name));
            // The pages of errors are each server's own.
            let text = if answer.status == 412 { String::new() } else { answer.text() };
            format!("{}\n{fields:?}\n{text}", answer.status)
        };
        if shown(&expected) != shown(&got) {
            let _ = writeln!(
                report,
                "==== {request}\n-- apache\n{}\n-- fulmar\n{}\n",
                shown(&expected),
                shown(&got)
            );
        }
    }
    assert!(report.is_empty(), "{report}\n--- apache\n{}{}", apache.log(), fulmar.all_logs());
    fulmar.stop();
}

#[test]
fn programs_have_the_language_of_their_files() {
    let lost = "<?php http_response_code(404); echo 'lost';";
    let files = [
        (
            ".htaccess",
            "DefaultLanguage de\nAddLanguage fr .fr\nErrorDocument 403 /closed.php\nRewriteEngine on\n\
            RewriteCond %{HTTP_USER_AGENT} x\nRewriteRule ^closed - [F]\n",
        ),
        ("page.php", "<?php echo 'page';"),
        ("page.fr.php", "<?php echo 'page';"),
        ("lost.php", lost),
        ("closed.php", "<?php echo 'closed';"),
    ];
    agree(&files, &["GET /page.php", "GET /page.fr.php", "GET /lost.php", "GET /missing.php", "GET /"]);
}

const VALIDATORS: &str = "<?php header('ETag: \"v1\"'); header('Last-Modified: Tue, 02 Jan 2024 03:04:05 GMT');\n\
    if (isset($_GET['status'])) http_response_code((int) $_GET['status']);\n\
    if (isset($_GET['line'])) header($_GET['line']); echo 'page';";

#[test]
fn conditions_are_judged_by_the_validators_of_programs() {
    let conditions = [
        "If-None-Match: \"v1\"",
        "If-None-Match: \"other\", W/\"v1\"",
        "If-None-Match: \"other\"",
        "If-None-Match: *",
        "If-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
        "If-Modified-Since: Tue, 02 Jan 2024 03:04:04 GMT",
        "If-Modified-Since: Tue, 02 Jan 2024 03:04:06 GMT",
        "If-Modified-Since: never",
        "If-None-Match: \"v1\"\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:04 GMT",
        "If-None-Match: \"other\"\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
        "If-Match: \"v1\"",
        "If-Match: W/\"v1\"",
        "If-Match: \"other\"",
        "If-Unmodified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
        "If-Unmodified-Since: Tue, 02 Jan 2024 03:04:04 GMT",
        "If-Unmodified-Since: never",
    ];
    let paths = [
        "GET /page.php",
        "HEAD /page.php",
        "POST /page.php",
        "GET /page.php?status=404",
        "GET /page.php?status=203",
        "GET /page.php?line=X-Powered-By:+me",
        "GET /bare.php",
        "GET /a.txt",
    ];
    let requests: Vec<String> = paths
        .iter()
        .flat_map(|path| conditions.iter().map(move |condition| format!("{path}\n{condition}")))
        // The entity tags of files differ.
        .filter(|request| !(request.starts_with("GET /a.txt") && request.contains("\"v1\"")))
        .collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    let files = [("page.php", VALIDATORS), ("bare.php", "<?php echo 'bare';"), ("a.txt", "a")];
    agree(&files, &requests);
}

#[test]
fn a_program_whose_page_the_client_has_runs_to_its_end() {
    if !have_php() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    let page = "<?php header('ETag: \"v1\"'); for ($i = 0; $i < 400; $i++) { echo str_repeat('x', 65536); flush(); }\n\
        file_put_contents('done', 'done');";
    let site = site(&php, "", &[("page.php", page)]);
    let fulmar = site.start(Server::Fulmar);
    let answer = fulmar.ask("GET /page.php\nIf-None-Match: \"v1\"");
    assert_eq!((answer.last().status, answer.last().text().len()), (304, 0));
    let done = site.root().join("done");
    assert!(wait::until(Duration::from_secs(20), || done.exists()), "{}", fulmar.all_logs());
    fulmar.stop();
}

#[test]
fn without_htaccess_a_program_judges_conditions_itself() {
    if !have_php() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    let configuration = format!(
        "server {{ listen 127.0.0.1:%%PORT%%; root %%ROOT%%;
            location ~ \\.php$ {{ fastcgi_pass {}; {PARAMS} }} }}",
        php.address()
    );
    let site = Site::new(&configuration).file("page.php", VALIDATORS);
    let servers = if have_nginx() { &[Server::Nginx, Server::Fulmar][..] } else { &[Server::Fulmar] };
    for &server in servers {
        let running = site.start(server);
        let answer = running.ask("GET /page.php\nIf-None-Match: \"v1\"");
        assert_eq!((answer.last().status, answer.last().text()), (200, "page".to_owned()), "{server:?}");
        running.stop();
    }
}

const BASIC: &str = "Authorization: Basic dXNlcjpwYXNz";

#[test]
fn a_word_press_hands_the_password_on() {
    const TEXT: &str = "RewriteEngine On\nRewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\n\
        RewriteBase /\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
        RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n";
    let with = |path: &str| format!("GET {path}\n{BASIC}");
    agree(
        &[(".htaccess", TEXT)],
        &[
            &with("/index.php"),
            &with("/post/1?a=b"),
            &with("/"),
            "GET /index.php",
            "GET /post/1?a=b",
            "GET /",
            "GET /post/1\nAuthorization: Bearer token",
        ],
    );
}

#[test]
fn laravel_hands_the_password_on() {
    const TEXT: &str = "<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteCond %{HTTP:Authorization} .\n\
        RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\n\
        RewriteCond %{HTTP:x-xsrf-token} .\nRewriteRule .* - [E=HTTP_X_XSRF_TOKEN:%{HTTP:X-XSRF-Token}]\n\
        RewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]\n</IfModule>\n";
    agree(
        &[(".htaccess", TEXT)],
        &[
            &format!("GET /page?x=1\n{BASIC}\nX-XSRF-Token: t"),
            &format!("GET /\n{BASIC}"),
            "GET /page",
            "GET /index.php?q",
        ],
    );
}

#[test]
fn symfony_hands_the_password_on() {
    const TEXT: &str = "RewriteEngine On\nRewriteCond %{REQUEST_URI}::$0 ^(/.+)/(.*)::\\2$\nRewriteRule .* - [E=BASE:%1]\n\
        RewriteCond %{HTTP:Authorization} .+\nRewriteRule ^ - [E=HTTP_AUTHORIZATION:%0]\n\
        RewriteCond %{ENV:REDIRECT_STATUS} =\"\"\nRewriteRule ^index\\.php(?:/(.*)|$) %{ENV:BASE}/$1 [R=301,L]\n\
        RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ %{ENV:BASE}/index.php [L]\n";
    agree(
        &[(".htaccess", TEXT), ("sub/.htaccess", TEXT)],
        &[
            &format!("GET /page?x=1\n{BASIC}"),
            "GET /page",
            &format!("GET /sub/page\n{BASIC}"),
            "GET /sub/page/more?y",
            "GET /sub/",
        ],
    );
}

#[test]
fn set_variables() {
    const TEXT: &str = "SetEnv APP_ENV prod\nSetEnv APP_EMPTY\nSetEnvIf X-Token (.+) HTTP_AUTHORIZATION=$1\nSetEnv APP_TWICE 1\nSetEnv APP_TWICE 2\n\
        SetEnv APP_GONE x\nUnsetEnv APP_GONE\nSetEnvIf X-Debug ^(.+)$ APP_DEBUG=$1 APP_FLAG !APP_NONE\n\
        SetEnvIfNoCase User-Agent bot APP_BOT=yes\nBrowserMatch ^Mozilla APP_BROWSER\n\
        SetEnvIf X-Forwarded-Proto https HTTPS=on\nSetEnvIf Request_URI \"^/sub\" APP_SUB\n\
        SetEnvIf Remote_Addr ^127 APP_LOCAL=1\nSetEnvIf Server_Addr ^127\\. APP_SERVER=$0\n\
        SetEnvIf ^X-De.ug$ (.*) APP_MATCHED=$1\nSetEnvIfNoCase ^user-agent$ (bot) APP_BAD=$1\nSetEnvIf ^user-agent$ bot APP_NEVER\n\
        SetEnvIf APP_LOCAL 1 APP_SECOND=1\nSetEnv REDIRECT_MY 1\n";
    const SUB: &str = "SetEnv APP_ENV inner\nRewriteEngine on\nRewriteRule ^one$ two?x=%{ENV:APP_LOCAL}%{ENV:APP_ENV} [E=MY_ONE:1,E=MY_GONE:1]\n\
        RewriteRule ^two$ index.php [E=MY_TWO:%{QUERY_STRING},E=!MY_GONE,L,QSA]\n";
    agree(
        &[(".htaccess", TEXT), ("sub/.htaccess", SUB)],
        &[
            "GET /index.php",
            "GET /",
            "GET /index.php\nX-Debug: a b\nX-De-ug: later\nUser-Agent: RoBot\nX-Forwarded-Proto: https",
            "GET /index.php\nUser-Agent: Mozilla/5.0",
            "GET /index.php\nX-Token: Bearer own\nAuthorization: Bearer client",
            "GET /sub/index.php",
            "GET /sub/",
            "GET /sub/one?a=b",
            "GET /sub/two?a=b\nX-Forwarded-Proto: https",
        ],
    );
}

#[test]
fn fields_of_the_request() {
    const TEXT: &str = "SetEnv APP_NAME value\nSetEnvIf X-Add-It . APP_ADD\nRequestHeader set X-Set 1\nRequestHeader unset X-Unset\n\
        RequestHeader append X-Append b\nRequestHeader setifempty X-Empty default\nRequestHeader add X-Add c env=APP_ADD\n\
        RequestHeader merge X-Merge a\nRequestHeader unset Proxy\nRequestHeader set X-Variable %{APP_NAME}e:%{APP_NONE}e\n\
        RequestHeader set X-Not no env=!APP_NAME\n";
    agree(
        &[(".htaccess", TEXT)],
        &[
            "GET /index.php",
            "GET /index.php\nX-Set: client\nX-Unset: client\nX-Append: a\nX-Empty: client\nX-Merge: b, a\nProxy: evil",
            "GET /index.php\nX-Set: one\nX-Set: two\nX-Merge: b",
            "GET /index.php\nX-Add-It: yes",
        ],
    );
}

#[test]
fn documents_of_errors_are_told_of_the_request() {
    const TEXT: &str = "ErrorDocument 404 /index.php?x=1\nSetEnvIf Request_URI . APP_E=1\nRewriteEngine on\n\
        RewriteRule ^in/(.*)$ gone/$1 [E=APP_R:1]\n";
    agree(
        &[(".htaccess", TEXT)],
        &["GET /nope", "GET /nope?q=1", "POST /nope?q=1\n\nabc", "GET /in/x", "GET /index.php"],
    );
}

/// In Apache a program's variables are in the environment of the request once it was asked.
#[test]
fn fields_of_responses_see_the_variables_of_programs() {
    const TEXT: &str = "Header set X-Parts \"%{REQUEST_URI}e|%{QUERY_STRING}e|%{REQUEST_METHOD}e|%{REMOTE_ADDR}e|%{HTTP_USER_AGENT}e|%{NONE}e\"\n\
        Header set X-Query yes env=QUERY_STRING\n\
        Header set X-Expression yes \"expr=-n reqenv('REQUEST_URI')\"\n\
        Header set Access-Control-Allow-Origin \"%{HTTP_ORIGIN}e\" env=HTTP_ORIGIN\n\
        RewriteEngine on\nRewriteRule ^to/(.*)$ index.php?to=$1 [QSA]\nErrorDocument 404 /index.php\n";
    agree(
        &[(".htaccess", TEXT), ("a.txt", "a")],
        &[
            "GET /index.php",
            "GET /index.php?a=b\nOrigin: http://o.test\nUser-Agent: me",
            "POST /to/here?a=b\nOrigin: http://o.test\n\nabc",
            "GET /a.txt?a=b\nOrigin: http://o.test",
            "GET /missing.txt?a=b\nOrigin: http://o.test",
            "GET /",
        ],
    );
}

#[test]
fn what_the_location_says_counts_more() {
    if !have_php() {
        return;
    }
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    let text = "SetEnv APP_ENV file\nSetEnv APP_OTHER file\nSetEnv QUERY_STRING evil\n";
    let site = site(&php, "fastcgi_param APP_ENV location;", &[(".htaccess", text)]).file(
        "own.php",
        "<?php echo $_SERVER['APP_ENV'], ' ', $_SERVER['APP_OTHER'], ' ', $_SERVER['QUERY_STRING'];",
    );
    let running = site.start(Server::Fulmar);
    assert_eq!(running.ask("GET /own.php?good").last().text(), "location file good");
    running.stop();
}

/// One site's files must not change what a PHP-FPM does for another site, whichever way they set the variable.
#[test]
fn reserved_names_are_not_passed_to_programs() {
    if !have_php() {
        return;
    }
    const SCRIPT: &str = "<?php echo ini_get('memory_limit'), ' ', ini_get('precision'), ' ', basename(__FILE__);
        foreach (['PHP_VALUE', 'PHP_ADMIN_VALUE', 'LD_PRELOAD', 'PATH_TRANSLATED', 'PATH', 'DOCUMENT_ROOT', 'HTTP_X_EVIL', 'HTTP_AUTHORIZATION'] as $name)
            if (isset($_SERVER[$name])) echo ' ', $name;";
    const VALUES: [(&str, &str); 8] = [
        ("PHP_VALUE", "precision=3"),
        ("PHP_ADMIN_VALUE", "memory_limit=1G"),
        ("LD_PRELOAD", "/x.so"),
        ("SCRIPT_FILENAME", "/etc/passwd"),
        ("PATH_TRANSLATED", "/etc/passwd"),
        ("DOCUMENT_ROOT", "/etc"),
        ("PATH", "/evil"),
        ("HTTP_X_EVIL", "1"),
    ];
    let ways: [(&str, Way); 7] = [
        ("SetEnv", |name, value| format!("SetEnv {name} {value}\n")),
        ("SetEnvIf", |name, value| format!("SetEnvIf Request_URI . {name}={value}\n")),
        ("SetEnvIfNoCase", |name, value| format!("SetEnvIfNoCase Request_URI . {name}={value}\n")),
        ("BrowserMatch", |name, value| format!("BrowserMatch ^$ {name}={value}\n")),
        ("BrowserMatchNoCase", |name, value| format!("BrowserMatchNoCase ^$ {name}={value}\n")),
        ("RewriteRule", |name, value| format!("RewriteEngine on\nRewriteRule .* - [E={name}:{value}]\n")),
        ("computed", |name, value| {
            let (start, end) = name.split_at(2);
            format!(
                "RewriteEngine on\nSetEnv START {start}\nRewriteCond {start} (.*)\nRewriteRule .* - [E=%1{end}:{value}]\n"
            )
        }),
    ];
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    let text = |way: &Way| VALUES.map(|(name, value)| way(name, value)).concat();
    let site = site(&php, "", &[]).file("plain/own.php", SCRIPT);
    let site = ways.iter().fold(site, |site, (folder, way)| {
        site.file(&format!("{folder}/.htaccess"), text(way)).file(&format!("{folder}/own.php"), SCRIPT)
    });
    let running = site.start(Server::Fulmar);
    for folder in ways.iter().map(|(folder, _)| *folder).chain(["plain"]) {
        let answer = running.ask(&format!("GET /{folder}/own.php"));
        assert_eq!(answer.last().text(), "128M 14 own.php", "{folder}");
        if !["computed", "plain"].contains(&folder) {
            let warning =
                format!("\"{folder}\" sets \"PHP_VALUE\", which is reserved and is not passed to programs");
            running.wait_for_log("error.log", &warning);
        }
    }
    assert_eq!(
        running.ask("GET /SetEnv/own.php\nAuthorization: x").last().text(),
        "128M 14 own.php HTTP_AUTHORIZATION"
    );
    assert!(!running.all_logs().contains("computed/.htaccess"), "only literal names are known beforehand");
    running.stop();
}

#[test]
fn mistakes_close_their_directory() {
    let site = super::site(&[
        ("early/.htaccess", "RequestHeader set X 1 late\n"),
        ("edit/.htaccess", "RequestHeader edit X a\n"),
        ("name/.htaccess", "Header set \"X Y\" 1\n"),
        ("names/.htaccess", "SetEnvIf ^X-( . NAME\n"),
        ("expression/.htaccess", "SetEnvIfExpr true: NAME\n"),
    ]);
    let running = site.start(Server::Fulmar);
    for path in ["early", "edit", "name", "names", "expression"] {
        assert_eq!(running.ask(&format!("GET /{path}/a.txt")).statuses(), [500], "{path}");
        running.wait_for_log("error.log", &format!("/{path}/.htaccess:1"));
    }
    running.stop();
}

/// What controls an interpreter, the linker or a gateway stays in the server; what an application reads arrives.
#[test]
fn controls_of_interpreters_are_not_passed_to_programs() {
    if !have_php() {
        return;
    }
    const DENIED: [&str; 22] = [
        "PHPRC",
        "PHP_INI_SCAN_DIR",
        "PHP_FCGI_CHILDREN",
        "FCGI_ROLE",
        "UWSGI_FILE",
        "UWSGI_SETENV",
        "PERL5OPT",
        "PERL5LIB",
        "PYTHONPATH",
        "PYTHONHOME",
        "NODE_OPTIONS",
        "NODE_PATH",
        "RUBYOPT",
        "BASH_ENV",
        "BASH_FUNC_ls%%",
        "LD_LIBRARY_PATH",
        "GCONV_PATH",
        "GLIBC_TUNABLES",
        "JAVA_TOOL_OPTIONS",
        "LUA_INIT_5_4",
        "OPENSSL_CONF",
        "PATH",
    ];
    const PASSED: [&str; 9] = [
        "APP_ENV",
        "NODE_ENV",
        "RAILS_ENV",
        "ENV",
        "DB_PASSWORD",
        "HTTPS",
        "PHP_AUTH_USER",
        "REDIRECT_PHPRC",
        "BASE_PATH",
    ];
    let directory = TempDir::with_prefix("php-").unwrap();
    let php = Php::start(directory.path());
    let all = DENIED.iter().chain(&PASSED);
    let text: String = all.clone().map(|name| format!("SetEnv {name} /dev/null\n")).collect();
    let names = all.map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let script = format!(
        "<?php foreach ([{names}] as $name) if (($_SERVER[$name] ?? '') === '/dev/null') echo $name, ' ';"
    );
    let site = site(&php, "", &[(".htaccess", &text)]).file("own.php", script);
    let running = site.start(Server::Fulmar);
    assert_eq!(running.ask("GET /own.php").last().text().trim(), PASSED.join(" "));
    running.wait_for_log("error.log", "\"SetEnv\" sets \"PYTHONPATH\", which is reserved");
    running.stop();
}

/// PHP takes the settings of files where the server's configuration allows it, and nowhere else.
#[test]
fn settings_of_php() {
    if !have_php() {
        return;
    }
    let directory = tempfile::TempDir::with_prefix("php-").expect("a directory");
    let php = Php::start(directory.path());
    let text = "<?php echo ini_get('memory_limit'), ' ', ini_get('highlight.comment'), ' ', ini_get('html_errors'), ' ', \
                ini_get('precision');";
    let configuration = format!(
        "server {{
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            htaccess on;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_param REQUEST_METHOD $request_method;
            location ~ ^/allowed/ {{
                htaccess_php on;
                fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                fastcgi_param REQUEST_METHOD $request_method;
                fastcgi_param PHP_VALUE precision=7;
                fastcgi_pass unix:{socket};
            }}
            location ~ \\.php$ {{ fastcgi_pass unix:{socket}; }}
        }}",
        socket = php.socket().display()
    );
    let settings =
        "php_value memory_limit 77M\nphp_value highlight.comment \"a; b=c\"\nphp_flag html_errors On\n";
    let site = Site::new(&configuration)
        .file("allowed/.htaccess", settings)
        .file("allowed/a.php", text)
        .file("allowed/deep/.htaccess", "php_value memory_limit 78M\nphp_flag html_errors 0\n")
        .file("allowed/deep/a.php", text)
        .file("refused/.htaccess", settings)
        .file("refused/a.php", text)
        .file("plain/a.php", "<?php echo 'plain';");
    let running = site.start(Server::Fulmar);
    assert_eq!(running.ask("GET /allowed/a.php").last().text(), "77M a; b=c 1 7");
    assert_eq!(
        running.ask("GET /allowed/deep/a.php").last().text(),
        "78M a; b=c 0 7",
        "an inner file adds to an outer one"
    );
    assert_eq!(running.ask("GET /refused/a.php").last().status, 500);
    running.wait_for_log("error.log", "settings of PHP in a .htaccess file need \"htaccess_php on\"");
    assert_eq!(running.ask("GET /plain/a.php").last().text(), "plain");
    running.stop();
}

#[test]
fn bodies_and_paths_behind_programs_are_limited() {
    let site = Site::new(
        "server {
            listen 127.0.0.1:%%PORT%%;
            root %%ROOT%%;
            htaccess on;
            client_max_body_size 100;
            location ~ \\.prog(/|$) { return 200 $uri; }
        }",
    )
    .file("short/.htaccess", "LimitRequestBody 5\n")
    .file("short/a.txt", "a")
    .file("long/a.txt", "a")
    .file("long/.htaccess", "LimitRequestBody 500\n")
    .file("any/.htaccess", "LimitRequestBody 0\nAcceptPathInfo On\n")
    .file("exact/.htaccess", "AcceptPathInfo Off\n")
    .file("exact/a.txt", "a")
    .file("any/a.txt", "a")
    .file("wrong/.htaccess", "LimitRequestBody many\n")
    .file("wrong/a.txt", "a");
    let running = site.start(Server::Fulmar);
    let post = |folder: &str, length: usize| {
        let body = "x".repeat(length);
        running.ask(&format!("POST /{folder}/a.txt\nContent-Length: {length}\n\n{body}")).last().status
    };
    assert_eq!((post("short", 5), post("short", 6)), (200, 413));
    assert_eq!((post("long", 100), post("long", 101)), (200, 413), "the server's own limit counts, too");
    assert_eq!((post("any", 100), post("any", 101)), (200, 413));
    assert_eq!(running.ask("GET /wrong/a.txt").last().status, 500);
    assert_eq!(running.ask("GET /exact/a.txt").last().text(), "a");
    assert_eq!(running.ask("GET /exact/a.txt/more").last().status, 404);
    running.stop();
}

/// A document of an error is asked for with GET and without a body, and a user is known to rules.
#[test]
fn documents_of_errors_have_no_length() {
    const LENGTH: &str =
        "<?php echo $_SERVER['REQUEST_METHOD'], ' ', (int) ($_SERVER['CONTENT_LENGTH'] ?? 0);";
    agree(
        &[
            (".htaccess", "ErrorDocument 404 /length.php\nErrorDocument 403 /length.php\n"),
            ("length.php", LENGTH),
        ],
        &["POST /none\n\nabc", "GET /none", "POST /length.php\n\nabcd"],
    );
}
