//! Lists of media types, for `gzip_types` and similar directives.

use conf::Diagnostic;
use contract::{Args, Directive, Loading, View};

/// The type that is in every list.
const HTML: &[u8] = b"text/html";

/// One use of such a directive: types in lower case, `*` for all.
pub(crate) type Words = Vec<Box<[u8]>>;

/// Reads one use.
pub(crate) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Words, Diagnostic> {
    let mut types: Words = Vec::new();
    for word in args.words() {
        let media_type = word.text.to_ascii_lowercase();
        if media_type == HTML || types.iter().any(|known| **known == *media_type) {
            let message = format!("duplicate MIME type \"{}\"", String::from_utf8_lossy(&media_type));
            loading.note(Diagnostic::warn(message).at(args.node.span).under(word.span));
        } else {
            types.push(media_type.into());
        }
    }
    Ok(types)
}

/// The types that a scope means.
#[derive(Clone, Debug)]
pub(crate) struct MediaTypes {
    /// None is all.
    types: Option<Words>,
    /// Whether `text/html` is one of them in any case.
    has_html: bool,
}

impl MediaTypes {
    /// What the view's level says, or these types besides `text/html` where nothing does.
    pub(crate) fn of(view: &View<'_>, directive: &Directive<Words>, default: &[&str]) -> MediaTypes {
        let written = view.all(directive);
        let types: Words = match written.is_empty() {
            true => default.iter().map(|name| name.as_bytes().into()).collect(),
            false => written.into_iter().flat_map(|written| written.value).cloned().collect(),
        };
        let any = types.iter().any(|media_type| **media_type == *b"*");
        MediaTypes { types: (!any).then_some(types), has_html: true }
    }

    /// These types, or all.
    pub(crate) fn exactly(types: Option<Words>) -> MediaTypes {
        MediaTypes { types, has_html: false }
    }

    /// Whether a media type is one of them. Its parameters, such as `charset`, do not count.
    pub(crate) fn hold(&self, media_type: Option<&[u8]>) -> bool {
        let Some(types) = &self.types else { return true };
        let Some(name) = media_type.and_then(|media_type| media_type.split(|&byte| byte == b';').next())
        else {
            return false;
        };
        let name = name.trim_ascii_end();
        let html = self.has_html.then_some(HTML);
        let mut types = html.into_iter().chain(types.iter().map(AsRef::as_ref));
        types.any(|known| known.eq_ignore_ascii_case(name))
    }
}
