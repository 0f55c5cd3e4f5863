//! What is sent for a file or a directory: `Options`, `ForceType`.

use crate::shared::apache::methods::Unforced;
use crate::shared::apache::{in_all_files, in_file, last, without_effect, wrong};
use crate::shared::per_directory::options::Options;
use crate::shared::per_directory::slot;
use bytes::Bytes;
use conf::{Arity, Diagnostic};
use contract::{Args, Directive, Loading, ScopeBuilder, View};

/// `Options [+|-]OPTION …`
pub(crate) static OPTIONS: Directive<Options> = in_all_files(Directive::new("Options", parse_options))
    .args(Arity::AtLeast(1))
    .slot(slot::OPTIONS)
    .help("Whether directories are listed (Indexes), links are followed, forms of documents are found (MultiViews), commands in pages are done (Includes).");

/// `ForceType TYPE | None`
pub(crate) static FORCE_TYPE: Directive<Box<[u8]>> =
    in_file(Directive::new("ForceType", |args, _| Ok(args.word(0)?.text.to_ascii_lowercase().into())))
        .args(Arity::Exactly(1))
        .help("The media type of all files.");

/// `DefaultType none`
pub(crate) static DEFAULT_TYPE: Directive<()> =
    without_effect("DefaultType", Arity::Exactly(1), "Has no effect, as in Apache 2.4.");

/// `ServerSignature On | Off | EMail`
pub(crate) static SERVER_SIGNATURE: Directive<()> = without_effect(
    "ServerSignature",
    Arity::Exactly(1),
    "Has no effect: `server_tokens` sets what pages show of the server.",
);

fn parse_options(args: &Args<'_>, _: &mut Loading) -> Result<Options, Diagnostic> {
    let mut options = Options::default();
    let is_signed = |word: &conf::Word| matches!(word.text.first(), Some(b'+' | b'-'));
    let first_signed = args.words().iter().position(is_signed).unwrap_or(args.words().len());
    if !args.words().iter().skip(first_signed).all(is_signed) {
        return Err(args.error("has an option without a sign after one with + or -"));
    }
    options.absolute = first_signed > 0;
    for word in args.words() {
        let (on, name) = match word.text.split_first() {
            Some((b'+', name)) => (true, name),
            Some((b'-', name)) => (false, name),
            _ => (true, &*word.text),
        };
        match name.to_ascii_lowercase().as_slice() {
            b"indexes" => options.indexes = Some(on),
            b"followsymlinks" => options.follow = Some(on),
            b"symlinksifownermatch" => options.follow_own = Some(on),
            b"multiviews" => options.multi_views = Some(on),
            b"includes" | b"includesnoexec" => options.includes = Some(on),
            b"all" => {
                (options.indexes, options.follow, options.includes) = (Some(on), Some(on), Some(on));
            }
            b"none" | b"execcgi" => {}
            _ => return Err(wrong(args, "an unknown option", word)),
        }
    }
    Ok(options)
}

pub(super) fn compile(view: &View<'_>, builder: &mut ScopeBuilder) {
    let policy = &mut builder.policy;
    if let Some(forced) = last(view, &FORCE_TYPE).filter(|forced| !forced.eq_ignore_ascii_case(b"none")) {
        let types = std::mem::take(&mut policy.types);
        policy.default_type = Bytes::from(forced.into_vec());
        builder.keep(Unforced(types));
    }
}
