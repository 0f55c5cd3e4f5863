//! The report in a browser: what is seen on a desk, on a phone, in the dark and on paper.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::fixture;

/// What a page says about itself once it is shown: a script that only the copy for this test holds, in which the
/// policy that forbids scripts is taken out.
const PROBE: &str = r#"<script>
addEventListener('load', () => {
  const isWhole = location.hash === '#all';
  if (isWhole) document.querySelectorAll('details').forEach(fold => { fold.open = true; });
  const sections = [...document.querySelectorAll('section')].filter(section => section.getClientRects().length > 0);
  const first = sections.flatMap(section => [...section.querySelectorAll('svg.chart')]).find(chart => chart.getClientRects().length > 0);
  const seen = [...document.querySelectorAll('p.lead, .columns td, .columns th, .columns svg.chart text')].filter(element => {
    const box = element.getBoundingClientRect();
    return box.height > 0 && box.top >= 0 && box.bottom <= innerHeight;
  });
  const all = [...document.querySelectorAll('*')];
  const inside = element => element.closest('.wide, pre, svg, details:not([open])');
  const out = all.filter(element => !inside(element) && element.getBoundingClientRect().right > innerWidth + 1);
  const charts = [...document.querySelectorAll('svg.chart')];
  const drawn = charts.filter(chart => {
    const box = chart.getBoundingClientRect();
    const named = chart.getAttribute('aria-labelledby').split(' ').every(id => document.getElementById(id).textContent);
    return box.width > 200 && box.height > 60 && named && chart.querySelector('.line, .bar, .hist').getBBox().width > 0;
  });
  const texts = charts.flatMap(chart => [...chart.querySelectorAll('text')]);
  const cut = texts.filter(text => {
    const box = text.getBBox(), view = text.ownerSVGElement.viewBox.baseVal;
    return box.x < -1 || box.x + box.width > view.width + 8 || box.y < -1 || box.y + box.height > view.height + 1;
  });
  const light = color => color.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) > 384;
  const style = getComputedStyle(document.body);
  const letters = texts.map(text => text.getBoundingClientRect().height).filter(height => height > 0);
  const table = [...document.querySelectorAll('table')].find(table => table.caption.textContent.startsWith('The published findings'));
  const cells = [...table.rows].slice(1).map(row => [...row.cells].slice(2).map(cell => cell.getBoundingClientRect()));
  const below = cells.filter(([verdict, evidence]) => evidence.top >= verdict.bottom - 1 && evidence.right <= innerWidth && evidence.width > 250);
  const beside = cells.filter(([verdict, evidence]) => evidence.left >= verdict.right - 1 && evidence.right <= innerWidth);
  const found = {
    findings: cells.length, below: below.length, beside: beside.length,
    width: innerWidth, scroll: document.documentElement.scrollWidth, out: out.map(element => element.tagName + '.' + element.className),
    charts: charts.length, drawn: drawn.length, cut: cut.map(text => text.textContent), letter: Math.min(...letters),
    page: location.hash, sections: sections.map(section => section.id), seen: seen.map(element => element.textContent).join(' | '),
    firstTop: first.getBoundingClientRect().top, firstBottom: first.getBoundingClientRect().bottom,
    screens: document.documentElement.scrollHeight / innerHeight,
    scripts: document.scripts.length, images: document.images.length, tables: document.querySelectorAll('table').length,
    handlers: all.filter(element => element.getAttributeNames().some(name => name.startsWith('on'))).length,
    lightPage: light(style.backgroundColor), lightText: light(style.color),
  };
  parent.postMessage(JSON.stringify(found), '*');
});
</script>"#;

/// A page with the report in frames of given widths, in which the frames' findings become text, a line each. A window
/// itself cannot be as narrow as a phone.
const FRAME: &str = r#"<!DOCTYPE html><meta charset="utf-8"><body style="margin:0"><pre id="found"></pre><script>
addEventListener('message', event => { document.getElementById('found').textContent += event.data + '\n'; });
</script>"#;

/// The height of the window.
const HEIGHT: f64 = 900.0;

struct Shown {
    found: serde_json::Value,
}

impl Shown {
    fn number(&self, name: &str) -> f64 {
        self.found[name].as_f64().unwrap_or_else(|| panic!("no {name} in {}", self.found))
    }
}

#[test]
fn the_report_is_shown_well_on_desk_and_phone_by_day_and_night() {
    let Some(chromium) = chromium() else { return };
    let out = report();
    let by_day = show(&chromium, out.path(), &[(390, "#all"), (1280, "#all")], false);
    let by_night = show(&chromium, out.path(), &[(390, "#all")], true);
    for (shown, is_dark) in
        by_day.iter().map(|shown| (shown, false)).chain(by_night.iter().map(|shown| (shown, true)))
    {
        let (found, width) = (&shown.found, shown.number("width"));
        assert!(shown.number("scroll") <= width, "wider than the window: {found}");
        assert_eq!(found["out"], serde_json::json!([]), "outside the window, and not in what scrolls");
        assert!(shown.number("charts") >= 20.0 && shown.number("tables") > 10.0, "{found}");
        assert_eq!(
            found["drawn"], found["charts"],
            "charts of no size, without words or without anything drawn"
        );
        assert_eq!(found["cut"], serde_json::json!([]), "labels that leave their chart");
        let placed = if width < 640.0 { "below" } else { "beside" };
        assert!(shown.number("findings") >= 2.0, "{found}");
        assert_eq!(found["findings"], found[placed], "evidence {placed} the verdict: {found}");
        assert!(shown.number("letter") > 9.0, "letters in charts are too small to read: {found}");
        assert_eq!([&found["lightPage"], &found["lightText"]], [!is_dark, is_dark], "dark: {is_dark}");
        // The only script is the test's own, and no output of a server became an element or a handler.
        assert_eq!([1.0, 0.0, 0.0], ["scripts", "images", "handlers"].map(|name| shown.number(name)));
    }
}

/// The first screen of a page answers what it is about, and no page is long while nothing is unfolded.
#[test]
fn a_page_at_a_time_is_shown_and_begins_with_a_picture() {
    let Some(chromium) = chromium() else { return };
    let out = report();
    let pages =
        [(390, ""), (390, "#static-cores"), (1280, ""), (1280, "#static-cores"), (1280, "#windows-hey-f3")];
    for shown in show(&chromium, out.path(), &pages, false) {
        let (found, width) = (&shown.found, shown.number("width"));
        let page = match found["page"].as_str().unwrap() {
            "" => "short",
            "#static-cores" => "static-cores",
            // A finding is on the page of its experiment.
            _ => "windows-hey",
        };
        assert_eq!(found["sections"], serde_json::json!([page]), "{found}");
        assert!(shown.number("scroll") <= width, "wider than the window: {found}");
        assert_eq!(found["out"], serde_json::json!([]), "outside the window, and not in what scrolls");
        assert!(shown.number("screens") < 15.0, "{found}");
        if found["page"] == "#windows-hey-f3" {
            continue;
        }
        let is_desk = width > 640.0;
        let (top, bottom) = (shown.number("firstTop"), shown.number("firstBottom"));
        assert!(
            top < HEIGHT && (bottom <= HEIGHT || !is_desk),
            "the first chart from {top} to {bottom}: {found}"
        );
        if page == "short" {
            let seen = found["seen"].as_str().unwrap();
            let answers = [
                "The authors of this lab also write Fulmar",
                "static files",
                "72 KB by hey, 2025",
                "+37 % published, ",
            ];
            for answer in answers {
                assert!(seen.contains(answer), "{answer} is not on the first screen at {width}: {seen}");
            }
        }
    }
}

#[test]
fn the_report_can_be_printed() {
    let Some(chromium) = chromium() else { return };
    let out = report();
    let pdf = out.path().join("report.pdf");
    let argument = format!("--print-to-pdf={}", pdf.display());
    run(&chromium, out.path(), &[&argument, "--no-pdf-header-footer"], "report.html");
    let bytes = fs::read(pdf).unwrap();
    assert!(bytes.starts_with(b"%PDF-") && bytes.len() > 50_000, "{} bytes", bytes.len());
}

/// A folder with a report, and its copy that tells about itself.
fn report() -> tempfile::TempDir {
    let out = tempfile::tempdir().unwrap();
    let (page, _) = fixture::report();
    fs::write(out.path().join("report.html"), page).unwrap();
    let policy = page.lines().find(|line| line.contains("Content-Security-Policy")).unwrap();
    let copy = page.replace(policy, "").replace("</body>", &format!("{PROBE}</body>"));
    fs::write(out.path().join("copy.html"), copy).unwrap();
    out
}

/// Shows pages, named by what stands after the report's address, in frames of these widths, which ascend.
fn show(chromium: &Path, out: &Path, pages: &[(u32, &str)], is_dark: bool) -> Vec<Shown> {
    let frame = |(width, page): &(u32, &str)| {
        format!(
            "<iframe src=\"copy.html{page}\" style=\"border:0;width:{width}px;height:{HEIGHT}px\"></iframe>"
        )
    };
    let frames: String = pages.iter().map(frame).collect();
    fs::write(out.join("frame.html"), format!("{FRAME}{frames}")).unwrap();
    let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark));
    let dom = run(
        chromium,
        out,
        &["--dump-dom", "--virtual-time-budget=10000", "--window-size=1600,1000", &scheme],
        "frame.html",
    );
    let found = dom.split("<pre id=\"found\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let found = found.unwrap_or_default().replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let shown = |line: &str| Shown {
        found: serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?} in {dom:.400}")),
    };
    let mut shown: Vec<Shown> = found.lines().map(shown).collect();
    shown.sort_by(|a, b| a.number("width").total_cmp(&b.number("width")));
    let seen: Vec<f64> = shown.iter().map(|shown| shown.number("width")).collect();
    let asked: Vec<f64> = pages.iter().map(|(width, _)| f64::from(*width)).collect();
    assert_eq!(seen, asked, "{dom:.400}");
    shown
}

/// Runs the browser once, with its own profile, and gives what it prints.
fn run(chromium: &Path, out: &Path, arguments: &[&str], page: &str) -> String {
    let profile = out.join("profile");
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .arg(format!("file://{}", out.join(page).display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The browser, if there is one. Without it a line is printed, and in CI the test fails.
fn chromium() -> Option<PathBuf> {
    let folders = env::split_paths(&env::var_os("PATH")?).collect::<Vec<_>>();
    let paths = ["chromium", "chromium-browser", "google-chrome"]
        .map(|name| folders.iter().map(move |folder| folder.join(name)));
    let found = paths.into_iter().flatten().find(|path| path.exists());
    if found.is_none() {
        assert!(
            env::var_os("CI").is_none(),
            "no chromium to look at the report with; `make install` installs it"
        );
        // Straight to the descriptor: libtest swallows what a passing test prints.
        let _ = writeln!(io::stderr(), "skipped: no chromium");
    }
    found
}
