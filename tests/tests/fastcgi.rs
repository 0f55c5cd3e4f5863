//! FastCGI: PHP-FPM behind nginx and behind Fulmar, and applications that break the protocol.

mod answers;
mod faults;
mod php;
mod requests;
