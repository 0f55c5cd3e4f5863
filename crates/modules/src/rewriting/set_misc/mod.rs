//! Gives variables values that are computed from texts: `set_escape_uri` and other directives of the set-misc module.
//!
//! They run in the order of the configuration, together with `set`, `rewrite` and `if`. The first argument is the
//! variable that gets the value. The second is the text that the value is computed from. Most directives may leave the
//! second out: then the value is computed from the variable itself. If a value cannot be computed, for example because
//! a text is not hexadecimal, the message goes into the error log, and the response is 500.
//!
//! differs: in nginx this is a third-party module.
//!
//! ```conf
//! server {
//!     listen 8080;
//!     location /signin {
//!         set_escape_uri $target $scheme://$http_host$arg_from;
//!         return 302 https://auth.example.com/?rd=$target;
//!     }
//!     location /name {
//!         set_unescape_uri $name $arg_name;
//!         set_if_empty $name nobody;
//!         set_quote_json_str $json $name;
//!         return 200 "{\"name\": $json}\n";
//!     }
//!     location /digest {
//!         set_hmac_sha1 $digest key $arg_text;
//!         set_encode_base64 $digest;
//!         return 200 "$digest\n";
//!     }
//! }
//! ```
//!
//! ```http
//! GET /signin?from=/a?b&c HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 302 Moved Temporarily
//! Location: https://auth.example.com/?rd=http%3A%2F%2Flocalhost%2Fa%3Fb
//! ---
//! GET /name?name=J%22+K HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! {"name": "J\" K"}
//! ---
//! GET /name HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! {"name": "nobody"}
//! ---
//! GET /digest?text=message HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! IIjfdNXyFGtIFGyvSWU3fp0L46Q=
//! ```

mod functions;

use super::rewrite::{BLOCKS_AND_IF, Computation, Compute, Instruction, Target, Text};
use crate::shared::names;
use conf::{Arity, Diagnostic};
use contract::{Args, Directive, Loading, Module, Rule};
use functions as compute;

/// Values computed from texts.
pub static MODULE: Module = Module {
    name: "set_misc",
    directives: &[
        &SET_IF_EMPTY,
        &SET_ESCAPE_URI,
        &SET_UNESCAPE_URI,
        &SET_QUOTE_JSON_STR,
        &SET_ENCODE_BASE64,
        &SET_DECODE_BASE64,
        &SET_ENCODE_BASE64URL,
        &SET_DECODE_BASE64URL,
        &SET_ENCODE_HEX,
        &SET_DECODE_HEX,
        &SET_MD5,
        &SET_SHA1,
        &SET_HMAC_SHA1,
        &SET_HMAC_SHA256,
        &SET_RANDOM,
        &SET_SECURE_RANDOM_ALPHANUM,
        &SET_SECURE_RANDOM_LCALPHA,
    ],
    variables: &[],
    compile: None,
};

type Parse = fn(&Args<'_>, &mut Loading) -> Result<Instruction, Diagnostic>;

/// `set_if_empty $VARIABLE TEXT`
pub static SET_IF_EMPTY: Directive<Instruction> = directive("set_if_empty", |args, loading| {
    let own = own_value(args, loading)?;
    parse(args, loading, vec![own], compute::first_that_is_not_empty)
})
.args(Arity::Exactly(2))
.help("Gives a variable a value if it is empty.");

/// `set_escape_uri $VARIABLE [TEXT]`
pub static SET_ESCAPE_URI: Directive<Instruction> =
    directive("set_escape_uri", |args, loading| of_one(args, loading, compute::escape_uri))
        .help("Encodes a text for use inside of a URI: `/` becomes `%2F`.");

/// `set_unescape_uri $VARIABLE [TEXT]`
pub static SET_UNESCAPE_URI: Directive<Instruction> =
    directive("set_unescape_uri", |args, loading| of_one(args, loading, compute::unescape_uri))
        .help("Decodes a text out of a URI: `%2F` becomes `/`, and `+` a space.");

/// `set_quote_json_str $VARIABLE [TEXT]`
pub static SET_QUOTE_JSON_STR: Directive<Instruction> =
    directive("set_quote_json_str", |args, loading| of_one(args, loading, compute::quote_json))
        .help("Makes a JSON string of a text; `null` of an empty one.");

/// `set_encode_base64 $VARIABLE [TEXT]`
pub static SET_ENCODE_BASE64: Directive<Instruction> =
    directive("set_encode_base64", |args, loading| of_one(args, loading, compute::encode_base64))
        .help("Encodes a text in Base64.");

/// `set_decode_base64 $VARIABLE [TEXT]`
pub static SET_DECODE_BASE64: Directive<Instruction> =
    directive("set_decode_base64", |args, loading| of_one(args, loading, compute::decode_base64))
        .help("Decodes Base64.");

/// `set_encode_base64url $VARIABLE [TEXT]`
pub static SET_ENCODE_BASE64URL: Directive<Instruction> =
    directive("set_encode_base64url", |args, loading| of_one(args, loading, compute::encode_base64url))
        .help("Encodes a text in Base64 with the alphabet for URLs, without padding.");

/// `set_decode_base64url $VARIABLE [TEXT]`
pub static SET_DECODE_BASE64URL: Directive<Instruction> =
    directive("set_decode_base64url", |args, loading| of_one(args, loading, compute::decode_base64url))
        .help("Decodes Base64 with the alphabet for URLs.");

/// `set_encode_hex $VARIABLE [TEXT]`
pub static SET_ENCODE_HEX: Directive<Instruction> =
    directive("set_encode_hex", |args, loading| of_one(args, loading, compute::encode_hex))
        .help("Encodes a text as hexadecimal digits.");

/// `set_decode_hex $VARIABLE [TEXT]`
pub static SET_DECODE_HEX: Directive<Instruction> =
    directive("set_decode_hex", |args, loading| of_one(args, loading, compute::decode_hex))
        .help("Decodes hexadecimal digits.");

/// `set_md5 $VARIABLE [TEXT]`
pub static SET_MD5: Directive<Instruction> =
    directive("set_md5", |args, loading| of_one(args, loading, compute::md5))
        .help("The MD5 hash of a text as hexadecimal digits; no protection against forgery.");

/// `set_sha1 $VARIABLE [TEXT]`
pub static SET_SHA1: Directive<Instruction> =
    directive("set_sha1", |args, loading| of_one(args, loading, compute::sha1))
        .help("The SHA-1 hash of a text as hexadecimal digits; no protection against forgery.");

/// `set_hmac_sha1 $VARIABLE KEY TEXT`
pub static SET_HMAC_SHA1: Directive<Instruction> = directive("set_hmac_sha1", |args, loading| {
    parse(args, loading, Vec::new(), compute::hmac_sha1)
})
.args(Arity::Exactly(3))
.help(
    "The HMAC-SHA1 of a text with a key, 20 bytes; `set_encode_base64` or `set_encode_hex` make text of it.",
);

/// `set_hmac_sha256 $VARIABLE KEY TEXT`
pub static SET_HMAC_SHA256: Directive<Instruction> =
    directive("set_hmac_sha256", |args, loading| parse(args, loading, Vec::new(), compute::hmac_sha256))
        .args(Arity::Exactly(3))
        .help("As `set_hmac_sha1`, with SHA-256: 32 bytes.");

/// `set_random $VARIABLE FROM TO`
pub static SET_RANDOM: Directive<Instruction> =
    directive("set_random", |args, loading| parse(args, loading, Vec::new(), compute::random))
        .args(Arity::Exactly(3))
        .help("A random number between two others, both included.");

/// `set_secure_random_alphanum $VARIABLE LENGTH`
pub static SET_SECURE_RANDOM_ALPHANUM: Directive<Instruction> =
    directive("set_secure_random_alphanum", |args, loading| of_one(args, loading, compute::random_alphanum))
        .args(Arity::Exactly(2))
        .help("Random letters and digits, 1 to 64.");

/// `set_secure_random_lcalpha $VARIABLE LENGTH`
pub static SET_SECURE_RANDOM_LCALPHA: Directive<Instruction> =
    directive("set_secure_random_lcalpha", |args, loading| of_one(args, loading, compute::random_lcalpha))
        .args(Arity::Exactly(2))
        .help("Random small letters, 1 to 64.");

const fn directive(name: &'static str, parse: Parse) -> Directive<Instruction> {
    Directive::new(name, parse)
        .within(BLOCKS_AND_IF)
        .args(Arity::Range(1, 2))
        .slot("rewrite")
        .rule(Rule::Never)
        .repeats()
}

/// A directive whose text may be left out.
fn of_one(args: &Args<'_>, loading: &mut Loading, compute: Compute) -> Result<Instruction, Diagnostic> {
    let own = if args.words().len() == 1 { vec![own_value(args, loading)?] } else { Vec::new() };
    parse(args, loading, own, compute)
}

/// The value that the variable has before the directive.
fn own_value(args: &Args<'_>, loading: &mut Loading) -> Result<Text, Diagnostic> {
    let variable = args.word(0)?;
    target(args, loading)?;
    Text::parse(&variable.text, variable.span, loading)
}

fn target(args: &Args<'_>, loading: &mut Loading) -> Result<Target, Diagnostic> {
    let name = names::variable(args, args.word(0)?, loading)?;
    Ok(Target::of_set(&name, loading))
}

/// A directive whose texts are `texts` and the arguments behind the variable.
fn parse(
    args: &Args<'_>,
    loading: &mut Loading,
    mut texts: Vec<Text>,
    compute: Compute,
) -> Result<Instruction, Diagnostic> {
    let target = target(args, loading)?;
    for word in &args.words()[1..] {
        texts.push(Text::parse(&word.text, word.span, loading)?);
    }
    Ok(Instruction::Compute(Computation {
        name: args.node.name.to_string(),
        target,
        texts: texts.into(),
        compute,
    }))
}
