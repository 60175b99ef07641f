//! Two registers as one, for hash functions that are a single dependency chain: the CPU works on one half while it waits for the
//! other.

use super::Vector;

/// The messages of two registers.
#[derive(Clone, Copy)]
pub(crate) struct RegisterPair<V>(V, V);

impl<V: Vector> RegisterPair<V> {
    #[inline(always)]
    fn map(self, work: impl Fn(V) -> V) -> Self {
        RegisterPair(work(self.0), work(self.1))
    }

    #[inline(always)]
    fn zip_with(self, other: Self, work: impl Fn(V, V) -> V) -> Self {
        RegisterPair(work(self.0, other.0), work(self.1, other.1))
    }
}

impl<V: Vector> Vector for RegisterPair<V> {
    type Word = V::Word;
    const LANES: usize = 2 * V::LANES;
    const LATENCY: u32 = V::LATENCY;

    #[inline(always)]
    unsafe fn splat(word: V::Word) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { RegisterPair(V::splat(word), V::splat(word)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const V::Word) -> Self {
        // SAFETY: guaranteed by the caller, for both halves.
        unsafe { RegisterPair(V::load(from), V::load(from.add(V::LANES))) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut V::Word) {
        // SAFETY: guaranteed by the caller, for both halves.
        unsafe {
            self.0.store(to);
            self.1.store(to.add(V::LANES));
        }
    }

    #[inline(always)]
    unsafe fn gather(lanes: *const *const u8, offset: usize, big_endian: bool) -> [Self; 16] {
        // SAFETY: guaranteed by the caller, for both halves.
        let (first, second) =
            unsafe { (V::gather(lanes, offset, big_endian), V::gather(lanes.add(V::LANES), offset, big_endian)) };
        let mut words = [RegisterPair(first[0], second[0]); 16];
        for (word, (first, second)) in words.iter_mut().zip(first.into_iter().zip(second)) {
            *word = RegisterPair(first, second);
        }
        words
    }

    #[inline(always)]
    fn opaque(self) -> Self {
        self.map(V::opaque)
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip_with(other, V::add)
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self.zip_with(other, V::and)
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self.zip_with(other, V::or)
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self.zip_with(other, V::xor)
    }

    #[inline(always)]
    fn not(self) -> Self {
        self.map(V::not)
    }

    #[inline(always)]
    fn rotate_left<const N: u32>(self) -> Self {
        self.map(V::rotate_left::<N>)
    }

    #[inline(always)]
    fn shift_right<const N: u32>(self) -> Self {
        self.map(V::shift_right::<N>)
    }

    #[inline(always)]
    fn or_not_xor(self, b: Self, c: Self) -> Self {
        RegisterPair(self.0.or_not_xor(b.0, c.0), self.1.or_not_xor(b.1, c.1))
    }
}
