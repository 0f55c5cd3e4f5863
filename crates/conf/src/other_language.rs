//! Texts in another language in a place where nginx's is read.

use crate::apache::module_of;
use crate::catalogue;
use crate::diagnostic::Diagnostic;
use crate::source::{Sources, Span};

/// Lines that are looked at. The first directive of a file nearly always tells.
const LINES_MAX: usize = 100;

/// The error about a whole file in another language, where reading it as nginx's led to `error`; `None` for a file that
/// seems to be nginx's. The place is the first line that tells.
pub fn in_place_of_nginx(error: &Diagnostic, sources: &Sources) -> Option<Diagnostic> {
    let file = error.span?.file;
    let text = sources.text(file);
    let mut start = 0;
    for (line, number) in text.split_inclusive(|&byte| byte == b'\n').zip(1..).take(LINES_MAX) {
        match judge(line.trim_ascii(), text.get(start + line.len()..).unwrap_or_default()) {
            Verdict::Another(language) => {
                let from = start + line.len() - line.trim_ascii_start().len();
                let word = line.trim_ascii().iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
                let (start, end) = (u32::try_from(from).ok()?, u32::try_from(from + word).ok()?);
                return Some(language.diagnostic().at(Span { file, start, end, line: number }));
            }
            Verdict::Either => start += line.len(),
            Verdict::Nginx => return None,
        }
    }
    None
}

/// Whether a main file is in Apache's language, as far as its first lines tell.
pub fn is_apaches(text: &[u8]) -> bool {
    let lines = text.split(|&byte| byte == b'\n').take(LINES_MAX).map(<[u8]>::trim_ascii);
    let mut told = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    let verdict = told.find_map(|line| match judge_as_apache(line) {
        Verdict::Either => None,
        verdict => Some(verdict),
    });
    matches!(verdict, Some(Verdict::Another(Language::Apache)))
}

/// A language that is not nginx's.
enum Language {
    Apache,
    Caddyfile,
    Haproxy,
    Json,
    Yaml,
}

impl Language {
    fn diagnostic(self) -> Diagnostic {
        let (name, hint) = match self {
            Language::Apache => (
                "Apache's configuration language",
                "a main file in it can be given with -c; in nginx's language, docs/from-apache.md shows each \
                 directive as \"server\" and \"location\" blocks",
            ),
            Language::Caddyfile => (
                "the language of a Caddyfile",
                "docs/from-caddy.md shows each directive as \"server\" and \"location\" blocks",
            ),
            Language::Haproxy => (
                "HAProxy's configuration language",
                "write \"upstream\" for a backend and \"server\" for a frontend; docs/directives/upstream.md has examples",
            ),
            Language::Json => {
                ("JSON", "write \"server\" and \"location\" blocks; docs/from-caddy.md has examples")
            }
            Language::Yaml => ("YAML", "write \"server\" and \"location\" blocks; README.md has an example"),
        };
        Diagnostic::emerg(format!("this file is in {name}, and Fulmar reads nginx's here")).hint(hint)
    }
}

enum Verdict {
    Another(Language),
    Nginx,
    /// An empty line, a comment, or a directive of several languages.
    Either,
}

/// Judges a line by itself and by the text after it.
fn judge(line: &[u8], rest: &[u8]) -> Verdict {
    if line.is_empty() || line.starts_with(b"#") {
        return Verdict::Either;
    }
    if line.starts_with(b"{") {
        let mut inner = line.iter().skip(1).chain(rest).filter(|byte| !byte.is_ascii_whitespace());
        return match inner.next() {
            Some(b'"' | b'}') => Verdict::Another(Language::Json),
            _ if has_directive_of_caddy(rest) => Verdict::Another(Language::Caddyfile),
            _ => Verdict::Nginx,
        };
    }
    if is_address_of_caddy(line) && has_directive_of_caddy(rest) {
        return Verdict::Another(Language::Caddyfile);
    }
    if line == b"---" || is_key_of_yaml(line) {
        return Verdict::Another(Language::Yaml);
    }
    if is_section_of_haproxy(line) {
        return Verdict::Another(Language::Haproxy);
    }
    judge_as_apache(line)
}

/// Whether a line begins one of the sections that a configuration of HAProxy begins with.
fn is_section_of_haproxy(line: &[u8]) -> bool {
    let words: Vec<&[u8]> = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    match words[..] {
        [name] => matches!(name, b"global" | b"defaults"),
        [kind, name] => {
            matches!(kind, b"defaults" | b"frontend" | b"backend") && !name.ends_with(b";") && name != b"{"
        }
        _ => false,
    }
}

/// Whether a line begins a site of a Caddyfile: `example.org {`, `:8080`, `http://a.example, b.example {`.
fn is_address_of_caddy(line: &[u8]) -> bool {
    let Ok(line) = std::str::from_utf8(line) else { return false };
    let words = line.trim_end_matches('{').split([' ', ',']).filter(|word| !word.is_empty());
    let is_address = |word: &str| {
        let name = word.strip_prefix("https://").or(word.strip_prefix("http://")).unwrap_or(word);
        name.len() < word.len() || name.starts_with(['.', ':']) || name == "localhost" || is_name(name)
    };
    let is_whole = line.ends_with('{') || line.ends_with(',') || !line.contains(' ');
    is_whole && !line.ends_with(';') && words.clone().next().is_some() && words.into_iter().all(is_address)
}

/// Whether a word has a dot and only what a host's name and a port consist of.
fn is_name(word: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_*:".contains(&byte);
    word.contains(['.', ':']) && !word.ends_with(':') && word.bytes().all(allowed)
}

/// Whether a line of the text has a directive that Caddy has, in Caddy's shape, without a `;`.
fn has_directive_of_caddy(text: &[u8]) -> bool {
    let lines = text.split(|&byte| byte == b'\n').take(LINES_MAX).map(<[u8]>::trim_ascii);
    let is_of_caddy = |line: &[u8]| {
        let name = line.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
        OF_CADDY.iter().any(|known| known.as_bytes() == name)
    };
    lines.filter(|line| !line.ends_with(b";")).any(is_of_caddy)
}

/// Frequent directives and global options of a Caddyfile.
const OF_CADDY: [&str; 25] = [
    "acme_ca",
    "admin",
    "auto_https",
    "basic_auth",
    "basicauth",
    "email",
    "encode",
    "file_server",
    "forward_auth",
    "handle",
    "handle_errors",
    "handle_path",
    "header",
    "import",
    "log",
    "php_fastcgi",
    "redir",
    "request_body",
    "respond",
    "reverse_proxy",
    "rewrite",
    "root",
    "tls",
    "try_files",
    "uri",
];

/// Whether a line is `key:` or `key: value`.
fn is_key_of_yaml(line: &[u8]) -> bool {
    let Some(colon) = line.iter().position(|&byte| byte == b':') else { return false };
    let (key, value) = line.split_at(colon);
    let is_key =
        !key.is_empty() && key.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
    let is_value = value == b":" || value.starts_with(b": ");
    is_key && is_value && !line.ends_with(b";") && !line.ends_with(b"{")
}

fn judge_as_apache(line: &[u8]) -> Verdict {
    if line.ends_with(b";") || line.ends_with(b"{") {
        return Verdict::Nginx;
    }
    let (is_section, rest) = match line.strip_prefix(b"<") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    let Some(name) = rest.get(..length).and_then(|name| std::str::from_utf8(name).ok()) else {
        return Verdict::Nginx;
    };
    match module_of(name) {
        // nginx's names are in lower case, so "Listen" is not one of them.
        Some(_) if is_section || catalogue::entries(name).next().is_none() => {
            Verdict::Another(Language::Apache)
        }
        Some(_) => Verdict::Either,
        None => Verdict::Nginx,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_bytes;

    /// The line and the word that tell.
    fn told(text: &str) -> Option<(u32, String)> {
        let sources = parse_bytes(text.as_bytes()).sources;
        let file = sources.iter().next().unwrap().0;
        let error = Diagnostic::emerg("it cannot be read").at(Span { file, start: 0, end: 0, line: 1 });
        let span = in_place_of_nginx(&error, &sources)?.span.unwrap();
        let word = &text[usize::try_from(span.start).unwrap()..usize::try_from(span.end).unwrap()];
        Some((span.line, word.to_owned()))
    }

    #[test]
    fn configurations_of_apache_are_known_by_their_first_directive() {
        for (text, line, word) in [
            ("# a comment\n\nServerRoot \"/etc/httpd\"\nListen 80\n", 3, "ServerRoot"),
            ("Listen 80\n", 1, "Listen"),
            ("listen 80\n\t<VirtualHost *:80>\n</VirtualHost>\n", 2, "<VirtualHost"),
            ("<Directory \"/srv\">\r\n", 1, "<Directory"),
            ("LoadModule php_module modules/libphp.so\n", 1, "LoadModule"),
            ("DefaultRuntimeDir ${APACHE_RUN_DIR}\n", 1, "DefaultRuntimeDir"),
            ("  DocumentRoot /srv", 1, "DocumentRoot"),
            ("<IfModule mod_rewrite.c>\nRewriteEngine On\n", 1, "<IfModule"),
            ("RewriteEngine On\n", 1, "RewriteEngine"),
            ("Alias /icons/ \"/usr/share/apache2/icons/\"\n", 1, "Alias"),
        ] {
            assert_eq!(told(text), Some((line, word.to_owned())), "{text}");
        }
    }

    #[test]
    fn other_languages_are_known_by_their_first_lines() {
        let language = |text: &str| {
            let sources = parse_bytes(text.as_bytes()).sources;
            let file = sources.iter().next().unwrap().0;
            let error = Diagnostic::emerg("it cannot be read").at(Span { file, start: 0, end: 0, line: 1 });
            in_place_of_nginx(&error, &sources).map(|found| found.message).unwrap_or_default()
        };
        let caddy = "this file is in the language of a Caddyfile, and Fulmar reads nginx's here";
        for text in [
            "example.com {\n\troot * /var/www\n\tfile_server\n}\n",
            "# a\n{\n\temail a@example.org\n}\nexample.org {\n}\n",
            ":8080\n\nfile_server browse\n",
            "localhost\nrespond \"Hello\"\n",
            "http://a.example, b.example {\n  reverse_proxy localhost:3000\n}",
        ] {
            assert_eq!(language(text), caddy, "{text}");
        }
        let haproxy = "this file is in HAProxy's configuration language, and Fulmar reads nginx's here";
        for text in ["# a\nglobal\n  daemon\n", "defaults\n", "frontend web\n  bind :80\n", "defaults a\n"] {
            assert_eq!(language(text), haproxy, "{text}");
        }
        for text in ["---\na: 1\n", "# a\nhttp:\n  routers:\n", "version: '3'\n"] {
            assert_eq!(language(text), "this file is in YAML, and Fulmar reads nginx's here", "{text}");
        }
        for text in ["{ \"apps\": {} }", "{\n  \"apps\": {}\n}\n", "{}"] {
            assert_eq!(language(text), "this file is in JSON, and Fulmar reads nginx's here", "{text}");
        }
    }

    #[test]
    fn texts_of_nginx_are_of_no_other_language() {
        for text in [
            "",
            "listen 80\n",
            "server {\n<Directory x>\n",
            "lisen 80;\nDocumentRoot x\n",
            "return 200 '\n<Location>'",
            "<html>\n<Directory>",
            "Listen 80;\n",
            "server { }\nDocumentRoot x\n",
            "location / { }\n}\nDocumentRoot x\n",
            "{ root /srv;\n}",
            "server {\nroot /srv;\n",
            "example.org {\nroot /srv;\n}",
            "example.org http://a;\nroot *\n",
            "map $host $a {\n  :80 {\n  root\n",
            "http: {\n",
            "a: b;\n",
            "a:b\n",
            "backend {\n",
            "frontend a;\n",
            "\u{feff}ServerRoot x",
        ] {
            assert_eq!(told(text), None, "{text}");
        }
    }
}
