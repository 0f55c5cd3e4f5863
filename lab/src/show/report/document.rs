//! What the report says, in no particular form: [`super::html`] and [`super::markdown`] write the same document.
//! All text in it is plain: what comes from a tool or a server becomes markup nowhere but in those two.

use super::chart::Chart;

/// The report.
#[derive(Debug)]
pub(super) struct Document {
    /// Its title.
    pub(super) title: String,
    /// A line below the title.
    pub(super) lead: String,
    /// Its sections.
    pub(super) sections: Vec<Section>,
}

/// A section with a heading.
#[derive(Debug)]
pub(super) struct Section {
    /// What links lead to.
    pub(super) id: String,
    /// The heading.
    pub(super) title: String,
    /// What is in it.
    pub(super) parts: Vec<Part>,
    /// Where the list of pages has it.
    pub(super) group: Group,
}

/// A group of sections in the list of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// What is said over all experiments.
    Overview,
    /// One experiment.
    Experiment,
}

/// A part of a section.
#[derive(Debug)]
pub(super) enum Part {
    /// A heading within the section.
    Heading(String),
    /// A paragraph.
    Text(Text),
    /// A paragraph that must not be overlooked.
    Note(Text),
    /// Items.
    List(Vec<Text>),
    /// A table.
    Table(Table),
    /// Charts that belong together.
    Charts(Vec<Chart>),
    /// Two columns; on a narrow screen the second one stands below the first.
    Columns([Vec<Part>; 2]),
    /// What is shown on demand.
    Fold(String, Vec<Part>),
    /// Output or a configuration, as it is.
    Code(String),
}

/// Text within a paragraph or a table's cell.
#[derive(Clone, Debug, Default)]
pub(super) struct Text(pub(super) Vec<Span>);

/// A stretch of text.
#[derive(Clone, Debug)]
pub(super) enum Span {
    /// Words.
    Plain(String),
    /// Words that matter.
    Strong(String),
    /// What belongs to the words before it, such as the interval of a number.
    Aside(String),
    /// A command, a name or a value as a machine takes it.
    Code(String),
    /// A link: its words and its target.
    Link(String, Target),
    /// A verdict.
    Badge(Badge, String),
    /// A verdict that leads to its evidence.
    BadgeLink(Badge, String, Target),
    /// A place that links lead to.
    Anchor(String),
    /// The end of a line.
    Break,
}

/// Where a link leads.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// A section or an anchor of the report.
    Here(String),
    /// A file below the folder of results.
    File(String),
}

/// What kind of verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Badge {
    /// It is so.
    Yes,
    /// It is not.
    No,
    /// The figures allow both.
    Undecided,
    /// It is not known.
    Open,
}

/// A table.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// What it shows.
    pub(super) caption: String,
    /// Its columns.
    pub(super) columns: Vec<Column>,
    /// Its rows.
    pub(super) rows: Vec<Row>,
}

/// A column.
#[derive(Debug)]
pub(super) struct Column {
    /// Its heading.
    pub(super) title: String,
    /// Whether it holds numbers, which are aligned at their ends.
    pub(super) is_number: bool,
}

/// A row: cells, or one heading over the rows that follow.
#[derive(Debug)]
pub(super) enum Row {
    /// A heading over the rows that follow.
    Group(String),
    /// As many cells as there are columns; the first names the row.
    Cells(Vec<Entry>),
}

/// A cell.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    /// What it says.
    pub(super) text: Text,
    /// A share of 1 that is drawn after the text.
    pub(super) share: Option<f64>,
}

impl Table {
    /// A table without rows. A heading that begins with `#` is one of numbers.
    pub(super) fn new<S: AsRef<str>>(
        caption: impl Into<String>,
        columns: impl IntoIterator<Item = S>,
    ) -> Table {
        let column = |title: S| {
            let title = title.as_ref();
            Column {
                title: title.strip_prefix('#').unwrap_or(title).to_owned(),
                is_number: title.starts_with('#'),
            }
        };
        Table {
            caption: caption.into(),
            columns: columns.into_iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a heading over the rows that follow.
    pub(super) fn group(&mut self, title: impl Into<String>) {
        self.rows.push(Row::Group(title.into()));
    }

    /// Adds a row.
    pub(super) fn row<E: Into<Entry>>(&mut self, cells: impl IntoIterator<Item = E>) {
        self.rows.push(Row::Cells(cells.into_iter().map(Into::into).collect()));
    }
}

impl Text {
    /// Each of these texts on a line.
    pub(super) fn lines(texts: impl IntoIterator<Item = Text>) -> Text {
        let mut all = Text::default();
        for text in texts {
            if !all.0.is_empty() {
                all = all.and(Span::Break);
            }
            all.0.extend(text.0);
        }
        all
    }

    /// This text and then that.
    pub(super) fn and(mut self, span: Span) -> Text {
        self.0.push(span);
        self
    }

    /// This text and then these words.
    pub(super) fn say(self, words: impl Into<String>) -> Text {
        self.and(Span::Plain(words.into()))
    }

    /// This text and then what belongs to it, unless that is empty.
    pub(super) fn aside(self, words: impl Into<String>) -> Text {
        let words = words.into();
        if words.is_empty() { self } else { self.and(Span::Aside(words)) }
    }

    /// This text and then these words, that matter.
    pub(super) fn stress(self, words: impl Into<String>) -> Text {
        self.and(Span::Strong(words.into()))
    }
}

impl<S: Into<String>> From<S> for Text {
    fn from(words: S) -> Text {
        Text(vec![Span::Plain(words.into())])
    }
}

impl<T: Into<Text>> From<T> for Entry {
    fn from(text: T) -> Entry {
        Entry { text: text.into(), share: None }
    }
}

impl From<Span> for Text {
    fn from(span: Span) -> Text {
        Text(vec![span])
    }
}

/// Words for an id: small letters, digits and hyphens.
pub(super) fn slug(words: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    words.chars().map(letter).collect()
}
