//! Requests inside of the server: run on behalf of another one, their content unused, collected, or streamed into a
//! body.

use super::cold::{self, Unknown};
use super::work::perform_inside;
use crate::pipeline::{Flow, Progress};
use bytes::Bytes;
use contract::log::Level;
use contract::{Body, Content, Outcome, Piece, Pull, Source, Streamed, Subrequest, Subresponse, Work};
use http::Status;
use std::cell::Cell;
use tokio::task::JoinSet;

/// How deep subrequests may nest, as in nginx.
const DEPTH_MAX: u32 = 50;

/// How many subrequests one request may come to, however they nest.
const COUNT_MAX: u32 = 64 * 1024;

/// The most content of a subrequest that is collected, in bytes.
const COLLECTED_MAX: usize = 8 * 1024 * 1024;

/// How many subrequests there were on behalf of a request; attached to it.
struct Count(Cell<u32>);

/// Runs a subrequest of a flow that is itself so many subrequests deep.
pub(super) async fn run(parent: &Flow, wanted: Subrequest, depth: u32) -> Outcome {
    if !may_run(parent, &wanted, depth) {
        return Outcome::Failed(Status::INTERNAL_SERVER_ERROR);
    }
    let content = wanted.content;
    respond(parent.subrequest(wanted), content, depth + 1).await
}

/// Lets a subrequest run beside the request that asks for it, until that ends.
pub(super) fn start(parent: &Flow, wanted: Subrequest, aside: &mut JoinSet<()>) {
    if may_run(parent, &wanted, 0) {
        let content = wanted.content;
        let flow = parent.subrequest(wanted);
        aside.spawn_local(async move {
            let _ = respond(flow, content, 1).await;
        });
    }
}

fn may_run(parent: &Flow, wanted: &Subrequest, depth: u32) -> bool {
    let exchange = &parent.exchange;
    let count = exchange.attached::<Count>().unwrap_or_else(|| {
        exchange.attach(Count(Cell::new(0)));
        exchange.attached::<Count>().unwrap_or_else(|| Count(Cell::new(0)).into())
    });
    count.0.set(count.0.get() + 1);
    let problem = match (depth >= DEPTH_MAX, count.0.get() > COUNT_MAX) {
        (true, _) => "subrequests cycle",
        (_, true) => "too many subrequests",
        _ => return true,
    };
    let path = String::from_utf8_lossy(&wanted.path);
    exchange.log(Level::Error, &format!("{problem} while processing \"{path}\""));
    false
}

/// Runs a flow that is so many subrequests deep up to its response, and beyond where the content is not streamed.
async fn respond(mut flow: Flow, content: Content, depth: u32) -> Outcome {
    let mut progress = flow.run();
    let body = loop {
        match progress {
            Progress::Respond(body) => break body,
            // It is the end of the request that asks for it, too.
            Progress::Close => return Outcome::Failed(flow.exchange.response.status),
            Progress::Wait(work) => {
                let outcome = perform_inside(&flow, work, depth).await;
                progress = flow.resume(outcome);
            }
        }
    };
    let collected = match content {
        Content::Streamed => return Outcome::Streamed(streamed(flow, body, depth)),
        Content::Unused => Some(Bytes::new()),
        Content::Collected => collect(&flow, body, depth).await,
    };
    flow.exchange.wire.bytes = collected.as_ref().map_or(0, |content| content.len() as u64);
    log(&mut flow);
    match collected {
        Some(content) => Outcome::Subresponse(Subresponse { exchange: Box::new(flow.exchange), content }),
        None => Outcome::Failed(Status::INTERNAL_SERVER_ERROR),
    }
}

fn log(flow: &mut Flow) {
    if flow.exchange.scope.policy.log_subrequest {
        flow.log();
    }
}

fn streamed(mut flow: Flow, body: Body, depth: u32) -> Streamed {
    let head = Box::new(flow.exchange.response.clone());
    let body = match body {
        Body::Source(source) => {
            Body::Source(Box::new(Inner { source, flow: Some(Box::new(flow)), depth, is_broken: false }))
        }
        Body::Tunnel(_) => Body::Empty,
        body => {
            flow.exchange.wire.bytes = body.length().unwrap_or(0);
            log(&mut flow);
            body
        }
    };
    Streamed { head, body }
}

/// The content of a subrequest, while it comes.
struct Inner {
    source: Box<dyn Source>,
    /// The subrequest; away while work is done on its behalf, and at the end.
    flow: Option<Box<Flow>>,
    depth: u32,
    is_broken: bool,
}

/// The result of work that was done on behalf of a subrequest.
type Done = (Box<Flow>, Outcome);

impl Source for Inner {
    fn pull(&mut self) -> Pull {
        if self.is_broken {
            return Pull::Failed;
        }
        match self.source.pull() {
            // These are about the request that they are done for; nothing else is.
            Pull::Await(
                work @ (Work::Subrequest(_) | Work::Aside(_) | Work::RequestBody | Work::RequestStream),
            ) => match self.flow.take() {
                Some(flow) => Pull::Await(on_behalf(flow, work, self.depth)),
                None => Pull::Failed,
            },
            Pull::Piece(piece) => {
                if let Some(flow) = &mut self.flow {
                    flow.exchange.wire.bytes += piece.length();
                }
                Pull::Piece(piece)
            }
            Pull::End => {
                self.flow.take().iter_mut().for_each(|flow| log(flow));
                Pull::End
            }
            other => other,
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        if self.flow.is_some() {
            self.source.resume(outcome);
            return;
        }
        match outcome {
            Outcome::Task(done) if done.is::<Done>() => {
                if let Ok(done) = done.downcast::<Done>() {
                    let (flow, outcome) = *done;
                    self.flow = Some(flow);
                    self.source.resume(outcome);
                }
            }
            _ => self.is_broken = true,
        }
    }
}

fn on_behalf(flow: Box<Flow>, work: Work, depth: u32) -> Work {
    Work::Task(Box::pin(async move {
        let outcome = perform_inside(&flow, work, depth).await;
        let done: Done = (flow, outcome);
        Box::new(done) as Box<dyn std::any::Any>
    }))
}

/// The whole content of a subrequest's response, or `None` where it cannot be had or is too long.
async fn collect(flow: &Flow, body: Body, depth: u32) -> Option<Bytes> {
    let mut content = Vec::new();
    match body {
        Body::Empty | Body::Tunnel(_) => {}
        Body::Piece(piece) => append(&piece, &mut content).await?,
        Body::Pieces(pieces) => {
            for piece in &pieces {
                append(piece, &mut content).await?;
            }
        }
        Body::Source(mut source) => loop {
            match source.pull() {
                Pull::Piece(piece) => append(&piece, &mut content).await?,
                Pull::Await(work) => source.resume(perform_inside(flow, work, depth).await),
                Pull::End => break,
                Pull::Failed => return None,
            }
        },
    }
    Some(content.into())
}

async fn append(piece: &Piece, content: &mut Vec<u8>) -> Option<()> {
    let length = usize::try_from(piece.length()).ok()?;
    if content.len().checked_add(length)? > COLLECTED_MAX {
        return None;
    }
    match piece {
        Piece::Bytes(bytes) => content.extend_from_slice(bytes),
        Piece::File { file, offset, .. } => {
            let (mut at, mut offset) = (content.len(), *offset);
            content.resize(at + length, 0);
            while at < content.len() {
                let count = cold::read(file, &mut content[at..], offset, Unknown::Warm).await.ok()?;
                if count == 0 {
                    return None;
                }
                at += count;
                offset += count as u64;
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::{run, start};
    use crate::pipeline::Flow;
    use crate::site::Site;
    use crate::{prototypes, testing};
    use contract::{Body, Content, Exchange, Outcome, Piece, Pull, Subrequest, Work};
    use http::Status;
    use std::future::Future;
    use std::rc::Rc;
    use std::sync::Arc;
    use tokio::task::{JoinSet, LocalSet};

    fn flow(site: &Site) -> Flow {
        let server = Arc::clone(site.listens[0].hosts(None).default_server());
        let connection = Rc::new(testing::connection("127.0.0.1:1"));
        let scope = Arc::clone(&server.scope);
        let request = testing::request("GET", "/", "localhost");
        Flow::new(Exchange::new(connection, request, scope, Arc::clone(&site.variables)), server)
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        LocalSet::new().block_on(&runtime, future)
    }

    fn text(piece: Piece) -> String {
        let Piece::Bytes(bytes) = piece else { panic!("a file") };
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn content_that_is_collected() {
        let site = prototypes::site("location / { slice /part; } location /part { body $uri; }");
        let outcome = wait(run(&flow(&site), Subrequest::get("/x", Content::Collected), 0));
        let Outcome::Subresponse(answer) = outcome else { panic!("no answer") };
        assert_eq!(answer.content, "/part1/part2/part3");
        let outcome = wait(run(&flow(&site), Subrequest::get("/part", Content::Unused), 0));
        let Outcome::Subresponse(answer) = outcome else { panic!("no answer") };
        assert!(answer.content.is_empty() && answer.exchange.response.status == Status::OK);
    }

    #[test]
    fn content_that_is_streamed_asks_on_its_own_behalf() {
        let site = prototypes::site("location / { slice /part; } location /part { body $uri; }");
        let flow = flow(&site);
        let outcome = wait(run(&flow, Subrequest::get("/x", Content::Streamed), 0));
        let Outcome::Streamed(answer) = outcome else { panic!("no answer") };
        let Body::Source(mut source) = answer.body else { panic!("no source") };
        for part in ["/part1", "/part2", "/part3"] {
            let Pull::Await(Work::Task(task)) = source.pull() else { panic!("{part} is there already") };
            source.resume(Outcome::Task(wait(task)));
            let Pull::Piece(piece) = source.pull() else { panic!("no {part}") };
            assert_eq!(text(piece), part);
        }
        assert!(matches!(source.pull(), Pull::End));
    }

    #[test]
    fn what_is_lost_on_the_way_is_a_failure() {
        let site = prototypes::site("location / { slice /part; } location /part { body $uri; }");
        let flow = flow(&site);
        let outcome = wait(run(&flow, Subrequest::get("/x", Content::Streamed), 0));
        let Outcome::Streamed(answer) = outcome else { panic!("no answer") };
        let Body::Source(mut source) = answer.body else { panic!("no source") };
        assert!(matches!(source.pull(), Pull::Await(_)));
        source.resume(Outcome::Failed(Status::CLIENT_CLOSED));
        assert!(matches!(source.pull(), Pull::Failed));
    }

    #[test]
    fn circles_end_however_they_branch() {
        let site = prototypes::site("location / { auth /; body x; } location /s { slice /s; }");
        assert!(matches!(
            wait(run(&flow(&site), Subrequest::get("/s", Content::Collected), 0)),
            Outcome::Subresponse(answer) if answer.content.is_empty()
        ));
        let deep = wait(run(&flow(&site), Subrequest::get("/s", Content::Collected), super::DEPTH_MAX));
        assert!(matches!(deep, Outcome::Failed(Status::INTERNAL_SERVER_ERROR)));
    }

    #[test]
    fn what_runs_aside_ends_with_the_request() {
        let site = prototypes::site("location / { delay 1s; body x; }");
        let flow = flow(&site);
        let owners = || Rc::strong_count(&flow.exchange.connection);
        let before = owners();
        wait(async {
            let mut aside = JoinSet::new();
            start(&flow, Subrequest::get("/", Content::Unused), &mut aside);
            tokio::task::yield_now().await;
            assert_eq!(owners(), before + 1);
            drop(aside);
            tokio::task::yield_now().await;
            assert_eq!(owners(), before, "it goes on");
        });
    }
}
