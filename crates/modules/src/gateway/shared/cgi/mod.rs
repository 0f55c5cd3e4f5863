//! Applications that take a request as the environment of a CGI program (RFC 3875) and answer with a CGI head, by
//! FastCGI, SCGI or uwsgi.

pub(crate) mod application;
pub(crate) mod dialogue;
pub(crate) mod params;
pub(crate) mod response;
pub(crate) mod target;
