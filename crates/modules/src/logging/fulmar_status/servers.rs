//! The metrics of servers that requests are passed to.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use upstream::{Figures, Registry, ServerState};

/// What each server did and does, by its group and its address.
#[derive(Debug)]
pub(super) struct Servers(BTreeMap<(Arc<str>, Arc<str>), Figures>);

/// The states of a server, by their names.
const STATES: [(&str, ServerState); 4] = [
    ("up", ServerState::Up),
    ("failed", ServerState::Failed),
    ("draining", ServerState::Draining),
    ("down", ServerState::Down),
];

impl Servers {
    /// The servers of these groups.
    pub(super) fn of(groups: &Registry) -> Servers {
        let mut all: BTreeMap<_, Figures> = BTreeMap::new();
        for group in groups.all() {
            for figures in group.figures() {
                let key = (Arc::clone(&group.name), Arc::clone(&figures.name));
                match all.get_mut(&key) {
                    Some(same) => add(same, &figures),
                    None => drop(all.insert(key, figures)),
                }
            }
        }
        Servers(all)
    }

    /// One metric of all servers.
    fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help): (&str, &str),
        value: impl Fn(&Figures) -> Value,
    ) -> fmt::Result {
        let Some(first) = self.0.values().next() else { return Ok(()) };
        let (unit, kind) = match value(first) {
            Value::Count(_) => (None, MetricType::Counter),
            Value::Seconds(_) => (Some(&Unit::Seconds), MetricType::Counter),
            Value::Now(_) => (None, MetricType::Gauge),
        };
        let mut family = encoder.encode_descriptor(name, help, unit, kind)?;
        for ((group, server), figures) in &self.0 {
            let labels = [("upstream", &**group), ("peer", &**server)];
            let mut metric = family.encode_family(&labels)?;
            match value(figures) {
                Value::Count(count) => metric.encode_counter::<NoLabelSet, _, u64>(&count, None)?,
                Value::Seconds(seconds) => metric.encode_counter::<NoLabelSet, _, u64>(&seconds, None)?,
                Value::Now(count) => metric.encode_gauge(&i64::try_from(count).unwrap_or(i64::MAX))?,
            }
        }
        Ok(())
    }
}

/// The value of a metric, by its type.
enum Value {
    Count(u64),
    Seconds(f64),
    Now(u64),
}

/// Adds the figures of a server that a group has twice.
fn add(figures: &mut Figures, other: &Figures) {
    figures.requests += other.requests;
    figures.active += other.active;
    figures.failures += other.failures;
    figures.time += other.time;
    figures.connections += other.connections;
    figures.opened += other.opened;
    if other.state == ServerState::Up {
        figures.state = ServerState::Up;
    }
}

impl Collector for Servers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let (name, help) = ("upstream_state", "Whether a server is asked; 1 for the state that it has");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for ((group, server), figures) in &self.0 {
            for (state, of) in STATES {
                let labels = [("upstream", &**group), ("peer", &**server), ("state", state)];
                family.encode_family(&labels)?.encode_gauge(&i64::from(figures.state == of))?;
            }
        }
        let encoder = &mut encoder;
        let requests = ("upstream_requests", "Requests that a server was asked");
        self.encode(encoder, requests, |figures| Value::Count(figures.requests))?;
        let active = ("upstream_active", "Requests in progress");
        self.encode(encoder, active, |figures| Value::Now(figures.active))?;
        let failures = ("upstream_failures", "Requests after which another server may be asked");
        self.encode(encoder, failures, |figures| Value::Count(figures.failures))?;
        let time = ("upstream_time", "How long the requests took that are over");
        self.encode(encoder, time, |figures| Value::Seconds(figures.time.as_secs_f64()))?;
        let connections = ("upstream_connections", "Open connections, the idle ones included");
        self.encode(encoder, connections, |figures| Value::Now(figures.connections))?;
        let opened = ("upstream_connections_opened", "Connections that were opened");
        self.encode(encoder, opened, |figures| Value::Count(figures.opened))
    }
}

#[cfg(test)]
mod tests {
    use super::super::exposition::text;
    use net::SocketAddress;
    use std::sync::Arc;
    use upstream::{Admission, Choice, Group, Keepalive, Key, PeerSettings, Registry, Server};

    #[test]
    fn a_server_that_a_group_has_twice_is_one() {
        let server = |port: u16| Server::new(SocketAddress::Inet(([127, 0, 0, 1], port).into()));
        let down = server(1).with(PeerSettings { admission: Admission::Down, ..PeerSettings::DEFAULT });
        let group = Arc::new(Group::new("app", vec![down, server(1), server(2)], Keepalive::NONE));
        let registry = Registry::of(&inputs::origin());
        registry.add(&group);
        let leases: Vec<_> = (0..2).map(|_| Choice::new(&group, Key::default(), 0).choose()).collect();
        let text = text(&registry).unwrap();
        for line in [
            "fulmar_upstream_requests_total{upstream=\"app\",peer=\"127.0.0.1:1\"} 1",
            "fulmar_upstream_state{upstream=\"app\",peer=\"127.0.0.1:1\",state=\"up\"} 1",
            "fulmar_upstream_state{upstream=\"app\",peer=\"127.0.0.1:1\",state=\"down\"} 0",
            "fulmar_upstream_active{upstream=\"app\",peer=\"127.0.0.1:2\"} 1",
            "# TYPE fulmar_upstream_time_seconds counter",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
        drop(leases);
    }
}
