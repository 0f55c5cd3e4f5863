//! What contenders can do, where that was probed: the matrix that `fulmar-lab features` left next to the blocks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Form;
use super::document::{Badge, Group, Part, Section, Span, Table, Target, Text};
use super::evidence;
use super::format;
use crate::measure::features::{Cell, Matrix, Verdict};
use crate::model::block::Block;
use crate::model::experiment::{Experiment, Kind};
use crate::model::figure::Figure;

/// The experiment whose publication asks what servers can do.
const ASKED_BY: &str = "static-and-dynamic";
/// The feature that is measured under load, too.
const RELOAD: &str = "reload";

/// So much of a reason is shown; the whole is in the transcript.
const REASON_MAX: usize = 240;

/// The section about them; none where nothing was probed.
pub(super) fn section(
    out: &Path,
    experiments: &[Experiment],
    blocks: &[Block],
    form: Form,
) -> Option<Section> {
    let path = out.join("features/features.json");
    if !path.exists() {
        return None;
    }
    let parts = match read(&path) {
        Ok(matrix) => parts(&corrected(matrix, blocks), experiments, form),
        Err(error) => vec![Part::Note(format!("features.json cannot be read: {error:#}").into())],
    };
    Some(Section { id: "features".into(), title: "What each can do".into(), parts, group: Group::Overview })
}

fn read(path: &Path) -> Result<Matrix> {
    let text = fs::read_to_string(path)?;
    serde_json::from_str(&text).context("it is not a matrix")
}

/// What was measured under load goes before a short probe: a contender that lost requests while it reloaded does not
/// reload without loss.
fn corrected(mut matrix: Matrix, blocks: &[Block]) -> Matrix {
    let names: Vec<String> = matrix.contenders.iter().map(|column| column.name.clone()).collect();
    for row in matrix.features.iter_mut().filter(|row| row.name == RELOAD) {
        for (name, cell) in names.iter().zip(&mut row.cells) {
            let of_it =
                blocks.iter().filter(|block| block.kind == Kind::Reload && block.cell.contender == *name);
            let lost: f64 = of_it.filter_map(|block| block.figures.get(&Figure::Failed)).sum();
            if lost > 0.0 {
                cell.verdict = Verdict::No;
                cell.detail = format!("{} requests lost under load; {}", format::number(lost), cell.detail);
            }
        }
    }
    matrix
}

fn parts(matrix: &Matrix, experiments: &[Experiment], form: Form) -> Vec<Part> {
    let mut parts = vec![Part::Text(introduction(experiments, form).into()), Part::Table(answers(matrix))];
    let published = published(matrix, experiments);
    if !published.rows.is_empty() {
        parts.push(Part::Table(published));
    }
    let reasons = reasons(matrix);
    if !reasons.rows.is_empty() {
        parts.push(Part::Table(reasons));
    }
    parts
}

fn introduction(experiments: &[Experiment], form: Form) -> String {
    let asking = experiments.iter().find(|experiment| experiment.id == ASKED_BY);
    let cited = asking.and_then(|experiment| experiment.source.as_ref()).map_or_else(String::new, |source| {
        let authors = if source.authors.is_empty() { "" } else { &source.authors };
        let comma = if authors.is_empty() { "" } else { ", " };
        let (title, year) = (&source.title, source.year);
        format!(" The question is that of Quadro 1, the table of features in {authors}{comma}“{title}”, {year}; it is asked here of more servers and more features.")
    });
    let transcripts = match form {
        Form::Whole => "each answer leads to its transcript",
        Form::Brief => "the whole report has a transcript of each",
    };
    format!(
        "Each feature was tried with a small configuration; {transcripts}. “no” is said only \
         where the probe ran and failed; “not offered” is by the server's own documentation or its build.{cited}"
    )
}

/// A row a feature, a column a contender.
fn answers(matrix: &Matrix) -> Table {
    let columns = matrix.contenders.iter().map(|column| column.name.clone());
    let mut table = Table::new("Features by server", std::iter::once("Feature".to_owned()).chain(columns));
    table.row(
        std::iter::once(Text::from("version"))
            .chain(matrix.contenders.iter().map(|column| Text::from(beginning(&column.version)))),
    );
    for row in &matrix.features {
        table.row(std::iter::once(Text::from(row.title.clone())).chain(row.cells.iter().map(answer)));
    }
    table
}

/// What publications say of a feature besides what was found here.
fn published(matrix: &Matrix, experiments: &[Experiment]) -> Table {
    let columns = ["Feature", "Server", "Published", "Probed here", "What was seen"];
    let mut table = Table::new("Features, published beside probed", columns);
    for experiment in experiments {
        let rows = experiment.stated.iter().filter_map(|stated| {
            let row = matrix.features.iter().find(|row| Some(&row.name) == stated.feature.as_ref())?;
            let at = matrix.contenders.iter().position(|column| column.name == stated.contender)?;
            let cell = row.cells.get(at)?;
            let seen = if cell.verdict == Verdict::Value { String::new() } else { beginning(&cell.detail) };
            let contender = &matrix.contenders[at];
            let name = format!("{} {}", contender.name, beginning(&contender.version));
            Some([
                stated.subject.clone().into(),
                name.into(),
                stated.says.clone().into(),
                answer(cell),
                seen.into(),
            ])
        });
        let rows: Vec<[Text; 5]> = rows.collect();
        if !rows.is_empty() {
            table.group(experiment.title.clone());
            rows.into_iter().for_each(|row| table.row(row));
        }
    }
    table
}

fn answer(cell: &Cell) -> Text {
    let transcript = cell.transcript.as_ref().filter(|path| evidence::is_below(path));
    let target = transcript.map(|path| Target::File(path.clone()));
    match (badge(cell.verdict), target) {
        (Some(badge), Some(target)) => Span::BadgeLink(badge, cell.verdict.word().into(), target).into(),
        (Some(badge), None) => Span::Badge(badge, cell.verdict.word().into()).into(),
        (None, Some(target)) => Span::Link(beginning(&cell.detail), target).into(),
        (None, None) => beginning(&cell.detail).into(),
    }
}

fn badge(verdict: Verdict) -> Option<Badge> {
    match verdict {
        Verdict::Yes => Some(Badge::Yes),
        Verdict::No => Some(Badge::No),
        Verdict::NotOffered | Verdict::NotProbed => Some(Badge::Open),
        Verdict::Value => None,
    }
}

/// Why an answer is not yes, with all contenders of which the same is true in one row.
fn reasons(matrix: &Matrix) -> Table {
    let mut table = Table::new("Where the answer is not yes", ["Feature", "Answer", "Servers", "Because"]);
    for row in &matrix.features {
        let mut alike: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
        for (column, cell) in matrix.contenders.iter().zip(&row.cells) {
            if !matches!(cell.verdict, Verdict::Yes | Verdict::Value) {
                let key = (cell.verdict.word(), beginning(&cell.detail));
                alike.entry(key).or_default().push(column.name.clone());
            }
        }
        for ((word, reason), names) in alike {
            table.row([row.title.clone(), word.to_owned(), format::list(&names), reason]);
        }
    }
    table
}

/// The first line of what was said, as far as a table holds it.
fn beginning(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(REASON_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::features::{Column, Row};
    use crate::model::block::tests::block;
    use crate::show::report::document::Document;
    use crate::show::report::{fixture, html, markdown};

    fn pages(section: Section) -> [String; 2] {
        let document = Document { title: "t".into(), lead: "l".into(), sections: vec![section] };
        [html::write(&document), markdown::write(&document)]
    }

    #[test]
    fn every_answer_is_there_with_its_transcript_or_its_reason() {
        let out = tempfile::tempdir().unwrap();
        assert!(section(out.path(), &[], &[], Form::Whole).is_none(), "nothing was probed");
        fixture::lay_features(out.path());
        let [html, markdown] =
            pages(section(out.path(), &Experiment::built_in().unwrap(), &[], Form::Whole).unwrap());
        assert!(html.contains("<a class=\"badge yes\" href=\"features/nginx-ranges.txt\">"), "{html}");
        assert!(markdown.contains("[✓ yes](features/nginx-ranges.txt)"), "{markdown}");
        for page in [html, markdown] {
            assert!(page.contains("it speaks HTTP/1.1") && page.contains("not offered"), "{page}");
            assert!(page.contains("Quadro 1") && page.contains("apache-event and fulmar"), "{page}");
            assert!(page.contains("Features, published beside probed"), "{page}");
            assert!(!page.contains("etc/passwd"), "a transcript lies below the folder of results: {page}");
        }
    }

    #[test]
    fn what_is_published_of_features_names_probes() {
        let all = Experiment::built_in().unwrap();
        let named: Vec<&str> =
            all.iter().flat_map(|one| &one.stated).filter_map(|stated| stated.feature.as_deref()).collect();
        for feature in &named {
            assert!(crate::measure::features::is_probed(feature), "{feature}");
        }
        // The rows of Quadro 1, and of the tables on management, TLS and proxies of the article on modern VPS.
        for row in [
            "model",
            "language",
            "runs_on",
            "begun",
            "https",
            "virtual_hosts",
            "cgi",
            "fastcgi",
            "scgi",
            "uwsgi",
            "modules",
            "htaccess",
            "reload",
            "configuration_test",
            "rewriting",
            "ocsp",
            "http3",
            "pooling",
        ] {
            assert!(named.contains(&row), "{row}");
        }
    }

    #[test]
    fn what_was_lost_under_load_is_in_the_matrix() {
        let cell = || Cell { verdict: Verdict::Yes, detail: "3 reloads".into(), transcript: None };
        let column = |name: &str| Column {
            name: name.into(),
            title: name.into(),
            version: "1".into(),
            origin: "made".into(),
        };
        let row = Row { name: RELOAD.into(), title: "reload".into(), cells: vec![cell(), cell()] };
        let matrix = Matrix { contenders: vec![column("nginx"), column("fulmar")], features: vec![row] };
        let mut lost = block("nginx", "l", 1, &[(Figure::Failed, 192.0)]);
        lost.kind = Kind::Reload;
        let matrix = corrected(matrix, &[lost, block("fulmar", "l", 1, &[(Figure::Failed, 1.0)])]);
        let cells = &matrix.features[0].cells;
        assert_eq!((cells[0].verdict, cells[1].verdict), (Verdict::No, Verdict::Yes));
        assert_eq!(cells[0].detail, "192 requests lost under load; 3 reloads");
    }

    #[test]
    fn a_matrix_that_cannot_be_read_is_told() {
        let out = tempfile::tempdir().unwrap();
        fs::create_dir(out.path().join("features")).unwrap();
        fs::write(out.path().join("features/features.json"), "{").unwrap();
        let [html, _] = pages(section(out.path(), &[], &[], Form::Whole).unwrap());
        assert!(html.contains("cannot be read"), "{html}");
    }
}
