//! Browsers that settings name, told by what they say of themselves.

/// Internet Explorer 4, 5 and 6, but not the last form of 6, which has `SV1`.
pub fn is_msie6(agent: &[u8]) -> bool {
    let has = |text: &[u8], part: &str| text.windows(part.len()).any(|window| window == part.as_bytes());
    let Some(start) = agent.windows(5).position(|part| part == b"MSIE ") else { return false };
    let old = match &agent[start + 5..] {
        [b'4' | b'5', b'.', _, ..] => true,
        [b'6', b'.', _, rest @ ..] => !has(rest, "SV1"),
        _ => false,
    };
    old && !has(agent, "Opera")
}

#[cfg(test)]
mod tests {
    use super::is_msie6;

    #[test]
    fn which_explorers_are_meant() {
        for (agent, meant) in [
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", true),
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)", false),
            ("Mozilla/4.0 (compatible; MSIE 5.5; Windows 98)", true),
            ("Mozilla/4.0 (compatible; MSIE 6.0; x) Opera 8", false),
            ("Mozilla/4.0 (compatible; MSIE 7.0; x)", false),
            ("MSIE 6", false),
        ] {
            assert_eq!(is_msie6(agent.as_bytes()), meant, "{agent}");
        }
    }
}
