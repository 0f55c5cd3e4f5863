//! SCGI and uwsgi: applications in Python as upstreams of nginx and of Fulmar, and applications that break the rules.

mod answers;
mod binding;
mod python;
mod requests;
