//! Why streams and connections end.

/// An error code (RFC 9113, section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

#[expect(missing_docs, reason = "each constant is the error code of that name")]
impl Code {
    pub const NO_ERROR: Code = Code(0);
    pub const PROTOCOL_ERROR: Code = Code(1);
    pub const INTERNAL_ERROR: Code = Code(2);
    pub const FLOW_CONTROL_ERROR: Code = Code(3);
    pub const SETTINGS_TIMEOUT: Code = Code(4);
    pub const STREAM_CLOSED: Code = Code(5);
    pub const FRAME_SIZE_ERROR: Code = Code(6);
    pub const REFUSED_STREAM: Code = Code(7);
    pub const CANCEL: Code = Code(8);
    pub const COMPRESSION_ERROR: Code = Code(9);
    pub const CONNECT_ERROR: Code = Code(10);
    pub const ENHANCE_YOUR_CALM: Code = Code(11);
}

/// A peer broke the rules in a way that ends the connection (RFC 9113, section 5.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code for the GOAWAY frame.
    pub code: Code,
    /// The line for the error log.
    pub reason: &'static str,
}

impl Failure {
    pub(crate) const fn new(code: Code, reason: &'static str) -> Failure {
        Failure { code, reason }
    }

    pub(crate) const fn protocol(reason: &'static str) -> Failure {
        Failure::new(Code::PROTOCOL_ERROR, reason)
    }

    pub(crate) const fn size(reason: &'static str) -> Failure {
        Failure::new(Code::FRAME_SIZE_ERROR, reason)
    }
}
