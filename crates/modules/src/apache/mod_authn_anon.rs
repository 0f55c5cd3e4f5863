//! Lets guests in without an account, as `.htaccess` files say: `AuthBasicProvider anon`.
//!
//! The names of `Anonymous` are the guests' user names, whatever their case; `*` is any name. The password is the guest's
//! e-mail address. With `AuthBasicProvider file anon` the file of users comes first.
//!
//! nginx: none
//!
//! ```file html/pub/a.txt
//! for guests
//! ```
//!
//! ```file html/pub/.htaccess
//! AuthType Basic
//! AuthName "Guests"
//! AuthBasicProvider anon
//! Anonymous anonymous guest
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
//! GET /pub/a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 401 Unauthorized
//! WWW-Authenticate: Basic realm="Guests"
//! ---
//! GET /pub/a.txt HTTP/1.1
//! Host: localhost
//! Authorization: Basic Z3Vlc3Q6bWVAZXhhbXBsZS5jb20=
//!
//! HTTP/1.1 200 OK
//!
//! for guests
//! ```

use crate::shared::apache::{in_file, last, without_effect};
use conf::Arity;
use conf::value::flag;
use contract::{Directive, Module, View};

/// Guests.
pub static MODULE: Module = Module {
    name: "mod_authn_anon",
    directives: &[&ANONYMOUS, &LOG_EMAIL, &MUST_GIVE_EMAIL, &NO_USER_ID, &VERIFY_EMAIL],
    variables: &[],
    compile: None,
};

/// `Anonymous NAME … | *`
pub(crate) static ANONYMOUS: Directive<Vec<Box<[u8]>>> = in_file(Directive::new("Anonymous", |args, _| {
    Ok(args.words().iter().map(|word| word.text.clone()).collect())
}))
.args(Arity::AtLeast(1))
.help("The user names of guests.");

/// `Anonymous_LogEmail On | Off`
static LOG_EMAIL: Directive<()> =
    without_effect("Anonymous_LogEmail", Arity::Flag, "Has no effect: addresses of guests are not logged.");

/// `Anonymous_MustGiveEmail On | Off`
static MUST_GIVE_EMAIL: Directive<bool> =
    switch("Anonymous_MustGiveEmail", "on", "Whether a password must be given.");

/// `Anonymous_NoUserId On | Off`
static NO_USER_ID: Directive<bool> =
    switch("Anonymous_NoUserId", "off", "Whether guests may leave the user name out.");

/// `Anonymous_VerifyEmail On | Off`
static VERIFY_EMAIL: Directive<bool> =
    switch("Anonymous_VerifyEmail", "off", "Whether the password must have an `@` and a dot.");

const fn switch(name: &'static str, default: &'static str, help: &'static str) -> Directive<bool> {
    in_file(Directive::new(name, |args, _| args.value(0, flag))).args(Arity::Flag).default(default).help(help)
}

/// Who is a guest.
pub(crate) struct Guests {
    names: Vec<Box<[u8]>>,
    must_give_email: bool,
    no_user_id: bool,
    verify_email: bool,
}

impl Guests {
    /// What a level says.
    pub(crate) fn of(view: &View<'_>) -> Guests {
        Guests {
            names: last(view, &ANONYMOUS).unwrap_or_default(),
            must_give_email: last(view, &MUST_GIVE_EMAIL).unwrap_or(true),
            no_user_id: last(view, &NO_USER_ID).unwrap_or(false),
            verify_email: last(view, &VERIFY_EMAIL).unwrap_or(false),
        }
    }

    /// Whether a guest may pass; none if the user is no guest.
    pub(crate) fn admit(&self, user: &[u8], password: &[u8]) -> Option<bool> {
        let is_named = || self.names.iter().any(|name| **name == *b"*" || name.eq_ignore_ascii_case(user));
        let is_guest = if user.is_empty() { self.no_user_id } else { is_named() };
        let has_email = [b'@', b'.'].iter().all(|byte| password.contains(byte));
        is_guest
            .then_some((!self.must_give_email || !password.is_empty()) && (!self.verify_email || has_email))
    }
}
