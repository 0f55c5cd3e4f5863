//! What came of the requests: counts and times of a thread, a process, or all of them.

use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::series::Series;

/// Why requests were not answered rightly. Each is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failures {
    /// No connection, or no TLS on it.
    pub(super) connect: u64,
    /// The connection ended before the answer did.
    pub(super) reset: u64,
    /// Of those: before its first byte, on a connection that had been used before.
    pub(super) reset_while_kept: u64,
    /// No answer within the time limit.
    pub(super) timeout: u64,
    /// What came was no HTTP.
    pub(super) malformed: u64,
    /// An answer outside of 2xx that is no change of protocol.
    pub(super) status: u64,
    /// An answer of another length than expected.
    pub(super) length: u64,
}

/// How a request failed without a complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Connect,
    Reset,
    Timeout,
    Malformed,
}

/// The status of a connection that speaks another protocol from then on.
pub(super) const SWITCHED: u16 = 101;

/// Counts and times.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    /// Complete answers, right or wrong.
    pub(super) answers: u64,
    /// What was wrong.
    pub(super) failures: Failures,
    /// Sent, and neither answered nor failed when the time was over.
    pub(super) unfinished: u64,
    /// Asked for, or due at a constant rate, and not sent when it ended.
    pub(super) unsent: u64,
    /// Connections that were opened.
    pub(super) connections: u64,
    /// Of their TLS handshakes, those that resumed a session.
    pub(super) resumed: u64,
    /// Bytes of heads and of chunk framing.
    pub(super) head_bytes: u64,
    /// Bytes of content.
    pub(super) content_bytes: u64,
    /// Bytes of right answers, heads included.
    pub(super) right_bytes: u64,
    /// Bytes of their content.
    pub(super) right_content_bytes: u64,
    /// Bytes of answers that were not complete.
    pub(super) partial_bytes: u64,
    /// Why the first connection failed that did.
    pub(super) no_connection: Option<String>,
    /// Bytes of requests.
    pub(super) request_bytes: u64,
    /// The content length of the first answer.
    pub(super) length: Option<u64>,
    /// Answers by status code.
    pub(super) statuses: Vec<(u16, u64)>,
    /// Connections that the server closed while they were held idle.
    pub(super) dropped: u64,
    /// From the beginning to the end, in seconds.
    pub(super) seconds: f64,
    /// What all threads spent on polls that found nothing, in seconds. It is CPU time without work.
    pub(super) polled_s: f64,
    /// It stopped because nothing answered any more.
    pub(super) gave_up: bool,
    /// From when the request was due to its answer's last byte.
    pub(super) latency: Series,
    /// From when it was due until it was taken up.
    pub(super) late: Series,
    /// Opening a connection, TLS included.
    pub(super) connect: Series,
    /// Writing the request.
    pub(super) write: Series,
    /// From then to the first byte of the answer.
    pub(super) waiting: Series,
    /// From then to its last byte.
    pub(super) reading: Series,
    /// From the open connection to the last byte.
    pub(super) processing: Series,
}

impl Failures {
    /// All of them.
    pub(super) fn total(&self) -> u64 {
        self.connect + self.reset + self.timeout + self.malformed + self.status + self.length
    }
}

impl Tally {
    /// Complete answers of a right status and length.
    pub(super) fn right_answers(&self) -> u64 {
        self.answers.saturating_sub(self.failures.status + self.failures.length)
    }

    /// A complete answer, which should have had so many bytes of content: whether it is right.
    pub(super) fn answer(&mut self, answer: Answer, expected: u64) -> bool {
        self.answers += 1;
        self.head_bytes += answer.head;
        self.content_bytes += answer.content;
        self.count_status(answer.status, 1);
        // A server sends 101 only to a client that asks for another protocol.
        let is_switched = answer.status == SWITCHED;
        if !is_switched && !(200..300).contains(&answer.status) {
            self.failures.status += 1;
            return false;
        }
        if !is_switched && answer.content != expected {
            self.failures.length += 1;
            return false;
        }
        self.right_bytes += answer.head + answer.content;
        self.right_content_bytes += answer.content;
        true
    }

    /// Requests that will not be answered.
    pub(super) fn fail(&mut self, failure: Failure, count: u64) {
        let failures = &mut self.failures;
        let counter = match failure {
            Failure::Connect => &mut failures.connect,
            Failure::Reset => &mut failures.reset,
            Failure::Timeout => &mut failures.timeout,
            Failure::Malformed => &mut failures.malformed,
        };
        *counter += count;
    }

    /// Adds what another thread or process counted next to this one.
    pub(super) fn merge(&mut self, other: &Tally) {
        self.merge_failures(other);
        self.answers += other.answers;
        self.unfinished += other.unfinished;
        self.unsent += other.unsent;
        self.connections += other.connections;
        self.resumed += other.resumed;
        self.head_bytes += other.head_bytes;
        self.content_bytes += other.content_bytes;
        self.right_bytes += other.right_bytes;
        self.right_content_bytes += other.right_content_bytes;
        self.partial_bytes += other.partial_bytes;
        self.no_connection = self.no_connection.take().or_else(|| other.no_connection.clone());
        self.request_bytes += other.request_bytes;
        self.length = self.length.or(other.length);
        self.dropped += other.dropped;
        self.seconds = self.seconds.max(other.seconds);
        self.polled_s += other.polled_s;
        self.gave_up |= other.gave_up;
        for (status, count) in &other.statuses {
            self.count_status(*status, *count);
        }
        self.latency.merge(&other.latency);
        self.late.merge(&other.late);
        self.connect.merge(&other.connect);
        self.write.merge(&other.write);
        self.waiting.merge(&other.waiting);
        self.reading.merge(&other.reading);
        self.processing.merge(&other.processing);
    }

    fn merge_failures(&mut self, other: &Tally) {
        let (mine, theirs) = (&mut self.failures, &other.failures);
        mine.connect += theirs.connect;
        mine.reset += theirs.reset;
        mine.reset_while_kept += theirs.reset_while_kept;
        mine.timeout += theirs.timeout;
        mine.malformed += theirs.malformed;
        mine.status += theirs.status;
        mine.length += theirs.length;
        // Each process expects the length that it saw first: where two differ, one saw wrong ones only.
        if self.length.is_some() && other.length.is_some() && self.length != other.length {
            mine.length += other.answers.saturating_sub(theirs.status + theirs.length);
        }
    }

    fn count_status(&mut self, status: u16, count: u64) {
        match self.statuses.iter_mut().find(|(known, _)| *known == status) {
            Some((_, counted)) => *counted += count,
            None => self.statuses.push((status, count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, content: u64) -> Answer {
        Answer { status, head: 100, content, keep_alive: true }
    }

    #[test]
    fn an_answer_fails_once() {
        let mut tally = Tally::default();
        for (status, content) in [(200, 7), (206, 7), (200, 6), (404, 7), (301, 0), (101, 0)] {
            tally.answer(answer(status, content), 7);
        }
        assert_eq!(tally.failures, Failures { status: 2, length: 1, ..Failures::default() });
        assert_eq!((tally.answers, tally.failures.total()), (6, 3));
        assert_eq!((tally.head_bytes, tally.content_bytes), (600, 27));
        assert_eq!((tally.right_answers(), tally.right_bytes, tally.right_content_bytes), (3, 314, 14));
        assert_eq!(tally.statuses, [(200, 2), (206, 1), (404, 1), (301, 1), (101, 1)]);
    }

    #[test]
    fn processes_that_saw_different_lengths_differ() {
        let mut one = Tally { length: Some(7), ..Tally::default() };
        let mut other = Tally { length: Some(9), ..Tally::default() };
        one.answer(answer(200, 7), 7);
        other.answer(answer(200, 9), 9);
        other.answer(answer(500, 9), 9);
        other.fail(Failure::Timeout, 3);
        one.merge(&other);
        assert_eq!(one.failures, Failures { status: 1, length: 1, timeout: 3, ..Failures::default() });
        assert_eq!(one.statuses, [(200, 2), (500, 1)]);
    }
}
