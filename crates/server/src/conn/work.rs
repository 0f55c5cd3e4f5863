//! Doing what handlers ask for, and finishing what cannot be answered at once.

use super::close::{self, Manner};
use super::exchange::Begun;
use super::respond::Answer;
use super::{Io, body, send, subrequest};
use crate::pipeline::{Flow, Progress};
use contract::log::Level;
use contract::{Body, Outcome, Task, Work};
use http::Status;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use tokio::task::JoinSet;

/// Finishes a request; gives the connection back if it stays open.
pub(crate) async fn finish(
    mut io: Box<Io>,
    mut begun: Box<Begun>,
    mut progress: Progress,
) -> Option<Box<Io>> {
    let content = loop {
        match progress {
            Progress::Respond(content) => break begun.settle(&mut io, content).0,
            Progress::Wait(work) => {
                // The client may send nothing more before it has the answers to its requests before this one.
                let outcome = match send::earlier_answers(&mut io).await {
                    Ok(()) => perform(&mut io, &mut begun, work).await,
                    Err(_) => Outcome::Failed(Status::CLIENT_CLOSED),
                };
                progress = begun.flow.resume(outcome);
            }
            Progress::Close => {
                if begun.left {
                    begun.flow.exchange.response.status = Status::BAD_REQUEST;
                }
                begun.flow.log();
                // Answers to the requests before this one are still to be sent.
                return send::answers(io).await.and(None);
            }
        }
    };
    // An error needs no body, so nobody is told to send one.
    let is_error = begun.flow.exchange.error.is_some();
    let has_body = begun.framing.body != h1::BodyLength::None;
    if begun.framing.expect_continue && has_body && !is_error {
        io.output.append(|out| out.extend_from_slice(h1::CONTINUE));
    }
    // The server may have been told to stop, or to serve another site, while the request waited.
    begun.flow.exchange.wire.keep_alive &= !io.is_leaving();
    let answer = Answer::new(&mut begun.flow);
    let is_tunnel = matches!(content, Body::Tunnel(_));
    if let Err(error) = send::response(&mut io, &mut begun, &answer, content).await {
        let text = format!("{} while sending response to client", net::system_message(&error));
        begun.flow.exchange.log(Level::Info, &text);
        // What is left was counted and never went.
        let unsent = io.output.bytes().len() as u64;
        let wire = &mut begun.flow.exchange.wire;
        wire.bytes = wire.bytes.saturating_sub(unsent);
        alone(&io, follow_up(&mut begun.flow)).await;
        begun.flow.log();
        send::reset_if_timed_out(&io, &error, &begun.flow.exchange.scope.policy.lingering);
        return None;
    }
    let scope = std::sync::Arc::clone(&begun.flow.exchange.scope);
    // A client that is answered before it has sent its body learns by the end that the rest is not wanted.
    let is_cut_short = begun.feed.take().is_some();
    let kept = answer.keep_alive && !is_tunnel && !is_cut_short && body::discard(&mut io, &mut begun).await;
    alone(&io, follow_up(&mut begun.flow)).await;
    if let Some(aside) = begun.aside.take() {
        if !kept {
            // Who reads up to the end has all of the answer. One that is gone already is noticed below.
            drop(io.stream.shutdown_write());
        }
        run_out(&mut io, aside).await;
    }
    begun.flow.log();
    let unread = !begun.body_done || is_tunnel;
    io.end(begun);
    if !kept {
        close::close(io, &scope, Manner { unread }).await;
        return None;
    }
    io.rewind(&scope.policy);
    Some(io)
}

/// Lets what runs aside come to its end behind the answer. A client that leaves with its answer ends none of it, but then
/// the place is for others where those are scarce.
async fn run_out(io: &mut Io, mut aside: JoinSet<()>) {
    // One that broke says so itself, and is no reason to end the others.
    let all = async { while aside.join_next().await.is_some() {} };
    let gives_way = async {
        body::client_left(io).await;
        body::place_is_wanted(io).await;
    };
    tokio::select! {
        biased;
        () = all => {}
        () = gives_way => {}
    }
}

/// Waits for what the client has no part in.
async fn alone<T>(io: &Io, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    io.timer.clear();
    poll_fn(|cx| {
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() {
            // It is not set: by it all who wait are found when the time of a site is over.
            let _: Poll<()> = io.timer.poll(cx);
        }
        polled
    })
    .await
}

/// Goes through what follows a response; what it answers goes nowhere.
async fn follow_up(flow: &mut Flow) {
    // By this the log tells whether the response was sent whole.
    let length = flow.exchange.response.content_length;
    let Some(mut progress) = flow.follow_up() else { return };
    while let Progress::Wait(work) = progress {
        let outcome = perform_inside(flow, work, 0).await;
        progress = flow.resume(outcome);
    }
    flow.exchange.response.content_length = length;
}

/// Does the work that a handler or a body waits for.
pub(crate) async fn perform(io: &mut Io, begun: &mut Begun, work: Work) -> Outcome {
    // A request that waits holds no memory for the next one.
    io.input.release();
    match work {
        Work::RequestBody => body::read(io, begun).await,
        Work::RequestStream => body::open(io, begun).await,
        Work::Task(task) => beside_client(io, begun, task, false).await,
        Work::Upstream { task, lasts } => beside_client(io, begun, task, lasts).await,
        Work::Aside(wanted) => {
            let aside = begun.aside.get_or_insert_default();
            for wanted in wanted {
                subrequest::start(&begun.flow, wanted, aside);
            }
            Outcome::Done
        }
        // It is done soon, and then the answer, even for a client that has closed its side of the connection.
        Work::Job(_) => alone(io, perform_inside(&begun.flow, work, 0)).await,
        other => {
            let left = body::client_left(io);
            tokio::select! {
                biased;
                outcome = perform_inside(&begun.flow, other, 0) => outcome,
                () = left => Outcome::Failed(Status::CLIENT_CLOSED),
            }
        }
    }
}

/// Waits for a task, and brings it what the client still sends of the body. Without the rest of a body it has no
/// use; without the client only if it lasts.
async fn beside_client(io: &mut Io, begun: &mut Begun, task: Task, lasts: bool) -> Outcome {
    let failed = async {
        match body::bring(io, begun).await {
            Err(status) => status,
            Ok(()) if lasts => alone(io, pending()).await,
            Ok(()) => {
                body::client_left(io).await;
                Status::CLIENT_CLOSED
            }
        }
    };
    tokio::select! {
        biased;
        result = task => Outcome::Task(result),
        status = failed => Outcome::Failed(status),
    }
}

/// Does work that needs no connection, on behalf of a flow that is so many subrequests deep.
pub(super) fn perform_inside(
    parent: &Flow,
    work: Work,
    depth: u32,
) -> Pin<Box<dyn Future<Output = Outcome> + '_>> {
    Box::pin(async move {
        match work {
            Work::Sleep(delay) => {
                tokio::time::sleep(delay).await;
                Outcome::Done
            }
            Work::RequestBody | Work::RequestStream => Outcome::Done,
            Work::Subrequest(wanted) => subrequest::run(parent, wanted, depth).await,
            Work::Aside(wanted) => {
                for wanted in wanted {
                    let _ = subrequest::run(parent, wanted, depth).await;
                }
                Outcome::Done
            }
            Work::Task(task) | Work::Upstream { task, .. } => Outcome::Task(task.await),
            Work::Job(job) => match tokio::task::spawn_blocking(job).await {
                Ok(result) => Outcome::Job(result),
                Err(_) => Outcome::Failed(Status::INTERNAL_SERVER_ERROR),
            },
        }
    })
}
