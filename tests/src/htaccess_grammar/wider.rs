//! Further parts of made-up `.htaccess` files: users, error documents, header changes, media types, several forms of a
//! document, options, listings, expiry, indexes and redirects.

use std::fmt::Write;

use super::{NAME_PATTERNS, NAMES, Writer};

/// Users and groups, in the root of the documents: `alice:secret` and `bob:word`.
pub const USERS: [(&str, &str); 2] = [
    ("users", "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nbob:$apr1$abcdefgh$1E2SungQ2bYfViwLCC9XL0\n"),
    ("groups", "staff: alice\nguests: bob carol\n"),
];

/// What stands in a file for the directory of the documents.
pub const ROOT: &str = "%%ROOT%%";

pub(super) const PATHS: &[&str] = &[
    "doc",
    "doc.html",
    "doc.txt",
    "doc/",
    "arch.txt",
    "arch.txt.gz",
    "bare",
    "bare/none",
    "error.html",
    "sub/doc",
    "sub/deep",
    "none/",
    "index",
    "index.html/x",
    "b.html",
    "a.txt",
    "",
    "sub/",
    "sub/index.html",
    "a",
];
pub(super) const FIELDS: &[&str] = &[
    "\nAuthorization: Basic YWxpY2U6c2VjcmV0",
    "\nAuthorization: Basic YWxpY2U6c2VjcmV0",
    "\nAuthorization: Basic Ym9iOndvcmQ=",
    "\nAuthorization: Basic ZXZlOndyb25n",
    "\nAccept-Language: de",
    "\nAccept-Language: fr, en;q=0.5",
    "\nAccept: text/plain",
    "\nAccept: image/png",
    "\nAccept-Encoding: gzip",
    "\nX-Key: open, shut",
    "\nX-Key: open\nX-Number: 11",
    "\nRange: bytes=0-1",
    "\nIf-Modified-Since: Wed, 01 Jan 2070 00:00:00 GMT",
    "\nAuthorization: Bearer x",
    "",
];

pub(super) const VALUES: &[&str] = &[
    "%{REQUEST_FILENAME}",
    "%{SCRIPT_FILENAME}",
    "%{PATH_INFO}",
    "%{REMOTE_USER}",
    "%{AUTH_TYPE}",
    "%{HTTP_ACCEPT}",
    "%{HTTP_COOKIE}",
    "%{THE_REQUEST}",
    "%{REQUEST_SCHEME}",
    "%{HTTPS}",
    "%{IS_SUBREQ}",
    "%{REMOTE_ADDR}",
    "%{DOCUMENT_ROOT}",
    "%{REQUEST_STATUS}",
    "%{CONTENT_TYPE}",
    "%{HTTP:X-Key}",
    "%{SERVER_PROTOCOL_VERSION}",
    "%{SERVER_PROTOCOL_VERSION_MAJOR}",
    "%{resp:X-A}",
    "%{env:key}",
    "%{TIME_YEAR}",
    "unbase64('eA==')",
    "escape('a b/ü')",
    "req_novary('X-Key')",
    "'%{REQUEST_METHOD}-%{req:X-Key}'",
    "'x' . 'y' . %{HTTP:X-Number}",
    "%{tolower:ABC}",
    "%{base64:xyz}",
    "reqenv('key')",
];

/// Tests of files, and matches with wildcards.
const TESTS: &[&str] = &[
    "-f %{REQUEST_FILENAME}",
    "-d %{REQUEST_FILENAME}",
    "-e %{REQUEST_FILENAME}",
    "-s %{REQUEST_FILENAME}",
    "-L %{REQUEST_FILENAME}",
    "-f '%{DOCUMENT_ROOT}/users'",
    "-d '%{DOCUMENT_ROOT}'",
    "%{REQUEST_METHOD} -strmatch 'G*'",
    "%{REQUEST_URI} -strmatch '*/sub/*'",
    "%{REQUEST_URI} -strcmatch '*.TXT'",
    "%{REQUEST_URI} -fnmatch '/*/a.txt'",
    "%{REQUEST_URI} -fnmatch '/*'",
    "-n req('X-Key')",
    "-z %{REMOTE_USER}",
    "-T 'off'",
    "-T %{HTTPS}",
    "%{req:X-Key} =~ /(o)(p)/ && '$2' == 'p'",
    "%{req:X-Key} =~ m#^(.*)$# && $1 == 'open'",
    "%{REQUEST_URI} =~ /\\.(\\w+)$/ && $1 in {'txt','html'}",
    "! %{REQUEST_METHOD} == 'GET'",
    "!-n %{QUERY_STRING}",
    "%{REMOTE_ADDR} -ipmatch '127.0.0.0/8'",
    "not true",
    "true and %{REQUEST_METHOD} eq 'GET'",
    "%{QUERY_STRING} ge 'x' or false",
];

const FLAGS: &[&str] = &[
    "L",
    "QSA",
    "QSD",
    "NC",
    "NE",
    "R",
    "R=301",
    "R=308",
    "F",
    "G",
    "R=410",
    "R=403",
    "R=405",
    "C",
    "S=1",
    "END",
    "PT",
    "NS",
    "DPI",
    "E=key:open",
    "E=flag",
    "E=!key",
    "T=text/x-y",
    "N=3",
    "B",
    "BNP",
    "B=/",
    "QSL",
    "E=a:%{REQUEST_URI}",
    "L",
    "L",
    "L",
];

const REQUIREMENTS: &[&str] = &[
    "valid-user",
    "user alice",
    "user bob carol",
    "user none",
    "group staff",
    "group guests none",
    "not user alice",
    "not group staff",
    "not valid-user",
    "not env flag",
    "not ip 10",
    "host localhost.invalid",
    "ip 127.0.0.1 10",
    "ip 10",
    "method GET HEAD OPTIONS",
    "all granted",
    "all denied",
    "local",
    "expr %{REMOTE_USER} == 'alice'",
    "env key",
];

impl Writer {
    /// One of these parts.
    pub(super) fn wider(&mut self) -> String {
        match self.dice.below(14) {
            0 | 1 => self.users(),
            2 => self.documents(),
            3 | 4 => self.headers(),
            5 => self.types(),
            6 => self.forms(),
            7 => self.options(),
            8 => self.listing(),
            9 => self.expiry(),
            10 => self.indexes(),
            11 => self.redirects(),
            12 => self.variables(),
            _ => self.nested(),
        }
    }

    fn users(&mut self) -> String {
        let mut text = format!(
            "AuthType Basic\nAuthName members\nAuthUserFile {ROOT}/users\nAuthGroupFile {ROOT}/groups\n"
        );
        text += &self.requirements(0);
        if self.dice.below(5) == 0 {
            let _ = writeln!(text, "Satisfy {}", self.of(&["Any", "All"]));
        }
        if self.dice.below(6) == 0 {
            let _ = writeln!(text, "AuthMerging {}", self.of(&["And", "Off"]));
        }
        if self.dice.below(6) == 0 {
            text += "AuthzSendForbiddenOnFailure On\n";
        }
        text
    }

    /// Requirements in sections. A section of negated ones only is an error in Apache.
    fn requirements(&mut self, depth: usize) -> String {
        let mut text = String::new();
        let (mut positive, mut negative) = (0, 0);
        for _ in 0..1 + self.dice.below(3) {
            let requirement = loop {
                let requirement = self.of(REQUIREMENTS);
                // Fulmar looks up no names.
                if !requirement.starts_with("host") && (depth > 0 || !requirement.starts_with("not")) {
                    break requirement;
                }
            };
            let name = self.of(&["RequireAll", "RequireAny", "RequireAll"]);
            if depth < 2 && self.dice.below(4) == 0 {
                let inner = self.requirements(depth + 1);
                let inner = match name {
                    // Only all of them may have negated ones.
                    "RequireAny" => inner.replace("Require not ", "Require "),
                    _ => format!("{inner}Require all granted\n"),
                };
                let _ = writeln!(text, "<{name}>\n{inner}</{name}>");
                positive += 1;
            } else {
                let _ = writeln!(text, "Require {requirement}");
                if requirement.starts_with("not") {
                    negative += 1
                } else {
                    positive += 1
                };
            }
        }
        if negative > 0 && positive == 0 {
            text += "Require all granted\n";
        }
        text
    }

    fn documents(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..1 + self.dice.below(2) {
            let status = self.of(&["401", "403", "404", "404", "405", "410", "500", "406", "400"]);
            let target = self.of(&[
                "/SEED/error.html",
                "/SEED/error.html?of=%{REQUEST_METHOD}",
                "/SEED/none.html",
                "/SEED/sub/",
                "/SEED/sub/a.txt",
                "/SEED/sub/none",
                "/SEED/doc",
                "/SEED/sub",
                "http://example.com/error?%{REQUEST_METHOD}",
                "\"http://example.com%{REQUEST_URI}\"",
                "\"not here: %{REQUEST_METHOD}\"",
                "plain",
                "default",
                "\"\"",
            ]);
            let _ =
                writeln!(text, "ErrorDocument {status} {}", target.replace("SEED", &self.seed.to_string()));
        }
        text
    }

    fn headers(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..1 + self.dice.below(3) {
            let place = self.of(&["", "", "", "always ", "onsuccess "]);
            let action = match self.dice.below(12) {
                0 | 1 => format!("set {} {}", self.header_name(), self.header_value()),
                2 => format!("append {} {}", self.header_name(), self.header_value()),
                3 => format!("add {} {}", self.header_name(), self.header_value()),
                4 | 5 => format!("merge {} {}", self.header_name(), self.header_value()),
                6 => format!("setifempty {} {}", self.header_name(), self.header_value()),
                7 | 8 => format!("unset {}", self.header_name()),
                9 => format!(
                    "{} {} {}",
                    self.of(&["edit", "edit*"]),
                    self.header_name(),
                    self.of(&["one two", "^(.*)$ <$1>", "o 0", "[a-z] \"x\"", "(?i)TEXT \"$0!\"", "n \"\""])
                ),
                10 => format!("echo {}", self.of(&["^X-", "X-Key", "^Accept", "none"])),
                _ => {
                    let _ = writeln!(
                        text,
                        "RequestHeader {}",
                        self.of(&[
                            "set X-Key open",
                            "unset X-Key",
                            "append X-Key more",
                            "edit X-Key o 0",
                            "merge X-Key open"
                        ])
                    );
                    continue;
                }
            };
            let condition = match self.dice.below(8) {
                0 => " env=flag".to_owned(),
                1 => " env=!key".to_owned(),
                2 => format!(" \"expr={}\"", self.expression(1)),
                3 => " \"expr=%{REQUEST_STATUS} == 200\"".to_owned(),
                _ => String::new(),
            };
            let _ = writeln!(text, "Header {place}{action}{condition}");
        }
        text
    }

    fn header_name(&mut self) -> &'static str {
        self.of(&[
            "X-A",
            "X-B",
            "X-A",
            "X-C",
            "Cache-Control",
            "Content-Type",
            "Content-Language",
            "Location",
            "X-D",
        ])
    }

    fn header_value(&mut self) -> String {
        match self.dice.below(4) {
            0 => format!(
                "\"expr={}\"",
                self.of(&["%{REQUEST_URI}", "%{req:X-Key}!", "%{tolower:%{REQUEST_METHOD}}"])
            ),
            _ => self
                .of(&[
                    "one",
                    "two",
                    "\"one, two\"",
                    "\"%{flag}e\"",
                    "\"%{key}e and %%\"",
                    "\"\"",
                    "\"a\\\"b\"",
                    "ONE",
                ])
                .to_owned(),
        }
    }

    /// What extensions mean.
    fn types(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..1 + self.dice.below(4) {
            let extension = self.of(&[".txt", "html", ".de", ".gz .en", ".c .txt", "de"]);
            let _ = match self.dice.below(12) {
                0 => {
                    writeln!(text, "AddType {} {extension}", self.of(&["text/x-a", "image/png", "text/html"]))
                }
                1 => writeln!(text, "AddLanguage {} {extension}", self.of(&["de", "en-gb", "fr"])),
                2 => writeln!(text, "AddEncoding {} {extension}", self.of(&["x-gzip", "gzip", "br"])),
                3 => writeln!(text, "AddCharset {} {extension}", self.of(&["utf-8", "iso-8859-1"])),
                4 => writeln!(text, "DefaultLanguage {}", self.of(&["de", "fr"])),
                5 => writeln!(text, "RemoveType {extension}"),
                6 => writeln!(text, "RemoveLanguage {extension}"),
                7 => writeln!(text, "RemoveEncoding {extension}"),
                8 => writeln!(text, "RemoveCharset {extension}"),
                9 => writeln!(text, "AddDefaultCharset {}", self.of(&["On", "Off", "utf-8"])),
                10 => writeln!(text, "ForceType {}", self.of(&["text/x-f", "None", "image/gif"])),
                _ => writeln!(text, "ModMimeUsePathInfo {}", self.of(&["On", "Off"])),
            };
        }
        text
    }

    /// Several forms of a document.
    fn forms(&mut self) -> String {
        let mut text = "Options +MultiViews\n".to_owned();
        if self.dice.below(3) > 0 {
            text += "AddLanguage en .en\nAddLanguage de .de\n";
        }
        if self.dice.below(3) == 0 {
            text += "AddEncoding x-gzip .gz\n";
        }
        if self.dice.below(2) == 0 {
            let _ = writeln!(text, "LanguagePriority {}", self.of(&["en de", "de", "fr en"]));
        }
        if self.dice.below(2) == 0 {
            let _ = writeln!(
                text,
                "ForceLanguagePriority {}",
                self.of(&["Prefer", "Fallback", "Prefer Fallback", "None"])
            );
        }
        text + &self.types()
    }

    fn options(&mut self) -> String {
        let options = self.of(&[
            "+Indexes",
            "-Indexes",
            "Indexes FollowSymLinks",
            "+MultiViews -Indexes",
            "None",
            "All",
            "+Indexes -FollowSymLinks",
            "FollowSymLinks MultiViews",
            "-FollowSymLinks +SymLinksIfOwnerMatch",
            "-MultiViews",
        ]);
        format!("Options {options}\n")
    }

    fn listing(&mut self) -> String {
        let mut text = "Options +Indexes\nDirectoryIndex disabled\n".to_owned();
        for _ in 0..1 + self.dice.below(4) {
            text += self.of(&[
                "IndexOptions FancyIndexing\n",
                "IndexOptions FancyIndexing HTMLTable SuppressLastModified\n",
                "IndexOptions +FoldersFirst +SuppressSize\n",
                "IndexOptions NameWidth=* DescriptionWidth=* FancyIndexing\n",
                "IndexOptions FancyIndexing ShowForbidden SuppressColumnSorting\n",
                "IndexOptions -FancyIndexing\n",
                "IndexOptions IgnoreCase SuppressIcon XHTML\n",
                "IndexOptions Charset=UTF-8 Type=text/html VersionSort\n",
                "IndexIgnore *.txt\n",
                "IndexIgnore error.html ..\n",
                "IndexIgnoreReset On\n",
                "IndexOrderDefault Descending Name\n",
                "IndexOrderDefault Ascending Size\n",
                "AddDescription \"a text\" *.txt\n",
                "AddDescription other sub\n",
                "HeaderName b.html\n",
                "ReadmeName a.txt\n",
                "HeaderName none.html\n",
                "AddIcon /i.gif .txt\n",
                "DefaultIcon /d.gif\n",
                "AddAlt FILE .html\n",
                "IndexStyleSheet /s.css\n",
            ]);
        }
        text
    }

    fn expiry(&mut self) -> String {
        let mut text = format!("ExpiresActive {}\n", self.of(&["On", "On", "On", "Off"]));
        for _ in 0..1 + self.dice.below(2) {
            let time = self.of(&[
                "A3600",
                "A0",
                "\"access plus 1 hour\"",
                "\"access plus 2 weeks 3 days\"",
                "\"now plus 1 minute\"",
            ]);
            let _ = match self.dice.below(3) {
                0 => writeln!(text, "ExpiresDefault {time}"),
                _ => writeln!(
                    text,
                    "ExpiresByType {} {time}",
                    self.of(&["text/html", "text/plain", "text/x-a", "text/*"])
                ),
            };
        }
        text
    }

    fn indexes(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..1 + self.dice.below(2) {
            text += &match self.dice.below(8) {
                0..4 => format!(
                    "DirectoryIndex {}\n",
                    self.of(&[
                        "none a.txt b.html",
                        "none.html none.txt",
                        "b.html a.txt",
                        "sub/a.txt",
                        "none /SEED/b.html",
                        "sub",
                        "doc index.html",
                        "doc",
                        "none ../SEED/a.txt",
                        "disabled",
                        "index.html",
                    ])
                    .replace("SEED", &self.seed.to_string())
                ),
                4 => format!("DirectorySlash {}\n", self.of(&["On", "Off", "Off"])),
                5 => format!("DirectoryIndexRedirect {}\n", self.of(&["on", "permanent", "off", "303"])),
                6 => format!(
                    "FallbackResource {}\n",
                    self.of(&["/SEED/b.html", "/SEED/error.html", "b.html", "disabled"])
                        .replace("SEED", &self.seed.to_string())
                ),
                _ => format!("AcceptPathInfo {}\n", self.of(&["On", "Off", "Default"])),
            };
        }
        text
    }

    fn redirects(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..1 + self.dice.below(2) {
            text += &self
                .of(&[
                    "Redirect gone /SEED/q\n",
                    "Redirect 404 /SEED/a.txt\n",
                    "Redirect permanent /SEED/sub http://example.com/sub\n",
                    "Redirect 303 /SEED/one /SEED/two\n",
                    "Redirect 403 /SEED/index.html\n",
                    "Redirect /SEED/none.html http://example.com/x?y=1\n",
                    "RedirectMatch 410 \\.txt$\n",
                    "RedirectMatch 301 ^/SEED/([a-z]+)\\.html$ http://example.com/$1\n",
                    "RedirectMatch \"/(.*)/(.*)/info\" /$2?$1\n",
                    "RedirectMatch 404 none\n",
                    "RedirectPermanent /SEED/b.html http://example.com/b\n",
                    "RedirectTemp /SEED/bare/ http://example.com/bare/\n",
                    "RedirectRelative On\nRedirect /SEED/q /elsewhere\n",
                    "RedirectMatch 307 \"x y\" /spaces/$0\n",
                ])
                .replace("SEED", &self.seed.to_string());
        }
        text
    }

    fn variables(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..1 + self.dice.below(3) {
            text += self.of(&[
                "SetEnvIfNoCase X-Key OPEN flag\n",
                "SetEnvIf ^X-N \"^(\\d)\" key=$1\n",
                "SetEnvIf Remote_Addr ^127 flag=near\n",
                "SetEnvIf Request_Method GET key=get\n",
                "SetEnvIf Request_Protocol \"HTTP/1\\.1\" key flag=new\n",
                "SetEnvIf flag ^near$ key=next\n",
                "SetEnvIf Request_URI \"\\.(txt|html)$\" kind=$1 flag\n",
                "SetEnvIfExpr \"%{REQUEST_URI} =~ /\\.(txt)/\" key=$1\n",
                "BrowserMatch ^Bad !flag key\n",
                "UnsetEnv flag\n",
                "SetEnv key set\n",
                "SetEnv flag\n",
                "Header set X-K \"%{key}e %{flag}e %{kind}e\"\n",
                "Header set X-F yes env=flag\n",
            ]);
        }
        text
    }

    /// Sections in sections.
    fn nested(&mut self) -> String {
        let inner = match self.dice.below(4) {
            0 => self.users(),
            1 => self.rules(),
            _ => self.wider(),
        };
        let (open, close) = match self.dice.below(9) {
            0 | 1 => (format!("Files \"{}\"", self.of(NAMES)), "Files"),
            2 => (format!("FilesMatch \"{}\"", self.of(NAME_PATTERNS)), "FilesMatch"),
            3 | 4 => (format!("If \"{}\"", self.expression(0)), "If"),
            5 => (
                format!("IfModule {}", self.of(&["mod_rewrite.c", "headers_module", "!mod_dir.c"])),
                "IfModule",
            ),
            6 => (format!("IfVersion {}", self.of(&[">= 2.4", "< 2.4", "~ ^2\\.4"])), "IfVersion"),
            7 => (format!("Files \"{}\"", self.of(NAMES)), "Files"),
            _ => (format!("IfFile \"{ROOT}/{}\"", self.of(&["users", "none"])), "IfFile"),
        };
        // In Apache rules in such sections see paths that are none.
        let has_path = !close.starts_with("Files") && close != "If";
        let inner = if !has_path && inner.contains("Rewrite") { self.headers() } else { inner };
        let inner = match close {
            "Files" | "FilesMatch" if self.dice.below(3) == 0 => {
                format!(
                    "<If \"{}\">\n{inner}</If>\n<Else>\nHeader set X-E else\n</Else>\n",
                    self.expression(0)
                )
            }
            _ => inner,
        };
        format!("<{open}>\n{inner}</{close}>\n")
    }

    /// Flags of a rule, in combination.
    pub(super) fn flags(&mut self) -> String {
        let count = self.dice.below(4);
        let mut flags: Vec<&str> = (0..count).map(|_| self.of(FLAGS)).collect();
        // A redirect that also refuses is one without a target in Apache.
        let refuses = |flag: &&str| matches!(*flag, "F" | "G") || flag.starts_with("R=4");
        if flags.iter().any(refuses) {
            flags.retain(|flag| *flag != "R" && !flag.starts_with("R=3"));
        }
        flags.join(",")
    }

    /// A test of an expression that narrower files do not have.
    pub(super) fn test(&mut self) -> &'static str {
        self.of(TESTS)
    }
}
