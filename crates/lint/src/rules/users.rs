//! User names that applications get.

use crate::tree::{Spot, has_deep, uses};
use crate::{Found, Rule};
use conf::Level;

pub(crate) static UNVERIFIED_USER: Rule = Rule {
    id: "unverified-user",
    level: Level::Notice,
    title: "an application gets a user whose password nothing verified",
    why: "`$remote_user` is the name in the `Authorization` header: whatever the client claims. It is a user only where \
          `auth_basic` or `auth_request` rejects a wrong password, or with `htaccess on`, where the variable stays \
          empty until a rule of a `.htaccess` file has verified the password.",
    bad: "server { location / { fastcgi_param REMOTE_USER $remote_user; fastcgi_pass unix:/run/app.sock; } }",
    good: "server { location / { auth_basic x; auth_basic_user_file /etc/nginx/users; \
           fastcgi_param REMOTE_USER $remote_user; fastcgi_pass unix:/run/app.sock; } }",
    check: |tree| {
        tree.all()
            .filter(|spot| PASSED.iter().any(|name| spot.node.is(name)) && !is_verified(spot))
            .filter_map(|spot| {
                let word = spot.node.arg(1)?;
                uses(word, &["$remote_user"])?;
                let found = Found::at(spot.node, "the client claims this name", "auth_basic, or htaccess on");
                Some(found.under(word.span))
            })
            .collect()
    },
};

/// What hands a value to an application.
const PASSED: [&str; 5] =
    ["fastcgi_param", "scgi_param", "uwsgi_param", "proxy_set_header", "grpc_set_header"];

/// Whether a password is asked for here, or in a block inside that inherits the directive.
fn is_verified(spot: &Spot<'_>) -> bool {
    let is_on = |name: &str| {
        let last = spot.effective(name).last().and_then(|node| node.arg(0));
        last.is_some_and(|word| !word.is("off")) || spot.parent().is_some_and(|block| has_deep(block, name))
    };
    ["auth_basic", "auth_request", "htaccess"].iter().any(|name| is_on(name))
}
