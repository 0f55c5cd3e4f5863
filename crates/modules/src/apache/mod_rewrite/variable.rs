//! The variables of rewriting: `%{NAME}`.

use super::context::Context;
use crate::shared::apache::{environment, variables};
use contract::{Exchange, Spent};

/// A variable.
#[derive(Clone, Debug)]
pub(super) enum Variable {
    Field(Box<str>),
    Environment(Box<[u8]>),
    Filename,
    PathInfo,
    Get(fn(&Exchange) -> Vec<u8>),
    /// A moment, in a `strftime` format.
    Time(&'static str),
    /// Apache has none of this name.
    Empty,
}

impl Variable {
    /// The variable of this name.
    pub(super) fn parse(name: &[u8]) -> Variable {
        let name = String::from_utf8_lossy(name);
        // A look ahead asks what another phase would find, which is known already.
        let name = name.strip_prefix("LA-U:").or_else(|| name.strip_prefix("LA-F:")).unwrap_or(&name);
        if let Some(field) = name.strip_prefix("HTTP:") {
            return Variable::Field(field.into());
        }
        if let Some(name) = name.strip_prefix("ENV:") {
            return Variable::Environment(name.as_bytes().into());
        }
        let name = name.to_ascii_uppercase();
        match name.as_str() {
            "REQUEST_FILENAME" | "SCRIPT_FILENAME" => Variable::Filename,
            "PATH_INFO" => Variable::PathInfo,
            name => variables::field(name)
                .map(|field| Variable::Field(field.into()))
                .or_else(|| variables::time_format(name).map(Variable::Time))
                .or_else(|| variables::getter(name).map(Variable::Get))
                .unwrap_or(Variable::Empty),
        }
    }

    /// The value of `REQUEST_FILENAME`.
    pub(super) fn filename<'c>(context: &Context<'c>) -> Result<&'c [u8], Spent> {
        Ok(match context.path_info {
            Some(_) => context.filename,
            None => &context.filename[..file_end(context)?],
        })
    }

    pub(super) fn value(&self, context: &Context<'_>) -> Result<Vec<u8>, Spent> {
        let exchange = context.exchange;
        Ok(match self {
            Variable::Field(name) => variables::request_field(exchange, name).unwrap_or_default(),
            Variable::Environment(name) => environment::get(exchange, name).unwrap_or_default().into(),
            Variable::Filename => Variable::filename(context)?.to_vec(),
            Variable::PathInfo => match context.path_info {
                Some(info) => info.to_vec(),
                None => context.filename[file_end(context)?..].to_vec(),
            },
            Variable::Get(get) => get(exchange),
            Variable::Time(format) => variables::now(format),
            Variable::Empty => Vec::new(),
        })
    }
}

fn file_end(context: &Context<'_>) -> Result<usize, Spent> {
    // Each directory costs a call of the file system, and the client chooses how many there are.
    variables::file_end(context.exchange, context.filename, context.budget)
}
