//! The rules of a directory, carried out in order.

use super::condition::{Condition, Traits, all_hold};
use super::context::{Context, Escape, Match};
use super::cookie;
use super::rule::Rule;
use super::text::Mark;
use super::{Instruction, Line, Options};
use crate::apache::{mod_alias, mod_dir, mod_env};
use crate::shared::apache::bounded::{BYTES_MAX, Failure, find, is_match};
use crate::shared::apache::lookup;
use crate::shared::apache::urls::{escape_uri, is_url, own_url};
use crate::shared::apache::{environment, variables};
use conf::tree::printable;
use conf::value::Captures;
use contract::{Body, Budget, Exchange, Handler, LocationKind, Reach, Replaced, Reroute, Step, Work};
use http::uri::normalise_path;
use http::{Status, hex};
use journal::Level;
use std::borrow::Cow;
use std::cell::Cell;
use std::convert::Infallible;
use std::fs::Metadata;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;

/// Compiled rules.
pub(super) struct Program {
    rules: Vec<Conditional>,
    base: Option<Box<[u8]>>,
    directory: Box<[u8]>,
    /// A bit for all that may be at the path of the request's file, if the rules leave a request alone for that.
    leaves: u16,
}

/// A rule and its conditions.
struct Conditional {
    conditions: Vec<Arc<Condition>>,
    rule: Arc<Rule>,
    /// Whether the rule or a condition uses groups of the rule's pattern.
    uses_groups: bool,
}

impl Program {
    /// The rules of a file, to which those of outer directories may belong.
    pub(super) fn new(lines: Vec<Line>, base: Option<Box<[u8]>>, directory: Box<[u8]>) -> Program {
        let mut program = Program { rules: Vec::new(), base, directory, leaves: 0 };
        let mut conditions = Vec::new();
        for line in lines {
            match line.instruction {
                Instruction::Engine(_) | Instruction::Base(_) | Instruction::Options(_) => {}
                Instruction::Condition(condition) => conditions.push(condition),
                Instruction::Rule(rule) => {
                    let conditions = std::mem::take(&mut conditions);
                    let uses_groups =
                        rule.uses_groups() || conditions.iter().any(|condition| condition.uses_groups());
                    program.rules.push(Conditional { conditions, rule, uses_groups });
                }
            }
        }
        let left = Traits::all().filter(|traits| program.leaves_for(*traits));
        program.leaves = left.fold(0, |leaves, traits| leaves | traits.bit());
        program
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether what is at the path of the request's file already says that the rules leave the request alone.
    fn leaves(&self, metadata: &Metadata) -> bool {
        self.leaves & Traits::of(metadata).bit() != 0
    }

    fn leaves_for(&self, traits: Traits) -> bool {
        for conditional in &self.rules {
            match conditional.outcome(traits) {
                Some(Effectless::Fails) => {}
                Some(Effectless::Ends) => return true,
                None => return false,
            }
        }
        true
    }
}

/// What comes of a rule without an effect.
enum Effectless {
    Fails,
    Ends,
}

impl Conditional {
    /// What comes of the rule, if it has no effect and nothing but what is at the path of the request's file decides that.
    fn outcome(&self, traits: Traits) -> Option<Effectless> {
        let Conditional { conditions, rule, .. } = self;
        if conditions.is_empty() || !conditions.iter().all(|condition| condition.is_about_file) {
            return None;
        }
        let holds: Result<bool, Infallible> =
            all_hold(conditions, |condition| Ok(condition.holds_for(traits)));
        match holds {
            Ok(false) => (!rule.flags.chain).then_some(Effectless::Fails),
            Ok(true) => rule.only_ends().then_some(Effectless::Ends),
        }
    }
}

/// The handler.
pub(super) struct Rewriter {
    pub(super) program: Program,
    /// Whether the directory's options allow it.
    pub(super) allowed: bool,
    /// What is set after rewriting, also for the request that the rules leave.
    pub(super) settings: Arc<[mod_env::Variable]>,
    /// An internal rewrite does not take effect if one of these matches.
    pub(super) redirects: Arc<[mod_alias::Redirect]>,
    /// Whether a directory without its slash is redirected before a rule takes effect.
    pub(super) slash: bool,
    pub(super) options: Options,
}

impl Handler for Rewriter {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if self.leaves(exchange) { Step::Next } else { self.carry_out(exchange) }
    }

    fn resume(&self, exchange: &mut Exchange, _: contract::Outcome) -> Step {
        match exchange.attached::<Paused>().and_then(|paused| paused.0.take()) {
            Some(state) => self.go_on(exchange, state),
            None => Step::Finish(Status::INTERNAL_SERVER_ERROR),
        }
    }
}

impl Rewriter {
    /// Whether the rules leave the request alone for what is at the path of its file.
    fn leaves(&self, exchange: &Exchange) -> bool {
        let metadata = exchange.known_path().and_then(|known| known.metadata.as_ref()?.as_ref());
        self.allowed && metadata.is_some_and(|metadata| self.program.leaves(metadata))
    }

    /// Carries out the rules. Its state takes room that requests for existing files do without.
    #[inline(never)]
    fn carry_out(&self, exchange: &mut Exchange) -> Step {
        let known = exchange.known_path().cloned();
        let path = match known.as_deref() {
            Some(known) => Cow::Borrowed(&known.path[..]),
            None => match exchange.path() {
                Ok(path) => Cow::Owned(path),
                Err(_) => return Step::Next,
            },
        };
        // The directory itself, asked for without its slash, is redirected first.
        let is_directory = self.program.directory.strip_suffix(b"/") == Some(&path);
        let is_skipped = is_directory && !self.options.allow_no_slash;
        // In Apache the lookup of an index is a subrequest, which END of the request around it does not end.
        let is_lookup = lookup::is_lookup(exchange);
        if is_skipped || environment::has_ended(exchange) && !is_lookup {
            return Step::Next;
        }
        if !self.allowed {
            exchange.log(Level::Error, "rewriting needs the option FollowSymLinks");
            return lookup::refuse(exchange, Status::FORBIDDEN);
        }
        let args = exchange.request.args.clone();
        let state = State { filename: path, original: (Vec::new(), args), ..State::default() };
        self.go_on(exchange, state)
    }

    /// Carries out the rules from where they stopped, for a slice of time.
    fn go_on(&self, exchange: &mut Exchange, state: State<'_>) -> Step {
        let is_lookup = lookup::is_lookup(exchange);
        let budget = exchange.budget();
        let _running = budget.run();
        let is_subrequest = exchange.subrequest || is_lookup;
        let mut run = Run { program: &self.program, exchange, is_subrequest, state, budget: &budget };
        let outcome = run.rules();
        if matches!(outcome, Ok(Outcome::Through)) && run.redirection.is_none() {
            run.vary();
        }
        match outcome {
            Ok(Outcome::Pause) => {
                let state = std::mem::take(&mut run.state).into_owned();
                exchange.attach(Reach::Own, Rc::new(Paused(Cell::new(Some(state)))));
                Step::Await(Work::Yield(budget.place()))
            }
            Ok(Outcome::End(status)) => {
                if !is_lookup {
                    forget_error(exchange);
                }
                lookup::refuse(exchange, status)
            }
            Ok(Outcome::Through) if !run.changes => Step::Next,
            Ok(Outcome::Through) if run.has_bad_query() => {
                exchange.log(Level::Error, "a rule made a query with a control character or a space");
                lookup::refuse(exchange, Status::FORBIDDEN)
            }
            Ok(Outcome::Through) => match run.redirection {
                Some(status) => run.redirect(status),
                None => run.internal(self),
            },
            Err(failure) => failure.refuse(exchange),
        }
    }
}

/// How the rules go on.
enum Flow {
    /// The rule did not match.
    Failed,
    /// It matched.
    Matched,
    /// It matched and is the last.
    Last,
    /// The request has its answer.
    End(Status),
}

/// The result of the rules.
enum Outcome {
    /// None of them gave an answer.
    Through,
    /// The request has its answer.
    End(Status),
    /// A slice of time is over, and others go first.
    Pause,
}

/// Rules that go on in a further turn.
struct Paused(Cell<Option<State<'static>>>);

struct Run<'a> {
    program: &'a Program,
    exchange: &'a mut Exchange,
    /// Whether rules that count for requests of clients only are skipped.
    is_subrequest: bool,
    state: State<'a>,
    budget: &'a Budget,
}

/// How far the rules came.
#[derive(Default)]
struct State<'a> {
    /// The next rule.
    at: usize,
    /// How often a rule with `N` began again.
    rounds: u32,
    /// The path of the file as it is rewritten: below the file system's root, or a path of a URI.
    filename: Cow<'a, [u8]>,
    /// The path info. None while the path has it, which nothing has changed so far.
    path_info: Option<Vec<u8>>,
    /// The path of the file and the query before the first change.
    original: (Vec<u8>, Option<Vec<u8>>),
    changes: bool,
    /// Where the path is a URL: the status to send the client there with.
    redirection: Option<Status>,
    /// Whether a redirect's path stays as it is.
    keeps_path: bool,
    /// The headers of the request that the conditions of rules that matched asked for.
    varies_by: Vec<Box<str>>,
}

impl State<'_> {
    fn into_owned(self) -> State<'static> {
        State { filename: Cow::Owned(self.filename.into_owned()), ..self }
    }
}

impl<'a> Deref for Run<'a> {
    type Target = State<'a>;

    fn deref(&self) -> &State<'a> {
        &self.state
    }
}

impl<'a> DerefMut for Run<'a> {
    fn deref_mut(&mut self) -> &mut State<'a> {
        &mut self.state
    }
}

impl Run<'_> {
    fn rules(&mut self) -> Result<Outcome, Failure> {
        let rules = &self.program.rules;
        while let Some(conditional) = rules.get(self.state.at) {
            if self.budget.ends_slice() {
                return Ok(Outcome::Pause);
            }
            let rule = &conditional.rule;
            let args = self.exchange.request.args.as_ref().map_or(0, Vec::len);
            if self.filename.len().max(args) > BYTES_MAX {
                return Err(Failure::TooLong);
            }
            self.state.at += 1;
            if self.is_subrequest && (rule.flags.no_subrequest || rule.flags.redirect) {
                continue;
            }
            match self.rule(conditional)? {
                Flow::Failed => {
                    let mut chained = rule.flags.chain;
                    while chained && let Some(next) = rules.get(self.state.at) {
                        chained = next.rule.flags.chain;
                        self.state.at += 1;
                    }
                }
                Flow::Matched => match rule.flags.rounds {
                    Some(rounds_max) => {
                        self.state.rounds += 1;
                        if self.state.rounds >= rounds_max {
                            self.exchange.log(Level::Error, "a rule with \"N\" had too many rounds");
                            return Ok(Outcome::End(Status::INTERNAL_SERVER_ERROR));
                        }
                        self.state.at = 0;
                    }
                    None => self.state.at = self.state.at.saturating_add(rule.flags.skip),
                },
                Flow::Last => return Ok(Outcome::Through),
                Flow::End(status) => return Ok(Outcome::End(status)),
            }
        }
        Ok(Outcome::Through)
    }

    fn rule(&mut self, conditional: &Conditional) -> Result<Flow, Failure> {
        let Conditional { conditions, rule, .. } = conditional;
        let Some(matched) = self.match_path(conditional)? else { return Ok(Flow::Failed) };
        let mut captured = Match::default();
        let Some(varies_by) = self.hold(conditions, &matched, &mut captured)? else {
            return Ok(Flow::Failed);
        };
        let context = self.context(&matched, &captured, rule.flags.escape.as_ref());
        let mark = if rule.flags.last_mark { Mark::Last } else { Mark::First };
        let target = rule.target.as_ref().map(|target| target.evaluate_marked(&context, mark)).transpose()?;
        if let Some((_, true)) = target
            && !rule.flags.allow_mark
        {
            self.exchange.log(Level::Error, "a rule would start a query with a \"?\" of the request");
            return Ok(Flow::End(Status::FORBIDDEN));
        }
        self.tell(rule, target.as_ref().map(|(target, _)| &target[..]));
        self.set_environment(rule, &matched, &captured)?;
        self.varies_by.extend(varies_by);
        if let Some(status) = rule.flags.status.filter(|status| !status.is_redirection()) {
            return Ok(Flow::End(status));
        }
        if let Some((target, _)) = target {
            self.keeps_path = rule.flags.no_escape;
            self.take(rule, target)?;
            if rule.flags.pass_through && self.redirection.is_some() {
                // For Apache the URL of a rule with "PT" is no path.
                return Ok(Flow::End(Status::BAD_REQUEST));
            }
        }
        // As in Apache a rule with "PT" is the last, and its "END" only counts as "L".
        if rule.flags.end && !rule.flags.pass_through && !lookup::is_lookup(self.exchange) {
            environment::of(self.exchange).ended.set(true);
        }
        let ends = rule.flags.last || rule.flags.end || rule.flags.pass_through;
        Ok(if ends { Flow::Last } else { Flow::Matched })
    }

    /// Reports a rule that applies as an event.
    fn tell(&self, rule: &Rule, target: Option<&[u8]>) {
        self.exchange.tell(|| {
            let path = self.path();
            let path = printable(self.below(&path));
            let status = rule.flags.status.map(|status| format!(" with {}", status.0)).unwrap_or_default();
            let text = match target {
                Some(target) if status.is_empty() => format!("\"{path}\" becomes \"{}\"", printable(target)),
                Some(target) => format!("\"{path}\" is redirected to \"{}\"{status}", printable(target)),
                None if status.is_empty() => format!("\"{path}\" stays as it is"),
                None => format!("\"{path}\" is answered{status}"),
            };
            rule.place.event("rule", text)
        });
    }

    /// The path that patterns are compared with, and all in front of it.
    fn path(&self) -> Cow<'_, [u8]> {
        match self.path_info.as_deref() {
            None | Some(b"") => Cow::Borrowed(&self.filename[..]),
            Some(info) => Cow::Owned([&self.filename[..], info].concat()),
        }
    }

    /// The part of a path that patterns are compared with.
    fn below<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        path.strip_prefix(&*self.program.directory).unwrap_or(path)
    }

    /// Looks for the rule's pattern in the path below the directory; none if the rule does not match.
    fn match_path(&self, conditional: &Conditional) -> Result<Option<Match>, Failure> {
        let path = self.path();
        let below = self.below(&path);
        let Conditional { rule, uses_groups, .. } = conditional;
        // A pattern that must not match captures nothing.
        if rule.negated || !uses_groups {
            if rule.matches_all {
                self.budget.step(0)?;
                return Ok((!rule.negated).then(Match::default));
            }
            let is_match = is_match(&rule.pattern, below, self.budget)?;
            return Ok((is_match != rule.negated).then(Match::default));
        }
        let mut captures = Captures::default();
        let found = find(&rule.pattern, below, &mut captures, self.budget)?;
        Ok(found.then(|| Match { subject: below.to_vec(), captures }))
    }

    /// Replaces the path by a target.
    fn take(&mut self, rule: &Rule, target: Vec<u8>) -> Result<(), Failure> {
        if self.path_info.is_none() {
            let end = variables::file_end(self.exchange, &self.filename, self.budget)?;
            self.path_info = Some(self.filename.to_mut().split_off(end));
            self.original.0 = self.filename.to_vec();
        }
        if rule.flags.discard_path_info {
            self.path_info = Some(Vec::new());
        }
        let path = self.split(rule, target);
        let path = match is_url(&path) || path.starts_with(b"/") {
            true => path,
            false => [&self.program.directory, &*path].concat(),
        };
        self.changes = true;
        self.filename = self.own_path(&path).unwrap_or(path).into();
        if rule.flags.status.is_some() && !is_url(&self.filename) {
            self.filename = own_url(self.exchange, &self.uri()).into();
        }
        self.redirection = is_url(&self.filename).then(|| rule.flags.status.unwrap_or(Status::FOUND));
        Ok(())
    }

    /// Whether the query has bytes that no URI has, and that nothing escapes.
    fn has_bad_query(&self) -> bool {
        let is_escaped = self.redirection.is_some() && !self.keeps_path;
        let is_bad = |byte: &u8| *byte == b' ' || byte.is_ascii_control();
        !is_escaped && self.exchange.request.args.as_ref().is_some_and(|args| args.iter().any(is_bad))
    }

    /// Takes the query off a target.
    fn split(&mut self, rule: &Rule, mut target: Vec<u8>) -> Vec<u8> {
        let args = &mut self.exchange.request.args;
        if rule.flags.discard_args {
            *args = None;
        }
        let is_mark = |byte: &u8| *byte == b'?';
        let mark = match rule.flags.last_mark {
            true => target.iter().rposition(is_mark),
            false => target.iter().position(is_mark),
        };
        let Some(mark) = mark else { return target };
        let mut query = target.split_off(mark)[1..].to_vec();
        if rule.flags.append_args {
            let present = args.as_deref().unwrap_or_default();
            query = match query.is_empty() {
                true => present.to_vec(),
                false => [&query, &b"&"[..], present].concat(),
            };
        }
        if query.ends_with(b"&") {
            query.pop();
        }
        *args = Some(query).filter(|query| !query.is_empty());
        target
    }

    /// The path of a URL of this very server.
    fn own_path(&self, url: &[u8]) -> Option<Vec<u8>> {
        let connection = &self.exchange.connection;
        let (scheme, standard): (&[u8], _) =
            if connection.secure { (b"https://", 443) } else { (b"http://", 80) };
        let rest = url.get(scheme.len()..).filter(|_| url[..scheme.len()].eq_ignore_ascii_case(scheme))?;
        let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
        let port = connection.local.port().unwrap_or(standard);
        let host = &self.exchange.request.host;
        let with_port = [host, format!(":{port}").as_bytes()].concat();
        let own = rest[..end].eq_ignore_ascii_case(&with_port)
            || port == standard && rest[..end].eq_ignore_ascii_case(host);
        let path = if end == rest.len() { b"/" } else { &rest[end..] };
        own.then(|| path.to_vec())
    }

    /// Whether conditions hold: the headers of the request that those that hold asked for.
    fn hold(
        &self,
        conditions: &[Arc<Condition>],
        matched: &Match,
        captured: &mut Match,
    ) -> Result<Option<Vec<Box<str>>>, Failure> {
        let mut varies_by = Vec::new();
        let hold: Result<bool, Failure> = all_hold(conditions, |condition| {
            let mut found = None;
            let context = self.context(matched, captured, None);
            let holds = condition.holds(&context, &mut found)?;
            if !holds {
                self.exchange.tell(|| condition.event(&context));
            }
            if let Some(found) = found {
                *captured = found;
            }
            if holds {
                let sent = &self.exchange.request.head.fields;
                varies_by.extend(condition.fields.iter().filter(|name| sent.get(name).is_some()).cloned());
            }
            Ok(holds)
        });
        Ok(hold?.then_some(varies_by))
    }

    fn context<'c>(
        &'c self,
        rule: &'c Match,
        condition: &'c Match,
        escape: Option<&'c Escape>,
    ) -> Context<'c> {
        Context {
            exchange: self.exchange,
            filename: &self.filename,
            path_info: self.path_info.as_deref(),
            rule,
            condition,
            escape,
            budget: self.budget,
        }
    }

    /// Sets variables, cookies and the media type.
    fn set_environment(&mut self, rule: &Rule, matched: &Match, captured: &Match) -> Result<(), Failure> {
        if !rule.flags.has_settings() {
            return Ok(());
        }
        let context = self.context(matched, captured, None);
        let environment = environment::of(self.exchange);
        for (name, value) in &rule.flags.environment {
            let name = name.evaluate(&context)?;
            match value {
                Some(value) => environment.set(&name, &value.evaluate(&context)?)?,
                None => environment.unset(&name),
            }
        }
        let cookies = rule.flags.cookies.iter().map(|cookie| cookie.line(&context));
        let cookies = cookies.collect::<Result<Vec<_>, _>>()?;
        let media_type = rule.flags.media_type.as_ref().map(|text| text.evaluate(&context)).transpose()?;
        cookies.into_iter().flatten().for_each(|line| cookie::set(self.exchange, line));
        if let Some(media_type) = media_type {
            self.exchange.response.content_type = Some(media_type.into());
        }
        Ok(())
    }

    /// The URI of the path: below the directory it is the base's, below the root what the root leaves.
    fn uri(&self) -> Vec<u8> {
        if let Some(base) = &self.program.base
            && let Some(rest) = self.filename.strip_prefix(&*self.program.directory)
        {
            return [base, rest].concat();
        }
        let root = &self.exchange.scope.policy.root;
        let mut text = root.directory(self.exchange);
        match &root.alias {
            None => {
                if text.ends_with(b"/") {
                    text.pop();
                }
                let rest = self.filename.strip_prefix(&text[..]).filter(|rest| rest.starts_with(b"/"));
                rest.unwrap_or(&self.filename).to_vec()
            }
            Some(name) if name.kind != LocationKind::Regex => match self.filename.strip_prefix(&text[..]) {
                Some(rest) => [&name.text, rest].concat(),
                None => self.filename.to_vec(),
            },
            Some(_) => self.filename.to_vec(),
        }
    }

    /// Names the headers that matching rules asked for in the response, for caches.
    fn vary(&mut self) {
        for name in self.state.varies_by.drain(..) {
            let fields = &mut self.exchange.response.fields;
            if !fields.all("vary").any(|known| known.eq_ignore_ascii_case(name.as_bytes())) {
                // A name that no field can have is left out.
                let _ = fields.push(b"Vary", name.as_bytes());
            }
        }
    }

    fn redirect(&mut self, status: Status) -> Step {
        let target = &self.filename;
        let mut location = Vec::new();
        if !self.keeps_path {
            let host = path_start(target);
            location.extend_from_slice(&target[..host]);
            escape_uri(&target[host..], &mut location);
        } else {
            location.extend_from_slice(target);
        }
        if let Some(args) = self.exchange.request.args.as_ref().filter(|args| !args.is_empty()) {
            location.push(b'?');
            // Only a query that a rule made is escaped.
            match !self.keeps_path && self.original.1.as_ref() != Some(args) {
                true => escape_uri(args, &mut location),
                false => location.extend_from_slice(args),
            }
        }
        self.exchange.response.location = Some(location.into());
        if self.exchange.error_page_used == Replaced::Kept {
            // An error document keeps the status of the error, unless a rule redirects it.
            self.exchange.error_page_used = Replaced::Once;
        }
        lookup::refuse(self.exchange, status)
    }

    /// Sends the request to the rewritten path. As in Apache, a `Redirect` of the directory that matches the original
    /// path answers instead.
    fn internal(&mut self, rewriter: &Rewriter) -> Step {
        let mut uri = self.uri();
        let below = self.filename.strip_prefix(&*self.program.directory);
        let is_based = self.program.base.is_some() && below.is_some();
        if self.original.0 == *self.filename || is_based && self.original.0 == uri {
            return Step::Next;
        }
        if !uri.starts_with(b"/") {
            return lookup::refuse(self.exchange, Status::BAD_REQUEST);
        }
        if let Some(mark) = uri.iter().position(|&byte| byte == b'#') {
            // The query is behind the mark, too.
            uri.truncate(mark);
            self.exchange.request.args = None;
        }
        let uri = match decoded(&uri) {
            Ok(uri) => uri,
            Err(status) => return lookup::refuse(self.exchange, status),
        };
        if let Err(failure) = mod_env::apply(self.exchange, &rewriter.settings, self.budget) {
            return failure.refuse(self.exchange);
        }
        match mod_alias::apply(self.exchange, &rewriter.redirects, self.budget) {
            Step::Next => {}
            step => return step,
        }
        if lookup::is_asked(self.exchange) {
            return Step::Respond(Body::Empty);
        }
        if rewriter.slash && self.path_info.as_ref().is_some_and(Vec::is_empty) {
            match mod_dir::to_slash(self.exchange, &self.state.original.0, self.budget) {
                Ok(Step::Next) => {}
                Ok(step) => return step,
                Err(spent) => return Failure::from(spent).refuse(self.exchange),
            }
        }
        if lookup::is_fallback(self.exchange) {
            // As in Apache only a file can be led elsewhere.
            match variables::is_missing(self.exchange, &self.original.0, self.budget) {
                Ok(true) => return Step::Finish(Status::NOT_FOUND),
                Ok(false) => {}
                Err(spent) => return Failure::from(spent).refuse(self.exchange),
            }
        }
        lookup::end_lookup(self.exchange);
        self.exchange.response.content_type = None;
        let request = &self.exchange.request;
        let before = (&request.path[..], request.args.as_deref());
        environment::of(self.exchange).redirect(before, Status::OK);
        Step::Reroute(Reroute::Uri { path: uri, args: request.args.clone() })
    }
}

/// Makes the status with which a rule refuses an error document that of the request, as in Apache.
fn forget_error(exchange: &mut Exchange) {
    if exchange.error_page_used == Replaced::Kept {
        (exchange.error, exchange.error_page_used) = (None, Replaced::No);
    }
}

/// The path that Apache makes of the URI of an internal redirect: decoded, with slashes that stand alone, without `.` and
/// `..`. The status is what Apache answers to a path that leaves the root of the site, or is escaped wrongly.
fn decoded(uri: &[u8]) -> Result<Vec<u8>, Status> {
    let mut parts = uri.split(|&byte| byte == b'%');
    let mut text = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        match hex::pair(part).ok_or(Status::BAD_REQUEST)? {
            b'/' | 0 => return Err(Status::NOT_FOUND),
            byte => text.push(byte),
        }
        text.extend_from_slice(&part[2..]);
    }
    let mut path = Vec::with_capacity(text.len());
    normalise_path(&text, true, &mut path).map_err(|_| Status::BAD_REQUEST)?;
    Ok(path)
}

/// Where the path of a URL starts.
fn path_start(url: &[u8]) -> usize {
    let host = url.windows(3).position(|part| part == b"://").map_or(0, |at| at + 3);
    url[host..].iter().position(|&byte| byte == b'/').map_or(url.len(), |at| host + at)
}
