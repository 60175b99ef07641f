//! Leaves no key behind on the stack.

/// Bytes of the stack that preparing a key may use: the most is a long HMAC-SHA-512 key, which is hashed.
const DEPTH: usize = 32 << 10;

/// Runs `prepare`, which works with a key, and overwrites what it leaves on the stack: copies of values that moved, spilled
/// registers, buffers. The result should hold its secrets behind a pointer.
pub(crate) fn wiped<T>(prepare: impl FnOnce() -> T) -> T {
    let result = below(prepare);
    overwrite();
    result
}

/// A function of its own, so that all of its stack lies where [`overwrite`] has its zeros.
#[inline(never)]
fn below<T>(prepare: impl FnOnce() -> T) -> T {
    prepare()
}

#[inline(never)]
#[allow(clippy::large_stack_arrays, reason = "the stack is what it is about")]
fn overwrite() {
    // Whoever has the address may look at them: the compiler cannot leave the zeros out. (Not `&[0; DEPTH]`: that is static.)
    let mut zeros = [0u8; DEPTH];
    core::hint::black_box(&mut zeros);
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::cbc::{CbcKey, CmacKey};
    use crate::hash::Start;
    use crate::kernel::aes::Aes;
    use crate::kernel::sha2::{self, Sha256, Sha512};
    use crate::kernel::{Hash, Kernels};
    use crate::level::every_level;
    use crate::random::Random;
    use crate::session::LanesSession;
    use crate::xts::XtsKey;
    use gantry::{Algorithm, SessionParams};

    /// What `work` left on the stack.
    #[inline(never)]
    fn left_behind(work: impl FnOnce()) -> Vec<u8> {
        let mut stack = vec![0u8; 2 * DEPTH];
        overwrite();
        below(work);
        // SAFETY: no more is read than lies between the stack pointer and the end of a test thread's stack (2 MiB), and no more
        // written than the vector has.
        unsafe {
            core::arch::asm!(
                "mov rsi, rsp", "sub rsi, {bytes}", "mov rcx, {bytes}", "rep movsb",
                bytes = in(reg) stack.len(), inout("rdi") stack.as_mut_ptr() => _, out("rsi") _, out("rcx") _,
            );
        }
        stack
    }

    /// Whether eight successive bytes of a secret are there.
    fn holds(stack: &[u8], secrets: &[Vec<u8>]) -> bool {
        let mut parts: std::collections::HashSet<&[u8]> = secrets.iter().flat_map(|secret| secret.windows(8)).collect();
        parts.remove([0; 8].as_slice()); // the round keys that shorter keys do not have
        stack.windows(8).any(|part| parts.contains(part))
    }

    /// The key, HMAC's pads, and the chaining values behind them.
    fn secrets_of_hmac<H: Hash>(kernels: Kernels<H>, initial: [H::Word; 8], digest: usize, key: &[u8]) -> Vec<Vec<u8>> {
        let start = Start::hmac(kernels, initial, digest, key);
        let pad = |with: u8| key.iter().map(|byte| byte ^ with).collect();
        [key.to_vec(), pad(0x36), pad(0x5c)].into_iter().chain(start.secrets()).collect()
    }

    #[test]
    fn what_prepares_a_key_leaves_nothing_of_it_on_the_stack() {
        let random = Random::new(0x7769_7065);
        for level in every_level() {
            for (algorithm, bytes) in [
                (Algorithm::HmacSha256, 32),
                (Algorithm::HmacSha256, 5000),
                (Algorithm::HmacSha512, 64),
                (Algorithm::HmacSha512, 5000),
                (Algorithm::Aes128Cbc, 16),
                (Algorithm::Aes256Cbc, 32),
                (Algorithm::Aes256Cmac, 32),
                (Algorithm::Aes128Xts, 32),
                (Algorithm::Aes256Xts, 64),
            ] {
                let key = random.bytes(bytes);
                let params = SessionParams::new(algorithm, &key);
                let mut session = None;
                let stack = left_behind(|| session = LanesSession::open(level, &params).ok());
                let secrets = match algorithm {
                    Algorithm::HmacSha256 => secrets_of_hmac(Sha256::kernels(level), sha2::INITIAL_256, 32, &key),
                    Algorithm::HmacSha512 => secrets_of_hmac(Sha512::kernels(level), sha2::INITIAL_512, 64, &key),
                    Algorithm::Aes256Cmac => CmacKey::new(Aes::of(level).unwrap(), &key).unwrap().secrets(),
                    Algorithm::Aes128Xts | Algorithm::Aes256Xts => {
                        XtsKey::new(Aes::of(level).unwrap(), &key, |_| true).unwrap().secrets()
                    }
                    _ => CbcKey::new(Aes::of(level).unwrap(), &key).unwrap().secrets(),
                };
                assert!(session.is_some());
                assert!(!holds(&stack, &secrets), "{level:?}, {algorithm}, a key of {bytes} bytes");
            }
        }
    }

    /// The test above would see it.
    #[test]
    fn without_wiping_the_stack_holds_keys() {
        let key = Random::new(1).bytes(64);
        for level in every_level() {
            let kernels = Sha512::kernels(level);
            let stack = left_behind(|| {
                core::hint::black_box(Start::hmac(kernels, sha2::INITIAL_512, 64, &key));
            });
            assert!(holds(&stack, &secrets_of_hmac(kernels, sha2::INITIAL_512, 64, &key)), "{level:?}");
        }
    }
}
