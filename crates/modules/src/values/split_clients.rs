//! Divides clients into groups, as for A/B tests.
//!
//! The first argument is a text with variables. Fulmar hashes its value (MurmurHash2). Each line of the block takes
//! a part of all hashes, in percent with up to two decimals; `*` takes the rest. If no line takes the hash, the
//! value is empty. The same text always belongs to the same line, and nginx chooses the same one.
//!
//! ```conf
//! split_clients "$arg_user" $variant {
//!     50%   one;
//!     *     two;
//! }
//! server {
//!     listen 8080;
//!     location / {
//!         return 200 $variant;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /?user=ann HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! two
//! ---
//! GET /?user=bob HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! one
//! ```

use crate::shared::names;
use conf::spec::unexpected_block;
use conf::{Arity, Contexts, Diagnostic, Node};
use contract::{Args, Definition, Directive, Evaluate, Exchange, Loading, Module, Rule, Template};
use std::sync::Arc;

/// Variables by chance.
pub static MODULE: Module =
    Module { name: "split_clients", directives: &[&SPLIT_CLIENTS], variables: &[], compile: None };

/// `split_clients TEXT $VARIABLE { … }`
pub static SPLIT_CLIENTS: Directive<()> = Directive::new("split_clients", parse)
    .within(Contexts::HTTP.or(Contexts::STREAM))
    .block(Arity::Exactly(2))
    .rule(Rule::Never)
    .repeats()
    .help("Defines a variable with a different value for each part of the clients.");

/// All hashes, in hundredths of a percent.
const WHOLE: u32 = 10_000;

fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<(), Diagnostic> {
    let source = loading.template(args.word(0)?)?;
    let name = names::variable(args, args.word(1)?, loading)?;
    let mut parts = Vec::new();
    let (mut percent, mut end) = (0, 0);
    for entry in args.node.children() {
        let (share, value) = part(entry)?;
        percent = share.map_or(WHOLE, |share| percent + share);
        if percent > WHOLE {
            return Err(Diagnostic::emerg("percent total is greater than 100%").at(entry.span));
        }
        // What is left at the end belongs to the last part, whatever was lost by rounding.
        let is_rest = percent == WHOLE;
        end += share.map_or(0, |share| u64::from(share) * u64::from(u32::MAX) / u64::from(WHOLE));
        parts.push((if is_rest { u64::MAX } else { end }, value));
    }
    loading.variables.define(&name, Definition::Evaluated(Arc::new(Split { source, parts })));
    Ok(())
}

/// A line of the block: its share in hundredths of a percent, none for the rest, and the value.
fn part(entry: &Node) -> Result<(Option<u32>, Box<[u8]>), Diagnostic> {
    let error = |message: String| Diagnostic::emerg(message).at(entry.span).under(entry.name.span);
    if entry.block.is_some() {
        return Err(unexpected_block(entry));
    }
    let [value] = &*entry.args else {
        return Err(error("invalid number of the split_clients parameters".into()));
    };
    if entry.name.is("*") {
        return Ok((None, value.text.clone()));
    }
    let share = entry.name.text.strip_suffix(b"%").and_then(hundredths).filter(|&share| share > 0);
    let share = share.ok_or_else(|| error(format!("invalid percent value \"{}\"", entry.name)))?;
    Ok((Some(share), value.text.clone()))
}

/// A number with up to two decimals, times a hundred; what is absurdly large is just that.
fn hundredths(text: &[u8]) -> Option<u32> {
    let (whole, decimals) = match text.iter().position(|&byte| byte == b'.') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b""[..]),
    };
    let is_number = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    if text.is_empty() || !is_number(whole) || !is_number(decimals) || decimals.len() > 2 || whole.len() > 6 {
        return None;
    }
    let digits = whole.iter().chain(decimals).chain(std::iter::repeat_n(&b'0', 2 - decimals.len()));
    Some(digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
}

struct Split {
    source: Template,
    /// The hashes below which a value is chosen, ascending.
    parts: Vec<(u64, Box<[u8]>)>,
}

impl Evaluate for Split {
    fn evaluate(&self, exchange: &Exchange, out: &mut Vec<u8>) -> bool {
        let hash = u64::from(murmur2(&self.source.evaluate(exchange)));
        let chosen = self.parts.iter().find(|(end, _)| hash < *end);
        if let Some((_, value)) = chosen {
            out.extend_from_slice(value);
        }
        true
    }
}

/// MurmurHash2 by Austin Appleby, with the seed 0.
fn murmur2(text: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mix = |word: u32| {
        let word = word.wrapping_mul(M);
        (word ^ (word >> 24)).wrapping_mul(M)
    };
    // The length counts modulo 2³²; no request is as long.
    let (words, rest) = text.as_chunks::<4>();
    let seed = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let mut hash =
        words.iter().fold(seed, |hash, word| hash.wrapping_mul(M) ^ mix(u32::from_le_bytes(*word)));
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |tail, byte| (tail << 8) | u32::from(*byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::{hundredths, murmur2};
    use crate::testing::Site;

    #[test]
    fn known_hashes() {
        for (text, hash) in [("", 0), ("a", 0x9268_5f5e), ("test", 0x1812_752e), ("abcdefg", 0xf9a1_cef3)] {
            assert_eq!(murmur2(text.as_bytes()), hash, "{text}: {:x}", murmur2(text.as_bytes()));
        }
    }

    #[test]
    fn shares_are_as_large_as_written() {
        let site = Site::location("split_clients $args $x { 0.5% a; 49.5% b; 10% c; }");
        let mut counts = [0; 4];
        for number in 0..10_000 {
            match site.variable("x", &site.get(&format!("/?{number}"))).as_str() {
                "a" => counts[0] += 1,
                "b" => counts[1] += 1,
                "c" => counts[2] += 1,
                _ => counts[3] += 1,
            }
        }
        let expected = [50, 4950, 1000, 4000];
        let is_near = |(count, expected): (&i32, &i32)| (count - expected).abs() < 25 + expected / 10;
        assert!(counts.iter().zip(&expected).all(is_near), "{counts:?}");
    }

    #[test]
    fn messages() {
        let error = |parts: &str| Site::error(&format!("split_clients $uri $x {{ {parts} }}"));
        for wrong in ["5", "0%", "1.234%", "-1%", "%", "x%"] {
            assert_eq!(error(&format!("{wrong} a;")), format!("invalid percent value \"{wrong}\""));
        }
        assert_eq!(error("60% a; 40.01% b;"), "percent total is greater than 100%");
        assert_eq!(error("* a; 1% b;"), "percent total is greater than 100%");
        assert_eq!(hundredths(b"12.3"), Some(1230));
    }
}
