//! A queue that is kept full.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gantry_core::{Completion, Outcome, Queue, QueueOptions, Submission};

use super::load::Load;
use super::rounds::{Round, Rounds};
use crate::interrupt;

/// A thread's queue, and the requests that the thread submits in turn.
pub(super) struct QueueLoad<'l> {
    load: &'l Load<'l>,
    /// The index of the device that must run the requests.
    device_index: Option<usize>,
    depth: usize,
    queue: Queue,
    /// Requests that are not in flight, each with its number, in the order of completion.
    free: VecDeque<(u64, Submission)>,
    /// Submission times of the timed requests in flight, by the numbers of the requests.
    submit_times: Vec<Option<Instant>>,
}

/// Results of a thread.
pub(super) struct QueueLoadResult {
    pub(super) start: Instant,
    pub(super) end: Instant,
    pub(super) requests: u64,
    /// Times from `submit` to completion.
    pub(super) latencies: Vec<Duration>,
    pub(super) rounds: Vec<Round>,
}

impl<'l> QueueLoad<'l> {
    pub(super) fn new(load: &'l Load<'l>, device_index: Option<usize>) -> Result<Self, gantry_core::Error> {
        let depth = load.mode.in_flight();
        // `check_memory` has limited the memory, so the queue gets the largest limit that it accepts.
        let options = QueueOptions { depth, bytes: usize::MAX >> 1, ..QueueOptions::default() };
        let queue = load.session.gantry().queue(options)?;
        let mut buffers = load.allocate_buffers()?;
        let requests = buffers.operands(load.operation).map(|operands| Submission::from(&operands));
        let free: VecDeque<_> = (0..).zip(requests).map(|(number, request)| (number, request.user(number))).collect();
        Ok(Self { load, device_index, depth, queue, submit_times: vec![None; free.len()], free })
    }

    /// Keeps the queue full for `duration`, and then drains it. Measures the latency of every `sample_interval`-th request.
    pub(super) fn run(&mut self, duration: Duration, sample_interval: u64) -> Result<QueueLoadResult, String> {
        let Self { load, device_index, depth, queue, free, submit_times } = self;
        let (mut requests, mut latencies) = (0, Vec::new());
        let (mut is_over, mut problem) = (false, None);
        let start = Instant::now();
        let (mut rounds, mut completed_requests) = (Rounds::new(start, duration), 0);
        loop {
            while !is_over && queue.in_flight() < *depth {
                let Some((number, submission)) = free.pop_front() else { break };
                if requests % sample_interval == 0 {
                    submit_times[number as usize] = Some(Instant::now());
                }
                requests += 1;
                if let Err(rejected) = queue.submit(load.session, submission) {
                    problem = Some(rejected.why.to_string());
                    is_over = true;
                }
            }
            let completions = queue.wait(|completion| {
                completed_requests += 1;
                if let Some(submit_time) = submit_times[completion.user as usize].take() {
                    let now = Instant::now();
                    latencies.push(now - submit_time);
                    rounds.record(now, completed_requests);
                    // Only timed requests read the clock; reading it for every request would distort the measurement.
                    is_over |= now - start >= duration || interrupt::is_interrupted();
                }
                if problem.is_none() {
                    problem = completion_problem(&completion, *device_index);
                    is_over |= problem.is_some();
                }
                free.push_back((completion.user, completion.submission));
            });
            if completions == 0 {
                break;
            }
        }
        match problem {
            Some(problem) => Err(problem),
            None => Ok(QueueLoadResult { start, end: Instant::now(), requests, latencies, rounds: rounds.completed }),
        }
    }
}

/// Returns the problem of a completed request, if any.
fn completion_problem(completion: &Completion, device_index: Option<usize>) -> Option<String> {
    match &completion.result {
        Ok(Outcome::Done) => {}
        Ok(outcome) => return Some(outcome.to_string()),
        Err(error) => return Some(error.to_string()),
    }
    let ran_elsewhere = device_index.is_some() && completion.route.map(|route| route.device) != device_index;
    ran_elsewhere.then(|| "another device ran it".to_owned())
}
