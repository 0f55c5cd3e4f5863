//! The check of the password that a request gives, step by step. `auth_basic` and `.htaccess` files share it.

use super::check::{self, Checked, Failure, Given, Stage, Verdict};
use crate::shared::eventually::Eventually;
use crate::shared::files;
use crate::values::variables::user;
use contract::{Exchange, Outcome, Step, Work};
use http::{Method, Status};
use journal::Level;
use std::path::Path;

/// How far a check came.
pub(crate) enum Progress {
    /// This user's password is right.
    Right(Vec<u8>),
    /// The request has no user and password of Basic authentication.
    NotGiven,
    /// The check waits for work; [`go_on`] takes the outcome.
    Await(Step),
    /// The check is over: see [`conclude`].
    Checked(Checked),
    /// The work failed.
    Lost,
}

/// Begins to check the password of a request against a file.
pub(crate) fn start(exchange: &Exchange, path: &Path) -> Progress {
    let field = user::field(&exchange.request).unwrap_or_default();
    let Some((user, password)) = user::credentials(field) else { return Progress::NotGiven };
    if check::is_right(path, field) {
        return Progress::Right(user);
    }
    let (path, given) = (path.to_owned(), Given { field: field.to_vec(), user, password });
    Progress::Await(job(move || check::look(path, given)))
}

/// Goes on with the outcome of the work.
pub(crate) fn go_on(outcome: Outcome) -> Progress {
    let stage = match outcome {
        Outcome::Job(result) => result.downcast().ok(),
        Outcome::Task(result) => result.downcast().ok(),
        _ => None,
    };
    match stage.map(|stage| *stage) {
        Some(Stage::Done(checked)) => Progress::Checked(checked),
        Some(Stage::Waiting(attempt)) => {
            Progress::Await(Step::Await(Work::Task(Eventually::boxed(async move { attempt.enter().await }))))
        }
        Some(Stage::Admitted(attempt, place)) => Progress::Await(job(move || {
            let _place = place;
            Stage::Done(attempt.compute())
        })),
        None => Progress::Lost,
    }
}

/// A step of a check off the event loop.
fn job(work: impl FnOnce() -> Stage + Send + 'static) -> Step {
    Step::Await(Work::Job(Box::new(move || Box::new(work()))))
}

/// Whether the password is right; if not, logs why.
///
/// # Errors
/// The password could not be checked.
pub(crate) fn conclude<'c>(exchange: &Exchange, checked: &'c Checked) -> Result<bool, &'c Failure> {
    let user = String::from_utf8_lossy(&checked.user);
    let complaint = match &checked.verdict {
        Ok(Verdict::Right) => return Ok(true),
        Ok(Verdict::Wrong) => format!("user \"{user}\": password mismatch"),
        Ok(Verdict::Unknown) => {
            let path = String::from_utf8_lossy(checked.path.as_os_str().as_encoded_bytes());
            format!("user \"{user}\" was not found in \"{path}\"")
        }
        Ok(Verdict::NotUnderstood) => {
            format!("user \"{user}\": the form of the password in the file is not known")
        }
        Ok(Verdict::TooExpensive) => {
            format!("user \"{user}\": the password in the file costs too much to check")
        }
        Err(failure) => return Err(failure),
    };
    exchange.log(Level::Error, &complaint);
    Ok(false)
}

/// Logs why a file could not be read or a password not be checked, and gives the status of the answer.
pub(crate) fn fail(exchange: &Exchange, path: &Path, failure: &Failure) -> Status {
    let path = path.as_os_str().as_encoded_bytes();
    let (status, message) = match failure {
        Failure::Busy => (Status::SERVICE_UNAVAILABLE, "too many passwords wait to be checked".to_owned()),
        Failure::Open(error) => (Status::INTERNAL_SERVER_ERROR, files::failed("open", path, error)),
        Failure::Read(error) => (Status::INTERNAL_SERVER_ERROR, files::failed("pread", path, error)),
        Failure::NoFile => {
            let path = String::from_utf8_lossy(path);
            let message = format!("\"{path}\" is not a regular file, or it is too long");
            (Status::INTERNAL_SERVER_ERROR, message)
        }
    };
    let is_mild = failure.is_missing() || matches!(failure, Failure::Busy);
    exchange.log(if is_mild { Level::Error } else { Level::Crit }, &message);
    status
}

/// Rejects a request without the right password, and asks for one. The realm becomes a quoted string (RFC 9110,
/// section 5.6.4).
pub(crate) fn challenge(exchange: &mut Exchange, realm: &[u8]) -> Step {
    let mut value = b"Basic realm=\"".to_vec();
    for &byte in realm {
        match byte {
            b'"' | b'\\' => value.extend_from_slice(&[b'\\', byte]),
            0..0x20 | 0x7f => value.push(b' '),
            _ => value.push(byte),
        }
    }
    value.push(b'"');
    let (name, status): (&[u8], _) = match exchange.request.method {
        Method::Connect => (b"Proxy-Authenticate", Status::PROXY_AUTHENTICATION_REQUIRED),
        _ => (b"WWW-Authenticate", Status::UNAUTHORIZED),
    };
    // A realm that no field can hold is left out rather than the refusal.
    let _ = exchange.response.fields.push(name, &value);
    Step::Finish(status)
}
