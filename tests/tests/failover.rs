//! Servers of a group that die, stand still and come back under load: no idempotent request is lost.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tests::binary::Server;
use tests::load::Load;
use tests::site::Site;
use tests::wait;

const PATIENCE: Duration = Duration::from_secs(30);
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";
/// How many answers are waited for after each change.
const ANSWERS: usize = 60;

/// A server of a group, on a Unix socket.
struct Member {
    path: PathBuf,
    life: Mutex<Option<Arc<Life>>>,
    answered: Arc<AtomicUsize>,
}

/// What the threads of a server share from its start until it is killed.
#[derive(Default)]
struct Life {
    is_over: AtomicBool,
    is_stalled: AtomicBool,
    connections: Mutex<Vec<UnixStream>>,
}

impl Member {
    fn start(path: PathBuf) -> Member {
        let member = Member { path, life: Mutex::new(None), answered: Arc::default() };
        member.restart();
        member
    }

    fn restart(&self) {
        let listener = UnixListener::bind(&self.path).unwrap();
        let life = Arc::new(Life::default());
        *self.life.lock().unwrap() = Some(Arc::clone(&life));
        let answered = Arc::clone(&self.answered);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (life, answered) = (Arc::clone(&life), Arc::clone(&answered));
                {
                    // `kill` closes the connections under the same lock.
                    let mut connections = life.connections.lock().unwrap();
                    if life.is_over.load(Ordering::SeqCst) {
                        return;
                    }
                    connections.push(stream.try_clone().unwrap());
                }
                std::thread::spawn(move || serve(stream, &life, &answered));
            }
        });
    }

    /// Closes the socket and all connections, whatever they are doing.
    fn kill(&self) {
        std::fs::remove_file(&self.path).unwrap();
        let life = self.life.lock().unwrap().take().unwrap();
        let connections = life.connections.lock().unwrap();
        life.is_over.store(true, Ordering::SeqCst);
        connections.iter().for_each(|stream| drop(stream.shutdown(std::net::Shutdown::Both)));
    }

    /// From now on connections and requests are taken, and nothing is answered.
    fn stall(&self) {
        self.life.lock().unwrap().as_ref().unwrap().is_stalled.store(true, Ordering::SeqCst);
    }

    fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }

    /// Waits for that many more answers.
    fn wait(&self, more: usize) {
        let before = self.answered();
        let has_answered = wait::until(PATIENCE, || self.answered() >= before + more);
        assert!(has_answered, "{} answers after {before}", self.answered());
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.life.lock().unwrap().is_some() {
            self.kill();
        }
    }
}

fn serve(mut stream: UnixStream, life: &Life, answered: &AtomicUsize) {
    let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        got.extend_from_slice(&buffer[..count]);
        if !got.ends_with(b"\r\n\r\n") || life.is_stalled.load(Ordering::SeqCst) {
            continue;
        }
        got.clear();
        if stream.write_all(ANSWER).is_err() {
            return;
        }
        answered.fetch_add(1, Ordering::SeqCst);
    }
}

fn members(directory: &Path) -> [Member; 3] {
    ["a.sock", "b.sock", "c.sock"].map(|name| Member::start(directory.join(name)))
}

/// A server that stands still is given up after three seconds, which a server that answers never takes.
fn site(members: &[Member; 3]) -> Site {
    let servers: String = members
        .iter()
        .map(|member| format!("server unix:{} max_fails=1 fail_timeout=1s; ", member.path.display()))
        .collect();
    Site::new(&format!(
        "access_log off;
        upstream app {{ {servers} keepalive 4; }}
        server {{
            listen 127.0.0.1:%%PORT%%;
            location / {{
                proxy_pass http://app;
                proxy_http_version 1.1;
                proxy_set_header Connection \"\";
                proxy_read_timeout 6s;
                proxy_next_upstream error timeout;
            }}
        }}"
    ))
}

#[test]
fn servers_that_die_stall_and_restart_lose_no_request() {
    let directory = tempfile::tempdir().unwrap();
    let all = members(directory.path());
    let running = site(&all).start(Server::Fulmar);
    let load = Load::of_new_connections(running.address(), "/", 3);
    let kept = Load::of_kept_connections(running.address(), "/", 1);
    all.iter().for_each(|member| member.wait(ANSWERS));
    for turn in 0..3 {
        let [dead, stalled, healthy] = [0, 1, 2].map(|at| &all[(turn + at) % 3]);
        dead.kill();
        healthy.wait(ANSWERS);
        // One healthy server of three is left.
        stalled.stall();
        healthy.wait(ANSWERS);
        dead.restart();
        dead.wait(ANSWERS);
        stalled.kill();
        healthy.wait(ANSWERS);
        stalled.restart();
        stalled.wait(ANSWERS);
    }
    for tally in [load.finish(), kept.finish()] {
        assert!(tally.failed.is_empty(), "{} lost, such as: {}", tally.failed.len(), tally.failed[0]);
        assert!(tally.answered > ANSWERS, "{tally:?}");
    }
    running.stop();
}

#[test]
fn a_group_of_dead_servers_recovers_with_one_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let all = members(directory.path());
    all.iter().for_each(Member::kill);
    let running = site(&all).start(Server::Fulmar);
    assert_eq!(running.ask("GET /").last().status, 502);
    all[1].restart();
    assert!(wait::until(PATIENCE, || running.ask("GET /").last().status == 200), "{}", running.all_logs());
    running.stop();
}
