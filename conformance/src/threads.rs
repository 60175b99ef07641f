//! One session used by several threads at once.

use crate::batches::make_cases;
use crate::case::{Answer, Case, CaseError, Placement, run, run_batch};
use crate::generate;
use crate::report::Tally;
use crate::rng::Rng;
use crate::{Suite, is_slow, request_count};

const THREADS: usize = 4;
/// Maximum number of sessions to try until the device opens one.
const MAX_ATTEMPTS: usize = 20;

pub(crate) fn check(suite: &Suite<'_>, tally: &mut Tally) {
    let requests =
        request_count(suite.algorithm, if tally.has_deadline() && is_slow(suite.algorithm) { 4 } else { 24 });
    for &operation in suite.capability.operations {
        if !tally.begin_step() {
            continue;
        }
        let mut rng = Rng::for_purpose(suite.seed, suite.algorithm, 9000);
        let mut draw = || {
            let params =
                generate::params(&mut rng, suite.algorithm).with_tag_len(suite.algorithm.info().default_tag_length());
            let lengths: Vec<usize> = (0..requests).map(|_| generate::data_length(&mut rng).min(1500)).collect();
            let result = make_cases(suite, &mut rng, &params, operation, &lengths)
                .and_then(|cases| Ok((suite.subject.session(params.clone())?, cases)))
                .and_then(|(session, cases)| match run(&session, &cases[0].0, Placement::SEPARATE) {
                    Err(refused @ CaseError::Unsupported(_)) => Err(refused),
                    _ => Ok((session, cases)),
                });
            (params, result)
        };
        let mut setup = draw();
        // A device need not support keys of every length.
        for _ in 1..MAX_ATTEMPTS {
            if let (_, Err(CaseError::Unsupported(_))) = setup {
                setup = draw();
            }
        }
        match setup {
            (params, Err(error)) => tally.record(Err(error), || format!("{operation}, {params:?}")),
            (params, Ok((session, cases))) => {
                let run_thread = || -> Result<(), CaseError> {
                    let placed: Vec<(&Case, Placement)> =
                        cases.iter().map(|(case, _)| (case, Placement::SEPARATE)).collect();
                    for _ in (0..8).step_by(suite.step) {
                        let batch = run_batch(&session, &placed)?;
                        let first: &(Case, Answer) = &cases[0];
                        let single = (run(&session, &first.0, Placement::SEPARATE), first);
                        for (answer, (case, expected)) in batch.into_iter().zip(&cases).chain([single]) {
                            match suite.compare(&params, case, answer, expected) {
                                // Allowed, unless the device declines all requests; the batch then fails.
                                Err(CaseError::Unsupported(_)) => {}
                                verdict => verdict?,
                            }
                        }
                    }
                    Ok(())
                };
                let results: Vec<Result<(), CaseError>> = std::thread::scope(|scope| {
                    let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(run_thread)).collect();
                    threads
                        .into_iter()
                        .map(|thread| thread.join().unwrap_or(Err("a thread panicked".to_owned().into())))
                        .collect()
                });
                for result in results {
                    tally.record(result, || format!("{operation} on {THREADS} threads, {params:?}"));
                }
            }
        }
    }
}
