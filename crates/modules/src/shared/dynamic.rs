//! Variables whose names are known only while a request is served.

use contract::Exchange;

/// Appends the value of the variable of this name, which is in lower case; `false` if there is no such variable, or if
/// it has no value.
pub(crate) fn value(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let variables = exchange.variables();
    if let Some(id) = variables.find(name) {
        return exchange.variable(id, out);
    }
    variables.built_in(name).is_some_and(|(get, rest)| get(exchange, rest, out))
}

#[cfg(test)]
mod tests {
    use super::value;
    use crate::testing::Site;

    #[test]
    fn variables_of_the_configuration_and_of_the_server() {
        let site = Site::location("set $mine 1; if ($mine) { set $other $args; }");
        let exchange = site.get("/a?b=c");
        let get = |name: &str| {
            let mut out = Vec::new();
            value(&exchange, name, &mut out).then(|| String::from_utf8(out).unwrap())
        };
        assert_eq!(get("arg_b").as_deref(), Some("c"));
        assert_eq!(get("request_method").as_deref(), Some("GET"));
        assert_eq!(get("args").as_deref(), Some("b=c"));
        assert_eq!(get("mine").as_deref(), Some(""), "nothing has set it yet");
        assert_eq!([get("arg_x"), get("nobody")], [const { None }; 2]);
    }
}
