//! What a request head may cost.

/// The limits and leniencies under which a head is read: one server's settings, with nginx's meaning.
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
    /// Whether a field with an odd name is dropped instead of passed on (`ignore_invalid_headers`).
    pub ignore_invalid: bool,
    /// Whether an underscore in a name is not odd (`underscores_in_headers`).
    pub underscores: bool,
    /// Whether a line must end with CR LF, where otherwise a lone LF will do (`strict_line_ends`).
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
