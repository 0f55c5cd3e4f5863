//! The directives of a scope, carried out in order.

use super::condition::{Condition, matches};
use super::replacement::{Next, Replaced, Told, shown};
use super::text::was_escaped;
use super::{Instruction, REWRITE, Target};
use crate::files::open_file_cache::Files;
use conf::Span;
use conf::value::TooManySteps;
use contract::{Event, Exchange, Handler, Phase, Reroute, Scope, ScopeBuilder, Step, View};
use http::Status;
use std::sync::Arc;

/// Compiled directives.
pub(super) struct Program {
    lines: Box<[Line]>,
}

enum Line {
    Do(Instruction, Span),
    If(Branch),
}

struct Branch {
    condition: Condition,
    /// Where it was written.
    place: Span,
    /// The location of the block; `None` for a block in a server.
    scope: Option<Arc<Scope>>,
    block: Program,
}

impl Program {
    /// The directives of a level, with the blocks inside of it.
    pub(super) fn new(view: &View<'_>, builder: &ScopeBuilder) -> Program {
        let in_location = view.context() == conf::Contexts::LOCATION;
        let line = |instruction: &Instruction, place| match instruction {
            Instruction::If(condition, section) => Line::If(Branch {
                condition: condition.clone(),
                place,
                scope: builder.inner.get(section).filter(|_| in_location).cloned(),
                block: Program::new(&view.at(*section), builder),
            }),
            instruction => Line::Do(instruction.clone(), place),
        };
        // One slot holds all directives of the feature, so one of them stands for all.
        let written = view.here(&REWRITE).into_iter();
        let lines = written.map(|written| line(written.value, written.span)).collect();
        Program { lines }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// The handler.
pub(super) struct Rewriter {
    program: Program,
    phase: Phase,
    is_logged: bool,
    files: Files,
}

impl Rewriter {
    pub(super) fn new(program: Program, phase: Phase, is_logged: bool, files: Files) -> Rewriter {
        Rewriter { program, phase, is_logged, files }
    }
}

impl Handler for Rewriter {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let escapes = was_escaped(exchange);
        let (is_logged, lookup) = (self.is_logged, &self.files);
        let mut run = Run { exchange, escapes, is_changed: false, is_logged, lookup };
        let flow = run.program(&self.program);
        let is_changed = run.is_changed;
        match flow {
            Flow::End(step) => step,
            // After the phase of the server a location is looked up anyway.
            Flow::On | Flow::Exit if is_changed && self.phase == Phase::Rewrite => {
                Step::Reroute(Reroute::Location)
            }
            Flow::On | Flow::Exit => Step::Next,
        }
    }
}

enum Flow {
    /// With the next line.
    On,
    /// The rest is skipped.
    Exit,
    /// The request has its answer.
    End(Step),
}

/// What happens to a request whose pattern took too many steps, or one of whose values cannot be computed.
const GIVEN_UP: Flow = Flow::End(Step::Finish(Status::INTERNAL_SERVER_ERROR));

struct Run<'a> {
    exchange: &'a mut Exchange,
    /// Whether captures in values are escaped: until the first rewrite, if the path came with escapes.
    escapes: bool,
    /// Whether the URI was changed for which a location has to be found.
    is_changed: bool,
    is_logged: bool,
    lookup: &'a Files,
}

impl Run<'_> {
    fn program(&mut self, program: &Program) -> Flow {
        for line in &program.lines {
            let flow = match line {
                Line::Do(instruction, place) => self.instruction(instruction, self.told(*place)),
                Line::If(branch) => self.branch(branch),
            };
            if !matches!(flow, Flow::On) {
                return flow;
            }
        }
        Flow::On
    }

    fn branch(&mut self, branch: &Branch) -> Flow {
        match branch.condition.holds(self.exchange, self.lookup, self.escapes, self.told(branch.place)) {
            Ok(true) => {}
            Ok(false) => return Flow::On,
            Err(TooManySteps) => return GIVEN_UP,
        }
        if let Some(scope) = &branch.scope {
            self.exchange.scope = Arc::clone(scope);
        }
        self.program(&branch.block)
    }

    fn told(&self, place: Span) -> Told {
        Told { is_logged: self.is_logged, place }
    }

    fn instruction(&mut self, instruction: &Instruction, told: Told) -> Flow {
        match instruction {
            Instruction::Return(answer) => {
                let step = answer.give(self.exchange);
                self.exchange.tell(|| Event::new("return", "answers").at(Some(told.place)));
                Flow::End(step)
            }
            Instruction::Break => {
                if std::mem::take(&mut self.is_changed) {
                    self.exchange.routing.valid_location = false;
                }
                Flow::Exit
            }
            Instruction::Set(target, text) => {
                let value = text.evaluate(self.exchange, self.escapes);
                self.set(*target, value, told)
            }
            Instruction::Compute(computation) => match computation.value(self.exchange, self.escapes) {
                Some(value) => self.set(computation.target, value, told),
                None => GIVEN_UP,
            },
            Instruction::Replace(replacement) => {
                let exchange = &mut *self.exchange;
                match matches(exchange, &replacement.regex, &exchange.request.path, told) {
                    Ok(true) => {}
                    Ok(false) => return Flow::On,
                    Err(TooManySteps) => return GIVEN_UP,
                }
                let replaced = replacement.apply(exchange, told);
                self.replaced(replaced)
            }
            // Compiled to a branch.
            Instruction::If(..) => Flow::On,
        }
    }

    fn set(&mut self, target: Target, value: Vec<u8>, told: Told) -> Flow {
        self.exchange.tell(|| {
            let text = format!("the value is \"{}\"", shown(&value));
            Event::new("set", text).with("value", &value).at(Some(told.place))
        });
        target.set(self.exchange, value);
        Flow::On
    }

    fn replaced(&mut self, replaced: Replaced) -> Flow {
        self.escapes = false;
        match replaced {
            Replaced::Empty => Flow::End(Step::Finish(Status::INTERNAL_SERVER_ERROR)),
            Replaced::Redirect(status) => Flow::End(Step::Finish(status)),
            Replaced::Uri(Next::Stay) => {
                self.is_changed = false;
                self.exchange.routing.valid_location = false;
                Flow::Exit
            }
            Replaced::Uri(next) => {
                self.is_changed = true;
                if next == Next::Location { Flow::Exit } else { Flow::On }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Site, body_text, status};
    use contract::{Exchange, Phase, Reroute, Step};

    /// What happens to a request: its URI and query, marked with how processing goes on.
    fn run(text: &str, target: &str) -> String {
        let site = Site::location(text);
        let mut exchange = site.get(target);
        let step = site.run(Phase::Rewrite, &mut exchange);
        outcome(&step, &exchange)
    }

    fn outcome(step: &Step, exchange: &Exchange) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let args = exchange.request.args.as_deref().map(|args| format!("?{}", text(args)));
        let uri = text(&exchange.request.path) + &args.unwrap_or_default();
        match step {
            Step::Next => format!("stay {uri}"),
            Step::Reroute(Reroute::Location) => format!("find {uri}"),
            Step::Respond(body) => format!("{} {}", exchange.response.status.0, body_text(body)),
            step => {
                let location = exchange.response.location.as_deref().map(text).unwrap_or_default();
                format!("{} {location}", status(step)).trim_end().to_owned()
            }
        }
    }

    #[test]
    fn flags() {
        assert_eq!(run("rewrite ^/a /b; rewrite ^/b(.*) /c$1;", "/ax?q"), "find /c?q");
        assert_eq!(run("rewrite ^/a /b last; rewrite ^/b /c;", "/a"), "find /b");
        assert_eq!(run("rewrite ^/a /b break; rewrite ^/b /c;", "/a"), "stay /b");
        assert_eq!(run("rewrite ^/a /b; break; rewrite ^/b /c;", "/a"), "stay /b");
        assert_eq!(run("rewrite ^/x /b;", "/a"), "stay /a");
        assert_eq!(run("rewrite ^/a /b redirect;", "/a"), "302 /b");
        assert_eq!(run("rewrite ^/a /b? permanent;", "/a?q"), "301 /b");
        assert_eq!(run("rewrite ^/a http://x/$uri break;", "/a?q"), "302 http://x//a?q");
        assert_eq!(run("rewrite ^ $args;", "/a"), "500");
    }

    #[test]
    fn queries() {
        assert_eq!(run("rewrite ^/a(.*) /b?x=$1;", "/a1?q"), "find /b?x=1&q");
        assert_eq!(run("rewrite ^/a(.*) /b?x=$1?;", "/a1?q"), "find /b?x=1");
        assert_eq!(run("rewrite ^/a /b?;", "/a?q"), "find /b?");
        assert_eq!(run("rewrite ^/a /b?x redirect;", "/a?q"), "302 /b?x&q");
        assert_eq!(run("set $x /b?1; rewrite ^/a $x;", "/a?q"), "find /b?1?q", "no query out of a variable");
    }

    #[test]
    fn captures_are_encoded_again() {
        let site = Site::location("rewrite ^/a(.*)/b(.*)$ /c$1?x=$2;");
        let mut exchange = site.get("/a%3f/b%26");
        exchange.request.path = b"/a?/b&".to_vec();
        let step = site.run(Phase::Rewrite, &mut exchange);
        assert_eq!(outcome(&step, &exchange), "find /c??x=%26");
        let mut exchange = site.get("/a%3f/b%26");
        exchange.request.path = b"/a?/b&".to_vec();
        exchange.subrequest = true;
        let step = site.run(Phase::Rewrite, &mut exchange);
        assert_eq!(outcome(&step, &exchange), "find /c??x=&", "a subrequest's path came without escapes");
        assert_eq!(run("rewrite ^/a(.*) /c?x=$1;", "/a&"), "find /c?x=&", "what came plain stays plain");
        let site = Site::location("if ($uri ~ (.)$) { set $x $1; } rewrite (.)$ /c; set $y $1;");
        let mut exchange = site.get("/%26");
        exchange.request.path = b"/&".to_vec();
        site.run(Phase::Rewrite, &mut exchange);
        let values = [site.variable("x", &exchange), site.variable("y", &exchange)];
        assert_eq!(values, ["%26", "&"], "values are encoded, too, until the first rewrite");
    }

    #[test]
    fn a_uri_that_was_kept_here_has_no_alias() {
        let is_valid = |text| {
            let site = Site::location(text);
            let mut exchange = site.get("/a");
            site.run(Phase::Rewrite, &mut exchange);
            exchange.routing.valid_location
        };
        assert!(is_valid("rewrite ^/a /b;") && is_valid("break;"));
        assert!(!is_valid("rewrite ^/a /b break;") && !is_valid("rewrite ^/a /b; break;"));
    }

    #[test]
    fn conditions() {
        let holds = |condition: &str, args: &str| {
            let text = format!("if ({condition}) {{ return 403; }} return 404;");
            run(&text, &format!("/?{args}")) == "403"
        };
        assert!(holds("$args", "1") && !holds("$args", "0") && !holds("$args", ""));
        assert!(holds("$args = a", "a") && !holds("$args = a", "b"));
        assert!(holds("$args != a", "b") && !holds("$args != a", "a"));
        assert!(holds("$args ~ ^A", "Ab") && !holds("$args ~ ^A", "ab"));
        assert!(holds("$args ~* ^A", "ab") && !holds("$args !~* ^A", "ab") && holds("$args !~ ^A", "ab"));
        assert!(holds("-f /proc/self/stat", "") && !holds("-f /proc/self", ""));
        assert!(holds("-d /proc/self", "") && holds("-e /proc/self", "") && holds("!-e /proc/none", ""));
        assert!(holds(" -x /proc/self/exe ", "") && holds("!-x /proc/self/stat", ""));
        assert!(!holds("-f ''", "") && holds("!-f ''", ""));
    }

    #[test]
    fn captures_of_the_last_pattern() {
        let text = "if ($args ~ ^(.)(.)) { set $x $2$1; } if ($args ~ z) { set $y bad; } return 200 $x-$1;";
        assert_eq!(run(text, "/?ab"), "200 ba-", "a pattern that does not match takes the captures away");
        assert_eq!(run("if ($args ~ (?<n>.)) { } return 200 $n;", "/?ab"), "200 a");
    }

    #[test]
    fn a_block_is_a_location() {
        let site = Site::location("if ($args) { error_page 404 /x; } error_page 404 /y; set $x 1;");
        let mut exchange = site.get("/?1");
        assert!(matches!(site.run(Phase::Rewrite, &mut exchange), Step::Next));
        let page = exchange.scope.policy.error_pages[0].target.evaluate(&exchange);
        assert_eq!(page, b"/x");
        assert_eq!(site.variable("x", &exchange), "1", "what stands behind the block is carried out, too");
    }

    #[test]
    fn answers() {
        assert_eq!(run("return 404;", "/"), "404");
        assert_eq!(run("return 404 $uri;", "/a"), "404 /a");
        assert_eq!(run("return 200;", "/"), "200 ");
        assert_eq!(run("return 307 /a$args;", "/?b"), "307 /ab");
        assert_eq!(run("return http://x$uri;", "/a"), "302 http://x/a");
        assert_eq!(run("return 444;", "/a"), "444");
    }

    #[test]
    fn variables() {
        let site = Site::location("if ($args) { set $x a$args; set $args ''; }");
        let mut exchange = site.get("/?b");
        site.run(Phase::Rewrite, &mut exchange);
        assert_eq!(site.variable("x", &exchange), "ab");
        assert_eq!(exchange.request.args.as_deref(), Some(&b""[..]));
        assert_eq!(site.variable("x", &site.get("/")), "", "not set yet");
        let site = Site::location("map $args $x { default m; } if ($args) { set $x s; }");
        let mut exchange = site.get("/?1");
        site.run(Phase::Rewrite, &mut exchange);
        assert_eq!(
            (site.variable("x", &exchange), site.variable("x", &site.get("/"))),
            ("s".into(), "m".into())
        );
    }

    #[test]
    fn a_variable_of_a_family_keeps_its_meaning_until_it_is_set() {
        assert_eq!(run("if ($arg_set) { set $arg_a s; } return 200 $arg_a;", "/?a=1"), "200 1");
        assert_eq!(run("if ($arg_set) { set $arg_a s; } return 200 $arg_a;", "/?a=1&set=1"), "200 s");
    }

    #[test]
    fn a_server_rewrites_before_the_location() {
        let site = Site::server("rewrite ^/a /b; if ($args) { return 403; }");
        let mut exchange = site.get("/a");
        assert!(matches!(site.run(Phase::ServerRewrite, &mut exchange), Step::Next));
        assert_eq!(exchange.request.path, b"/b");
        assert_eq!(status(&site.run(Phase::ServerRewrite, &mut site.get("/?1"))), 403);
    }

    #[test]
    fn messages() {
        for (text, message) in [
            ("rewrite ^ '';", "empty replacement"),
            ("rewrite ^ /a sometimes;", "invalid parameter \"sometimes\""),
            ("return x;", "invalid return code \"x\""),
            ("return 1000;", "invalid return code \"1000\""),
            ("return /a;", "invalid return code \"/a\""),
            ("set x 1;", "invalid variable name \"x\""),
            ("set $ 1;", "invalid variable name \"$\""),
            ("if $uri { }", "invalid condition \"$uri\""),
            ("if ($uri { }", "invalid condition \"$uri\""),
            ("if () { }", "invalid condition \")\""),
            ("if ( ) { }", "invalid condition \")\""),
            ("if (-f) { }", "invalid condition \"-f\""),
            ("if ($uri a) { }", "invalid condition \"$uri\""),
            ("if ($uri == a) { }", "unexpected \"==\" in condition"),
            ("if (-q a) { }", "invalid condition \"-q\""),
            ("if (a) { }", "invalid condition \"a\""),
        ] {
            assert_eq!(Site::error(text), message, "{text}");
        }
    }
}
