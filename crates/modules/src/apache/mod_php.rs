//! Passes PHP settings of `.htaccess` files to PHP-FPM: `php_value` and `php_flag`.
//!
//! This needs `htaccess_php on` in the server's configuration, a directive of Fulmar's. Without it, a file with
//! these directives makes its directory answer 500, as in an Apache without mod_php. PHP-FPM may keep such a setting
//! for the next requests of the same process. So switch it on only if no other site uses the same PHP-FPM pool.
//! `.user.ini` files are the alternative that always works.
//!
//! The settings are sent as the parameter `PHP_VALUE`, after those of `fastcgi_param PHP_VALUE`. PHP decides which
//! settings may be changed in this way. `php_admin_value` and `php_admin_flag` are errors, as in Apache.
//!
//! `php_flag engine off` needs no `htaccess_php on`. PHP-FPM has no such setting, so Fulmar itself obeys it: what a
//! location would pass to a program gets 403, and all other files are served. It also applies in a section for
//! mod_php, such as `<IfModule mod_php7.c>`, whose other directives are skipped.
//!
//! nginx: none
//!
//! ```file html/.htaccess
//! php_value upload_max_filesize 64M
//! php_flag display_errors off
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     htaccess on;
//!     htaccess_php on;
//!     location ~ \.php$ {
//!         fastcgi_param REQUEST_METHOD $request_method;
//!         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
//!         fastcgi_pass unix:/run/php/shop.sock;
//!     }
//! }
//! ```

use super::mod_mime::has_program;
use crate::shared::apache::environment::PhpSettings;
use crate::shared::apache::{in_all_files, wrong};
use conf::{Arity, Contexts, Diagnostic, Word};
use contract::{Args, Directive, Exchange, Handler, Loading, Module, Phase, Reach, ScopeBuilder, Step, View};
use http::Status;
use journal::Level;
use std::rc::Rc;
use std::sync::Arc;

/// PHP's settings.
pub static MODULE: Module = Module {
    name: "mod_php",
    directives: &[&PHP_VALUE, &PHP_FLAG, &HTACCESS_PHP],
    variables: &[],
    compile: Some(compile),
};

/// `php_value NAME VALUE`
static PHP_VALUE: Directive<Setting> = in_all_files(Directive::new("php_value", parse_value))
    .args(Arity::Exactly(2))
    .slot("php setting")
    .help("Sets a setting of PHP; `none` empties it.");

/// `php_flag NAME on | off`
static PHP_FLAG: Directive<Setting> = in_all_files(Directive::new("php_flag", parse_flag))
    .args(Arity::Exactly(2))
    .slot("php setting")
    .help("Sets a setting of PHP to 1 or 0.");

/// The setting of mod_php that says whether programs run.
const ENGINE: &str = "engine";

/// `htaccess_php on | off`
static HTACCESS_PHP: Directive<bool> = Directive::flag("htaccess_php")
    .within(Contexts::SERVER.or(Contexts::LOCATION))
    .default("off")
    .help("Whether `.htaccess` files may change settings of PHP.");

/// What a directive sets.
enum Setting {
    /// A line of an ini file, with its line end.
    Line(Box<[u8]>),
    /// Whether programs run.
    Engine(bool),
}

fn parse_value(args: &Args<'_>, loading: &mut Loading) -> Result<Setting, Diagnostic> {
    let value = args.word(1)?;
    if args.word(0)?.is(ENGINE) {
        return parse_flag(args, loading);
    }
    let text: &[u8] = if value.text.eq_ignore_ascii_case(b"none") { b"" } else { &value.text };
    // Between apostrophes nothing has a meaning.
    if text.iter().any(|&byte| byte == b'\'' || byte.is_ascii_control()) {
        return Err(wrong(args, "a value with an apostrophe or a control character", value));
    }
    setting(args, args.word(0)?, text)
}

fn parse_flag(args: &Args<'_>, _: &mut Loading) -> Result<Setting, Diagnostic> {
    let value = &args.word(1)?.text;
    let is_on = value.eq_ignore_ascii_case(b"on") || **value == *b"1";
    if args.word(0)?.is(ENGINE) {
        return Ok(Setting::Engine(is_on));
    }
    setting(args, args.word(0)?, if is_on { b"1" } else { b"0" })
}

fn setting(args: &Args<'_>, name: &Word, value: &[u8]) -> Result<Setting, Diagnostic> {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    if name.text.is_empty() || !name.text.iter().all(is_name) {
        return Err(wrong(args, "a name that no setting has:", name));
    }
    Ok(Setting::Line([&name.text, &b"='"[..], value, b"'\n"].concat().into()))
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let settings = view.all(&PHP_VALUE);
    let engine = settings.iter().rev().find_map(|setting| match setting.value {
        Setting::Engine(is_on) => Some(*is_on),
        Setting::Line(_) => None,
    });
    if engine == Some(false) && has_program(view) {
        builder.handle(Phase::Precontent, NoPrograms);
    }
    let mut lines = Vec::new();
    for setting in &settings {
        if let Setting::Line(line) = setting.value {
            lines.push((setting.span, line));
        }
    }
    let Some((first, _)) = lines.first() else { return Ok(()) };
    if !view.get(&HTACCESS_PHP).copied().unwrap_or(false) {
        let message =
            "settings of PHP in a .htaccess file need \"htaccess_php on\" in the server's configuration";
        let error = Diagnostic::emerg(message).at(*first);
        return Err(error.hint("PHP-FPM reads such settings from .user.ini files, too"));
    }
    let text: Vec<u8> = lines.iter().flat_map(|(_, line)| line.iter().copied()).collect();
    builder.handle(Phase::Precontent, Settings { text: text.into() });
    Ok(())
}

/// Keeps programs from running: mod_php is off, and PHP-FPM has no such setting.
struct NoPrograms;

impl Handler for NoPrograms {
    fn run(&self, exchange: &mut Exchange) -> Step {
        exchange.log(Level::Error, "access forbidden: \"php_flag engine off\" of a .htaccess file");
        Step::Finish(Status::FORBIDDEN)
    }
}

struct Settings {
    text: Arc<[u8]>,
}

impl Handler for Settings {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let (scope, text) = (Arc::clone(&exchange.scope), Arc::clone(&self.text));
        exchange.attach(Reach::Own, Rc::new(PhpSettings { scope, text }));
        Step::Next
    }
}

#[cfg(test)]
mod tests {
    use super::{Setting, parse_flag, parse_value};
    use conf::Contexts;
    use contract::{Args, Loading};
    use std::path::Path;

    fn read(text: &str) -> Result<String, String> {
        let loaded = conf::apache::parse(Path::new("/x"), text.into());
        let args = Args { node: &loaded.nodes[0], context: Contexts::HTACCESS, opened: None };
        let mut loading = Loading::new(Path::new("/"), Path::new("/"));
        let parse = if text.starts_with("php_flag") { parse_flag } else { parse_value };
        match parse(&args, &mut loading).map_err(|error| error.message)? {
            Setting::Line(line) => Ok(String::from_utf8_lossy(&line).into_owned()),
            Setting::Engine(is_on) => Ok(format!("engine {is_on}")),
        }
    }

    #[test]
    fn settings_become_lines() {
        assert_eq!(read("php_value a.b_c \"x; y = $z\"").unwrap(), "a.b_c='x; y = $z'\n");
        assert_eq!(read("php_value a none").unwrap(), "a=''\n");
        for (value, expected) in [("on", "1"), ("On", "1"), ("1", "1"), ("off", "0"), ("true", "0")] {
            assert_eq!(read(&format!("php_flag a {value}")).unwrap(), format!("a='{expected}'\n"));
        }
        assert_eq!(read("php_flag engine 0").unwrap(), "engine false");
        assert_eq!(read("php_value engine On").unwrap(), "engine true");
        for wrong in ["php_value a \"x'\"", "php_value a=b c", "php_value \"\" c", "php_flag \"a\\nb\" on"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
