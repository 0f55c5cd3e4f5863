//! The content of a page whose commands are done while it is sent.

use super::ahead::{self, Ahead, Counted, Included};
use super::expression;
use super::in_apache::About;
use super::page::{Common, Encoding, Page, TooMuch};
use super::scanner::{Command, Scanner, Token};
use crate::shared::blocks::{Block, Blocks};
use contract::{Content, Exchange, Outcome, Piece, Pull, Source, Subrequest, Turn, Work};
use http::escape;
use http::uri::split_unchecked_uri;
use journal::Level;
use std::rc::Rc;

/// What the settings of a location say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) is_silent: bool,
    pub(super) value_max: usize,
}

/// A page whose commands are done while it is sent.
pub(super) struct Expanding {
    settings: Settings,
    pub(super) page: Page,
    content: Blocks,
    scanner: Scanner,
    has_ended: bool,
    /// What was included so far, with the text before each.
    ahead: Ahead,
    /// The text after that.
    pub(super) out: Vec<u8>,
    /// What is included after that text.
    pub(super) wanted: Option<Inclusion>,
    /// A command that is done when all that was included before it has been sent.
    postponed: Option<Token>,
    awaited: Awaited,
    /// How many commands were carried out in this turn.
    commands: u32,
}

/// What `include` wants.
pub(super) struct Inclusion {
    pub(super) subrequest: Subrequest,
    pub(super) asked: Asked,
}

/// What the work that is waited for is for.
enum Awaited {
    /// The content of the page.
    Content,
    /// The content that is sent.
    Included,
    /// An answer.
    Answer(Asked),
    /// A further turn.
    Turn,
}

/// What happens to the answer that is waited for.
pub(super) enum Asked {
    /// It is sent; or else this block, where it is empty or an error.
    Content { block: Option<Vec<u8>>, is_waited_for: bool },
    /// It is the value of this variable.
    Value { variable: Vec<u8> },
    /// It is sent; or else the message of an error, where it is one.
    Page,
    /// Its file's size or time is sent.
    File(About),
}

/// How many commands of a page are carried out in one turn.
const COMMANDS_PER_TURN: u32 = 128;

/// How many pages one request may include, however they nest.
pub(super) const INCLUDED_MAX: u32 = 10_000;

/// Why a command was not done, for the log; empty if the log has a message already.
pub(super) type Problem = String;

impl Expanding {
    /// A page with this content.
    pub(super) fn new(settings: Settings, common: Rc<Common>, content: Blocks) -> Expanding {
        Expanding::of_page(settings, Page::new(common), content)
    }

    /// A page of which something is known already.
    pub(super) fn of_page(settings: Settings, page: Page, content: Blocks) -> Expanding {
        Expanding {
            settings,
            page,
            content,
            scanner: Scanner::new(settings.value_max),
            has_ended: false,
            ahead: Ahead::default(),
            out: Vec::new(),
            wanted: None,
            postponed: None,
            awaited: Awaited::Content,
            commands: 0,
        }
    }

    /// Goes on in the page itself, until there is something to send or to wait for. While included pages are on their
    /// way, it goes on to the next ones.
    fn read(&mut self, turn: &mut Turn<'_, '_>) -> Option<Pull> {
        while self.wanted.is_none() && self.ahead.has_room(self.out.len()) {
            if self.commands >= COMMANDS_PER_TURN {
                self.awaited = Awaited::Turn;
                return Some(Pull::Await(Work::Yield(turn.exchange.budget().place())));
            }
            if let Some(token) = self.postponed.take().or_else(|| self.scanner.next()) {
                // What is included before a variable is set has its old value.
                if token.is_command("set") && !self.ahead.is_empty() {
                    self.postponed = Some(token);
                    break;
                }
                self.take(token, turn.exchange);
                continue;
            }
            if self.has_ended {
                break;
            }
            // What is there is sent before more is waited for.
            if !self.out.is_empty() && self.ahead.is_empty() {
                return None;
            }
            match self.content.next(turn) {
                Block::Bytes(bytes) => self.scanner.add(&bytes),
                Block::Await(work) => {
                    self.awaited = Awaited::Content;
                    return Some(Pull::Await(work));
                }
                Block::Pending { lasts } => return Some(Pull::Pending { lasts }),
                Block::Failed => return Some(Pull::Failed),
                Block::End => {
                    self.has_ended = true;
                    let rest = self.scanner.rest();
                    self.take(Token::Text(rest), turn.exchange);
                }
            }
        }
        None
    }

    fn take(&mut self, token: Token, exchange: &Exchange) {
        let done = match token {
            Token::Text(text) => self.text(&text),
            Token::Command(command) => {
                self.commands += 1;
                self.command(&command, exchange)
            }
            Token::Broken(message) => Err(message),
        };
        if let Err(problem) = done {
            self.report(&problem, exchange);
        }
    }

    /// Tells of a command that was not done: in the log, and in the page.
    fn report(&mut self, problem: &str, exchange: &Exchange) {
        // The log has a message about the limits of a request already.
        if !problem.is_empty() {
            exchange.log(Level::Error, problem);
        }
        if !self.settings.is_silent {
            self.out.extend_from_slice(&self.page.error_message);
        }
    }

    fn text(&mut self, text: &[u8]) -> Result<(), Problem> {
        if self.page.is_in_block {
            return self.page.common.add_to_block(text).map_err(|TooMuch| too_much("block"));
        }
        if self.page.is_taken() {
            self.out.extend_from_slice(text);
        }
        Ok(())
    }

    fn command(&mut self, command: &Command, exchange: &Exchange) -> Result<(), Problem> {
        if self.page.document.is_some() {
            return self.command_of_apache(command, exchange);
        }
        let Some(known) = Known::of(&command.name) else {
            let is_sent = self.page.is_taken() && !self.page.is_in_block;
            return if is_sent { Err(format!("invalid SSI command: \"{}\"", command.name)) } else { Ok(()) };
        };
        if self.page.is_in_block && known != Known::EndBlock {
            // It is done when the block is sent.
            return self.text(&command.written);
        }
        if !self.page.is_taken() && !known.is_of_choice() {
            return Ok(());
        }
        let parameters = Parameters::of(command, known)?;
        match known {
            Known::Include => self.include(&parameters, exchange),
            Known::Echo => self.echo(&parameters, exchange),
            Known::Config => {
                self.configure(&parameters);
                Ok(())
            }
            Known::Set => {
                let value = self.page.expand(parameters.get("value").unwrap_or_default(), exchange)?;
                let name = parameters.get("var").unwrap_or_default();
                self.page.common.set(name, &value).map_err(|TooMuch| too_much("variable"))
            }
            Known::If => {
                let holds = if self.page.is_taken() { self.judge(&parameters, exchange)? } else { false };
                self.page.begin_choice(holds)
            }
            Known::Elif | Known::Else => {
                let is_else = known == Known::Else;
                let may_be_taken = self.page.may_take_branch().ok_or_else(|| known.misplaced())?;
                let holds = may_be_taken && (is_else || self.judge(&parameters, exchange)?);
                self.page.next_branch(holds, is_else);
                Ok(())
            }
            Known::EndIf => self.page.choices.pop().map(drop).ok_or_else(|| known.misplaced()),
            Known::Block => {
                let name = parameters.get("name").unwrap_or_default();
                self.page.common.begin_block(name).map_err(|TooMuch| too_much("block"))?;
                self.page.is_in_block = true;
                Ok(())
            }
            Known::EndBlock => {
                self.page.is_in_block = false;
                Ok(())
            }
        }
    }

    /// Whether the expression of a command holds.
    fn judge(&self, parameters: &Parameters<'_>, exchange: &Exchange) -> Result<bool, Problem> {
        expression::holds(&self.page, exchange, parameters.get("expr").unwrap_or_default())
    }

    fn configure(&mut self, parameters: &Parameters<'_>) {
        if let Some(date) = parameters.get("timefmt") {
            self.page.date = String::from_utf8_lossy(date).into_owned();
        }
        if let Some(message) = parameters.get("errmsg") {
            self.page.error_message = message.to_vec();
        }
    }

    fn echo(&mut self, parameters: &Parameters<'_>, exchange: &Exchange) -> Result<(), Problem> {
        let value = self.page.variable(parameters.get("var").unwrap_or_default(), exchange)?;
        let default = parameters.get("default").unwrap_or(b"(none)");
        let value = value.unwrap_or_else(|| default.to_vec());
        if value.is_empty() {
            return Ok(());
        }
        let mut problem = Ok(());
        match parameters.get("encoding") {
            None => {}
            Some(b"none") => self.page.encoding = Encoding::None,
            Some(b"url") => self.page.encoding = Encoding::Url,
            Some(b"entity") => self.page.encoding = Encoding::Entity,
            Some(other) => {
                let other = String::from_utf8_lossy(other);
                problem = Err(format!("unknown encoding \"{other}\" in the \"echo\" SSI command"));
            }
        }
        match self.page.encoding {
            Encoding::None => self.out.extend_from_slice(&value),
            Encoding::Url => escape::html_url(&value, &mut self.out),
            Encoding::Entity => escape::html(&value, &mut self.out),
        }
        // The value is there all the same, as in nginx.
        if let Err(problem) = problem {
            exchange.log(Level::Error, &problem);
        }
        Ok(())
    }

    fn include(&mut self, parameters: &Parameters<'_>, exchange: &Exchange) -> Result<(), Problem> {
        let uri = match (parameters.get("virtual"), parameters.get("file")) {
            (Some(uri), None) | (None, Some(uri)) => self.page.expand(uri, exchange)?,
            (Some(_), Some(_)) => return Err("\"include\" has both \"virtual\" and \"file\"".to_owned()),
            (None, None) => return Err("no parameter in \"include\" SSI command".to_owned()),
        };
        let is_waited_for = is_waited_for(parameters)?;
        let asked = match (parameters.get("set"), parameters.get("stub")) {
            (Some(_), Some(_)) => {
                return Err(
                    "\"set\" and \"stub\" cannot be used together in \"include\" SSI command".to_owned()
                );
            }
            (Some(variable), None) => Asked::Value { variable: variable.to_vec() },
            (None, Some(name)) => {
                let block = self.page.common.block(name);
                let shown = String::from_utf8_lossy(name);
                let missing = || format!("\"stub\"=\"{shown}\" for \"include\" not found");
                Asked::Content { block: Some(block.ok_or_else(missing)?), is_waited_for }
            }
            (None, None) => Asked::Content { block: None, is_waited_for },
        };
        let content = match asked {
            Asked::Value { .. } => Content::Collected,
            _ if is_waited_for => Content::Streamed,
            _ => Content::Begun,
        };
        self.page.common.count(INCLUDED_MAX)?;
        self.wanted = Some(Inclusion { subrequest: subrequest(&uri, content, exchange)?, asked });
        Ok(())
    }

    fn take_answer(&mut self, asked: Asked, outcome: Outcome) {
        match (asked, outcome) {
            (Asked::Content { block, is_waited_for }, outcome) => {
                let mut included = self.included(block, is_waited_for);
                match outcome {
                    Outcome::Begun(task) => included.content = ahead::Content::Begun(task),
                    Outcome::Streamed(answer) => included.take_answer(Some(answer)),
                    _ => included.take_answer(None),
                }
                self.ahead.add(included);
            }
            (Asked::Page, outcome) => {
                let mut included = self.included(None, true);
                included.take_answer(match outcome {
                    Outcome::Streamed(answer) if answer.head.status.0 < 300 => Some(answer),
                    _ => None,
                });
                self.ahead.add(included);
            }
            (Asked::File(about), Outcome::Subresponse(answer)) => {
                let budget = answer.exchange.budget();
                match budget.timed(|| about.of_file(&self.page, &answer.exchange)).ok().flatten() {
                    Some(text) => self.out.extend(text),
                    None => self.out.extend_from_slice(&self.page.error_message),
                }
            }
            (Asked::Value { variable }, Outcome::Subresponse(answer)) => {
                let is_content = answer.exchange.response.status.0 < 300;
                let value = if is_content { &answer.content[..] } else { b"" };
                if self.page.common.set(&variable, value).is_err() {
                    answer.exchange.log(Level::Error, &too_much("variable"));
                }
            }
            // The log has a message.
            (Asked::File(_), _) if !self.settings.is_silent => {
                self.out.extend_from_slice(&self.page.error_message);
            }
            (Asked::File(_) | Asked::Value { .. }, _) => {}
        }
    }

    /// Whether what is wanted is requested now: what is waited for is requested after all before it has been sent.
    fn may_begin(&self) -> bool {
        match &self.wanted {
            Some(Inclusion { subrequest, .. }) if subrequest.content == Content::Begun => {
                self.ahead.may_begin(&self.page.common)
            }
            Some(_) => self.ahead.is_empty() && self.out.is_empty(),
            None => false,
        }
    }

    /// What is included now, after the text so far.
    fn included(&mut self, block: Option<Vec<u8>>, is_waited_for: bool) -> Included {
        let error = if self.settings.is_silent { Vec::new() } else { self.page.error_message.clone() };
        Included {
            text: std::mem::take(&mut self.out),
            block,
            error,
            is_waited_for,
            content: ahead::Content::default(),
            settings: self.settings,
            common: Counted::new(&self.page.common),
        }
    }
}

impl Source for Expanding {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        loop {
            self.ahead.go_on(turn);
            let read = self.read(turn);
            if matches!(read, Some(Pull::Await(_) | Pull::Failed)) {
                return read.unwrap_or(Pull::Failed);
            }
            if self.may_begin()
                && let Some(Inclusion { subrequest, asked }) = self.wanted.take()
            {
                self.awaited = Awaited::Answer(asked);
                return Pull::Await(Work::Subrequest(subrequest));
            }
            if let Some(pull) = self.ahead.send(turn) {
                if let Pull::Await(_) = pull {
                    self.awaited = Awaited::Included;
                }
                return pull;
            }
            if !self.out.is_empty() {
                return Pull::Piece(Piece::Bytes(std::mem::take(&mut self.out).into()));
            }
            if let Some(pull) = read {
                return pull;
            }
            if self.has_ended && self.wanted.is_none() && self.postponed.is_none() {
                return Pull::End;
            }
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        match std::mem::replace(&mut self.awaited, Awaited::Content) {
            Awaited::Turn => self.commands = 0,
            Awaited::Content => self.content.resume(outcome),
            Awaited::Included => self.ahead.resume(outcome),
            Awaited::Answer(asked) => self.take_answer(asked, outcome),
        }
    }

    fn read_ahead(&mut self, turn: &mut Turn<'_, '_>) {
        if !self.ahead.read_ahead(turn) {
            self.content.read_ahead(turn);
        }
    }
}

fn too_much(what: &str) -> Problem {
    format!("there is no memory left for a {what} of SSI")
}

/// Whether the page is not read on before what it includes has been sent.
fn is_waited_for(parameters: &Parameters<'_>) -> Result<bool, Problem> {
    let Some(wait) = parameters.get("wait") else { return Ok(false) };
    if parameters.get("virtual").is_none() {
        return Err("\"wait\" cannot be used with \"file\" in \"include\" SSI command".to_owned());
    }
    if wait.eq_ignore_ascii_case(b"yes") {
        return Ok(true);
    }
    let shown = String::from_utf8_lossy(wait);
    let is_known = wait.eq_ignore_ascii_case(b"no");
    is_known.then_some(false).ok_or_else(|| format!("invalid value \"{shown}\" in the \"wait\" parameter"))
}

/// The request for what is included. A URI without a slash at its start is one in the directory of the page.
pub(super) fn subrequest(uri: &[u8], content: Content, exchange: &Exchange) -> Result<Subrequest, Problem> {
    let mut whole = Vec::new();
    if !uri.starts_with(b"/") {
        let path = &exchange.request.path;
        let directory = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        whole.extend_from_slice(&path[..directory]);
    }
    whole.extend_from_slice(uri);
    let Some((path, args)) = split_unchecked_uri(&whole) else {
        return Err(format!("unsafe URI \"{}\" was detected", String::from_utf8_lossy(&whole)));
    };
    Ok(Subrequest { args, with_body: true, ..Subrequest::get(path, content) })
}

/// The commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Include,
    Echo,
    Config,
    Set,
    If,
    Elif,
    Else,
    EndIf,
    Block,
    EndBlock,
}

impl Known {
    fn of(name: &str) -> Option<Known> {
        const ALL: [Known; 10] = [
            Known::Include,
            Known::Echo,
            Known::Config,
            Known::Set,
            Known::If,
            Known::Elif,
            Known::Else,
            Known::EndIf,
            Known::Block,
            Known::EndBlock,
        ];
        ALL.into_iter().find(|known| known.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Known::Include => "include",
            Known::Echo => "echo",
            Known::Config => "config",
            Known::Set => "set",
            Known::If => "if",
            Known::Elif => "elif",
            Known::Else => "else",
            Known::EndIf => "endif",
            Known::Block => "block",
            Known::EndBlock => "endblock",
        }
    }

    /// The parameters, with whether each is required.
    fn parameters(self) -> &'static [(&'static str, bool)] {
        match self {
            Known::Include => {
                &[("virtual", false), ("file", false), ("wait", false), ("set", false), ("stub", false)]
            }
            Known::Echo => &[("var", true), ("default", false), ("encoding", false)],
            Known::Config => &[("errmsg", false), ("timefmt", false)],
            Known::Set => &[("var", true), ("value", true)],
            Known::If | Known::Elif => &[("expr", true)],
            Known::Block => &[("name", true)],
            Known::Else | Known::EndIf | Known::EndBlock => &[],
        }
    }

    /// Whether it is looked at in a branch that is not sent.
    fn is_of_choice(self) -> bool {
        matches!(self, Known::If | Known::Elif | Known::Else | Known::EndIf)
    }

    fn misplaced(self) -> Problem {
        format!("invalid context of SSI command: \"{}\"", self.name())
    }
}

/// The parameters of a command, of which each is there once at most.
struct Parameters<'a>(&'a [(String, Vec<u8>)]);

impl<'a> Parameters<'a> {
    fn of(command: &'a Command, known: Known) -> Result<Parameters<'a>, Problem> {
        let name = known.name();
        for (index, (parameter, _)) in command.parameters.iter().enumerate() {
            if !known.parameters().iter().any(|(other, _)| other == parameter) {
                return Err(format!("invalid parameter name: \"{parameter}\" in \"{name}\" SSI command"));
            }
            if command.parameters[..index].iter().any(|(before, _)| before == parameter) {
                return Err(format!("duplicate \"{parameter}\" parameter in \"{name}\" SSI command"));
            }
        }
        let parameters = Parameters(&command.parameters);
        let mut required = known.parameters().iter().filter(|(_, is_required)| *is_required);
        match required.find(|(parameter, _)| parameters.get(parameter).is_none()) {
            None => Ok(parameters),
            Some((parameter, _)) => {
                Err(format!("mandatory \"{parameter}\" parameter is absent in \"{name}\" SSI command"))
            }
        }
    }

    fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}
