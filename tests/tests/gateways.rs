//! SCGI and uwsgi: applications in Python as upstreams of nginx and of Fulmar, and applications that break the rules.
//! What all protocols share, and what follows the content.

mod answers;
mod binding;
mod denied_addresses;
mod django;
mod memcached;
mod pacing;
mod python;
mod requests;
mod storing;
mod trailers;
mod tunnels;
