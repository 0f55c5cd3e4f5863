//! What Apache looks up before it answers: names of an index, `FallbackResource`, error documents, forms of a document.

use super::{agree_on, site, with_host};

/// Files, each in a separate directory.
const FILES: [&str; 22] = [
    "DirectoryIndex none index.html\nRewriteEngine on\nRewriteRule none http://example.com/x",
    "DirectoryIndex none index.html\nRewriteEngine on\nRewriteRule none - [G]",
    "DirectoryIndex none.html none.txt\nRewriteEngine on\nRewriteRule none.html - [G]",
    "DirectoryIndex none index.html\n<Files none>\nRequire all denied\n</Files>",
    "DirectoryIndex none\nOptions +Indexes\n<Files none>\nRequire all denied\n</Files>",
    "DirectoryIndex none a.txt\nRedirect 301 /FOLDER/none http://example.com/none",
    "DirectoryIndex none a.txt\nRewriteEngine on\nRewriteRule none$ b.html",
    "DirectoryIndex in\nRequire all granted",
    "DirectoryIndex in\nDirectorySlash Off\nRequire all granted",
    "DirectoryIndex none ../FOLDER/b.html",
    "DirectoryIndex none\nDirectoryIndex disabled\nDirectoryIndex b.html",
    "RewriteEngine on\nRewriteCond %{SERVER_PROTOCOL} ^INCLUDED$\nRewriteCond %{REQUEST_METHOD} ^GET$\nRewriteRule index b.html",
    "<Limit GET>\nRequire all denied\n</Limit>",
    "DirectoryIndex none index.html\nFallbackResource /FOLDER/b.html",
    "FallbackResource b.html\nRequire all granted",
    "FallbackResource /FOLDER/b.html\nRewriteEngine on\nRewriteRule b.html a.txt",
    "ErrorDocument 404 /FOLDER/b.html\nRewriteEngine on\nRewriteRule b.html - [G]",
    "ErrorDocument 404 http://example.com/%{REQUEST_METHOD}\nErrorDocument 401 http://example.com/",
    "Require all denied\nErrorDocument 403 /FOLDER/page\nOptions +MultiViews",
    "ErrorDocument 404 /FOLDER/b.html\nHeader set X-Method \"expr=%{REQUEST_METHOD}\"",
    "Options +MultiViews\nForceType image/gif\nDefaultLanguage de",
    "RedirectRelative On\nRedirect /FOLDER/x /y",
];

#[test]
fn of_paths_that_do_not_exist() {
    let site = FILES.iter().enumerate().fold(site(&[]), |site, (folder, text)| {
        let text = text.replace("FOLDER", &folder.to_string());
        let names = ["index.html", "a.txt", "b.html", "page.html", "in/c.txt"];
        let site = site.file(&format!("{folder}/.htaccess"), format!("{text}\n"));
        names.iter().fold(site, |site, name| site.file(&format!("{folder}/{name}"), *name))
    });
    let paths = ["", "?q=1", "none", "x", "in", "in/", "page"];
    let mut requests = Vec::new();
    for folder in 0..FILES.len() {
        for path in paths {
            let methods = ["GET", "POST", "OPTIONS"].into_iter();
            requests.extend(methods.map(|method| with_host(&format!("{method} /{folder}/{path}"))));
        }
    }
    agree_on(site, &["negotiation"], &requests.iter().map(String::as_str).collect::<Vec<_>>());
}
