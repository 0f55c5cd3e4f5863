//! The flags, read as nginx reads them: `-tq` is `-t -q`, and a value follows its letter with or without
//! a space.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use conf::suggest;
use net::control::Command;

/// What the flags ask for. A flag that is given twice counts as given last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    /// `-h`, `-?`: show the help.
    pub(crate) help: bool,
    /// `-v`, `-V`, and with the help: show the version.
    pub(crate) version: bool,
    /// `-V`: show what was built in, too.
    pub(crate) features: bool,
    /// `-t`, `-T`: test the configuration and end.
    pub(crate) test: bool,
    /// `-T`: show the configuration, too.
    pub(crate) dump: bool,
    /// `-q`: say nothing but errors while testing.
    pub(crate) quiet: bool,
    /// `-s`: what to tell the running supervisor.
    pub(crate) signal: Option<Command>,
    /// `-p`: the prefix.
    pub(crate) prefix: Option<PathBuf>,
    /// `-c`: the main configuration file.
    pub(crate) conf: Option<PathBuf>,
    /// `-e`: the error log until the configuration names one; `stderr` is the standard error stream.
    pub(crate) error_log: Option<PathBuf>,
    /// `-g`: directives before those of the file.
    pub(crate) globals: Option<String>,
}

/// A command line that cannot be understood; the text says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UsageError(pub String);

impl Flags {
    /// Reads the arguments that follow the program's name.
    ///
    /// # Errors
    /// An unknown flag, or a flag without its value.
    pub(crate) fn parse(arguments: &[OsString]) -> Result<Flags, UsageError> {
        let mut flags = Flags::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_bytes() {
                b"--help" => flags.show_help(),
                b"--version" => flags.version = true,
                [b'-', letters @ ..] => flags.group(letters, &mut rest)?,
                _ => return Err(no_option(argument)),
            }
        }
        Ok(flags)
    }

    /// The letters after one dash; the first that takes a value takes all that follows it.
    fn group<'a>(
        &mut self,
        letters: &[u8],
        rest: &mut impl Iterator<Item = &'a OsString>,
    ) -> Result<(), UsageError> {
        for (index, letter) in letters.iter().enumerate() {
            match letter {
                b'?' | b'h' => self.show_help(),
                b'v' => self.version = true,
                b'V' => (self.version, self.features) = (true, true),
                b't' => self.test = true,
                b'T' => (self.test, self.dump) = (true, true),
                b'q' => self.quiet = true,
                b'p' | b'e' | b'c' | b'g' | b's' => {
                    let attached = &letters[index + 1..];
                    let value = match attached {
                        [] => rest.next().cloned().ok_or_else(|| missing(*letter))?,
                        _ => OsString::from_vec(attached.to_vec()),
                    };
                    return self.value(*letter, value);
                }
                other => return Err(invalid(OsStr::from_bytes(&[*other]))),
            }
        }
        Ok(())
    }

    fn value(&mut self, letter: u8, value: OsString) -> Result<(), UsageError> {
        match letter {
            b'p' => self.prefix = Some(value.into()),
            b'e' => self.error_log = Some(value.into()),
            b'c' => self.conf = Some(value.into()),
            b'g' => {
                let text = value.into_string();
                self.globals =
                    Some(text.map_err(|_| UsageError("option \"-g\" requires text in UTF-8".to_owned()))?);
            }
            _ => {
                let word = value.to_str().filter(|word| SIGNALS.contains(word));
                let unknown = || {
                    let near = value.to_str().and_then(|word| suggest(word, SIGNALS));
                    let UsageError(text) = invalid(OsStr::from_bytes(&[b"-s ", value.as_bytes()].concat()));
                    UsageError(
                        near.map_or(text.clone(), |near| format!("{text}; did you mean \"-s {near}\"?")),
                    )
                };
                self.signal = Some(word.and_then(|word| word.parse().ok()).ok_or_else(unknown)?);
            }
        }
        Ok(())
    }

    fn show_help(&mut self) {
        (self.version, self.help) = (true, true);
    }
}

/// What `-s` may be followed by.
pub(crate) const SIGNALS: [&str; 4] = ["stop", "quit", "reopen", "reload"];

/// Words that stand for an option or a command, and how these are written.
const WORDS: [(&str, &str); 18] = [
    ("serve", "serve"),
    ("proxy", "proxy"),
    ("explain", "explain"),
    ("lint", "lint"),
    ("migrate", "migrate"),
    ("fmt", "fmt"),
    ("cache", "cache"),
    ("certificates", "certificates"),
    ("completions", "completions"),
    ("format", "fmt"),
    ("stop", "-s stop"),
    ("quit", "-s quit"),
    ("reopen", "-s reopen"),
    ("reload", "-s reload"),
    ("test", "-t"),
    ("check", "-t"),
    ("help", "-h"),
    ("version", "-v"),
];

/// A word without a dash that is no command.
fn no_option(argument: &OsStr) -> UsageError {
    let UsageError(text) = invalid(argument);
    let meant = argument.to_str().and_then(|written| {
        let exact = WORDS.iter().find(|(word, _)| *word == written);
        let near = || suggest(written, WORDS.map(|(word, _)| word));
        exact.or_else(|| WORDS.iter().find(|(word, _)| Some(*word) == near()))
    });
    UsageError(match meant {
        Some((_, meant)) => format!("{text}; did you mean \"fulmar {meant}\"?"),
        None => text,
    })
}

fn invalid(argument: &OsStr) -> UsageError {
    UsageError(format!("invalid option: \"{}\"", argument.display()))
}

fn missing(letter: u8) -> UsageError {
    let what = match letter {
        b'p' => "directory name",
        b'c' | b'e' => "file name",
        _ => "parameter",
    };
    UsageError(format!("option \"-{}\" requires {what}", char::from(letter)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Flags, String> {
        let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Flags::parse(&arguments).map_err(|UsageError(text)| text)
    }

    #[test]
    fn flags_stand_alone_or_together() {
        let testing = Flags { test: true, quiet: true, ..Flags::default() };
        assert_eq!(parse("-t -q"), Ok(testing.clone()));
        assert_eq!(parse("-tq"), Ok(testing.clone()));
        assert_eq!(parse("-tqc x"), Ok(Flags { conf: Some("x".into()), ..testing }));
        assert!(parse("-T").unwrap().test && parse("-T").unwrap().dump);
        assert!(parse("-V").unwrap().version && parse("-V").unwrap().features);
        assert!(parse("-?").unwrap().help && parse("-h").unwrap().version);
        assert_eq!(parse("-"), Ok(Flags::default()));
    }

    #[test]
    fn values_are_attached_or_separate() {
        let expected = Flags {
            prefix: Some("/p/".into()),
            conf: Some("a.conf".into()),
            error_log: Some("stderr".into()),
            signal: Some(Command::Reload),
            ..Flags::default()
        };
        assert_eq!(parse("-p /p/ -c a.conf -e stderr -s reload"), Ok(expected.clone()));
        assert_eq!(parse("-p/p/ -ca.conf -estderr -sreload"), Ok(expected));
        assert_eq!(parse("-c a -c b").unwrap().conf, Some("b".into()));
        let globals = Flags::parse(&["-g".into(), "daemon off; pid x;".into()]).unwrap().globals;
        assert_eq!(globals.as_deref(), Some("daemon off; pid x;"));
    }

    #[test]
    fn errors_name_the_option() {
        for (line, text) in [
            ("x", "invalid option: \"x\""),
            ("serv", "invalid option: \"serv\"; did you mean \"fulmar serve\"?"),
            ("-q exlpain", "invalid option: \"exlpain\"; did you mean \"fulmar explain\"?"),
            ("lnit", "invalid option: \"lnit\"; did you mean \"fulmar lint\"?"),
            ("reload", "invalid option: \"reload\"; did you mean \"fulmar -s reload\"?"),
            ("versoin", "invalid option: \"versoin\"; did you mean \"fulmar -v\"?"),
            ("/etc/nginx.conf", "invalid option: \"/etc/nginx.conf\""),
            ("-s relaod", "invalid option: \"-s relaod\"; did you mean \"-s reload\"?"),
            ("-x", "invalid option: \"x\""),
            ("-tx", "invalid option: \"x\""),
            ("-s", "option \"-s\" requires parameter"),
            ("-s identify", "invalid option: \"-s identify\""),
            ("-g", "option \"-g\" requires parameter"),
            ("-c", "option \"-c\" requires file name"),
            ("-e", "option \"-e\" requires file name"),
            ("-p", "option \"-p\" requires directory name"),
        ] {
            assert_eq!(parse(line), Err(text.to_owned()), "{line}");
        }
    }
}
