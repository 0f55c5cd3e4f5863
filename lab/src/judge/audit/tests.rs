use super::*;
use crate::model::block::tests::block;
use crate::model::figure::Figure;

fn built_in(id: &str) -> Experiment {
    Experiment::built_in().unwrap().into_iter().find(|experiment| experiment.id == id).unwrap()
}

fn published(id: &str) -> Vec<Remark> {
    audit(&built_in(id), &[])
}

/// The remark of a rule on a load and a contender, with these words in it.
fn says(remarks: &[Remark], rule: Rule, about: (Option<&str>, Option<&str>), words: &[&str]) {
    let found = remarks.iter().any(|remark| {
        let about = (remark.load.as_deref(), remark.contender.as_deref()) == about;
        remark.rule == rule && about && words.iter().all(|words| remark.text.contains(words))
    });
    let all: Vec<String> = remarks.iter().map(|remark| format!("{:?} {remark}", remark.rule)).collect();
    assert!(found, "{rule:?} {about:?} {words:?} is not among\n{}", all.join("\n"));
}

/// What there is to expose in a publication, and words that remarks on it have to hold.
type Exposed = (&'static str, &'static str, Rule, &'static [&'static str]);

const TO_EXPOSE: &[Exposed] = &[
    (
        "stress-debian",
        "nginx answered with the default page of Debian's Apache",
        Rule::KnownPage,
        &["10,701 bytes", "default page of Debian's Apache package", "nginx-debian answered"],
    ),
    (
        "stress-debian",
        "the pages have other lengths and heads: a file was compared with a script",
        Rule::SamePage,
        &["10,701", "5,584", "236 and 488", "a file against a script"],
    ),
    (
        "stress-debian",
        "Apache's heads are not those of a file",
        Rule::HeadSize,
        &["488 bytes", "a script made the answer"],
    ),
    (
        "stress-debian",
        "36,252,850 bytes by 10,000 requests are no whole number, so that no failure cannot be",
        Rule::WholeBytes,
        &["36,252,850", "no whole number", "no request failed cannot be"],
    ),
    (
        "stress-debian",
        "the growth may be shorter answers",
        Rule::SamePage,
        &["may be shorter answers", "2.28", "1.54"],
    ),
    (
        "stress-debian",
        "a throughput that more than doubles is not stable",
        Rule::Conclusion,
        &["F3 does not follow"],
    ),
    (
        "modern-vps",
        "a connection of 12 KB is not what Apache's ramp shows",
        Rule::MemoryPerConnection,
        &["12 KB", "474 KB"],
    ),
    (
        "modern-vps",
        "how many clients there were is not published",
        Rule::LittlesLaw,
        &["58 clients", "not published"],
    ),
    (
        "static-cores",
        "the comment's mean is not one of its requests",
        Rule::LittlesLaw,
        &["4,513 clients", "1,024"],
    ),
    ("static-and-dynamic", "the client shared the machine", Rule::Link, &["33 Gb/s"]),
    ("windows-hey", "221 of 400 clients were busy under hey", Rule::LittlesLaw, &["221 of 400 clients"]),
    ("windows-hey", "a few stragglers made Apache's rate", Rule::Stragglers, &["18.6", "a few stragglers"]),
    (
        "windows-hey",
        "ab shows no such tail: that the tools agree is doubtful",
        Rule::Tools,
        &["568 times", "3.95 times by ab", "doubtful"],
    ),
    (
        "windows-hey",
        "the conclusion that the tools agree does not follow",
        Rule::Conclusion,
        &["F4 does not follow"],
    ),
    (
        "windows-hey",
        "heads of 490 bytes: unequal configurations",
        Rule::HeadSize,
        &["490 bytes", "about 250", "unequal"],
    ),
];

#[test]
fn all_that_is_to_expose_is_found_by_computation_and_said() {
    for (experiment, row, rule, words) in TO_EXPOSE {
        let remarks = published(experiment);
        let is_it =
            |remark: &&Remark| remark.rule == *rule && words.iter().all(|word| remark.text.contains(word));
        let all: Vec<String> = remarks.iter().map(|remark| format!("{:?} {remark}", remark.rule)).collect();
        assert!(
            remarks.iter().any(|remark| is_it(&remark)),
            "{experiment}: {row}: not in\n{}",
            all.join("\n")
        );
        // It is the figures that say so: without them there is nothing to say.
        let mut silent = built_in(experiment);
        silent.published.clear();
        assert!(
            !audit(&silent, &[]).iter().any(|remark| is_it(&remark)),
            "{experiment}: {row}: said without figures"
        );
    }
    // What no figure shows is reported where the experiment says how it departs from the publication.
    let told = |experiment: &str, words: &str| {
        built_in(experiment).departures.iter().any(|line| line.contains(words))
    };
    assert!(told("stress-debian", "six processes without threads"));
}

#[test]
fn a_page_was_compared_with_a_script_on_debian() {
    let remarks = published("stress-debian");
    let (nginx, apache) = ((Some("light"), Some("nginx-debian")), (Some("light"), Some("apache-prefork")));
    says(&remarks, Rule::KnownPage, nginx, &["10,701 bytes", "Debian's Apache package"]);
    says(
        &remarks,
        Rule::SamePage,
        (Some("light"), None),
        &["10,701", "5,584", "236 and 488", "a file against a script"],
    );
    says(&remarks, Rule::HeadSize, apache, &["488 bytes", "Apache's own head", "about 250"]);
}

#[test]
fn answers_differed_in_length_on_debian() {
    let remarks = published("stress-debian");
    let (medium, heavy) = ((Some("medium"), Some("apache-prefork")), (Some("heavy"), Some("apache-prefork")));
    says(&remarks, Rule::WholeBytes, heavy, &["36,252,850", "3625.285", "no request failed cannot be"]);
    says(&remarks, Rule::WholeBytes, medium, &["283.42 requests", "5935.3 bytes an answer"]);
    says(&remarks, Rule::SamePage, heavy, &["6,072 to 4,113", "2.28 ×", "1.54 ×"]);
    says(&remarks, Rule::Conclusion, (None, None), &["F3 does not follow", "2.28"]);
    let nginx = remarks.iter().filter(|remark| remark.contender.as_deref() == Some("nginx-debian"));
    assert!(nginx.clone().all(|remark| remark.rule == Rule::KnownPage), "{:?}", nginx.collect::<Vec<_>>());
}

#[test]
fn memory_per_connection_is_contradicted_by_the_ramp() {
    let remarks = published("modern-vps");
    says(&remarks, Rule::MemoryPerConnection, (Some("ramp"), Some("apache-event")), &["12 KB", "474 KB"]);
    let of_nginx = |remark: &&Remark| {
        remark.rule == Rule::MemoryPerConnection && remark.contender.as_deref() == Some("nginx")
    };
    assert!(!remarks.iter().any(|remark| of_nginx(&remark)));
    says(
        &remarks,
        Rule::LittlesLaw,
        (Some("small"), Some("nginx")),
        &["58 clients were busy", "not published"],
    );
    says(&remarks, Rule::TransferTime, (Some("large-many"), Some("nginx")), &["83 s", "60 s"]);
}

#[test]
fn a_reader_s_mean_is_none_of_measured_times() {
    let remarks = published("static-cores");
    says(
        &remarks,
        Rule::LittlesLaw,
        (Some("comment"), Some("nginx")),
        &["4,513 clients", "1,024", "wrk does so"],
    );
}

#[test]
fn the_clients_shared_the_machine() {
    let remarks = published("static-and-dynamic");
    says(&remarks, Rule::Link, (Some("static"), Some("nginx")), &["33 Gb/s"]);
    assert_eq!(remarks.len(), 1, "{remarks:?}");
}

#[test]
fn a_few_stragglers_made_the_rate_and_the_tools_disagree() {
    let remarks = published("windows-hey");
    let apache = (Some("hey"), Some("apache-worker"));
    says(&remarks, Rule::LittlesLaw, apache, &["221 of 400"]);
    says(&remarks, Rule::Stragglers, apache, &["18.6 of the run's 19.2 s", "0.42 s"]);
    let by_ab = (Some("ab"), Some("apache-worker"));
    says(&remarks, Rule::HeadSize, by_ab, &["490 bytes", "about 250"]);
    says(
        &remarks,
        Rule::Tools,
        by_ab,
        &["568 times the median by hey", "3.95 times by ab", "doubtful", "apache-worker ahead"],
    );
    says(&remarks, Rule::Conclusion, (None, None), &["F4 does not follow"]);
    assert!(!remarks.iter().any(|remark| remark.contender.as_deref() == Some("nginx")), "{remarks:?}");
}

const SOUND: &str = r#"
id = "e"
title = "t"
question = "q"
contenders = ["nginx", "apache-event"]

[[files]]
path = "p"
length = 1000

[[loads]]
id = "l"
title = "Load"
path = "/p"
clients = [10, 100]
requests = 1000

[[published]]
load = "l"
contender = "nginx"
clients = 10
figures = { requests_per_s = 1000.0, mean_ms = 9.9, total_s = 1.0, bytes_per_s = 1240000.0, total_content_bytes = 1000000, failed = 0, min_ms = 5.0, p50_ms = 9.5, p90_ms = 12.0, p99_ms = 20.0, max_ms = 25.0 }
"#;

#[test]
fn sound_figures_give_no_remark() {
    let experiment = Experiment::parse(SOUND).unwrap();
    let figures = experiment.published[0].figures.clone();
    let mut all = Vec::new();
    for (clients, contender) in [(10, "nginx"), (10, "apache-event")] {
        let mut block = block(contender, "l", clients, &[]);
        block.figures.clone_from(&figures);
        block.circumstances.server_cores = "0".into();
        block.circumstances.tool_cores = "1".into();
        block.circumstances.tool_busy = 0.5;
        all.push(block);
    }
    assert_eq!(audit(&experiment, &all), []);
    let mut out = Vec::new();
    print(&mut out, &experiment, &[]).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "e: t\n  nothing that does not fit\n");
}

#[test]
fn each_figure_is_held_against_the_others() {
    let with = |from: &str, to: &str| {
        assert!(SOUND.contains(from), "{from}");
        audit(&Experiment::parse(&SOUND.replace(from, to)).unwrap(), &[])
    };
    let one = |from: &str, to: &str, rule: Rule, words: &str| {
        let remarks = with(from, to);
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        says(&remarks, rule, (Some("l"), Some("nginx")), &[words]);
    };
    one("p90_ms = 12.0", "p90_ms = 9.0", Rule::Percentiles, "p50, ms is 9.50, above p90, ms with 9");
    one("total_s = 1.0", "total_s = 1.2", Rule::Requests, "1,200 requests, but 1,000 were sent");
    one("total_content_bytes = 1000000", "total_content_bytes = 1000100", Rule::WholeBytes, "1000.100 each");
    one("bytes_per_s = 1240000.0", "bytes_per_s = 900000.0", Rule::HeadSize, "cut short");
    one("bytes_per_s = 1240000.0", "bytes_per_s = 1500000.0", Rule::HeadSize, "500 bytes");
    let slow = with("mean_ms = 9.9", "mean_ms = 19.0");
    says(&slow, Rule::Percentiles, (Some("l"), Some("nginx")), &["more than the percentiles allow"]);
    says(&slow, Rule::LittlesLaw, (Some("l"), Some("nginx")), &["19 clients were busy", "there were 10"]);
    let fast = with("mean_ms = 9.9", "mean_ms = 4.0");
    says(&fast, Rule::Percentiles, (Some("l"), Some("nginx")), &["less than the percentiles allow"]);
}

#[test]
fn measured_figures_are_audited_too() {
    let experiment = Experiment::parse(SOUND).unwrap();
    let of = |contender: &str, clients: u32| {
        let figures = [(Figure::RequestsPerS, 1000.0), (Figure::MeanMs, 1.0)];
        let mut block = block(contender, "l", clients, &figures);
        block.circumstances.server_cores = "0-1".into();
        block.circumstances.tool_cores = "1".into();
        block.circumstances.tool_busy = 0.99;
        block
    };
    let mut cut = of("nginx", 10);
    cut.figures.extend([(Figure::ContentBytes, 990.0), (Figure::MeanMs, 10.0)]);
    says(
        &audit(&experiment, &[cut]),
        Rule::WholeBytes,
        (Some("l"), Some("nginx")),
        &["990 bytes", "file 1,000"],
    );
    let remarks = audit(&experiment, &[of("nginx", 10), of("nginx", 100), of("apache-event", 100)]);
    says(&remarks, Rule::SharedCores, (None, None), &["Loads: Load."]);
    says(&remarks, Rule::ToolBusy, (Some("l"), None), &["In 3 of 3 runs", "apache-event, nginx"]);
    let text = SOUND.replace("requests = 1000\n", "requests = 1000\none_core = true\n");
    let shared = audit(&Experiment::parse(&text).unwrap(), &[of("nginx", 10)]);
    assert!(shared.iter().all(|remark| remark.rule != Rule::SharedCores), "{shared:?}");
    let little: Vec<&Remark> = remarks.iter().filter(|remark| remark.rule == Rule::LittlesLaw).collect();
    assert_eq!(little.len(), 1, "{little:?}");
    assert!(!little[0].published && little[0].text.ends_with("2 more measurements."), "{little:?}");
}

/// Apache that is faster with a log, TLS that is as fast new as resumed, and WordPress 130 times below the published rate.
#[test]
fn what_cannot_be_is_flagged() {
    let text = "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = ['a']\n\
        [[loads]]\nid = 'log'\ntitle = 'With'\nclients = 10\nseconds = 1.0\noptions = { access_log = 'on' }\n\
        [[loads]]\nid = 'no-log'\ntitle = 'Without'\nclients = 10\nseconds = 1.0\noptions = { access_log = 'off' }\n\
        [[loads]]\nid = 'new'\ntitle = 'New'\nclients = 10\nseconds = 1.0\ntls = { resume = false }\n\
        [[loads]]\nid = 'resumed'\ntitle = 'Resumed'\nclients = 10\nseconds = 1.0\ntls = { resume = true }\n\
        [[published]]\nload = 'no-log'\ncontender = 'a'\nfigures = { requests_per_s = 13000 }\n";
    let experiment = Experiment::parse(text).unwrap();
    let said = |rates: [f64; 4]| -> Vec<String> {
        let loads = ["log", "no-log", "new", "resumed"];
        let blocks: Vec<Block> = loads
            .into_iter()
            .zip(rates)
            .map(|(load, rate)| {
                crate::model::block::tests::block("a", load, 10, &[(Figure::RequestsPerS, rate)])
            })
            .collect();
        let impossible =
            audit(&experiment, &blocks).into_iter().filter(|remark| remark.rule == Rule::Impossible);
        impossible.map(|remark| remark.text).collect()
    };
    let all = said([118.0, 100.0, 50.0, 52.0]).join("\n");
    for words in [
        "With a log it answers 1.18 times",
        "resumes no sessions",
        "are 130 times below the published 13,000",
    ] {
        assert!(all.contains(words), "{words}: {all}");
    }
    assert_eq!(said([9_500.0, 10_000.0, 50.0, 90.0]), Vec::<String>::new());
}

/// One rule does not fill the list, and what weighs most comes first.
#[test]
fn the_weightiest_remarks_are_of_different_rules() {
    let about = About { load: None, contender: None, clients: None, published: true };
    let experiment = Experiment::parse(
        "id = 'e'\ntitle = 't'\nquestion = 'q'\ncontenders = ['a']\n\
         [[loads]]\nid = 'l'\ntitle = 'l'\nclients = 1\nrequests = 1\n",
    )
    .unwrap();
    let rules = [Rule::LittlesLaw, Rule::LittlesLaw, Rule::ToolBusy, Rule::Link, Rule::Impossible];
    let remarks: Vec<Remark> = rules
        .iter()
        .enumerate()
        .map(|(index, rule)| about.remark(&experiment, *rule, index.to_string()))
        .collect();
    let texts = |count| -> Vec<&str> {
        weightiest(&remarks, count).into_iter().map(|remark| remark.text.as_str()).collect()
    };
    assert_eq!(texts(3), ["4", "3", "0"]);
    assert_eq!(texts(9), ["4", "3", "0", "1"], "the load tool is shown elsewhere");
}
