//! Changes between scopes. Most requests change between the same two: that of a location, and that with the settings in
//! `.htaccess` files. The one before is kept, because changing places costs less than counting owners.

use contract::{Exchange, Scope};
use std::mem::swap;
use std::sync::{Arc, Weak};

/// Makes this the current scope.
pub fn change(current: &mut Arc<Scope>, before: &mut Arc<Scope>, scope: &Arc<Scope>) {
    if !Arc::ptr_eq(current, scope) {
        swap(current, before);
    }
    if !Arc::ptr_eq(current, scope) {
        *current = Arc::clone(scope);
    }
}

/// Makes a scope that of a request.
pub fn enter(exchange: &mut Exchange, scope: &Arc<Scope>) {
    change(&mut exchange.scope, &mut exchange.scope_before, scope);
}

/// As [`enter`]; `false` if the scope is not kept any more.
pub(crate) fn enter_kept(exchange: &mut Exchange, scope: &Weak<Scope>) -> bool {
    if scope.as_ptr() == Arc::as_ptr(&exchange.scope_before) {
        swap(&mut exchange.scope, &mut exchange.scope_before);
    }
    let is_entered = scope.as_ptr() == Arc::as_ptr(&exchange.scope);
    is_entered || scope.upgrade().map(|scope| enter(exchange, &scope)).is_some()
}

#[cfg(test)]
mod tests {
    use super::{Arc, Scope, change, enter_kept};
    use contract::{Policy, Root, ScopeBuilder, Template};
    use std::path::PathBuf;

    fn scope() -> Arc<Scope> {
        let root = Root { path: Template::literal(b"html"), alias: None, prefix: PathBuf::new() };
        Arc::new(ScopeBuilder::new(None, Policy::new(root)).finish())
    }

    #[test]
    fn the_scope_before_costs_no_owner() {
        let [first, second, third] = [scope(), scope(), scope()];
        let (mut current, mut before) = (Arc::clone(&first), Arc::clone(&first));
        // The scope that is entered, and how many owners each has then.
        for (next, owners) in [
            (&first, [3, 1, 1]),
            (&second, [2, 2, 1]),
            (&first, [2, 2, 1]),
            (&second, [2, 2, 1]),
            (&third, [1, 2, 2]),
            (&first, [2, 1, 2]),
        ] {
            change(&mut current, &mut before, next);
            assert!(Arc::ptr_eq(&current, next));
            assert_eq!([&first, &second, &third].map(Arc::strong_count), owners);
        }
    }

    #[test]
    fn a_scope_that_is_gone_is_not_entered() {
        let mut exchange = crate::testing::exchange("/", "localhost", |_| ());
        let [own, kept] = [Arc::clone(&exchange.scope), scope()];
        let weak = Arc::downgrade(&kept);
        for scope in [&own, &kept, &own, &kept, &kept] {
            assert!(enter_kept(&mut exchange, &Arc::downgrade(scope)));
            assert!(Arc::ptr_eq(&exchange.scope, scope));
        }
        drop(kept);
        assert!(enter_kept(&mut exchange, &weak), "the exchange keeps it");
        exchange.scope_before = Arc::clone(&own);
        exchange.scope = Arc::clone(&own);
        assert!(!enter_kept(&mut exchange, &weak));
        assert!(Arc::ptr_eq(&exchange.scope, &own));
    }
}
