//! Certificates of clients: which ones are accepted, and what variables say about them. Whatever nginx says is right.

use std::process::{Command, Stdio};

use rcgen::string::BmpString;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, DnValue, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, KeyUsagePurpose, NameConstraints, date_time_ymd,
};
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};
use tests::binary::{Server, have_nginx};
use tests::parts;
use tests::site::{Running, Site};
use tests::tls::{Authority, Certificate, Client, Kind, certificate};

use super::compare;

/// Servers by name that check clients in different ways, and tell what they found in each answer.
const SERVERS: &str = r#"
    log_format tls '$status $ssl_client_verify';
    access_log %%LOGS%%/access.log tls;
    add_header X-Verify "$ssl_client_verify|$ssl_client_serial|$ssl_client_fingerprint" always;
    add_header X-Names "$ssl_client_s_dn|$ssl_client_i_dn|$ssl_client_s_dn_legacy|$ssl_client_i_dn_legacy" always;
    add_header X-Times "$ssl_client_v_start|$ssl_client_v_end|$ssl_server_name|$ssl_session_reused" always;
    add_header X-Escaped "$ssl_client_escaped_cert" always;
    ssl_certificate %%DIR%%/a.pem;
    ssl_certificate_key %%DIR%%/a.key;
    server {
        listen %%PORT%% ssl;
        server_name first;
        error_page 497 /in-clear;
        return 200 "first $ssl_client_raw_cert|$ssl_client_cert|\n";
    }
    server {
        listen %%PORT%% ssl;
        server_name on;
        ssl_verify_client on;
        ssl_client_certificate %%DIR%%/roots.pem;
        return 200 "on $ssl_client_raw_cert|$ssl_client_cert|\n";
    }
    server {
        listen %%PORT%% ssl;
        server_name pages;
        ssl_verify_client on;
        ssl_client_certificate %%DIR%%/roots.pem;
        error_page 495 =403 /wrong;
        error_page 496 =401 /none;
        location /wrong { return 200 "wrong $ssl_client_verify\n"; }
        location /none { return 200 "none\n"; }
        location / { return 200 "right\n"; }
    }
    server {
        listen %%PORT%% ssl;
        server_name optional;
        ssl_verify_client optional;
        ssl_verify_depth 2;
        ssl_client_certificate %%DIR%%/roots.pem;
        ssl_trusted_certificate %%DIR%%/single.pem;
        return 200 "optional\n";
    }
    server {
        listen %%PORT%% ssl;
        server_name no-ca;
        ssl_verify_client optional_no_ca;
        ssl_client_certificate %%DIR%%/roots.pem;
        return 200 "no-ca\n";
    }
    server {
        listen %%PORT%% ssl;
        server_name no-file;
        ssl_verify_client optional_no_ca;
        return 200 "no-file\n";
    }
    server {
        listen %%PORT%% ssl;
        server_name depth0;
        ssl_verify_client on;
        ssl_verify_depth 0;
        ssl_client_certificate %%DIR%%/roots.pem;
        return 200 "depth0\n";
    }
    server {
        listen %%PORT%% ssl;
        server_name revoked;
        ssl_verify_client on;
        ssl_trusted_certificate %%DIR%%/roots.pem;
        ssl_crl %%DIR%%/root.crl;
        return 200 "revoked\n";
    }
    server {
        listen %%PORT%% ssl;
        server_name old-list;
        ssl_verify_client on;
        ssl_trusted_certificate %%DIR%%/roots.pem;
        ssl_crl %%DIR%%/old.crl;
        return 200 "old-list\n";
    }
"#;

const NAMES: [&str; 9] =
    ["first", "on", "pages", "optional", "no-ca", "no-file", "depth0", "revoked", "old-list"];

/// A client's certificate, and the certificates that it sends after it.
struct Shown {
    what: &'static str,
    own: Certificate,
    others: Vec<String>,
}

struct Made {
    site: Site,
    shown: Vec<Shown>,
}

fn client_params(parameters: &mut CertificateParams) {
    parameters.serial_number = Some(7.into());
    parameters.not_before = date_time_ymd(2021, 2, 3);
    parameters.not_after = date_time_ymd(2098, 11, 12);
}

fn made() -> Made {
    let root = Authority::new("root");
    let between = Authority::under("between", Some(&root), |_| ());
    let deep = Authority::under("deep", Some(&between), |_| ());
    let unknown = Authority::new("unknown");
    let mimic = Authority::new("root");
    let single = certificate("single", Kind::Ecdsa);
    let stranger = certificate("stranger", Kind::Rsa);
    let mut shown = Vec::new();
    let mut add = |what, own: Certificate, others: &[&Authority]| {
        shown.push(Shown { what, own, others: others.iter().map(|one| one.pem.clone()).collect() });
    };
    let with = |issuer: &Authority, change: fn(&mut CertificateParams)| {
        issuer.certificate_with("client", Kind::Ecdsa, |parameters| {
            client_params(parameters);
            change(parameters);
        })
    };
    add("right", with(&root, |_| ()), &[]);
    add("RSA", root.certificate_with("client", Kind::Rsa, client_params), &[]);
    add("with its root", with(&root, |_| ()), &[&root]);
    add("signed by another root of the same name", with(&mimic, |_| ()), &[]);
    add("with another root of the same name", with(&mimic, |_| ()), &[&mimic]);
    add("below an authority", with(&between, |_| ()), &[&between]);
    add("below an authority that is not sent", with(&between, |_| ()), &[]);
    add("below two authorities", with(&deep, |_| ()), &[&deep, &between]);
    add("in another order", with(&deep, |_| ()), &[&between, &root, &deep]);
    add("of an unknown authority", with(&unknown, |_| ()), &[]);
    add("with its unknown authority", with(&unknown, |_| ()), &[&unknown]);
    add("expired", with(&root, |made| made.not_after = date_time_ymd(2022, 1, 1)), &[]);
    add("not valid yet", with(&root, |made| made.not_before = date_time_ymd(2090, 1, 1)), &[]);
    add("expired and unknown", with(&unknown, |made| made.not_after = date_time_ymd(2022, 1, 1)), &[]);
    add("revoked", with(&root, |made| made.serial_number = Some(13.into())), &[]);
    add("with a long number", with(&root, |made| made.serial_number = Some(vec![0x8f; 18].into())), &[]);
    add(
        "for servers",
        with(&root, |made| made.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]),
        &[],
    );
    add(
        "for clients",
        with(&root, |made| made.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]),
        &[],
    );
    add(
        "for anything",
        with(&root, |made| made.extended_key_usages = vec![ExtendedKeyUsagePurpose::Any]),
        &[],
    );
    add("to encrypt", with(&root, |made| made.key_usages = vec![KeyUsagePurpose::KeyEncipherment]), &[]);
    add("to sign", with(&root, |made| made.key_usages = vec![KeyUsagePurpose::DigitalSignature]), &[]);
    add(
        "marked as an authority",
        with(&root, |made| made.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
        &[],
    );
    add("unlike OpenSSL knows", with(&root, |made| made.custom_extensions = vec![extension(false)]), &[]);
    add("critical", with(&root, |made| made.custom_extensions = vec![extension(true)]), &[]);
    add("of many names", with(&root, many_names), &[]);
    add("of no name", with(&root, |made| made.distinguished_name = rcgen::DistinguishedName::new()), &[]);
    for (what, change) in intermediates() {
        let authority = Authority::under("odd", Some(&root), change);
        add(what, with(&authority, |_| ()), &[&authority]);
    }
    let limited = Authority::under("limited", Some(&root), |made| {
        made.name_constraints = Some(constraints("a.example"));
    });
    let named_in_subject = |name: &str| {
        limited.certificate_with(name, Kind::Ecdsa, |made| {
            client_params(made);
            made.subject_alt_names.clear();
        })
    };
    add("of a permitted host by its subject", named_in_subject("x.a.example"), &[&limited]);
    add("of another host by its subject", named_in_subject("b.example"), &[&limited]);
    add("single", single.clone(), &[]);
    add("stranger", stranger, &[]);
    let a = certificate("a.example", Kind::Ecdsa);
    let roots = format!("{}{}", Authority::new("other").pem, root.pem);
    let site = with_files(
        Site::new(SERVERS),
        &[
            ("a.pem", &a.pem),
            ("a.key", &a.key),
            ("roots.pem", &roots),
            ("single.pem", &single.pem),
            ("root.crl", &root.revoke(&[1, 13])),
            ("old.crl", &root.revoke_until(&[], 2022)),
        ],
    );
    Made { site, shown }
}

fn with_files(site: Site, files: &[(&str, &str)]) -> Site {
    files.iter().fold(site, |site, (name, text)| site.in_prefix(name, text))
}

type Change = fn(&mut CertificateParams);

/// Authorities below the root with something odd.
fn intermediates() -> [(&'static str, Change); 10] {
    [
        ("below no authority", |made| made.is_ca = IsCa::ExplicitNoCa),
        ("below a certificate without constraints", |made| {
            made.is_ca = IsCa::NoCa;
            made.key_usages = vec![];
        }),
        ("below one that may sign and has no constraints", |made| {
            made.is_ca = IsCa::NoCa;
            made.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        }),
        ("below one for another directory", |made| {
            let mut directory = rcgen::DistinguishedName::new();
            directory.push(DnType::OrganizationName, "other");
            made.name_constraints = Some(permitted(GeneralSubtree::DirectoryName(directory)));
        }),
        ("below one that may not sign", |made| made.key_usages = vec![KeyUsagePurpose::CrlSign]),
        ("below an expired one", |made| made.not_after = date_time_ymd(2022, 1, 1)),
        ("below one for servers", |made| {
            made.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]
        }),
        ("below one for nobody else", |made| made.is_ca = IsCa::Ca(BasicConstraints::Constrained(0))),
        ("below one for its names", |made| made.name_constraints = Some(constraints("client"))),
        ("below one for other names", |made| made.name_constraints = Some(constraints("b.example"))),
    ]
}

fn constraints(name: &str) -> NameConstraints {
    permitted(GeneralSubtree::DnsName(name.to_owned()))
}

fn permitted(subtree: GeneralSubtree) -> NameConstraints {
    NameConstraints { permitted_subtrees: vec![subtree], excluded_subtrees: vec![] }
}

fn extension(is_critical: bool) -> CustomExtension {
    let mut made = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![4, 1, 7]);
    made.set_criticality(is_critical);
    made
}

fn many_names(made: &mut CertificateParams) {
    let name = &mut made.distinguished_name;
    name.push(DnType::CountryName, "DE");
    name.push(DnType::OrganizationName, "Größe, \"Q\" <x>; #1 + \\");
    name.push(DnType::OrganizationalUnitName, " # blank at both ends ");
    name.push(DnType::LocalityName, DnValue::BmpString(BmpString::try_from("Zürich 東").unwrap()));
    name.push(
        DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]),
        DnValue::Ia5String("a@b.example".try_into().unwrap()),
    );
    name.push(DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 99_999, 7]), "unknown kind");
}

/// A client without a certificate, and one for each that may be shown, for each of two servers.
fn clients(
    made: &Made,
    name: &str,
    version: &'static SupportedProtocolVersion,
) -> Vec<(&'static str, [Client; 2])> {
    let client = || Client::with(Some(name), &[version], Kind::Ecdsa);
    let showing = made.shown.iter().map(|Shown { what, own, others }| {
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        (*what, [(); 2].map(|()| client().showing(own, &others)))
    });
    std::iter::once(("none", [client(), client()])).chain(showing).collect()
}

#[test]
fn certificates_are_judged_and_shown_as_nginx_does() {
    if !have_nginx() {
        return;
    }
    let made = made();
    let (nginx, fulmar) = (made.site.start(Server::Nginx), made.site.start(Server::Fulmar));
    let mut wrong = String::new();
    let all = NAMES.iter().map(|name| (*name, &TLS13)).chain([("on", &TLS12), ("no-ca", &TLS12)]);
    for (name, version) in all {
        let mut requests = vec![format!("GET /\nHost: {name}")];
        if ["on", "no-ca"].contains(&name) {
            // It resumes the session of the first.
            requests.push(format!("GET /x?y HTTP/1.0\nHost: {name}"));
        }
        for (who, clients) in clients(&made, name, version) {
            for request in &requests {
                let theirs = clients[0].ask(nginx.address(), request).unwrap();
                let own = clients[1].ask(fulmar.address(), request).unwrap();
                let text = compare((&nginx, &theirs), (&fulmar, &own));
                if !text.is_empty() {
                    wrong += &format!("{name}, {version:?}, {who}: {request:?}\n{text}\n");
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    // nginx complains of errors that OpenSSL kept from wrong signatures.
    nginx.stop_alerted();
    fulmar.stop();
}

#[test]
fn server_of_another_name_does_not_answer_for_one_that_checks_clients() {
    if !have_nginx() {
        return;
    }
    let made = made();
    let (nginx, fulmar) = (made.site.start(Server::Nginx), made.site.start(Server::Fulmar));
    let right = &made.shown[0].own;
    let mut wrong = String::new();
    for asked in [Some("first"), Some("on"), Some("unknown"), None] {
        for request in [
            "GET /\nHost: on",
            "GET /\nHost: ON:443",
            "GET /\nHost: on.",
            "GET http://on/ HTTP/1.1\nHost: first",
            "GET /\nHost: optional",
            "GET /\nHost: first",
            "GET /\nHost: unknown",
            "GET /\nHost: no-ca\nConnection: close",
            "GET / HTTP/1.0",
        ] {
            for client in [Client::new(asked), Client::new(asked).showing(right, &[])] {
                let theirs = client.ask(nginx.address(), request).unwrap();
                let own = Client::clone(&client).ask(fulmar.address(), request).unwrap();
                let text = compare((&nginx, &theirs), (&fulmar, &own));
                if !text.is_empty() {
                    wrong += &format!("{asked:?}: {request:?}\n{text}\n");
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    nginx.stop();
    fulmar.stop();
}

/// Two servers with the same certificate that trust different authorities, and one that asks nobody.
const TWO: &str = r#"
    ssl_certificate %%DIR%%/a.pem;
    ssl_certificate_key %%DIR%%/a.key;
    ssl_session_cache shared:SSL:1m;
    server { listen %%PORT%% ssl; server_name open; return 200 "open $ssl_session_reused"; }
    server {
        listen %%PORT%% ssl;
        server_name one;
        ssl_verify_client on;
        ssl_trusted_certificate %%DIR%%/one.pem;
        return 200 "one $ssl_session_reused";
    }
    server {
        listen %%PORT%% ssl;
        server_name two;
        ssl_verify_client on;
        ssl_trusted_certificate %%DIR%%/two.pem;
        return 200 "two $ssl_session_reused";
    }
    server {
        listen %%PORT_1%% ssl;
        server_name default;
        ssl_verify_client on;
        ssl_trusted_certificate %%DIR%%/one.pem;
        return 200 "default";
    }
    server {
        listen %%PORT_1%% ssl;
        server_name other;
        ssl_verify_client on;
        ssl_trusted_certificate %%DIR%%/two.pem;
        return 200 "other";
    }
"#;

#[test]
fn session_is_not_resumed_where_clients_are_checked_differently() {
    let (one, two) = (Authority::new("same name"), Authority::new("same name"));
    let a = certificate("a.example", Kind::Ecdsa);
    let own = one.certificate_with("client", Kind::Ecdsa, client_params);
    for tickets in ["on", "off"] {
        let site = with_files(
            Site::new(&format!("ssl_session_tickets {tickets};\n{TWO}")),
            &[("a.pem", &a.pem), ("a.key", &a.key), ("one.pem", &one.pem), ("two.pem", &two.pem)],
        );
        let server = site.start(Server::Fulmar);
        for version in [&TLS12, &TLS13] {
            let client = Client::with(None, &[version], Kind::Ecdsa).showing(&own, &[]);
            let ask = |name: &str| {
                let spoken =
                    client.named(name).ask(server.address(), &format!("GET /\nHost: {name}")).unwrap();
                (spoken.answer.last().status, spoken.answer.last().text(), spoken.resumed)
            };
            let right = |text: &str, resumed| (200, text.to_owned(), resumed);
            assert_eq!(ask("open"), right("open .", false), "{version:?}");
            assert_eq!(ask("open"), right("open r", true), "{version:?}");
            assert_eq!(ask("one"), right("one .", false), "{version:?}");
            assert_eq!(ask("one"), right("one r", true), "{version:?}");
            let (status, _, resumed) = ask("two");
            assert_eq!((status, resumed), (400, false), "{version:?}");
            assert_eq!(ask("open"), right("open .", false), "{version:?}: with a session of a wrong server");
        }
        // The default server found the certificate right, the other one would not.
        let client = Client::new(None).showing(&own, &[]);
        let ask = |name: &str| {
            client.ask(server.address_of(1), &format!("GET /\nHost: {name}")).unwrap().answer.last().status
        };
        assert_eq!((ask("default"), ask("other")), (200, 421));
        server.stop();
    }
}

/// Two addresses with the same name and certificate, which trust different authorities, and one that asks nobody.
const ADDRESSES: &str = r#"
    ssl_certificate %%DIR%%/a.pem;
    ssl_certificate_key %%DIR%%/a.key;
    ssl_session_cache shared:SSL:1m;
    ssl_verify_client optional;
    add_header X-Verify $ssl_client_verify always;
    server { listen %%PORT%% ssl; ssl_trusted_certificate %%DIR%%/one.pem; return 200 "one"; }
    server { listen %%PORT_1%% ssl; ssl_trusted_certificate %%DIR%%/two.pem; return 200 "two"; }
    server { listen %%PORT_2%% ssl; ssl_verify_client off; return 200 "open"; }
    server {
        listen %%PORT_3%% ssl;
        ssl_trusted_certificate %%DIR%%/one.pem;
        ssl_crl %%DIR%%/one.crl;
        return 200 "revoked";
    }
"#;

#[test]
fn session_is_not_resumed_at_an_address_that_checks_clients_differently() {
    let (one, two) = (Authority::new("same name"), Authority::new("same name"));
    let a = certificate("a.example", Kind::Ecdsa);
    let own = one.certificate_with("client", Kind::Ecdsa, client_params);
    for tickets in ["on", "off"] {
        let text = ADDRESSES.replace(" ssl;", " ssl; server_name a.example;");
        let site = with_files(
            Site::new(&format!("ssl_session_tickets {tickets};\n{text}")),
            &[
                ("a.pem", &a.pem),
                ("a.key", &a.key),
                ("one.pem", &one.pem),
                ("two.pem", &two.pem),
                ("one.crl", &one.revoke(&[7])),
            ],
        );
        let server = site.start(Server::Fulmar);
        for version in [&TLS12, &TLS13] {
            let ask = |client: &Client, port| {
                let spoken = client.ask(server.address_of(port), "GET /\nHost: a.example").unwrap();
                let response = spoken.answer.last();
                let verdict = response.field("x-verify").unwrap_or_default();
                (spoken.resumed, verdict.to_owned())
            };
            for (first, last) in [(0, 1), (1, 0), (0, 2), (2, 0), (0, 3), (3, 0)] {
                let client = Client::with(Some("a.example"), &[version], Kind::Ecdsa).showing(&own, &[]);
                let what = format!("{version:?}, tickets {tickets}, from {first} to {last}");
                let begun = ask(&client, first);
                assert!(!begun.0, "{what}");
                assert_eq!(ask(&client, first), (true, begun.1), "{what}");
                let verdicts =
                    ["SUCCESS", "FAILED:certificate signature failure", "NONE", "FAILED:certificate revoked"];
                assert_eq!(ask(&client, last), (false, verdicts[last].to_owned()), "{what}");
            }
        }
        server.stop();
    }
}

/// Asks over HTTP/2, with a host that is not that of the handshake.
#[test]
fn streams_of_http2_do_not_reach_a_server_that_checks_clients() {
    if !parts::is_present("curl", parts::program(&["curl"]).is_some()) {
        return;
    }
    let made = made();
    let site = Site::new(&format!("http2 on;\n{SERVERS}"));
    for file in ["a.pem", "a.key", "roots.pem", "single.pem", "root.crl", "old.crl"] {
        let text = std::fs::read_to_string(made.site.prefix().join(file)).unwrap();
        std::fs::write(site.prefix().join(file), text).unwrap();
    }
    let right = &made.shown[0].own;
    std::fs::write(site.prefix().join("right.pem"), format!("{}{}", right.pem, right.key)).unwrap();
    let server = site.start(Server::Fulmar);
    let address = server.address();
    for (asked, host, certificate, told) in [
        ("on", "on", "-E right.pem", "2 200"),
        ("on", "on", "", "2 400"),
        ("first", "on", "", "2 421"),
        ("first", "on", "-E right.pem", "2 421"),
        ("optional", "on", "-E right.pem", "2 421"),
        ("no-file", "on", "-E right.pem", "2 421"),
        ("on", "optional", "-E right.pem", "2 421"),
        ("on", "first", "-E right.pem", "2 200"),
        ("unknown", "on", "-E right.pem", "2 400"),
        ("unknown", "on", "", "2 400"),
    ] {
        let port = address.port();
        let arguments = format!(
            "-sk --http2 -o out -w %{{http_version}}_%{{http_code}} {certificate} --connect-to {asked}:{port}:{address} \
             -H host:{host} https://{asked}:{port}/"
        );
        let arguments = arguments.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown = run(&site, "curl", &arguments).replace('_', " ");
        assert_eq!(shown, told, "{asked} {host} {certificate}");
    }
    server.stop();
}

#[test]
fn wrong_settings_are_told_as_nginx_does() {
    let made = made();
    let pair =
        "listen 127.0.0.1:%%PORT%% ssl; ssl_certificate %%DIR%%/a.pem; ssl_certificate_key %%DIR%%/a.key;";
    for (lines, message) in [
        (
            "ssl_verify_client on;",
            "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client",
        ),
        (
            "ssl_verify_client optional; ssl_client_certificate '';",
            "no ssl_client_certificate or ssl_trusted",
        ),
        ("ssl_verify_client maybe;", "invalid value \"maybe\""),
        ("ssl_verify_depth x;", "invalid number"),
        (
            "ssl_verify_client on; ssl_client_certificate none.pem;",
            "none.pem\": BIO_new_file() failed (2: No such",
        ),
        (
            "ssl_verify_client on; ssl_client_certificate a.key;",
            "PEM_read_bio_X509_AUX() failed (no certificate",
        ),
        ("ssl_trusted_certificate a.key;", "PEM_read_bio_X509_AUX() failed (no certificate"),
        ("ssl_crl a.pem;", "PEM_read_bio_X509_CRL() failed (no CRL in PEM form is there)"),
        ("ssl_crl broken.crl;", "PEM_read_bio_X509_CRL() failed (a CRL is malformed"),
    ] {
        let site = Site::new(&format!("server {{ {pair} {lines} }}"));
        for file in ["a.pem", "a.key"] {
            let text = std::fs::read_to_string(made.site.prefix().join(file)).unwrap();
            std::fs::write(site.prefix().join(file), text).unwrap();
        }
        let broken = "-----BEGIN X509 CRL-----\nMAMCAQA=\n-----END X509 CRL-----\n";
        let site = with_files(site, &[("broken.crl", broken)]);
        let text = site.test(Server::Fulmar).unwrap_err();
        assert!(text.contains(message) && text.contains("fulmar.conf:"), "{lines}: {text}");
        if have_nginx() {
            assert!(site.test(Server::Nginx).is_err(), "{lines}");
        }
    }
}

/// Runs a program in the site's directory; gives what it prints.
fn run(site: &Site, program: &str, arguments: &str) -> String {
    let mut command = Command::new(program);
    command.args(arguments.split(' ')).current_dir(site.prefix()).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Certificates as `openssl x509 -req` made them for long: of version 1.
#[test]
fn certificates_of_version_1_are_accepted_from_openssl_and_curl() {
    let has = |program: &str| parts::is_present(program, parts::program(&[program]).is_some());
    if !has("openssl") || !has("curl") {
        return;
    }
    let site = Site::new(
        "server { listen %%PORT%% ssl; ssl_certificate %%DIR%%/ca.pem; ssl_certificate_key %%DIR%%/ca.key;
         ssl_verify_client on; ssl_client_certificate %%DIR%%/ca.pem;
         return 200 \"$ssl_client_verify $ssl_client_s_dn $ssl_client_sigalg\\n\"; }",
    );
    let run = |program: &str, arguments: &str| run(&site, program, arguments);
    run("openssl", "req -new -newkey rsa:2048 -nodes -keyout ca.key -out ca.csr -subj /CN=ca");
    run("openssl", "x509 -req -in ca.csr -signkey ca.key -out ca.pem -days 3");
    run("openssl", "req -new -newkey rsa:2048 -nodes -keyout c.key -out c.csr -subj /C=DE/O=x/CN=client");
    run("openssl", "x509 -req -in c.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out c.pem -days 3");
    for file in ["ca.pem", "c.pem"] {
        assert!(run("openssl", &format!("x509 -in {file} -noout -text")).contains("Version: 1 "), "{file}");
    }
    let server = site.start(Server::Fulmar);
    let url = format!("https://{}/", server.address());
    let told = run("curl", &format!("-sk --cert c.pem --key c.key {url}"));
    assert!(told.starts_with("SUCCESS CN=client,O=x,C=DE rsa_pss_rsae_sha"), "{told}");
    let told = run("curl", &format!("-sk --tls-max 1.2 --cert c.pem --key c.key {url}"));
    assert!(told.starts_with("SUCCESS CN=client,O=x,C=DE rsa_p"), "{told}");
    assert!(run("curl", &format!("-sk {url}")).contains("No required SSL certificate was sent"));
    let shown = run("openssl", &format!("s_client -connect {} -cert c.pem -key c.key", server.address()));
    assert!(shown.contains("Acceptable client certificate CA names\nCN = ca\n"), "{shown}");
    server.stop();
}

#[test]
fn files_of_openssl_are_served_keys_with_passwords_and_an_answer_of_a_responder() {
    if !parts::is_present("openssl", parts::program(&["openssl"]).is_some()) {
        return;
    }
    let site = Site::new(
        "ssl_password_file %%DIR%%/passwords; ssl_stapling on;
         server { listen %%PORT%% ssl; ssl_certificate %%DIR%%/a.pem; ssl_certificate_key %%DIR%%/rsa.key;
                  ssl_stapling_file %%DIR%%/answer.der; return 200 first; }
         server { listen %%PORT_1%% ssl; ssl_certificate %%DIR%%/trusted.pem; ssl_certificate_key %%DIR%%/modern.key;
                  ssl_stapling_file ''; return 200 second; }",
    );
    let site = with_files(site, &[("passwords", "wrong\r\n\ngeheim\n"), ("index", "")]);
    let run = |arguments: &str| run(&site, "openssl", arguments);
    run("req -x509 -newkey rsa:2048 -nodes -keyout clear.key -out a.pem -subj /CN=a -days 3");
    run("rsa -in clear.key -aes128 -traditional -passout pass:geheim -out rsa.key");
    run("pkcs8 -topk8 -in clear.key -v2 aes-256-cbc -passout pass:geheim -out modern.key");
    run("x509 -in a.pem -trustout -addtrust serverAuth -out trusted.pem");
    run(
        "ocsp -index index -CA a.pem -rsigner a.pem -rkey clear.key -issuer a.pem -cert a.pem -respout answer.der",
    );
    for server in [Server::Nginx, Server::Fulmar] {
        if server == Server::Nginx && !have_nginx() {
            continue;
        }
        let running = site.start(server);
        let shown = |port| run(&format!("s_client -status -connect {}", running.address_of(port)));
        assert!(shown(0).contains("OCSP Response Status: successful"), "{server:?}");
        assert!(shown(1).contains("OCSP response: no response sent"), "{server:?}");
        for port in [0, 1] {
            assert_eq!(
                Client::new(None).ask(running.address_of(port), "GET /").unwrap().answer.last().status,
                200
            );
        }
        running.stop();
    }
    for (lines, message) in [
        ("ssl_password_file none;", "cannot open file"),
        ("ssl_password_file index;", "the key is encrypted"),
        ("ssl_password_file a.pem;", "no password opens the key"),
        ("ssl_password_file passwords; ssl_stapling_file none;", "BIO_new_file("),
        ("ssl_password_file passwords; ssl_stapling_file a.pem;", "d2i_OCSP_RESPONSE_bio("),
    ] {
        let text = format!(
            "events {{}} http {{ {lines} ssl_stapling on; server {{ listen 127.0.0.1:8443 ssl; \
             ssl_certificate a.pem; ssl_certificate_key rsa.key; }} }}"
        );
        std::fs::write(site.prefix().join("fulmar.conf"), text).unwrap();
        let output = site.command(Server::Fulmar).arg("-t").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(message), "{lines}: {said}");
    }
}

#[test]
fn offers_of_clients_are_named_as_nginx_names_them() {
    if !have_nginx() {
        return;
    }
    let a = certificate("a.example", Kind::Ecdsa);
    let site = with_files(
        Site::new(
            "server { listen %%PORT%% ssl; ssl_certificate %%DIR%%/a.pem; ssl_certificate_key %%DIR%%/a.key;
             return 200 \"$ssl_ciphers|$ssl_curves|$ssl_sigalgs\"; }",
        ),
        &[("a.pem", &a.pem), ("a.key", &a.key)],
    );
    let (nginx, fulmar) = (site.start(Server::Nginx), site.start(Server::Fulmar));
    for versions in [&[&TLS12][..], &[&TLS13], rustls::ALL_VERSIONS] {
        let ask = |server: &Running| {
            Client::with(None, versions, Kind::Ecdsa)
                .ask(server.address(), "GET /")
                .unwrap()
                .answer
                .last()
                .text()
        };
        // OpenSSL names this group since 3.5.
        assert_eq!(ask(&fulmar), ask(&nginx).replace("0x11ec", "X25519MLKEM768"));
    }
    nginx.stop();
    fulmar.stop();
}
