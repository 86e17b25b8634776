//! Everything a run needs, checked once and for all.

use std::ops::Deref;

use schemas::Problem;

use super::request::TrainRequest;
use super::rules;
use crate::error::Error;
use crate::precision::Precision;

/// A run that can start: a [`TrainRequest`] without problems, which it reads as.
///
/// There is no other way to make one, and none to change it.
#[derive(Clone, Debug)]
pub struct TrainPlan {
    request: TrainRequest,
}

impl Deref for TrainPlan {
    type Target = TrainRequest;

    fn deref(&self) -> &TrainRequest {
        &self.request
    }
}

impl TrainPlan {
    /// Checks a request.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn new(request: TrainRequest) -> Result<Self, Vec<Problem>> {
        let problems = rules::problems(&request);
        if problems.is_empty() { Ok(Self { request }) } else { Err(problems) }
    }

    /// Checks what depends on the device where `train.device = "auto"` turns out to be CUDA.
    ///
    /// # Errors
    /// [`Error::Config`] if the run is deterministic and a network draws from sums that CUDA adds up in no fixed order.
    pub fn check_on_cuda(&self) -> Result<(), Error> {
        rules::order_problem(&self.request).map_or(Ok(()), |problem| Err(Error::Config(problem)))
    }

    /// The same with so many threads: as they were when something was computed that is to be computed again.
    #[must_use]
    pub fn with_threads(&self, threads: usize) -> Self {
        let mut request = self.request.clone();
        request.train.threads = threads;
        Self { request }
    }

    /// The same of a run in whose middle these keys of its identity may change.
    #[must_use]
    pub fn allowing(&self, keys: &[String]) -> Self {
        let mut request = self.request.clone();
        request.amended.allowed = keys.to_vec();
        Self { request }
    }

    /// The same with products of float32, which every device has: for who only looks at its weights.
    #[must_use]
    pub fn in_float32(&self) -> Self {
        let mut request = self.request.clone();
        (request.train.precision, request.train.tf32) = (Precision::F32, false);
        Self { request }
    }
}
