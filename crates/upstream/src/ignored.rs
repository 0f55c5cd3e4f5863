//! Fields of responses that are not acted upon.

/// Fields of responses that are not acted upon, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ignored(pub u32);

impl Ignored {
    /// `X-Accel-Redirect`
    pub const REDIRECT: Ignored = Ignored(1);
    /// `X-Accel-Limit-Rate`
    pub const LIMIT_RATE: Ignored = Ignored(4);
    /// `X-Accel-Buffering`
    pub const BUFFERING: Ignored = Ignored(8);
    /// `X-Accel-Charset`
    pub const CHARSET: Ignored = Ignored(0x10);

    /// Which fields do not count for how long a response is kept.
    pub(crate) fn of_freshness(self) -> cache::Ignoring {
        let has = |bit: u32| self.0 & bit != 0;
        cache::Ignoring {
            accel_expires: has(2),
            expires: has(0x20),
            cache_control: has(0x40),
            set_cookie: has(0x80),
            vary: has(0x100),
        }
    }

    pub(crate) const NAMES: [(&'static str, u32); 9] = [
        ("X-Accel-Redirect", 1),
        ("X-Accel-Expires", 2),
        ("X-Accel-Limit-Rate", 4),
        ("X-Accel-Buffering", 8),
        ("X-Accel-Charset", 0x10),
        ("Expires", 0x20),
        ("Cache-Control", 0x40),
        ("Set-Cookie", 0x80),
        ("Vary", 0x100),
    ];

    /// Whether this field is ignored.
    pub fn has(self, field: Ignored) -> bool {
        self.0 & field.0 != 0
    }
}
