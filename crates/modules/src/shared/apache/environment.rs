//! The environment of a request: what `SetEnv`, `SetEnvIf` and `RewriteRule … [E=…]` set, and programs see.

use super::bounded::{BYTES_MAX, Failure};
use super::reserved::is_reserved;
use super::variables;
use conf::Diagnostic;
use conf::tree::printable;
use contract::{Args, Exchange, Loading, Reach, Scope};
use http::Status;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// The value of a variable.
type Value = Box<[u8]>;

/// Variables, by their names.
type Variables = Vec<(Box<[u8]>, Value)>;

/// The environment of a request, and whether it was rewritten to its end.
#[derive(Default)]
pub(crate) struct Environment {
    variables: RefCell<Variables>,
    pub(crate) ended: Cell<bool>,
    /// The path and the query before the last internal redirect.
    before: RefCell<Option<(Value, Value)>>,
    /// Whether it belongs to a request inside of the server.
    is_inner: bool,
    /// Whether a program was asked. As in Apache the variables that it got count from then on.
    has_program: Cell<bool>,
}

/// Settings of PHP that `.htaccess` files make.
pub(crate) struct PhpSettings {
    /// The scope that the files belong to. Elsewhere the settings do not count.
    pub(crate) scope: Arc<Scope>,
    /// Lines of an ini file.
    pub(crate) text: Arc<[u8]>,
}

/// The parameter by which PHP-FPM takes settings.
pub(crate) const PHP_VALUE: &[u8] = b"PHP_VALUE";

/// What a variable takes of [`BYTES_MAX`] besides its name and value.
const VARIABLE_BYTES: usize = 200;

/// The environment of this request. As in Apache a request inside of the server has a copy of the environment of the
/// request that asks for it, and changes only the copy.
pub(crate) fn of(exchange: &Exchange) -> Rc<Environment> {
    let known = exchange.attached::<Environment>();
    match known {
        Some(known) if known.is_inner == exchange.subrequest => known,
        None if !exchange.subrequest => exchange.attached_or(Reach::Shared, Environment::default),
        known => {
            exchange.attach(
                Reach::Own,
                Rc::new(known.map_or_else(
                    || Environment { is_inner: true, ..Environment::default() },
                    |outer| outer.copy(),
                )),
            );
            exchange.attached().unwrap_or_default()
        }
    }
}

/// Whether a rule ended the rewriting of this request.
pub(crate) fn has_ended(exchange: &Exchange) -> bool {
    let known = exchange.attached::<Environment>();
    known.is_some_and(|known| known.is_inner == exchange.subrequest && known.ended.get())
}

/// A variable of a request's environment.
pub(crate) fn get(exchange: &Exchange, name: &[u8]) -> Option<Box<[u8]>> {
    let environment = exchange.attached::<Environment>();
    let found = environment.and_then(|environment| {
        let all = environment.variables.borrow();
        let set = all.iter().find(|(known, _)| is_same(known, name)).map(|(_, value)| value.clone());
        let of_program = || variables::of_programs(exchange, name).map(Vec::into_boxed_slice);
        set.or_else(|| environment.has_program.get().then(of_program).flatten())
    });
    match (exchange.error, name) {
        (Some(status), name) if is_same(name, b"REDIRECT_STATUS") => {
            Some(status.0.to_string().into_bytes().into())
        }
        _ => found,
    }
}

/// Whether two names are those of one variable. As in Apache case does not matter.
fn is_same(left: &[u8], right: &[u8]) -> bool {
    left.eq_ignore_ascii_case(right)
}

/// The environment as programs see it.
pub(crate) fn for_programs(exchange: &Exchange) -> Variables {
    let Some(environment) = exchange.attached::<Environment>() else { return Vec::new() };
    let mut all: Vec<_> = environment.variables.borrow().clone();
    if let Some((path, args)) = environment.before.borrow().clone() {
        for (name, value) in [(&b"REDIRECT_URL"[..], path), (b"REDIRECT_QUERY_STRING", args)] {
            if !value.is_empty() && all.iter().all(|(known, _)| !is_same(known, name)) {
                all.push((name.into(), value));
            }
        }
    }
    all.retain(|(name, _)| !is_reserved(name));
    all
}

/// Takes note that a program is asked, which gets the variables of CGI. With `.htaccess` files they count for the response.
pub(crate) fn note_program(exchange: &Exchange) {
    if exchange.overlaid.is_some() {
        of(exchange).has_program.set(true);
    }
}

/// Warns of a variable with a reserved name. Rules that copy a field of the request are common, and harmless: programs
/// get the field.
pub(crate) fn warn_if_reserved(args: &Args<'_>, name: &[u8], value: &[u8], loading: &mut Loading) {
    let is_copy = name.starts_with(b"HTTP_") && value.starts_with(b"%{HTTP:");
    if is_reserved(name) && !is_copy {
        let (directive, name) = (&args.node.name, printable(name));
        let message =
            format!("\"{directive}\" sets \"{name}\", which is reserved and is not passed to programs");
        let hint = "only \"fastcgi_param\" of the server's configuration can set it";
        loading.note(Diagnostic::warn(message).at(args.node.span).hint(hint));
    }
}

impl Environment {
    /// The environment of a request inside of the server.
    fn copy(&self) -> Environment {
        Environment {
            variables: self.variables.clone(),
            ended: Cell::new(false),
            before: self.before.clone(),
            is_inner: true,
            has_program: Cell::new(false),
        }
    }

    /// Sets a variable.
    ///
    /// # Errors
    /// The environment would be too large.
    pub(crate) fn set(&self, name: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut variables = self.variables.borrow_mut();
        let known = variables.iter().position(|(known, _)| is_same(known, name));
        // The variable keeps the name that it had first.
        let name = known.map_or(name.into(), |at| variables.remove(at).0);
        let bytes = |name: &[u8], value: &[u8]| name.len() + value.len() + VARIABLE_BYTES;
        let present: usize = variables.iter().map(|(name, value)| bytes(name, value)).sum();
        if present + bytes(&name, value) > BYTES_MAX {
            return Err(Failure::TooLong);
        }
        variables.push((name, value.into()));
        Ok(())
    }

    /// Whether a variable is set.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.variables.borrow().iter().any(|(known, _)| is_same(known, name))
    }

    pub(crate) fn unset(&self, name: &[u8]) {
        self.variables.borrow_mut().retain(|(known, _)| !is_same(known, name));
    }

    /// After an internal redirect the variables are known by longer names.
    pub(crate) fn redirect(&self, (path, args): (&[u8], Option<&[u8]>), status: Status) {
        let mut variables = self.variables.borrow_mut();
        for (name, _) in variables.iter_mut() {
            *name = [b"REDIRECT_", &**name].concat().into();
        }
        let status = status.0.to_string().into_bytes();
        variables.push((b"REDIRECT_STATUS".as_slice().into(), status.into()));
        self.has_program.set(false);
        *self.before.borrow_mut() = Some((path.into(), args.unwrap_or_default().into()));
    }
}
