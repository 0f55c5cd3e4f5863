//! Commands in pages, as mod_include has them.

use tests::binary::Server;

use super::{agree_on, site};

/// The files beside the pages.
const FILES: [(&str, &str); 8] = [
    ("top.txt", "top\n"),
    ("empty.txt", ""),
    ("in/part.txt", "part"),
    (
        "in/inner.shtml",
        "[<!--#echo var=\"who\" --> <!--#echo var=\"DOCUMENT_NAME\" --><!--#set var=\"back\" value=\"b\" -->]",
    ),
    ("in/relative.shtml", "<!--#include file=\"part.txt\" -->"),
    ("closed/.htaccess", "Require all denied\n"),
    ("closed/a.txt", "secret"),
    ("long.txt", LONG),
];

const LONG: &str =
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789";

const RULES: &str = "Options +Includes\nAddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\n\
    SetEnv FROM_FILE yes\nSetEnvIf X-Set (.*) GIVEN=$1\n";

/// Pages, one command or some.
const PAGES: [&str; 77] = [
    "plain",
    "<!--#include virtual=\"/top.txt\" -->",
    "<!--#include virtual=\"top.txt\" -->|",
    "<!--#include file=\"top.txt\" -->|",
    "<!--#include file=\"in/part.txt\" -->",
    "<!--#include file=\"/top.txt\" -->",
    "<!--#include file=\"../top.txt\" -->",
    "<!--#include file=\"in/../top.txt\" -->",
    "<!--#include virtual=\"/in/../top.txt\" -->",
    "<!--#include virtual=\"/none.txt\" -->after",
    "<!--#include virtual=\"/closed/a.txt\" -->after",
    "<!--#include file=\"closed/a.txt\" -->after",
    "<!--#include virtual=\"/empty.txt\" -->after",
    "<!--#include virtual=\"/in/relative.shtml\" -->",
    "<!--#set var=\"who\" value=\"me\" --><!--#include virtual=\"/in/inner.shtml\" --><!--#echo var=\"back\" -->",
    "<!--#include -->",
    "<!--#include what=\"/top.txt\" -->",
    "<!--#echo var=\"none\" -->",
    "<!--#echo var=\"FROM_FILE\" -->",
    "<!--#echo var=\"GIVEN\" -->",
    "<!--#echo var=\"DOCUMENT_NAME\" -->",
    "<!--#echo var=\"DOCUMENT_URI\" -->",
    "<!--#echo var=\"QUERY_STRING\" -->",
    "<!--#echo var=\"QUERY_STRING_UNESCAPED\" -->",
    "<!--#echo var=\"REQUEST_METHOD\" -->",
    "<!--#echo var=\"REQUEST_URI\" -->",
    "<!--#echo var=\"HTTP_X_SET\" -->",
    "<!--#echo var=\"HTTP_AUTHORIZATION\" -->",
    "<!--#echo var=\"REMOTE_ADDR\" -->",
    "<!--#echo var=\"SERVER_PROTOCOL\" -->",
    "<!--#echo var=\"REMOTE_USER\" -->",
    "<!--#set var=\"a\" value=\"<b> & \\\"c\\\"\" --><!--#echo var=\"a\" -->",
    "<!--#set var=\"a\" value=\"<b> & c\" --><!--#echo encoding=\"none\" var=\"a\" -->",
    "<!--#set var=\"a\" value=\"<b> & c\" --><!--#echo encoding=\"url\" var=\"a\" -->",
    "<!--#set var=\"a\" value=\"<b> & c\" --><!--#echo encoding=\"base64\" var=\"a\" -->",
    "<!--#set var=\"a\" value=\"PGI+\" --><!--#echo decoding=\"base64\" encoding=\"none\" var=\"a\" -->",
    "<!--#set var=\"a\" value=\"1\" --><!--#echo var=\"a\" encoding=\"none\" var=\"a\" -->",
    "<!--#set var=\"a\" value=\"1\" --><!--#set var=\"b\" value=\"$a ${a}2 $none $ \\$a\" --><!--#echo var=\"b\" -->",
    "<!--#set var=\"a\" value=\"b\" --><!--#set var=\"b\" value=\"2\" --><!--#echo var=\"$a\" -->",
    "<!--#set var=\"A\" value=\"1\" --><!--#echo var=\"a\" -->",
    "<!--#set value=\"1\" var=\"a\" -->",
    "<!--#set var=\"a\" what=\"1\" -->",
    "<!--#echo -->",
    "<!--#echo encoding=\"what\" var=\"DOCUMENT_NAME\" -->",
    "<!--#config errmsg=\"oh no\" --><!--#what x=\"y\" -->",
    "<!--#config echomsg=\"nothing\" --><!--#echo var=\"none\" -->",
    "<!--#config timefmt=\"%Y\" --><!--#echo var=\"DATE_GMT\" -->",
    "<!--#config timefmt=\"%Y-%m\" --><!--#flastmod file=\"top.txt\" -->",
    "<!--#config timefmt=\"%Y-%m-%d\" --><!--#echo var=\"LAST_MODIFIED\" -->",
    "<!--#fsize file=\"long.txt\" -->",
    "<!--#config sizefmt=\"bytes\" --><!--#fsize file=\"long.txt\" -->",
    "<!--#config sizefmt=\"abbrev\" --><!--#fsize virtual=\"/top.txt\" -->",
    "<!--#fsize file=\"none.txt\" -->",
    "<!--#fsize virtual=\"/closed/a.txt\" -->",
    "<!--#fsize file=\"../x\" -->",
    "<!--#comment text=\"nothing\" -->|",
    "<!--#exec cgi=\"/none.cgi\" -->",
    "<!--#unknown -->|",
    "<!--#ECHO VAR=\"FROM_FILE\" -->",
    "<!--#if expr=\"true\" -->1<!--#else -->2<!--#endif -->3",
    "<!--#if expr=\"false\" -->1<!--#else -->2<!--#endif -->3",
    "<!--#if expr=\"false\" -->1<!--#elif expr=\"true\" -->2<!--#else -->3<!--#endif -->",
    "<!--#if expr=\"true\" -->1<!--#elif expr=\"true\" -->2<!--#else -->3<!--#endif -->",
    "<!--#if expr='v(\"FROM_FILE\") = \"yes\"' -->1<!--#else -->2<!--#endif -->",
    "<!--#set var=\"a\" value=\"xyz\" --><!--#if expr='v(\"a\") =~ /x(.)z/' -->$1 <!--#echo var=\"1\" --><!--#endif -->",
    "<!--#set var=\"a\" value=\"xyz\" --><!--#if expr='v(\"a\") =~ /x(.)z/' --><!--#set var=\"b\" value=\"$1\" --><!--#echo var=\"b\" --><!--#endif -->",
    "<!--#if expr='reqenv(\"FROM_FILE\") == \"yes\"' -->1<!--#endif -->",
    "<!--#if expr='%{REQUEST_METHOD} == \"GET\"' -->get<!--#else -->other<!--#endif -->",
    "<!--#if expr='%{QUERY_STRING} == \"a=%3Cb%3E\"' -->query<!--#endif -->",
    "<!--#if expr=\"true\" --><!--#if expr=\"false\" -->1<!--#else -->2<!--#endif -->3<!--#else -->4<!--#if expr=\"true\" -->5<!--#endif -->6<!--#endif -->",
    "<!--#if expr=\"false\" --><!--#include virtual=\"/none\" --><!--#echo --><!--#endif -->|",
    "<!--#endif -->|",
    "<!--#else -->|",
    "<!--#if expr=\"not understood\" -->1<!--#endif -->",
    "<!--#if -->1<!--#endif -->",
    "<!--#set var='a' value='x' --><!--#echo var='a' -->",
    "<!--#include virtual=\"/top.txt?a=b\" --><!--#include virtual=\"in/\" -->",
];

#[test]
fn commands() {
    let names: Vec<String> = (0..PAGES.len()).map(|at| format!("{at}.shtml")).collect();
    let pages = names.iter().map(String::as_str).zip(PAGES);
    let files: Vec<(&str, &str)> = pages.chain(FILES).chain([(".htaccess", RULES)]).collect();
    let requests: Vec<String> =
        names.iter().map(|name| format!("GET /{name}?a=%3Cb%3E\nX-Set: <given>")).collect();
    agree_on(site(&files), &["include"], &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

/// As in Apache, ten pages are included inside of each other.
#[test]
fn pages_that_include_themselves() {
    let files = [
        (".htaccess", "Options +Includes\nAddType text/html .shtml\nAddOutputFilter INCLUDES .shtml\n"),
        ("once.shtml", "a<!--#include file=\"once.shtml\" -->b"),
        ("twice.shtml", "a<!--#include file=\"twice.shtml\" -->b<!--#include virtual=\"/twice.shtml\" -->c"),
        ("one.shtml", "x<!--#include file=\"two.shtml\" -->y"),
        ("two.shtml", "(<!--#include file=\"one.shtml\" --><!--#fsize file=\"one.shtml\" -->)"),
        (
            "query.shtml",
            "[<!--#if expr='v(\"QUERY_STRING\") != \"b\"' --><!--#include virtual=\"/query.shtml?b\" --><!--#endif -->]",
        ),
    ];
    let requests =
        ["GET /once.shtml", "GET /twice.shtml", "GET /one.shtml", "GET /query.shtml", "GET /query.shtml?b"];
    agree_on(site(&files), &["include"], &requests);
}

/// Apache does all that a page says. Here one request has an end, and the log has one line about it.
#[test]
fn a_request_includes_a_bounded_number_of_pages() {
    let sizes = "<!--#fsize file=\"top.txt\" -->\n".repeat(20_000);
    let files = [(".htaccess", RULES), ("sizes.shtml", &sizes), ("top.txt", "top\n")];
    let running = site(&files).start(Server::Fulmar);
    let answer = running.ask("GET /sizes.shtml");
    let text = answer.last().text();
    let failed = text.matches("an error occurred").count();
    assert_eq!(text.lines().count(), 20_000);
    assert!((10_000..20_000).contains(&failed), "{failed}");
    let log = running.log("error.log");
    assert!(log.lines().filter(|line| line.contains("[error]")).count() <= 2, "{log}");
    running.stop();
}

/// Where commands are done, and what happens to the head.
#[test]
fn files_with_commands() {
    let texts = [
        "Options +Includes\nAddOutputFilter INCLUDES .html\n",
        "Options +IncludesNOEXEC\nAddOutputFilter INCLUDES .html\n",
        "AddOutputFilter INCLUDES .html\n",
        "Options +Includes\n",
        "Options +Includes -Includes\nAddOutputFilter INCLUDES .html\n",
        "Options Includes FollowSymLinks\nSetOutputFilter INCLUDES\n",
        "Options +Includes\nAddHandler server-parsed .html\n",
        "Options +Includes\nAddHandler server-parsed .html\nRemoveHandler .html\n",
        "Options +Includes\nSetHandler server-parsed\n",
        "Options +Includes\nAddOutputFilterByType INCLUDES text/html\n",
        "Options +Includes\nAddOutputFilter INCLUDES .html\nRemoveOutputFilter .html\n",
        "Options +Includes\nXBitHack on\n",
        "Options +Includes\nXBitHack full\n",
        "Options +Includes\nAddOutputFilter INCLUDES .html\nSSILastModified on\n",
        "Options +Includes\nAddOutputFilter INCLUDES .html\nSSIEtag on\nSSIErrorMsg \"an error\"\n",
        "Options +Includes\nAddOutputFilter INCLUDES .html\nSSIUndefinedEcho \"nothing\"\nSSITimeFormat %Y\n",
        "Options +Includes\nAddOutputFilter INCLUDES;SUBSTITUTE .html\nSubstitute s/one/two/\n",
        "Options +Includes\n<Files a.html>\nSetOutputFilter INCLUDES\n</Files>\n",
        "Options +Includes\nAddOutputFilter INCLUDES .html\nExpiresActive On\nExpiresDefault A60\n",
    ];
    const PAGE: &str = "one <!--#echo var=\"none\" --><!--#nothing --><!--#echo var=\"DATE_GMT\" -->\
        <!--#config timefmt=\"%Y\" --><!--#echo var=\"DATE_GMT\" -->";
    let site = texts.iter().enumerate().fold(site(&[]), |site, (at, text)| {
        let page = PAGE.replace("<!--#echo var=\"DATE_GMT\" --><!--#config", "<!--#config");
        site.file(&format!("{at}/.htaccess"), text)
            .file(&format!("{at}/a.html"), &page)
            .file(&format!("{at}/b.html"), "no command")
            .file(&format!("{at}/c.txt"), &page)
    });
    let requests: Vec<String> = (0..texts.len())
        .flat_map(|at| {
            ["GET /N/a.html", "HEAD /N/a.html", "GET /N/b.html", "GET /N/c.txt", "GET /N/none.html"]
                .map(|request| request.replace('N', &at.to_string()))
        })
        .collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    agree_on(site, &["include", "substitute", "filter"], &requests);
}
