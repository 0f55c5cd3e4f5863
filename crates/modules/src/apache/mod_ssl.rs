//! Requires TLS for a directory, as `.htaccess` files say: `SSLRequireSSL`.
//!
//! `SSLOptions` is accepted with the options that need nothing here. The server's configuration sets what else mod_ssl
//! has for files, such as client certificates.
//!
//! nginx: none
//!
//! ```file html/account/a.txt
//! secret
//! ```
//!
//! ```file html/account/.htaccess
//! SSLRequireSSL
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
//! GET /account/a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ```

use crate::shared::apache::{in_all_files, in_file, refusing, wrong};
use conf::value::choice;
use conf::{Arity, Diagnostic};
use contract::{Args, Directive, Exchange, Handler, Loading, Module, Phase, Rule, ScopeBuilder, Step, View};
use http::Status;
use journal::Level;

/// Connections that a directory needs.
pub static MODULE: Module = Module {
    name: "mod_ssl",
    directives: &[&REQUIRE_SSL, &OPTIONS, &VERIFY_CLIENT],
    variables: &[],
    compile: Some(compile),
};

/// `SSLRequireSSL`
pub(crate) static REQUIRE_SSL: Directive<()> = in_all_files(Directive::new("SSLRequireSSL", |_, _| Ok(())))
    .args(Arity::None)
    .help("Answers 403 to requests that do not come over TLS.");

/// `SSLOptions [+|-]OPTION …`
pub(crate) static OPTIONS: Directive<()> = in_file(Directive::new("SSLOptions", parse_options))
    .args(Arity::AtLeast(1))
    .rule(Rule::Never)
    .repeats()
    .help("Has no effect: StdEnvVars, StrictRequire, OptRenegotiate, LegacyDNStringFormat.");

/// `SSLVerifyClient none`
pub(crate) static VERIFY_CLIENT: Directive<()> = in_file(Directive::new("SSLVerifyClient", |args, _| {
    args.value(0, |word| choice(word, &[("none", ())]))
}))
.args(Arity::Exactly(1))
.help("Whether clients have certificates: `none`; `ssl_verify_client` is for the server's configuration.");

fn parse_options(args: &Args<'_>, _: &mut Loading) -> Result<(), Diagnostic> {
    const KNOWN: [&str; 4] = ["stdenvvars", "strictrequire", "optrenegotiate", "legacydnstringformat"];
    let is_known = |word: &&conf::Word| {
        let name = word.to_string().to_ascii_lowercase();
        name.starts_with('-') || KNOWN.contains(&name.trim_start_matches('+'))
    };
    match args.words().iter().find(|word| !is_known(word)) {
        Some(word) => Err(wrong(args, "an option that is not supported,", word)),
        None => Ok(()),
    }
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if !view.all(&REQUIRE_SSL).is_empty() {
        builder.handle(Phase::Preaccess, Encrypted);
    }
    Ok(())
}

struct Encrypted;

impl Handler for Encrypted {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if exchange.connection.secure || refusing::is_let_in(exchange) {
            return Step::Next;
        }
        exchange.log(Level::Error, "access forbidden: a .htaccess file requires TLS");
        refusing::refuse(exchange, Status::FORBIDDEN)
    }
}
