//! Access logs of two servers side by side.

/// A log line with what differs between two runs replaced: the time, and the size of bodies that name the
/// product.
pub fn mask(line: &str) -> String {
    let mut line = line.to_owned();
    if let (Some(open), Some(close)) = (line.find('['), line.find(']'))
        && is_local_time(&line[open + 1..close.max(open + 1)])
    {
        line.replace_range(open + 1..close, "time");
    }
    mask_size(&line).unwrap_or(line)
}

/// A line of an error log about a request that failed, without its time, process and connection: `[level]
/// message`. None for all other lines, and for what is only worth an `info`.
pub fn mask_error(line: &str) -> Option<String> {
    let (place, message) = line.split_once(": *")?;
    let (_, level) = place.split_once('[')?;
    let (level, _) = level.split_once(']')?;
    let (_, message) = message.split_once(' ')?;
    let told = message.contains(", request: ") && level != "info";
    told.then(|| format!("[{level}] {message}"))
}

/// `21/Nov/2026:20:05:00 +0000`, of the width that `$time_local` always has.
fn is_local_time(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape.len() == 26 && shape.starts_with("00/") && shape[6..].starts_with("/0000:00:00:00 ")
}

/// In `"request" 404 153 "` the size becomes `*` when the status is one whose body the server makes up.
fn mask_size(line: &str) -> Option<String> {
    let mut from = 0;
    while let Some(at) = line[from..].find("\" ") {
        let rest = &line[from + at + 2..];
        let mut words = rest.splitn(3, ' ');
        let (status, size) = (words.next()?, words.next()?);
        let numbers = status.len() == 3 && status.parse::<u16>().is_ok_and(|status| status >= 300);
        if numbers && size.parse::<u64>().is_ok_and(|size| size > 0) {
            let tail = words.next().map(|tail| format!(" {tail}")).unwrap_or_default();
            return Some(format!("{}{status} *{tail}", &line[..from + at + 2]));
        }
        from += at + 2;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{mask, mask_error};

    #[test]
    fn errors_without_what_changes() {
        let line =
            "2026/11/21 20:54:54 [error] 14751#1: *13 access forbidden by rule, client: ::1, request: \"x\"";
        let masked = mask_error(line);
        assert_eq!(masked.as_deref(), Some("[error] access forbidden by rule, client: ::1, request: \"x\""));
        assert_eq!(mask_error("2026/11/21 20:54:54 [notice] 14751#1: start worker process 3"), None);
        assert_eq!(
            mask_error("2026/11/21 20:54:54 [info] 1#1: *2 client ::1 closed keepalive connection"),
            None
        );
    }

    #[test]
    fn time_and_sizes_of_made_up_bodies() {
        let line = "::1 - - [21/Nov/2026:20:05:00 +0000] \"GET /\\x22 a HTTP/1.1\" 404 153 \"-\" \"x\"";
        assert_eq!(mask(line), "::1 - - [time] \"GET /\\x22 a HTTP/1.1\" 404 * \"-\" \"x\"");
        let line = "::1 - - [21/Nov/2026:20:05:00 +0000] \"GET / HTTP/1.1\" 200 153 \"-\" \"x\"";
        assert!(mask(line).contains(" 200 153 "));
        assert_eq!(mask("\"x\" 304 0 a"), "\"x\" 304 0 a");
        assert_eq!(mask("[a] plain"), "[a] plain");
    }
}
