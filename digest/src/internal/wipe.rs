//! Wipes keys off the stack.

/// Runs `work` in its own frame, so that [`overwrite_stack`] covers all of its stack.
#[inline(never)]
pub fn in_own_frame<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// Overwrites `BYTES` bytes of the stack below the caller's frame.
#[inline(never)]
#[allow(clippy::large_stack_arrays, reason = "the array overwrites the stack")]
pub fn overwrite_stack<const BYTES: usize>() {
    // `black_box` keeps the compiler from removing the zeros. A reference `&[0; BYTES]` would point to static memory.
    let mut zeros = [0u8; BYTES];
    core::hint::black_box(&mut zeros);
}

/// Stack bytes overwritten after work with keys. SHA-512 with precomputed message words uses the most: 40 KiB.
const STACK_BYTES: usize = 48 << 10;

/// Runs work with keys, then overwrites the stack it used, also after a panic: a message of the caller may panic when asked for its bytes.
pub(crate) fn with_stack_wiped<T>(work: impl FnOnce() -> T) -> T {
    let _wiped = WipeStackOnDrop;
    in_own_frame(work)
}

/// Overwrites the stack on drop.
struct WipeStackOnDrop;

impl Drop for WipeStackOnDrop {
    fn drop(&mut self) {
        overwrite_stack::<STACK_BYTES>();
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use crate::internal::dispatch::sponge::Function;
    use crate::internal::kernel::keccak::{INITIAL, Keccak};
    use crate::internal::sponge;
    use crate::internal::stack::{holds_secret, stack_after};
    use crate::level::every_level;
    use crate::random::Random;

    /// The key, HMAC's pads, and the states after them.
    fn secrets_of<F: Function>(setup: &sponge::Setup<F>, key: &[u8]) -> Vec<Vec<u8>> {
        let pad = |with: u8| key.iter().map(|byte| byte ^ with).collect();
        [key.to_vec(), pad(0x36), pad(0x5c)].into_iter().chain(setup.secrets()).collect()
    }

    /// Messages and streams of HMAC over SHA-3. Given a known message, any state of it leads back to the keyed states, so all
    /// states are secret.
    #[test]
    #[cfg_attr(debug_assertions, ignore = "about optimized code: scripts/test")]
    fn hmac_over_sha3_leaves_no_key_or_state_on_the_stack() {
        let random = Random::new(0x7368_6133);
        for level in every_level() {
            let kernels = <Keccak<136>>::kernels(level);
            let key = random.bytes(32);
            let setup = sponge::Setup::<Keccak<136>>::hmac(kernels, INITIAL, 32, &key);
            // Three blocks and a remainder, so that the stream holds the state after the three blocks.
            let pieces = random.bytes(3 * 136 + 50);
            let mut expected = sponge::Stream::new(&setup);
            let update = |stream: &mut sponge::Stream<Keccak<136>>, input: &[u8]| {
                sponge::run_one(kernels, sponge::Job { setup: &setup, stream: Some(stream), input, output: None });
            };
            update(&mut expected, &pieces);
            let mut secrets = secrets_of(&setup, &key);
            secrets.push(expected.secret());
            // One by one and side by side.
            for count in [1, 2, 5, 19] {
                let mut streams: Vec<_> = (0..count).map(|_| sponge::Stream::new(&setup)).collect();
                let mut macs = vec![[0; 32]; count];
                let stack = stack_after(|| {
                    if count == 1 {
                        update(&mut streams[0], &pieces);
                    }
                    let jobs = streams.iter_mut().map(|stream| (Some(stream), &pieces[..], None));
                    let whole = macs.iter_mut().map(|mac| (None, &pieces[..], Some(&mut mac[..])));
                    let jobs = jobs.chain(whole);
                    sponge::run(
                        kernels,
                        true,
                        jobs.map(|(stream, input, output)| sponge::Job { setup: &setup, stream, input, output }),
                    );
                });
                assert!(!holds_secret(&stack, &secrets), "{level:?}, {count}");
            }
        }
    }
}
