//! `fulmar-lab doctor`: whether this machine can give figures that are worth something.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use rustix::process::{Resource, getrlimit};

use super::progress::Progress;
use super::say::{self, say};
use super::{Common, interrupted};
use crate::judge::comparison::Comparison;
use crate::measure::engine::{self, Lineup, Results, Settings};
use crate::measure::system::{self, Ticks};
use crate::model::block;
use crate::model::experiment::Experiment;
use crate::model::figure::Figure;
use crate::model::machine::Machine;

/// What the doctor takes.
#[derive(Clone, Debug, Args)]
pub(super) struct DoctorArguments {
    /// The contender that is measured against itself.
    #[arg(default_value = "nginx")]
    of: String,
    /// Pairs of blocks of that measurement; 0 leaves it out.
    #[arg(long, default_value_t = 5)]
    turns: u32,
    /// The folder of the results.
    #[arg(long, default_value = "target/doctor")]
    out: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// The settings of the kernel that the study of static files set in 2016, and their values there.
const PUBLISHED: &[(&str, &str)] = &[
    ("fs.file-max", "5000000"),
    ("net.core.netdev_max_backlog", "400000"),
    ("net.core.optmem_max", "10000000"),
    ("net.core.rmem_default", "10000000"),
    ("net.core.rmem_max", "10000000"),
    ("net.core.somaxconn", "100000"),
    ("net.core.wmem_default", "10000000"),
    ("net.core.wmem_max", "10000000"),
    ("net.ipv4.conf.all.rp_filter", "1"),
    ("net.ipv4.conf.default.rp_filter", "1"),
    ("net.ipv4.ip_local_port_range", "1024 65535"),
    ("net.ipv4.tcp_congestion_control", "bic"),
    ("net.ipv4.tcp_ecn", "0"),
    ("net.ipv4.tcp_max_syn_backlog", "12000"),
    ("net.ipv4.tcp_max_tw_buckets", "2000000"),
    ("net.ipv4.tcp_mem", "30000000 30000000 30000000"),
    ("net.ipv4.tcp_rmem", "30000000 30000000 30000000"),
    ("net.ipv4.tcp_sack", "1"),
    ("net.ipv4.tcp_syncookies", "0"),
    ("net.ipv4.tcp_timestamps", "1"),
    ("net.ipv4.tcp_wmem", "30000000 30000000 30000000"),
    ("net.ipv4.tcp_tw_recycle", "1"),
    ("net.ipv4.tcp_tw_reuse", "1"),
];

/// Prints what is known of the machine, and measures how much a contender differs from itself.
pub(super) fn main(arguments: &DoctorArguments) -> Result<ExitCode> {
    let lineup = arguments.common.lineup()?;
    if arguments.turns > 0 {
        lineup.find(&arguments.of)?;
    }
    let machine = Machine::this();
    say!("Machine");
    say!("  {} cores of {}", machine.cores, machine.processor);
    say!("  {:.1} GB of memory; {}; {}", machine.memory_bytes as f64 / 1e9, machine.kernel, machine.system);
    let governor = if machine.governor.is_empty() { "unknown" } else { &machine.governor };
    say!("  governor of the frequency: {governor}");
    say!(
        "  load average {:.2}, taken by the hypervisor since the start: {:.0} s",
        system::load_average(),
        Ticks::now().stolen_s()
    );
    let limit = getrlimit(Resource::Nofile);
    let number = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    say!("  open files: {}, at most {}", number(limit.current), number(limit.maximum));
    for remark in remarks(&machine) {
        say!("  ! {remark}");
    }
    say!("\nSettings of the kernel: the study of 2016, and today's");
    for (name, published) in PUBLISHED {
        say!("  {name:<36} {published:<28} {}", today(name));
    }
    say!("  tcp_tw_recycle lost connections of clients behind one address; Linux has not had it since 4.12.");
    if arguments.turns > 0 {
        noise(arguments, &lineup)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What makes figures of this machine less sure.
fn remarks(machine: &Machine) -> Vec<String> {
    let mut remarks = Vec::new();
    if machine.cores < 2 {
        remarks.push("one core: tools and contenders take time from each other".to_owned());
    }
    if machine.virtual_machine {
        remarks.push(
            "a virtual machine: its neighbours cost time; only ratios of one interleaved run count".into(),
        );
    }
    if !matches!(machine.governor.as_str(), "" | "performance") {
        remarks.push(format!("the governor {} changes the frequency under load", machine.governor));
    }
    if system::load_average() > 0.5 {
        remarks.push("something else is running".into());
    }
    remarks
}

fn today(name: &str) -> String {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    let value = fs::read_to_string(path).unwrap_or_else(|_| "(none)".into());
    value.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// The same contender twice: what two equal servers seem to differ by.
fn noise(arguments: &DoctorArguments, lineup: &Lineup) -> Result<()> {
    let name = arguments.of.as_str();
    say!("\nNoise: {name} against itself, {} pairs", arguments.turns);
    let mut experiments = super::chosen(Experiment::built_in()?, &["costs".to_owned()])?;
    for experiment in &mut experiments {
        experiment.contenders = vec![name.to_owned()];
        experiment.loads.truncate(1);
    }
    let interrupted = interrupted()?;
    say::interrupt_when_unread(&interrupted);
    let settings = Settings {
        out: arguments.out.clone(),
        quick: false,
        minutes: None,
        turns: Some(arguments.turns),
        block_s: 0.0,
        window: None,
        resume: false,
        known: &[],
        only: Vec::new(),
        selection: None,
        interrupted: &interrupted,
    };
    let _taken = Results::take(&arguments.out)?;
    let mut progress = Progress::new(false);
    engine::run(&settings, &experiments, lineup, &mut |event| progress.tell(&event))?;
    progress.end();
    let blocks = block::read(&arguments.out.join(block::FILE))?;
    let blocks: Vec<_> = blocks.iter().collect();
    let twin = block::twin_of(name);
    for figure in [Figure::CpuUsPerRequest, Figure::RequestsPerS] {
        let comparison = Comparison::of(&blocks, [&twin, name], figure);
        let ratio = comparison.context("nothing was measured: see the lines above")?.ratio;
        say!("  {figure}: {:.3} ({:.3} – {:.3})", ratio.median, ratio.low, ratio.high);
    }
    Ok(())
}
