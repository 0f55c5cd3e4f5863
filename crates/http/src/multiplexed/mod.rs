//! Messages as HTTP/2 and HTTP/3 carry them (RFC 9113, section 8; RFC 9114, section 4): a head is a list of fields, in which
//! pseudo-fields take the place of the first line. How fields are encoded is up to the protocols.

mod header_list;
mod request;
mod response;
mod writing;

pub use header_list::HeaderList;
pub use request::{MalformedRequest, RequestRules, are_trailers_valid, read_request};
pub use response::{MalformedResponse, read_response, read_trailers};
pub use writing::{
    DIGITS, FieldWriter, Request, ResponseOptions, describe, digits, write_fields, write_interim,
    write_request, write_response, write_trailers,
};
