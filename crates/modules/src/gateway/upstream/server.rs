//! The servers of a group.

use ::upstream::{Admission, ChangingServer, Configured, Peer, Server, resolve};
use conf::catalogue::judge_parameter;
use conf::value::{Host, endpoint, number, time_s};
use conf::{Arity, Contexts, Diagnostic, Word};
use contract::{Args, Directive, Loading, Rule};
use net::SocketAddress;
use std::time::Duration;

/// `server ADDRESS [PARAMETER …]`
pub(super) static SERVER: Directive<Configured> = Directive::new("server", parse)
    .slot("upstream server")
    .within(Contexts::UPSTREAM.or(Contexts::STREAM_UPSTREAM))
    .args(Arity::AtLeast(1))
    .rule(Rule::Never)
    .repeats()
    .help(
        "The address of a server, with weight=, max_conns=, max_fails=, fail_timeout=, backup, down, drain, route=, resolve, service=.",
    );

/// A server that is being read.
struct Reading {
    server: Server,
    /// Whether all of its parameters are built.
    is_built: bool,
    resolve: bool,
    service: Option<Box<str>>,
}

fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Configured, Diagnostic> {
    let is_stream = args.context == Contexts::STREAM_UPSTREAM;
    let address = args.value(0, |word| endpoint(word, if is_stream { 0 } else { 80 }))?;
    let has_service = args.words().iter().any(|word| word.text.starts_with(b"service="));
    if is_stream && !address.has_port && !has_service && !matches!(address.host, Host::Unix(_)) {
        let message = format!("no port in upstream \"{}\"", args.node.args[0]);
        return Err(Diagnostic::emerg(message).at(args.node.span));
    }
    let anywhere = SocketAddress::Inet(([0, 0, 0, 0], 0).into());
    let server = Server { written: args.node.args[0].to_string().into(), ..Server::new(anywhere) };
    let mut reading = Reading { server, is_built: true, resolve: false, service: None };
    // As in nginx, parameters come before the host: one of a server with "resolve" may be unknown now.
    for word in args.words().iter().skip(1) {
        parse_parameter(&mut reading, (args, word), loading)?;
    }
    let Reading { server, is_built, resolve: is_changing, service } = reading;
    if !is_built {
        return Ok(Configured::Known(Vec::new()));
    }
    let written = &args.node.args[0];
    let wrong = |what: &str| {
        let message = format!("service upstream \"{written}\" {what}");
        Err(Diagnostic::emerg(message).at(args.node.span))
    };
    match (&address.host, &service) {
        (_, Some(_)) if !is_changing => return wrong("requires \"resolve\" parameter"),
        (_, Some(_)) if address.has_port => return wrong("may not have port"),
        (Host::Ip(_) | Host::Unix(_), Some(_)) => return wrong("requires domain name"),
        (Host::Name(host), _) if is_changing => {
            let (host, port) = (host.clone(), address.port);
            return Ok(Configured::Changing(ChangingServer { template: server, host, port, service }));
        }
        _ => {}
    }
    let found = resolve(&address, &*loading.origin.inputs).map_err(|error| {
        let message = format!("{error} in upstream \"{written}\"");
        let message = if error.starts_with("host not found") { error } else { message };
        Diagnostic::emerg(message).at(args.node.span)
    })?;
    let at = |address: SocketAddress| {
        let peer = Peer { address, ..server.peer.clone() };
        Server { name: peer.address.to_string().into(), peer, ..server.clone() }
    };
    Ok(Configured::Known(found.into_iter().map(at).collect()))
}

/// The route of a server.
fn route(args: &Args<'_>, word: &Word, route: Box<[u8]>) -> Result<Box<[u8]>, Diagnostic> {
    /// As long as a route that follows from an address.
    const LONGEST: usize = 32;
    let message = match route.len() {
        0 => "route is empty".to_owned(),
        1..=LONGEST => return Ok(route),
        _ => format!("route is longer than {LONGEST}"),
    };
    Err(Diagnostic::emerg(message).at(args.node.span).under(word.span))
}

/// Reads one parameter.
fn parse_parameter(
    reading: &mut Reading,
    (args, word): (&Args<'_>, &Word),
    loading: &mut Loading,
) -> Result<(), Diagnostic> {
    let (name, value) = match word.text.iter().position(|&byte| byte == b'=') {
        Some(at) => (&word.text[..at], Word { text: word.text[at + 1..].into(), ..*word }),
        None => (&word.text[..], Word { text: Box::default(), ..*word }),
    };
    let invalid = || args.invalid(word);
    let count = || number(&value).ok().and_then(|count| u32::try_from(count).ok()).ok_or_else(invalid);
    let Reading { server: Server { peer, settings, .. }, is_built, resolve, service } = reading;
    match name {
        b"weight" => settings.weight = Some(count()?).filter(|&weight| weight > 0).ok_or_else(invalid)?,
        b"max_conns" => settings.max_conns = count()?,
        b"max_fails" => settings.max_fails = count()?,
        b"fail_timeout" => {
            settings.fail_timeout = Duration::from_secs(time_s(&value).map_err(|_| invalid())?);
        }
        b"backup" if word.is("backup") => settings.backup = true,
        b"down" if word.is("down") => settings.admission = Admission::Down,
        b"drain" if word.is("drain") => settings.admission = Admission::Draining,
        b"route" if word.text.contains(&b'=') => peer.route = Some(route(args, word, value.text)?),
        b"resolve" if word.is("resolve") => *resolve = true,
        b"service" if word.is("service=") => {
            return Err(Diagnostic::emerg("service is empty").at(args.node.span).under(word.span));
        }
        b"service" if word.text.contains(&b'=') => *service = Some(value.to_string().into()),
        _ => {
            let refusal = judge_parameter("server", word).ok_or_else(invalid)?;
            loading.refuse(refusal.at(args.node.span).under(word.span))?;
            *is_built = false;
        }
    }
    Ok(())
}
