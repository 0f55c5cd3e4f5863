//! Warns of values that a client can choose and must not.

use conf::Diagnostic;
use conf::value::{Part, Template};
use contract::{Args, Loading};

/// Variables that are what the client says.
const SAID: [&str; 7] =
    ["args", "content_type", "host", "query_string", "remote_user", "request", "ssl_server_name"];

/// Families of such variables.
const SAID_FAMILIES: [&str; 3] = ["arg_", "cookie_", "http_"];

/// Variables that start with a slash, so that a host ends before them.
const PATHS: [&str; 3] = ["document_uri", "request_uri", "uri"];

/// Warns where the server that a directive passes requests to is chosen by what the client says: a client
/// could name an address inside the network and get its answers.
pub(crate) fn warn_of_choice(args: &Args<'_>, loading: &mut Loading) {
    let Ok(word) = args.word(0) else { return };
    let Some(chooser) = chooser(&word.text) else { return };
    let message = format!("the client can choose the server of \"{}\" by \"${chooser}\"", args.node.name);
    let hint =
        "let a \"map\" choose among the servers that may be asked, or write \"upstream_deny internal\"";
    loading.note(Diagnostic::warn(message).at(args.node.span).under(word.span).hint(hint));
}

/// The first variable of what the client says, in front of the path of a URL.
fn chooser(url: &[u8]) -> Option<String> {
    let host = url.windows(3).position(|part| part == b"://").map_or(0, |at| at + 3);
    let end = url[host..].iter().position(|&byte| byte == b'/').map_or(url.len(), |at| host + at);
    let parts = Template::new(&url[host..end]).ok()?.parts;
    let is_path = |part: &Part| matches!(part, Part::Variable(name) if PATHS.contains(&&**name));
    parts.iter().take_while(|part| !is_path(part)).find_map(|part| match part {
        Part::Variable(name) if is_said(name) => Some(name.to_string()),
        Part::Capture(index) => Some(index.to_string()),
        _ => None,
    })
}

fn is_said(name: &str) -> bool {
    SAID.contains(&name) || SAID_FAMILIES.iter().any(|family| name.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::chooser;

    #[test]
    fn what_stands_in_front_of_the_path_chooses() {
        let chosen = |url: &str| chooser(url.as_bytes());
        assert_eq!(chosen("http://$http_host").as_deref(), Some("http_host"));
        assert_eq!(chosen("http://a.${arg_x}:80/b").as_deref(), Some("arg_x"));
        assert_eq!(chosen("$scheme://$host/x").as_deref(), Some("host"));
        assert_eq!(chosen("http://$1").as_deref(), Some("1"));
        assert_eq!(chosen("$cookie_to").as_deref(), Some("cookie_to"));
        for url in [
            "http://app/$arg_x",
            "http://app$request_uri$arg_x",
            "http://$backend/$uri",
            "http://127.0.0.1:$server_port",
            "unix:/a/$host",
        ] {
            assert_eq!(chosen(url), None, "{url}");
        }
    }
}
