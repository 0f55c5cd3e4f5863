//! What a server costs in a month: for small files, and for the pages of an application.

use std::cmp::Reverse;

use super::document::{Part, Table, Text};
use super::format;
use super::lead::FAILED_MAX;
use super::overview::Overview;
use super::prices::Prices;
use super::summary::Work;
use crate::judge::statistics::Estimate;
use crate::model::experiment::Kind;
use crate::model::figure::Figure;

/// A file that costs hardly more than its request.
const SMALL_BYTES: u64 = 10 * 1024;

impl<'a> Overview<'a> {
    /// What a month costs: one table for a small file, and one for each application.
    pub(super) fn costs(&self) -> Vec<Part> {
        let mut parts = self.costs_of_files();
        let applications: Vec<Part> = self
            .applications()
            .into_iter()
            .map(|(work, clients)| Part::Table(self.rented(work, clients)))
            .collect();
        if !applications.is_empty() {
            parts.push(Part::Heading("A rented server for an application".into()));
            parts.push(Part::Text(self.rented_assumptions().into()));
            parts.extend(applications);
        }
        parts
    }

    /// Each application, by its load that answers a question, else by the load that most servers ran; with the largest
    /// number of clients that all of them had.
    fn applications(&self) -> Vec<(&'a Work<'a>, u32)> {
        let mut names: Vec<&str> =
            self.works.iter().filter_map(|work| work.load.application.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        let of = |name: &&str| {
            let works = self.works.iter().filter(|work| work.load.application.as_deref() == Some(*name));
            let ranked = works.enumerate().filter_map(|(place, work)| {
                let (most, clients) = self.known(work)?;
                Some(((work.load.need.is_some(), most, Reverse(place)), work, clients))
            });
            ranked.max_by_key(|(rank, ..)| *rank).map(|(_, work, clients)| (work, clients))
        };
        names.iter().filter_map(of).collect()
    }

    /// The smallest machine of the price list for the users of `lab/prices.toml`, beside the published one.
    fn rented(&self, work: &Work<'a>, clients: u32) -> Table {
        let prices = self.prices;
        let caption =
            format!("A server for {}: {}", self.users(), format::titled(&work.title(), &work.at(clients)));
        let columns =
            ["Server", "#CPU, µs a page", "#memory, MiB", "#cores needed", "Smallest machine", "Published"];
        let mut table = Table::new(caption, columns);
        let rate = prices.users.pages_per_s();
        let mut rows: Vec<(f64, Vec<Text>)> = Vec::new();
        for name in &work.contenders {
            let Some((cpu, memory, turns)) = self.cpu_and_memory(work, name, clients) else { continue };
            let cores = prices.cores(rate, cpu.median);
            let machine = prices.machine(cores, memory.median);
            let fault = self.summary.fault(work, name);
            let shown = match machine {
                _ if fault.failed > FAILED_MAX => format!("not compared: {}", fault.words()),
                Some(machine) => prices.named(machine),
                None => "larger than all of the list".to_owned(),
            };
            rows.push((
                cores,
                vec![
                    (*name).into(),
                    format::estimate(Figure::CpuUsPerRequest, cpu, turns),
                    format::value(Figure::MemoryBytes, memory.median).into(),
                    format::number((cores * 100.0).round() / 100.0).into(),
                    shown.into(),
                    self.published_machine(name).unwrap_or("–").into(),
                ],
            ));
        }
        rows.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        rows.into_iter().for_each(|(_, cells)| table.row(cells));
        table
    }

    /// The machine that a publication names for a server.
    fn published_machine(&self, contender: &str) -> Option<&str> {
        let stated = self.answers.iter().flat_map(|(experiment, _)| &experiment.stated);
        let mut of_it =
            stated.filter(|one| one.subject == self.prices.users.stated && one.contender == contender);
        of_it.next().map(|one| one.says.as_str())
    }

    fn users(&self) -> String {
        format!("{} users", format::count(self.prices.users.count as usize))
    }

    fn rented_assumptions(&self) -> String {
        let Prices { users, busy_max, system_gib, .. } = self.prices;
        format!(
            "{} load a page every {} s: that is {} pages per second, each answered by the application. The CPU time is \
             that of the server with PHP; the database needs CPU and memory besides. A core is kept at most {} busy, and the \
             system takes {} GiB. The last column shows what a publication names for as many users.",
            self.users(),
            format::tick(users.page_every_s),
            format::number(users.pages_per_s().round()),
            format::percent(*busy_max),
            format::tick(*system_gib),
        )
    }

    /// A server's CPU time and memory, and in how many turns they were measured.
    fn cpu_and_memory(
        &self,
        work: &Work<'_>,
        name: &str,
        clients: u32,
    ) -> Option<(Estimate, Estimate, usize)> {
        let cell = work.cell(name, clients);
        let (cpu, turns) = self.summary.estimate(&cell, Figure::CpuUsPerRequest)?;
        Some((cpu, self.summary.estimate(&cell, Figure::MemoryBytes)?.0, turns))
    }

    fn costs_of_files(&self) -> Vec<Part> {
        let Some((work, clients)) = self.costed() else { return Vec::new() };
        let prices = self.prices;
        let columns =
            ["Server", "#CPU, µs a request", "#memory, MiB", "#requests/s of one core"].map(str::to_owned);
        let rates =
            prices.rates.iter().map(|rate| format!("#a month at {} requests/s", format::number(*rate)));
        let caption = format!("What it costs: {}", format::titled(&work.title(), &work.at(clients)));
        let mut table = Table::new(caption, columns.into_iter().chain(rates));
        let mut rows: Vec<(f64, Vec<Text>)> = Vec::new();
        for name in &work.contenders {
            let Some((cpu, memory, turns)) = self.cpu_and_memory(work, name, clients) else { continue };
            let month = |rate: &f64| prices.month(*rate, cpu.median, memory.median);
            let mut cells = vec![
                (*name).into(),
                format::estimate(Figure::CpuUsPerRequest, cpu, turns),
                format::value(Figure::MemoryBytes, memory.median).into(),
                format::number((1e6 / cpu.median).round()).into(),
            ];
            cells.extend(prices.rates.iter().map(|rate| Text::from(prices.amount(month(rate)))));
            rows.push((prices.rates.iter().map(month).fold(0.0, f64::max), cells));
        }
        rows.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        for (_, cells) in rows {
            table.row(cells);
        }
        vec![Part::Text(self.assumptions(work, clients).into()), Part::Table(table)]
    }

    fn assumptions(&self, work: &Work<'_>, clients: u32) -> String {
        let prices = self.prices;
        format!(
            "Computed from the CPU time and memory measured in “{}” of “{}” at {}. The lab prefers a load with kept \
             connections and a file of at most {}, then the load that most servers ran, then the smallest file, at the \
             largest number of clients that all servers had. A core costs {} and a GiB {} a month ({}). A core is kept at \
             most {} busy, which leaves room for peaks. The system takes {} GiB. A rented core is assumed to be as fast as a \
             core here. Bandwidth, disks and work are not included. For other prices change lab/prices.toml.",
            work.load.title,
            work.experiment.title,
            work.at(clients),
            format::bytes(SMALL_BYTES as f64),
            prices.amount(prices.core_month),
            prices.amount(prices.gib_month),
            prices.source,
            format::percent(prices.busy_max),
            format::tick(prices.system_gib),
        )
    }

    /// The load that costs are computed from, and its number of clients. Kept connections and a small file count first,
    /// then the number of servers whose CPU and memory are known, then the smallest file, then the first load.
    fn costed(&self) -> Option<(&Work<'_>, u32)> {
        let loads = self.works.iter().enumerate().filter(|(_, work)| work.load.kind == Kind::Load);
        let ranked = loads.filter_map(|(place, work)| {
            let (most, clients) = self.known(work)?;
            let bytes = asked_bytes(work);
            let rank = (is_plain(work) && bytes <= SMALL_BYTES, most, Reverse(bytes), Reverse(place));
            Some((rank, work, clients))
        });
        ranked.max_by_key(|(rank, ..)| *rank).map(|(_, work, clients)| (work, clients))
    }

    /// The number of servers whose CPU and memory are known, and the largest number of clients at which most are.
    fn known(&self, work: &Work<'_>) -> Option<(usize, u32)> {
        let known = |clients: u32| {
            let is_known = |name: &&&str| self.cpu_and_memory(work, name, clients).is_some();
            work.contenders.iter().filter(is_known).count()
        };
        let (most, clients) = work.clients.iter().map(|clients| (known(*clients), *clients)).max()?;
        (most > 0).then_some((most, clients))
    }
}

/// Whether a load asks on kept connections, as fast as it is answered, and for nothing but a file.
fn is_plain(work: &Work<'_>) -> bool {
    let load = work.load;
    load.keep_alive
        && load.pipeline == 1
        && load.tls.is_none()
        && load.backend.is_none()
        && load.rate.is_none()
}

/// The length of the file that a load asks for; the largest number where it asks for no file.
fn asked_bytes(work: &Work<'_>) -> u64 {
    let path = work.load.path.split('?').next().unwrap_or_default().trim_start_matches('/');
    let path = if path.is_empty() { "index.html" } else { path };
    let file = work.experiment.files.iter().find(|file| file.path.trim_start_matches('/') == path);
    file.map_or(u64::MAX, |file| file.length)
}
