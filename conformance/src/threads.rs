//! One session used by several threads at once.

use crate::batches::cases;
use crate::case::{Answer, Case, Placement, Trouble, run, run_batch};
use crate::generate;
use crate::report::Tally;
use crate::rng::Rng;
use crate::{Suite, few, is_slow};

const THREADS: usize = 4;
/// Sessions that are tried until the device opens one.
const DRAWS: usize = 20;

pub(crate) fn check(suite: &Suite<'_>, tally: &mut Tally) {
    let requests = few(suite.algorithm, if tally.is_timed() && is_slow(suite.algorithm) { 4 } else { 24 });
    for &operation in suite.capability.operations {
        if !tally.has_time() {
            continue;
        }
        let mut rng = Rng::of(suite.seed, suite.algorithm, 9000);
        let mut draw = || {
            let params = generate::params(&mut rng, suite.algorithm).tag_len(suite.algorithm.info().default_tag());
            let lengths: Vec<usize> = (0..requests).map(|_| generate::bytes(&mut rng).min(1500)).collect();
            let result = cases(suite, &mut rng, &params, operation, &lengths)
                .and_then(|cases| Ok((suite.subject.session(params.clone())?, cases)))
                .and_then(|(session, cases)| match run(&session, &cases[0].0, Placement::SEPARATE) {
                    Err(refused @ Trouble::Unsupported(_)) => Err(refused),
                    _ => Ok((session, cases)),
                });
            (params, result)
        };
        let mut drawn = draw();
        // A device need not take keys of every length.
        for _ in 1..DRAWS {
            if let (_, Err(Trouble::Unsupported(_))) = drawn {
                drawn = draw();
            }
        }
        match drawn {
            (params, Err(trouble)) => tally.judge(Err(trouble), || format!("{operation}, {params:?}")),
            (params, Ok((session, cases))) => {
                let one_thread = || -> Result<(), Trouble> {
                    let laid: Vec<(&Case, Placement)> =
                        cases.iter().map(|(case, _)| (case, Placement::SEPARATE)).collect();
                    for _ in (0..8).step_by(suite.step) {
                        let batch = run_batch(&session, &laid)?;
                        let first: &(Case, Answer) = &cases[0];
                        let single = (run(&session, &first.0, Placement::SEPARATE), first);
                        for (answer, (case, must)) in batch.into_iter().zip(&cases).chain([single]) {
                            match suite.compare(&params, case, answer, must) {
                                // As long as the device does not decline all of them, which the batch would say.
                                Err(Trouble::Unsupported(_)) => {}
                                verdict => verdict?,
                            }
                        }
                    }
                    Ok(())
                };
                let results: Vec<Result<(), Trouble>> = std::thread::scope(|scope| {
                    let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(one_thread)).collect();
                    threads
                        .into_iter()
                        .map(|thread| thread.join().unwrap_or(Err("a panic".to_owned().into())))
                        .collect()
                });
                for result in results {
                    tally.judge(result, || format!("{operation} on {THREADS} threads, {params:?}"));
                }
            }
        }
    }
}
