//! Writes a listing as a page for people, which needs nothing from elsewhere and no script.

use super::read::{Entry, Kind};
use http::escape;
use journal::{clock, readable};
use std::cmp::Ordering;

/// The `Content-Security-Policy` of the page: only its own style and its empty icon are loaded.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'self'";

/// The icon is empty, so that browsers do not ask for `/favicon.ico`.
const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n";

/// The order of the entries of each kind; directories are always first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    column: Column,
    descends: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Name,
    Size,
    Modified,
}

const COLUMNS: [Column; 3] = [Column::Name, Column::Size, Column::Modified];

impl Column {
    /// The name in the argument `sort`.
    fn name(self) -> &'static str {
        match self {
            Column::Name => "name",
            Column::Size => "size",
            Column::Modified => "modified",
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Column::Name => "Name",
            Column::Size => "Size",
            Column::Modified => "Modified",
        }
    }

    /// Whether the largest or latest entry is first when the column is chosen.
    fn descends_first(self) -> bool {
        self != Column::Name
    }
}

impl Order {
    /// The order that the arguments `sort` (`name`, `size`, `modified`) and `order` (`asc`, `desc`) ask for. The names
    /// ascend where the arguments ask for nothing that is known.
    pub(super) fn from_args(args: &[u8]) -> Order {
        let value = |name: &[u8]| {
            let mut pairs = args.split(|&byte| byte == b'&');
            pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="))
        };
        let named = COLUMNS.into_iter().find(|column| value(b"sort") == Some(column.name().as_bytes()));
        let column = named.unwrap_or(Column::Name);
        let descends = match value(b"order") {
            Some(b"asc") => false,
            Some(b"desc") => true,
            _ => column.descends_first(),
        };
        Order { column, descends }
    }

    fn compare(self, a: &Row<'_>, b: &Row<'_>) -> Ordering {
        let is_after = |row: &Row<'_>| row.entry.kind != Kind::Directory;
        let by_column = match self.column {
            Column::Name => a.key.cmp(&b.key),
            // The size of a directory is not shown.
            Column::Size if is_after(a) => a.entry.size.cmp(&b.entry.size),
            Column::Size => Ordering::Equal,
            Column::Modified => a.entry.modified.cmp(&b.entry.modified),
        };
        let by_column = if self.descends { by_column.reverse() } else { by_column };
        let by_name = || a.key.cmp(&b.key).then_with(|| a.entry.name.cmp(&b.entry.name));
        is_after(a).cmp(&is_after(b)).then(by_column).then_with(by_name)
    }

    /// The link in a column's heading: it chooses the column, or turns its order around.
    fn heading(self, column: Column) -> String {
        let is_current = self.column == column;
        let descends = if is_current { !self.descends } else { column.descends_first() };
        let (aria, arrow) = match (is_current, self.descends) {
            (false, _) => ("", ""),
            (true, false) => (" aria-sort=\"ascending\"", " ↑"),
            (true, true) => (" aria-sort=\"descending\"", " ↓"),
        };
        let (name, order) = (column.name(), if descends { "desc" } else { "asc" });
        let text = column.heading();
        format!("<th scope=\"col\"{aria}><a href=\"?sort={name}&amp;order={order}\">{text}</a>{arrow}</th>")
    }
}

/// An entry, and what its name is compared by: lower and upper case are the same.
struct Row<'a> {
    key: String,
    entry: &'a Entry,
}

/// The page. `uri` is the decoded path, which ends with a slash.
pub(super) fn page(uri: &[u8], entries: &[&Entry], order: Order, localtime: bool) -> Vec<u8> {
    let mut out =
        format!("{HEAD}<style>\n{}</style>\n<title>Index of ", include_str!("page.css")).into_bytes();
    escape::html(uri, &mut out);
    out.extend_from_slice(b"</title>\n</head>\n<body>\n");
    heading(uri, &mut out);
    out.extend_from_slice(b"<table>\n<thead><tr>");
    for column in COLUMNS {
        out.extend_from_slice(order.heading(column).as_bytes());
    }
    out.extend_from_slice(b"</tr></thead>\n<tbody>\n");
    if uri != b"/" {
        let parent = "<tr><td class=\"directory\"><a href=\"../\">../</a></td><td></td><td></td></tr>\n";
        out.extend_from_slice(parent.as_bytes());
    }
    let key = |entry: &Entry| String::from_utf8_lossy(&entry.name).to_lowercase();
    let mut rows: Vec<Row<'_>> = entries.iter().map(|entry| Row { key: key(entry), entry }).collect();
    rows.sort_unstable_by(|a, b| order.compare(a, b));
    for Row { entry, .. } in &rows {
        row(entry, localtime, &mut out);
    }
    out.extend_from_slice(
        format!("</tbody>\n</table>\n<p>{}</p>\n</body>\n</html>\n", sum(entries)).as_bytes(),
    );
    out
}

/// The path, each part of which is a link to its directory. The links are relative, because the client may know the
/// directory by another path.
fn heading(uri: &[u8], out: &mut Vec<u8>) {
    let parts: Vec<&[u8]> = uri.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).collect();
    let climb = |steps: usize| if steps == 0 { "./".to_owned() } else { "../".repeat(steps) };
    out.extend_from_slice(format!("<h1><a href=\"{}\">/</a>", climb(parts.len())).as_bytes());
    for (index, part) in parts.iter().enumerate() {
        let steps = parts.len() - 1 - index;
        out.extend_from_slice(format!("<wbr><a href=\"{}\">", climb(steps)).as_bytes());
        escape::html(part, out);
        out.extend_from_slice(b"/</a>");
    }
    out.extend_from_slice(b"</h1>\n");
}

fn row(entry: &Entry, localtime: bool, out: &mut Vec<u8>) {
    let (class, slash) = match entry.kind {
        Kind::Directory => (" class=\"directory\"", "/"),
        Kind::File | Kind::Other => ("", ""),
    };
    out.extend_from_slice(format!("<tr><td{class}><a href=\"").as_bytes());
    escape::component(&entry.name, out);
    out.extend_from_slice(format!("{slash}\">").as_bytes());
    escape::html(&entry.name, out);
    let size = match entry.kind {
        Kind::File => readable::size(entry.size),
        Kind::Directory | Kind::Other => "–".to_owned(),
    };
    let format = |local, pattern| clock::format(entry.modified, local, pattern);
    let (exact, day, minute) =
        (format(false, "%Y-%m-%dT%H:%M:%SZ"), format(localtime, "%Y-%m-%d"), format(localtime, "%H:%M"));
    let end = format!(
        "{slash}</a></td><td>{size}</td><td><time datetime=\"{exact}\">{day}<span> {minute}</span></time></td></tr>\n"
    );
    out.extend_from_slice(end.as_bytes());
}

/// What the directory has in all.
fn sum(entries: &[&Entry]) -> String {
    if entries.is_empty() {
        return "This directory is empty.".to_owned();
    }
    let directories = entries.iter().filter(|entry| entry.kind == Kind::Directory).count();
    let files: Vec<u64> =
        entries.iter().filter(|entry| entry.kind == Kind::File).map(|entry| entry.size).collect();
    let several = |count: usize, one: &str, more: &str| {
        let number = readable::count(u64::try_from(count).unwrap_or(u64::MAX));
        format!("{number} {}", if count == 1 { one } else { more })
    };
    let directories = several(directories, "directory", "directories");
    let bytes = readable::size(files.iter().fold(0, |sum, size| sum.saturating_add(*size)));
    format!("{directories}, {} ({bytes})", several(files.len(), "file", "files"))
}

#[cfg(test)]
mod tests {
    use super::{Entry, Kind, Order, page};

    fn entry(name: &str, kind: Kind, modified: i64, size: u64) -> Entry {
        Entry { name: name.as_bytes().into(), kind, modified, modified_ns: 0, size, is_link: false }
    }

    fn shown(uri: &str, entries: &[Entry], args: &str) -> String {
        let entries: Vec<&Entry> = entries.iter().collect();
        String::from_utf8(page(uri.as_bytes(), &entries, Order::from_args(args.as_bytes()), false)).unwrap()
    }

    /// The names in the order of the page.
    fn names(args: &str) -> Vec<String> {
        let entries = [
            entry("b.txt", Kind::File, 3, 10),
            entry("A.txt", Kind::File, 1, 30),
            entry("c.txt", Kind::File, 2, 20),
            entry("Z", Kind::Directory, 5, 1),
            entry("y", Kind::Directory, 6, 2),
        ];
        let page = shown("/", &entries, args);
        let rows = page.split("<tbody>").nth(1).unwrap().lines().filter(|line| line.starts_with("<tr>"));
        let name = |row: &str| row.split("href=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        rows.map(name).collect()
    }

    #[test]
    fn directories_are_first_in_every_order() {
        assert_eq!(names(""), ["y/", "Z/", "A.txt", "b.txt", "c.txt"]);
        assert_eq!(names("sort=none&order=x"), names(""));
        assert_eq!(names("sort=name&order=desc"), ["Z/", "y/", "c.txt", "b.txt", "A.txt"]);
        assert_eq!(names("sort=size"), ["y/", "Z/", "A.txt", "c.txt", "b.txt"]);
        assert_eq!(names("sort=size&order=asc"), ["y/", "Z/", "b.txt", "c.txt", "A.txt"]);
        assert_eq!(names("x&sort=modified"), ["y/", "Z/", "b.txt", "c.txt", "A.txt"]);
        assert_eq!(names("order=asc&sort=modified"), ["Z/", "y/", "A.txt", "c.txt", "b.txt"]);
    }

    #[test]
    fn headings_turn_the_order_around() {
        let page = shown("/", &[], "sort=size");
        let heading =
            "<th scope=\"col\" aria-sort=\"descending\"><a href=\"?sort=size&amp;order=asc\">Size</a> ↓</th>";
        assert!(page.contains(heading), "{page}");
        assert!(
            page.contains("<th scope=\"col\"><a href=\"?sort=name&amp;order=asc\">Name</a></th>"),
            "{page}"
        );
        assert_eq!(page.matches("aria-sort").count(), 1);
    }

    #[test]
    fn only_directories_below_the_root_have_a_parent() {
        assert!(!shown("/", &[], "").contains("../"));
        let page = shown("/a/b/", &[], "");
        assert!(page.contains("<a href=\"../\">../</a>"), "{page}");
        let path = "<h1><a href=\"../../\">/</a><wbr><a href=\"../\">a/</a><wbr><a href=\"./\">b/</a></h1>";
        assert!(page.contains(path) && page.contains("<title>Index of /a/b/</title>"), "{page}");
        assert!(page.contains("This directory is empty."), "{page}");
    }

    #[test]
    fn names_are_escaped_wherever_they_are() {
        for name in [
            "<script>alert(1)</script>",
            "\"onclick=\"alert(1)",
            "javascript:alert(1)",
            "a&amp;b?c#d%2F",
            "'",
        ] {
            let page = shown(&format!("/{name}/"), &[entry(name, Kind::File, 0, 1)], "");
            let body = page.split("</style>").nth(1).unwrap();
            assert!(!body.contains("<script") && !body.contains("\"onclick"), "{body}");
            let link = body.split("<tbody>").nth(1).unwrap().split("href=\"").nth(2).unwrap();
            let link = link.split('"').next().unwrap();
            let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"%-._~".contains(&byte);
            assert!(!link.is_empty() && link.bytes().all(is_safe), "{link}");
            assert!(!body.contains("&b") && (!name.contains('&') || body.contains("a&amp;amp;b")), "{body}");
        }
        let bytes = Entry {
            name: b"\xff<".as_slice().into(),
            kind: Kind::File,
            modified: 0,
            modified_ns: 0,
            size: 0,
            is_link: false,
        };
        let page = page(b"/", &[&bytes], Order::from_args(b""), false);
        let link = b"<a href=\"%FF%3C\">\xff&lt;</a>";
        assert!(page.windows(link.len()).any(|window| window == link));
    }

    #[test]
    fn sizes_and_times_are_for_people() {
        let entries = [entry("f", Kind::File, 86_399, 1_450_000), entry("d", Kind::Directory, 0, 4096)];
        let page = shown("/", &entries, "");
        let row = "<td>1.4 MB</td><td><time datetime=\"1970-01-01T23:59:59Z\">1970-01-01<span> 23:59</span></time></td>";
        assert!(page.contains(row) && page.contains("<td>–</td>"), "{page}");
        assert!(page.contains("<p>1 directory, 1 file (1.4 MB)</p>"), "{page}");
        let many = [entry("f", Kind::File, 0, 1), entry("g", Kind::File, 0, 2)];
        assert!(shown("/", &many, "").contains("<p>0 directories, 2 files (3 B)</p>"));
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = shown("/a/", &[entry("f", Kind::File, 0, 1)], "");
        assert!(!page.contains("<script") && !page.contains("//") && !page.contains("url("), "{page}");
        assert!(page.contains("prefers-color-scheme: dark") && page.contains("name=\"viewport\""));
    }
}
