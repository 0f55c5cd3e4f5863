//! `flv` and `mp4`: parts of videos are the same bytes.

use tests::binary::{Server, nginx_with};
use tests::differential::{agree, agree_on_mistake};
use tests::movie::{Movie, Sample, Track, play};
use tests::mutation::Dice;
use tests::site::Site;

const CONF: &str = r#"
    types { video/mp4 mp4; video/x-flv flv; }
    server {
        listen 127.0.0.1:%%PORT%%;
        root %%ROOT%%;
        location / { mp4; mp4_start_key_frame off; }
        location /key/ { alias %%ROOT%%/; mp4; mp4_start_key_frame on; }
        location /small/ { alias %%ROOT%%/; mp4; mp4_buffer_size 1100; mp4_max_buffer_size 1200; }
        location /cached/ { alias %%ROOT%%/; mp4; open_file_cache max=10; }
        location /one/ { alias %%ROOT%%/; mp4; max_ranges 1; }
        location ~ ^/flv(/.*) { alias %%ROOT%%$1; flv; max_ranges 2; }
    }
"#;

fn site() -> Option<Site> {
    let parts = ["--with-http_mp4_module", "--with-http_flv_module"];
    nginx_with(&parts).map(|nginx| Site::new(CONF).nginx(nginx))
}

fn simple() -> Movie {
    let picture = Track {
        timescale: 1000,
        times: vec![(20, 500)],
        key_frames: Some(vec![1, 6, 11, 16]),
        offsets: Some(vec![(10, 0), (10, 3)]),
        chunks: vec![(4, 5)],
        sizes: vec![100, 30, 40],
        is_picture: true,
    };
    let sound = Track {
        timescale: 8000,
        times: vec![(200, 400)],
        key_frames: None,
        offsets: None,
        chunks: vec![(10, 20)],
        sizes: vec![10],
        is_picture: false,
    };
    Movie {
        timescale: 600,
        tracks: vec![picture, sound],
        starts_with_head: true,
        is_wide: false,
        has_others: false,
    }
}

#[test]
fn every_argument() {
    let Some(site) = site() else { return };
    let site = site
        .file("v.mp4", simple().bytes())
        .file("last.mp4", Movie { starts_with_head: false, ..simple() }.bytes())
        .file("wide.mp4", Movie { is_wide: true, has_others: true, ..simple() }.bytes())
        .file("empty.mp4", "")
        .file("text.mp4", "this is no movie at all")
        .dir("dir");
    let arguments = [
        "",
        "?",
        "?start=0",
        "?start=2",
        "?start=7.1",
        "?start=2.75&end=5.6",
        "?end=9",
        "?end=5.6",
        "?start=0&end=0",
        "?start=1&end=1",
        "?start=3&end=2",
        "?start=11",
        "?start=9.999",
        "?start=10",
        "?end=100",
        "?end=0.001",
        "?start=x",
        "?start=x&end=3",
        "?start=1&end=x",
        "?start=-1",
        "?start=.5",
        "?start=1.",
        "?start=.",
        "?start=1.2.3",
        "?start=1.23456789",
        "?start=",
        "?START=3",
        "?start=2&start=4",
        "?start=99999999999999999999",
        "?start=9223372036854775",
        "?start=9223372036854776",
        "?a=b&end=4",
        "?start=2.5&end=5",
    ];
    let mut requests = Vec::new();
    for place in ["", "key/", "cached/"] {
        for name in ["v", "last", "wide"] {
            requests.extend(arguments.iter().map(|text| format!("GET /{place}{name}.mp4{text}")));
        }
    }
    requests.extend(["empty", "text", "none"].map(|name| format!("GET /{name}.mp4?start=1")));
    for line in [
        "GET /small/v.mp4?start=1",
        "GET /dir?start=1",
        "GET /dir/",
        "HEAD /v.mp4?start=2",
        "HEAD /v.mp4",
        "POST /v.mp4?start=1",
        "PUT /v.mp4\n\nx",
        "GET /v.mp4?start=2\nRange: bytes=0-9",
        "GET /v.mp4?start=2\nRange: bytes=-10",
        "GET /v.mp4?start=2\nRange: bytes=700-1400",
        "GET /v.mp4?start=2\nRange: bytes=0-1,4-5",
        "GET /v.mp4?start=2\nRange: bytes=99999-",
        "GET /one/v.mp4?start=0\nRange: bytes=0-1,4-5",
        "GET /v.mp4\nRange: bytes=0-9",
        "GET /v.mp4?start=2\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
    ] {
        requests.push(line.to_owned());
    }
    agree(&site, &requests.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn flash_videos() {
    let Some(site) = site() else { return };
    let long: String = (0..20_000).map(|number| format!("{number:05}")).collect();
    let site = site.file("v.flv", "0123456789").file("long.flv", long).dir("dir");
    agree(
        &site,
        &[
            "GET /flv/v.flv",
            "GET /flv/v.flv?start=0",
            "GET /flv/v.flv?start=1",
            "GET /flv/v.flv?start=9",
            "GET /flv/v.flv?start=10",
            "GET /flv/v.flv?start=x",
            "GET /flv/v.flv?start=1x",
            "GET /flv/v.flv?start=",
            "GET /flv/v.flv?end=3",
            "GET /flv/v.flv?a=1&start=3",
            "GET /flv/v.flv?start=99999999999999999999",
            "GET /flv/long.flv?start=99990",
            "GET /flv/long.flv?start=1",
            "GET /flv/long.flv?start=100\nRange: bytes=0-20",
            "GET /flv/long.flv?start=100\nRange: bytes=-5",
            "HEAD /flv/v.flv?start=3",
            "HEAD /flv/v.flv",
            "POST /flv/v.flv?start=3",
            "GET /flv/none.flv?start=1",
            "GET /flv/v.flv?start=3\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT",
        ],
    );
}

/// A number below `end`.
fn small(dice: &mut Dice, end: u16) -> u32 {
    u32::try_from(dice.below(usize::from(end))).expect("it is small")
}

fn runs(dice: &mut Dice, mut count: u32, other: impl Fn(&mut Dice) -> u32) -> Vec<(u32, u32)> {
    let mut runs = Vec::new();
    while count > 0 {
        let length = (small(dice, 8) + 1).min(count);
        runs.push((length, other(dice)));
        count -= length;
    }
    runs
}

fn track(dice: &mut Dice) -> Track {
    let chunks = runs(dice, 1, |dice| small(dice, 5) + 1);
    let chunks = chunks.into_iter().chain(runs(dice, 9, |dice| small(dice, 6) + 1)).collect::<Vec<_>>();
    let samples = chunks.iter().map(|&(count, samples)| count * samples).sum();
    let key_frames = (1..=samples).filter(|&number| number == 1 || dice.below(5) == 0).collect();
    Track {
        timescale: [600, 1000, 1001, 12_345][dice.below(4)],
        times: runs(dice, samples, |dice| small(dice, 400) + 20),
        key_frames: (dice.below(3) > 0).then_some(key_frames),
        offsets: (dice.below(2) > 0).then(|| runs(dice, samples, |dice| small(dice, 5))),
        chunks,
        sizes: (0..7).map(|_| small(dice, 50) + 1).collect(),
        is_picture: dice.below(2) > 0,
    }
}

fn made_up(dice: &mut Dice) -> Movie {
    Movie {
        timescale: 600,
        tracks: (0..=dice.below(3)).map(|_| track(dice)).collect(),
        starts_with_head: dice.below(2) > 0,
        is_wide: dice.below(2) > 0,
        has_others: dice.below(2) > 0,
    }
}

#[test]
fn made_up_movies() {
    let Some(mut site) = site() else { return };
    let mut requests = Vec::new();
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        site = site.file(&format!("{seed}.mp4"), made_up(&mut dice).bytes());
        for _ in 0..15 {
            let start = dice.below(4000) as u64;
            let end = seconds(start + dice.below(3000) as u64);
            let start = seconds(start);
            let place = dice.of(&["", "key/"]);
            let query = match dice.below(3) {
                0 => format!("start={start}"),
                1 => format!("end={end}"),
                _ => format!("start={start}&end={end}"),
            };
            requests.push(format!("GET /{place}{seed}.mp4?{query}"));
        }
    }
    let (nginx, fulmar) = (site.start(Server::Nginx), site.start(Server::Fulmar));
    let (mut compared, mut longer, mut differing) = (0, 0, Vec::new());
    for request in &requests {
        let (expected, got) = (nginx.ask(request), fulmar.ask(request));
        // nginx closes the connection where a table would become empty ("zero size buf").
        let Some(expected) = expected.responses.first().filter(|response| response.broken.is_none()) else {
            assert_eq!(got.last().status, 200, "{request}");
            continue;
        };
        let got = got.last();
        // nginx does not send all data of a track whose part is in one chunk.
        let is_shorter = expected.status == 500 || expected.body.len() < got.body.len();
        if got.status == 200 && is_shorter {
            longer += 1;
            continue;
        }
        compared += 1;
        if (expected.status, expected.status < 300 && expected.body != got.body) != (got.status, false) {
            differing.push((request, expected.status, got.status));
        }
    }
    nginx.stop_alerted();
    fulmar.stop();
    println!("{compared} compared, {longer} longer than those of nginx");
    assert!(differing.is_empty() && compared > 400, "{} of {compared}: {differing:?}", differing.len());
}

#[test]
fn what_cannot_be_written() {
    for wrong in
        ["mp4 on;", "flv on;", "mp4_buffer_size x;", "mp4_max_buffer_size;", "mp4_start_key_frame yes;"]
    {
        let parts = ["--with-http_mp4_module", "--with-http_flv_module"];
        let Some(nginx) = nginx_with(&parts) else { return };
        let conf = format!("server {{ listen 127.0.0.1:%%PORT%%; location / {{ {wrong} }} }}");
        agree_on_mistake(&Site::new(&conf).nginx(nginx));
    }
}

/// A part of a movie has the samples of the movie, which a player finds by its tables.
#[test]
fn parts_can_be_played() {
    let mut site = Site::new(CONF);
    let mut movies = Vec::new();
    for seed in 100..150 {
        let movie = made_up(&mut Dice::new(seed));
        site = site.file(&format!("{seed}.mp4"), movie.bytes());
        movies.push((seed, movie));
    }
    let running = site.start(Server::Fulmar);
    for (seed, movie) in &movies {
        let whole = play(&movie.bytes());
        let mut dice = Dice::new(*seed);
        for place in ["", "key/"].repeat(10) {
            let (start, length) = (dice.below(3000) as u64, dice.below(3000) as u64 + 1);
            let end = start + length;
            let request = format!("GET /{place}{seed}.mp4?start={}&end={}", seconds(start), seconds(end));
            let answer = running.ask(&request);
            if answer.last().status == 200 {
                check(&request, &movie.tracks, &whole, &answer.last().body, (start, length));
            } else {
                let ends = movie.tracks.iter().all(|track| {
                    let all: u64 = track.times.iter().map(|run| u64::from(run.0) * u64::from(run.1)).sum();
                    all * 1000 / u64::from(track.timescale) <= start + 2 * length
                });
                assert!(ends || length < 900, "{request}\n{}", running.all_logs());
            }
        }
    }
    running.stop();
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

/// Compares the samples of a part with those of the movie.
fn check(request: &str, tracks: &[Track], whole: &[Vec<Sample>], part: &[u8], (start, length): (u64, u64)) {
    let lasting = tracks.iter().zip(whole).filter(|(track, samples)| {
        let all: u64 = samples.iter().map(|sample| u64::from(sample.duration)).sum();
        all > start * u64::from(track.timescale) / 1000
    });
    let lasting: Vec<_> = lasting.collect();
    let played = play(part);
    assert_eq!(played.len(), lasting.len(), "{request}");
    for ((track, samples), played) in lasting.into_iter().zip(played) {
        let units = |milliseconds: u64| milliseconds * u64::from(track.timescale) / 1000;
        let at = |time: u64| {
            let mut left = time;
            samples.iter().position(|sample| {
                let is_here = left < u64::from(sample.duration);
                left = left.saturating_sub(u64::from(sample.duration));
                is_here
            })
        };
        let shown = at(units(start)).expect("a sample is shown at the start");
        let first = match request.contains("/key/") {
            true => (0..=shown).rev().find(|&sample| samples[sample].is_key_frame).expect("a key frame"),
            false => shown,
        };
        let until =
            |sample: usize| samples[..sample].iter().map(|sample| u64::from(sample.duration)).sum::<u64>();
        // As in nginx the part is counted from where the first sample is shown.
        let end = at(until(shown) + units(length)).unwrap_or(samples.len());
        assert_eq!(played, samples[first..end], "{request}");
    }
}
