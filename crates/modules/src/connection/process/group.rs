//! The group of the worker, where it is named by a separate directive.

use super::{USER, User};
use conf::Contexts;
use contract::{Directive, View};

/// `Group NAME`
pub(super) static GROUP: Directive<String> = Directive::new("Group", |args, _| Ok(args.word(0)?.to_string()))
    .within(Contexts::HTTPD)
    .help("The group that the worker runs as, in Apache's main configuration.");

/// The user of the worker, with its group.
pub(super) fn user(main: &View<'_>) -> Option<User> {
    let user = main.get(&USER)?.clone();
    Some(User { group: user.group.or_else(|| main.get(&GROUP).cloned()), ..user })
}
