//! Texts in Apache's language in a place where nginx's is read.

use crate::apache::module_of;
use crate::catalogue;
use crate::diagnostic::Diagnostic;
use crate::source::{Sources, Span};

/// Lines that are looked at. The first directive of a file nearly always tells.
const LINES_MAX: usize = 100;

/// The error about a whole file in Apache's language, where reading it as nginx's led to `error`; `None` for a file that
/// seems to be nginx's. The place is the first line that tells.
pub fn in_place_of_nginx(error: &Diagnostic, sources: &Sources) -> Option<Diagnostic> {
    let file = error.span?.file;
    let mut start = 0;
    for (line, number) in sources.text(file).split_inclusive(|&byte| byte == b'\n').zip(1..).take(LINES_MAX) {
        let text = line.trim_ascii();
        let indentation = line.len() - line.trim_ascii_start().len();
        match judge(text) {
            Verdict::Apache => {
                let word = text.iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
                let (from, to) = (start + indentation, start + indentation + word);
                let (start, end) = (u32::try_from(from).ok()?, u32::try_from(to).ok()?);
                return Some(diagnostic().at(Span { file, start, end, line: number }));
            }
            Verdict::Either => start += line.len(),
            Verdict::Other => return None,
        }
    }
    None
}

fn diagnostic() -> Diagnostic {
    Diagnostic::emerg("this file is in Apache's configuration language, and Fulmar reads nginx's here").hint(
        "write what the site needs as \"server\" and \"location\" blocks; .htaccess files are read as they are, in \
         directories of a site with \"htaccess on\"",
    )
}

enum Verdict {
    Apache,
    Other,
    /// An empty line, a comment, or a directive of both.
    Either,
}

fn judge(line: &[u8]) -> Verdict {
    if line.is_empty() || line.starts_with(b"#") {
        return Verdict::Either;
    }
    if line.ends_with(b";") || line.ends_with(b"{") {
        return Verdict::Other;
    }
    let (is_section, rest) = match line.strip_prefix(b"<") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    let Some(name) = rest.get(..length).and_then(|name| std::str::from_utf8(name).ok()) else {
        return Verdict::Other;
    };
    match module_of(name) {
        // nginx's names are in lower case, so "Listen" is not one of them.
        Some(_) if is_section || catalogue::entries(name).next().is_none() => Verdict::Apache,
        Some(_) => Verdict::Either,
        None => Verdict::Other,
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
    fn texts_of_nginx_are_none_of_apache() {
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
            "\u{feff}ServerRoot x",
        ] {
            assert_eq!(told(text), None, "{text}");
        }
    }
}
