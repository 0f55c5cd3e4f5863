//! Several forms of a document: `Options +MultiViews`.

use tests::response::Response;
use tests::site::Site;

use super::{agree_by, shown, site};

const MODULES: [&str; 1] = ["negotiation"];

/// What responses have in common, with what caches and clients learn about the choice.
fn whole(response: &Response, port: u16) -> String {
    let names = ["Vary", "TCN", "Content-Location", "Alternates", "Content-Language", "Content-Encoding"];
    let fields = names.map(|name| {
        let values: Vec<&str> = response
            .fields
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect();
        format!("{name}: {}", values.join(" + "))
    });
    format!("{}\n{}", shown(response, port), fields.join("\n"))
}

const TYPES: &str = "Options +MultiViews\nAddLanguage en .en\nAddLanguage de .de\nAddLanguage fr .fr\n\
    AddLanguage en-gb .gb\nAddEncoding x-gzip .gz\nAddCharset utf-8 .utf8\nAddCharset iso-8859-2 .latin2\n\
    AddType application/json .json\nAddType \"text/plain; qs=0.4\" .low\nAddType image/png .png\n";

fn documents(texts: &[(&str, &str)]) -> Site {
    const FILES: [(&str, &str); 27] = [
        ("lang.txt.en", "english"),
        ("lang.txt.de", "deutsch"),
        ("lang.txt.fr", "francais"),
        ("plain.html", "only one"),
        ("kind.html", "html"),
        ("kind.txt", "text"),
        ("kind.json", "json"),
        ("packed.txt", "not packed"),
        ("packed.txt.gz", "gz"),
        ("set.txt.utf8", "utf-8"),
        ("set.txt.latin2", "latin 2"),
        ("mixed.html", "no language"),
        ("mixed.html.de", "deutsch"),
        ("british.txt.gb", "british"),
        ("british.txt.en", "english"),
        ("low.low", "low"),
        ("low.html", "high"),
        ("odd.zzz", "unknown"),
        ("part.x.txt", "part x"),
        ("part.x.html.en", "part x en"),
        ("size.txt.en", "the longer one"),
        ("size.en.txt", "shorter"),
        ("php.php", "program"),
        ("php.html", "page"),
        ("index.html.en", "index en"),
        ("index.html.de", "index de"),
        ("folder.d/x.txt", "x"),
    ];
    texts.iter().fold(site(&[]), |site, (name, text)| {
        let site = site.file(&format!("{name}/.htaccess"), format!("{TYPES}{text}\n"));
        FILES.iter().fold(site, |site, (file, content)| site.file(&format!("{name}/{file}"), content))
    })
}

fn agree_about(texts: &[(&str, &str)], requests: &[&str]) {
    let all: Vec<String> = texts
        .iter()
        .flat_map(|(name, _)| requests.iter().map(move |request| request.replace("DIR", &format!("/{name}"))))
        .collect();
    agree_by(whole, documents(texts), &MODULES, &all.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn fields_of_the_request_decide() {
    agree_about(
        &[("a", "")],
        &[
            "GET DIR/lang",
            "GET DIR/lang\nAccept-Language: de",
            "GET DIR/lang\nAccept-Language: fr, en;q=0.5",
            "GET DIR/lang\nAccept-Language: es",
            "GET DIR/lang\nAccept-Language: de-at, en;q=0.2",
            "GET DIR/lang\nAccept-Language: es, *;q=0.3",
            "GET DIR/lang\nAccept-Language: en;q=0.5, de;q=0.5",
            "HEAD DIR/lang\nAccept-Language: de",
            "POST DIR/lang\nAccept-Language: de\n\nx",
            "GET DIR/lang?x=1\nAccept-Language: de",
            "GET DIR/lang.txt\nAccept-Language: de",
            "GET DIR/lang.txt.de\nAccept-Language: en",
            "GET DIR/lang.en",
            "GET DIR/lang.de.txt",
            "GET DIR/plain",
            "GET DIR/kind",
            "GET DIR/kind\nAccept: text/html",
            "GET DIR/kind\nAccept: text/plain, text/html;q=0.9",
            "GET DIR/kind\nAccept: application/json, */*",
            "GET DIR/kind\nAccept: text/*;q=0.5, application/json;q=0.2",
            "GET DIR/kind\nAccept: image/png",
            "GET DIR/kind\nAccept: text/html;level=1, text/plain;q=0.1",
            "GET DIR/packed",
            "GET DIR/packed\nAccept-Encoding: gzip",
            "GET DIR/packed\nAccept-Encoding: x-gzip, identity;q=0",
            "GET DIR/packed\nAccept-Encoding: br",
            "GET DIR/packed\nAccept-Encoding: *",
            "GET DIR/packed.txt.gz\nAccept-Encoding: gzip",
            "GET DIR/set",
            "GET DIR/set\nAccept-Charset: iso-8859-2",
            "GET DIR/set\nAccept-Charset: utf-8;q=0.3, *;q=0.5",
            "GET DIR/set\nAccept-Charset: koi8-r",
            "GET DIR/mixed",
            "GET DIR/mixed\nAccept-Language: de",
            "GET DIR/mixed\nAccept-Language: fr",
            "GET DIR/british\nAccept-Language: en-us",
            "GET DIR/british\nAccept-Language: en-gb, en",
            "GET DIR/british\nAccept-Language: en",
            "GET DIR/low",
            "GET DIR/low\nAccept: text/plain, text/html;q=0.3",
            "GET DIR/odd",
            "GET DIR/part",
            "GET DIR/part.x",
            "GET DIR/part.x.html",
            "GET DIR/size\nAccept-Language: en",
            "GET DIR/php",
            "GET DIR/php?x",
            "GET DIR/plain/info",
            "GET DIR/nothing",
            "GET DIR/nothing/at/all",
            "GET DIR/folder",
            "GET DIR/",
            "GET DIR/\nAccept-Language: de",
            "GET DIR",
            "GET DIR/lang\nNegotiate: trans",
            "GET DIR/lang\nNegotiate: vlist\nAccept-Language: de",
            "GET DIR/lang\nNegotiate: 1.0\nAccept-Language: de\nAccept: text/plain",
            "GET DIR/lang\nNegotiate: 1.0\nAccept-Language: de",
            "GET DIR/lang\nNegotiate: *\nAccept-Language: de",
            "GET DIR/lang\nNegotiate: x",
            "GET DIR/set\nNegotiate: *",
            "GET DIR/packed\nNegotiate: *",
        ],
    );
}

#[test]
fn languages_in_order() {
    agree_about(
        &[
            ("prefer", "LanguagePriority de fr en"),
            ("fallback", "LanguagePriority fr en\nForceLanguagePriority Fallback"),
            ("both", "LanguagePriority fr de\nForceLanguagePriority Prefer Fallback"),
            ("none", "LanguagePriority fr\nForceLanguagePriority None"),
            ("wrong", "ForceLanguagePriority None Prefer"),
            ("env", "SetEnvIf X-Lang (.+) prefer-language=$1\nSetEnvIf X-Plain . no-gzip"),
        ],
        &[
            "GET DIR/lang",
            "GET DIR/lang\nAccept-Language: es",
            "GET DIR/lang\nAccept-Language: en, de, fr;q=0.9",
            "GET DIR/lang\nX-Lang: fr",
            "GET DIR/lang\nX-Lang: es\nAccept-Language: de",
            "GET DIR/packed\nAccept-Encoding: gzip, identity;q=0.1\nX-Plain: 1",
            "GET DIR/",
        ],
    );
}

#[test]
fn other_rules_count() {
    agree_about(
        &[
            ("denied", "<Files *.de>\nRequire all denied\n</Files>"),
            ("all", "<FilesMatch \"^lang\\.\">\nRequire all denied\n</FilesMatch>"),
            ("off", "Options -MultiViews"),
            ("index", "DirectoryIndex none index plain.html"),
            ("rules", "RewriteEngine on\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ kind.txt [L]"),
            ("fields", "Header set X-B b\nErrorDocument 406 \"none of them\""),
        ],
        &[
            "GET DIR/lang\nAccept-Language: de",
            "GET DIR/lang\nAccept-Language: en",
            "GET DIR/plain",
            "GET DIR/kind\nAccept: image/png",
            "GET DIR/",
            "GET DIR/missing",
        ],
    );
}
