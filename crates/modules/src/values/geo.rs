//! Defines a variable whose value depends on an IP address: the client's, or that of another variable.
//!
//! Each line of the block contains a network and a value; the most specific network wins. `default` is the value
//! for other addresses and for a text that is not an address; without it, the value is empty. `delete` removes a
//! network that an included file defined. With `ranges`, which must be the first line, the lines contain ranges of
//! IPv4 addresses (`10.0.0.1-10.0.0.9`). A range inside an earlier range replaces that part; any other overlap is
//! an error.
//!
//! `proxy` lists networks of trusted proxies. For a request from one of them, Fulmar uses the last address of
//! `X-Forwarded-For`; with `proxy_recursive`, the last address that is not a trusted proxy's. With `volatile` the
//! value is computed again at each use. The time of a lookup does not grow with the number of networks. nginx can
//! read ranges from binary files; Fulmar reads the text.
//!
//! ```conf
//! geo $zone {
//!     default       outside;
//!     127.0.0.0/8   here;
//!     ::1           here;
//!     127.0.0.9     odd;
//! }
//! geo $arg_ip $country {
//!     ranges;
//!     192.0.2.0-192.0.2.127  AA;
//!     default                none;
//! }
//! server {
//!     listen 8080;
//!     location / {
//!         return 200 "$zone $country";
//!     }
//! }
//! ```
//!
//! ```http
//! GET /?ip=192.0.2.7 HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! here AA
//! ---
//! GET /?ip=nobody HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//!
//! here none
//! ```

use crate::shared::addresses::{Addresses, Painting};
use crate::shared::forwarded::Proxies;
use crate::shared::{names, networks};
use conf::spec::unexpected_block;
use conf::{Arity, Contexts, Diagnostic, Node, Word};
use contract::{Args, Definition, Directive, Evaluate, Exchange, Loading, Module, Peer, Rule, Template};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::str;
use std::sync::Arc;

/// Variables by address.
pub static MODULE: Module = Module { name: "geo", directives: &[&GEO], variables: &[], compile: None };

/// `geo [$ADDRESS] $VARIABLE { … }`
pub static GEO: Directive<()> = Directive::new("geo", parse)
    .within(Contexts::HTTP.or(Contexts::STREAM))
    .block(Arity::Range(1, 2))
    .rule(Rule::Never)
    .repeats()
    .help("Defines a variable by a table of addresses.");

/// nginx looks up this address for a text that is not an address.
const NO_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);

fn parse(args: &Args<'_>, loading: &mut Loading) -> Result<(), Diagnostic> {
    let (source, name) = match args.words() {
        [source, name] => {
            names::variable(args, name, loading)?;
            if !source.text.starts_with(b"$") {
                let message = format!("invalid variable name \"{source}\"");
                return Err(Diagnostic::emerg(message).at(args.node.span).under(source.span));
            }
            (Some(loading.template(source)?), name)
        }
        _ => (None, args.word(0)?),
    };
    let name = names::variable(args, name, loading)?;
    let mut table = Table::default();
    for entry in args.node.children() {
        table.read(entry, loading)?;
    }
    loading.variables.define(&name, Definition::Evaluated(Arc::new(table.finish(source))));
    Ok(())
}

type Value = Arc<[u8]>;

/// The block while it is read.
#[derive(Default)]
struct Table {
    has_ranges: bool,
    volatile: bool,
    recursive: bool,
    proxies: Vec<IpNet>,
    default: Option<Value>,
    networks: BTreeMap<IpNet, Value>,
    ranges: Ranges,
}

impl Table {
    fn read(&mut self, entry: &Node, loading: &mut Loading) -> Result<(), Diagnostic> {
        let error = |message: &str| Diagnostic::emerg(message).at(entry.span).under(entry.name.span);
        if entry.block.is_some() {
            return Err(unexpected_block(entry));
        }
        match (&*entry.name.text, &*entry.args) {
            (b"ranges", []) if self.networks.is_empty() || self.has_ranges => self.has_ranges = true,
            (b"ranges", []) => {
                return Err(error(
                    "the \"ranges\" directive must be the first directive inside \"geo\" block",
                ));
            }
            (b"proxy_recursive", []) => self.recursive = true,
            (b"volatile", []) => self.volatile = true,
            (b"proxy", [word]) => self.proxies.push(network(entry, word, loading)?),
            (b"default", [word]) if self.has_ranges => {
                if let Some(old) = &self.default {
                    let text = format!(
                        "duplicate default geo range value: \"{word}\", old value: \"{}\"",
                        String::from_utf8_lossy(old)
                    );
                    loading.note(Diagnostic::warn(text).at(entry.span));
                }
                self.default = Some((*word.text).into());
            }
            (b"default", [word]) => {
                let all = [IpNet::from(Ipv4Net::default()), Ipv6Net::default().into()];
                all.into_iter().for_each(|net| self.add_network(entry, net, (*word.text).into(), loading));
            }
            (b"delete", [word]) if self.has_ranges => {
                if !self.ranges.delete(&range(entry, word)?) {
                    let message = format!("no address range \"{word}\" to delete");
                    loading.note(Diagnostic::warn(message).at(entry.span));
                }
            }
            (b"delete", [word]) => {
                let net = network(entry, word, loading)?;
                if self.networks.remove(&net).is_none() {
                    let message = format!("no network \"{word}\" to delete");
                    loading.note(Diagnostic::warn(message).at(entry.span));
                }
            }
            (_, [value]) => self.add(entry, (*value.text).into(), loading)?,
            _ => return Err(error("invalid number of the geo parameters")),
        }
        Ok(())
    }

    fn add(&mut self, entry: &Node, value: Value, loading: &mut Loading) -> Result<(), Diagnostic> {
        let word = &entry.name;
        if !self.has_ranges {
            let net = network(entry, word, loading)?;
            self.add_network(entry, net, value, loading);
            return Ok(());
        }
        let overlaps = |other: RangeInclusive<Ipv4Addr>| {
            let message = format!("range \"{word}\" overlaps \"{}-{}\"", other.start(), other.end());
            Diagnostic::emerg(message).at(entry.span).under(word.span)
        };
        let earlier = self.ranges.add(&range(entry, word)?, &value).map_err(overlaps)?;
        if let Some(earlier) = earlier {
            note_duplicate(entry, "range", [&value, &earlier], loading);
        }
        Ok(())
    }

    fn add_network(&mut self, entry: &Node, net: IpNet, value: Value, loading: &mut Loading) {
        if let Some(earlier) = self.networks.insert(net, Arc::clone(&value)) {
            note_duplicate(entry, "network", [&value, &earlier], loading);
        }
    }

    fn finish(self, source: Option<Template>) -> Geo {
        let mut values = vec![self.default.unwrap_or_default()];
        let mut indexes = HashMap::from([(Arc::clone(&values[0]), 0)]);
        let mut painting = Painting::all(0);
        let mut index = |value: &Value| {
            *indexes.entry(Arc::clone(value)).or_insert_with(|| {
                values.push(Arc::clone(value));
                values.len() - 1
            })
        };
        // The narrowest network counts, so it comes last.
        let mut networks: Vec<_> = self.networks.iter().collect();
        networks.sort_by_key(|(net, _)| net.prefix_len());
        for (net, value) in networks {
            painting.paint(*net, index(value));
        }
        for (start, (end, value)) in &self.ranges.0 {
            painting.paint_range(&((*start).into()..=(*end).into()), index(value));
        }
        Geo {
            source,
            proxies: Proxies::new(self.proxies, self.recursive),
            volatile: self.volatile,
            has_ranges: self.has_ranges,
            addresses: painting.finish(),
            values,
        }
    }
}

pub(super) fn network(entry: &Node, word: &Word, loading: &mut Loading) -> Result<IpNet, Diagnostic> {
    let invalid =
        |_| Diagnostic::emerg(format!("invalid network \"{word}\"")).at(entry.span).under(word.span);
    Ok(networks::network(entry, word, loading).map_err(invalid)?.net)
}

fn note_duplicate(entry: &Node, what: &str, [value, earlier]: [&Value; 2], loading: &mut Loading) {
    let (word, [value, earlier]) =
        (&entry.name, [value, earlier].map(|value| String::from_utf8_lossy(value)));
    let message = format!("duplicate {what} \"{word}\", value: \"{value}\", old value: \"{earlier}\"");
    loading.note(Diagnostic::warn(message).at(entry.span));
}

fn range(entry: &Node, word: &Word) -> Result<RangeInclusive<Ipv4Addr>, Diagnostic> {
    let invalid = || {
        let message = format!("invalid range \"{word}\"");
        Diagnostic::emerg(message).at(entry.span).under(word.span)
    };
    let parsed = str::from_utf8(&word.text).ok().and_then(|text| {
        let (start, end) = text.split_once('-')?;
        Some(start.parse().ok()?..=end.parse().ok()?)
    });
    parsed.filter(|range| range.start() <= range.end()).ok_or_else(invalid)
}

/// Ranges by their starts, with their ends and values; no two overlap. As in nginx they are cut where the third octet
/// begins anew, and what may lie within what, or be deleted, is judged for each piece.
#[derive(Default)]
struct Ranges(BTreeMap<u32, (u32, Value)>);

impl Ranges {
    /// Adds a range, which may take a part of an earlier one. Gives the value of one that is the same, and refuses
    /// what overlaps otherwise.
    fn add(
        &mut self,
        range: &RangeInclusive<Ipv4Addr>,
        value: &Value,
    ) -> Result<Option<Value>, RangeInclusive<Ipv4Addr>> {
        let mut same = None;
        for (start, end) in pieces(range) {
            let around = self.0.range(..=end).next_back().map(|(start, (end, value))| (*start, *end, value));
            if let Some((from, to, value)) = around.filter(|(_, to, _)| *to >= start) {
                let value = Arc::clone(value);
                if start < from || end > to {
                    return Err(from.into()..=to.into());
                }
                if (start, end) == (from, to) {
                    same = Some(value);
                } else {
                    self.0.remove(&from);
                    if from < start {
                        self.0.insert(from, (start - 1, Arc::clone(&value)));
                    }
                    if end < to {
                        self.0.insert(end + 1, (to, value));
                    }
                }
            }
            self.0.insert(start, (end, Arc::clone(value)));
        }
        Ok(same)
    }

    /// Takes a range away; tells whether all of it was there, as it is named.
    fn delete(&mut self, range: &RangeInclusive<Ipv4Addr>) -> bool {
        let mut all = true;
        for (start, end) in pieces(range) {
            if self.0.get(&start).is_some_and(|(to, _)| *to == end) {
                self.0.remove(&start);
            } else {
                all = false;
            }
        }
        all
    }
}

/// The parts of a range that share their first two octets.
fn pieces(range: &RangeInclusive<Ipv4Addr>) -> impl Iterator<Item = (u32, u32)> + use<> {
    let (start, end) = (u32::from(*range.start()), u32::from(*range.end()));
    (start >> 16..=end >> 16).map(move |high| (start.max(high << 16), end.min(high << 16 | 0xffff)))
}

struct Geo {
    source: Option<Template>,
    proxies: Proxies,
    volatile: bool,
    has_ranges: bool,
    addresses: Addresses<usize>,
    /// The values, the default first.
    values: Vec<Value>,
}

impl Geo {
    fn address(&self, exchange: &Exchange) -> Option<IpAddr> {
        let Some(source) = &self.source else {
            return self.proxies.address(exchange, &exchange.connection.peer);
        };
        let text = source.evaluate(exchange);
        let address: IpAddr = str::from_utf8(&text).ok()?.parse().ok()?;
        self.proxies.address(exchange, &Peer::Inet((address, 0).into()))
    }
}

impl Evaluate for Geo {
    fn evaluate(&self, exchange: &Exchange, out: &mut Vec<u8>) -> bool {
        let address =
            self.address(exchange).filter(|ip| ip.is_ipv4() || !self.has_ranges).unwrap_or(NO_ADDRESS);
        let value = self.addresses.get(address).and_then(|index| self.values.get(index));
        if let Some(value) = value {
            out.extend_from_slice(value);
        }
        true
    }

    fn is_volatile(&self) -> bool {
        self.volatile
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;
    use contract::Peer;

    /// The value of `$x` for the address in the query.
    fn value(block: &str, ip: &str) -> String {
        let site = Site::location(&format!("geo $args $x {{ {block} }}"));
        site.variable("x", &site.get(&format!("/?{ip}")))
    }

    #[test]
    fn the_narrowest_network_counts() {
        let block =
            "default d; 10.1.2.0/24 c; 10.0.0.0/8 a; 10.1.0.0/16 b; 2001:db8::/32 6; delete 10.1.2.0/24;";
        let find = |ip| value(block, ip);
        assert_eq!([find("10.9.9.9"), find("10.1.2.3"), find("11.0.0.1")], ["a", "b", "d"]);
        assert_eq!([find("2001:db8::1"), find("::ffff:10.1.0.1"), find("x"), find("")], ["6", "b", "d", "d"]);
        assert_eq!(value("10.0.0.0/8 a;", "9.0.0.1"), "");
        assert_eq!(value("255.255.255.255 none; default d;", "nobody"), "none");
    }

    #[test]
    fn ranges() {
        let block = "ranges; default d; 10.0.0.0-10.0.0.9 a; 10.0.0.4-10.0.0.5 b; 10.0.1.0-10.0.1.9 c; \
                     delete 10.0.1.0-10.0.1.9;";
        assert!(
            Site::error("geo $x { ranges; 10.0.0.0-10.0.0.9 a; 10.0.0.5-10.0.1.0 b; }").contains("overlaps")
        );
        let values: String = ["10.0.0.3", "10.0.0.4", "10.0.0.6", "10.0.0.10", "10.0.1.1", "::1"]
            .map(|ip| value(block, ip))
            .concat();
        assert_eq!(values, "abaddd");
    }

    #[test]
    fn behind_proxies() {
        let site = |more: &str| {
            Site::location(&format!(
                "geo $x {{ proxy 127.0.0.1; proxy 10.0.0.0/8; {more} 192.0.2.1 one; 10.0.0.0/8 inner; \
                 192.0.2.2 two; }}"
            ))
        };
        let find = |site: &Site, peer: &str, forwarded: &str| {
            let peer = Peer::Inet((peer.parse::<std::net::IpAddr>().unwrap(), 1).into());
            let mut exchange = site.request("/", peer);
            exchange.request.head.fields.push(b"X-Forwarded-For", forwarded.as_bytes()).unwrap();
            site.variable("x", &exchange)
        };
        let (once, recursive) = (site(""), site("proxy_recursive;"));
        assert_eq!(find(&once, "127.0.0.1", "192.0.2.1, 10.0.0.1"), "inner");
        assert_eq!(find(&recursive, "127.0.0.1", "192.0.2.2, 192.0.2.1, 10.0.0.1"), "one");
        assert_eq!(find(&once, "192.0.2.2", "192.0.2.1"), "two");
    }

    #[test]
    fn messages() {
        let error = |block: &str| Site::error(&format!("geo $x {{ {block} }}"));
        assert_eq!(error("10.0.0.0/33 a;"), "invalid network \"10.0.0.0/33\"");
        assert_eq!(error("a b c;"), "invalid number of the geo parameters");
        assert_eq!(error("ranges; 10.0.0.2-10.0.0.1 a;"), "invalid range \"10.0.0.2-10.0.0.1\"");
        assert!(error("10.0.0.1 a; ranges;").contains("must be the first"));
    }
}
