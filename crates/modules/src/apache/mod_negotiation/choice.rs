//! Which of several forms of a document a client gets, by the algorithm of Apache, or by that of RFC 2296 where the client
//! asks for it.

use super::accept::{Accepted, item, items};
use contract::Exchange;
use http::Fields;

/// A form of a document.
#[derive(Clone, Debug, Default)]
pub(super) struct Variant {
    /// The name of the file.
    pub(super) name: Vec<u8>,
    /// In lower case, without parameters.
    pub(super) media_type: Vec<u8>,
    pub(super) charset: Vec<u8>,
    pub(super) encoding: Option<Vec<u8>>,
    /// In lower case.
    pub(super) languages: Vec<Vec<u8>>,
    pub(super) bytes: u64,
    source_quality: f32,
    level: f32,
}

impl Variant {
    /// A file with a media type and its parameters.
    pub(super) fn new(name: &[u8], media_type: &[u8], bytes: u64) -> Variant {
        let (parsed, _) = item(media_type);
        Variant {
            name: name.into(),
            media_type: parsed.name,
            charset: parsed.charset,
            bytes,
            source_quality: parsed.quality,
            level: parsed.level,
            ..Variant::default()
        }
    }
}

/// What files say about languages.
#[derive(Clone, Debug, Default)]
pub(super) struct Languages {
    /// `LanguagePriority`
    pub(super) priority: Vec<Box<[u8]>>,
    /// `ForceLanguagePriority Prefer`
    pub(super) prefer: bool,
    /// `ForceLanguagePriority Fallback`
    pub(super) fallback: bool,
}

/// What a client accepts; none where it has no such field.
#[derive(Debug, Default)]
pub(super) struct Client {
    types: Vec<Accepted>,
    /// Whether a media type has a quality.
    has_qualities: bool,
    encodings: Option<Vec<Accepted>>,
    languages: Option<Vec<Accepted>>,
    charsets: Option<Vec<Accepted>>,
    /// Whether the document is negotiated transparently (RFC 2295).
    pub(super) is_transparent: bool,
    /// Whether the client takes lists of forms.
    pub(super) takes_lists: bool,
    may_choose: bool,
    is_strict: bool,
    by_rfc: bool,
    /// A language of the environment, `prefer-language`.
    pub(super) preferred: Option<Vec<u8>>,
    /// Which encodings the environment leaves out: `no-gzip`, `gzip-only-text/html`.
    pub(super) encoded: Encoded,
}

/// Whether encoded forms are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Encoded {
    #[default]
    All,
    Html,
    None,
}

/// The media type of programs.
const PROGRAM: &[u8] = b"application/x-httpd-cgi";

impl Client {
    /// What a request accepts; programs come first where it has arguments or a body.
    pub(super) fn new(exchange: &Exchange, is_transparent: bool, prefers_programs: bool) -> Client {
        let fields = &exchange.request.head.fields;
        let list = |name| joined(fields, name).map(|field| items(&field));
        let types = list("accept");
        let has_qualities = types.iter().flatten().any(|item| item.quality < 1.0);
        let mut client = Client {
            types: types.unwrap_or_else(|| items(b"*/*")),
            has_qualities,
            encodings: list("accept-encoding"),
            languages: list("accept-language"),
            charsets: list("accept-charset"),
            is_transparent,
            may_choose: true,
            ..Client::default()
        };
        if is_transparent {
            client.negotiate(fields);
        }
        let quality = match (client.by_rfc, prefers_programs) {
            (true, _) => 0.0,
            (false, true) => 2.0,
            (false, false) => 0.001,
        };
        client.types.push(Accepted { name: PROGRAM.to_vec(), quality, level: 0.0, charset: Vec::new() });
        client
    }

    /// Reads `Negotiate` (RFC 2295, section 8.4).
    fn negotiate(&mut self, fields: &Fields) {
        let Some(field) = joined(fields, "negotiate") else { return };
        let is_lynx = || fields.get("user-agent").is_some_and(|agent| agent.starts_with(b"Lynx"));
        if field == b"trans" && is_lynx() {
            return;
        }
        self.may_choose = false;
        for token in field.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            let is_known = matches!(token, b"trans" | b"vlist" | b"guess-small" | b"*");
            if !is_known && !token.first().is_some_and(u8::is_ascii_digit) {
                continue;
            }
            self.takes_lists = true;
            if token == b"1.0" {
                (self.may_choose, self.by_rfc, self.is_strict) = (true, true, true);
            } else if token == b"*" {
                (self.may_choose, self.is_strict) = (true, true);
            }
        }
    }

    /// The position of the form that the client gets.
    pub(super) fn choose(&self, variants: &[Variant], languages: &Languages) -> Option<usize> {
        if let Some(preferred) = &self.preferred {
            let found = self.choose_among(variants, languages, Some(preferred));
            if found.is_some() {
                return found;
            }
        }
        self.choose_among(variants, languages, None)
    }

    fn choose_among(
        &self,
        variants: &[Variant],
        languages: &Languages,
        preferred: Option<&[u8]>,
    ) -> Option<usize> {
        if !self.may_choose {
            return None;
        }
        let has_languages = variants.iter().any(|variant| !variant.languages.is_empty());
        let default = if has_languages && !self.is_strict { 0.0001 } else { 1.0 };
        let mut best: Option<(usize, &Variant, Judged)> = None;
        for (at, variant) in variants.iter().enumerate() {
            let is_meant = preferred.is_none_or(|preferred| {
                variant.languages.iter().any(|language| language.eq_ignore_ascii_case(preferred))
            });
            if !is_meant || self.leaves_out(variant) {
                continue;
            }
            let judged = self.judge(variant, (languages, default), preferred.is_some());
            let is_better = match self.by_rfc {
                true => {
                    judged.is_better_by_rfc(variant, best.as_ref().map(|(_, best, judged)| (*best, judged)))
                }
                false => judged.is_better(variant, best.as_ref().map(|(_, best, judged)| (*best, judged))),
            };
            if is_better {
                best = Some((at, variant, judged));
            }
        }
        best.filter(|(_, _, judged)| !self.by_rfc || judged.is_definite).map(|(at, ..)| at)
    }

    fn leaves_out(&self, variant: &Variant) -> bool {
        let is_encoded = variant.encoding.as_deref().is_some_and(|encoding| !is_identity(encoding));
        match self.encoded {
            Encoded::All => false,
            Encoded::Html => is_encoded && !variant.media_type.starts_with(b"text/html"),
            Encoded::None => is_encoded,
        }
    }

    fn judge(
        &self,
        variant: &Variant,
        (languages, default): (&Languages, f32),
        is_preferred: bool,
    ) -> Judged {
        let mut judged = Judged { encoding: self.encoding(variant), is_definite: true, ..Judged::default() };
        self.judge_type(variant, &mut judged);
        match is_preferred {
            true => (judged.language, judged.is_definite) = (1.0, true),
            false => self.judge_language(variant, (languages, default), &mut judged),
        }
        self.judge_charset(variant, &mut judged);
        judged
    }

    /// The most exact range counts. Ranges with stars are worth little, unless the client gives qualities.
    fn judge_type(&self, variant: &Variant, judged: &mut Judged) {
        let mut exactness = 0;
        for range in &self.types {
            let found = match range.name.as_slice() {
                b"*" | b"*/*" => 1,
                name if name.strip_suffix(b"*").is_some_and(|start| {
                    start.len() > 1 && start.ends_with(b"/") && variant.media_type.starts_with(start)
                }) =>
                {
                    2
                }
                name if *name == variant.media_type && range.level >= variant.level => {
                    judged.level = variant.level;
                    3
                }
                _ => continue,
            };
            if found <= exactness {
                continue;
            }
            exactness = found;
            let is_fiddled = !self.is_strict && !self.has_qualities;
            judged.media_type = match found {
                1 if is_fiddled => 0.01,
                2 if is_fiddled => 0.02,
                _ => range.quality,
            };
        }
        judged.is_definite &= exactness == 3;
    }

    fn judge_language(
        &self,
        variant: &Variant,
        (languages, default): (&Languages, f32),
        judged: &mut Judged,
    ) {
        judged.language = 1.0;
        if variant.languages.is_empty() {
            if !self.is_strict {
                judged.language = default;
            }
            return;
        }
        match &self.languages {
            None => judged.is_definite = false,
            Some(ranges) => self.match_languages(variant, ranges, judged),
        }
        let is_none = judged.language == 0.0;
        if !(languages.prefer || languages.fallback && is_none) {
            return;
        }
        let position = |language: &Vec<u8>| {
            let is_start = |known: &[u8]| {
                language.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known))
            };
            languages.priority.iter().position(|known| is_start(known))
        };
        let Some(place) = variant.languages.iter().filter_map(position).min() else { return };
        if !is_none && languages.prefer {
            judged.place = Some(place);
        } else if is_none && languages.fallback {
            (judged.place, judged.language, judged.is_definite) = (Some(place), 0.0001, false);
        }
    }

    /// The longest range that matches a language counts for it, and the best of all languages counts.
    fn match_languages(&self, variant: &Variant, ranges: &[Accepted], judged: &mut Judged) {
        let star = ranges.iter().find(|range| range.name == b"*");
        let (mut best, mut nearly, mut by_star): (Option<f32>, f32, bool) = (None, 0.0, false);
        for language in &variant.languages {
            let mut own: Option<&Accepted> = None;
            for range in ranges.iter().filter(|range| range.name != b"*") {
                let rest = language.strip_prefix(&range.name[..]);
                let matches = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"-"));
                if matches && own.is_none_or(|own| range.name.len() > own.name.len()) {
                    own = Some(range);
                }
                if own.is_none() && !self.is_strict {
                    let dash = range.name.iter().position(|&byte| byte == b'-');
                    if dash.is_some_and(|dash| language.starts_with(&range.name[..dash])) {
                        nearly = 0.001;
                    }
                }
            }
            if best.is_none() || own.is_some_and(|own| best.is_some_and(|best| own.quality > best)) {
                best = own.map(|own| own.quality);
            }
            by_star |= own.is_none() && star.is_some();
        }
        if let Some(star) = star.filter(|star| by_star && best.is_none_or(|best| star.quality > best)) {
            best = Some(star.quality);
            judged.is_definite = false;
        }
        judged.language = best.unwrap_or(nearly);
    }

    fn judge_charset(&self, variant: &Variant, judged: &mut Judged) {
        const LATIN: &[u8] = b"iso-8859-1";
        judged.charset = 1.0;
        let Some(charsets) = &self.charsets else {
            judged.is_definite &= variant.charset.is_empty();
            return;
        };
        let charset = match variant.charset.as_slice() {
            b"" if !variant.media_type.starts_with(b"text/") || self.is_strict => return,
            b"" => LATIN,
            charset => charset,
        };
        if let Some(named) = charsets.iter().find(|known| known.name == charset) {
            judged.charset = named.quality;
        } else if let Some(star) = charsets.iter().rfind(|known| known.name == b"*") {
            judged.charset = star.quality;
            judged.is_definite = false;
        } else if charset != LATIN {
            judged.charset = 0.0;
        }
    }

    fn encoding(&self, variant: &Variant) -> f32 {
        let encoding = variant.encoding.as_deref().filter(|encoding| !is_identity(encoding));
        let Some(accepted) = &self.encodings else { return if encoding.is_some() { 0.5 } else { 1.0 } };
        let plain = |name: &[u8]| name.strip_prefix(b"x-").unwrap_or(name).to_vec();
        let wanted = plain(encoding.unwrap_or(b"identity"));
        let named = accepted.iter().find(|known| plain(&known.name) == wanted);
        let found = named.or_else(|| accepted.iter().rfind(|known| known.name == b"*"));
        found.map_or(if encoding.is_some() { 0.0 } else { 0.0001 }, |found| found.quality)
    }
}

/// What a form is worth to a client.
#[derive(Clone, Copy, Debug, Default)]
struct Judged {
    media_type: f32,
    language: f32,
    charset: f32,
    encoding: f32,
    /// The level of the type, if the client accepts it.
    level: f32,
    /// The place of the language in `LanguagePriority`.
    place: Option<usize>,
    /// Whether no star decided.
    is_definite: bool,
}

type Best<'b> = Option<(&'b Variant, &'b Judged)>;

impl Judged {
    fn is_better(&self, variant: &Variant, best: Best<'_>) -> bool {
        let own = [self.encoding, self.language, variant.source_quality, self.charset, self.media_type];
        if own.contains(&0.0) {
            return false;
        }
        let Some((other, best)) = best else { return true };
        let worth = (self.media_type * variant.source_quality, best.media_type * other.source_quality);
        if worth.0 != worth.1 {
            return worth.0 > worth.1;
        }
        if self.language != best.language {
            return self.language > best.language;
        }
        let place = |judged: &Judged| judged.place.unwrap_or(usize::MAX);
        if place(self) != place(best) {
            return place(self) < place(best);
        }
        if variant.media_type == other.media_type {
            if self.level != best.level {
                return self.level > best.level;
            }
            if variant.level != other.level {
                return variant.level < other.level;
            }
        }
        if self.charset < best.charset {
            return false;
        }
        let is_latin = |charset: &[u8]| charset.is_empty() || charset == b"iso-8859-1";
        if self.charset > best.charset || !is_latin(&variant.charset) && is_latin(&other.charset) {
            return true;
        }
        if self.encoding != best.encoding {
            return self.encoding > best.encoding;
        }
        variant.bytes < other.bytes
    }

    fn is_better_by_rfc(&self, variant: &Variant, best: Best<'_>) -> bool {
        let worth = |variant: &Variant, judged: &Judged| {
            judged.media_type * variant.source_quality * judged.charset * judged.language
        };
        let own = worth(variant, self);
        if self.encoding == 0.0 || own <= 0.0 {
            return false;
        }
        match best.map(|(other, best)| (worth(other, best), best.encoding)) {
            Some((other, encoding)) => own > other || own == other && self.encoding > encoding,
            None => true,
        }
    }
}

/// What responses vary by, and all forms in a list (RFC 2295, section 8.3), if that is wanted.
pub(super) struct Shown {
    pub(super) vary: String,
    pub(super) alternates: Vec<u8>,
}

pub(super) fn shown(variants: &[Variant], is_transparent: bool) -> Shown {
    let differs = |part: &dyn Fn(&Variant) -> Vec<u8>| {
        let mut parts = variants.iter().map(part);
        let first = parts.next();
        parts.any(|part| Some(part) != first)
    };
    let languages = |variant: &Variant| variant.languages.join(&b","[..]);
    let names = [
        (is_transparent, "negotiate"),
        (differs(&|variant| variant.media_type.clone()), "accept"),
        (differs(&languages), "accept-language"),
        (differs(&|variant| variant.charset.clone()), "accept-charset"),
        (differs(&|variant| variant.encoding.clone().unwrap_or_default()), "accept-encoding"),
    ];
    let names: Vec<&str> = names.into_iter().filter(|(counts, _)| *counts).map(|(_, name)| name).collect();
    Shown {
        vary: names.join(","),
        alternates: variants.iter().map(alternate).collect::<Vec<_>>().join(&b", "[..]),
    }
}

fn alternate(variant: &Variant) -> Vec<u8> {
    let mut out = b"{\"".to_vec();
    http::escape::component(&variant.name, &mut out);
    let quality = format!("{:.3}", variant.source_quality);
    let quality = quality.trim_end_matches('0').trim_end_matches('.');
    out.extend_from_slice(format!("\" {quality}").as_bytes());
    let languages = variant.languages.join(&b","[..]);
    let length = variant.bytes.to_string();
    let parts = [
        ("type", &variant.media_type[..]),
        ("charset", &variant.charset),
        ("language", &languages),
        ("encoding", variant.encoding.as_deref().unwrap_or_default()),
        ("length", length.as_bytes()),
    ];
    for (name, value) in parts.iter().filter(|(_, value)| !value.is_empty()) {
        out.extend_from_slice(&[b" {", name.as_bytes(), b" ", value, b"}"].concat());
    }
    out.push(b'}');
    out
}

fn is_identity(encoding: &[u8]) -> bool {
    matches!(encoding, b"" | b"7bit" | b"8bit" | b"binary")
}

/// The values of a field, as one list.
fn joined(fields: &Fields, name: &str) -> Option<Vec<u8>> {
    let values: Vec<&[u8]> = fields.all(name).collect();
    (!values.is_empty()).then(|| values.join(&b", "[..]))
}
