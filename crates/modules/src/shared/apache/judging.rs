//! Whether a client could ask for another path, by the rules of `.htaccess` files. As in Apache a listing does not name what
//! they refuse, and no file takes the place of another one if they refuse it.

use contract::{Content, Exchange, Subrequest, Work};
use http::Status;

/// Asks. The outcome is a [`Subresponse`](contract::Subresponse) without content.
pub(crate) fn ask(path: Vec<u8>) -> Work {
    ask_with(path, None)
}

/// As [`ask`], with a query.
pub(crate) fn ask_with(path: Vec<u8>, args: Option<Vec<u8>>) -> Work {
    Work::Subrequest(Subrequest { args, ..Subrequest::get(path, Content::Judged) })
}

/// Whether a client could ask for the path of a request that was judged.
pub(crate) fn passes(judged: &Exchange) -> bool {
    matches!(judged.response.status.0, 200..400)
}

/// Whether the path needs a user, or is forbidden.
pub(crate) fn is_forbidden(judged: &Exchange) -> bool {
    matches!(judged.response.status, Status::UNAUTHORIZED | Status::FORBIDDEN)
}
