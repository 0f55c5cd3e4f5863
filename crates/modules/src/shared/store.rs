//! Stores responses in permanent files while they are sent: `proxy_store`, `fastcgi_store` and so on.

use super::files::as_path;
use super::placing::{self, Content, Marks};
use super::whole::Whole;
use crate::shared::walk::{self, Way};
use contract::{Body, Exchange, MapError, Outcome, Piece, Pull, Source, Turn, Work};
use http::{Fields, Method, Status};
use journal::Level;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use upstream::{Attempts, Settings, StorePath};
use wire::Spool;

/// How much is copied at once of what was buffered in another file, in bytes.
const COPIED: usize = 64 * 1024;

/// A file that is being written. It gets its own name when it is whole; without [`Filing::finish`] nothing stays of it.
pub(crate) struct Filing {
    spool: Spool,
    path: PathBuf,
    access: u32,
    /// The time that the file gets as that of its last change, in seconds since 1970.
    modified: Option<u64>,
}

impl Filing {
    /// Begins a file for the content of a response, if the scope stores such responses.
    pub(crate) fn begin(
        settings: &Settings,
        exchange: &Exchange,
        (status, fields): (Status, &Fields),
    ) -> Option<Filing> {
        let (to, access) = settings.store.as_ref()?;
        if status != Status::OK || exchange.request.method == Method::Head {
            return None;
        }
        let path = path(to, exchange)?;
        let seconds = fields.get("Last-Modified").and_then(http::parse_date);
        let modified = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        match Spool::new(&settings.buffers.directory) {
            Ok(spool) => Some(Filing { spool, path, access: *access, modified }),
            Err(error) => {
                complain(exchange, &error);
                None
            }
        }
    }

    /// Stores the content of a body as it passes.
    pub(crate) fn pass(self, exchange: &mut Exchange, body: Body) -> Body {
        let source: Box<dyn Source> = match body {
            Body::Tunnel(_) => return body,
            Body::Source(source) => source,
            Body::Empty => Box::new(Whole::new(Vec::new())),
            Body::Piece(piece) => Box::new(Whole::new(vec![piece])),
            Body::Pieces(pieces) => Box::new(Whole::new(pieces)),
        };
        exchange.wire.outlasts = true;
        Body::Source(Box::new(Storing { source, filing: Some(self), stored: None }))
    }

    fn append(&mut self, piece: &Piece) -> io::Result<()> {
        match piece {
            Piece::Bytes(bytes) => self.spool.append(bytes).map(drop),
            Piece::File { file, offset, length } => {
                let (mut at, end) = (*offset, offset + length);
                let mut buffer = vec![0; COPIED];
                while at < end {
                    let most = usize::try_from(end - at).unwrap_or(COPIED).min(COPIED);
                    let count = file.read_at(&mut buffer[..most], at)?;
                    if count == 0 {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                    self.spool.append(&buffer[..count])?;
                    at += count as u64;
                }
                Ok(())
            }
        }
    }

    /// Gives the file its name, and makes the directories on the way. It may block.
    fn finish(self) -> io::Result<()> {
        let (directory, name) =
            self.path.parent().zip(self.path.file_name()).ok_or(ErrorKind::InvalidInput)?;
        DirBuilder::new().recursive(true).mode(placing::directory_mode(self.access)).create(directory)?;
        let directory = walk::open_directory(directory.as_os_str().as_bytes(), Way::Follow)?;
        let modified = self.modified.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let marks = Marks { mode: Some(self.access), modified };
        placing::place(&Content::Moved(self.spool.file()), (&directory, name.as_bytes()), &marks)
    }
}

/// The path of the file; none if the response has no place, which is logged.
fn path(to: &StorePath, exchange: &Exchange) -> Option<PathBuf> {
    let mapped = match to {
        StorePath::Off => return None,
        StorePath::Root => exchange.scope.policy.root.map(exchange, &exchange.request.path),
        StorePath::File(file) if file.path.evaluate(exchange).is_empty() => return None,
        StorePath::File(file) => file.map(exchange, b""),
    };
    match mapped {
        Ok(path) => Some(as_path(&path).to_path_buf()),
        Err(error) => {
            let why = match error {
                MapError::AliasAfterRewrite => "\"alias\" has no path for a URI that was rewritten",
                MapError::Unsafe => "its path contains \"..\" or NUL",
            };
            exchange.log(Level::Error, &format!("a response cannot be stored: {why}"));
            None
        }
    }
}

fn complain(exchange: &Exchange, error: &io::Error) {
    exchange.log(Level::Crit, &format!("a response cannot be stored ({error})"));
}

/// The content of a response that is stored while it is sent.
struct Storing {
    source: Box<dyn Source>,
    /// None once the file is whole, or cannot be written.
    filing: Option<Filing>,
    /// Whether the file has its name.
    stored: Option<io::Result<()>>,
}

impl Storing {
    fn write(&mut self, exchange: &Exchange, piece: &Piece) {
        let Some(filing) = &mut self.filing else { return };
        if let Err(error) = filing.append(piece) {
            complain(exchange, &error);
            self.filing = None;
        }
    }
}

impl Source for Storing {
    fn pull(&mut self, turn: &mut Turn<'_, '_>) -> Pull {
        if let Some(stored) = &self.stored {
            if let Err(error) = stored {
                complain(turn.exchange, error);
            }
            return Pull::End;
        }
        match self.source.pull(turn) {
            Pull::Piece(piece) => {
                self.write(turn.exchange, &piece);
                Pull::Piece(piece)
            }
            Pull::End => match self.filing.take().filter(|_| !Attempts::may_be_cut(turn.exchange)) {
                Some(filing) => Pull::Await(Work::Job(Box::new(move || Box::new(filing.finish())))),
                None => Pull::End,
            },
            Pull::Failed => {
                self.filing = None;
                Pull::Failed
            }
            Pull::Pending { lasts } => Pull::Pending { lasts: lasts || self.filing.is_some() },
            Pull::Await(work) => Pull::Await(work),
        }
    }

    fn resume(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Job(job) if self.filing.is_none() && self.stored.is_none() => {
                match job.downcast::<io::Result<()>>() {
                    Ok(stored) => self.stored = Some(*stored),
                    Err(other) => self.source.resume(Outcome::Job(other)),
                }
            }
            other => self.source.resume(other),
        }
    }

    fn finish(self: Box<Self>, exchange: &Exchange) {
        self.source.finish(exchange);
    }

    fn read_ahead(&mut self, turn: &mut Turn<'_, '_>) {
        self.source.read_ahead(turn);
    }
}
