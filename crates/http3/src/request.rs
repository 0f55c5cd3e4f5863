//! Heads of requests.

use http::multiplexed::{self, HeaderList, MalformedRequest, RequestRules};
use http::{RequestHead, Version};

/// Reads the head of a request ([`multiplexed::read_request`]), and tells whether it opens a WebSocket.
///
/// # Errors
/// The head breaks the rules. `head` has what was understood of its line.
pub fn read_request(
    list: &HeaderList,
    rules: &RequestRules,
    head: &mut RequestHead,
) -> Result<bool, MalformedRequest> {
    multiplexed::read_request(list, Version::Http3, rules, head)
}
