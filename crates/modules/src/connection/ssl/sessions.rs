//! How sessions are resumed.

use super::{IN_BOTH, session_cache};
use conf::{Arity, value};
use contract::{Directive, Pem, PemSource, Rule, TlsPolicy, View};
use std::time::Duration;

/// `ssl_session_cache off | none | [builtin[:SIZE]] [shared:NAME:SIZE]`
pub(super) static SSL_SESSION_CACHE: Directive<usize> =
    Directive::new("ssl_session_cache", session_cache::parse)
        .within(IN_BOTH)
        .args(Arity::Range(1, 2))
        .default("none")
        .help("How many sessions are kept for clients without tickets.");

/// `ssl_session_tickets on | off`
pub(super) static SSL_SESSION_TICKETS: Directive<bool> = Directive::flag("ssl_session_tickets")
    .within(IN_BOTH)
    .default("on")
    .help("Whether clients get tickets, by which sessions are resumed.");

/// `ssl_session_ticket_key FILE`
pub(super) static SSL_SESSION_TICKET_KEY: Directive<Pem> =
    Directive::new("ssl_session_ticket_key", |args, loading| {
        let path = value::path(args.word(0)?, &loading.conf_prefix);
        Ok(Pem { source: PemSource::File(path), span: args.node.span })
    })
    .within(IN_BOTH)
    .rule(Rule::List)
    .help("A file with a key of tickets: the first one seals them, all of them open them.");

/// `ssl_session_timeout TIME`
pub(super) static SSL_SESSION_TIMEOUT: Directive<Duration> =
    Directive::new("ssl_session_timeout", |args, _| Ok(Duration::from_secs(args.value(0, value::time_s)?)))
        .within(IN_BOTH)
        .default("5m")
        .help("How long a session can be resumed. The keys of tickets are replaced after this time.");

/// Has sessions resumed as configured.
pub(super) fn configure(view: &View<'_>, policy: &mut TlsPolicy) {
    let choices = &mut policy.choices;
    view.assign(&SSL_SESSION_CACHE, &mut choices.cached_sessions);
    view.assign(&SSL_SESSION_TICKETS, &mut choices.tickets);
    view.assign(&SSL_SESSION_TIMEOUT, &mut choices.session_timeout);
    policy.ticket_keys = view.all(&SSL_SESSION_TICKET_KEY).iter().map(|key| key.value.clone()).collect();
}
