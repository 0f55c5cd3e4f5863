//! Apache's main configuration.

mod reading;
