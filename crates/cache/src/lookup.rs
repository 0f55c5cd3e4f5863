//! What a request does with the response that it finds: decisions without a lock, a file or a clock.
//!
//! [`Sought::fit`] says whether an object is a response to the request, [`Terms::judge`] whether it may be sent, and
//! [`Terms::renew`] what the request does if it may not. [`Lookup`] is what the request remembers of it.

use crate::freshness::{Freshness, Ignoring};
use crate::head::Head;
use crate::key::Key;
use crate::rfc9111::{self, Rules, Use, Wish};
use http::{Fields, Status};

/// The result of a look for a response (`$upstream_cache_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words are nginx's")]
pub enum CacheStatus {
    Miss,
    Bypass,
    Expired,
    Stale,
    Updating,
    Revalidated,
    Hit,
}

impl CacheStatus {
    /// All results, in the order in which a zone counts them.
    pub const ALL: [CacheStatus; 7] = [
        CacheStatus::Miss,
        CacheStatus::Bypass,
        CacheStatus::Expired,
        CacheStatus::Stale,
        CacheStatus::Updating,
        CacheStatus::Revalidated,
        CacheStatus::Hit,
    ];

    /// nginx's word for it.
    pub fn text(self) -> &'static str {
        match self {
            CacheStatus::Miss => "MISS",
            CacheStatus::Bypass => "BYPASS",
            CacheStatus::Expired => "EXPIRED",
            CacheStatus::Stale => "STALE",
            CacheStatus::Updating => "UPDATING",
            CacheStatus::Revalidated => "REVALIDATED",
            CacheStatus::Hit => "HIT",
        }
    }
}

/// Why the upstream server is asked (RFC 9211, section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words are those of RFC 9211")]
pub enum Reason {
    UriMiss,
    VaryMiss,
    Bypass,
    Request,
    Stale,
}

impl Reason {
    /// The word of RFC 9211.
    pub fn word(self) -> &'static str {
        match self {
            Reason::UriMiss => "uri-miss",
            Reason::VaryMiss => "vary-miss",
            Reason::Bypass => "bypass",
            Reason::Request => "request",
            Reason::Stale => "stale",
        }
    }
}

/// What a request has found so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The request has left the location that looked, or removes a response instead.
    Over,
    /// The request has found no response that it may use. It asks the upstream server for this reason.
    Miss(Reason),
    /// The request does not look for a response.
    Bypass,
    /// The request has found a response that it may not send yet, and asks the upstream server.
    Expired {
        /// Why it may not send the response.
        reason: Reason,
        /// Whether a failure of the upstream server may not be replaced by the response.
        is_strict: bool,
    },
    /// The request sends a response that is not fresh.
    Stale,
    /// The request sends a response that is not fresh, while another request updates it.
    Updating,
    /// The upstream server, which was asked for this reason, says that the response is still valid.
    Revalidated(Reason),
    /// The request sends a fresh response, or a failure that was stored.
    Hit,
    /// The request sends the response that another request is getting. Without that request it would ask the upstream
    /// server for this reason.
    Collapsed(Reason),
}

impl Lookup {
    /// The result; none once the look is over.
    pub fn status(self) -> Option<CacheStatus> {
        Some(match self {
            Lookup::Over => return None,
            Lookup::Miss(_) => CacheStatus::Miss,
            Lookup::Bypass => CacheStatus::Bypass,
            Lookup::Expired { .. } => CacheStatus::Expired,
            Lookup::Stale => CacheStatus::Stale,
            Lookup::Updating => CacheStatus::Updating,
            Lookup::Revalidated(_) => CacheStatus::Revalidated,
            Lookup::Hit | Lookup::Collapsed(_) => CacheStatus::Hit,
        })
    }

    /// Why the upstream server is asked, by this request or by the one that it follows.
    pub fn reason(self) -> Option<Reason> {
        match self {
            Lookup::Miss(reason) | Lookup::Revalidated(reason) | Lookup::Collapsed(reason) => Some(reason),
            Lookup::Expired { reason, .. } => Some(reason),
            Lookup::Bypass => Some(Reason::Bypass),
            Lookup::Over | Lookup::Stale | Lookup::Updating | Lookup::Hit => None,
        }
    }
}

/// Whether the response of the upstream server is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storing {
    /// It may be.
    Allowed,
    /// It is not.
    Refused,
    /// It is being stored, or was.
    Stored,
}

/// The key by which a request looks for a response.
#[derive(Clone, Copy, Debug)]
pub struct Sought<'a> {
    /// The text of the key.
    pub text: &'a [u8],
    /// The key of the text.
    pub main: Key,
    /// The key that the request looks for: the main one, or that of a variant.
    pub key: Key,
    /// The fields of the request.
    pub fields: &'a Fields,
}

/// What an object that has the key is to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// A response to the request.
    Fits,
    /// Another variant. The one for the request has this key.
    Variant(Key),
    /// Another variant under the key of a variant: the response has changed the fields that it depends on.
    OtherVariant,
    /// A response to another text with the same digest.
    OtherText,
}

impl Sought<'_> {
    /// What an object with this head is to the request.
    pub fn fit(&self, head: &Head) -> Fit {
        if *head.key != *self.text {
            return Fit::OtherText;
        }
        let Some(variant) = head.variant else { return Fit::Fits };
        let wanted = self.main.variant(head.family, &head.freshness.vary, self.fields);
        match wanted == variant {
            true => Fit::Fits,
            false if self.key == self.main => Fit::Variant(wanted),
            false => Fit::OtherVariant,
        }
    }
}

/// What a request and its location say about stored responses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// The rules by which responses are used.
    pub rules: Rules,
    /// The fields of a response that do not count.
    pub ignoring: Ignoring,
    /// What the request says; nothing by nginx's rules.
    pub wish: Wish,
    /// Whether a stale response is sent while it is updated (`cache_use_stale updating`).
    pub sends_updating: bool,
    /// Whether a stale response is sent before it is updated (`cache_background_update`).
    pub updates_aside: bool,
    /// Whether a request waits for the response that another one is getting (`cache_lock`).
    pub shares: bool,
    /// Whether the request updates a response that another request has sent.
    pub is_update: bool,
}

/// Whether an object is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is. The request is a hit, or sends a response that the client takes although it is not fresh.
    Send(Lookup),
    /// It is not sent without more ado: [`Terms::renew`] says what the request does.
    Renew(Renewal),
}

/// An object that is to be got again, or found valid again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Why the object is not sent.
    pub reason: Reason,
    /// Whether a failure of the upstream server may not be replaced by the object.
    is_strict: bool,
    /// Whether the object may be sent while it is updated.
    is_sent: bool,
    /// Whether the object is sent before it is updated.
    is_aside: bool,
}

impl Renewal {
    /// What a request remembers that asks the upstream server.
    pub fn expired(&self) -> Lookup {
        Lookup::Expired { reason: self.reason, is_strict: self.is_strict }
    }
}

/// What a request does with an object that is to be got again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewalStep {
    /// It sends the object, and another request updates it aside.
    SendAndUpdate,
    /// It sends the object, which another request is updating.
    Send,
    /// It follows the request that is getting the response, or asks if the response has not begun.
    FollowOrAsk,
    /// It asks the upstream server.
    Ask,
}

impl Terms {
    /// Whether an object with this head is sent. It fits the request.
    pub fn judge(&self, head: &Head, now: i64) -> Verdict {
        // A response that was stored in the future is not fresh: the clock was set back since.
        let is_fresh = head.freshness.is_fresh(now) && !rfc9111::is_ahead(head, now);
        let usage = match self.rules {
            Rules::Nginx if is_fresh => Use::Sent,
            Rules::Nginx => Use::Stale,
            Rules::Rfc9111 => rfc9111::judge(&self.wish, head, self.ignoring, now),
        };
        if usage == Use::Sent {
            return Verdict::Send(if is_fresh { Lookup::Hit } else { Lookup::Stale });
        }
        let is_promised = head.freshness.serves_updating(now);
        Verdict::Renew(Renewal {
            reason: if is_fresh && self.wish.refuses() { Reason::Request } else { Reason::Stale },
            is_strict: usage == Use::Asked,
            // A fresh response that the client finds too old is no stale one.
            is_sent: usage == Use::Stale && !is_fresh && (self.sends_updating || is_promised),
            is_aside: self.updates_aside || (is_promised && self.rules == Rules::Rfc9111),
        })
    }

    /// What the request does, which has or has not got the right to get the response.
    pub fn renew(&self, renewal: &Renewal, has_right: bool) -> RenewalStep {
        match has_right {
            true if renewal.is_sent && renewal.is_aside => RenewalStep::SendAndUpdate,
            true => RenewalStep::Ask,
            false if self.is_update => RenewalStep::Ask,
            false if renewal.is_sent => RenewalStep::Send,
            false if self.shares => RenewalStep::FollowOrAsk,
            false => RenewalStep::Ask,
        }
    }

    /// Whether a stale response may be sent in place of a failure of the upstream server. `is_named` says whether the
    /// configuration names the failure, `answered` is the status of a server that was reached.
    pub fn covers(&self, freshness: &Freshness, is_named: bool, answered: Option<Status>, now: i64) -> bool {
        // To nginx's rules a status of the upstream server is no failure to reach it, and has to be named. RFC 5861
        // names four.
        let is_failure = |status: Status| self.rules == Rules::Rfc9111 && status.0 >= 500;
        is_named || (answered.is_none_or(is_failure) && freshness.serves_errors(now))
    }
}

/// Whether a range (the value of `Range`) starts at this offset or later. With the offset 0 each range does.
pub fn starts_beyond(range: &[u8], most: u64) -> bool {
    let Some((unit, rest)) = range.split_at_checked("bytes=".len()) else { return most == 0 };
    if most == 0 {
        return true;
    }
    if !unit.eq_ignore_ascii_case(b"bytes=") || rest.is_empty() {
        return false;
    }
    let rest = rest.trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let start = std::str::from_utf8(&rest[..digits]).ok().and_then(|digits| digits.parse::<u64>().ok());
    rest.starts_with(b"-") || start.map_or(digits > 0, |start| start >= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;

    fn fields(list: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        list.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()).unwrap());
        fields
    }

    /// A head that is valid for so many seconds more, and was promised for `updating_s` and `error_s` after that.
    fn head(left: i64, updating_s: i64, error_s: i64) -> Head {
        Head {
            freshness: Freshness { valid_until: NOW + left, updating_s, error_s, vary: Box::default() },
            date: NOW - 50,
            length: 0,
            checksum: 0,
            key: (*b"text").into(),
            variant: None,
            family: 0,
            status: Status::OK,
            reason: Status::OK.reason().as_bytes().into(),
            fields: Fields::new(),
            is_bare: false,
        }
    }

    fn renewal(terms: &Terms, head: &Head) -> Renewal {
        match terms.judge(head, NOW) {
            Verdict::Renew(renewal) => renewal,
            Verdict::Send(lookup) => panic!("it is sent: {lookup:?}"),
        }
    }

    fn wish(control: &str) -> Terms {
        let wish = Wish::of(&fields(&[("Cache-Control", control)]));
        Terms { rules: Rules::Rfc9111, wish, ..Terms::default() }
    }

    #[test]
    fn fresh_response_is_a_hit_by_both_rules() {
        for rules in [Rules::Nginx, Rules::Rfc9111] {
            let terms = Terms { rules, ..Terms::default() };
            assert_eq!(terms.judge(&head(0, 0, 0), NOW), Verdict::Send(Lookup::Hit), "{rules:?}");
            assert!(matches!(terms.judge(&head(-1, 0, 0), NOW), Verdict::Renew(_)), "{rules:?}");
            let ahead = Head { date: NOW + 100, ..head(200, 0, 0) };
            assert!(
                matches!(terms.judge(&ahead, NOW), Verdict::Renew(_)),
                "{rules:?}: the clock was set back"
            );
        }
    }

    #[test]
    fn wish_counts_by_the_rules_of_rfc_9111_only() {
        let old = head(10, 0, 0);
        for control in ["no-cache", "max-age=10", "min-fresh=60"] {
            let strict = wish(control);
            let asked = renewal(&strict, &old);
            assert_eq!(asked.reason, Reason::Request, "{control}");
            let is_strict = control == "no-cache";
            assert_eq!(asked.expired(), Lookup::Expired { reason: Reason::Request, is_strict }, "{control}");
            let other = Terms { rules: Rules::Nginx, ..strict };
            assert_eq!(other.judge(&old, NOW), Verdict::Send(Lookup::Hit), "{control}");
        }
        assert_eq!(wish("max-stale=5").judge(&head(-3, 0, 0), NOW), Verdict::Send(Lookup::Stale));
        assert_eq!(renewal(&wish("max-stale=1"), &head(-3, 0, 0)).reason, Reason::Stale);
    }

    #[test]
    fn stale_response_is_sent_while_it_is_updated_if_the_configuration_or_the_response_allows_it() {
        let plain = Terms::default();
        let named = Terms { sends_updating: true, ..plain };
        let aside = Terms { updates_aside: true, ..plain };
        let strict = Terms { rules: Rules::Rfc9111, ..plain };
        let (old, promised) = (head(-5, 0, 0), head(-5, 10, 0));
        let step = |terms: Terms, head: &Head, has_right| terms.renew(&renewal(&terms, head), has_right);
        for (terms, head, with_right, without) in [
            (plain, &old, RenewalStep::Ask, RenewalStep::Ask),
            (named, &old, RenewalStep::Ask, RenewalStep::Send),
            (plain, &promised, RenewalStep::Ask, RenewalStep::Send),
            (aside, &old, RenewalStep::Ask, RenewalStep::Ask),
            (aside, &promised, RenewalStep::SendAndUpdate, RenewalStep::Send),
            (Terms { sends_updating: true, ..aside }, &old, RenewalStep::SendAndUpdate, RenewalStep::Send),
            (strict, &promised, RenewalStep::SendAndUpdate, RenewalStep::Send),
            (strict, &old, RenewalStep::Ask, RenewalStep::Ask),
        ] {
            assert_eq!(step(terms, head, true), with_right, "{terms:?}");
            assert_eq!(step(terms, head, false), without, "{terms:?}");
            let shares = Terms { shares: true, ..terms };
            let shared = if without == RenewalStep::Ask { RenewalStep::FollowOrAsk } else { without };
            assert_eq!(step(shares, head, false), shared, "{shares:?}");
            let update = Terms { is_update: true, ..shares };
            assert_eq!(step(update, head, false), RenewalStep::Ask, "{update:?}");
        }
    }

    #[test]
    fn fresh_response_that_the_client_refuses_is_not_sent_while_it_is_updated() {
        let terms = Terms { sends_updating: true, updates_aside: true, ..wish("max-age=10") };
        assert_eq!(terms.renew(&renewal(&terms, &head(10, 60, 0)), true), RenewalStep::Ask);
        assert_eq!(terms.renew(&renewal(&terms, &head(10, 60, 0)), false), RenewalStep::Ask);
    }

    #[test]
    fn stale_response_covers_failures_that_are_named_and_those_that_the_response_names() {
        let (nginx, strict) = (Terms::default(), Terms { rules: Rules::Rfc9111, ..Terms::default() });
        let (plain, promised) = (head(-5, 0, 0).freshness, head(-5, 0, 10).freshness);
        for terms in [nginx, strict] {
            assert!(terms.covers(&plain, true, None, NOW));
            assert!(!terms.covers(&plain, false, None, NOW));
            assert!(terms.covers(&promised, false, None, NOW));
            assert!(!terms.covers(&promised, false, None, NOW + 6));
            assert!(!terms.covers(&promised, false, Some(Status::NOT_FOUND), NOW));
        }
        assert!(!nginx.covers(&promised, false, Some(Status::BAD_GATEWAY), NOW));
        assert!(strict.covers(&promised, false, Some(Status::BAD_GATEWAY), NOW), "RFC 5861");
    }

    #[test]
    fn object_fits_by_its_text_and_its_variant() {
        let main = Key::of(b"text");
        let request = fields(&[("X-A", "1")]);
        let variant = main.variant(7, b"X-A", &request);
        let other = main.variant(7, b"X-A", &Fields::new());
        let freshness = Freshness { vary: (*b"X-A").into(), ..head(9, 0, 0).freshness };
        let varying =
            |key| Head { freshness: freshness.clone(), family: 7, variant: Some(key), ..head(9, 0, 0) };
        let sought = Sought { text: b"text", main, key: main, fields: &request };
        assert_eq!(sought.fit(&head(9, 0, 0)), Fit::Fits);
        assert_eq!(sought.fit(&varying(variant)), Fit::Fits);
        assert_eq!(sought.fit(&varying(other)), Fit::Variant(variant));
        assert_eq!(Sought { key: variant, ..sought }.fit(&varying(other)), Fit::OtherVariant);
        assert_eq!(Sought { text: b"another", ..sought }.fit(&varying(variant)), Fit::OtherText);
    }

    #[test]
    fn lookup_says_its_status_and_why_the_upstream_server_is_asked() {
        let reason = Reason::Stale;
        for (lookup, status, why) in [
            (Lookup::Over, None, None),
            (Lookup::Miss(Reason::UriMiss), Some("MISS"), Some("uri-miss")),
            (Lookup::Bypass, Some("BYPASS"), Some("bypass")),
            (Lookup::Expired { reason, is_strict: false }, Some("EXPIRED"), Some("stale")),
            (Lookup::Stale, Some("STALE"), None),
            (Lookup::Updating, Some("UPDATING"), None),
            (Lookup::Revalidated(Reason::Request), Some("REVALIDATED"), Some("request")),
            (Lookup::Hit, Some("HIT"), None),
            (Lookup::Collapsed(Reason::VaryMiss), Some("HIT"), Some("vary-miss")),
        ] {
            assert_eq!(lookup.status().map(CacheStatus::text), status);
            assert_eq!(lookup.reason().map(Reason::word), why);
        }
        let places = CacheStatus::ALL.map(|status| status as usize);
        assert!(places.is_sorted() && places.last() == Some(&(CacheStatus::ALL.len() - 1)));
    }

    #[test]
    fn ranges_that_start_too_far_into_a_content() {
        for (range, expected) in [
            ("bytes=0-9", false),
            ("bytes=99-", false),
            ("bytes=100-", true),
            ("Bytes= 100-", true),
            ("bytes=-5", true),
            ("bytes=99999999999999999999-", true),
            ("bytes=", false),
            ("bytes=x", false),
            ("lines=100-", false),
            ("x", false),
        ] {
            assert_eq!(starts_beyond(range.as_bytes(), 100), expected, "{range}");
            assert!(starts_beyond(range.as_bytes(), 0), "{range}");
        }
    }
}
