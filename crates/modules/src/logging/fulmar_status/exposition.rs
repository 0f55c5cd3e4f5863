//! The metrics as text (OpenMetrics 1.0).

use super::servers::Servers;
use super::tally::{self, BUCKETS_S, Key, Sums};
use crate::shared::cached::keeper::zones;
use cache::{CacheStatus, Totals};
use contract::reloads;
use journal::counters::{Count, total};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::Arc;
use tls::Validity;
use upstream::Registry as Groups;

/// The media type of [`text`].
pub(super) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Every metric with its value; the servers are those of these groups.
///
/// # Errors
/// None that a text in memory has.
pub(super) fn text(groups: &Groups) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("fulmar");
    registry.register_collector(Box::new(Process));
    registry.register_collector(Box::new(Configuration));
    registry.register_collector(Box::new(Places(tally::all())));
    registry.register_collector(Box::new(Servers::of(groups)));
    let caches = zones().into_iter().map(|(name, zone)| (name, zone.totals(), zone.counts()));
    registry.register_collector(Box::new(Caches(caches.collect())));
    registry.register_collector(Box::new(Certificates(tls::served())));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

type Label<'a> = (&'static str, &'a str);

/// The counters of the process.
#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        info(&mut encoder, "build", "The program", &[("version", env!("CARGO_PKG_VERSION"))])?;
        let name = "connections";
        let mut family =
            encoder.encode_descriptor(name, "Connections by what they do", None, MetricType::Gauge)?;
        let states = [("reading", Count::Reading), ("writing", Count::Writing), ("waiting", Count::Waiting)];
        for (state, count) in states {
            let value = i64::try_from(total(count)).unwrap_or(i64::MAX);
            family.encode_family(&[("state", state)])?.encode_gauge(&value)?;
        }
        let counters = [
            ("connections_accepted", "Connections that clients opened", Count::Accepted),
            ("connections_handled", "Connections that there was a place for", Count::Handled),
            ("requests", "Requests, those of broken heads included", Count::Requests),
            ("patterns_given_up", "Regular expressions that took too many steps", Count::PatternsGivenUp),
        ];
        let totals = counters.map(|(name, help, count)| (name, help, total(count)));
        let lost = ("log_lines_lost", "Lines of logs that could not be written", journal::lost_lines());
        for (name, help, total) in totals.into_iter().chain([lost]) {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&total, None)?;
        }
        let (name, help) = ("file_cache_lookups", "Looks for files by what open_file_cache had");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (result, count) in [("hit", Count::FileCacheHits), ("miss", Count::FileCacheMisses)] {
            let labels = [("result", result)];
            let mut metric = family.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&total(count), None)?;
        }
        Ok(())
    }
}

/// The configuration that serves, and the result of reloads.
#[derive(Debug)]
struct Configuration;

impl Collector for Configuration {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let reloads = reloads::get();
        let (name, help) = ("reloads", "Reloads since the supervisor was started");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (result, count) in [("success", reloads.succeeded), ("failure", reloads.failed)] {
            let labels = [("result", result)];
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        let gauges = [
            (
                "configuration_generation",
                "The number of the configuration that serves",
                u64::from(reloads.generation),
            ),
            ("configuration_since_timestamp_seconds", "When it took effect, since 1970", reloads.since),
        ];
        for (name, help, value) in gauges {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

/// The certificates that are served.
#[derive(Debug)]
struct Certificates(Arc<[Validity]>);

impl Collector for Certificates {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let (name, help) =
            ("certificate_not_after_timestamp_seconds", "When certificates end to be valid, since 1970");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for Validity { names, serial, end, .. } in &*self.0 {
            let labels = [("names", &**names), ("serial", &**serial)];
            family.encode_family(&labels)?.encode_gauge(end)?;
        }
        Ok(())
    }
}

/// How many requests had each result.
type Results = [(CacheStatus, u64); CacheStatus::ALL.len()];

/// What caches hold, and what happened to requests: name, sizes, and how many had each result.
#[derive(Debug)]
struct Caches(Vec<(Box<str>, Totals, Results)>);

impl Collector for Caches {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) = ("cache_requests", "Requests that may use a cache, by result");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (zone, _, counts) in &self.0 {
            for (status, count) in counts.iter().filter(|(_, count)| *count > 0) {
                let labels = [("zone", &**zone), ("status", status.text())];
                family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(count, None)?;
            }
        }
        let (name, help) = ("cache_evictions", "Responses that were removed for lack of use or of room");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (zone, totals, _) in &self.0 {
            let labels = [("zone", &**zone)];
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&totals.evicted, None)?;
        }
        let (name, help) = ("cache_age", "How old the kept responses were that were sent, together");
        let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Counter)?;
        for (zone, totals, _) in &self.0 {
            let labels = [("zone", &**zone)];
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&totals.ages_s, None)?;
        }
        let mut gauge = |name, help, unit: Option<&Unit>, tiers: &dyn Fn(&Totals) -> [u64; 2]| {
            let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            for (zone, totals, _) in &self.0 {
                for (tier, value) in ["disk", "memory"].into_iter().zip(tiers(totals)) {
                    let labels = [("zone", &**zone), ("tier", tier)];
                    family.encode_family(&labels)?.encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX))?;
                }
            }
            Ok(())
        };
        gauge(
            "cache_objects",
            "Responses that are kept in files, and those that are kept in memory; many are in both",
            None,
            &|totals| [totals.files as u64, totals.ready_objects as u64],
        )?;
        gauge("cache_size", "How much room they take", Some(&Unit::Bytes), &|totals| {
            [totals.disk_bytes, totals.memory_bytes as u64]
        })
    }
}

fn info(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, labels: &[Label<'_>]) -> fmt::Result {
    encoder.encode_descriptor(name, help, None, MetricType::Info)?.encode_info(&labels)
}

/// What was answered, place by place.
#[derive(Debug)]
struct Places(Vec<(Key, Sums)>);

fn labels(key: &Key) -> [Label<'_>; 2] {
    [("server", &key.0), ("location", &key.1)]
}

impl Collector for Places {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) = ("responses", "Responses by server, location and status");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (key, sums) in &self.0 {
            let [server, location] = labels(key);
            for (status, count) in &sums.statuses {
                let status = status.map_or_else(|| "other".to_owned(), |status| status.to_string());
                let labels = [server, location, ("status", &status)];
                let mut metric = family.encode_family(&labels)?;
                metric.encode_counter::<NoLabelSet, _, u64>(count, None)?;
            }
        }
        let (name, help) = ("response", "Bytes sent, heads included");
        let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Counter)?;
        for (key, sums) in &self.0 {
            let labels = labels(key);
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&sums.bytes, None)?;
        }
        let (name, help) = ("request_duration", "From a request's first byte to the last one of its answer");
        let mut family =
            encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (key, sums) in &self.0 {
            let ends = BUCKETS_S.into_iter().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = ends.zip(sums.buckets).collect();
            let count = sums.buckets.iter().sum();
            let labels = labels(key);
            let mut metric = family.encode_family(&labels)?;
            metric.encode_histogram::<NoLabelSet>(sums.seconds, count, &buckets, None)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tally::place;
    use super::{Groups, text};
    use std::time::Duration;

    #[test]
    fn metrics_of_a_place() {
        let place = place("a.example", "~ \"\\.php$\"");
        place.count(200, 1_000, Duration::from_millis(2));
        let text = text(&Groups::default()).unwrap();
        let labels = "server=\"a.example\",location=\"~ \\\"\\\\.php$\\\"\"";
        for line in [
            format!("fulmar_responses_total{{{labels},status=\"200\"}} 1"),
            format!("fulmar_response_bytes_total{{{labels}}} 1000"),
            format!("fulmar_request_duration_seconds_count{{{labels}}} 1"),
            format!("fulmar_request_duration_seconds_bucket{{le=\"0.001\",{labels}}} 0"),
            format!("fulmar_request_duration_seconds_bucket{{le=\"0.0025\",{labels}}} 1"),
            format!("fulmar_request_duration_seconds_bucket{{le=\"+Inf\",{labels}}} 1"),
            "# TYPE fulmar_connections gauge".to_owned(),
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
