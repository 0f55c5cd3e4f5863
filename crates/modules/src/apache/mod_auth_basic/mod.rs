//! Requires a user name and a password in `.htaccess` files: `AuthType Basic` and its companions.
//!
//! `AuthType Basic`, `AuthName` and `AuthUserFile` say how users prove who they are. `Require valid-user`,
//! `Require user NAME …` and `Require group NAME …` say which users may pass. Passwords have the forms that
//! [`auth_basic`](auth_basic.md) knows. `AuthGroupFile` has a line for each group: its name, a colon, and its users. A
//! relative path starts at the prefix (`-p`), as it starts at `ServerRoot` in Apache.
//!
//! A file of users or groups must be below the location's root, or below a directory of `htaccess_user_files`, a
//! directive of Fulmar's for the server's configuration. Other files give 500, and the error log says so. The reason:
//! a `.htaccess` file must not give one site the users of another one.
//!
//! [`AuthType Digest`](mod_auth_digest.md) is the other type. `file` and [`anon`](mod_authn_anon.md) are the providers;
//! with others the directory answers 500.
//!
//! nginx: none
//!
//! ```file html/private/a.txt
//! for members
//! ```
//!
//! ```file html/private/.htpasswd
//! alice:{PLAIN}secret
//! ```
//!
//! ```file html/private/.htaccess
//! AuthType Basic
//! AuthName "Members"
//! AuthUserFile html/private/.htpasswd
//! Require valid-user
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     htaccess on;
//! }
//! ```
//!
//! ```http
//! GET /private/a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 401 Unauthorized
//! WWW-Authenticate: Basic realm="Members"
//! ---
//! GET /private/a.txt HTTP/1.1
//! Host: localhost
//! Authorization: Basic YWxpY2U6c2VjcmV0
//!
//! HTTP/1.1 200 OK
//!
//! for members
//! ```

mod location;
mod provider;

use crate::apache::mod_auth_digest::{self, Claim, Digest, Found};
use crate::apache::mod_authn_anon::Guests;
use crate::authorization::auth_basic::asking::{self, Progress};
use crate::authorization::auth_basic::{Failure, read};
use crate::shared::apache::{in_directory, last, wrong};
use crate::shared::files;
use crate::values::variables::user;
use conf::value::choice;
use conf::{Arity, Contexts, Diagnostic};
use contract::{Args, Directive, Exchange, Loading, Module, Outcome, Step, View, Work};
use http::Status;
use journal::Level;
use location::{outside_text, starts_with_absolute};
use provider::{Provider, groups_of};
use std::path::{Path, PathBuf};

/// Users and passwords of `.htaccess` files.
pub static MODULE: Module = Module {
    name: "mod_auth_basic",
    directives: &[
        &AUTH_TYPE,
        &AUTH_NAME,
        &AUTH_USER_FILE,
        &AUTH_GROUP_FILE,
        &AUTH_BASIC_PROVIDER,
        &AUTH_BASIC_AUTHORITATIVE,
        &HTACCESS_USER_FILES,
    ],
    variables: &[],
    compile: None,
};

/// `AuthType None | Basic | Digest`
static AUTH_TYPE: Directive<Type> = in_directory(Directive::new("AuthType", parse_type))
    .args(Arity::Exactly(1))
    .help("How users prove who they are: `Basic`, `Digest`, or `None`.");

/// `AuthName REALM`
static AUTH_NAME: Directive<Box<[u8]>> =
    in_directory(Directive::new("AuthName", |args, _| Ok(args.word(0)?.text.clone())))
        .args(Arity::Exactly(1))
        .help("The realm that browsers show.");

/// `AuthUserFile FILE`
static AUTH_USER_FILE: Directive<PathBuf> = in_directory(Directive::new("AuthUserFile", parse_path))
    .args(Arity::Exactly(1))
    .help("The file of users and passwords.");

/// `AuthGroupFile FILE`
static AUTH_GROUP_FILE: Directive<PathBuf> = in_directory(Directive::new("AuthGroupFile", parse_path))
    .args(Arity::Exactly(1))
    .help("The file of groups and their users.");

/// `AuthBasicProvider file | anon …`
static AUTH_BASIC_PROVIDER: Directive<Vec<Provider>> =
    in_directory(Directive::new("AuthBasicProvider", provider::parse))
        .args(Arity::AtLeast(1))
        .help("Where users are looked up: `file`, `anon`, or both.");

/// `AuthBasicAuthoritative On | Off`
static AUTH_BASIC_AUTHORITATIVE: Directive<bool> =
    in_directory(Directive::new("AuthBasicAuthoritative", parse_flag))
        .args(Arity::Exactly(1))
        .help("Accepted. Unknown users are rejected in any case, because there is no other provider.");

/// `htaccess_user_files DIRECTORY …`
static HTACCESS_USER_FILES: Directive<Box<[PathBuf]>> =
    Directive::new("htaccess_user_files", parse_directories)
        .within(Contexts::SERVER.or(Contexts::LOCATION))
        .args(Arity::AtLeast(1))
        .help("Directories outside of the root whose files `AuthUserFile` and `AuthGroupFile` may name.");

/// The most bytes of a file of groups, or of users of `AuthType Digest`.
const FILE_LIMIT: u64 = 1024 * 1024;

/// How users prove who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    None,
    Basic,
    Digest,
}

fn parse_type(args: &Args<'_>, _: &mut Loading) -> Result<Type, Diagnostic> {
    let word = args.word(0)?;
    match word.text.to_ascii_lowercase().as_slice() {
        b"basic" => Ok(Type::Basic),
        b"digest" => Ok(Type::Digest),
        b"none" => Ok(Type::None),
        _ => Err(wrong(args, "an unsupported type", word)),
    }
}

fn parse_flag(args: &Args<'_>, _: &mut Loading) -> Result<bool, Diagnostic> {
    args.value(0, |word| choice(word, &[("on", true), ("off", false)]))
}

fn parse_path(args: &Args<'_>, loading: &mut Loading) -> Result<PathBuf, Diagnostic> {
    Ok(loading.prefix.join(files::as_path(&args.word(0)?.text)))
}

fn parse_directories(args: &Args<'_>, loading: &mut Loading) -> Result<Box<[PathBuf]>, Diagnostic> {
    let directories = args.words().iter().map(|word| loading.prefix.join(files::as_path(&word.text)));
    Ok(directories.collect())
}

/// How the users of a directory prove who they are.
pub(crate) struct Basic {
    /// With `AuthType Digest`.
    digest: Option<Digest>,
    realm: Option<Box<[u8]>>,
    providers: Vec<Provider>,
    guests: Guests,
    users: Option<PathBuf>,
    groups: Option<PathBuf>,
    /// Directories outside of the root that files may be in.
    directories: Box<[PathBuf]>,
}

/// How far the check of a user came.
pub(crate) enum Proof {
    /// The user, whose password is right, and its groups, if they are asked for.
    User(Vec<u8>, Vec<Vec<u8>>),
    /// A wait, or the end of the request.
    Step(Step),
}

/// An answer to `AuthType Digest` that was checked, and what proves to the client that the server knows the password.
struct Checked {
    claim: Claim,
    found: Found,
    proof: Vec<u8>,
}

/// Checks an answer. This blocks for the disk.
fn check(users: &Path, claim: Claim) -> Result<Checked, Failure> {
    let (text, _) = read(users, FILE_LIMIT)?;
    let (found, proof) = claim.check(&text);
    Ok(Checked { claim, found, proof })
}

/// A user whose password is right, and the file of groups.
struct Members {
    user: Vec<u8>,
    path: PathBuf,
    groups: Result<Vec<u8>, Failure>,
}

impl Basic {
    /// What a level says, if it says that users have passwords.
    pub(crate) fn of(view: &View<'_>) -> Option<Basic> {
        let kind = last(view, &AUTH_TYPE).filter(|kind| *kind != Type::None)?;
        let realm = last(view, &AUTH_NAME);
        Some(Basic {
            digest: (kind == Type::Digest).then(|| Digest::of(view, realm.as_deref().unwrap_or_default())),
            realm,
            providers: last(view, &AUTH_BASIC_PROVIDER).unwrap_or_else(|| vec![Provider::File]),
            guests: Guests::of(view),
            users: last(view, &AUTH_USER_FILE),
            groups: last(view, &AUTH_GROUP_FILE),
            directories: view.get(&HTACCESS_USER_FILES).cloned().unwrap_or_default(),
        })
    }

    /// Begins to check the user of a request, and to find its groups if they matter.
    pub(crate) fn start(&self, exchange: &mut Exchange, needs_groups: bool) -> Proof {
        if self.realm.is_some()
            && self.digest.is_none()
            && self.providers.first() == Some(&Provider::Anonymous)
        {
            match self.guest(exchange) {
                Some((user, true)) => return self.find_groups(exchange, user, needs_groups),
                None if self.providers.contains(&Provider::File) => {}
                _ => return Proof::Step(self.challenge(exchange)),
            }
        }
        let (Some(_), Some(users)) = (&self.realm, &self.users) else {
            return broken(exchange, "\"AuthType\" needs \"AuthName\" and \"AuthUserFile\"");
        };
        if !self.may_name(exchange, users) {
            return outside(exchange, users);
        }
        let Some(digest) = &self.digest else {
            let progress = asking::start(exchange, users);
            return self.act(exchange, progress, needs_groups);
        };
        let path = users.clone();
        match digest.claim(exchange) {
            Err(step) => Proof::Step(step),
            Ok(claim) => Proof::Step(Step::Await(Work::Job(Box::new(move || Box::new(check(&path, claim)))))),
        }
    }

    /// The user of a request that is a guest, and whether the guest may pass.
    fn guest(&self, exchange: &Exchange) -> Option<(Vec<u8>, bool)> {
        let field = user::field(&exchange.request).unwrap_or_default();
        let (user, password) = user::pair(field)?;
        let admitted = self.guests.admit(&user, &password)?;
        Some((user, admitted))
    }

    /// Goes on with the outcome of what was waited for.
    pub(crate) fn go_on(&self, exchange: &mut Exchange, outcome: Outcome, needs_groups: bool) -> Proof {
        let outcome = match outcome {
            Outcome::Job(result) => match result.downcast::<Members>() {
                Ok(members) => return found(exchange, *members),
                Err(result) => match result.downcast::<Result<Checked, Failure>>() {
                    Ok(checked) => return self.conclude(exchange, *checked, needs_groups),
                    Err(result) => Outcome::Job(result),
                },
            },
            outcome => outcome,
        };
        self.act(exchange, asking::go_on(outcome), needs_groups)
    }

    /// The type of the proof.
    pub(crate) fn kind(&self) -> &'static str {
        if self.digest.is_some() { "Digest" } else { "Basic" }
    }

    /// Rejects a request whose user may not pass, and asks for another one.
    pub(crate) fn challenge(&self, exchange: &mut Exchange) -> Step {
        match &self.digest {
            Some(digest) => digest.challenge(exchange, false),
            None => asking::challenge(exchange, self.realm.as_deref().unwrap_or_default()),
        }
    }

    /// Ends the check of an answer to `AuthType Digest`.
    fn conclude(
        &self,
        exchange: &mut Exchange,
        checked: Result<Checked, Failure>,
        needs_groups: bool,
    ) -> Proof {
        let (Some(digest), Some(users)) = (&self.digest, &self.users) else {
            return Proof::Step(Step::Finish(Status::INTERNAL_SERVER_ERROR));
        };
        let Checked { claim, found, proof } = match checked {
            Ok(checked) => checked,
            Err(failure) => return failed(exchange, users, &failure),
        };
        match digest.conclude(exchange, &claim, found) {
            Err(step) => Proof::Step(step),
            Ok(user) => {
                mod_auth_digest::prove(exchange, proof);
                self.find_groups(exchange, user, needs_groups)
            }
        }
    }

    fn act(&self, exchange: &mut Exchange, progress: Progress, needs_groups: bool) -> Proof {
        match progress {
            Progress::Right(user) => self.find_groups(exchange, user, needs_groups),
            Progress::NotGiven => Proof::Step(self.challenge(exchange)),
            Progress::Await(step) => Proof::Step(step),
            Progress::Lost => Proof::Step(Step::Finish(Status::INTERNAL_SERVER_ERROR)),
            Progress::Checked(checked) if checked.is_unknown() && self.is_guest(exchange) => {
                self.find_groups(exchange, checked.user, needs_groups)
            }
            Progress::Checked(checked) => match asking::conclude(exchange, &checked) {
                Ok(true) => self.find_groups(exchange, checked.user, needs_groups),
                Ok(false) => Proof::Step(self.challenge(exchange)),
                Err(failure) => failed(exchange, &checked.path, failure),
            },
        }
    }

    /// Whether a user that the file does not have may pass as a guest.
    fn is_guest(&self, exchange: &Exchange) -> bool {
        let after_file = self.providers.iter().skip_while(|provider| **provider != Provider::File);
        after_file.into_iter().any(|provider| *provider == Provider::Anonymous)
            && self.guest(exchange).is_some_and(|(_, admitted)| admitted)
    }

    fn find_groups(&self, exchange: &mut Exchange, user: Vec<u8>, needs_groups: bool) -> Proof {
        let Some(path) = self.groups.clone().filter(|_| needs_groups) else {
            return Proof::User(user, Vec::new());
        };
        if !self.may_name(exchange, &path) {
            return outside(exchange, &path);
        }
        Proof::Step(Step::Await(Work::Job(Box::new(move || {
            let groups = read(&path, FILE_LIMIT).map(|(text, _)| text);
            Box::new(Members { user, path, groups })
        }))))
    }

    /// Whether a file is below the root, or below a directory that the server's configuration names.
    fn may_name(&self, exchange: &Exchange, path: &Path) -> bool {
        let root = files::as_path(&files::base(exchange)).to_owned();
        if !self.is_below(path, &root) {
            return false;
        }
        // Links must not lead elsewhere. Opening the file reports a missing one.
        let Ok(real) = path.canonicalize() else { return true };
        let mut allowed = self.directories.iter().chain([&root]);
        allowed.any(|directory| {
            directory.canonicalize().is_ok_and(|directory| starts_with_absolute(&real, &directory))
        })
    }
}

fn found(exchange: &Exchange, members: Members) -> Proof {
    match members.groups {
        Ok(text) => {
            let groups = groups_of(&text, &members.user);
            Proof::User(members.user, groups)
        }
        Err(failure) => failed(exchange, &members.path, &failure),
    }
}

/// A file that cannot be read, or a password that cannot be checked: all requests are denied.
fn failed(exchange: &Exchange, path: &Path, failure: &Failure) -> Proof {
    Proof::Step(Step::Finish(asking::fail(exchange, path, failure)))
}

fn outside(exchange: &Exchange, path: &Path) -> Proof {
    broken(exchange, &outside_text(path))
}

/// A directory whose users cannot be checked: all requests are denied.
fn broken(exchange: &Exchange, message: &str) -> Proof {
    exchange.log(Level::Error, message);
    Proof::Step(Step::Finish(Status::INTERNAL_SERVER_ERROR))
}
