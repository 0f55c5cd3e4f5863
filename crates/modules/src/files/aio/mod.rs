//! Sets how files are read from the disk: `aio`, `thread_pool`, `directio`.
//!
//! Fulmar sends a file at once if the kernel has it in memory. Otherwise another thread reads it first, so that no
//! other connection waits for the disk. The kernel says which case it is, and no directive is needed. Some file
//! systems, such as those in user space or on a network, do not say it: Fulmar treats their files as if they were in
//! memory, or, with `aio threads`, as if they were not.
//!
//! `aio on` is the same as the default. `aio_write` has no effect, because the kernel writes temporary files to
//! memory first. Up to 32 threads for each worker thread are started when they are needed. The sizes of a
//! `thread_pool` are checked and have no effect; `aio threads=NAME` may name it.
//!
//! With `directio`, files of that size or more bypass the kernel's memory, so that one large file does not push many
//! small files out of it. `sendfile` does not apply to them. Files of up to 64 KB always use the kernel's memory.
//! Reads are aligned to 4 KB, or to `directio_alignment` if that is more. If a file system does not support this, its
//! files are sent in the usual way.
//!
//! ```file html/large.txt
//! as large as any
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     aio threads;
//!     directio 8;
//!     directio_alignment 4k;
//! }
//! ```
//!
//! ```http
//! GET /large.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Length: 16
//!
//! as large as any
//! ---
//! GET /large.txt HTTP/1.1
//! Host: localhost
//! Range: bytes=3-7
//!
//! HTTP/1.1 206 Partial Content
//! Content-Range: bytes 3-7/16
//!
//! large
//! ```

mod direct;

use conf::{Arity, Contexts, Diagnostic, Word, value};
use contract::{Args, Directive, Loading, Module, Rule, ScopeBuilder, Template, View};
use direct::DirectIo;

/// Files that have to be read from a disk.
pub static MODULE: Module = Module {
    name: "aio",
    directives: &[&AIO, &AIO_WRITE, &THREAD_POOL, &DIRECTIO, &DIRECTIO_ALIGNMENT],
    variables: &[],
    compile: Some(compile),
};

const LEVELS: Contexts = Contexts::HTTP.or(Contexts::SERVER).or(Contexts::LOCATION);

/// `aio off | on | threads[=POOL]`
pub static AIO: Directive<Aio> = Directive::new("aio", parse_aio)
    .within(LEVELS)
    .default("off")
    .help("Whether other threads read files of file systems that do not say what is in memory.");

/// `aio_write on | off`
pub static AIO_WRITE: Directive<bool> = Directive::flag("aio_write")
    .within(LEVELS)
    .default("off")
    .help("Accepted and not needed: temporary files are written to memory first.");

/// `thread_pool NAME threads=NUMBER [max_queue=NUMBER]`
pub static THREAD_POOL: Directive<Box<[u8]>> = Directive::new("thread_pool", parse_pool)
    .within(Contexts::MAIN)
    .args(Arity::Range(2, 3))
    .rule(Rule::List)
    .default("default threads=32 max_queue=65536")
    .help("A name for `aio threads`; its number of threads has no effect.");

/// `directio SIZE | off`
pub static DIRECTIO: Directive<Option<u64>> = Directive::new("directio", |args, _| {
    let word = args.word(0)?;
    match word.is("off") {
        true => Ok(None),
        false => value::offset(word).map(Some).map_err(|_| args.error("invalid value")),
    }
})
.within(LEVELS)
.default("off")
.help("The size from which on files bypass the kernel's memory.");

/// `directio_alignment SIZE`
pub static DIRECTIO_ALIGNMENT: Directive<u64> = Directive::offset("directio_alignment")
    .within(LEVELS)
    .default("512")
    .help("The alignment of such reads; at least 4 KB.");

/// What `aio` says.
pub enum Aio {
    /// `off` or `on`
    Ready,
    /// `threads`
    Threads,
    /// `threads=POOL`; the name of the pool, where it has no variables.
    Pool(Option<Box<[u8]>>),
}

const DEFAULT_POOL: &[u8] = b"default";

fn parse_aio(args: &Args<'_>, loading: &mut Loading) -> Result<Aio, Diagnostic> {
    let word = args.word(0)?;
    match &*word.text {
        b"off" | b"on" => Ok(Aio::Ready),
        b"threads" => Ok(Aio::Threads),
        text => match text.strip_prefix(b"threads=") {
            Some(name) => {
                let name = loading.template(&Word { text: name.into(), ..word.clone() })?;
                Ok(Aio::Pool(Template::constant(&name).map(Box::from)))
            }
            None => Err(args.error("invalid value")),
        },
    }
}

fn parse_pool(args: &Args<'_>, _: &mut Loading) -> Result<Box<[u8]>, Diagnostic> {
    let mut has_threads = false;
    for word in args.words().iter().skip(1) {
        let check = |name: &str, number: &[u8], least| {
            let number = Word { text: number.into(), ..word.clone() };
            value::bounded(&number, least, None).map(|_| ()).map_err(|_| {
                let message = format!("invalid {name} value \"{word}\"");
                Diagnostic::emerg(message).at(args.node.span).under(word.span)
            })
        };
        if let Some(number) = word.text.strip_prefix(b"threads=") {
            check("threads", number, 1)?;
            has_threads = true;
        } else if let Some(number) = word.text.strip_prefix(b"max_queue=") {
            check("max_queue", number, 0)?;
        }
    }
    if !has_threads {
        let message = "\"thread_pool\" must have \"threads\" parameter";
        return Err(Diagnostic::emerg(message).at(args.node.span));
    }
    Ok(args.word(0)?.text.clone())
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    let pools = view.all(&THREAD_POOL);
    for (at, pool) in pools.iter().enumerate() {
        if pools[..at].iter().any(|earlier| earlier.value == pool.value) {
            let message = format!("duplicate thread pool \"{}\"", String::from_utf8_lossy(pool.value));
            return Err(Diagnostic::emerg(message).at(pool.span));
        }
    }
    if let Some(written) = view.written(&AIO)
        && let Aio::Pool(Some(name)) = written.value
        && **name != *DEFAULT_POOL
        && !pools.iter().any(|pool| pool.value == name)
    {
        let message = format!("unknown thread pool \"{}\"", String::from_utf8_lossy(name));
        return Err(Diagnostic::emerg(message).at(written.span));
    }
    builder.policy.sending.aio_threads = matches!(view.get(&AIO), Some(Aio::Threads | Aio::Pool(_)));
    if let Some(&Some(least)) = view.get(&DIRECTIO) {
        let alignment = view.get(&DIRECTIO_ALIGNMENT).copied().unwrap_or(0);
        builder.filter(DirectIo::new(least, alignment));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::parse_pool;
    use crate::testing::Site;
    use contract::{Args, Loading};
    use std::path::Path;

    #[test]
    fn what_aio_says() {
        let threads = |text: &str| Site::location(text).get("/").scope.policy.sending.aio_threads;
        assert!(threads("aio threads;") && threads("aio threads=default;") && threads("aio threads=$arg_p;"));
        assert!(!threads("aio on;") && !threads("aio off;") && !threads(""));
        assert_eq!(Site::error("aio thread;"), "\"aio\" directive invalid value");
        assert_eq!(Site::error("aio threads=x;"), "unknown thread pool \"x\"");
        assert_eq!(Site::error("directio x;"), "\"directio\" directive invalid value");
    }

    #[test]
    fn pools() {
        let parse = |text: &str| {
            let loaded = conf::parse_bytes(text.as_bytes());
            let args = Args { node: &loaded.nodes[0], context: conf::Contexts::MAIN, opened: None };
            parse_pool(&args, &mut Loading::new(Path::new("/"), Path::new("/")))
                .map_err(|error| error.message)
        };
        assert_eq!(parse("thread_pool a threads=1 max_queue=0;").as_deref(), Ok(&b"a"[..]));
        let wrong = |text| parse(text).unwrap_err();
        assert_eq!(wrong("thread_pool a threads=0;"), "invalid threads value \"threads=0\"");
        assert_eq!(wrong("thread_pool a threads=1 max_queue=x;"), "invalid max_queue value \"max_queue=x\"");
        assert_eq!(wrong("thread_pool a max_queue=1;"), "\"thread_pool\" must have \"threads\" parameter");
    }
}
