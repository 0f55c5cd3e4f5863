//! Status codes (RFC 9110, section 15) and the reason phrases that nginx sends.

/// A status code. Values from 100 to 999 fit a status line; the configuration may name any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub u16);

macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal;)*) => {
        #[expect(missing_docs, reason = "each constant is the code of that name")]
        impl Status {
            $(pub const $name: Status = Status($code);)*
        }

        impl Status {
            /// The reason phrase, empty for a code that has none.
            pub fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }
        }
    };
}

statuses! {
    CONTINUE 100 "Continue";
    SWITCHING_PROTOCOLS 101 "Switching Protocols";
    PROCESSING 102 "Processing";
    EARLY_HINTS 103 "Early Hints";
    OK 200 "OK";
    CREATED 201 "Created";
    ACCEPTED 202 "Accepted";
    NO_CONTENT 204 "No Content";
    PARTIAL_CONTENT 206 "Partial Content";
    MOVED_PERMANENTLY 301 "Moved Permanently";
    FOUND 302 "Moved Temporarily";
    SEE_OTHER 303 "See Other";
    NOT_MODIFIED 304 "Not Modified";
    TEMPORARY_REDIRECT 307 "Temporary Redirect";
    PERMANENT_REDIRECT 308 "Permanent Redirect";
    BAD_REQUEST 400 "Bad Request";
    UNAUTHORIZED 401 "Unauthorized";
    PAYMENT_REQUIRED 402 "Payment Required";
    FORBIDDEN 403 "Forbidden";
    NOT_FOUND 404 "Not Found";
    METHOD_NOT_ALLOWED 405 "Not Allowed";
    NOT_ACCEPTABLE 406 "Not Acceptable";
    PROXY_AUTHENTICATION_REQUIRED 407 "Proxy Authentication Required";
    REQUEST_TIMEOUT 408 "Request Time-out";
    CONFLICT 409 "Conflict";
    GONE 410 "Gone";
    LENGTH_REQUIRED 411 "Length Required";
    PRECONDITION_FAILED 412 "Precondition Failed";
    CONTENT_TOO_LARGE 413 "Request Entity Too Large";
    URI_TOO_LONG 414 "Request-URI Too Large";
    UNSUPPORTED_MEDIA_TYPE 415 "Unsupported Media Type";
    RANGE_NOT_SATISFIABLE 416 "Requested Range Not Satisfiable";
    EXPECTATION_FAILED 417 "Expectation Failed";
    MISDIRECTED_REQUEST 421 "Misdirected Request";
    TOO_EARLY 425 "Too Early";
    TOO_MANY_REQUESTS 429 "Too Many Requests";
    INTERNAL_SERVER_ERROR 500 "Internal Server Error";
    NOT_IMPLEMENTED 501 "Not Implemented";
    BAD_GATEWAY 502 "Bad Gateway";
    SERVICE_UNAVAILABLE 503 "Service Temporarily Unavailable";
    GATEWAY_TIMEOUT 504 "Gateway Time-out";
    VERSION_NOT_SUPPORTED 505 "HTTP Version Not Supported";
    INSUFFICIENT_STORAGE 507 "Insufficient Storage";
}

impl Status {
    /// nginx's own code for "close the connection without an answer".
    pub const CLOSE: Status = Status(444);
    /// nginx's own code for a field that does not fit the header buffers; sent as 400.
    pub const HEADER_TOO_LARGE: Status = Status(494);
    /// nginx's own code, logged where the client went away before the answer.
    pub const CLIENT_CLOSED: Status = Status(499);

    /// Whether a response with this status never has content (RFC 9110, section 6.4.1).
    pub fn is_bodiless(self) -> bool {
        self.0 < 200 || self.0 == 204 || self.0 == 304
    }

    /// Whether a response with this status says when its content was modified, as far as it has its own date: of
    /// others nobody may keep the content by that.
    pub fn is_dated(self) -> bool {
        matches!(self, Status::OK | Status::PARTIAL_CONTENT | Status::NOT_MODIFIED)
    }

    /// Whether this is an error of the client or the server (4xx and above).
    pub fn is_error(self) -> bool {
        self.0 >= 400
    }

    /// Whether this is a redirection (3xx).
    pub fn is_redirection(self) -> bool {
        (300..400).contains(&self.0)
    }
}
