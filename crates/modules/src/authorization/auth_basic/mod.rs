//! Requires a user name and a password (RFC 7617).
//!
//! The first argument of `auth_basic` is the realm, which browsers show; `off` cancels an outer level's directive.
//! The file of `auth_basic_user_file` has a line for each user: a name, a colon, and the password as `htpasswd` and
//! `openssl passwd` write it. A second colon starts a comment, and so does `#` at the beginning of a line. Fulmar
//! knows these forms of passwords:
//!
//! - bcrypt (`$2y$`, `$2a$`, `$2b$`) up to a cost of 14, the recommended one: `htpasswd -B`;
//! - SHA-crypt (`$5$`, `$6$`) up to 500000 rounds;
//! - MD5 (`$apr1$`, `$1$`) and DES (which uses only the first eight characters);
//! - `{SHA}`, `{SSHA}` and `{PLAIN}`.
//!
//! Any other form, or a higher cost, is rejected and logged. Fulmar notices a changed file at once. Passwords are
//! checked outside of the event loop, a few at a time; if too many wait, the response is 503. A correct password is
//! remembered for a short time, until the user's line changes. An unknown user takes as long as a wrong password for
//! the first user. If the file is missing, the response is 403; if it cannot be read, 500.
//!
//! Both arguments may contain variables. `satisfy` combines passwords with addresses, and `auth_delay` slows down
//! guessing. The user is in `$remote_user`. Where no password is required, the variable is what the client claims, or, with
//! [`htaccess on`](../htaccess.md#files-of-users-and-passwords), empty.
//!
//! ```file users
//! alice:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0:writes the news
//! ```
//!
//! ```file html/a.txt
//! for members
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     auth_basic "members";
//!     auth_basic_user_file users;
//!     location /open {
//!         auth_basic off;
//!         return 200 "for all\n";
//!     }
//! }
//! ```
//!
//! ```http
//! GET /a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 401 Unauthorized
//! WWW-Authenticate: Basic realm="members"
//! ---
//! GET /a.txt HTTP/1.1
//! Host: localhost
//! Authorization: Basic YWxpY2U6c2VjcmV0
//!
//! HTTP/1.1 200 OK
//!
//! for members
//! ---
//! GET /open HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! for all
//! ```

pub(crate) mod asking;
mod check;
mod des_crypt;
mod gate;
mod md5_crypt;
mod password;
mod recent;

use crate::shared::apache::variables::note_user;
use crate::shared::files;
use asking::Progress;
use check::Checked;
pub(crate) use check::{Failure, read};
use conf::{Contexts, Diagnostic, Span};
use contract::{
    Args, Directive, Event, Exchange, Handler, Loading, Module, Outcome, Phase, ScopeBuilder, Step, Template,
    View,
};
use http::Status;
use journal::Level;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Access by password.
pub static MODULE: Module = Module {
    name: "auth_basic",
    directives: &[&AUTH_BASIC, &AUTH_BASIC_USER_FILE],
    variables: &[],
    compile: Some(compile),
};

const EVERYWHERE: Contexts =
    Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION).or(Contexts::LIMIT_EXCEPT);

/// `auth_basic REALM | off`
pub static AUTH_BASIC: Directive<Template> =
    Directive::new("auth_basic", |args, loading| loading.template(args.word(0)?))
        .within(EVERYWHERE)
        .default("off")
        .help("Requires a user and a password. The name is shown to the user.");

/// `auth_basic_user_file FILE`
pub static AUTH_BASIC_USER_FILE: Directive<UserFile> =
    Directive::new("auth_basic_user_file", UserFile::parse)
        .within(EVERYWHERE)
        .help("The file of users and passwords; a relative path starts where the configuration is.");

/// A file of users and passwords.
#[derive(Clone, Debug)]
pub enum UserFile {
    /// Always the same.
    Fixed(PathBuf),
    /// A path with variables, and what a relative one starts from.
    Made(Template, PathBuf),
}

impl UserFile {
    fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<UserFile, Diagnostic> {
        let (path, directory) = (loading.template(args.word(0)?)?, &loading.conf_prefix);
        Ok(match path.constant() {
            Some(path) => UserFile::Fixed(directory.join(files::as_path(path))),
            None => UserFile::Made(path, directory.clone()),
        })
    }

    fn path(&self, exchange: &Exchange) -> Cow<'_, Path> {
        match self {
            UserFile::Fixed(path) => path.into(),
            UserFile::Made(path, directory) => {
                directory.join(files::as_path(&path.evaluate(exchange))).into()
            }
        }
    }
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let (Some(realm), Some(file)) = (view.get(&AUTH_BASIC), view.written(&AUTH_BASIC_USER_FILE))
        && realm.constant() != Some(OFF)
    {
        let (file, place) = (file.value.clone(), file.span);
        builder.handle(Phase::Access, AuthBasic { realm: realm.clone(), file, place });
    }
    Ok(())
}

/// The realm of a place that needs no password.
const OFF: &[u8] = b"off";

struct AuthBasic {
    realm: Template,
    file: UserFile,
    /// Where the file is named.
    place: Span,
}

impl Handler for AuthBasic {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if self.realm.constant().is_none() && self.realm.evaluate(exchange) == OFF {
            return Step::Next;
        }
        let progress = asking::start(exchange, &self.file.path(exchange));
        self.act(exchange, progress)
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        self.act(exchange, asking::go_on(outcome))
    }
}

impl AuthBasic {
    fn act(&self, exchange: &mut Exchange, progress: Progress) -> Step {
        let is_right = match &progress {
            Progress::Right(_) => Ok(true),
            Progress::NotGiven => {
                exchange.log(Level::Info, "no user/password was provided for basic authentication");
                Ok(false)
            }
            Progress::Checked(checked) => {
                asking::conclude(exchange, checked).map_err(|failure| fail(exchange, &checked.path, failure))
            }
            Progress::Await(_) | Progress::Lost => Err(Step::Finish(Status::INTERNAL_SERVER_ERROR)),
        };
        match (progress, is_right) {
            (Progress::Await(step), _) | (_, Err(step)) => step,
            (progress, Ok(true)) => {
                exchange.tell(|| Event::new("auth_basic", "the password is right").at(Some(self.place)));
                if let Progress::Right(user) | Progress::Checked(Checked { user, .. }) = &progress {
                    note_user(exchange, user);
                }
                Step::Allow
            }
            (_, Ok(false)) => {
                let realm = self.realm.evaluate(exchange);
                asking::challenge(exchange, &realm)
            }
        }
    }
}

/// Why nothing could be checked, as a step. A file that does not exist is 403, as in nginx.
fn fail(exchange: &Exchange, path: &Path, failure: &Failure) -> Step {
    let status = asking::fail(exchange, path, failure);
    Step::Finish(if failure.is_missing() { Status::FORBIDDEN } else { status })
}

#[cfg(test)]
mod tests {
    use crate::testing::{Site, finish, status};
    use contract::{Exchange, Outcome, Phase, Step, Work};
    use std::sync::Arc;

    /// What the handler says in the end.
    fn verdict(exchange: &mut Exchange) -> Step {
        let scope = Arc::clone(&exchange.scope);
        let Some(handler) = scope.handlers(Phase::Access).first() else { return Step::Next };
        let mut step = handler.run(exchange);
        loop {
            let outcome = match step {
                Step::Await(Work::Job(job)) => Outcome::Job(job()),
                Step::Await(Work::Task(task)) => finish(task, exchange),
                step => return step,
            };
            step = handler.resume(exchange, outcome);
        }
    }

    fn ask(site: &Site, credentials: &str) -> Exchange {
        let mut exchange = site.get("/");
        let value = format!("Basic {credentials}");
        exchange.request.head.fields.push(b"Authorization", value.as_bytes()).unwrap();
        exchange
    }

    fn site(realm: &str) -> Site {
        let site = Site::location(&format!("auth_basic {realm}; auth_basic_user_file users;"));
        site.file("users", "#u:{PLAIN}no\nu:{PLAIN}p:remark\nbad:???\nu:{PLAIN}second\n");
        site
    }

    #[test]
    fn users_of_the_file_get_in() {
        let site = site("x");
        assert!(matches!(verdict(&mut ask(&site, "dTpw")), Step::Allow), "u:p");
        for (wrong, why) in
            [("dTpx", "password"), ("dTpzZWNvbmQ=", "the first line counts"), ("djpw", "user")]
        {
            assert_eq!(status(&verdict(&mut ask(&site, wrong))), 401, "{why}");
        }
        assert_eq!(status(&verdict(&mut ask(&site, "YmFkOj8/Pw=="))), 401, "a form that nobody knows");
        assert_eq!(status(&verdict(&mut ask(&site, "I3U6bm8="))), 401, "a remark");
        assert_eq!(status(&verdict(&mut site.get("/"))), 401);
    }

    #[test]
    fn a_realm_cannot_end_its_string() {
        let site = site(r#"'a "b" \c'"#);
        let mut exchange = site.get("/");
        verdict(&mut exchange);
        let field = exchange.response.fields.get("www-authenticate").unwrap();
        assert_eq!(field, br#"Basic realm="a \"b\" \\c""#);
        let mut exchange = site.get("/");
        super::asking::challenge(&mut exchange, b"a\r\nb");
        assert_eq!(exchange.response.fields.get("www-authenticate").unwrap(), b"Basic realm=\"a  b\"");
    }

    #[test]
    fn off_asks_nobody() {
        assert!(matches!(verdict(&mut site("off").get("/")), Step::Next));
        let site = Site::location("set $x off; auth_basic $x; auth_basic_user_file users;");
        let mut exchange = site.get("/");
        site.run(Phase::Rewrite, &mut exchange);
        assert!(matches!(verdict(&mut exchange), Step::Next));
        assert!(matches!(verdict(&mut Site::location("auth_basic x;").get("/")), Step::Next), "no file");
    }

    #[test]
    fn files_that_are_not_there_or_no_files() {
        let site = Site::location("auth_basic x; auth_basic_user_file $arg_f;");
        let answer = |target: &str| {
            let mut exchange = site.get(target);
            exchange.request.head.fields.push(b"Authorization", b"Basic dTpw").unwrap();
            status(&verdict(&mut exchange))
        };
        site.file("users", "u:{PLAIN}p");
        assert_eq!(answer("/?f=none"), 403);
        assert_eq!(answer("/"), 500, "a directory");
        assert_eq!(answer("/?f=users"), 0);
    }
}
