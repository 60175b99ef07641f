//! Leaves no key behind on the stack.

/// A function of its own, so that all of its stack lies where [`overwrite`] has its zeros.
#[inline(never)]
pub fn below<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// Overwrites so many bytes of the stack, of what the caller has called before.
#[inline(never)]
#[allow(clippy::large_stack_arrays, reason = "the stack is what it is about")]
pub fn overwrite<const DEPTH: usize>() {
    // Whoever has the address may look at them: the compiler cannot leave the zeros out. (Not `&[0; DEPTH]`: that is static.)
    let mut zeros = [0u8; DEPTH];
    core::hint::black_box(&mut zeros);
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use crate::kernel::keccak::{INITIAL, Keccak};
    use crate::level::every_level;
    use crate::random::Random;
    use crate::sponge::{self, Function};
    use crate::stack::{holds, left_behind};

    /// The key, HMAC's pads, and the states behind them.
    fn secrets_of<F: Function>(start: &sponge::Start<F>, key: &[u8]) -> Vec<Vec<u8>> {
        let pad = |with: u8| key.iter().map(|byte| byte ^ with).collect();
        [key.to_vec(), pad(0x36), pad(0x5c)].into_iter().chain(start.secrets()).collect()
    }

    /// HMAC over SHA-3: messages and streams. From any state of a message that is known those behind the key can be
    /// computed, so the states that follow from it are secrets, too.
    #[test]
    #[cfg_attr(debug_assertions, ignore = "about optimized code: scripts/test")]
    fn what_runs_with_a_key_of_hmac_over_sha3_leaves_nothing_of_it_on_the_stack() {
        let random = Random::new(0x7368_6133);
        for level in every_level() {
            let kernels = <Keccak<136>>::kernels(level);
            let key = random.bytes(32);
            let start = sponge::Start::<Keccak<136>>::hmac(kernels, INITIAL, 32, &key);
            // Pieces, so that what a stream holds afterwards is the state behind them.
            let pieces = random.bytes(3 * 136 + 50);
            let mut behind = sponge::Stream::new(&start);
            let update = |stream: &mut sponge::Stream<Keccak<136>>, input: &[u8]| {
                sponge::run_one(kernels, sponge::Job { start: &start, stream: Some(stream), input, output: None });
            };
            update(&mut behind, &pieces);
            let mut secrets = secrets_of(&start, &key);
            secrets.push(behind.secret());
            // One after the other and side by side.
            for count in [1, 2, 5, 19] {
                let mut streams: Vec<_> = (0..count).map(|_| sponge::Stream::new(&start)).collect();
                let mut macs = vec![[0; 32]; count];
                let stack = left_behind(|| {
                    if count == 1 {
                        update(&mut streams[0], &pieces);
                    }
                    let jobs = streams.iter_mut().map(|stream| (Some(stream), &pieces[..], None));
                    let whole = macs.iter_mut().map(|mac| (None, &pieces[..], Some(&mut mac[..])));
                    let jobs = jobs.chain(whole);
                    sponge::run(
                        kernels,
                        true,
                        jobs.map(|(stream, input, output)| sponge::Job { start: &start, stream, input, output }),
                    );
                });
                assert!(!holds(&stack, &secrets), "{level:?}, {count}");
            }
        }
    }
}
