//! The listing of a directory whose names `.htaccess` files judge, in Apache's form or in one of `autoindex`.

use super::judged::Judged;
use super::settings::Settings;
use crate::files::autoindex::read::{self, Listed, Wanted};
use crate::files::autoindex::{Listing, Written};
use crate::shared::apache::bounded;
use crate::shared::directories::Failure;
use contract::{Body, Exchange, Handler, Outcome, Reach, Step, Work};
use http::Status;
use std::rc::Rc;
use std::sync::Arc;

/// The listings of a location whose names are judged.
pub(super) struct JudgedListing {
    pub(super) listing: Listing,
    /// What `.htaccess` files say about it.
    pub(super) settings: Arc<Settings>,
}

impl Handler for JudgedListing {
    fn run(&self, exchange: &mut Exchange) -> Step {
        let path = match self.listing.directory(exchange) {
            Ok(path) => path,
            Err(step) => return step,
        };
        let is_page = self.settings.is_page;
        if !is_page && let Err(step) = self.listing.check_callback(exchange) {
            return step;
        }
        let wanted = match is_page {
            _ if exchange.is_head() => Wanted::Nothing,
            true => Wanted::All,
            false => Wanted::Visible,
        };
        let way = self.listing.way(exchange, &path);
        Step::Await(Work::Job(Box::new(move || Box::new(read::directory(&path, way, wanted)))))
    }

    fn resume(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let listed = match outcome {
            Outcome::Failed(status) => return Step::Finish(status),
            Outcome::Job(result) => match result.downcast::<Result<Listed, Failure>>() {
                Ok(listed) => *listed,
                Err(result) => return self.go_on(exchange, Outcome::Job(result)),
            },
            outcome => return self.go_on(exchange, outcome),
        };
        match listed {
            Ok(listed) => match self.listing.directory(exchange) {
                Ok(path) => {
                    let way = self.listing.way(exchange, &path);
                    let judged = Judged::new(exchange, &self.settings, path, (listed, way));
                    exchange.attach(Reach::Own, Rc::new(judged));
                    self.go_on(exchange, Outcome::Done)
                }
                Err(step) => step,
            },
            Err(failure) => Step::Finish(failure.refuse(exchange)),
        }
    }
}

impl JudgedListing {
    /// Goes on to judge names, and responds when all are.
    fn go_on(&self, exchange: &mut Exchange, outcome: Outcome) -> Step {
        let Some(judged) = exchange.attached::<Judged>() else {
            return Step::Finish(Status::INTERNAL_SERVER_ERROR);
        };
        let outcome = match outcome {
            Outcome::Job(result) => match result.downcast::<Written>() {
                Ok(written) => return self.listing.respond(exchange, *written),
                Err(result) => Outcome::Job(result),
            },
            outcome => outcome,
        };
        if let Err(spent) = judged.take(exchange, outcome) {
            return bounded::Failure::from(spent).refuse(exchange);
        }
        if let Some(work) = judged.work(exchange) {
            return Step::Await(work);
        }
        if !self.settings.is_page {
            let form = self.listing.form(exchange);
            return judged.written(form).map_or(Step::Finish(Status::INTERNAL_SERVER_ERROR), Step::Await);
        }
        self.respond(exchange, &judged)
    }

    /// Sends the page in Apache's form.
    fn respond(&self, exchange: &mut Exchange, judged: &Judged) -> Step {
        let content = if exchange.is_head() { Vec::new() } else { judged.page() };
        let response = &mut exchange.response;
        response.status = Status::OK;
        response.content_type = Some(self.settings.media_type());
        response.content_length = None;
        if !content.is_empty() {
            // As in Apache a client may ask for a part.
            response.content_length = u64::try_from(content.len()).ok();
            response.accept_ranges = true;
        }
        if self.settings.tracks_time() {
            response.last_modified = judged.modified();
        }
        Step::Respond(Body::bytes(content))
    }
}
