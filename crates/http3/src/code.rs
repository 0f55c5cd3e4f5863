//! Why streams and connections end.

/// An error code (RFC 9114, section 8.1; RFC 9204, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u64);

#[expect(missing_docs, reason = "each constant is the error code of that name")]
impl Code {
    pub const NO_ERROR: Code = Code(0x100);
    pub const GENERAL_PROTOCOL_ERROR: Code = Code(0x101);
    pub const INTERNAL_ERROR: Code = Code(0x102);
    pub const STREAM_CREATION_ERROR: Code = Code(0x103);
    pub const CLOSED_CRITICAL_STREAM: Code = Code(0x104);
    pub const FRAME_UNEXPECTED: Code = Code(0x105);
    pub const FRAME_ERROR: Code = Code(0x106);
    pub const EXCESSIVE_LOAD: Code = Code(0x107);
    pub const ID_ERROR: Code = Code(0x108);
    pub const SETTINGS_ERROR: Code = Code(0x109);
    pub const MISSING_SETTINGS: Code = Code(0x10a);
    pub const REQUEST_REJECTED: Code = Code(0x10b);
    pub const REQUEST_CANCELLED: Code = Code(0x10c);
    pub const REQUEST_INCOMPLETE: Code = Code(0x10d);
    pub const MESSAGE_ERROR: Code = Code(0x10e);
    pub const CONNECT_ERROR: Code = Code(0x10f);
    pub const VERSION_FALLBACK: Code = Code(0x110);
    pub const QPACK_DECOMPRESSION_FAILED: Code = Code(0x200);
    pub const QPACK_ENCODER_STREAM_ERROR: Code = Code(0x201);
    pub const QPACK_DECODER_STREAM_ERROR: Code = Code(0x202);
}

/// A peer broke the rules in a way that ends the connection (RFC 9114, section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code to close the connection with.
    pub code: Code,
    /// The line for the error log.
    pub reason: &'static str,
}

impl Failure {
    pub(crate) const fn new(code: Code, reason: &'static str) -> Failure {
        Failure { code, reason }
    }

    pub(crate) const fn frame(reason: &'static str) -> Failure {
        Failure::new(Code::FRAME_ERROR, reason)
    }

    pub(crate) const fn unexpected(reason: &'static str) -> Failure {
        Failure::new(Code::FRAME_UNEXPECTED, reason)
    }

    pub(crate) const fn id(reason: &'static str) -> Failure {
        Failure::new(Code::ID_ERROR, reason)
    }
}
