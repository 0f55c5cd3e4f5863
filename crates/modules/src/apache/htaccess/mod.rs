//! Reads Apache's `.htaccess` files.
//!
//! With `htaccess on`, a location reads the `.htaccess` files of all directories from its root to the file, as Apache
//! does with `AllowOverride All`. Settings of a file override those of the location, and those of an inner directory
//! override those of an outer one. A change applies to the next request. A request for a file whose name starts with
//! `.ht`, or is one of `htaccess_file`, gets 403.
//!
//! `htaccess_override` is Apache's `AllowOverride`: it takes the classes `AuthConfig`, `FileInfo`, `Indexes`, `Limit` and
//! `Options`, or `All` or `None`. The pages of the modules name the classes of each directive.
//!
//! - A directive of another class is an error. With `Nonfatal=Override` Fulmar skips it and writes a warning to the log.
//!   `Nonfatal=Unknown` skips unknown directives, except those about access. `Nonfatal=All` skips both.
//! - `Options=Indexes,FollowSymLinks` allows only these words in `Options`.
//! - With `None` and no list, Fulmar does not look for the files.
//!
//! As in Apache's `<Directory>`, a location's `htaccess_override` applies to the files in the directories of its prefix,
//! whichever location of the same root the request belongs to. The files of the directories above follow what is set
//! around the location. In a location with a pattern or with `=`, it applies to all files on the way.
//!
//! `htaccess_override_list` is Apache's `AllowOverrideList`: it allows single directives, whatever their classes. Without
//! `htaccess_override` in the same level or around it, other directives are not allowed. `htaccess_file` is Apache's
//! `AccessFileName`: in each directory Fulmar reads the first of the files that exists.
//!
//! `htaccess_share` weighs the sites: with 4, a site may use four times the processor time of one with 1 before its
//! expensive requests wait for others. [Sites share the processor](../htaccess.md#sites-share-the-processor) says how.
//!
//! If a file has an error, or a directive that is not supported, its directory answers 500, and the error log names
//! the file and the line. If a file cannot be read, its directory answers 403. [.htaccess files](../htaccess.md)
//! lists the supported directives, the limits and the differences.
//!
//! nginx: none
//!
//! ```file html/.htaccess
//! RewriteEngine On
//! RewriteCond %{REQUEST_FILENAME} !-f
//! RewriteRule ^pages/(.+)$ page.txt?name=$1 [L,QSA]
//! Redirect 301 /moved http://example.com/there
//! Header set X-From .htaccess
//! ErrorDocument 404 "Nothing here."
//! ```
//!
//! ```file html/page.txt
//! page
//! ```
//!
//! ```file html/private/.htaccess
//! Require all denied
//! ```
//!
//! ```file html/private/a.txt
//! secret
//! ```
//!
//! ```file html/members/.site-access
//! RewriteEngine On
//! Header set X-From .site-access
//! ```
//!
//! ```file html/members/a.txt
//! a
//! ```
//!
//! ```conf
//! server {
//!     listen 8080;
//!     root html;
//!     location / {
//!         htaccess on;
//!     }
//!     location /members/ {
//!         htaccess on;
//!         htaccess_file .htaccess .site-access;
//!         htaccess_override AuthConfig Nonfatal=Override;
//!         htaccess_override_list Header;
//!     }
//! }
//! ```
//!
//! ```http
//! GET /pages/one HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! X-From: .htaccess
//!
//! page
//! ---
//! GET /moved/a HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 301 Moved Permanently
//! Location: http://example.com/there/a
//! ---
//! GET /missing HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 404 Not Found
//!
//! Nothing here.
//! ---
//! GET /private/a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ---
//! GET /.htaccess HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ---
//! GET /members/a.txt HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 200 OK
//! X-From: .site-access
//!
//! a
//! ---
//! GET /members/.site-access HTTP/1.1
//! Host: localhost
//!
//! HTTP/1.1 403 Forbidden
//! ```

mod overrides;

use crate::apache::apache_core::{documents, sections};
use crate::files::symlinks::Links;
use crate::shared::apache::variables::OnlyVerifiedUsers;
use crate::shared::files;
use crate::shared::per_directory::hidden::{DEFAULT_NAME, Hidden, names};
use crate::shared::per_directory::{are_files_judged, slot};
use conf::apache::Allowed;
use conf::{Arity, Contexts, Diagnostic, Word, value};
use contract::{
    Args, Directive, Exchange, Handler, Loading, Module, Overlay, Phase, ScopeBuilder, Step, View,
};
use std::sync::Arc;

/// Apache's `.htaccess` files.
pub static MODULE: Module = Module {
    name: "htaccess",
    directives: &[
        &HTACCESS,
        &overrides::HTACCESS_OVERRIDE,
        &overrides::HTACCESS_OVERRIDE_LIST,
        &HTACCESS_FILE,
        &HTACCESS_SHARE,
    ],
    variables: &[],
    compile: Some(compile),
};

const PLACES: Contexts = Contexts::SERVER.or(Contexts::LOCATION);

/// `htaccess on | off`
static HTACCESS: Directive<bool> = Directive::flag("htaccess")
    .within(PLACES)
    .slot(slot::JUDGED)
    .default("off")
    .help("Whether Fulmar reads `.htaccess` files.");

/// `htaccess_file NAME …`
static HTACCESS_FILE: Directive<Arc<[Box<[u8]>]>> = Directive::new("htaccess_file", parse_names)
    .within(PLACES)
    .args(Arity::AtLeast(1))
    .slot(slot::NAMES)
    .default(DEFAULT_NAME)
    .help("The names of `.htaccess` files. In each directory the first file that exists counts.");

/// `htaccess_share NUMBER`
static HTACCESS_SHARE: Directive<u64> = Directive::new("htaccess_share", |args, _| {
    args.value(0, |word| value::bounded(word, 1, Some(SHARE_MAX)))
})
.within(PLACES)
.default("1")
.help("How many shares of the processor the site has for expensive rules and pages, beside sites with 1.");

/// The most shares of a site.
const SHARE_MAX: u64 = 1000;

/// The longest name of a file on Linux, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Names of which each costs a look into every directory.
const NAMES_MAX: usize = 16;

pub(crate) fn parse_names(args: &Args<'_>, _: &mut Loading) -> Result<Arc<[Box<[u8]>]>, Diagnostic> {
    if args.words().len() > NAMES_MAX {
        return Err(args.error(&format!("has more than {NAMES_MAX} names")));
    }
    let name = |word: &Word| {
        let is_name = !word.text.is_empty() && word.text.len() <= NAME_BYTES_MAX;
        let is_path = word.text.iter().any(|byte| b"/\0".contains(byte))
            || [".", ".."].iter().any(|name| word.is(name));
        match is_name && !is_path {
            true => Ok(word.text.clone()),
            false => Err(args.invalid(word).hint("write the name of a file, without a path")),
        }
    };
    args.words().iter().map(name).collect()
}

fn compile(view: &View<'_>, builder: &mut ScopeBuilder) -> Result<(), Diagnostic> {
    if let Some(hidden) = Hidden::in_scope(view) {
        let root = &builder.policy.root;
        if root.alias.is_some() && root.path.constant().is_none() {
            builder.handle(Phase::Preaccess, HiddenBehindAlias(hidden.clone()));
        }
        builder.handle(Phase::Preaccess, hidden);
    }
    if !are_files_judged(view) {
        return Ok(());
    }
    documents::remember(view, builder);
    builder.keep(OnlyVerifiedUsers);
    let rules = overrides::rules(view, builder.name.as_ref());
    if rules.iter().any(|(_, allowed)| allowed.reads_files()) {
        let limited = |allowed: Allowed| (!allowed.is_everything()).then(|| Arc::new(allowed));
        let rules = rules.into_iter().map(|(start, allowed)| (start, limited(allowed))).collect();
        let (section, selections) = (view.section(), &sections::FILES);
        let (names, share) = (names(view), view.get(&HTACCESS_SHARE).copied().unwrap_or(1));
        builder.policy.overlay = Some(Arc::new(Overlay { section, names, rules, selections, share }));
        builder.policy.overlay_opener = Links::of(view).opener();
    }
    Ok(())
}

/// Denies files whose name comes from a variable in `alias`: the path of the request does not have it.
struct HiddenBehindAlias(Hidden);

impl Handler for HiddenBehindAlias {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let base = files::base(exchange).len();
        let Ok(path) = exchange.path() else { return Step::Next };
        self.0.deny(exchange, path.get(base..).unwrap_or_default()).unwrap_or(Step::Next)
    }
}

#[cfg(test)]
mod tests {
    use super::Hidden;
    use crate::testing::{Site, status};
    use conf::apache::{Allowed, Classes};
    use contract::{Handler, Phase};
    use std::sync::Arc;

    /// What `.htaccess` files of a location may contain; `None` for everything.
    fn allowed(text: &str) -> Option<Arc<Allowed>> {
        let scope = Site::location(text).get("/").scope.clone();
        let overlay = scope.policy.overlay.as_ref().expect("files count");
        assert_eq!(overlay.rules.last().map(|(start, _)| start.len()), Some(0));
        overlay.rules[0].1.clone()
    }

    fn reads_files(text: &str) -> bool {
        Site::location(text).get("/").scope.policy.overlay.is_some()
    }

    #[test]
    fn off_is_not_there() {
        let scope = Site::location("htaccess off;").get("/").scope.clone();
        assert!(scope.policy.overlay.is_none() && scope.handlers(Phase::Preaccess).is_empty());
        assert!(Site::location("htaccess on;").get("/").scope.policy.overlay.is_some());
    }

    #[test]
    fn everything_is_allowed_unless_said_otherwise() {
        assert_eq!(allowed("htaccess on;"), None);
        assert_eq!(allowed("htaccess on; htaccess_override All;"), None);
        assert_eq!(allowed("htaccess on; htaccess_override none all;"), None);
        let part = allowed("htaccess on; htaccess_override FileInfo indexes;").unwrap();
        assert_eq!(part.classes, Classes::FILE_INFO.or(Classes::INDEXES));
        assert!(!part.skips_forbidden && !part.skips_unknown && part.names.is_empty());
        let skipping = allowed("htaccess on; htaccess_override AuthConfig Nonfatal=Override;").unwrap();
        assert!(skipping.skips_forbidden && !skipping.skips_unknown);
        let skipping = allowed("htaccess on; htaccess_override All nonfatal=all;").unwrap();
        assert!(skipping.skips_forbidden && skipping.skips_unknown);
    }

    #[test]
    fn a_list_without_classes_is_all_that_is_allowed() {
        let list = allowed("htaccess on; htaccess_override_list Redirect <Files;").unwrap();
        assert_eq!((list.classes, list.names.join(" ")), (Classes::NONE, "redirect files".to_owned()));
        let both = allowed("htaccess on; htaccess_override Limit; htaccess_override_list Redirect;").unwrap();
        assert_eq!((both.classes, both.names.len()), (Classes::LIMIT, 1));
    }

    #[test]
    fn files_do_not_count_where_nothing_is_allowed() {
        assert!(!reads_files("htaccess on; htaccess_override None;"));
        assert!(!reads_files("htaccess on; htaccess_override_list None;"));
        assert!(reads_files("htaccess on; htaccess_override None; htaccess_override_list Redirect;"));
        assert!(reads_files("htaccess on; htaccess_override Nonfatal=All;"), "as in Apache");
        let site = Site::location("htaccess on; htaccess_override None;");
        assert_eq!(site.get("/").scope.handlers(Phase::Preaccess).len(), 1, "names are hidden");
    }

    #[test]
    fn names_that_start_so_are_hidden() {
        let site = Site::location("htaccess on;");
        let verdict = |hidden: &Hidden, path| status(&hidden.run(&mut site.get(path)));
        let hidden = Hidden::new(Arc::from([Box::from(*b".Site-Access") as Box<[u8]>]));
        let verdict_of = |path| verdict(&hidden, path);
        let paths = ["/.htaccess", "/a/.htpasswd", "/.HTACCESS", "/.ht/a", "/a.htaccess", "/.h"];
        assert_eq!(paths.map(verdict_of), [403, 403, 403, 403, 0, 0]);
        let paths = ["/.site-access", "/a/.Site-Access/b", "/.site-accesses", "/x.site-access"];
        assert_eq!(paths.map(verdict_of), [403, 403, 0, 0]);
        let hidden = Hidden::new(Arc::from([Box::from(*b"settings") as Box<[u8]>]));
        let paths = ["/a/Settings", "/.htaccess", "/a/.b/settings2"];
        assert_eq!(paths.map(|path| verdict(&hidden, path)), [403, 403, 0]);
    }

    #[test]
    fn mistakes_are_told() {
        for text in [
            "FileInfos",
            "Options=",
            "Options=Index",
            "Options=Indexes,",
            "Nonfatal",
            "Nonfatal=x",
            "None=x",
            "",
        ] {
            assert!(Site::error(&format!("htaccess_override '{text}';")).contains("invalid value"), "{text}");
        }
        let unknown = Site::error("htaccess_override_list RewriteRul;");
        assert!(unknown.contains("\"RewriteRul\", which Apache does not have"), "{unknown}");
        assert!(Site::error("htaccess_override_list RewriteMap;").contains("httpd.conf only"));
        assert!(Site::error("htaccess_override_list None Redirect;").contains("\"None\""));
        for name in ["''", "a/b", "/a", ".", ".."] {
            assert!(Site::error(&format!("htaccess_file {name};")).contains("invalid parameter"), "{name}");
        }
        assert!(Site::error(&format!("htaccess_file {};", "a".repeat(256))).contains("invalid parameter"));
        assert!(Site::error(&format!("htaccess_file {};", "a ".repeat(17))).contains("more than 16 names"));
        assert_eq!(Site::error("htaccess_share 0;"), "value must be between 1 and 1000");
    }
}
