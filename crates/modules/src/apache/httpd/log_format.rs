//! Logs of requests: `LogFormat`, `CustomLog`.

use super::{SERVERS, expands, line, lines, log_path};
use conf::{Arity, Contexts, Diagnostic, Word};
use contract::{Args, Counted, Directive, Loading};

/// What comes before the name of a format, so that none is one of nginx's.
const PREFIX: &str = "apache_";

/// `LogFormat FORMAT NAME`
pub(super) static LOG_FORMAT: Directive<Counted> =
    expands(Directive::new("LogFormat", parse_format), Arity::Exactly(2))
        .within(Contexts::VIRTUAL_HOST)
        .repeats()
        .help("A format of logs of requests.");

/// `CustomLog FILE NAME`
pub(super) static CUSTOM_LOG: Directive<Counted> =
    expands(Directive::new("CustomLog", parse_log), Arity::Range(2, 3))
        .within(SERVERS)
        .repeats()
        .help("A log of requests.");

fn parse_format(args: &Args<'_>, loading: &mut Loading) -> Result<Counted, Diagnostic> {
    let (format, name) = (args.word(0)?, args.word(1)?);
    if args.context.intersects(Contexts::SERVER) {
        let message = "\"LogFormat\" in <VirtualHost> is not built";
        let refusal = Diagnostic::emerg(message).at(args.node.span);
        loading.refuse(refusal.hint("write the line outside of <VirtualHost>"))?;
        return lines([]);
    }
    let translated = match translate(&format.to_string()) {
        Ok(translated) => translated,
        Err(unknown) => {
            let message = format!("\"{unknown}\" in \"LogFormat\" is not built");
            loading.refuse(Diagnostic::emerg(message).at(args.node.span).under(format.span))?;
            return lines([]);
        }
    };
    let name = format!("{PREFIX}{name}");
    lines([line(args, "log_format", &[name.as_bytes(), translated.as_bytes()])])
}

fn parse_log(args: &Args<'_>, loading: &mut Loading) -> Result<Counted, Diagnostic> {
    let path = log_path(args, loading, args.word(0)?)?;
    let name = args.word(1)?;
    let refuse = |loading: &mut Loading, word: &Word, hint: &str| {
        let message = format!("\"{word}\" in \"CustomLog\" is not built");
        loading.refuse(Diagnostic::emerg(message).at(args.node.span).under(word.span).hint(hint))
    };
    if let Some(condition) = args.words().get(2) {
        refuse(loading, condition, "write the line without it to log all requests")?;
    }
    if name.text.contains(&b'%') {
        refuse(loading, name, "give the format a name with LogFormat")?;
        return lines([]);
    }
    let name = format!("{PREFIX}{name}");
    lines([line(args, "access_log", &[&path, name.as_bytes()])])
}

/// A format with nginx's variables.
///
/// # Errors
/// A directive in it that has no variable.
fn translate(format: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = format;
    while let Some(at) = rest.find(['%', '$', '\\']) {
        out.push_str(&rest[..at]);
        if let Some(escaped) = rest[at..].strip_prefix('\\') {
            let (text, after) = match escaped.chars().next() {
                Some('n') => ("\n", &escaped[1..]),
                Some('t') => ("\t", &escaped[1..]),
                Some('"') => ("\"", &escaped[1..]),
                Some('\\') => ("\\", &escaped[1..]),
                _ => ("\\", escaped),
            };
            out.push_str(text);
            rest = after;
            continue;
        }
        let Some(directive) = rest[at..].strip_prefix('%') else { return Err("$".to_owned()) };
        let directive = directive.trim_start_matches(['<', '>']);
        let (argument, directive) = match directive.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some((argument, directive)) => (Some(argument), directive),
            None => (None, directive),
        };
        let Some(letter) = directive.chars().next() else { return Err("%".to_owned()) };
        out.push_str(&variable(argument, letter).ok_or_else(|| shown(argument, letter))?);
        rest = &directive[letter.len_utf8()..];
    }
    out.push_str(rest);
    Ok(out)
}

fn shown(argument: Option<&str>, letter: char) -> String {
    match argument {
        Some(argument) => format!("%{{{argument}}}{letter}"),
        None => format!("%{letter}"),
    }
}

/// What a directive of a format stands for.
fn variable(argument: Option<&str>, letter: char) -> Option<String> {
    if let Some(argument) = argument {
        let name = argument.to_ascii_lowercase().replace('-', "_");
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let variable = match letter {
            'i' => format!("${{http_{name}}}"),
            'o' => format!("${{sent_http_{name}}}"),
            'C' => format!("${{cookie_{argument}}}"),
            _ => return None,
        };
        return is_name.then_some(variable);
    }
    let text = match letter {
        '%' => "%",
        'a' | 'h' => "${remote_addr}",
        'A' => "${server_addr}",
        'b' | 'B' => "${body_bytes_sent}",
        'f' => "${request_filename}",
        'H' => "${server_protocol}",
        'I' => "${request_length}",
        'l' => "-",
        'm' => "${request_method}",
        'O' => "${bytes_sent}",
        'p' => "${server_port}",
        'P' => "${pid}",
        'q' => "${is_args}${args}",
        'r' => "${request}",
        's' => "${status}",
        't' => "[${time_local}]",
        'u' => "${remote_user}",
        'U' => "${uri}",
        'v' => "${server_name}",
        'V' => "${host}",
        _ => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::translate;

    #[test]
    fn formats_become_nginxs() {
        let common =
            "${remote_addr} - ${remote_user} [${time_local}] \"${request}\" ${status} ${body_bytes_sent}";
        assert_eq!(translate("%h %l %u %t \"%r\" %>s %b").as_deref(), Ok(common));
        assert_eq!(translate("\\\"%{User-Agent}i\\\"%%\\t").as_deref(), Ok("\"${http_user_agent}\"%\t"));
        for (format, unknown) in
            [("%D", "%D"), ("%{%s}t", "%{%s}t"), ("a$b", "$"), ("%{x}e", "%{x}e"), ("%", "%")]
        {
            assert_eq!(translate(format), Err(unknown.to_owned()), "{format}");
        }
    }
}
