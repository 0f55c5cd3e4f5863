//! One request to an application: it is sent, and its answer is read as far as the start of the content.

use super::content::Records;
use super::response::announced;
use bytes::{Buf, Bytes};
use contract::RequestLog;
use contract::log::Level;
use fcgi::{Decoder, Event, Head, HeadParser};
use std::sync::Arc;
use upstream::{Coding, Failure, Link, Settings, Upload};

/// The body in records.
const STDIN: Coding = Coding { piece: fcgi::encode_stdin, end: fcgi::encode_stdin_end };

const READING: &str = "while reading response header from upstream";

/// A request that is ready to be sent, as often as it takes.
pub(super) struct Request {
    /// The records of the start and of the parameters.
    pub(super) head: Vec<u8>,
    pub(super) upload: Option<Upload>,
    /// What makes an answer invalid where it is said on standard error.
    pub(super) caught: Arc<[Box<[u8]>]>,
    /// Whether the application was asked to keep the connection.
    pub(super) keep: bool,
    pub(super) log: RequestLog,
}

/// What an application answered.
pub(super) struct Answer {
    pub(super) head: Head,
    /// The length of the content, where the head announces it.
    pub(super) length: Option<u64>,
    pub(super) content: Records,
}

impl Request {
    /// Sends the request and reads the head of the answer.
    pub(super) async fn talk(
        &self,
        link: &mut Link,
        settings: &Settings,
        url: String,
    ) -> Result<Answer, Failure> {
        link.send(&self.head, self.upload.as_ref(), STDIN);
        let mut decoder = Decoder::new();
        let mut parser = HeadParser::new(settings.buffer_size);
        let invalid = |error: fcgi::Error| refused(&error.to_string());
        loop {
            match decoder.decode(&link.input).map_err(invalid)? {
                Event::Stdout { skip, length } => {
                    link.input.advance(skip);
                    let output = link.input.split_to(length).freeze();
                    if let Some((head, consumed)) = parser.parse(&output).map_err(invalid)? {
                        let length = announced(&head.fields).map_err(|message| refused(&message))?;
                        link.head_arrived(head.status);
                        let content = self.content(decoder, output.slice(consumed..), url);
                        return Ok(Answer {
                            head,
                            length,
                            content: content.over(link.took_all() && self.keep),
                        });
                    }
                }
                Event::StdoutEnd { .. } => return Err(refused("upstream prematurely closed FastCGI stdout")),
                Event::End { .. } => return Err(refused("upstream sent unexpected FastCGI record: 3")),
                Event::Stderr { consumed } => {
                    link.input.advance(consumed);
                    let complaint = complaint(&decoder, READING);
                    if self.catches(decoder.message()) {
                        return Err(Failure::invalid(complaint));
                    }
                    self.log.write(Level::Error, &complaint, Some(&url));
                }
                Event::NeedMore { consumed } => {
                    link.input.advance(consumed);
                    link.read_answer(settings).await?;
                }
            }
        }
    }

    fn catches(&self, message: &[u8]) -> bool {
        self.caught.iter().any(|text| message.windows(text.len().max(1)).any(|part| part == &**text))
    }

    fn content(&self, decoder: Decoder, first: Bytes, url: String) -> Records {
        Records::new(decoder, first, self.log.clone(), url)
    }
}

/// The failure of an answer that is none.
fn refused(message: &str) -> Failure {
    Failure::invalid(format!("{message} {READING}"))
}

/// The line about what an application says on its standard error.
pub(super) fn complaint(decoder: &Decoder, when: &str) -> String {
    format!("FastCGI sent in stderr: \"{}\" {when}", String::from_utf8_lossy(decoder.message()))
}
