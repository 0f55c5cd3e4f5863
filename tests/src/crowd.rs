//! Many slow clients, all of them played by one thread.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketType, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::wait;

/// How a slow client behaves.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// What it says at once.
    pub first: String,
    /// What it says now and then.
    pub drip: &'static str,
    /// How many bytes it takes now and then.
    pub takes: usize,
    /// How long it waits between two drips.
    pub pause: Duration,
}

/// Slow clients that are connected.
#[derive(Debug)]
pub struct SlowClients {
    stop: Arc<AtomicBool>,
    open: Arc<AtomicUsize>,
    count: usize,
    player: Option<JoinHandle<()>>,
}

impl SlowClients {
    /// Connects so many clients, each of which has said its first words when this returns.
    pub fn gather(address: SocketAddr, count: usize, behaviour: &Behaviour) -> SlowClients {
        let mut members: Vec<TcpStream> = Vec::with_capacity(count);
        for _ in 0..count {
            members.push(slow_reader(address));
            let member = members.last_mut().expect("a member");
            member.write_all(behaviour.first.as_bytes()).expect("the first words");
            member.set_nonblocking(true).expect("nonblocking");
        }
        let stop = Arc::new(AtomicBool::new(false));
        let open = Arc::new(AtomicUsize::new(count));
        let player = {
            let (stop, open, behaviour) = (Arc::clone(&stop), Arc::clone(&open), behaviour.clone());
            thread::spawn(move || play(members, &behaviour, &stop, &open))
        };
        SlowClients { stop, open, count, player: Some(player) }
    }

    /// How many there were at first.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many do not know yet that the server has ended their connection.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

impl Drop for SlowClients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = self.player.take().map(JoinHandle::join);
    }
}

/// A connection whose receive buffer is as small as the system allows.
pub fn slow_reader(address: SocketAddr) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    set_socket_recv_buffer_size(&socket, 4096).expect("a small buffer");
    connect(&socket, &address).expect("a connection");
    TcpStream::from(socket)
}

/// How many connections a test may have, of those that it would like: there are other tests in this process. A low
/// limit of descriptors is raised as far as the system allows.
pub fn allowed(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    wanted.min(usize::try_from(most / 4 * 3).unwrap_or(usize::MAX).saturating_sub(200))
}

fn play(mut members: Vec<TcpStream>, behaviour: &Behaviour, stop: &AtomicBool, open: &AtomicUsize) {
    while !stop.load(Ordering::SeqCst) {
        members.retain_mut(|member| is_open(member, behaviour));
        open.store(members.len(), Ordering::SeqCst);
        let steps = behaviour.pause.as_millis().div_ceil(20);
        for _ in 0..steps {
            if !stop.load(Ordering::SeqCst) {
                wait::pause(behaviour.pause.min(Duration::from_millis(20)));
            }
        }
    }
}

/// Says and takes a little; whether the connection lives on.
fn is_open(member: &mut TcpStream, behaviour: &Behaviour) -> bool {
    let waits = |kind: ErrorKind| kind == ErrorKind::WouldBlock;
    if !behaviour.drip.is_empty()
        && let Err(error) = member.write(behaviour.drip.as_bytes())
        && !waits(error.kind())
    {
        return false;
    }
    if behaviour.takes == 0 {
        return true;
    }
    match member.read(&mut vec![0; behaviour.takes]) {
        Ok(0) => false,
        Ok(_) => true,
        Err(error) => waits(error.kind()),
    }
}
