//! Whatever nginx answers is what Fulmar has to answer: tables of requests, run against both.
//!
//! What differs on purpose is not here but in `differences`, with a reason each.

mod access;
mod auth;
mod brotli;
mod browsers;
mod caching;
mod clients;
mod compression;
mod conditionals;
mod connections;
mod contents;
mod dav;
mod error_pages;
mod file_cache;
mod files;
mod filters;
mod generated;
mod generated_caches;
mod geoip2;
mod gunzip;
mod headers;
mod hints;
mod includes;
mod limits;
mod listings;
mod locations;
mod logs;
mod methods;
mod microcaching;
mod mutated;
mod proxied;
mod ranges;
mod rates;
mod returns;
mod rewrites;
mod sending;
mod server_names;
mod set_misc;
mod symlinks;
mod variables;
mod videos;
mod ways;
