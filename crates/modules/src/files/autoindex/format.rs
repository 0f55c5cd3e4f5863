//! Writes listings.

use super::read::{Entry, Kind};
use http::escape;
use journal::clock::{self, Time};

/// How an HTML listing shows sizes and times.
#[derive(Clone, Copy)]
pub(super) struct Style {
    pub(super) exact_size: bool,
    pub(super) localtime: bool,
    /// Whether names are read as UTF-8, so that characters count and not bytes.
    pub(super) utf8: bool,
}

/// The width of the column of names, in bytes, or in characters of UTF-8.
const NAME_WIDTH: usize = 50;

/// A page.
pub(super) fn html(uri: &[u8], entries: &[&Entry], style: Style) -> Vec<u8> {
    let mut out = b"<html>\r\n<head><title>Index of ".to_vec();
    escape::html(uri, &mut out);
    out.extend_from_slice(b"</title></head>\r\n<body>\r\n<h1>Index of ");
    escape::html(uri, &mut out);
    out.extend_from_slice(b"</h1><hr><pre><a href=\"../\">../</a>\r\n");
    let offset = if style.localtime { offset_seconds() } else { 0 };
    for entry in entries {
        link(entry, style.utf8, &mut out);
        let time = clock::format(entry.modified.saturating_add(offset), false, "%d-%b-%Y %H:%M");
        let size = match (entry.kind, style.exact_size) {
            (Kind::Directory, true) => format!("{:>19}", "-"),
            (Kind::Directory, false) => format!("{:>7}", "-"),
            (_, true) => format!("{:>19}", entry.size),
            (_, false) => rounded(entry.size),
        };
        out.extend_from_slice(format!(" {time} {size}\r\n").as_bytes());
    }
    out.extend_from_slice(b"</pre><hr></body>\r\n</html>\r\n");
    out
}

/// A JSON array.
pub(super) fn json(entries: &[&Entry]) -> Vec<u8> {
    let mut out = b"[".to_vec();
    for (index, entry) in entries.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"\r\n{ \"name\":\"" } else { b",\r\n{ \"name\":\"" });
        escape::json(&entry.name, &mut out);
        let (kind, modified) = (entry.kind.name(), http::format_date(entry.modified));
        out.extend_from_slice(format!("\", \"type\":\"{kind}\", \"mtime\":\"{modified}\"").as_bytes());
        if entry.kind == Kind::File {
            out.extend_from_slice(format!(", \"size\":{}", entry.size).as_bytes());
        }
        out.extend_from_slice(b" }");
    }
    out.extend_from_slice(b"\r\n]");
    out
}

/// A call of a JavaScript function with a JSON array. The comment in front keeps the name from being
/// taken for the start of another kind of file.
pub(super) fn jsonp(callback: &[u8], entries: &[&Entry]) -> Vec<u8> {
    [b"/* callback */\r\n", callback, b"(", &json(entries), b");"].concat()
}

/// An XML document.
pub(super) fn xml(entries: &[&Entry]) -> Vec<u8> {
    let mut out = b"<?xml version=\"1.0\"?>\r\n<list>\r\n".to_vec();
    for entry in entries {
        let kind = entry.kind.name();
        let modified = clock::format(entry.modified, false, "%Y-%m-%dT%H:%M:%SZ");
        out.extend_from_slice(format!("<{kind} mtime=\"{modified}\"").as_bytes());
        if entry.kind == Kind::File {
            out.extend_from_slice(format!(" size=\"{}\"", entry.size).as_bytes());
        }
        out.push(b'>');
        escape::html(&entry.name, &mut out);
        out.extend_from_slice(format!("</{kind}>\r\n").as_bytes());
    }
    out.extend_from_slice(b"</list>\r\n");
    out
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Directory => "directory",
            Kind::File => "file",
            Kind::Other => "other",
        }
    }
}

/// The link and the spaces that fill its column. A name that is too wide ends in two dots.
fn link(entry: &Entry, utf8: bool, out: &mut Vec<u8>) {
    let slash: &[u8] = if entry.kind == Kind::Directory { b"/" } else { b"" };
    out.extend_from_slice(b"<a href=\"");
    escape::component(&entry.name, out);
    out.extend_from_slice(slash);
    out.extend_from_slice(b"\">");
    let text = std::str::from_utf8(&entry.name).ok().filter(|_| utf8);
    let mut width = text.map_or(entry.name.len(), |text| text.chars().count());
    if width > NAME_WIDTH {
        const CUT: usize = NAME_WIDTH - 3;
        let cut = text.and_then(|text| text.char_indices().nth(CUT)).map_or(CUT, |(at, _)| at);
        escape::html(&entry.name[..cut], out);
        out.extend_from_slice(b"..&gt;</a>");
        return;
    }
    escape::html(&entry.name, out);
    if width < NAME_WIDTH {
        out.extend_from_slice(slash);
        width += slash.len();
    }
    out.extend_from_slice(b"</a>");
    out.resize(out.len() + NAME_WIDTH - width, b' ');
}

fn rounded(size: u64) -> String {
    let (unit, letter) = match size {
        0..=9999 => return format!(" {size:>6}"),
        10_000..=1_048_575 => (1 << 10, 'K'),
        1_048_576..=1_073_741_823 => (1 << 20, 'M'),
        _ => (1 << 30, 'G'),
    };
    let count = size / unit + u64::from(size % unit >= unit / 2);
    format!("{count:>6}{letter}")
}

/// How far local time is ahead now.
fn offset_seconds() -> i64 {
    let zone = clock::format(Time::now().seconds, true, "%z");
    let Ok(number) = zone.parse::<i64>() else { return 0 };
    (number / 100) * 3600 + (number % 100) * 60
}

#[cfg(test)]
mod tests {
    use super::{Entry, Kind, link, rounded};

    #[test]
    fn sizes_round_to_the_nearest() {
        assert_eq!(rounded(9999), "   9999");
        assert_eq!(rounded(10_000), "    10K");
        assert_eq!(rounded(10_752), "    11K");
        assert_eq!(rounded(1_048_575), "  1024K");
        assert_eq!(rounded(1_572_864), "     2M");
        assert_eq!(rounded(1_610_612_736), "     2G");
    }

    #[test]
    fn wide_names() {
        let shown = |length: usize, kind| {
            let name = vec![b'a'; length].into();
            let mut out = Vec::new();
            link(
                &Entry { name, kind, modified: 0, modified_ns: 0, size: 0, is_link: false },
                false,
                &mut out,
            );
            String::from_utf8(out).unwrap().rsplit_once("\">").unwrap().1.to_owned()
        };
        let wide = |count: usize, utf8| {
            let name = "é".repeat(count).into_bytes().into();
            let mut out = Vec::new();
            link(
                &Entry { name, kind: Kind::File, modified: 0, modified_ns: 0, size: 0, is_link: false },
                utf8,
                &mut out,
            );
            String::from_utf8_lossy(&out).rsplit_once("\">").unwrap().1.to_owned()
        };
        assert_eq!(wide(48, true), format!("{}</a>  ", "é".repeat(48)));
        assert_eq!(wide(51, true), format!("{}..&gt;</a>", "é".repeat(47)));
        assert_eq!(wide(26, false), format!("{}\u{fffd}..&gt;</a>", "é".repeat(23)));
        assert_eq!(shown(51, Kind::File), format!("{}..&gt;</a>", "a".repeat(47)));
        assert_eq!(shown(50, Kind::Directory), format!("{}</a>", "a".repeat(50)));
        assert_eq!(shown(49, Kind::Directory), format!("{}/</a>", "a".repeat(49)));
        assert_eq!(shown(48, Kind::File), format!("{}</a>  ", "a".repeat(48)));
    }
}
