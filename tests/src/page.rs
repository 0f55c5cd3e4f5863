//! Pages of the manual that are written by hand: their fenced blocks, and the files that the blocks need.
//!
//! A comment of HTML, which readers do not see, supplies what a block needs:
//!
//! - `<!-- file PATH`: the content of a file for the blocks that follow, up to `-->`. The path is absolute, or below
//!   `/srv`;
//! - `<!-- file PATH is the next block -->`: the same, and readers see the content;
//! - `<!-- http`: directives of `http {}` that the configurations of the page are loaded with.

use std::path::Path;

/// A fenced block of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The number of its first line, from 1.
    pub line: usize,
    /// The word after the fence; empty if there is none.
    pub kind: String,
    /// Its lines.
    pub content: String,
}

/// What a page holds for tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The blocks in their order.
    pub blocks: Vec<Block>,
    /// The line, the path and the content of each file.
    pub files: Vec<(usize, String, String)>,
    /// Directives around the configurations.
    pub http: String,
}

/// Directories of a real machine, which a test replaces with directories below its own.
const DIRECTORIES: [&str; 6] = ["/srv/", "/etc/", "/var/", "/run/", "/usr/share/", "/home/"];

/// The end of a comment that names the file whose content the next block is.
const NEXT: &str = " is the next block -->";

/// Reads a page.
///
/// # Errors
///
/// A message if a block or a comment is not closed.
pub fn parse(text: &str) -> Result<Page, String> {
    let mut page = Page::default();
    let mut lines = text.lines().enumerate();
    // The path of the file that the next block is.
    let mut next = None;
    while let Some((at, line)) = lines.next() {
        if let Some(path) = line.strip_prefix("<!-- file ").and_then(|rest| rest.strip_suffix(NEXT)) {
            next = Some(path);
            continue;
        }
        let (kind, end) = match (line.strip_prefix("```"), line.strip_prefix("<!-- ")) {
            (Some(kind), _) => (kind, "```"),
            (None, Some(kind)) if kind.starts_with("file ") || kind == "http" => (kind, "-->"),
            _ => continue,
        };
        let mut content = String::new();
        loop {
            let (_, line) = lines.next().ok_or_else(|| format!("line {}: not closed", at + 1))?;
            if line.trim_end() == end {
                break;
            }
            content.push_str(line);
            content.push('\n');
        }
        let is_block = end == "```";
        if let Some(path) = kind.strip_prefix("file ").or_else(|| next.take_if(|_| is_block)) {
            page.files.push((at + 1, Path::new("/srv").join(path).display().to_string(), content.clone()));
        }
        if is_block {
            page.blocks.push(Block { line: at + 1, kind: kind.trim().to_owned(), content });
        } else if kind == "http" {
            page.http.push_str(&content);
        }
    }
    Ok(page)
}

/// Replaces the directories of a real machine with those below `root`.
pub fn move_below(root: &str, text: &str) -> String {
    let mut moved = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let (before, after) = rest.split_at(at);
        moved.push_str(before);
        let is_start = !moved.ends_with(|c: char| c.is_alphanumeric() || "._-/}*~$>)".contains(c));
        if is_start && DIRECTORIES.iter().any(|directory| after.starts_with(directory)) {
            moved.push_str(root);
        }
        moved.push('/');
        rest = &after[1..];
    }
    moved + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_files() {
        let page = parse(
            "# a\n\n```nginx\nserver {}\n```\n\n<!-- file a.conf\nb;\n-->\n<!-- http\nc;\n-->\n<!-- d -->\n",
        );
        let block = Block { line: 3, kind: "nginx".to_owned(), content: "server {}\n".to_owned() };
        let files = vec![(7, "/srv/a.conf".to_owned(), "b;\n".to_owned())];
        assert_eq!(page, Ok(Page { blocks: vec![block], files, http: "c;\n".to_owned() }));
        assert!(parse("```\na\n").is_err());
        let page =
            parse("<!-- file a is the next block -->\n\n```nginx\nb;\n```\n```nginx\nc;\n```\n").unwrap();
        assert_eq!(page.files, [(3, "/srv/a".to_owned(), "b;\n".to_owned())]);
        assert_eq!(page.blocks.len(), 2);
    }

    #[test]
    fn only_whole_paths_move() {
        assert_eq!(
            move_below("/t", "root /srv/a; unix:/run/b x/srv/c $d/etc/e"),
            "root /t/srv/a; unix:/t/run/b x/srv/c $d/etc/e"
        );
        assert_eq!(
            move_below("/t", "http://a.example/etc/ /usr/sbin/x '/var/log/y'"),
            "http://a.example/etc/ /usr/sbin/x '/t/var/log/y'"
        );
    }
}
