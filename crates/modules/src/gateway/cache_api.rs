//! Lists and removes the responses of caches over HTTP, for applications that change their content.
//!
//! `GET` answers with the zones and their sizes, as JSON; a response may be both on disk and in memory. With `list` and a zone it lists up to 1,000 responses.
//! `DELETE` removes responses, and answers with their number. The query selects them: `zone=NAME` (without it, all
//! zones), and one of `key=TEXT` (a response with all of its variants), `prefix=TEXT`, `host=NAME`, `tag=NAME` (a
//! word of the response's header `Surrogate-Key` or `xkey`) or `all`. With `soft`, responses stay but are marked as
//! expired: `proxy_cache_use_stale` may send them until there are new ones. Each selection reads the head of each file, in
//! another thread. A removal by `key` has its effect before that. If the zones have no such response, the answer contains the
//! key of another one (`example_key`): it shows how the keys look.
//!
//! Only clients on this machine are allowed, and the requested host must be this machine, as with [`fulmar_status`](fulmar_status.md). `anyone` allows all clients
//! that `allow`, `deny` and passwords allow. [`fulmar cache`](../commands.md#fulmar-cache) does the same without a
//! server.
//!
//! nginx: none
//!
//! ```conf
//! proxy_cache_path cache keys_zone=pages:1m;
//! server {
//!     listen 8080;
//!     location = /cache {
//!         cache_api;
//!     }
//! }
//! ```
//!
//! ```http
//! DELETE /cache?zone=pages&prefix=http://a/ HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! Content-Type: application/json
//!
//! {"removed":0}
//! ```

use crate::logging::fulmar_status::{Audience, Guard};
use crate::shared::cached::keeper::zones;
use crate::shared::cached::survey::{Action, Survey};
use cache::{Selection, Totals, Zone};
use conf::value::choice;
use conf::{Arity, Contexts, Diagnostic};
use contract::{Body, Directive, Exchange, Handler, Module, Outcome, Rule, ScopeBuilder, Step, View};
use http::uri::unescape_uri;
use http::{Method, Status, escape};
use std::sync::Arc;

/// Control of caches.
pub static MODULE: Module =
    Module { name: "cache_api", directives: &[&CACHE_API], variables: &[], compile: Some(compile) };

/// `cache_api [local | anyone]`
pub static CACHE_API: Directive<Audience> = Directive::new("cache_api", |args, _| match args.words() {
    [] => Ok(Audience::Local),
    _ => args.value(0, |word| choice(word, &[("local", Audience::Local), ("anyone", Audience::Anyone)])),
})
.within(Contexts::LOCATION)
.args(Arity::Range(0, 1))
.rule(Rule::Never)
.help("Lists and removes cached responses.");

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(&audience) = view.get(&CACHE_API) {
        builder.content(view.place(&CACHE_API), Control(Guard::new(view, "cache_api", audience)));
    }
    Ok(())
}

/// Answers requests about caches.
struct Control(Guard);

impl Handler for Control {
    fn run(&self, exchange: &mut Exchange) -> Step {
        if let Err(status) = self.0.check(exchange) {
            return Step::Finish(status);
        }
        let removes = match exchange.request.method {
            Method::Get | Method::Head => false,
            Method::Delete => true,
            _ => return Step::Finish(Status::METHOD_NOT_ALLOWED),
        };
        let Some(query) = Query::read(exchange.request.args.as_deref().unwrap_or_default()) else {
            return Step::Finish(Status::BAD_REQUEST);
        };
        let wanted = |name: &str| query.zone.as_deref().is_none_or(|zone| zone == name.as_bytes());
        let chosen: Vec<_> = zones().into_iter().filter(|(name, _)| wanted(name)).collect();
        if chosen.is_empty() && query.zone.is_some() {
            return Step::Finish(Status::NOT_FOUND);
        }
        match (removes, query.selection) {
            (false, None) if !query.lists => respond(exchange, totals(&chosen)),
            (true, None) => Step::Finish(Status::BAD_REQUEST),
            (_, selection) => {
                let action = match (removes, query.is_soft) {
                    (false, _) => Action::List,
                    (true, true) => Action::Outdate,
                    (true, false) => Action::Remove,
                };
                let zones = chosen.into_iter().map(|(_, zone)| zone).collect();
                Survey::start(exchange, zones, selection.unwrap_or(Selection::All), action)
            }
        }
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let Outcome::Job(survey) = outcome else { return Step::Finish(Status::INTERNAL_SERVER_ERROR) };
        match survey.downcast::<Survey>() {
            Ok(survey) if !survey.is_over() => survey.step(),
            Ok(survey) => respond(exchange, survey.text()),
            Err(_) => Step::Finish(Status::INTERNAL_SERVER_ERROR),
        }
    }
}

fn respond(exchange: &mut Exchange, text: Vec<u8>) -> Step {
    let response = &mut exchange.response;
    response.status = Status::OK;
    response.content_type = Some("application/json".into());
    response.content_length = Some(text.len() as u64);
    // The field is known to be valid.
    let _ = response.fields.push(b"Cache-Control", b"no-store");
    Step::Respond(Body::bytes(text))
}

/// What a request asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Query {
    zone: Option<Vec<u8>>,
    selection: Option<Selection>,
    lists: bool,
    is_soft: bool,
}

impl Query {
    /// Reads the query of a URL; `None` where something is unknown, or there twice.
    fn read(text: &[u8]) -> Option<Query> {
        let mut query = Query::default();
        for part in text.split(|&byte| byte == b'&').filter(|part| !part.is_empty()) {
            let mark = part.iter().position(|&byte| byte == b'=');
            let (name, rest) = part.split_at(mark.unwrap_or(part.len()));
            let mut value = Vec::new();
            unescape_uri(rest.get(1..).unwrap_or_default(), &mut value);
            let selection = match name {
                b"zone" if query.zone.is_none() => {
                    query.zone = Some(value);
                    continue;
                }
                b"list" => {
                    query.lists = true;
                    continue;
                }
                b"soft" => {
                    query.is_soft = true;
                    continue;
                }
                b"all" => Selection::All,
                _ if value.is_empty() => return None,
                b"key" => Selection::Key(value.into()),
                b"prefix" => Selection::Prefix(value.into()),
                b"host" => Selection::Host(value.into()),
                b"tag" => Selection::Tag(value.into()),
                _ => return None,
            };
            if query.selection.replace(selection).is_some() {
                return None;
            }
        }
        Some(query)
    }
}

/// The zones and what they hold.
fn totals(zones: &[(Box<str>, Arc<Zone>)]) -> Vec<u8> {
    let mut text = b"{\"zones\":[".to_vec();
    for (at, (name, zone)) in zones.iter().enumerate() {
        let Totals { files, disk_bytes, ready_objects, memory_bytes, evicted, .. } = zone.totals();
        text.extend_from_slice(if at > 0 { b",{\"zone\":\"" } else { b"{\"zone\":\"" });
        escape::json(name.as_bytes(), &mut text);
        let rest = format!(
            "\",\"responses_on_disk\":{files},\"disk_bytes\":{disk_bytes},\"responses_in_memory\":{ready_objects},\
             \"memory_bytes\":{memory_bytes},\"evicted\":{evicted}}}"
        );
        text.extend_from_slice(rest.as_bytes());
    }
    text.extend_from_slice(b"]}");
    text
}

#[cfg(test)]
mod tests {
    use super::Query;
    use crate::testing::{Site, status};
    use cache::Selection;
    use contract::{Peer, Phase};
    use http::Method;

    #[test]
    fn a_query_names_one_selection() {
        let read = |text: &str| Query::read(text.as_bytes());
        let query = read("zone=a&prefix=http%3a//b/&soft").unwrap();
        assert_eq!((query.zone.as_deref(), query.is_soft), (Some(&b"a"[..]), true));
        assert_eq!(query.selection, Some(Selection::Prefix(b"http://b/".as_slice().into())));
        assert_eq!(read("all").unwrap().selection, Some(Selection::All));
        for wrong in ["prefix", "tag=", "what=1", "all&host=a", "zone=a&zone=b"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nothing_is_removed_without_a_selection_or_by_clients_elsewhere() {
        let site = Site::location("cache_api;");
        let ask = |method, target: &str, peer: &str| {
            let peer = Peer::Inet((peer.parse::<std::net::IpAddr>().unwrap(), 1).into());
            let mut exchange = site.request(target, peer);
            exchange.request.method = method;
            status(&site.run(Phase::Content, &mut exchange))
        };
        assert_eq!(ask(Method::Delete, "/", "127.0.0.1"), 400);
        assert_eq!(ask(Method::Delete, "/?zone=none&all", "127.0.0.1"), 404);
        assert_eq!(ask(Method::Post, "/?all", "127.0.0.1"), 405);
        assert_eq!(ask(Method::Delete, "/?all", "10.0.0.1"), 403);
        let mut exchange = site.get("/");
        exchange.request.host = b"rebound.example".to_vec();
        assert_eq!(status(&site.run(Phase::Content, &mut exchange)), 403);
    }
}
