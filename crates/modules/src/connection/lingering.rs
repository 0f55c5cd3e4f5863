//! Sets how connections are closed.
//!
//! If the server closed a connection while the client still sends, the client could lose the response. So the
//! server reads and discards what arrives, for up to `lingering_time` in total and `lingering_timeout` between two
//! reads. `lingering_close` chooses when: never (`off`), if the client may still be sending (`on`), or `always`.
//!
//! `reset_timedout_connection` resets connections that timed out, which frees their memory in the kernel at once.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     lingering_close always;
//!     lingering_time 10s;
//!     lingering_timeout 2s;
//!     reset_timedout_connection on;
//! }
//! ```

use conf::{Contexts, Diagnostic, value};
use contract::policy::LingeringClose;
use contract::{Directive, Module, ScopeBuilder, View};
use std::time::Duration;

/// How connections are closed.
pub static MODULE: Module = Module {
    name: "lingering",
    directives: &[&LINGERING_CLOSE, &LINGERING_TIME, &LINGERING_TIMEOUT, &RESET_TIMEDOUT_CONNECTION],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `lingering_close off | on | always`
pub static LINGERING_CLOSE: Directive<LingeringClose> =
    Directive::new("lingering_close", |args, _| args.value(0, |word| value::choice(word, &CLOSE)))
        .within(LEVELS)
        .default("on")
        .help("When the server reads and discards what a client still sends.");

const CLOSE: [(&str, LingeringClose); 3] =
    [("off", LingeringClose::Off), ("on", LingeringClose::On), ("always", LingeringClose::Always)];

/// `lingering_time TIME`
pub static LINGERING_TIME: Directive<Duration> = Directive::time("lingering_time")
    .within(LEVELS)
    .default("30s")
    .help("How long the server reads on in total.");

/// `lingering_timeout TIME`
pub static LINGERING_TIMEOUT: Directive<Duration> = Directive::time("lingering_timeout")
    .within(LEVELS)
    .default("5s")
    .help("How long the server reads on after the last data of the client.");

/// `reset_timedout_connection on | off`
pub static RESET_TIMEDOUT_CONNECTION: Directive<bool> = Directive::flag("reset_timedout_connection")
    .within(LEVELS)
    .default("off")
    .help("Whether a connection that timed out is reset.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let policy = &mut builder.policy.lingering;
    view.assign(&LINGERING_CLOSE, &mut policy.close);
    view.assign(&LINGERING_TIME, &mut policy.time);
    view.assign(&LINGERING_TIMEOUT, &mut policy.timeout);
    view.assign(&RESET_TIMEDOUT_CONNECTION, &mut policy.reset_timed_out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::policy::LingeringClose;
    use std::time::Duration;

    #[test]
    fn settings_reach_the_policy() {
        let site = Site::location("lingering_close always; lingering_time 7; lingering_timeout 1ms;");
        let policy = &site.get("/").scope.policy.lingering;
        assert_eq!(policy.close, LingeringClose::Always);
        assert_eq!(policy.time, Duration::from_secs(7));
        assert_eq!(policy.timeout, Duration::from_millis(1));
        assert_eq!(Site::error("lingering_close yes;"), "invalid value \"yes\"");
    }
}
