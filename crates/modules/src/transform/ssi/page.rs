//! What a page with commands knows while it is read, and what it has in common with the pages that it includes.

use super::in_apache::Document;
use crate::shared::dynamic;
use conf::value::{Captures, Language, Pattern};
use contract::{Exchange, Reach};
use journal::clock::{self, Time};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// How much memory the variables and the blocks of a request may take, in bytes. A page can come from another server.
const KEPT_MAX: usize = 1024 * 1024;

/// How deep `if` may nest.
const CHOICES_MAX: usize = 64;

/// How many steps a pattern of a page may take.
const PATTERN_STEPS: u32 = 100_000;

/// How dates are written until a page asks for another form.
const DATE: &str = "%A, %d-%b-%Y %H:%M:%S %Z";

/// What all pages of a request have in common; attached to it.
#[derive(Default)]
pub(super) struct Common {
    /// Variables by their names in lower case.
    variables: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    /// Blocks by their names.
    blocks: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    /// What the groups of the last pattern that matched hold.
    groups: RefCell<Vec<Vec<u8>>>,
    used: Cell<usize>,
    /// How many included pages are on their way.
    pub(super) included: Cell<usize>,
    /// How many pages were included in all.
    count: Cell<u32>,
}

/// There is no memory left for what a page wants to keep.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

impl Common {
    /// That of a request.
    pub(super) fn of(exchange: &Exchange) -> Rc<Common> {
        exchange.attached_or(Reach::Shared, Common::default)
    }

    /// A variable that a page has set, or a group of its last pattern.
    pub(super) fn get(&self, name: &[u8]) -> Option<Vec<u8>> {
        if let [digit @ b'0'..=b'9'] = name {
            let group = self.groups.borrow().get(usize::from(digit - b'0')).cloned();
            if group.is_some() {
                return group;
            }
        }
        let variables = self.variables.borrow();
        let found = variables.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.clone())
    }

    /// Sets a variable.
    ///
    /// # Errors
    /// There is no memory left for it.
    pub(super) fn set(&self, name: &[u8], value: &[u8]) -> Result<(), TooMuch> {
        self.take(name.len() + value.len())?;
        let mut variables = self.variables.borrow_mut();
        match variables.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, known)) => *known = value.to_vec(),
            None => variables.push((name.to_ascii_lowercase(), value.to_vec())),
        }
        Ok(())
    }

    /// The names of the variables that pages have set.
    pub(super) fn names(&self) -> Vec<Vec<u8>> {
        self.variables.borrow().iter().map(|(name, _)| name.clone()).collect()
    }

    /// Begins a block.
    pub(super) fn begin_block(&self, name: &[u8]) -> Result<(), TooMuch> {
        self.take(name.len())?;
        self.blocks.borrow_mut().push((name.to_vec(), Vec::new()));
        Ok(())
    }

    /// Adds to the block that was begun last.
    pub(super) fn add_to_block(&self, text: &[u8]) -> Result<(), TooMuch> {
        self.take(text.len())?;
        if let Some((_, block)) = self.blocks.borrow_mut().last_mut() {
            block.extend_from_slice(text);
        }
        Ok(())
    }

    pub(super) fn block(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.blocks.borrow().iter().find(|(known, _)| known == name).map(|(_, block)| block.clone())
    }

    /// Counts a page that is included.
    ///
    /// # Errors
    /// There were too many. Only the first time the error has a text.
    pub(super) fn count(&self, most: u32) -> Result<(), String> {
        let count = self.count.get().saturating_add(1);
        self.count.set(count);
        match count.checked_sub(most) {
            None | Some(0) => Ok(()),
            Some(1) => Err(format!("a request may not include more than {most} pages")),
            Some(_) => Err(String::new()),
        }
    }

    fn take(&self, bytes: usize) -> Result<(), TooMuch> {
        let used = self.used.get() + bytes;
        if used > KEPT_MAX {
            return Err(TooMuch);
        }
        self.used.set(used);
        Ok(())
    }

    /// Whether a text matches a pattern, whose groups are kept then.
    ///
    /// # Errors
    /// What is wrong with the pattern.
    pub(super) fn matches(&self, pattern: &[u8], text: &[u8]) -> Result<bool, String> {
        let pattern = Pattern::limited(pattern, false, Language::Nginx, PATTERN_STEPS);
        let pattern = pattern.map_err(|error| error.to_string())?;
        let mut captures = Captures::default();
        if !pattern.captures(text, &mut captures) {
            return Ok(false);
        }
        let group = |index: usize| captures.get(index, text).unwrap_or_default().to_vec();
        let groups: Vec<_> = (0..pattern.names().len()).map(group).collect();
        let too_much = |TooMuch| "there is no memory left for the groups of a pattern".to_owned();
        for (name, value) in pattern.names().iter().zip(&groups) {
            if let Some(name) = name {
                self.set(name.as_bytes(), value).map_err(too_much)?;
            }
        }
        *self.groups.borrow_mut() = groups;
        Ok(true)
    }
}

/// How `echo` writes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    None,
    Url,
    Entity,
}

/// How far an `if` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Branch {
    /// This branch is sent.
    Taken,
    /// A later branch may be sent.
    Open,
    /// A branch before this one was sent, or what the `if` stands in is not.
    Closed,
}

/// An `if` that has not ended.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) branch: Branch,
    /// Whether there was an `else`, after which no branch follows.
    pub(super) has_else: bool,
}

/// What one page knows.
pub(super) struct Page {
    pub(super) common: Rc<Common>,
    pub(super) encoding: Encoding,
    pub(super) error_message: Vec<u8>,
    pub(super) date: String,
    pub(super) choices: Vec<Choice>,
    pub(super) is_in_block: bool,
    /// The first page of the request, if the commands are those of Apache.
    pub(super) document: Option<Rc<Document>>,
    /// How many pages include each other around this one, if the commands are those of Apache.
    pub(super) depth: u32,
    /// How `fsize` writes sizes.
    pub(super) sizes_in_bytes: bool,
}

impl Page {
    pub(super) fn new(common: Rc<Common>) -> Page {
        Page {
            common,
            encoding: Encoding::Entity,
            error_message: b"[an error occurred while processing the directive]".to_vec(),
            date: DATE.to_owned(),
            choices: Vec::new(),
            is_in_block: false,
            document: None,
            depth: 0,
            sizes_in_bytes: false,
        }
    }

    /// Begins an `if`, whose first branch is sent if its expression holds.
    ///
    /// # Errors
    /// It stands in too many others.
    pub(super) fn begin_choice(&mut self, holds: bool) -> Result<(), String> {
        if self.choices.len() == CHOICES_MAX {
            return Err("too many \"if\" SSI commands inside each other".to_owned());
        }
        let branch = match self.is_taken() {
            true if holds => Branch::Taken,
            true => Branch::Open,
            false => Branch::Closed,
        };
        self.choices.push(Choice { branch, has_else: false });
        Ok(())
    }

    /// Whether the next branch of the innermost `if` may be sent; none if no branch may follow.
    pub(super) fn may_take_branch(&self) -> Option<bool> {
        let choice = self.choices.last().filter(|choice| !choice.has_else)?;
        Some(choice.branch == Branch::Open)
    }

    /// Begins the next branch of the innermost `if`.
    pub(super) fn next_branch(&mut self, holds: bool, has_else: bool) {
        if let Some(choice) = self.choices.last_mut() {
            let branch = match choice.branch {
                Branch::Open if holds => Branch::Taken,
                Branch::Open => Branch::Open,
                Branch::Taken | Branch::Closed => Branch::Closed,
            };
            *choice = Choice { branch, has_else };
        }
    }

    /// Whether text at this place is sent, unless it is in a block.
    pub(super) fn is_taken(&self) -> bool {
        self.choices.iter().all(|choice| choice.branch == Branch::Taken)
    }

    /// The value of a variable; none if it has none.
    ///
    /// # Errors
    /// The date cannot be written in the form that the page wants.
    pub(super) fn variable(&self, name: &[u8], exchange: &Exchange) -> Result<Option<Vec<u8>>, String> {
        if let Some(value) = self.common.get(name) {
            return Ok(Some(value));
        }
        if let Some(document) = &self.document {
            return Ok(document.variable(name, &self.date, exchange));
        }
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        if let "date_gmt" | "date_local" = &*name {
            return self.date(name == "date_local").map(Some);
        }
        let mut value = Vec::new();
        Ok(dynamic::value(exchange, &name, &mut value).then_some(value))
    }

    fn date(&self, is_local: bool) -> Result<Vec<u8>, String> {
        let seconds = Time::now().seconds;
        let text = clock::try_format(seconds, is_local, &self.date);
        let text = text.ok_or_else(|| format!("\"{}\" is no form of a date", self.date))?;
        Ok(text.into_bytes())
    }

    /// A text with the values of its variables. A backslash takes the meaning from `$`, quotes and another backslash.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(super) fn expand(&self, text: &[u8], exchange: &Exchange) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        let mut rest = text;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match (byte, after.first()) {
                (b'\\', Some(&next @ (b'\\' | b'\'' | b'"' | b'$'))) => {
                    out.push(next);
                    rest = &after[1..];
                }
                (b'$', next) if self.document.is_some() && !next.is_some_and(|&next| begins_name(next)) => {
                    out.push(b'$');
                }
                (b'$', _) => {
                    let (name, behind) = name(after, text)?;
                    rest = behind;
                    out.extend(self.variable(name, exchange)?.unwrap_or_default());
                }
                _ => out.push(byte),
            }
            if out.len() > KEPT_MAX {
                return Err("the value of an SSI command is too long".to_owned());
            }
        }
        Ok(out)
    }
}

/// Whether a byte after a `$` says that a variable follows.
fn begins_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'{'
}

/// The name of a variable at the start of a text, and what follows it.
fn name<'a>(rest: &'a [u8], whole: &[u8]) -> Result<(&'a [u8], &'a [u8]), String> {
    let is_braced = rest.first() == Some(&b'{');
    let rest = if is_braced { &rest[1..] } else { rest };
    let is_in_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let length = rest.iter().take_while(|byte| is_in_name(byte)).count();
    let (name, behind) = rest.split_at(length);
    let behind = match (is_braced, behind.split_first()) {
        (true, Some((b'}', behind))) => behind,
        (true, _) => {
            let name = String::from_utf8_lossy(name);
            return Err(format!("the closing bracket in \"{name}\" variable is missing"));
        }
        (false, _) => behind,
    };
    if name.is_empty() {
        return Err(format!("invalid variable name in \"{}\"", String::from_utf8_lossy(whole)));
    }
    Ok((name, behind))
}
