//! Each rule finds its trap in the one example, and nothing in the other.

use crate::{Finding, check, rules};
use std::collections::HashSet;

fn findings(http: &str) -> Vec<Finding> {
    let text = format!("events {{}}\nhttp {{\n{http}\n}}\n");
    let loaded = conf::parse_bytes(text.as_bytes());
    assert!(loaded.error.is_none(), "{text}\n{:?}", loaded.error);
    check(&loaded.nodes)
}

#[test]
fn every_rule_finds_its_trap_and_no_other_in_its_examples() {
    let mut wrong = Vec::new();
    for rule in rules() {
        let ids = |http| findings(http).into_iter().map(|finding| finding.rule.id).collect::<Vec<_>>();
        let (bad, good) = (ids(rule.bad), ids(rule.good));
        if bad != [rule.id] || !good.is_empty() {
            wrong.push(format!("{}: in the bad example {bad:?}, in the good one {good:?}", rule.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rules_have_names_of_their_own_and_say_something() {
    let mut ids = HashSet::new();
    for rule in rules() {
        assert!(ids.insert(rule.id), "{} is there twice", rule.id);
        assert!(rule.id.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", rule.id);
        assert!(rule.why.ends_with('.') && !rule.title.is_empty(), "{}", rule.id);
    }
}

#[test]
fn rules_of_a_folder_that_programs_pass() {
    const PHP: &str = "location ~ \\.php$ { try_files $uri =404; fastcgi_pass unix:/run/php.sock; }";
    let finds = |locations: &str| {
        let found = findings(&format!("server {{ root /srv/public; {locations} {PHP} }}"));
        found.iter().any(|finding| finding.rule.id == "programs-pass-rules")
    };
    for locations in [
        "location /private/ { deny all; }",
        "location /private { allow 10.0.0.0/8; deny all; }",
        "location /admin/ { auth_basic x; auth_basic_user_file /srv/users; }",
        "location / { auth_basic x; auth_basic_user_file /srv/users; }",
        "location /hidden/ { return 404; }",
        "location /hidden/ { internal; } location ~ ^/other/ { deny all; }",
        "location /outer/ { location /outer/inner/ { deny all; } location ~* \\.PHP$ { fastcgi_pass unix:/x; } }",
    ] {
        assert!(finds(locations), "{locations}");
    }
    for locations in [
        "location ^~ /private/ { deny all; }",
        "location = /private/a.php { deny all; }",
        "location / { deny all; }",
        "location ~ ^/private/ { deny all; } location /private/ { deny all; }",
        "location /private/ { deny all; location ~ \\.php$ { deny all; } }",
        "location /open/ { auth_basic off; }",
        "location /moved/ { return 301 /new/; }",
        "location ~ \\.php$ { auth_basic x; auth_basic_user_file /srv/users; fastcgi_pass unix:/x; } location /private/ { auth_basic x; auth_basic_user_file /srv/users; }",
    ] {
        assert!(!finds(locations), "{locations}");
    }
}

#[test]
fn findings_name_their_place() {
    let found = findings("server {\n  location /i {\n    alias /srv/i/;\n  }\n}");
    let finding = &found[0];
    assert_eq!((finding.rule.id, finding.place.line), ("alias-traversal", 5));
    assert!(finding.text.contains("/i") && finding.fix.contains("/i/"), "{finding:?}");
}

#[test]
fn protections_that_applications_ship_are_seen() {
    let ids = |http: &str| findings(http).into_iter().map(|finding| finding.rule.id).collect::<Vec<_>>();
    let site = |rule: &str| {
        format!(
            "server {{ root /srv/x; {rule} location / {{ try_files $uri /index.php; }} \
             location ~ ^/index\\.php$ {{ fastcgi_pass unix:/run/php.sock; }} }}"
        )
    };
    assert_eq!(ids(&site("")), ["hidden-files"]);
    // As Nextcloud's manual has it.
    let nextcloud = "location ~ ^/(?:\\.|autotest|occ|issue|indie|db_|console) { return 404; }";
    assert_eq!(ids(&site(nextcloud)), [] as [&str; 0]);
    assert_eq!(ids("server { location /i { alias /srv/i/; return 404; } }"), [] as [&str; 0]);
    assert_eq!(
        ids("server { location /i { alias /srv/i/; if ($arg_x) { return 404; } } }"),
        ["alias-traversal"]
    );
}

#[test]
fn the_key_of_a_cache_may_be_at_any_level() {
    let ids = |http: &str| findings(http).into_iter().map(|finding| finding.rule.id).collect::<Vec<_>>();
    let pass = "location /a/ { uwsgi_pass unix:/run/a.sock; ";
    let finds = |http: &str| ids(http).contains(&"cache-without-key");
    assert!(!finds(&format!("uwsgi_cache c; server {{ {pass} uwsgi_cache_key $uri; }} }}")));
    assert!(!finds(&format!("uwsgi_cache_key $uri; server {{ {pass} uwsgi_cache c; }} }}")));
    assert!(!finds(&format!("uwsgi_cache c; server {{ {pass} uwsgi_cache off; }} }}")));
    assert!(!finds("uwsgi_cache c; server { location / { proxy_pass http://127.0.0.1:1; } }"));
    assert!(finds(&format!("uwsgi_cache c; server {{ {pass} }} {pass} uwsgi_cache_key $uri; }} }}")));
}
