//! Applications as they are measured: each is set up with its services, answers all its contenders' clients alike, and
//! leaves nothing after.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lab::model::block::{self, Block};
use lab::model::figure::Figure;
use tempfile::TempDir;

/// Two kinds of address, one of a contender with PHP inside, and an answer that is not what the load asks for.
const SHAKESPEARE: &str = r#"
id = "works"
title = "Works"
question = "Does it work?"
contenders = ["nginx", "apache-event", "apache-prefork-php"]

[[loads]]
id = "list"
title = "List"
path = "/"
contains = "The Tempest"
clients = 2
requests = 40
application = "shakespeare"
options = { passing = "application" }

[[loads]]
id = "scene"
title = "Scene"
path = "/the-winter-s-tale/5/2.json"
contains = "\"title\":\"The Winter's Tale\""
clients = 2
requests = 40
keep_alive = true
application = "shakespeare"
options = { passing = "application" }

[[loads]]
id = "none"
title = "None"
path = "/no-such-work"
contains = "Nothing here"
clients = 2
requests = 40
contenders = ["nginx"]
application = "shakespeare"
options = { passing = "application" }

[[loads]]
id = "other"
title = "Other"
path = "/hamlet"
contains = "Faust"
clients = 2
requests = 40
contenders = ["nginx"]
application = "shakespeare"
options = { passing = "application" }
"#;

#[test]
fn shakespeare_is_served_by_three_servers() {
    if !have(&["mariadbd", "mariadb-install-db", "php", "apache2", "php-fpm"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let blocks = run(&folder, SHAKESPEARE);
    let of = |load: &str| -> Vec<&Block> {
        blocks.iter().filter(|block| block.cell.load == load && is_measured(block)).collect()
    };
    for load in ["list", "scene"] {
        let blocks = of(load);
        let names: Vec<&str> = blocks.iter().map(|block| block.cell.contender.as_str()).collect();
        assert!(names.contains(&"nginx") && names.contains(&"apache-event"), "{load}: {names:?}");
        for block in blocks {
            assert_eq!(block.failure, None, "{:?}", block.cell);
            assert_eq!(block.figures[&Figure::Failed], 0.0, "{:?}", block.cell);
            let is_named = |name: &str| block.parts.iter().any(|part| part.contains(name));
            assert!(is_named("MariaDB 1") && is_named("php"), "{:?}", block.parts);
        }
    }
    let reason = |load: &str| of(load)[0].failure.clone().unwrap();
    assert!(reason("none").contains("status 404 instead of 200"), "{}", reason("none"));
    assert!(reason("other").contains("no \"Faust\" in the content"), "{}", reason("other"));
}

/// A shop: the hybrid answers files and PHP, as each of its servers alone does.
const SHOP: &str = r#"
id = "shop"
title = "Shop"
question = "Does it work?"
contenders = ["nginx", "nginx-apache"]

[[loads]]
id = "product"
title = "Products"
path = "/product/{number}"
numbers = 30
contains = "in stock"
clients = 2
requests = 60
application = "shop"
options = { passing = "application" }
backend_options = { passing = "application" }

[[loads]]
id = "mixed"
title = "Mixed"
path = "/catalogue/{number}.html"
numbers = 10
contains = "abcdefgh"
clients = 2
requests = 60
keep_alive = true
application = "shop"
options = { passing = "application" }
backend_options = { passing = "application" }
"#;

#[test]
fn a_shop_is_served_by_nginx_and_by_the_hybrid() {
    if have(&["mariadbd", "mariadb-install-db", "php", "apache2", "php-fpm"]) {
        all_answer(SHOP, "MariaDB 1");
    }
}

/// WordPress with its objects in Redis, where both are here: `make lab` installs them.
const WORDPRESS: &str = r#"
id = "posts"
title = "Posts"
question = "Does it work?"
contenders = ["nginx", "apache-event"]

[[loads]]
id = "home"
title = "Home page"
path = "/"
contains = "Post number 10"
clients = 2
requests = 6
keep_alive = true
application = "wordpress"
options = { passing = "application" }
"#;

#[test]
fn wordpress_is_served_with_its_objects_in_redis() {
    let here =
        ["/usr/share/wordpress/wp-load.php", "/usr/bin/redis-server", "/etc/php/8.2/cli/conf.d/20-redis.ini"];
    if !here.iter().all(|path| Path::new(path).exists()) {
        println!("skipped: WordPress, Redis or PHP's module for it is not here");
        return;
    }
    if have(&["mariadbd", "mariadb-install-db", "php", "apache2", "php-fpm"]) {
        all_answer(WORDPRESS, "Redis 7");
    }
}

/// Runs an experiment, and sees that every contender that is here answers every request with these parts.
fn all_answer(experiment: &str, part: &str) {
    let folder = tempfile::tempdir().unwrap();
    let blocks = run(&folder, experiment);
    let measured: Vec<&Block> = blocks.iter().filter(|block| is_measured(block)).collect();
    assert!(measured.iter().any(|block| block.cell.contender == "nginx"), "{experiment}");
    for block in measured {
        assert_eq!(block.failure, None, "{:?}", block.cell);
        assert_eq!(block.figures[&Figure::Failed], 0.0, "{:?}", block.cell);
        assert!(block.parts.iter().any(|named| named.contains(part)), "{:?}", block.parts);
    }
}

/// What came of it, but for contenders that are not there.
fn is_measured(block: &Block) -> bool {
    !block.failure.as_ref().is_some_and(|why| why.contains("not found; install it with"))
}

/// Runs an experiment once, from the folder where `make install` and `make lab` leave what they fetch.
fn run(folder: &TempDir, experiment: &str) -> Vec<Block> {
    let (file, out) = (folder.path().join("experiment.toml"), folder.path().join("out"));
    fs::write(&file, experiment).unwrap();
    let id = experiment.lines().find_map(|line| line.strip_prefix("id = ")).unwrap().trim_matches('"');
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar-lab"));
    command.args(["run", id, "--turns", "1", "--experiment"]).arg(&file).arg("--out").arg(&out);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    block::read(&out.join(block::FILE)).unwrap()
}

/// Whether these programs, or programs whose names begin so, are here. In CI they must be.
fn have(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.push("/usr/sbin".into());
    let is_here = |program: &&&str| {
        let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(**program))
    };
    let missing: Vec<&&str> = programs.iter().filter(|program| !is_here(program)).collect();
    assert!(missing.is_empty() || std::env::var_os("CI").is_none(), "missing: {missing:?}");
    if !missing.is_empty() {
        println!("skipped, because of what is missing: {missing:?}");
    }
    missing.is_empty()
}
