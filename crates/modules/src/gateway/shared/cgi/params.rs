//! The parameters that a request is sent with: what the configuration says, and the request's fields.

use crate::shared::apache::environment::{self, PHP_VALUE, PhpSettings};
use crate::shared::cached::{self, Cached};
use crate::shared::host::host_and_port;
use crate::shared::scratch::with_scratch;
use conf::Diagnostic;
use contract::hash::KeyedMap;
use contract::{Args, Exchange, Loading, Template};
use http::{Field, Fields};
use std::borrow::Cow;
use std::sync::Arc;

/// One `fastcgi_param`, `scgi_param` or `uwsgi_param`.
#[derive(Clone, Debug)]
pub struct Param {
    name: Box<[u8]>,
    value: Template,
    /// Whether it is left out where its value is empty.
    if_not_empty: bool,
}

impl Param {
    /// Whether it keeps a field of the client away and sends nothing: a `HTTP_…` whose value is written as `""`.
    fn only_hides(&self) -> bool {
        self.name.starts_with(PREFIX) && self.value.constant() == Some(b"")
    }
}

/// Where the parameters of a request go, in the encoding of a protocol.
pub(crate) trait Encoder {
    /// Why a parameter cannot be sent.
    type Error;

    /// Whether the protocol is PHP's.
    const IS_FOR_PHP: bool = false;

    /// Adds a parameter whose value the function appends, and tells whether it did: an empty value counts only with
    /// `keeps_empty`.
    fn write(
        &mut self,
        name: &[u8],
        keeps_empty: bool,
        value: impl FnOnce(&mut Vec<u8>),
    ) -> Result<bool, Self::Error>;
}

/// Reads a parameter.
pub(crate) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Param, Diagnostic> {
    let if_not_empty = match args.words().get(2) {
        None => false,
        Some(word) if *word.text == *b"if_not_empty" => true,
        Some(word) => return Err(args.invalid(word)),
    };
    let (name, value) = (args.word(0)?, args.word(1)?);
    Ok(Param { name: name.text.as_ref().into(), value: loading.template_for_servers(value)?, if_not_empty })
}

/// What starts the names of parameters that come from fields (RFC 3875, section 4.1.18).
const PREFIX: &[u8] = b"HTTP_";

/// The parameter for `Host`. Unless the configuration sets it, it is the host that the request is for: the field itself
/// does not count with an absolute target.
const HOST: &[u8] = b"HTTP_HOST";

/// The field that Apache keeps from programs, so that files with settings hand it on in their environment.
const AUTHORIZATION: &[u8] = b"HTTP_AUTHORIZATION";

/// The parameters that a response which is kept must not depend on, in the order of [`cached::conditions`].
const CONDITIONS: [&[u8]; 6] = [
    b"HTTP_IF_MODIFIED_SINCE",
    b"HTTP_IF_UNMODIFIED_SINCE",
    b"HTTP_IF_NONE_MATCH",
    b"HTTP_IF_MATCH",
    b"HTTP_RANGE",
    b"HTTP_IF_RANGE",
];

/// Adds the parameters of a request. A field stands for a parameter unless the configuration sets one of its name, and
/// a variable of the environment unless either does.
pub(crate) fn encode<E: Encoder>(
    exchange: &Exchange,
    params: &[Param],
    pass_fields: bool,
    out: &mut E,
) -> Result<(), E::Error> {
    let cached = Cached::of(exchange).filter(|cached| cached.is_kept());
    environment::note_program(exchange);
    let mut environment = environment::for_programs(exchange);
    let is_redirected = environment.iter().any(|(name, _)| **name == *REDIRECT_URL);
    if E::IS_FOR_PHP && is_redirected && misleads_php(exchange, params) {
        environment.retain(|(name, _)| **name != *REDIRECT_URL);
    }
    let sets_host = params.iter().any(|param| param.name.eq_ignore_ascii_case(HOST));
    if !sets_host && out.write(HOST, false, |value| host_and_port(exchange, value))? {
        environment.retain(|(name, _)| **name != *HOST);
    }
    for param in params.iter().filter(|param| !param.only_hides()) {
        if out.write(&param.name, !param.if_not_empty, |value| param.value.write(exchange, value))? {
            environment.retain(|(name, _)| *name != param.name);
        }
    }
    if pass_fields {
        let own: Vec<&[u8]> =
            params.iter().map(|param| &*param.name).filter(|name| name.starts_with(PREFIX)).collect();
        let is_replaced = environment.iter().any(|(name, _)| **name == *AUTHORIZATION);
        each_meta_variable(&exchange.request.head.fields, |variable, text| {
            let is_left_out = is_replaced && variable == AUTHORIZATION;
            let is_host = !sets_host && variable == HOST;
            let is_condition = cached.is_some() && CONDITIONS.contains(&variable);
            if is_left_out
                || is_host
                || is_condition
                || own.iter().any(|name| name.eq_ignore_ascii_case(variable))
            {
                return Ok(());
            }
            environment.retain(|(name, _)| **name != *variable);
            out.write(variable, true, |value| value.extend_from_slice(text)).map(drop)
        })?;
    }
    if let Some(cached) = cached {
        let sets = |name: &[u8]| params.iter().any(|param| param.name.eq_ignore_ascii_case(name));
        let conditions = cached::conditions(cached.revalidates());
        for (name, (_, value)) in CONDITIONS.iter().zip(conditions).filter(|(name, _)| !sets(name)) {
            out.write(name, false, |out| value.write(exchange, out))?;
        }
    }
    for (name, text) in &environment {
        out.write(name, true, |value| value.extend_from_slice(text))?;
    }
    let settings = exchange.attached::<PhpSettings>();
    if let Some(settings) = settings.filter(|settings| Arc::ptr_eq(&settings.scope, &exchange.scope)) {
        // Of two parameters of one name the last counts: it has what the configuration says, too.
        let configured = value(exchange, params, PHP_VALUE).unwrap_or_default();
        out.write(PHP_VALUE, false, |text| {
            text.extend_from_slice(&configured);
            text.push(b'\n');
            text.extend_from_slice(&settings.text);
        })?;
    }
    Ok(())
}

/// The path before the last internal redirect.
const REDIRECT_URL: &[u8] = b"REDIRECT_URL";

/// Whether PHP would take a request with `REDIRECT_URL` for one of Apache's mod_fastcgi, whose parameters are about
/// another file: PHP then removes `PATH_INFO`, and runs the file that `PATH_TRANSLATED` names. Apache's mod_proxy_fcgi
/// prevents that by what it writes before the path of the script, which other programs than PHP-FPM do not understand.
fn misleads_php(exchange: &Exchange, params: &[Param]) -> bool {
    let is_about_a_path = |name: &[u8]| [&b"PATH_INFO"[..], b"PATH_TRANSLATED"].contains(&name);
    let has_path = params
        .iter()
        .filter(|param| is_about_a_path(&param.name))
        .any(|param| !param.value.evaluate(exchange).is_empty());
    let is_marked = || {
        let script = value(exchange, params, b"SCRIPT_FILENAME").unwrap_or_default();
        script.starts_with(b"proxy:fcgi://") || script.starts_with(b"proxy:balancer://")
    };
    has_path && !is_marked()
}

/// What the configuration says that a parameter is, the last time that it says so.
pub(crate) fn value(exchange: &Exchange, params: &[Param], name: &[u8]) -> Option<Vec<u8>> {
    params.iter().rfind(|param| *param.name == *name).map(|param| param.value.evaluate(exchange))
}

/// Hands on the parameter that each field, or all fields of one name, become.
fn each_meta_variable<E>(
    fields: &Fields,
    mut send: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    if !are_distinct(fields) {
        return meta_variables(fields).iter().try_for_each(|field| send(&field.variable, &field.value));
    }
    sent(fields).try_for_each(|field| {
        with_scratch(|variable| {
            write_variable_name(field.name, variable);
            send(variable, field.value)
        })
    })
}

/// The fields that become parameters. `Proxy` does not, since many clients in applications take `HTTP_PROXY` for their
/// settings.
fn sent(fields: &Fields) -> impl Iterator<Item = Field<'_>> {
    fields.iter().filter(|field| !field.is("Proxy"))
}

/// Whether the fields are few, and each becomes a parameter with a different name.
fn are_distinct(fields: &Fields) -> bool {
    let is_new = |(index, field): (usize, Field<'_>)| {
        !fields.iter().take(index).any(|other| has_same_variable(other.name, field.name))
    };
    fields.len() <= FEW && fields.iter().enumerate().all(is_new)
}

fn has_same_variable(name: &[u8], other: &[u8]) -> bool {
    name.len() == other.len() && name.iter().map(upper).eq(other.iter().map(upper))
}

/// The fields of one name as a parameter.
struct MetaVariable<'a> {
    variable: Vec<u8>,
    /// The name of the fields.
    name: &'a [u8],
    value: Cow<'a, [u8]>,
}

/// So few are searched one by one.
const FEW: usize = 32;

/// Fields of one name become one parameter, in the order of their first appearance.
fn meta_variables(fields: &Fields) -> Vec<MetaVariable<'_>> {
    let mut found: Vec<MetaVariable<'_>> = Vec::new();
    // Where they stand, once they are not few.
    let mut places: KeyedMap<Vec<u8>, usize> = KeyedMap::default();
    for field in sent(fields) {
        let mut variable = Vec::new();
        write_variable_name(field.name, &mut variable);
        let place = match places.is_empty() {
            true => found.iter().position(|earlier| earlier.variable == variable),
            false => places.get(&variable).copied(),
        };
        let new = MetaVariable { variable, name: field.name, value: field.value.into() };
        let Some(place) = place else {
            found.push(new);
            if found.len() >= FEW {
                let unknown = found.iter().enumerate().skip(places.len());
                places.extend(unknown.map(|(place, field)| (field.variable.clone(), place)));
            }
            continue;
        };
        let earlier = &mut found[place];
        if earlier.name.eq_ignore_ascii_case(field.name) {
            let value = earlier.value.to_mut();
            value.extend_from_slice(if field.is("Cookie") { b"; " } else { b", " });
            value.extend_from_slice(field.value);
        } else if underscores(field.name) < underscores(earlier.name) {
            // `X_Id` must not pass for, nor mix with, the `X-Id` that a proxy in front has set.
            *earlier = new;
        }
    }
    found
}

fn write_variable_name(field: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(PREFIX);
    out.extend(field.iter().map(upper));
}

fn upper(byte: &u8) -> u8 {
    if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }
}

fn underscores(name: &[u8]) -> usize {
    name.iter().filter(|&&byte| byte == b'_').count()
}

#[cfg(test)]
mod tests {
    use super::{are_distinct, each_meta_variable, meta_variables};
    use http::Fields;

    fn list(fields: &[(&str, &str)]) -> Fields {
        let mut list = Fields::new();
        for (name, value) in fields {
            list.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        list
    }

    fn variables(fields: &[(&str, &str)]) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let line = |name: &[u8], value: &[u8]| format!("{}={}", text(name), text(value));
        let (list, mut found) = (list(fields), Vec::new());
        let sent: Result<(), ()> = each_meta_variable(&list, |name, value| {
            found.push(line(name, value));
            Ok(())
        });
        assert!(sent.is_ok());
        let all = meta_variables(&list);
        assert_eq!(found, all.iter().map(|one| line(&one.variable, &one.value)).collect::<Vec<_>>());
        found
    }

    #[test]
    fn fields_become_parameters() {
        let fields = [("Host", "h"), ("x-a.b", "1"), ("Content-Length", "2"), ("X_Y", "3")];
        let expected = ["HTTP_HOST=h", "HTTP_X_A.B=1", "HTTP_CONTENT_LENGTH=2", "HTTP_X_Y=3"];
        assert_eq!(variables(&fields), expected);
    }

    #[test]
    fn fields_are_distinct_unless_their_variables_are_the_same() {
        for (second, are_expected) in [("X-Ab", true), ("X-A", true), ("x-b", false), ("X_B", false)] {
            let fields = list(&[("X-B", "1"), ("Host", "h"), (second, "2")]);
            assert_eq!(are_distinct(&fields), are_expected, "{second}");
            assert_eq!(meta_variables(&fields).len() == fields.len(), are_expected, "{second}");
        }
    }

    #[test]
    fn fields_of_one_name_are_joined() {
        let fields = [("X-A", "1"), ("cookie", "a=b"), ("x-a", "2"), ("Cookie", "c=d"), ("X-A", "")];
        assert_eq!(variables(&fields), ["HTTP_X_A=1, 2, ", "HTTP_COOKIE=a=b; c=d"]);
    }

    #[test]
    fn many_fields_are_joined_as_few_are() {
        let names: Vec<_> = (0..100).map(|number| format!("X-{}", number % 50)).collect();
        let fields: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
        let expected: Vec<_> = (0..50).map(|number| format!("HTTP_X_{number}=1, 1")).collect();
        assert_eq!(variables(&fields), expected);
    }

    #[test]
    fn names_that_only_seem_alike_do_not_mix() {
        for fields in [[("X-Id", "good"), ("X_Id", "bad")], [("X_Id", "bad"), ("X-Id", "good")]] {
            assert_eq!(variables(&fields), ["HTTP_X_ID=good"]);
        }
        assert_eq!(
            variables(&[("A_B-C", "bad"), ("A-B-C", "good"), ("a-b_c", "bad"), ("a-b-c", "also")]),
            ["HTTP_A_B_C=good, also"]
        );
    }

    #[test]
    fn nobody_chooses_the_applications_proxy() {
        assert_eq!(variables(&[("pROXY", "evil"), ("Proxy-Connection", "x")]), ["HTTP_PROXY_CONNECTION=x"]);
    }
}
