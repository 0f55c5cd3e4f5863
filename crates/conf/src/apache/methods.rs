//! The methods that a section of a `.htaccess` file names.

/// Methods that a section names.
#[derive(Debug)]
pub struct Methods {
    /// The names.
    pub names: Vec<Box<[u8]>>,
    /// Whether all others are meant.
    pub except: bool,
}

impl Methods {
    /// Whether a method is among them. HEAD is taken for GET.
    pub fn has(&self, method: &[u8]) -> bool {
        let method = if method == b"HEAD" { b"GET" } else { method };
        self.names.iter().any(|name| **name == *method) != self.except
    }
}
