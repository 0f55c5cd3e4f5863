//! Listings of directories, byte for byte.

use tests::response::Response;
use tests::site::Site;

use super::{agree_by, shown, site};

/// What a listing has to have in common, with all of its content.
fn whole(response: &Response, port: u16) -> String {
    // Without a directive Fulmar's pages are UTF-8, as those of Debian's configuration.
    let plain = |text: &str| text.replace("ISO-8859-1", "UTF-8");
    let media_type = plain(response.field("Content-Type").unwrap_or("none"));
    let listing =
        if response.status == 200 { format!("{media_type}\n{}", response.text()) } else { String::new() };
    format!("{}\n{listing}", plain(&shown(response, port)))
}

/// Directories, each with these files and its own `.htaccess`.
fn directories(texts: &[(&str, &str)]) -> Site {
    const FILES: [(&str, &str); 12] = [
        ("a.txt", "a"),
        ("B.txt", "larger than the others"),
        ("page.html", "<html><TITLE>A page of\nsome kind</title>"),
        ("image.png", "png"),
        ("archive.tar.gz", "gz"),
        ("file10.txt", "10"),
        ("file9.txt", "9"),
        ("a very long name of a file that no column holds.txt", "long"),
        ("<&\".txt", "marks"),
        ("a:b c%.txt", "colon"),
        (".dot", "dot"),
        ("folder/x.txt", "x"),
    ];
    let mut site = site(&[]);
    for (name, text) in texts {
        site = site.file(&format!("{name}/.htaccess"), format!("Options +Indexes\n{text}\n"));
        for (file, content) in FILES {
            site = site.file(&format!("{name}/{file}"), content);
        }
    }
    site
}

fn agree_in_full(texts: &[(&str, &str)], queries: &[&str]) {
    let requests: Vec<String> = texts
        .iter()
        .flat_map(|(name, _)| queries.iter().map(move |query| format!("GET /{name}/{query}")))
        .collect();
    agree_by(whole, directories(texts), &[], &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn forms() {
    const ICONS: &str = "AddIcon /icons/text.gif .txt\nAddIconByType (IMG,/icons/i.gif) image/*\n\
        AddType image/png .png\nAddEncoding x-gzip .gz\nAddIconByEncoding (ZIP,/icons/z.gif) x-gzip\n\
        AddIcon /icons/folder.gif ^^DIRECTORY^^\nAddIcon /icons/blank.gif ^^BLANKICON^^\nAddIcon /icons/back.gif ..\n\
        DefaultIcon /icons/unknown.gif\nAddAlt \"a text\" a.txt\nAddAltByType HTML text/html\nAddAlt up ..\n\
        AddDescription \"the <b>first</b> of all the many files\" a.txt\nAddDescription \"&auml; folder\" folder\n\
        AddDescription \"some of these\" file*.txt\n";
    let with = |options: &str| format!("IndexOptions {options}\n{ICONS}");
    let texts = [
        ("plain", "IndexOptions Charset=UTF-8".to_owned()),
        ("fancy", "IndexOptions FancyIndexing".to_owned()),
        ("table", "IndexOptions FancyIndexing HTMLTable".to_owned()),
        ("icons", with("FancyIndexing")),
        ("icontable", with("FancyIndexing HTMLTable IconsAreLinks XHTML IconWidth IconHeight=30")),
        (
            "styled",
            with("HTMLTable AddAltClass FoldersFirst")
                + "IndexStyleSheet /s.css\nIndexHeadInsert \"<meta name=x>\"\n",
        ),
        ("links", with("FancyIndexing IconsAreLinks IconWidth=10 XHTML")),
        ("wide", with("FancyIndexing NameWidth=* DescriptionWidth=*")),
        ("widetable", with("HTMLTable NameWidth=* DescriptionWidth=*")),
        ("narrow", with("FancyIndexing NameWidth=12 DescriptionWidth=12")),
        ("less", with("FancyIndexing SuppressIcon SuppressLastModified SuppressSize SuppressRules")),
        (
            "lesstable",
            with(
                "HTMLTable SuppressIcon SuppressLastModified SuppressSize SuppressRules SuppressColumnSorting",
            ),
        ),
        (
            "nodesc",
            with(
                "FancyIndexing SuppressDescription SuppressColumnSorting Charset=ISO-8859-15 Type=text/html",
            ),
        ),
        ("titles", with("FancyIndexing ScanHTMLTitles UseOldDateFormat Charset=")),
        ("case", with("FancyIndexing IgnoreCase VersionSort TrackModified")),
        ("old", "FancyIndexing on".to_owned()),
        ("none", "IndexOptions None".to_owned()),
        ("order", with("FancyIndexing") + "IndexOrderDefault Descending Size\n"),
        ("client", with("FancyIndexing IgnoreClient") + "IndexOrderDefault Ascending Description\n"),
    ];
    let texts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
    agree_in_full(&texts, &["", "?C=S;O=D"]);
}

#[test]
fn queries() {
    let texts = [
        ("fancy", "IndexOptions FancyIndexing\nAddDescription z a.txt\nAddDescription b B.txt"),
        ("folders", "IndexOptions HTMLTable FoldersFirst VersionSort"),
        ("client", "IndexOptions FancyIndexing IgnoreClient"),
    ];
    agree_in_full(
        &texts,
        &[
            "?C=N;O=D",
            "?C=M;O=A",
            "?C=S&O=D",
            "?C=D;O=A",
            "?C=D;O=D",
            "?O=D",
            "?C=X;O=D",
            "?C=S;x;O=D",
            "?F=0",
            "?F=1",
            "?F=2;C=S",
            "?F=3",
            "?V=1;C=N",
            "?V=0",
            "?P=*.txt",
            "?P=?.txt;O=D",
            "?P=.*",
            "?P=*",
            "?P=%3c*",
            "?P=",
            "?P=%zz",
            "?C=N;O=D;V=1;F=2;P=file*",
        ],
    );
}

#[test]
fn levels() {
    let site = directories(&[(
        "a",
        "IndexOptions FancyIndexing FoldersFirst\nIndexIgnore *.png .dot\nAddDescription outer *.txt",
    )]);
    let inner = [
        ("more", "IndexOptions +HTMLTable -FoldersFirst"),
        ("other", "IndexOptions VersionSort"),
        ("both", "IndexOptions HTMLTable +FancyIndexing"),
        ("none", "IndexOptions None"),
        ("ignore", "IndexIgnore x.*"),
        ("reset", "IndexIgnoreReset On\nIndexIgnore x.*"),
        ("up", "IndexIgnore .."),
        ("text", "AddDescription inner x.txt"),
        ("files", "<Files x.txt>\nIndexOptions HTMLTable\n</Files>"),
    ];
    let site = inner.iter().fold(site, |site, (name, text)| {
        site.file(&format!("a/{name}/.htaccess"), text)
            .file(&format!("a/{name}/x.txt"), "x")
            .file(&format!("a/{name}/y.txt"), "y")
            .file(&format!("a/{name}/z.png"), "z")
            .file(&format!("a/{name}/.dot"), "z")
            .file(&format!("a/{name}/dir/x"), "x")
    });
    let requests: Vec<String> = inner.iter().map(|(name, _)| format!("GET /a/{name}/")).collect();
    agree_by(
        whole,
        site,
        &[],
        &requests.iter().map(String::as_str).chain(["GET /a/", "HEAD /a/"]).collect::<Vec<_>>(),
    );
}

#[test]
fn content_before_and_after() {
    let texts = [
        ("html", "IndexOptions FancyIndexing\nHeaderName head.html\nReadmeName tail.html"),
        ("text", "IndexOptions FancyIndexing\nHeaderName head.txt\nReadmeName tail.txt"),
        (
            "bare",
            "IndexOptions FancyIndexing SuppressHTMLPreamble\nHeaderName head.html\nReadmeName tail.html",
        ),
        ("baretext", "IndexOptions SuppressHTMLPreamble\nHeaderName head.txt\nReadmeName tail.txt"),
        ("absolute", "HeaderName /common/head.html\nReadmeName ../common/tail.html"),
        ("missing", "HeaderName none.html\nReadmeName none.txt\nErrorDocument 404 oh"),
        (
            "denied",
            "HeaderName head.html\nReadmeName tail.html\n<Files *.html>\nRequire all denied\n</Files>",
        ),
        ("picture", "HeaderName image.png\nAddType image/png .png"),
    ];
    let site =
        texts.iter().map(|(name, _)| *name).chain(["common"]).fold(directories(&texts), |site, name| {
            site.file(&format!("{name}/head.html"), "<h1>head</h1>\n")
                .file(&format!("{name}/tail.html"), "<p>tail</p>\n")
                .file(&format!("{name}/head.txt"), "head <&>\n")
                .file(&format!("{name}/tail.txt"), "tail")
        });
    let requests: Vec<String> = texts.iter().map(|(name, _)| format!("GET /{name}/?x")).collect();
    agree_by(whole, site, &[], &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

/// What the rules refuse is not named.
#[test]
fn refused_names_are_hidden() {
    let page = "IndexOptions FancyIndexing\n";
    let texts = [
        ("files", "<Files *.txt>\nRequire all denied\n</Files>"),
        ("match", "<FilesMatch \"^(a|B)\">\nDeny from all\n</FilesMatch>"),
        ("forbidden", "IndexOptions +ShowForbidden\n<Files *.txt>\nRequire all denied\n</Files>"),
        ("user", "<Files *.txt>\nRequire user nobody\n</Files>"),
        (
            "rules",
            "RewriteEngine on\nRewriteRule \\.txt$ - [F]\nRewriteRule page - [G]\nRewriteRule image http://example.com/",
        ),
        (
            "alias",
            "RedirectMatch 404 file\nRedirectMatch 301 page http://example.com/\nRedirectMatch 410 image",
        ),
        ("index", "<Files index.html>\nRequire all denied\n</Files>"),
        ("query", "<If \"%{QUERY_STRING} == 'x'\">\nRequire all denied\n</If>"),
        ("limit", "<Limit POST>\nRequire all denied\n</Limit>"),
    ];
    let texts: Vec<(&str, String)> =
        texts.iter().map(|(name, text)| (*name, format!("{page}{text}"))).collect();
    let texts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let mut site = directories(&texts);
    for (name, _) in &texts {
        site = site
            .file(&format!("{name}/closed/.htaccess"), "Require all denied\n")
            .file(&format!("{name}/open/.htaccess"), "Require all granted\n")
            .file(&format!("{name}/broken/.htaccess"), "Nonsense\n")
            .link(&format!("{name}/dangling.txt"), "nowhere")
            .link(&format!("{name}/link.txt"), "a.txt");
    }
    let requests: Vec<String> = texts.iter().map(|(name, _)| format!("GET /{name}/")).collect();
    agree_by(
        whole,
        site,
        &["auth_basic", "authn_file", "authz_user"],
        &requests.iter().map(String::as_str).collect::<Vec<_>>(),
    );
}

#[test]
fn parts_of_listings() {
    let site = directories(&[("page", "IndexOptions FancyIndexing\nIndexIgnore *")]);
    let requests =
        ["GET /page/\nRange: bytes=0-1", "GET /page/\nRange: bytes=100000-", "GET /page/\nRange: bytes=-3"];
    let part = |response: &Response, _: u16| {
        let text = (response.status == 206).then(|| response.text());
        format!("{} {text:?}", response.status)
    };
    agree_by(part, site, &[], &requests);
}
