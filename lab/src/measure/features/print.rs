//! The matrix as text.

use std::fmt::Write as _;

use super::{Cell, Matrix, Verdict};

impl Verdict {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Yes => "yes",
            Verdict::No => "no",
            Verdict::NotOffered => "not offered",
            Verdict::NotProbed => "not probed",
            Verdict::Value => "",
        }
    }
}

impl Matrix {
    /// For a terminal: a block a feature, a line a contender.
    pub fn terminal(&self) -> String {
        let width = self.contenders.iter().map(|column| column.name.len()).max().unwrap_or_default();
        let mut out = String::new();
        for row in &self.features {
            // Writing into a String cannot fail.
            let _ = writeln!(out, "\n{}", row.title);
            for (column, cell) in self.contenders.iter().zip(&row.cells) {
                let _ = writeln!(out, "  {:<width$}  {}", column.name, line(cell));
            }
        }
        out
    }

    /// For a Markdown page: a table, with what stands after its words below it.
    pub fn markdown(&self) -> String {
        let titles: Vec<String> =
            self.contenders.iter().map(|column| format!("{} {}", column.title, column.version)).collect();
        let mut out = format!("| | {} |\n|---|{}\n", titles.join(" | "), "---|".repeat(titles.len()));
        for row in &self.features {
            let cells: Vec<String> = row.cells.iter().map(short).collect();
            let _ = writeln!(out, "| {} | {} |", row.title, cells.join(" | "));
        }
        out.push('\n');
        for row in &self.features {
            for (column, cell) in self.contenders.iter().zip(&row.cells) {
                if matches!(cell.verdict, Verdict::No | Verdict::NotProbed | Verdict::NotOffered) {
                    let _ =
                        writeln!(out, "- {}, {}: {}", column.title, row.title, line(cell).replace('\n', " "));
                }
            }
        }
        out
    }
}

fn line(cell: &Cell) -> String {
    match (cell.verdict, cell.detail.lines().next().unwrap_or_default()) {
        (Verdict::Value, detail) => detail.to_owned(),
        (verdict, "") => verdict.word().to_owned(),
        (verdict @ (Verdict::NotProbed | Verdict::NotOffered), detail) => {
            format!("{}, because: {detail}", verdict.word())
        }
        (verdict, detail) => format!("{} ({detail})", verdict.word()),
    }
}

fn short(cell: &Cell) -> String {
    match cell.verdict {
        Verdict::Value => cell.detail.replace('|', "\\|"),
        verdict => verdict.word().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Column, Row};
    use super::*;

    #[test]
    fn every_answer_is_told_with_its_reason() {
        let cell = |verdict, detail: &str| Cell { verdict, detail: detail.into(), transcript: None };
        let column = |name: &str| Column {
            name: name.into(),
            title: name.to_uppercase(),
            version: "1".into(),
            origin: "made".into(),
        };
        let matrix = Matrix {
            contenders: vec![column("a"), column("b"), column("c")],
            features: vec![Row {
                name: "ranges".into(),
                title: "ranges".into(),
                cells: vec![
                    cell(Verdict::Yes, "status 206"),
                    cell(Verdict::NotProbed, "it did not start\nmore"),
                    cell(Verdict::Value, "C"),
                ],
            }],
        };
        assert_eq!(
            matrix.terminal(),
            "\nranges\n  a  yes (status 206)\n  b  not probed, because: it did not start\n  c  C\n"
        );
        let markdown = matrix.markdown();
        assert!(markdown.contains("| ranges | yes | not probed | C |\n"), "{markdown}");
        assert!(markdown.contains("- B, ranges: not probed, because: it did not start\n"), "{markdown}");
    }
}
