//! Four small servers that differ in their architecture alone: is it the event loop that makes a web server fast, or
//! the rest of it?
//!
//! They share the parser ([`message`]), the files in memory ([`cache`]) and what is done on a connection
//! ([`session`]). Each says only who waits for what:
//!
//! - [`process`]: a process for each connection, from a pool that grows;
//! - [`thread`]: a thread for each connection, from a pool;
//! - [`hybrid`]: one thread waits for all connections and hands those that have something to read to a pool;
//! - [`epoll`]: each thread waits for its connections and answers them.
//!
//! Three more are the event loop that speaks FastCGI ([`fastcgi`]), gRPC ([`grpc`]) or uwsgi ([`uwsgi`]): others pass
//! requests on to them.
//!
//! They serve files of one folder, which they read once. They are for measurements on this machine: there is no TLS,
//! no log and no configuration.

mod cache;
mod epoll;
mod fastcgi;
mod grpc;
mod hybrid;
mod message;
mod process;
mod session;
mod thread;
mod uwsgi;
mod websocket;

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use rustix::net::{AddressFamily, SocketType, sockopt};

use cache::Cache;
use session::Protocol;

/// Runs one of the reference servers until a signal ends it.
#[derive(Args, Clone, Debug)]
pub struct ReferenceArguments {
    /// The architecture.
    #[arg(long)]
    kind: Kind,
    /// Where to listen. It is printed, so that port 0 stands for any.
    #[arg(long, value_name = "ADDRESS", required_unless_present = "worker")]
    listen: Option<SocketAddr>,
    /// The folder that is served. Its files are read once.
    #[arg(long, value_name = "FOLDER")]
    root: PathBuf,
    /// The most processes or threads.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: u32,
    /// Listens on an address that others can reach, too.
    #[arg(long)]
    beyond_loopback: bool,
    /// One process of the pool: the number of its parent. The listening socket is its standard input.
    #[arg(long, hide = true)]
    worker: Option<i32>,
}

/// Who waits for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A process for each connection.
    Process,
    /// A thread for each connection.
    Thread,
    /// One thread waits, and a pool answers.
    Hybrid,
    /// Each thread waits and answers.
    Epoll,
    /// As `epoll`, and it speaks FastCGI.
    Fastcgi,
    /// As `epoll`, and it speaks gRPC.
    Grpc,
    /// As `epoll`, and it speaks uwsgi.
    Uwsgi,
}

/// How many connections the kernel holds that were not accepted yet.
const BACKLOG: i32 = 4096;

/// A thread's stack, which holds little more than what is read at once.
const STACK_BYTES: usize = 256 * 1024;

/// Serves until it is ended by a signal.
pub fn main(arguments: &ReferenceArguments) -> Result<ExitCode> {
    if let Some(parent) = arguments.worker {
        process::end_with(parent)?;
    }
    // It lives as long as the process, and so may be shared by all threads without being counted.
    let cache: &'static Cache = Box::leak(Box::new(Cache::read(&arguments.root)?));
    if arguments.worker.is_some() {
        return process::work(cache);
    }
    let address = arguments.listen.context("no address to listen on")?;
    ensure!(
        address.ip().is_loopback() || arguments.beyond_loopback,
        "{address} can be reached from other machines; --beyond-loopback allows it"
    );
    let listener = listen(address).with_context(|| format!("listening on {address}"))?;
    println!("listening on {}", listener.local_addr()?);
    match arguments.kind {
        Kind::Process => process::serve(&listener, &arguments.root, arguments.workers),
        Kind::Thread => thread::serve(&listener, cache, arguments.workers),
        Kind::Hybrid => hybrid::serve(&listener, cache, arguments.workers),
        Kind::Epoll => epoll::serve(Protocol::Http, &listener, cache, arguments.workers),
        Kind::Fastcgi => epoll::serve(Protocol::FastCgi, &listener, cache, arguments.workers),
        Kind::Grpc => epoll::serve(Protocol::Grpc, &listener, cache, arguments.workers),
        Kind::Uwsgi => epoll::serve(Protocol::Uwsgi, &listener, cache, arguments.workers),
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = rustix::net::SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// The next connection. None where none waits, or where the system has no room for one now.
fn accept(listener: &TcpListener) -> Option<TcpStream> {
    match listener.accept() {
        Ok((stream, _)) => Some(stream),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
        Err(_) => {
            // Most likely there are too many open files, and trying again at once would not change that.
            std::thread::park_timeout(Duration::from_millis(10));
            None
        }
    }
}

/// Runs as many threads, which do not end.
fn threads(count: u32, run: impl Fn() -> Result<()> + Sync) -> Result<ExitCode> {
    std::thread::scope(|scope| {
        let mut handles = Vec::new();
        for _ in 0..count {
            let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
            handles.push(builder.spawn_scoped(scope, &run).context("starting a thread")?);
        }
        for handle in handles {
            handle.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        Ok(ExitCode::SUCCESS)
    })
}
