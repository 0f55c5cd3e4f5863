//! The load tools that are installed, run for real: each has to send what it was told to, and to be understood.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result};
use lab::measure::tool::{self, Report, Tool};
use lab::model::figure::Figure;
use lab::model::order::{Amount, Order, Protocol, ToolName};

const CONTENT: &str = "sixteen letters!";

/// What a server saw.
#[derive(Default)]
struct Seen {
    connections: AtomicU64,
    requests: AtomicU64,
    other: AtomicU64,
}

/// A server that answers every request on a thread for each connection, as long as the process lives.
fn serve() -> Result<(SocketAddr, Arc<Seen>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let seen = Arc::new(Seen::default());
    let counts = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            counts.connections.fetch_add(1, Ordering::Relaxed);
            let counts = Arc::clone(&counts);
            thread::spawn(move || answer(&stream, &counts));
        }
    });
    Ok((address, seen))
}

/// Answers until the client ends or wants the connection closed.
fn answer(stream: &TcpStream, seen: &Seen) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut first, mut field) = (String::new(), String::new());
        if reader.read_line(&mut first).ok()? == 0 {
            return None;
        }
        let mut kept = first.trim_end().ends_with("HTTP/1.1");
        while reader.read_line(&mut field).ok()? > 2 {
            match field.trim_end().to_ascii_lowercase().as_str() {
                "connection: close" => kept = false,
                "connection: keep-alive" => kept = true,
                _ => {}
            }
            field.clear();
        }
        let right = first.starts_with("GET /1k?a=b HTTP/1.");
        (if right { &seen.requests } else { &seen.other }).fetch_add(1, Ordering::Relaxed);
        let connection = if kept { "keep-alive" } else { "close" };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 16\r\nConnection: {connection}\r\n\r\n");
        (&*stream).write_all((head + CONTENT).as_bytes()).ok()?;
        if !kept {
            return None;
        }
    }
}

fn run(tool: &Tool, order: &Order) -> Result<Report> {
    let arguments = (tool.arguments)(order)?;
    let output = Command::new(tool.program).args(&arguments).output()?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (tool.read)(order, &text).with_context(|| format!("{} {arguments:?} printed {text}", tool.name))
}

#[test]
fn installed_tools_do_what_they_are_told() {
    let mut run_with: BTreeMap<ToolName, u32> = BTreeMap::new();
    for tool in tool::ALL.iter().filter(|tool| tool.name != ToolName::FulmarLab) {
        if let Err(why) = tool::find(tool) {
            println!("{}: {why:#}", tool.name);
            continue;
        }
        for (keep_alive, amount, rate) in [
            (true, Amount::Requests(200), None),
            (false, Amount::Requests(200), None),
            (true, Amount::Seconds(1.0), None),
            (true, Amount::Seconds(1.0), Some(100.0)),
        ] {
            let (address, seen) = serve().unwrap();
            let folder = tempfile::tempdir().unwrap();
            let order = Order {
                address,
                path: "/1k?a=b".into(),
                clients: 4,
                amount,
                keep_alive,
                pipeline: 1,
                tls: None,
                protocol: Protocol::Http1,
                rate,
                fields: vec!["X-Lab: yes".into()],
                numbers: None,
                body_bytes: None,
                threads: 1,
                has_own_cores: false,
                folder: folder.path().to_path_buf(),
            };
            if tool.cannot(&order).is_some() {
                continue;
            }
            let report = run(tool, &order).unwrap();
            look(tool, &order, &report, &seen);
            *run_with.entry(tool.name).or_default() += 1;
        }
    }
    println!("{run_with:?}");
}

/// Holds what a tool says against what the server saw.
fn look(tool: &Tool, order: &Order, report: &Report, seen: &Seen) {
    let [requests, connections, other] =
        [&seen.requests, &seen.connections, &seen.other].map(|count| count.load(Ordering::Relaxed));
    let what = format!("{} {order:?}: {report:?}, and seen {requests}/{connections}/{other}", tool.name);
    assert_eq!(other, 0, "{what}");
    assert_eq!(report.figures[&Figure::Failed], 0.0, "{what}");
    assert!(report.requests > 0 && report.requests <= requests, "{what}");
    for figure in [Figure::RequestsPerS, Figure::TotalS] {
        assert!(report.figures[&figure] > 0.0, "{what}");
    }
    match order.amount {
        Amount::Requests(count) => assert_eq!((report.requests, requests), (count, count), "{what}"),
        // A request for each client may be on its way when the time is over.
        Amount::Seconds(_) if order.rate.is_none() => assert!(requests - report.requests <= 8, "{what}"),
        Amount::Seconds(_) => {}
    }
    if order.keep_alive {
        // Some look at the target once before they begin.
        assert!(connections <= 2 * u64::from(order.clients) + 2, "{what}");
    } else {
        assert!(connections >= requests, "{what}");
    }
}
