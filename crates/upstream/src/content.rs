//! The content of a server's response, on its way to the client: straight through, or taken from the
//! server as fast as it comes and kept in memory, and then in a file, until the client takes it.

use crate::link::Link;
use crate::settings::Settings;
use bytes::{Bytes, BytesMut};
use contract::log::Level;
use contract::{Body, Outcome, Piece, Pull, RequestLog, Source, Spool};
use net::system_message;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use tokio::task::{AbortHandle, spawn_local};

/// A protocol's view of the bytes behind the head of a response.
pub trait Decode: 'static {
    /// Takes the next content out of the input.
    ///
    /// # Errors
    /// The line for the error log: the input breaks the protocol's rules.
    fn decode(&mut self, input: &mut BytesMut) -> Result<Decoded, String>;

    /// Whether the end of the connection is the end of the content.
    fn ends_with_connection(&self) -> bool;

    /// Whether the content is whole, although the protocol has more to say.
    fn is_whole(&self) -> bool {
        false
    }

    /// Whether the connection can serve another request after the end of the content.
    fn keeps_connection(&self) -> bool;
}

/// What was in the input.
#[derive(Debug)]
pub enum Decoded {
    /// Content.
    Data(Bytes),
    /// Nothing before there is more input.
    More,
    /// The end of the content.
    End,
}

/// Reads the content of one response.
pub struct Reader<D> {
    /// The connection; none once the content is complete.
    pub link: Option<Link>,
    /// The protocol.
    pub decoder: D,
    /// How long to wait.
    pub settings: Arc<Settings>,
    /// Where failures are told.
    pub log: RequestLog,
    /// What the log calls the server.
    pub url: String,
}

/// The content cannot be completed.
struct Cut;

impl<D: Decode> Reader<D> {
    /// The next content that is there; the link is given back at the end.
    fn ready(&mut self) -> Result<Decoded, Cut> {
        let Some(link) = &mut self.link else { return Ok(Decoded::End) };
        let before = link.input.len();
        let decoded = self.decoder.decode(&mut link.input);
        // With what frames the content; what came with the head is not in the input any more.
        let taken = before - link.input.len();
        let length = if let Ok(Decoded::Data(bytes)) = &decoded { bytes.len().max(taken) } else { taken };
        link.content_arrived(length);
        match decoded {
            Ok(Decoded::End) => {
                self.end(self.decoder.keeps_connection());
                Ok(Decoded::End)
            }
            Ok(decoded) => Ok(decoded),
            Err(message) => Err(self.fail(&message)),
        }
    }

    /// Reads once.
    async fn wait(&mut self) -> Result<(), Cut> {
        let Some(link) = &mut self.link else { return Ok(()) };
        match link.read(self.settings.read_timeout).await {
            Ok(0) | Err(_) if self.decoder.is_whole() => {
                self.end(false);
                Ok(())
            }
            Ok(0) if self.decoder.ends_with_connection() => {
                self.end(false);
                Ok(())
            }
            Ok(0) => Err(self.fail("upstream prematurely closed connection while reading upstream")),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::TimedOut && error.raw_os_error().is_none() => {
                Err(self.fail("upstream timed out (110: Connection timed out) while reading upstream"))
            }
            Err(error) => {
                let reason = system_message(&error);
                Err(self.fail(&format!("recv() failed ({reason}) while reading upstream")))
            }
        }
    }

    /// Puts content, as much as there is room for, where the client takes it from.
    fn keep(&self, bytes: &mut Bytes, store: &mut Store) -> Result<(), Cut> {
        let was_in_memory = store.spool.is_none();
        let path = self.settings.temp_path.display();
        let tell = |level, message: &str| self.log.write(level, message, Some(&self.url));
        store.keep(bytes, &self.settings).map_err(|error| {
            tell(Level::Crit, &format!("a response cannot be kept in \"{path}\" ({error})"));
            Cut
        })?;
        if was_in_memory && store.spool.is_some() {
            let what = "an upstream response is buffered to a temporary file";
            tell(Level::Warn, &format!("{what} in {path} while reading upstream"));
        }
        Ok(())
    }

    fn end(&mut self, reusable: bool) {
        let Some(link) = self.link.take() else { return };
        if !link.input.is_empty() {
            let message = "upstream sent more data than its response has while reading upstream";
            self.log.write(Level::Warn, message, Some(&self.url));
        }
        link.finish(reusable);
    }

    fn fail(&mut self, message: &str) -> Cut {
        self.log.write(Level::Error, message, Some(&self.url));
        if let Some(mut link) = self.link.take() {
            link.done();
        }
        Cut
    }
}

/// The content of a response.
pub struct Content;

impl Content {
    /// What the reader brings as the body of a response. With `buffered` the server need not wait for the
    /// client.
    pub fn body<D: Decode>(mut reader: Reader<D>, buffered: bool) -> Body {
        let mut pieces = VecDeque::new();
        loop {
            match reader.ready() {
                Ok(Decoded::Data(bytes)) => pieces.push_back(Piece::Bytes(bytes)),
                Ok(Decoded::End) => return Body::Pieces(pieces.into()),
                Ok(Decoded::More) => break,
                Err(Cut) => return Body::Source(Box::new(Straight::<D> { pieces, reader: Err(Cut) })),
            }
        }
        match buffered {
            true => Body::Source(Box::new(Buffered::new(reader, pieces))),
            false => Body::Source(Box::new(Straight { pieces, reader: Ok(Some(Box::new(reader))) })),
        }
    }
}

/// Content that is read when the client can take more.
struct Straight<D> {
    pieces: VecDeque<Piece>,
    /// Away while it reads.
    reader: Result<Option<Box<Reader<D>>>, Cut>,
}

type Read<D> = (Box<Reader<D>>, Result<(), Cut>);

impl<D: Decode> Source for Straight<D> {
    fn pull(&mut self) -> Pull {
        if let Some(piece) = self.pieces.pop_front() {
            return Pull::Piece(piece);
        }
        let Ok(Some(mut reader)) = std::mem::replace(&mut self.reader, Err(Cut)) else { return Pull::Failed };
        match reader.ready() {
            Ok(Decoded::Data(bytes)) => {
                self.reader = Ok(Some(reader));
                Pull::Piece(Piece::Bytes(bytes))
            }
            Ok(Decoded::End) => {
                self.reader = Ok(Some(reader));
                Pull::End
            }
            Ok(Decoded::More) => {
                let settings = Arc::clone(&reader.settings);
                Pull::Await(settings.work(Box::pin(async move {
                    let result = reader.wait().await;
                    let read: Read<D> = (reader, result);
                    Box::new(read) as Box<dyn std::any::Any>
                })))
            }
            Err(Cut) => Pull::Failed,
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        if let Outcome::Task(result) = outcome
            && let Ok(read) = result.downcast::<Read<D>>()
        {
            let (reader, result) = *read;
            self.reader = result.map(|()| Some(reader));
        }
    }
}

/// Content that a task of its own reads.
struct Buffered {
    shared: Rc<RefCell<Store>>,
    settings: Arc<Settings>,
    task: AbortHandle,
}

/// What was read and not sent yet.
struct Store {
    pieces: VecDeque<Piece>,
    /// How many bytes of them are in memory.
    in_memory: usize,
    spool: Option<Spool>,
    /// Whether all was read, or no more can be.
    end: Option<Result<(), Cut>>,
    reading: Option<Waker>,
    sending: Option<Waker>,
}

impl Buffered {
    fn new<D: Decode>(reader: Reader<D>, pieces: VecDeque<Piece>) -> Buffered {
        let in_memory = pieces.iter().map(|piece| usize::try_from(piece.length()).unwrap_or(0)).sum();
        let store = Store { pieces, in_memory, spool: None, end: None, reading: None, sending: None };
        let shared = Rc::new(RefCell::new(store));
        let settings = Arc::clone(&reader.settings);
        let task = spawn_local(pump(reader, Rc::clone(&shared))).abort_handle();
        Buffered { shared, settings, task }
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        // Nobody wants the rest: the server's connection ends with the task.
        self.task.abort();
    }
}

impl Source for Buffered {
    fn pull(&mut self) -> Pull {
        let mut store = self.shared.borrow_mut();
        if let Some(piece) = store.pieces.pop_front() {
            if let Piece::Bytes(bytes) = &piece {
                store.in_memory = store.in_memory.saturating_sub(bytes.len());
            }
            if let Some(waker) = store.reading.take() {
                waker.wake();
            }
            return Pull::Piece(piece);
        }
        match store.end {
            Some(Ok(())) => Pull::End,
            Some(Err(Cut)) => Pull::Failed,
            None => {
                let shared = Rc::clone(&self.shared);
                Pull::Await(self.settings.work(Box::pin(async move {
                    poll_fn(|cx| shared.borrow_mut().poll_sendable(cx.waker())).await;
                    Box::new(()) as Box<dyn std::any::Any>
                })))
            }
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        if let Outcome::Failed(_) = outcome {
            self.task.abort();
            self.shared.borrow_mut().end = Some(Err(Cut));
        }
    }
}

/// Reads to the end of the content, as long as there is room.
async fn pump<D: Decode>(mut reader: Reader<D>, shared: Rc<RefCell<Store>>) {
    let settings = Arc::clone(&reader.settings);
    let end = loop {
        match reader.ready() {
            Ok(Decoded::Data(bytes)) => {
                let mut rest = bytes;
                while !rest.is_empty() {
                    poll_fn(|cx| shared.borrow_mut().poll_room(&settings, cx.waker())).await;
                    let kept = reader.keep(&mut rest, &mut shared.borrow_mut());
                    if let Err(cut) = kept {
                        shared.borrow_mut().finish(Err(cut));
                        return;
                    }
                }
            }
            Ok(Decoded::More) => {
                if let Err(cut) = reader.wait().await {
                    break Err(cut);
                }
            }
            Ok(Decoded::End) => break Ok(()),
            Err(cut) => break Err(cut),
        }
    };
    shared.borrow_mut().finish(end);
}

impl Store {
    fn poll_sendable(&mut self, waker: &Waker) -> Poll<()> {
        if !self.pieces.is_empty() || self.end.is_some() {
            return Poll::Ready(());
        }
        self.sending = Some(waker.clone());
        Poll::Pending
    }

    fn poll_room(&mut self, settings: &Settings, waker: &Waker) -> Poll<()> {
        if self.room_in_memory(settings) > 0 || self.room_in_file(settings) > 0 {
            return Poll::Ready(());
        }
        self.reading = Some(waker.clone());
        Poll::Pending
    }

    /// Memory is for what comes first: behind a part in a file everything goes there.
    fn room_in_memory(&self, settings: &Settings) -> usize {
        match self.pieces.back() {
            Some(Piece::File { .. }) => 0,
            _ => settings.buffers.saturating_sub(self.in_memory),
        }
    }

    fn room_in_file(&self, settings: &Settings) -> u64 {
        let used = self.spool.as_ref().map_or(0, Spool::length);
        settings.max_temp_file_size.saturating_sub(used)
    }

    /// Keeps the first of these bytes, as many as there is room for.
    fn keep(&mut self, bytes: &mut Bytes, settings: &Settings) -> io::Result<()> {
        let in_memory = self.room_in_memory(settings).min(bytes.len());
        if in_memory > 0 {
            self.pieces.push_back(Piece::Bytes(bytes.split_to(in_memory)));
            self.in_memory += in_memory;
        } else {
            self.spool_some(bytes, settings)?;
        }
        if let Some(waker) = self.sending.take() {
            waker.wake();
        }
        Ok(())
    }

    fn spool_some(&mut self, bytes: &mut Bytes, settings: &Settings) -> io::Result<()> {
        let room = usize::try_from(self.room_in_file(settings)).unwrap_or(usize::MAX);
        let part = bytes.split_to(room.min(bytes.len()));
        let spool = match &mut self.spool {
            Some(spool) => spool,
            None => self.spool.insert(Spool::new(&settings.temp_path)?),
        };
        let start = spool.append(&part)?;
        match self.pieces.back_mut() {
            Some(Piece::File { length, .. }) => *length += part.len() as u64,
            _ => self.pieces.push_back(Piece::File {
                file: Arc::clone(spool.file()),
                offset: start,
                length: part.len() as u64,
            }),
        }
        Ok(())
    }

    fn finish(&mut self, end: Result<(), Cut>) {
        self.end = Some(end);
        if let Some(waker) = self.sending.take() {
            waker.wake();
        }
    }
}
