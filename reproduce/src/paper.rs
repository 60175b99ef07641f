//! Figures of the paper "Cryptographic Device Support for FreeBSD" (Leffler, BSDCon 2003).

use gantry_core::Algorithm::{self, DesEde3Cbc, Md5, Sha1};

/// Bytes of the operands, a column of each table.
pub(crate) const OPERAND_BYTES: [usize; 11] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];

/// Throughput of `cryptotest` in megabits per second.
pub(crate) struct Series {
    pub(crate) device: &'static str,
    pub(crate) algorithm: Algorithm,
    /// Table 5: FreeBSD 4.8, on a Pentium 4 of 1.8 GHz as in all tables except Table 8.
    pub(crate) freebsd: [f64; 11],
    /// Table 6: OpenBSD 3.3.
    pub(crate) openbsd: [f64; 11],
}

/// Tables 5 and 6.
#[rustfmt::skip]
pub(crate) const THROUGHPUT: [Series; 9] = [
    Series {
        device: "hifn7951", algorithm: DesEde3Cbc,
        freebsd: [1.9, 3.8, 7.6, 14.8, 23.1, 36.2, 51.2, 63.1, 71.3, 76.4, 78.4],
        openbsd: [1.2, 2.5, 4.6, 9.2, 16.2, 27.3, 41.5, 54.0, 65.9, 71.5, 76.8],
    },
    Series {
        device: "hifn7951", algorithm: Md5,
        freebsd: [1.9, 3.8, 7.6, 12.0, 22.2, 35.2, 54.2, 69.8, 79.2, 88.2, 93.5],
        openbsd: [1.1, 1.9, 3.9, 8.3, 12.8, 24.1, 40.5, 57.5, 73.0, 84.1, 91.1],
    },
    Series {
        device: "hifn7951", algorithm: Sha1,
        freebsd: [1.5, 3.0, 6.0, 11.9, 18.9, 31.0, 46.3, 59.5, 69.5, 75.8, 79.2],
        openbsd: [1.1, 2.1, 4.2, 7.5, 14.0, 24.0, 38.1, 52.3, 64.3, 72.5, 77.3],
    },
    Series {
        device: "hifn7811", algorithm: DesEde3Cbc,
        freebsd: [1.9, 3.9, 7.6, 15.3, 28.5, 49.7, 75.7, 99.3, 120.6, 136.5, 145.1],
        openbsd: [1.2, 2.2, 4.6, 9.1, 18.6, 32.9, 53.9, 80.4, 106.5, 124.1, 138.9],
    },
    Series {
        device: "hifn7811", algorithm: Md5,
        freebsd: [1.9, 3.8, 7.6, 15.2, 28.3, 50.9, 72.3, 109.0, 143.9, 170.9, 188.7],
        openbsd: [1.2, 2.4, 4.8, 8.7, 16.6, 30.8, 52.9, 87.3, 123.3, 149.6, 176.2],
    },
    Series {
        device: "hifn7811", algorithm: Sha1,
        freebsd: [1.9, 3.8, 7.7, 15.1, 27.0, 41.8, 72.3, 104.7, 134.7, 157.3, 170.9],
        openbsd: [1.1, 2.3, 4.0, 7.6, 15.3, 27.6, 54.1, 84.3, 116.5, 142.3, 161.9],
    },
    Series {
        device: "bcm5822", algorithm: DesEde3Cbc,
        freebsd: [3.0, 6.0, 11.7, 22.6, 41.4, 74.9, 128.0, 205.5, 282.1, 346.9, 380.2],
        openbsd: [1.5, 3.1, 6.1, 11.8, 22.7, 43.0, 72.9, 119.1, 199.6, 282.3, 333.1],
    },
    Series {
        device: "bcm5822", algorithm: Md5,
        freebsd: [2.9, 5.9, 11.6, 22.4, 42.9, 80.1, 141.5, 235.1, 348.1, 457.2, 531.9],
        openbsd: [1.3, 3.0, 6.0, 11.8, 22.0, 40.5, 77.6, 147.7, 241.3, 356.6, 436.8],
    },
    Series {
        device: "bcm5822", algorithm: Sha1,
        freebsd: [2.9, 5.8, 11.5, 22.1, 42.2, 78.7, 138.9, 232.1, 344.5, 454.4, 530.0],
        openbsd: [1.5, 2.2, 5.3, 11.7, 20.6, 41.2, 80.6, 127.3, 239.8, 355.0, 459.6],
    },
];

/// Table 8: 3DES on a Pentium II of 300 MHz.
#[rustfmt::skip]
pub(crate) const SLOWER_HOST: [Series; 3] = [
    Series {
        device: "hifn7951", algorithm: DesEde3Cbc,
        freebsd: [1.1, 2.1, 3.9, 7.4, 13.6, 22.6, 35.2, 46.6, 56.8, 62.8, 66.7],
        openbsd: [0.7, 1.5, 3.0, 5.5, 10.4, 18.1, 28.9, 40.2, 51.3, 60.2, 65.1],
    },
    Series {
        device: "hifn7811", algorithm: DesEde3Cbc,
        freebsd: [1.1, 2.1, 4.3, 8.0, 14.7, 26.5, 44.0, 64.2, 86.3, 100.1, 110.0],
        openbsd: [0.7, 1.5, 3.0, 5.9, 11.6, 19.9, 34.6, 52.9, 73.3, 92.8, 105.8],
    },
    Series {
        device: "bcm5822", algorithm: DesEde3Cbc,
        freebsd: [1.1, 2.3, 4.5, 8.9, 17.6, 32.6, 59.3, 93.4, 134.1, 169.7, 191.7],
        openbsd: [0.9, 1.7, 3.4, 6.6, 12.6, 24.1, 43.3, 71.3, 106.2, 149.5, 178.8],
    },
];

/// Table 1: mean nanoseconds of one request, 3DES with 8192 bytes on the BCM5822. The model does not separate "done" (2295) from "callback"
/// (341).
pub(crate) const STAGES: [(&str, f64); 3] =
    [("dispatch", 115.0), ("invoke", 155_883.0), ("done and callback", 2_636.0)];

/// Table 7: gain of FreeBSD over OpenBSD in percent, with 3DES.
pub(crate) const GAIN: [(&str, [f64; 11]); 3] = [
    ("hifn7951", [58.0, 52.0, 65.0, 60.0, 42.0, 32.0, 23.0, 16.0, 8.0, 6.0, 2.0]),
    ("hifn7811", [58.0, 62.0, 65.0, 68.0, 53.0, 49.0, 40.0, 23.0, 13.0, 9.0, 4.0]),
    ("bcm5822", [100.0, 93.0, 91.0, 91.0, 82.0, 74.0, 75.0, 72.0, 41.0, 22.0, 14.0]),
];

/// Tables 2, 3 and 4: mean nanoseconds from the caller to the driver, and from the driver back.
pub(crate) const DISPATCH_THREAD_NS: f64 = 1519.0;
pub(crate) const DISPATCH_DIRECT_NS: f64 = 108.0;
pub(crate) const RETURN_THREAD_NS: f64 = 3102.0;
pub(crate) const RETURN_IMMEDIATE_NS: f64 = 98.0;
