//! A configuration of the shape that Debian packages: variables of `envvars`, snippets in directories, the usual modules.

use tests::apache::MODULES;
use tests::binary::Server;
use tests::site::Site;

const MAIN: &str = "ServerRoot \"%%DIR%%\"\nDefaultRuntimeDir ${RUN_DIR}\nPidFile %%LOGS%%/pid\nTimeout 300\nKeepAlive On\n\
    MaxKeepAliveRequests 100\nKeepAliveTimeout 5\nHostnameLookups Off\nErrorLog ${LOG_DIR}/error.log\nLogLevel warn\n\
    IncludeOptional mods-enabled/*.load\nIncludeOptional mods-enabled/*.conf\nInclude ports.conf\n\
    <Directory />\nOptions FollowSymLinks\nAllowOverride None\nRequire all denied\n</Directory>\n\
    <Directory %%ROOT%%/>\nOptions Indexes FollowSymLinks\nAllowOverride None\nRequire all granted\n</Directory>\n\
    AccessFileName .htaccess\n<FilesMatch \"^\\.ht\">\nRequire all denied\n</FilesMatch>\n\
    LogFormat \"%v:%p %h %l %u %t \\\"%r\\\" %>s %O \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\"\" combined\n\
    IncludeOptional sites-enabled/*.conf\n";

fn debian() -> Site {
    let names =
        ["mpm_event", "authz_core", "alias", "dir", "mime", "autoindex", "reqtimeout", "status", "setenvif"];
    let load = |name: &str| format!("LoadModule {name}_module {MODULES}/mod_{name}.so\n");
    let modules: String = names.into_iter().map(load).collect();
    let settings = "<IfModule mpm_event_module>\nStartServers 2\nMaxRequestWorkers 150\n</IfModule>\n\
        <IfModule mod_reqtimeout.c>\nRequestReadTimeout header=20-40,minrate=500\n</IfModule>\n\
        <IfModule mod_status.c>\n<Location /server-status>\nSetHandler server-status\nRequire all denied\n</Location>\n\
        ExtendedStatus On\n</IfModule>\n<IfModule mod_cgi.c>\nScriptAlias /cgi-bin/ /usr/lib/cgi-bin/\n</IfModule>\n\
        BrowserMatch \"Mozilla/2\" nokeepalive\nAddIcon /icons/a.png .txt\nAddType application/x-compress .Z\n";
    let host = "<VirtualHost *>\nServerAdmin webmaster@localhost\nDocumentRoot html\n\
        ErrorLog ${LOG_DIR}/error.log\nCustomLog ${LOG_DIR}/access.log combined\n</VirtualHost>\n";
    Site::whole(&format!("{MAIN}Listen 127.0.0.1:%%PORT%%\n"))
        .in_prefix("envvars", "# paths\nSUFFIX=\nexport RUN_DIR=run$SUFFIX\nexport LOG_DIR=logs$SUFFIX\n")
        .in_prefix("ports.conf", "<IfModule ssl_module>\nListen 443\n</IfModule>\n")
        .in_prefix("mods-enabled/all.load", modules)
        .in_prefix("mods-enabled/all.conf", settings)
        .in_prefix("sites-enabled/000-default.conf", host)
        .in_prefix("logs/.keep", "")
        .file("index.html", "it works")
        .file("files/a.txt", "a")
        .file(".htpasswd", "secret")
}

#[test]
fn the_shape_of_debian_loads_and_serves() {
    let site = debian();
    let fulmar = site.start(Server::Fulmar);
    let ask = |path: &str| {
        let answer = fulmar.ask(&format!("GET {path}\nUser-Agent: a \"b\""));
        (answer.last().status, answer.last().text())
    };
    assert_eq!(ask("/"), (200, "it works".to_owned()));
    assert!(ask("/files/").1.contains("a.txt"));
    assert_eq!(ask("/.htpasswd").0, 403);
    assert_eq!(ask("/server-status").0, 403);
    let log = || std::fs::read_to_string(site.prefix().join("logs/access.log")).unwrap_or_default();
    tests::wait::until(std::time::Duration::from_secs(10), || log().lines().count() == 4);
    let line = log().lines().next().unwrap_or_default().to_owned();
    assert!(line.contains("\"GET / HTTP/1.1\" 200 ") && line.contains(" 127.0.0.1 - - ["), "{line}");
    assert!(fulmar.log("console").contains("plain assignments of"), "{}", fulmar.log("console"));
    fulmar.stop();
}
