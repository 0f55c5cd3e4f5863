//! What is wrong with a message, and why a name has no addresses.

use std::fmt;

/// Why a message is not used. It is as if it had not come: anyone can send one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It ends too early.
    #[error("short DNS response")]
    Short,
    /// It is no response, or no response to a standard query.
    #[error("invalid DNS response {id} fl:{flags:04X}")]
    Flags {
        /// The id.
        id: u16,
        /// The flags and the code.
        flags: u16,
    },
    /// The server did not understand the question, or has a code that is not used.
    #[error("DNS error ({}), query id:{id}", Shown(*code))]
    Error {
        /// The code.
        code: u8,
        /// The id.
        id: u16,
    },
    /// It has no question, or several.
    #[error("invalid number of questions in DNS response")]
    Questions,
    /// Its question is another one.
    #[error("unexpected DNS response for {0}")]
    Unexpected(String),
    /// Its id is another one.
    #[error("wrong ident {id} in DNS response for {name}")]
    Id {
        /// The id.
        id: u16,
        /// The name of the question.
        name: String,
    },
    /// It contains an invalid name, or a reference that does not lead backwards.
    #[error("invalid name in DNS response")]
    Name,
    /// A record has not the length that its type has.
    #[error("invalid {0} record in DNS response")]
    Record(&'static str),
    /// No record answers the question.
    #[error("no {0} or CNAME types in DNS response")]
    NoRecord(&'static str),
}

/// Why a name has no addresses (RFC 1035, section 4.1.1, and the number of the system for what took too long).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The server failed.
    ServerFailure,
    /// The name does not exist, or has nothing of what was asked for.
    NotFound,
    /// The server does not know such questions.
    NotImplemented,
    /// The server does not answer this client.
    Refused,
    /// No server answered in time.
    TimedOut,
}

impl Code {
    pub(crate) fn of_number(number: u8) -> Option<Code> {
        match number {
            2 => Some(Code::ServerFailure),
            3 => Some(Code::NotFound),
            4 => Some(Code::NotImplemented),
            5 => Some(Code::Refused),
            _ => None,
        }
    }

    fn number(self) -> u8 {
        match self {
            Code::ServerFailure => 2,
            Code::NotFound => 3,
            Code::NotImplemented => 4,
            Code::Refused => 5,
            Code::TimedOut => 110,
        }
    }
}

impl fmt::Display for Code {
    /// The number and the text, as nginx logs them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Shown(self.number()))
    }
}

struct Shown(u8);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            1 => "Format error",
            2 => "Server failure",
            3 => "Host not found",
            4 => "Unimplemented",
            5 => "Operation refused",
            110 => "Operation timed out",
            _ => "Unknown error",
        };
        write!(f, "{}: {text}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, Unusable};

    #[test]
    fn messages_are_those_that_tools_know() {
        assert_eq!(Code::NotFound.to_string(), "3: Host not found");
        assert_eq!(Code::TimedOut.to_string(), "110: Operation timed out");
        assert_eq!(Unusable::Error { code: 1, id: 7 }.to_string(), "DNS error (1: Format error), query id:7");
        assert_eq!(Unusable::Flags { id: 7, flags: 0x180 }.to_string(), "invalid DNS response 7 fl:0180");
        for number in 0..=255 {
            assert!(Code::of_number(number).is_none_or(|code| code.number() == number));
        }
    }
}
