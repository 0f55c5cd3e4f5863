//! The page of one feature.

use conf::Contexts;
use conf::apache::Classes;

use super::prose;

/// What a page says of a feature.
#[derive(Debug, Default)]
pub(super) struct Feature {
    pub(super) name: String,
    /// The source that the prose comes from, relative to the root.
    pub(super) source: String,
    /// Markdown.
    pub(super) prose: String,
    pub(super) directives: Vec<Directive>,
    /// Names without `$`; those of families end in `…`.
    pub(super) variables: Vec<String>,
}

/// A row of the table of directives.
#[derive(Debug, Default)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) contexts: Contexts,
    /// What `htaccess_override` has to allow in `.htaccess` files.
    pub(super) classes: Option<Classes>,
    /// As it would be written; empty where there is none.
    pub(super) default: String,
    pub(super) inheritance: String,
    pub(super) help: String,
}

impl Feature {
    /// The file name of the page.
    pub(super) fn file(&self) -> String {
        format!("{}.md", self.name)
    }

    /// The first sentence of its prose.
    pub(super) fn summary(&self) -> String {
        prose::summary(&self.prose)
    }

    /// The whole page.
    pub(super) fn render(&self) -> String {
        let mut out = format!("# {}\n\n{}\n\n{}\n", self.name, notice(&self.source), self.prose);
        if !self.directives.is_empty() {
            out.push_str("\n## Directives\n\n");
            out.push_str("| directive | arguments | context | default | inherited | what it does |\n");
            out.push_str("|---|---|---|---|---|---|\n");
        }
        for directive in &self.directives {
            let default = code_or_dash(&directive.default);
            let classes = directive.classes.map(|classes| format!(" ({classes})")).unwrap_or_default();
            let cells = [
                &code(&directive.name),
                &directive.arguments,
                &(places(directive.contexts) + &classes),
                &default,
                &directive.inheritance,
                &directive.help,
            ];
            out.push_str(&row(&cells.map(String::as_str)));
        }
        if !self.variables.is_empty() {
            out.push_str("\n## Variables\n\n");
        }
        for variable in &self.variables {
            out.push_str(&format!("- `${variable}`\n"));
        }
        out
    }
}

/// The comment that keeps people from editing a page.
pub(super) fn notice(source: &str) -> String {
    format!("<!-- Written by `cargo xtask docs` from {source}: edit that. -->")
}

/// A row of a table; what would end a cell is escaped.
pub(super) fn row(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// The contexts in words.
pub(super) fn places(contexts: Contexts) -> String {
    if contexts == Contexts::ANY { "anywhere".into() } else { contexts.to_string() }
}

/// Text in backticks.
pub(super) fn code(text: &str) -> String {
    format!("`{text}`")
}

fn code_or_dash(text: &str) -> String {
    if text.is_empty() { "–".into() } else { code(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_prose_a_table_and_variables() {
        let feature = Feature {
            name: "index".into(),
            source: "crates/modules/src/files/index.rs".into(),
            prose: "Serves a file for a folder.".into(),
            directives: vec![Directive {
                name: "index".into(),
                arguments: "1 or more".into(),
                contexts: Contexts::HTTP.or(Contexts::SERVER),
                default: "index.html".into(),
                inheritance: "list".into(),
                help: "Names to try | in order.".into(),
                classes: None,
            }],
            variables: vec!["uri".into(), "arg_…".into()],
        };
        let expected = "\
# index

<!-- Written by `cargo xtask docs` from crates/modules/src/files/index.rs: edit that. -->

Serves a file for a folder.

## Directives

| directive | arguments | context | default | inherited | what it does |
|---|---|---|---|---|---|
| `index` | 1 or more | http, server | `index.html` | list | Names to try \\| in order. |

## Variables

- `$uri`
- `$arg_…`
";
        assert_eq!(feature.render(), expected);
    }

    #[test]
    fn directives_of_htaccess_files_have_classes() {
        let classes = Some(Classes::AUTH_CONFIG.or(Classes::LIMIT));
        let directive = Directive { contexts: Contexts::HTACCESS, classes, ..Directive::default() };
        let page = Feature { directives: vec![directive], ..Feature::default() }.render();
        assert!(page.contains("| .htaccess (AuthConfig or Limit) |"), "{page}");
    }

    #[test]
    fn everywhere_is_one_word() {
        assert_eq!(places(Contexts::ANY), "anywhere");
        assert_eq!(places(Contexts::HTTP.or(Contexts::SERVER)), "http, server");
    }

    #[test]
    fn what_a_feature_lacks_is_not_mentioned() {
        let page = Feature { name: "a".into(), prose: "A.".into(), ..Feature::default() }.render();
        assert!(!page.contains("##"));
        assert!(page.ends_with("A.\n"));
    }
}
