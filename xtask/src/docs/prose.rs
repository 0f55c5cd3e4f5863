//! The `//!` lines of a source file as Markdown for readers who see no source.

/// The prose at the top of a source file. Headings go one level down, `file`, `conf` and `http`
/// blocks become blocks that a browser shows well, links into the code become plain names.
pub(super) fn of(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let mut text = String::new();
    let mut in_fence = false;
    for line in lines.map(|line| line.strip_prefix(' ').unwrap_or(line)) {
        if let Some(info) = line.strip_prefix("```") {
            in_fence = !in_fence;
            text.push_str(&if in_fence { opening(info) } else { line.to_string() });
        } else if in_fence {
            text.push_str(line);
        } else if line.starts_with('#') {
            text.push('#');
            text.push_str(line);
        } else {
            text.push_str(&without_code_links(&about_nginx(line)));
        }
        text.push('\n');
    }
    text.trim().to_string()
}

/// The first sentence, on one line.
pub(super) fn summary(prose: &str) -> String {
    let paragraph: Vec<&str> = prose.lines().take_while(|line| !line.trim().is_empty()).collect();
    let paragraph = paragraph.join(" ");
    paragraph.split_once(". ").map_or(paragraph.clone(), |(first, _)| format!("{first}."))
}

fn opening(info: &str) -> String {
    match info.split_once(' ').unwrap_or((info, "")) {
        ("conf", _) => "```nginx".into(),
        ("file", name) => format!("The file `{}`:\n\n```text", name.trim()),
        ("answer", address) => {
            format!("An upstream server at `{}` that always sends this:\n\n```http", address.trim())
        }
        ("link", name) => format!("The file `{}`, a symbolic link to:\n\n```text", name.trim()),
        (kind, _) => format!("```{kind}"),
    }
}

/// The marks for tests (`tests::manual`) as sentences for readers.
fn about_nginx(line: &str) -> String {
    match line.split_once(": ") {
        Some(("nginx", "none")) => "nginx does not have this.".to_owned(),
        Some(("nginx", parts)) => {
            let parts: Vec<String> = parts.split(' ').map(|part| format!("`{part}`")).collect();
            format!("nginx needs {} for this.", parts.join(" and "))
        }
        Some(("differs", text)) => format!("Different from nginx: {text}"),
        _ => line.to_owned(),
    }
}

fn without_code_links(line: &str) -> String {
    let mut rest = line;
    let mut out = String::new();
    while let Some((before, inside)) = rest.split_once("[`") {
        let Some((name, after)) = inside.split_once("`]") else { break };
        let target = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        let (code_link, after) = match target {
            Some((target, after)) => (!target.contains(['/', '.', '#']), after),
            None => (true, after),
        };
        out.push_str(before);
        if code_link {
            out.push_str(&format!("`{name}`"));
        } else {
            let shown = inside.len() - after.len();
            out.push_str(&format!("[`{}", &inside[..shown]));
        }
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_doc_comment_alone() {
        assert_eq!(of("//! One.\n//!\n//! Two.\nuse a;\n//! Not this.\n"), "One.\n\nTwo.");
    }

    #[test]
    fn blocks_are_shown_as_what_they_are() {
        let source = "//! ```conf\n//! # a comment\n//! root [`x`];\n//! ```\n//! ```file a/b.html\n//! hi\n//! ```\n//! # End\n";
        assert_eq!(
            of(source),
            "```nginx\n# a comment\nroot [`x`];\n```\nThe file `a/b.html`:\n\n```text\nhi\n```\n## End"
        );
    }

    #[test]
    fn marks_for_tests_become_sentences() {
        assert_eq!(of("//! nginx: none\n"), "nginx does not have this.");
        assert_eq!(of("//! nginx: --with-a b\n"), "nginx needs `--with-a` and `b` for this.");
        assert_eq!(of("//! differs: a.\n"), "Different from nginx: a.");
    }

    #[test]
    fn headings_go_down_and_code_links_become_names() {
        assert_eq!(of("//! # More\n//! See [`Step`] and [`B`](crate::B).\n"), "## More\nSee `Step` and `B`.");
        assert_eq!(of("//! See [`root`](root.md), [`open\n"), "See [`root`](root.md), [`open");
    }

    #[test]
    fn the_summary_is_one_sentence() {
        assert_eq!(summary("Sends a file. And\nmore.\n\nText."), "Sends a file.");
        assert_eq!(summary("Sends\na file.\n\nText."), "Sends a file.");
    }
}
