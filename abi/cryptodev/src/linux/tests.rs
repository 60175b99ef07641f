//! Layouts of the structures, compared with C.

use super::*;

/// Compares with the output of a C compiler for the public header, on x86-64 and with -m32.
#[test]
fn sizes_and_codes_match_the_header() {
    let expected = [
        (Ioctl::GetDescriptor, 0xc004_6365, 0xc004_6365),
        (Ioctl::OpenSession, 0xc030_6366, 0xc01c_6366),
        (Ioctl::CloseSession, 0x4004_6367, 0x4004_6367),
        (Ioctl::Crypt, 0xc030_6368, 0xc01c_6368),
        (Ioctl::Key, 0xc090_6369, 0xc050_6369),
        (Ioctl::AsymmetricFeatures, 0x8004_636a, 0x8004_636a),
        (Ioctl::SessionInfo, 0xc10c_636b, 0xc10c_636b),
        (Ioctl::AuthCrypt, 0xc048_636d, 0xc02c_636d),
        (Ioctl::AsyncCrypt, 0x4030_636e, 0x401c_636e),
        (Ioctl::AsyncFetch, 0x8030_636f, 0x801c_636f),
        (Ioctl::CopyHash, 0x4008_6370, 0x4008_6370),
    ];
    assert_eq!(expected.len(), Ioctl::ALL.len());
    for (ioctl, wide, narrow) in expected {
        let codes = (ioctl.code(Width::W64), ioctl.code(Width::W32));
        assert_eq!(codes, (wide, narrow), "{ioctl:?}: {:x} {:x}", codes.0, codes.1);
        assert_eq!(Ioctl::from_code(wide, Width::W64), Some(ioctl));
        assert_eq!(Ioctl::from_code(narrow, Width::W32), Some(ioctl));
    }
    assert_eq!(Ioctl::from_code(0xc030_6368, Width::W32), None);
}

/// The C structures, with pointers of either width.
mod c {
    #[repr(C)]
    pub(super) struct SessionOp<P> {
        pub(super) cipher: u32,
        pub(super) mac: u32,
        pub(super) keylen: u32,
        pub(super) key: P,
        pub(super) mackeylen: u32,
        pub(super) mackey: P,
        pub(super) ses: u32,
    }
    #[repr(C)]
    pub(super) struct CryptAuthOp<P> {
        pub(super) ses: u32,
        pub(super) op: u16,
        pub(super) flags: u16,
        pub(super) len: u32,
        pub(super) auth_len: u32,
        pub(super) auth_src: P,
        pub(super) src: P,
        pub(super) dst: P,
        pub(super) tag: P,
        pub(super) tag_len: u32,
        pub(super) iv: P,
        pub(super) iv_len: u32,
    }
    #[repr(C)]
    pub(super) struct CryptOp<P> {
        pub(super) ses: u32,
        pub(super) op: u16,
        pub(super) flags: u16,
        pub(super) len: u32,
        pub(super) src: P,
        pub(super) dst: P,
        pub(super) mac: P,
        pub(super) iv: P,
    }
    #[repr(C)]
    pub(super) struct SessionInfoOp {
        pub(super) ses: u32,
        pub(super) cipher_name: [u8; 64],
        pub(super) cipher_driver: [u8; 64],
        pub(super) hash_name: [u8; 64],
        pub(super) hash_driver: [u8; 64],
        pub(super) alignmask: u16,
        pub(super) flags: u32,
    }
}

/// Returns the index of `needle` in `bytes`.
fn place(bytes: &[u8], needle: u32) -> usize {
    bytes.windows(4).position(|window| window == needle.to_ne_bytes()).unwrap()
}

#[test]
fn fields_have_the_offsets_of_c() {
    macro_rules! places {
        ($ours:expr, $theirs:ident, $($field:ident = $mark:expr),+) => {
            for (width, places) in [
                (Width::W32, [$((stringify!($field), std::mem::offset_of!(c::$theirs<u32>, $field), $mark)),+]),
                (Width::W64, [$((stringify!($field), std::mem::offset_of!(c::$theirs<u64>, $field), $mark)),+]),
            ] {
                // On the few targets where a u64 has the alignment of a u32, there are no 64-bit programs.
                if width == Width::W64 && align_of::<u64>() < 8 { continue }
                let bytes = $ours.to_bytes(width);
                for (field, offset, mark) in places {
                    // On a big-endian machine, the low half of a 64-bit pointer begins 4 bytes later.
                    let at = place(&bytes, mark);
                    let wide = cfg!(target_endian = "big") && width == Width::W64 && offset + 4 == at;
                    assert!(at == offset || wide, "{field} at {at}, not {offset}, {width:?}");
                }
            }
        };
    }
    let op = SessionOp {
        cipher: 0xA1,
        mac: 0xA2,
        key_len: 0xA3,
        key: 0xA4,
        mac_key_len: 0xA5,
        mac_key: 0xA6,
        session: 0xA7,
    };
    places!(
        op.clone(),
        SessionOp,
        cipher = 0xA1,
        mac = 0xA2,
        keylen = 0xA3,
        key = 0xA4,
        mackeylen = 0xA5,
        mackey = 0xA6,
        ses = 0xA7
    );
    let op = CryptOp { session: 0xA1, op: 0xA2, flags: 0, len: 0xA3, src: 0xA4, dst: 0xA5, mac: 0xA6, iv: 0xA7 };
    places!(op.clone(), CryptOp, ses = 0xA1, op = 0xA2, len = 0xA3, src = 0xA4, dst = 0xA5, mac = 0xA6, iv = 0xA7);
    let op = CryptAuthOp {
        session: 0xA1,
        op: 0xA2,
        flags: 0,
        len: 0xA3,
        auth_len: 0xA4,
        auth_src: 0xA5,
        src: 0xA6,
        dst: 0xA7,
        tag: 0xA8,
        tag_len: 0xA9,
        iv: 0xAA,
        iv_len: 0xAB,
    };
    places!(
        op.clone(),
        CryptAuthOp,
        ses = 0xA1,
        op = 0xA2,
        len = 0xA3,
        auth_len = 0xA4,
        auth_src = 0xA5,
        src = 0xA6,
        dst = 0xA7,
        tag = 0xA8,
        tag_len = 0xA9,
        iv = 0xAA,
        iv_len = 0xAB
    );
}

/// Returns a structure with a different value in each field.
fn info() -> SessionInfoOp {
    SessionInfoOp {
        session: 7,
        cipher_name: [1; 64],
        cipher_driver: [2; 64],
        hash_name: [3; 64],
        hash_driver: [4; 64],
        align_mask: 15,
        flags: 9,
    }
}

/// Without pointers, a structure has the same layout for both widths.
#[test]
fn structures_without_pointers_have_the_layout_of_c() {
    for width in [Width::W32, Width::W64] {
        let mut expected = [0; 268];
        let mut put = |at: usize, bytes: &[u8]| expected[at..at + bytes.len()].copy_from_slice(bytes);
        put(std::mem::offset_of!(c::SessionInfoOp, ses), &7_u32.to_ne_bytes());
        put(std::mem::offset_of!(c::SessionInfoOp, cipher_name), &[1; 64]);
        put(std::mem::offset_of!(c::SessionInfoOp, cipher_driver), &[2; 64]);
        put(std::mem::offset_of!(c::SessionInfoOp, hash_name), &[3; 64]);
        put(std::mem::offset_of!(c::SessionInfoOp, hash_driver), &[4; 64]);
        put(std::mem::offset_of!(c::SessionInfoOp, alignmask), &15_u16.to_ne_bytes());
        put(std::mem::offset_of!(c::SessionInfoOp, flags), &9_u32.to_ne_bytes());
        assert_eq!(size_of::<c::SessionInfoOp>(), expected.len());
        assert_eq!(info().to_bytes(width), expected);
        // The session that is written to comes first (`struct cphash_op`).
        let copy = CopyHashOp { to: 1, from: 2 }.to_bytes(width);
        assert_eq!(copy, [1_u32.to_ne_bytes(), 2_u32.to_ne_bytes()].concat());
    }
}

#[test]
fn structures_round_trip_and_short_input_is_refused() {
    let info = info();
    for width in [Width::W32, Width::W64] {
        let bytes = info.clone().to_bytes(width);
        assert_eq!(SessionInfoOp::from_bytes(&bytes, width), Some(info.clone()));
        assert_eq!(SessionInfoOp::from_bytes(&bytes[1..], width), None);
        let op = CryptOp { src: 0x1234_5678, iv: 0xFFFF_FFF0, flags: 0xFFFF, ..CryptOp::default() };
        assert_eq!(CryptOp::from_bytes(&op.clone().to_bytes(width), width), Some(op));
    }
}
