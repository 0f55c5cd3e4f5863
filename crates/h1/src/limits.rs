//! Limits of a request head.

/// How a request head is read: the limits and the strictness of one server, with nginx's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the buffer in which every head starts (`client_header_buffer_size`).
    pub first_buffer: usize,
    /// How many larger buffers a head may use (`large_client_header_buffers`, first argument).
    pub large_count: usize,
    /// Bytes of each of those; a line must fit in one (`large_client_header_buffers`, second argument).
    pub large_size: usize,
    /// How many fields a head may have (`max_headers`).
    pub max_fields: usize,
    /// Whether a field with an unusual name is dropped (`ignore_invalid_headers`).
    pub ignore_invalid: bool,
    /// Whether names may contain underscores (`underscores_in_headers`).
    pub underscores: bool,
    /// Whether a line must end with CR LF; otherwise a lone LF is accepted, too (`strict_line_ends`).
    pub strict_line_ends: bool,
}

impl Default for HeadLimits {
    fn default() -> HeadLimits {
        HeadLimits {
            first_buffer: 1024,
            large_count: 4,
            large_size: 8192,
            max_fields: 1000,
            ignore_invalid: true,
            underscores: false,
            strict_line_ends: false,
        }
    }
}
