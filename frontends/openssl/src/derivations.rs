//! Key derivations in SIMD lanes, shared by threads that derive at the same time.
//!
//! A derivation takes milliseconds to seconds. If more threads derive than there are CPUs, a thread hands its derivation to a thread that
//! already runs some, and sleeps until its key is ready. The derivation joins the others midway and takes free lanes. No thread waits for
//! others to arrive, and Gantry starts no threads of its own.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{SendError, Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use gantry_core::cpus;
use gantry_digest::{Algorithm, Level, LevelName, Pbkdf2, pbkdf2, pbkdf2_advance};

/// The device name under which derivations in lanes are counted.
pub(crate) const LANES_DEVICE: &str = "lanes";

/// Iterations between two checks for new derivations: about a third of a millisecond.
const ITERATIONS_PER_SLICE: u64 = 4096;
/// Derivations of fewer iterations finish before another thread would have woken up.
const MIN_SHARED_ITERATIONS: u64 = 4096;
/// The least number of blocks for which lanes are faster than one block after the other, even on a CPU without instructions for the hash.
const MIN_BLOCKS: usize = 3;

/// PBKDF2's inputs: hash function, password, salt, iterations.
type Pbkdf2Input<'a> = (Algorithm, &'a [u8], &'a [u8], u64);

pub(crate) struct Derivations {
    pools: [DerivationPool; Algorithm::ALL.len()],
    /// For each algorithm: true if it gave its known answers.
    verified: [OnceLock<bool>; Algorithm::ALL.len()],
    /// Threads that derive or wait for their derivation.
    threads: AtomicUsize,
    cpus: usize,
    level: Level,
}

impl Derivations {
    pub(crate) fn new(cpu: Option<LevelName>) -> Self {
        if let Some(level) = cpu {
            gantry_digest::limit_level(level);
        }
        Self {
            pools: Default::default(),
            verified: [const { OnceLock::new() }; Algorithm::ALL.len()],
            threads: AtomicUsize::new(0),
            cpus: cpus(),
            level: Level::detect_at_most(cpu),
        }
    }

    /// Returns true if derivations with this hash function have passed their known-answer test.
    pub(crate) fn is_verified(&self, algorithm: Algorithm) -> bool {
        *self.verified[algorithm as usize].get_or_init(|| passes_known_answer_test(algorithm))
    }

    /// Registers the calling thread as one that derives.
    pub(crate) fn register(&self) -> DerivingThread<'_> {
        let others = self.threads.fetch_add(1, Relaxed);
        DerivingThread { derivations: self, is_oversubscribed: others >= self.cpus }
    }

    /// Returns true if lanes derive `blocks` blocks faster than the default provider, which derives one after the other. On Zen 4, an
    /// iteration of one block of SHA-256 takes 117 ns in OpenSSL 4.0 and 73 ns in lanes; of four blocks, 462 ns and 129 ns. With SHA-512,
    /// these times are 373 ns and 429 ns for one block, 1,497 ns and 730 ns for four.
    pub(crate) fn is_faster(&self, algorithm: Algorithm, blocks: usize) -> bool {
        let has_hash_instructions = match algorithm {
            Algorithm::Sha1 | Algorithm::Sha224 | Algorithm::Sha256 => self.level.sha(),
            Algorithm::Sha384 | Algorithm::Sha512 | Algorithm::Sha512_256 => self.level.sha512(),
            _ => false,
        };
        has_hash_instructions || blocks >= MIN_BLOCKS && self.level.name() >= LevelName::Avx2
    }
}

/// Checksums of keys of five blocks that Python's hashlib derives from "password" and "salt" in three iterations. A checksum is
/// the XOR of the key's big-endian words of eight bytes, the last word padded with zeros.
#[rustfmt::skip]
const KNOWN_ANSWERS: [(Algorithm, u64); 11] = [
    (Algorithm::Md5, 0xe6701abc9b065298),
    (Algorithm::Sha1, 0xd9410efc09fbd349),
    (Algorithm::Sha224, 0x65099dbfca24650d),
    (Algorithm::Sha256, 0x400b184e9580f52c),
    (Algorithm::Sha384, 0xdde096185ef31e87),
    (Algorithm::Sha512, 0x416601b98844ae99),
    (Algorithm::Sha512_256, 0xeba79f990fdb7520),
    (Algorithm::Sha3_224, 0x4f6acb1f5a709369),
    (Algorithm::Sha3_256, 0xe86ca53a82edf62c),
    (Algorithm::Sha3_384, 0xfcc403842b1e8b43),
    (Algorithm::Sha3_512, 0xb665fd87b68104e8),
];

/// Derives one block, a key of five blocks, and 16 keys at once. Returns true if all of them match the known answer.
fn passes_known_answer_test(algorithm: Algorithm) -> bool {
    let size = algorithm.digest_size();
    let Some((_, checksum)) = KNOWN_ANSWERS.iter().find(|(known, _)| *known == algorithm) else { return false };
    let (mut one, mut five) = (vec![0; size], vec![0; 5 * size]);
    let derived = [&mut one, &mut five].map(|key| pbkdf2(algorithm, b"password", b"salt", 3, key).is_ok());
    let words = five.chunks(8).map(|part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        u64::from_be_bytes(word)
    });
    let sum = words.fold(0, |sum, word| sum ^ word);
    let begin = |_| Pbkdf2::new(algorithm, b"password", b"salt", 3, size);
    let Ok(mut many) = (0..16).map(begin).collect::<Result<Vec<_>, _>>() else { return false };
    let done = pbkdf2_advance(&mut many.iter_mut().collect::<Vec<_>>(), 3).is_ok();
    derived == [true, true]
        && sum == *checksum
        && done
        && five.starts_with(&one)
        && many.iter().all(|key| key.key() == Some(&one[..]))
}

/// A registered thread that derives or waits for its derivation.
pub(crate) struct DerivingThread<'l> {
    derivations: &'l Derivations,
    /// True if more threads than CPUs derived or waited when this thread registered, itself included.
    is_oversubscribed: bool,
}

impl Drop for DerivingThread<'_> {
    fn drop(&mut self) {
        self.derivations.threads.fetch_sub(1, Relaxed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneUse {
    Alone,
    /// Other threads' derivations shared the lanes.
    Shared,
}

impl DerivingThread<'_> {
    /// Derives a key with PBKDF2, if that is faster here than by the default provider. Returns `None` if it is not, or if it fails.
    pub(crate) fn pbkdf2(&self, password: Pbkdf2Input<'_>, output: &mut [u8]) -> Option<LaneUse> {
        let (algorithm, secret, salt, iterations) = password;
        let blocks = output.len().div_ceil(algorithm.digest_size());
        let is_oversubscribed = self.is_oversubscribed && iterations >= MIN_SHARED_ITERATIONS;
        let is_faster = |blocks| self.derivations.is_faster(algorithm, blocks);
        // A derivation that can share lanes need not fill them: other threads' blocks are expected to take the free ones.
        if !(is_faster(blocks) || is_oversubscribed && is_faster(MIN_BLOCKS)) {
            return None;
        }
        if iterations < MIN_SHARED_ITERATIONS {
            return pbkdf2(algorithm, secret, salt, iterations, output).ok().map(|()| LaneUse::Alone);
        }
        let derivation = Pbkdf2::new(algorithm, secret, salt, iterations, output.len()).ok()?;
        let (derivation, lane_use) = self.derivations.pools[algorithm as usize].run(derivation, is_oversubscribed)?;
        output.copy_from_slice(derivation.key()?);
        Some(lane_use)
    }
}

/// Threads that derive with the same hash function. A leader is a thread that runs its own derivation and those of other threads.
#[derive(Default)]
struct DerivationPool(Mutex<PoolState>);

#[derive(Default)]
struct PoolState {
    leaders: usize,
    /// Derivations that leaders run.
    running: usize,
    /// Derivations that no leader has taken yet. Empty if there is no leader.
    waiting: Vec<PoolEntry>,
}

/// A derivation and the thread that wants it.
struct PoolEntry {
    derivation: Pbkdf2,
    lane_use: LaneUse,
    /// Wakes the thread that sleeps until the derivation is done; `None` for the leader's own derivation.
    thread: Option<Sender<WakeReason>>,
}

/// Why a sleeping thread wakes up.
enum WakeReason {
    Done(Pbkdf2, LaneUse),
    /// The thread leads from now on, with these derivations. The first one is its own.
    Lead(Vec<PoolEntry>),
}

impl DerivationPool {
    /// Derives a key on the calling thread or, if `may_join`, on a thread that already leads. Returns `None` if the derivation fails,
    /// for example because that thread panics.
    fn run(&self, derivation: Pbkdf2, may_join: bool) -> Option<(Pbkdf2, LaneUse)> {
        let mut entry = PoolEntry { derivation, lane_use: LaneUse::Alone, thread: None };
        let mut state = self.lock();
        if !may_join || state.leaders == 0 {
            state.leaders += 1;
            state.running += 1;
            drop(state);
            return self.lead(vec![entry]);
        }
        let (thread, reason) = channel();
        entry.thread = Some(thread);
        state.waiting.push(entry);
        drop(state);
        match reason.recv().ok()? {
            WakeReason::Done(derivation, lane_use) => Some((derivation, lane_use)),
            WakeReason::Lead(entries) => self.lead(entries),
        }
    }

    /// Runs derivations until the first one, the calling thread's own, is done.
    fn lead(&self, entries: Vec<PoolEntry>) -> Option<(Pbkdf2, LaneUse)> {
        let mut leader = Leader { pool: self, entries };
        loop {
            leader.take_waiting();
            let entries = &mut leader.entries;
            if entries.len() > 1 {
                for entry in &mut *entries {
                    entry.lane_use = LaneUse::Shared;
                }
            }
            let mut all: Vec<&mut Pbkdf2> = entries.iter_mut().map(|entry| &mut entry.derivation).collect();
            pbkdf2_advance(&mut all, ITERATIONS_PER_SLICE).ok()?;
            let done = entries.extract_if(1.., |entry| entry.derivation.key().is_some());
            let done: Vec<PoolEntry> = done.collect();
            self.lock().running -= done.len();
            for PoolEntry { derivation, lane_use, thread } in done {
                if let Some(thread) = thread {
                    // A receiver that is gone wants no key.
                    let _ = thread.send(WakeReason::Done(derivation, lane_use));
                }
            }
            if entries[0].derivation.key().is_some() {
                return Some(leader.finish());
            }
        }
    }

    /// Locks the state, even if a thread panicked under the lock: a change of the state has no step that can panic.
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that leads. If it panics, the threads whose derivations it holds get no key.
struct Leader<'m> {
    pool: &'m DerivationPool,
    entries: Vec<PoolEntry>,
}

impl Leader<'_> {
    /// Takes waiting derivations, up to this leader's share of all derivations.
    fn take_waiting(&mut self) {
        let mut state = self.pool.lock();
        let PoolState { leaders, running, waiting } = &mut *state;
        let share = (*running + waiting.len()).div_ceil(*leaders);
        let taken = share.saturating_sub(self.entries.len()).min(waiting.len());
        *running += taken;
        self.entries.extend(waiting.drain(..taken));
    }

    /// Ends the leader's turn: its own derivation is done. Another thread takes over the remaining derivations, if any.
    fn finish(mut self) -> (Pbkdf2, LaneUse) {
        let PoolEntry { derivation, lane_use, .. } = self.entries.remove(0);
        let mut state = self.pool.lock();
        state.running -= 1;
        if self.entries.is_empty() && state.leaders == 1 {
            // No other leader would run the waiting derivations.
            self.entries = mem::take(&mut state.waiting);
            state.running += self.entries.len();
        }
        if self.entries.is_empty() {
            // Decrements under the lock, so that the next thread to arrive leads and does not wait for this one.
            state.leaders -= 1;
            drop(state);
            // `forget` would leak the memory of the entries.
            drop(mem::take(&mut self.entries));
            mem::forget(self);
            return (derivation, lane_use);
        }
        drop(state);
        let mut others = mem::take(&mut self.entries);
        match others[0].thread.take() {
            // Never happens: only the leader's own derivation, which is removed above, has no thread to wake.
            None => self.entries = others,
            Some(next) => match next.send(WakeReason::Lead(others)) {
                Ok(()) => mem::forget(self),
                // The thread ended while it slept; the others get no key.
                Err(SendError(reason)) => {
                    if let WakeReason::Lead(others) = reason {
                        self.entries = others;
                    }
                }
            },
        }
        (derivation, lane_use)
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.running -= self.entries.len();
        state.leaders -= 1;
        if state.leaders == 0 {
            state.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Pretends that there are `cpus` CPUs.
    fn on_cpus(cpus: usize) -> Derivations {
        Derivations { cpus, ..Derivations::new(None) }
    }

    #[test]
    fn every_known_answer_test_passes() {
        for (algorithm, _) in KNOWN_ANSWERS {
            assert!(passes_known_answer_test(algorithm), "{algorithm}");
        }
        assert!(!passes_known_answer_test(Algorithm::Blake2b256));
    }

    /// Lengths, passwords and iterations differ by thread: some derivations end just after others have started.
    #[test]
    fn threads_that_share_lanes_derive_the_keys_they_derive_alone() {
        let begin = |i: u64| {
            Pbkdf2::new(Algorithm::Sha256, &i.to_be_bytes(), b"salt", 1 + 3000 * (i % 5), 7 + 20 * i as usize).unwrap()
        };
        let alone: Vec<Pbkdf2> = (0..12).map(|i| DerivationPool::default().run(begin(i), false).unwrap().0).collect();
        let pool = DerivationPool::default();
        for round in 0..10 {
            thread::scope(|scope| {
                for (i, expected) in (0..).zip(&alone) {
                    let pool = &pool;
                    scope.spawn(move || {
                        let (derivation, _) = pool.run(begin(i), i > round % 3).expect("no thread panics");
                        assert_eq!(derivation.key(), expected.key(), "{i}");
                    });
                }
            });
            let state = pool.lock();
            assert_eq!((state.leaders, state.running, state.waiting.len()), (0, 0, 0));
        }
    }

    #[test]
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code, reason = "asks the allocator")]
    fn a_derivation_beside_another_leader_leaks_no_memory() {
        const DERIVATIONS: usize = 50_000;
        // SAFETY: reads counters of the allocator.
        let allocated = || unsafe { libc::mallinfo2() }.uordblks;
        let pool = DerivationPool::default();
        pool.lock().leaders = 1;
        let before = allocated();
        for _ in 0..DERIVATIONS {
            pool.run(Pbkdf2::new(Algorithm::Sha256, b"password", b"salt", 1, 32).unwrap(), false).unwrap();
        }
        // Other tests allocate memory meanwhile, but less.
        assert!(allocated() < before + DERIVATIONS * size_of::<PoolEntry>() / 2);
    }

    #[test]
    fn more_threads_than_cpus_share_lanes_and_fewer_do_not() {
        let together = |lanes: &Derivations, threads: usize| {
            let derive = |i: usize| {
                let thread = lanes.register();
                // Waits until all threads are registered. None of them is done earlier, because a derivation takes milliseconds.
                while lanes.threads.load(Relaxed) < threads {
                    thread::yield_now();
                }
                let mut key = [0; 32];
                let iterations = 400_000 + i as u64;
                let password = (Algorithm::Sha256, &[i as u8][..], &b"salt"[..], iterations);
                thread.pbkdf2(password, &mut key)
            };
            let derived = thread::scope(|scope| {
                let threads: Vec<_> = (0..threads).map(|i| scope.spawn(move || derive(i))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            derived.contains(&Some(LaneUse::Shared))
        };
        let lanes = on_cpus(1);
        if !lanes.is_faster(Algorithm::Sha256, 1) && !lanes.is_faster(Algorithm::Sha256, MIN_BLOCKS) {
            return;
        }
        assert!(together(&lanes, 6));
        assert!(!together(&on_cpus(8), 6));
    }

    #[test]
    fn a_leader_that_panics_wakes_all_waiting_threads() {
        let pool = DerivationPool::default();
        let begin = || Pbkdf2::new(Algorithm::Sha1, b"", b"", 1 << 40, 20).unwrap();
        thread::scope(|scope| {
            let mut leader = {
                let mut state = pool.lock();
                (state.leaders, state.running) = (1, 1);
                Leader {
                    pool: &pool,
                    entries: vec![PoolEntry { derivation: begin(), lane_use: LaneUse::Alone, thread: None }],
                }
            };
            let others: Vec<_> = (0..3).map(|_| scope.spawn(|| pool.run(begin(), true).is_none())).collect();
            while leader.entries.len() < 4 {
                leader.take_waiting();
            }
            drop(leader);
            assert!(others.into_iter().all(|other| other.join().unwrap()));
        });
        let state = pool.lock();
        assert_eq!((state.leaders, state.running), (0, 0));
    }
}
