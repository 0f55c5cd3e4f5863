//! What `fastcgi_pass` says: an address or a group.

use conf::Diagnostic;
use conf::value::{self, Address, Host, ValueError};
use contract::inputs::System;
use contract::{Args, Exchange, Loading, Template, View};
use http::Status;
use journal::Level;
use std::sync::Arc;
use upstream::{Group, Keepalive, Server, resolve};

/// The value of `fastcgi_pass`.
#[derive(Clone, Debug)]
pub struct Pass {
    text: Box<[u8]>,
    /// With variables, which make it known only when a request comes.
    template: Option<Template>,
}

/// The servers of a scope's requests.
pub(super) enum Target {
    /// Always the same.
    Fixed(Arc<Group>),
    /// Chosen for each request: one of the groups, or an address.
    Chosen(Template, Vec<Arc<Group>>),
}

pub(super) fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<Pass, Diagnostic> {
    let word = args.word(0)?;
    let template = word.text.contains(&b'$').then(|| loading.template(word)).transpose()?;
    match template {
        None => drop(args.value(0, |word| address(&word.text))?),
        Some(_) => crate::shared::trust::warn_of_choice(args, loading),
    }
    Ok(Pass { text: word.text.clone(), template })
}

impl Pass {
    /// What was written.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The servers, as far as they are known before a request comes.
    pub(super) fn target(&self, view: &View<'_>) -> Result<Target, String> {
        let groups = crate::gateway::upstream::groups(view);
        match &self.template {
            Some(template) => Ok(Target::Chosen(template.clone(), groups)),
            None => {
                let look_up = |address: &Address| resolve(address, &*view.origin().inputs);
                find(&self.text, &groups, look_up).map(Target::Fixed)
            }
        }
    }
}

impl Target {
    /// The servers of one request.
    pub(super) fn group(&self, exchange: &Exchange) -> Result<Arc<Group>, Status> {
        let (template, groups) = match self {
            Target::Fixed(group) => return Ok(Arc::clone(group)),
            Target::Chosen(template, groups) => (template, groups),
        };
        let found = find(&template.evaluate(exchange), groups, |address| match &address.host {
            // Looking a name up would stop all other requests of the thread.
            Host::Name(name) => Err(format!("no resolver defined to resolve {name}")),
            _ => resolve(address, &System),
        });
        found.map_err(|message| {
            exchange.log(Level::Error, &message);
            let unknown = message.starts_with("no resolver");
            if unknown { Status::BAD_GATEWAY } else { Status::INTERNAL_SERVER_ERROR }
        })
    }
}

/// The group of this name, or one of the addresses that the text names. Connections to the latter serve one
/// request each.
fn find(
    text: &[u8],
    groups: &[Arc<Group>],
    look_up: impl Fn(&Address) -> Result<Vec<net::SocketAddress>, String>,
) -> Result<Arc<Group>, String> {
    let address = address(text).map_err(|error| error.to_string())?;
    let shown = String::from_utf8_lossy(text);
    let is_unix = matches!(address.host, Host::Unix(_));
    if !address.has_port && !is_unix {
        let named = groups.iter().find(|group| group.name.eq_ignore_ascii_case(&shown));
        return named.map(Arc::clone).ok_or_else(|| format!("no port in upstream \"{shown}\""));
    }
    let servers = look_up(&address)?.into_iter().map(Server::new).collect();
    Ok(Arc::new(Group::new(&shown, servers, Keepalive::NONE)))
}

fn address(text: &[u8]) -> Result<Address, ValueError> {
    match value::target(text, 0)? {
        (address, []) => Ok(address),
        _ => Err(ValueError::Address("invalid host")),
    }
}

#[cfg(test)]
mod tests {
    use super::find;
    use contract::inputs::System;
    use std::sync::Arc;
    use upstream::{Group, Keepalive, Server, resolve};

    #[test]
    fn groups_and_addresses() {
        let server = Server::new(net::SocketAddress::Inet("127.0.0.1:1".parse().unwrap()));
        let groups = [Arc::new(Group::new("php", vec![server], Keepalive::DEFAULT))];
        let look_up = |address: &conf::value::Address| resolve(address, &System);
        let name = |text: &str| find(text.as_bytes(), &groups, look_up).map(|group| group.name.to_string());
        assert_eq!(name("PHP"), Ok("php".into()));
        assert_eq!(name("127.0.0.1:9000"), Ok("127.0.0.1:9000".into()));
        assert_eq!(name("unix:/run/php.sock"), Ok("unix:/run/php.sock".into()));
        assert_eq!(name("other"), Err("no port in upstream \"other\"".into()));
        assert!(name("127.0.0.1:9000/uri").is_err() && name("127.0.0.1:99999").is_err());
    }
}
