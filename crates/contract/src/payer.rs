//! Who pays for what the `.htaccess` files cost a request.

use crate::{Connection, Exchange, Overlaid, Peer};
use http::hash::Keyed;
use journal::budget;
use journal::shares::{Account, Offence};
use std::hash::BuildHasher;
use std::rc::Rc;

/// The site and the rules, and the client.
pub struct Payer {
    own: Rc<Overlaid>,
    connection: Rc<Connection>,
}

/// The budget of a request.
pub type Budget = budget::Budget<Payer>;

impl budget::Payer for Payer {
    fn account(&self) -> Account {
        self.own.account()
    }

    fn share(&self) -> u64 {
        self.own.below.upgrade().and_then(|scope| Some(scope.policy.overlay.as_ref()?.share)).unwrap_or(1)
    }

    fn offence(&self) -> Offence {
        let client = match &self.connection.peer {
            Peer::Inet(address) => Keyed::default().hash_one(address.ip()),
            Peer::Unix(_) => 0,
        };
        (client, self.own.scope.as_ptr() as u64)
    }
}

impl Exchange {
    /// The budget of the request. The site, the client and the rules of its latest use pay.
    pub fn budget(&self) -> Rc<Budget> {
        let budget = self.budget_cell();
        if let Some(own) = &self.overlaid {
            let payer = || Payer { own: Rc::clone(own), connection: Rc::clone(&self.connection) };
            budget.charge_to(|payer| Rc::ptr_eq(&payer.own, own), payer);
        }
        Rc::clone(budget)
    }
}
