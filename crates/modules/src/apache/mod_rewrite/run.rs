//! The rules of a directory, carried out in order.

use super::Line;
use super::condition::Condition;
use super::rule::Rule;
use super::text::{Context, Match};
use crate::apache::{mod_alias, mod_env};
use crate::shared::apache::bounded::{BYTES_MAX, Failure, find};
use crate::shared::apache::environment;
use crate::shared::apache::urls::{escape_uri, is_url, own_url};
use conf::value::Captures;
use contract::{Budget, Exchange, Handler, LocationKind, Reroute, Step};
use http::Status;
use journal::Level;
use std::sync::Arc;

/// Compiled rules.
pub(super) struct Program {
    rules: Vec<(Vec<Arc<Condition>>, Arc<Rule>)>,
    base: Option<Box<[u8]>>,
}

impl Program {
    pub(super) fn new(lines: Vec<Line>) -> Program {
        let mut program = Program { rules: Vec::new(), base: None };
        let mut conditions = Vec::new();
        for line in lines {
            match line {
                Line::Engine(_) => {}
                Line::Base(base) => program.base = Some(base),
                Line::Condition(condition) => conditions.push(condition),
                Line::Rule(rule) => program.rules.push((std::mem::take(&mut conditions), rule)),
            }
        }
        program
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

/// The handler.
pub(super) struct Rewriter {
    pub(super) program: Program,
    /// Whether the directory's options allow it.
    pub(super) allowed: bool,
    /// What is set after rewriting, also for the request that the rules leave.
    pub(super) settings: Arc<[mod_env::Setting]>,
    /// An internal rewrite does not take effect if one of these matches.
    pub(super) redirects: Arc<[mod_alias::Redirect]>,
}

impl Handler for Rewriter {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let Ok(path) = exchange.path() else { return Step::Next };
        let Some((_, first)) = self.program.rules.first() else { return Step::Next };
        // The directory itself, asked for without its slash, is redirected first.
        let is_directory = first.directory.strip_suffix(b"/") == Some(&path);
        if is_directory || environment::of(exchange).ended.get() {
            return Step::Next;
        }
        if !self.allowed {
            exchange.log(Level::Error, "rewriting needs the option FollowSymLinks");
            return Step::Finish(Status::FORBIDDEN);
        }
        let budget = Budget::of(exchange);
        let _running = budget.run();
        let mut run = Run {
            redirection: None,
            program: &self.program,
            exchange,
            filename: path.clone(),
            changes: false,
            escapes: true,
            budget: &budget,
        };
        match run.rules() {
            Ok(Some(status)) => Step::Finish(status),
            Ok(None) if !run.changes => Step::Next,
            Ok(None) => match run.redirection {
                Some(status) => run.redirect(status),
                None => run.internal(&path, self),
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

struct Run<'a> {
    program: &'a Program,
    exchange: &'a mut Exchange,
    /// The path of the file as it is rewritten: below the file system's root, or a path of a URI.
    filename: Vec<u8>,
    changes: bool,
    /// Where the path is a URL: the status to send the client there with.
    redirection: Option<Status>,
    /// Whether a redirect's path is escaped.
    escapes: bool,
    budget: &'a Budget,
}

impl Run<'_> {
    fn rules(&mut self) -> Result<Option<Status>, Failure> {
        let rules = &self.program.rules;
        let mut at = 0;
        while let Some((conditions, rule)) = rules.get(at) {
            let args = self.exchange.request.args.as_ref().map_or(0, Vec::len);
            if self.filename.len().max(args) > BYTES_MAX {
                return Err(Failure::TooLong);
            }
            at += 1;
            match self.rule(conditions, rule)? {
                Flow::Failed => {
                    let mut chained = rule.flags.chain;
                    while chained && let Some((_, next)) = rules.get(at) {
                        (chained, at) = (next.flags.chain, at + 1);
                    }
                }
                Flow::Matched if rule.flags.next_round => at = 0,
                Flow::Matched => at = at.saturating_add(rule.flags.skip),
                Flow::Last => return Ok(None),
                Flow::End(status) => return Ok(Some(status)),
            }
        }
        Ok(None)
    }

    fn rule(&mut self, conditions: &[Arc<Condition>], rule: &Rule) -> Result<Flow, Failure> {
        if rule.flags.no_subrequest && self.exchange.subrequest {
            return Ok(Flow::Failed);
        }
        let below = self.filename.strip_prefix(&*rule.directory).unwrap_or(&self.filename);
        let mut captures = Captures::default();
        if find(&rule.pattern, below, &mut captures, self.budget)? == rule.negated {
            return Ok(Flow::Failed);
        }
        let matched = Match { subject: below.to_vec(), captures };
        let mut captured = Match::default();
        if !self.hold(conditions, &matched, &mut captured)? {
            return Ok(Flow::Failed);
        }
        let context = self.context(&matched, &captured, rule.flags.escape_groups);
        let target = rule.target.as_ref().map(|target| target.evaluate(&context)).transpose()?;
        self.set_environment(rule, &matched, &captured)?;
        if rule.flags.end {
            environment::of(self.exchange).ended.set(true);
        }
        if let Some(status) = rule.flags.status.filter(|status| !status.is_redirection()) {
            return Ok(Flow::End(status));
        }
        let Some(target) = target else {
            return Ok(if rule.flags.last || rule.flags.end { Flow::Last } else { Flow::Matched });
        };
        self.escapes = !rule.flags.no_escape;
        Ok(self.take(rule, target))
    }

    /// Puts a target in the place of the path.
    fn take(&mut self, rule: &Rule, target: Vec<u8>) -> Flow {
        let target = match is_url(&target) || target.starts_with(b"/") {
            true => target,
            false => [&rule.directory, &*target].concat(),
        };
        self.changes = true;
        let path = self.split(rule, target);
        self.filename = self.own_path(&path).unwrap_or(path);
        if rule.flags.status.is_some() && !is_url(&self.filename) {
            self.filename = own_url(self.exchange, &self.uri());
        }
        self.redirection = is_url(&self.filename).then(|| rule.flags.status.unwrap_or(Status::FOUND));
        if rule.flags.last || rule.flags.end { Flow::Last } else { Flow::Matched }
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
        if rule.flags.append_args
            && let Some(present) = args.as_ref().filter(|args| !args.is_empty())
        {
            if !query.is_empty() {
                query.push(b'&');
            }
            query.extend_from_slice(present);
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

    fn hold(
        &self,
        conditions: &[Arc<Condition>],
        matched: &Match,
        captured: &mut Match,
    ) -> Result<bool, Failure> {
        let mut conditions = conditions.iter();
        while let Some(condition) = conditions.next() {
            let mut found = None;
            let holds = condition.holds(&self.context(matched, captured, false), &mut found)?;
            if let Some(found) = found {
                *captured = found;
            }
            match (holds, condition.or_next) {
                (false, false) => return Ok(false),
                (false, true) | (true, false) => {}
                (true, true) => {
                    // The rest of the alternatives need not be asked.
                    let mut or_next = true;
                    while or_next && let Some(skipped) = conditions.next() {
                        or_next = skipped.or_next;
                    }
                }
            }
        }
        Ok(true)
    }

    fn context<'c>(&'c self, rule: &'c Match, condition: &'c Match, escapes: bool) -> Context<'c> {
        Context {
            exchange: self.exchange,
            filename: &self.filename,
            is_rewritten: self.changes,
            rule,
            condition,
            escapes,
            budget: self.budget,
        }
    }

    fn set_environment(&self, rule: &Rule, matched: &Match, captured: &Match) -> Result<(), Failure> {
        let context = self.context(matched, captured, false);
        let environment = environment::of(self.exchange);
        for (name, value) in &rule.flags.environment {
            let name = name.evaluate(&context)?;
            match value {
                Some(value) => environment.set(&name, &value.evaluate(&context)?)?,
                None => environment.unset(&name),
            }
        }
        Ok(())
    }

    /// The URI of the path: below the directory it is the base's, below the root what the root leaves.
    fn uri(&self) -> Vec<u8> {
        let directory = self.program.rules.first().map_or(&b"/"[..], |(_, rule)| &rule.directory);
        if let Some(base) = &self.program.base
            && let Some(rest) = self.filename.strip_prefix(directory)
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
                None => self.filename.clone(),
            },
            Some(_) => self.filename.clone(),
        }
    }

    fn redirect(&mut self, status: Status) -> Step {
        let target = &self.filename;
        let mut location = Vec::new();
        if self.escapes {
            let host = path_start(target);
            location.extend_from_slice(&target[..host]);
            escape_uri(&target[host..], &mut location);
        } else {
            location.clone_from(target);
        }
        if let Some(args) = self.exchange.request.args.as_ref().filter(|args| !args.is_empty()) {
            location.push(b'?');
            location.extend_from_slice(args);
        }
        self.exchange.response.location = Some(location.into());
        Step::Finish(status)
    }

    /// Sends the request to the rewritten path. As in Apache, a `Redirect` of the directory that matches the original
    /// path answers instead.
    fn internal(&mut self, before: &[u8], rewriter: &Rewriter) -> Step {
        if self.filename == before {
            return Step::Next;
        }
        let uri = self.uri();
        if !uri.starts_with(b"/") {
            return Step::Finish(Status::BAD_REQUEST);
        }
        if let Err(failure) = mod_env::apply(self.exchange, &rewriter.settings, self.budget) {
            return failure.refuse(self.exchange);
        }
        match mod_alias::apply(self.exchange, &rewriter.redirects, self.budget) {
            Step::Next => {}
            step => return step,
        }
        let request = &self.exchange.request;
        environment::of(self.exchange).redirect(&request.path, request.args.as_deref());
        Step::Reroute(Reroute::Uri { path: uri, args: request.args.clone() })
    }
}

/// Where the path of a URL starts.
fn path_start(url: &[u8]) -> usize {
    let host = url.windows(3).position(|part| part == b"://").map_or(0, |at| at + 3);
    url[host..].iter().position(|&byte| byte == b'/').map_or(url.len(), |at| host + at)
}
