//! The limit of a response: `limit_rate`.

use contract::Exchange;
use wire::Throttle;

/// Whether the response to an exchange has a limit, or may turn out to have one.
pub fn is_limited(exchange: &Exchange) -> bool {
    exchange.wire.limit_rate.is_some() || exchange.scope.policy.sending.limit_rate.is_some()
}

/// The limit of a response that begins now, if it has one. From now on `$limit_rate` shows it.
pub(crate) fn limit(exchange: &mut Exchange) -> Option<Throttle> {
    let scope = &exchange.scope;
    let written = scope.policy.sending.limit_rate.as_ref();
    let rate = exchange.wire.limit_rate.or_else(|| Some(written?.evaluate(exchange)))?;
    let after = scope.policy.sending.limit_rate_after.as_ref();
    let after = after.filter(|_| rate > 0).map_or(0, |after| after.evaluate(exchange));
    exchange.wire.limit_rate = Some(rate);
    Throttle::new(rate, after, exchange.started().instant)
}
