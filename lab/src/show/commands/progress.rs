//! What a run shows while it goes on: a bar with the time that is left, and a line for each block.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::say::say;
use crate::measure::engine::{Event, Shortened};
use crate::model::block::Block;
use crate::model::experiment::Experiment;
use crate::model::figure::Figure;

/// The bar of the loads that are being measured.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Whether there are several, which lines have to name.
    several: bool,
    /// Whether contenders that answer as they should are shown.
    ready: bool,
    /// When it began, and how long all takes by the estimate.
    began: Instant,
    estimate: Duration,
}

impl Progress {
    /// With a line for each block, and with `ready` also for each contender that answers as it should.
    pub(super) fn new(ready: bool) -> Progress {
        Progress {
            bar: ProgressBar::hidden(),
            several: false,
            ready,
            began: Instant::now(),
            estimate: Duration::ZERO,
        }
    }

    /// Shows an event.
    pub(super) fn tell(&mut self, event: &Event<'_>) {
        match event {
            Event::PutAside(folder) => {
                say!("What was measured before has been moved to {}", folder.display());
            }
            // Nothing is measured where contenders are only checked.
            Event::Estimate(experiments) if experiments.iter().all(|(_, seconds)| *seconds == 0.0) => {}
            Event::Estimate(experiments) => {
                let seconds = experiments.iter().map(|(_, seconds)| seconds).sum();
                (self.began, self.estimate) =
                    (Instant::now(), Duration::try_from_secs_f64(seconds).unwrap_or_default());
                say!("{}", estimate(experiments));
            }
            Event::Shortened(to) => say!("{}", shortened(*to)),
            Event::Loads { turn, experiment, loads, blocks } => {
                self.bar.finish_and_clear();
                self.several = loads.len() > 1;
                let titles: Vec<&str> = loads.iter().map(|load| load.title.as_str()).collect();
                let in_turn = if self.several { " (in turn)" } else { "" };
                let left = self.estimate.saturating_sub(self.began.elapsed());
                let left = left_in_all(left).map_or(String::new(), |left| format!(" – {left}"));
                let turn = turn.map_or(String::new(), |(turn, of)| format!("turn {turn} of {of}, "));
                say!("{turn}{}: {}{in_turn}{left}", experiment.id, titles.join("; "));
                self.bar = ProgressBar::new(u64::try_from(*blocks).unwrap_or_default());
                let style = ProgressStyle::with_template("  {bar:30} {pos}/{len}, {eta} left");
                self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            }
            Event::Ready { contender, head_bytes } if self.ready => {
                self.bar.suspend(|| {
                    say!("  {contender:<18} answers as it should, with a head of {head_bytes} bytes")
                });
            }
            Event::Ready { .. } => {}
            Event::Block(block) => {
                self.bar.suspend(|| say!("  {}", line(block, self.several)));
                // More turns may follow than there were to be.
                self.bar.set_length(self.bar.length().unwrap_or_default().max(self.bar.position() + 1));
                self.bar.inc(1);
            }
        }
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// What is left of the run, if it is worth a word.
fn left_in_all(left: Duration) -> Option<String> {
    let minutes = left.as_secs().div_ceil(60);
    match minutes {
        0 | 1 => None,
        2..120 => Some(format!("about {minutes} minutes left in all")),
        _ => Some(format!("about {:.1} hours left in all", left.as_secs_f64() / 3600.0)),
    }
}

fn shortened(to: Shortened) -> String {
    match to {
        Shortened::Part(share) => format!("blocks of {:.0} % of a quick run's", share * 100.0),
        Shortened::Seconds(seconds) => {
            format!("blocks end after {seconds:.1} s, those with many clients later")
        }
    }
}

fn estimate(experiments: &[(&Experiment, f64)]) -> String {
    let minutes = |seconds: f64| match seconds / 60.0 {
        minutes if minutes < 9.95 => format!("{minutes:.1}"),
        minutes => format!("{minutes:.0}"),
    };
    let time = |seconds: f64| match seconds / 3600.0 {
        hours if hours < 4.95 => format!("{} minutes", minutes(seconds)),
        hours if hours < 47.5 => format!("{hours:.1} hours, in minutes"),
        hours => format!("{:.1} days, in minutes", hours / 24.0),
    };
    let parts = experiments.iter().filter(|(_, seconds)| *seconds > 0.0);
    let parts: Vec<String> =
        parts.map(|(experiment, seconds)| format!("{} {}", experiment.id, minutes(*seconds))).collect();
    let all = experiments.iter().map(|(_, seconds)| seconds).sum();
    format!("This takes about {}: {}", time(all), parts.join(", "))
}

fn line(block: &Block, several: bool) -> String {
    let cell = &block.cell;
    let load = if several { format!("{:<16} ", cell.load) } else { String::new() };
    let start = format!("{load}{:<18} {:>6} clients", cell.contender, cell.clients);
    if let Some(failure) = &block.failure {
        return format!("{start}  – {failure}");
    }
    let figure = |figure: Figure| block.figures.get(&figure).copied();
    let mut text = start;
    if let Some(rate) = figure(Figure::RequestsPerS) {
        text += &format!("  {rate:>9.0} requests/s");
    }
    if let Some(cpu) = figure(Figure::CpuUsPerRequest) {
        text += &format!("  {cpu:>7.1} µs CPU");
    }
    if let Some(memory) = figure(Figure::MemoryBytes) {
        text += &format!("  {:>7.1} MB", memory / 1e6);
    }
    if let Some(bytes) = figure(Figure::MemoryPerConnectionBytes) {
        text += &format!("  {bytes:>7.0} bytes a connection");
    }
    if let Some(failed) = figure(Figure::Failed).filter(|failed| *failed > 0.0) {
        text += &format!("  {failed} FAILED");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::block::tests::block;

    #[test]
    fn what_is_left_is_told_in_minutes_or_hours() {
        let left = |seconds: u64| left_in_all(Duration::from_secs(seconds)).unwrap_or_default();
        assert_eq!([left(0), left(60)], ["", ""]);
        assert_eq!([left(61), left(9000)], ["about 2 minutes left in all", "about 2.5 hours left in all"]);
    }

    #[test]
    fn lines_name_the_load_where_there_are_several() {
        let block =
            block("nginx", "access-log", 64, &[(Figure::RequestsPerS, 1234.4), (Figure::Failed, 2.0)]);
        assert_eq!(line(&block, false), "nginx                  64 clients       1234 requests/s  2 FAILED");
        assert!(line(&block, true).starts_with("access-log       nginx "));
    }
}
