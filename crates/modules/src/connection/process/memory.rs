//! How much memory requests in progress may hold.

use conf::{Contexts, Diagnostic, value};
use contract::{Args, Directive, Loading};

/// `request_memory SIZE | off`
pub static REQUEST_MEMORY: Directive<Option<u64>> = Directive::new("request_memory", parse_memory)
    .within(Contexts::MAIN)
    .default("half of the machine's or container's")
    .help(
        "The memory limit of all requests in progress: headers, bodies, buffers and streams. Not in nginx.",
    );

/// The least memory that makes sense, in bytes: each request that waits needs a few kilobytes.
const REQUEST_MEMORY_MIN: u64 = 1024 * 1024;

fn parse_memory(args: &Args<'_>, _: &mut Loading) -> Result<Option<u64>, Diagnostic> {
    let word = args.word(0)?;
    if word.is("off") {
        return Ok(None);
    }
    let size = args.value(0, value::offset)?;
    if size < REQUEST_MEMORY_MIN {
        return Err(args.error("the least memory for requests is 1m"));
    }
    Ok(Some(size))
}
