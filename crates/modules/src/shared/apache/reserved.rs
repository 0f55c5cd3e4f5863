//! Variables of the environment that `.htaccess` files may set for their own rules, but that no program gets: a program
//! that other sites share, or the interpreter that runs it, would obey them.

/// How a name is compared with a row.
#[derive(Clone, Copy)]
enum Row {
    /// The whole name.
    Name(&'static [u8]),
    /// All names that start so.
    Start(&'static [u8]),
}

use Row::{Name, Start};

/// What the names control. Only the server's configuration may set these.
const ROWS: [Row; 60] = [
    // PHP-FPM: settings, which it keeps for the requests of other sites, too.
    Name(b"PHP_VALUE"),
    Name(b"PHP_ADMIN_VALUE"),
    // Gateways: which file is run, by which application, in which role.
    Name(b"SCRIPT_FILENAME"),
    Name(b"PATH_TRANSLATED"),
    Name(b"DOCUMENT_ROOT"),
    Start(b"FCGI_"),
    Start(b"UWSGI_"),
    Name(b"SCGI"),
    // What the names of the request's headers become.
    Start(b"HTTP_"),
    // The dynamic linker and the C library: what glibc itself ignores in programs with privileges.
    Start(b"LD_"),
    Start(b"DYLD_"),
    Start(b"MALLOC_"),
    Name(b"GCONV_PATH"),
    Name(b"GETCONF_DIR"),
    Name(b"GLIBC_TUNABLES"),
    Name(b"HOSTALIASES"),
    Name(b"LOCALDOMAIN"),
    Name(b"LOCPATH"),
    Name(b"NLSPATH"),
    Name(b"RESOLV_HOST_CONF"),
    Name(b"RES_OPTIONS"),
    // Which programs are started, and what shells do at their start.
    Name(b"PATH"),
    Name(b"IFS"),
    Name(b"CDPATH"),
    Name(b"BASH_ENV"),
    Start(b"BASH_FUNC_"),
    Name(b"BASHOPTS"),
    Name(b"SHELLOPTS"),
    Name(b"PS4"),
    // PHP.
    Name(b"PHPRC"),
    Name(b"PHP_INI_SCAN_DIR"),
    Start(b"PHP_FCGI_"),
    // Perl.
    Start(b"PERL5"),
    Start(b"PERLIO"),
    Name(b"PERLLIB"),
    Name(b"PERL_UNICODE"),
    // Python: PYTHONPATH, PYTHONHOME and twenty more.
    Start(b"PYTHON"),
    // Ruby.
    Name(b"RUBYOPT"),
    Name(b"RUBYLIB"),
    Name(b"RUBYPATH"),
    Name(b"GEM_HOME"),
    Name(b"GEM_PATH"),
    Name(b"BUNDLE_GEMFILE"),
    Name(b"BUNDLE_PATH"),
    // Node.js; NODE_ENV belongs to applications.
    Name(b"NODE_OPTIONS"),
    Name(b"NODE_PATH"),
    Name(b"NODE_EXTRA_CA_CERTS"),
    Name(b"NODE_TLS_REJECT_UNAUTHORIZED"),
    Name(b"NODE_REPL_EXTERNAL_MODULE"),
    // Java.
    Name(b"CLASSPATH"),
    Name(b"JAVA_TOOL_OPTIONS"),
    Name(b"_JAVA_OPTIONS"),
    Name(b"JDK_JAVA_OPTIONS"),
    // Lua.
    Name(b"LUA_PATH"),
    Name(b"LUA_CPATH"),
    Start(b"LUA_INIT"),
    // OpenSSL loads the libraries that its configuration names.
    Name(b"OPENSSL_CONF"),
    Name(b"OPENSSL_MODULES"),
    Name(b"OPENSSL_ENGINES"),
    Name(b"SSLKEYLOGFILE"),
];

/// Not reserved: the lines by which applications ask for the password are common, and say nothing about other sites.
const AUTHORIZATION: &[u8] = b"HTTP_AUTHORIZATION";

/// Whether no program gets the variable of this name.
pub(super) fn is_reserved(name: &[u8]) -> bool {
    let is_row = |row: &Row| match row {
        Name(reserved) => name == *reserved,
        Start(start) => name.starts_with(start),
    };
    name != AUTHORIZATION && ROWS.iter().any(is_row)
}

#[cfg(test)]
mod tests {
    use super::is_reserved;

    #[test]
    fn names_of_applications_are_free() {
        for free in [
            "HTTP_AUTHORIZATION",
            "HTTPS",
            "APP_ENV",
            "NODE_ENV",
            "RAILS_ENV",
            "PHP_AUTH_USER",
            "PERL_APP",
            "ENV",
            "HOME",
            "REMOTE_USER",
            "BASE_PATH",
            "DB_PATH",
            "JAVA_HOME",
            "REDIRECT_PHPRC",
        ] {
            assert!(!is_reserved(free.as_bytes()), "{free}");
        }
        for reserved in ["PHPRC", "PYTHONPATH", "PERL5OPT", "FCGI_ROLE", "UWSGI_FILE", "LD_PRELOAD", "PATH"] {
            assert!(is_reserved(reserved.as_bytes()), "{reserved}");
        }
    }
}
